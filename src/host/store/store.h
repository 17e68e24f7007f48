/* The store of a study: what was asked, what was sampled, who works on what, what came out.
 *
 * One SQLite file, STUDY/study.db, and only supervisors (and the commands that read) open it.  It
 * is the truth: whatever a process holds in memory can be lost at any moment, and the same command
 * run again goes on from here.
 *
 *     study (1 row)      options as canonical JSON, their digest, the data set's digest, the seed
 *     work               baseline, candidates 0.., and the two final trainings: one row each
 *     epoch              accuracy by epoch of each work item
 *
 * Life of a work item:
 *
 *     queued --claim--> running --finish--> finished | pruned | ... (a final state, never left)
 *        ^                 |
 *        +---release-------+      stopped by the user, or its worker was killed
 *        +---lease over----+      its supervisor is gone
 *
 * A claim takes a lease: an owner, an end, and the attempt number `lease`, which grows with every
 * claim.  Whoever reports gives the attempt number back; when it no longer matches, somebody else
 * has the item and the report is dropped (`*held` = false).  So a supervisor that was suspended for
 * an hour does no harm when it wakes.  A lease also ends at once when its owner is a process of
 * this machine that no longer exists.
 *
 * Synchronisation: WAL with synchronous=FULL, so that a finished item survives a power cut once
 * kas_store_finish has returned; renewals and epochs are written with synchronous=NORMAL, because
 * losing them only costs a repetition.  On a network file system, where WAL does not work, the
 * store uses a rollback journal and holds an exclusive lock: one supervisor at a time.
 *
 * Errors: KAS_STORE with the file, the statement and SQLite's message.  Threads: one store, one
 * thread.  Other folders include this header. */
#ifndef KAS_STORE_STORE_H
#define KAS_STORE_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "host/core/status.h"
#include "host/recipe/epoch.h"

/* Raised whenever a table changes; files of versions before are read, and brought to the present
 * one when a study goes on (kas_store_revise). */
enum { KAS_STORE_SCHEMA = 2, KAS_CODE_TEXT = 32 };

typedef struct kas_store kas_store;

typedef enum kas_store_mode {
    KAS_STORE_READ,  /* must exist; nothing is written */
    KAS_STORE_WRITE, /* must exist */
    KAS_STORE_CREATE /* made when missing */
} kas_store_mode;

/* KAS_STORE and what to do next when the file is missing (READ, WRITE), is no SQLite file, is
 * damaged, belongs to another program, has a newer schema, or is locked by the supervisor of a
 * network file system. */
kas_status kas_store_open(const char *path, kas_store_mode mode, kas_store **out);
void kas_store_close(kas_store *store); /* NULL is allowed */
/* True on a network file system: rollback journal and exclusive lock. */
bool kas_store_is_exclusive(const kas_store *store);
/* True for the magic number of a file system (statfs) on which WAL must not be used. */
bool kas_store_network_magic(unsigned long magic);

/* ---- the study ------------------------------------------------------------------------------- */
typedef struct kas_study {
    char *options;           /* canonical JSON; owned, see kas_study_clear */
    char options_digest[65]; /* SHA-256 of `options` */
    char dataset_digest[65];
    char dataset_path[4096]; /* absolute; may move, the digest may not change */
    int sampler_version;
    char code_version[KAS_CODE_TEXT]; /* see study/code_version.h; "" = not recorded: schema 1 */
    uint64_t seed;
    double created;      /* Unix time */
    double busy_seconds; /* wall time that supervisors have spent on it */
    char device[128];    /* name of the device it first ran on; "" = none yet */
} kas_study;
void kas_study_clear(kas_study *study);

/* Writes the study's one row unless it has one. *created says which; compare the two otherwise. */
kas_status kas_store_begin_study(kas_store *store, const kas_study *study, bool *created);
/* KAS_STORE when the file holds no study. kas_study_clear frees. */
kas_status kas_store_get_study(kas_store *store, kas_study *out);
kas_status kas_store_add_busy(kas_store *store, double seconds);
kas_status kas_store_set_device(kas_store *store, const char *device); /* only if none is set */
kas_status kas_store_set_dataset_path(kas_store *store, const char *path);

/* What a command makes of a study that is there. */
typedef struct kas_study_change {
    char *options; /* canonical JSON, malloc'ed, freed by the store; NULL: as they are */
    /* It is to have more candidates: its final training, if it finished, becomes an earlier one,
     * which kas_store_add_final brings back when the same candidate wins again. */
    bool grows;
    char code_version[KAS_CODE_TEXT]; /* "" = as it is */
} kas_study_change;
/* Decides from the study as it is; *out is zero before. A failure changes nothing. */
typedef kas_status kas_study_revision(void *context, const kas_study *present,
                                      kas_study_change *out);
/* Reads the study, asks `revise` and writes what it says, in one transaction: of several commands
 * at once each decides from what those before it have made.  A file of an earlier schema becomes
 * one of the present schema in the same transaction: what is refused, or killed on the way, is left
 * to the program that made it. Nothing else may be done with the store inside. Returns the failure
 * of `revise`. */
kas_status kas_store_revise(kas_store *store, kas_study_revision *revise, void *context);

/* ---- work items ------------------------------------------------------------------------------ */
typedef enum kas_work_kind {
    KAS_WORK_BASELINE,  /* the unmodified network */
    KAS_WORK_CANDIDATE, /* candidate `index` */
    KAS_WORK_FINAL,     /* the best candidate on the whole training set; `index` is its number */
    KAS_WORK_FINAL_BASELINE, /* the unmodified network likewise */
    KAS_WORK_EARLIER_FINAL   /* FINAL of a study that got more candidates since */
} kas_work_kind;

typedef enum kas_work_state {
    KAS_WORK_QUEUED,
    KAS_WORK_RUNNING,
    KAS_WORK_FINISHED,
    KAS_WORK_PRUNED,        /* its curve was too far below the best one */
    KAS_WORK_OVER_LATENCY,  /* measured slower than the budget allows; not trained */
    KAS_WORK_SCREENED,      /* output at initialisation not finite, or its scale unusable */
    KAS_WORK_DIVERGED,      /* parameters, running statistics, logits or loss not finite */
    KAS_WORK_OUT_OF_MEMORY, /* an allocation failed */
    KAS_WORK_CRASHED,       /* the worker died of its own signal */
    KAS_WORK_HUNG,          /* no progress within the limit */
    KAS_WORK_DEVICE_LOST,   /* sticky device error */
    KAS_WORK_FAILED,        /* anything else; see reason */
    KAS_WORK_MACHINE_FAULT, /* the machine failed it again and again: the next run tries it anew */
    KAS_WORK_STATES
} kas_work_state;
/* Words for files and people: "final-baseline", "over-latency". Kept in studies: never change. */
const char *kas_work_kind_name(kas_work_kind kind);
const char *kas_work_state_name(kas_work_state state);
bool kas_work_state_parse(const char *name, kas_work_state *out);
static inline bool kas_work_ended(kas_work_state state)
{
    return state >= KAS_WORK_FINISHED;
}

/* What was measured. NaN = unknown (NULL in the file). */
typedef struct kas_measured {
    double accuracy;             /* top-1 of the last epoch, 0..1: validation, or test (finals) */
    double latency, latency_iqr; /* seconds of a forward pass */
    double step_seconds;         /* of a training step */
    double compile_seconds;      /* of the JIT */
    double memory;               /* bytes of device memory */
    double output_std_min, output_std_max; /* over targets, at initialisation */
} kas_measured;
kas_measured kas_measured_unknown(void);

typedef struct kas_work {
    int64_t id;
    kas_work_kind kind;
    int64_t index;        /* k: number of the candidate; 0 for both baselines */
    int64_t attempt;      /* the sampler's; -1 without a kernel */
    char name[17];        /* of the kernel; "" without one */
    char *kernel;         /* canonical JSON, NULL without one; owned, see kas_work_clear */
    double flops, params; /* of the kernel at all targets */
    double conv_flops, conv_params; /* of what it replaces */
    kas_work_state state;
    char reason[512];               /* of the state, for people */
    int lease;                      /* attempt number: claims so far */
    int deaths;                     /* how often the machine failed it: see kas_store_release */
    int epochs;                     /* recorded */
    double created, started, ended; /* Unix time; NaN = not yet */
    kas_measured measured;
} kas_work;
void kas_work_clear(kas_work *work);

/* Adds an item in state queued; *added is false when (kind, index) exists already. Of `work`, kind,
 * index, attempt, name, kernel and costs are read. */
kas_status kas_store_add(kas_store *store, const kas_work *work, bool *added);

/* Adds the FINAL item of candidate `work`->index, or brings back an earlier one. */
kas_status kas_store_add_final(kas_store *store, const kas_work *work);

/* Claims the item of `kind` with the smallest index below `index_limit` (< 0: no limit) that is
 * queued or whose lease is over. *found is false when there is none. kas_work_clear frees *out. */
kas_status kas_store_claim(kas_store *store, kas_work_kind kind, int64_t index_limit,
                           const char *owner, double lease_seconds, kas_work *out, bool *found);
/* The same for one item; *found is false when it has ended or somebody else has it. */
kas_status kas_store_claim_item(kas_store *store, int64_t id, const char *owner,
                                double lease_seconds, kas_work *out, bool *found);
/* Each of these changes nothing and sets *held = false when attempt number `lease` of item `id` is
 * no longer the running one. */
kas_status kas_store_renew(kas_store *store, int64_t id, int lease, double lease_seconds,
                           bool *held);
kas_status kas_store_record_epoch(kas_store *store, int64_t id, int lease, const kas_epoch *epoch,
                                  bool *held);
/* Known fields replace; NaN leaves what is there. */
kas_status kas_store_record_measured(kas_store *store, int64_t id, int lease,
                                     const kas_measured *measured, bool *held);
/* `state` must be a final one. Committed with full synchronisation when this returns. */
kas_status kas_store_finish(kas_store *store, int64_t id, int lease, kas_work_state state,
                            const char *reason, const kas_measured *measured, bool *held);
/* Back to the queue; `failed` counts a fault of the machine: its worker was killed from outside,
 * lost its device, or had no memory, disk or compiler. */
kas_status kas_store_release(kas_store *store, int64_t id, int lease, bool failed, bool *held);
/* An ended item goes back to the queue, faults forgotten: for a baseline that failed, and for a
 * candidate that the machine could not evaluate; a final training then becomes an earlier one, as
 * when a study grows. */
kas_status kas_store_requeue(kas_store *store, const kas_work *work);

/* All items in the order (kind, index); kas_work_list_free frees. */
kas_status kas_store_list(kas_store *store, kas_work **out, int *count);
void kas_work_list_free(kas_work *work, int count);
/* Epochs of an item, in order; freed with free(). */
kas_status kas_store_epochs(kas_store *store, int64_t id, kas_epoch **out, int *count);

#endif

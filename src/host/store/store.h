/* The store of a study: its options, its work items with their leases, and their results.
 *
 * The store is one SQLite file, STUDY/study.db, or a part of a PostgreSQL database, for which other
 * machines can work too. Only supervisors, and the commands that read a study, open it. The store
 * is authoritative: everything that a process holds in memory can be lost at any moment, and
 * running the same command again continues from the store.
 *
 *     study (1 row)      options as canonical JSON, their digest, the data set's digest, the seed
 *     work               baseline, candidates 0.., and the final trainings: one row each
 *     epoch              accuracy by epoch of each work item
 *     changes            counts changes and deletions of items, for who reads what has changed
 *     answer             what a program answered when it was asked for proposals, by generation
 *
 * Life of a work item:
 *
 *     queued --claim--> running --finish--> finished | pruned | ... (a final state, never left)
 *        ^                 |
 *        +---release-------+      stopped by the user, or its worker was killed
 *        +---lease over----+      its supervisor is gone
 *        |               pause
 *        |                 v
 *        +--settle------ waiting --settle--> not-promoted
 *
 * A candidate is paused at a rung until the others of its generation have reached it too.
 *
 * A claim takes a lease: an owner, an end, and the attempt number `lease`, which grows with every
 * claim. Every report carries the attempt number. When it no longer matches, another supervisor has
 * the item and the report is dropped (`*held` = false), so a supervisor that was suspended for an
 * hour does no harm when it wakes. A lease also ends at once when its owner is a process of this
 * machine that no longer exists.
 *
 * Synchronisation: a commit to a file is in the write-ahead log, which is flushed before
 * kas_store_finish returns, so that a finished item survives a power cut (docs/store.md). Renewals,
 * epochs and claims of candidates are not flushed, because losing them only costs a repetition. On a
 * network file system, where such a log does not work, the store uses a rollback journal and holds
 * an exclusive lock: one supervisor at a time.
 *
 * A PostgreSQL server commits everything with full durability. When the connection is lost, the
 * store connects again for a minute (KAS_STORE_PATIENCE: seconds) and repeats what it was doing;
 * nothing is done twice, except that processor time may be added twice. After that it gives up.
 *
 * Errors: KAS_STORE with the file, the statement and the database's message.  Threads: use a store
 * in one thread.  Other folders include this header. */
#ifndef KAS_STORE_STORE_H
#define KAS_STORE_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "host/core/clock.h"
#include "host/core/status.h"
#include "host/recipe/epoch.h"

/* The schema number is raised whenever a table changes. Studies of earlier schemas can be read. They
 * were made by other code, with which alone they go on. The first studies on servers were of
 * KAS_STORE_SERVER_SCHEMA. */
enum { KAS_STORE_SCHEMA = 9, KAS_STORE_SERVER_SCHEMA = 4, KAS_CODE_TEXT = 32 };

typedef struct kas_store kas_store;

typedef enum kas_store_mode {
    KAS_STORE_READ,  /* must exist; is not written */
    KAS_STORE_WRITE, /* must exist */
    KAS_STORE_CREATE /* created when missing */
} kas_store_mode;

/* Opens a store. Fails with KAS_STORE, and says what to do next, when the file is missing (READ,
 * WRITE), is no SQLite file, is damaged, belongs to another program, has a newer schema, or is
 * locked by a supervisor on a network file system. The caller closes *out with kas_store_close. */
kas_status kas_store_open(const char *path, kas_store_mode mode, kas_store **out);

/* A study in a PostgreSQL database, which may have many. */
enum { KAS_STORE_NAME = 59, KAS_STORE_URL = 1024 };
typedef struct kas_store_place {
    char url[KAS_STORE_URL];        /* postgresql://USER:PASSWORD@HOST:PORT/DATABASE */
    char study[KAS_STORE_NAME + 5]; /* the study's name; "" = the only one (not with CREATE) */
    char id[33];                    /* of its folder: a study of this name with another folder is
                                       another study; "" = is not compared */
    char folder[4096];              /* absolute path, where the study began */
} kas_store_place;
/* Fails with KAS_STORE where a text is no URL of a database; nothing is asked there. */
kas_status kas_store_check_url(const char *url);
/* Opens a study there. Fails with KAS_STORE, and says what to do next, when there is no connection,
 * no such study (READ, WRITE), another one of that name, or one of another schema. */
kas_status kas_store_open_server(const kas_store_place *place, kas_store_mode mode,
                                 kas_store **out);
/* Returns what the server has of the study: its name, id and folder. NULL for a file. */
const kas_store_place *kas_store_get_place(const kas_store *store);
void kas_store_close(kas_store *store); /* NULL is allowed */

/* Lets a process that waits for work sleep until there is some. The descriptor can be read when the
 * store may have changed; -1 for a file. kas_store_changed returns whether it may have changed
 * since the last call: that another process or this one has changed it, or that some time has
 * passed (five seconds, of a file one), because a lease ends silently. */
int kas_store_descriptor(const kas_store *store);
bool kas_store_changed(kas_store *store);
/* Says whether this process has found nothing to do. A server tells only those of a change who wait,
 * or propose (kas_store_lead). What has come just before is not missed: kas_store_changed returns
 * true once when the process begins to wait. */
kas_status kas_store_wait(kas_store *store, bool waits);
/* Says that the process is to end soon: from now on a server that does not answer, or a connection
 * that is lost, is given up after some seconds. */
void kas_store_hurry(kas_store *store);
/* Returns true on a network file system, where the store has a rollback journal and an
 * exclusive lock. */
bool kas_store_is_exclusive(const kas_store *store);
/* Returns true for the magic number (statfs) of a file system on which WAL must not be used. */
bool kas_store_network_magic(unsigned long magic);

/* ---- supervisors of one study ---------------------------------------------------------------- */
/* What a supervisor does with items. A candidate's latency can be measured on one kind of machine
 * and its accuracy on another: it is measured first, and then trained. */
typedef enum kas_work_role {
    KAS_TAKES_ALL,
    KAS_TAKES_TRAINING, /* takes the baseline and candidates whose latency is known, and final
                        trainings */
    KAS_TAKES_MEASURING /* takes those whose latency is not known, and finalists in turns */
} kas_work_role;
extern const char *const kas_work_role_names[]; /* "all", "train", "measure", NULL */
/* Restricts what later claims take. */
void kas_store_set_role(kas_store *store, kas_work_role role);

/* Of the supervisors of a study on a server one proposes candidates: the one that has the study's
 * advisory lock, which it loses with its connection. Tries to take it; *leads says whether this
 * process has it. Of a file every supervisor has it: all of them draw the same candidates. */
kas_status kas_store_lead(kas_store *store, bool *leads);
/* Tells the supervisor that proposes that this one has nothing to do. */
kas_status kas_store_want(kas_store *store);
/* Notes on a server that the search has ended, or begins again: a supervisor that proposes nothing
 * cannot know. Of a file neither is noted, and *ended is false. */
kas_status kas_store_set_ended(kas_store *store, bool ended);
kas_status kas_store_ended(kas_store *store, bool *ended);

/* A device on which a supervisor evaluates items. Only a server records them. */
typedef struct kas_member {
    char owner[256]; /* the supervisor (owner.h): its first part is the host's name */
    char device[128];
    char role[16];
    double seen; /* seconds ago, when it last said that it is there */
} kas_member;
/* Records that the supervisor is there with this device. */
kas_status kas_store_join(kas_store *store, const char *owner, const char *device,
                          kas_work_role role);
/* Lists the devices of all supervisors there were; the caller frees the list with free(). */
kas_status kas_store_members(kas_store *store, kas_member **out, int *count);

/* ---- the study ------------------------------------------------------------------------------- */
typedef struct kas_study {
    char *options;           /* canonical JSON; owned, see kas_study_clear */
    char options_digest[65]; /* SHA-256 of `options` */
    char dataset_digest[65];
    char dataset_path[4096]; /* absolute; the file may move but its digest must not change */
    int sampler_version;
    char code_version[KAS_CODE_TEXT]; /* see study/code_version.h; "" = not recorded, as in
                                         schema 1 */
    uint64_t seed;
    double created;      /* Unix time */
    double busy_seconds; /* wall time that supervisors have spent on it, its ancestors included */
    double drawing_seconds; /* device time (leaderboard/spent.h) for which candidates were drawn
                               and scored, ancestors included */
    char device[128];       /* name of the device it first ran on; "" = none yet */
} kas_study;
void kas_study_clear(kas_study *study);

/* Writes the study's one row if there is none. *created says whether it did; otherwise the caller
 * compares the two. */
kas_status kas_store_begin_study(kas_store *store, const kas_study *study, bool *created);
/* Says whether the study has begun: a process that ended early leaves a store without the row. */
kas_status kas_store_has_study(kas_store *store, bool *out);
/* Reads the study. Fails with KAS_STORE when the file holds none. The caller frees *out
 * with kas_study_clear. */
kas_status kas_store_get_study(kas_store *store, kas_study *out);
/* Adds to the times of the study. */
kas_status kas_store_add_busy(kas_store *store, double seconds, double drawing);
kas_status kas_store_set_device(kas_store *store, const char *device); /* only if none is set */
kas_status kas_store_set_dataset_path(kas_store *store, const char *path);

/* The changes that a command makes to an existing study. */
typedef struct kas_study_change {
    char *options; /* canonical JSON, malloc'ed; the store frees it; NULL: no change */
    /* The study gets more candidates. A finished final training becomes an earlier one, which
     * kas_store_add_final restores when the same candidate wins again. */
    bool grows;
} kas_study_change;
/* Decides on the changes from the study in its present state; *out is zero beforehand. After a
 * failure nothing is changed. */
typedef kas_status kas_study_revision(void *context, const kas_study *present,
                                      kas_study_change *out);
/* Reads the study, calls `revise` and writes the changes, in one transaction, so that each of
 * several simultaneous commands sees the changes of those before it. `revise` must not use the store.
 * Returns the failure of `revise`; KAS_STORE for a study of an earlier schema. */
kas_status kas_store_revise(kas_store *store, kas_study_revision *revise, void *context);
/* Returns KAS_STORE for a study of an earlier schema, which can only be read. */
kas_status kas_store_check_schema(kas_store *store);

/* ---- work items ------------------------------------------------------------------------------ */
typedef enum kas_work_kind {
    KAS_WORK_BASELINE,  /* the unmodified network */
    KAS_WORK_CANDIDATE, /* candidate `index` */
    KAS_WORK_FINAL,     /* the best candidate, trained on the whole training set; `index` is its
                           number */
    KAS_WORK_FINAL_BASELINE, /* the unmodified network, trained likewise */
    KAS_WORK_EARLIER_FINAL,  /* a FINAL from before the study got more candidates */
    KAS_WORK_TURNS           /* candidate `index`, a finalist, timed in turns with the unmodified
                                network; done before there are FINALs */
} kas_work_kind;

typedef enum kas_work_state {
    KAS_WORK_QUEUED,
    KAS_WORK_RUNNING,
    KAS_WORK_WAITING, /* at a rung, for the others of its generation */
    KAS_WORK_FINISHED,
    KAS_WORK_PRUNED,         /* its curve was too far below the best one */
    KAS_WORK_OVER_LATENCY,   /* slower than the budget allows; not trained */
    KAS_WORK_SCREENED,       /* output constant or not finite at first, or imitated too little */
    KAS_WORK_DIVERGED,       /* parameters, running statistics, logits or loss not finite */
    KAS_WORK_OUT_OF_MEMORY,  /* an allocation failed */
    KAS_WORK_CRASHED,        /* the worker died by a signal of its own */
    KAS_WORK_HUNG,           /* no progress within the limit */
    KAS_WORK_DEVICE_LOST,    /* sticky device error */
    KAS_WORK_FAILED,         /* anything else; see reason */
    KAS_WORK_MACHINE_FAULT,  /* the machine failed repeatedly; the next run tries it again */
    KAS_WORK_PREDICTED_SLOW, /* discarded by prediction before anything was compiled */
    KAS_WORK_NOT_PROMOTED,   /* ended at a rung: others of its generation were better */
    KAS_WORK_LOW_SCORE,      /* discarded by a score before anything was compiled (--legality) */
    KAS_WORK_PREFILTERED,    /* another proposal has a better score (--prefilter) */
    KAS_WORK_STATES
} kas_work_state;
/* Names for files and people: "final-baseline", "over-latency". Studies contain them, so they
 * never change. */
const char *kas_work_kind_name(kas_work_kind kind);
/* Returns whether items of this kind are final trainings that may run. */
static inline bool kas_work_is_final(kas_work_kind kind)
{
    return kind == KAS_WORK_FINAL || kind == KAS_WORK_FINAL_BASELINE;
}
const char *kas_work_state_name(kas_work_state state);
bool kas_work_state_parse(const char *name, kas_work_state *out);
static inline bool kas_work_ended(kas_work_state state)
{
    return state >= KAS_WORK_FINISHED;
}

/* Returns whether the candidate was discarded before anything was compiled: no worker gets it. */
static inline bool kas_work_discarded(kas_work_state state)
{
    return state == KAS_WORK_PREDICTED_SLOW || state == KAS_WORK_LOW_SCORE ||
           state == KAS_WORK_PREFILTERED;
}

/* The measurements of an item. NaN = unknown (NULL in the file). */
typedef struct kas_measured {
    double accuracy;             /* top-1 of the last epoch, 0..1, on validation or (finals) test
                                    images */
    double latency, latency_iqr; /* seconds of a forward pass */
    double step_seconds;         /* of a training step */
    double compile_seconds;      /* of the JIT */
    double memory;               /* bytes of device memory */
    double output_std_min, output_std_max; /* over targets, at initialisation, without gains */
    double ratio, ratio_low, ratio_high; /* the latency in that of the unmodified network, timed in
                                              turns with it: median and quartiles */
    double missed; /* mean share of the convolutions' variance that its kernels miss after
                      imitating them (train/imitate.h) */
} kas_measured;
kas_measured kas_measured_unknown(void);

typedef struct kas_work {
    int64_t id;
    kas_work_kind kind;
    int64_t index;    /* k: number of the candidate; 0 for both baselines */
    int64_t seed;     /* of a final training; 0 for all others. Part of the key with kind and
                             index */
    int64_t attempt;  /* attempt of the sampler or of evolution; -1 without one */
    char name[17];    /* of the kernel; "" without one */
    char *kernel;     /* canonical JSON, NULL without one; owned, see kas_work_clear */
    int generation;   /* of the candidate; 0 where there are none */
    char origin[64];  /* how it came: "sampled", "known:group_conv", "from:NAME", "change", ...
                             (docs/search.md); "" = unknown */
    char parents[64]; /* names of the parents' kernels, with commas between; "" = none */
    int rung;         /* index of the rung that it has reached; 0 without rungs */
    double predicted; /* seconds of a forward pass, predicted before compiling; NaN = unknown.
                             kas_store_add takes 0 for unknown too */
    char *gains;      /* the calibrated gains as the kernel file has them; NULL = none; owned */
    bool answers;     /* of a final training: its kernel was named as the answer to the
                             objective before the test set was opened */
    char *correct;    /* which images were classified correctly (score/correct.h): of the
                             validation split, or of the test set; NULL = unknown; owned */
    char *exchange;   /* how the ranks of its training exchange (kas_model_exchange); of one that
                             went on in another way "A; then B"; NULL = one rank, or unknown; owned */
    double flops, params;           /* of the kernel at all targets */
    double conv_flops, conv_params; /* of the convolutions that it replaces */
    kas_work_state state;
    char reason[512];      /* reason for the state, for people */
    int lease;             /* attempt number: how often it was claimed */
    int deaths;            /* faults of the machine: see kas_store_release */
    int epochs;            /* recorded */
    double started, ended; /* Unix time; NaN = not yet */
    double processor; /* seconds of processor time of its workers and their compilers, all leases
                         together; NaN = unknown */
    double leased;    /* seconds that its workers had it, all leases together, without those that
                         died; NaN = unknown */
    kas_measured measured;
} kas_work;
void kas_work_clear(kas_work *work);

/* Adds an item in state QUEUED, or in the state of one that was discarded, with its reason, when
 * `work` says so; *added is false when one with this kind, index and seed exists already. Only
 * kind, index, seed, attempt, name, kernel, generation, origin, parents, predicted, gains and costs
 * of `work` are read. */
kas_status kas_store_add(kas_store *store, const kas_work *work, bool *added);

/* Adds the final trainings in one transaction: items of kind FINAL, with `answers`, and of kind
 * FINAL_BASELINE. *added is false, and nothing is, when the study's options have another digest: it
 * was given more candidates. What exists already stays: an earlier final training of the same candidate and
 * seed becomes a FINAL again, and is only repeated where its weights are due in best/ (it answers,
 * seed 0) and another answer's have taken their place. */
kas_status kas_store_add_finals(kas_store *store, const char *options_digest, const kas_work *list,
                                int count, bool *added);

/* Claims, of the items that this store's role allows, that of `kind` with the smallest index below
 * `index_limit` (< 0: no limit), and among those the smallest seed, that is queued or whose lease
 * has ended. *found is false when there is none. The caller frees *out with kas_work_clear. */
kas_status kas_store_claim(kas_store *store, kas_work_kind kind, int64_t index_limit,
                           const char *owner, double lease_seconds, kas_work *out, bool *found);
/* Claims a given item; *found is false when it has ended or another supervisor has it. */
kas_status kas_store_claim_item(kas_store *store, int64_t id, const char *owner,
                                double lease_seconds, kas_work *out, bool *found);
/* Each of the following functions changes nothing and sets *held = false when attempt `lease` of
 * item `id` is no longer the running one. */
kas_status kas_store_renew(kas_store *store, int64_t id, int lease, double lease_seconds,
                           bool *held);
kas_status kas_store_record_epoch(kas_store *store, int64_t id, int lease, const kas_epoch *epoch,
                                  bool *held);
/* Replaces the stored measurements by those that are not NaN. */
kas_status kas_store_record_measured(kas_store *store, int64_t id, int lease,
                                     const kas_measured *measured, bool *held);
/* Stores the gains that a worker has calibrated. */
kas_status kas_store_record_gains(kas_store *store, int64_t id, int lease, const char *gains,
                                  bool *held);
/* Stores how the ranks of the item's training exchange. */
kas_status kas_store_record_exchange(kas_store *store, int64_t id, int lease, const char *exchange,
                                     bool *held);
/* Adds to the times of the item what a worker took for it; NaN: unknown. */
kas_status kas_store_add_elapsed(kas_store *store, int64_t id, int lease, kas_elapsed effort,
                                 bool *held);
/* Stores which images were classified correctly. */
kas_status kas_store_record_correct(kas_store *store, int64_t id, int lease, const char *correct,
                                    bool *held);
/* Pauses the item at its rung: it waits there for kas_store_settle. */
kas_status kas_store_pause(kas_store *store, int64_t id, int lease, const kas_measured *measured,
                           bool *held);
/* Ends the item; `state` must be a final one. The change is on the disk when this returns. */
kas_status kas_store_finish(kas_store *store, int64_t id, int lease, kas_work_state state,
                            const char *reason, const kas_measured *measured, bool *held);
/* Returns the item to the queue. `failed` counts a fault of the machine: its worker was killed from
 * outside, lost its device, or had no memory, disk or compiler. */
kas_status kas_store_release(kas_store *store, int64_t id, int lease, bool failed, bool *held);
/* Sets to zero the counts of faults of all items that have not ended and that nobody holds. The
 * supervisor that proposes calls it when its run begins: faults of many short runs then do not add
 * up. What other supervisors have at this moment keeps its count; what waits in the queue between
 * two of their tries loses it, and each run that begins may so give an item its tries anew. */
kas_status kas_store_clear_faults(kas_store *store);
/* What becomes of an item that waits at a rung. */
typedef struct kas_settled {
    int64_t id;
    int rung;           /* at which it waits */
    bool promoted;      /* it goes on to the next rung; otherwise it ends as not-promoted */
    const char *reason; /* of the end */
} kas_settled;
/* Ends a rung in one transaction. Items that no longer wait at that rung, because another
 * supervisor has settled it, are left alone. */
kas_status kas_store_settle(kas_store *store, const kas_settled *list, int count);
/* Returns an ended item to the queue and clears its count of faults: a baseline that failed, or a
 * candidate that the machine could not evaluate. A final training then becomes an earlier one, as
 * when a study gets more candidates. */
kas_status kas_store_requeue(kas_store *store, const kas_work *work);

/* Lists all items in the order (kind, index, seed); the caller frees the list with
 * kas_work_list_free. */
kas_status kas_store_list(kas_store *store, kas_work **out, int *count);
void kas_work_list_free(kas_work *work, int count);

/* Up to where a list of items was read. */
typedef struct kas_store_mark {
    int64_t number, removed;
    int connection; /* 0 = nothing was read */
} kas_store_mark;
/* Brings a list up to date: reads what has changed since `mark`, which is zero for the first time,
 * when *out is NULL. Then the list is what kas_store_list gives, except that the epochs of an item
 * that is running may not be counted: recording an epoch is no change, nor is renewing a lease. The
 * study must have the present schema. After a failure the list may have some of the changes, and
 * the next call reads all of them. Nothing may point into the list. */
kas_status kas_store_refresh(kas_store *store, kas_store_mark *mark, kas_work **out, int *count);

/* Finds the mean time from the beginning of an item to the end of its first epoch, or to its own end
 * where it has none, of those that ended well and were begun once; 0 when there are none. */
kas_status kas_store_mean_start(kas_store *store, double *seconds);

/* The accuracy of a candidate after an epoch. */
typedef struct kas_reached {
    int64_t id;
    double accuracy; /* on the validation split */
} kas_reached;
/* Lists the candidates that have an epoch, by their ids; the caller frees the list with free(). */
kas_status kas_store_reached(kas_store *store, int epoch, kas_reached **out, int *count);

/* Lists the epochs of an item, in order; the caller frees the list with free(). */
kas_status kas_store_epochs(kas_store *store, int64_t id, kas_epoch **out, int *count);
/* The same of the epoch behind the imitation at the first rung, which is recorded as number
 * KAS_EPOCH_OF_IMITATION: none of the study's training, and so not among kas_work.epochs. */
enum { KAS_EPOCH_OF_IMITATION = -1 };
kas_status kas_store_imitation(kas_store *store, int64_t id, kas_epoch **out, int *count);

/* ---- proposals of a program ------------------------------------------------------------------ */
/* What a program answered for a generation (strategy/strategy.h). */
typedef struct kas_answer {
    char *text;  /* lines, as they came; NULL = there is no answer */
    char *fault; /* what went wrong with the program, for people; "" = nothing */
} kas_answer;
void kas_answer_clear(kas_answer *answer); /* frees both texts */

/* Records an answer, before anything of it is used. Nothing is recorded where the generation has an
 * answer already, or where the study has a candidate of number `first` or larger: another
 * supervisor has then gone on without this answer. */
kas_status kas_store_record_answer(kas_store *store, int generation, int64_t first,
                                   const kas_answer *answer);
/* Finds the answer of a generation. The caller frees it with kas_answer_clear. */
kas_status kas_store_find_answer(kas_store *store, int generation, kas_answer *out);
kas_status kas_store_has_answers(kas_store *store, bool *has);

/* ---- moving ---------------------------------------------------------------------------------- */
/* How a study moves: `open` opens the store that it moves into, and `change` makes that the
 * study's, when it has everything. Both are called again when a connection is lost. */
typedef struct kas_store_mover {
    kas_status (*open)(void *context, kas_store **out);
    kas_status (*change)(void *context);
    void *context;
} kas_store_mover;
/* Moves a study. Nobody can work on it meanwhile, or in the old store afterwards. Fails with
 * KAS_STORE when another process has the file open, or on a server a supervisor proposes or has an
 * item. */
kas_status kas_store_move(kas_store *from, const kas_store_mover *mover);

#endif

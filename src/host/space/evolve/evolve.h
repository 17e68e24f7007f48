/* Children of kernels, for strategies that search from what they have found.
 *
 * A child is a kernel with one change: an attribute, a primitive replaced, inserted or deleted, all
 * that lies behind a node grown again, or a part taken from a second parent.  It is made by the
 * steps of the guided sampler (canvas/growth.h), so the rules for samples hold for children: the
 * options, shapes and matching (6.2), Theorem 1, the pruning rules, integer sizes at every target,
 * and the budget (6.3).  docs/sampling.md, "Children", says what each change draws.
 *
 * An attempt is a pure function of the key, the parents, the options (with their seed) and the
 * targets.  Other folders include this header. */
#ifndef KAS_SPACE_EVOLVE_EVOLVE_H
#define KAS_SPACE_EVOLVE_EVOLVE_H

#include "host/space/attempt.h"
#include "host/space/canvas/sample_options.h"
#include "host/space/solve/replacement.h"

/* What was done to a parent. */
typedef enum kas_change {
    KAS_CHANGE_ATTRIBUTE, /* "change": one attribute, the group number or a split */
    KAS_CHANGE_REPLACE,   /* "replace": a primitive by another with as many operands */
    KAS_CHANGE_INSERT,    /* "insert": a primitive on an edge */
    KAS_CHANGE_DELETE,    /* "delete": a primitive; its readers read its operand */
    KAS_CHANGE_REGROW,    /* "regrow": all behind a node, by the guided sampler */
    KAS_CHANGE_GRAFT,     /* "graft": a part of the second parent with the same symbolic shape */
    KAS_CHANGE_COUNT
} kas_change;
/* Returns the word that a study stores: "change", "replace", ... */
const char *kas_change_name(kas_change change);

/* Raised when a change of the code alters what an attempt gives; part of the random key. */
enum { KAS_CHILDREN_VERSION = 2 };

/* Memory that one attempt leaves to the next. For one thread at a time. */
typedef struct kas_children kas_children;

/* Copies options and targets. KAS_USAGE for options that nothing can meet, and for
 * `--space nas-pte`, whose kernels have no children. */
kas_status kas_children_create(const kas_sample_options *options, const kas_target *targets,
                               int count, kas_children **out);
void kas_children_free(kas_children *children);

/* Makes one attempt at a child of kernel `a`, which must be inferred (kas_kernel_infer), and with
 * grafts of kernel `b`, unless that is NULL. The parents need not obey the options or the pruning
 * rules, and need not fit the budget; a kernel of `kernels/` is as good as a sample.
 *
 * KAS_OK with how->why = NONE: `out` is the child, canonical, with its sizes at the targets of the
 * context, which must outlive it; the caller frees it. It equals neither parent. Whether it came
 * before in a study is for the caller to ask (kas_canonical_name). KAS_OK with another reason: the
 * attempt was rejected, and `out` is untouched. `what` is the change either way. Errors are errors
 * of the machine. */
kas_status kas_child_attempt(kas_children *children, const kas_kernel *a, const kas_kernel *b,
                             uint64_t key, kas_replacement *out, kas_attempt *how,
                             kas_change *what);

/* Builds a kernel that nobody drew by the same steps, without a change, to find out whether it
 * obeys what samples obey. It must be inferred. *why = NONE: `out` is this kernel, canonical, as
 * kas_child_attempt gives a child; the caller frees it. Otherwise *why is the rule that it breaks
 * first, DEAD_END where no kernel of these options has its primitives, attributes or sizes, and
 * `out` is untouched. Errors are errors of the machine. */
kas_status kas_children_admit(kas_children *children, const kas_kernel *kernel,
                              kas_replacement *out, kas_reject *why);

/* Draws two of `count` parents for an attempt, any as likely as any other; they can be the same. */
void kas_child_parents(uint64_t seed, uint64_t key, int count, int *a, int *b);

#endif

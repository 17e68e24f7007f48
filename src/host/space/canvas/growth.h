/* One micro-DAG while it grows (paper 6.1): the steps that a sampler takes,
 * whoever chooses them.
 *
 * A step applies one candidate operation. kas_growth_try checks it against the topology heuristics,
 * gives a value to a variable that must match (6.2), infers the shape and asks the pruning rules.
 * An operation that fails leaves no trace, and the last one that succeeded can be undone. The
 * guided sampler and the replay of a given kernel differ only in which operations they try.
 * Internal to the samplers. */
#ifndef KAS_SPACE_CANVAS_GROWTH_H
#define KAS_SPACE_CANVAS_GROWTH_H

#include "host/core/random.h"
#include "host/space/attempt.h"
#include "host/space/canvas/candidate_ops.h"
#include "host/space/canvas/pairs.h"
#include "host/space/canvas/sample_options.h"
#include "host/space/split.h"

/* The changes of one step, kept so that they can be undone. */
typedef struct kas_growth_step {
    bool read[KAS_MAX_INPUTS]; /* whether each operand was read before */
    int vars, width;
    int saved;        /* how many nodes were saved before they changed */
    uint64_t changed; /* nodes that substitutions changed, as bits */
} kas_growth_step;

/* Derived facts of a node. */
typedef struct kas_growth_known {
    uint32_t number; /* number of its shape (pairs.h) */
    uint32_t holds;  /* bit v: some size that must be an integer holds variable v */
} kas_growth_known;

typedef struct kas_saved_node {
    int place;
    kas_node node;
    kas_growth_known known;
} kas_saved_node;

/* Why a candidate operation is refused. */
typedef enum kas_refusal {
    KAS_REFUSED_WIDTH,  /* too many leaves, or more than the primitives left can merge */
    KAS_REFUSED_VALUE,  /* no value of a free size is wanted, or the chosen one did not fit */
    KAS_REFUSED_SHAPE,  /* the shape rule forbids it, whatever value free sizes take */
    KAS_REFUSED_IMAGE,  /* its weight would span the image, and the options forbid that */
    KAS_REFUSED_PRUNED, /* a pruning rule */
    KAS_REFUSED_SIZE,   /* a size would be no integer at some target */
    KAS_REFUSED_OUTPUT  /* it is the last primitive and the result is not [C, H, W] */
} kas_refusal;

typedef struct kas_growth {
    const kas_sample_options *options;
    uint64_t ops; /* KAS_OP_BIT of every operation that the options allow */
    kas_kernel kernel;
    /* Number of this group number and these splits: with others sizes have other values */
    uint32_t context;
    int primitives;                      /* primitives that the kernel shall have */
    int vars;                            /* variables made so far */
    int width;                           /* leaves: nodes that nothing reads yet */
    bool read[KAS_MAX_NODES];            /* whether any node reads it */
    kas_growth_step step[KAS_MAX_NODES]; /* [i]: the step that appended node i */
    kas_binding *binding;                /* owned: the binding of each distinct template size */
    int bindings;
    int segments; /* segments of the kernel's split if concatenations may join them; else 0 */
    kas_dim segment[KAS_MAX_SHARES];
    kas_growth_known known[KAS_MAX_NODES];
    kas_pairs *pairs;      /* owned */
    kas_saved_node *saved; /* owned: a stack of the nodes before each substitution */
    int saved_nodes;
    kas_refusal refused; /* why the last refused operation was refused */
} kas_growth;

/* Allocates a growth for kernels of these targets; kas_growth_free releases it. On failure *out is
 * NULL: KAS_USAGE for options that nothing can meet, KAS_NO_MEMORY. */
kas_status kas_growth_create(const kas_sample_options *options, const kas_target *targets,
                             int count, kas_growth **out);
void kas_growth_free(kas_growth *growth);

/* Begins a kernel with the input alone; `primitives` will follow. `group` is the value of G0, 0 =
 * none; `split` are the kernel's splits, NULL = none. */
void kas_growth_begin(kas_growth *g, int primitives, uint32_t group,
                      const kas_split split[KAS_MAX_SPLITS]);

/* Sets the values of this kernel's group number and rests in a binding of C, H, W, K_H, K_W. */
void kas_growth_bind(const kas_growth *g, kas_binding *binding);

/* A callback that chooses one of `count` values for variable `var` of the LHS of `use`. Returns its
 * index, or -1 for none of them. */
typedef int kas_pick_value(void *context, const kas_candidate_op *use, int var,
                           const kas_value *const *value, int count);

/* Appends the candidate operation if every rule allows it. Otherwise returns false, sets g->refused
 * and leaves the growth as it was. */
bool kas_growth_try(kas_growth *g, const kas_candidate_op *use, kas_pick_value *pick,
                    void *context);

/* Gives the free size that the last node made a value that kas_growth_may_use and kas_growth_takes
 * allow. When it returns false, the caller undoes the step. */
bool kas_growth_fix(kas_growth *g, const kas_dim *value);

/* Removes the last node and reverts the substitutions of its step. */
void kas_growth_undo(kas_growth *g);

/* Returns whether the size, which holds no variable, is an integer at every target. */
bool kas_growth_is_integer(const kas_growth *g, const kas_dim *size);
/* Returns whether the size is an integer at every target, or holds one variable in the numerator,
 * which the solver may choose freely. A variable in a denominator would have to divide something;
 * the samplers never leave one. */
bool kas_growth_size_fits(const kas_growth *g, const kas_dim *size);

/* Returns whether the options allow the value for a variable: H and W only where weights may span
 * the image, G0 only where the kernel has a group number. */
bool kas_growth_may_use(const kas_growth *g, const kas_dim *value);

/* Returns whether, with this value, every size would still be an integer or hold another
 * variable. */
bool kas_growth_takes(const kas_growth *g, int var, const kas_dim *value);
/* The same when a second variable, which the first value may hold, then gets a value too. */
bool kas_growth_takes_both(const kas_growth *g, int var, const kas_dim *value, int second,
                           const kas_dim *second_value);

/* Returns whether all primitives still to come must be merges, so that each of them reads only
 * leaves, or none are to come. Always false with a split of more than two segments, because a
 * concatenation could then read inner nodes too. */
bool kas_growth_only_leaves_are_read(const kas_growth *g);
/* Returns the variables in the shapes of leaves, as bits. */
uint32_t kas_growth_leaf_vars(const kas_growth *g);

/* Finishes a kernel that has all its primitives: gives a variable in the output the value that
 * makes the output [C, H, W], and asks the pruning rules for whole kernels. After a refusal
 * kas_growth_undo takes back the last node and the substitution. */
kas_reject kas_growth_finish(kas_growth *g);

#endif

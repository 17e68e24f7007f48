/* One micro-DAG while it grows (paper 6.1): the steps that every sampler takes, whoever chooses
 * them.
 *
 * A step applies one use of a primitive.  kas_growth_try checks it against the topology heuristics,
 * gives a variable that must match (6.2) a value, infers the shape and asks the pruning rules; a
 * use that fails leaves no trace, and the last one that succeeded can be undone.  The rejection
 * sampler, the guided sampler and the replay of a given kernel differ only in what they try.
 * Internal to the samplers. */
#ifndef KAS_SPACE_CANVAS_GROWTH_H
#define KAS_SPACE_CANVAS_GROWTH_H

#include "host/core/random.h"
#include "host/space/attempt.h"
#include "host/space/canvas/candidate_ops.h"
#include "host/space/canvas/pairs.h"
#include "host/space/canvas/sample_options.h"
#include "host/space/split.h"

/* What a step changed, so that it can be undone. */
typedef struct kas_growth_step {
    bool read[KAS_MAX_INPUTS]; /* were the operands read before? */
    int vars, width;
    int saved;        /* nodes saved before they changed */
    uint64_t changed; /* nodes that substitutions changed */
} kas_growth_step;

/* What is known of a node besides. */
typedef struct kas_growth_known {
    uint32_t number; /* of its shape */
    uint32_t holds;  /* bit v: a size that must be an integer holds variable v */
} kas_growth_known;

typedef struct kas_saved_node {
    int place;
    kas_node node;
    kas_growth_known known;
} kas_saved_node;

/* Why a use is refused. */
typedef enum kas_refusal {
    KAS_REFUSED_WIDTH,  /* too many leaves, or more than the primitives left can merge */
    KAS_REFUSED_VALUE,  /* no value of a free size is wanted, or the one that was did not fit */
    KAS_REFUSED_SHAPE,  /* the shape rule, whatever value free sizes take */
    KAS_REFUSED_IMAGE,  /* its weight would span the image, which the options do not want */
    KAS_REFUSED_PRUNED, /* a pruning rule */
    KAS_REFUSED_SIZE,   /* a size would be no integer at some target */
    KAS_REFUSED_OUTPUT  /* the last primitive, and the result is not [C, H, W] */
} kas_refusal;
const char *kas_refusal_text(kas_refusal why);

typedef struct kas_growth {
    const kas_sample_options *options;
    uint64_t ops; /* KAS_OP_BIT of those that the options allow */
    kas_kernel kernel;
    uint32_t context; /* tells apart group numbers and splits: sizes are other numbers with them */
    int primitives;   /* how many there shall be */
    int vars;         /* how many variables were made */
    int width;        /* leaves: nodes that nothing reads yet */
    bool read[KAS_MAX_NODES];            /* does any node read it? */
    kas_growth_step step[KAS_MAX_NODES]; /* [i] appended node i */
    kas_binding *binding;                /* owned: of each distinct template size */
    int bindings;
    int segments; /* of the kernel's split, which concats could join; 0 = there is none */
    kas_dim segment[KAS_MAX_SHARES];
    kas_growth_known known[KAS_MAX_NODES];
    kas_pairs *pairs;      /* owned */
    kas_saved_node *saved; /* owned: a stack of the nodes before each substitution */
    int saved_nodes;
    kas_refusal refused; /* why the last use that was refused was */
} kas_growth;

/* Memory for kernels of these targets; kas_growth_free releases it, also after a failure. KAS_USAGE
 * for options that nothing can meet. */
kas_status kas_growth_create(const kas_sample_options *options, const kas_target *targets,
                             int count, kas_growth **out);
void kas_growth_free(kas_growth *growth);

/* Begins again with the input alone; `primitives` will follow. group: the value of G0; 0 = none.
 * split: the kernel's splits; NULL = none. */
void kas_growth_begin(kas_growth *g, int primitives, uint32_t group,
                      const kas_split split[KAS_MAX_SPLITS]);

/* The values that this kernel's group number and splits have in a binding of C, H, W, K_H, K_W. */
void kas_growth_bind(const kas_growth *g, kas_binding *binding);

/* Chooses one of `count` values for variable `var` of the use's LHS, or -1 for none of them. */
typedef int kas_pick_value(void *context, const kas_candidate_op *use, int var,
                           const kas_value *const *value, int count);

/* Appends the use if every rule allows it. A use that is refused leaves the growth as it was. */
bool kas_growth_try(kas_growth *g, const kas_candidate_op *use, kas_pick_value *pick,
                    void *context);

/* Takes the last node away, with what it substituted. */
void kas_growth_undo(kas_growth *g);

/* Could node i be the output?  *value is what its variable must be for it to be [C, H, W]; *var is
 * -1 when it is already. */
bool kas_growth_output_value(const kas_growth *g, int i, int *var, kas_dim *value);

/* Is the size an integer at every target?  It holds no variable. */
bool kas_growth_is_integer(const kas_growth *g, const kas_dim *size);
/* Likewise, or is its variable one that the solver may choose freely?  One below the line would
 * have to divide something: the samplers never leave one. */
bool kas_growth_size_fits(const kas_growth *g, const kas_dim *size);

/* May a variable have that value?  With H or W in it, weights span the image; G0 must be there. */
bool kas_growth_may_use(const kas_growth *g, const kas_dim *value);

/* Would every size still be an integer, or made one by another variable, with this value? */
bool kas_growth_takes(const kas_growth *g, int var, const kas_dim *value);
/* Likewise when a second variable, which the first value may hold, then gets a value too. */
bool kas_growth_takes_both(const kas_growth *g, int var, const kas_dim *value, int second,
                           const kas_dim *second_value);

/* Are all primitives still to come merges, so that each reads leaves alone?  A concat of more than
 * two segments could take nodes beside them. Also true when none are to come. */
bool kas_growth_only_leaves_are_read(const kas_growth *g);
/* Bits of the variables in the shapes of leaves. */
uint32_t kas_growth_leaf_vars(const kas_growth *g);

/* All primitives are there: a variable in the output takes the value that makes it [C, H, W], and
 * the pruning rules for whole kernels are asked.  After a refusal kas_growth_undo takes the last
 * node and the substitution back. */
kas_reject kas_growth_finish(kas_growth *g);

#endif

/* The random sampler (paper 6.1).
 *
 * An attempt is a pure function of (seed, attempt number, options, targets): whoever runs it gets
 * the same kernel or the same rejection.  Candidate k of a study is the k-th distinct legal attempt
 * in attempt order, so workers only need the attempt number.
 *
 * Within an attempt the micro-DAG grows from [C, H, W] by one primitive a step.  First a primitive
 * type is drawn uniformly from those that have any legal use, then one of its uses (paper: "uniform
 * w.r.t. each primitive type"); the number of leaves is kept small enough that the primitives left
 * can merge them (topology heuristics); redundant constructions are never offered (pruning).
 */
#ifndef KAS_SPACE_SAMPLER_H
#define KAS_SPACE_SAMPLER_H

#include "host/core/random.h"
#include "host/space/canonical.h"
#include "host/space/solve.h"

enum { KAS_SAMPLER_VERSION = 1 }; /* part of the key; raised when a change alters what is sampled */

/* Where kernels come from: grown from primitives (grow.h), or the convolution changed by
 * transformations (nas_pte.h), for which numbers of primitives and widths are not asked. */
typedef enum kas_space { KAS_SPACE_CANVAS, KAS_SPACE_NAS_PTE, KAS_SPACE_COUNT } kas_space;
const char *kas_space_name(kas_space space); /* "canvas", "nas-pte" */
/* The space of a name; -1 when there is none. */
int kas_space_find(const char *name);

typedef struct kas_sample_options {
    kas_space space;
    uint64_t seed;
    int min_primitives, max_primitives; /* input not counted; default 3..12 */
    int max_width;                      /* leaves at once; default 3 */
    bool spatial_weights; /* sizes may hold H and W: such kernels keep to one image size */
    kas_budget budget;
} kas_sample_options;
kas_sample_options kas_sample_defaults(void);

/* Why an attempt gave no kernel; counted by `sample --stats`. */
typedef enum kas_reject {
    KAS_REJECT_NONE,
    KAS_REJECT_DEAD_END,  /* no legal primitive left */
    KAS_REJECT_OUTPUT,    /* output is not [C, H, W] */
    KAS_REJECT_REDUNDANT, /* a pruning rule */
    KAS_REJECT_VARIABLES, /* no integer sizes at some target */
    KAS_REJECT_BUDGET,
    KAS_REJECT_SIZE, /* tensor or weight limits */
    KAS_REJECT_DUPLICATE,
    KAS_REJECT_NO_WEIGHT, /* nothing to learn */
    KAS_REJECT_ONE_PIXEL, /* would replace a K > 1 convolution and never looks at a neighbour */
    KAS_REJECT_COUNT
} kas_reject;
const char *kas_reject_name(kas_reject why);

/* One attempt. KAS_USAGE for impossible options. KAS_OK with *why = NONE: `kernel` is canonical and
 * `solution` solved (the caller frees it); KAS_OK with another *why: rejected, outputs untouched.
 * Errors are errors of the machine. */
kas_status kas_sample_attempt(const kas_sample_options *options, const kas_target *targets,
                              int count, uint64_t attempt, kas_kernel *kernel,
                              kas_solution *solution, kas_reject *why);

/* A sampler that remembers the names it has given, so that every kernel comes once. */
typedef struct kas_sampler kas_sampler;
kas_status kas_sampler_create(const kas_sample_options *options, const kas_target *targets,
                              int count, kas_sampler **out);
void kas_sampler_free(kas_sampler *sampler);

typedef struct kas_sample {
    uint64_t attempt; /* number of the attempt that gave it */
    uint64_t index;   /* k: how many distinct legal kernels came before */
    char name[KAS_NAME_SIZE];
    kas_kernel kernel;
    kas_solution solution; /* the caller frees it with kas_solution_free */
} kas_sample;

/* The next distinct legal kernel. KAS_NOTHING_VALID after `max_attempts` attempts without one
 * (0 = 1,000,000). */
kas_status kas_sampler_next(kas_sampler *sampler, uint64_t max_attempts, kas_sample *out);

typedef struct kas_sample_stats {
    uint64_t attempts, accepted, rejected[KAS_REJECT_COUNT];
} kas_sample_stats;
kas_sample_stats kas_sampler_stats(const kas_sampler *sampler);

#endif

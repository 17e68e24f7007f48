/* The random samplers of kernels (paper 6.1).
 *
 * An attempt is a pure function of (seed, attempt number, options, targets): whoever runs it gets
 * the same kernel or the same rejection.  Candidate k of a study is the k-th distinct legal attempt
 * in attempt order, so workers only need the attempt number.
 *
 * Within an attempt the micro-DAG grows from [C, H, W] by one primitive a step.  First a primitive
 * type is drawn uniformly from those that have any use, then one of its uses (paper: "uniform
 * w.r.t. each primitive type"); the number of leaves is kept small enough that the primitives left
 * can merge them (topology heuristics); redundant constructions are never offered (pruning).
 *
 * The guided sampler offers only uses after which the kernel can still be completed (guide.h),
 * takes back what proves a dead end, and tries until the number of primitives that it drew has
 * given a kernel.  The rejection sampler is the paper's: whatever goes wrong ends the attempt.
 * docs/sampling.md compares what they give.  Other folders include this header. */
#ifndef KAS_SPACE_SAMPLE_SAMPLER_H
#define KAS_SPACE_SAMPLE_SAMPLER_H

#include "host/core/random.h"
#include "host/space/attempt.h"
#include "host/space/canonical.h"
#include "host/space/canvas/sample_options.h"
#include "host/space/file/assignment.h"
#include "host/space/solve/solve.h"

/* Of the sampler that the options ask for. */
int kas_sampler_version(const kas_sample_options *options);

/* One attempt at one kernel for all layers (options.per_layer is not asked). KAS_USAGE for
 * impossible options. KAS_OK with how->why = NONE: `kernel` is canonical and `solution` solved (the
 * caller frees it); KAS_OK with another reason: rejected, `kernel` and `solution` untouched. Errors
 * are errors of the machine. */
kas_status kas_sample_attempt(const kas_sample_options *options, const kas_target *targets,
                              int count, uint64_t attempt, kas_kernel *kernel,
                              kas_solution *solution, kas_attempt *how);

/* A sampler that remembers the names it has given, so that every kernel comes once. */
typedef struct kas_sampler kas_sampler;
kas_status kas_sampler_create(const kas_sample_options *options, const kas_target *targets,
                              int count, kas_sampler **out);
void kas_sampler_free(kas_sampler *sampler);

typedef struct kas_sample {
    uint64_t attempt; /* number of the attempt that gave it */
    uint64_t index;   /* k: how many distinct legal kernels came before */
    char name[KAS_NAME_SIZE];
    kas_kernel kernel;     /* for all layers; unless: */
    kas_assignment layers; /* of a sampler per layer; else layers.layers is 0 */
    int *kernel_of;        /* [targets] into layers.kernel */
    kas_solution solution;
} kas_sample;
void kas_sample_free(kas_sample *sample);

/* It at the targets that were sampled for; points into the sample. */
kas_replacement kas_sample_replacement(const kas_sample *sample, const kas_target *targets);
/* As a kernel file, or a file of layers. */
kas_status kas_sample_write_json(const kas_sample *sample, kas_buf *out);

/* The next distinct legal kernel, or kernels for the layers; kas_sample_free frees it.
 * KAS_NOTHING_VALID after the attempt that brings the tries without one to `max_attempts` (0 =
 * 1,000,000). */
kas_status kas_sampler_next(kas_sampler *sampler, uint64_t max_attempts, kas_sample *out);

/* accepted and all rejected together are `tries`: the guided sampler makes several in an attempt
 * that fails at first. */
typedef struct kas_sample_stats {
    uint64_t attempts, tries, accepted, rejected[KAS_REJECT_COUNT];
    uint64_t remembering; /* bytes that the names given so far take: 16 to 32 for each beyond 256 */
} kas_sample_stats;
kas_sample_stats kas_sampler_stats(const kas_sampler *sampler);

#endif

/* The random samplers of kernels (paper 6.1).
 *
 * An attempt is a pure function of (seed, attempt number, options, targets): it gives the same
 * kernel or the same rejection wherever it runs.  Candidate k of a study is the k-th distinct legal
 * attempt in the order of attempts.
 *
 * Within an attempt the micro-DAG grows from [C, H, W] by one primitive a step.  The sampler first
 * draws a type of primitive, uniformly from the types that have a candidate operation, and then one
 * of its candidate operations (paper: "uniform w.r.t. each primitive type").  It keeps the number
 * of leaves so small that the remaining primitives can merge them (topology heuristics), and it
 * never offers a redundant construction (pruning).
 *
 * The guided sampler offers only operations after which the kernel can still be completed
 * (guide.h), takes back an operation that proves to be a dead end, and tries again until the number
 * of primitives that it drew has given a kernel.  Other folders include this header. */
#ifndef KAS_SPACE_SAMPLE_SAMPLER_H
#define KAS_SPACE_SAMPLE_SAMPLER_H

#include "host/core/random.h"
#include "host/space/attempt.h"
#include "host/space/canonical.h"
#include "host/space/canvas/sample_options.h"
#include "host/space/solve/replacement.h"

/* The version of the sampler that the options ask for. */
int kas_sampler_version(const kas_sample_options *options);

/* Makes one attempt at one kernel for all layers (options.per_layer is not read). KAS_USAGE for
 * impossible options. KAS_OK with how->why = NONE: `out` is the kernel, canonical, with its sizes;
 * the caller frees it. KAS_OK with another reason: the attempt was rejected, and `out` is
 * untouched. Errors are errors of the machine. */
kas_status kas_sample_attempt(const kas_sample_options *options, const kas_target *targets,
                              int count, uint64_t attempt, kas_replacement *out, kas_attempt *how);

/* A sampler that remembers the names it has given, so that every kernel comes once. */
typedef struct kas_sampler kas_sampler;
kas_status kas_sampler_create(const kas_sample_options *options, const kas_target *targets,
                              int count, kas_sampler **out);
void kas_sampler_free(kas_sampler *sampler);

/* From now on attempt n makes a child of two of these kernels (evolve/evolve.h), which are copied.
 * Neither they nor their equals are given. Call it before the first kernel. KAS_USAGE for options
 * without children. */
kas_status kas_sampler_set_parents(kas_sampler *sampler, const kas_kernel *parents, int count);

typedef struct kas_sample {
    uint64_t attempt; /* number of the attempt that gave it */
    uint64_t index;   /* k: how many distinct legal samples came before */
    char name[KAS_NAME_SIZE];
    const char *change;          /* of a child: what was done (kas_change_name); else NULL */
    kas_replacement replacement; /* at the sampler's copy of its targets */
} kas_sample;
void kas_sample_free(kas_sample *sample);

/* Writes a kernel file, or a file of layers. */
kas_status kas_sample_write_json(const kas_sample *sample, kas_buf *out);
/* The same of a replacement, as a text that the caller frees with free(). */
kas_status kas_sample_text(const kas_replacement *replacement, char **out);

/* Gives the next distinct legal kernel, or kernels for the layers; kas_sample_free frees it. It
 * reads the sampler's targets, so the sampler must outlive it. KAS_NOTHING_VALID after the attempt
 * that brings the tries without one to `max_attempts`
 * (0 = 1,000,000). */
kas_status kas_sampler_next(kas_sampler *sampler, uint64_t max_attempts, kas_sample *out);

/* `accepted` and all of `rejected` add up to `tries`: the guided sampler makes several tries in an
 * attempt that fails at first. */
typedef struct kas_sample_stats {
    uint64_t attempts, tries, accepted, rejected[KAS_REJECT_COUNT];
} kas_sample_stats;
kas_sample_stats kas_sampler_stats(const kas_sampler *sampler);

#endif

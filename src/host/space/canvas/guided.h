/* The guided sampler: growth that looks ahead. Internal to the samplers.
 *
 * Each step draws a type of primitive uniformly from those that have a use after which the kernel
 * can still be completed (guide.h), then one of these uses uniformly, by drawing and drawing again
 * without what proved useless.  The bounds do not see everything: where no use is left, or several
 * types had none, the kernel is begun again from the input. */
#ifndef KAS_SPACE_CANVAS_GUIDED_H
#define KAS_SPACE_CANVAS_GUIDED_H

#include "host/space/canvas/guide.h"
#include "host/space/canvas/pair_ops.h"

typedef struct kas_guided {
    kas_growth *growth; /* the caller's */
    kas_guide guide;
    kas_rng rng;
    kas_candidate_op *use; /* owned: the uses of one type */
    kas_operands *pair;    /* owned: the pairs that could be operands */
    uint32_t number[64];   /* admissible values of G0 */
    int numbers;
    kas_split split[32]; /* ways of cutting C, H or W that give whole numbers at every target */
    int splits;
    int primitives;      /* of this attempt's kernel */
    kas_reject too_dear; /* why the last use that cost too much did; else DEAD_END */
} kas_guided;

/* kas_guided_free frees, also after a failure. */
kas_status kas_guided_create(const kas_sample_options *options, const kas_target *targets,
                             int count, kas_growth *growth, kas_guided *out);
void kas_guided_free(kas_guided *guided);

/* Begins an attempt: draws the number of primitives. */
void kas_guided_begin(kas_guided *guided, uint64_t attempt);

/* One try at a kernel of that many primitives: complete, [C, H, W] at its end, pruned, variables
 * unsolved, not canonical, in the growth. May be called again for another. */
kas_reject kas_guided_try(kas_guided *guided);

/* After a try that failed: no primitive at all could be the first one, so no try will succeed. */
bool kas_guided_is_hopeless(const kas_guided *guided);

#endif

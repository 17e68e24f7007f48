/* The guided sampler: growth that looks ahead. Internal to the samplers.
 *
 * Each step draws a type of primitive uniformly from the types with a candidate operation after
 * which the kernel can still be completed (guide.h), then one of these operations uniformly, by
 * drawing, and drawing again without what proved useless. The bounds do not see everything:
 * when a step finds no operation, or several types in a row had none, the kernel begins again
 * from the input. */
#ifndef KAS_SPACE_CANVAS_GUIDED_H
#define KAS_SPACE_CANVAS_GUIDED_H

#include "host/space/canvas/guide.h"
#include "host/space/canvas/pair_ops.h"

typedef struct kas_guided {
    kas_growth *growth; /* borrowed */
    kas_guide guide;
    kas_rng rng;
    kas_candidate_op *use; /* owned: the candidate operations of one type */
    kas_operands *pair;    /* owned: the pairs of nodes that could be operands */
    uint32_t number[64];   /* the admissible values of G0 */
    int numbers;
    kas_split split[32]; /* ways of cutting C, H or W that give whole numbers at every target */
    int splits;
    int primitives; /* primitives of this attempt's kernel */
    /* Why the last candidate that cost too much did; else KAS_REJECT_DEAD_END */
    kas_reject too_dear;
} kas_guided;

/* Prepares a sampler. Call kas_guided_free also after a failure. */
kas_status kas_guided_create(const kas_sample_options *options, const kas_target *targets,
                             int count, kas_growth *growth, kas_guided *out);
void kas_guided_free(kas_guided *guided);

/* Draws a number of [0, n); 0 without a draw where n is 0 or less. */
static inline int kas_guided_below(kas_guided *guided, int n)
{
    return n > 0 ? (int)kas_rng_below(&guided->rng, (uint32_t)n) : 0;
}

/* Begins an attempt: draws the number of primitives. */
void kas_guided_begin(kas_guided *guided, uint64_t attempt);

/* Makes one try at a kernel with that number of primitives. On success the growth holds the kernel:
 * complete, with output [C, H, W], pruned; its variables are not solved and it is not canonical.
 * May be called again for another try. */
kas_reject kas_guided_try(kas_guided *guided);

/* Begins a kernel of so many primitives with the input alone. Draws the group number if `group` is
 * 0, and the way of cutting (index into `split`) if `split` is below 0. */
void kas_guided_begin_kernel(kas_guided *guided, int primitives, uint32_t group, int split);

/* Completes a kernel that was begun with some primitives and admitted by the guide: draws the other
 * primitives, and goes back to these after a dead end. The rest is as in kas_guided_try. */
kas_reject kas_guided_complete(kas_guided *guided);

/* Lists the values, as indices, that the shapes and all sizes with the variable allow. Returns
 * their number. */
int kas_guided_values(const kas_guided *guided, const kas_candidate_op *use, int var,
                      const kas_value *const *value, int count, int allowed[KAS_MAX_SUBSTITUTIONS]);
/* Draws one of these values, or returns -1
 * (kas_pick_value; `context` is the kas_guided). */
int kas_guided_draw_value(void *context, const kas_candidate_op *use, int var,
                          const kas_value *const *value, int count);

/* Returns, after a try that failed, whether no primitive at all could be the first one, so that no
 * try will succeed. */
bool kas_guided_is_hopeless(const kas_guided *guided);

#endif

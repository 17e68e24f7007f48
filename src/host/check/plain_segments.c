/* slice and concat: segments of a dim. */
#include "host/check/plain_step.h"

/* How a split cuts its whole: the size of each segment. */
static kas_status segments(const kas_plain_step *s, uint64_t *whole, uint64_t size[KAS_MAX_INPUTS],
                           int *count)
{
    const kas_split *split =
        s->node->split < KAS_MAX_SPLITS ? &s->kernel->split[s->node->split] : NULL;
    if (!split || !kas_plain_size(s->layer, &split->whole, whole))
        return kas_plain_illegal(s, "split %d has no whole", s->node->split);
    if (split->first) {
        *count = 2;
        size[0] = split->first;
        size[1] = s->layer->value[KAS_SYM_R0 + s->node->split];
        if (size[1] == 0 || size[0] + size[1] != *whole)
            return kas_plain_illegal(s, "%llu and %llu are not %llu", (unsigned long long)size[0],
                                     (unsigned long long)size[1], (unsigned long long)*whole);
        return KAS_OK;
    }
    if (split->part) {
        *count = 2;
        size[0] = *whole / split->part;
        size[1] = *whole - size[0];
        return size[0] * split->part == *whole && size[1]
                   ? KAS_OK
                   : kas_plain_illegal(s, "1/%u of %llu", split->part, (unsigned long long)*whole);
    }
    *count = split->shares;
    if (*count < 2 || *count > 4 || *whole % (uint64_t)*count != 0)
        return kas_plain_illegal(s, "%llu in %d shares", (unsigned long long)*whole, *count);
    for (int k = 0; k < *count; k++)
        size[k] = *whole / (uint64_t)*count;
    return KAS_OK;
}

/* one segment of a dim */
kas_status kas_plain_slice(kas_plain_step *s)
{
    uint64_t whole, size[KAS_MAX_INPUTS];
    int count;
    KAS_TRY(segments(s, &whole, size, &count));
    *s->y = *s->a;
    uint64_t *dim = kas_plain_dim(s->y, s->node->dim);
    if (!dim || *dim != whole || s->node->segment >= count)
        return kas_plain_illegal(s, "segment %d of dim %d, %llu cut in %d", s->node->segment,
                                 s->node->dim, (unsigned long long)whole, count);
    *dim = size[s->node->segment];
    return KAS_OK;
}

static bool equal_but_for(const kas_plain_tensor *a, const kas_plain_tensor *b, int dim)
{
    kas_plain_tensor x = *a, y = *b;
    if (kas_plain_rank(a) != kas_plain_rank(b) || a->channels != b->channels || !a->h != !b->h)
        return false;
    for (int d = 0; d < kas_plain_rank(a); d++)
        if (d != dim && *kas_plain_dim(&x, d) != *kas_plain_dim(&y, d))
            return false;
    return true;
}

/* all segments, in order */
kas_status kas_plain_concat(kas_plain_step *s)
{
    uint64_t whole, size[KAS_MAX_INPUTS];
    int count;
    KAS_TRY(segments(s, &whole, size, &count));
    if (count != s->node->inputs)
        return kas_plain_illegal(s, "%d operands for %d segments", s->node->inputs, count);
    *s->y = *s->a;
    for (int k = 0; k < count; k++) {
        kas_plain_tensor operand = *s->in[k];
        const uint64_t *dim = kas_plain_dim(&operand, s->node->dim);
        if (!dim || *dim != size[k] || !equal_but_for(s->a, &operand, s->node->dim))
            return kas_plain_illegal(s, "operand %d is not segment %d of dim %d", k, k,
                                     s->node->dim);
        for (int d = 0; d < operand.channels; d++)
            s->y->marked[d] = s->y->marked[d] && operand.marked[d];
    }
    *kas_plain_dim(s->y, s->node->dim) = whole;
    return KAS_OK;
}

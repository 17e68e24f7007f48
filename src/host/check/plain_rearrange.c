/* What moves values and makes none: no FLOPs, no parameters. */
#include "host/check/plain_step.h"

/* Makes room for a channel dim in front of position `at`. */
static kas_status insert(kas_plain_step *s, int at, uint64_t size, bool marked)
{
    kas_plain_tensor *y = s->y;
    if (y->channels == 8)
        return kas_plain_illegal(s, "a ninth channel dim");
    for (int d = y->channels++; d > at; d--) {
        y->channel[d] = y->channel[d - 1];
        y->marked[d] = y->marked[d - 1];
    }
    y->channel[at] = size;
    y->marked[at] = marked;
    return KAS_OK;
}

kas_status kas_plain_input(kas_plain_step *s)
{
    *s->y = (kas_plain_tensor){.channels = 1,
                               .channel = {s->layer->value[KAS_SYM_C]},
                               .h = s->layer->value[KAS_SYM_H],
                               .w = s->layer->value[KAS_SYM_W]};
    return KAS_OK;
}

/* How many groups the node's symbol makes of its channel dim; they must divide it. */
static kas_status groups_of(const kas_plain_step *s, uint64_t *groups)
{
    const int d = s->node->dim;
    if (d < 0 || d >= s->a->channels || s->node->symbol >= KAS_MAX_GROUPS)
        return kas_plain_illegal(s, "dim %d by G%d", d, s->node->symbol);
    *groups = s->layer->value[KAS_SYM_G0 + s->node->symbol];
    if (*groups < 2 || s->a->channel[d] % *groups != 0)
        return kas_plain_illegal(s, "%llu groups of a dim of %llu", (unsigned long long)*groups,
                                 (unsigned long long)s->a->channel[d]);
    return KAS_OK;
}

/* X -> G, X/G */
kas_status kas_plain_group(kas_plain_step *s)
{
    uint64_t groups;
    KAS_TRY(groups_of(s, &groups));
    *s->y = *s->a;
    s->y->channel[s->node->dim] /= groups;
    return insert(s, s->node->dim, groups, true);
}

/* [G, X/G] of a dim transposed */
kas_status kas_plain_shuffle(kas_plain_step *s)
{
    uint64_t groups;
    *s->y = *s->a;
    return groups_of(s, &groups);
}

/* X -> X, 1 */
kas_status kas_plain_group_all(kas_plain_step *s)
{
    const int d = s->node->dim;
    *s->y = *s->a;
    if (d < 0 || d >= s->a->channels || s->a->marked[d])
        return kas_plain_illegal(s, "group_all of dim %d", d);
    s->y->marked[d] = true;
    return insert(s, d + 1, 1, false);
}

static bool has_axes(const kas_plain_tensor *t, int axes)
{
    return axes >= 1 && axes <= 3 && (!(axes & 1) || t->h) && (!(axes & 2) || t->w);
}

kas_status kas_plain_shift(kas_plain_step *s)
{
    const int o = s->node->offset;
    *s->y = *s->a;
    if (s->node->axes == 3 || !has_axes(s->a, s->node->axes) || o < -3 || o > 3 || o == 0)
        return kas_plain_illegal(s, "shift by %d along axes %d", o, s->node->axes);
    return KAS_OK;
}

/* Taps along H and W: 1 along an axis that the window does not have. */
kas_status kas_plain_window(const kas_plain_step *s, uint64_t taps[2])
{
    const kas_node *n = s->node;
    if (!has_axes(s->a, n->axes) || n->dilation > 3 ||
        (n->kernel != 0 && n->kernel != 3 && n->kernel != 5 && n->kernel != 7))
        return kas_plain_illegal(s, "a window along axes %d, of size %d, with dilation %d", n->axes,
                                 n->kernel, n->dilation);
    for (int axis = 0; axis < 2; axis++) {
        const uint64_t own = s->layer->value[axis == 0 ? KAS_SYM_KH : KAS_SYM_KW];
        taps[axis] = !(n->axes & (1 << axis)) ? 1 : n->kernel ? n->kernel : own;
    }
    return KAS_OK;
}

kas_status kas_plain_unfold(kas_plain_step *s)
{
    uint64_t taps[2];
    *s->y = *s->a;
    KAS_TRY(kas_plain_window(s, taps));
    for (int axis = 0; axis < 2; axis++)
        if (s->node->axes & (1 << axis))
            KAS_TRY(insert(s, s->y->channels, taps[axis], false));
    return KAS_OK;
}

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

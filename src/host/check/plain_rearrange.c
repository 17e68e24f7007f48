/* The primitives that move values and compute none: no FLOPs, no parameters. */
#include "host/check/plain_step.h"

/* Makes room for a channel dim in front of position `at`. */
static kas_status insert(kas_plain_step *s, int at, uint64_t size, bool marked)
{
    kas_plain_tensor *y = s->y;
    if (y->channels == 8)
        return kas_plain_illegal(s, "the result has more than 8 channel dims");
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

/* Computes the number of groups that the node's symbol makes of its channel dim; it must
 * divide the dim. */
static kas_status groups_of(const kas_plain_step *s, uint64_t *groups)
{
    const int d = s->node->dim;
    if (d < 0 || d >= s->a->channels || s->node->symbol >= KAS_MAX_GROUPS)
        return kas_plain_illegal(s, "dim %d cannot be grouped by G%d", d, s->node->symbol);
    *groups = s->layer->value[KAS_SYM_G0 + s->node->symbol];
    if (*groups < 2 || s->a->channel[d] % *groups != 0)
        return kas_plain_illegal(s, "%llu groups do not divide a dim of size %llu",
                                 (unsigned long long)*groups, (unsigned long long)s->a->channel[d]);
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

/* Transposes [G, X/G] of a dim. */
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
        return kas_plain_illegal(s, "group_all is not possible on dim %d", d);
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
        return kas_plain_illegal(s, "a shift by %d along axes %d is not possible", o,
                                 s->node->axes);
    return KAS_OK;
}

kas_status kas_plain_window(const kas_plain_step *s, uint64_t taps[2])
{
    const kas_node *n = s->node;
    if (!has_axes(s->a, n->axes) || n->dilation > 3 ||
        (n->kernel != 0 && n->kernel != 3 && n->kernel != 5 && n->kernel != 7))
        return kas_plain_illegal(
            s, "a window along axes %d of size %d with dilation %d is not possible", n->axes,
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

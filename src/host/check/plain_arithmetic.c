/* The primitives that compute: shapes, FLOPs and parameters. */
#include "host/check/plain_step.h"

/* Contracts channels to `out`, each output from `taps` pixels; the group dims stand apart when the
 * map is grouped. */
static kas_status contract(kas_plain_step *s, uint64_t taps)
{
    uint64_t apart = 1, contracted = taps, out;
    bool any = false;
    for (int d = 0; d < s->a->channels; d++) {
        if (s->node->grouped && s->a->marked[d])
            apart *= s->a->channel[d];
        else
            contracted *= s->a->channel[d];
        any |= s->a->marked[d];
    }
    if (s->node->grouped && !any)
        return kas_plain_illegal(s, "grouped, but the input has no group dim");
    KAS_TRY(kas_plain_size_of(s, &s->node->out, &out));
    if (out % apart != 0)
        return kas_plain_illegal(s, "%llu outputs cannot be shared by %llu groups",
                                 (unsigned long long)out, (unsigned long long)apart);
    *s->y = (kas_plain_tensor){.channels = 1, .channel = {out}, .h = s->a->h, .w = s->a->w};
    s->flops = kas_plain_elements(s->y) * (double)contracted;
    s->params = (double)out * (double)contracted;
    return KAS_OK;
}

kas_status kas_plain_fc(kas_plain_step *s)
{
    return contract(s, 1);
}

kas_status kas_plain_conv(kas_plain_step *s)
{
    uint64_t taps[2];
    KAS_TRY(kas_plain_window(s, taps));
    return contract(s, taps[0] * taps[1]);
}

/* Every channel is convolved by itself. */
kas_status kas_plain_conv_depthwise(kas_plain_step *s)
{
    uint64_t taps[2];
    KAS_TRY(kas_plain_window(s, taps));
    *s->y = *s->a;
    s->params = (double)(taps[0] * taps[1]);
    s->flops = kas_plain_elements(s->y) * s->params;
    for (int d = 0; d < s->a->channels; d++)
        s->params *= (double)s->a->channel[d];
    return KAS_OK;
}

static kas_status channel_range(const kas_plain_step *s)
{
    if (s->node->dim < 0 || s->node->dim >= s->node->dim_end || s->node->dim_end > s->a->channels)
        return kas_plain_illegal(s, "dims %d to %d are not among the %d channel dims", s->node->dim,
                                 s->node->dim_end - 1, s->a->channels);
    return KAS_OK;
}

/* Consecutive channel dims become one dim `out` in their place. */
kas_status kas_plain_mix(kas_plain_step *s)
{
    const int first = s->node->dim, end = s->node->dim_end;
    uint64_t contracted = 1, out;
    KAS_TRY(channel_range(s));
    KAS_TRY(kas_plain_size_of(s, &s->node->out, &out));
    *s->y = *s->a;
    for (int d = first; d < end; d++)
        contracted *= s->a->channel[d];
    s->y->channel[first] = out;
    s->y->marked[first] = false;
    s->y->channels -= end - first - 1;
    for (int d = first + 1; d < s->y->channels; d++) {
        s->y->channel[d] = s->a->channel[d + end - first - 1];
        s->y->marked[d] = s->a->marked[d + end - first - 1];
    }
    s->flops = kas_plain_elements(s->y) * (double)contracted;
    s->params = (double)out * (double)contracted;
    return KAS_OK;
}

kas_status kas_plain_elementwise(kas_plain_step *s)
{
    *s->y = *s->a;
    s->flops = kas_plain_elements(s->y);
    return KAS_OK;
}

/* Removes a dim of the list [channels..., H, W]. */
kas_status kas_plain_fold(kas_plain_step *s)
{
    const int d = s->node->dim;
    kas_plain_tensor *y = s->y;
    *y = *s->a;
    if (d < 0 || d >= kas_plain_rank(s->a))
        return kas_plain_illegal(s, "dim %d is not among the %d dims", d, kas_plain_rank(s->a));
    if (d >= y->channels) {
        if (d == y->channels && y->h)
            y->h = 0;
        else
            y->w = 0;
    } else {
        y->channels--;
        for (int k = d; k < y->channels; k++) {
            y->channel[k] = y->channel[k + 1];
            y->marked[k] = y->marked[k + 1];
        }
    }
    s->flops = kas_plain_elements(s->a);
    return KAS_OK;
}

/* over consecutive dims */
kas_status kas_plain_softmax(kas_plain_step *s)
{
    *s->y = *s->a;
    if (s->node->dim < 0 || s->node->dim >= s->node->dim_end ||
        s->node->dim_end > kas_plain_rank(s->a))
        return kas_plain_illegal(s, "dims %d to %d are not among the %d dims", s->node->dim,
                                 s->node->dim_end - 1, kas_plain_rank(s->a));
    s->flops = kas_plain_elements(s->y);
    return KAS_OK;
}

kas_status kas_plain_norm(kas_plain_step *s)
{
    return kas_plain_softmax(s);
}

/* A factor for each position of consecutive channel dims. */
kas_status kas_plain_scale(kas_plain_step *s)
{
    KAS_TRY(channel_range(s));
    *s->y = *s->a;
    s->params = 1;
    for (int d = s->node->dim; d < s->node->dim_end; d++)
        s->params *= (double)s->a->channel[d];
    s->flops = kas_plain_elements(s->y);
    return KAS_OK;
}

/* Mean or maximum over a window; the result is an image again. */
kas_status kas_plain_pool(kas_plain_step *s)
{
    uint64_t taps[2];
    KAS_TRY(kas_plain_window(s, taps));
    *s->y = *s->a;
    s->flops = (double)(taps[0] * taps[1]) * kas_plain_elements(s->y);
    return KAS_OK;
}

kas_status kas_plain_broadcast(kas_plain_step *s)
{
    const double lhs = kas_plain_elements(s->a), rhs = kas_plain_elements(s->b);
    *s->y = *s->b;
    if (lhs > rhs || (uint64_t)rhs % (uint64_t)lhs != 0)
        return kas_plain_illegal(s, "%.0f elements of LHS do not tile %.0f of RHS", lhs, rhs);
    s->flops = rhs;
    return KAS_OK;
}

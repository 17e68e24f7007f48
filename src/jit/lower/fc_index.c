/* Converts coordinates of a linear operator between its operand, the node that it reads, and its
 * two sides. */
#include <string.h>

#include "jit/lower/lower_fc.h"

/* Returns the product of the dims that are kept: the side tensors have that many pixels for one pixel of
 * the node's. */
static int64_t kept_pixels(const kas_lower *l, int node)
{
    const kas_lowered_fc *fc = &l->fc[node];
    int64_t kept = 1;
    for (int i = 0; i < fc->kepts; i++)
        kept *= l->size[fc->in][fc->kept[i]];
    return kept;
}

kas_fc_side kas_fc_input_side(const kas_lower *l, int node)
{
    const kas_lowered_fc *fc = &l->fc[node];
    const int in = fc->in;
    const kas_ir_tensor *t = &l->ir->tensor[l->tensor[in]];
    kas_fc_side s = {.q = KAS_DIM_Q, .p = KAS_DIM_P, .group = KAS_DIM_C, .rank = KAS_DIM_C};
    memcpy(s.size, t->size, sizeof *t->size * KAS_DIM_C);
    s.size[KAS_DIM_W] *= kept_pixels(l, node);
    s.size[KAS_DIM_Q] = fc->share ? 1 : l->target->parts_out;
    for (int i = 0; i < fc->groups; i++)
        s.size[s.rank++] = l->size[in][fc->group[i]];
    s.last = s.rank;
    for (int i = 0; i < fc->channels; i++)
        s.size[s.rank++] = l->size[in][fc->channel[i]];
    return s;
}

kas_fc_side kas_fc_output_side(const kas_lower *l, int node)
{
    const kas_lowered_fc *fc = &l->fc[node];
    const int in = fc->in;
    const kas_ir_tensor *t = &l->ir->tensor[l->tensor[in]];
    kas_fc_side s = {.rank = KAS_DIM_Q};
    memcpy(s.size, t->size, sizeof *t->size * KAS_DIM_Q);
    s.size[KAS_DIM_W] *= kept_pixels(l, node);
    if (!fc->share) {
        s.q = s.rank;
        s.size[s.rank++] = l->target->parts_out;
    }
    s.p = s.rank;
    s.size[s.rank++] = l->target->parts_in;
    s.group = s.rank;
    for (int i = 0; i < fc->groups; i++)
        s.size[s.rank++] = l->size[in][fc->group[i]];
    if (fc->share) {
        s.q = s.rank;
        s.size[s.rank++] = l->target->parts_out;
    }
    s.last = s.rank;
    s.size[s.rank++] = fc->sizes.fan_out;
    return s;
}

void kas_fc_put_digits(kas_lower *l, int node, const size_t *stride)
{
    const kas_lowered_fc *fc = &l->fc[node];
    kas_weight *w = &l->weight[fc->weight];
    bool contracted[KAS_FC_DIMS] = {false};
    for (int i = 0; i < fc->channels; i++)
        contracted[fc->channel[i]] = true;
    for (int i = 0; i < fc->taps; i++)
        contracted[fc->tap[i]] = true;
    w->digits = 0;
    for (int d = 0; d < fc->dims; d++)
        if (contracted[d]) {
            w->size[w->digits] = (uint32_t)l->size[fc->in][d];
            w->stride_in[w->digits++] = stride[d];
        }
}

static void kept_sizes(const kas_lower *l, int node, int64_t *size)
{
    const kas_lowered_fc *fc = &l->fc[node];
    for (int i = 0; i < fc->kepts; i++)
        size[i] = l->size[fc->in][fc->kept[i]];
}

void kas_fc_merged_pixel(kas_lower *l, int node, const kas_ix *idx, const kas_ix *digit, kas_ix *at)
{
    const kas_lowered_fc *fc = &l->fc[node];
    int64_t size[KAS_FC_DIMS + 1];
    kas_ix part[KAS_FC_DIMS + 1];
    memcpy(at, idx, sizeof *idx * KAS_DIM_Q);
    part[0] = idx[KAS_DIM_W];
    size[0] = l->ir->tensor[l->tensor[fc->in]].size[KAS_DIM_W];
    kept_sizes(l, node, size + 1);
    for (int i = 0; i < fc->kepts; i++)
        part[1 + i] = digit[fc->kept[i]];
    at[KAS_DIM_W] = kas_ix_flatten(l->ir, 1 + fc->kepts, size, part);
}

void kas_fc_pixel(kas_lower *l, int node, const kas_ix *at, kas_ix *idx, kas_ix *digit)
{
    const kas_lowered_fc *fc = &l->fc[node];
    int64_t size[KAS_FC_DIMS];
    kas_ix part[KAS_FC_DIMS];
    const int64_t kept = kept_pixels(l, node);
    kept_sizes(l, node, size);
    memcpy(idx, at, sizeof *idx * KAS_DIM_Q);
    idx[KAS_DIM_W] = kas_ix_div(l->ir, at[KAS_DIM_W], kept);
    kas_ix_unflatten(l->ir, kas_ix_mod(l->ir, at[KAS_DIM_W], kept), fc->kepts, size, part);
    for (int i = 0; i < fc->kepts; i++)
        digit[fc->kept[i]] = part[i];
}

/* Returns the place of a kept dim of the operand among the channel dims of a mix's result, in which
 * the contracted dims have become one. */
static int kept_place(const kas_lower *l, int node, int dim)
{
    const kas_node *n = &l->kernel->node[node];
    return dim < n->dim ? dim : dim - (n->dim_end - n->dim) + 1;
}

static bool is_mix(const kas_lower *l, int node)
{
    return l->kernel->node[node].op == KAS_OP_MIX;
}

void kas_fc_output_index(kas_lower *l, int node, const kas_ix *idx, kas_ix *at)
{
    const kas_lowered_fc *fc = &l->fc[node];
    const kas_fc_side s = kas_fc_output_side(l, node);
    const int channels = l->kernel->node[node].shape.channels;
    kas_ix digit[KAS_FC_DIMS] = {0};
    for (int i = 0; i < fc->kepts; i++)
        digit[fc->kept[i]] = idx[KAS_DIM_C + kept_place(l, node, fc->kept[i])];
    kas_fc_merged_pixel(l, node, idx, digit, at);
    at[s.q] = idx[KAS_DIM_Q];
    at[s.p] = idx[KAS_DIM_P];
    const kas_ix out = is_mix(l, node)
                           ? idx[KAS_DIM_C + l->kernel->node[node].dim]
                           : kas_ix_flatten(l->ir, channels, l->size[node], idx + KAS_DIM_C);
    kas_ix_unflatten(l->ir, kas_ix_div(l->ir, out, fc->sizes.fan_out), fc->groups, s.size + s.group,
                     at + s.group);
    at[s.last] = kas_ix_mod(l->ir, out, fc->sizes.fan_out);
}

void kas_fc_node_index(kas_lower *l, int node, const kas_ix *at, kas_ix *idx)
{
    const kas_lowered_fc *fc = &l->fc[node];
    const kas_fc_side s = kas_fc_output_side(l, node);
    const int channels = l->kernel->node[node].shape.channels;
    kas_ix digit[KAS_FC_DIMS] = {0};
    kas_fc_pixel(l, node, at, idx, digit);
    idx[KAS_DIM_Q] = at[s.q];
    idx[KAS_DIM_P] = at[s.p];
    const kas_ix group = kas_ix_flatten(l->ir, fc->groups, s.size + s.group, at + s.group);
    const kas_ix out = kas_ix_add(l->ir, kas_ix_scale(l->ir, group, fc->sizes.fan_out), at[s.last]);
    if (!is_mix(l, node)) {
        kas_ix_unflatten(l->ir, out, channels, l->size[node], idx + KAS_DIM_C);
        return;
    }
    idx[KAS_DIM_C + l->kernel->node[node].dim] = out;
    for (int i = 0; i < fc->kepts; i++)
        idx[KAS_DIM_C + kept_place(l, node, fc->kept[i])] = digit[fc->kept[i]];
}

/* Collects the dims of the operand that are not taps of the convolution, in the operand's order:
 * together they are the channels of the base node, flattened. */
static int plain_dims(const kas_lower *l, int node, int64_t *size, int *dim)
{
    const kas_lowered_fc *fc = &l->fc[node];
    int count = 0;
    for (int d = 0; d < fc->dims; d++) {
        bool tap = false;
        for (int i = 0; i < fc->taps; i++)
            tap = tap || fc->tap[i] == d;
        if (tap)
            continue;
        size[count] = l->size[fc->in][d];
        dim[count++] = d;
    }
    return count;
}

/* Convert between the dims of the input side and those of the operand. */
static void side_digits(const kas_lower *l, int node, kas_ix *at, kas_ix *digit, bool to_side)
{
    const kas_lowered_fc *fc = &l->fc[node];
    const kas_fc_side s = kas_fc_input_side(l, node);
    for (int i = 0; i < fc->groups + fc->channels; i++) {
        kas_ix *side = i < fc->groups ? &at[s.group + i] : &at[s.last + i - fc->groups];
        kas_ix *d = &digit[i < fc->groups ? fc->group[i] : fc->channel[i - fc->groups]];
        if (to_side)
            *side = *d;
        else
            *d = *side;
    }
}

void kas_fc_base_index(kas_lower *l, int node, const kas_ix *at, kas_ix *idx)
{
    int64_t size[KAS_IR_RANK];
    int dim[KAS_IR_RANK];
    kas_ix side[KAS_IR_RANK], digit[KAS_FC_DIMS] = {0}, plain[KAS_IR_RANK];
    const int count = plain_dims(l, node, size, dim);
    memcpy(side, at, sizeof side);
    kas_fc_pixel(l, node, at, idx, digit);
    side_digits(l, node, side, digit, false);
    for (int i = 0; i < count; i++)
        plain[i] = digit[dim[i]];
    const kas_ix flat = kas_ix_flatten(l->ir, count, size, plain);
    const kas_ir_tensor *base = &l->ir->tensor[l->tensor[l->fc[node].base]];
    idx[KAS_DIM_Q] = at[KAS_DIM_Q];
    idx[KAS_DIM_P] = at[KAS_DIM_P];
    kas_ix_unflatten(l->ir, flat, base->rank - KAS_DIM_C, base->size + KAS_DIM_C, idx + KAS_DIM_C);
}

void kas_fc_side_index(kas_lower *l, int node, const kas_ix *idx, kas_ix *at)
{
    int64_t size[KAS_IR_RANK];
    int dim[KAS_IR_RANK];
    kas_ix digit[KAS_FC_DIMS] = {0}, plain[KAS_IR_RANK];
    const int count = plain_dims(l, node, size, dim);
    const kas_ir_tensor *base = &l->ir->tensor[l->tensor[l->fc[node].base]];
    const kas_ix flat =
        kas_ix_flatten(l->ir, base->rank - KAS_DIM_C, base->size + KAS_DIM_C, idx + KAS_DIM_C);
    kas_ix_unflatten(l->ir, flat, count, size, plain);
    for (int i = 0; i < count; i++)
        digit[dim[i]] = plain[i];
    kas_fc_merged_pixel(l, node, idx, digit, at);
    at[KAS_DIM_Q] = idx[KAS_DIM_Q];
    at[KAS_DIM_P] = idx[KAS_DIM_P];
    side_digits(l, node, at, digit, true);
}

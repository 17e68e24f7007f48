/* Coordinates of a fully-connected map: between its operand, the node it reads, and its two sides.
 */
#include <string.h>

#include "jit/lower_fc.h"

kas_fc_side kas_fc_input_side(const kas_lower *l, int node)
{
    const kas_lowered_fc *fc = &l->fc[node];
    const int in = l->kernel->node[node].in[0];
    const kas_tensor *t = &l->ir->tensor[l->tensor[in]];
    kas_fc_side s = {.q = KAS_DIM_Q, .p = KAS_DIM_P, .group = KAS_DIM_C, .rank = KAS_DIM_C};
    memcpy(s.size, t->size, sizeof *t->size * KAS_DIM_C);
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
    const int in = l->kernel->node[node].in[0];
    const kas_tensor *t = &l->ir->tensor[l->tensor[in]];
    kas_fc_side s = {.rank = KAS_DIM_Q};
    memcpy(s.size, t->size, sizeof *t->size * KAS_DIM_Q);
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

void kas_fc_output_index(kas_lower *l, int node, const kas_ix *idx, kas_ix *at)
{
    const kas_lowered_fc *fc = &l->fc[node];
    const kas_fc_side s = kas_fc_output_side(l, node);
    const kas_ix out = idx[KAS_DIM_C];
    memcpy(at, idx, sizeof *idx * KAS_DIM_Q);
    at[s.q] = idx[KAS_DIM_Q];
    at[s.p] = idx[KAS_DIM_P];
    kas_ix_unflatten(l->ir, kas_ix_div(l->ir, out, fc->sizes.fan_out), fc->groups, s.size + s.group,
                     at + s.group);
    at[s.last] = kas_ix_mod(l->ir, out, fc->sizes.fan_out);
}

void kas_fc_node_index(kas_lower *l, int node, const kas_ix *at, kas_ix *idx)
{
    const kas_lowered_fc *fc = &l->fc[node];
    const kas_fc_side s = kas_fc_output_side(l, node);
    memcpy(idx, at, sizeof *idx * KAS_DIM_Q);
    idx[KAS_DIM_Q] = at[s.q];
    idx[KAS_DIM_P] = at[s.p];
    const kas_ix group = kas_ix_flatten(l->ir, fc->groups, s.size + s.group, at + s.group);
    idx[KAS_DIM_C] = kas_ix_add(l->ir, kas_ix_scale(l->ir, group, fc->sizes.fan_out), at[s.last]);
}

/* The dims of the operand without the taps, in the operand's order: together they are the channels
 * of the base node, flattened.  part[i] is the dim of the input side. */
static int plain_dims(const kas_lower *l, int node, int64_t *size, int *part)
{
    const kas_lowered_fc *fc = &l->fc[node];
    const int in = l->kernel->node[node].in[0];
    const kas_fc_side s = kas_fc_input_side(l, node);
    int count = 0;
    for (int d = 0; d < l->kernel->node[in].shape.channels; d++) {
        int at = -1;
        for (int i = 0; i < fc->groups; i++)
            at = fc->group[i] == d ? s.group + i : at;
        for (int i = 0; i < fc->channels; i++)
            at = fc->channel[i] == d ? s.last + i : at;
        if (at < 0)
            continue;
        size[count] = s.size[at];
        part[count++] = at;
    }
    return count;
}

void kas_fc_base_index(kas_lower *l, int node, const kas_ix *at, kas_ix *idx)
{
    int64_t size[KAS_IR_RANK];
    int part[KAS_IR_RANK];
    kas_ix digit[KAS_IR_RANK];
    const int count = plain_dims(l, node, size, part);
    for (int i = 0; i < count; i++)
        digit[i] = at[part[i]];
    const kas_ix flat = kas_ix_flatten(l->ir, count, size, digit);
    const kas_tensor *base = &l->ir->tensor[l->tensor[l->fc[node].base]];
    memcpy(idx, at, sizeof *idx * KAS_DIM_C);
    kas_ix_unflatten(l->ir, flat, base->rank - KAS_DIM_C, base->size + KAS_DIM_C, idx + KAS_DIM_C);
}

void kas_fc_side_index(kas_lower *l, int node, const kas_ix *idx, kas_ix *at)
{
    int64_t size[KAS_IR_RANK];
    int part[KAS_IR_RANK];
    kas_ix digit[KAS_IR_RANK];
    const int count = plain_dims(l, node, size, part);
    const kas_tensor *base = &l->ir->tensor[l->tensor[l->fc[node].base]];
    const kas_ix flat =
        kas_ix_flatten(l->ir, base->rank - KAS_DIM_C, base->size + KAS_DIM_C, idx + KAS_DIM_C);
    memcpy(at, idx, sizeof *idx * KAS_DIM_C);
    kas_ix_unflatten(l->ir, flat, count, size, digit);
    for (int i = 0; i < count; i++)
        at[part[i]] = digit[i];
}

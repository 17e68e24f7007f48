/* Linear operators as loops of our own. */
#include <string.h>

#include "jit/lower/lower_fc.h"

/* Lays out weights as [tap...][channel...][q][p][group...][out]: lanes run over instances and
 * channels of the output, and neighbouring lanes read neighbouring weights. */
static void direct_weight(kas_lower *l, int node)
{
    const kas_lowered_fc *fc = &l->fc[node];
    const int in = fc->in;
    int64_t size[KAS_IR_RANK];
    int rank = 0;
    kas_weight *w = &l->weight[fc->weight];
    size_t stride[KAS_FC_DIMS];
    for (int i = 0; i < fc->taps; i++)
        size[rank++] = l->size[in][fc->tap[i]];
    for (int i = 0; i < fc->channels; i++)
        size[rank++] = l->size[in][fc->channel[i]];
    size[rank++] = l->target->parts_out;
    size[rank++] = l->target->parts_in;
    for (int i = 0; i < fc->groups; i++)
        size[rank++] = l->size[in][fc->group[i]];
    size[rank++] = fc->sizes.fan_out;
    l->weight_tensor[fc->weight] = kas_ir_add_tensor(l->ir, KAS_TENSOR_EXTERN, rank, size, 0);
    w->stride[0] = (size_t)w->groups * w->fan_out;
    w->stride[1] = w->fan_out;
    w->stride[2] = 1;
    size_t next = w->instances * w->stride[0];
    for (int i = fc->channels; i-- > 0; next *= (size_t)l->size[in][fc->channel[i]])
        stride[fc->channel[i]] = next;
    for (int i = fc->taps; i-- > 0; next *= (size_t)l->size[in][fc->tap[i]])
        stride[fc->tap[i]] = next;
    kas_fc_put_digits(l, node, stride);
}

/* The variables of one multiply-add, which the indices of weight, operand and output side share. */
typedef struct mac {
    kas_ix operand[KAS_IR_RANK], weight[KAS_IR_RANK];
} mac;

/* `at` is the index of the output side, `digit` that of each contracted channel dim of the
 * operand. */
static mac mac_at(kas_lower *l, int node, const kas_ix *at, const kas_ix *digit)
{
    const kas_lowered_fc *fc = &l->fc[node];
    const kas_fc_side s = kas_fc_output_side(l, node);
    mac m = {.operand = {0}};
    int w = 0;
    kas_fc_pixel(l, node, at, m.operand, m.operand + KAS_DIM_C);
    m.operand[KAS_DIM_Q] = at[s.q];
    m.operand[KAS_DIM_P] = at[s.p];
    for (int i = 0; i < fc->taps; i++)
        m.weight[w++] = m.operand[KAS_DIM_C + fc->tap[i]] = digit[fc->tap[i]];
    for (int i = 0; i < fc->channels; i++)
        m.weight[w++] = m.operand[KAS_DIM_C + fc->channel[i]] = digit[fc->channel[i]];
    m.weight[w++] = at[s.q];
    m.weight[w++] = at[s.p];
    for (int i = 0; i < fc->groups; i++)
        m.weight[w++] = m.operand[KAS_DIM_C + fc->group[i]] = at[s.group + i];
    m.weight[w++] = at[s.last];
    return m;
}

/* Makes new variables for the contracted dims of the operand; returns their number. */
static int contracted_vars(kas_lower *l, int node, kas_ix *digit, int *var)
{
    const kas_lowered_fc *fc = &l->fc[node];
    const int in = fc->in;
    int count = 0;
    for (int i = 0; i < fc->channels + fc->taps; i++) {
        const int d = i < fc->channels ? fc->channel[i] : fc->tap[i - fc->channels];
        var[count] = kas_ir_loop_var(l->ir, l->size[in][d]);
        digit[d] = kas_ix_var(l->ir, var[count++]);
    }
    return count;
}

void kas_fc_direct(kas_lower *l, int node)
{
    kas_ir *ir = l->ir;
    kas_lowered_fc *fc = &l->fc[node];
    const kas_fc_side out = kas_fc_output_side(l, node);
    kas_ix at[KAS_IR_RANK], digit[KAS_FC_DIMS] = {0};
    int var[KAS_FC_DIMS];
    direct_weight(l, node);
    fc->output = kas_lower_tensor(l, out.size, out.rank);
    kas_ir_own_index(ir, fc->output, at);
    const int count = contracted_vars(l, node, digit, var);
    const mac m = mac_at(l, node, at, digit);
    kas_ex e = kas_ex_binary(ir, KAS_FN_MUL, kas_lower_read(l, fc->in, m.operand),
                             kas_ex_read(ir, l->weight_tensor[fc->weight], m.weight));
    e = kas_ex_reduce_all(ir, KAS_FN_REDUCE_SUM, count, var, e);
    ir->tensor[fc->output].def = e;
}

static void direct_data_gradient(kas_lower *l, int node)
{
    kas_ir *ir = l->ir;
    const kas_lowered_fc *fc = &l->fc[node];
    const int in = fc->in;
    const kas_fc_side out = kas_fc_output_side(l, node);
    kas_ix idx[KAS_IR_RANK], at[KAS_IR_RANK], out_idx[KAS_IR_RANK];
    kas_lower_vars(l, in, idx);
    const int q = kas_lower_q_var(l, node, in);
    const int o = kas_ir_loop_var(ir, fc->sizes.fan_out);
    kas_fc_merged_pixel(l, node, idx, idx + KAS_DIM_C, at);
    at[out.q] = kas_ix_var(ir, q);
    at[out.p] = idx[KAS_DIM_P];
    for (int i = 0; i < fc->groups; i++)
        at[out.group + i] = idx[KAS_DIM_C + fc->group[i]];
    at[out.last] = kas_ix_var(ir, o);
    const mac m = mac_at(l, node, at, idx + KAS_DIM_C);
    kas_fc_node_index(l, node, at, out_idx);
    kas_ex e = kas_ex_binary(ir, KAS_FN_MUL, kas_lower_read_gradient(l, node, out_idx),
                             kas_ex_read(ir, l->weight_tensor[fc->weight], m.weight));
    const kas_ir_tensor t = ir->tensor[l->tensor[in]];
    if (l->linear_policy == KAS_LINEAR_CPU)
        e = kas_lower_sum_q(l, node, in, q, kas_ex_reduce(ir, KAS_FN_REDUCE_SUM, o, e));
    else /* in stages, where pixels are few */
        e = kas_lower_sum(l, t.rank, t.var, 1, &o, kas_lower_sum_q(l, node, in, q, e));
    kas_lower_contribute(l, in, e);
}

/* Adds up, for each weight, over the positions that all have the same matrix. They lie side by
 * side in memory and are kept apart until the pixels are added up, so that lanes run along them. */
static kas_ex sum_of_kept(kas_lower *l, const kas_ir_tensor *t, int kepts, const int *kept,
                          const int *pixel, kas_ex product)
{
    kas_ir *ir = l->ir;
    int64_t size[KAS_IR_RANK];
    int var[KAS_IR_RANK], again[KAS_IR_RANK];
    kas_ix idx[KAS_IR_RANK];
    for (int d = 0; d < t->rank + kepts; d++) {
        var[d] = d < t->rank ? t->var[d] : kept[d - t->rank];
        size[d] = var[d] < 0 ? 1 : ir->var_size[var[d]];
        again[d] = d < t->rank || var[d] < 0 ? var[d] : kas_ir_var(ir, size[d]);
        idx[d] = kas_ix_var(ir, again[d]);
    }
    const int partial = kas_ir_add_tensor(ir, KAS_TENSOR_DEF, t->rank + kepts, size, 0);
    memcpy(ir->tensor[partial].var, var, sizeof *var * (size_t)(t->rank + kepts));
    const kas_ex e = kas_lower_sum(l, t->rank + kepts, var, KAS_DIM_Q, pixel, product);
    ir->tensor[partial].def = e;
    return kas_lower_sum(l, t->rank, t->var, kepts, again + t->rank, kas_ex_read(ir, partial, idx));
}

static void direct_weight_gradient(kas_lower *l, int node)
{
    kas_ir *ir = l->ir;
    const kas_lowered_fc *fc = &l->fc[node];
    const kas_fc_side out = kas_fc_output_side(l, node);
    const int dw =
        kas_ir_add_tensor(ir, KAS_TENSOR_DEF, ir->tensor[l->weight_tensor[fc->weight]].rank,
                          ir->tensor[l->weight_tensor[fc->weight]].size, 0);
    const kas_ir_tensor t = ir->tensor[dw], in = ir->tensor[l->tensor[fc->in]];
    kas_ix pixel[KAS_DIM_Q], at[KAS_IR_RANK], digit[KAS_FC_DIMS] = {0}, out_idx[KAS_IR_RANK];
    int var[KAS_DIM_Q], kept[KAS_FC_DIMS], d = 0;
    for (int i = 0; i < KAS_DIM_Q; i++) {
        var[i] = kas_ir_loop_var(ir, in.size[i]);
        pixel[i] = kas_ix_var(ir, var[i]);
    }
    for (int i = 0; i < fc->kepts; i++) {
        kept[i] = kas_ir_loop_var(ir, l->size[fc->in][fc->kept[i]]);
        digit[fc->kept[i]] = kas_ix_var(ir, kept[i]);
    }
    kas_fc_merged_pixel(l, node, pixel, digit, at);
    for (int i = 0; i < fc->taps; i++)
        digit[fc->tap[i]] = kas_ix_var(ir, t.var[d++]);
    for (int i = 0; i < fc->channels; i++)
        digit[fc->channel[i]] = kas_ix_var(ir, t.var[d++]);
    at[out.q] = kas_ix_var(ir, t.var[d++]);
    at[out.p] = kas_ix_var(ir, t.var[d++]);
    for (int i = 0; i < fc->groups; i++)
        at[out.group + i] = kas_ix_var(ir, t.var[d++]);
    at[out.last] = kas_ix_var(ir, t.var[d++]);
    const mac m = mac_at(l, node, at, digit);
    kas_fc_node_index(l, node, at, out_idx);
    const kas_ex e = kas_ex_binary(ir, KAS_FN_MUL, kas_lower_read_gradient(l, node, out_idx),
                                   kas_lower_read(l, fc->in, m.operand));
    const bool room = t.rank + fc->kepts <= KAS_IR_RANK;
    int all[KAS_DIM_Q + KAS_FC_DIMS];
    memcpy(all, var, sizeof var);
    memcpy(all + KAS_DIM_Q, kept, sizeof *kept * (size_t)fc->kepts);
    const kas_ex sum = fc->kepts > 0 && room
                           ? sum_of_kept(l, &t, fc->kepts, kept, var, e)
                           : kas_lower_sum(l, t.rank, t.var, KAS_DIM_Q + fc->kepts, all, e);
    ir->tensor[dw].def = sum;
    l->dweight[fc->weight] = dw;
}

void kas_fc_direct_gradient(kas_lower *l, int node)
{
    direct_data_gradient(l, node);
    direct_weight_gradient(l, node);
}

/* Walks over the micro-DAG, forward and in reverse, and adds what stands around the instances. */
#include "jit/lower/lower.h"

#include <math.h>
#include <string.h>

enum { CONTRIBUTIONS = 4 };

int kas_lower_dim(const kas_lower *l, int node, int i)
{
    const kas_shape *shape = &l->kernel->node[node].shape;
    if (i < shape->channels)
        return KAS_DIM_C + i;
    return i == shape->channels && kas_shape_has(shape, KAS_AXIS_H) ? KAS_DIM_H : KAS_DIM_W;
}

void kas_lower_vars(kas_lower *l, int node, kas_ix *idx)
{
    kas_ir_own_index(l->ir, l->tensor[node], idx);
}

int kas_lower_pitch(const kas_lower *l, int64_t channels)
{
    return l->ir->cpu ? (int)channels : kas_pitch_of(l->ir->dtype, (int)channels);
}

int kas_lower_tensor(kas_lower *l, const int64_t *size, int rank)
{
    int64_t pixel = 1;
    for (int d = 3; d < rank; d++)
        pixel *= size[d];
    if (pixel > INT32_MAX / 2) {
        kas_ir_fail(l->ir, kas_fail(KAS_UNSUPPORTED, "a tensor of the kernel has %lld channels",
                                    (long long)pixel));
        return 0;
    }
    return kas_ir_add_tensor(l->ir, KAS_TENSOR_DEF, rank, size, kas_lower_pitch(l, pixel));
}

int kas_lower_like(kas_lower *l, int tensor, int pitch)
{
    const kas_ir_tensor t = l->ir->tensor[tensor];
    const int made = kas_ir_add_tensor(l->ir, KAS_TENSOR_DEF, t.rank, t.size, pitch);
    kas_ir_put_ahead(l->ir, made, t.ahead);
    return made;
}

kas_ex kas_lower_read(kas_lower *l, int node, const kas_ix *idx)
{
    return kas_ex_read(l->ir, l->tensor[node], idx);
}

kas_ex kas_lower_read_gradient(kas_lower *l, int node, const kas_ix *idx)
{
    return kas_ex_read(l->ir, l->gradient_tensor[node], idx);
}

void kas_lower_contribute(kas_lower *l, int node, kas_ex e)
{
    l->gradient[node] = kas_ex_binary(l->ir, KAS_FN_ADD, l->gradient[node], e);
    if (++l->contributions[node] % CONTRIBUTIONS)
        return;
    /* A tensor of its own for the sum so far bounds what one kernel may have to read. */
    const kas_ir_tensor value = l->ir->tensor[l->tensor[node]];
    const int sum = kas_lower_like(l, l->tensor[node], value.pitch);
    memcpy(l->ir->tensor[sum].var, value.var, sizeof value.var);
    l->ir->tensor[sum].def = l->gradient[node];
    kas_ix idx[KAS_IR_RANK];
    kas_lower_vars(l, node, idx);
    l->gradient[node] = kas_ex_read(l->ir, sum, idx);
}

int kas_lower_q_var(kas_lower *l, int from, int to)
{
    if (kas_lower_q(l, to) == kas_lower_q(l, from))
        return l->ir->tensor[l->tensor[to]].var[KAS_DIM_Q];
    return kas_ir_var(l->ir, kas_lower_q(l, from));
}

kas_ex kas_lower_sum_q(kas_lower *l, int from, int to, int q_var, kas_ex e)
{
    if (kas_lower_q(l, to) == kas_lower_q(l, from))
        return e;
    return kas_ex_reduce(l->ir, KAS_FN_REDUCE_SUM, q_var, e);
}

void kas_lower_sum_gradient(kas_lower *l, int node)
{
    kas_ir *ir = l->ir;
    const kas_ir_tensor value = ir->tensor[l->tensor[node]];
    const int g = kas_lower_like(l, l->tensor[node], value.pitch);
    memcpy(ir->tensor[g].var, value.var, sizeof value.var);
    ir->tensor[g].def = l->gradient[node];
    l->gradient_tensor[node] = g;
}

int kas_lower_new_weight(kas_lower *l, const kas_weight_sizes *sizes)
{
    const uint32_t instances = l->target->parts_in * l->target->parts_out;
    const size_t elements = (size_t)sizes->groups * sizes->fan_out * sizes->fan_in;
    l->weight[l->weights] = (kas_weight){.instances = instances,
                                         .groups = sizes->groups,
                                         .fan_out = sizes->fan_out,
                                         .fan_in = sizes->fan_in,
                                         .init = sizes->init,
                                         .elements = instances * elements};
    return l->weights++;
}

/* Makes X node 0: [n][h][w][1][p][c]. */
static void lower_input(kas_lower *l)
{
    const kas_target *t = l->target;
    if (l->stride > 1) {
        kas_lower_strided_input(l);
        return;
    }
    const int64_t size[6] = {l->batch, t->h, t->w, 1, t->parts_in, t->c};
    l->x = kas_ir_add_tensor(l->ir, KAS_TENSOR_EXTERN, 6, size, l->x_pitch);
    l->ir->tensor[l->x].role = KAS_ROLE_X;
    l->tensor[0] = l->x;
}

static double instance_scale(const kas_lower *l)
{
    return 1 / sqrt((double)l->target->parts_in);
}

int kas_lower_last(const kas_lower *l)
{
    int node = l->kernel->nodes - 1;
    while (kas_type_of(l->kernel->node[node].op) == KAS_TYPE_GROUP) /* moves no element */
        node = l->kernel->node[node].in[0];
    return l->target->parts_in == 1 ? node : -1;
}

static bool is_read_once(const kas_lower *l, int node)
{
    int readers = 0;
    for (int k = 0; k < l->kernel->nodes; k++)
        for (int i = 0; i < l->kernel->node[k].inputs; i++)
            readers += l->kernel->node[k].in[i] == node;
    return readers == 1;
}

/* Returns the node whose values a part has, if nothing else reads them; else -1. */
static int only_source(const kas_lower *l, int part)
{
    while (is_read_once(l, part) && kas_type_of(l->kernel->node[part].op) == KAS_TYPE_GROUP)
        part = l->kernel->node[part].in[0];
    return is_read_once(l, part) ? part : -1;
}

bool kas_lower_takes_gain(const kas_lower *l, int node)
{
    const int last = kas_lower_last(l);
    if (last < 0 || l->kernel->node[last].op != KAS_OP_CONCAT)
        return node == last;
    bool takes = false;
    for (int i = 0; i < l->kernel->node[last].inputs; i++)
        takes |= only_source(l, l->kernel->node[last].in[i]) == node;
    return takes;
}

bool kas_lower_part_has_gain(const kas_lower *l, int part)
{
    const int map = only_source(l, part);
    return map >= 0 && l->fc[map].library;
}

kas_ex kas_lower_part_gained(kas_lower *l, int concat, int part, kas_ex e)
{
    const bool has = concat != kas_lower_last(l) || kas_lower_part_has_gain(l, part);
    return has ? e : kas_lower_times_gain(l, e);
}

kas_ex kas_lower_times_gain(kas_lower *l, kas_ex e)
{
    const int64_t one = 1;
    const kas_ix first = 0;
    if (l->gain < 0) {
        l->gain = kas_ir_add_tensor(l->ir, KAS_TENSOR_EXTERN, 1, &one, 0);
        l->ir->tensor[l->gain].role = KAS_ROLE_GAIN;
        l->ir->tensor[l->gain].dtype = KAS_F32;
    }
    return kas_ex_binary(l->ir, KAS_FN_MUL, kas_ex_read(l->ir, l->gain, &first), e);
}

/* Returns a contribution to Y, or to the gradient of what is summed in it, times what stands
 * before the sum. */
static kas_ex output_scaled(kas_lower *l, kas_ex e)
{
    const int last = kas_lower_last(l);
    const bool has =
        last >= 0 && (l->fc[last].library || l->kernel->node[last].op == KAS_OP_CONCAT);
    const kas_ex scaled =
        kas_ex_binary(l->ir, KAS_FN_MUL, kas_ex_const(l->ir, instance_scale(l)), e);
    return has ? scaled : kas_lower_times_gain(l, scaled);
}

/* Y[n,h,w,q,c] = gain * sum over p of the last node's value / sqrt(parts_in). */
static void lower_output(kas_lower *l)
{
    kas_ir *ir = l->ir;
    const kas_target *t = l->target;
    const int last = l->kernel->nodes - 1;
    const int64_t size[6] = {l->batch, t->h, t->w, t->parts_out, 1, t->c};
    l->y = kas_ir_add_tensor(ir, KAS_TENSOR_DEF, 6, size, l->y_pitch);
    ir->tensor[l->y].role = KAS_ROLE_Y;
    const int *var = ir->tensor[l->y].var;
    kas_ix idx[KAS_IR_RANK];
    for (int d = 0; d < KAS_DIM_P; d++)
        idx[d] = kas_ix_var(ir, var[d]);
    const int p = kas_ir_loop_var(ir, t->parts_in);
    idx[KAS_DIM_P] = kas_ix_var(ir, p);
    const kas_ir_tensor *value = &ir->tensor[l->tensor[last]];
    kas_ix_unflatten(ir, kas_ix_var(ir, ir->tensor[l->y].var[KAS_DIM_C]), value->rank - KAS_DIM_C,
                     value->size + KAS_DIM_C, idx + KAS_DIM_C);
    kas_ex sum = kas_ex_reduce(ir, KAS_FN_REDUCE_SUM, p, kas_lower_read(l, last, idx));
    sum = output_scaled(l, sum);
    ir->tensor[l->y].def = sum;
}

static void lower_output_gradient(kas_lower *l)
{
    kas_ir *ir = l->ir;
    const kas_target *t = l->target;
    const int last = l->kernel->nodes - 1;
    const int64_t size[6] = {l->batch, t->h, t->w, t->parts_out, 1, t->c};
    l->dy = kas_ir_add_tensor(ir, KAS_TENSOR_EXTERN, 6, size, l->y_pitch);
    ir->tensor[l->dy].role = KAS_ROLE_DY;
    kas_ix at[KAS_IR_RANK], idx[6];
    kas_lower_vars(l, last, at);
    const kas_ir_tensor *value = &ir->tensor[l->tensor[last]];
    for (int d = 0; d < KAS_DIM_Q; d++)
        idx[d] = at[d];
    int q = value->var[KAS_DIM_Q];
    const bool shared = value->size[KAS_DIM_Q] != t->parts_out;
    if (shared)
        q = kas_ir_var(ir, t->parts_out);
    idx[KAS_DIM_Q] = kas_ix_var(ir, q);
    idx[KAS_DIM_P] = 0;
    value = &ir->tensor[l->tensor[last]];
    idx[KAS_DIM_C] =
        kas_ix_flatten(ir, value->rank - KAS_DIM_C, value->size + KAS_DIM_C, at + KAS_DIM_C);
    kas_ex e = kas_ex_read(ir, l->dy, idx);
    if (shared)
        e = kas_ex_reduce(ir, KAS_FN_REDUCE_SUM, q, e);
    kas_lower_contribute(l, last, output_scaled(l, e));
}

typedef void lower_fn(kas_lower *, int);

static const struct {
    lower_fn *forward, *gradient;
} lowering[KAS_TYPE_COUNT] = {
    [KAS_TYPE_GROUP] = {kas_lower_rearrange, kas_lower_rearrange_gradient},
    [KAS_TYPE_SHIFT] = {kas_lower_rearrange, kas_lower_rearrange_gradient},
    [KAS_TYPE_UNFOLD] = {kas_lower_rearrange, kas_lower_rearrange_gradient},
    [KAS_TYPE_SHUFFLE] = {kas_lower_rearrange, kas_lower_rearrange_gradient},
    [KAS_TYPE_SLICE] = {kas_lower_slice, kas_lower_slice_gradient},
    [KAS_TYPE_CONCAT] = {kas_lower_concat, kas_lower_concat_gradient},
    [KAS_TYPE_FC] = {kas_lower_fc, kas_lower_fc_gradient},
    [KAS_TYPE_CONV] = {kas_lower_fc, kas_lower_fc_gradient},
    [KAS_TYPE_MIX] = {kas_lower_fc, kas_lower_fc_gradient},
    [KAS_TYPE_SCALE] = {kas_lower_scale, kas_lower_scale_gradient},
    [KAS_TYPE_ELEMENTWISE] = {kas_lower_elementwise, kas_lower_elementwise_gradient},
    [KAS_TYPE_FOLD] = {kas_lower_fold, kas_lower_fold_gradient},
    [KAS_TYPE_POOL] = {kas_lower_pool, kas_lower_pool_gradient},
    [KAS_TYPE_SOFTMAX] = {kas_lower_softmax, kas_lower_softmax_gradient},
    [KAS_TYPE_NORM] = {kas_lower_norm, kas_lower_norm_gradient},
    [KAS_TYPE_BMM] = {kas_lower_bmm, kas_lower_bmm_gradient},
    [KAS_TYPE_BROADCAST] = {kas_lower_broadcast, kas_lower_broadcast_gradient},
};

static void lower_node(kas_lower *l, int node)
{
    const int op = l->kernel->node[node].op;
    if (lowering[kas_type_of(op)].forward)
        lowering[kas_type_of(op)].forward(l, node);
    else
        kas_ir_fail(l->ir, kas_fail(KAS_UNSUPPORTED, "primitive %s cannot be lowered",
                                    kas_op_get((kas_op)op)->name));
}

static kas_status node_sizes(kas_lower *l)
{
    for (int k = 0; k < l->kernel->nodes; k++) {
        uint32_t size[KAS_MAX_DIMS];
        KAS_TRY(kas_node_sizes(&l->kernel->node[k], l->binding, size, &l->rank[k]));
        for (int d = 0; d < l->rank[k]; d++)
            l->size[k][d] = size[d];
        kas_lower_whole_sizes(l, k);
    }
    return KAS_OK;
}

/* Checks that slices of rows or columns that windows read lie in the input: where the stride
 * divides its size. */
static kas_status check_strided(const kas_lower *l)
{
    uint32_t h, w;
    kas_target_read(l->target, l->kernel->stride_inside, &h, &w);
    for (int k = 1; k < l->kernel->nodes && l->stride > 1; k++) {
        const kas_node *n = &l->kernel->node[k];
        const bool rows = n->op == KAS_OP_SLICE && n->dim >= l->kernel->node[k].shape.channels;
        if (rows && (l->whole & (uint64_t)1 << k) &&
            (h != l->target->h * l->target->stride || w != l->target->w * l->target->stride))
            return kas_fail(KAS_UNSUPPORTED,
                            "node %d: bands of %ux%u pixels, with a stride of %u inside", k, h, w,
                            l->target->stride);
    }
    return KAS_OK;
}

static void lower_backward(kas_lower *l)
{
    kas_ir *ir = l->ir;
    lower_output_gradient(l);
    for (int k = l->kernel->nodes - 1; k >= 0 && ir->status == KAS_OK; k--) {
        if (l->small & (uint64_t)1 << k)
            kas_lower_sum_gradient(l, k);
        /* A weight needs a gradient of 0 even where its node's value does not matter. */
        if (k > 0 && (l->small & (uint64_t)1 << k) &&
            (l->gradient[k] != 0 || kas_op_has_weight((kas_op)l->kernel->node[k].op)))
            lowering[kas_type_of(l->kernel->node[k].op)].gradient(l, k);
        if (l->stride > 1 && (k == 0 || (l->whole & (uint64_t)1 << k)))
            kas_lower_whole_gradient(l, k);
    }
    l->dx = l->gradient_tensor[l->stride > 1 ? KAS_WITHIN : 0];
    ir->tensor[l->dx].role = KAS_ROLE_DX;
    if (l->stride == 1)
        kas_lower_note_slices(l);
}

kas_status kas_lower_kernel(kas_lower *l)
{
    kas_lower_strided_nodes(l);
    KAS_TRY(node_sizes(l));
    KAS_TRY(check_strided(l));
    l->gain = l->scaled = -1;
    lower_input(l);
    KAS_TRY(l->ir->status);
    for (int k = 1; k < l->kernel->nodes && l->ir->status == KAS_OK; k++) {
        if (l->whole & (uint64_t)1 << k)
            kas_lower_whole(l, k);
        if (l->small & (uint64_t)1 << k)
            lower_node(l, k);
    }
    if (l->ir->status == KAS_OK)
        lower_output(l);
    const int forward = l->ir->tensors;
    if (l->ir->status == KAS_OK && l->training)
        lower_backward(l);
    for (int t = forward; t < l->ir->tensors; t++)
        l->ir->tensor[t].backward = true;
    return l->ir->status;
}

/* slice and concat: parts of a dim that lie at constant offsets, and their inverses. */
#include "host/space/split.h"
#include "jit/lower/lower.h"

/* Moves index `dim` by -begin and clamps it into the `size` elements of a segment. Returns the
 * index before clamping, which is outside for the elements of other segments. */
static kas_ix enter_segment(kas_ir *ir, kas_ix *idx, int dim, int64_t begin, int64_t size)
{
    const kas_ix at = kas_ix_add(ir, idx[dim], kas_ix_const(ir, -begin));
    idx[dim] = kas_ix_clamp(ir, at, 0, size - 1);
    return at;
}

static void leave_segment(kas_ir *ir, kas_ix *idx, int dim, int64_t begin)
{
    idx[dim] = kas_ix_add(ir, idx[dim], kas_ix_const(ir, begin));
}

static int64_t slice_begin(const kas_lower *l, int node)
{
    const kas_node *n = &l->kernel->node[node];
    return kas_split_begin(&l->kernel->split[n->split], n->segment,
                           (uint32_t)l->size[node][n->dim]);
}

void kas_lower_slice(kas_lower *l, int node)
{
    const kas_node *n = &l->kernel->node[node];
    const int tensor = kas_lower_result(l, node, kas_lower_q(l, n->in[0]));
    kas_ix idx[KAS_IR_RANK];
    kas_lower_vars(l, node, idx);
    leave_segment(l->ir, idx, kas_lower_dim(l, node, n->dim), slice_begin(l, node));
    const kas_ex value = kas_lower_read(l, n->in[0], idx);
    l->ir->tensor[tensor].def = value;
}

void kas_lower_slice_gradient(kas_lower *l, int node)
{
    const kas_node *n = &l->kernel->node[node];
    const int64_t size = l->size[node][n->dim];
    kas_ix idx[KAS_IR_RANK];
    kas_lower_vars(l, n->in[0], idx);
    const kas_ix at =
        enter_segment(l->ir, idx, kas_lower_dim(l, node, n->dim), slice_begin(l, node), size);
    const kas_ex dy = kas_lower_read_gradient(l, node, idx);
    kas_lower_contribute(l, n->in[0], kas_ex_guard(l->ir, at, 0, size - 1, dy));
}

/* Notes that Y is a concatenation and nothing more. Not for inference, where the kernel that writes Y
 * does what comes behind it. */
static void note_parts(kas_lower *l, int node)
{
    const kas_node *n = &l->kernel->node[node];
    kas_ir_join join = {.tensor = l->tensor[node], .dim = kas_lower_dim(l, node, n->dim)};
    int64_t begin = 0;
    if (!l->training || node != kas_lower_last(l) || join.dim < KAS_DIM_C)
        return;
    for (int k = 0; k < n->inputs; k++) {
        if (!kas_lower_part_has_gain(l, n->in[k]))
            return;
        join.part[join.parts] = l->tensor[n->in[k]];
        join.begin[join.parts++] = begin;
        begin += l->size[n->in[k]][n->dim];
    }
    l->ir->join[0] = join;
}

void kas_lower_note_slices(kas_lower *l)
{
    const kas_kernel *kernel = l->kernel;
    kas_ir_join join = {.tensor = l->dx};
    const kas_node *first = NULL;
    int64_t elements = 0;
    for (int k = 1; k < kernel->nodes; k++) {
        const kas_node *n = &kernel->node[k];
        bool reads = false;
        for (int i = 0; i < n->inputs; i++)
            reads |= n->in[i] == 0;
        if (!reads)
            continue;
        first = first ? first : n;
        if (n->op != KAS_OP_SLICE || n->split != first->split || n->dim != first->dim ||
            join.parts == KAS_MAX_INPUTS || l->gradient[k] == 0)
            return;
        for (int i = 0; i < join.parts; i++)
            if (join.begin[i] == slice_begin(l, k))
                return;
        join.begin[join.parts] = slice_begin(l, k);
        join.part[join.parts++] = l->gradient_tensor[k];
        elements += l->size[k][n->dim];
    }
    if (!first || elements != l->size[0][first->dim])
        return;
    join.dim = kas_lower_dim(l, 0, first->dim);
    if (join.dim >= KAS_DIM_C)
        l->ir->join[1] = join;
}

/* A concatenation is the sum of all operands, each 0 outside its segment. */
void kas_lower_concat(kas_lower *l, int node)
{
    kas_ir *ir = l->ir;
    const kas_node *n = &l->kernel->node[node];
    int64_t q = 1, begin = 0;
    for (int k = 0; k < n->inputs; k++) {
        const int64_t own = kas_lower_q(l, n->in[k]);
        q = own > q ? own : q;
    }
    const int tensor = kas_lower_result(l, node, q), dim = kas_lower_dim(l, node, n->dim);
    kas_ex sum = kas_ex_const(ir, 0);
    for (int k = 0; k < n->inputs; k++) {
        const int64_t size = l->size[n->in[k]][n->dim];
        kas_ix idx[KAS_IR_RANK];
        kas_lower_vars(l, node, idx);
        const kas_ix at = enter_segment(ir, idx, dim, begin, size);
        const kas_ex part = kas_lower_part_gained(
            l, node, n->in[k], kas_ex_guard(ir, at, 0, size - 1, kas_lower_read(l, n->in[k], idx)));
        sum = kas_ex_binary(ir, KAS_FN_ADD, sum, part);
        begin += size;
    }
    ir->tensor[tensor].def = sum;
    note_parts(l, node);
}

void kas_lower_concat_gradient(kas_lower *l, int node)
{
    const kas_node *n = &l->kernel->node[node];
    const int dim = kas_lower_dim(l, node, n->dim);
    int64_t begin = 0;
    for (int k = 0; k < n->inputs; k++) {
        kas_ix idx[KAS_IR_RANK];
        kas_lower_vars(l, n->in[k], idx);
        const int q = kas_lower_q_var(l, node, n->in[k]);
        idx[KAS_DIM_Q] = kas_ix_var(l->ir, q);
        leave_segment(l->ir, idx, dim, begin);
        const kas_ex dy =
            kas_lower_part_gained(l, node, n->in[k], kas_lower_read_gradient(l, node, idx));
        kas_lower_contribute(l, n->in[k], kas_lower_sum_q(l, node, n->in[k], q, dy));
        begin += l->size[n->in[k]][n->dim];
    }
}

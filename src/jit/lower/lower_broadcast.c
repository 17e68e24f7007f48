/* The broadcasts of LHS over RHS: add, sub, mul, min, max. */

#include "jit/lower/lower.h"

/* The dims that are tiled; `lhs` and `rhs` are dims of the micro-DAG's lists [channels..., H,
 * W]. */
typedef struct tile {
    int prefix, suffix;
    int lhs_rank, rhs_rank, lhs_count, rhs_count; /* unmatched dims */
    int64_t lhs_size[KAS_MAX_DIMS], rhs_size[KAS_MAX_DIMS];
    int64_t length, repeats; /* L, R / L */
} tile;

static tile tile_of(kas_lower *l, int node)
{
    const kas_node *n = &l->kernel->node[node];
    const kas_shape *lhs = &l->kernel->node[n->in[0]].shape,
                    *rhs = &l->kernel->node[n->in[1]].shape;
    kas_broadcast align;
    tile t = {.length = 1, .repeats = 1};
    const kas_status status = kas_broadcast_align(lhs, rhs, &align);
    if (status != KAS_OK) {
        kas_ir_fail(l->ir, status);
        return t;
    }
    t.prefix = align.prefix;
    t.suffix = align.suffix;
    t.lhs_rank = l->rank[n->in[0]];
    t.rhs_rank = l->rank[n->in[1]];
    int64_t total = 1;
    for (int i = t.prefix; i < t.lhs_rank - t.suffix; i++)
        t.length *= t.lhs_size[t.lhs_count++] = l->size[n->in[0]][i];
    for (int i = t.prefix; i < t.rhs_rank - t.suffix; i++)
        total *= t.rhs_size[t.rhs_count++] = l->size[n->in[1]][i];
    if (total % t.length)
        kas_ir_fail(l->ir, kas_fail(KAS_ILLEGAL, "node %d: %lld elements cannot be tiled over %lld",
                                    node, (long long)t.length, (long long)total));
    else
        t.repeats = total / t.length;
    return t;
}

/* Copies the coordinates of the matched dims from one operand's index to the other's. */
static void matched(kas_lower *l, const tile *t, int from, const kas_ix *from_idx, int from_rank,
                    int to, kas_ix *to_idx, int to_rank)
{
    for (int d = 0; d < KAS_IR_RANK; d++)
        to_idx[d] = 0;
    to_idx[KAS_DIM_N] = from_idx[KAS_DIM_N];
    to_idx[KAS_DIM_Q] = from_idx[KAS_DIM_Q];
    to_idx[KAS_DIM_P] = from_idx[KAS_DIM_P];
    for (int i = 0; i < t->prefix; i++)
        to_idx[kas_lower_dim(l, to, i)] = from_idx[kas_lower_dim(l, from, i)];
    for (int i = 1; i <= t->suffix; i++)
        to_idx[kas_lower_dim(l, to, to_rank - i)] = from_idx[kas_lower_dim(l, from, from_rank - i)];
}

/* Returns the index of LHS that is read at index `idx` of the result. */
static void lhs_index(kas_lower *l, int node, const kas_ix *idx, kas_ix *lhs_idx)
{
    kas_ir *ir = l->ir;
    const int lhs = l->kernel->node[node].in[0], rhs = l->kernel->node[node].in[1];
    const tile t = tile_of(l, node);
    kas_ix at[KAS_MAX_DIMS], digit[KAS_MAX_DIMS];
    matched(l, &t, rhs, idx, t.rhs_rank, lhs, lhs_idx, t.lhs_rank);
    for (int i = 0; i < t.rhs_count; i++)
        at[i] = idx[kas_lower_dim(l, rhs, t.prefix + i)];
    const kas_ix flat = kas_ix_mod(ir, kas_ix_flatten(ir, t.rhs_count, t.rhs_size, at), t.length);
    kas_ix_unflatten(ir, flat, t.lhs_count, t.lhs_size, digit);
    for (int i = 0; i < t.lhs_count; i++)
        lhs_idx[kas_lower_dim(l, lhs, t.prefix + i)] = digit[i];
}

static kas_fn broadcast_fn(const kas_lower *l, int node)
{
    static const kas_fn fn[KAS_OP_COUNT] = {[KAS_OP_ADD] = KAS_FN_ADD,
                                            [KAS_OP_SUB] = KAS_FN_SUB,
                                            [KAS_OP_MUL] = KAS_FN_MUL,
                                            [KAS_OP_MIN] = KAS_FN_MIN,
                                            [KAS_OP_MAX] = KAS_FN_MAX};
    return fn[l->kernel->node[node].op];
}

void kas_lower_broadcast(kas_lower *l, int node)
{
    const kas_node *n = &l->kernel->node[node];
    const int64_t q0 = kas_lower_q(l, n->in[0]);
    const int64_t q1 = kas_lower_q(l, n->in[1]);
    const int tensor = kas_lower_result(l, node, q0 > q1 ? q0 : q1);
    kas_ix idx[KAS_IR_RANK], lhs_idx[KAS_IR_RANK];
    kas_lower_vars(l, node, idx);
    lhs_index(l, node, idx, lhs_idx);
    const kas_ex lhs = kas_lower_read(l, n->in[0], lhs_idx);
    l->ir->tensor[tensor].def =
        kas_ex_binary(l->ir, broadcast_fn(l, node), lhs, kas_lower_read(l, n->in[1], idx));
}

/* Returns the gradient of operand `which` at index `idx` of the result, as an expression. */
static kas_ex operand_gradient(kas_lower *l, int node, int which, const kas_ix *idx)
{
    const kas_node *n = &l->kernel->node[node];
    kas_ix lhs_idx[KAS_IR_RANK];
    lhs_index(l, node, idx, lhs_idx);
    const kas_ex lhs = kas_lower_read(l, n->in[0], lhs_idx), rhs = kas_lower_read(l, n->in[1], idx);
    const kas_ex slope = kas_ex_partial(l->ir, broadcast_fn(l, node), lhs, rhs, which == 0);
    return kas_ex_binary(l->ir, KAS_FN_MUL, kas_lower_read_gradient(l, node, idx), slope);
}

/* Finds the positions of RHS that read position `idx` of LHS: one variable for each dim that is
 * repeated as a whole, and one for the repeats within the dim where the tile ends. Returns the
 * number of variables. */
static int readers(kas_lower *l, int node, const kas_ix *idx, kas_ix *rhs_idx, int *var)
{
    kas_ir *ir = l->ir;
    const int lhs = l->kernel->node[node].in[0], rhs = l->kernel->node[node].in[1];
    const tile t = tile_of(l, node);
    kas_ix at[KAS_MAX_DIMS], digit[KAS_MAX_DIMS];
    matched(l, &t, lhs, idx, t.lhs_rank, rhs, rhs_idx, t.rhs_rank);
    for (int i = 0; i < t.lhs_count; i++)
        at[i] = idx[kas_lower_dim(l, lhs, t.prefix + i)];
    const kas_ix flat = kas_ix_flatten(ir, t.lhs_count, t.lhs_size, at);
    int count = 0, whole = t.rhs_count; /* dims [whole, ..) lie inside one tile */
    int64_t inside = 1;
    while (whole > 0 && t.length % (inside * t.rhs_size[whole - 1]) == 0)
        inside *= t.rhs_size[--whole];
    const int64_t part = t.length / inside; /* elements of dim whole - 1 that one tile covers */
    if (part > 1 && (whole == 0 || t.rhs_size[whole - 1] % part != 0)) {
        var[count++] = kas_ir_var(ir, t.repeats); /* a tile may end anywhere */
        const kas_ix f = kas_ix_add(ir, kas_ix_scale(ir, kas_ix_var(ir, var[0]), t.length), flat);
        kas_ix_unflatten(ir, f, t.rhs_count, t.rhs_size, digit);
    } else {
        kas_ix_unflatten(ir, kas_ix_mod(ir, flat, inside), t.rhs_count - whole, t.rhs_size + whole,
                         digit + whole);
        for (int i = 0; i < whole; i++) {
            const bool edge = i == whole - 1;
            const int64_t repeats = t.rhs_size[i] / (edge ? part : 1);
            var[count] = kas_ir_loop_var(ir, repeats);
            digit[i] = kas_ix_scale(ir, kas_ix_var(ir, var[count++]), edge ? part : 1);
            if (edge)
                digit[i] = kas_ix_add(ir, digit[i], kas_ix_div(ir, flat, inside));
        }
    }
    for (int i = 0; i < t.rhs_count; i++)
        rhs_idx[kas_lower_dim(l, rhs, t.prefix + i)] = digit[i];
    return count;
}

void kas_lower_broadcast_gradient(kas_lower *l, int node)
{
    kas_ir *ir = l->ir;
    const kas_node *n = &l->kernel->node[node];
    kas_ix idx[KAS_IR_RANK], rhs_idx[KAS_IR_RANK];
    int var[KAS_MAX_DIMS + 1];

    kas_lower_vars(l, n->in[1], idx);
    const int rhs_q = kas_lower_q_var(l, node, n->in[1]);
    idx[KAS_DIM_Q] = kas_ix_var(ir, rhs_q);
    kas_ex e = operand_gradient(l, node, 1, idx);
    kas_lower_contribute(l, n->in[1], kas_lower_sum_q(l, node, n->in[1], rhs_q, e));

    kas_lower_vars(l, n->in[0], idx);
    const int lhs_q = kas_lower_q_var(l, node, n->in[0]);
    idx[KAS_DIM_Q] = kas_ix_var(ir, lhs_q);
    const int count = readers(l, node, idx, rhs_idx, var);
    e = operand_gradient(l, node, 0, rhs_idx);
    e = kas_lower_sum_q(l, node, n->in[0], lhs_q, e);
    const kas_ir_tensor lhs = ir->tensor[l->tensor[n->in[0]]];
    kas_lower_contribute(l, n->in[0], kas_lower_sum(l, lhs.rank, lhs.var, count, var, e));
}

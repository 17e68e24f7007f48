/* bmm, the matrix product of two data tensors: chooses the way, and has the loops of our own. */
#include "jit/lower/lower_bmm.h"

#include <math.h>

enum {
    LIBRARY_SIDE = 8, /* fewest rows, columns and depth for which a library pays */
    /* Most channels of one pixel of its operands, all batches together */
    LIBRARY_CHANNELS = INT32_MAX / 2,
};

static int64_t elements(const kas_lower *l, const kas_matrix *m, int from, int to)
{
    int64_t product = 1;
    for (int i = from; i < to; i++)
        product *= l->size[m->dims][i];
    return product;
}

static kas_matrix matrix_of(const kas_lower *l, int node, int dims, int batch, int cut, bool t)
{
    return (kas_matrix){.node = node,
                        .dims = dims,
                        .batch = batch,
                        .cut = cut,
                        .rank = l->rank[dims],
                        .transposed = t};
}

/* Describes the product of a node. */
static kas_lowered_bmm product_of(kas_lower *l, int node)
{
    const kas_node *n = &l->kernel->node[node];
    const int lhs = n->in[0], rhs = n->in[1];
    kas_lowered_bmm b = {0};
    kas_product p;
    const kas_status status = kas_product_align(l->kernel, node, &p);
    if (status != KAS_OK) {
        kas_ir_fail(l->ir, status);
        return b;
    }
    b.lhs = matrix_of(l, lhs, lhs, p.batch, p.cut[0], n->transpose & KAS_TRANSPOSE_LHS);
    b.rhs = matrix_of(l, rhs, rhs, p.batch, p.cut[1], n->transpose & KAS_TRANSPOSE_RHS);
    b.value = matrix_of(l, n->softmax ? KAS_WITHIN + node : node, node, p.batch,
                        p.batch + kas_product_kept(l->kernel, node, &p), false);
    b.q = kas_lower_q(l, lhs) > kas_lower_q(l, rhs) ? kas_lower_q(l, lhs) : kas_lower_q(l, rhs);
    b.m = elements(l, &b.value, b.value.batch, b.value.cut);
    b.n = elements(l, &b.value, b.value.cut, b.value.rank);
    b.k = b.lhs.transposed ? elements(l, &b.lhs, b.lhs.batch, b.lhs.cut)
                           : elements(l, &b.lhs, b.lhs.cut, b.lhs.rank);
    b.scale = 1 / sqrt((double)b.k);
    b.batch_size[b.batches++] = l->batch;
    b.batch_size[b.batches++] = b.q;
    b.batch_size[b.batches++] = l->target->parts_in;
    for (int i = 0; i < p.batch; i++)
        b.batch_size[b.batches++] = l->size[node][i];
    b.batch_elements = 1;
    for (int i = 0; i < b.batches; i++)
        b.batch_elements *= b.batch_size[i];
    return b;
}

/* Collects coordinates and sizes of dims [from, to) of a matrix. */
static int gather(const kas_lower *l, const kas_matrix *m, int from, int to, const kas_ix *idx,
                  kas_ix *at, int64_t *size)
{
    for (int i = from; i < to; i++) {
        size[i - from] = l->size[m->dims][i];
        if (idx)
            at[i - from] = idx[kas_lower_dim(l, m->dims, i)];
    }
    return to - from;
}

void kas_bmm_split(kas_lower *l, const kas_matrix *m, const kas_ix *idx, kas_batch_index *batch,
                   kas_ix *first, kas_ix *second)
{
    kas_ix at[KAS_MAX_DIMS] = {0};
    int64_t size[KAS_MAX_DIMS] = {0};
    batch->at[0] = idx[KAS_DIM_N];
    batch->at[1] = idx[KAS_DIM_Q];
    batch->at[2] = idx[KAS_DIM_P];
    for (int i = 0; i < m->batch; i++)
        batch->at[3 + i] = idx[KAS_DIM_C + i];
    int count = gather(l, m, m->batch, m->cut, idx, at, size);
    *(m->transposed ? second : first) = kas_ix_flatten(l->ir, count, size, at);
    count = gather(l, m, m->cut, m->rank, idx, at, size);
    *(m->transposed ? first : second) = kas_ix_flatten(l->ir, count, size, at);
}

static void scatter(kas_lower *l, const kas_matrix *m, int from, int to, kas_ix flat, kas_ix *idx)
{
    kas_ix at[KAS_MAX_DIMS] = {0};
    int64_t size[KAS_MAX_DIMS] = {0};
    const int count = gather(l, m, from, to, NULL, at, size);
    kas_ix_unflatten(l->ir, flat, count, size, at);
    for (int i = from; i < to; i++)
        idx[kas_lower_dim(l, m->dims, i)] = at[i - from];
}

void kas_bmm_join(kas_lower *l, const kas_matrix *m, const kas_batch_index *batch, kas_ix first,
                  kas_ix second, kas_ix *idx)
{
    idx[KAS_DIM_N] = batch->at[0];
    idx[KAS_DIM_H] = idx[KAS_DIM_W] = 0;
    idx[KAS_DIM_Q] = batch->at[1];
    idx[KAS_DIM_P] = batch->at[2];
    for (int i = 0; i < m->batch; i++)
        idx[KAS_DIM_C + i] = batch->at[3 + i];
    scatter(l, m, m->batch, m->cut, m->transposed ? second : first, idx);
    scatter(l, m, m->cut, m->rank, m->transposed ? first : second, idx);
}

static bool library_pays(const kas_lowered_bmm *b)
{
    const int64_t widest = b->k > b->n ? b->k : b->n;
    return b->m >= LIBRARY_SIDE && b->n >= LIBRARY_SIDE && b->k >= LIBRARY_SIDE &&
           b->batch_elements <= LIBRARY_CHANNELS / widest;
}

kas_ex kas_bmm_scaled(kas_lower *l, const kas_lowered_bmm *b, kas_ex e)
{
    return kas_ex_binary(l->ir, KAS_FN_MUL, kas_ex_const(l->ir, b->scale), e);
}

/* value[m][n] = scale * sum over k */
static void loops(kas_lower *l, const kas_lowered_bmm *b)
{
    kas_ix idx[KAS_IR_RANK], lhs[KAS_IR_RANK], rhs[KAS_IR_RANK], m, n;
    kas_batch_index batch;
    const int k = kas_ir_loop_var(l->ir, b->k);
    const kas_ir_tensor t = l->ir->tensor[l->tensor[b->value.node]];
    kas_lower_vars(l, b->value.node, idx);
    kas_bmm_split(l, &b->value, idx, &batch, &m, &n);
    kas_bmm_join(l, &b->lhs, &batch, m, kas_ix_var(l->ir, k), lhs);
    kas_bmm_join(l, &b->rhs, &batch, kas_ix_var(l->ir, k), n, rhs);
    const kas_ex product = kas_ex_binary(l->ir, KAS_FN_MUL, kas_lower_read(l, b->lhs.node, lhs),
                                         kas_lower_read(l, b->rhs.node, rhs));
    const kas_ex sum = kas_lower_sum(l, t.rank, t.var, 1, &k, product);
    l->ir->tensor[l->tensor[b->value.node]].def = kas_bmm_scaled(l, b, sum);
}

/* dlhs[m][k] = scale * sum over n of dvalue[m][n] * rhs[k][n]; drhs[k][n] likewise over m. */
static void loops_gradient(kas_lower *l, const kas_lowered_bmm *b, bool of_lhs)
{
    const kas_matrix *to = of_lhs ? &b->lhs : &b->rhs, *other = of_lhs ? &b->rhs : &b->lhs;
    kas_ix idx[KAS_IR_RANK], value[KAS_IR_RANK], partner[KAS_IR_RANK], first, second;
    kas_batch_index batch;
    const int v = kas_ir_loop_var(l->ir, of_lhs ? b->n : b->m);
    const kas_ix over = kas_ix_var(l->ir, v);
    const kas_ir_tensor t = l->ir->tensor[l->tensor[to->node]];
    kas_lower_vars(l, to->node, idx);
    const int q = kas_lower_q_var(l, b->value.node, to->node);
    idx[KAS_DIM_Q] = kas_ix_var(l->ir, q);
    kas_bmm_split(l, to, idx, &batch, &first, &second);
    const kas_ix k = of_lhs ? second : first;
    kas_bmm_join(l, &b->value, &batch, of_lhs ? first : over, of_lhs ? over : second, value);
    kas_bmm_join(l, other, &batch, of_lhs ? k : over, of_lhs ? over : k, partner);
    kas_ex e = kas_ex_binary(l->ir, KAS_FN_MUL, kas_lower_read_gradient(l, b->value.node, value),
                             kas_lower_read(l, other->node, partner));
    e = kas_lower_sum_q(l, b->value.node, to->node, q, e);
    kas_lower_contribute(l, to->node,
                         kas_bmm_scaled(l, b, kas_lower_sum(l, t.rank, t.var, 1, &v, e)));
}

/* Returns the span of the softmax, which runs along the columns of the value. */
static kas_span columns(const kas_lowered_bmm *b, int node)
{
    return (kas_span){node, b->value.node, b->value.cut, b->value.rank};
}

void kas_lower_bmm(kas_lower *l, int node)
{
    const kas_lowered_bmm b = product_of(l, node);
    if (l->ir->status != KAS_OK)
        return;
    l->tensor[b.value.node] = kas_lower_result(l, node, b.q);
    if (library_pays(&b))
        kas_bmm_library(l, &b, node);
    else
        loops(l, &b);
    if (b.value.node != node) {
        const kas_span span = columns(&b, node);
        kas_lower_softmax_of(l, &span);
    }
}

void kas_lower_bmm_gradient(kas_lower *l, int node)
{
    const kas_lowered_bmm b = product_of(l, node);
    if (b.value.node != node) {
        const kas_span span = columns(&b, node);
        kas_lower_softmax_gradient_of(l, &span);
        kas_lower_sum_gradient(l, b.value.node);
    }
    if (l->packed[node][0]) {
        kas_bmm_library_gradient(l, &b, node);
        return;
    }
    loops_gradient(l, &b, true);
    loops_gradient(l, &b, false);
}

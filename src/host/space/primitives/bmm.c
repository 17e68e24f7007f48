/* bmm: a batch of matrix products of two data tensors (docs/primitives.md). */
#include "host/space/primitive.h"

/* Returns the number of leading dims that are group dims of both operands with equal sizes. */
static int batch_dims(const kas_shape *lhs, const kas_shape *rhs)
{
    int b = 0;
    while (b < lhs->channels && b < rhs->channels && lhs->is_group[b] && rhs->is_group[b] &&
           kas_dim_equal(&lhs->channel[b], &rhs->channel[b]))
        b++;
    return b;
}

static bool has_columns(const kas_shape *shape)
{
    return kas_shape_rank(shape) > shape->channels;
}

static kas_status product_of(const kas_kernel *kernel, int i, const kas_shape *shape, int from,
                             int to, kas_dim *out)
{
    return kas_shape_product(shape, from, to, out)
               ? KAS_OK
               : kas_node_fail(kernel, i, "a product of sizes leaves its range");
}

/* Cuts a tensor without H and W where its contracted part has the size of the other operand's; the
 * shortest part that does is taken. */
static kas_status cut_channels(const kas_kernel *kernel, int i, const kas_shape *shape, int batch,
                               bool rows_contracted, const kas_dim *wanted, int *cut)
{
    for (int length = 1; length <= shape->channels - batch; length++) {
        kas_dim size;
        *cut = rows_contracted ? batch + length : shape->channels - length;
        KAS_TRY(rows_contracted ? product_of(kernel, i, shape, batch, *cut, &size)
                                : product_of(kernel, i, shape, *cut, shape->channels, &size));
        if (kas_dim_equal(&size, wanted))
            return KAS_OK;
    }
    return kas_node_fail(kernel, i,
                         "no %s dims of an operand without H and W have the size that "
                         "the other contracts",
                         rows_contracted ? "first" : "last");
}

/* Finds the dims [from, to) of operand `side` that are contracted. */
static void contracted_range(const kas_shape *shape, const kas_product *p, int side, bool rows,
                             int *from, int *to)
{
    *from = rows ? p->batch : p->cut[side];
    *to = rows ? p->cut[side] : kas_shape_rank(shape);
}

kas_status kas_product_align(const kas_kernel *kernel, int i, kas_product *out)
{
    const kas_node *node = &kernel->node[i];
    const kas_shape *shape[2] = {kas_node_input(kernel, i, 0), kas_node_input(kernel, i, 1)};
    const bool rows[2] = {node->transpose & KAS_TRANSPOSE_LHS,
                          !(node->transpose & KAS_TRANSPOSE_RHS)};
    const int known = has_columns(shape[0]) ? 0 : 1, other = 1 - known;
    kas_dim size;
    int from, to;
    if (!has_columns(shape[known]))
        return kas_node_fail(
            kernel, i, "neither operand has H or W, so it is not defined where a matrix ends");
    out->batch = batch_dims(shape[0], shape[1]);
    out->cut[known] = shape[known]->channels;
    contracted_range(shape[known], out, known, rows[known], &from, &to);
    KAS_TRY(product_of(kernel, i, shape[known], from, to, &out->contracted));
    if (from == to)
        return kas_node_fail(kernel, i, "an operand has no channel dims left to contract");
    if (!has_columns(shape[other]))
        return cut_channels(kernel, i, shape[other], out->batch, rows[other], &out->contracted,
                            &out->cut[other]);
    out->cut[other] = shape[other]->channels;
    contracted_range(shape[other], out, other, rows[other], &from, &to);
    KAS_TRY(product_of(kernel, i, shape[other], from, to, &size));
    if (from == to || !kas_dim_equal(&size, &out->contracted))
        return kas_node_fail(kernel, i, "the operands contract different sizes");
    return KAS_OK;
}

/* Appends kept dims of an operand to the result as channel dims, whatever they were. */
static kas_status keep(kas_kernel *kernel, int i, const kas_shape *from, int begin, int end)
{
    kas_shape *shape = &kernel->node[i].shape;
    for (int d = begin; d < end; d++) {
        kas_dim dim = kas_shape_dim(from, d);
        bool is_group = d < from->channels && from->is_group[d];
        if (kas_shape_insert(shape, shape->channels, &dim, is_group) != KAS_OK)
            return kas_node_fail(kernel, i, "the result would have more than %d channel dims",
                                 KAS_MAX_CHANNEL_DIMS);
    }
    return KAS_OK;
}

/* Returns whether the rows are pixels that an earlier product made channel dims: along H,
 * W or both. */
static bool are_pixels(const kas_shape *shape, int begin, int end)
{
    const kas_dim h = kas_dim_symbol(KAS_SYM_H), w = kas_dim_symbol(KAS_SYM_W);
    int at = begin;
    if (at < end && kas_dim_equal(&shape->channel[at], &h))
        at++;
    if (at < end && kas_dim_equal(&shape->channel[at], &w))
        at++;
    return at == end && begin < end;
}

/* Appends what is kept of the RHS: columns stay what they are, and rows that are pixels become H
 * and W again. */
static kas_status keep_rhs(kas_kernel *kernel, int i, const kas_shape *rhs, const kas_product *p)
{
    kas_shape *shape = &kernel->node[i].shape;
    if (!(kernel->node[i].transpose & KAS_TRANSPOSE_RHS)) {
        for (int axis = 0; axis < 2; axis++)
            shape->spatial[axis] = rhs->spatial[axis];
        return keep(kernel, i, rhs, p->cut[1], rhs->channels);
    }
    if (!are_pixels(rhs, p->batch, p->cut[1]))
        return keep(kernel, i, rhs, p->batch, p->cut[1]);
    for (int d = p->batch; d < p->cut[1]; d++)
        shape->spatial[rhs->channel[d].exp[KAS_SYM_W] != 0] = rhs->channel[d];
    return KAS_OK;
}

kas_status kas_infer_bmm(kas_kernel *kernel, int i)
{
    kas_node *node = &kernel->node[i];
    const kas_shape *lhs = kas_node_input(kernel, i, 0), *rhs = kas_node_input(kernel, i, 1);
    kas_product p;
    if (node->transpose > (KAS_TRANSPOSE_LHS | KAS_TRANSPOSE_RHS) || node->softmax > 1)
        return kas_node_fail(kernel, i, "transpose and softmax are out of range");
    KAS_TRY(kas_product_align(kernel, i, &p));
    KAS_TRY(keep(kernel, i, lhs, 0, p.batch));
    if (node->transpose & KAS_TRANSPOSE_LHS)
        KAS_TRY(keep(kernel, i, lhs, p.cut[0], kas_shape_rank(lhs)));
    else
        KAS_TRY(keep(kernel, i, lhs, p.batch, p.cut[0]));
    return keep_rhs(kernel, i, rhs, &p);
}

int kas_product_kept(const kas_kernel *kernel, int i, const kas_product *p)
{
    const kas_shape *lhs = kas_node_input(kernel, i, 0);
    return kernel->node[i].transpose & KAS_TRANSPOSE_LHS ? kas_shape_rank(lhs) - p->cut[0]
                                                         : p->cut[0] - p->batch;
}

/* The cost: a multiply-add for each contracted position of every element, and one FLOP more
 * with a softmax. */
kas_status kas_cost_bmm(const kas_kernel *kernel, int i, kas_cost_terms *terms)
{
    kas_product p;
    kas_dim flops;
    KAS_TRY(kas_product_align(kernel, i, &p));
    if (!kas_shape_size(&kernel->node[i].shape, &flops) ||
        !kas_dim_mul(&flops, &p.contracted, &flops))
        return kas_node_fail(kernel, i, "the number of FLOPs leaves its range");
    KAS_TRY(kas_cost_add(terms, KAS_COST_FLOPS, &flops));
    return kernel->node[i].softmax ? kas_cost_result(kernel, i, terms) : KAS_OK;
}

/* What softmax and norm share: dims to reduce over, and tensors in which these dims have size 1. */
#include <string.h>

#include "jit/lower/lower.h"
#include "jit/schedule/rows.h"

kas_span kas_lower_span(const kas_lower *l, int node)
{
    const kas_node *n = &l->kernel->node[node];
    return (kas_span){node, n->in[0], n->dim, n->dim_end};
}

/* Dims are reduced outermost first: H and W lie outside the channels, and taps may, too. */
static void sort_dims(const kas_ir_tensor *in, kas_along *dims)
{
    int order[KAS_IR_RANK], place[KAS_IR_RANK];
    kas_ir_memory_order(in, order);
    for (int i = 0; i < in->rank; i++)
        place[order[i]] = i;
    for (int i = 1; i < dims->count; i++)
        for (int j = i; j > 0 && place[dims->dim[j]] < place[dims->dim[j - 1]]; j--) {
            int d = dims->dim[j];
            dims->dim[j] = dims->dim[j - 1];
            dims->dim[j - 1] = d;
        }
}

kas_along kas_lower_along(kas_lower *l, const kas_span *span)
{
    const kas_ir_tensor in = l->ir->tensor[l->tensor[span->operand]];
    kas_along dims = {.rank = in.rank, .elements = 1};
    memcpy(dims.size, in.size, sizeof dims.size);
    dims.ahead = in.ahead;
    for (int i = span->dim; i < span->dim_end; i++)
        dims.dim[dims.count++] = kas_lower_dim(l, span->node, i);
    sort_dims(&in, &dims);
    for (int i = 0; i < dims.count; i++) {
        const int64_t extent = in.size[dims.dim[i]];
        dims.var[i] = kas_ir_loop_var(l->ir, extent);
        dims.elements *= extent;
        dims.size[dims.dim[i]] = 1;
    }
    return dims;
}

int kas_lower_along_tensor(kas_lower *l, const kas_along *dims, kas_ix *idx)
{
    const int tensor = kas_lower_tensor(l, dims->size, dims->rank);
    kas_ir_put_ahead(l->ir, tensor, dims->ahead);
    l->ir->tensor[tensor].along = dims->elements;
    l->ir->tensor[tensor].dtype = KAS_F32; /* few values, and many depend on them */
    kas_ir_own_index(l->ir, tensor, idx);
    for (int i = 0; i < dims->count; i++)
        idx[dims->dim[i]] = kas_ix_var(l->ir, dims->var[i]);
    return tensor;
}

/* Returns whether the elements may become a row or a column of one kernel (rows.h): the trailing
 * channels may, others where registers hold a column or columns are so many that memory is busy. */
static bool may_be_row(const kas_along *dims, int64_t results)
{
    enum { COLUMNS_ENOUGH = 131072 };
    const bool trailing = dims->count > 0 && dims->dim[0] >= KAS_DIM_C &&
                          dims->dim[dims->count - 1] == dims->rank - 1;
    return dims->elements <= KAS_ROW_MOST &&
           (trailing || dims->elements <= KAS_COLUMN_KEPT || results >= COLUMNS_ENOUGH);
}

uint64_t kas_lower_alongs_left(const kas_lower *l)
{
    enum { MOST = KAS_LOWER_ALONGS - 1 }; /* the last number stands for all others */
    uint64_t left = 0;
    for (int i = 0; i < l->alongs && i < MOST; i++) {
        const kas_ir_tensor *t = &l->ir->tensor[l->along_tensor[i]];
        if (t->along > 0 && t->materialised && t->row_owner < 0 && t->row_var < 0)
            left |= UINT64_C(1) << i;
    }
    return left;
}

static int next_along(const kas_lower *l)
{
    return l->alongs < KAS_LOWER_ALONGS ? l->alongs : KAS_LOWER_ALONGS - 1;
}

bool kas_lower_along_is_left(const kas_lower *l)
{
    return l->left >> next_along(l) & 1;
}

kas_ex kas_lower_along_reduce(kas_lower *l, kas_fn fn, const kas_along *dims, int tensor,
                              kas_ex body)
{
    const kas_ir_tensor t = l->ir->tensor[tensor];
    const bool whole = l->linear_policy == KAS_LINEAR_CPU ||
                       (may_be_row(dims, t.elements) && !kas_lower_along_is_left(l));
    l->along_tensor[next_along(l)] = tensor;
    l->alongs = next_along(l) + 1;
    if (!whole)
        l->ir->tensor[tensor].along = 0; /* it has kernels of its own */
    return kas_lower_reduce(l, fn, whole, t.rank, t.var, dims->count, dims->var, body);
}

/* Long sums and maxima with few results, in two stages. */
#include <string.h>

#include "jit/lower/lower.h"

enum {
    SMALL_RESULT = 16384, /* elements with which a GPU has threads enough */
    LONG_SUM = 512,
    SHORT_REST = 16 /* terms that one partial sum should have at least */
};

static kas_ex nest(kas_ir *ir, kas_fn fn, int vars, const int *var, kas_ex body)
{
    for (int i = vars - 1; i >= 0; i--)
        body = kas_ex_reduce(ir, fn, var[i], body);
    return body;
}

/* Returns how many of the outer variables become dims of the partial sums. */
static int kept_vars(const kas_ir *ir, int64_t results, int vars, const int *var)
{
    int64_t length = 1, chunks = 1;
    for (int i = 0; i < vars; i++)
        length *= ir->var_size[var[i]];
    if (results >= SMALL_RESULT || length < LONG_SUM)
        return 0;
    int kept = 0;
    while (kept < vars && chunks * results < SMALL_RESULT &&
           length / (chunks * ir->var_size[var[kept]]) >= SHORT_REST)
        chunks *= ir->var_size[var[kept++]];
    return kept;
}

kas_ex kas_lower_reduce(kas_lower *l, kas_fn fn, int out_rank, const int *out_var, int vars,
                        const int *var, kas_ex body)
{
    kas_ir *ir = l->ir;
    int used[KAS_IR_RANK], count = 0;
    for (int i = 0; i < vars; i++)
        if (var[i] >= 0)
            used[count++] = var[i];
    int64_t size[KAS_IR_RANK], results = 1;
    for (int d = 0; d < out_rank; d++)
        results *= out_var[d] < 0 ? 1 : ir->var_size[out_var[d]];
    const int kept = kept_vars(ir, results, count, used);
    if (kept == 0 || kept + out_rank > KAS_IR_RANK)
        return nest(ir, fn, count, used, body);
    /* The partial sums, [kept variables...][result...], use the very variables of the body. */
    int formal[KAS_IR_RANK];
    memcpy(formal, used, sizeof *used * (size_t)kept);
    memcpy(formal + kept, out_var, sizeof *out_var * (size_t)out_rank);
    for (int d = 0; d < kept + out_rank; d++)
        size[d] = formal[d] < 0 ? 1 : ir->var_size[formal[d]];
    const int partial = kas_ir_add_tensor(ir, KAS_TENSOR_DEF, kept + out_rank, size, 0);
    memcpy(ir->tensor[partial].var, formal, sizeof *formal * (size_t)(kept + out_rank));
    ir->tensor[partial].def = nest(ir, fn, count - kept, used + kept, body);
    int chunk[KAS_IR_RANK];
    kas_ix idx[KAS_IR_RANK];
    for (int d = 0; d < kept + out_rank; d++) {
        if (d < kept)
            chunk[d] = kas_ir_var(ir, size[d]);
        idx[d] = kas_ix_var(ir, d < kept ? chunk[d] : formal[d]);
    }
    return nest(ir, fn, kept, chunk, kas_ex_read(ir, partial, idx));
}

kas_ex kas_lower_sum(kas_lower *l, int out_rank, const int *out_var, int vars, const int *var,
                     kas_ex body)
{
    return kas_lower_reduce(l, KAS_FN_REDUCE_SUM, out_rank, out_var, vars, var, body);
}

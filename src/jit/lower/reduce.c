/* Long sums and maxima with few results, in stages.
 *
 * A lane computes one result, so few results leave most of a GPU idle, and a lane that adds up many
 * terms waits for memory again and again. So the loops of a long reduction are cut in two: partial
 * results over the inner part, in parallel, and their total,
 *
 *     y[c] = sum(n, h, w) f(n, h, w, c)
 *          = sum(n, h') p[n, h', c],  p[n, h', c] = sum(h'', w) f(n, 14 h' + h'', w, c)
 *
 * On the CPU device whole loops are cut, and the total is one loop more: its lanes are few, and it
 * waits for nothing. On a GPU a loop is cut anywhere, so that the inner part is short enough to be
 * unrolled inside a lane, with all loads under way at once; and the total is cut likewise, until it
 * is that short too. A stage more costs a launch, which is what 10 reads cost, one behind the
 * other. */
#include <string.h>

#include "host/core/gcd.h"
#include "jit/lower/lower.h"

enum {
    FEW_RESULTS = 16384, /* with which the CPU device has work for all of its threads */
    LONG_SUM = 512,
    SHORT_REST = 16, /* terms that one partial sum should have at least */
    /* On a GPU: results with which memory is busy although a lane waits for one load at a time */
    LANES_ENOUGH = 131072,
    STAGED_SUM = 32, /* fewest terms for which a launch more pays */
    UNROLLED = 25,   /* most terms of a stage that is unrolled inside a lane (schedule.c) */
    /* The same where that leaves lanes enough: memory is busy, and partial results are few */
    LOOPED = 64
};

/* Where the loops are cut: the first `kept` become dims of the partial results, and of the next one
 * all but its `inner` innermost turns; inner 0: that one stays whole. */
typedef struct cut {
    int kept;
    int64_t inner;
} cut;

static int64_t length_of(const kas_ir *ir, int vars, const int *var)
{
    int64_t length = 1;
    for (int i = 0; i < vars; i++)
        length *= ir->var_size[var[i]];
    return length;
}

static cut cut_between_loops(const kas_ir *ir, int64_t results, int vars, const int *var)
{
    const int64_t length = length_of(ir, vars, var);
    int64_t chunks = 1;
    cut c = {0};
    if (results >= FEW_RESULTS || length < LONG_SUM)
        return c;
    while (c.kept < vars && chunks * results < FEW_RESULTS &&
           length / (chunks * ir->var_size[var[c.kept]]) >= SHORT_REST)
        chunks *= ir->var_size[var[c.kept++]];
    return c;
}

/* Leaves at most `most` turns inside, or a whole loop whose size has no divisor that is small
 * enough. */
static cut cut_anywhere(const kas_ir *ir, int vars, const int *var, int64_t most)
{
    int64_t inside = 1;
    int at = vars;
    while (at > 0 && inside * ir->var_size[var[at - 1]] <= most)
        inside *= ir->var_size[var[--at]];
    if (at == 0)
        return (cut){0};
    const int64_t inner = kas_divisor_within(ir->var_size[var[at - 1]], most / inside);
    if (inner > 1)
        return (cut){at - 1, inner};
    return (cut){inside > 1 ? at : at - 1, 0};
}

static cut cut_of(const kas_lower *l, int64_t results, int vars, const int *var, int64_t least)
{
    const kas_ir *ir = l->ir;
    const int64_t length = length_of(ir, vars, var);
    if (results >= LANES_ENOUGH || length < least)
        return (cut){0};
    const bool busy = results * length >= (int64_t)LANES_ENOUGH * LOOPED;
    return cut_anywhere(ir, vars, var, busy ? LOOPED : UNROLLED);
}

typedef struct neighbours {
    const kas_ir *ir;
    int out_rank, vars;
    const int *out_var, *var;
    int found;   /* index in `var` of the loop that walks through neighbouring elements, or -1 */
    bool across; /* neighbours belong to different results */
} neighbours;

/* Returns the number of the last variable on which an index depends, or -1. */
static int depends_on(const kas_ir *ir, kas_ix ix, int vars, const int *var)
{
    int i = vars - 1;
    while (i >= 0 && (var[i] < 0 || !kas_ix_has_var(ir, ix, var[i])))
        i--;
    return i;
}

static void see_read(void *context, kas_ex e, const kas_ex_node *node)
{
    neighbours *n = context;
    bool reduced = false;
    (void)e;
    if (node->kind != KAS_EX_READ)
        return;
    for (int d = 0; d < node->rank; d++)
        reduced |= depends_on(n->ir, node->idx[d], n->vars, n->var) >= 0;
    if (!reduced)
        return;
    const int last = kas_ir_innermost(&n->ir->tensor[node->tensor]);
    const int i = depends_on(n->ir, node->idx[last], n->vars, n->var);
    n->found = i >= 0 ? i : n->found;
    n->across |= depends_on(n->ir, node->idx[last], n->out_rank, n->out_var) >= 0;
}

/* Cuts between whole loops. Where neighbouring elements belong to one result, the loop through them
 * comes first: partial results are then those of neighbours, along which lanes run, and a lane does
 * not walk through what lies beside its other lanes. Writes the order of the loops to `order`. */
static cut cut_for_cpu(kas_lower *l, int64_t results, const neighbours *n, kas_ex body, int *order)
{
    neighbours seen = *n;
    kas_ir_fail(l->ir, kas_ex_visit(l->ir, body, see_read, &seen));
    memcpy(order, n->var, sizeof *order * (size_t)n->vars);
    if (seen.found > 0 && !seen.across) {
        memmove(order + 1, order, sizeof *order * (size_t)seen.found);
        order[0] = n->var[seen.found];
        const cut c = cut_between_loops(l->ir, results, n->vars, order);
        if (c.kept > 0)
            return c;
        memcpy(order, n->var, sizeof *order * (size_t)n->vars);
    }
    return cut_between_loops(l->ir, results, n->vars, order);
}

/* Reduces in stages where there are at least `least` terms; on the CPU device cut_for_cpu decides. */
static kas_ex staged(kas_lower *l, kas_fn fn, int out_rank, const int *out_var, int vars,
                     const int *loops, kas_ex body, int64_t least)
{
    kas_ir *ir = l->ir;
    int var[KAS_IR_RANK];
    int64_t size[KAS_IR_RANK], results = 1;
    for (int d = 0; d < out_rank; d++)
        results *= out_var[d] < 0 ? 1 : ir->var_size[out_var[d]];
    memcpy(var, loops, sizeof *var * (size_t)vars);
    const neighbours n = {ir, out_rank, vars, out_var, loops, -1, false};
    const bool cpu = l->linear_policy == KAS_LINEAR_CPU;
    const cut c =
        cpu ? cut_for_cpu(l, results, &n, body, var) : cut_of(l, results, vars, var, least);
    const int kept = c.kept + (c.inner > 0);
    if (kept == 0 || kept + out_rank > KAS_IR_RANK)
        return kas_ex_reduce_all(ir, fn, vars, var, body);
    /* The partial results, [kept variables...][result...], use the very variables of the body. */
    int formal[KAS_IR_RANK], inside[KAS_IR_RANK + 1];
    memcpy(formal, var, sizeof *var * (size_t)c.kept);
    memcpy(formal + kept, out_var, sizeof *out_var * (size_t)out_rank);
    memcpy(inside, var + c.kept, sizeof *var * (size_t)(vars - c.kept));
    if (c.inner > 0) {
        kas_subst s = {0};
        formal[c.kept] = kas_ir_var(ir, ir->var_size[var[c.kept]] / c.inner);
        inside[0] = kas_ir_var(ir, c.inner);
        kas_subst_add(ir, &s, var[c.kept],
                      kas_ix_add(ir, kas_ix_scale(ir, kas_ix_var(ir, formal[c.kept]), c.inner),
                                 kas_ix_var(ir, inside[0])));
        body = kas_ex_map(ir, body, &s, false);
    }
    for (int d = 0; d < kept + out_rank; d++)
        size[d] = formal[d] < 0 ? 1 : ir->var_size[formal[d]];
    const int partial = kas_ir_add_tensor(ir, KAS_TENSOR_DEF, kept + out_rank, size, 0);
    memcpy(ir->tensor[partial].var, formal, sizeof *formal * (size_t)(kept + out_rank));
    ir->tensor[partial].def = kas_ex_reduce_all(ir, fn, vars - c.kept, inside, body);
    ir->tensor[partial].parts = kept;
    int chunk[KAS_IR_RANK];
    kas_ix idx[KAS_IR_RANK];
    for (int d = 0; d < kept + out_rank; d++) {
        if (d < kept)
            chunk[d] = kas_ir_var(ir, size[d]);
        idx[d] = kas_ix_var(ir, d < kept ? chunk[d] : formal[d]);
    }
    const kas_ex total = kas_ex_read(ir, partial, idx);
    return cpu ? kas_ex_reduce_all(ir, fn, kept, chunk, total)
               : staged(l, fn, out_rank, out_var, kept, chunk, total, UNROLLED + 1);
}

int64_t kas_lower_chunk(const kas_lower *l, int64_t results, int64_t length)
{
    if (l->linear_policy == KAS_LINEAR_CPU || results >= LANES_ENOUGH || length < STAGED_SUM)
        return 0;
    const int64_t chunk = kas_divisor_within(length, UNROLLED);
    return chunk > 1 ? chunk : 0;
}

kas_ex kas_lower_reduce(kas_lower *l, kas_fn fn, bool whole, int out_rank, const int *out_var,
                        int vars, const int *var, kas_ex body)
{
    int used[KAS_IR_RANK], count = 0;
    for (int i = 0; i < vars; i++)
        if (var[i] >= 0)
            used[count++] = var[i];
    return whole && l->linear_policy != KAS_LINEAR_CPU
               ? kas_ex_reduce_all(l->ir, fn, count, used, body)
               : staged(l, fn, out_rank, out_var, count, used, body, STAGED_SUM);
}

kas_ex kas_lower_sum(kas_lower *l, int out_rank, const int *out_var, int vars, const int *var,
                     kas_ex body)
{
    return kas_lower_reduce(l, KAS_FN_REDUCE_SUM, false, out_rank, out_var, vars, var, body);
}

#include "jit/emit/emit_kept.h"

#include <stdlib.h>
#include <string.h>

/* Visits operands before what uses them. */
static void see_value(void *context, kas_ex x, const kas_ex_node *node)
{
    kas_kept *k = context;
    k->sums[x] = node->kind == KAS_EX_REDUCE;
    for (int i = 0; i < kas_ex_children(node) && node->kind != KAS_EX_ROW; i++)
        k->sums[x] |= k->sums[node->a[i]];
    if (node->kind != KAS_EX_ROW)
        return;
    if (k->reductions < KAS_KEPT_LOOPS)
        k->reduction[k->reductions] = x;
    k->reductions++;
}

/* Returns whether there is room for x from the loop that last has it to loop `phase`. */
static bool has_room(const kas_kept *k, kas_ex x, int phase)
{
    for (int i = k->keep[x] ? k->keep[x] : k->phase[x]; i < phase; i++)
        if (k->held[i] >= k->room)
            return false;
    return true;
}

/* Returns whether x is worth keeping. What is kept of a column lies in memory on the CPU, where a
 * sum or a product is computed again in less time. */
static bool is_worth_it(const kas_kept *k, kas_ex x)
{
    const kas_ex_node *node = kas_ex_get(k->emitter->ir, x);
    const bool computes = node->kind == KAS_EX_UNARY || node->kind == KAS_EX_BINARY;
    return k->emitter->nest->row || node->kind == KAS_EX_LOAD || node->kind == KAS_EX_REDUCE ||
           (computes && kas_fn_cost((kas_fn)node->fn) > 1);
}

static bool can_be_kept(kas_kept *k, kas_ex x, int phase)
{
    kas_emitter *e = k->emitter;
    const uint64_t mask = kas_masks_ex(&e->masks, x);
    return is_worth_it(k, x) && (mask & k->turns) && !(mask & ~k->loops) && has_room(k, x, phase) &&
           (k->sums[x] || !k->sums_first) && (e->nest->width == 1 || kas_emit_is_wide(e, x));
}

/* Returns whether x is kept until loop `phase`. */
static bool keep(kas_kept *k, kas_ex x, int phase)
{
    if (k->keep[x] >= phase)
        return true;
    if (!can_be_kept(k, x, phase))
        return false;
    for (int i = k->keep[x] ? k->keep[x] : k->phase[x]; i < phase; i++)
        k->held[i]++;
    k->keep[x] = (char)phase;
    return true;
}

/* Notes that loop `phase` needs x. */
static void need(kas_kept *k, kas_ex x, char phase)
{
    const kas_ex_node *node = kas_ex_get(k->emitter->ir, x);
    if (node->kind == KAS_EX_ROW || node->kind == KAS_EX_CONST || k->phase[x] == phase)
        return;
    if (k->phase[x] && keep(k, x, phase))
        return;
    if (!k->phase[x])
        k->phase[x] = phase;
    for (int i = 0; i < kas_ex_children(node); i++)
        need(k, node->a[i], phase);
}

/* Finds what is kept and which loop computes it. */
static void need_all(kas_kept *k, bool sums_first)
{
    kas_emitter *e = k->emitter;
    k->sums_first = sums_first;
    memset(k->phase, 0, (size_t)e->ir->exprs.count);
    for (int i = 0; i < k->reductions; i++)
        need(k, kas_ex_get(e->ir, k->reduction[i])->a[0], (char)(i + 1));
    need(k, e->nest->value, (char)(k->reductions + 1));
}

kas_status kas_kept_plan(kas_kept *k, kas_emitter *e, int var, int room)
{
    const size_t count = (size_t)e->ir->exprs.count;
    *k = (kas_kept){.emitter = e, .room = room};
    k->turns = UINT64_C(1) << kas_masks_index(&e->masks, var);
    k->loops = (UINT64_C(1) << e->nest->loops) - 1;
    k->phase = calloc(count, 1);
    k->keep = calloc(count, 1);
    k->sums = calloc(count, 1);
    if (!k->phase || !k->keep || !k->sums)
        return kas_fail(KAS_NO_MEMORY, "out of memory while a kernel was emitted");
    KAS_TRY(kas_ex_visit(e->ir, e->nest->value, see_value, k));
    if (k->reductions > KAS_KEPT_LOOPS)
        return kas_fail(KAS_UNSUPPORTED, "a fused kernel has more than %d reductions",
                        KAS_KEPT_LOOPS);
    need_all(k, true);
    need_all(k, false);
    return KAS_OK;
}

void kas_kept_free(kas_kept *k)
{
    free(k->phase);
    free(k->keep);
    free(k->sums);
}

bool kas_kept_from(const kas_kept *k, kas_ex x, int phase)
{
    return k->keep[x] && k->phase[x] == phase;
}

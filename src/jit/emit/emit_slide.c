/* A kernel whose windows slide (schedule/slide.c): the sums of all turns of the loop inside the
 * lanes are computed together, turn by turn within each tap, and the rest follows for each turn. */
#include "jit/emit/emitter.h"

#include <stdio.h>

enum { SLID = 2 }; /* beside 1 of emit.c */

static void close_turns(kas_emitter *e)
{
    kas_emit_close_loops(e, &e->nest->inner, 1);
}

static void declare(kas_emitter *e, int array, bool wide)
{
    const long long turns = (long long)e->ir->var_size[e->nest->inner];
    kas_emit_line(e, wide ? "KAS_WIDE_ROWS(s%d, %lld);" : "float s%d[%lld];", array, turns);
}

static void emit_sums(kas_emitter *e, kas_ex x)
{
    const kas_fn fn = (kas_fn)kas_ex_get(e->ir, x)->fn;
    const bool arg_too = fn == KAS_FN_REDUCE_ARGMAX, wide = kas_emit_is_wide(e, x);
    const int turn = kas_emit_var_name(e, e->nest->inner);
    int var[KAS_DEEP], vars;
    const kas_ex body = kas_emit_nest_of(e, x, var, &vars);
    const int index = e->lane_values++, acc = arg_too ? e->lane_values++ : index;
    char acc_text[40], index_text[40];
    const char *of = wide ? "KAS_EACH_VALUE(s%d[v%d])" : "s%d[v%d]";
    const char *set = wide ? "KAS_EACH(%s = %s;)" : "%s = %s;";
    snprintf(acc_text, sizeof acc_text, of, acc, turn);
    snprintf(index_text, sizeof index_text, of, index, turn);
    kas_nest_order_taps(e->ir, e->nest, body, var, vars);
    kas_emit_hoist(e, body, ++e->turns);
    for (int k = index; k <= acc; k++)
        declare(e, k, wide);
    kas_emit_open_turns(e);
    kas_emit_line(e, set, acc_text, kas_emit_first_value(fn));
    if (arg_too)
        kas_emit_line(e, set, index_text, "0.0f");
    close_turns(e);
    const int mark = kas_emit_leave_mark(e);
    kas_emit_open_loops(e, body, var, vars, true);
    kas_emit_open_turns(e);
    kas_emit_value(e, body);
    kas_emit_accumulate(e, fn, acc_text, index_text, body, var[0]);
    kas_emit_forget(e, mark);
    close_turns(e);
    kas_emit_close_loops(e, var, vars);
    e->name[x] = -2 - index;
}

void kas_emit_sliding(kas_emitter *e, kas_ex x)
{
    const uint64_t inner = UINT64_C(1) << kas_masks_index(&e->masks, e->nest->inner);
    const kas_ex_node *node = kas_ex_get(e->ir, x);
    if (e->phased[x] == SLID || e->name[x] != KAS_NOT_EMITTED)
        return;
    e->phased[x] = SLID;
    for (int i = 0; i < kas_ex_children(node); i++)
        kas_emit_sliding(e, node->a[i]);
    const uint64_t mask = kas_masks_ex(&e->masks, x);
    if (node->kind == KAS_EX_REDUCE && (mask & inner) && mask >> e->nest->loops == 0)
        emit_sums(e, x);
}

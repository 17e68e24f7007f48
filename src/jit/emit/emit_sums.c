/* Sums in the registers of a CPU: a term of each is a run of lanes times a number.
 *
 *     KAS_COLUMN_VALUE(s0, 8, 16, 1);                           8 pixels of 16 channels
 *     KAS_SUMS(q0, 8, 16, 16);
 *     for (int v4 = 0; v4 < 16; v4++) {
 *         const int v2 = KAS_FIRST_LANE(0);
 *         KAS_SUMS_LOAD(r0, 16, 16, p1, 16 * v4 + v2);
 *         KAS_UNROLL
 *         for (int v3 = 0; v3 < 8; v3++) {
 *             KAS_SUMS_ADD(q0, v3, 16, 16, r0, p0[64 * v3 + v4]);
 *         }
 *     }
 *     KAS_SUMS_KEEP(s0, q0, 8, 16, 16);
 *
 * A compiler keeps what a loop over lanes adds to in memory, with a load and a store for each
 * multiply-add; vectors of this form stay where they are (tile.h). */
#include "jit/emit/emitter.h"

enum { VECTOR = 16, HALF = 8, SUMS = 28 /* of 32 registers */ };

/* Returns the lanes of a vector; 0 where the sum cannot be kept in registers. */
static int vector_of(kas_emitter *e, kas_ex x, kas_ex body, kas_ex *run, kas_ex *number)
{
    const kas_nest *n = e->nest;
    const int width = n->lanes % VECTOR == 0 ? VECTOR : HALF;
    if (!e->ir->cpu || !kas_emit_has_turns(e, x) || n->width > 1 || n->tiles > 0 ||
        n->factored >= 0 || kas_ex_get(e->ir, x)->fn != KAS_FN_REDUCE_SUM || n->lanes % width ||
        e->ir->var_size[n->lane] % n->lanes ||
        n->lanes / width * e->ir->var_size[n->inner] > SUMS ||
        !kas_nest_product(e->ir, n, body, run, number))
        return 0;
    return width;
}

bool kas_emit_register_sum(kas_emitter *e, kas_ex x, kas_ex body, const int *var, int vars,
                           int index)
{
    const kas_nest *n = e->nest;
    kas_ex run, number;
    const int width = vector_of(e, x, body, &run, &number);
    if (width == 0)
        return false;
    const long long turns = (long long)e->ir->var_size[n->inner], lanes = (long long)n->lanes;
    const kas_ex_node *load = kas_ex_get(e->ir, run);
    kas_emit_line(e, "KAS_SUMS(q%d, %lld, %lld, %d);", index, turns, lanes, width);
    kas_emit_open_loops(e, body, var, vars, false);
    kas_emit_line(e, "const int v%d = KAS_FIRST_LANE(%s);", kas_emit_var_name(e, n->lane),
                  e->ir->var_size[n->lane] > n->lanes ? "first" : "0");
    kas_emit_start(e);
    kas_buf_printf(e->out, "KAS_SUMS_LOAD%s(r%d, %lld, %d, p%d, ",
                   kas_emit_is_real(e, load->tensor) ? "_REAL" : "", index, lanes, width,
                   kas_emit_arg(e, load->tensor));
    kas_emit_put_ix(e, load->ix);
    kas_buf_puts(e->out, ");\n");
    kas_emit_open_turns(e);
    kas_emit_start(e);
    kas_buf_printf(e->out, "KAS_SUMS_ADD(q%d, v%d, %lld, %d, r%d, ", index,
                   kas_emit_var_name(e, n->inner), lanes, width, index);
    kas_emit_put_load(e, kas_ex_get(e->ir, number));
    kas_buf_puts(e->out, ");\n");
    kas_emit_close_loops(e, &n->inner, 1);
    kas_emit_close_loops(e, var, vars);
    kas_emit_line(e, "KAS_SUMS_KEEP(s%d, q%d, %lld, %lld, %d);", index, index, turns, lanes, width);
    return true;
}

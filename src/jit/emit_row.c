/* A kernel whose lanes are a row (rows.h): one lane loop for each reduction, and one for the rest.
 *
 * What a loop computes and a later one needs is kept in a KAS_ROW_VALUE: the operand, which is read
 * once, and what is costly or not; a register costs less than either.  Where there is no room for
 * all of it, what a reduction inside the lanes made (a window sum) comes first: to compute that
 * again is to read all that it sums up. */
#include <stdlib.h>
#include <string.h>

#include "jit/emitter.h"

enum {
    MOST_ROWS = 16,
    KEPT = 96 /* registers for what is kept; beyond it is computed, or read, again */
};

typedef struct row {
    kas_emitter *emitter;
    uint64_t lane, loops; /* masks: of the lanes, of all loops of the kernel */
    kas_ex reduction[MOST_ROWS];
    int reductions;
    char *phase; /* by kas_ex: which loop computes it, from 1; 0 = none yet */
    char *keep;  /* by kas_ex */
    char *sums;  /* by kas_ex: holds a reduction inside the lanes */
    bool sums_first;
    int kept, room;
} row;

/* Operands come first. */
static void see_value(void *context, kas_ex x, const kas_ex_node *node)
{
    row *r = context;
    r->sums[x] = node->kind == KAS_EX_REDUCE;
    for (int i = 0; i < kas_ex_children(node) && node->kind != KAS_EX_ROW; i++)
        r->sums[x] |= r->sums[node->a[i]];
    if (node->kind != KAS_EX_ROW)
        return;
    if (r->reductions < MOST_ROWS)
        r->reduction[r->reductions] = x;
    r->reductions++;
}

static bool can_be_kept(row *r, kas_ex x)
{
    kas_emitter *e = r->emitter;
    const uint64_t mask = kas_masks_ex(&e->masks, x);
    return (mask & r->lane) && !(mask & ~r->loops) && r->kept < r->room &&
           (r->sums[x] || !r->sums_first) && (e->nest->width == 1 || kas_emit_is_wide(e, x));
}

static bool keep(row *r, kas_ex x)
{
    if (!r->keep[x] && can_be_kept(r, x)) {
        r->keep[x] = 1;
        r->kept++;
    }
    return r->keep[x];
}

/* Loop `phase` needs x. */
static void need(row *r, kas_ex x, char phase)
{
    const kas_ex_node *node = kas_ex_get(r->emitter->ir, x);
    if (node->kind == KAS_EX_ROW || node->kind == KAS_EX_CONST || r->phase[x] == phase)
        return;
    if (r->phase[x] && keep(r, x))
        return;
    if (!r->phase[x])
        r->phase[x] = phase;
    for (int i = 0; i < kas_ex_children(node); i++)
        need(r, node->a[i], phase);
}

/* Finds what is kept, and which loop computes it. */
static void need_all(row *r, bool sums_first)
{
    kas_emitter *e = r->emitter;
    r->sums_first = sums_first;
    memset(r->phase, 0, (size_t)e->ir->exprs.count);
    for (int i = 0; i < r->reductions; i++)
        need(r, kas_ex_get(e->ir, r->reduction[i])->a[0], (char)(i + 1));
    need(r, e->nest->value, (char)(r->reductions + 1));
}

static long long threads(const kas_emitter *e)
{
    return e->nest->block[0];
}

static void open_lanes(row *r)
{
    kas_emitter *e = r->emitter;
    kas_emit_line(e, "KAS_%sROW_LANES (i, %lld, %lld) {", e->nest->width > 1 ? "WIDE_" : "",
                  (long long)e->nest->lanes, threads(e));
    e->indent++;
    kas_emit_line(e, "const int v%d = i;", kas_emit_var_name(e, e->nest->lane));
    e->open |= r->lane;
}

static void close_lanes(row *r)
{
    kas_emit_close_block(r->emitter);
    r->emitter->open &= ~r->lane;
}

static const char *width_text(const kas_emitter *e)
{
    return e->nest->width > 1 ? "KAS_WIDTH" : "1";
}

static int declare(kas_emitter *e)
{
    const int array = e->lane_values++;
    kas_emit_line(e, "KAS_ROW_VALUE(s%d, %lld, %lld, %s);", array, (long long)e->nest->lanes,
                  threads(e), width_text(e));
    return array;
}

static void put_kept(kas_emitter *e, int array, kas_ex x)
{
    const bool wide = e->nest->width > 1;
    kas_emit_start(e);
    kas_buf_printf(e->out,
                   wide ? "KAS_EACH(KAS_WIDE_ROW_OF(s%d, i) = " : "KAS_ROW_OF(s%d, i) = ", array);
    kas_emit_put_value(e, x);
    kas_buf_puts(e->out, wide ? ";)\n" : ";\n");
}

/* The values that loop `phase` computes and others need get arrays, and after the loop their names.
 */
static void compute(row *r, kas_ex body, char phase, int array)
{
    kas_emitter *e = r->emitter;
    const int first = e->lane_values;
    for (int x = 0; x < e->ir->exprs.count; x++)
        if (r->keep[x] && r->phase[x] == phase && x != body)
            declare(e);
    open_lanes(r);
    const int mark = kas_emit_leave_mark(e);
    kas_emit_value(e, body);
    put_kept(e, array, body);
    for (int x = 0, next = first; x < e->ir->exprs.count; x++)
        if (r->keep[x] && r->phase[x] == phase && x != body)
            put_kept(e, next++, x);
    kas_emit_forget(e, mark);
    close_lanes(r);
    for (int x = 0, next = first; x < e->ir->exprs.count; x++)
        if (r->keep[x] && r->phase[x] == phase)
            e->name[x] = -2 - (x == body ? array : next++);
}

static void emit_reduction(row *r, kas_ex x, char phase)
{
    kas_emitter *e = r->emitter;
    const kas_ex_node *node = kas_ex_get(e->ir, x);
    const kas_ex body = node->a[0];
    kas_emit_hoist(e, body, ++e->turns);
    int array = -2 - e->name[body]; /* it may be there already */
    if (e->name[body] > -2) {
        array = declare(e);
        compute(r, body, phase, array);
    }
    kas_emit_line(e, "const float t%d = kas_row_%s(s%d, %lld, %lld, %s);", e->temps,
                  node->fn == KAS_FN_REDUCE_SUM ? "sum" : "max", array, (long long)e->nest->lanes,
                  threads(e), width_text(e));
    e->live[e->lives++] = x;
    e->name[x] = e->temps++;
}

static void emit_outputs(kas_emitter *e)
{
    const kas_nest *n = e->nest;
    for (int i = 0; i < n->outputs; i++) {
        kas_emit_value(e, n->output_value[i]);
        kas_emit_start(e);
        kas_buf_printf(e->out, "KAS_ROW_ONCE { p%d[", kas_emit_arg(e, n->output[i]));
        kas_emit_put_ix(e, n->output_store[i]);
        kas_buf_puts(e->out, "] = ");
        kas_emit_put_value(e, n->output_value[i]);
        kas_buf_puts(e->out, "; }\n");
    }
}

static kas_status emit_all(row *r)
{
    kas_emitter *e = r->emitter;
    KAS_TRY(kas_ex_visit(e->ir, e->nest->value, see_value, r));
    if (r->reductions > MOST_ROWS)
        return kas_fail(KAS_UNSUPPORTED, "a fused kernel has more than %d reductions", MOST_ROWS);
    need_all(r, true);
    need_all(r, false);
    for (int i = 0; i < r->reductions; i++)
        emit_reduction(r, r->reduction[i], (char)(i + 1));
    emit_outputs(e);
    kas_emit_hoist(e, e->nest->value, ++e->turns);
    open_lanes(r);
    kas_emit_value(e, e->nest->value);
    kas_emit_store(e);
    close_lanes(r);
    return KAS_OK;
}

kas_status kas_emit_row(kas_emitter *e)
{
    const kas_nest *n = e->nest;
    const size_t count = (size_t)e->ir->exprs.count;
    const int64_t group = (int64_t)n->block[0] * n->width;
    const int64_t registers = (n->lanes + group - 1) / group * n->width;
    row r = {.emitter = e, .room = (int)(KEPT / registers)};
    r.lane = UINT64_C(1) << kas_masks_index(&e->masks, n->lane);
    r.loops = (UINT64_C(1) << n->loops) - 1;
    e->open &= ~r.lane;
    r.phase = calloc(count, 1);
    r.keep = calloc(count, 1);
    r.sums = calloc(count, 1);
    kas_status status = KAS_OK;
    if (!r.phase || !r.keep || !r.sums)
        status = kas_fail(KAS_NO_MEMORY, "out of memory while a kernel was emitted");
    else
        status = emit_all(&r);
    free(r.phase);
    free(r.keep);
    free(r.sums);
    return status;
}

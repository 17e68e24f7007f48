/* A kernel whose lanes are a row (rows.h): one lane loop for each reduction, and one for the rest;
 * what is kept from one to another (emit_kept.h) lies in a KAS_ROW_VALUE. */
#include "jit/emit/emit_kept.h"

enum { KEPT = 96 /* registers for kept values; what exceeds them is computed, or read, again */ };

static long long threads(const kas_emitter *e)
{
    return e->nest->block[0];
}

static void open_lanes(kas_kept *r)
{
    kas_emitter *e = r->emitter;
    kas_emit_line(e, "KAS_%sROW_LANES (i, %lld, %lld) {", e->nest->width > 1 ? "WIDE_" : "",
                  (long long)e->nest->lanes, threads(e));
    e->indent++;
    kas_emit_line(e, "const int v%d = i;", kas_emit_var_name(e, e->nest->lane));
    e->open |= r->turns;
}

static void close_lanes(kas_kept *r)
{
    kas_emit_close_block(r->emitter);
    r->emitter->open &= ~r->turns;
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

/* Gives arrays to the values that loop `phase` computes and others need, and after the
 * loop their names. */
static void compute(kas_kept *r, kas_ex body, char phase, int array)
{
    kas_emitter *e = r->emitter;
    const int first = e->lane_values;
    for (int x = 0; x < e->ir->exprs.count; x++)
        if (kas_kept_from(r, x, phase) && x != body)
            declare(e);
    open_lanes(r);
    const int mark = kas_emit_leave_mark(e);
    kas_emit_value(e, body);
    put_kept(e, array, body);
    for (int x = 0, next = first; x < e->ir->exprs.count; x++)
        if (kas_kept_from(r, x, phase) && x != body)
            put_kept(e, next++, x);
    kas_emit_forget(e, mark);
    close_lanes(r);
    for (int x = 0, next = first; x < e->ir->exprs.count; x++)
        if (kas_kept_from(r, x, phase))
            e->name[x] = -2 - (x == body ? array : next++);
}

static void emit_reduction(kas_kept *r, kas_ex x, char phase)
{
    kas_emitter *e = r->emitter;
    const kas_ex_node *node = kas_ex_get(e->ir, x);
    const kas_ex body = node->a[0];
    kas_emit_hoist(e, body, ++e->turns);
    int array = -2 - e->name[body]; /* the array may exist already */
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

static void emit_all(kas_kept *r)
{
    kas_emitter *e = r->emitter;
    e->open &= ~r->turns;
    for (int i = 0; i < r->reductions; i++)
        emit_reduction(r, r->reduction[i], (char)(i + 1));
    emit_outputs(e);
    kas_emit_hoist(e, e->nest->value, ++e->turns);
    open_lanes(r);
    kas_emit_value(e, e->nest->value);
    kas_emit_store(e);
    close_lanes(r);
}

kas_status kas_emit_row(kas_emitter *e)
{
    const kas_nest *n = e->nest;
    const int64_t group = (int64_t)n->block[0] * n->width;
    const int64_t registers = (n->lanes + group - 1) / group * n->width;
    kas_kept r;
    const kas_status status = kas_kept_plan(&r, e, n->lane, (int)(KEPT / registers));
    if (status == KAS_OK)
        emit_all(&r);
    kas_kept_free(&r);
    return status;
}

/* A kernel whose lanes walk columns (rows.h): once for each reduction, and once for the rest,
 *
 *     KAS_LANE(max)
 *     for w  lanes { x = kept[w] = load; max = .. }
 *     KAS_LANE(sum)
 *     for w  lanes { kept'[w] = exp(kept[w] - max); sum += .. }
 *     KAS_LANE(inverse) = 1 / sum
 *     for w  lanes { y[..] = kept'[w] * inverse }
 *
 * What is kept from one walk to another (emit_kept.h) lies in a KAS_COLUMN_VALUE: on a GPU in the
 * registers of the lane's thread, so that walks are unrolled whole; a column that is too long for
 * them is read again, from the cache where that holds it. */
#include <stdio.h>

#include "jit/emit/emit_kept.h"

/* The most registers for everything that a walk may load: unrolled, it loads that
 * at once (unroll.c). */
enum { LOADED = 144 };

typedef struct walk_loads {
    kas_emitter *emitter;
    double *registers;
} walk_loads;

static long long lanes_of(const kas_emitter *e)
{
    return (long long)e->nest->lanes;
}

static long long turns_of(const kas_emitter *e)
{
    return (long long)e->ir->var_size[e->nest->column];
}

static int declare_lane(kas_emitter *e, kas_ex x)
{
    const int array = e->lane_values++;
    kas_emit_line(
        e, kas_emit_is_wide(e, x) ? "KAS_WIDE_LANE(s%d, %lld);" : "KAS_LANE(float, s%d, %lld);",
        array, lanes_of(e));
    return array;
}

/* Writes the assignment of `text`, or of x, to a lane's value s<array>. */
static void set_lane(kas_emitter *e, int array, kas_ex x, const char *text)
{
    const bool wide = kas_emit_is_wide(e, x);
    kas_emit_open_lanes(e, true);
    const int mark = kas_emit_leave_mark(e);
    if (!text)
        kas_emit_value(e, x);
    kas_emit_start(e);
    kas_buf_printf(e->out, wide ? "KAS_EACH(KAS_EACH_OF(s%d, i) = " : "KAS_OF(s%d, i) = ", array);
    if (text)
        kas_buf_puts(e->out, text);
    else
        kas_emit_put_value(e, x);
    kas_buf_puts(e->out, wide ? ";)\n" : ";\n");
    kas_emit_forget(e, mark);
    kas_emit_close_block(e);
}

/* Emits what is the same in all turns of a walk, before the walk. */
static void emit_before(kas_emitter *e, kas_ex x)
{
    const kas_ex_node *node = kas_ex_get(e->ir, x);
    if (e->name[x] != KAS_NOT_EMITTED || kas_ex_children(node) == 0)
        return;
    if (kas_masks_ex(&e->masks, x) & ~e->open) {
        for (int i = 0; i < kas_ex_children(node); i++)
            emit_before(e, node->a[i]);
        return;
    }
    const int array = declare_lane(e, x);
    set_lane(e, array, x, NULL);
    e->name[x] = -2 - array;
}

static void open_walk(kas_kept *k, kas_ex body)
{
    kas_emitter *e = k->emitter;
    kas_emit_unroll_walk(e, body, e->nest->column, k->room > 0);
    kas_emit_open_loop(e, e->nest->column);
    kas_emit_open_lanes(e, true);
}

static void close_walk(kas_kept *k)
{
    kas_emit_close_block(k->emitter);
    kas_emit_close_loops(k->emitter, &k->emitter->nest->column, 1);
}

static bool is_load(const kas_emitter *e, kas_ex x)
{
    return kas_ex_get(e->ir, x)->kind == KAS_EX_LOAD;
}

static void declare_kept(kas_kept *k, int phase)
{
    kas_emitter *e = k->emitter;
    for (int x = 0; x < e->ir->exprs.count; x++)
        if (kas_kept_from(k, x, phase))
            kas_emit_line(e, "KAS_COLUMN_%s(s%d, %lld, %lld, %s);",
                          is_load(e, x) ? "LOADED" : "VALUE", e->lane_values++, turns_of(e),
                          lanes_of(e), e->nest->width > 1 ? "KAS_WIDTH" : "1");
}

static void put_kept(kas_kept *k, int phase, int array)
{
    kas_emitter *e = k->emitter;
    const bool wide = e->nest->width > 1;
    for (int x = 0; x < e->ir->exprs.count; x++) {
        if (!kas_kept_from(k, x, phase))
            continue;
        kas_emit_start(e);
        kas_buf_printf(e->out, "%sKAS_%sCOLUMN_%s(s%d, v%d, %lld, i, ", wide ? "KAS_EACH(" : "",
                       wide ? "WIDE_" : "", is_load(e, x) ? "HOLD" : "KEEP", array++,
                       kas_emit_var_name(e, e->nest->column), lanes_of(e));
        kas_emit_put_value(e, x);
        kas_buf_puts(e->out, wide ? ");)\n" : ");\n");
    }
}

/* Refers to what loop `phase` computed for others by its array from then on, until the
 * last of them. */
static void name_kept(kas_kept *k, int phase, int array)
{
    kas_emitter *e = k->emitter;
    for (int x = 0; x < e->ir->exprs.count; x++) {
        if (kas_kept_from(k, x, phase))
            e->name[x] = -2 - array++;
        else if (k->keep[x] == phase)
            e->name[x] = KAS_NOT_EMITTED;
    }
}

static void emit_reduction(kas_kept *k, kas_ex x, int phase)
{
    kas_emitter *e = k->emitter;
    const kas_ex_node *node = kas_ex_get(e->ir, x);
    const kas_ex body = node->a[0];
    char acc[40];
    emit_before(e, body);
    const int array = declare_lane(e, x), kept = e->lane_values;
    set_lane(e, array, x, kas_emit_first_value((kas_fn)node->fn));
    declare_kept(k, phase);
    open_walk(k, body);
    const int mark = kas_emit_leave_mark(e);
    kas_emit_value(e, body);
    put_kept(k, phase, kept);
    snprintf(acc, sizeof acc, kas_emit_is_wide(e, x) ? "KAS_EACH_OF(s%d, i)" : "KAS_OF(s%d, i)",
             array);
    kas_emit_accumulate(e, (kas_fn)node->fn, acc, acc, body, node->var);
    kas_emit_forget(e, mark);
    close_walk(k);
    name_kept(k, phase, kept);
    e->name[x] = -2 - array;
}

static void put_output(kas_emitter *e, int i)
{
    const kas_nest *n = e->nest;
    const kas_group g = kas_ix_group(e->ir, n->output_store[i], n->lane);
    const bool wide = n->width > 1, run = wide && g.kind == KAS_GROUP_RUN && g.aligned;
    if (run) {
        kas_emit_start(e);
        kas_buf_printf(e->out, "KAS_WIDE_VALUE(t%d, ", e->temps++);
        kas_emit_put_value(e, n->output_value[i]);
        kas_buf_puts(e->out, ");\n");
    }
    kas_emit_start(e);
    e->each = wide && !run;
    kas_buf_printf(e->out,
                   run    ? "KAS_WIDE_STORE(p%d, "
                   : wide ? "KAS_EACH(p%d["
                          : "p%d[",
                   kas_emit_arg(e, n->output[i]));
    kas_emit_put_ix(e, n->output_store[i]);
    e->each = false;
    if (run) {
        kas_buf_printf(e->out, ", t%d);\n", e->temps - 1);
        return;
    }
    kas_buf_puts(e->out, "] = ");
    kas_emit_put_value(e, n->output_value[i]);
    kas_buf_puts(e->out, wide ? ";)\n" : ";\n");
}

static void emit_outputs(kas_emitter *e)
{
    const kas_nest *n = e->nest;
    if (n->outputs == 0)
        return;
    kas_emit_open_lanes(e, true);
    const int mark = kas_emit_leave_mark(e);
    for (int i = 0; i < n->outputs; i++) {
        kas_emit_value(e, n->output_value[i]);
        put_output(e, i);
    }
    kas_emit_forget(e, mark);
    kas_emit_close_block(e);
}

static void emit_all(kas_kept *k)
{
    kas_emitter *e = k->emitter;
    e->open &= ~k->turns;
    for (int i = 0; i < k->reductions; i++)
        emit_reduction(k, k->reduction[i], i + 1);
    emit_before(e, e->nest->value);
    emit_outputs(e);
    open_walk(k, e->nest->value);
    kas_emit_value(e, e->nest->value);
    kas_emit_store(e);
    close_walk(k);
}

static void see_load(void *context, kas_ex x, const kas_ex_node *node)
{
    const walk_loads *l = context;
    kas_emitter *e = l->emitter;
    const uint64_t mask = kas_masks_ex(&e->masks, x);
    if (node->kind != KAS_EX_LOAD || !(mask >> kas_masks_index(&e->masks, e->nest->column) & 1))
        return;
    const uint64_t inside = mask & ~UINT64_C(0) << e->nest->loops;
    *l->registers += (double)turns_of(e) * e->nest->width * kas_masks_turns(&e->masks, inside);
}

kas_status kas_emit_column(kas_emitter *e)
{
    kas_kept k;
    double registers = 0;
    walk_loads loads = {e, &registers};
    KAS_TRY(kas_ex_visit(e->ir, e->nest->value, see_load, &loads));
    const int room =
        registers > LOADED ? 0 : (int)(KAS_COLUMN_KEPT / (turns_of(e) * e->nest->width));
    const kas_status status = kas_kept_plan(&k, e, e->nest->column, room);
    if (status == KAS_OK)
        emit_all(&k);
    kas_kept_free(&k);
    return status;
}

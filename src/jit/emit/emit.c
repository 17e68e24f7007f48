#include "jit/emit/emitter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- lanes and phases ------------------------------------------------------------------------ */

static long long extent_of(const kas_emitter *e)
{
    return e->nest->lane < 0 ? 1 : (long long)e->ir->var_size[e->nest->lane];
}

/* Returns whether a GPU needs no loop over the lanes: there is a thread for each. */
static bool has_threads(const kas_nest *n)
{
    return n->lanes <= (int64_t)n->block[0] * n->width;
}

static const char *wide_text(const kas_nest *n)
{
    return n->width > 1 ? "WIDE_" : "";
}

/* Returns the number of the block's lanes as text, which may be in `room`. */
static const char *count_text(const kas_emitter *e, char room[24])
{
    snprintf(room, 24, "%lld", (long long)e->nest->lanes);
    return extent_of(e) % e->nest->lanes ? "count" : room;
}

void kas_emit_open_lanes(kas_emitter *e, bool threads)
{
    const kas_nest *n = e->nest;
    char room[24];
    kas_emit_line(e, "KAS_%s%s (i, %s) {", wide_text(n),
                  threads || has_threads(n) ? "THREADS" : "LANES", count_text(e, room));
    e->indent++;
    if (n->lane >= 0)
        kas_emit_line(e, "const int v%d = %si;", kas_emit_var_name(e, n->lane),
                      extent_of(e) > n->lanes ? "first + " : "");
}

/* Opens the loop of virtual threads inside the lanes, which is unrolled. */
void kas_emit_open_turns(kas_emitter *e)
{
    if (e->ir->cpu) /* the loop over the lanes vectorises only around unrolled ones */
        kas_emit_line(e, "KAS_UNROLL");
    else
        kas_emit_line(e, "KAS_UNROLL_FEW(%lld)", (long long)e->ir->var_size[e->nest->inner]);
    kas_emit_open_loop(e, e->nest->inner);
}

/* Declares a value for each lane and, where x differs between them, for each virtual thread. Writes
 * its name in a lane to `text`. */
static void declare(kas_emitter *e, kas_ex x, int number, char text[60])
{
    const long long lanes = (long long)e->nest->lanes;
    const bool wide = kas_emit_is_wide(e, x), turns = kas_emit_has_turns(e, x);
    if (turns)
        kas_emit_line(e, "KAS_COLUMN_VALUE(s%d, %lld, %lld, %s);", number,
                      (long long)e->ir->var_size[e->nest->inner], lanes, wide ? "KAS_WIDTH" : "1");
    else
        kas_emit_line(e, wide ? "KAS_WIDE_LANE(s%d, %lld);" : "KAS_LANE(float, s%d, %lld);", number,
                      lanes);
    kas_emit_lane_value(e, x, number, text);
}

static void open_phase_lanes(kas_emitter *e, kas_ex x, kas_ex body)
{
    kas_emit_open_lanes(e, true);
    if (!kas_emit_has_turns(e, x))
        return;
    if (body >= 0)
        kas_emit_hoist(e, body, ++e->turns);
    kas_emit_open_turns(e);
}

static void close_phase_lanes(kas_emitter *e, kas_ex x)
{
    if (kas_emit_has_turns(e, x))
        kas_emit_close_loops(e, &e->nest->inner, 1);
    kas_emit_close_block(e);
}

/* Emits the sum x over these loops before the lanes. */
static void emit_sum(kas_emitter *e, kas_ex x, kas_ex body, const int *var, int vars)
{
    const kas_fn fn = (kas_fn)kas_ex_get(e->ir, x)->fn;
    const bool arg_too = fn == KAS_FN_REDUCE_ARGMAX;
    const int index = e->lane_values++, acc = arg_too ? e->lane_values++ : index;
    char acc_text[60], index_text[60];
    declare(e, x, index, index_text);
    memcpy(acc_text, index_text, sizeof acc_text);
    if (arg_too)
        declare(e, x, acc, acc_text);
    if (kas_emit_register_sum(e, x, body, var, vars, index)) {
        e->name[x] = -2 - index;
        return;
    }
    open_phase_lanes(e, x, -1);
    const char *set = kas_emit_is_wide(e, x) ? "KAS_EACH(%s = %s;)" : "%s = %s;";
    kas_emit_line(e, set, acc_text, kas_emit_first_value(fn));
    if (arg_too)
        kas_emit_line(e, set, index_text, "0.0f");
    close_phase_lanes(e, x);
    const bool tiled = e->nest->tiles > 0 && vars > 0 && var[vars - 1] == e->nest->turned;
    int outer = vars - tiled; /* loops around what is staged */
    for (int i = 0; i < outer && e->nest->boxes > 0; i++)
        outer = var[i] == e->nest->boxed ? i : outer;
    const bool ahead = outer > 0 && outer < vars && e->nest->ahead == var[outer - 1];
    const bool block = tiled && outer == 0; /* other sums of the kernel have tiles, too */
    if (block) {
        kas_emit_line(e, "{");
        e->indent++;
    }
    kas_emit_open_loops(e, body, var, outer - ahead, false);
    if (ahead) {
        kas_emit_fill_first(e);
        kas_emit_open_loops(e, body, var + outer - 1, 1, false);
    }
    if (outer < vars) {
        (tiled ? kas_emit_fill_tiles : ahead ? kas_emit_fill_next : kas_emit_fill_boxes)(e);
        kas_emit_open_loops(e, body, var + outer, vars - outer, false);
    }
    kas_emit_picks(e, body);
    const int mark = kas_emit_leave_mark(e);
    open_phase_lanes(e, x, body);
    kas_emit_value(e, body);
    kas_emit_accumulate(e, fn, acc_text, index_text, body, var[0]);
    kas_emit_forget(e, mark);
    close_phase_lanes(e, x);
    kas_emit_forget_picks(e);
    kas_emit_close_loops(e, var, vars);
    if (block)
        kas_emit_close_block(e);
    if (outer < vars)
        e->filled = false;
    e->name[x] = -2 - index;
}

/* Emits a sum of which each row of threads computes parts: they meet in shared memory, where each
 * thread adds them up. */
static void emit_parts(kas_emitter *e, kas_ex x, kas_ex body, const int *var, int vars)
{
    const kas_nest *n = e->nest;
    const bool wide = kas_emit_is_wide(e, x);
    const long long lanes = (long long)n->lanes, parts = (long long)n->parts;
    const int number = e->lane_values++, row = kas_emit_var_name(e, n->factored);
    const char *at = wide ? "KAS_EACH_LANE(i)" : "i", *open = wide ? "KAS_EACH(" : "";
    const char *close = wide ? ";)" : ";";
    char text[60];
    kas_emit_line(e, "KAS_SHARED(float, parts%d, %lld);", number, parts * lanes);
    if (n->serials > 0) /* somebody may still add up what the last turn left */
        kas_emit_line(e, "KAS_BARRIER();");
    const int mark = kas_emit_leave_mark(e);
    kas_emit_line(e, "KAS_ROWS (v%d, 0, %lld) {", row, parts);
    e->indent++;
    e->open |= UINT64_C(1) << kas_masks_index(&e->masks, n->factored);
    emit_sum(e, x, body, var + 1, vars - 1);
    kas_emit_lane_value(e, x, -2 - e->name[x], text);
    kas_emit_open_lanes(e, true);
    kas_emit_line(e, "%sparts%d[%lld * v%d + %s] = %s%s", open, number, lanes, row, at, text,
                  close);
    kas_emit_close_block(e);
    kas_emit_close_loops(e, &n->factored, 1);
    kas_emit_forget(e, mark);
    kas_emit_line(e, "KAS_BARRIER();");
    declare(e, x, number, text);
    kas_emit_open_lanes(e, true);
    const bool is_sum = kas_ex_get(e->ir, x)->fn == KAS_FN_REDUCE_SUM;
    kas_emit_line(e, "%s%s = parts%d[%s]%s", open, text, number, at, close);
    kas_emit_line(e, "for (int part = 1; part < %lld; part++) {", parts);
    kas_emit_line(e,
                  is_sum ? "    %s%s += parts%d[%lld * part + %s]%s"
                         : "    %s%s = kas_max(parts%d[%lld * part + %s], %s)%s",
                  open, text, number, lanes, at, is_sum ? close : text, close);
    kas_emit_line(e, "}");
    kas_emit_close_block(e);
    e->name[x] = -2 - number;
}

/* Emits a long reduction before the lanes. */
static void emit_phase(kas_emitter *e, kas_ex x)
{
    int var[KAS_DEEP] = {0}, vars;
    const kas_ex body = kas_emit_nest_of(e, x, var, &vars);
    (var[0] == e->nest->factored ? emit_parts : emit_sum)(e, x, body, var, vars);
}

/* Emits phases in the order in which they are needed. */
static void emit_phases(kas_emitter *e, kas_ex x)
{
    if (e->phased[x])
        return;
    e->phased[x] = 1;
    const kas_ex_node *node = kas_ex_get(e->ir, x);
    for (int i = 0; i < kas_ex_children(node); i++)
        emit_phases(e, node->a[i]);
    if (node->kind != KAS_EX_REDUCE || kas_nest_state_of(e->nest, node) != KAS_LOOP_AROUND)
        return;
    emit_phase(e, x);
}

/* ---- the kernel ------------------------------------------------------------------------------ */

static void see_tensor(void *context, kas_ex x, const kas_ex_node *node)
{
    kas_emitter *e = context;
    (void)x;
    if (node->kind == KAS_EX_LOAD && kas_emit_arg(e, node->tensor) < 0 &&
        e->args < KAS_MAX_LAUNCH_ARGS)
        e->arg_of_tensor[e->args++] = node->tensor;
}

static void emit_lane_chunk(kas_emitter *e, int axis)
{
    const long long lanes = (long long)e->nest->lanes;
    const long long extent = extent_of(e);
    kas_emit_line(e, "const int first = KAS_BLOCK_%c * %lld;", 'X' + axis, lanes);
    if (extent % lanes)
        kas_emit_line(e, "const int count = kas_imin(%lld, %lld - first);", lanes, extent);
}

static void open_rows(kas_emitter *e)
{
    const kas_nest *n = e->nest;
    const long long all = (long long)e->ir->var_size[n->rows], here = (long long)n->block_rows;
    const int v = kas_emit_var_name(e, n->rows);
    if (here >= all)
        kas_emit_line(e, "KAS_ROWS (v%d, 0, %lld) {", v, all);
    else if (all % here == 0)
        kas_emit_line(e, "KAS_ROWS (v%d, row, row + %lld) {", v, here);
    else
        kas_emit_line(e, "KAS_ROWS (v%d, row, kas_imin(row + %lld, %lld)) {", v, here, all);
    e->indent++;
}

static void emit_head(kas_emitter *e, const char *name)
{
    const kas_nest *n = e->nest;
    char room[24];
    kas_buf_puts(e->out, "typedef struct {\n");
    for (int i = 0; i < e->args; i++)
        kas_buf_printf(e->out, "    %s%s *p%d;\n", i >= e->inputs ? "" : "const ",
                       kas_emit_type(e, i), i);
    kas_buf_printf(e->out, "} %s_args;\n\nKAS_KERNEL(%s, %s_args)\n{\n", name, name, name);
    e->indent = 1;
    for (int i = 0; i < e->args; i++)
        kas_emit_line(e, "%s%s *KAS_RESTRICT p%d = a.p%d;", i >= e->inputs ? "" : "const ",
                      kas_emit_type(e, i), i, i);
    for (int axis = 0; axis < 3; axis++)
        if (n->axis_var[axis] >= 0)
            kas_emit_line(e, "const int v%d = KAS_BLOCK_%c;",
                          kas_emit_var_name(e, n->axis_var[axis]), 'X' + axis);
        else if (n->axis_var[axis] == KAS_AXIS_LANES)
            emit_lane_chunk(e, axis);
        else if (n->axis_var[axis] == KAS_AXIS_ROWS)
            kas_emit_line(e, "const int row = KAS_BLOCK_%c * %lld;", 'X' + axis,
                          (long long)n->block_rows);
    const bool boxed = n->boxes > 0 && n->boxed < 0; /* in front of the rows */
    /* The threads of a row meet in shuffles, those of a block that fill boxes at barriers. */
    const bool leave =
        !n->row && n->factored < 0 && has_threads(n) && (n->boxes == 0 || (boxed && !n->serials));
    if (leave && !boxed)
        kas_emit_line(e, "KAS_%sLEAVE(%s);", wide_text(n), count_text(e, room));
    for (int i = 0; i < n->serials; i++)
        kas_emit_open_loop(e, n->serial[i]);
    if (boxed)
        kas_emit_fill_boxes(e);
    if (leave && boxed)
        kas_emit_line(e, "KAS_%sLEAVE(%s);", wide_text(n), count_text(e, room));
    if (n->rows >= 0) {
        if (n->rows == n->turned)
            kas_emit_fill_tiles(e);
        kas_emit_row_picks(e);
        if (n->spill.turns > 0 && n->rows == n->spill.var)
            kas_emit_open_spill(e);
        open_rows(e);
    }
}

/* Emits what does not change in the loop, before the loop. */
static void open_inner(kas_emitter *e)
{
    if (e->nest->slides)
        kas_emit_sliding(e, e->nest->value);
    kas_emit_hoist(e, e->nest->value, ++e->turns);
    if (e->nest->slides)
        kas_emit_open_turns(e);
    else {
        kas_emit_line(e, "KAS_UNROLL");
        kas_emit_open_loop(e, e->nest->inner);
    }
}

void kas_emit_store(kas_emitter *e)
{
    const kas_nest *n = e->nest;
    const bool wide = n->width > 1;
    const int target = e->args - 1;
    int whole = e->name[n->value];
    kas_emit_start(e);
    if (n->spill.turns > 0) {
        kas_emit_put_spill(e);
        kas_emit_put_value(e, n->value);
        kas_buf_puts(e->out, ");\n");
        return;
    }
    if (wide && (whole < 0 || !kas_emit_is_wide(e, n->value))) {
        whole = e->temps++;
        kas_buf_printf(e->out, "KAS_WIDE_VALUE(t%d, ", whole);
        kas_emit_put_value(e, n->value);
        kas_buf_puts(e->out, ");\n");
        kas_emit_start(e);
    }
    const bool real = kas_emit_is_real(e, n->tensor);
    if (wide)
        kas_buf_puts(e->out, real ? "KAS_WIDE_STORE_REAL(" : "KAS_WIDE_STORE(");
    kas_buf_printf(e->out, wide ? "p%d, " : "p%d[", target);
    kas_emit_put_ix(e, n->store);
    if (wide) {
        kas_buf_printf(e->out, ", t%d);\n", whole);
        return;
    }
    kas_buf_puts(e->out, real ? "] = kas_real_of(" : "] = ");
    kas_emit_put_value(e, n->value);
    kas_buf_puts(e->out, real ? ");\n" : ";\n");
}

static void emit_lanes(kas_emitter *e)
{
    const kas_nest *n = e->nest;
    const bool spills = n->spill.turns > 0 && n->spill.var == n->inner;
    if (spills)
        kas_emit_open_spill(e);
    if (n->tiles_within)
        kas_emit_fill_tiles(e);
    if (n->inner >= 0) /* it is open inside the lanes only */
        e->open &= ~(UINT64_C(1) << kas_masks_index(&e->masks, n->inner));
    emit_phases(e, n->value);
    kas_emit_picks(e, n->value);
    if (n->factored >= 0) { /* all rows of threads have the sums */
        kas_emit_line(e, "KAS_ONE_ROW {");
        e->indent++;
    }
    kas_emit_open_lanes(e, e->lane_values > 0);
    if (n->inner >= 0)
        open_inner(e);
    kas_emit_value(e, n->value);
    kas_emit_store(e);
    for (int i = (n->inner >= 0) + (n->factored >= 0); i >= 0; i--)
        kas_emit_close_block(e);
    if (spills)
        kas_emit_spill(e);
    kas_emit_forget_picks(e);
}

/* Writes the lanes twice, first without what guards windows. */
static void emit_lanes_inside(kas_emitter *e)
{
    const kas_nest *n = e->nest;
    const size_t count = (size_t)e->ir->exprs.count;
    kas_emit_start(e);
    kas_buf_puts(e->out, "if (");
    for (int i = 0; i < n->insides; i++) {
        kas_buf_puts(e->out, i ? " && " : "");
        kas_emit_put_ix(e, n->inside[i].ix);
        kas_buf_printf(e->out, " >= %lld && ", (long long)n->inside[i].low);
        kas_emit_put_ix(e, n->inside[i].ix);
        kas_buf_printf(e->out, " <= %lld", (long long)n->inside[i].high);
    }
    kas_buf_puts(e->out, ") {\n");
    e->indent++;
    e->inside = true;
    emit_lanes(e);
    e->inside = false;
    e->indent--;
    kas_emit_line(e, "} else {");
    e->indent++;
    memset(e->name, 0xff, sizeof *e->name * count);
    memset(e->phased, 0, count);
    e->lives = 0;
    emit_lanes(e);
    kas_emit_close_block(e);
}

static kas_status emit_body(kas_emitter *e)
{
    const kas_nest *n = e->nest;
    if (n->row)
        KAS_TRY(kas_emit_row(e));
    else if (n->column >= 0)
        KAS_TRY(kas_emit_column(e));
    else if (n->insides > 0)
        emit_lanes_inside(e);
    else
        emit_lanes(e);
    if (n->rows >= 0)
        kas_emit_close_block(e);
    if (n->spill.turns > 0 && n->spill.var == n->rows)
        kas_emit_spill(e);
    for (int i = 0; i < n->serials; i++)
        kas_emit_close_block(e);
    kas_buf_puts(e->out, "}\n\n");
    return KAS_OK;
}

/* Adds the tensors that the kernel writes after those that it reads. */
static kas_status add_written(kas_emitter *e, int tensor, const char *name)
{
    if (e->args == KAS_MAX_LAUNCH_ARGS)
        return kas_fail(KAS_UNSUPPORTED, "a fused kernel has more than %d tensors",
                        KAS_MAX_LAUNCH_ARGS);
    if (kas_emit_arg(e, tensor) >= 0)
        return kas_fail(KAS_FAILURE,
                        "generated kernel %s reads what it writes: this is a fault of "
                        "the lowering, please report it",
                        name);
    e->arg_of_tensor[e->args++] = tensor;
    return KAS_OK;
}

static kas_status emit(kas_emitter *e, const char *name)
{
    KAS_TRY(kas_ex_visit(e->ir, e->nest->value, see_tensor, e));
    e->inputs = e->args;
    for (int i = 0; i < e->nest->outputs; i++)
        KAS_TRY(add_written(e, e->nest->output[i], name));
    KAS_TRY(add_written(e, e->nest->tensor, name));
    for (int i = 0; i < e->nest->loops; i++) /* the kernel's own loops are open everywhere */
        e->open |= UINT64_C(1) << i;
    emit_head(e, name);
    KAS_TRY(emit_body(e));
    return kas_buf_status(e->out);
}

kas_status kas_emit_kernel(const kas_ir *ir, const kas_nest *nest, const char *name, kas_buf *out,
                           int args[KAS_MAX_LAUNCH_ARGS], int *count)
{
    const size_t n = (size_t)ir->exprs.count;
    kas_emitter e = {.ir = ir, .nest = nest, .out = out};
    kas_status status = kas_masks_init(&e.masks, ir, nest->value, nest->loops, nest->loop);
    if (status != KAS_OK)
        return status;
    e.name = malloc(sizeof *e.name * n);
    e.live = malloc(sizeof *e.live * n);
    e.phased = calloc(n, 1);
    e.wide = calloc(n, 1);
    e.hoisted = calloc(n, sizeof *e.hoisted);
    e.var_name = malloc(sizeof *e.var_name * (size_t)ir->vars);
    if (e.name && e.live && e.phased && e.wide && e.hoisted && e.var_name) {
        memset(e.name, 0xff, sizeof *e.name * n);
        memset(e.var_name, 0xff, sizeof *e.var_name * (size_t)ir->vars);
        status = emit(&e, name);
    } else {
        status = kas_fail(KAS_NO_MEMORY, "out of memory while a kernel was emitted");
    }
    *count = e.args;
    memcpy(args, e.arg_of_tensor, sizeof *args * (size_t)e.args);
    free(e.name);
    free(e.live);
    free(e.phased);
    free(e.wide);
    free(e.hoisted);
    free(e.var_name);
    kas_masks_free(&e.masks);
    return status;
}

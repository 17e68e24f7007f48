#include "jit/emit.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NOT_EMITTED = -1, DEEP = 64 };

typedef struct emitter {
    const kas_ir *ir;
    const kas_nest *nest;
    kas_buf *out;
    kas_masks masks;
    int *name; /* by kas_ex: number of its value, NOT_EMITTED, or -2 - k: lane value k */
    int *live; /* stack of expressions with a name */
    int lives, temps, lane_values, indent;
    int arg_of_tensor[KAS_MAX_LAUNCH_ARGS];
    int args;
    int *var_name; /* by variable */
    int vars;
    char *phased; /* by kas_ex: done as a phase or looked at */
    int *hoisted; /* by kas_ex: the reduction for which it was last looked at */
    int turns;
    uint64_t open; /* mask of the variables of open loops */
} emitter;

/* ---- small parts -------------------------------------------------------------------------------
 */

static void start(emitter *e)
{
    for (int i = 0; i < e->indent; i++)
        kas_buf_puts(e->out, "    ");
}

__attribute__((format(printf, 2, 3))) static void line(emitter *e, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    start(e);
    kas_buf_puts(e->out, text);
    kas_buf_puts(e->out, "\n");
}

static int var_name(emitter *e, int var)
{
    if (e->var_name[var] < 0)
        e->var_name[var] = e->vars++;
    return e->var_name[var];
}

static void put_ix(emitter *e, kas_ix ix);

static void put_atom(emitter *e, const kas_atom *atom)
{
    switch ((kas_atom_kind)atom->kind) {
    case KAS_ATOM_VAR:
        kas_buf_printf(e->out, "v%d", var_name(e, atom->of));
        break;
    case KAS_ATOM_DIV:
    case KAS_ATOM_MOD:
        kas_buf_puts(e->out, "(");
        put_ix(e, atom->of);
        kas_buf_printf(e->out, ") %c %lld", atom->kind == KAS_ATOM_DIV ? '/' : '%',
                       (long long)atom->a);
        break;
    case KAS_ATOM_CLAMP:
        kas_buf_puts(e->out, "kas_imin(kas_imax(");
        put_ix(e, atom->of);
        kas_buf_printf(e->out, ", %lld), %lld)", (long long)atom->a, (long long)atom->b);
        break;
    }
}

static void put_ix(emitter *e, kas_ix ix)
{
    const kas_ix_sum *s = kas_ix_get(e->ir, ix);
    for (int i = 0; i < s->terms; i++) {
        const kas_atom *atom = kas_atom_get(e->ir, s->term[i].atom);
        const long long c = s->term[i].coeff, size = llabs(c);
        const bool bracket =
            size != 1 && (atom->kind == KAS_ATOM_DIV || atom->kind == KAS_ATOM_MOD);
        kas_buf_puts(e->out, c < 0 ? (i ? " - " : "-") : (i ? " + " : ""));
        if (size != 1)
            kas_buf_printf(e->out, "%lld%s * ", size, e->nest->wide ? "LL" : "");
        kas_buf_puts(e->out, bracket ? "(" : "");
        put_atom(e, atom);
        kas_buf_puts(e->out, bracket ? ")" : "");
    }
    if (s->terms == 0)
        kas_buf_printf(e->out, "%lld", (long long)s->constant);
    else if (s->constant)
        kas_buf_printf(e->out, " %c %lld", s->constant < 0 ? '-' : '+',
                       (long long)llabs(s->constant));
}

static void put_const(emitter *e, double value)
{
    char text[40];
    snprintf(text, sizeof text, "%.9g", value);
    kas_buf_puts(e->out, text);
    kas_buf_puts(e->out, strpbrk(text, ".e") ? "f" : ".0f");
}

static void put_value(emitter *e, kas_ex x)
{
    const kas_ex_node *node = kas_ex_get(e->ir, x);
    const int name = e->name[x];
    if (node->kind == KAS_EX_CONST && node->value < 0) {
        kas_buf_puts(e->out, "(");
        put_const(e, node->value);
        kas_buf_puts(e->out, ")");
    } else if (node->kind == KAS_EX_CONST) {
        put_const(e, node->value);
    } else if (name <= -2) {
        kas_buf_printf(e->out, "KAS_OF(s%d, i)", -2 - name);
    } else {
        kas_buf_printf(e->out, "t%d", name);
    }
}

static int arg(emitter *e, int tensor)
{
    for (int i = 0; i < e->args; i++)
        if (e->arg_of_tensor[i] == tensor)
            return i;
    return -1;
}

/* ---- values
 * -------------------------------------------------------------------------------------- */

static void emit_value(emitter *e, kas_ex x);

static int leave_mark(const emitter *e)
{
    return e->lives;
}

static void forget(emitter *e, int mark)
{
    while (e->lives > mark)
        e->name[e->live[--e->lives]] = NOT_EMITTED;
}

static int new_name(emitter *e, kas_ex x)
{
    e->live[e->lives++] = x;
    return e->name[x] = e->temps++;
}

/* Emits what a reduction's body needs but does not change in its loops: whatever depends only on
 * the variables of loops that are open.  `turn` numbers the reductions. */
static void hoist(emitter *e, kas_ex x, int turn)
{
    const kas_ex_node *node = kas_ex_get(e->ir, x);
    if (e->hoisted[x] == turn)
        return;
    e->hoisted[x] = turn;
    if ((kas_masks_ex(&e->masks, x) & ~e->open) == 0) {
        emit_value(e, x);
        return;
    }
    for (int i = 0; i < kas_ex_children(node); i++)
        hoist(e, node->a[i], turn);
}

static const char *unary_format(kas_fn fn)
{
    switch (fn) {
    case KAS_FN_NEG:
        return "-%";
    case KAS_FN_ABS:
        return "kas_abs(%)";
    case KAS_FN_EXP:
        return "kas_exp(%)";
    case KAS_FN_TANH:
        return "kas_tanh(%)";
    case KAS_FN_ERF:
        return "kas_erf(%)";
    case KAS_FN_SQRT:
        return "kas_sqrt(%)";
    case KAS_FN_SIN:
        return "kas_sin(%)";
    case KAS_FN_COS:
        return "kas_cos(%)";
    case KAS_FN_SIGMOID:
        return "1.0f / (1.0f + kas_exp(-%))";
    default:
        return "%";
    }
}

static const char *binary_format(kas_fn fn)
{
    switch (fn) {
    case KAS_FN_ADD:
        return "% + %";
    case KAS_FN_SUB:
        return "% - %";
    case KAS_FN_MUL:
        return "% * %";
    case KAS_FN_DIV:
        return "% / %";
    case KAS_FN_MIN:
        return "kas_min(%, %)";
    case KAS_FN_MAX:
        return "kas_max(%, %)";
    case KAS_FN_LT:
        return "% < % ? % : %";
    case KAS_FN_LE:
        return "% <= % ? % : %";
    case KAS_FN_EQ:
        return "% == % ? % : %";
    default:
        return "%";
    }
}

/* Writes `format` with each % replaced by the next operand. */
static void put_format(emitter *e, const char *format, const kas_ex_node *node)
{
    int next = 0;
    for (const char *c = format; *c; c++) {
        if (*c == '%')
            put_value(e, node->a[next++]);
        else
            kas_buf_add(e->out, c, 1);
    }
}

static void put_guard(emitter *e, const kas_ex_node *node)
{
    const kas_range r = kas_ix_range(e->ir, node->ix);
    const bool below = r.low<node->low, above = r.high> node->high;
    kas_buf_puts(e->out, "(");
    if (below) {
        put_ix(e, node->ix);
        kas_buf_printf(e->out, " >= %lld", (long long)node->low);
    }
    kas_buf_puts(e->out, below && above ? " && " : "");
    if (above) {
        put_ix(e, node->ix);
        kas_buf_printf(e->out, " <= %lld", (long long)node->high);
    }
    kas_buf_puts(e->out, ") ? ");
    put_value(e, node->a[0]);
    kas_buf_puts(e->out, " : 0.0f");
}

/* ---- reductions
 * ------------------------------------------------------------------------------------ */

static const char *first_value(kas_fn fn)
{
    return fn == KAS_FN_REDUCE_SUM ? "0.0f" : "-3.402823466e+38f";
}

/* A chain of reductions of one kind is one nest of loops; returns the body. */
static kas_ex nest_of(const emitter *e, kas_ex x, int *var, int *vars)
{
    const kas_ex_node *node = kas_ex_get(e->ir, x);
    const int fn = node->fn;
    *vars = 0;
    while (node->kind == KAS_EX_REDUCE && node->fn == fn && *vars < DEEP &&
           e->name[x] == NOT_EMITTED) {
        var[(*vars)++] = node->var;
        x = node->a[0];
        node = kas_ex_get(e->ir, x);
        if (fn == KAS_FN_REDUCE_ARGMAX)
            break;
    }
    return x;
}

static void open_loop(emitter *e, int var)
{
    const int v = var_name(e, var);
    line(e, "for (int v%d = 0; v%d < %lld; v%d++) {", v, v, (long long)e->ir->var_size[var], v);
    e->indent++;
    e->open |= UINT64_C(1) << kas_masks_index(&e->masks, var);
}

static void close_block(emitter *e)
{
    e->indent--;
    line(e, "}");
}

static void close_loops(emitter *e, const int *var, int vars)
{
    for (int i = vars - 1; i >= 0; i--) {
        close_block(e);
        e->open &= ~(UINT64_C(1) << kas_masks_index(&e->masks, var[i]));
    }
}

/* accumulator (and index) op= body, for one turn. `acc` and `arg` are lvalues. */
static void accumulate(emitter *e, kas_fn fn, const char *acc, const char *index, kas_ex body,
                       int var)
{
    start(e);
    if (fn == KAS_FN_REDUCE_SUM) {
        kas_buf_printf(e->out, "%s += ", acc);
        put_value(e, body);
    } else if (fn == KAS_FN_REDUCE_MAX) {
        kas_buf_printf(e->out, "%s = kas_max(", acc);
        put_value(e, body);
        kas_buf_printf(e->out, ", %s)", acc);
    } else {
        kas_buf_printf(e->out, "%s = ", index);
        put_value(e, body);
        kas_buf_printf(e->out, " > %s ? (float)v%d : %s;\n", acc, var_name(e, var), index);
        start(e);
        kas_buf_printf(e->out, "%s = kas_max(", acc);
        put_value(e, body);
        kas_buf_printf(e->out, ", %s)", acc);
    }
    kas_buf_puts(e->out, ";\n");
}

static void emit_reduce(emitter *e, kas_ex x)
{
    const kas_fn fn = (kas_fn)kas_ex_get(e->ir, x)->fn;
    int var[DEEP], vars;
    const kas_ex body = nest_of(e, x, var, &vars);
    hoist(e, body, ++e->turns);
    const int name = new_name(e, x), best = fn == KAS_FN_REDUCE_ARGMAX ? e->temps++ : name;
    char acc[32], index[32];
    snprintf(acc, sizeof acc, "t%d", best);
    snprintf(index, sizeof index, "t%d", name);
    line(e, "float %s = %s;", acc, first_value(fn));
    if (best != name)
        line(e, "float %s = 0.0f;", index);
    const int mark = leave_mark(e);
    for (int i = 0; i < vars; i++)
        open_loop(e, var[i]);
    emit_value(e, body);
    accumulate(e, fn, acc, index, body, var[0]);
    close_loops(e, var, vars);
    forget(e, mark);
}

static void emit_value(emitter *e, kas_ex x)
{
    const kas_ex_node *node = kas_ex_get(e->ir, x);
    if (e->name[x] != NOT_EMITTED || node->kind == KAS_EX_CONST)
        return;
    if (node->kind == KAS_EX_REDUCE) {
        emit_reduce(e, x);
        return;
    }
    for (int i = 0; i < kas_ex_children(node); i++)
        emit_value(e, node->a[i]);
    const int name = new_name(e, x);
    start(e);
    kas_buf_printf(e->out, "const float t%d = ", name);
    switch ((kas_ex_kind)node->kind) {
    case KAS_EX_LOAD:
        kas_buf_printf(e->out, "p%d[", arg(e, node->tensor));
        put_ix(e, node->ix);
        kas_buf_puts(e->out, "]");
        break;
    case KAS_EX_INDEX:
        kas_buf_puts(e->out, "(float)(");
        put_ix(e, node->ix);
        kas_buf_puts(e->out, ")");
        break;
    case KAS_EX_GUARD:
        put_guard(e, node);
        break;
    case KAS_EX_UNARY:
        put_format(e, unary_format((kas_fn)node->fn), node);
        break;
    default:
        put_format(e, binary_format((kas_fn)node->fn), node);
        break;
    }
    kas_buf_puts(e->out, ";\n");
}

/* ---- lanes and phases
 * -------------------------------------------------------------------------------- */

static void open_lanes(emitter *e, bool threads)
{
    const kas_nest *n = e->nest;
    const long long extent = n->lane < 0 ? 1 : (long long)e->ir->var_size[n->lane];
    const char *macro = threads ? "KAS_THREADS" : "KAS_LANES";
    if (extent > n->lanes)
        line(e, "%s (i, count) {", macro);
    else
        line(e, "%s (i, %lld) {", macro, extent);
    e->indent++;
    if (n->lane >= 0)
        line(e, "const int v%d = %si;", var_name(e, n->lane), extent > n->lanes ? "first + " : "");
}

/* A long reduction before the lanes. */
static void emit_phase(emitter *e, kas_ex x)
{
    const kas_fn fn = (kas_fn)kas_ex_get(e->ir, x)->fn;
    const bool arg_too = fn == KAS_FN_REDUCE_ARGMAX;
    int var[DEEP], vars;
    const kas_ex body = nest_of(e, x, var, &vars);
    const int index = e->lane_values++, acc = arg_too ? e->lane_values++ : index;
    char acc_text[40], index_text[40];
    snprintf(acc_text, sizeof acc_text, "KAS_OF(s%d, i)", acc);
    snprintf(index_text, sizeof index_text, "KAS_OF(s%d, i)", index);
    for (int k = index; k <= acc; k++)
        line(e, "KAS_LANE(float, s%d, %lld);", k, (long long)e->nest->lanes);
    open_lanes(e, true);
    line(e, "%s = %s;", acc_text, first_value(fn));
    if (arg_too)
        line(e, "%s = 0.0f;", index_text);
    close_block(e);
    for (int i = 0; i < vars; i++)
        open_loop(e, var[i]);
    open_lanes(e, true);
    const int mark = leave_mark(e);
    emit_value(e, body);
    accumulate(e, fn, acc_text, index_text, body, var[0]);
    forget(e, mark);
    close_block(e);
    close_loops(e, var, vars);
    e->name[x] = -2 - index;
}

/* Phases in the order in which they are needed. */
static void emit_phases(emitter *e, kas_ex x)
{
    if (e->phased[x])
        return;
    e->phased[x] = 1;
    const kas_ex_node *node = kas_ex_get(e->ir, x);
    for (int i = 0; i < kas_ex_children(node); i++)
        emit_phases(e, node->a[i]);
    if (node->kind != KAS_EX_REDUCE || kas_reduce_length(e->ir, x) <= KAS_LONG_REDUCE)
        return;
    bool free_of_loops = true; /* else it runs within another reduction, in the lanes */
    for (int i = e->nest->loops; i < e->masks.vars; i++)
        free_of_loops &= !(kas_masks_ex(&e->masks, x) >> i & 1);
    if (free_of_loops)
        emit_phase(e, x);
}

/* ---- the kernel
 * ---------------------------------------------------------------------------------------- */

static void see_tensor(void *context, kas_ex x, const kas_ex_node *node)
{
    emitter *e = context;
    (void)x;
    if (node->kind == KAS_EX_LOAD && arg(e, node->tensor) < 0 && e->args < KAS_MAX_LAUNCH_ARGS)
        e->arg_of_tensor[e->args++] = node->tensor;
}

static void emit_head(emitter *e, const char *name)
{
    const kas_nest *n = e->nest;
    kas_buf_puts(e->out, "typedef struct {\n");
    for (int i = 0; i < e->args; i++)
        kas_buf_printf(e->out, "    %sfloat *p%d;\n", i == e->args - 1 ? "" : "const ", i);
    kas_buf_printf(e->out, "} %s_args;\n\nKAS_KERNEL(%s, %s_args)\n{\n", name, name, name);
    e->indent = 1;
    for (int i = 0; i < e->args; i++)
        line(e, "%sfloat *KAS_RESTRICT p%d = a.p%d;", i == e->args - 1 ? "" : "const ", i, i);
    for (int axis = 0; axis < 3; axis++)
        if (n->axis_var[axis] >= 0)
            line(e, "const int v%d = KAS_BLOCK_%c;", var_name(e, n->axis_var[axis]), 'X' + axis);
        else if (n->axis_var[axis] == -2) {
            line(e, "const int first = KAS_BLOCK_%c * %lld;", 'X' + axis, (long long)n->lanes);
            line(e, "const int count = kas_imin(%lld, %lld - first);", (long long)n->lanes,
                 (long long)e->ir->var_size[n->lane]);
        }
    for (int i = 0; i < n->serials; i++)
        open_loop(e, n->serial[i]);
    if (n->rows >= 0) {
        line(e, "KAS_ROWS (v%d, 0, %lld) {", var_name(e, n->rows),
             (long long)e->ir->var_size[n->rows]);
        e->indent++;
    }
}

static void emit_body(emitter *e)
{
    const kas_nest *n = e->nest;
    emit_phases(e, n->value);
    open_lanes(e, e->lane_values > 0);
    emit_value(e, n->value);
    start(e);
    kas_buf_printf(e->out, "p%d[", e->args - 1);
    put_ix(e, n->store);
    kas_buf_puts(e->out, "] = ");
    put_value(e, n->value);
    kas_buf_puts(e->out, ";\n");
    close_block(e);
    for (int i = 0; i < n->serials + (n->rows >= 0); i++)
        close_block(e);
    kas_buf_puts(e->out, "}\n\n");
}

static kas_status emit(emitter *e, const char *name)
{
    KAS_TRY(kas_ex_visit(e->ir, e->nest->value, see_tensor, e));
    if (e->args == KAS_MAX_LAUNCH_ARGS)
        return kas_fail(KAS_UNSUPPORTED, "a fused kernel reads more than %d tensors",
                        KAS_MAX_LAUNCH_ARGS - 1);
    if (arg(e, e->nest->tensor) >= 0)
        return kas_fail(KAS_FAILURE,
                        "generated kernel %s reads what it writes: this is a fault of "
                        "the lowering, please report it",
                        name);
    e->arg_of_tensor[e->args++] = e->nest->tensor;
    for (int i = 0; i < e->nest->loops; i++) /* the kernel's own: open everywhere */
        e->open |= UINT64_C(1) << i;
    emit_head(e, name);
    emit_body(e);
    return kas_buf_status(e->out);
}

kas_status kas_emit_kernel(const kas_ir *ir, const kas_nest *nest, const char *name, kas_buf *out,
                           int args[KAS_MAX_LAUNCH_ARGS], int *count)
{
    const size_t n = (size_t)ir->exprs.count;
    emitter e = {.ir = ir, .nest = nest, .out = out};
    kas_status status = kas_masks_init(&e.masks, ir, nest->value, nest->loops, nest->loop);
    if (status != KAS_OK)
        return status;
    e.name = malloc(sizeof *e.name * n);
    e.live = malloc(sizeof *e.live * n);
    e.phased = calloc(n, 1);
    e.hoisted = calloc(n, sizeof *e.hoisted);
    e.var_name = malloc(sizeof *e.var_name * (size_t)ir->vars);
    if (e.name && e.live && e.phased && e.hoisted && e.var_name) {
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
    free(e.hoisted);
    free(e.var_name);
    kas_masks_free(&e.masks);
    return status;
}

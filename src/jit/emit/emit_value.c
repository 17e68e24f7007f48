/* Writes expressions as text. */
#include "jit/emit/emitter.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- small parts ----------------------------------------------------------------------------- */

void kas_emit_start(kas_emitter *e)
{
    for (int i = 0; i < e->indent; i++)
        kas_buf_puts(e->out, "    ");
}

__attribute__((format(printf, 2, 3))) void kas_emit_line(kas_emitter *e, const char *format, ...)
{
    va_list args;
    kas_emit_start(e);
    va_start(args, format);
    kas_buf_vprintf(e->out, format, args);
    va_end(args);
    kas_buf_puts(e->out, "\n");
}

int kas_emit_var_name(kas_emitter *e, int var)
{
    if (e->var_name[var] < 0)
        e->var_name[var] = e->vars++;
    return e->var_name[var];
}

/* Writes an index that is clamped, without a bound that it cannot pass. */
static void put_clamp(kas_emitter *e, const kas_atom *atom)
{
    const kas_range r = kas_ix_range(e->ir, atom->of);
    const bool all = !(e->inside && kas_nest_covers(e->ir, e->nest, atom->of)),
               below = all && r.low < atom->a, above = all && r.high > atom->b;
    kas_buf_puts(e->out, above ? "kas_imin(" : "");
    kas_buf_puts(e->out, below ? "kas_imax(" : "(");
    kas_emit_put_ix(e, atom->of);
    if (below)
        kas_buf_printf(e->out, ", %lld", (long long)atom->a);
    kas_buf_puts(e->out, ")");
    if (above)
        kas_buf_printf(e->out, ", %lld)", (long long)atom->b);
}

static void put_atom(kas_emitter *e, const kas_atom *atom)
{
    switch ((kas_atom_kind)atom->kind) {
    case KAS_ATOM_VAR:
        kas_buf_printf(e->out, e->each && atom->of == e->nest->lane ? "KAS_EACH_LANE(v%d)" : "v%d",
                       kas_emit_var_name(e, atom->of));
        break;
    case KAS_ATOM_DIV:
    case KAS_ATOM_MOD:
        /* The value is never negative, and in unsigned arithmetic a power of two becomes a shift or
         * a mask. */
        kas_buf_printf(e->out, "(%s)((%s)(", e->nest->wide ? "kas_i64" : "int",
                       e->nest->wide ? "kas_u64" : "kas_u32");
        kas_emit_put_ix(e, atom->of);
        kas_buf_printf(e->out, ") %c %lldu)", atom->kind == KAS_ATOM_DIV ? '/' : '%',
                       (long long)atom->a);
        break;
    case KAS_ATOM_CLAMP:
        put_clamp(e, atom);
        break;
    }
}

void kas_emit_put_ix(kas_emitter *e, kas_ix ix)
{
    kas_emit_put_sum(e, kas_ix_get(e->ir, ix));
}

void kas_emit_put_sum(kas_emitter *e, const kas_ix_sum *s)
{
    for (int i = 0; i < s->terms; i++) {
        const kas_atom *atom = kas_atom_get(e->ir, s->term[i].atom);
        const long long c = s->term[i].coeff, size = llabs(c);
        kas_buf_puts(e->out, c < 0 ? (i ? " - " : "-") : (i ? " + " : ""));
        if (size != 1)
            kas_buf_printf(e->out, "%lld%s * ", size, e->nest->wide ? "LL" : "");
        put_atom(e, atom);
    }
    if (s->terms == 0)
        kas_buf_printf(e->out, "%lld", (long long)s->constant);
    else if (s->constant)
        kas_buf_printf(e->out, " %c %lld", s->constant < 0 ? '-' : '+',
                       (long long)llabs(s->constant));
}

static void put_const(kas_emitter *e, double value)
{
    char text[40];
    snprintf(text, sizeof text, "%.9g", value);
    kas_buf_puts(e->out, text);
    kas_buf_puts(e->out, strpbrk(text, ".e") ? "f" : ".0f");
}

static bool is_unrolled(const kas_emitter *e, int var)
{
    const int id = kas_nest_id_of(e->nest, var);
    return id >= 0 && e->nest->state[id] == KAS_LOOP_UNROLLED;
}

/* Returns whether a loop that is unrolled inside the lanes moves what stands in an index by a
 * constant: clamps do not where windows lie inside. */
static bool is_moved(const kas_emitter *e, const kas_atom *atom)
{
    if (atom->kind == KAS_ATOM_VAR)
        return is_unrolled(e, atom->of);
    if (atom->kind != KAS_ATOM_CLAMP || !e->inside || !kas_nest_covers(e->ir, e->nest, atom->of))
        return false;
    const kas_ix_sum *s = kas_ix_get(e->ir, atom->of);
    bool moved = false;
    for (int i = 0; i < s->terms; i++)
        moved |= is_moved(e, kas_atom_get(e->ir, s->term[i].atom));
    return moved;
}

/* Splits an address into the lane's own place, as *lane, and what all lanes share, as *shared. Returns
 * false where nothing is to be gained: lanes do not read side by side, or no loop that is unrolled
 * inside them moves them all by a constant. */
static bool split_address(const kas_emitter *e, kas_ix ix, kas_ix_sum *lane, kas_ix_sum *shared)
{
    enum { FEW = 8 }; /* lanes that compilers unroll, too */
    const kas_ix_sum *s = kas_ix_get(e->ir, ix);
    int64_t apart;
    bool moved = false;
    if (!e->ir->cpu || e->nest->slides || e->nest->lanes < FEW ||
        !kas_ix_coeff(e->ir, ix, e->nest->lane, &apart) || apart != 1)
        return false;
    *lane = (kas_ix_sum){0};
    *shared = (kas_ix_sum){.constant = s->constant};
    for (int i = 0; i < s->terms; i++) {
        const kas_atom *atom = kas_atom_get(e->ir, s->term[i].atom);
        const bool own = atom->kind == KAS_ATOM_VAR && atom->of == e->nest->lane;
        kas_ix_sum *to = own ? lane : shared;
        to->term[to->terms++] = s->term[i];
        moved |= is_moved(e, atom);
    }
    return moved;
}

/* Writes where a load reads, as pointer, `between` and index. Of an index in 32 bits, of which a part
 * becomes constant where a loop inside the lanes is unrolled, a CPU's compiler no longer knows that
 * it cannot overflow, and gathers what lies side by side; so what lanes share is added to the
 * pointer. */
static void put_address(kas_emitter *e, const kas_ex_node *node, const char *between)
{
    kas_ix_sum lane, shared;
    const bool split = split_address(e, node->ix, &lane, &shared);
    kas_buf_printf(e->out, split ? "(p%d + " : "p%d", kas_emit_arg(e, node->tensor));
    if (split) {
        kas_buf_puts(e->out, "(");
        kas_emit_put_sum(e, &shared);
        kas_buf_puts(e->out, "))");
    }
    kas_buf_puts(e->out, between);
    if (split)
        kas_emit_put_sum(e, &lane);
    else
        kas_emit_put_ix(e, node->ix);
}

void kas_emit_put_load(kas_emitter *e, const kas_ex_node *node)
{
    kas_buf_puts(e->out, kas_emit_is_real(e, node->tensor) ? "kas_value(" : "");
    put_address(e, node, "[");
    kas_buf_puts(e->out, kas_emit_is_real(e, node->tensor) ? "])" : "]");
}

/* Writes a kept value; what was loaded is loaded again where that is cheaper. */
static void put_kept(kas_emitter *e, kas_ex x)
{
    const kas_ex_node *node = kas_ex_get(e->ir, x);
    const int turn = kas_emit_var_name(e, e->nest->column), array = -2 - e->name[x];
    const char *wide = kas_emit_is_wide(e, x) ? "WIDE_" : "";
    if (node->kind != KAS_EX_LOAD) {
        kas_buf_printf(e->out, "KAS_%sCOLUMN_OF(s%d, v%d, %lld, i)", wide, array, turn,
                       (long long)e->nest->lanes);
        return;
    }
    kas_buf_printf(e->out, "KAS_%sCOLUMN_AGAIN(s%d, v%d, ", wide, array, turn);
    e->each = *wide;
    kas_emit_put_load(e, node);
    e->each = false;
    kas_buf_puts(e->out, ")");
}

static bool is_along_column(kas_emitter *e, kas_ex x)
{
    return e->nest->column >= 0 &&
           kas_masks_ex(&e->masks, x) >> kas_masks_index(&e->masks, e->nest->column) & 1;
}

static bool is_around(const kas_emitter *e, kas_ex x)
{
    const kas_ex_node *node = kas_ex_get(e->ir, x);
    return node->kind == KAS_EX_REDUCE && kas_nest_state_of(e->nest, node) == KAS_LOOP_AROUND;
}

bool kas_emit_has_turns(kas_emitter *e, kas_ex x)
{
    return e->nest->slides && is_around(e, x) &&
           kas_masks_ex(&e->masks, x) >> kas_masks_index(&e->masks, e->nest->inner) & 1;
}

void kas_emit_lane_value(kas_emitter *e, kas_ex x, int number, char text[60])
{
    const bool wide = kas_emit_is_wide(e, x);
    if (kas_emit_has_turns(e, x))
        snprintf(text, 60, "KAS_%sCOLUMN_OF(s%d, v%d, %lld, i)", wide ? "WIDE_" : "", number,
                 kas_emit_var_name(e, e->nest->inner), (long long)e->nest->lanes);
    else
        snprintf(text, 60, "%s(s%d, i)",
                 e->nest->row ? (wide ? "KAS_WIDE_ROW_OF" : "KAS_ROW_OF")
                 : wide       ? "KAS_EACH_OF"
                              : "KAS_OF",
                 number);
}

void kas_emit_put_value(kas_emitter *e, kas_ex x)
{
    const kas_ex_node *node = kas_ex_get(e->ir, x);
    const int name = e->name[x];
    if (node->kind == KAS_EX_CONST && node->value < 0) {
        kas_buf_puts(e->out, "(");
        put_const(e, node->value);
        kas_buf_puts(e->out, ")");
    } else if (node->kind == KAS_EX_CONST) {
        put_const(e, node->value);
    } else if (name <= -2 && is_along_column(e, x)) {
        put_kept(e, x);
    } else if (name <= -2 && e->nest->slides && !is_around(e, x)) {
        kas_buf_printf(e->out, kas_emit_is_wide(e, x) ? "KAS_EACH_VALUE(s%d[v%d])" : "s%d[v%d]",
                       -2 - name, kas_emit_var_name(e, e->nest->inner));
    } else if (name <= -2) {
        char text[60];
        kas_emit_lane_value(e, x, -2 - name, text);
        kas_buf_puts(e->out, text);
    } else {
        kas_buf_printf(e->out, kas_emit_is_wide(e, x) ? "KAS_EACH_VALUE(t%d)" : "t%d", name);
    }
}

bool kas_emit_is_wide(kas_emitter *e, kas_ex x)
{
    enum { NARROW = 1, WIDE };
    if (e->nest->width == 1)
        return false;
    if (e->wide[x])
        return e->wide[x] == WIDE;
    const kas_ex_node *node = kas_ex_get(e->ir, x);
    bool wide =
        (node->kind == KAS_EX_LOAD || node->kind == KAS_EX_INDEX || node->kind == KAS_EX_GUARD) &&
        kas_ix_group(e->ir, node->ix, e->nest->lane).kind != KAS_GROUP_SAME;
    /* A row's reduction is one value for all its lanes, a column's is one for each lane. */
    const bool same = node->kind == KAS_EX_ROW && e->nest->row;
    for (int i = 0; i < kas_ex_children(node) && !same; i++)
        wide |= kas_emit_is_wide(e, node->a[i]);
    e->wide[x] = wide ? WIDE : NARROW;
    return wide;
}

int kas_emit_arg(kas_emitter *e, int tensor)
{
    for (int i = 0; i < e->args; i++)
        if (e->arg_of_tensor[i] == tensor)
            return i;
    return -1;
}

bool kas_emit_is_real(const kas_emitter *e, int tensor)
{
    return e->ir->tensor[tensor].dtype != KAS_F32;
}

const char *kas_emit_type(const kas_emitter *e, int arg)
{
    return kas_emit_is_real(e, e->arg_of_tensor[arg]) ? "kas_real" : "float";
}

/* ---- values ---------------------------------------------------------------------------------- */

int kas_emit_leave_mark(const kas_emitter *e)
{
    return e->lives;
}

void kas_emit_forget(kas_emitter *e, int mark)
{
    while (e->lives > mark)
        e->name[e->live[--e->lives]] = KAS_NOT_EMITTED;
}

static int new_name(kas_emitter *e, kas_ex x)
{
    e->live[e->lives++] = x;
    return e->name[x] = e->temps++;
}

void kas_emit_hoist(kas_emitter *e, kas_ex x, int turn)
{
    const kas_ex_node *node = kas_ex_get(e->ir, x);
    if (e->hoisted[x] == turn)
        return;
    e->hoisted[x] = turn;
    if ((kas_masks_ex(&e->masks, x) & ~e->open) == 0) {
        kas_emit_value(e, x);
        return;
    }
    for (int i = 0; i < kas_ex_children(node); i++)
        kas_emit_hoist(e, node->a[i], turn);
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
        return "kas_sigmoid(%)";
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
static void put_format(kas_emitter *e, const char *format, const kas_ex_node *node)
{
    int next = 0;
    for (const char *c = format; *c; c++) {
        if (*c == '%')
            kas_emit_put_value(e, node->a[next++]);
        else
            kas_buf_add(e->out, c, 1);
    }
}

/* Returns whether a guard is one of taps. Other guards choose between larger parts of an expression,
 * of which a compiler leaves out the one that is not chosen. */
static bool is_of_window(const kas_emitter *e, const kas_ex_node *node)
{
    return kas_nest_guards_taps(e->ir, e->nest, &e->masks, node->ix) &&
           kas_ex_get(e->ir, node->a[0])->kind != KAS_EX_REDUCE;
}

static void put_guard(kas_emitter *e, const kas_ex_node *node)
{
    const kas_range r = kas_ix_range(e->ir, node->ix);
    const bool below = r.low<node->low, above = r.high> node->high;
    const bool window = is_of_window(e, node);
    if (e->inside && kas_nest_covers(e->ir, e->nest, node->ix)) {
        kas_emit_put_value(e, node->a[0]);
        return;
    }
    kas_buf_puts(e->out, window ? "kas_inside(" : "(");
    if (below) {
        kas_emit_put_ix(e, node->ix);
        kas_buf_printf(e->out, " >= %lld", (long long)node->low);
    }
    kas_buf_puts(e->out, below && above ? " && " : "");
    if (above) {
        kas_emit_put_ix(e, node->ix);
        kas_buf_printf(e->out, " <= %lld", (long long)node->high);
    }
    kas_buf_puts(e->out, window ? ", " : ") ? ");
    kas_emit_put_value(e, node->a[0]);
    kas_buf_puts(e->out, window ? ")" : " : 0.0f");
}

/* ---- reductions ------------------------------------------------------------------------------ */

const char *kas_emit_first_value(kas_fn fn)
{
    return fn == KAS_FN_REDUCE_SUM ? "0.0f" : "-KAS_INFINITY";
}

kas_ex kas_emit_nest_of(const kas_emitter *e, kas_ex x, int *var, int *vars)
{
    const kas_ex_node *node = kas_ex_get(e->ir, x);
    const int fn = node->fn;
    const bool unrolled = kas_nest_state_of(e->nest, node) == KAS_LOOP_UNROLLED;
    *vars = 0;
    while (node->kind == KAS_EX_REDUCE && node->fn == fn && *vars < KAS_DEEP &&
           e->name[x] == KAS_NOT_EMITTED &&
           (unrolled || kas_nest_state_of(e->nest, node) != KAS_LOOP_UNROLLED)) {
        var[(*vars)++] = node->var;
        x = node->a[0];
        node = kas_ex_get(e->ir, x);
        if (fn == KAS_FN_REDUCE_ARGMAX)
            break;
    }
    return x;
}

void kas_emit_open_loop(kas_emitter *e, int var)
{
    const int v = kas_emit_var_name(e, var);
    kas_emit_line(e, "for (int v%d = 0; v%d < %lld; v%d++) {", v, v,
                  (long long)e->ir->var_size[var], v);
    e->indent++;
    e->open |= UINT64_C(1) << kas_masks_index(&e->masks, var);
}

void kas_emit_close_block(kas_emitter *e)
{
    e->indent--;
    kas_emit_line(e, "}");
}

void kas_emit_close_loops(kas_emitter *e, const int *var, int vars)
{
    for (int i = vars - 1; i >= 0; i--) {
        kas_emit_close_block(e);
        e->open &= ~(UINT64_C(1) << kas_masks_index(&e->masks, var[i]));
    }
}

void kas_emit_accumulate(kas_emitter *e, kas_fn fn, const char *acc, const char *index, kas_ex body,
                         int var)
{
    const bool wide = kas_emit_is_wide(e, body);
    kas_emit_start(e);
    kas_buf_puts(e->out, wide ? "KAS_EACH(" : "");
    if (fn == KAS_FN_REDUCE_SUM) {
        kas_buf_printf(e->out, "%s += ", acc);
        kas_emit_put_value(e, body);
    } else {
        if (fn == KAS_FN_REDUCE_ARGMAX) {
            kas_buf_printf(e->out, "%s = kas_exceeds(", index);
            kas_emit_put_value(e, body);
            kas_buf_printf(e->out, ", %s) ? (float)v%d : %s; ", acc, kas_emit_var_name(e, var),
                           index);
        }
        kas_buf_printf(e->out, "%s = kas_max(", acc);
        kas_emit_put_value(e, body);
        kas_buf_printf(e->out, ", %s)", acc);
    }
    kas_buf_puts(e->out, wide ? ";)\n" : ";\n");
}

static void emit_reduce(kas_emitter *e, kas_ex x)
{
    const kas_fn fn = (kas_fn)kas_ex_get(e->ir, x)->fn;
    int var[KAS_DEEP], vars;
    const kas_ex body = kas_emit_nest_of(e, x, var, &vars);
    kas_emit_hoist(e, body, ++e->turns);
    const int name = new_name(e, x), best = fn == KAS_FN_REDUCE_ARGMAX ? e->temps++ : name;
    const bool wide = kas_emit_is_wide(e, x);
    char acc[40], index[40];
    snprintf(acc, sizeof acc, wide ? "KAS_EACH_VALUE(t%d)" : "t%d", best);
    snprintf(index, sizeof index, wide ? "KAS_EACH_VALUE(t%d)" : "t%d", name);
    const char *declare = wide ? "KAS_WIDE_VALUE(t%d, %s);" : "float t%d = %s;";
    kas_emit_line(e, declare, best, kas_emit_first_value(fn));
    if (best != name)
        kas_emit_line(e, declare, name, "0.0f");
    const int mark = kas_emit_leave_mark(e);
    kas_emit_open_loops(e, body, var, vars,
                        kas_nest_state_of(e->nest, kas_ex_get(e->ir, x)) == KAS_LOOP_UNROLLED);
    kas_emit_value(e, body);
    kas_emit_accumulate(e, fn, acc, index, body, var[0]);
    kas_emit_close_loops(e, var, vars);
    kas_emit_forget(e, mark);
}

/* Writes the right-hand side of a value's definition. */
static void put_definition(kas_emitter *e, kas_ex x)
{
    const kas_ex_node *node = kas_ex_get(e->ir, x);
    switch ((kas_ex_kind)node->kind) {
    case KAS_EX_LOAD:
        if (!kas_emit_put_tiled(e, x) && !kas_emit_put_boxed(e, x))
            kas_emit_put_load(e, node);
        break;
    case KAS_EX_INDEX:
        kas_buf_puts(e->out, "(float)(");
        kas_emit_put_ix(e, node->ix);
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
}

static bool is_wide_load(const kas_emitter *e, kas_ex x, const kas_ex_node *node)
{
    const kas_group g = kas_ix_group(e->ir, node->ix, e->nest->lane);
    return node->kind == KAS_EX_LOAD && g.kind == KAS_GROUP_RUN && g.aligned &&
           !kas_emit_is_picked(e, x);
}

void kas_emit_value(kas_emitter *e, kas_ex x)
{
    const kas_ex_node *node = kas_ex_get(e->ir, x);
    if (e->name[x] != KAS_NOT_EMITTED || node->kind == KAS_EX_CONST)
        return;
    if (node->kind == KAS_EX_REDUCE) {
        emit_reduce(e, x);
        return;
    }
    for (int i = 0; i < kas_ex_children(node); i++)
        kas_emit_value(e, node->a[i]);
    const int name = new_name(e, x);
    kas_emit_start(e);
    if (!kas_emit_is_wide(e, x)) {
        kas_buf_printf(e->out, "const float t%d = ", name);
        put_definition(e, x);
        kas_buf_puts(e->out, ";\n");
    } else if (is_wide_load(e, x, node)) {
        kas_buf_puts(e->out,
                     kas_emit_is_real(e, node->tensor) ? "KAS_WIDE_LOAD_REAL(" : "KAS_WIDE_LOAD(");
        kas_buf_printf(e->out, "t%d, ", name);
        put_address(e, node, ", ");
        kas_buf_puts(e->out, ");\n");
    } else {
        e->each = true;
        kas_buf_printf(e->out, "KAS_WIDE_VALUE(t%d, ", name);
        put_definition(e, x);
        kas_buf_puts(e->out, ");\n");
        e->each = false;
    }
}

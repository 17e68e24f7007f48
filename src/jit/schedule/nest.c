/* Opens a nest, and improves its loops before they are placed: splits them where a division falls
 * away, merges neighbours that are walked alike. */
#include "jit/schedule/nest.h"

#include <string.h>

#include "host/core/gcd.h"

/* ---- opening --------------------------------------------------------------------------------- */

/* Sets the kernel's loops and its store. A row's lanes are the last loop; the walk along columns is
 * the first, where it hinders no merging. */
static void open_loops(kas_ir *ir, int tensor, kas_nest *nest)
{
    const kas_ir_tensor *t = &ir->tensor[tensor];
    kas_ix idx[KAS_IR_RANK];
    int dim[KAS_IR_RANK];
    kas_row_index(ir, t, idx);
    nest->column = t->walked ? t->row_var : -1;
    if (nest->column >= 0)
        nest->loop[nest->loops++] = nest->column;
    kas_ir_memory_order(t, dim);
    for (int i = 0; i < t->rank; i++) {
        const int d = dim[i];
        nest->store = kas_ix_add(ir, nest->store, kas_ix_scale(ir, idx[d], t->stride[d]));
        if (t->var[d] >= 0 && !kas_row_has_dim(t, d))
            nest->loop[nest->loops++] = t->var[d];
    }
    nest->row = t->row_var >= 0 && !t->walked;
    if (!nest->row)
        return;
    if (t->row_block >= 0)
        nest->loop[nest->loops++] = t->row_block;
    nest->lane = nest->loop[nest->loops++] = t->row_var;
    nest->lanes = ir->var_size[nest->lane];
}

/* Numbers the loops and the reductions, outermost first. */
static kas_status number_loops(kas_ir *ir, kas_nest *nest)
{
    kas_masks masks; /* which lists inner reductions first */
    KAS_TRY(ir->status);
    KAS_TRY(kas_masks_init(&masks, ir, nest->value, nest->loops, nest->loop));
    for (int i = 0; i < masks.vars; i++)
        nest->var_of[i] = masks.var[i < nest->loops ? i : masks.vars - 1 - (i - nest->loops)];
    nest->opened = nest->loops;
    nest->ids = nest->bases = masks.vars;
    kas_masks_free(&masks);
    return KAS_OK;
}

/* Sets the values that are written beside the rows; they are expressed in the variables of the
 * tensor that takes them in. */
static void add_outputs(kas_ir *ir, kas_nest *nest)
{
    const kas_ir_tensor *own = &ir->tensor[nest->tensor];
    nest->outputs = kas_rows_outputs(ir, nest->tensor, nest->output);
    for (int i = 0; i < nest->outputs; i++) {
        const kas_ir_tensor *t = &ir->tensor[nest->output[i]];
        nest->output_value[i] = t->row_value;
        nest->output_store[i] = 0;
        for (int d = 0; d < t->rank; d++)
            if (t->var[d] >= 0)
                nest->output_store[i] =
                    kas_ix_add(ir, nest->output_store[i],
                               kas_ix_scale(ir, kas_ix_var(ir, own->var[d]), t->stride[d]));
    }
}

kas_status kas_nest_open(kas_ir *ir, int tensor, kas_ex value, kas_nest *out)
{
    *out = (kas_nest){.tensor = tensor,
                      .value = value,
                      .lane = -1,
                      .lanes = 1,
                      .width = 1,
                      .inner = -1,
                      .rows = -1,
                      .factored = -1,
                      .ahead = -1,
                      .axis_var = {KAS_AXIS_NONE, KAS_AXIS_NONE, KAS_AXIS_NONE},
                      .grid = {1, 1, 1},
                      .turned = -1};
    open_loops(ir, tensor, out);
    add_outputs(ir, out);
    kas_nest_set_threads(out);
    return number_loops(ir, out);
}

/* ---- indices --------------------------------------------------------------------------------- */

typedef struct ix_walk {
    kas_ix_visitor *see;
    void *context;
} ix_walk;

static void see_node(void *context, kas_ex e, const kas_ex_node *node)
{
    const ix_walk *w = context;
    (void)e;
    if (node->kind == KAS_EX_LOAD || node->kind == KAS_EX_INDEX || node->kind == KAS_EX_GUARD)
        w->see(w->context, node, node->ix);
}

kas_status kas_nest_visit(const kas_ir *ir, const kas_nest *nest, kas_ix_visitor *see,
                          void *context)
{
    ix_walk w = {see, context};
    KAS_TRY(kas_ex_visit(ir, nest->value, see_node, &w));
    see(context, NULL, nest->store);
    return KAS_OK;
}

/* ---- divisions ------------------------------------------------------------------------------- */

enum { MAX_SPLITS = 64 };

typedef struct divisions {
    const kas_ir *ir;
    int whole;  /* variable that is not split, because it is a row or a column; or -1 */
    int count;  /* divisions in all places together */
    int splits; /* candidate splits: variable, and size of the inner loop */
    int var[MAX_SPLITS];
    int64_t inner[MAX_SPLITS];
} divisions;

static void add_split(divisions *d, int var, int64_t inner)
{
    const int64_t size = d->ir->var_size[var];
    if (inner <= 1 || inner >= size || size % inner || d->splits == MAX_SPLITS || var == d->whole)
        return;
    for (int i = 0; i < d->splits; i++)
        if (d->var[i] == var && d->inner[i] == inner)
            return;
    d->var[d->splits] = var;
    d->inner[d->splits++] = inner;
}

static void see_divisions(void *context, const kas_ex_node *node, kas_ix ix)
{
    divisions *d = context;
    const kas_ix_sum *s = kas_ix_get(d->ir, ix);
    for (int i = 0; i < s->terms; i++) {
        const kas_atom *atom = kas_atom_get(d->ir, s->term[i].atom);
        if (atom->kind == KAS_ATOM_VAR)
            continue;
        see_divisions(context, node, atom->of);
        if (atom->kind == KAS_ATOM_CLAMP)
            continue;
        d->count++;
        const kas_ix_sum *of = kas_ix_get(d->ir, atom->of);
        for (int j = 0; j < of->terms; j++) {
            const kas_atom *inside = kas_atom_get(d->ir, of->term[j].atom);
            if (inside->kind == KAS_ATOM_VAR)
                add_split(d, inside->of, atom->a / kas_gcd_signed(atom->a, of->term[j].coeff));
        }
    }
}

/* Drops the variable of an argmax, which stays one loop because its result counts
 * that loop's turns. */
static void see_argmax(void *context, kas_ex e, const kas_ex_node *node)
{
    divisions *d = context;
    (void)e;
    if (node->kind != KAS_EX_REDUCE || node->fn != KAS_FN_REDUCE_ARGMAX)
        return;
    for (int i = 0; i < d->splits; i++)
        if (d->var[i] == node->var)
            d->var[i] = -1;
}

static kas_status find_divisions(const kas_ir *ir, const kas_nest *nest, divisions *out)
{
    *out = (divisions){.ir = ir, .whole = nest->row ? nest->lane : nest->column};
    KAS_TRY(kas_nest_visit(ir, nest, see_divisions, out));
    return kas_ex_visit(ir, nest->value, see_argmax, out);
}

/* Substitutes `s` in everything that the kernel writes beside its tensor. */
static void subst_outputs(kas_ir *ir, kas_nest *nest, const kas_subst *s)
{
    for (int i = 0; i < nest->outputs; i++) {
        nest->output_value[i] = kas_ex_map(ir, nest->output_value[i], s, false);
        nest->output_store[i] = kas_ix_subst(ir, nest->output_store[i], s);
    }
}

/* Records a step that replaces loop a, and b if that is not -1, by others. */
static bool replace(kas_nest *nest, kas_step step, int a, int b, const int *made, int count)
{
    const int of[2] = {kas_nest_id_of(nest, a), b < 0 ? -1 : kas_nest_id_of(nest, b)};
    if (of[0] < 0 || nest->ids + count > KAS_LOOP_IDS)
        return false;
    step.loop = (uint8_t)of[0];
    step.other = (uint8_t)(b < 0 ? 0 : of[1]);
    for (int i = 0; i < count; i++) {
        nest->var_of[nest->ids] = made[i];
        nest->state[nest->ids++] = nest->state[of[0]];
    }
    for (int i = 0; i < 2; i++)
        if (of[i] >= 0)
            nest->state[of[i]] = KAS_LOOP_REPLACED;
    return kas_nest_record(nest, step);
}

/* What is written beside the rows is made of the kernel's reductions and of those inside them: they
 * are split alike, so that they stay the same expressions. */
bool kas_nest_split_loop(kas_ir *ir, const kas_nest *from, int var, int64_t inner, kas_nest *to)
{
    const int at = kas_nest_place_in(from, var);
    const int made[2] = {kas_ir_var(ir, ir->var_size[var] / inner), kas_ir_var(ir, inner)};
    const int high = made[0], low = made[1];
    *to = *from;
    if (!replace(to, (kas_step){.kind = KAS_STEP_SPLIT, .n = (int32_t)inner}, var, -1, made, 2))
        return false;
    to->value = kas_ex_split(ir, from->value, var, high, low);
    for (int i = 0; i < to->outputs; i++)
        to->output_value[i] = kas_ex_split(ir, from->output_value[i], var, high, low);
    if (at < 0)
        return true;
    if (from->loops == KAS_NEST_LOOPS)
        return false;
    kas_subst s = {0};
    kas_subst_add(
        ir, &s, var,
        kas_ix_add(ir, kas_ix_scale(ir, kas_ix_var(ir, high), inner), kas_ix_var(ir, low)));
    to->store = kas_ix_subst(ir, from->store, &s);
    for (int i = 0; i < to->outputs; i++)
        to->output_store[i] = kas_ix_subst(ir, from->output_store[i], &s);
    memmove(to->loop + at + 1, to->loop + at, sizeof *to->loop * (size_t)(to->loops - at));
    to->loop[at] = high;
    to->loop[at + 1] = low;
    to->loops++;
    return true;
}

kas_status kas_nest_split(kas_ir *ir, kas_nest *nest)
{
    divisions now, then;
    KAS_TRY(find_divisions(ir, nest, &now));
    for (int i = 0; i < now.splits && now.count > 0; i++) {
        kas_nest trial;
        if (now.var[i] < 0 || !kas_nest_split_loop(ir, nest, now.var[i], now.inner[i], &trial))
            continue;
        KAS_TRY(find_divisions(ir, &trial, &then));
        if (then.count >= now.count)
            continue;
        *nest = trial;
        now = then;
        i = -1;
    }
    return ir->status;
}

bool kas_nest_merge_pair(kas_ir *ir, const kas_nest *nest, int i, kas_nest *to)
{
    const int a = nest->loop[i], b = nest->loop[i + 1];
    const int64_t inner = ir->var_size[b];
    if (ir->var_size[a] * inner > INT32_MAX || (nest->row && b == nest->lane) ||
        a == nest->column || b == nest->column)
        return false;
    const int var = kas_ir_var(ir, ir->var_size[a] * inner);
    kas_subst s = {0};
    kas_subst_add(ir, &s, a, kas_ix_div(ir, kas_ix_var(ir, var), inner));
    kas_subst_add(ir, &s, b, kas_ix_mod(ir, kas_ix_var(ir, var), inner));
    *to = *nest;
    if (!replace(to, (kas_step){.kind = KAS_STEP_FUSE}, a, b, &var, 1))
        return false;
    to->value = kas_ex_map(ir, nest->value, &s, false);
    to->store = kas_ix_subst(ir, nest->store, &s);
    subst_outputs(ir, to, &s);
    to->loop[i] = var;
    to->loops--;
    memmove(to->loop + i + 1, to->loop + i + 2, sizeof *to->loop * (size_t)(to->loops - i - 1));
    return true;
}

kas_status kas_nest_merge(kas_ir *ir, kas_nest *nest)
{
    divisions now, then;
    KAS_TRY(find_divisions(ir, nest, &now));
    for (int i = 0; i + 1 < nest->loops;) {
        kas_nest trial;
        if (!kas_nest_merge_pair(ir, nest, i, &trial)) {
            i++;
            continue;
        }
        KAS_TRY(find_divisions(ir, &trial, &then));
        if (then.count > now.count) {
            i++;
            continue;
        }
        *nest = trial;
        now = then;
        i = i > 0 ? i - 1 : 0;
    }
    return ir->status;
}

#include "jit/schedule/dependence.h"

#include <stdlib.h>
#include <string.h>

#include "jit/schedule/nest.h"
#include "jit/schedule/sequence_text.h"

/* Returns whether turns of a loop write different elements: what other loops add to the address
 * with smaller strides is less than the loop's own stride. A loop inside an atom is a digit of a
 * loop that was fused, and the step that fused it left the addresses as they were. */
static bool writes_apart(const kas_ir *ir, kas_ix store, int var)
{
    const kas_ix_sum *s = kas_ix_get(ir, store);
    int64_t own, below = 0;
    if (!kas_ix_has_var(ir, store, var))
        return ir->var_size[var] == 1;
    if (!kas_ix_coeff(ir, store, var, &own))
        return true;
    for (int i = 0; i < s->terms; i++) {
        const kas_atom *atom = kas_atom_get(ir, s->term[i].atom);
        const int64_t stride = llabs(s->term[i].coeff);
        if (stride > llabs(own) || atom->kind != KAS_ATOM_VAR || atom->of == var)
            continue;
        below += stride * (ir->var_size[atom->of] - 1);
    }
    return llabs(own) > below;
}

kas_dependence_kind kas_nest_carries(const kas_ir *ir, const kas_nest *nest, int var)
{
    if (nest->row && var == nest->lane)
        return KAS_DEPENDENCE_ROW;
    if (var == nest->column)
        return KAS_DEPENDENCE_WALK;
    return writes_apart(ir, nest->store, var) ? KAS_DEPENDENCE_NONE : KAS_DEPENDENCE_OUTPUT;
}

typedef struct listing {
    kas_masks masks; /* of reductions, inner ones come first */
    int own;         /* loops of the nest */
    kas_dependence *out;
    int count, room;
} listing;

/* Adds a dependence with all directions '='; returns NULL when there is no room. */
static kas_dependence *add(listing *l, kas_dependence_kind kind)
{
    const kas_masks *m = &l->masks;
    if (l->count == l->room)
        return NULL;
    kas_dependence *d = &l->out[l->count++];
    *d = (kas_dependence){.kind = kind, .loops = m->vars};
    for (int i = 0; i < m->vars; i++) {
        d->var[i] = m->var[i < l->own ? i : m->vars - 1 - (i - l->own)];
        d->direction[i] = '=';
    }
    return d;
}

static char *direction_at(kas_dependence *d, int var)
{
    int i = 0;
    while (d->var[i] != var)
        i++;
    return &d->direction[i];
}

/* A turn of a reduction follows all turns before it, whatever turns of the reductions of its kind
 * right inside it they are. */
static void see_reduction(void *context, kas_ex e, const kas_ex_node *node)
{
    listing *l = context;
    (void)e;
    if (node->kind != KAS_EX_REDUCE)
        return;
    kas_dependence *d = add(l, KAS_DEPENDENCE_SUM);
    if (!d)
        return;
    d->reorderable = node->fn != KAS_FN_REDUCE_ARGMAX;
    *direction_at(d, node->var) = '<';
    const int fn = node->fn;
    for (node = kas_ex_get(l->masks.ir, node->a[0]); node->kind == KAS_EX_REDUCE && node->fn == fn;
         node = kas_ex_get(l->masks.ir, node->a[0]))
        *direction_at(d, node->var) = '*';
}

kas_status kas_nest_dependences(const kas_ir *ir, const kas_nest *nest, kas_dependence *out,
                                int room, int *count)
{
    listing l = {.own = nest->loops, .out = out, .room = room};
    KAS_TRY(kas_masks_init(&l.masks, ir, nest->value, nest->loops, nest->loop));
    for (int i = 0; i < nest->loops; i++) {
        const kas_dependence_kind kind = kas_nest_carries(ir, nest, nest->loop[i]);
        kas_dependence *d = kind == KAS_DEPENDENCE_NONE ? NULL : add(&l, kind);
        if (d)
            d->direction[i] = kind == KAS_DEPENDENCE_OUTPUT ? '<' : '*';
    }
    const kas_status status = kas_ex_visit(ir, nest->value, see_reduction, &l);
    kas_masks_free(&l.masks);
    *count = l.count;
    return status;
}

/* (Those of rows and walks lie between loops of their own, which no step merges.) */
int kas_dependence_reversed(const kas_dependence *list, int count, int a, int b)
{
    for (int k = 0; k < count; k++) {
        kas_dependence d = list[k];
        char *at[2] = {direction_at(&d, a), direction_at(&d, b)};
        const char kept = *at[0];
        int i = 0;
        *at[0] = *at[1];
        *at[1] = kept;
        while (i < d.loops && d.direction[i] == '=')
            i++;
        if (i < d.loops && d.direction[i] == '*' && d.kind != KAS_DEPENDENCE_ROW &&
            d.kind != KAS_DEPENDENCE_WALK && !d.reorderable)
            return k;
    }
    return -1;
}

void kas_dependence_print(const kas_dependence *d, kas_buf *out)
{
    static const char *const of[] = {"", "S3 -> S3", "S2 -> S3", "S2 -> S2'", "S2 -> S2"};
    kas_buf_printf(out, "%s (", of[d->kind]);
    for (int i = 0; i < d->loops; i++)
        kas_buf_printf(out, "%s%c", i ? ", " : "", d->direction[i]);
    kas_buf_puts(out, ")");
}

/* ---- the order of sums ----------------------------------------------------------------------- */

typedef struct summing {
    const kas_ir *ir;
    const kas_nest *nest;
    kas_masks masks;
    bool is_inner[64]; /* by place in the masks: it stands right inside a sum */
    kas_buf *out;
} summing;

static void see_inner_sum(void *context, kas_ex e, const kas_ex_node *node)
{
    summing *s = context;
    (void)e;
    if (node->kind != KAS_EX_REDUCE || node->fn != KAS_FN_REDUCE_SUM)
        return;
    const kas_ex_node *body = kas_ex_get(s->ir, node->a[0]);
    if (body->kind == KAS_EX_REDUCE && body->fn == node->fn)
        s->is_inner[kas_masks_index(&s->masks, body->var)] = true;
}

/* Puts a reduction in the place of its parts where they run one right inside the other. */
static int merge_parts(const kas_nest *nest, int *id, int count)
{
    int made = nest->ids;
    for (int i = nest->schedule.steps - 1; i >= 0; i--) {
        const kas_step s = nest->schedule.step[i];
        made -= s.kind == KAS_STEP_SPLIT ? 2 : s.kind == KAS_STEP_FUSE;
        for (int k = 0; s.kind == KAS_STEP_SPLIT && k + 1 < count; k++)
            if (id[k] == made && id[k + 1] == made + 1) {
                id[k] = s.loop;
                memmove(id + k + 1, id + k + 2, sizeof *id * (size_t)(--count - k - 1));
            }
    }
    return count;
}

/* Prints the reductions that share a sum, outermost first, and returns what they add up: as
 * kas_emit_nest_of takes them, those that are unrolled inside loops have a sum of their own. */
static kas_ex print_sum(summing *s, kas_ex e)
{
    const kas_ex_node *node = kas_ex_get(s->ir, e);
    const bool unrolled = kas_nest_state_of(s->nest, node) == KAS_LOOP_UNROLLED,
               around = kas_nest_state_of(s->nest, node) == KAS_LOOP_AROUND;
    int var[64], id[64], count = 0;
    while (node->kind == KAS_EX_REDUCE && node->fn == KAS_FN_REDUCE_SUM && count < 64 &&
           (unrolled || kas_nest_state_of(s->nest, node) != KAS_LOOP_UNROLLED)) {
        var[count++] = node->var;
        e = node->a[0];
        node = kas_ex_get(s->ir, e);
    }
    if (s->nest->slides && !around) /* in front of the lanes taps keep their order */
        kas_nest_order_taps(s->ir, s->nest, e, var, count);
    for (int i = 0; i < count; i++)
        id[i] = kas_nest_id_of(s->nest, var[i]);
    count = merge_parts(s->nest, id, count);
    for (int i = 0; i < count; i++) {
        kas_loop_print(s->ir, s->nest, id[i], s->out);
        kas_buf_puts(s->out, i + 1 < count ? " " : ";");
    }
    return e;
}

static void see_sum(void *context, kas_ex e, const kas_ex_node *node)
{
    summing *s = context;
    if (node->kind != KAS_EX_REDUCE || node->fn != KAS_FN_REDUCE_SUM ||
        s->is_inner[kas_masks_index(&s->masks, node->var)])
        return;
    for (; node->kind == KAS_EX_REDUCE && node->fn == KAS_FN_REDUCE_SUM;
         node = kas_ex_get(s->ir, e))
        e = print_sum(s, e);
    kas_buf_puts(s->out, "\n");
}

/* Prints the steps that change sums otherwise than by the place of a reduction. */
static void print_other_steps(summing *s)
{
    for (int i = 0; i < s->nest->schedule.steps; i++) {
        const kas_step step = s->nest->schedule.step[i];
        switch ((kas_step_kind)step.kind) {
        case KAS_STEP_SPLIT: /* what these make of reductions is printed */
        case KAS_STEP_INTERCHANGE:
        case KAS_STEP_UNROLL:
        case KAS_STEP_AROUND:
        case KAS_STEP_VTHREAD:
        case KAS_STEP_FUSE: /* these only move loops */
        case KAS_STEP_LANE:
        case KAS_STEP_STAGE:
        case KAS_STEP_LANES:
        case KAS_STEP_ROWS:
        case KAS_STEP_SERIAL:
        case KAS_STEP_BLOCK:
        case KAS_STEP_UNSWITCH:
        case KAS_STEP_PREFETCH:
            break;
        case KAS_STEP_VECTORISE: /* a thread adds up its lanes of a row first */
            if (!s->nest->row)
                break;
            /* fall through */
        default:
            kas_step_print(s->ir, s->nest, step, s->out);
            kas_buf_puts(s->out, "\n");
        }
    }
}

kas_status kas_nest_print_sums(const kas_ir *ir, const kas_nest *nest, kas_buf *out)
{
    summing s = {.ir = ir, .nest = nest, .out = out};
    KAS_TRY(kas_masks_init(&s.masks, ir, nest->value, nest->loops, nest->loop));
    kas_status status = kas_ex_visit(ir, nest->value, see_inner_sum, &s);
    if (status == KAS_OK)
        status = kas_ex_visit(ir, nest->value, see_sum, &s);
    kas_masks_free(&s.masks);
    print_other_steps(&s);
    return status == KAS_OK ? kas_buf_status(out) : status;
}

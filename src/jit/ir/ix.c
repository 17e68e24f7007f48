/* Index expressions: sums of coefficient * atom, and the rules that make divisions vanish.
 *
 * With every variable's range known, most of what rearrangements write is simplified away:
 *     (6a + b) / 6 -> a            when b < 6
 *     (6a + b) % 6 -> b
 *     s * (x / s) + x % s -> x     which makes reshapes free
 */
#include "jit/ir/ir.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

const kas_ix_sum *kas_ix_get(const kas_ir *ir, kas_ix a)
{
    return kas_hashcons_get(&ir->sums, a);
}

const kas_atom *kas_atom_get(const kas_ir *ir, int64_t atom)
{
    return kas_hashcons_get(&ir->atoms, (int)atom);
}

kas_range kas_ix_range(const kas_ir *ir, kas_ix a)
{
    return ir->ix_range[a];
}

static kas_range atom_range(const kas_ir *ir, int64_t number)
{
    const kas_atom *atom = kas_atom_get(ir, number);
    if (atom->kind == KAS_ATOM_VAR)
        return (kas_range){0, ir->var_size[atom->of] - 1};
    kas_range of = ir->ix_range[atom->of];
    if (atom->kind == KAS_ATOM_DIV)
        return (kas_range){of.low / atom->a, of.high / atom->a};
    if (atom->kind == KAS_ATOM_MOD)
        return (kas_range){0, of.high < atom->a - 1 ? of.high : atom->a - 1};
    int64_t low = of.low < atom->a ? atom->a : of.low, high = of.high > atom->b ? atom->b : of.high;
    return (kas_range){low > atom->b ? atom->b : low, high < atom->a ? atom->a : high};
}

kas_range kas_ix_sum_range(const kas_ir *ir, const kas_ix_sum *s)
{
    kas_range range = {s->constant, s->constant};
    for (int i = 0; i < s->terms; i++) {
        kas_range r = atom_range(ir, s->term[i].atom);
        int64_t c = s->term[i].coeff;
        range.low += c * (c > 0 ? r.low : r.high);
        range.high += c * (c > 0 ? r.high : r.low);
    }
    return range;
}

static void out_of_memory(kas_ir *ir)
{
    kas_ir_fail(ir, kas_ir_no_memory());
}

kas_ix kas_ix_put(kas_ir *ir, const kas_ix_sum *s)
{
    size_t size = offsetof(kas_ix_sum, term) + (size_t)s->terms * sizeof s->term[0];
    int before = ir->sums.count;
    int number = kas_hashcons_put(&ir->sums, ir->arena, s, size);
    if (number < 0) {
        out_of_memory(ir);
        return 0;
    }
    if (number < before)
        return number;
    if (number >= ir->ix_ranges) {
        int room = ir->ix_ranges ? ir->ix_ranges * 2 : 256;
        void *grown = realloc(ir->ix_range, sizeof *ir->ix_range * (size_t)room);
        if (!grown) {
            out_of_memory(ir);
            return 0;
        }
        ir->ix_range = grown;
        ir->ix_ranges = room;
    }
    ir->ix_range[number] = kas_ix_sum_range(ir, s);
    return number;
}

kas_ix kas_ix_put_atom(kas_ir *ir, kas_atom atom)
{
    int number = kas_hashcons_put(&ir->atoms, ir->arena, &atom, sizeof atom);
    if (number < 0) {
        out_of_memory(ir);
        return 0;
    }
    kas_ix_sum s = {.terms = 1, .term = {{1, number}}};
    return kas_ix_put(ir, &s);
}

kas_ix kas_ix_const(kas_ir *ir, int64_t value)
{
    kas_ix_sum s = {.constant = value};
    return kas_ix_put(ir, &s);
}

kas_ix kas_ix_var(kas_ir *ir, int var)
{
    if (var < 0)
        return 0;
    return kas_ix_put_atom(ir, (kas_atom){KAS_ATOM_VAR, var, 0, 0});
}

/* Adds factor * b to s; terms stay in the order of their atoms. */
static void accumulate(kas_ir *ir, kas_ix_sum *s, kas_ix b, int64_t factor)
{
    const kas_ix_sum *from = kas_ix_get(ir, b);
    s->constant += factor * from->constant;
    for (int i = 0; i < from->terms; i++) {
        int64_t atom = from->term[i].atom, coeff = factor * from->term[i].coeff;
        int at = 0;
        while (at < s->terms && s->term[at].atom < atom)
            at++;
        if (at < s->terms && s->term[at].atom == atom) {
            s->term[at].coeff += coeff;
            if (s->term[at].coeff == 0) {
                memmove(&s->term[at], &s->term[at + 1],
                        (size_t)(s->terms - at - 1) * sizeof s->term[0]);
                s->terms--;
            }
            continue;
        }
        if (coeff == 0)
            continue;
        if (s->terms == KAS_IX_TERMS) {
            kas_ir_fail(ir, kas_fail(KAS_UNSUPPORTED,
                                     "an index of the kernel has more than %d "
                                     "terms",
                                     KAS_IX_TERMS));
            return;
        }
        memmove(&s->term[at + 1], &s->term[at], (size_t)(s->terms - at) * sizeof s->term[0]);
        s->term[at].atom = atom;
        s->term[at].coeff = coeff;
        s->terms++;
    }
}

static int64_t coeff_of(const kas_ix_sum *s, int64_t atom)
{
    for (int i = 0; i < s->terms; i++)
        if (s->term[i].atom == atom)
            return s->term[i].coeff;
    return 0;
}

/* Rewrites c * (y % m) + c*m * (y / m) as c * y for one pair of terms. Returns false when
 * there is none. */
static bool recombine(kas_ir *ir, kas_ix_sum *s)
{
    for (int i = 0; i < s->terms; i++) {
        const kas_atom *mod = kas_atom_get(ir, s->term[i].atom);
        if (mod->kind != KAS_ATOM_MOD)
            continue;
        int64_t c = s->term[i].coeff, m = mod->a;
        kas_ix y = mod->of, quotient = kas_ix_div(ir, y, m);
        const kas_ix_sum *q = kas_ix_get(ir, quotient);
        if (q->terms == 0)
            continue;
        bool found = true;
        for (int j = 0; j < q->terms && found; j++)
            found = coeff_of(s, q->term[j].atom) == c * m * q->term[j].coeff;
        if (!found)
            continue;
        kas_ix_sum pair = {.terms = 1, .term = {{1, s->term[i].atom}}};
        accumulate(ir, s, quotient, -c * m);
        accumulate(ir, s, kas_ix_put(ir, &pair), -c);
        accumulate(ir, s, y, c);
        return true;
    }
    return false;
}

static kas_ix finish_sum(kas_ir *ir, kas_ix_sum *s)
{
    while (recombine(ir, s))
        ;
    return kas_ix_put(ir, s);
}

kas_ix kas_ix_add(kas_ir *ir, kas_ix a, kas_ix b)
{
    kas_ix_sum s = {0};
    accumulate(ir, &s, a, 1);
    accumulate(ir, &s, b, 1);
    return finish_sum(ir, &s);
}

kas_ix kas_ix_scale(kas_ir *ir, kas_ix a, int64_t factor)
{
    kas_ix_sum s = {0};
    if (factor != 0)
        accumulate(ir, &s, a, factor);
    return finish_sum(ir, &s);
}

kas_ix kas_ix_clamp(kas_ir *ir, kas_ix a, int64_t low, int64_t high)
{
    kas_range r = ir->ix_range[a];
    if (r.low >= low && r.high <= high)
        return a;
    if (r.high <= low || low == high)
        return kas_ix_const(ir, low);
    if (r.low >= high)
        return kas_ix_const(ir, high);
    return kas_ix_put_atom(ir, (kas_atom){KAS_ATOM_CLAMP, a, low, high});
}

kas_ix kas_ix_flatten(kas_ir *ir, int rank, const int64_t *size, const kas_ix *idx)
{
    kas_ix flat = 0;
    for (int d = 0; d < rank; d++)
        flat = kas_ix_add(ir, kas_ix_scale(ir, flat, size[d]), idx[d]);
    return flat;
}

void kas_ix_unflatten(kas_ir *ir, kas_ix flat, int rank, const int64_t *size, kas_ix *idx)
{
    int64_t stride = 1;
    for (int d = rank - 1; d >= 0; d--) {
        kas_ix digit = kas_ix_div(ir, flat, stride);
        idx[d] = d == 0 ? digit : kas_ix_mod(ir, digit, size[d]);
        stride *= size[d];
    }
}

void kas_subst_add(kas_ir *ir, kas_subst *s, int var, kas_ix to)
{
    if (var < 0)
        return;
    if (s->count == KAS_SUBST_MAX) {
        kas_ir_fail(
            ir, kas_fail(KAS_UNSUPPORTED, "a fused kernel has more than %d loops", KAS_SUBST_MAX));
        return;
    }
    s->var[s->count] = var;
    s->to[s->count++] = to;
}

static kas_ix subst_atom(kas_ir *ir, int64_t number, const kas_subst *s)
{
    const kas_atom atom = *kas_atom_get(ir, number);
    if (atom.kind == KAS_ATOM_VAR) {
        for (int i = 0; i < s->count; i++)
            if (s->var[i] == atom.of)
                return s->to[i];
        return kas_ix_var(ir, atom.of);
    }
    kas_ix of = kas_ix_subst(ir, atom.of, s);
    if (atom.kind == KAS_ATOM_DIV)
        return kas_ix_div(ir, of, atom.a);
    if (atom.kind == KAS_ATOM_MOD)
        return kas_ix_mod(ir, of, atom.a);
    return kas_ix_clamp(ir, of, atom.a, atom.b);
}

kas_ix kas_ix_subst(kas_ir *ir, kas_ix a, const kas_subst *s)
{
    const kas_ix_sum *from = kas_ix_get(ir, a);
    if (from->terms == 0 || s->count == 0)
        return a;
    kas_ix_sum sum = {.constant = from->constant};
    for (int i = 0; i < from->terms; i++)
        accumulate(ir, &sum, subst_atom(ir, from->term[i].atom, s), from->term[i].coeff);
    return finish_sum(ir, &sum);
}

static bool atom_has_var(const kas_ir *ir, int64_t number, int var)
{
    const kas_atom *atom = kas_atom_get(ir, number);
    return atom->kind == KAS_ATOM_VAR ? atom->of == var : kas_ix_has_var(ir, atom->of, var);
}

bool kas_ix_has_var(const kas_ir *ir, kas_ix a, int var)
{
    const kas_ix_sum *s = kas_ix_get(ir, a);
    for (int i = 0; i < s->terms; i++)
        if (atom_has_var(ir, s->term[i].atom, var))
            return true;
    return false;
}

bool kas_ix_coeff(const kas_ir *ir, kas_ix a, int var, int64_t *coeff)
{
    const kas_ix_sum *s = kas_ix_get(ir, a);
    *coeff = 0;
    for (int i = 0; i < s->terms; i++) {
        if (!atom_has_var(ir, s->term[i].atom, var))
            continue;
        if (kas_atom_get(ir, s->term[i].atom)->kind != KAS_ATOM_VAR)
            return false;
        *coeff = s->term[i].coeff;
    }
    return true;
}

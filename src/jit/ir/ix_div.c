/* Division and remainder of index expressions by constants. */
#include <stdlib.h>

#include "host/core/gcd.h"
#include "jit/ir/ir.h"

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0 ? 1 : 0);
}

/* Writes x as whole * s + rest: `whole` gets what s divides, `rest` the remainder with its constant
 * in [0, s). */
static void split_multiples(kas_ir *ir, kas_ix x, int64_t s, kas_ix *whole, kas_ix *rest)
{
    const kas_ix_sum *from = kas_ix_get(ir, x);
    kas_ix_sum w = {.constant = floor_div(from->constant, s)}, r = {0};
    r.constant = from->constant - w.constant * s;
    for (int i = 0; i < from->terms; i++) {
        kas_ix_sum *to = from->term[i].coeff % s == 0 ? &w : &r;
        to->term[to->terms].atom = from->term[i].atom;
        to->term[to->terms++].coeff = to == &w ? from->term[i].coeff / s : from->term[i].coeff;
    }
    *whole = kas_ix_put(ir, &w);
    *rest = kas_ix_put(ir, &r);
}

/* Finds g > 1 with g | s and x = g * high + low, 0 <= low < g. The candidates are the gcds of s
 * with the coefficients that are at least a growing threshold. */
static bool split_low(kas_ir *ir, kas_ix x, int64_t s, int64_t *g, kas_ix *high, kas_ix *low)
{
    const kas_ix_sum *from = kas_ix_get(ir, x);
    for (int t = -1; t < from->terms; t++) {
        int64_t threshold = t < 0 ? 1 : llabs(from->term[t].coeff) + 1, divisor = s;
        for (int i = 0; i < from->terms; i++)
            if (llabs(from->term[i].coeff) >= threshold)
                divisor = kas_gcd_signed(divisor, from->term[i].coeff);
        if (divisor <= 1 || divisor == s)
            continue;
        split_multiples(ir, x, divisor, high, low);
        kas_range r = ir->ix_range[*low];
        if (r.low >= 0 && r.high < divisor) {
            *g = divisor;
            return true;
        }
    }
    return false;
}

kas_ix kas_ix_div(kas_ir *ir, kas_ix a, int64_t s)
{
    if (s == 1)
        return a;
    kas_ix whole, rest, high, low;
    int64_t g;
    split_multiples(ir, a, s, &whole, &rest);
    kas_range r = ir->ix_range[rest];
    if (r.low < 0) { /* shift into the range where C's division is the floor */
        const int64_t up = floor_div(-r.low + s - 1, s);
        rest = kas_ix_add(ir, rest, kas_ix_const(ir, up * s));
        whole = kas_ix_add(ir, whole, kas_ix_const(ir, -up));
        r = ir->ix_range[rest];
    }
    if (r.high < s)
        return whole;
    if (split_low(ir, rest, s, &g, &high, &low))
        return kas_ix_add(ir, whole, kas_ix_div(ir, high, s / g));
    const kas_ix_sum *sum = kas_ix_get(ir, rest);
    if (sum->terms == 1 && sum->constant == 0 && sum->term[0].coeff == 1) {
        const kas_atom *atom = kas_atom_get(ir, sum->term[0].atom);
        if (atom->kind == KAS_ATOM_DIV)
            return kas_ix_add(ir, whole, kas_ix_div(ir, atom->of, atom->a * s));
    }
    return kas_ix_add(ir, whole, kas_ix_put_atom(ir, (kas_atom){KAS_ATOM_DIV, rest, s, 0}));
}

kas_ix kas_ix_mod(kas_ir *ir, kas_ix a, int64_t s)
{
    if (s == 1)
        return 0;
    kas_ix whole, rest, high, low;
    int64_t g;
    split_multiples(ir, a, s, &whole, &rest);
    kas_range r = ir->ix_range[rest];
    if (r.low < 0) {
        int64_t up = floor_div(-r.low + s - 1, s);
        rest = kas_ix_add(ir, rest, kas_ix_const(ir, up * s));
        r = ir->ix_range[rest];
    }
    if (r.high < s)
        return rest;
    if (split_low(ir, rest, s, &g, &high, &low))
        return kas_ix_add(ir, low, kas_ix_scale(ir, kas_ix_mod(ir, high, s / g), g));
    const kas_ix_sum *sum = kas_ix_get(ir, rest);
    if (sum->terms == 1 && sum->constant == 0 && sum->term[0].coeff == 1) {
        const kas_atom *atom = kas_atom_get(ir, sum->term[0].atom);
        if (atom->kind == KAS_ATOM_MOD && atom->a % s == 0)
            return kas_ix_mod(ir, atom->of, s);
    }
    return kas_ix_put_atom(ir, (kas_atom){KAS_ATOM_MOD, rest, s, 0});
}

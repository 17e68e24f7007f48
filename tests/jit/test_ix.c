/* Index expressions: what the simplifier must find, and that it never changes a value. */
#include "support/test.h"

#include <stdio.h>

#include "host/core/random.h"
#include "jit/ir/ir.h"
#include "ir_fixture.h"

static kas_ix sum2(kas_ix a, int64_t ca, kas_ix b, int64_t cb)
{
    return kas_ix_add(&ir, kas_ix_scale(&ir, a, ca), kas_ix_scale(&ir, b, cb));
}

TEST_WITH(test_divisions_vanish, make_ir, free_ir)
{
    const kas_ix a = kas_ix_var(&ir, kas_ir_var(&ir, 5)), b = kas_ix_var(&ir, kas_ir_var(&ir, 6)),
                 c = kas_ix_var(&ir, kas_ir_var(&ir, 60));
    const kas_ix ab = sum2(a, 6, b, 1);
    assert_int_equal(kas_ix_div(&ir, ab, 6), a);
    assert_int_equal(kas_ix_mod(&ir, ab, 6), b);
    assert_int_equal(kas_ix_mod(&ir, ab, 3), kas_ix_mod(&ir, b, 3));
    assert_int_equal(kas_ix_div(&ir, ab, 30), 0);
    assert_int_equal(kas_ix_mod(&ir, sum2(a, 12, b, 2), 12), kas_ix_scale(&ir, b, 2));
    assert_int_equal(kas_ix_div(&ir, sum2(a, 12, b, 2), 4),
                     kas_ix_add(&ir, kas_ix_scale(&ir, a, 3), kas_ix_div(&ir, b, 2)));
    /* a reshape and back is nothing */
    assert_int_equal(sum2(kas_ix_div(&ir, c, 4), 4, kas_ix_mod(&ir, c, 4), 1), c);
    const int64_t size[3] = {3, 4, 5};
    kas_ix digit[3];
    kas_ix_unflatten(&ir, c, 3, size, digit);
    assert_int_equal(kas_ix_flatten(&ir, 3, size, digit), c);
    assert_int_equal(kas_ix_div(&ir, kas_ix_div(&ir, c, 4), 5), kas_ix_div(&ir, c, 20));
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

enum { TRIALS = 4000, VARS = 4, STEPS = 6, POINTS = 20 };

/* Random expressions, built twice: here, and as plain numbers at random points. */
static void random_trial(kas_rng *rng)
{
    int64_t at[POINTS][512] = {{0}}, plain[POINTS][VARS + STEPS];
    kas_ix made[VARS + STEPS];
    for (int i = 0; i < VARS; i++) {
        const int var = kas_ir_var(&ir, 1 + kas_rng_below(rng, 12));
        assert_true(var < 512);
        made[i] = kas_ix_var(&ir, var);
        for (int p = 0; p < POINTS; p++)
            plain[p][i] = at[p][var] = kas_rng_below(rng, (uint32_t)ir.var_size[var]);
    }
    for (int i = VARS; i < VARS + STEPS; i++) {
        const int a = (int)kas_rng_below(rng, (uint32_t)i),
                  b = (int)kas_rng_below(rng, (uint32_t)i);
        const int64_t k = 1 + kas_rng_below(rng, 12), m = (int64_t)kas_rng_below(rng, 7) - 3;
        const uint32_t what = kas_rng_below(rng, 4);
        if (what == 0)
            made[i] = sum2(made[a], k, made[b], m);
        else if (what == 1)
            made[i] = kas_ix_div(&ir, made[a], k);
        else if (what == 2)
            made[i] = kas_ix_mod(&ir, made[a], k);
        else
            made[i] = kas_ix_clamp(&ir, made[a], 0, k);
        for (int p = 0; p < POINTS; p++) {
            const int64_t x = plain[p][a], y = plain[p][b];
            plain[p][i] = what == 0   ? k * x + m * y
                          : what == 1 ? floor_div(x, k)
                          : what == 2 ? x - k * floor_div(x, k)
                          : x < 0     ? 0
                          : x > k     ? k
                                      : x;
            assert_int_equal(ix_value(made[i], at[p]), plain[p][i]);
            const kas_range r = kas_ix_range(&ir, made[i]);
            assert_true(r.low <= plain[p][i] && plain[p][i] <= r.high);
        }
    }
}

TEST_WITH(test_random, make_ir, free_ir)
{
    kas_rng rng = kas_rng_make(1, KAS_PURPOSE_TEST, 0);
    for (int trial = 0; trial < TRIALS; trial++) {
        if (trial % 100 == 0) {
            kas_ir_free(&ir);
            assert_int_equal(kas_ir_init(&ir), KAS_OK);
        }
        random_trial(&rng);
        assert_int_equal(ir.status, KAS_OK);
    }
    printf("%d random expressions at %d points each: all equal (integers, no tolerance)\n",
           TRIALS * STEPS, POINTS);
}

/* Replacing a variable by digits of another and back. */
TEST_WITH(test_substitution, make_ir, free_ir)
{
    const int v = kas_ir_var(&ir, 24), hi = kas_ir_var(&ir, 6), lo = kas_ir_var(&ir, 4);
    const kas_ix digits = sum2(kas_ix_var(&ir, hi), 4, kas_ix_var(&ir, lo), 1);
    kas_subst s = {0};
    kas_subst_add(&ir, &s, v, digits);
    const kas_ix x = kas_ix_var(&ir, v);
    assert_int_equal(kas_ix_subst(&ir, kas_ix_div(&ir, x, 4), &s), kas_ix_var(&ir, hi));
    assert_int_equal(kas_ix_subst(&ir, kas_ix_mod(&ir, x, 4), &s), kas_ix_var(&ir, lo));
    int64_t coeff;
    assert_true(kas_ix_coeff(&ir, digits, hi, &coeff));
    assert_int_equal(coeff, 4);
    assert_false(kas_ix_coeff(&ir, kas_ix_div(&ir, x, 4), v, &coeff));
}

RUN_TESTS()

/* An interpreter of kernels' nests, for tests of schedules: it runs a nest turn by turn as its
 * loops stand, in float64, and adds up reductions as the emitter does: a part that is unrolled
 * inside one that is not has a sum of its own, and so has each turn of what `rfactor` names. */
#ifndef KAS_TESTS_JIT_RUN_NEST_H
#define KAS_TESTS_JIT_RUN_NEST_H

#include "support/test.h"

#include <stdlib.h>
#include <string.h>
#include <math.h>

#include "host/core/random.h"
#include "jit/schedule/schedule.h"
#include "ir_fixture.h"

enum { VALUES = 4096, TENSORS = 8, VARS = 4096 };

static double memory[TENSORS][VALUES];
static int written[VALUES];
static int64_t at[VARS]; /* by variable: the turn that runs */

static int set_up(void **state)
{
    kas_rng rng = kas_rng_make(3, KAS_PURPOSE_TEST, 0);
    for (int t = 0; t < TENSORS; t++)
        for (int i = 0; i < VALUES; i++)
            memory[t][i] = kas_rng_normal(&rng);
    return make_ir(state);
}

/* Returns what a load finds: where it reads an array of shared memory, the element of memory that
 * is copied to that place. */
static double loaded(const kas_nest *nest, kas_ex e)
{
    const kas_ex_node *n = kas_ex_get(&ir, e);
    const kas_shared_box *box = kas_nest_box_of(nest, e);
    if (!box)
        return memory[n->tensor][ix_value(n->ix, at)];
    at[nest->first_lane] = at[nest->lane] / nest->lanes * nest->lanes;
    if (nest->rows >= 0) {
        const int64_t here = at[nest->rows] % nest->block_rows;
        at[nest->first_row] = at[nest->rows] - (nest->boxed < 0 ? here : here % nest->block[1]);
    }
    int64_t place = ix_value(box->place, at);
    assert_true(place >= 0 && place < box->elements);
    for (int i = box->dims - 1; i >= 0; i--) {
        at[box->dim[i]] = place / box->step[i];
        place %= box->step[i];
        assert_true(at[box->dim[i]] < ir.var_size[box->dim[i]]);
    }
    assert_int_equal(place, 0); /* not what keeps the banks apart */
    return memory[n->tensor][ix_value(box->from, at)];
}

static double value(const kas_nest *nest, kas_ex e);

/* Runs the loops of a chain of reductions, in order. */
static void accumulate(const kas_nest *nest, kas_ex e, int fn, bool unrolled, double *acc,
                       double *index, int first)
{
    const kas_ex_node *node = kas_ex_get(&ir, e);
    const bool chained =
        node->kind == KAS_EX_REDUCE && node->fn == fn &&
        (first < 0 || (fn != KAS_FN_REDUCE_ARGMAX &&
                       (unrolled || kas_nest_state_of(nest, node) != KAS_LOOP_UNROLLED)));
    if (chained && first < 0 && node->var == nest->factored) {
        for (int64_t i = 0; i < nest->parts; i++) {
            double part = fn == KAS_FN_REDUCE_SUM ? 0 : -INFINITY;
            at[node->var] = i;
            accumulate(nest, node->a[0], fn, unrolled, &part, index, node->var);
            *acc = fn == KAS_FN_REDUCE_SUM ? *acc + part : fmax(*acc, part);
        }
        return;
    }
    if (chained) {
        const int var = node->var;
        for (int64_t i = 0; i < ir.var_size[var]; i++) {
            at[var] = i;
            accumulate(nest, node->a[0], fn, unrolled, acc, index, first < 0 ? var : first);
        }
        return;
    }
    const double x = value(nest, e);
    if (fn == KAS_FN_REDUCE_SUM) {
        *acc += x;
    } else if (x > *acc) {
        *acc = x;
        *index = (double)at[first];
    }
}

static double value(const kas_nest *nest, kas_ex e)
{
    const kas_ex_node *n = kas_ex_get(&ir, e);
    switch ((kas_ex_kind)n->kind) {
    case KAS_EX_CONST:
        return n->value;
    case KAS_EX_INDEX:
        return (double)ix_value(n->ix, at);
    case KAS_EX_LOAD:
        return loaded(nest, e);
    case KAS_EX_UNARY:
        return tanh(value(nest, n->a[0]));
    case KAS_EX_BINARY:
        return n->fn == KAS_FN_MUL ? value(nest, n->a[0]) * value(nest, n->a[1])
                                   : value(nest, n->a[0]) + value(nest, n->a[1]);
    case KAS_EX_GUARD: {
        const int64_t x = ix_value(n->ix, at);
        return x >= n->low && x <= n->high ? value(nest, n->a[0]) : 0;
    }
    case KAS_EX_REDUCE: {
        double acc = n->fn == KAS_FN_REDUCE_SUM ? 0 : -INFINITY, index = 0;
        accumulate(nest, e, n->fn, kas_nest_state_of(nest, n) == KAS_LOOP_UNROLLED, &acc, &index,
                   -1);
        return n->fn == KAS_FN_REDUCE_ARGMAX ? index : acc;
    }
    default:
        fail_msg("the interpreter has no expression of kind %d", n->kind);
        return 0;
    }
}

static void run_loops(const kas_nest *nest, int depth)
{
    if (depth < nest->loops) {
        const int var = nest->loop[depth];
        for (int64_t i = 0; i < ir.var_size[var]; i++) {
            at[var] = i;
            run_loops(nest, depth + 1);
        }
        return;
    }
    const int64_t place = ix_value(nest->store, at);
    assert_true(place >= 0 && place < VALUES);
    memory[nest->tensor][place] = value(nest, nest->value);
    written[place]++;
}

/* Runs a nest into y [VALUES], NaN where nothing was written. */
static void run(const kas_nest *nest, double *y)
{
    assert_true(ir.vars <= VARS && nest->tensor < TENSORS);
    for (int i = 0; i < VALUES; i++)
        memory[nest->tensor][i] = NAN;
    memset(written, 0, sizeof written);
    run_loops(nest, 0);
    for (int i = 0; i < VALUES; i++)
        assert_true(written[i] <= 1);
    memcpy(y, memory[nest->tensor], sizeof memory[0]);
}

#endif

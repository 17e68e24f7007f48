/* What the tests of schedules as sequences of steps share: small kernels, steps as text, and a judge,
 * the interpreter of nests. */
#ifndef KAS_TESTS_JIT_SEQUENCE_FIXTURE_H
#define KAS_TESTS_JIT_SEQUENCE_FIXTURE_H

#include "run_nest.h"

#include <stdio.h>

#include "jit/schedule/dependence.h"
#include "jit/schedule/schedule_file.h"
#include "jit/schedule/sequence_text.h"
#include "support/test.h"

/* Compares a nest with the open one: bit for bit, or within `tolerance` of the largest value. */
static inline void same_values(const kas_nest *open, const kas_nest *nest, double tolerance)
{
    static double before[VALUES], after[VALUES];
    double scale = 1, worst = 0;
    run(open, before);
    run(nest, after);
    for (int i = 0; i < VALUES; i++)
        scale = fabs(before[i]) > scale ? fabs(before[i]) : scale;
    for (int i = 0; i < VALUES; i++) {
        assert_int_equal(isnan(before[i]), isnan(after[i]));
        if (!isnan(before[i]) && !(fabs(before[i] - after[i]) <= worst))
            worst = fabs(before[i] - after[i]);
    }
    if (!(worst <= tolerance * scale))
        fail_msg("values differ by %g, of at most %g", worst, tolerance * scale);
}

/* Returns whether a schedule adds up in another order than the open nest. */
static inline bool reorders(const kas_nest *open, const kas_nest *nest)
{
    kas_buf own = {0}, usual = {0};
    OK(kas_nest_print_sums(&ir, nest, &own));
    OK(kas_nest_print_sums(&ir, open, &usual));
    const bool other = strcmp(kas_buf_text(&own), kas_buf_text(&usual)) != 0;
    kas_buf_free(&own);
    kas_buf_free(&usual);
    return other;
}

/* ---- kernels --------------------------------------------------------------------------------- */

static inline int tensor(kas_tensor_kind kind, int rank, const int64_t *size)
{
    return kas_ir_add_tensor(&ir, kind, rank, size, 0);
}

static inline kas_ix var(int v)
{
    return kas_ix_var(&ir, v);
}

static inline kas_ex sum(int v, kas_ex e)
{
    return kas_ex_reduce(&ir, KAS_FN_REDUCE_SUM, v, e);
}

static inline kas_ex product(kas_ex a, kas_ex b)
{
    return kas_ex_binary(&ir, KAS_FN_MUL, a, b);
}

static inline kas_ex load(int t, const kas_ix *idx)
{
    return kas_ex_load(&ir, t, kas_ix_flatten(&ir, ir.tensor[t].rank, ir.tensor[t].size, idx));
}

enum { CO = 8, CI = 64, OH = 4, OW = 6, GROUPS = 4, KERNEL = 3 };

/* Algorithm 1: O[co][oh][ow] += W[co][ci] * I[ci][oh][ow] */
static inline void algorithm_1(kas_nest *nest)
{
    const int64_t o[3] = {CO, OH, OW}, w[2] = {CO, CI}, in[3] = {CI, OH, OW};
    const int image = tensor(KAS_TENSOR_EXTERN, 3, in), weight = tensor(KAS_TENSOR_EXTERN, 2, w),
              out = tensor(KAS_TENSOR_DEF, 3, o), ci = kas_ir_var(&ir, CI);
    const int *v = ir.tensor[out].var;
    const kas_ix wi[2] = {var(v[0]), var(ci)}, ii[3] = {var(ci), var(v[1]), var(v[2])};
    OK(kas_nest_open(&ir, out, sum(ci, product(load(weight, wi), load(image, ii))), nest));
}

/* Takes the steps of a text on an open nest, and completes it. */
static inline kas_status take(const kas_nest *open, const char *steps, kas_nest *out)
{
    kas_schedule_file file;
    kas_schedule schedule;
    char text[2048];
    snprintf(text, sizeof text, "layer a\ndevice cpu\nbatch 1\nkernel f0\n%s", steps);
    OK(kas_schedule_file_parse("s", text, &file));
    *out = *open;
    kas_status status = kas_schedule_file_steps(&ir, open, &file, 0, &schedule);
    if (status == KAS_OK)
        status = kas_schedule_apply(&ir, &schedule, out);
    kas_schedule_file_free(&file);
    return status;
}

static inline void take_same(const kas_nest *open, const char *steps, double tolerance,
                             kas_nest *out)
{
    OK(take(open, steps, out));
    same_values(open, out, tolerance);
}

static inline void assert_refused(const kas_nest *open, const char *steps, const char *wanted)
{
    kas_nest nest;
    if (take(open, steps, &nest) == KAS_OK)
        fail_msg("taken: %s", steps);
    if (!strstr(kas_error(), wanted))
        fail_msg("%s: found \"%s\", expected \"%s\"", steps, kas_error(), wanted);
}

#endif

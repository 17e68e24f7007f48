/* Scheduling of single kernels: loops that merge and split, and the proof that refuses a kernel
 * that could leave its memory. */
#include "support/test.h"

#include <string.h>
#include <math.h>

#include "host/core/buf.h"
#include "jit/emit/emit.h"
#include "jit/schedule/nest.h"
#include "support/schedule.h"
#include "ir_fixture.h"

/* y[n,h,w,c] = x[n, h + by, w, c], both [2][4][6][channels] */
static kas_status schedule_shifted(int64_t channels, int by, bool clamped, kas_nest *nest)
{
    const int64_t size[4] = {2, 4, 6, channels};
    const int pitch = kas_pitch((int)channels);
    const int x = kas_ir_add_tensor(&ir, KAS_TENSOR_EXTERN, 4, size, pitch);
    const int y = kas_ir_add_tensor(&ir, KAS_TENSOR_DEF, 4, size, pitch);
    kas_ix address = 0;
    for (int d = 0; d < 4; d++) {
        kas_ix at = kas_ix_var(&ir, ir.tensor[y].var[d]);
        if (d == 1)
            at = kas_ix_add(&ir, at, kas_ix_const(&ir, by));
        if (d == 1 && clamped)
            at = kas_ix_clamp(&ir, at, 0, 3);
        address = kas_ix_add(&ir, address, kas_ix_scale(&ir, at, ir.tensor[x].stride[d]));
    }
    assert_int_equal(schedule_kernel(&ir, y, kas_ex_load(&ir, x, address), nest), KAS_OK);
    return kas_nest_prove_bounds(&ir, nest);
}

TEST_WITH(test_merge, make_ir, free_ir)
{
    kas_nest nest;
    assert_int_equal(schedule_shifted(8, 0, false, &nest), KAS_OK);
    assert_int_equal(nest.loops, 1); /* a plain copy is one loop */
    assert_int_equal(ir.var_size[nest.lane], 2 * 4 * 6 * 8);
    assert_int_equal(schedule_shifted(6, 0, false, &nest), KAS_OK);
    /* pixels are 8 floats apart and 6 wide: merged for the lanes' sake, with a division */
    assert_int_equal(nest.loops, 1);
    assert_int_equal(ir.var_size[nest.lane], 2 * 4 * 6 * 6);
    assert_int_equal(schedule_shifted(64, 1, true, &nest), KAS_OK);
    assert_int_equal(nest.loops, 3); /* h stays apart: it is clamped, and the lanes suffice */
    assert_int_equal(ir.var_size[nest.lane], 6 * 64);
}

/* y[n,h,w,c] = x[n,h,w,c] * s[n,w,c/2]: the operand of fewer channels must not drive the lanes off
 * the contiguous dimension. */
TEST_WITH(test_lanes, make_ir, free_ir)
{
    kas_nest nest;
    const int64_t size[4] = {64, 8, 8, 16}, small[3] = {64, 8, 8};
    const int x = kas_ir_add_tensor(&ir, KAS_TENSOR_EXTERN, 4, size, 16);
    const int s = kas_ir_add_tensor(&ir, KAS_TENSOR_EXTERN, 3, small, 0);
    const int y = kas_ir_add_tensor(&ir, KAS_TENSOR_DEF, 4, size, 16);
    const int *v = ir.tensor[y].var;
    kas_ix at = 0;
    for (int d = 0; d < 4; d++)
        at = kas_ix_add(&ir, at, kas_ix_scale(&ir, kas_ix_var(&ir, v[d]), ir.tensor[x].stride[d]));
    const kas_ix group[3] = {kas_ix_var(&ir, v[0]), kas_ix_var(&ir, v[2]),
                             kas_ix_div(&ir, kas_ix_var(&ir, v[3]), 2)};
    const kas_ex value = kas_ex_binary(&ir, KAS_FN_MUL, kas_ex_load(&ir, x, at),
                                       kas_ex_load(&ir, s, kas_ix_flatten(&ir, 3, small, group)));
    assert_int_equal(schedule_kernel(&ir, y, value, &nest), KAS_OK);
    assert_int_equal(kas_nest_prove_bounds(&ir, &nest), KAS_OK);
    int64_t coeff;
    assert_true(kas_ix_coeff(&ir, nest.store, nest.lane, &coeff));
    /* pairs of channels lie side by side, by the lanes or by a loop inside them */
    assert_int_equal(coeff, nest.inner < 0 ? 1 : ir.var_size[nest.inner]);
    assert_true(ir.var_size[nest.lane] >= 16);
    /* 65536 elements: no single block */
    assert_true(nest.grid[0] * nest.grid[1] * nest.grid[2] >= 64);
}

/* y[n,c,k] = x[n,c] + k: three values for each lane are written by a loop inside the lanes. */
TEST_WITH(test_inner, make_ir, free_ir)
{
    kas_nest nest;
    const int64_t size[3] = {16, 256, 3}, small[2] = {16, 256};
    const int x = kas_ir_add_tensor(&ir, KAS_TENSOR_EXTERN, 2, small, 0);
    const int y = kas_ir_add_tensor(&ir, KAS_TENSOR_DEF, 3, size, 0);
    const int *v = ir.tensor[y].var;
    const kas_ix at[2] = {kas_ix_var(&ir, v[0]), kas_ix_var(&ir, v[1])};
    const kas_ex value =
        kas_ex_binary(&ir, KAS_FN_ADD, kas_ex_load(&ir, x, kas_ix_flatten(&ir, 2, small, at)),
                      kas_ex_index(&ir, kas_ix_var(&ir, v[2])));
    assert_int_equal(schedule_kernel(&ir, y, value, &nest), KAS_OK);
    assert_int_equal(kas_nest_prove_bounds(&ir, &nest), KAS_OK);
    assert_true(nest.inner >= 0);
    assert_int_equal(ir.var_size[nest.inner], 3);
    kas_buf text = {0};
    int args[KAS_MAX_LAUNCH_ARGS], count;
    assert_int_equal(kas_emit_kernel(&ir, &nest, "k", &text, args, &count), KAS_OK);
    /* what does not change in the loop is read before it */
    const char *load = strstr(kas_buf_text(&text), "= p0["),
               *loop = strstr(kas_buf_text(&text), "KAS_UNROLL");
    assert_true(load && loop && load < loop);
    kas_buf_free(&text);
}

TEST_WITH(test_bounds, make_ir, free_ir)
{
    kas_nest nest;
    /* reads past the end for the last h of the last image, and before the beginning */
    assert_int_equal(schedule_shifted(8, 1, false, &nest), KAS_FAILURE);
    assert_non_null(strstr(kas_error(), "reads tensor"));
    assert_int_equal(schedule_shifted(8, -1, false, &nest), KAS_FAILURE);
    assert_int_equal(schedule_shifted(8, 1, true, &nest), KAS_OK);
    nest.block[1] = 1024;
    assert_int_equal(kas_nest_prove_bounds(&ir, &nest), KAS_FAILURE);
    nest.block[1] = 1;
    nest.grid[2] = 70000;
    assert_int_equal(kas_nest_prove_bounds(&ir, &nest), KAS_FAILURE);
    nest.grid[2] = 1;
    nest.grid[0] = nest.grid[1] = 60000; /* each alone is legal */
    assert_int_equal(kas_nest_prove_bounds(&ir, &nest), KAS_FAILURE);
}

/* An index that can pass one end of its range is compared with that end alone. */
TEST_WITH(test_clamps, make_ir, free_ir)
{
    for (int by = -1; by <= 1; by += 2) {
        kas_nest nest;
        kas_buf text = {0};
        int args[KAS_MAX_LAUNCH_ARGS], count;
        assert_int_equal(schedule_shifted(64, by, true, &nest), KAS_OK);
        assert_int_equal(kas_emit_kernel(&ir, &nest, "k", &text, args, &count), KAS_OK);
        assert_int_equal(strstr(kas_buf_text(&text), "kas_imin(") != NULL, by > 0);
        assert_int_equal(strstr(kas_buf_text(&text), "kas_imax(") != NULL, by < 0);
        kas_buf_free(&text);
    }
}

/* A row over a variable that is none of the kernel's loops takes no other away. */
TEST_WITH(test_masks, make_ir, free_ir)
{
    enum { MOST = 64 };
    const int64_t size = 2;
    const int x = kas_ir_add_tensor(&ir, KAS_TENSOR_EXTERN, 1, &size, 0);
    const int other = kas_ir_var(&ir, size);
    int loop[MOST];
    for (int i = 0; i < MOST; i++)
        loop[i] = kas_ir_var(&ir, size);
    const kas_ex e = kas_ex_row(&ir, KAS_FN_REDUCE_SUM, other,
                                kas_ex_load(&ir, x, kas_ix_var(&ir, loop[MOST - 1])));
    kas_masks masks;
    assert_int_equal(kas_masks_init(&masks, &ir, e, MOST, loop), KAS_OK);
    assert_true(kas_masks_ex(&masks, e) == UINT64_C(1) << (MOST - 1));
    kas_masks_free(&masks);
}

/* Sums over one variable that stand side by side have no names of their own to get. */
TEST_WITH(test_renamed_twice, make_ir, free_ir)
{
    const int64_t size = 8;
    const int x = kas_ir_add_tensor(&ir, KAS_TENSOR_EXTERN, 1, &size, 0);
    const int y = kas_ir_add_tensor(&ir, KAS_TENSOR_EXTERN, 1, &size, 0);
    const int var = kas_ir_var(&ir, size);
    const kas_ix at = kas_ix_var(&ir, var);
    const kas_ex one = kas_ex_reduce(&ir, KAS_FN_REDUCE_SUM, var, kas_ex_read(&ir, x, &at));
    const kas_ex two = kas_ex_reduce(&ir, KAS_FN_REDUCE_SUM, var, kas_ex_read(&ir, y, &at));
    const kas_subst none = {0};
    kas_ex_map(&ir, one, &none, true);
    assert_int_equal(ir.status, KAS_OK);
    kas_ex_map(&ir, kas_ex_mul(&ir, one, two), &none, true);
    assert_int_equal(ir.status, KAS_FAILURE);
}

/* y[c] = x[c % 4][c / 4] over 64: splitting c removes both divisions. */
TEST_WITH(test_split, make_ir, free_ir)
{
    kas_nest nest;
    const int64_t flat = 64;
    const int x = kas_ir_add_tensor(&ir, KAS_TENSOR_EXTERN, 1, &flat, 0);
    const int y = kas_ir_add_tensor(&ir, KAS_TENSOR_DEF, 1, &flat, 0);
    const kas_ix c = kas_ix_var(&ir, ir.tensor[y].var[0]);
    const kas_ix address =
        kas_ix_add(&ir, kas_ix_scale(&ir, kas_ix_mod(&ir, c, 4), 16), kas_ix_div(&ir, c, 4));
    assert_int_equal(schedule_kernel(&ir, y, kas_ex_load(&ir, x, address), &nest), KAS_OK);
    assert_int_equal(kas_nest_prove_bounds(&ir, &nest), KAS_OK);
    assert_int_equal(nest.loops, 2);
    kas_buf text = {0};
    int args[KAS_MAX_LAUNCH_ARGS], count;
    assert_int_equal(kas_emit_kernel(&ir, &nest, "k", &text, args, &count), KAS_OK);
    assert_null(strpbrk(kas_buf_text(&text), "/%"));
    assert_int_equal(count, 2);
    assert_int_equal(args[1], y);
    kas_buf_free(&text);
}

/* Y[c] = 2 s and beside it s, s = sum(k) x[k % 4][k / 4]: both keep the same sum when k is split.
 */
TEST_WITH(test_split_outputs, make_ir, free_ir)
{
    const int64_t flat = 64;
    const int x = kas_ir_add_tensor(&ir, KAS_TENSOR_EXTERN, 1, &flat, 0);
    const int y = kas_ir_add_tensor(&ir, KAS_TENSOR_DEF, 1, &flat, 0);
    const int var = kas_ir_var(&ir, flat);
    const kas_ix k = kas_ix_var(&ir, var);
    const kas_ix address =
        kas_ix_add(&ir, kas_ix_scale(&ir, kas_ix_mod(&ir, k, 4), 16), kas_ix_div(&ir, k, 4));
    const kas_ex sum = kas_ex_reduce(&ir, KAS_FN_REDUCE_SUM, var, kas_ex_load(&ir, x, address));
    kas_nest nest = {.tensor = y,
                     .value = kas_ex_binary(&ir, KAS_FN_MUL, kas_ex_const(&ir, 2), sum),
                     .loops = 1,
                     .loop = {ir.tensor[y].var[0]},
                     .outputs = 1,
                     .output = {y},
                     .output_value = {sum},
                     .opened = 1,
                     .bases = 2,
                     .ids = 2,
                     .var_of = {ir.tensor[y].var[0], var}};
    assert_int_equal(kas_nest_split(&ir, &nest), KAS_OK);
    assert_int_not_equal(nest.output_value[0], sum);
    assert_int_equal(kas_ex_get(&ir, nest.value)->a[1], nest.output_value[0]);
}

/* Floors: a multiply-add is one; a tensor is read once. The lanes are the 8 elements of y: each
 * reads 4 elements of x that lie apart from its neighbours', two lanes in one sector, and writes
 * beside them. */
TEST_WITH(test_count, make_ir, free_ir)
{
    kas_nest nest;
    const int64_t size[2] = {8, 4};
    const int x = kas_ir_add_tensor(&ir, KAS_TENSOR_EXTERN, 2, size, 0);
    const int y = kas_ir_add_tensor(&ir, KAS_TENSOR_DEF, 1, size, 0);
    const int k = kas_ir_var(&ir, 4);
    const kas_ix at = kas_ix_add(&ir, kas_ix_scale(&ir, kas_ix_var(&ir, ir.tensor[y].var[0]), 4),
                                 kas_ix_var(&ir, k));
    const kas_ex value = kas_ex_load(&ir, x, at);
    const kas_ex dot =
        kas_ex_reduce(&ir, KAS_FN_REDUCE_SUM, k, kas_ex_binary(&ir, KAS_FN_MUL, value, value));
    double flops, bytes;
    kas_effort effort;
    assert_int_equal(schedule_kernel(&ir, y, dot, &nest), KAS_OK);
    assert_int_equal(kas_nest_count(&ir, &nest, &flops, &bytes, &effort), KAS_OK);
    assert_true(flops == 8 * 4);
    assert_true(bytes == 4 * (8 * 4 + 8));
    assert_true(effort.lanes == 8 && effort.turns == 1);
    assert_true(effort.arithmetic == 8 * 4 && effort.functions == 0 && effort.shared == 0);
    assert_true(effort.loads == 8 && effort.divisions == 0);
    /* Two lanes share a sector, and the reduction walks side by side. */
    assert_true(fabs(effort.gathers - 8 * 4 * 0.5 * 0.4) <= 1e-9);
    assert_true(fabs(effort.scattered - 8 * 4 * 0.5 * 0.15) <= 1e-9 && effort.alone == 0);
    /* 8 lanes read from 4 sectors in each of 4 turns, and write one. */
    assert_true(effort.sectors == 32 * (4 * 4 + 1));
}

/* Counts y[i] = sum over 64 k of exp x[stride i + k], whose sum runs around the lanes, or, with
 * `swap`, y[stride i] = x[i]. */
static kas_effort count_apart(int64_t lanes, int64_t stride, bool swap)
{
    enum { LENGTH = 64 };
    kas_nest nest;
    double flops, bytes;
    kas_effort effort;
    const int64_t size[2] = {lanes, stride};
    const int x = kas_ir_add_tensor(&ir, KAS_TENSOR_EXTERN, 2, size, 0);
    const int y = kas_ir_add_tensor(&ir, KAS_TENSOR_DEF, 1, size, swap ? (int)stride : 0);
    const kas_ix i = kas_ix_var(&ir, ir.tensor[y].var[0]);
    const int k = kas_ir_var(&ir, LENGTH);
    const kas_ix at = kas_ix_add(&ir, kas_ix_scale(&ir, i, stride), kas_ix_var(&ir, k));
    const kas_ex value =
        swap ? kas_ex_load(&ir, x, i)
             : kas_ex_reduce(&ir, KAS_FN_REDUCE_SUM, k,
                             kas_ex_unary(&ir, KAS_FN_EXP, kas_ex_load(&ir, x, at)));
    assert_int_equal(schedule_kernel(&ir, y, value, &nest), KAS_OK);
    nest.boxes = 0; /* the schedule is a GPU's, which may have some */
    if (swap)
        nest.store = kas_ix_scale(&ir, i, stride);
    assert_int_equal(kas_nest_count(&ir, &nest, &flops, &bytes, &effort), KAS_OK);
    return effort;
}

/* On a CPU, lines that are a multiple of 4096 bytes apart push each other out of the cache; others
 * stay there until the next value of the line is wanted. A write fetches its line. */
TEST_WITH(test_scattered, make_ir, free_ir)
{
    kas_effort e = count_apart(64, 80, false);
    assert_true(fabs(e.scattered - 64 * 64 * 0.3) <= 1e-9 && e.alone == 0);
    e = count_apart(64, 1024, false);
    assert_true(fabs(e.scattered - 64 * 64) <= 1e-9);
    e = count_apart(8, 1024, false); /* as many as share a place; a row that stays scalar code */
    assert_true(fabs(e.scattered - 8 * 64 * 0.3) <= 1e-9);
    assert_true(e.functions == 8 * 64 * 8);
    assert_true(fabs(e.alone - e.arithmetic - e.loads - e.functions) <= 1e-9);
    e = count_apart(64, 16, true);
    assert_true(fabs(e.scattered - 64 * 1.5) <= 1e-9 && e.alone == 0);
}

/* Counts y[s][i][t] = value(s, i, t) on a CPU or a GPU: lanes i, turns t inside them where there are
 * any, rows s. */
typedef kas_ex counted(int x, kas_ix s, kas_ix i, kas_ix t);
static kas_effort count_value(bool cpu, int64_t lanes, int64_t turns, counted *value)
{
    const kas_schedule one = {3,
                              {{.kind = KAS_STEP_LANE, .loop = 1},
                               {.kind = KAS_STEP_ROWS, .loop = 0, .n = 4},
                               {.kind = KAS_STEP_BLOCK, .loop = KAS_LOOP_ROWS}}};
    const kas_schedule several = {4,
                                  {{.kind = KAS_STEP_LANE, .loop = 1},
                                   {.kind = KAS_STEP_VTHREAD, .loop = 2},
                                   {.kind = KAS_STEP_ROWS, .loop = 0, .n = 4},
                                   {.kind = KAS_STEP_BLOCK, .loop = KAS_LOOP_ROWS}}};
    const int64_t size[3] = {32, lanes, turns}, much[1] = {65536};
    kas_nest nest;
    double flops, bytes;
    kas_effort effort;
    const int x = kas_ir_add_tensor(&ir, KAS_TENSOR_EXTERN, 1, much, 0);
    const int y = kas_ir_add_tensor(&ir, KAS_TENSOR_DEF, turns > 1 ? 3 : 2, size, 0);
    const int *var = ir.tensor[y].var;
    ir.cpu = cpu;
    ir.tensor[x].role = KAS_ROLE_X;
    ir.tensor[y].role = KAS_ROLE_SCRATCH;
    const kas_ex e = value(x, kas_ix_var(&ir, var[0]), kas_ix_var(&ir, var[1]),
                           turns > 1 ? kas_ix_var(&ir, var[2]) : kas_ix_const(&ir, 0));
    assert_int_equal(kas_nest_open(&ir, y, e, &nest), KAS_OK);
    assert_int_equal(kas_schedule_apply(&ir, turns > 1 ? &several : &one, &nest), KAS_OK);
    assert_int_equal(kas_nest_count(&ir, &nest, &flops, &bytes, &effort), KAS_OK);
    return effort;
}

static kas_ex an_erf(int x, kas_ix s, kas_ix i, kas_ix t)
{
    (void)s;
    return kas_ex_unary(&ir, KAS_FN_ERF, kas_ex_load(&ir, x, kas_ix_add(&ir, i, t)));
}

static kas_ex a_limit(int x, kas_ix s, kas_ix i, kas_ix t)
{
    return kas_ex_load(&ir, x, kas_ix_add(&ir, kas_ix_clamp(&ir, kas_ix_add(&ir, s, i), 0, 31), t));
}

/* A guard of the row (`own` false) or of the turns. */
static kas_ex guarded(int x, kas_ix s, kas_ix i, kas_ix t, bool own)
{
    const kas_ix at = kas_ix_add(&ir, kas_ix_scale(&ir, t, 64), i);
    return kas_ex_guard(&ir, own ? kas_ix_add(&ir, s, t) : s, 2, 30, kas_ex_load(&ir, x, at));
}
static kas_ex a_guard_of_turns(int x, kas_ix s, kas_ix i, kas_ix t)
{
    return guarded(x, s, i, t, true);
}
static kas_ex a_guard_of_rows(int x, kas_ix s, kas_ix i, kas_ix t)
{
    return guarded(x, s, i, t, false);
}

/* y[s][i] = sum over 64 k of x[s + k][i] */
static kas_ex a_sum(int x, kas_ix s, kas_ix i, kas_ix t)
{
    const int k = kas_ir_var(&ir, 64);
    (void)t;
    const kas_ix at =
        kas_ix_add(&ir, kas_ix_scale(&ir, kas_ix_add(&ir, s, kas_ix_var(&ir, k)), 512), i);
    return kas_ex_reduce(&ir, KAS_FN_REDUCE_SUM, k,
                         kas_ex_unary(&ir, KAS_FN_ABS, kas_ex_load(&ir, x, at)));
}

/* y[s][i][t] = sum over 3 k of erf x[t + k][i] */
static kas_ex a_window(int x, kas_ix s, kas_ix i, kas_ix t)
{
    const int k = kas_ir_var(&ir, 3);
    (void)s;
    const kas_ix row = kas_ix_add(&ir, t, kas_ix_var(&ir, k));
    return kas_ex_reduce(&ir, KAS_FN_REDUCE_SUM, k, an_erf(x, s, i, kas_ix_scale(&ir, row, 64)));
}

/* What a CPU's compiler makes of lanes, and what a GPU's does not. */
TEST_WITH(test_cpu_lanes, make_ir, free_ir)
{
    const double values = 32 * 16;
    assert_true(count_value(true, 16, 1, an_erf).functions == 28 * values);
    assert_true(count_value(false, 16, 1, an_erf).functions == 12 * values);
    /* Each lane limits its index for itself: a gather. */
    assert_true(fabs(count_value(true, 16, 1, a_limit).scattered - 0.3 * values) <= 1e-9);
    /* Guards of the turns inside the lanes, which are taps, take loads apart as little as those of rows do. */
    assert_true(fabs(count_value(true, 16, 3, a_guard_of_turns).scattered -
                     count_value(true, 16, 3, a_guard_of_rows).scattered) <= 1e-9);
    /* The choice of a row is an operation of its lanes on a CPU. */
    assert_true(count_value(true, 16, 3, a_guard_of_rows).arithmetic == 3 * values);
    assert_true(count_value(false, 16, 3, a_guard_of_rows).arithmetic == 0);
    /* Turns inside the lanes are vectors of their own on a CPU, and fill no threads of a GPU. */
    assert_true(count_value(true, 8, 2, an_erf).lanes == 8);
    assert_true(count_value(false, 8, 2, an_erf).lanes == 8);
    /* 4 turns with 3 taps each have 6 values, not 12. */
    assert_true(count_value(true, 16, 4, a_window).functions == 28 * 6 * values);
    assert_true(count_value(false, 16, 4, a_window).functions == 12 * 12 * values);
    /* Sums of few lanes stay in registers. */
    assert_true(count_value(true, 64, 1, a_sum).reduced == 0);
    assert_true(count_value(true, 128, 1, a_sum).reduced == 32.0 * 128 * 64);
    assert_true(count_value(false, 64, 1, a_sum).reduced == 32.0 * 64 * 64);
    /* x is the network's own tensor. */
    assert_true(count_value(true, 64, 1, an_erf).far == 64 * 4);
}

/* Counts the divisions of y[s][r][i] = x[i / 5 + r] x[i / 5 + 8 (i % 5)] x[(r + i) / 3]. */
static kas_effort count_divisions(kas_nest *nest)
{
    const kas_schedule schedule = {4,
                                   {{.kind = KAS_STEP_LANE, .loop = 2},
                                    {.kind = KAS_STEP_ROWS, .loop = 1, .n = 16},
                                    {.kind = KAS_STEP_SERIAL, .loop = 0},
                                    {.kind = KAS_STEP_BLOCK, .loop = KAS_LOOP_ROWS}}};
    const int64_t size[3] = {3, 32, 24}, much[1] = {64};
    double flops, bytes;
    kas_effort effort;
    const int x = kas_ir_add_tensor(&ir, KAS_TENSOR_EXTERN, 1, much, 0);
    const int y = kas_ir_add_tensor(&ir, KAS_TENSOR_DEF, 3, size, 0);
    const kas_ix r = kas_ix_var(&ir, ir.tensor[y].var[1]), i = kas_ix_var(&ir, ir.tensor[y].var[2]),
                 high = kas_ix_div(&ir, i, 5), low = kas_ix_mod(&ir, i, 5);
    const kas_ex a = kas_ex_load(&ir, x, kas_ix_add(&ir, high, r)),
                 b = kas_ex_load(&ir, x, kas_ix_add(&ir, high, kas_ix_scale(&ir, low, 8))),
                 c = kas_ex_load(&ir, x, kas_ix_div(&ir, kas_ix_add(&ir, r, i), 3));
    ir.cpu = false;
    assert_int_equal(
        kas_nest_open(
            &ir, y, kas_ex_binary(&ir, KAS_FN_MUL, kas_ex_binary(&ir, KAS_FN_MUL, a, b), c), nest),
        KAS_OK);
    assert_int_equal(kas_schedule_apply(&ir, &schedule, nest), KAS_OK);
    assert_int_equal(kas_nest_count(&ir, nest, &flops, &bytes, &effort), KAS_OK);
    return effort;
}

/* A GPU's thread divides its lane's number once, for both operands, and what contains the row in
 * each row of each plain turn. */
TEST_WITH(test_divisions, make_ir, free_ir)
{
    kas_nest nest;
    const kas_effort e = count_divisions(&nest);
    assert_int_equal(nest.grid[0], 2);
    assert_true(nest.block[1] > 1 && nest.block[1] < 16);
    assert_true(e.divisions == 2 * 24 * 2 * nest.block[1] + 3 * 32 * 24);
}

RUN_TESTS()

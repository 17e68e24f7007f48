/* How much of a window a GPU unrolls: until the loads under way fill the registers meant for them.
 */
#include "support/test.h"

#include <string.h>

#include "host/core/buf.h"
#include "jit/emit/emit.h"
#include "support/schedule.h"

enum { IMAGE = 12 }; /* a size at which the search of placements (ways.c) leaves the usual one */

/* y[h,w,c] = sum over a `window` x `window` window of x[h + i, w + j, c * apart] * f[i, j, c]. */
static void emit_window(int64_t window, int64_t apart, int64_t channels, kas_buf *text)
{
    kas_ir ir;
    assert_int_equal(kas_ir_init(&ir), KAS_OK);
    const int64_t size[3] = {IMAGE, IMAGE, channels},
                  from[3] = {IMAGE + window, IMAGE + window, channels * apart},
                  taps[3] = {window, window, channels};
    const int x = kas_ir_add_tensor(&ir, KAS_TENSOR_EXTERN, 3, from, 0),
              f = kas_ir_add_tensor(&ir, KAS_TENSOR_EXTERN, 3, taps, 0),
              y = kas_ir_add_tensor(&ir, KAS_TENSOR_DEF, 3, size, 0);
    const int i = kas_ir_var(&ir, window), j = kas_ir_var(&ir, window);
    kas_ix at[3], of[3] = {kas_ix_var(&ir, i), kas_ix_var(&ir, j)};
    for (int d = 0; d < 3; d++)
        at[d] = kas_ix_var(&ir, ir.tensor[y].var[d]);
    of[2] = at[2];
    at[0] = kas_ix_add(&ir, at[0], of[0]);
    at[1] = kas_ix_add(&ir, at[1], of[1]);
    at[2] = kas_ix_scale(&ir, at[2], apart);
    const kas_ex product =
        kas_ex_binary(&ir, KAS_FN_MUL, kas_ex_load(&ir, x, kas_ix_flatten(&ir, 3, from, at)),
                      kas_ex_load(&ir, f, kas_ix_flatten(&ir, 3, taps, of)));
    const kas_ex sum =
        kas_ex_reduce(&ir, KAS_FN_REDUCE_SUM, i, kas_ex_reduce(&ir, KAS_FN_REDUCE_SUM, j, product));
    kas_nest nest;
    int args[KAS_MAX_LAUNCH_ARGS], count;
    assert_int_equal(schedule_kernel(&ir, y, sum, &nest), KAS_OK);
    assert_int_equal(kas_emit_kernel(&ir, &nest, "k", text, args, &count), KAS_OK);
    kas_ir_free(&ir);
}

/* The pragmas of the text, one after the other. */
static void pragmas(const char *text, kas_buf *out)
{
    for (const char *at = text; (at = strstr(at, "KAS_UNROLL")); at += strcspn(at, "\n"))
        kas_buf_printf(out, "%.*s ", (int)strcspn(at, "\n"), at);
}

static void check(int64_t window, int64_t apart, int64_t channels, const char *wanted)
{
    kas_buf text = {0}, found = {0};
    emit_window(window, apart, channels, &text);
    pragmas(kas_buf_text(&text), &found);
    assert_string_equal(kas_buf_text(&found), wanted);
    kas_buf_free(&text);
    kas_buf_free(&found);
}

TEST(test_windows)
{
    check(3, 1, 64, "KAS_UNROLL KAS_UNROLL ");
    check(4, 1, 64, "KAS_UNROLL_TURNS(2) KAS_UNROLL ");
    check(5, 1, 64, "KAS_UNROLL_TURNS(1) KAS_UNROLL ");
    check(5, 1, 63, "KAS_UNROLL KAS_UNROLL ");          /* lanes alone: 4 bytes at a time */
    check(4, 2, 64, "KAS_UNROLL_TURNS(2) KAS_UNROLL "); /* a value and an address a lane */
}

/* Long ones: in the lanes of no CPU, and only a few turns of the innermost loop on a GPU. */
TEST(test_long)
{
    check(7, 1, 64, "KAS_UNROLL_FEW(4) ");
    check(7, 1, 63, "");
}

RUN_TESTS()

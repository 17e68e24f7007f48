/* Wide lanes: which indices are runs of a group of lanes, and the text that comes of it. */
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "host/core/buf.h"
#include "host/core/random.h"
#include "jit/emit/emit.h"
#include "jit/schedule/wide.h"
#include "support/schedule.h"
#include "ir_fixture.h"

enum { VARS = 3, MOST_VARS = 8, STEPS = 5, LANES = 48, TRIALS = 20000 };

/* What is said of an index holds in every group, for random values of the other variables. */
static void check_group(kas_rng *rng, kas_ix x, int lane, int64_t *var)
{
    const kas_group g = kas_ix_group(&ir, x, lane);
    assert_in_range(ir.vars, VARS, MOST_VARS);
    for (int i = 0; i < ir.vars; i++)
        var[i] = kas_rng_below(rng, (uint32_t)ir.var_size[i]);
    for (int first = 0; first < LANES; first += kas_wide(&ir)) {
        var[lane] = first;
        const int64_t start = ix_value(x, var);
        if (g.aligned)
            assert_int_equal(start % kas_wide(&ir), 0);
        for (int i = 1; i < kas_wide(&ir) && g.kind != KAS_GROUP_APART; i++) {
            var[lane] = first + i;
            assert_int_equal(ix_value(x, var), g.kind == KAS_GROUP_RUN ? start + i : start);
        }
    }
}

TEST_WITH(test_random_indices, make_ir, free_ir)
{
    kas_rng rng = kas_rng_make(2, KAS_PURPOSE_TEST, 0);
    int seen[3] = {0}, aligned = 0;
    for (int trial = 0; trial < TRIALS; trial++) {
        kas_ir_free(&ir);
        assert_int_equal(kas_ir_init(&ir), KAS_OK);
        const int lane = kas_ir_var(&ir, LANES);
        kas_ix made[VARS + STEPS];
        made[0] = kas_ix_var(&ir, lane);
        for (int i = 1; i < VARS; i++)
            made[i] = kas_ix_var(&ir, kas_ir_var(&ir, 2 + kas_rng_below(&rng, 7)));
        int64_t var[MOST_VARS] = {0};
        for (int i = VARS; i < VARS + STEPS; i++) {
            static const int64_t factor[] = {1, 1, 2, 3, 4, 6, 8, 12, 16};
            const kas_ix a = made[kas_rng_below(&rng, (uint32_t)i)],
                         b = made[kas_rng_below(&rng, (uint32_t)i)];
            const int64_t k = factor[kas_rng_below(&rng, 9)];
            const uint32_t what = kas_rng_below(&rng, 5);
            made[i] = what == 0   ? kas_ix_add(&ir, kas_ix_scale(&ir, a, k), b)
                      : what == 1 ? kas_ix_div(&ir, a, k)
                      : what == 2 ? kas_ix_mod(&ir, a, k * 2)
                      : what == 3 ? kas_ix_clamp(&ir, a, 0, k)
                                  : kas_ix_add(&ir, a, kas_ix_const(&ir, k));
            check_group(&rng, made[i], lane, var);
            const kas_group g = kas_ix_group(&ir, made[i], lane);
            seen[g.kind]++;
            aligned += g.kind == KAS_GROUP_RUN && g.aligned;
        }
    }
    printf("same %d, runs %d (%d aligned), apart %d\n", seen[0], seen[1], aligned, seen[2]);
    assert_true(seen[0] > TRIALS / 4 && aligned > TRIALS / 20 && seen[1] > aligned &&
                seen[2] > TRIALS / 4);
}

static void assert_kind(kas_ix x, int lane, kas_group_kind kind, bool aligned)
{
    const kas_group g = kas_ix_group(&ir, x, lane);
    assert_int_equal(g.kind, kind);
    assert_int_equal(g.aligned, aligned);
}

/* What must be found, not only what must not be claimed. */
TEST_WITH(test_known_indices, make_ir, free_ir)
{
    const int lane = kas_ir_var(&ir, 96), row = kas_ir_var(&ir, 10);
    const kas_ix v = kas_ix_var(&ir, lane), r = kas_ix_var(&ir, row);
    assert_kind(kas_ix_add(&ir, v, kas_ix_scale(&ir, r, 20)), lane, KAS_GROUP_RUN, true);
    assert_kind(kas_ix_add(&ir, v, kas_ix_scale(&ir, r, 18)), lane, KAS_GROUP_RUN, false);
    assert_kind(kas_ix_add(&ir, v, kas_ix_const(&ir, 8)), lane, KAS_GROUP_RUN, true);
    assert_kind(kas_ix_add(&ir, v, kas_ix_const(&ir, 1)), lane, KAS_GROUP_RUN, false);
    assert_kind(kas_ix_div(&ir, v, 12), lane, KAS_GROUP_SAME, false);
    assert_kind(kas_ix_scale(&ir, kas_ix_div(&ir, v, 12), 4), lane, KAS_GROUP_SAME, true);
    assert_kind(kas_ix_mod(&ir, v, 12), lane, KAS_GROUP_RUN, true);
    assert_kind(kas_ix_div(&ir, v, 6), lane, KAS_GROUP_APART, false);
    assert_kind(kas_ix_scale(&ir, v, 2), lane, KAS_GROUP_APART, true);
    /* rows of 12 channels, 16 apart */
    assert_kind(
        kas_ix_add(&ir, kas_ix_scale(&ir, kas_ix_div(&ir, v, 12), 16), kas_ix_mod(&ir, v, 12)),
        lane, KAS_GROUP_RUN, true);
    /* a rotation by one */
    assert_kind(kas_ix_mod(&ir, kas_ix_add(&ir, v, kas_ix_const(&ir, 1)), 96), lane,
                KAS_GROUP_APART, false);
}

/* y[n,h,c] = x[n, clamp(h - 1), c + by] for `channels` of a pitch: its text, and what moves. */
static void emit(int64_t channels, int by, kas_buf *text, int *width, kas_accessed *accessed)
{
    const int64_t size[3] = {2, 40, channels}, from[3] = {2, 40, channels + by};
    const int x = kas_ir_add_tensor(&ir, KAS_TENSOR_EXTERN, 3, from, 0),
              y = kas_ir_add_tensor(&ir, KAS_TENSOR_DEF, 3, size, 0);
    const int *v = ir.tensor[y].var;
    const kas_ix at[3] = {
        kas_ix_var(&ir, v[0]),
        kas_ix_clamp(&ir, kas_ix_add(&ir, kas_ix_var(&ir, v[1]), kas_ix_const(&ir, -1)), 0, 39),
        kas_ix_add(&ir, kas_ix_var(&ir, v[2]), kas_ix_const(&ir, by))};
    const kas_ex load = kas_ex_load(&ir, x, kas_ix_flatten(&ir, 3, from, at));
    kas_nest nest;
    int args[KAS_MAX_LAUNCH_ARGS], count;
    assert_int_equal(schedule_kernel(&ir, y, kas_ex_binary(&ir, KAS_FN_MUL, load, load), &nest),
                     KAS_OK);
    assert_int_equal(kas_nest_prove_bounds(&ir, &nest), KAS_OK);
    assert_int_equal(kas_nest_accessed(&ir, &nest, accessed), KAS_OK);
    assert_int_equal(kas_emit_kernel(&ir, &nest, "k", text, args, &count), KAS_OK);
    *width = nest.width;
}

TEST_WITH(test_text, make_ir, free_ir)
{
    static const struct {
        int64_t channels;
        int by, width;
        bool wide_load;
        double contiguous, wide; /* share of the bytes */
    } want[] = {
        {64, 0, 4, true, 1, 1},
        {64, 4, 4, true, 1, 1},
        {64, 1, 4, false, 1, 0.5}, /* only the store is aligned */
        {62, 0, 1, false, 1, 0},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        kas_buf text = {0};
        kas_accessed accessed;
        int width;
        emit(want[i].channels, want[i].by, &text, &width, &accessed);
        assert_int_equal(width, want[i].width);
        assert_int_equal(strstr(kas_buf_text(&text), "KAS_WIDE_LOAD") != NULL, want[i].wide_load);
        assert_int_equal(strstr(kas_buf_text(&text), "KAS_WIDE_STORE") != NULL, want[i].width > 1);
        const double all = 2.0 * 4 * 2 * 40 * (double)want[i].channels;
        assert_true(accessed.all == all);
        assert_true(accessed.contiguous == all * want[i].contiguous);
        assert_true(accessed.wide == all * want[i].wide);
        kas_buf_free(&text);
    }
}

RUN_TESTS()

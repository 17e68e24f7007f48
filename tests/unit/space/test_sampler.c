#include "support/test.h"

#include <math.h>
#include <string.h>

#include "host/core/sha256.h"
#include "support/build.h"
#include "support/sanitized.h"
#include "host/space/canvas/candidate_ops.h"
#include "host/space/canvas/guided.h"
#include "host/space/canvas/prune.h"
#include "host/space/sample/sampler.h"
#include "host/space/weights.h"
#include "support/sizes.h"

#define HW (KAS_AXIS_H | KAS_AXIS_W)

static kas_target target(uint32_t c_in, uint32_t c_out, uint32_t h, uint32_t k, uint32_t stride)
{
    uint32_t c = c_in < c_out ? c_in : c_out;
    return (kas_target)TARGET_OF("layer", c_in, c_out, c, h, h, k, stride);
}

/* The 19 convolutions of ResNet-18 behind its stem, for CIFAR. */
static int resnet18(kas_target out[32])
{
    int n = 0;
    uint32_t c = 64, h = 32;
    for (int stage = 0; stage < 4; stage++, c *= 2, h /= 2)
        for (int conv = 0; conv < 4; conv++) {
            bool down = stage > 0 && conv == 0;
            out[n++] = target(down ? c / 2 : c, c, h, 3, down ? 2 : 1);
            if (down)
                out[n++] = target(c / 2, c, h, 1, 2);
        }
    return n;
}

static kas_sample_options options_for(uint64_t seed)
{
    kas_sample_options o = kas_sample_defaults();
    o.seed = seed;
    o.budget.max_flops_ratio = 0.5;
    o.budget.max_params_ratio = 1;
    return o;
}

static void check_sample(const kas_sample *s, const kas_target *t, int n,
                         const kas_sample_options *o)
{
    kas_kernel k = *s->replacement.kernel;
    char name[KAS_NAME_SIZE];
    double flops = 0, params = 0;
    assert_int_equal(kas_kernel_infer(&k), KAS_OK);
    assert_int_equal(kas_kernel_canonicalize(s->replacement.kernel, &k), KAS_OK);
    assert_true(kas_build_same(&k, s->replacement.kernel));
    assert_int_equal(kas_kernel_name(&k, name), KAS_OK);
    assert_string_equal(name, s->name);
    assert_in_range(k.nodes - 1, o->min_primitives, o->max_primitives);
    assert_int_equal(s->replacement.solution.targets, n);
    for (int i = 0; i < n; i++) {
        kas_cost cost;
        if (kas_kernel_check_binding(&k, &s->replacement.solution.binding[i]) != KAS_OK)
            fail_msg("%s at target %d: %s", name, i, kas_error());
        assert_int_equal(kas_layer_cost(&k, &t[i], &s->replacement.solution.binding[i], &cost),
                         KAS_OK);
        flops += cost.flops;
        params += cost.params;
    }
    assert_true(flops == s->replacement.solution.flops && params == s->replacement.solution.params);
    assert_true(params > 0);
    assert_true(flops <= o->budget.max_flops_ratio * s->replacement.solution.conv_flops);
    assert_true(params <= o->budget.max_params_ratio * s->replacement.solution.conv_params);
}

TEST(test_300_kernels)
{
    const kas_sample_options o = options_for(1);
    kas_target t[32];
    int n = resnet18(t);
    kas_sampler *sampler;
    static char names[300][KAS_NAME_SIZE];
    uint64_t ops_seen = 0;
    assert_int_equal(kas_sampler_create(&o, t, n, &sampler), KAS_OK);
    for (int k = 0; k < 300; k++) {
        kas_sample s;
        OK(kas_sampler_next(sampler, 0, &s));
        assert_int_equal(s.index, k);
        check_sample(&s, t, n, &o);
        for (int j = 0; j < k; j++)
            assert_string_not_equal(names[j], s.name);
        memcpy(names[k], s.name, sizeof s.name);
        for (int i = 0; i < s.replacement.kernel->nodes; i++)
            ops_seen |= (uint64_t)1 << s.replacement.kernel->node[i].op;
        kas_sample_free(&s);
    }
    assert_int_equal(ops_seen, KAS_OP_BIT(KAS_OP_COUNT) - 1); /* every primitive takes part */
    kas_sample_stats stats = kas_sampler_stats(sampler);
    uint64_t sum = stats.accepted;
    for (int r = 0; r < KAS_REJECT_COUNT; r++)
        sum += stats.rejected[r];
    assert_int_equal(sum, stats.tries);
    assert_int_equal(stats.accepted, 300);
    print_message("300 kernels from %d tries\n", (int)stats.tries);
    assert_true(stats.tries < 500);
    kas_sampler_free(sampler);
}

/* An attempt depends on its number only: any order, any neighbour, the same result. */
TEST(test_attempts_are_pure)
{
    const kas_sample_options o = options_for(7);
    kas_target t[32];
    int n = resnet18(t);
    kas_sampler *sampler;
    assert_int_equal(kas_sampler_create(&o, t, n, &sampler), KAS_OK);
    for (int k = 0; k < 40; k++) {
        kas_sample s;
        kas_replacement again;
        kas_attempt how;
        assert_int_equal(kas_sampler_next(sampler, 0, &s), KAS_OK);
        assert_int_equal(kas_sample_attempt(&o, t, n, s.attempt + 1000, &again, &how), KAS_OK);
        if (how.why == KAS_REJECT_NONE)
            kas_replacement_free(&again);
        assert_int_equal(kas_sample_attempt(&o, t, n, s.attempt, &again, &how), KAS_OK);
        assert_int_equal(how.why, KAS_REJECT_NONE);
        assert_true(kas_build_same(again.kernel, s.replacement.kernel));
        assert_memory_equal(again.solution.binding, s.replacement.solution.binding,
                            (size_t)n * sizeof *again.solution.binding);
        kas_replacement_free(&again);
        kas_sample_free(&s);
    }
    kas_sampler_free(sampler);
}

/* What a version of a sampler gives is part of every study: a change here needs a new
 * KAS_GUIDED_VERSION or KAS_PTE_VERSION. With sanitizers the list is not whole, and its hash
 * another. */
static void assert_list(kas_sample_options o, const char *expected)
{
    kas_target t[32];
    int n = resnet18(t);
    kas_sampler *sampler;
    kas_buf names = {0};
    char hex[65];
    enum { WHOLE = 300, KERNELS = FEWER_IF_SANITIZED(WHOLE) };
    assert_int_equal(kas_sampler_create(&o, t, n, &sampler), KAS_OK);
    for (int k = 0; k < KERNELS; k++) {
        kas_sample s;
        assert_int_equal(kas_sampler_next(sampler, 0, &s), KAS_OK);
        kas_buf_printf(&names, "%s:%.0f\n", s.name,
                       s.replacement.solution.flops); /* sizes are fixed too */
        kas_sample_free(&s);
    }
    kas_sampler_free(sampler);
    assert_int_equal(kas_buf_status(&names), KAS_OK);
    kas_sha256_hex(names.data, names.size, hex);
    kas_buf_free(&names);
    if (KERNELS == WHOLE)
        assert_string_equal(hex, expected);
}

TEST(test_versions_are_fixed)
{
    kas_sample_options per_layer = options_for(1), one_for_all = options_for(1);
    per_layer.space = one_for_all.space = KAS_SPACE_NAS_PTE;
    one_for_all.per_layer = KAS_PER_LAYER_NO;
    assert_list(options_for(1), "f560feafa2910196c42a9744ccb7018a1368d69d25ebad22930eaf0a33f57c78");
    assert_list(per_layer, "078295dc6f84f34dee072febddecc4826eb8e75e996c9738cb520701db621fb3");
    assert_list(one_for_all, "9e843ba1abd0f5eacfff92509debbc2a6b022e37c73385d4f5aed4ba94b7b3ae");
}

/* ---- Theorem 1 ---- */

/* Written from the paper's four statements, not from the code that checks shapes. */
static bool theorem_1(const kas_shape *shape)
{
    int with_variable = 0;
    for (int i = 0; i < kas_shape_rank(shape); i++) {
        kas_dim dim = kas_shape_dim(shape, i);
        int above = 0, below = 0;
        for (int v = 0; v < KAS_MAX_VARS; v++) {
            above += dim.exp[KAS_SYM_X0 + v] > 0 ? dim.exp[KAS_SYM_X0 + v] : 0;
            below += dim.exp[KAS_SYM_X0 + v] < 0;
        }
        if ((i >= shape->channels && above) || below || above > 1)
            return false;
        with_variable += above;
    }
    return with_variable <= 1;
}

/* Applies one use to a grown kernel, whose last place is free. Theorem 1 must never be the reason
 * of a refusal, mix and bmm aside, which keep other dims: then the code's own check would hide a
 * broken theorem. */
static bool theorem_1_after(kas_kernel *k, const kas_candidate_op *use)
{
    int i = k->nodes++;
    kas_candidate_op_node(use, KAS_MAX_VARS - 1, &k->node[i]);
    bool inferred = kas_node_infer(k, i) == KAS_OK;
    if (!inferred && use->op != KAS_OP_MIX && use->op != KAS_OP_BMM &&
        strstr(kas_error(), "Theorem"))
        fail_msg("%s", kas_error());
    if (inferred)
        assert_true(theorem_1(&k->node[i].shape));
    k->nodes--;
    return inferred;
}

static long theorem_1_of_products(kas_kernel *k)
{
    kas_candidate_op use = {.op = KAS_OP_BMM, .inputs = 2};
    long legal = 0;
    for (use.in[0] = 0; use.in[0] < k->nodes; use.in[0]++)
        for (use.in[1] = 0; use.in[1] < k->nodes; use.in[1]++)
            for (use.transpose = 0; use.transpose < 4; use.transpose++)
                legal += theorem_1_after(k, &use);
    return legal;
}

/* The induction step on what the sampler grows: any use of any primitive on any tensor keeps the
 * theorem or is refused for another reason. */
TEST(test_theorem_1)
{
    kas_target t[32];
    int n = resnet18(t);
    kas_sample_options o = options_for(11);
    static kas_candidate_op uses[KAS_MAX_CANDIDATE_OPS];
    const kas_op_filter filter = {
        .ops = UINT64_MAX, .kernels = 0xa9, .dilations = 0xe, .shifts = 0x7f};
    const long wanted = FEWER_IF_SANITIZED(100000);
    long grown = 0, tensors = 0, with_variable = 0;
    kas_growth *growth;
    kas_guided guided;
    assert_int_equal(kas_growth_create(&o, t, n, &growth), KAS_OK);
    assert_int_equal(kas_guided_create(&o, t, n, growth, &guided), KAS_OK);
    for (uint64_t attempt = 0; grown < wanted; attempt++) {
        kas_guided_begin(&guided, attempt);
        kas_guided_try(&guided);
        kas_kernel k = growth->kernel;
        for (int i = 0; i < k.nodes; i++) {
            assert_true(theorem_1(&k.node[i].shape));
            for (int d = 0; d < k.node[i].shape.channels; d++)
                with_variable += kas_dim_var(&k.node[i].shape.channel[d]) >= 0;
        }
        grown += k.nodes;
        tensors += attempt % 50 == 0 ? theorem_1_of_products(&k) : 0;
        for (int type = 0; attempt % 50 == 0 && type < KAS_TYPE_COUNT; type++) {
            int count = kas_list_candidate_ops(&k, (kas_type)type, &filter, uses);
            for (int u = 0; u < count; u++)
                tensors += theorem_1_after(&k, &uses[u]);
        }
    }
    kas_guided_free(&guided);
    kas_growth_free(growth);
    print_message("%ld tensors grown, %ld with a variable; %ld more by one primitive\n", grown,
                  with_variable, tensors);
    assert_true(with_variable > wanted / 100 && tensors > wanted / 10);
}

/* ---- pruning ---- */

/* Is the node that `build` appends last pruned? */
#define ASSERT_PRUNED(wanted, expression)                                                          \
    do {                                                                                           \
        kas_kernel k = {.group_value = {4}};                                                       \
        int x = kas_build_input(&k);                                                               \
        int last = (expression);                                                                   \
        (void)x;                                                                                   \
        if (last < 0)                                                                              \
            fail_msg("%s: %s", #expression, kas_error());                                          \
        if (kas_prune_node(&k, last) != (wanted))                                                  \
            fail_msg("%s: pruned should be %d", #expression, (wanted));                            \
    } while (0)
#define UNARY(op, in) kas_build_elementwise(&k, KAS_OP_##op, in)
#define FC(in) kas_build_fc(&k, in, false, "C")

TEST(test_prunes_arithmetic)
{
    ASSERT_PRUNED(true, UNARY(RELU, UNARY(RELU, x)));
    ASSERT_PRUNED(true, UNARY(RELU, kas_build_unfold(&k, UNARY(SIGMOID, x), HW)));
    ASSERT_PRUNED(true, UNARY(RELU, kas_build_fold(&k, KAS_OP_FOLD_AVG, UNARY(EXP, x), 0)));
    ASSERT_PRUNED(true, UNARY(RELU, UNARY(NEG, UNARY(ABS, x))));
    ASSERT_PRUNED(true, UNARY(SQRT, UNARY(NEG, UNARY(SQUARE, x))));
    ASSERT_PRUNED(true, UNARY(NEG, UNARY(NEG, x)));
    ASSERT_PRUNED(true, UNARY(ABS, UNARY(NEG, x)));
    ASSERT_PRUNED(true, UNARY(SQUARE, UNARY(ABS, x)));
    ASSERT_PRUNED(true, UNARY(SQRT, UNARY(SQUARE, x)));
    ASSERT_PRUNED(true, UNARY(NEG, FC(x)));
    ASSERT_PRUNED(true, FC(kas_build_group(&k, UNARY(NEG, x), 0, 0)));
    ASSERT_PRUNED(true, FC(FC(x)));
    ASSERT_PRUNED(true, kas_build_softmax(&k, kas_build_softmax(&k, x, 0, 1), 0, 3));
    ASSERT_PRUNED(true, kas_build_softmax(&k, kas_build_group_all(&k, x, 0), 1, 2));
    ASSERT_PRUNED(true, kas_build_fold(&k, KAS_OP_FOLD_MAX, kas_build_group_all(&k, x, 0), 1));
    ASSERT_PRUNED(true, kas_build_fold(&k, KAS_OP_FOLD_AVG, kas_build_softmax(&k, x, 1, 2), 1));
    ASSERT_PRUNED(
        true, kas_build_fold(&k, KAS_OP_FOLD_AVG, kas_build_fold(&k, KAS_OP_FOLD_AVG, x, 2), 1));
    ASSERT_PRUNED(true, kas_build_fold(&k, KAS_OP_FOLD_AVG, FC(x), 0));
    ASSERT_PRUNED(false, kas_build_fold(&k, KAS_OP_FOLD_AVG, FC(x), 1));
    ASSERT_PRUNED(false, kas_build_fold(&k, KAS_OP_FOLD_MAX, FC(x), 0));
    ASSERT_PRUNED(false, UNARY(RELU, UNARY(SIN, x)));
    ASSERT_PRUNED(false, UNARY(RELU, UNARY(NEG, x)));
    ASSERT_PRUNED(false, FC(kas_build_unfold(&k, FC(x), HW)));
    ASSERT_PRUNED(false, FC(UNARY(RELU, FC(x))));
    ASSERT_PRUNED(false,
                  FC(kas_build_fc(&k, kas_build_group(&k, x, 0, 0), true, "C"))); /* MobileNet */
    ASSERT_PRUNED(false, kas_build_fold(&k, KAS_OP_FOLD_AVG, kas_build_softmax(&k, x, 0, 2), 1));
    ASSERT_PRUNED(
        false, kas_build_fold(&k, KAS_OP_FOLD_AVG, kas_build_fold(&k, KAS_OP_FOLD_AVG, x, 1), 1));
}

TEST(test_prunes_rearrangement)
{
#define SHIFT(in, axis, offset) kas_build_shift(&k, in, KAS_AXIS_##axis, offset)
    ASSERT_PRUNED(true, SHIFT(SHIFT(x, H, 1), H, -1));
    ASSERT_PRUNED(true, SHIFT(SHIFT(SHIFT(x, H, 1), W, 1), H, -1));
    ASSERT_PRUNED(true, SHIFT(SHIFT(x, W, 1), H, 1));
    ASSERT_PRUNED(false, SHIFT(SHIFT(x, H, 1), W, 1));
    ASSERT_PRUNED(false, SHIFT(SHIFT(x, H, 1), H, 1));
    ASSERT_PRUNED(true, kas_build_unfold(&k, kas_build_unfold(&k, x, KAS_AXIS_H), KAS_AXIS_W));
    ASSERT_PRUNED(false, kas_build_unfold(&k, FC(kas_build_unfold(&k, x, KAS_AXIS_H)), KAS_AXIS_W));
    ASSERT_PRUNED(true, kas_build_group(&k, kas_build_group(&k, x, 0, 0), 1, 0));
    ASSERT_PRUNED(true, kas_build_group(&k, kas_build_fc(&k, x, false, "G0"), 0, 0));
    ASSERT_PRUNED(true, kas_build_group_all(&k, kas_build_fc(&k, x, false, "1"), 0));
    ASSERT_PRUNED(false, kas_build_group(&k, UNARY(SIN, kas_build_group(&k, x, 0, 0)), 1, 0));
}

TEST(test_prunes_broadcasts)
{
#define BROADCAST(op, a, b) kas_build_broadcast(&k, KAS_OP_##op, a, b)
    ASSERT_PRUNED(true, BROADCAST(SUB, x, x));
    ASSERT_PRUNED(true,
                  BROADCAST(SUB, kas_build_group_all(&k, x, 0), kas_build_group(&k, x, 0, 0)));
    ASSERT_PRUNED(true, BROADCAST(ADD, UNARY(SIN, x), x)); /* as x + sin x */
    ASSERT_PRUNED(false, BROADCAST(ADD, x, UNARY(SIN, x)));
    ASSERT_PRUNED(false, BROADCAST(SUB, UNARY(SIN, x), x));
    ASSERT_PRUNED(true, BROADCAST(ADD, x, UNARY(NEG, x)));
    ASSERT_PRUNED(true, BROADCAST(MAX, x, UNARY(RELU, x)));
    ASSERT_PRUNED(false, BROADCAST(MUL, x, UNARY(RELU, x)));
    ASSERT_PRUNED(true, (FC(x), FC(x), BROADCAST(ADD, 1, 2)));
    ASSERT_PRUNED(false, (FC(x), FC(x), BROADCAST(MUL, 1, 2)));
    ASSERT_PRUNED(true, (UNARY(SIN, x), UNARY(SIN, x)));
    ASSERT_PRUNED(false, (UNARY(SIN, x), UNARY(ABS, x)));
    /* K_H values would be tiled over pixels, a mean over the image is not */
    ASSERT_PRUNED(
        true,
        BROADCAST(MUL, kas_build_fc(&k, kas_build_fold(&k, KAS_OP_FOLD_AVG, x, 1), false, "K_H"),
                  x));
    ASSERT_PRUNED(false, BROADCAST(MUL, kas_build_fold(&k, KAS_OP_FOLD_AVG, x, 1), x));
}

/* As when the last primitive is there. */
static bool is_pruned(const kas_kernel *k)
{
    return kas_prune_output(k) || kas_prune_groups(k, 0);
}

TEST(test_prunes_whole_kernels)
{
    kas_kernel k = {.group_value = {4}};
    int x = kas_build_input(&k);
    FC(kas_build_unfold(&k, UNARY(SIN, kas_build_group(&k, x, 0, 0)), HW));
    assert_true(is_pruned(&k));                                       /* nothing sees the groups */
    assert_false(kas_prune_groups(&k, (uint64_t)1 << (k.nodes - 2))); /* but could yet */
    assert_true(kas_prune_groups(&k, (uint64_t)1 << (k.nodes - 1)));
    k.node[k.nodes - 1].grouped = 1;
    assert_int_equal(kas_kernel_infer(&k), KAS_OK);
    assert_false(is_pruned(&k));
    kas_build_group(&k, k.nodes - 1, 0, 0);
    assert_true(is_pruned(&k)); /* the output is flattened */
    k = (kas_kernel){0};
    x = kas_build_input(&k);
    UNARY(NEG, UNARY(SIN, FC(x)));
    assert_true(is_pruned(&k));
}

static void assert_refused(kas_sample_options o, const char *option)
{
    kas_target t = target(16, 16, 8, 3, 1);
    kas_sampler *sampler;
    kas_sample s;
    assert_int_equal(kas_sampler_create(&o, &t, 1, &sampler), KAS_OK);
    assert_int_equal(kas_sampler_next(sampler, 10, &s), KAS_USAGE);
    if (!strstr(kas_error(), option))
        fail_msg("%s is not named: %s", option, kas_error());
    kas_sampler_free(sampler);
}

TEST(test_options_are_checked)
{
    kas_target t = target(16, 16, 8, 3, 1);
    kas_sampler *sampler;
    kas_sample_options o = options_for(1);
    assert_int_equal(kas_sampler_create(&o, &t, 0, &sampler), KAS_BAD_INPUT);
    o.min_primitives = 9;
    o.max_primitives = 8;
    assert_refused(o, "--min-primitives 9");
    o = options_for(1);
    o.max_width = 0;
    assert_refused(o, "--max-width");
    o = options_for(1);
    o.min_weighted = 13;
    assert_refused(o, "--min-weighted 13");
    o = options_for(1);
    o.required = o.forbidden = KAS_OP_BIT(KAS_OP_EXP);
    assert_refused(o, "--require exp");
    o = options_for(1);
    o.allowed = KAS_OP_BIT(KAS_OP_EXP) | KAS_OP_BIT(KAS_OP_UNFOLD);
    assert_refused(o, "--min-weighted 1");
    o = options_for(1);
    o.allowed = KAS_OP_BIT(KAS_OP_FC) | KAS_OP_BIT(KAS_OP_RELU);
    o.min_receptive = 3;
    assert_refused(o, "--min-receptive 3");
    o = options_for(1);
    o.kernels = (kas_int_list){.count = 1, .value = {4}};
    assert_refused(o, "--kernels 4");
}

/* Nothing fits: the sampler gives up in time. */
TEST(test_nothing_fits)
{
    kas_target t = target(16, 16, 8, 3, 1);
    kas_sampler *sampler;
    kas_sample s;
    kas_sample_options o = options_for(1);
    o.budget.max_flops_ratio = 1e-6; /* less than one */
    assert_int_equal(kas_sampler_create(&o, &t, 1, &sampler), KAS_OK);
    assert_int_equal(kas_sampler_next(sampler, 500, &s), KAS_NOTHING_VALID);
    assert_in_range(kas_sampler_stats(sampler).tries, 500, 700);
    kas_sampler_free(sampler);
}

/* What is asked for is what comes. */
TEST(test_controls)
{
    kas_target t[32];
    int n = resnet18(t);
    kas_sampler *sampler;
    kas_sample_options o = options_for(3);
    o.allowed = KAS_OP_BIT(KAS_OP_FC) | KAS_OP_BIT(KAS_OP_CONV_DEPTHWISE) |
                KAS_OP_BIT(KAS_OP_SHIFT) | KAS_OP_BIT(KAS_OP_GELU) | KAS_OP_BIT(KAS_OP_ADD) |
                KAS_OP_BIT(KAS_OP_MUL) | KAS_OP_BIT(KAS_OP_EXP);
    o.forbidden = KAS_OP_BIT(KAS_OP_EXP);
    o.required = KAS_OP_BIT(KAS_OP_SHIFT) | KAS_OP_BIT(KAS_OP_MUL);
    o.min_primitives = 5;
    o.max_primitives = 7;
    o.max_weighted = 2;
    o.min_weighted = 2;
    o.kernels = (kas_int_list){.count = 1, .value = {5}};
    o.dilations = (kas_int_list){.count = 1, .value = {2}};
    o.shifts = (kas_int_list){.count = 2, .value = {-2, 3}};
    assert_int_equal(kas_sampler_create(&o, t, n, &sampler), KAS_OK);
    for (int k = 0; k < 200; k++) {
        kas_sample s;
        uint64_t ops = 0;
        OK(kas_sampler_next(sampler, 0, &s));
        assert_in_range(s.replacement.kernel->nodes - 1, 5, 7);
        assert_int_equal(kas_kernel_weights(s.replacement.kernel), 2);
        for (int i = 1; i < s.replacement.kernel->nodes; i++) {
            const kas_node *node = &s.replacement.kernel->node[i];
            ops |= KAS_OP_BIT(node->op);
            if (node->op == KAS_OP_SHIFT)
                assert_true(node->offset == -2 || node->offset == 3);
            if (node->op == KAS_OP_CONV_DEPTHWISE)
                assert_true(node->kernel == 5 && node->dilation == 2);
        }
        assert_int_equal(ops & o.required, o.required);
        assert_int_equal(ops & ~(o.allowed & ~o.forbidden), 0);
        kas_sample_free(&s);
    }
    kas_sampler_free(sampler);
}

RUN_TESTS()

/* The lowering of the primitives beyond the paper's Table 1, against the float64 reference. */
#include "agree_fixture.h"
#include "host/space/file/kernel_json.h"

/* Factors of one channel dim, of several, in front of a map and behind one; tiled over all q. */
TEST(test_scale)
{
    kas_kernel plain = {0}, behind = {0}, part = {0};
    kas_build_along(&plain, KAS_OP_SCALE, kas_build_input(&plain), 0, 1);
    agree_large("scale", &plain);
    const int map = kas_build_fc(&behind, kas_build_input(&behind), false, "C");
    kas_build_along(&behind, KAS_OP_SCALE, kas_build_elementwise(&behind, KAS_OP_TANH, map), 0, 1);
    agree("scale behind a map", &behind);
    int x = kas_build_input(&part);
    int y = kas_build_unfold(&part, kas_build_group(&part, x, 0, 0), KAS_AXIS_W);
    y = kas_build_along(&part, KAS_OP_SCALE, y, 1, 3); /* [C/G0, K_W] of [G0, C/G0, K_W, H, W] */
    y = kas_build_along(&part, KAS_OP_SCALE, kas_build_fold(&part, KAS_OP_FOLD_MAX, y, 2), 0, 1);
    kas_build_broadcast(&part, KAS_OP_ADD, y, y);
    agree("scale of part of the dims", &part);
}

TEST(test_norm)
{
    for (int from = 0; from < 3; from++)
        for (int to = from + 1; to <= 3; to += 2) {
            kas_kernel k = {0};
            const int x = kas_build_input(&k);
            kas_build_broadcast(&k, KAS_OP_MUL, kas_build_along(&k, KAS_OP_NORM, x, from, to), x);
            agree("norm", &k);
        }
    kas_kernel group = {0};
    int y =
        kas_build_group(&group, kas_build_fc(&group, kas_build_input(&group), false, "C"), 0, 1);
    y = kas_build_along(&group, KAS_OP_NORM, y, 1, 4);
    kas_build_along(&group, KAS_OP_SCALE, y, 0, 2);
    agree_large("group norm", &group);
}

enum { HW = KAS_AXIS_H | KAS_AXIS_W };

/* A convolution is one library convolution in each of three passes, as the unfold and the map that
 * it stands for are. */
TEST(test_conv)
{
    for (int axes = KAS_AXIS_H; axes <= HW; axes++) {
        kas_kernel k = {0};
        kas_build_conv(&k, kas_build_input(&k), axes, axes == HW ? 5 : 0, 0, false, "C");
        assert_int_equal(agree("conv", &k), 3);
    }
    kas_kernel dilated = {0}, grouped = {0}, chain = {0}, packed = {0}, folded = {0};
    kas_build_conv(&dilated, kas_build_input(&dilated), HW, 3, 2, false, "C");
    agree("dilated conv", &dilated);
    kas_build_conv(&grouped, kas_build_group(&grouped, kas_build_input(&grouped), 0, 0), HW, 0, 0,
                   true, "C");
    agree("grouped conv", &grouped);
    int x = kas_build_input(&chain);
    x = kas_build_conv(&chain, kas_build_elementwise(&chain, KAS_OP_TANH, x), KAS_AXIS_H, 3, 0,
                       false, "x0");
    kas_build_conv(&chain, x, KAS_AXIS_W, 3, 3, false, "C");
    agree_large("conv of a conv", &chain);
    x = kas_build_group(&packed, kas_build_unfold(&packed, kas_build_input(&packed), KAS_AXIS_W), 0,
                        0); /* [G0, C/G0, K_W, H, W]; a window over W again */
    kas_build_conv(&packed, x, HW, 3, 0, true, "C");
    agree("conv of an unfold", &packed);
    x = kas_build_fold(&folded, KAS_OP_FOLD_AVG, kas_build_input(&folded), 2); /* [C, H] */
    x = kas_build_conv(&folded, x, KAS_AXIS_H, 3, 0, false, "C");
    kas_build_broadcast(&folded, KAS_OP_MUL, x, 0);
    agree("conv without W", &folded);
}

TEST(test_conv_depthwise)
{
    kas_kernel plain = {0}, dilated = {0}, dims = {0}, behind = {0};
    kas_build_conv_depthwise(&plain, kas_build_input(&plain), HW, 0, 0);
    agree_large("depthwise conv", &plain);
    kas_build_conv_depthwise(&dilated, kas_build_input(&dilated), HW, 3, 3);
    assert_int_equal(agree("dilated depthwise conv", &dilated), 0); /* no library: one tap a time */
    int x =
        kas_build_unfold(&dims, kas_build_group(&dims, kas_build_input(&dims), 0, 0), KAS_AXIS_H);
    x = kas_build_conv_depthwise(&dims, x, KAS_AXIS_W, 5, 2); /* [G0, C/G0, K_H, H, W] */
    kas_build_fold(&dims, KAS_OP_FOLD_MAX, x, 2);
    agree("depthwise conv of three dims", &dims);
    x = kas_build_conv_depthwise(
        &behind, kas_build_fc(&behind, kas_build_input(&behind), false, "x0"), KAS_AXIS_H, 0, 0);
    kas_build_fc(&behind, x, false, "C");
    agree("depthwise conv between maps", &behind);
}

/* Dims in front of the mixed ones, behind them, on both sides; few and many values. */
TEST(test_mix)
{
    for (int from = 0; from < 3; from++)
        for (int to = from + 1; to <= 3; to++) {
            static const char *const out[3][3] = {
                {"2", "C", "C*K_W"}, {"C/G0", "C/G0*K_W"}, {"K_W"}};
            kas_kernel k = {0};
            int x = kas_build_group(&k, kas_build_input(&k), 0, 0);
            x = kas_build_unfold(&k, x, KAS_AXIS_W); /* [G0, C/G0, K_W, H, W] */
            x = kas_build_mix(&k, x, from, to, out[from][to - from - 1]);
            kas_build_fc(&k, kas_build_elementwise(&k, KAS_OP_SIN, x), false, "C");
            char name[32];
            snprintf(name, sizeof name, "mix of dims %d to %d", from, to - 1);
            agree(name, &k);
        }
    kas_kernel one = {0}, few = {0}, large = {0};
    kas_build_mix(&one, kas_build_input(&one), 0, 1, "C");
    assert_int_equal(agree("mix of everything", &one), 3);
    kas_build_mix(&few, kas_build_group(&few, kas_build_input(&few), 0, 1), 0, 1, "G1");
    agree_large("mix of few", &few); /* G1 = 4: a direct loop */
    int x =
        kas_build_mix(&large, kas_build_group(&large, kas_build_input(&large), 0, 0), 1, 2, "x0");
    kas_build_mix(&large, x, 1, 2, "C/G0");
    agree_large("mix to a new size and back", &large);
}

/* y[c, q] = sum over positions p of value[c, p] * score[q, p], score = query^T key. */
static void attention(kas_kernel *k, bool softmax, const char *hidden)
{
    const int x = kas_build_input(k);
    const int query = kas_build_fc(k, x, false, hidden), key = kas_build_fc(k, x, false, hidden);
    const int score = kas_build_bmm(k, query, key, KAS_TRANSPOSE_LHS, softmax); /* [H, W, H, W] */
    kas_build_bmm(k, kas_build_fc(k, x, false, "C"), score, KAS_TRANSPOSE_RHS, false);
}

TEST(test_bmm)
{
    kas_kernel space = {0}, soft = {0}, channels = {0}, heads = {0}, shared = {0}, row = {0};
    attention(&space, false, "C");
    agree("attention over positions without softmax", &space);
    attention(&soft, true, "x0");
    agree("attention over positions", &soft);
    /* channel attention: [C, C] = x x^T, then times x */
    int x = kas_build_fc(&channels, kas_build_input(&channels), false, "C");
    int score = kas_build_bmm(&channels, x, kas_build_fc(&channels, 0, false, "C"),
                              KAS_TRANSPOSE_RHS, true);
    kas_build_bmm(&channels, score, x, 0, false);
    agree_large("attention over channels", &channels);
    /* in heads: the group dim is a batch */
    x = kas_build_group(&heads, kas_build_input(&heads), 0, 0);
    score = kas_build_bmm(&heads, x, x, KAS_TRANSPOSE_RHS, true); /* [G0, C/G0, C/G0] */
    kas_build_bmm(&heads, score, x, KAS_TRANSPOSE_LHS, false);
    agree("attention in heads", &heads);
    /* an operand that all instances share beside one that they do not */
    x = kas_build_input(&shared);
    score =
        kas_build_bmm(&shared, x, kas_build_fc(&shared, x, false, "C"), KAS_TRANSPOSE_RHS, false);
    kas_build_bmm(&shared, score, x, 0, false);
    agree("shared operand", &shared);
    /* without W */
    x = kas_build_fold(&row, KAS_OP_FOLD_AVG, kas_build_input(&row), 2); /* [C, H] */
    score = kas_build_bmm(&row, x, kas_build_elementwise(&row, KAS_OP_SIN, x), KAS_TRANSPOSE_RHS,
                          false);
    kas_build_bmm(&row, score, 0, KAS_TRANSPOSE_LHS, false);
    agree("rows", &row);
}

/* Compiles for GPUs: each kernel for one of two, at one small shape. */
TEST(test_nvrtc)
{
    static const char *const arch[] = {"sm_80", "sm_90"};
    static const char *const file[] = {"scale_norm", "conv", "mix", "attention"};
    const kas_agree_options options = {.batch = 64};
    const kas_target target = make_target(settings[3]);
    for (size_t i = 0; i < sizeof file / sizeof *file; i++) {
        kas_compiler *gpu;
        kas_kernel kernel;
        kas_buf text = {0};
        char path[4096];
        const kas_status status = kas_compiler_open(arch[i % 2], NULL, &gpu);
        if (status == KAS_UNSUPPORTED) {
            printf("SKIPPED: %s\n", kas_error());
            skip();
        }
        OK(status);
        snprintf(path, sizeof path, "tests/kernels/%s.json", file[i]);
        OK(kas_kernel_read_file(path, &kernel));
        kernel.group_value[0] = 2; /* as the binding has it */
        const kas_binding binding = make_binding(&target);
        OK(kas_agree_text(&kernel, &target, &binding, 1, &options, &text));
        OK(kas_compile(gpu, kas_buf_text(&text), path, NULL));
        kas_buf_free(&text);
        kas_compiler_close(gpu);
    }
}

RUN_TESTS(set_up, tear_down)

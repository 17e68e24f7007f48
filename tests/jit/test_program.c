/* Lowered kernels against the float64 reference, on the device. */
#include "agree_fixture.h"

/* ---- kernels --------------------------------------------------------------------------------- */

enum { HW = KAS_AXIS_H | KAS_AXIS_W };

TEST(test_convolution)
{
    kas_kernel k = {0};
    kas_build_fc(&k, kas_build_unfold(&k, kas_build_input(&k), HW), false, "C");
    /* unfold and map are one library convolution: forward, data, weights */
    assert_int_equal(agree("convolution", &k), 3);
}

TEST(test_pointwise_map)
{
    kas_kernel k = {0};
    const int hidden = kas_build_fc(&k, kas_build_input(&k), false, "x0");
    kas_build_fc(&k, kas_build_elementwise(&k, KAS_OP_RELU, hidden), false, "C");
    assert_int_equal(agree("two maps", &k), 6);
}

TEST(test_depthwise)
{
    kas_kernel k = {0};
    const int groups = kas_build_group_all(&k, kas_build_input(&k), 0);
    kas_build_fc(&k, kas_build_unfold(&k, groups, HW), true, "C");
    assert_int_equal(agree("depthwise", &k), 0); /* direct */
    agree_large("depthwise", &k);
}

TEST(test_grouped)
{
    kas_kernel k = {0};
    const int groups = kas_build_group(&k, kas_build_input(&k), 0, 0);
    kas_build_fc(&k, kas_build_unfold(&k, groups, HW), true, "C");
    agree("grouped convolution", &k);
}

/* Unfold of one axis, and of both one after the other in either order: what a convolution cannot
 * hold is unfolded in memory. */
TEST(test_unfolds)
{
    kas_kernel h = {0}, hw = {0}, wh = {0}, twice = {0};
    kas_build_fc(&h, kas_build_unfold(&h, kas_build_input(&h), KAS_AXIS_H), false, "C");
    assert_int_equal(agree("unfold H", &h), 3);
    int u = kas_build_unfold(&hw, kas_build_input(&hw), KAS_AXIS_H);
    kas_build_fc(&hw, kas_build_unfold(&hw, u, KAS_AXIS_W), false, "C");
    assert_int_equal(agree("unfold H, W", &hw), 3);
    u = kas_build_unfold(&wh, kas_build_input(&wh), KAS_AXIS_W);
    kas_build_fc(&wh, kas_build_unfold(&wh, u, KAS_AXIS_H), false, "C");
    assert_int_equal(agree("unfold W, H", &wh), 3);
    u = kas_build_unfold(&twice, kas_build_input(&twice), HW);
    kas_build_fc(&twice, kas_build_unfold(&twice, u, KAS_AXIS_W), false, "C");
    assert_int_equal(agree("unfold twice", &twice), 3);
}

/* Taps apart, or more of them than the replaced convolution has, also beyond the image. */
TEST(test_windows)
{
    kas_kernel apart = {0}, wide = {0}, read = {0}, mixed = {0};
    int u = kas_build_unfold_window(&apart, kas_build_input(&apart), HW, 3, 2);
    kas_build_fc(&apart, u, false, "C");
    assert_int_equal(agree("dilated convolution", &apart), 3);
    u = kas_build_group_all(&wide, kas_build_input(&wide), 0);
    u = kas_build_unfold_window(&wide, u, HW, 7, 0);
    kas_build_fc(&wide, u, true, "C");
    agree("depthwise 7x7", &wide);
    u = kas_build_unfold_window(&read, kas_build_input(&read), HW, 5, 3);
    u = kas_build_fold(&read, KAS_OP_FOLD_AVG, u, 2);
    kas_build_fold(&read, KAS_OP_FOLD_MAX, kas_build_elementwise(&read, KAS_OP_SIN, u), 1);
    agree("window that is read", &read);
    u = kas_build_unfold_window(&mixed, kas_build_input(&mixed), KAS_AXIS_W, 5, 0);
    u = kas_build_unfold_window(&mixed, u, KAS_AXIS_H, 3, 0);
    kas_build_fc(&mixed, u, false, "C");
    assert_int_equal(agree("5 taps along W, then 3 along H", &mixed), 3);
    kas_kernel two = {0}; /* a library convolution has one dilation: H is unfolded in memory */
    u = kas_build_unfold_window(&two, kas_build_input(&two), KAS_AXIS_H, 3, 2);
    u = kas_build_unfold_window(&two, u, KAS_AXIS_W, 3, 3);
    kas_build_fc(&two, u, false, "C");
    assert_int_equal(agree("two dilations", &two), 3);
}

/* An unfold that is read element by element as well as by a map. */
TEST(test_unfold_shared)
{
    kas_kernel k = {0};
    const int u = kas_build_unfold(&k, kas_build_input(&k), HW);
    const int map = kas_build_fc(&k, u, false, "C");
    const int window =
        kas_build_fold(&k, KAS_OP_FOLD_AVG, kas_build_fold(&k, KAS_OP_FOLD_MAX, u, 1), 1);
    kas_build_broadcast(&k, KAS_OP_MUL, window, map);
    agree("shared unfold", &k);
}

TEST(test_rearrangement)
{
    kas_kernel k = {0};
    int x = kas_build_shift(&k, kas_build_input(&k), KAS_AXIS_H, 1);
    x = kas_build_shift(&k, x, KAS_AXIS_W, -1);
    x = kas_build_group(&k, x, 0, 1);
    x = kas_build_group(&k, x, 1, 0); /* [G1, G0, C/G1/G0] would not divide 12 */
    kas_build_fc(&k, kas_build_elementwise(&k, KAS_OP_SIN, x), false, "C");
    kas_kernel only = {0}; /* nothing but index maps */
    kas_build_shift(&only, kas_build_group(&only, kas_build_input(&only), 0, 0), KAS_AXIS_W, 1);
    agree("rearrangement only", &only);
    kas_kernel pack = {0}; /* group dims behind a contracted one: packed for the library */
    int g = kas_build_group_all(&pack, kas_build_group(&pack, kas_build_input(&pack), 0, 0), 1);
    g = kas_build_fc(&pack, kas_build_unfold(&pack, g, HW), true, "C");
    agree("group of a group", &pack);
}

TEST(test_unary)
{
    static const kas_op op[] = {KAS_OP_RELU, KAS_OP_GELU,  KAS_OP_SIGMOID, KAS_OP_TANH,
                                KAS_OP_ABS,  KAS_OP_EXP,   KAS_OP_NEG,     KAS_OP_SIN,
                                KAS_OP_SQRT, KAS_OP_SQUARE};
    kas_kernel k = {0};
    int x = kas_build_input(&k), sum = x;
    for (size_t i = 0; i < sizeof op / sizeof *op; i++)
        sum = kas_build_broadcast(&k, KAS_OP_ADD, kas_build_elementwise(&k, op[i], x), sum);
    agree("every element-wise function", &k);
    kas_kernel chain = {0};
    x = kas_build_fc(&chain, kas_build_input(&chain), false, "C");
    for (size_t i = 0; i < sizeof op / sizeof *op; i++)
        x = kas_build_elementwise(&chain, op[i], x);
    agree("a chain of functions", &chain);
}

TEST(test_folds)
{
    static const kas_op op[] = {KAS_OP_FOLD_AVG, KAS_OP_FOLD_MAX};
    for (int i = 0; i < 2; i++)
        for (int dim = 0; dim < 3; dim++) {
            kas_kernel k = {0};
            const int x = kas_build_input(&k);
            const int f = kas_build_fold(&k, op[i], x, dim);
            kas_build_broadcast(&k, KAS_OP_MUL, kas_build_elementwise(&k, KAS_OP_TANH, f), x);
            agree(i ? "fold_max" : "fold_avg", &k);
        }
}

/* Equal values everywhere: the first index wins a maximum, a tie of min and max is halved, and 0 is
 * on the side of a kink that docs/primitives.md says. */
TEST(test_ties)
{
    kas_kernel k = {0}, kink = {0}, fold = {0}, large = {0};
    const int x = kas_build_input(&k);
    int y = kas_build_elementwise(&k, KAS_OP_ABS, x);
    y = kas_build_broadcast(&k, KAS_OP_MIN, kas_build_shift(&k, x, KAS_AXIS_W, 1), y);
    kas_build_broadcast(&k, KAS_OP_MAX, x, y);
    int z = kas_build_input(&kink);
    y = kas_build_broadcast(&kink, KAS_OP_ADD, kas_build_elementwise(&kink, KAS_OP_ABS, z),
                            kas_build_elementwise(&kink, KAS_OP_RELU, z));
    kas_build_broadcast(&kink, KAS_OP_ADD, kas_build_elementwise(&kink, KAS_OP_SQRT, z), y);
    int f = kas_build_input(&fold);
    f = kas_build_fold(&fold, KAS_OP_FOLD_MAX, kas_build_unfold(&fold, f, KAS_AXIS_W), 1);
    kas_build_broadcast(&fold, KAS_OP_MUL, kas_build_fold(&fold, KAS_OP_FOLD_MAX, f, 0), f);
    int h = kas_build_input(&large); /* a maximum outside the lanes */
    kas_build_broadcast(&large, KAS_OP_MUL, kas_build_fold(&large, KAS_OP_FOLD_MAX, h, 1), h);
    whole_numbers = true;
    agree("ties of min and max", &k);
    agree("kinks", &kink);
    agree("ties of fold_max", &fold);
    agree_large("ties of a long fold_max", &large);
    whole_numbers = false;
}

/* Squeeze and excitation: all of H and W folded, two maps, broadcast back. */
TEST(test_squeeze)
{
    kas_kernel k = {0};
    const int x = kas_build_input(&k);
    int s = kas_build_fold(&k, KAS_OP_FOLD_AVG, kas_build_fold(&k, KAS_OP_FOLD_AVG, x, 1), 1);
    s = kas_build_elementwise(&k, KAS_OP_RELU, kas_build_fc(&k, s, false, "x0"));
    s = kas_build_elementwise(&k, KAS_OP_SIGMOID, kas_build_fc(&k, s, false, "C"));
    kas_build_broadcast(&k, KAS_OP_MUL, s, x);
    agree_large("squeeze and excitation", &k);
}

TEST(test_softmax)
{
    for (int from = 0; from < 3; from++)
        for (int to = from + 1; to <= 3; to += 2) {
            kas_kernel k = {0};
            const int x = kas_build_input(&k);
            const int s = kas_build_softmax(&k, kas_build_fc(&k, x, false, "C"), from, to);
            kas_build_broadcast(&k, KAS_OP_MUL, s, x);
            agree("softmax", &k);
        }
}

/* Over whole images, maximum and sum come in three stages; and what three passes read (tanh) is
 * computed once and kept. */
TEST(test_softmax_stages)
{
    kas_kernel k = {0};
    kas_build_softmax(&k, kas_build_elementwise(&k, KAS_OP_TANH, kas_build_input(&k)), 1, 3);
    const kas_target target = make_target(settings[LARGE]);
    const kas_binding binding = make_binding(&target);
    const kas_program_options options = {.batch = 2, .training = false, .prefix = "k"};
    kas_program *program;
    OK(kas_program_build(&k, &target, &binding, &options, &program));
    /* tanh; partial maxima twice, maximum; partial sums twice, 1 / sum; result */
    assert_int_equal(program->forwards, 8);
    const char *once = strstr(program->source, "kas_tanh");
    assert_non_null(once);
    assert_null(strstr(once + 1, "kas_tanh"));
    kas_program_free(program);
    agree_large("softmax in stages", &k);
}

/* Involution (paper, section 8): kernels made from the input, tiled over channels. */
TEST(test_involution)
{
    kas_kernel k = {0};
    const int x = kas_build_input(&k);
    const int windows = kas_build_unfold(&k, kas_build_group(&k, x, 0, 0), HW);
    int w =
        kas_build_fc(&k, kas_build_elementwise(&k, KAS_OP_RELU, kas_build_fc(&k, x, false, "x0")),
                     false, "G0*K_H*K_W");
    int y = kas_build_broadcast(&k, KAS_OP_MUL, w, windows);
    y = kas_build_fold(&k, KAS_OP_FOLD_AVG, y, 2);
    kas_build_fold(&k, KAS_OP_FOLD_AVG, y, 2);
    agree_large("involution", &k);
}

TEST(test_broadcasts)
{
    for (int op = KAS_OP_ADD; op <= KAS_OP_MAX; op++) {
        kas_kernel k = {0};
        const int x = kas_build_input(&k);
        const int small = kas_build_fc(&k, x, false, "C/G0"); /* tiled twice over C */
        const int row = kas_build_fold(&k, KAS_OP_FOLD_AVG, x, 2);
        const int y = kas_build_broadcast(&k, (kas_op)op, small, x);
        kas_build_broadcast(&k, (kas_op)op, row, y);
        agree(kas_op_get((kas_op)op)->name, &k);
    }
    /* both operands one value: a tie everywhere, whose halves add up to the whole gradient */
    for (int op = KAS_OP_ADD; op <= KAS_OP_MAX; op++) {
        kas_kernel k = {0};
        const int x = kas_build_fc(&k, kas_build_input(&k), false, "C");
        kas_build_broadcast(&k, (kas_op)op, x, x);
        agree("broadcast with itself", &k);
    }
}

/* A tile that ends within a dimension of what it is tiled over. */
TEST(test_unaligned_tile)
{
    kas_kernel k = {0};
    const int x = kas_build_input(&k);
    const int u = kas_build_unfold(&k, x, HW); /* [C, K_H, K_W, H, W] */
    const int small = kas_build_fc(&k, x, false, "C*K_H/G0");
    int y = kas_build_broadcast(&k, KAS_OP_MUL, small, u);
    y = kas_build_fold(&k, KAS_OP_FOLD_MAX, y, 1);
    kas_build_fold(&k, KAS_OP_FOLD_AVG, y, 1);
    agree("unaligned tile", &k);
}

/* Maps of tensors that have lost H, W or all channels, and maps with very small groups. */
TEST(test_odd_maps)
{
    kas_kernel k = {0};
    const int x = kas_build_input(&k);
    int a = kas_build_fold(&k, KAS_OP_FOLD_AVG, x, 0); /* [H, W] */
    a = kas_build_fc(&k, a, false, "C");
    int b = kas_build_fc(&k, kas_build_fold(&k, KAS_OP_FOLD_MAX, x, 1), false, "C"); /* [C, W] */
    b = kas_build_fc(&k, kas_build_unfold(&k, b, KAS_AXIS_W), false, "C");
    int c = kas_build_fc(&k, kas_build_group_all(&k, x, 0), true, "C*G0");
    c = kas_build_fold(&k, KAS_OP_FOLD_AVG, kas_build_group(&k, c, 0, 0), 0);
    int y = kas_build_broadcast(&k, KAS_OP_ADD, b, kas_build_broadcast(&k, KAS_OP_ADD, a, c));
    (void)y;
    agree("maps of odd tensors", &k);
}

/* Kernels access 16 bytes at a time on a GPU: a buffer elsewhere is refused on every device. */
TEST(test_alignment)
{
    kas_kernel k = {0};
    kas_build_elementwise(&k, KAS_OP_TANH, kas_build_input(&k));
    const kas_target target = make_target(settings[0]);
    const kas_binding binding = make_binding(&target);
    const kas_program_options options = {.batch = 1, .training = false, .prefix = "k"};
    kas_program *program;
    kas_loaded *loaded;
    kas_module *module;
    kas_plan *plan;
    char path[4096];
    OK(kas_program_build(&k, &target, &binding, &options, &program));
    assert_int_equal(program->forwards, 1);
    assert_int_equal(program->forward[0].width, 4);
    assert_true(program->forward[0].accessed.wide == 2 * 4 * 5 * 6 * 8); /* read and written once */
    OK(kas_compile(compiler[0], program->source, path, NULL));
    OK(kas_module_load(device, path, &module));
    OK(kas_program_load(device, program, &module, &loaded));
    OK(kas_plan_create(device, &plan));
    void *address[3];
    assert_int_equal(program->buffers, 3);
    for (int i = 0; i < 3; i++)
        OK(kas_mem_alloc(device, program->buffer[i].bytes + 4, &address[i]));
    OK(kas_loaded_append(loaded, plan, false, address));
    address[1] = (char *)address[1] + 4;
    assert_int_equal(kas_loaded_append(loaded, plan, false, address), KAS_USAGE);
    assert_non_null(strstr(kas_error(), "a multiple of 16 is needed"));
    address[1] = (char *)address[1] - 4;
    kas_plan_free(plan);
    for (int i = 0; i < 3; i++)
        kas_mem_free(device, address[i]);
    kas_loaded_free(loaded);
    kas_module_free(module);
    kas_program_free(program);
}

/* The rule for a device changes how a map is computed, never what.  Both ways of every map, also of
 * those that the rules give to one of them, and all ways in which windows reach a library. */
TEST(test_ways)
{
    static const kas_linear_policy ways[] = {KAS_LINEAR_CPU,     KAS_LINEAR_DIRECT,
                                             KAS_LINEAR_LIBRARY, KAS_LINEAR_UNFOLDED,
                                             KAS_LINEAR_SHIFTED, KAS_LINEAR_MERGED};
    for (int i = 0; i < 6; i++) {
        kas_kernel depthwise = {0}, grouped = {0}, shifted = {0}, crossed = {0}, own = {0},
                   apart = {0};
        linear_policy = ways[i];
        int u = kas_build_group_all(&depthwise, kas_build_input(&depthwise), 0);
        kas_build_fc(&depthwise, kas_build_unfold(&depthwise, u, HW), true, "C");
        const int by_library = linear_policy == KAS_LINEAR_DIRECT ? 0 : 3;
        assert_int_equal(agree("depthwise", &depthwise), by_library);
        u = kas_build_group(&grouped, kas_build_input(&grouped), 0, 1);
        u = kas_build_elementwise(&grouped, KAS_OP_SIN, kas_build_unfold(&grouped, u, KAS_AXIS_H));
        kas_build_fc(&grouped, u, true, "C");
        agree("groups behind a sine", &grouped);
        u = kas_build_shift(&shifted, kas_build_input(&shifted), KAS_AXIS_W, 1);
        kas_build_fc(&shifted, kas_build_group(&shifted, u, 0, 1), true, "C");
        const int pointwise = linear_policy >= KAS_LINEAR_LIBRARY ? 3 : 0;
        assert_int_equal(agree("shift and groups", &shifted), pointwise);
        if (linear_policy < KAS_LINEAR_LIBRARY)
            continue;
        u = kas_build_unfold(&crossed, kas_build_input(&crossed), KAS_AXIS_W); /* W before H */
        kas_build_fc(&crossed, kas_build_unfold(&crossed, u, KAS_AXIS_H), false, "C");
        agree("columns, then rows", &crossed);
        kas_build_conv(&own, kas_build_input(&own), HW, 3, 2, false, "C");
        agree("windows of its own, apart", &own);
        u = kas_build_group(&apart, kas_build_input(&apart), 0, 1);
        kas_build_conv(&apart, u, HW, 3, 1, true, "C");
        agree("windows of groups", &apart);
    }
    linear_policy = KAS_LINEAR_GPU;
    assert_int_equal(kas_linear_policy_of("cpu+order1"), KAS_LINEAR_CPU);
    assert_int_equal(kas_linear_policy_of("sm_90"), KAS_LINEAR_GPU);
}

RUN_TESTS(set_up, tear_down)

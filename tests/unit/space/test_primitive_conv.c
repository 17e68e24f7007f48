/* conv and conv_depthwise: rules, weights, cost, files; the same function as an unfold and a map.
 */
#include "primitive_fixture.h"

enum { HW = KAS_AXIS_H | KAS_AXIS_W };

TEST(test_rules)
{
    kas_kernel k = {0};
    int x = kas_build_input(&k), g = kas_build_group(&k, x, 0, 0);
    int row = kas_build_fold(&k, KAS_OP_FOLD_AVG, x, 1); /* [C, W] */
    int c = kas_build_conv(&k, row, KAS_AXIS_W, 0, 0, false, "x0");
    assert_int_equal(kas_shape_rank(&k.node[c].shape), 2);
    assert_refused(kas_build_conv(&k, row, HW, 0, 0, false, "C"), "axis");
    assert_refused(kas_build_conv(&k, x, HW, 4, 0, false, "C"), "kernel 4");
    assert_refused(kas_build_conv(&k, x, HW, 0, 9, false, "C"), "dilation 9");
    assert_refused(kas_build_conv(&k, x, HW, 0, 0, true, "C"), "no group dim");
    int many = kas_build_group_all(&k, g, 1); /* 8 channel dims would leave no room for taps */
    for (int i = 0; i < 5; i++)
        many = kas_build_unfold(&k, many, KAS_AXIS_H);
    assert_int_equal(k.node[many].shape.channels, 8);
    assert_true(kas_build_conv(&k, many, HW, 0, 0, false, "C") > 0);
    int d = kas_build_conv_depthwise(&k, kas_build_fc(&k, x, false, "x1"), HW, 0, 0);
    assert_true(d > 0); /* a variable number of groups */
    assert_true(kas_shape_equal(&k.node[d].shape, &k.node[d - 1].shape));
    assert_true(k.node[kas_build_conv_depthwise(&k, g, KAS_AXIS_H, 5, 2)].shape.is_group[0]);
}

TEST(test_weight_and_cost)
{
    kas_kernel k = {0}, depthwise = {0}, twin = {0};
    int g = kas_build_group(&k, kas_build_input(&k), 0, 0);
    int c = kas_build_conv(&k, g, HW, 0, 0, true, "C");
    assert_weight(&k, c, 2, 4, 4 * 15, KAS_WEIGHT_NORMAL);
    assert_cost(&k, 8 * 5 * 7 * 60, 8 * 60);
    g = kas_build_group(&twin, kas_build_input(&twin), 0, 0);
    kas_build_fc(&twin, kas_build_unfold(&twin, g, HW), true, "C");
    assert_cost(&twin, 8 * 5 * 7 * 60, 8 * 60);
    int d = kas_build_conv_depthwise(&depthwise, kas_build_input(&depthwise), HW, 7, 2);
    assert_weight(&depthwise, d, 8, 1, 49, KAS_WEIGHT_NORMAL);
    assert_cost(&depthwise, 8 * 5 * 7 * 49, 8 * 49);
}

TEST(test_files)
{
    kas_kernel k = {0};
    int g = kas_build_group(&k, kas_build_input(&k), 0, 0);
    int c = kas_build_conv(&k, g, HW, 5, 2, true, "x0");
    int d = kas_build_conv_depthwise(&k, c, KAS_AXIS_W, 0, 1);
    int y = kas_build_conv(&k, d, KAS_AXIS_H, 0, 0, false, "C");
    k.group_value[0] = 2;
    assert_round_trip(&k, "input();group(0 dim=0 by=G0);"
                          "conv(1 axes=hw kernel=5 dilation=2 grouped out=x0);"
                          "conv_depthwise(2 axes=w);conv(3 axes=h out=C);G0=2;");
    assert_says(&k, c, "conv within groups to x0 over H and W, 5 taps, dilation 2");
    assert_says(&k, d, "depthwise conv over W");
    assert_python(&k, c, "convolve(n1, self.weight0, window=(5, 5), size=(H, W), dilation=2)");
    assert_python(&k, y, "convolve(n3, self.weight0, window=(K_H, 1), size=(H, W))");
    assert_python(&k, y, "n4.reshape(B, R, C, H, W)");
}

typedef struct window {
    int axes, size, dilation;
    bool grouped, depthwise;
} window;

/* The convolution, or what it stands for. */
static int build(kas_kernel *k, int x, const window *w, bool as_conv)
{
    if (w->grouped)
        x = kas_build_group(k, x, 0, 0);
    if (w->depthwise && as_conv)
        return kas_build_conv_depthwise(k, x, w->axes, w->size, w->dilation);
    if (w->depthwise)
        x = kas_build_group_all(k, x, 0);
    if (as_conv)
        return kas_build_conv(k, x, w->axes, w->size, w->dilation, w->grouped, "C");
    x = kas_build_unfold_window(k, x, w->axes, w->size, w->dilation);
    return kas_build_fc(k, x, w->grouped || w->depthwise, "C");
}

static void run(fixture *f, const window *w, bool as_conv)
{
    fixture_target(f, 4, 5, 6, 3, 5);
    fixture_parts(f, 2, 1);
    fixture_create(f, build(&f->kernel, kas_build_input(&f->kernel), w, as_conv));
    fd_random(f->x, f->x_size, 1);
    fd_random(f->dy, f->y_size, 2);
    fd_random(f->weight[0], kas_reference_weight_size(f->ref, 0), 3);
    fixture_forward(f);
    fixture_backward(f);
}

TEST(test_same_function_as_unfold_and_fc)
{
    static const window cases[] = {
        {HW, 0, 0, false, false},         {KAS_AXIS_H, 0, 0, false, false},
        {KAS_AXIS_W, 7, 0, false, false}, {HW, 3, 2, false, false},
        {HW, 5, 0, true, false},          {KAS_AXIS_W, 3, 3, true, false},
        {HW, 0, 0, false, true},          {KAS_AXIS_H, 5, 2, false, true}};
    static fixture conv, twin;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run(&conv, &cases[i], true);
        run(&twin, &cases[i], false);
        size_t size = kas_reference_weight_size(conv.ref, 0);
        assert_int_equal(size, kas_reference_weight_size(twin.ref, 0));
        assert_values("y", conv.y, twin.y, conv.y_size);
        assert_values("dx", conv.dx, twin.dx, conv.x_size);
        assert_values("dweight", conv.dweight[0], twin.dweight[0], size);
        fixture_free(&conv);
        fixture_free(&twin);
    }
}

static int k_conv(kas_kernel *k, int x)
{
    int c = kas_build_conv(k, kas_build_group(k, x, 0, 0), KAS_AXIS_W, 3, 2, true, "C");
    return kas_build_conv(k, kas_build_elementwise(k, KAS_OP_TANH, c), HW, 0, 0, false, "C");
}
static int k_conv_depthwise(kas_kernel *k, int x)
{
    int d = kas_build_conv_depthwise(k, kas_build_group(k, x, 0, 0), HW, 5, 0);
    return kas_build_fc(k, d, false, "C");
}

TEST(test_gradients)
{
    assert_differentiates("conv", k_conv);
    assert_differentiates("conv_depthwise", k_conv_depthwise);
}

RUN_TESTS()

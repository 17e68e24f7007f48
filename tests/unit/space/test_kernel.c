#include "support/test.h"

#include <string.h>

#include "support/build.h"
#include "host/space/weights.h"

#define HW (KAS_AXIS_H | KAS_AXIS_W)

static void assert_shape(const kas_kernel *k, int node, const char *text)
{
    if (node < 0)
        fail_msg("no node: %s", kas_error());
    kas_buf buf = {0};
    kas_shape_print(&k->node[node].shape, &buf);
    assert_string_equal(kas_buf_text(&buf), text);
    kas_buf_free(&buf);
}

/* The call must be refused with a message that names the rule. */
#define ASSERT_REFUSED(call, words)                                                                \
    do {                                                                                           \
        assert_int_equal((call), -1);                                                              \
        if (!strstr(kas_error(), (words)))                                                         \
            fail_msg("message \"%s\" does not say \"%s\"", kas_error(), (words));                  \
    } while (0)

static kas_binding binding_of(uint32_t c, uint32_t h, uint32_t w, uint32_t kernel, uint32_t g0)
{
    kas_binding b = {0};
    b.value[KAS_SYM_C] = c;
    b.value[KAS_SYM_H] = h;
    b.value[KAS_SYM_W] = w;
    b.value[KAS_SYM_KH] = b.value[KAS_SYM_KW] = kernel;
    b.value[KAS_SYM_G0] = g0;
    return b;
}

TEST(test_rearrangement_shapes)
{
    kas_kernel k = {0};
    int x = kas_build_input(&k);
    assert_shape(&k, x, "[C, H, W]");
    int g = kas_build_group(&k, x, 0, 0);
    assert_shape(&k, g, "[G0, C/G0, H, W]");
    assert_int_equal(k.node[g].shape.is_group[0], 1);
    assert_int_equal(k.node[g].shape.is_group[1], 0);
    int all = kas_build_group_all(&k, g, 1);
    assert_shape(&k, all, "[G0, C/G0, 1, H, W]");
    assert_int_equal(k.node[all].shape.is_group[1], 1);
    assert_int_equal(k.node[all].shape.is_group[2], 0);
    int again = kas_build_group(&k, all, 1, 1); /* the mark of X stays on X/G */
    assert_shape(&k, again, "[G0, G1, C/G0/G1, 1, H, W]");
    assert_int_equal(k.node[again].shape.is_group[2], 1);
    assert_shape(&k, kas_build_unfold(&k, g, HW), "[G0, C/G0, K_H, K_W, H, W]");
    assert_shape(&k, kas_build_unfold(&k, x, KAS_AXIS_W), "[C, K_W, H, W]");
    assert_shape(&k, kas_build_unfold_window(&k, x, HW, 5, 2), "[C, 5, 5, H, W]");
    int once = kas_build_unfold_window(&k, x, KAS_AXIS_H, 0, 1);
    assert_shape(&k, once, "[C, K_H, H, W]");
    assert_int_equal(k.node[once].dilation, 0); /* 1 is none: one way of writing it */
    assert_shape(&k, kas_build_shift(&k, x, KAS_AXIS_H, 1), "[C, H, W]");
    assert_shape(&k, kas_build_shift(&k, x, KAS_AXIS_W, -3), "[C, H, W]");
}

TEST(test_rearrangement_refusals)
{
    kas_kernel k = {0};
    int x = kas_build_input(&k), all = kas_build_group_all(&k, x, 0);
    ASSERT_REFUSED(kas_build_group(&k, x, 1, 0), "dim 1");
    ASSERT_REFUSED(kas_build_group(&k, x, -1, 0), "dim -1");
    ASSERT_REFUSED(kas_build_group(&k, x, 0, 4), "G3");
    ASSERT_REFUSED(kas_build_group(&k, all, 1, 0), "size 1");
    ASSERT_REFUSED(kas_build_group_all(&k, all, 0), "group dim already");
    ASSERT_REFUSED(kas_build_group_all(&k, kas_build_fc(&k, x, false, "x0"), 0), "variable");
    ASSERT_REFUSED(kas_build_shift(&k, x, HW, 1), "one of h and w");
    ASSERT_REFUSED(kas_build_shift(&k, x, KAS_AXIS_H, 0), "offset 0");
    ASSERT_REFUSED(kas_build_shift(&k, x, KAS_AXIS_H, 4), "offset 4");
    ASSERT_REFUSED(kas_build_unfold_window(&k, x, HW, 4, 0), "kernel 4");
    ASSERT_REFUSED(kas_build_unfold_window(&k, x, HW, 9, 0), "kernel 9");
    ASSERT_REFUSED(kas_build_unfold_window(&k, x, HW, 3, 4), "dilation 4");
    int row = kas_build_fold(&k, KAS_OP_FOLD_AVG, x, 1); /* H is gone */
    assert_shape(&k, row, "[C, W]");
    ASSERT_REFUSED(kas_build_shift(&k, row, KAS_AXIS_H, 1), "no H");
    ASSERT_REFUSED(kas_build_unfold(&k, row, HW), "axis");
    ASSERT_REFUSED(kas_build_unfold(&k, x, 0), "axes");
    int wide = x;
    for (int i = 0; i < 7; i++)
        wide = kas_build_unfold(&k, wide, KAS_AXIS_H);
    assert_int_equal(k.node[wide].shape.channels, 8);
    ASSERT_REFUSED(kas_build_unfold(&k, wide, KAS_AXIS_H), "8 channel dims");
    ASSERT_REFUSED(kas_build_group(&k, wide, 0, 0), "8 channel dims");
    ASSERT_REFUSED(kas_build_group_all(&k, wide, 0), "8 channel dims");
}

TEST(test_arithmetic_shapes)
{
    kas_kernel k = {0};
    int x = kas_build_input(&k), u = kas_build_unfold(&k, x, HW);
    int fc = kas_build_fc(&k, u, false, "x0");
    assert_shape(&k, fc, "[x0, H, W]");
    assert_shape(&k, kas_build_elementwise(&k, KAS_OP_GELU, u), "[C, K_H, K_W, H, W]");
    assert_shape(&k, kas_build_fold(&k, KAS_OP_FOLD_MAX, u, 0), "[K_H, K_W, H, W]");
    assert_shape(&k, kas_build_fold(&k, KAS_OP_FOLD_MAX, u, 4), "[C, K_H, K_W, H]");
    assert_shape(&k, kas_build_softmax(&k, u, 1, 3), "[C, K_H, K_W, H, W]");
    int pooled = kas_build_fold(&k, KAS_OP_FOLD_AVG, kas_build_fold(&k, KAS_OP_FOLD_AVG, x, 2), 1);
    assert_shape(&k, pooled, "[C]");
    assert_shape(&k, kas_build_fc(&k, pooled, false, "C"), "[C]");
    int scalar = kas_build_fold(&k, KAS_OP_FOLD_AVG, pooled, 0);
    assert_shape(&k, scalar, "[]");
    assert_shape(&k, kas_build_fc(&k, scalar, false, "x1"), "[x1]");
    int g = kas_build_group(&k, fc, 0, 0);
    assert_shape(&k, g, "[G0, x0/G0, H, W]");
    int gfc = kas_build_fc(&k, g, true, "C");
    assert_shape(&k, gfc, "[C, H, W]");
    assert_int_equal(k.node[gfc].shape.is_group[0], 0);
    ASSERT_REFUSED(kas_build_fc(&k, x, true, "C"), "no group dim");
    ASSERT_REFUSED(kas_build_fc(&k, x, false, "x0*x1"), "Theorem 1");
    ASSERT_REFUSED(kas_build_fc(&k, x, false, "C/x0"), "Theorem 1");
    ASSERT_REFUSED(kas_build_fold(&k, KAS_OP_FOLD_AVG, x, 3), "dim 3");
    ASSERT_REFUSED(kas_build_softmax(&k, x, 1, 1), "[1, 1)");
    ASSERT_REFUSED(kas_build_softmax(&k, x, 0, 4), "[0, 4)");
}

static void assert_align(const kas_kernel *k, int lhs, int rhs, int prefix, int suffix,
                         const char *l, const char *r)
{
    kas_broadcast parts;
    kas_buf text = {0};
    assert_int_equal(kas_broadcast_align(&k->node[lhs].shape, &k->node[rhs].shape, &parts), KAS_OK);
    assert_int_equal(parts.prefix, prefix);
    assert_int_equal(parts.suffix, suffix);
    kas_dim_print(&parts.lhs, &text);
    assert_string_equal(kas_buf_text(&text), l);
    kas_buf_clear(&text);
    kas_dim_print(&parts.rhs, &text);
    assert_string_equal(kas_buf_text(&text), r);
    kas_buf_free(&text);
}

TEST(test_broadcast_alignment)
{
    kas_kernel k = {0};
    int x = kas_build_input(&k), g = kas_build_group(&k, x, 0, 0);
    int ug = kas_build_unfold(&k, g, KAS_AXIS_H);
    /* Paper, section 5: [G, x1/G, H, W] to [G, C/G, K_H, H, W] leaves x1/G and C/G*K_H. */
    int fg = kas_build_group(&k, kas_build_fc(&k, x, false, "x1"), 0, 0);
    assert_align(&k, fg, ug, 1, 2, "x1/G0", "C*K_H/G0");
    assert_align(&k, x, x, 0, 3, "1", "1");
    /* Suffix first: [C] against [C, C, ...] counts as suffix where it can. */
    int row = kas_build_fold(&k, KAS_OP_FOLD_AVG, kas_build_fold(&k, KAS_OP_FOLD_AVG, x, 2), 1);
    assert_align(&k, row, x, 1, 0, "1", "H*W");
    int no_w = kas_build_fold(&k, KAS_OP_FOLD_AVG, x, 2);
    assert_align(&k, no_w, x, 2, 0, "1", "W");
    /* Involution: taps are tiled over the channels of a group. */
    int taps = kas_build_group(&k, kas_build_fc(&k, x, false, "G0*K_H*K_W"), 0, 0);
    int u = kas_build_unfold(&k, g, HW);
    assert_align(&k, taps, u, 1, 2, "K_H*K_W", "C*K_H*K_W/G0");
    int y = kas_build_broadcast(&k, KAS_OP_MUL, taps, u);
    assert_shape(&k, y, "[G0, C/G0, K_H, K_W, H, W]");
    assert_int_equal(k.node[y].shape.is_group[0], 1);
}

TEST(test_whole_kernel_rules)
{
    kas_kernel k = {0};
    int x = kas_build_input(&k), u = kas_build_unfold(&k, x, HW);
    assert_int_equal(kas_kernel_infer(&k), KAS_ILLEGAL); /* output [C, K_H, K_W, H, W] */
    assert_non_null(strstr(kas_error(), "[C, K_H, K_W, H, W]"));
    int y = kas_build_fc(&k, u, false, "C");
    assert_int_equal(kas_kernel_infer(&k), KAS_OK);
    kas_build_group(&k, y, 0, 0); /* [G0, C/G0, H, W] lies in memory as [C, H, W] does */
    assert_int_equal(kas_kernel_infer(&k), KAS_OK);
    k.nodes--;
    kas_build_elementwise(&k, KAS_OP_RELU, x); /* node 2 now leads nowhere */
    assert_int_equal(kas_kernel_infer(&k), KAS_ILLEGAL);
    assert_non_null(strstr(kas_error(), "node 2"));
    kas_kernel one = {0};
    kas_build_input(&one);
    assert_int_equal(kas_kernel_infer(&one), KAS_ILLEGAL);
    k.node[3].in[0] = 3; /* an edge that does not come from an earlier node */
    assert_int_equal(kas_kernel_infer(&k), KAS_ILLEGAL);
    k.node[3].op = 200;
    assert_int_equal(kas_kernel_infer(&k), KAS_ILLEGAL);
}

TEST(test_substitution_propagates)
{
    kas_kernel k = {0};
    int x = kas_build_input(&k);
    int a = kas_build_fc(&k, x, false, "x0"), b = kas_build_fc(&k, a, false, "x1");
    int g = kas_build_group(&k, b, 0, 0);
    assert_int_equal(kas_kernel_vars(&k), 3);
    kas_dim value;
    assert_true(kas_dim_parse("x0*G0", &value));
    assert_int_equal(kas_kernel_substitute(&k, 1, &value), KAS_OK);
    assert_shape(&k, b, "[G0*x0, H, W]");
    assert_shape(&k, g, "[G0, x0, H, W]");
    assert_int_equal(kas_kernel_vars(&k), 1);
    assert_int_equal(kas_kernel_substitute(&k, 16, &value), KAS_FAILURE);
}

TEST(test_check_binding)
{
    kas_kernel k = {0};
    int x = kas_build_input(&k), g = kas_build_group(&k, x, 0, 0);
    kas_build_fc(&k, kas_build_unfold(&k, g, HW), true, "C");
    assert_int_equal(kas_kernel_infer(&k), KAS_OK);
    kas_binding b = binding_of(48, 8, 8, 3, 16);
    assert_int_equal(kas_kernel_check_binding(&k, &b), KAS_OK);
    b = binding_of(40, 8, 8, 3, 16);
    assert_int_equal(kas_kernel_check_binding(&k, &b), KAS_ILLEGAL);
    assert_non_null(strstr(kas_error(), "C/G0"));
    k.node[3].out = kas_dim_const(8); /* 16 groups cannot share 8 outputs */
    assert_int_equal(kas_node_infer(&k, 3), KAS_OK);
    b = binding_of(48, 8, 8, 3, 16);
    assert_int_equal(kas_kernel_check_binding(&k, &b), KAS_ILLEGAL);
    assert_non_null(strstr(kas_error(), "outputs per group"));
    kas_kernel t = {0};
    x = kas_build_input(&t);
    kas_build_broadcast(&t, KAS_OP_ADD, kas_build_fc(&t, x, false, "K_H"), x);
    b = binding_of(48, 8, 8, 3, 0);
    assert_int_equal(kas_kernel_check_binding(&t, &b), KAS_OK);
    b = binding_of(64, 8, 8, 3, 0); /* 3 does not divide 64 */
    assert_int_equal(kas_kernel_check_binding(&t, &b), KAS_ILLEGAL);
    assert_non_null(strstr(kas_error(), "repetitions"));
}

TEST(test_sizes_and_cost)
{
    kas_kernel k = {0};
    int x = kas_build_input(&k), g = kas_build_group(&k, x, 0, 0);
    int u = kas_build_unfold(&k, g, HW);
    int fc = kas_build_fc(&k, u, true, "C");
    int pool = kas_build_fold(&k, KAS_OP_FOLD_AVG, fc, 2);
    int y = kas_build_broadcast(&k, KAS_OP_ADD, pool, kas_build_elementwise(&k, KAS_OP_RELU, fc));
    assert_true(y > 0);
    assert_int_equal(kas_kernel_infer(&k), KAS_OK);
    kas_binding b = binding_of(12, 5, 7, 3, 4);
    kas_weight_sizes sizes;
    assert_int_equal(kas_weight_sizes_at(&k, fc, &b, &sizes), KAS_OK);
    assert_int_equal(sizes.groups, 4);
    assert_int_equal(sizes.fan_in, 3 * 9);
    assert_int_equal(sizes.fan_out, 3);
    uint32_t dims[KAS_MAX_DIMS];
    int rank;
    assert_int_equal(kas_node_sizes(&k.node[u], &b, dims, &rank), KAS_OK);
    const uint32_t expected[] = {4, 3, 3, 3, 5, 7};
    assert_int_equal(rank, 6);
    assert_memory_equal(dims, expected, sizeof expected);
    kas_cost cost;
    assert_int_equal(kas_kernel_cost(&k, &b, &cost), KAS_OK);
    /* fc, fold (elements of its input), relu, add */
    assert_true(cost.flops == 12 * 27 * 35 + 12 * 35 + 12 * 35 + 12 * 35);
    assert_true(cost.params == 12 * 27);
    assert_true(cost.largest_tensor == 12 * 9 * 35);
    assert_true(cost.largest_weight == 12 * 27);
    assert_int_equal(kas_weight_sizes_at(&k, x, &b, &sizes), KAS_FAILURE);
}

RUN_TESTS()

#include "support/test.h"

#include <string.h>

#include "support/build.h"
#include "host/space/describe.h"

static void assert_says(const kas_kernel *k, int node, const char *text)
{
    kas_buf buf = {0};
    if (node < 0)
        fail_msg("no node: %s", kas_error());
    kas_node_describe(k, node, &buf);
    assert_string_equal(kas_buf_text(&buf), text);
    kas_buf_free(&buf);
}

TEST(test_every_primitive_is_described)
{
    kas_kernel k = {0};
    int x = kas_build_input(&k), g = kas_build_group(&k, x, 0, 1);
    assert_says(&k, x, "input");
    assert_says(&k, g, "group dim 0 (C) by G1");
    assert_says(&k, kas_build_group_all(&k, x, 0), "group every value of dim 0 (C)");
    assert_says(&k, kas_build_shift(&k, x, KAS_AXIS_W, -1), "shift W by -1");
    assert_says(&k, kas_build_unfold(&k, x, KAS_AXIS_H | KAS_AXIS_W), "unfold H and W");
    assert_says(&k, kas_build_unfold_window(&k, x, KAS_AXIS_W, 5, 2),
                "unfold W, 5 taps, dilation 2");
    assert_says(&k, kas_build_fc(&k, g, true, "x0"), "fc within groups to x0");
    assert_says(&k, kas_build_fc(&k, x, false, "C/G1"), "fc to C/G1");
    assert_says(&k, kas_build_elementwise(&k, KAS_OP_GELU, x), "gelu");
    assert_says(&k, kas_build_fold(&k, KAS_OP_FOLD_MAX, g, 2), "maximum of dim 2 (H)");
    assert_says(&k, kas_build_softmax(&k, g, 1, 2), "softmax over dim 1 (C/G1)");
    assert_says(&k, kas_build_softmax(&k, g, 1, 4), "softmax over dims 1 to 3");
    int row = kas_build_fold(&k, KAS_OP_FOLD_AVG, x, 1);
    assert_says(&k, kas_build_broadcast(&k, KAS_OP_SUB, row, x), "sub, LHS repeated H times");
    assert_says(&k, kas_build_broadcast(&k, KAS_OP_ADD, x, x), "add");
}

TEST(test_dot)
{
    kas_kernel k = {0};
    int x = kas_build_input(&k);
    kas_build_broadcast(&k, KAS_OP_SUB, x, kas_build_fc(&k, x, false, "C"));
    kas_binding binding = {.value = {16, 8, 4, 3, 3}};
    kas_buf out = {0};
    assert_int_equal(kas_kernel_write_dot(&k, "a \"b\"", &binding, &out), KAS_OK);
    static const char *const parts[] = {
        "digraph \"a \\\"b\\\"\" {", "label=\"1: fc to C\\n[C, H, W]\\n16 x 8 x 4\"", "n0 -> n1;",
        "n0 -> n2 [label=\"LHS\"];", "n1 -> n2 [label=\"RHS\"];"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr(kas_buf_text(&out), parts[i]))
            fail_msg("\"%s\" is missing in\n%s", parts[i], kas_buf_text(&out));
    kas_buf_clear(&out);
    assert_int_equal(kas_kernel_write_dot(&k, "k", NULL, &out), KAS_OK);
    assert_null(strstr(kas_buf_text(&out), "16 x"));
    kas_buf_free(&out);
}

RUN_TESTS()

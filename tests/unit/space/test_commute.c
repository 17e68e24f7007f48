/* One order for operands that commute. */
#include "support/test.h"

#include <string.h>

#include "host/check/plain.h"
#include "support/build.h"
#include "host/space/canonical.h"
#include "host/space/commute.h"

static void name_of(kas_kernel k, char name[KAS_NAME_SIZE])
{
    assert_int_equal(kas_kernel_infer(&k), KAS_OK);
    const kas_kernel before = k;
    assert_int_equal(kas_kernel_canonicalize_unordered(&k, &k), KAS_OK);
    assert_true(kas_plain_same(&before, &k)); /* nothing but the order has changed */
    assert_int_equal(kas_kernel_name(&k, name), KAS_OK);
}

/* sin(x) OP tanh(x), then that OP2 x: four ways to write it. */
static kas_kernel make(kas_op first, kas_op second, bool swap_first, bool swap_second)
{
    kas_kernel k = {0};
    int x = kas_build_fc(&k, kas_build_input(&k), false, "C");
    int a = kas_build_elementwise(&k, swap_first ? KAS_OP_TANH : KAS_OP_SIN, x);
    int b = kas_build_elementwise(&k, swap_first ? KAS_OP_SIN : KAS_OP_TANH, x);
    int y = kas_build_broadcast(&k, first, a, b);
    kas_build_broadcast(&k, second, swap_second ? y : x, swap_second ? x : y);
    assert_int_equal(k.nodes, 6);
    return k;
}

TEST(test_orders_have_one_name)
{
    char name[4][KAS_NAME_SIZE];
    for (int n = 0; n < 4; n++)
        name_of(make(KAS_OP_MAX, KAS_OP_ADD, n & 1, n & 2), name[n]);
    for (int n = 1; n < 4; n++)
        assert_string_equal(name[0], name[n]);
    for (int n = 0; n < 4; n++)
        name_of(make(KAS_OP_SUB, KAS_OP_ADD, n & 1, n & 2), name[n]);
    assert_string_not_equal(name[0], name[1]); /* a - b is not b - a */
    assert_string_equal(name[0], name[2]);
    assert_string_equal(name[1], name[3]);
}

/* Operands made alike and told apart by their use: x0 goes on alone, x1 does not. */
TEST(test_uses_tell_operands_apart)
{
    char name[2][KAS_NAME_SIZE];
    for (int n = 0; n < 2; n++) {
        kas_kernel k = {0};
        int x = kas_build_input(&k);
        int a = kas_build_elementwise(&k, KAS_OP_RELU, kas_build_fc(&k, x, false, "C"));
        int b = kas_build_elementwise(&k, KAS_OP_RELU, kas_build_fc(&k, x, false, "C"));
        int y = kas_build_broadcast(&k, KAS_OP_MUL, n ? b : a, n ? a : b);
        kas_build_broadcast(&k, KAS_OP_SUB, kas_build_elementwise(&k, KAS_OP_SIN, a), y);
        name_of(k, name[n]);
    }
    assert_string_equal(name[0], name[1]);
}

/* Operands made alike and used alike: only the maps that they read differ, by who else reads them.
 */
TEST(test_far_uses_tell_operands_apart)
{
    char name[2][KAS_NAME_SIZE];
    kas_kernel kernel[2] = {0};
    for (int n = 0; n < 2; n++) {
        kas_kernel *k = &kernel[n];
        int x = kas_build_input(k);
        int p = kas_build_fc(k, x, false, "C"), q = kas_build_fc(k, x, false, "C");
        int a = kas_build_elementwise(k, KAS_OP_RELU, p),
            b = kas_build_elementwise(k, KAS_OP_RELU, q);
        int y = kas_build_broadcast(k, KAS_OP_MUL, n ? b : a, n ? a : b);
        kas_build_broadcast(k, KAS_OP_ADD, y, kas_build_elementwise(k, KAS_OP_SIN, p));
        name_of(*k, name[n]);
        assert_int_equal(kas_kernel_infer(k), KAS_OK);
    }
    assert_string_equal(name[0], name[1]);
    assert_true(kas_plain_same(&kernel[0], &kernel[1])); /* the judge sees it too */
    assert_true(kas_plain_same(&kernel[1], &kernel[0]));
    for (int i = 0; i < kernel[1].nodes; i++) /* q in the place of p is the same again, as p + q */
        if (kernel[1].node[i].op == KAS_OP_SIN)
            kernel[1].node[i].in[0] = 2;
    name_of(kernel[1], name[1]);
    assert_string_equal(name[0], name[1]);
    for (int i = 0; i < kernel[1].nodes; i++)
        if (kernel[1].node[i].op == KAS_OP_SIN)
            kernel[1].node[i].op = KAS_OP_TANH;
    assert_false(kas_plain_same(&kernel[0], &kernel[1]));
}

/* A smaller operand is repeated over a larger one: they do not change places. */
TEST(test_broadcasts_keep_their_order)
{
    kas_kernel k = {0};
    int x = kas_build_fc(&k, kas_build_input(&k), false, "C");
    int gate = kas_build_fold(&k, KAS_OP_FOLD_AVG, kas_build_fold(&k, KAS_OP_FOLD_AVG, x, 1), 1);
    kas_build_broadcast(&k, KAS_OP_MUL, gate, x);
    assert_int_equal(kas_kernel_infer(&k), KAS_OK);
    assert_false(kas_operands_commute(&k, &k.node[k.nodes - 1]));
    kas_kernel ordered, plain;
    assert_int_equal(kas_kernel_canonicalize_unordered(&k, &ordered), KAS_OK);
    assert_int_equal(kas_kernel_canonicalize(&k, &plain), KAS_OK);
    assert_true(kas_build_same(&plain, &ordered));
}

RUN_TESTS()

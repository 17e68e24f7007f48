#include "support/test.h"

#include <string.h>

#include "host/core/random.h"
#include "support/build.h"
#include "host/space/canonical.h"

#define HW (KAS_AXIS_H | KAS_AXIS_W)

/* sub(fc(group(x)), relu(fc(x))) with the choices that a name must or must not see. */
static kas_kernel two_branches(bool swap_order, bool swap_operands, int g, const char *a,
                               const char *b, uint32_t value)
{
    kas_kernel k = {0};
    int x = kas_build_input(&k), left = 0, right = 0;
    for (int turn = 0; turn < 2; turn++)
        if ((turn == 0) != swap_order)
            left = kas_build_fc(&k, kas_build_group(&k, kas_build_fc(&k, x, false, a), 0, g), true,
                                "C");
        else
            right = kas_build_elementwise(
                &k, KAS_OP_RELU, kas_build_fc(&k, kas_build_fc(&k, x, false, b), false, "C"));
    kas_build_broadcast(&k, KAS_OP_SUB, swap_operands ? right : left, swap_operands ? left : right);
    k.group_value[g] = value;
    OK(kas_kernel_infer(&k));
    return k;
}

static void name_of(const kas_kernel *k, char name[KAS_NAME_SIZE])
{
    OK(kas_kernel_name(k, name));
}

static void assert_same(kas_kernel a, kas_kernel b, bool same)
{
    char x[KAS_NAME_SIZE], y[KAS_NAME_SIZE];
    name_of(&a, x);
    name_of(&b, y);
    assert_int_equal(strcmp(x, y) == 0, same);
}

TEST(test_names_see_structure_only)
{
    kas_kernel base = two_branches(false, false, 0, "x0", "x1", 4);
    assert_same(base, two_branches(true, false, 0, "x0", "x1", 4), true);
    assert_same(base, two_branches(false, false, 2, "x0", "x1", 4), true);
    assert_same(base, two_branches(false, false, 0, "x7", "x3", 4), true);
    assert_same(base, two_branches(false, true, 0, "x0", "x1", 4), false); /* a - b, b - a */
    assert_same(base, two_branches(false, false, 0, "x0", "x1", 8), false);
    assert_same(base, two_branches(false, false, 0, "x0", "x0", 4),
                false); /* one shared variable */
    assert_same(base, two_branches(false, false, 0, "x0*K_H", "x1", 4), false);
}

TEST(test_attributes_are_seen)
{
    kas_kernel a = {0}, b, c;
    int x = kas_build_input(&a);
    int s = kas_build_shift(&a, x, KAS_AXIS_H, 1);
    kas_build_fc(&a, s, false, "C");
    b = c = a;
    b.node[s].offset = -1;
    assert_same(a, b, false);
    c.node[s].axes = KAS_AXIS_W;
    assert_same(a, c, false);
    assert_same(b, c, false);
}

/* A node used twice is not the same as two equal nodes. */
TEST(test_sharing_is_seen)
{
    kas_kernel shared = {0}, copied = {0};
    int x = kas_build_input(&shared), f = kas_build_fc(&shared, x, false, "C");
    kas_build_broadcast(&shared, KAS_OP_MUL, f, kas_build_elementwise(&shared, KAS_OP_RELU, f));
    x = kas_build_input(&copied);
    f = kas_build_fc(&copied, x, false, "C");
    int r = kas_build_elementwise(&copied, KAS_OP_RELU, kas_build_fc(&copied, x, false, "C"));
    kas_build_broadcast(&copied, KAS_OP_MUL, f, r);
    assert_same(shared, copied, false);
}

/* Two group symbols that first appear together in one size: only later uses tell them apart. */
TEST(test_symbols_met_together)
{
    kas_kernel k[2] = {0};
    for (int g = 0; g < 2; g++) {
        int x = kas_build_input(&k[g]);
        int f = kas_build_fc(&k[g], x, false, "G0*G1*C");
        kas_build_fc(&k[g], kas_build_group(&k[g], f, 0, g), true, "C");
        k[g].group_value[0] = k[g].group_value[1] = 2;
    }
    assert_same(k[0], k[1], true);
    k[0].group_value[0] = 4;
    assert_same(k[0], k[1], false);
    k[1].group_value[1] = 4;
    assert_same(k[0], k[1], true);
}

/* Used alike, told apart by their values only. */
TEST(test_symbols_with_values)
{
    kas_kernel k[2] = {0};
    for (int g = 0; g < 2; g++) {
        int f = kas_build_fc(&k[g], kas_build_input(&k[g]), false, "G0*G1");
        kas_build_fc(&k[g], f, false, "C");
        k[g].group_value[g] = 2;
        k[g].group_value[1 - g] = 8;
    }
    assert_same(k[0], k[1], true);
    k[0].group_value[0] = 4;
    assert_same(k[0], k[1], false);
}

/* Any topological renumbering with any names of symbols gives the same text. */
TEST(test_random_renumbering)
{
    kas_kernel base = two_branches(false, false, 0, "x0", "x1", 4);
    kas_rng rng = kas_rng_make(3, KAS_PURPOSE_TEST, 0);
    kas_buf wanted = {0}, text = {0};
    assert_int_equal(kas_kernel_canonical_text(&base, &wanted), KAS_OK);
    for (int n = 0; n < 500; n++) {
        kas_kernel k = {.nodes = base.nodes};
        int place[KAS_MAX_NODES], done = 0;
        bool placed[KAS_MAX_NODES] = {false};
        while (done < base.nodes) { /* any node whose operands are placed may be next */
            int i = (int)kas_rng_below(&rng, (uint32_t)base.nodes);
            const kas_node *node = &base.node[i];
            bool ready = !placed[i] && (i < base.nodes - 1 || done == base.nodes - 1);
            for (int o = 0; o < node->inputs; o++)
                ready = ready && placed[node->in[o]];
            if (!ready)
                continue;
            k.node[done] = *node;
            for (int o = 0; o < node->inputs; o++)
                k.node[done].in[o] = (uint8_t)place[node->in[o]];
            placed[i] = true;
            place[i] = done++;
        }
        k.group_value[0] = 4;
        assert_int_equal(kas_kernel_infer(&k), KAS_OK);
        kas_buf_clear(&text);
        assert_int_equal(kas_kernel_canonical_text(&k, &text), KAS_OK);
        assert_string_equal(kas_buf_text(&text), kas_buf_text(&wanted));
    }
    kas_buf_free(&wanted);
    kas_buf_free(&text);
}

/* Names in studies stay valid for good: this one may never change. */
TEST(test_name_is_fixed)
{
    kas_kernel k = {0};
    char name[KAS_NAME_SIZE];
    kas_buf text = {0};
    kas_build_fc(&k, kas_build_unfold(&k, kas_build_input(&k), HW), false, "C");
    assert_int_equal(kas_kernel_canonical_text(&k, &text), KAS_OK);
    assert_string_equal(kas_buf_text(&text), "input();unfold(0 axes=hw);fc(1 out=C);");
    kas_buf_free(&text);
    name_of(&k, name);
    assert_string_equal(name, "c56136d90586e847");
}

TEST(test_windows_are_seen)
{
    static const struct {
        int window, dilation;
        const char *text;
    } cases[] = {{0, 0, "input();unfold(0 axes=hw);fc(1 out=C);"},
                 {0, 1, "input();unfold(0 axes=hw);fc(1 out=C);"},
                 {3, 1, "input();unfold(0 axes=hw kernel=3);fc(1 out=C);"},
                 {0, 2, "input();unfold(0 axes=hw dilation=2);fc(1 out=C);"},
                 {7, 3, "input();unfold(0 axes=hw kernel=7 dilation=3);fc(1 out=C);"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kas_kernel k = {0};
        kas_buf text = {0};
        int u = kas_build_unfold_window(&k, kas_build_input(&k), HW, cases[i].window,
                                        cases[i].dilation);
        kas_build_fc(&k, u, false, "C");
        assert_int_equal(kas_kernel_canonical_text(&k, &text), KAS_OK);
        assert_string_equal(kas_buf_text(&text), cases[i].text);
        kas_buf_free(&text);
    }
}

TEST(test_canonical_is_idempotent)
{
    kas_kernel k = two_branches(true, false, 3, "x9", "x4", 4), once, twice;
    assert_int_equal(kas_kernel_canonicalize(&k, &once), KAS_OK);
    assert_int_equal(kas_kernel_canonicalize(&once, &twice), KAS_OK);
    assert_memory_equal(&once, &twice, sizeof once);
    assert_int_equal(once.group_value[0], 4);
    assert_int_equal(once.group_value[3], 0);
    assert_int_equal(kas_kernel_vars(&once), 3);
}

RUN_TESTS()

/* slice and concat: rules, symbols, files, values by hand, gradients, export. */
#include "host/space/solve/solve.h"
#include "host/space/split.h"
#include "primitive_fixture.h"
#include "host/export/python.h"

TEST(test_shapes)
{
    kas_kernel k = {0};
    int x = kas_build_input(&k), g = kas_build_group(&k, x, 0, 0);
    const int third = kas_build_split(&k, "C", 3, 0), first = kas_build_split(&k, "C/G0", 0, 2);
    const int band = kas_build_split(&k, "W", 4, 0), more = kas_build_split(&k, "R1", 2, 0);
    assert_shape(&k, kas_build_slice(&k, x, 0, third, 2), "[1/3*C, H, W]");
    assert_shape(&k, kas_build_slice(&k, g, 1, first, 0), "[G0, 2, H, W]");
    const int rest = kas_build_slice(&k, g, 1, first, 1);
    assert_shape(&k, rest, "[G0, R1, H, W]");
    assert_int_equal(k.node[rest].shape.is_group[0], 1);
    assert_shape(&k, kas_build_slice(&k, rest, 1, more, 1), "[G0, 1/2*R1, H, W]");
    const int strip = kas_build_slice(&k, x, 2, band, 3);
    assert_shape(&k, strip, "[C, H, 1/4*W]");
    const int row = kas_build_fold(&k, KAS_OP_FOLD_AVG, strip, 1);
    assert_shape(&k, row, "[C, 1/4*W]");
    assert_shape(&k, kas_build_unfold(&k, row, KAS_AXIS_W), "[C, K_W, 1/4*W]");
    assert_shape(&k, kas_build_concat(&k, (const int[]){row, row, row, row}, 1, band), "[C, W]");
}

/* A dim stays a group dim when all parts say so. */
TEST(test_marks)
{
    kas_kernel k = {0};
    const int g = kas_build_group(&k, kas_build_input(&k), 0, 0);
    const int s = kas_build_split(&k, "C/G0", 2, 0);
    const int a = kas_build_slice(&k, g, 1, s, 0);
    const int b = kas_build_group_all(&k, a, 1), c = kas_build_fold(&k, KAS_OP_FOLD_AVG, b, 2);
    const int both = kas_build_concat(&k, (const int[]){a, c}, 1, s);
    assert_shape(&k, both, "[G0, C/G0, H, W]");
    assert_int_equal(k.node[both].shape.is_group[0], 1);
    assert_int_equal(k.node[both].shape.is_group[1], 0);
    const int marked = kas_build_concat(&k, (const int[]){c, c}, 1, s);
    assert_int_equal(k.node[marked].shape.is_group[1], 1);
}

TEST(test_refusals)
{
    kas_kernel k = {0};
    int x = kas_build_input(&k);
    assert_refused(kas_build_slice(&k, x, 0, 0, 0), "no split S0");
    assert_refused(kas_build_slice(&k, x, 0, 9, 0), "no split S9");
    const int half = kas_build_split(&k, "C", 2, 0), first = kas_build_split(&k, "C", 0, 2);
    assert_refused(kas_build_slice(&k, x, 0, half, 2), "segments 0 to 1");
    assert_refused(kas_build_slice(&k, x, 1, half, 0), "has size H; S0 wants C");
    assert_refused(kas_build_slice(&k, x, 3, half, 0), "dim 3");
    assert_refused(kas_build_slice(&k, x, -1, half, 0), "dim -1");
    const int a = kas_build_slice(&k, x, 0, half, 0), b = kas_build_slice(&k, x, 0, first, 1);
    assert_refused(kas_build_concat(&k, (const int[]){a, b}, 0, half), "operand 1 has size R1");
    assert_refused(kas_build_concat(&k, (const int[]){a, a}, 3, half), "dim 3");
    const int row = kas_build_fold(&k, KAS_OP_FOLD_AVG, a, 1);
    assert_refused(kas_build_concat(&k, (const int[]){a, row}, 0, half), "more than dim 0");
    const int wide = kas_build_unfold(&k, a, KAS_AXIS_H);
    assert_refused(kas_build_concat(&k, (const int[]){a, wide}, 0, half), "more than dim 0");
    assert_int_equal(kas_build_concat(&k, (const int[]){a, -1}, 0, half), -1);
    k.split[2] = k.split[0];
    assert_refused(kas_build_slice(&k, x, 0, 2, 0), "S2 and S0 are the same");
    k.split[2].shares = 5;
    assert_refused(kas_build_slice(&k, x, 0, 2, 0), "2 to 4 shares");
    k.split[2].shares = 1;
    assert_refused(kas_build_slice(&k, x, 0, 2, 0), "2 to 4 shares");
    k.split[2] = (kas_split){.whole = kas_dim_symbol(KAS_SYM_X0), .first = 3};
    const int map = kas_build_fc(&k, x, false, "x0");
    assert_refused(kas_build_slice(&k, map, 0, 2, 0), "variable");
    k.split[2] = (kas_split){.whole = kas_dim_symbol(KAS_SYM_R0 + 3), .first = 3};
    k.split[3] = (kas_split){.whole = kas_dim_symbol(KAS_SYM_R0 + 2), .first = 3};
    const int circle = kas_build_fc(&k, x, false, "R3");
    assert_refused(kas_build_slice(&k, circle, 0, 2, 0), "its own rest");
}

/* Equal shares of a free size are one too; a value for it reaches the split. */
TEST(test_free_sizes)
{
    kas_kernel k = {0};
    const int map = kas_build_fc(&k, kas_build_input(&k), false, "x0");
    const int s = kas_build_split(&k, "x0", 2, 0);
    int a = kas_build_slice(&k, map, 0, s, 0), b = kas_build_slice(&k, map, 0, s, 1);
    a = kas_build_concat(&k, (const int[]){b, a}, 0, s);
    assert_shape(&k, a, "[x0, H, W]");
    const kas_dim c = kas_dim_symbol(KAS_SYM_C);
    assert_int_equal(kas_kernel_substitute(&k, 0, &c), KAS_OK);
    assert_shape(&k, a, "[C, H, W]");
    assert_shape(&k, b, "[1/2*C, H, W]");
}

static void first_of(kas_kernel *k, const char *whole, int dim, int first)
{
    const int x = kas_build_input(k), s = kas_build_split(k, whole, 0, first);
    const int a = kas_build_slice(k, x, dim, s, 0), b = kas_build_slice(k, x, dim, s, 1);
    kas_build_concat(k, (const int[]){a, kas_build_elementwise(k, KAS_OP_RELU, b)}, dim, s);
}

TEST(test_targets)
{
    const kas_target targets[] = {KAS_TARGET_PLAIN("wide", 64, 7, 7, 3),
                                  KAS_TARGET_PLAIN("narrow", 16, 5, 5, 3)};
    const kas_budget budget = {0};
    kas_solution solution;
    kas_kernel fits = {0}, not = {0}, odd = {0};
    first_of(&fits, "C", 0, 15);
    assert_int_equal(kas_solve(&fits, targets, 2, &budget, &solution), KAS_OK);
    assert_int_equal(solution.binding[0].value[KAS_SYM_R0], 49);
    assert_int_equal(solution.binding[1].value[KAS_SYM_R0], 1);
    kas_solution_free(&solution);
    first_of(&not, "C", 0, 16);
    assert_int_equal(kas_solve(&not, targets, 2, &budget, &solution), KAS_ILLEGAL);
    assert_non_null(strstr(kas_error(), "narrow: node 1 (slice): S0 takes the first 16 of 16"));
    int x = kas_build_input(&odd), s = kas_build_split(&odd, "H", 2, 0);
    x = kas_build_slice(&odd, x, 1, s, 0);
    kas_build_concat(&odd, (const int[]){x, x}, 1, s);
    assert_int_equal(kas_solve(&odd, targets, 2, &budget, &solution), KAS_ILLEGAL);
    assert_non_null(
        strstr(kas_error(), "node 1 (slice): the size 1/2*H = 7/2 is not an integer at wide"));
}

/* Numbers of splits, and of what depends on them, are no part of a kernel's name. */
TEST(test_names)
{
    char name[2][KAS_NAME_SIZE];
    for (int turn = 0; turn < 2; turn++) {
        kas_kernel k = {0};
        int x = kas_build_input(&k), split[2];
        for (int i = 0; i < 2; i++) {
            const bool outer = i == turn;
            split[!outer] = kas_build_split(&k,
                                            outer       ? "C/G1"
                                            : turn == 0 ? "R0"
                                                        : "R1",
                                            outer ? 0 : 2, outer ? 2 : 0);
        }
        const int g = kas_build_group(&k, x, 0, 1);
        const int rest = kas_build_slice(&k, g, 1, split[0], 1);
        const int a = kas_build_slice(&k, rest, 1, split[1], 0);
        const int b = kas_build_slice(&k, rest, 1, split[1], 1);
        const int turned = kas_build_concat(&k, (const int[]){b, a}, 1, split[1]);
        const int first = kas_build_slice(&k, g, 1, split[0], 0);
        kas_build_concat(&k, (const int[]){first, turned}, 1, split[0]);
        k.group_value[1] = 4;
        assert_round_trip(&k, "input();group(0 dim=0 by=G0);slice(1 dim=1 split=S0 segment=0);"
                              "slice(1 dim=1 split=S0 segment=1);slice(3 dim=1 split=S1 segment=1);"
                              "slice(3 dim=1 split=S1 segment=0);concat(4,5 dim=1 split=S1);"
                              "concat(2,6 dim=1 split=S0);G0=4;S0=C/G0 first=2;S1=R0 shares=2;");
        assert_int_equal(kas_kernel_name(&k, name[turn]), KAS_OK);
    }
    assert_string_equal(name[0], name[1]);
}

TEST(test_texts)
{
    kas_kernel k = {0};
    first_of(&k, "C", 0, 16);
    assert_says(&k, 1, "segment 0 of dim 0 (the first 16 of C, the rest is R0)");
    assert_python(&k, 1, "n1 = n0.narrow(2, 0, 16)");
    assert_python(&k, 2, "n2 = n0.narrow(2, 16, R0)");
    assert_says(&k, 4, "join dim 0 (the first 16 of C, the rest is R0)");
    assert_python(&k, 4, "n4 = torch.cat([n1, n3], 2)");
    const int s = kas_build_split(&k, "H", 4, 0);
    const int band = kas_build_slice(&k, 0, 1, s, 3);
    assert_says(&k, band, "segment 3 of dim 1 (H in 4 shares)");
    assert_python(&k, band, "n5 = n0.narrow(3, (H * 3) // 4, H // 4)");
    kas_kernel map = {0}; /* a rest in a weight needs its value where the module is made */
    const int x = kas_build_input(&map), rest = kas_build_split(&map, "C", 0, 16);
    const int a = kas_build_fc(&map, x, false, "16"), b = kas_build_fc(&map, x, false, "R0");
    kas_build_concat(&map, (const int[]){a, b}, 0, rest);
    kas_buf text = {0};
    assert_int_equal(kas_kernel_infer(&map), KAS_OK);
    assert_int_equal(kas_export_kernel_py(&map, &text), KAS_OK);
    const char *init = strstr(kas_buf_text(&text), "        R0 = C - 16\n");
    assert_non_null(init);
    assert_non_null(strstr(init + 1, "        R0 = C - 16\n")); /* and in forward */
    kas_buf_free(&text);
}

#define HEAD                                                                                       \
    "{\"format\": \"kas-gpu kernel\", \"version\": 1, \"nodes\": [{\"op\": \"input\"}, "           \
    "{\"op\": \"slice\", \"in\": [0], \"dim\": 0, \"split\": \"S1\", \"segment\": 0}, "            \
    "{\"op\": \"concat\", \"in\": [1, 1], \"dim\": 0, \"split\": \"S1\"}]"

TEST(test_bad_files)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        {HEAD "}", "\"S1\" is used but not given"},
        {HEAD ", \"splits\": {}}", "\"S1\" is used but not given"},
        {HEAD ", \"splits\": []}", "\"splits\""},
        {HEAD ", \"splits\": {\"S1\": 3}}", "S1: expected an object"},
        {HEAD ", \"splits\": {\"S1\": {\"shares\": 2}}}", "\"whole\""},
        {HEAD ", \"splits\": {\"S1\": {\"whole\": \"C-16\", \"shares\": 2}}}", "found \"C-16\""},
        {HEAD ", \"splits\": {\"S1\": {\"whole\": \"C\"}}}", "one of the fields"},
        {HEAD ", \"splits\": {\"S1\": {\"whole\": \"C\", \"shares\": 2, \"first\": 3}}}",
         "one of the fields"},
        {HEAD ", \"splits\": {\"S1\": {\"whole\": \"C\", \"shares\": 5}}}", "[2, 4]"},
        {HEAD ", \"splits\": {\"S1\": {\"whole\": \"C\", \"first\": 0}}}", "\"first\""},
        {HEAD ", \"splits\": {\"S1\": {\"whole\": \"C\", \"part\": 1}}}", "\"part\""},
        {HEAD ", \"splits\": {\"S1\": {\"whole\": \"C\", \"part\": 3, \"shares\": 3}}}",
         "one of the fields"},
        {HEAD ", \"splits\": {\"S1\": {\"whole\": \"C\", \"shares\": 3}}}",
         "node 2 (concat): 2 operands; S1 has 3 segments"},
        {HEAD ", \"splits\": {\"S1\": {\"whole\": \"C/G0\", \"shares\": 2}}}", "\"G0\" is used"},
        {HEAD ", \"splits\": {\"S1\": {\"whole\": \"H\", \"shares\": 2}}}", "S1 wants H"},
        {HEAD ", \"splits\": {\"S1\": {\"whole\": \"C\", \"shares\": 2, \"n\": 1}}}",
         "unknown field \"n\""},
        {HEAD ", \"splits\": {\"S1\": {\"whole\": \"C\", \"shares\": 2}, \"S0\": {\"whole\": "
              "\"C\", \"shares\": 3}}}",
         "no node uses \"S0\""},
        {"{\"format\": \"kas-gpu kernel\", \"version\": 1, \"nodes\": [{\"op\": \"input\"}, "
         "{\"op\": \"fc\", \"in\": [0], \"out\": \"R0\"}, {\"op\": \"fc\", \"in\": [1], \"out\": "
         "\"C\"}]}",
         "node 1 (fc): R0 is the rest of nothing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kas_kernel k;
        kas_status status =
            kas_kernel_read_json("f.json", cases[i].text, strlen(cases[i].text), &k);
        if (status != KAS_BAD_INPUT || !strstr(kas_error(), cases[i].words))
            fail_msg("%s\n  gave status %d, message \"%s\"; wanted \"%s\"", cases[i].text,
                     (int)status, kas_error(), cases[i].words);
    }
}

TEST(test_values)
{
    fixture f;
    fixture_target(&f, 2, 3, 2, 3, 3);
    const int x = kas_build_input(&f.kernel), s = kas_build_split(&f.kernel, "H", 0, 1);
    const int c = kas_build_split(&f.kernel, "C", 2, 0);
    const int top = kas_build_slice(&f.kernel, x, 1, s, 0);
    const int rest = kas_build_slice(&f.kernel, x, 1, s, 1);
    const int shifted = kas_build_shift(&f.kernel, rest, KAS_AXIS_H, 1);
    const int image = kas_build_concat(&f.kernel, (const int[]){top, shifted}, 1, s);
    const int one = kas_build_slice(&f.kernel, image, 0, c, 0);
    const int two = kas_build_slice(&f.kernel, image, 0, c, 1);
    fixture_create(&f, kas_build_concat(&f.kernel, (const int[]){two, one}, 0, c));
    memcpy(f.x, (double[]){1, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 60}, 12 * sizeof *f.x);
    fixture_forward(&f);
    assert_node(&f, top, VALUES(1, 2, 10, 20));
    assert_node(&f, rest, VALUES(3, 4, 5, 6, 30, 40, 50, 60));
    assert_node(&f, image, VALUES(1, 2, 5, 6, 3, 4, 10, 20, 50, 60, 30, 40));
    assert_node(&f, two, VALUES(10, 20, 50, 60, 30, 40));
    assert_values("output", f.y, VALUES(10, 20, 50, 60, 30, 40, 1, 2, 5, 6, 3, 4));
    fixture_free(&f);
}

TEST(test_redundant)
{
    kas_kernel k = {0};
    const int x = kas_build_input(&k), s = kas_build_split(&k, "C", 2, 0);
    const int a = kas_build_slice(&k, x, 0, s, 0), b = kas_build_slice(&k, x, 0, s, 1);
    assert_redundant(&k, b, false);
    assert_redundant(&k, kas_build_slice(&k, x, 0, s, 1), true); /* is there already */
    assert_redundant(&k, kas_build_concat(&k, (const int[]){a, b}, 0, s), true);
    const int turned = kas_build_concat(&k, (const int[]){b, a}, 0, s);
    assert_redundant(&k, turned, false);
    assert_redundant(&k, kas_build_slice(&k, turned, 0, s, 0), true);
    const int third = kas_build_split(&k, "C", 3, 0);
    assert_redundant(&k, kas_build_slice(&k, turned, 0, third, 0), false);
}

static int k_shares(kas_kernel *k, int x)
{
    const int s = kas_build_split(k, "C", 4, 0);
    int part[4];
    for (int i = 0; i < 4; i++)
        part[i] = kas_build_slice(k, x, 0, s, i);
    part[1] = kas_build_fc(k, x, false, "C/4");
    part[3] = kas_build_elementwise(k, KAS_OP_SIN, part[0]);
    return kas_build_concat(k, part, 0, s);
}
static int k_first(kas_kernel *k, int x)
{
    const int s = kas_build_split(k, "W", 0, 3);
    const int left = kas_build_unfold(k, kas_build_slice(k, x, 2, s, 0), KAS_AXIS_W);
    const int right = kas_build_softmax(k, kas_build_slice(k, x, 2, s, 1), 0, 2);
    return kas_build_concat(k, (const int[]){kas_build_fc(k, left, false, "C"), right}, 2, s);
}

static int k_part(kas_kernel *k, int x)
{
    k->split[0] = (kas_split){.whole = kas_dim_symbol(KAS_SYM_C), .part = 4};
    const int first = kas_build_slice(k, x, 0, 0, 0), rest = kas_build_slice(k, x, 0, 0, 1);
    const int turned = kas_build_elementwise(k, KAS_OP_SIN, rest);
    return kas_build_concat(k, (const int[]){kas_build_fc(k, first, false, "C/4"), turned}, 0, 0);
}

/* The first 1/n of a size, and what is left of it. */
TEST(test_part)
{
    static const char file[] =
        "{\"format\": \"kas-gpu kernel\", \"version\": 1, \"nodes\": [{\"op\": \"input\"}, "
        "{\"op\": "
        "\"slice\", \"in\": [0], \"dim\": 1, \"split\": \"S0\", \"segment\": 0}, {\"op\": "
        "\"slice\", "
        "\"in\": [0], \"dim\": 1, \"split\": \"S0\", \"segment\": 1}, {\"op\": \"sin\", \"in\": "
        "[1]}, "
        "{\"op\": \"concat\", \"in\": [3, 2], \"dim\": 1, \"split\": \"S0\"}, {\"op\": \"fc\", "
        "\"in\": "
        "[4], \"out\": \"C\"}], \"splits\": {\"S0\": {\"whole\": \"H\", \"part\": 7}}}";
    const kas_target fits = KAS_TARGET_PLAIN("fits", 4, 14, 2, 1),
                     not = KAS_TARGET_PLAIN("not", 4, 12, 2, 1);
    const kas_budget budget = {0};
    kas_solution solution;
    kas_kernel k = {0};
    kas_buf text = {0}, again = {0};
    assert_int_equal(kas_kernel_read_json("f", file, strlen(file), &k), KAS_OK);
    assert_shape(&k, 1, "[C, 1/7*H, W]");
    assert_shape(&k, 2, "[C, 6/7*H, W]");
    assert_says(&k, 1, "segment 0 of dim 1 (the first 1/7 of H)");
    assert_int_equal(kas_split_begin(&k.split[0], 1, 12), 2);
    assert_int_equal(kas_solve(&k, &fits, 1, &budget, &solution), KAS_OK);
    kas_solution_free(&solution);
    assert_int_equal(kas_solve(&k, &not, 1, &budget, &solution), KAS_ILLEGAL);
    assert_int_equal(kas_kernel_write_json(&k, NULL, &text), KAS_OK);
    assert_non_null(strstr(kas_buf_text(&text), "{\"whole\": \"H\", \"part\": 7}"));
    assert_int_equal(kas_kernel_canonical_text(&k, &again), KAS_OK);
    assert_non_null(strstr(kas_buf_text(&again), "S0=H part=7;"));
    kas_buf_free(&text);
    k.split[0].part = 2;
    assert_refused(kas_build_slice(&k, 0, 1, 0, 0), "the part of the whole that they are, 3 to");
    char halves[sizeof file];
    memcpy(halves, file, sizeof file);
    *strrchr(halves, '7') = '2'; /* the same cut as two equal shares, so it has the same name */
    kas_buf_clear(&again);
    assert_int_equal(kas_kernel_read_json("f", halves, strlen(halves), &k), KAS_OK);
    assert_int_equal(kas_kernel_canonical_text(&k, &again), KAS_OK);
    assert_non_null(strstr(kas_buf_text(&again), "S0=H shares=2;"));
    kas_buf_free(&again);
    assert_differentiates("a part of the channels", k_part);
}

TEST(test_gradients)
{
    assert_differentiates("shares of the channels", k_shares);
    assert_differentiates("first columns and rest", k_first);
}

RUN_TESTS()

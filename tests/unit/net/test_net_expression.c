/* Arithmetic in network files: values by hand, every way to get it wrong. */
#include "support/test.h"

#include <string.h>

#include "host/net/expression.h"

static kas_names names(void)
{
    kas_names n = {0};
    assert_int_equal(kas_names_set(&n, "c", 64), KAS_OK);
    assert_int_equal(kas_names_set(&n, "i", 3), KAS_OK);
    assert_int_equal(kas_names_set(&n, "nothing", 0), KAS_OK);
    return n;
}

TEST(values)
{
    static const struct {
        const char *text;
        int64_t value;
    } cases[] = {
        {"7", 7},
        {" c ", 64},
        {"2 + 3 * 4", 14},
        {"(2 + 3) * 4", 20},
        {"10 - 3 - 2", 5},
        {"c / 2 / 4", 8},
        {"7 // 2", 3},
        {"-7 // 2", -4},
        {"-7 % 4", 1},
        {"--5", 5},
        {"not 0", 1},
        {"not not 5", 1},
        {"1 + not 0", 2},
        {"i == 3 and c != 64 or 1", 1},
        {"1 or 0 and 0", 1},
        {"2 < 3", 1},
        {"3 <= 2", 0},
        {"3 >= 3", 1},
        {"i == 0 ? 2 : 1", 1},
        {"nothing ? c / nothing : 5", 5},
        {"i ? i > 2 ? 10 : 20 : 30", 10},
        {"min(c, 2 * i)", 6},
        {"max(min(1, 2), 0)", 1},
        {"max(1, 2) + 1", 3},
        {"minus", 9},
        {"2147483647 + 1", 2147483648},
    };
    kas_names n = names();
    assert_int_equal(kas_names_set(&n, "minus", 8), KAS_OK);
    assert_int_equal(kas_names_set(&n, "minus", 9), KAS_OK); /* replaces */
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        int64_t found = -1;
        assert_int_equal(kas_expression(cases[k].text, &n, &found), KAS_OK);
        if (found != cases[k].value)
            fail_msg("%s gave %lld, expected %lld", cases[k].text, (long long)found,
                     (long long)cases[k].value);
    }
}

TEST(mistakes_are_explained)
{
    static const char *const cases[][2] = {
        {"", "expected a number"},
        {"2 +", "expected a number"},
        {"2 3", "expected an operator"},
        {"chanels", "unknown name \"chanels\"; known are: c i"},
        {"c / 3", "leaves a rest"},
        {"c / nothing", "divisor"},
        {"c // -1", "divisor"},
        {"(c", "expected )"},
        {"min(1)", "expected a comma"},
        {"min 1", "expected (a, b)"},
        {"1 ? 2", "expected :"},
        {"99999999999", "2^31"},
        {"c * c * c * c * c * c", "beyond 2^31"},
        {"1.5", "whole number"},
        {"c = 3", "operator or the end"},
        {"3x", "whole number"},
        {"((((((((((((((((((1))))))))))))))))))", "too deeply"},
    };
    kas_names n = names();
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        int64_t found;
        assert_int_equal(kas_expression(cases[k][0], &n, &found), KAS_BAD_INPUT);
        if (!strstr(kas_error(), cases[k][1]))
            fail_msg("%s: \"%s\" lacks \"%s\"", cases[k][0], kas_error(), cases[k][1]);
    }
    char many[400];
    memset(many, '-', sizeof many);
    memcpy(many + sizeof many - 2, "1", 2);
    int64_t found;
    assert_int_equal(kas_expression(many, &n, &found), KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "more than 256"));
}

TEST(bad_names_are_refused)
{
    static const char *const bad[] = {
        "", "2x", "a-b", "and", "max", "a b", "a_name_that_is_longer_than_any_should_be"};
    kas_names n = {0};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
        assert_int_equal(kas_names_set(&n, bad[k], 1), KAS_BAD_INPUT);
    assert_int_equal(n.count, 0);
    for (int k = 0; k < KAS_NAMES; k++) {
        char name[2] = {(char)(k < 26 ? 'a' + k : 'A' + k - 26), 0};
        assert_int_equal(kas_names_set(&n, name, k), KAS_OK);
    }
    assert_int_equal(kas_names_set(&n, "one_more", 1), KAS_BAD_INPUT);
    assert_int_equal(kas_names_set(&n, "a", 7), KAS_OK);
    assert_int_equal(*kas_names_get(&n, "a"), 7);
    assert_null(kas_names_get(&n, "one_more"));
}

TEST(templates)
{
    kas_names n = names();
    char out[16];
    assert_int_equal(kas_template("layer{i + 1}.{c}", &n, out, sizeof out), KAS_OK);
    assert_string_equal(out, "layer4.64");
    assert_int_equal(kas_template("", &n, out, sizeof out), KAS_OK);
    assert_string_equal(out, "");
    static const char *const bad[] = {
        "a{i", "a}", "{}", "{none}", "a_name_of_16_b_y", "{c}{c}{c}{c}{c}{c}{c}{c}"};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
        assert_int_equal(kas_template(bad[k], &n, out, sizeof out), KAS_BAD_INPUT);
}

RUN_TESTS()

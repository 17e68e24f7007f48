/* Whole numbers of the command line. */
#include "support/test.h"

#include "host/core/integer.h"

TEST(test_integers)
{
    static const struct {
        const char *text;
        int64_t low, high, value;
        bool good;
    } cases[] = {{"0", 0, 9, 0, true},
                 {"9", 0, 9, 9, true},
                 {"007", 0, 9, 7, true},
                 {"-3", -3, 9, -3, true},
                 {"9223372036854775807", 0, INT64_MAX, INT64_MAX, true},
                 {"10", 0, 9, 0, false},
                 {"-4", -3, 9, 0, false},
                 {"9223372036854775808", INT64_MIN, INT64_MAX, 0, false},
                 {"18446744073709551617", 0, 9, 0, false}, /* 1, were it cut to 64 bits */
                 {"", 0, 9, 0, false},
                 {"-", -3, 9, 0, false},
                 {"+3", 0, 9, 0, false},
                 {" 3", 0, 9, 0, false},
                 {"3 ", 0, 9, 0, false},
                 {"3x", 0, 9, 0, false},
                 {"0x3", 0, 9, 0, false},
                 {"3e0", 0, 9, 0, false},
                 {"3.0", 0, 9, 0, false},
                 {"--3", -9, 9, 0, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t value = 77;
        if (kas_integer_read(cases[i].text, cases[i].low, cases[i].high, &value) != cases[i].good)
            fail_msg("\"%s\"", cases[i].text);
        assert_int_equal(value, cases[i].good ? cases[i].value : 77);
    }
}

TEST(test_seeds)
{
    static const char *const bad[] = {
        "18446744073709551616", "99999999999999999999", "-1", "", "1 ", "+1"};
    uint64_t value = 77;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(kas_integer_read_unsigned(bad[i], &value));
    assert_true(value == 77);
    assert_true(kas_integer_read_unsigned("18446744073709551615", &value));
    assert_true(value == UINT64_MAX);
    assert_true(kas_integer_read_unsigned("0", &value));
    assert_true(value == 0);
}

RUN_TESTS()

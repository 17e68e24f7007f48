/* Paired comparisons and intervals against figures worked out by hand. */
#include "support/test.h"

#include <math.h>

#include "host/score/correct.h"
#include "host/score/interval.h"

static void assert_near(double found, double expected, double tolerance)
{
    if (!(fabs(found - expected) <= tolerance))
        fail_msg("%.9g, expected %.9g", found, expected);
}

TEST(texts_of_images)
{
    static const float six[] = {1, 0, 1, 1, 0, 1}, three[] = {1, 1, 1};
    kas_buf text = {0};
    kas_correct_add(six, 6, &text);
    assert_string_equal(kas_buf_text(&text), "6:b4");
    kas_correct_add(three, 3, &text);
    assert_string_equal(kas_buf_text(&text), "6:b4 3:e");
    assert_near(kas_correct_share(text.data, KAS_SELECTING), 4.0 / 6, 0);
    assert_near(kas_correct_share(text.data, KAS_CONFIRMING), 1, 0);
    assert_true(isnan(kas_correct_share(text.data, 2)));
    kas_buf_free(&text);
}

/* The first has images 1 to 6 of 10 right, the second 1, 2 and 7: b = 4, c = 1. */
TEST(mcnemar)
{
    static const char a[] = "10:fc0", b[] = "10:c20";
    const kas_paired lost = kas_correct_compare(a, b, 0), won = kas_correct_compare(b, a, 0),
                     same = kas_correct_compare(a, a, 0);
    assert_int_equal(lost.images, 10);
    assert_near(lost.lost, 0.3, 1e-15);
    assert_near(lost.error, 0.202484567, 1e-9); /* sqrt(5 - 9 / 10) / 10 */
    assert_near(won.lost, -0.3, 1e-15);
    assert_near(won.error, lost.error, 0);
    assert_true(same.lost == 0 && same.error == 0 && same.images == 10);
}

/* Halves are compared apart. */
TEST(parts_are_compared_apart)
{
    static const char a[] = "4:f 5:f8", b[] = "4:c 5:f8";
    assert_near(kas_correct_compare(a, b, KAS_SELECTING).lost, 0.5, 0);
    assert_near(kas_correct_compare(a, b, KAS_CONFIRMING).lost, 0, 0);
    assert_int_equal(kas_correct_compare(a, b, KAS_CONFIRMING).images, 5);
}

TEST(what_cannot_be_compared)
{
    static const char *const bad[] = {NULL, "",    "4",    "4:",   "4:g",  "4:f0", "5:f",
                                      "0:", "x:f", "4:f ", " 4:f", "-4:f", "8:ff", "4:F"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const kas_paired pair = kas_correct_compare("4:f 4:f", bad[i], i == 9 ? 1 : 0);
        if (pair.images || !isnan(pair.lost) || !isnan(pair.error))
            fail_msg("\"%s\" is compared", bad[i] ? bad[i] : "NULL");
    }
}

TEST(intervals)
{
    static const double one[] = {0.5}, two[] = {0, 1}, three[] = {1, 3, 2};
    kas_interval i = kas_interval_of(one, 1);
    assert_true(i.mean == 0.5 && isnan(i.spread) && isnan(i.low) && isnan(i.high));
    i = kas_interval_of(two, 2); /* 12.706 * 0.7071 / sqrt(2) = 6.353 */
    assert_near(i.spread, 0.707106781, 1e-9);
    assert_near(i.low, -5.853, 1e-9);
    assert_near(i.high, 6.853, 1e-9);
    i = kas_interval_of(three, 3); /* 4.303 / sqrt(3) = 2.484338 */
    assert_near(i.mean, 2, 0);
    assert_near(i.spread, 1, 1e-15);
    assert_near(i.low, -0.484338, 1e-6);
    assert_near(i.high, 4.484338, 1e-6);
    assert_true(isnan(kas_interval_of(three, 0).mean));
    double thirty[KAS_REPEATS_MOST]; /* 15 zeros, 15 ones: 2.045 * sqrt(7.5 / 29) / sqrt(30) */
    for (int k = 0; k < KAS_REPEATS_MOST; k++)
        thirty[k] = k % 2;
    i = kas_interval_of(thirty, KAS_REPEATS_MOST);
    assert_near(i.high - i.mean, 0.189873, 1e-6);
}

RUN_TESTS()

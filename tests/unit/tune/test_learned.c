/* What timings teach about the machine model (tune/learned.h). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "host/tune/learned.h"

static kas_operation operation(double loads, double turns)
{
    return (kas_operation){
        .grid = {64, 1, 1}, .width = 4, .effort = {.lanes = 64, .loads = loads, .turns = turns}};
}

static void assert_near(double found, double expected, double tolerance)
{
    const double error = fabs(found - expected);
    print_message("factor %.4f, expected %.4f, tolerance %g\n", found, expected, tolerance);
    assert_true(error <= tolerance);
}

static void test_nothing(void **state)
{
    (void)state;
    const kas_learned none = {0};
    const kas_operation op = operation(10, 10);
    assert_near(kas_learned_factor(&none, &op), 1, 0);
}

/* Like schedules get most of the error, others nothing; several timings of like ones count more than
 * one. */
static void test_like(void **state)
{
    (void)state;
    kas_learned learned = {0};
    const kas_operation op = operation(100, 100), like = operation(110, 100),
                        other = operation(1e6, 1);
    kas_learned_add(&learned, &op, 0.8, 0.4);
    const double once = kas_learned_factor(&learned, &op);
    assert_near(once, exp(log(2) / 1.3), 1e-12); /* weight 1 against the constant one of 0.3 */
    assert_near(kas_learned_factor(&learned, &like), once, 0.01);
    assert_near(kas_learned_factor(&learned, &other), 1, 1e-6);
    kas_learned_add(&learned, &op, 0.8, 0.4);
    assert_near(kas_learned_factor(&learned, &op), exp(2 * log(2) / 2.3), 1e-12);
}

static void test_bad_timings(void **state)
{
    (void)state;
    kas_learned learned = {0};
    const kas_operation op = operation(100, 100);
    kas_learned_add(&learned, &op, 0, 0.4);
    kas_learned_add(&learned, &op, 0.4, NAN);
    assert_near(kas_learned_factor(&learned, &op), 1, 0);
    for (int i = 0; i < 2 * KAS_LEARNED_MOST; i++)
        kas_learned_add(&learned, &op, 0.5, 1);
    assert_true(learned.timings == KAS_LEARNED_MOST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nothing), cmocka_unit_test(test_like),
                                       cmocka_unit_test(test_bad_timings)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

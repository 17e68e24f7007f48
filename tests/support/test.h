/* What every test begins with: cmocka, and a way to write a test down once:
 *
 *     TEST(sums_are_exact)
 *     {
 *         assert_int_equal(1 + 1, 2);
 *     }
 *
 *     RUN_TESTS()
 */
#ifndef KAS_SUPPORT_TEST_H
#define KAS_SUPPORT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "host/core/status.h"

/* Ends a test with the statement and its message unless it gives KAS_OK. */
#define OK(expression)                                                                             \
    do {                                                                                           \
        if ((expression) != KAS_OK)                                                                \
            fail_msg("%s: %s", #expression, kas_error());                                          \
    } while (0)

/* The tests of a program, in the order in which they stand in its file; cmocka skips what is empty. */
enum { MAX_TESTS = 64 };
static struct CMUnitTest tests[MAX_TESTS];

static inline void add_test(const char *name, CMUnitTestFunction run, CMFixtureFunction begin,
                            CMFixtureFunction end)
{
    static int count;
    if (count == MAX_TESTS) {
        fprintf(stderr, "%s: more than %d tests\n", name, MAX_TESTS);
        abort();
    }
    tests[count++] = (struct CMUnitTest){name, run, begin, end, NULL};
}

/* Begins the definition of a test that `add` adds. A constructor does it, and not a section of the
 * linker, which AddressSanitizer would pad. */
#define DEFINE_TEST(name, add)                                                                     \
    static void name(void **state);                                                                \
    __attribute__((constructor)) static void add_##name(void)                                      \
    {                                                                                              \
        add;                                                                                       \
    }                                                                                              \
    static void name(__attribute__((unused)) void **state)
/* The test runs after begin and before end; either may be NULL. */
#define TEST_WITH(name, begin, end) DEFINE_TEST(name, add_test(#name, name, begin, end))
#define TEST(name) TEST_WITH(name, NULL, NULL)

/* Runs all tests, after begin and before end, and returns how many failed. */
static inline int run_all_tests(CMFixtureFunction begin, CMFixtureFunction end)
{
    return cmocka_run_group_tests(tests, begin, end);
}
/* The main of a program that does only this: RUN_TESTS(), RUN_TESTS(begin) or RUN_TESTS(begin, end). */
#define RUN_TESTS(...)                                                                             \
    int main(void)                                                                                 \
    {                                                                                              \
        const CMFixtureFunction fixture[2] = {__VA_ARGS__};                                        \
        return run_all_tests(fixture[0], fixture[1]);                                              \
    }

#endif

/* Several suites of `kas-gpu bench` in one run: how long it is said to take, and what one that
 * cannot run does to the others. */
#include "support/test.h"

#include <string.h>

#include "host/bench/bench.h"
#include "host/core/log.h"

static int ran;

static kas_status runs(const kas_bench_options *o, const kas_bench_sink *sink)
{
    (void)o;
    (void)sink;
    ran++;
    return KAS_OK;
}

static kas_status is_not_for_here(const kas_bench_options *o, const kas_bench_sink *sink)
{
    (void)runs(o, sink);
    return kas_fail(KAS_UNSUPPORTED, "no such library");
}

static kas_status fails(const kas_bench_options *o, const kas_bench_sink *sink)
{
    (void)runs(o, sink);
    return kas_fail(KAS_BAD_INPUT, "a kernel is wrong");
}

TEST(one_suite_does_not_end_the_others)
{
    const kas_bench_options o = {0};
    const kas_bench_suite good = {"good", "", runs, NULL}, bad = {"bad", "", fails, NULL},
                          absent = {"absent", "", is_not_for_here, NULL};
    const kas_bench_suite *const some[] = {&absent, &good}, *const all[] = {&bad, &absent, &good};
    ran = 0;
    assert_int_equal(kas_bench_run_all(some, 2, &o, NULL), KAS_OK);
    assert_int_equal(ran, 2);
    assert_int_equal(kas_bench_run_all(all, 3, &o, NULL), KAS_BAD_INPUT);
    assert_int_equal(ran, 5);
    assert_string_equal(kas_error(), "suite bad: a kernel is wrong");
}

/* Every suite has an estimate, and it follows from what is asked for. */
TEST(estimates_follow_the_options)
{
    for (const kas_bench_suite *const *s = kas_bench_suites(); *s; s++) {
        const bool by_time = strcmp((*s)->name, "sampler") == 0;
        const kas_bench_options usual = {0}, little = {.repeats = 1, .seconds = 0.1},
                                much = {.repeats = 100, .seconds = 60};
        const double a = (*s)->seconds(&little), b = (*s)->seconds(&usual),
                     c = (*s)->seconds(&much);
        print_message("%s: %.0f s, %.0f s, %.0f s\n", (*s)->name, a, b, c);
        assert_true(a > 0 && a < b && b < c && b < 3600);
        assert_true(!by_time || c > 100 * a);
    }
}

int main(void)
{
    kas_log_set_level(KAS_LOG_QUIET);
    return run_all_tests(NULL, NULL);
}

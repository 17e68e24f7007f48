/* What `kas-gpu bench step` says of the CUDA device alone, on the stand-in. Its times are no GPU's:
 * what is checked is that they are there and fit each other. */
#include "support/test.h"

#include "bench_fixture.h"
#include "cuda_sim/load_sim.h"
#include "host/core/log.h"

static int set_up(void **state)
{
    (void)state;
    sim.reset();
    kas_log_set_level(KAS_LOG_QUIET);
    return 0;
}

/* The host enqueues a step as one graph and is done before the device is. */
TEST_WITH(the_hosts_time_is_told, set_up, NULL)
{
    const kas_bench_options o = small_step("cuda");
    lines l;
    run_json("step", &o, &l);
    assert_int_equal(l.count, 2);
    assert_true(sim.graphs() > 0);
    for (int i = 0; i < l.count; i++) {
        check_spread(l.line[i], "seconds");
        if (!(positive(l.line[i], "host_seconds") < positive(l.line[i], "seconds")))
            fail_msg("%s: the host took %g of %g seconds", text(l.line[i], "phase"),
                     number(l.line[i], "host_seconds"), number(l.line[i], "seconds"));
    }
    free_lines(&l);
    assert_int_equal(sim.live(), 0);
}

/* A launch at a time in place of the graph, and every pass that is a launch has one. */
TEST_WITH(passes_have_times, set_up, NULL)
{
    kas_bench_options o = small_step("cuda");
    lines l;
    o.times = true;
    o.repeats = 1;
    run_json("step", &o, &l);
    int passes = 0;
    for (int i = 0; i < l.count; i++)
        if (strcmp(text(l.line[i], "suite"), "passes") == 0 &&
            strncmp(text(l.line[i], "pass"), "bias", 4) != 0) { /* the library takes it along */
            positive(l.line[i], "seconds");
            passes++;
        }
    assert_true(passes > 100);
    free_lines(&l);
    assert_int_equal(sim.live(), 0);
}

RUN_TESTS(load_sim)

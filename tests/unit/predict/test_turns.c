/* Latencies measured in turns: which turns count; the unmodified network beside itself, and beside a kernel that the
 * library computes (nothing is compiled for it). */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>

#include "host/net/targets.h"
#include "host/predict/turns.h"
#include "host/space/file/assignment.h"

enum { BATCH = 2, TURNS = 5 };
static const double most = 2; /* seconds */

static kas_device *device;
static kas_net *net;
static kas_turns *turns;

static int begin(void **state)
{
    (void)state;
    const char *spec = getenv("DEVICE");
    OK(kas_device_open(spec ? spec : "cpu", 1, &device));
    OK(kas_net_build("resnet20", 8, 8, 3, 10, &net));
    OK(kas_turns_create(device, net, BATCH, KAS_PRECISION_FP32, NULL, &turns));
    return 0;
}

static int end(void **state)
{
    (void)state;
    kas_turns_free(turns);
    kas_net_free(net);
    kas_device_close(device);
    return 0;
}

/* ---- the rule: made-up turns ----------------------------------------------------------------- */

static void judge(const double *witness, const double *ours, int count, kas_turns_result *r)
{
    *r = (kas_turns_result){0};
    OK(kas_turns_judge(witness, ours, count, 10, r));
}

/* Another program slows the witness, and sometimes what stands beside it: only the other turns
 * count, whatever they say. */
TEST(disturbed_turns_do_not_count)
{
    const double witness[] = {10, 10.1, 25, 10, 10.2, 10.4, 10.6}, ours[] = {5, 5, 40, 5.1, 5.2, 5};
    kas_turns_result r;
    judge(witness, ours, 6, &r); /* turns 1 and 2 stand beside 25, turn 5 beside 10.6 */
    assert_false(r.disturbed);
    assert_int_equal(r.turns, 3);
    assert_true(r.seconds == 5.1 && r.unmodified == 10.2);
    assert_true(r.ratio >= 5 / 10.1 && r.ratio <= 5.2 / 10.2);
}

/* A network whose own times are wild counts as long as the witness is quiet. */
TEST(only_the_witness_decides)
{
    const double witness[] = {10, 10, 10, 10}, ours[] = {1, 1000, 7};
    kas_turns_result r;
    judge(witness, ours, 3, &r);
    assert_false(r.disturbed);
    assert_int_equal(r.turns, 3);
    assert_true(r.seconds == 7 && r.ratio == 0.7);
}

/* Where too few are quiet all count, and the result says so; its unmodified time shows it too. */
TEST(too_few_are_quiet)
{
    const double witness[] = {10, 10, 10, 12, 14, 13}, ours[] = {5, 5, 6, 7, 6};
    kas_turns_result r;
    judge(witness, ours, 5, &r);
    assert_true(r.disturbed);
    assert_int_equal(r.turns, 5);
    assert_true(r.seconds == 6 && !kas_turns_is_quiet(r.unmodified, 10));
}

/* ---- on a device ------------------------------------------------------------------------------ */

/* The times agree with one another; how long they are depends on what else the machine does. */
static void check(const kas_turns_result *r)
{
    int timed = 0;
    double sum = 0;
    assert_true(r->turns >= KAS_LEAST_TURNS && (r->disturbed || r->turns <= TURNS));
    assert_true(r->seconds > 0 && r->unmodified > 0 && r->ratio > 0);
    assert_true(isfinite(r->ratio_high));
    assert_true(r->ratio_low <= r->ratio && r->ratio <= r->ratio_high);
    for (int i = 0; i < r->planned.passes; i++)
        if (!isnan(r->planned.pass[i].seconds)) {
            assert_true(r->planned.pass[i].seconds >= 0);
            sum += r->planned.pass[i].seconds;
            timed++;
        }
    assert_true(timed >= 20 && sum > 0);
}

TEST(unmodified)
{
    kas_turns_result r;
    OK(kas_turns_measure(turns, NULL, TURNS, most, &r));
    check(&r);
    for (int i = 0; i < r.planned.passes; i++)
        assert_null(r.planned.pass[i].kernel);
    kas_planned_bytes_free(&r.planned);
    OK(kas_turns_measure(turns, NULL, TURNS, 0, &r)); /* no time: the least number of turns */
    assert_int_equal(r.turns, 3);
    kas_planned_bytes_free(&r.planned);
}

TEST(replaced)
{
    const kas_model_options options = {.batch = BATCH};
    const kas_budget budget = {0};
    kas_target *target;
    kas_assignment kernels;
    kas_replacement replacement;
    kas_programs programs;
    kas_turns_result r;
    int targets, launched = 0;
    OK(kas_net_targets(net, NULL, &target, &targets));
    OK(kas_assignment_read_file("kernels/conv.json", &kernels));
    OK(kas_assignment_fit(&kernels, target, targets, &budget, &replacement));
    OK(kas_model_build_programs(&options, &replacement, kas_device_get_info(device)->arch,
                                &programs));
    OK(kas_turns_measure(turns, &programs, TURNS, most, &r));
    check(&r);
    for (int i = 0; i < r.planned.passes; i++)
        launched += r.planned.pass[i].kernel != NULL && r.planned.pass[i].seconds > 0;
    assert_true(launched >= targets);
    kas_planned_bytes_free(&r.planned);
    OK(kas_turns_prepare(turns, &programs)); /* the same where it is ready before */
    OK(kas_turns_prepare(turns, &programs));
    OK(kas_turns_measure(turns, &programs, TURNS, 0, &r));
    assert_int_equal(r.turns, KAS_LEAST_TURNS);
    assert_true(r.planned.passes > 0);
    kas_planned_bytes_free(&r.planned);
    kas_programs_free(&programs);
    kas_replacement_free(&replacement);
    kas_assignment_free(&kernels);
    free(target);
}

RUN_TESTS(begin, end)

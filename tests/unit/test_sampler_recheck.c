/* What the samplers draw, before the checker that was written a second time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "host/net/targets.h"
#include "host/reference/recheck.h"
#include "host/space/sampler.h"
#include "host/space/uses.h"

static const kas_budget half = {.max_flops_ratio = 0.5, .max_params_ratio = 1};

static void assert_recheck(kas_sample_options o, int count)
{
    kas_net *net;
    kas_target *t;
    int n;
    kas_sampler *sampler;
    kas_recheck *recheck;
    kas_recheck_report report;
    assert_int_equal(kas_net_build("resnet18", 32, 32, 3, 10, &net), KAS_OK);
    assert_int_equal(kas_net_targets(net, NULL, &t, &n), KAS_OK);
    assert_int_equal(kas_sampler_create(&o, t, n, &sampler), KAS_OK);
    assert_int_equal(kas_recheck_create(t, n, &o, &recheck), KAS_OK);
    for (int k = 0; k < count; k++) {
        kas_sample s;
        assert_int_equal(kas_sampler_next(sampler, 0, &s), KAS_OK);
        assert_int_equal(kas_recheck_add(recheck, s.name, &s.kernel, &s.solution), KAS_OK);
        kas_sample_free(&s);
    }
    assert_int_equal(kas_recheck_run(recheck, &report), KAS_OK);
    assert_int_equal(report.kernels, count);
    if (kas_recheck_findings(&report))
        fail_msg("%d findings; the first: %s", (int)kas_recheck_findings(&report), report.first);
    kas_recheck_free(recheck);
    kas_sampler_free(sampler);
    free(t);
    kas_net_free(net);
}

/* Products made sizes with H or W in them: the only value with which such a result is [C, H, W]. */
static void test_sizes_fit_any_image(void **state)
{
    (void)state;
    kas_sample_options o = kas_sample_defaults();
    o.budget = half;
    o.seed = 4;
    o.required = KAS_OP_BIT(KAS_OP_BMM);
    assert_recheck(o, 3000);
}

/* Of three primitives the rejection sampler draws blends of the same two again and again. */
static void test_rejection_draws_nothing_twice(void **state)
{
    (void)state;
    kas_sample_options o = kas_sample_defaults();
    o.sampler = KAS_SAMPLER_REJECTION;
    o.min_primitives = o.max_primitives = 3;
    assert_recheck(o, 2000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sizes_fit_any_image),
                                       cmocka_unit_test(test_rejection_draws_nothing_twice)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

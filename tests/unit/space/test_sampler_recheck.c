/* What the samplers draw, before the checker that was written a second time, and what they need not
 * try. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "host/check/recheck.h"
#include "host/net/targets.h"
#include "host/space/canvas/candidate_ops.h"
#include "host/space/sample/sampler.h"

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
        assert_int_equal(
            kas_recheck_add(recheck, s.name, s.replacement.kernel, &s.replacement.solution),
            KAS_OK);
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
TEST(test_sizes_fit_any_image)
{
    kas_sample_options o = kas_sample_defaults();
    o.budget = half;
    o.seed = 4;
    o.required = KAS_OP_BIT(KAS_OP_BMM);
    assert_recheck(o, 3000);
}

/* What a bound shows is said without a single try: the pool of a strided layer costs too much, or
 * one parameter does. */
TEST(test_no_kernel_can_fit)
{
    kas_target t = kas_target_plain(16, 8, 8, 3); /* its pool: 16 * 16 * 16 of 147,456 FLOPs */
    kas_sampler *sampler;
    kas_sample s;
    t.stride = 2;
    for (int params = 0; params < 2; params++) {
        kas_sample_options o = kas_sample_defaults();
        o.budget.max_flops_ratio = params ? 0 : 0.02;
        o.budget.max_params_ratio = params ? 4e-4 : 0;
        assert_int_equal(kas_sampler_create(&o, &t, 1, &sampler), KAS_OK);
        assert_int_equal(kas_sampler_next(sampler, 0, &s), KAS_NOTHING_VALID);
        assert_non_null(
            strstr(kas_error(), params ? "so few parameters: every kernel needs at least 0.00043"
                                       : "so few FLOPs: every kernel needs at least 0.028"));
        assert_int_equal(kas_sampler_stats(sampler).tries, 0);
        kas_sampler_free(sampler);
    }
}

RUN_TESTS()

/* NAS-PTE's space with a sequence for each layer: legal, once each, within one budget, the same for
 * everybody, and distributed as docs/sampling.md says. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "host/check/recheck.h"
#include "host/net/targets.h"
#include "host/space/nas_pte/nas_pte_layers.h"
#include "host/space/sample/sampler.h"

enum { SAMPLES = 60 };

typedef struct fixture {
    kas_net *net;
    kas_target *target;
    int count;
    kas_sample_options options;
    kas_sampler *sampler;
} fixture;

static fixture open_at(int side, double flops)
{
    fixture f = {.options = kas_sample_defaults()};
    f.options.space = KAS_SPACE_NAS_PTE;
    f.options.seed = 3;
    f.options.budget = (kas_budget){.max_flops_ratio = flops, .max_params_ratio = 2 * flops};
    assert_int_equal(kas_net_build("resnet20", side, side, 3, 10, &f.net), KAS_OK);
    assert_int_equal(kas_net_targets(f.net, NULL, &f.target, &f.count), KAS_OK);
    assert_int_equal(kas_sampler_create(&f.options, f.target, f.count, &f.sampler), KAS_OK);
    return f;
}

static void close_it(fixture *f)
{
    kas_sampler_free(f->sampler);
    free(f->target);
    kas_net_free(f->net);
}

/* Rows that no band divides: steps without whole sizes are drawn again at that layer only. */
TEST(samples_pass_the_plain_checker)
{
    static const int sides[] = {32, 28};
    for (int i = 0; i < 2; i++) {
        fixture f = open_at(sides[i], 0.5);
        kas_recheck *recheck;
        kas_recheck_report report;
        assert_int_equal(kas_recheck_create(f.target, f.count, &f.options, &recheck), KAS_OK);
        for (int n = 0; n < SAMPLES; n++) {
            kas_sample s;
            assert_int_equal(kas_sampler_next(f.sampler, 0, &s), KAS_OK);
            assert_true(s.replacement.solution.flops <= 0.5 * s.replacement.solution.conv_flops);
            assert_int_equal(kas_recheck_layers(recheck, s.name, &s.replacement), KAS_OK);
            kas_sample_free(&s);
        }
        assert_int_equal(kas_recheck_run(recheck, &report), KAS_OK);
        if (kas_recheck_findings(&report))
            fail_msg("%s", report.first);
        assert_int_equal(report.kernels, SAMPLES);
        const kas_sample_stats stats = kas_sampler_stats(f.sampler);
        print_message("%llu of %llu attempts accepted\n", (unsigned long long)stats.accepted,
                      (unsigned long long)stats.tries);
        assert_int_equal(stats.rejected[KAS_REJECT_VARIABLES], 0); /* seen while drawing */
        assert_true(stats.accepted * 4 > stats.tries);
        kas_recheck_free(recheck);
        close_it(&f);
    }
}

/* A finding of each kind is found. */
TEST(the_recheck_finds)
{
    fixture f = open_at(32, 0.5);
    kas_sample s;
    kas_recheck *recheck;
    kas_recheck_report report;
    assert_int_equal(kas_sampler_next(f.sampler, 0, &s), KAS_OK);
    for (int what = 0; what < 3; what++) {
        kas_sample_options options = f.options;
        kas_replacement r = s.replacement; /* not freed */
        if (what == 0)
            options.budget.max_flops_ratio = 0.01;
        r.solution.flops *= what == 1 ? 1.001 : 1;
        assert_int_equal(kas_recheck_create(f.target, f.count, &options, &recheck), KAS_OK);
        for (int twice = 0; twice < 1 + (what == 2); twice++)
            assert_int_equal(kas_recheck_layers(recheck, s.name, &r), KAS_OK);
        assert_int_equal(kas_recheck_run(recheck, &report), KAS_OK);
        assert_int_equal(report.over_budget, what == 0);
        assert_int_equal(report.illegal, what == 1);
        assert_int_equal(report.same_name, what == 2);
        assert_int_equal(report.same_kernel, what == 2);
        assert_true(report.first[0] != 0);
        kas_recheck_free(recheck);
    }
    kas_sample_free(&s);
    close_it(&f);
}

/* Sample k is that of whoever draws it; what is written is read as the same. */
TEST(samples_are_the_same_for_everybody)
{
    fixture f = open_at(32, 0.6), g = open_at(32, 0.6);
    for (int n = 0; n < 5; n++) {
        kas_sample a, b;
        kas_buf text = {0};
        kas_assignment read;
        char name[KAS_NAME_SIZE];
        assert_int_equal(kas_sampler_next(f.sampler, 0, &a), KAS_OK);
        assert_int_equal(kas_sampler_next(g.sampler, 0, &b), KAS_OK);
        assert_string_equal(a.name, b.name);
        assert_int_equal(kas_sample_write_json(&a, &text), KAS_OK);
        OK(kas_assignment_read_json("text", kas_buf_text(&text), text.size, &read));
        assert_int_equal(kas_assignment_name(&read, name), KAS_OK);
        assert_string_equal(a.name, name);
        kas_assignment_free(&read);
        kas_buf_free(&text);
        kas_sample_free(&a);
        kas_sample_free(&b);
    }
    close_it(&f);
    close_it(&g);
}

/* Without a budget nothing is conditioned on: every layer keeps its convolution one time in seven,
 * whatever the others do. */
TEST(one_layer_in_seven_is_kept)
{
    fixture f = open_at(32, 0);
    kas_pte_layers *layers;
    int kept = 0, all = 0;
    assert_int_equal(kas_pte_layers_create(f.target, f.count, &f.options.budget, &layers), KAS_OK);
    for (uint64_t n = 0; n < 100; n++) {
        kas_replacement r;
        char name[KAS_NAME_SIZE];
        kas_reject why;
        assert_int_equal(kas_pte_layers_attempt(layers, 9, n, name, &r, &why), KAS_OK);
        assert_int_equal(why, KAS_REJECT_NONE);
        for (int t = 0; t < f.count; t++, all++)
            kept += r.kernel_of[t] == KAS_KEPT;
        kas_replacement_free(&r);
    }
    print_message("%d of %d layers kept\n", kept, all);
    assert_in_range(kept, 257 - 60, 257 + 60); /* of 1800; deviation 15 */
    kas_pte_layers_free(layers);
    close_it(&f);
}

TEST(one_sequence_for_all_stays_possible)
{
    fixture f = open_at(32, 0.5);
    kas_sampler *sampler;
    kas_sample s;
    f.options.per_layer = KAS_PER_LAYER_NO;
    assert_int_equal(kas_sampler_create(&f.options, f.target, f.count, &sampler), KAS_OK);
    for (int n = 0; n < 30; n++) {
        assert_int_equal(kas_sampler_next(sampler, 0, &s), KAS_OK);
        assert_null(s.replacement.kernel_of);
        assert_true(s.replacement.kernel->nodes > 2);
        kas_sample_free(&s);
    }
    const kas_sample_stats stats = kas_sampler_stats(sampler);
    assert_int_equal(stats.rejected[KAS_REJECT_VARIABLES], 0);
    assert_true(stats.accepted * 5 > stats.tries);
    f.options.space = KAS_SPACE_CANVAS;
    f.options.per_layer = KAS_PER_LAYER_YES;
    assert_int_equal(kas_sample_options_check(&f.options), KAS_USAGE);
    kas_sampler_free(sampler);
    close_it(&f);
}

RUN_TESTS()

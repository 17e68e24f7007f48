/* Replacement in every network that comes with kas-gpu: shapes of the targets, shares of the FLOPs,
 * and sampled kernels that fit them all. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/check/recheck.h"
#include "host/core/embedded.h"
#include "host/net/targets.h"
#include "host/space/file/kernel_json.h"
#include "host/space/sample/sampler.h"
#include "jit/programs.h"

typedef struct subject {
    kas_net *net;
    kas_target *target;
    int targets;
} subject;

static subject open_subject(const char *name, int h, int w, int classes)
{
    subject s = {0};
    OK(kas_net_build(name, h, w, 3, classes, &s.net));
    OK(kas_net_targets(s.net, NULL, &s.target, &s.targets));
    return s;
}

static void close_subject(subject *s)
{
    kas_net_free(s->net);
    free(s->target);
}

/* A kernel stands between the same tensors as the convolution: its channels, in instances that
 * cover them all; its image after the pool that takes the stride, in ceil mode. */
TEST(instances_cover_the_convolution)
{
    static const int sizes[][2] = {{32, 32}, {64, 33}, {97, 131}, {224, 224}};
    for (const kas_embedded *e = kas_embedded_networks; e->name; e++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            subject s = open_subject(e->name, sizes[i][0], sizes[i][1], 10);
            assert_in_range(s.targets, 1, KAS_TARGETS_MAX);
            for (int k = 0; k < s.targets; k++) {
                const kas_target *t = &s.target[k];
                const kas_layer *l = &s.net->layer[t->layer], *in = &s.net->layer[l->in[0]];
                uint32_t h = (uint32_t)in->h, w = (uint32_t)in->w;
                assert_int_equal(t->c * t->parts_in, in->c);
                assert_int_equal(t->c * t->parts_out, l->c);
                assert_true(t->h == (uint32_t)l->h && t->w == (uint32_t)l->w);
                assert_int_equal(t->h, (h + t->stride - 1) / t->stride);
                assert_int_equal(t->w, (w + t->stride - 1) / t->stride);
            }
            close_subject(&s);
        }
}

/* Canvas could replace 60% of DenseNet-161's FLOPs, "1x1" counted: the convolutions in which one
 * number of channels divides the other.  With instances of the greatest common divisor the rest is
 * replaced as well. */
TEST(most_of_densenet)
{
    subject s = open_subject("densenet161", 224, 224, 1000);
    double divided = 0, all = 0, total = kas_net_flops(s.net);
    uint32_t narrowest = UINT32_MAX;
    for (int k = 0; k < s.targets; k++) {
        const kas_target *t = &s.target[k];
        double flops = kas_target_conv_flops(t);
        all += flops;
        divided += t->parts_in == 1 || t->parts_out == 1 ? flops : 0;
        narrowest = t->c < narrowest ? t->c : narrowest;
    }
    print_message("densenet161: %.1f%% of the FLOPs where one number of channels divides the other "
                  "(the paper: 60%%), %.1f%% replaced, instances of at least %u channels\n",
                  100 * divided / total, 100 * all / total, narrowest);
    assert_true(divided / total > 0.59 && divided / total < 0.63);
    assert_true(all / total > 0.96);
    assert_true(kas_targets_flops_share(s.net, s.target, s.targets) == all / total);
    assert_int_equal(narrowest, 48); /* the growth rate divides everything */
    close_subject(&s);
}

/* 20 kernels for all targets of a network; the separate checker looks at each. */
static void sample(const char *name, int side)
{
    enum { KERNELS = 20 };
    subject s = open_subject(name, side, side, 100);
    kas_sample_options options = kas_sample_defaults();
    kas_sampler *sampler = NULL;
    kas_recheck *recheck = NULL;
    kas_recheck_report report;
    options.budget = (kas_budget){.max_flops_ratio = 0.5, .max_params_ratio = 1};
    assert_int_equal(kas_sampler_create(&options, s.target, s.targets, &sampler), KAS_OK);
    assert_int_equal(kas_recheck_create(s.target, s.targets, &options, &recheck), KAS_OK);
    for (int k = 0; k < KERNELS; k++) {
        kas_sample found;
        if (kas_sampler_next(sampler, 0, &found) != KAS_OK ||
            kas_recheck_add(recheck, found.name, found.replacement.kernel,
                            &found.replacement.solution) != KAS_OK)
            fail_msg("%s: %s", name, kas_error());
        kas_sample_free(&found);
    }
    assert_int_equal(kas_recheck_run(recheck, &report), KAS_OK);
    print_message("%s at %d: %d targets, %llu kernels, %llu findings %s\n", name, side, s.targets,
                  (unsigned long long)report.kernels,
                  (unsigned long long)kas_recheck_findings(&report), report.first);
    assert_int_equal(report.kernels, KERNELS);
    assert_int_equal(kas_recheck_findings(&report), 0);
    kas_recheck_free(recheck);
    kas_sampler_free(sampler);
    close_subject(&s);
}

TEST(sampled_kernels_fit_every_network)
{
    for (const kas_embedded *e = kas_embedded_networks; e->name; e++) {
        sample(e->name, 32);
        sample(e->name, 97); /* odd sizes all the way down */
        sample(e->name, 224);
    }
}

/* The limits of size leave room for what a target has anyway: the convolution itself, and kernels
 * no larger, however many instances a target of a large image is made of. */
TEST(known_kernels_fit_every_network)
{
    static const char *const known[] = {"conv", "depthwise_separable", "involution",
                                        "squeeze_excite"};
    const kas_budget none = {0};
    for (const kas_embedded *e = kas_embedded_networks; e->name; e++) {
        subject s = open_subject(e->name, 224, 224, 1000);
        for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
            char path[64];
            kas_kernel kernel;
            kas_solution solution;
            snprintf(path, sizeof path, "kernels/%s.json", known[i]);
            if (kas_kernel_read_file(path, &kernel) != KAS_OK ||
                kas_solve(&kernel, s.target, s.targets, &none, &solution) != KAS_OK)
                fail_msg("%s, %s: %s", e->name, known[i], kas_error());
            kas_solution_free(&solution);
        }
        close_subject(&s);
    }
}

RUN_TESTS()

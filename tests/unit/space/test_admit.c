/* Kernels that nobody drew, before the rules of samples: every sample passes and keeps its name and
 * sizes, and of the known kernels those pass that the sampler can make. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/space/evolve/evolve.h"
#include "host/space/file/kernel_json.h"
#include "host/space/sample/sampler.h"
#include "resnet18.h"
#include "support/accept.h"

enum { SAMPLES = 4000 };

/* Reads the kernel back from a file, as a program would have written it. */
static void write_and_read(const kas_sample *sample, kas_kernel *out)
{
    kas_buf text = {0};
    OK(kas_sample_write_json(sample, &text));
    OK(kas_kernel_read_json("a sample", kas_buf_text(&text), text.size, out));
    OK(kas_kernel_infer(out));
    kas_buf_free(&text);
}

TEST(samples_pass_as_they_are)
{
    kas_sample_options o = kas_sample_defaults();
    kas_sampler *sampler;
    kas_children *children;
    o.budget = (kas_budget){.max_flops_ratio = 0.5, .max_params_ratio = 1};
    o.seed = 7;
    OK(kas_sampler_create(&o, target, targets, &sampler));
    OK(kas_children_create(&o, target, targets, &children));
    for (int i = 0; i < SAMPLES; i++) {
        kas_sample s;
        kas_kernel kernel;
        kas_replacement r;
        kas_reject why;
        char name[KAS_NAME_SIZE];
        OK(kas_sampler_next(sampler, 0, &s));
        write_and_read(&s, &kernel);
        OK(kas_children_admit(children, &kernel, &r, &why));
        if (why != KAS_REJECT_NONE)
            fail_msg("sample %s: %s", s.name, kas_reject_name(why));
        OK(kas_canonical_name(r.kernel, name));
        assert_string_equal(name, s.name);
        assert_true(r.solution.flops == s.replacement.solution.flops &&
                    r.solution.params == s.replacement.solution.params);
        kas_replacement_free(&r);
        kas_sample_free(&s);
    }
    kas_children_free(children);
    kas_sampler_free(sampler);
}

static const char *const known[] = {
    "bottleneck",      "canvas_figure6", "canvas_figure8", "canvas_kernel_a",
    "canvas_kernel_b", "conv",           "depthwise",      "depthwise_separable",
    "group_conv",      "involution",     "nas_pte_1",      "nas_pte_2",
    "nas_pte_3",       "residual",       "shift_conv",     "spatial_separable",
    "squeeze_excite"};

/* The replay of tests/support/accept.h tries every order of nodes; admitting must find one. As for
 * children, more leaves may be joined by one concat than a growing kernel counts on. */
TEST(known_kernels_pass_where_they_can_be_sampled)
{
    kas_sample_options o = kas_sample_defaults();
    kas_children *children;
    int passed = 0;
    OK(kas_children_create(&o, target, targets, &children));
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        kas_kernel kernel;
        kas_replacement r;
        kas_reject why;
        kas_buf reason = {0};
        char path[96];
        snprintf(path, sizeof path, "kernels/%s.json", known[i]);
        OK(kas_kernel_read_file(path, &kernel));
        OK(kas_kernel_infer(&kernel));
        const kas_status can = kas_sampler_accepts(&kernel, target, targets, &o, &reason);
        OK(kas_children_admit(children, &kernel, &r, &why));
        if (why != KAS_REJECT_NONE && can == KAS_OK)
            fail_msg("%s: %s; the replay: %s", known[i], kas_reject_name(why),
                     kas_buf_text(&reason));
        passed += why == KAS_REJECT_NONE;
        if (why != KAS_REJECT_NONE)
            printf("%s: %s; the replay: %s\n", known[i], kas_reject_name(why),
                   kas_buf_text(&reason));
        if (why == KAS_REJECT_NONE)
            kas_replacement_free(&r);
        kas_buf_free(&reason);
    }
    printf("%d of %zu known kernels pass\n", passed, sizeof known / sizeof *known);
    assert_true(passed >= 5);
    kas_children_free(children);
}

static void refused(const char *text, const kas_sample_options *o, kas_reject expected)
{
    kas_children *children;
    kas_kernel kernel;
    kas_replacement r;
    kas_reject why;
    OK(kas_kernel_read_json("test", text, strlen(text), &kernel));
    OK(kas_kernel_infer(&kernel));
    OK(kas_children_create(o, target, targets, &children));
    OK(kas_children_admit(children, &kernel, &r, &why));
    if (why == KAS_REJECT_NONE)
        kas_replacement_free(&r);
    kas_children_free(children);
    if (why != expected)
        fail_msg("%s: %s, expected %s", text, kas_reject_name(why), kas_reject_name(expected));
}

#define FILE_OF(nodes, groups)                                                                     \
    "{\"format\": \"kas-gpu kernel\", \"version\": 1, \"nodes\": [{\"op\": \"input\"}, " nodes     \
    "], \"groups\": {" groups "}}"
#define CONV                                                                                       \
    "{\"op\": \"unfold\", \"in\": [0], \"axes\": \"hw\"}, {\"op\": \"fc\", \"in\": [1], \"out\": " \
    "\"C\"}"
#define GROUPED                                                                                    \
    "{\"op\": \"group\", \"in\": [0], \"dim\": 0, \"by\": \"G0\"}, {\"op\": \"unfold\", \"in\": "  \
    "[1], \"axes\": \"hw\"}, {\"op\": \"fc\", \"in\": [2], \"grouped\": true, \"out\": \"C\"}"

#define TWO_GROUPS                                                                                 \
    "{\"op\": \"shuffle\", \"in\": [0], \"dim\": 0, \"by\": \"G1\"}, {\"op\": \"group\", \"in\": " \
    "[1], \"dim\": 0, \"by\": \"G0\"}, {\"op\": \"unfold\", \"in\": [2], \"axes\": \"hw\"}, "      \
    "{\"op\": \"fc\", \"in\": [3], \"grouped\": true, \"out\": \"C\"}"

TEST(rules_that_are_broken)
{
    kas_sample_options o = kas_sample_defaults();
    o.min_primitives = 2;
    refused(FILE_OF(CONV ", {\"op\": \"relu\", \"in\": [2]}, {\"op\": \"relu\", \"in\": [3]}", ""),
            &o, KAS_REJECT_REDUNDANT);
    refused(
        FILE_OF("{\"op\": \"fc\", \"in\": [0], \"out\": \"C\"}, {\"op\": \"relu\", \"in\": [1]}",
                ""),
        &o, KAS_REJECT_ONE_PIXEL);
    refused(FILE_OF(GROUPED, "\"G0\": 7"), &o, KAS_REJECT_VARIABLES); /* it does not divide 64 */
    refused(FILE_OF(CONV, ""), &o, KAS_REJECT_NONE);
    /* Two symbols of one value are one group number; of two values they are not. */
    refused(FILE_OF(TWO_GROUPS, "\"G0\": 4, \"G1\": 4"), &o, KAS_REJECT_NONE);
    refused(FILE_OF(TWO_GROUPS, "\"G0\": 4, \"G1\": 8"), &o, KAS_REJECT_VARIABLES);
    o.budget.max_flops_ratio = 0.5;
    refused(FILE_OF(CONV, ""), &o, KAS_REJECT_BUDGET);
    refused(FILE_OF(GROUPED, "\"G0\": 4"), &o, KAS_REJECT_NONE);
    o.max_primitives = 2;
    refused(FILE_OF(GROUPED, "\"G0\": 4"), &o, KAS_REJECT_DEAD_END);
}

RUN_TESTS(find_targets, free_targets)

/* Layers that keep their convolution: where a kernel has no sizes or is predicted to be slower, and
 * nowhere else; the decision is a file of layers that says so by itself. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/net/targets.h"
#include "host/predict/keep.h"

static const kas_budget no_budget;
static kas_net *net;
static kas_target *target;
static int targets;
static kas_machine machine;
static kas_predictor *predictor;

static int begin(void **state)
{
    (void)state;
    OK(kas_net_build("resnet18:small=1", 16, 16, 3, 10, &net));
    OK(kas_net_targets(net, NULL, &target, &targets));
    OK(kas_machine_find("cpu", "auto", 0, &machine));
    OK(kas_predictor_create(&machine, net, KAS_KEEP_BATCH, KAS_PRECISION_FP32, &predictor));
    return 0;
}

static int end(void **state)
{
    (void)state;
    kas_predictor_free(predictor);
    free(target);
    kas_net_free(net);
    return 0;
}

static kas_assignment read_kernel(const char *name)
{
    char path[64];
    kas_assignment a;
    snprintf(path, sizeof path, "kernels/%s.json", name);
    OK(kas_assignment_read_file(path, &a));
    return a;
}

/* Predicts the network with the kernel of a file at one layer alone, by a file of layers. */
static double alone(const char *name, int t)
{
    kas_assignment kernel = read_kernel(name);
    kas_replacement r;
    double seconds;
    int *kernel_of = calloc((size_t)targets, sizeof *kernel_of);
    assert_non_null(kernel_of);
    for (int u = 0; u < targets; u++)
        kernel_of[u] = u == t ? 0 : KAS_KEPT;
    OK(kas_replacement_solve(kernel.kernel, 1, kernel_of, target, targets, &no_budget, &r));
    OK(kas_predict_candidate(predictor, &r, &seconds));
    kas_replacement_free(&r);
    kas_assignment_free(&kernel);
    free(kernel_of);
    return seconds;
}

static int kernel_at(const kas_assignment *a, const char *layer)
{
    for (int i = 0; i < a->layers; i++)
        if (strcmp(a->layer[i], layer) == 0)
            return a->kernel_of[i];
    return a->layers ? KAS_KEPT : 0;
}

/* These kernels have no free sizes, so each layer can be judged by itself. */
TEST(slower_layers_are_kept)
{
    static const char *const names[] = {"nas_pte_3", "group_conv", "depthwise", "nas_pte_1"};
    int kept = 0, all = 0;
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        kas_assignment a = read_kernel(names[n]);
        OK(kas_keep_slower(predictor, target, targets, &no_budget, &a));
        for (int t = 0; t < targets; t++, all++) {
            const double ratio = alone(names[n], t) / kas_predictor_unmodified(predictor);
            const bool stays = kernel_at(&a, target[t].name) == KAS_KEPT;
            kept += stays;
            if (stays != (ratio > 1))
                fail_msg("%s at %s: %s, %g times the unmodified network", names[n], target[t].name,
                         stays ? "kept" : "replaced", ratio);
        }
        kas_assignment_free(&a);
    }
    print_message("%d of %d are kept\n", kept, all);
    assert_in_range(kept, 1, all - 1);
}

/* 64 outputs of all inputs leave nothing of 64 channels. */
static kas_assignment unrolled(void)
{
    static const char text[] =
        "{\"format\": \"kas-gpu kernel\", \"version\": 1, \"nodes\": [{\"op\": \"input\"},"
        "{\"op\": \"unfold\", \"in\": [0], \"axes\": \"hw\"},"
        "{\"op\": \"fc\", \"in\": [1], \"out\": \"64\"},"
        "{\"op\": \"slice\", \"in\": [0], \"dim\": 0, \"split\": \"S0\", \"segment\": 1},"
        "{\"op\": \"concat\", \"in\": [2, 3], \"dim\": 0, \"split\": \"S0\"}],"
        "\"groups\": {}, \"splits\": {\"S0\": {\"whole\": \"C\", \"first\": 64}}}";
    kas_assignment a;
    OK(kas_assignment_read_json("unrolled", text, strlen(text), &a));
    return a;
}

TEST(layers_that_it_does_not_fit_are_kept)
{
    kas_assignment a = unrolled();
    OK(kas_keep_where_none_fits(target, targets, &no_budget, &a));
    for (int t = 0; t < targets; t++)
        assert_int_equal(kernel_at(&a, target[t].name), target[t].c == 64 ? KAS_KEPT : 0);
    kas_assignment_free(&a);
    a = unrolled();
    assert_int_equal(target[0].c, 64);
    assert_int_equal(kas_keep_where_none_fits(target, 1, &no_budget, &a), KAS_ILLEGAL);
    assert_non_null(strstr(kas_error(), "no layer is replaced"));
    assert_int_equal(a.layers, 0);
    kas_assignment_free(&a);
}

/* Convolutions of the same sizes, of which one is in groups, are judged apart: the kernel is faster than
 * the one and slower than the other. */
TEST(groups_are_a_case_of_their_own)
{
    static const char text[] =
        "{\"format\": \"kas-gpu network\", \"version\": 1, \"name\": \"two\", \"layers\": ["
        "{\"conv\": \"stem\", \"channels\": 64, \"kernel\": 3},"
        "{\"conv\": \"dense\", \"channels\": 64, \"kernel\": 3},"
        "{\"conv\": \"grouped\", \"channels\": 64, \"kernel\": 3, \"groups\": 64},"
        "{\"global_avg_pool\": \"pool\"}, {\"linear\": \"fc\", \"channels\": \"classes\"}]}";
    kas_net *two;
    kas_target *of_two;
    kas_predictor *of_net;
    int count;
    OK(kas_net_build(text, 16, 16, 3, 10, &two));
    OK(kas_net_targets(two, "all", &of_two, &count));
    OK(kas_predictor_create(&machine, two, KAS_KEEP_BATCH, KAS_PRECISION_FP32, &of_net));
    kas_assignment a = read_kernel("group_conv");
    OK(kas_keep_slower(of_net, of_two, count, &no_budget, &a));
    assert_int_equal(kernel_at(&a, "dense"), 0);
    assert_int_equal(kernel_at(&a, "grouped"), KAS_KEPT);
    kas_assignment_free(&a);
    kas_predictor_free(of_net);
    free(of_two);
    kas_net_free(two);
}

/* The decision stands in the file: read again it is the same, and nothing more is taken away. */
TEST(a_decision_is_a_file_of_layers)
{
    kas_assignment a = read_kernel("nas_pte_3"), read;
    kas_buf text = {0};
    char name[3][KAS_NAME_SIZE];
    OK(kas_assignment_name(&a, name[0]));
    OK(kas_keep_slower(predictor, target, targets, &no_budget, &a));
    OK(kas_assignment_name(&a, name[1]));
    assert_string_not_equal(name[0], name[1]);
    OK(kas_assignment_write_json(&a, &text));
    OK(kas_assignment_read_json("text", kas_buf_text(&text), text.size, &read));
    OK(kas_keep_slower(predictor, target, targets, &no_budget, &read));
    OK(kas_assignment_name(&read, name[2]));
    assert_string_equal(name[1], name[2]);
    kas_buf_free(&text);
    kas_assignment_free(&read);
    kas_assignment_free(&a);
}

/* A kernel that no layer loses keeps its name; without the option nothing is asked. */
TEST(a_kernel_that_is_faster_everywhere_stays)
{
    kas_assignment a = read_kernel("conv");
    const kas_keep off = {0};
    OK(kas_keep_apply(&off, "conv", net, target, targets, &no_budget, &a));
    OK(kas_keep_where_none_fits(target, targets, &no_budget, &a));
    assert_int_equal(a.layers, 0);
    const kas_keep elsewhere = {.machine = "h101"};
    assert_int_equal(kas_keep_apply(&elsewhere, "conv", net, target, targets, &no_budget, &a),
                     KAS_BAD_INPUT);
    kas_assignment_free(&a);
}

RUN_TESTS(begin, end)

/* What a network is assembled from, BlockSwap's draws, a supernet's gradients, and the file of
 * measurements. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/assemble/blockswap.h"
#include "host/assemble/fbnet.h"
#include "host/assemble/measured.h"
#include "host/assemble/supernet.h"
#include "host/model/model.h"
#include "host/net/targets.h"

static const kas_budget no_budget;
static kas_net *net;
static kas_target *target;
static kas_choices choices;

/* nas_pte_2 leaves no channel where there are 16, at the first stage of ResNet-20. */
static int begin(void **state)
{
    static const char *const files[] = {"kernels/group_conv.json", "kernels/nas_pte_2.json",
                                        "kernels/depthwise.json", "kernels/group_conv.json"};
    (void)state;
    OK(kas_net_build("resnet20", 8, 8, 3, 4, &net));
    OK(kas_net_targets(net, NULL, &target, &choices.targets));
    choices.net = net;
    choices.target = target;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        kas_assignment a;
        OK(kas_assignment_read_file(files[i], &a));
        OK(kas_choices_add(&choices, files[i], &a));
        kas_assignment_free(&a);
    }
    return 0;
}

static int end(void **state)
{
    (void)state;
    kas_choices_free(&choices);
    free(target);
    kas_net_free(net);
    return 0;
}

/* ---- choices --------------------------------------------------------------------------------- */

TEST(kernels_stand_where_they_fit)
{
    int without = 0;
    assert_int_equal(choices.kernels, 3); /* the last file is the first */
    for (int t = 0; t < choices.targets; t++) {
        assert_true(kas_choices_has(&choices, t, 0) && kas_choices_has(&choices, t, 1));
        without += !kas_choices_has(&choices, t, 2);
        assert_int_equal(kas_choices_has(&choices, t, 2), target[t].c > 16);
    }
    assert_true(without > 0 && without < choices.targets);
}

/* The seconds of layers are those of the network, and adding them up predicts any mixture. */
TEST(costs_of_layers_add_up)
{
    kas_machine machine;
    kas_predictor *predictor;
    const int targets = choices.targets, options = kas_choices_options(&choices);
    double plain[64], with[3 * 64], sum = 0, largest = 0;
    kas_option option[4 * 64];
    assert_true(targets < 63);
    OK(kas_machine_find("cpu", "auto", 0, &machine));
    OK(kas_predictor_create(&machine, net, 32, KAS_PRECISION_FP32, &predictor));
    OK(kas_choices_predict(&choices, &machine, 32, KAS_CHOICES_PLAIN, plain));
    for (int t = 0; t <= targets; t++)
        sum += plain[t];
    assert_true(fabs(sum / kas_predictor_unmodified(predictor) - 1) <= 1e-9);
    for (int k = 0; k < 3; k++) {
        double one[64];
        OK(kas_choices_predict(&choices, &machine, 32, k, one));
        memcpy(with + k * targets, one, sizeof *one * (size_t)targets);
    }
    kas_choices_costs(&choices, plain, with, option);
    for (int shift = 0; shift < 4; shift++) {
        kas_replacement r;
        double seconds, expected = sum;
        int chosen[64];
        for (int t = 0; t < targets; t++) {
            chosen[t] = (t + shift) % options;
            chosen[t] = kas_choices_has(&choices, t, chosen[t]) ? chosen[t] : 0;
            expected += option[t * options + chosen[t]].cost;
        }
        OK(kas_choices_replacement(&choices, chosen, &r));
        assert_true(kas_choices_same_sizes(&choices, chosen, &r));
        OK(kas_predict_candidate(predictor, &r, &seconds));
        largest = fmax(largest, fabs(seconds / expected - 1));
        kas_replacement_free(&r);
    }
    printf("sums of layers and whole predictions: largest difference %.2g\n", largest);
    assert_true(largest <= 1e-9);
    kas_predictor_free(predictor);
}

/* So do FLOPs and parameters, where the budget limits them. */
TEST(limited_sizes_add_up)
{
    kas_choices limited = choices;
    kas_option option[4 * 64];
    kas_replacement r;
    double limit[KAS_FRONTIER_FURTHER], params = 0, flops = 0;
    int chosen[64];
    limited.limit.max_params_ratio = 0.9;
    OK(kas_choices_limits(&limited, option, limit));
    for (int t = 0; t < limited.targets; t++) {
        chosen[t] = kas_choices_has(&limited, t, t % 4) ? t % 4 : 0;
        params += option[t * 4 + chosen[t]].further[1];
        flops += option[t * 4 + chosen[t]].further[0];
    }
    OK(kas_choices_replacement(&limited, chosen, &r));
    assert_true(params == r.solution.params && flops == 0);
    assert_true(limit[0] == INFINITY && limit[1] == 0.9 * r.solution.conv_params);
    limited.limit = (kas_budget){.max_flops_ratio = 0.9};
    OK(kas_choices_limits(&limited, option, limit));
    for (int t = 0; t < limited.targets; t++)
        flops += option[t * 4 + chosen[t]].further[0];
    assert_true(flops == r.solution.flops && limit[0] == 0.9 * r.solution.conv_flops);
    kas_replacement_free(&r);
}

/* A kernel alone at one target has the free sizes that it has everywhere, and a file of layers says
 * so. */
TEST(free_sizes_are_fixed)
{
    static const char *const files[] = {"kernels/canvas_kernel_b.json",
                                        "kernels/spatial_separable.json", "kernels/residual.json"};
    kas_choices c = {.net = net,
                     .target = target,
                     .targets = choices.targets,
                     .sizes = {.max_flops_ratio = 0.9}};
    int checked = 0;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        kas_assignment a;
        OK(kas_assignment_read_file(files[i], &a));
        OK(kas_choices_add(&c, files[i], &a));
        kas_assignment_free(&a);
    }
    assert_int_equal(c.kernels, 3);
    for (int t = 0; t < c.targets; t++) {
        const int o = 1 + t % 3;
        int chosen[64] = {0};
        kas_replacement r, again;
        kas_assignment a;
        chosen[t] = o;
        OK(kas_choices_replacement(&c, chosen, &r));
        assert_true(kas_choices_same_sizes(&c, chosen, &r));
        OK(kas_assignment_make(&r, &a));
        OK(kas_assignment_fit(&a, target, c.targets, &no_budget, &again));
        assert_true(again.solution.params == r.solution.params);
        assert_true(again.solution.flops == r.solution.flops);
        checked += kas_kernel_vars(&c.kernel[o - 1]) != 0 && kas_kernel_vars(&r.kernel[0]) == 0;
        kas_assignment_free(&a);
        kas_replacement_free(&r);
        kas_replacement_free(&again);
    }
    assert_int_equal(checked, c.targets);
    kas_choices_free(&c);
}

/* ---- BlockSwap ------------------------------------------------------------------------------- */

typedef struct judged {
    int calls;
    double least_params;
} judged;

/* Fewer parameters are better, so that the best of the draws is known. */
static kas_status fewest(void *context, int count, const kas_replacement *r, double *value)
{
    judged *j = context;
    for (int i = 0; i < count; i++) {
        value[i] = INFINITY;
        if (j->calls++ == 0)
            continue; /* the first one is not finite */
        j->least_params = fmin(j->least_params, r[i].solution.params);
        value[i] = -r[i].solution.params;
    }
    return KAS_OK;
}

TEST(blockswap_takes_the_best_within_the_budget)
{
    const int count = choices.targets * kas_choices_options(&choices);
    kas_option *option = calloc((size_t)count, sizeof *option);
    judged j = {.least_params = INFINITY};
    kas_choices limited = choices;
    limited.limit.max_params_ratio = 0.45;
    const kas_blockswap_options o = {.choices = &limited,
                                     .option = option,
                                     .limit = 0,
                                     .draws = 100, /* more than are scored at once */
                                     .potentials = fewest,
                                     .context = &j};
    kas_blockswap_result a, b;
    kas_replacement r;
    OK(kas_blockswap(&o, &a));
    assert_int_equal(a.scored, 100);
    assert_int_equal(j.calls, 100);
    assert_true(a.drawn > 100);
    OK(kas_choices_replacement(&limited, a.chosen, &r));
    assert_true(r.solution.params <= 0.45 * r.solution.conv_params);
    assert_true(a.potential == -r.solution.params && a.potential == -j.least_params);
    kas_replacement_free(&r);
    j.calls = 0;
    OK(kas_blockswap(&o, &b));
    assert_memory_equal(a.chosen, b.chosen, sizeof *a.chosen * (size_t)choices.targets);
    free(a.chosen);
    free(b.chosen);
    /* A latency that few random networks reach: each kernel saves 1, and all but one must be
     * there. */
    kas_blockswap_options tight = o;
    tight.choices = &choices;
    tight.draws = 5;
    tight.limit = 1 - choices.targets;
    for (int i = 0; i < count; i++)
        option[i].cost = i % kas_choices_options(&choices) ? -1 : 0;
    OK(kas_blockswap(&tight, &a));
    int kept = 0;
    for (int t = 0; t < choices.targets; t++)
        kept += a.chosen[t] == 0;
    assert_true(kept <= 1);
    assert_true(a.drawn < 10);
    free(a.chosen);
    /* All kernels must be there and be the first one or a single other: few networks, and it ends. */
    tight.limit = -choices.targets;
    tight.draws = 1000000;
    for (int i = 0; i < count; i++)
        if (i >= kas_choices_options(&choices) && i % kas_choices_options(&choices) > 1)
            option[i].cost = 0;
    OK(kas_blockswap(&tight, &a));
    assert_in_range(a.scored, 2, 3);
    assert_in_range(a.drawn, KAS_BLOCKSWAP_TRIES + 2, KAS_BLOCKSWAP_TRIES + 100);
    free(a.chosen);
    tight.limit = -choices.targets - 1;
    assert_int_equal(kas_blockswap(&tight, &a), KAS_NOTHING_VALID);
    free(option);
}

/* ---- FBNet ----------------------------------------------------------------------------------- */

/* softmax([ln 1, ln 3]) is [1/4, 3/4]; a slope of [0, 1] has the gradient [-3/16, 3/16]. */
TEST(the_softmax_by_hand)
{
    const double theta[] = {0, NAN, log(3)}, slope[] = {0, 5, 1}, noise[] = {log(3), 0, 0};
    double weight[3], gradient[3];
    kas_fbnet_softmax(theta, NULL, 3, 1, weight);
    assert_true(fabs(weight[0] - 0.25) <= 1e-15 && weight[1] == 0 &&
                fabs(weight[2] - 0.75) <= 1e-15);
    kas_fbnet_through_softmax(weight, slope, 3, 1, gradient);
    assert_true(fabs(gradient[0] + 3. / 16) <= 1e-15 && gradient[1] == 0 &&
                fabs(gradient[2] - 3. / 16) <= 1e-15);
    kas_fbnet_softmax(theta, noise, 3, 1, weight);
    assert_true(fabs(weight[0] - 0.5) <= 1e-15);
    kas_fbnet_softmax(theta, NULL, 3, 0.5, weight); /* 1 : 9 */
    assert_true(fabs(weight[0] - 0.1) <= 1e-15);
}

static void set_gates(kas_model *model, const kas_supernet *s, int t, const double *weight)
{
    const kas_params *params = kas_model_params(model);
    float values[256];
    for (int o = 0; o < s->options; o++) {
        const int gate = s->gate[t * s->options + o];
        if (gate < 0)
            continue;
        const int p = kas_params_find(params, gate, 0);
        assert_true(params->param[p].size <= 256);
        for (size_t i = 0; i < params->param[p].size; i++)
            values[i] = (float)weight[o];
        OK(kas_model_set(model, p, values));
    }
}

static double loss_of(kas_model *model, kas_plan *plan, const float *images, const uint16_t *labels)
{
    kas_metrics metrics;
    OK(kas_model_set_batch(model, KAS_TAPE_TRAIN, images, labels));
    OK(kas_plan_run(plan));
    OK(kas_model_get_metrics(model, &metrics));
    return metrics.batch_loss;
}

/* The gradient of an option's weight is that of a difference of losses. Few ReLUs lie behind the
 * last targets, whose kinks a difference sees. */
TEST(gates_have_the_gradient_of_the_choice)
{
    enum { BATCH = 4 };
    kas_supernet s;
    kas_device *device;
    kas_programs programs;
    kas_model *model;
    kas_plan *plan;
    float images[BATCH * 3 * 64], slopes[256];
    const uint16_t labels[BATCH] = {0, 1, 2, 3};
    double largest = 0;
    for (int i = 0; i < BATCH * 3 * 64; i++)
        images[i] = (float)sin(i * 0.7 + (double)i * i * 0.01);
    OK(kas_supernet_create(&choices, &s));
    OK(kas_device_open("cpu", 1, &device));
    kas_model_options options = {.net = s.net, .batch = BATCH, .training = true};
    OK(kas_model_build_programs(&options, &s.replacement, kas_device_get_info(device)->arch,
                                &programs));
    options.programs = &programs;
    OK(kas_model_create(device, &options, &model));
    OK(kas_model_init(model, 1));
    const double even[4] = {0.4, 0.2, 0.1, 0.3};
    for (int t = 0; t < s.targets; t++)
        set_gates(model, &s, t, even);
    const kas_step_options step = {.mode = KAS_TAPE_TRAIN};
    OK(kas_model_record(model, &step, &plan));
    for (int at = 0; at < 3; at++) {
        const int t = s.targets - 1 - 4 * at;
        for (int o = 0; o < s.options; o++) {
            if (s.gate[t * s.options + o] < 0)
                continue;
            const int p = kas_params_find(kas_model_params(model), s.gate[t * s.options + o], 0);
            double weight[4], sum = 0, apart = 0;
            loss_of(model, plan, images, labels);
            OK(kas_model_get_gradient(model, p, slopes));
            for (size_t i = 0; i < kas_model_params(model)->param[p].size; i++)
                sum += (double)slopes[i];
            for (int side = -1; side <= 1; side += 2) {
                memcpy(weight, even, sizeof weight);
                weight[o] += side * 0.001;
                set_gates(model, &s, t, weight);
                apart += side * loss_of(model, plan, images, labels);
            }
            set_gates(model, &s, t, even);
            assert_true(fabs(sum) > 1e-4); /* every option is part of the sum */
            largest = fmax(largest, fabs(apart / 0.002 - sum) / (fabs(sum) + 0.05));
        }
    }
    printf("gradients of gates: largest relative error %.2g\n", largest);
    assert_true(largest <= 0.05);
    kas_plan_free(plan);
    kas_model_free(model);
    kas_programs_free(&programs);
    kas_device_close(device);
    kas_supernet_free(&s);
}

/* ---- the file of measurements ---------------------------------------------------------------- */

TEST(measurements_survive_a_torn_line)
{
    char path[] = "/tmp/kas_measured_XXXXXX", key[KAS_MEASURED_KEY], other[KAS_MEASURED_KEY];
    kas_measured *m, *second;
    const double values[] = {0.1, NAN, -3e-7};
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    kas_measured_key("one", key);
    kas_measured_key("two", other);
    OK(kas_measured_open(path, &m));
    assert_int_equal(kas_measured_open(path, &second), KAS_BAD_INPUT);
    OK(kas_measured_add(m, key, "a \"name\"", values, 3));
    kas_measured_close(m);
    assert_int_equal(lseek(fd, 0, SEEK_END) > 0, 1);
    assert_int_equal(write(fd, "{\"key\": \"torn", 13), 13);
    OK(kas_measured_open(path, &m));
    OK(kas_measured_add(m, other, "x", values, 1));
    kas_measured_close(m);
    OK(kas_measured_open(path, &m));
    const double *found = kas_measured_find(m, key, 3);
    assert_non_null(found);
    assert_true(found[0] == 0.1 && isnan(found[1]) && found[2] == -3e-7);
    assert_non_null(kas_measured_find(m, other, 1));
    assert_null(kas_measured_find(m, other, 2));
    kas_measured_close(m);
    close(fd);
    unlink(path);
}

RUN_TESTS(begin, end)

/* The interpreter against the float64 reference: every kind of layer, every primitive, at every layer of a
 * network, forward and backward, in float64 and in float32. */
#include <stdio.h>

#include "judged.h"

#include "host/core/embedded.h"
#include "host/model/params.h"
#include "host/net/targets.h"
#include "host/reference/kernel/reference.h"
#include "host/space/file/assignment.h"
#include "host/space/canvas/candidate_ops.h"
#include "host/space/sample/sampler.h"
#include "support/build.h"
#include "unit/model/zoo_net.h"

#define EXACT 1e-8
/* Batch norms over few values magnify float32's rounding. */
#define SINGLE 2e-2

enum { BATCH = 3 };
static const uint16_t labels[BATCH] = {1, 7, 3};

typedef struct errors {
    double act, grad, weight, loss;
} errors;

/* The largest difference of a tensor, relative to its largest value. Below 1e-6 there is rounding alone, as of the
 * gradient of a bias in front of a batch norm. */
static double tensor_error(const kas_interpreter *p, const void *found, const double *expected,
                           size_t n)
{
    double difference = 0, most = 0;
    for (size_t i = 0; i < n; i++) {
        const double d = fabs(kas_interpret_get(p, found, i) - expected[i]);
        difference = d <= difference ? difference : d; /* NaN stays */
        most = fmax(most, fabs(expected[i]));
    }
    return difference / fmax(most, 1e-6);
}

static double worse(double a, double b)
{
    return a >= b ? a : b; /* NaN stays as b */
}

/* Compares every tensor of every layer. */
static errors compare(const kas_net *net, const kas_replacement *replacement, bool exact, bool show)
{
    const kas_interpret_options options = {.net = net,
                                           .replacement = replacement,
                                           .batch = BATCH,
                                           .exact = exact,
                                           .weight_gradients = true,
                                           .signs = true};
    kas_interpret_memory memory = {0};
    kas_normals normals = {0};
    kas_interpreter *p;
    errors e = {0};
    OK(kas_interpret_create(&options, &memory, &p));
    OK(kas_interpret_draw(p, 5, KAS_INTERPRET_TRAINING, &normals));
    judge j = judge_make(net, replacement, BATCH);
    float *images = test_images(kas_interpret_elements(p, 0), 3);
    judge_weights(&j, p);
    kas_interpret_forward(p, images);
    judge_forward(&j, images);
    const double loss = kas_interpret_loss(p, labels), expected = judge_loss(&j, labels);
    kas_interpret_backward(p, net->layers - 1, 0, true);
    judge_backward(&j, net->layers - 1, 0);
    e.loss = fabs(loss - expected) / fabs(expected);
    for (int i = 0; i < net->layers; i++) {
        const size_t size = kas_interpret_elements(p, i);
        const double act = tensor_error(p, p->act[i], j.pass.act[i], size);
        const double grad = tensor_error(p, p->grad[i], j.pass.grad[i], size);
        if (show)
            printf("    %-20s act %.1e grad %.1e\n", net->layer[i].name, act, grad);
        e.act = worse(e.act, act);
        e.grad = worse(e.grad, grad);
    }
    for (int i = 0; i < p->weights; i++) {
        const kas_interpret_weight *w = &p->weight[i];
        const void *slope = (char *)p->slope + w->at * (exact ? sizeof(double) : sizeof(float));
        const double d =
            tensor_error(p, slope, kas_ref_net_param(j.net, w->layer, w->slot)->grad, w->size);
        if (show)
            printf("    %-20s weight %d %.1e\n", net->layer[w->layer].name, w->slot, d);
        e.weight = worse(e.weight, d);
    }
    free(images);
    judge_free(&j);
    kas_interpret_free(p);
    kas_interpret_memory_free(&memory);
    kas_normals_free(&normals);
    return e;
}

static bool agrees(const errors *e, double tolerance)
{
    return e->act <= tolerance && e->grad <= tolerance && e->weight <= tolerance &&
           e->loss <= tolerance;
}

static void assert_agrees(const char *name, const kas_net *net, const kas_replacement *replacement)
{
    const errors e = compare(net, replacement, true, false);
    if (!agrees(&e, EXACT)) {
        compare(net, replacement, true, true);
        fail_msg("%s: act %.2e grad %.2e weight %.2e loss %.2e, tolerance %.0e", name, e.act,
                 e.grad, e.weight, e.loss, EXACT);
    }
}

TEST(layers_agree)
{
    static const char *const names[] = {"resnet20"};
    kas_net *net = zoo_net(9, 7);
    assert_non_null(net);
    for (int i = 0; i < net->layers; i++) /* the interpreter drops nothing */
        net->layer[i].probability = 0;
    assert_agrees("zoo", net, NULL);
    const errors e = compare(net, NULL, false, false);
    printf("zoo in float32: act %.1e grad %.1e weight %.1e\n", e.act, e.grad, e.weight);
    assert_true(agrees(&e, SINGLE));
    kas_net_free(net);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        OK(kas_net_build(names[i], 8, 8, 3, 10, &net));
        assert_agrees(names[i], net, NULL);
        kas_net_free(net);
    }
}

static int activated(kas_builder *b, int x, const char *norm, const char *name)
{
    return zoo_layer(b, KAS_LAYER_SILU, name, kas_builder_batch_norm(b, x, norm));
}

/* Stride on odd sizes, channels of which neither number divides the other, several instances. Activations are smooth:
 * rounding would decide ReLUs behind the batch norm of a constant. */
static kas_net *awkward(void)
{
    kas_net *net = NULL;
    kas_builder b;
    kas_builder_start(&b, "awkward", 9, 6, 3, 10);
    int x = kas_builder_conv(&b, 0, "stem", 12, 3, 1);
    x = activated(&b, x, "bn0", "act0");
    x = kas_builder_conv(&b, x, "same", 12, 3, 1);
    x = activated(&b, x, "bn1", "act1");
    x = kas_builder_conv(&b, x, "up", 18, 5, 2);
    x = activated(&b, x, "bn2", "act2");
    x = kas_builder_conv(&b, x, "down", 6, 3, 1);
    x = activated(&b, x, "bn3", "act3");
    x = kas_builder_global_avg_pool(&b, x, "pool");
    kas_builder_linear(&b, x, "fc", 10);
    return kas_builder_finish(&b, &net) == KAS_OK ? net : NULL;
}

static bool known_kernel_agrees(const kas_embedded *file, bool stride_inside, const kas_net *net,
                                const kas_target *targets, int count)
{
    kas_assignment kernels;
    kas_replacement r;
    OK(kas_assignment_read_json(file->name, file->text, strlen(file->text), &kernels));
    kernels.kernel[0].stride_inside = stride_inside;
    const bool fits = kas_kernel_infer(&kernels.kernel[0]) == KAS_OK && /* few may have it inside */
                      kas_assignment_fit(&kernels, targets, count, &(kas_budget){0}, &r) == KAS_OK;
    if (fits) {
        assert_agrees(file->name, net, &r);
        kas_replacement_free(&r);
    }
    kas_assignment_free(&kernels);
    return fits;
}

TEST(known_kernels_agree)
{
    kas_net *net = awkward();
    kas_target *targets;
    int count, seen[2] = {0};
    assert_non_null(net);
    OK(kas_net_targets(net, NULL, &targets, &count));
    for (const kas_embedded *file = kas_embedded_kernels; file->name; file++)
        for (int inside = 0; inside < 2; inside++)
            seen[inside] += known_kernel_agrees(file, inside, net, targets, count);
    assert_true(seen[0] >= 5 && seen[1] >= 2);
    free(targets);
    kas_net_free(net);
}

/* A map that keeps apart a dim behind others, where the input's channels are not in the order of the groups. */
TEST(group_dims_anywhere)
{
    kas_net *net = awkward();
    kas_target *targets;
    kas_replacement r;
    kas_kernel k = {0};
    int count;
    OK(kas_net_targets(net, NULL, &targets, &count));
    const int windows = kas_build_unfold(&k, kas_build_input(&k), KAS_AXIS_H | KAS_AXIS_W);
    const int rows = kas_build_fc(&k, kas_build_group_all(&k, windows, 1), true, "K_H*C");
    assert_true(kas_build_fc(&k, rows, false, "C") >= 0);
    OK(kas_kernel_infer(&k));
    OK(kas_replacement_solve(&k, 1, NULL, targets, count, &(kas_budget){.max_flops_ratio = 100},
                             &r));
    assert_agrees("groups", net, &r);
    kas_replacement_free(&r);
    free(targets);
    kas_net_free(net);
}

/* Whether rounding may decide a branch, where equal values come from different operations, such as the largest of
 * equal pixels and their mean; or a norm magnifies the rounding of equal values. */
static bool is_delicate(const kas_kernel *k)
{
    static const kas_op op[] = {KAS_OP_FOLD_MAX, KAS_OP_POOL_MAX, KAS_OP_MIN,  KAS_OP_MAX,
                                KAS_OP_RELU,     KAS_OP_ABS,      KAS_OP_SQRT, KAS_OP_NORM};
    for (int i = 0; i < k->nodes; i++)
        for (size_t b = 0; b < sizeof op / sizeof *op; b++)
            if (k->node[i].op == op[b])
                return true;
    return false;
}

/* Whether the kernel's output is neither lost nor blown up: else it is rounding, in the reference too. */
static bool is_sound(const kas_replacement *r)
{
    for (int t = 0; t < r->solution.targets; t++) {
        double deviation;
        OK(kas_reference_output_deviation(&r->kernel[0], &r->target[t], &r->solution.binding[t], 2,
                                          1, &deviation));
        if (!(deviation >= KAS_DEVIATION_LOW && deviation <= KAS_DEVIATION_HIGH))
            return false;
    }
    return true;
}

/* Samples kernels; together they have every primitive. */
TEST(primitives_agree)
{
    enum { FEWEST = 160, MOST = 1000 };
    const uint64_t all = KAS_OP_BIT(KAS_OP_COUNT) - 1;
    kas_net *net = awkward();
    kas_target *targets;
    kas_sampler *sampler;
    int count, compared = 0, ties = 0;
    uint64_t seen = KAS_OP_BIT(KAS_OP_INPUT);
    errors most = {0};
    OK(kas_net_targets(net, NULL, &targets, &count));
    kas_sample_options options = kas_sample_defaults();
    options.seed = 11;
    options.max_primitives = 8;
    OK(kas_sampler_create(&options, targets, count, &sampler));
    for (int k = 0; k < FEWEST || (seen != all && k < MOST); k++) {
        kas_sample sample;
        OK(kas_sampler_next(sampler, 0, &sample));
        const errors e = compare(net, &sample.replacement, true, false);
        if (agrees(&e, EXACT)) {
            compared++;
            for (int i = 0; i < sample.replacement.kernel[0].nodes; i++)
                seen |= KAS_OP_BIT(sample.replacement.kernel[0].node[i].op);
            most.act = fmax(most.act, e.act);
            most.grad = fmax(most.grad, e.grad);
        } else if (is_sound(&sample.replacement)) {
            printf("kernel %s: act %.1e grad %.1e weight %.1e loss %.1e\n", sample.name, e.act,
                   e.grad, e.weight, e.loss);
            assert_true(is_delicate(&sample.replacement.kernel[0]));
            ties++;
        }
        kas_sample_free(&sample);
    }
    printf("%d sampled kernels agree: act %.1e grad %.1e; %d have a tie\n", compared, most.act,
           most.grad, ties);
    for (int op = 0; op < KAS_OP_COUNT; op++)
        if (!(seen & KAS_OP_BIT(op)))
            fail_msg("no kernel with %s", kas_op_get((kas_op)op)->name);
    assert_true(compared >= FEWEST / 2);
    assert_true(ties <= compared / 20);
    kas_sampler_free(sampler);
    free(targets);
    kas_net_free(net);
}

/* Weights begin as those of a training with the same seed. */
TEST(weights_are_of_training)
{
    kas_net *net;
    kas_params params;
    kas_interpret_memory memory = {0};
    kas_normals normals = {0};
    kas_interpreter *p;
    int compared = 0;
    OK(kas_net_build("resnet20", 8, 8, 3, 10, &net));
    OK(kas_params_build(net, NULL, &params));
    const kas_interpret_options options = {.net = net, .batch = 1};
    OK(kas_interpret_create(&options, &memory, &p));
    OK(kas_interpret_draw(p, 9, KAS_INTERPRET_TRAINING, &normals));
    for (int i = 0; i < p->weights; i++) {
        const kas_interpret_weight *w = &p->weight[i];
        const kas_param *param = &params.param[kas_params_find(&params, w->layer, w->slot)];
        float *values = malloc(sizeof *values * param->size);
        assert_int_equal(param->size, w->size);
        kas_param_init(param, 9, values);
        for (size_t k = 0; k < w->size; k++) /* once more rounded */
            assert_true(fabsf(values[k] - ((float *)p->value)[w->at + k]) <=
                        2e-7F * fabsf(values[k]));
        free(values);
        compared++;
    }
    assert_int_equal(compared, 21); /* 20 weights and the bias of the last layer */
    kas_interpret_free(p);
    kas_interpret_memory_free(&memory);
    kas_normals_free(&normals);
    kas_params_free(&params);
    kas_net_free(net);
}

/* The taps of a large window of a large image are more than 2^32 values. The pass has room for them, or there is
 * too little memory. */
TEST(large_windows)
{
    kas_net *net;
    kas_interpret_memory memory = {0};
    kas_interpreter *p = NULL;
    OK(kas_net_build(
        "{\"format\": \"kas-gpu network\", \"version\": 1, \"name\": \"large\", \"layers\": ["
        "{\"conv\": \"stem\", \"channels\": 1, \"kernel\": 64}, {\"global_avg_pool\": \"pool\"},"
        "{\"linear\": \"fc\", \"channels\": \"classes\"}]}",
        1024, 1024, 1, 3, &net));
    const kas_interpret_options options = {.net = net, .batch = 1};
    const kas_status status = kas_interpret_create(&options, &memory, &p);
    const size_t taps = (size_t)64 * 64 * (size_t)net->layer[1].h * (size_t)net->layer[1].w;
    assert_true(status == KAS_OK || status == KAS_NO_MEMORY);
    assert_true(status != KAS_OK || memory.bytes > sizeof(float) * taps);
    kas_interpret_free(p);
    kas_interpret_memory_free(&memory);
    kas_net_free(net);
}

RUN_TESTS()

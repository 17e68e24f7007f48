/* Networks with a kernel in place of their convolutions: one training step on the device, with
 * generated code, against the float64 reference; then a whole run through kas_train. */
#include "unit/model/model_fixture.h"

#include "host/core/file/files.h"
#include "support/layers.h"
#include "host/net/targets.h"
#include "host/space/file/kernel_json.h"
#include "host/train/train.h"
#include "unit/model/zoo_net.h"

/* A replacement and its targets. */
typedef struct replaced {
    kas_target *target;
    kas_replacement replacement;
} replaced;

/* `ratio`: 1.1 lets the convolution itself in, whose stride costs an average pool more. */
static replaced *make_replaced(const kas_net *net, const char *path, double ratio)
{
    const kas_budget budget = {.max_flops_ratio = ratio, .max_params_ratio = ratio};
    replaced *r = calloc(1, sizeof *r);
    kas_kernel kernel;
    int count = 0;
    assert_non_null(r);
    if (kas_kernel_read_file(path, &kernel) != KAS_OK ||
        kas_net_targets(net, NULL, &r->target, &count) != KAS_OK ||
        kas_replacement_solve(&kernel, 1, NULL, r->target, count, &budget, &r->replacement) !=
            KAS_OK)
        fail_msg("%s: %s", path, kas_error());
    return r;
}

static void free_replaced(replaced *r)
{
    kas_replacement_free(&r->replacement);
    free(r->target);
    free(r);
}

static kas_net *resnet(const char *name, int h, int w)
{
    kas_net *net = NULL;
    assert_int_equal(kas_net_build(name, h, w, 3, 10, &net), KAS_OK);
    return net;
}

/* Stride on odd sizes, channels of which neither number divides the other (12 -> 18), an output
 * narrower than the input, and a 5x5 and a 1x1 convolution. */
static kas_net *awkward(void)
{
    kas_net *net = NULL;
    kas_builder b;
    kas_builder_start(&b, "awkward", 9, 7, 3, 10);
    int x = kas_builder_conv(&b, 0, "stem", 12, 3, 1);
    x = kas_builder_relu(&b, kas_builder_batch_norm(&b, x, "bn0"), "relu0");
    x = kas_builder_conv(&b, x, "up", 18, 5, 2);
    x = kas_builder_relu(&b, kas_builder_batch_norm(&b, x, "bn1"), "relu1");
    x = kas_builder_conv(&b, x, "down", 6, 3, 1);
    x = kas_builder_relu(&b, kas_builder_batch_norm(&b, x, "bn2"), "relu2");
    x = kas_builder_conv(&b, x, "point", 12, 1, 1);
    x = kas_builder_global_avg_pool(&b, x, "pool");
    kas_builder_linear(&b, x, "fc", 10);
    assert_int_equal(kas_builder_finish(&b, &net), KAS_OK);
    return net;
}

/* A layer of involutions multiplies activations by activations: 18 of them move by 1e-5 when any
 * sum is added up in another order. */
static void check_and_free(pair p, replaced *r, const char *kernel)
{
    char label[128];
    snprintf(label, sizeof label, "%s in %s", kernel, p.net->name);
    check_step(&p, label, strcmp(kernel, "kernels/involution.json") == 0 ? 1e-2 : 1e-3);
    free_pair(&p);
    free_replaced(r);
}

static void step_with(kas_net *net, const char *kernel, int n)
{
    replaced *r = make_replaced(net, kernel, 1.1);
    check_and_free(make_pair_of(net, &r->replacement, n), r, kernel);
}

TEST(known_kernels_in_resnet20)
{
    static const char *const kernels[] = {"kernels/conv.json", "kernels/depthwise_separable.json",
                                          "kernels/involution.json", "kernels/squeeze_excite.json"};
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        step_with(resnet("resnet20", 8, 8), kernels[i], 4);
}

TEST(shortcut_convolutions_are_replaced_too)
{
    step_with(resnet("resnet18", 8, 8), "kernels/group_conv.json", 4);
}

TEST(awkward_shapes)
{
    step_with(awkward(), "kernels/spatial_separable.json", 5);
    step_with(awkward(), "kernels/shift_conv.json", 5);
}

/* Where a library's convolution writes the output, the gain is in the weights that it reads. */
TEST(gains)
{
    static const char *const kernels[] = {"kernels/conv.json", "kernels/spatial_separable.json",
                                          "kernels/squeeze_excite.json"};
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        kas_net *net = awkward();
        replaced *r = make_replaced(net, kernels[i], 2);
        const float gain[] = {0.125f, 1, 8};
        assert_int_equal(r->replacement.solution.targets, 3);
        assert_int_equal(kas_replacement_set_gains(&r->replacement, gain), KAS_OK);
        check_and_free(make_pair_of(net, &r->replacement, 5), r, kernels[i]);
    }
}

/* Programs between concatenations that share buffers: what they read and write has no gaps. */
TEST(any_kind_of_layer_around)
{
    for (int recompute = 0; recompute < 2; recompute++) {
        kas_net *net = zoo_net(13, 9);
        replaced *r = make_replaced(net, "kernels/conv.json", 2);
        check_and_free(make_pair_with(net, &r->replacement, 5, NULL, recompute), r,
                       "kernels/conv.json");
    }
}

/* Targets of one shape share a program; the parameters are the solver's. */
TEST(parameters_are_counted)
{
    kas_net *net = resnet("resnet20", 8, 8);
    replaced *r = make_replaced(net, "kernels/depthwise_separable.json", 1);
    kas_programs programs;
    kas_params params;
    double learned = 0, expected = kas_net_params(net);
    assert_int_equal(kas_programs_build(&r->replacement,
                                        &(kas_program_options){.batch = 2, .training = true},
                                        &programs),
                     KAS_OK);
    assert_int_equal(kas_params_build(net, &programs, &params), KAS_OK);
    for (int i = 0; i < params.count; i++)
        learned += params.param[i].kind == KAS_PARAM_STATISTIC ? 0 : (double)params.param[i].size;
    expected += r->replacement.solution.params - r->replacement.solution.conv_params;
    print_message("%d targets, %d programs, %.0f parameters, expected %.0f\n",
                  r->replacement.solution.targets, programs.count, learned, expected);
    assert_true(learned == expected);
    assert_int_equal(programs.count, 5); /* 16@32, 16->32, 32@16, 32->64, 64@8 */
    kas_params_free(&params);
    kas_programs_free(&programs);
    free_replaced(r);
    kas_net_free(net);
}

static kas_verdict stop_at_three(void *context, uint64_t step, uint64_t steps, double loss)
{
    (void)steps;
    (void)loss;
    return *(const bool *)context && step >= 3 ? KAS_STOP : KAS_CONTINUE;
}

/* Stopped in the middle and resumed: the same bits, with generated code too. */
TEST(a_run_resumes_exactly)
{
    enum { COUNT = 32, PIXELS = 8 * 8 * 3 };
    static uint8_t pixels[COUNT * PIXELS];
    static uint16_t labels[COUNT];
    kas_rng rng = kas_rng_make(1, KAS_PURPOSE_TEST, 77);
    for (int i = 0; i < COUNT * PIXELS; i++)
        pixels[i] = (uint8_t)kas_rng_below(&rng, 256);
    for (int i = 0; i < COUNT; i++)
        labels[i] = (uint16_t)(i % 10);
    kas_dataset data = {.path = "noise",
                        .h = 8,
                        .w = 8,
                        .c = 3,
                        .classes = 10,
                        .mean = {0.5f, 0.5f, 0.5f},
                        .std = {0.3f, 0.3f, 0.3f},
                        .train = {COUNT, pixels, labels},
                        .test = {COUNT, pixels, labels},
                        .digest = "noise"};
    char checkpoint[64], first[64], second[64];
    snprintf(checkpoint, sizeof checkpoint, "/tmp/kas_replaced_%d.ckpt", (int)getpid());
    snprintf(first, sizeof first, "/tmp/kas_replaced_%d.a", (int)getpid());
    snprintf(second, sizeof second, "/tmp/kas_replaced_%d.b", (int)getpid());
    kas_net *net = resnet("resnet20", 8, 8);
    replaced *r = make_replaced(net, "kernels/depthwise_separable.json", 1);
    bool stop = false;
    kas_train_options o = {.net = net,
                           .dataset = &data,
                           .recipe = kas_recipe_default(),
                           .train_count = COUNT,
                           .evaluate_test = true,
                           .on_progress = stop_at_three,
                           .context = &stop,
                           .weights_out = first};
    kas_train_result result;
    o.recipe.epochs = 2;
    o.recipe.batch = 8;
    kas_model_options model = {.batch = 8, .training = true};
    o.programs = give_programs(&model, &r->replacement, kas_device_get_info(device)->arch);
    assert_int_equal(kas_train(device, &o, &result), KAS_OK);
    assert_int_equal(result.state, KAS_TRAINED);
    kas_train_result_free(&result);
    o.weights_out = second;
    o.checkpoint = checkpoint;
    stop = true;
    assert_int_equal(kas_train(device, &o, &result), KAS_OK);
    assert_int_equal(result.state, KAS_STOPPED);
    kas_train_result_free(&result);
    stop = false;
    assert_int_equal(kas_train(device, &o, &result), KAS_OK);
    assert_int_equal(result.state, KAS_TRAINED);
    kas_train_result_free(&result);
    kas_buf a = {0}, b = {0};
    assert_int_equal(kas_file_read(first, 1 << 26, &a), KAS_OK);
    assert_int_equal(kas_file_read(second, 1 << 26, &b), KAS_OK);
    assert_int_equal(a.size, b.size);
    assert_memory_equal(a.data, b.data, a.size);
    kas_buf_free(&a);
    kas_buf_free(&b);
    unlink(checkpoint);
    unlink(first);
    unlink(second);
    free_programs(o.programs);
    free_replaced(r);
    kas_net_free(net);
}

/* What was lowered for one batch, pass or precision serves no other. */
TEST(programs_of_another_model_are_refused)
{
    kas_net *net = resnet("resnet20", 8, 8);
    replaced *r = make_replaced(net, "kernels/depthwise.json", 1);
    const kas_model_options own = {.net = net, .batch = 2, .training = true};
    kas_model_options others[] = {own, own, own, own};
    kas_memory_plan plan;
    others[1].batch = 3;
    others[2].training = false;
    others[3].precision = KAS_PRECISION_BF16;
    kas_model_options options = own;
    kas_programs *programs = give_programs(&options, &r->replacement, "cpu");
    for (int i = 0; i < 4; i++) {
        others[i].programs = programs;
        assert_int_equal(kas_model_plan_memory(&others[i], &plan), i ? KAS_FAILURE : KAS_OK);
    }
    free_programs(programs);
    free_replaced(r);
    kas_net_free(net);
}

RUN_TESTS(open_device, close_device)

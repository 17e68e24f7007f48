/* Networks whose kernels do the batch norm, sum and activation behind them (jit/lower/epilogue.h):
 * evaluation and inference against the same networks without, and against the float64 reference. */
#include "epilogues_net.h"
#include "model_fixture.h"

#include "host/net/targets.h"
#include "host/space/file/kernel_json.h"
#include "support/passes.h"

enum { N = 3, CLASSES = 10, EPILOGUES = 11, TARGETS = EPILOGUES + 1, NORMS = TARGETS + 1 };

static bool with_gains;     /* other than 1 */
static bool image_by_image; /* each image of the batch is a piece of its own */

/* A network with a kernel in it; `epilogues`: what its targets say of what stands behind them. */
typedef struct replaced {
    kas_net *net;
    kas_target *target;
    kas_replacement replacement;
} replaced;

/* `text`: the network, of which all targets must be replaceable. */
static replaced *make_replaced_in(const char *text, const char *path, bool epilogues)
{
    const kas_budget budget = {.max_flops_ratio = 2, .max_params_ratio = 2};
    replaced *r = calloc(1, sizeof *r);
    kas_kernel kernel;
    int count = 0;
    assert_non_null(r);
    if (kas_net_build(text, 9, 7, 3, CLASSES, &r->net) != KAS_OK ||
        kas_kernel_read_file(path, &kernel) != KAS_OK ||
        kas_net_targets(r->net, NULL, &r->target, &count) != KAS_OK ||
        kas_replacement_solve(&kernel, 1, NULL, r->target, count, &budget, &r->replacement) !=
            KAS_OK)
        fail_msg("%s: %s", path, kas_error());
    float gain[64];
    assert_true(count == TARGETS || text != epilogues_net);
    for (int t = 0; t < count; t++) {
        assert_true(r->target[t].epilogue.norm == (t < EPILOGUES) || text != epilogues_net);
        if (!epilogues)
            r->target[t].epilogue = (kas_epilogue){0};
        gain[t] = t % 3 == 0 ? 4 : t % 3 == 1 ? 0.25f : 1;
    }
    if (with_gains)
        assert_int_equal(kas_replacement_set_gains(&r->replacement, gain), KAS_OK);
    return r;
}

static replaced *make_replaced(const char *path, bool epilogues)
{
    return make_replaced_in(epilogues_net, path, epilogues);
}

static void free_replaced(replaced *r)
{
    kas_replacement_free(&r->replacement);
    free(r->target);
    kas_net_free(r->net);
    free(r);
}

static kas_model_options options_of(const replaced *r)
{
    return (kas_model_options){.net = r->net, .batch = N, .precision = the_precision};
}

/* The programs of a CPU, which may cut the batch. */
static kas_programs *programs_of(const replaced *r, kas_model_options *options)
{
    const kas_program_options pieces = {
        .batch = N, .linear_policy = KAS_LINEAR_CPU, .piece_bytes = 1};
    if (!image_by_image)
        return give_programs(options, &r->replacement, kas_device_get_info(device)->arch);
    kas_programs *programs = calloc(1, sizeof *programs);
    assert_int_equal(kas_programs_build(&r->replacement, &pieces, programs), KAS_OK);
    for (int p = 0; p < programs->count; p++) /* one operation has one piece */
        assert_int_equal(programs->program[p]->pieces, programs->program[p]->forwards > 1 ? N : 1);
    return options->programs = programs;
}

/* What `mode` makes of the images; `exact` gets the reference's. */
static void logits_of(const replaced *r, kas_tape_mode mode, float *logits, double *exact)
{
    enum { IMAGE = 9 * 7 * 3 };
    kas_model_options options = options_of(r);
    pair p = {.net = r->net, .n = N};
    float images[N * IMAGE];
    double images64[N * IMAGE];
    const uint16_t labels[N] = {0};
    kas_rng rng = kas_rng_make(6, KAS_PURPOSE_TEST, 0);
    for (int i = 0; i < N * IMAGE; i++)
        images64[i] = images[i] = (float)kas_rng_normal(&rng);
    p.programs = programs_of(r, &options);
    OK(kas_model_create(device, &options, &p.model));
    assert_int_equal(kas_ref_net_create_replaced(r->net, &r->replacement, &p.ref), KAS_OK);
    set_parameters(&p, 3);
    /* Statistics as training leaves them, and the same on both sides. */
    assert_int_equal(kas_ref_net_calibrate(p.ref, N, images64), KAS_OK);
    for (int i = 0; i < p.ref->params; i++) {
        kas_ref_param *param = &p.ref->param[i];
        float values[1024];
        if (param->grad || kas_model_params(p.model)->param[i].kind != KAS_PARAM_STATISTIC)
            continue;
        for (size_t k = 0; k < param->size; k++)
            param->value[k] = values[k] = (float)param->value[k];
        assert_int_equal(kas_model_set(p.model, i, values), KAS_OK);
    }
    kas_plan *plan = record(&p, mode);
    assert_int_equal(
        kas_model_set_batch(p.model, mode, images, mode == KAS_TAPE_INFER ? NULL : labels), KAS_OK);
    assert_int_equal(kas_plan_run(plan), KAS_OK);
    assert_int_equal(kas_model_get_logits(p.model, mode, logits), KAS_OK);
    if (exact)
        assert_int_equal(kas_ref_net_eval(p.ref, N, images64, exact), KAS_OK);
    kas_plan_free(plan);
    kas_model_free(p.model);
    free_programs(p.programs);
    kas_ref_net_free(p.ref);
}

static void compare(const char *path, kas_tape_mode mode, double tolerance)
{
    float with[N * CLASSES], without[N * CLASSES];
    double exact[N * CLASSES], plain[N * CLASSES];
    for (int epilogues = 0; epilogues < 2; epilogues++) {
        replaced *r = make_replaced(path, epilogues);
        for (int i = 0; i < N * CLASSES; i++)
            with[i] = without[i] = NAN;
        logits_of(r, mode, epilogues ? with : without, exact);
        free_replaced(r);
        if (!epilogues)
            for (int i = 0; i < N * CLASSES; i++)
                plain[i] = without[i];
    }
    const double from_reference = relative(with, exact, N * CLASSES),
                 from_plain = relative(with, plain, N * CLASSES);
    print_message("%s, mode %d: %.2e from the reference, %.2e from separate passes, tolerance "
                  "%.0e\n",
                  path, (int)mode, from_reference, from_plain, tolerance);
    assert_true(from_reference <= tolerance);
    assert_true(from_plain <= tolerance);
}

/* A library's convolution writes the output. */
static void compare_folded(kas_tape_mode mode, double tolerance)
{
    compare("kernels/conv.json", mode, tolerance);
    compare("kernels/spatial_separable.json", mode, tolerance);
}

TEST(logits_are_the_same)
{
    compare_folded(KAS_TAPE_INFER, 1e-5);
    compare_folded(KAS_TAPE_EVALUATE, 1e-5);
    compare("kernels/residual.json", KAS_TAPE_EVALUATE, 1e-5);
    compare("kernels/canvas_figure6.json", KAS_TAPE_INFER, 1e-5);
    compare("kernels/depthwise_separable.json", KAS_TAPE_INFER, 1e-5);
}

TEST(in_pieces)
{
    if (kas_device_get_info(device)->kind != KAS_DEVICE_CPU)
        skip();
    image_by_image = true;
    compare_folded(KAS_TAPE_INFER, 1e-5);
    compare("kernels/depthwise_separable.json", KAS_TAPE_INFER, 1e-5);
    image_by_image = false;
}

/* The set-up moves the values of the gains, so each layer has one of its own. */
TEST(outputs_are_multiplied)
{
    with_gains = true;
    compare_folded(KAS_TAPE_INFER, 1e-5);
    compare("kernels/residual.json", KAS_TAPE_EVALUATE, 1e-5);
    compare("kernels/canvas_figure6.json", KAS_TAPE_INFER, 1e-5);
    compare("kernels/depthwise_separable.json", KAS_TAPE_INFER, 1e-5);
    with_gains = false;
}

TEST(in_numbers_of_16_bits)
{
    the_precision = KAS_PRECISION_BF16;
    compare("kernels/canvas_figure6.json", KAS_TAPE_INFER, 2e-2);
    compare_folded(KAS_TAPE_INFER, 2e-2);
    the_precision = KAS_PRECISION_FP16;
    compare("kernels/canvas_figure6.json", KAS_TAPE_EVALUATE, 2e-3);
    the_precision = KAS_PRECISION_FP32;
}

/* Each epilogue saves the write and the read of the layer's output, less the norm's four vectors.  An
 * activation that is no part of the norm's group stays where it is, and the stem's norm is folded either
 * way. */
TEST(passes_are_saved)
{
    kas_planned_bytes planned[2];
    kas_memory_plan memory[2];
    double saved = 0;
    for (int epilogues = 0; epilogues < 2; epilogues++) {
        replaced *r = make_replaced("kernels/residual.json", epilogues);
        kas_model_options options = options_of(r);
        kas_programs *programs = give_programs(&options, &r->replacement, "cuda");
        OK(kas_planned_bytes_plan(&options, KAS_TAPE_INFER, &planned[epilogues]));
        OK(kas_model_plan_memory(&options, &memory[epilogues]));
        for (int t = 0; epilogues && t < EPILOGUES; t++)
            saved += 4.0 * r->target[t].c_out * (2.0 * N * r->target[t].h * r->target[t].w - 4);
        free_programs(programs);
        free_replaced(r);
    }
    assert_int_equal(count_passes(&planned[0], "kernel forward with norm"), 0);
    assert_int_equal(count_passes(&planned[0], "batch norm normalise"), NORMS - 1);
    assert_int_equal(count_passes(&planned[1], "kernel forward with norm"), EPILOGUES);
    assert_int_equal(count_passes(&planned[1], "batch norm normalise"), NORMS - 1 - EPILOGUES);
    print_message("%.0f bytes an inference, %.0f with epilogues; activations %zu and %zu bytes\n",
                  planned[0].bytes, planned[1].bytes, memory[0].activations, memory[1].activations);
    /* What is a part of a concatenation is copied there, as a convolution's output is. */
    const int copies = count_passes(&planned[1], "copy") - count_passes(&planned[0], "copy");
    assert_true(copies > 0);
    assert_true(planned[1].floor_bytes == planned[0].floor_bytes);
    assert_true(planned[1].floor_bytes <= planned[1].bytes);
    double copied = 0;
    for (int epilogues = 0; epilogues < 2; epilogues++)
        for (int i = 0; i < planned[epilogues].passes; i++)
            if (strcmp(planned[epilogues].pass[i].what, "copy") == 0)
                copied += (epilogues ? 1 : -1) * planned[epilogues].pass[i].bytes;
    assert_true(planned[0].bytes - planned[1].bytes == saved - copied);
    for (int i = 0; i < 2; i++)
        kas_planned_bytes_free(&planned[i]);
}

/* What a library writes takes the norm, the sum and the activation in the same call. */
TEST(library_calls_are_folded)
{
    replaced *r = make_replaced("kernels/conv.json", true);
    kas_model_options options = options_of(r);
    kas_planned_bytes planned;
    kas_programs *programs = give_programs(&options, &r->replacement, "cuda");
    assert_int_equal(kas_planned_bytes_plan(&options, KAS_TAPE_INFER, &planned), KAS_OK);
    int folded = 0;
    for (int i = 0; i < planned.passes; i++)
        folded += planned.pass[i].library && planned.pass[i].kernel &&
                  strcmp(planned.pass[i].what, "kernel forward with norm") == 0;
    print_message("%d of %d targets are folded\n", folded, EPILOGUES);
    assert_true(folded > 0);
    assert_int_equal(count_passes(&planned, "kernel forward with norm"), EPILOGUES);
    assert_int_equal(count_passes(&planned, "batch norm normalise"), NORMS - 1 - EPILOGUES);
    kas_planned_bytes_free(&planned);
    free_programs(programs);
    free_replaced(r);
}

/* A block's first layer and its shortcut read the same pixels, averaged over the stride: once. */
TEST(strides_are_pooled_once)
{
    replaced *r = make_replaced_in("resnet18", "kernels/conv.json", true);
    kas_model_options options = options_of(r);
    kas_planned_bytes planned;
    for (int training = 0; training < 2; training++) {
        options.training = training;
        kas_programs *programs = give_programs(&options, &r->replacement, "cuda");
        assert_int_equal(
            kas_planned_bytes_plan(&options, training ? KAS_TAPE_TRAIN : KAS_TAPE_INFER, &planned),
            KAS_OK);
        assert_int_equal(count_passes(&planned, "stride pool forward"), 3);
        assert_int_equal(count_passes(&planned, "stride pool backward"), training ? 6 : 0);
        kas_planned_bytes_free(&planned);
        free_programs(programs);
    }
    free_replaced(r);
}

/* A program for training has none: its layers' outputs are wanted as they are. */
TEST(training_keeps_its_passes)
{
    replaced *r = make_replaced("kernels/residual.json", true);
    kas_model_options options = options_of(r);
    kas_planned_bytes planned;
    options.training = true;
    kas_programs *programs = give_programs(&options, &r->replacement, "cuda");
    for (int mode = KAS_TAPE_TRAIN; mode <= KAS_TAPE_INFER; mode++) {
        assert_int_equal(kas_planned_bytes_plan(&options, (kas_tape_mode)mode, &planned), KAS_OK);
        assert_int_equal(count_passes(&planned, "kernel forward with norm"), 0);
        assert_int_equal(count_passes(&planned, "batch norm normalise"), NORMS);
        kas_planned_bytes_free(&planned);
    }
    free_programs(programs);
    free_replaced(r);
}

RUN_TESTS(open_device, close_device)

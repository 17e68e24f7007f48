/* Batch norms folded into the convolutions in front of them (model/fold.h): inference against the
 * same network in separate passes, and both against the float64 reference. */
#include "epilogues_net.h"
#include "model_fixture.h"

#include "host/device/cpu/device_cpu.h"
#include "support/passes.h"

/* A network, and a model of it that trains or not: what the former infers goes pass by pass. */
static pair make(const char *name, int side, int n, bool training)
{
    pair p = {.n = n};
    OK(kas_net_build(name, side, side, 3, 10, &p.net));
    const kas_model_options options = {
        .net = p.net, .batch = n, .training = training, .precision = the_precision};
    OK(kas_model_create(device, &options, &p.model));
    assert_int_equal(kas_ref_net_create(p.net, &p.ref), KAS_OK);
    const size_t size = (size_t)n * 3 * (size_t)side * (size_t)side;
    kas_rng rng = kas_rng_make(6, KAS_PURPOSE_TEST, 0);
    p.images = malloc(sizeof *p.images * size);
    assert_non_null(p.images);
    for (size_t i = 0; i < size; i++)
        p.images[i] = (float)kas_rng_normal(&rng);
    p.images64 = as_double(p.images, size);
    return p;
}

/* Statistics as training leaves them, the same on both sides. */
static void calibrate(pair *p)
{
    assert_int_equal(kas_ref_net_calibrate(p->ref, p->n, p->images64), KAS_OK);
    for (int i = 0; i < p->ref->params; i++) {
        kas_ref_param *param = &p->ref->param[i];
        float *values = malloc(sizeof *values * param->size);
        assert_non_null(values);
        if (kas_model_params(p->model)->param[i].kind == KAS_PARAM_STATISTIC) {
            for (size_t k = 0; k < param->size; k++)
                param->value[k] = values[k] = (float)param->value[k];
            assert_int_equal(kas_model_set(p->model, i, values), KAS_OK);
        }
        free(values);
    }
}

/* The error of the logits; `plan` is one of `mode`. */
static double error_of(pair *p, kas_tape_mode mode, kas_plan *plan)
{
    const size_t count = 10 * (size_t)p->n;
    const uint16_t labels[16] = {0};
    double *exact = malloc(sizeof *exact * count);
    float *logits = malloc(sizeof *logits * count);
    assert_true(exact && logits && p->n <= 16);
    assert_int_equal(
        kas_model_set_batch(p->model, mode, p->images, mode == KAS_TAPE_INFER ? NULL : labels),
        KAS_OK);
    assert_int_equal(kas_plan_run(plan), KAS_OK);
    assert_int_equal(kas_model_get_logits(p->model, mode, logits), KAS_OK);
    assert_int_equal(kas_ref_net_eval(p->ref, p->n, p->images64, exact), KAS_OK);
    const double error = relative(logits, exact, count);
    free(exact);
    free(logits);
    return error;
}

static double run(const char *name, int side, int n, kas_tape_mode mode, bool training)
{
    pair p = make(name, side, n, training);
    set_parameters(&p, 3);
    calibrate(&p);
    kas_plan *plan = record(&p, mode);
    const double error = error_of(&p, mode, plan);
    kas_plan_free(plan);
    free_pair(&p);
    return error;
}

/* `roundings` of the number are allowed: each layer rounds its weights, its output and, in separate
 * passes, what the convolution wrote; and depthwise layers over few pixels amplify what comes in.
 * Folding may be no worse than the passes but by chance: 0.7 to 1.6 times their error was seen, and
 * a library has other code for other processors. */
static void compare(const char *name, int side, int n, kas_tape_mode mode, double roundings)
{
    const kas_dtype dtype = kas_precision_dtype(the_precision);
    const double epsilon = number_epsilon(dtype);
    const double folded = run(name, side, n, mode, false), passes = run(name, side, n, mode, true);
    print_message("%.12s in %s: logits off by %.2f roundings of %.1e folded, %.2f in passes, at "
                  "most %.0f\n",
                  *name == '{' ? "epilogues" : name, kas_dtype_names[dtype], folded / epsilon,
                  epsilon, passes / epsilon, roundings);
    assert_true(folded <= roundings * epsilon);
    assert_true(folded <= 4 * (passes + epsilon));
}

TEST(networks_agree)
{
    compare("resnet20", 8, 3, KAS_TAPE_INFER, 50);
    compare("mobilenet_v2", 16, 4, KAS_TAPE_EVALUATE, 2000);
    compare("resnext29_2x64d:width=8", 8, 2, KAS_TAPE_INFER, 500);
    compare("densenet161:growth=12,first=24,n1=2,n2=2,n3=2,n4=2", 16, 4, KAS_TAPE_INFER, 200);
    compare(epilogues_net, 9, 3, KAS_TAPE_INFER, 20);
}

TEST(networks_agree_in_16_bits)
{
    for (int k = 0; k < 2; k++) {
        the_precision = k ? KAS_PRECISION_FP16 : KAS_PRECISION_BF16;
        compare("resnet20", 8, 3, KAS_TAPE_INFER, 10);
        compare("densenet161:growth=12,first=24,n1=2,n2=2,n3=2,n4=2", 16, 4, KAS_TAPE_INFER, 30);
        compare(epilogues_net, 9, 3, KAS_TAPE_EVALUATE, 10);
    }
    the_precision = KAS_PRECISION_FP32;
}

/* Parameters that change after the plan was recorded, one by one, all at once and from a file. */
TEST(new_parameters_are_folded)
{
    pair p = make("resnet20", 8, 2, false);
    kas_plan *plan = record(&p, KAS_TAPE_INFER);
    const size_t kept = kas_model_kept(p.model);
    void *first = malloc(kept);
    assert_non_null(first);
    set_parameters(&p, 3);
    calibrate(&p);
    assert_true(error_of(&p, KAS_TAPE_INFER, plan) <= 1e-5);
    assert_int_equal(kas_model_download(p.model, first), KAS_OK);
    char path[64];
    snprintf(path, sizeof path, "/tmp/kas_test_fold_%d.safetensors", (int)getpid());
    assert_int_equal(kas_model_save(p.model, path, NULL), KAS_OK);
    for (int way = 0; way < 2; way++) {
        assert_int_equal(kas_model_init(p.model, 5), KAS_OK);
        assert_true(error_of(&p, KAS_TAPE_INFER, plan) > 1e-2);
        assert_int_equal(
            way ? kas_model_load(p.model, path, false) : kas_model_upload(p.model, first), KAS_OK);
        assert_true(error_of(&p, KAS_TAPE_INFER, plan) <= 1e-5);
    }
    unlink(path);
    free(first);
    kas_plan_free(plan);
    free_pair(&p);
}

/* Without the library nothing is folded, and all is as it was. */
TEST(devices_without_it_go_pass_by_pass)
{
    if (kas_device_get_info(device)->kind != KAS_DEVICE_CPU)
        skip();
    assert_int_equal(kas_device_cpu_use_library(device, false), KAS_OK);
    compare("resnet20", 8, 2, KAS_TAPE_INFER, 50);
    compare(epilogues_net, 9, 2, KAS_TAPE_EVALUATE, 50);
    assert_int_equal(kas_device_cpu_use_library(device, true), KAS_OK);
}

/* ResNet-20's 19 batch norms go; the bytes are those of their passes, but for the residuals. */
TEST(passes_are_saved)
{
    kas_net *net;
    kas_planned_bytes planned[2];
    double saved = 0;
    assert_int_equal(kas_net_build("resnet20", 32, 32, 3, 10, &net), KAS_OK);
    for (int training = 0; training < 2; training++) {
        const kas_model_options options = {.net = net, .batch = 4, .training = training};
        assert_int_equal(kas_planned_bytes_plan(&options, KAS_TAPE_INFER, &planned[training]),
                         KAS_OK);
    }
    for (int i = 0; i < net->layers; i++)
        if (net->layer[i].op == KAS_LAYER_BATCH_NORM)
            saved += 2.0 * 4 * sizeof(float) * net->layer[i].h * net->layer[i].w * net->layer[i].c;
    const int norms = count_passes(&planned[1], "batch norm normalise");
    assert_true(norms >= 19);
    assert_int_equal(count_passes(&planned[0], "batch norm normalise"), 0);
    assert_int_equal(count_passes(&planned[0], "convolution forward with norm"), norms);
    assert_true(planned[1].bytes - planned[0].bytes == saved);
    assert_true(planned[0].floor_bytes == planned[1].floor_bytes);
    assert_true(planned[0].floor_bytes <= planned[0].bytes);
    print_message("%.0f bytes in passes, %.0f folded, floor %.0f\n", planned[1].bytes,
                  planned[0].bytes, planned[0].floor_bytes);
    for (int i = 0; i < 2; i++)
        kas_planned_bytes_free(&planned[i]);
    kas_net_free(net);
}

RUN_TESTS(open_device, close_device)

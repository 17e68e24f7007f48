/* Calibration: gains of kernels whose scale is far off, in networks with and without batch norms, on
 * the CPU device; the second calibration, with the gains in the programs, finds nothing to do. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/random.h"
#include "host/net/targets.h"
#include "host/score/calibrate.h"
#include "host/space/file/kernel_json.h"
#include "support/layers.h"

enum { BATCH = 4, SIDE = 8, IMAGE = 3 * SIDE * SIDE };

static kas_device *device;
static kas_dataset *data;

/* Images whose numbers are not standard normal: the gains depend on them. */
static int set_up(void **state)
{
    (void)state;
    kas_rng rng = kas_rng_make(1, KAS_PURPOSE_TEST, 0);
    if (kas_dataset_create(SIDE, SIDE, 3, 10, BATCH, 1, &data) != KAS_OK)
        return -1;
    for (int i = 0; i < BATCH * IMAGE; i++)
        data->train.pixels[i] = (uint8_t)kas_rng_below(&rng, 256);
    for (int c = 0; c < 3; c++) {
        data->mean[c] = 0.4f;
        data->std[c] = 0.5f;
    }
    const char *spec = getenv("DEVICE");
    return kas_device_open(spec ? spec : "cpu", 1, &device) == KAS_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    kas_dataset_close(data);
    kas_device_close(device);
    return 0;
}

/* A network with a kernel in place of its convolutions. */
typedef struct replaced {
    kas_net *net;
    kas_target *target;
    kas_replacement replacement;
} replaced;

/* Four convolutions without a batch norm, one of them with a stride and more channels, one with
 * fewer channels. */
static kas_net *plain_net(void)
{
    kas_net *net = NULL;
    kas_builder b;
    kas_builder_start(&b, "plain", SIDE, SIDE, 3, 10);
    int x = kas_builder_relu(&b, kas_builder_conv(&b, 0, "stem", 8, 3, 1), "relu0");
    x = kas_builder_relu(&b, kas_builder_conv(&b, x, "conv1", 8, 3, 1), "relu1");
    x = kas_builder_relu(&b, kas_builder_conv(&b, x, "conv2", 16, 3, 2), "relu2");
    x = kas_builder_relu(&b, kas_builder_conv(&b, x, "conv3", 8, 3, 1), "relu3");
    x = kas_builder_relu(&b, kas_builder_conv(&b, x, "conv4", 8, 3, 1), "relu4");
    kas_builder_linear(&b, kas_builder_global_avg_pool(&b, x, "pool"), "fc", 10);
    assert_int_equal(kas_builder_finish(&b, &net), KAS_OK);
    return net;
}

static kas_net *normed_net(void)
{
    kas_net *net = NULL;
    assert_int_equal(kas_net_build("resnet20", SIDE, SIDE, 3, 10, &net), KAS_OK);
    return net;
}

/* Takes over the network. */
static replaced replace(kas_net *net, const char *nodes)
{
    replaced r = {.net = net};
    char text[2048];
    const kas_budget budget = {0};
    kas_kernel kernel;
    int targets = 0;
    snprintf(text, sizeof text,
             "{\"format\":\"kas-gpu kernel\",\"version\":1,\"nodes\":[{\"op\":\"input\"},%s]}",
             nodes);
    OK(kas_kernel_read_json("test", text, strlen(text), &kernel));
    OK(kas_net_targets(net, NULL, &r.target, &targets));
    OK(kas_replacement_solve(&kernel, 1, NULL, r.target, targets, &budget, &r.replacement));
    return r;
}

static void free_replaced(replaced *r)
{
    kas_replacement_free(&r->replacement);
    free(r->target);
    kas_net_free(r->net);
}

/* Calibrates with the gains that the replacement has; *gain gets those to be multiplied to them,
 * without success NaN. The replacement keeps its own. */
static kas_calibration calibrate(const replaced *r, uint64_t seed, float *gain)
{
    const kas_model_options model = {.batch = BATCH};
    kas_programs programs;
    kas_replacement found = {.solution = {.targets = r->replacement.solution.targets}};
    kas_calibration out;
    OK(kas_model_build_programs(&model, &r->replacement, kas_device_get_info(device)->arch,
                                &programs));
    const kas_calibrate_options options = {
        .net = r->net, .programs = &programs, .dataset = data, .count = BATCH, .seed = seed};
    OK(kas_calibrate(device, &options, &found, &out));
    for (int t = 0; t < found.solution.targets; t++)
        gain[t] = found.gain ? found.gain[t] : NAN;
    free(found.gain);
    kas_programs_free(&programs);
    return out;
}

#define FC "{\"op\":\"fc\",\"in\":[0],\"out\":\"C\"}"
#define CONV                                                                                       \
    "{\"op\":\"unfold\",\"in\":[0],\"axes\":\"hw\"},{\"op\":\"fc\",\"in\":[1],\"out\":\"C\"}"
/* exp(4 fc(x)) */
#define TOWER                                                                                      \
    FC ",{\"op\":\"exp\",\"in\":[1]},{\"op\":\"square\",\"in\":[2]},{\"op\":\"square\",\"in\":[3]" \
       "}"
/* The square of the sum of squares */
#define SQUARES                                                                                    \
    FC ",{\"op\":\"square\",\"in\":[1]},{\"op\":\"add\",\"in\":[2,2]},{\"op\":\"add\",\"in\":[3,"  \
       "3]}"                                                                                       \
       ",{\"op\":\"square\",\"in\":[4]}"
/* x times the fourth power of its mean over all pixels, then a convolution, whose library writes the
 * output */
#define MEANS                                                                                      \
    "{\"op\":\"fold_avg\",\"in\":[0],\"dim\":1},{\"op\":\"fold_avg\",\"in\":[1],\"dim\":1},"       \
    "{\"op\":\"square\",\"in\":[2]},{\"op\":\"square\",\"in\":[3]},"                               \
    "{\"op\":\"mul\",\"in\":[4,0]},{\"op\":\"unfold\",\"in\":[5],\"axes\":\"hw\"},"                \
    "{\"op\":\"fc\",\"in\":[6],\"out\":\"C\"}"

static int scaled(const float *gain, int count)
{
    int n = 0;
    for (int t = 0; t < count; t++)
        n += gain[t] != 1;
    return n;
}

/* Calibrates, puts the gains into the programs, and calibrates again: the deviations are then within
 * the limits, and are those of before times the gains. */
static void settle(kas_net *net, const char *what, const char *nodes, double low, double high,
                   int least_scaled)
{
    replaced r = replace(net, nodes);
    const int targets = r.replacement.solution.targets;
    float gain[64], again[64];
    const kas_calibration before = calibrate(&r, 1, gain);
    assert_int_equal(before.result, KAS_CALIBRATE_OK);
    for (int t = 0; t < targets; t++) {
        int exponent;
        assert_true(frexpf(gain[t], &exponent) == 0.5f); /* a power of two */
    }
    assert_int_equal(kas_replacement_set_gains(&r.replacement, gain), KAS_OK);
    const kas_calibration after = calibrate(&r, 1, again);
    assert_int_equal(after.result, KAS_CALIBRATE_OK);
    print_message("%s in %s: %d of %d gains; deviations %.3g to %.3g before, %.3g to %.3g after, "
                  "allowed %.3g to %.3g\n",
                  what, r.net->name, scaled(gain, targets), targets, before.std_min, before.std_max,
                  after.std_min, after.std_max, low, high);
    assert_true(scaled(gain, targets) >= least_scaled);
    assert_int_equal(scaled(again, targets), 0);
    assert_true(after.std_min >= low && after.std_max <= high);
    free_replaced(&r);
}

TEST(scales_far_off)
{
    const double root = sqrt(2) * (1 + 1e-12); /* the nearest power of two */
    settle(normed_net(), "a tower of exponentials", TOWER, KAS_CALIBRATE_LOW, KAS_CALIBRATE_HIGH,
           10);
    settle(normed_net(), "squares", SQUARES, KAS_CALIBRATE_LOW, KAS_CALIBRATE_HIGH, 10);
    settle(normed_net(), "means", MEANS, KAS_CALIBRATE_LOW, KAS_CALIBRATE_HIGH, 5);
    settle(plain_net(), "a tower of exponentials", TOWER, 1 / root, root, 4);
    settle(plain_net(), "squares", SQUARES, 1 / root, root, 4);
    settle(plain_net(), "means", MEANS, 1 / root, root, 3);
}

/* Behind a batch norm's worth of difference nothing changes: no gain, and so the bits of before. */
TEST(usual_scales_stay)
{
    settle(normed_net(), "a map", FC, KAS_CALIBRATE_LOW, KAS_CALIBRATE_HIGH, 0);
    replaced r = replace(normed_net(), CONV);
    float gain[64];
    assert_int_equal(calibrate(&r, 1, gain).result, KAS_CALIBRATE_OK);
    assert_int_equal(scaled(gain, r.replacement.solution.targets), 0);
    free_replaced(&r);
}

/* The gain of a layer is found behind the calibrated ones before it: those of a network whose first
 * kernel blows up must not make up for it in the second. */
TEST(layer_by_layer)
{
    replaced r = replace(plain_net(), SQUARES);
    float gain[64], wide[64];
    calibrate(&r, 1, gain);
    for (int c = 0; c < 3; c++)
        data->std[c] *= 4;
    calibrate(&r, 1, wide);
    for (int c = 0; c < 3; c++)
        data->std[c] /= 4;
    /* The kernel is of degree 4: the first gain makes up for all of it. */
    assert_true(wide[0] == gain[0] * 0x1p8f);
    for (int t = 1; t < r.replacement.solution.targets; t++)
        assert_true(wide[t] == gain[t]);
    free_replaced(&r);
}

TEST(the_seed_decides)
{
    replaced r = replace(plain_net(), SQUARES);
    float gain[64];
    const kas_calibration a = calibrate(&r, 7, gain), b = calibrate(&r, 7, gain),
                          c = calibrate(&r, 8, gain);
    assert_true(a.std_min == b.std_min && a.std_max == b.std_max);
    assert_true(a.std_min != c.std_min);
    free_replaced(&r);
}

static void useless(const char *nodes, kas_calibrated result, const char *words)
{
    replaced r = replace(normed_net(), nodes);
    float gain[64];
    char reason[256];
    const kas_calibration found = calibrate(&r, 1, gain);
    kas_calibration_reason(&found, reason, sizeof reason);
    assert_int_equal(found.result, result);
    assert_string_equal(found.layer, r.target[0].name);
    if (!strstr(reason, words) || !strstr(reason, found.layer))
        fail_msg("%s", reason);
    free_replaced(&r);
}

/* What cancels is constant, and so is what only rounding tells apart, or what differs between
 * channels alone: the sum of a softmax over the image times a factor for each channel. */
TEST(what_no_gain_can_help)
{
    useless(FC ",{\"op\":\"sub\",\"in\":[1,1]}", KAS_CALIBRATE_SAME, "constant");
    useless(FC
            ",{\"op\":\"softmax\",\"in\":[1],\"dim\":1,\"dim_end\":3},"
            "{\"op\":\"fold_avg\",\"in\":[2],\"dim\":1},{\"op\":\"fold_avg\",\"in\":[3],\"dim\":1},"
            "{\"op\":\"fc\",\"in\":[4],\"out\":\"C\"},{\"op\":\"sub\",\"in\":[0,0]},"
            "{\"op\":\"add\",\"in\":[5,6]}",
            KAS_CALIBRATE_SAME, "does not depend on the image");
    useless(FC ",{\"op\":\"exp\",\"in\":[1]},{\"op\":\"mul\",\"in\":[2,2]},{\"op\":\"mul\",\"in\":"
               "[3,3]},{\"op\":\"mul\",\"in\":[4,4]},{\"op\":\"mul\",\"in\":[5,5]},{\"op\":\"mul\","
               "\"in\":[6,6]},{\"op\":\"mul\",\"in\":[7,7]},{\"op\":\"mul\",\"in\":[8,8]}",
            KAS_CALIBRATE_NOT_FINITE, "not finite");
}

TEST(images_are_spread_over_the_set)
{
    enum { COUNT = 20, SIZE = 2 * 3 * 2 };
    kas_dataset *d;
    uint32_t index[COUNT / 2];
    float *found;
    assert_int_equal(kas_dataset_create(2, 3, 2, 2, COUNT, 1, &d), KAS_OK);
    for (int i = 0; i < COUNT * SIZE; i++)
        d->train.pixels[i] = (uint8_t)(i % 251);
    d->mean[1] = 0.25f;
    d->std[1] = 0.5f;
    for (uint32_t i = 0; i < COUNT / 2; i++)
        index[i] = 2 * i + 1;
    assert_int_equal(kas_calibration_images(d, index, COUNT / 2, 5, &found), KAS_OK);
    for (int n = 0; n < 5; n++)
        for (int c = 0; c < 2; c++)
            for (int p = 0; p < 6; p++) {
                const uint8_t pixel = d->train.pixels[(int)index[2 * n] * SIZE + p * 2 + c];
                const float expected = ((float)pixel / 255 - d->mean[c]) / d->std[c];
                assert_true(found[(n * 2 + c) * 6 + p] == expected);
            }
    free(found);
    kas_dataset_close(d);
}

RUN_TESTS(set_up, tear_down)

/* Training on images that are not on the device: every bit is that of a run whose images are, also
 * after a stop in the middle of an epoch. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/core/file/files.h"
#include "host/core/log.h"
#include "host/core/random.h"
#include "host/data/order.h"
#include "host/model/safetensors.h"
#include "host/score/correct.h"
#include "host/train/feed.h"
#include "host/train/train.h"
#include "support/folder.h"

enum { SIZE = 8, CLASSES = 4, TRAIN = 90, TEST = 21, EPOCHS = 2, BATCH = 8, STEPS = TRAIN / BATCH };

static kas_device *device;
static kas_dataset *whole, *streamed;
static kas_net *net;

static void fill(kas_images *images, uint64_t stream)
{
    kas_rng rng = kas_rng_make(7, KAS_PURPOSE_TEST, stream);
    for (uint32_t i = 0; i < images->count; i++) {
        images->labels[i] = (uint16_t)(i % CLASSES);
        for (uint32_t k = 0; k < SIZE * SIZE * 3; k++)
            images->pixels[i * SIZE * SIZE * 3 + k] =
                (uint8_t)(kas_rng_below(&rng, 150) + (k / 24 % CLASSES == i % CLASSES) * 100);
    }
}

static int set_up(void **state)
{
    const char *spec = getenv("DEVICE");
    kas_log_set_level(KAS_LOG_WARN);
    if (make_folder(state) != 0 || kas_dataset_create(SIZE, SIZE, 3, CLASSES, TRAIN, TEST, &whole))
        return -1;
    fill(&whole->train, 1);
    fill(&whole->test, 2);
    kas_dataset_finish(whole);
    return kas_dataset_write(in_folder("f.h5"), whole) == KAS_OK &&
                   kas_dataset_open_streamed(in_folder("f.h5"), &streamed) == KAS_OK &&
                   kas_net_build("resnet20", SIZE, SIZE, 3, CLASSES, &net) == KAS_OK &&
                   kas_device_open(spec ? spec : "cpu", 1, &device) == KAS_OK
               ? 0
               : -1;
}

static int tear_down(void **state)
{
    kas_net_free(net);
    kas_dataset_close(whole);
    kas_dataset_close(streamed);
    kas_device_close(device);
    return remove_folder(state);
}

static kas_train_options options_of(const kas_dataset *data)
{
    kas_train_options o = {.net = net,
                           .dataset = data,
                           .recipe = kas_recipe_default(),
                           .seed = 11,
                           .train_count = data->train.count,
                           .evaluate_test = true};
    o.recipe.epochs = EPOCHS;
    o.recipe.batch = BATCH;
    o.recipe.crop_pad = 1;
    o.recipe.mixup = o.recipe.cutmix = 0.5; /* mixes within a batch: streaming must not show */
    return o;
}

static bool same_file(const char *a, const char *b)
{
    kas_buf x = {0}, y = {0};
    OK(kas_file_read(a, 1 << 28, &x));
    OK(kas_file_read(b, 1 << 28, &y));
    bool same = x.size == y.size && memcmp(x.data, y.data, x.size) == 0;
    kas_buf_free(&x);
    kas_buf_free(&y);
    return same;
}

/* The stand-in for the GPU is slow: one case of each kind has to do there. */
static bool on_cuda(void)
{
    return kas_device_get_info(device)->kind == KAS_DEVICE_CUDA;
}

/* The result must be that of `want`, whose weights lie in the file "want". */
static void expect(kas_train_options *o, const kas_train_result *want)
{
    kas_train_result got;
    o->weights_out = in_folder("got");
    OK(kas_train(device, o, &got));
    assert_int_equal(got.state, KAS_TRAINED);
    for (int e = 0; e < EPOCHS; e++)
        assert_true(got.epoch[e].train_loss == want->epoch[e].train_loss);
    assert_true(got.accuracy == want->accuracy);
    assert_string_equal(got.correct, want->correct);
    assert_true(got.epoch[EPOCHS - 1].validation_loss == want->epoch[EPOCHS - 1].validation_loss);
    assert_true(same_file(in_folder("want"), in_folder("got")));
    kas_train_result_free(&got);
}

TEST(bits_are_those_of_a_resident_run)
{
    uint32_t train_index[70], validation_index[13];
    for (uint32_t i = 0; i < 70; i++)
        train_index[i] = i + i / 4;
    for (uint32_t i = 0; i < 13; i++)
        validation_index[i] = 5 * i + 4;
    for (int shuffle = on_cuda(); shuffle <= KAS_SHUFFLE_WINDOW; shuffle++)
        for (int test = 0; test < (on_cuda() ? 1 : 2); test++) {
            kas_train_options o = options_of(whole);
            kas_train_result want;
            o.recipe.shuffle = shuffle;
            o.recipe.cutout = shuffle ? 3 : 0; /* every augmentation looks at its own batch only */
            o.recipe.erase = shuffle ? 0.5 : 0;
            o.recipe.mixup = shuffle ? 0.4 : 0;
            o.recipe.cutmix = test ? 0.7 : 0;
            o.evaluate_test = test;
            if (!test)
                o.train_index = train_index, o.train_count = 70,
                o.validation_index = validation_index, o.validation_count = 13;
            o.weights_out = in_folder("want");
            OK(kas_train(device, &o, &want));
            o.stream = true; /* from memory */
            expect(&o, &want);
            o.dataset = streamed;
            o.read_threads = 3;
            expect(&o, &want);
            kas_train_result_free(&want);
        }
}

/* Images that confirm are seen once, at the end, and change nothing: the run is that of one without
 * them, and its share of them that of a run which validates on them. A run that begins behind its
 * last epoch says the same. */
TEST(images_that_confirm)
{
    uint32_t index[22];
    for (uint32_t i = 0; i < 22; i++)
        index[i] = 89 - 3 * i;
    kas_train_options o = options_of(whole);
    kas_train_result want, other;
    o.evaluate_test = false;
    o.train_count = 20;
    o.validation_index = index;
    o.validation_count = 13;
    o.weights_out = in_folder("other");
    OK(kas_train(device, &o, &want));
    assert_true(kas_correct_share(want.correct, KAS_SELECTING) == want.accuracy);
    assert_true(isnan(kas_correct_share(want.correct, KAS_CONFIRMING)));
    o.validation_index = index + 13;
    o.validation_count = 9;
    OK(kas_train(device, &o, &other));
    o.validation_index = index;
    o.validation_count = 13;
    o.confirm_count = 9;
    o.weights_out = in_folder("want");
    char *const selecting = want.correct;
    want.correct = NULL;
    for (int i = 0; i < (on_cuda() ? 1 : 4); i++) { /* the last one resumes behind the end */
        o.dataset = i == 1 ? streamed : whole;
        o.checkpoint = i > 1 ? in_folder("end.ckpt") : NULL;
        if (i == 0) {
            kas_train_result first;
            OK(kas_train(device, &o, &first));
            want.correct = strdup(first.correct);
            kas_train_result_free(&first);
        }
        expect(&o, &want);
    }
    assert_true(strncmp(want.correct, selecting, strlen(selecting)) == 0);
    assert_true(kas_correct_share(want.correct, KAS_CONFIRMING) == other.accuracy);
    free(selecting);
    kas_train_result_free(&want);
    kas_train_result_free(&other);
}

static kas_verdict stop_at(void *context, uint64_t step, uint64_t steps, double loss)
{
    (void)steps, (void)loss;
    return step >= *(const uint64_t *)context ? KAS_STOP : KAS_CONTINUE;
}

/* The first part resident, the second streamed, and the other way round. */
TEST(a_stop_in_an_epoch_is_not_seen)
{
    const uint64_t stops[] = {1, STEPS / 2, STEPS, STEPS + 3};
    kas_train_options o = options_of(whole);
    kas_train_result want, part;
    o.weights_out = in_folder("want");
    OK(kas_train(device, &o, &want));
    /* A GPU is asked between epochs only when they are this short. */
    for (int i = on_cuda() ? 5 : 0; i < (on_cuda() ? 6 : 8); i++) {
        uint64_t stop = stops[i / 2];
        o = options_of(i % 2 ? whole : streamed);
        o.checkpoint = in_folder("run.ckpt");
        o.on_progress = stop_at;
        o.context = &stop;
        unlink(o.checkpoint);
        OK(kas_train(device, &o, &part));
        assert_int_equal(part.state, KAS_STOPPED);
        kas_train_result_free(&part);
        o.dataset = i % 2 ? streamed : whole;
        o.on_progress = NULL;
        expect(&o, &want);
    }
    kas_train_result_free(&want);
}

/* A chunk of an evaluation is reported with NaN for the loss. */
static kas_verdict stop_in_evaluation(void *context, uint64_t step, uint64_t steps, double loss)
{
    (void)step, (void)steps;
    return isnan(loss) && --*(int *)context == 0 ? KAS_STOP : KAS_CONTINUE;
}

/* Behind every chunk but the last: of the epochs, and of the images that confirm. No step is repeated. */
TEST(a_stop_in_an_evaluation_is_not_seen)
{
    enum { HELD_OUT = 2 * BATCH + 3 };
    uint32_t index[2 * HELD_OUT];
    for (uint32_t i = 0; i < 2 * HELD_OUT; i++)
        index[i] = i;
    kas_train_options o = options_of(whole);
    kas_train_result want, part;
    int reports = 0;
    o.evaluate_test = false;
    o.validation_index = index;
    o.validation_count = o.confirm_count = HELD_OUT;
    o.weights_out = in_folder("want");
    o.on_progress = stop_in_evaluation;
    o.context = &reports;
    OK(kas_train(device, &o, &want));
    const int chunks = -reports;
    assert_int_equal(chunks, on_cuda() ? EPOCHS + 1 : 3 * (EPOCHS + 1));
    for (int stop = on_cuda() ? chunks - 1 : 1; stop < chunks; stop++) {
        int left = stop;
        o.checkpoint = in_folder("run.ckpt");
        unlink(o.checkpoint);
        o.dataset = stop % 2 ? whole : streamed;
        o.context = &left;
        o.weights_out = in_folder("none");
        OK(kas_train(device, &o, &part));
        assert_int_equal(part.state, KAS_STOPPED);
        assert_false(kas_file_exists(o.weights_out));
        kas_train_result_free(&part);
        o.dataset = stop % 2 ? streamed : whole;
        expect(&o, &want);
    }
    kas_train_result_free(&want);
}

/* Logits that are finite, with a slope that overflows float16 at any loss scale: nothing is learnt. */
TEST(a_run_of_skipped_steps_has_diverged)
{
    kas_train_options o = options_of(whole);
    kas_train_result r;
    kas_safetensors file;
    o.recipe.epochs = 1;
    o.weights_out = in_folder("steep");
    OK(kas_train(device, &o, &r));
    assert_true(r.skipped == 0 && r.scale == 1);
    kas_train_result_free(&r);
    OK(kas_safetensors_read(o.weights_out, 1 << 28, &file));
    const kas_named_tensor *fc = kas_safetensors_find(&file, "fc.weight");
    char *values = file.file.data + ((const char *)fc->data - file.file.data);
    for (uint64_t i = 0; i < kas_named_tensor_elements(fc); i++) {
        const float steep = 1e12F * (float)kas_named_tensor_get(fc, i);
        memcpy(values + i * sizeof steep, &steep, sizeof steep);
    }
    OK(kas_file_write_atomic(o.weights_out, file.file.data, file.file.size));
    kas_safetensors_free(&file);
    o.weights_in = o.weights_out;
    o.weights_out = in_folder("none");
    o.recipe.precision = KAS_PRECISION_FP16;
    o.recipe.epochs = 4;
    OK(kas_train(device, &o, &r));
    assert_int_equal(r.state, KAS_DIVERGED);
    assert_non_null(strstr(r.not_finite, "least loss scale"));
    assert_int_equal(r.skipped, 4 * STEPS);
    assert_false(kas_file_exists(o.weights_out));
    kas_train_result_free(&r);
}

TEST(a_small_device_streams)
{
    kas_train_options o = options_of(whole);
    kas_memory_plan resident, in_ring;
    OK(kas_train_plan_memory(&o, &resident));
    o.stream = true;
    OK(kas_train_plan_memory(&o, &in_ring));
    size_t images = (TRAIN + TEST - KAS_STREAM_RING * BATCH) * SIZE * SIZE * 3;
    assert_in_range(resident.total - in_ring.total, images - 2048, images + 2048);
    o.dataset = streamed;
    o.stream = false;
    OK(kas_train_plan_memory(&o, &resident));
    assert_int_equal(resident.total, in_ring.total);
}

/* Beside a network that fills the device there is room for the ring at most. */
TEST(images_beside_a_large_network_are_streamed)
{
    const size_t memory = kas_device_get_info(device)->memory;
    const kas_train_options o = options_of(whole);
    for (int tenths = 8; tenths <= 10; tenths++) {
        kas_feed feed;
        OK(kas_feed_create(device, &o, memory / 10 * (size_t)tenths, &feed));
        assert_int_equal(feed.stream != NULL, tenths > 8);
        kas_feed_free(&feed);
    }
}

RUN_TESTS(set_up, tear_down)

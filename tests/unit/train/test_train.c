/* The training loop: it learns, repeats itself bit by bit, resumes exactly, and refuses what does
 * not fit.  Small procedural images, so that a run takes a fraction of a second. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/core/file/files.h"
#include "host/core/log.h"
#include "host/core/random.h"
#include "host/model/model.h"
#include "host/train/checkpoint.h"
#include "host/train/digest.h"
#include "host/train/feed.h"
#include "host/train/train.h"
#include "support/folder.h"

enum { SIZE = 8, CLASSES = 4, TRAIN = 96, TEST = 40, EPOCHS = 4, BATCH = 16 };

static kas_device *device;
static kas_dataset data;
static kas_net *net;

/* A bright bar whose direction is the class: needs space to tell, but little of it. */
static void draw(uint8_t *pixels, int label, kas_rng *rng)
{
    int at = 1 + (int)kas_rng_below(rng, SIZE - 2);
    for (int y = 0; y < SIZE; y++)
        for (int x = 0; x < SIZE; x++) {
            bool on = label == 0   ? y == at
                      : label == 1 ? x == at
                      : label == 2 ? (x + y) % SIZE == at
                                   : (x - y + SIZE) % SIZE == at;
            for (int c = 0; c < 3; c++)
                pixels[(y * SIZE + x) * 3 + c] =
                    (uint8_t)((on ? 180 : 40) + (int)kas_rng_below(rng, 40));
        }
}

static void make_images(kas_images *images, uint32_t count, uint64_t stream)
{
    kas_rng rng = kas_rng_make(7, KAS_PURPOSE_TEST, stream);
    images->count = count;
    images->pixels = malloc((size_t)count * SIZE * SIZE * 3);
    images->labels = malloc(sizeof *images->labels * count);
    assert_true(images->pixels && images->labels);
    for (uint32_t i = 0; i < count; i++) {
        images->labels[i] = (uint16_t)(i % CLASSES);
        draw(images->pixels + (size_t)i * SIZE * SIZE * 3, (int)(i % CLASSES), &rng);
    }
}

static int setup(void **state)
{
    const char *spec = getenv("DEVICE");
    kas_log_set_level(KAS_LOG_WARN);
    data = (kas_dataset){.path = "bars",
                         .h = SIZE,
                         .w = SIZE,
                         .c = 3,
                         .classes = CLASSES,
                         .mean = {0.25f, 0.25f, 0.25f},
                         .std = {0.2f, 0.2f, 0.2f},
                         .digest = "bars"};
    make_images(&data.train, TRAIN, 1);
    make_images(&data.test, TEST, 2);
    return make_folder(state) == 0 &&
                   kas_net_build("resnet20", SIZE, SIZE, 3, CLASSES, &net) == KAS_OK &&
                   kas_device_open(spec ? spec : "cpu", 1, &device) == KAS_OK
               ? 0
               : -1;
}

static int teardown(void **state)
{
    kas_net_free(net);
    free(data.train.pixels);
    free(data.train.labels);
    free(data.test.pixels);
    free(data.test.labels);
    kas_device_close(device);
    return remove_folder(state);
}

static kas_train_options base_options(void)
{
    kas_train_options o = {.net = net,
                           .dataset = &data,
                           .recipe = kas_recipe_default(),
                           .seed = 11,
                           .train_count = TRAIN,
                           .evaluate_test = true};
    o.recipe.epochs = EPOCHS;
    o.recipe.batch = BATCH;
    o.recipe.lr = 0.05;
    o.recipe.crop_pad = 1;
    return o;
}

static void train(const kas_train_options *options, kas_train_result *result)
{
    OK(kas_train(device, options, result));
}

static kas_buf whole(const char *path)
{
    kas_buf b = {0};
    assert_int_equal(kas_file_read(path, 1 << 28, &b), KAS_OK);
    return b;
}

static bool same_file(const char *a, const char *b)
{
    kas_buf x = whole(a), y = whole(b);
    bool same = x.size == y.size && memcmp(x.data, y.data, x.size) == 0;
    kas_buf_free(&x);
    kas_buf_free(&y);
    return same;
}

TEST(it_learns)
{
    kas_train_options o = base_options();
    kas_train_result r;
    o.recipe.epochs = 12;
    o.recipe.flip = false; /* a flip turns one diagonal into the other */
    train(&o, &r);
    assert_int_equal(r.state, KAS_TRAINED);
    assert_int_equal(r.epochs, 12);
    print_message("test accuracy after 12 epochs: %.3f, at least 0.8 expected (chance 0.25)\n",
                  r.accuracy);
    assert_true(r.accuracy >= 0.8);
    assert_true(r.accuracy == r.epoch[11].validation_accuracy);
    assert_true(r.epoch[11].train_loss < r.epoch[0].train_loss);
    assert_true(r.step_seconds > 0 && r.memory > 0);
    kas_memory_plan planned;
    assert_int_equal(kas_train_plan_memory(&o, &planned), KAS_OK);
    assert_int_equal(planned.total, r.memory);
    kas_train_result_free(&r);
}

TEST(adamw_learns)
{
    kas_train_options o = base_options();
    kas_train_result r;
    o.recipe.epochs = 12;
    o.recipe.flip = false;
    o.recipe.optimiser = KAS_ADAMW;
    o.recipe.lr = 0.01;
    o.recipe.ema = 0.9;
    train(&o, &r);
    print_message("AdamW: test accuracy after 12 epochs: %.3f, at least 0.8 expected\n",
                  r.accuracy);
    assert_true(r.state == KAS_TRAINED && r.accuracy >= 0.8);
    kas_memory_plan planned;
    assert_int_equal(kas_train_plan_memory(&o, &planned), KAS_OK);
    assert_int_equal(planned.total, r.memory);
    kas_train_result_free(&r);
}

TEST(the_seed_decides_every_bit)
{
    kas_train_options o = base_options();
    kas_train_result r;
    static const char *const names[] = {"a", "b", "c"};
    o.recipe.epochs = 2;
    for (int i = 0; i < 3; i++) {
        o.seed = i < 2 ? 11 : 12;
        o.weights_out = in_folder(names[i]);
        train(&o, &r);
        kas_train_result_free(&r);
    }
    assert_true(same_file(in_folder("a"), in_folder("b")));
    assert_false(same_file(in_folder("a"), in_folder("c")));
}

/* Stops where `stop_epoch` or `stop_step` says. */
typedef struct observer {
    int stop_epoch; /* -1: never */
    uint64_t stop_step;
    kas_verdict verdict;
    int epochs;
} observer;

static kas_verdict on_epoch(void *context, const kas_epoch *epoch)
{
    observer *o = context;
    o->epochs++;
    return epoch->epoch == o->stop_epoch ? o->verdict : KAS_CONTINUE;
}

static kas_verdict on_progress(void *context, uint64_t step, uint64_t steps, double loss)
{
    observer *o = context;
    assert_true(step >= 1 && step <= steps && !isinf(loss)); /* NaN: of an evaluation */
    return o->stop_step && step >= o->stop_step ? o->verdict : KAS_CONTINUE;
}

static kas_train_state observed(kas_train_options *o, observer *watch, kas_train_result *r)
{
    o->on_epoch = on_epoch;
    o->on_progress = on_progress;
    o->context = watch;
    train(o, r);
    return r->state;
}

static void resume_has_the_same_bits(const kas_train_options *options)
{
    static const struct {
        int stop_epoch;
        uint64_t stop_step;
        int until;
    } stops[] = {{1, 0, 0}, {-1, 9, 0}, {-1, 6, 0}, {0, 0, 0}, {-1, 0, 2}}; /* 6 steps an epoch */
    kas_train_options o = *options;
    kas_train_result straight, stopped, resumed;
    o.weights_out = in_folder("straight");
    train(&o, &straight);
    for (size_t i = 0; i < sizeof stops / sizeof *stops; i++) {
        observer watch = {stops[i].stop_epoch, stops[i].stop_step, KAS_STOP, 0};
        observer never = {-1, 0, KAS_CONTINUE, 0};
        o.weights_out = in_folder("resumed");
        o.checkpoint = in_folder("run.ckpt");
        unlink(o.checkpoint);
        unlink(o.weights_out);
        o.until = stops[i].until;
        const kas_train_state expected = o.until ? KAS_PAUSED : KAS_STOPPED;
        assert_int_equal(observed(&o, &watch, &stopped), expected);
        assert_true(o.until ? stopped.epochs == o.until : stopped.epochs < EPOCHS);
        assert_int_equal(watch.epochs, stopped.epochs);
        kas_train_result_free(&stopped); /* who has been there does nothing again */
        assert_int_equal(o.until ? observed(&o, &watch, &stopped) : expected, expected);
        assert_true(!o.until || watch.epochs == o.until);
        o.until = 0;
        assert_false(kas_file_exists(o.weights_out));
        assert_int_equal(observed(&o, &never, &resumed), KAS_TRAINED);
        assert_int_equal(never.epochs, EPOCHS - stopped.epochs);
        assert_true(same_file(in_folder("straight"), o.weights_out));
        for (int e = 0; e < EPOCHS; e++) {
            assert_true(resumed.epoch[e].train_loss == straight.epoch[e].train_loss);
            assert_true(resumed.epoch[e].train_accuracy == straight.epoch[e].train_accuracy);
            /* the test set is looked at once, after the last epoch */
            bool scored = e == EPOCHS - 1;
            assert_true(scored == !isnan(straight.epoch[e].validation_loss));
            assert_true(scored == !isnan(straight.epoch[e].validation_accuracy));
            assert_true(scored == !isnan(resumed.epoch[e].validation_loss));
            assert_true(!scored ||
                        resumed.epoch[e].validation_loss == straight.epoch[e].validation_loss);
        }
        kas_train_result_free(&stopped);
        kas_train_result_free(&resumed);
    }
    kas_train_result_free(&straight);
}

/* Whatever a step leaves for the next must come back: moments, averages, running statistics. */
TEST(a_resumed_run_has_the_same_bits)
{
    kas_train_options o = base_options();
    resume_has_the_same_bits(&o);
    o.recipe.optimiser = KAS_ADAMW;
    o.recipe.lr = 0.005;
    o.recipe.ema = 0.8;
    o.recipe.clip = 1;
    o.recipe.cutout = 2;
    o.recipe.erase = 0.3;
    o.recipe.mixup = 0.4;
    o.recipe.cutmix = 1;
    resume_has_the_same_bits(&o);
}

/* Loss of a file's weights on the images that `o` evaluates on, by the passes of a model that
 * trains: one that does not folds batch norms into convolutions, which rounds otherwise. */
static double evaluate_file(const kas_train_options *o, const char *path)
{
    kas_feed feed;
    kas_model *model;
    kas_plan *plan;
    kas_metrics metrics = {0};
    kas_model_options options = {.net = net, .batch = o->recipe.batch, .training = true};
    assert_int_equal(kas_feed_create(device, o, 0, &feed), KAS_OK);
    assert_int_equal(kas_model_create(device, &options, &model), KAS_OK);
    assert_int_equal(kas_model_load(model, path, false), KAS_OK);
    kas_step_options step = {.mode = KAS_TAPE_EVALUATE, .images = &feed.evaluation[0]};
    assert_int_equal(kas_model_record(model, &step, &plan), KAS_OK);
    assert_int_equal(kas_model_set_state(model, (kas_step_state){0}), KAS_OK);
    assert_int_equal(kas_model_set_metrics(model, &metrics), KAS_OK);
    for (uint32_t at = 0; at < feed.evaluation_count[0]; at += (uint32_t)o->recipe.batch)
        assert_int_equal(kas_plan_run(plan), KAS_OK);
    assert_int_equal(kas_model_get_metrics(model, &metrics), KAS_OK);
    assert_int_equal(metrics.counted, feed.evaluation_count[0]);
    kas_plan_free(plan);
    kas_model_free(model);
    kas_feed_free(&feed);
    return metrics.loss_sum / (double)metrics.counted;
}

/* The average is what is evaluated and what is saved, running statistics included, and it is not
 * what was trained. */
TEST(the_average_is_evaluated_and_saved)
{
    kas_train_options o = base_options();
    kas_train_result plain, averaged;
    o.weights_out = in_folder("plain");
    train(&o, &plain);
    o.recipe.ema = 0.9;
    o.weights_out = in_folder("averaged");
    train(&o, &averaged);
    const kas_epoch *last = &averaged.epoch[EPOCHS - 1];
    assert_true(last->train_loss == plain.epoch[EPOCHS - 1].train_loss);
    assert_true(last->validation_loss != plain.epoch[EPOCHS - 1].validation_loss);
    assert_false(same_file(in_folder("plain"), o.weights_out));
    assert_true(evaluate_file(&o, o.weights_out) == last->validation_loss);
    kas_train_result_free(&plain);
    kas_train_result_free(&averaged);
}

static void refused(const kas_train_options *o, const char *complaint)
{
    kas_train_result r;
    assert_int_equal(kas_train(device, o, &r), KAS_BAD_INPUT);
    if (!strstr(kas_error(), complaint))
        fail_msg("expected \"%s\" in: %s", complaint, kas_error());
    assert_null(r.epoch);
}

TEST(wrong_checkpoints_are_refused)
{
    kas_train_options o = base_options();
    kas_train_result r;
    o.recipe.epochs = 1;
    o.checkpoint = in_folder("wrong.ckpt");
    train(&o, &r);
    kas_train_result_free(&r);
    kas_train_options other = o;
    other.seed++;
    refused(&other, "another network, kernel, data set");
    other = o;
    other.recipe.lr *= 2;
    refused(&other, "recipe");
    kas_dataset scaled = *o.dataset; /* the same images, and so the same digest */
    other = o;
    other.dataset = &scaled;
    scaled.std[0] *= 1.5F;
    refused(&other, "data set");
    kas_buf file = whole(o.checkpoint);
    for (size_t at = 0; at < file.size; at += file.size / 9) {
        file.data[at] ^= 1;
        assert_int_equal(kas_file_write_atomic(o.checkpoint, file.data, file.size), KAS_OK);
        refused(&o, at < 8 ? "not a checkpoint" : "damaged");
        file.data[at] ^= 1;
    }
    assert_int_equal(kas_file_write_atomic(o.checkpoint, file.data, file.size - 1), KAS_OK);
    refused(&o, "damaged");
    assert_int_equal(kas_file_write_atomic(o.checkpoint, file.data, 10), KAS_OK);
    refused(&o, "not a checkpoint");
    assert_int_equal(kas_file_write_atomic(o.checkpoint, file.data, file.size), KAS_OK);
    train(&o, &r); /* whole again: nothing is left to do */
    assert_int_equal(r.state, KAS_TRAINED);
    assert_true(isnan(r.step_seconds));
    kas_train_result_free(&r);
    kas_buf_free(&file);
}

TEST(verdicts_end_a_run)
{
    kas_train_options o = base_options();
    kas_train_result r;
    observer prune = {1, 0, KAS_PRUNE, 0}, prune_step = {-1, 8, KAS_PRUNE, 0};
    o.weights_out = in_folder("pruned");
    assert_int_equal(observed(&o, &prune, &r), KAS_PRUNED);
    assert_int_equal(r.epochs, 2);
    kas_train_result_free(&r);
    assert_int_equal(observed(&o, &prune_step, &r), KAS_PRUNED);
    assert_int_equal(r.epochs, 1);
    kas_train_result_free(&r);
    assert_false(kas_file_exists(o.weights_out));
}

TEST(a_loss_that_is_not_finite_ends_it)
{
    kas_train_options o = base_options();
    kas_train_result r;
    o.recipe.lr = 1000;
    o.recipe.warmup_epochs = 0;
    o.recipe.weight_decay = 10;
    o.weights_out = in_folder("diverged");
    train(&o, &r);
    assert_int_equal(r.state, KAS_DIVERGED);
    assert_false(kas_file_exists(o.weights_out));
    kas_train_result_free(&r);
}

/* Whatever the optimiser and the numbers: no weights, and the checkpoint ends the next run too. */
TEST(a_network_that_is_not_finite_has_diverged)
{
    static const struct {
        kas_precision precision;
        kas_optimiser optimiser;
        double ema;
        int batch;
    } runs[] = {{KAS_PRECISION_FP32, KAS_NESTEROV, 0, BATCH},
                {KAS_PRECISION_BF16, KAS_SGD, 0.9, BATCH},
                {KAS_PRECISION_FP16, KAS_NESTEROV, 0, BATCH},
                {KAS_PRECISION_FP32, KAS_ADAMW, 0.9, BATCH},
                /* each step is the last one of an epoch */
                {KAS_PRECISION_FP32, KAS_NESTEROV, 0, TRAIN}};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        kas_train_options o = base_options();
        kas_train_result r;
        o.recipe.precision = (int)runs[i].precision;
        o.recipe.optimiser = (int)runs[i].optimiser;
        o.recipe.ema = runs[i].ema;
        o.recipe.batch = runs[i].batch;
        o.recipe.lr = 1000;
        o.recipe.weight_decay = 10;
        o.recipe.warmup_epochs = 0;
        o.weights_out = in_folder("broken");
        o.checkpoint = in_folder("broken.ckpt");
        unlink(o.checkpoint);
        for (int again = 0; again < 2; again++) {
            train(&o, &r);
            assert_int_equal(r.state, KAS_DIVERGED);
            assert_non_null(r.not_finite);
            assert_true(!again || isnan(r.step_seconds));
            assert_false(kas_file_exists(o.weights_out));
            kas_train_result_free(&r);
        }
    }
}

/* A checkpoint of a version that did not look: its first parameter, or its last statistic, is NaN.
 */
TEST(a_checkpoint_that_is_not_finite_is_not_healthy)
{
    kas_train_options o = base_options();
    kas_train_result r;
    o.recipe.epochs = 1;
    o.checkpoint = in_folder("nan.ckpt");
    o.weights_out = in_folder("of_nan");
    for (int last = 0; last < 2; last++) {
        uint8_t digest[32];
        kas_checkpoint c;
        unlink(o.checkpoint);
        train(&o, &r);
        assert_int_equal(r.state, KAS_TRAINED);
        kas_train_result_free(&r);
        unlink(o.weights_out);
        assert_int_equal(kas_train_digest(&o, digest), KAS_OK);
        assert_int_equal(kas_checkpoint_read(o.checkpoint, digest, &c), KAS_OK);
        float *kept = c.kept; /* the last statistic: of 64 channels, nothing behind it */
        kept[last ? c.size / sizeof *kept - 1 : 0] = NAN;
        assert_int_equal(kas_checkpoint_write(o.checkpoint, &c), KAS_OK);
        kas_checkpoint_free(&c);
        train(&o, &r);
        assert_int_equal(r.state, KAS_DIVERGED);
        assert_false(kas_file_exists(o.weights_out));
        kas_train_result_free(&r);
    }
}

/* The first and the last number of the first and the last tensor. */
TEST(weights_that_are_not_finite_are_neither_written_nor_taken)
{
    kas_model *model;
    const kas_model_options options = {.net = net, .batch = BATCH};
    const char *good = in_folder("good"), *bad = in_folder("bad");
    static const float planted[] = {NAN, INFINITY};
    assert_int_equal(kas_model_create(device, &options, &model), KAS_OK);
    const kas_params *params = kas_model_params(model);
    for (int i = 0; i < 8; i++) {
        const int which = i & 1 ? params->count - 1 : 0;
        const kas_param *p = &params->param[which];
        const size_t at = i & 2 ? p->size - 1 : 0;
        float *values = malloc(sizeof *values * p->size);
        kas_safetensors file;
        assert_non_null(values);
        assert_int_equal(kas_model_init(model, 1), KAS_OK);
        assert_int_equal(kas_model_save(model, good, NULL), KAS_OK);
        assert_int_equal(kas_safetensors_read(good, 1 << 28, &file), KAS_OK);
        const kas_named_tensor *t = kas_safetensors_find(&file, p->name);
        memcpy((char *)(uintptr_t)t->data + at * sizeof(float), &planted[i / 4], sizeof(float));
        assert_int_equal(kas_safetensors_write(bad, file.tensor, file.count, NULL), KAS_OK);
        assert_int_equal(kas_model_load(model, bad, true), KAS_BAD_INPUT);
        assert_non_null(strstr(kas_error(), p->name));
        assert_non_null(strstr(kas_error(), bad));
        unlink(bad);
        assert_int_equal(kas_model_get(model, which, values), KAS_OK);
        values[at] = planted[i / 4];
        assert_int_equal(kas_model_set(model, which, values), KAS_OK);
        assert_int_equal(kas_model_save(model, bad, NULL), KAS_FAILURE);
        assert_non_null(strstr(kas_error(), p->name));
        assert_false(kas_file_exists(bad));
        kas_safetensors_free(&file);
        free(values);
    }
    kas_model_free(model);
}

TEST(initial_weights_are_taken)
{
    kas_train_options o = base_options();
    kas_train_result r;
    o.recipe.epochs = 1;
    o.weights_out = in_folder("first");
    train(&o, &r);
    double after = r.epoch[0].train_loss;
    kas_train_result_free(&r);
    o.weights_in = in_folder("first");
    o.weights_out = NULL;
    train(&o, &r);
    print_message("first epoch's loss %.3f from random weights, %.3f from trained ones\n", after,
                  r.epoch[0].train_loss);
    assert_true(r.epoch[0].train_loss < after - 0.1);
    kas_train_result_free(&r);
    o.weights_in = in_folder("absent");
    refused(&o, "absent");
}

TEST(what_does_not_fit_is_explained)
{
    const uint32_t index[3] = {0, 1, TRAIN};
    kas_train_options o = base_options();
    o.recipe.batch = TRAIN + 1;
    refused(&o, "smaller batch");
    o = base_options();
    o.train_count = TRAIN + 1;
    refused(&o, "training images");
    o = base_options();
    o.recipe.batch = 2;
    o.train_index = index;
    o.train_count = 3;
    refused(&o, "index");
    o = base_options();
    o.evaluate_test = false;
    refused(&o, "evaluate");
    o = base_options();
    kas_net *other = NULL;
    assert_int_equal(kas_net_build("resnet20", SIZE, SIZE + 1, 3, CLASSES, &other), KAS_OK);
    o.net = other;
    refused(&o, "8x8");
    kas_net_free(other);
}

RUN_TESTS(setup, teardown)

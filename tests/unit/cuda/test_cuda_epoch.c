/* What the host does within an epoch on the CUDA device (src/host/train/chunks.h), counted by the
 * stand-in: it makes nothing, and it waits once for each chunk, always for one behind which another
 * is under way. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "cuda_fixture.h"
#include "host/core/file/files.h"
#include "host/train/chunks.h"
#include "host/train/train.h"
#include "support/folder.h"

enum { SIZE = 4, CLASSES = 3, BATCH = 2, EPOCHS = 3, CHUNKS = 4, LAST = 5 };
/* The last chunk is a smaller one. */
enum { STEPS = (CHUNKS - 1) * KAS_CHUNK_STEPS + LAST, TRAIN = STEPS * BATCH, HELD_OUT = 5 };

static const char network[] =
    "{\"format\": \"kas-gpu network\", \"version\": 1, \"name\": \"small\", \"layers\": ["
    "{\"conv\": \"conv\", \"channels\": 4, \"kernel\": 3}, {\"batch_norm\": \"norm\"},"
    "{\"relu\": \"act\"}, {\"global_avg_pool\": \"pool\"},"
    "{\"linear\": \"fc\", \"channels\": \"classes\"}]}";

static kas_dataset *dataset;
static kas_net *net;

static void fill(kas_images *images)
{
    for (uint32_t i = 0; i < images->count; i++) {
        images->labels[i] = (uint16_t)(i % CLASSES);
        for (uint32_t k = 0; k < SIZE * SIZE * 3; k++)
            images->pixels[i * SIZE * SIZE * 3 + k] = (uint8_t)((i * 7919 + k * 104729) % 251);
    }
}

static int make_problem(void **state)
{
    if (load_sim(state) != 0 ||
        kas_dataset_create(SIZE, SIZE, 3, CLASSES, TRAIN, 1, &dataset) != KAS_OK)
        return -1;
    fill(&dataset->train);
    fill(&dataset->test);
    kas_dataset_finish(dataset);
    if (make_folder(state) != 0)
        return -1;
    const char *net_file = in_folder("small.json");
    return kas_file_write_atomic(net_file, network, strlen(network)) == KAS_OK &&
                   kas_net_build(net_file, SIZE, SIZE, 3, CLASSES, &net) == KAS_OK
               ? 0
               : -1;
}

static int free_problem(void **state)
{
    kas_net_free(net);
    kas_dataset_close(dataset);
    return remove_folder(state);
}

/* ---- watching -------------------------------------------------------------------------------- */

/* The stand-in's counts when a chunk or an epoch was reported. */
typedef struct moment {
    uint64_t step;
    int waits, idle, makings;
} moment;

typedef struct watch {
    moment chunk[EPOCHS * CHUNKS], epoch[EPOCHS];
    int chunks, epochs;
    uint64_t stop_step; /* 0: never */
    kas_verdict verdict;
} watch;

static moment now(uint64_t step)
{
    moment m = {.step = step, .makings = sim.makings()};
    sim.waits(&m.waits, &m.idle);
    return m;
}

static kas_verdict on_progress(void *context, uint64_t step, uint64_t steps, double loss)
{
    watch *w = context;
    if (isnan(loss)) /* of an evaluation */
        return KAS_CONTINUE;
    assert_true(w->chunks < EPOCHS * CHUNKS && step <= steps && isfinite(loss));
    w->chunk[w->chunks++] = now(step);
    return w->stop_step && step >= w->stop_step ? w->verdict : KAS_CONTINUE;
}

static kas_verdict on_epoch(void *context, const kas_epoch *epoch)
{
    watch *w = context;
    w->epoch[w->epochs++] = now((uint64_t)epoch->epoch);
    return KAS_CONTINUE;
}

static kas_train_options options_of(watch *w)
{
    kas_train_options o = {.net = net,
                           .dataset = dataset,
                           .recipe = kas_recipe_default(),
                           .seed = 5,
                           .train_count = TRAIN,
                           .validation_count = HELD_OUT,
                           .on_epoch = on_epoch,
                           .on_progress = on_progress,
                           .context = w};
    o.recipe.epochs = EPOCHS;
    o.recipe.batch = BATCH;
    o.recipe.crop_pad = 1;
    return o;
}

static kas_train_state train(const kas_train_options *o)
{
    kas_train_result result;
    kas_device *device = open_cuda("cuda");
    OK(kas_train(device, o, &result));
    const kas_train_state state = result.state;
    assert_true(result.step_seconds > 0);
    kas_train_result_free(&result);
    kas_device_close(device);
    assert_int_equal(sim.live(), 0);
    return state;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static uint64_t end_of_chunk(int chunk)
{
    const int epoch = chunk / CHUNKS, within = chunk % CHUNKS;
    return (uint64_t)(epoch * STEPS +
                      (within == CHUNKS - 1 ? STEPS : (within + 1) * KAS_CHUNK_STEPS));
}

/* From one report to the next, in one epoch: one wait, and the device has work during it, but for
 * the last chunk, behind which there is none.  Only the very first chunk makes something: the graph
 * of the second step. */
TEST_WITH(the_host_waits_for_what_is_not_the_last, set_up, NULL)
{
    watch w = {0};
    const kas_train_options o = options_of(&w);
    assert_int_equal(train(&o), KAS_TRAINED);
    assert_int_equal(w.chunks, EPOCHS * CHUNKS);
    for (int i = 0; i < w.chunks; i++) {
        const moment *before = &w.chunk[i - (i > 0)], *after = &w.chunk[i];
        assert_int_equal(after->step, end_of_chunk(i));
        if (i % CHUNKS == 0)
            continue;
        assert_int_equal(after->waits - before->waits, 1);
        assert_int_equal(after->idle - before->idle, i % CHUNKS == CHUNKS - 1);
        assert_int_equal(after->makings - before->makings, 0);
    }
}

/* Around the steps: the order of images, state and sums at the begin, the sums at the end.  How
 * often the host waits there does not depend on the steps. */
TEST_WITH(an_epoch_makes_nothing, set_up, NULL)
{
    watch many = {0}, few = {0};
    kas_train_options o = options_of(&many);
    assert_int_equal(train(&o), KAS_TRAINED);
    o.context = &few;
    o.train_count = (STEPS - 2 * KAS_CHUNK_STEPS) * BATCH;
    assert_int_equal(train(&o), KAS_TRAINED);
    assert_int_equal(many.epochs, EPOCHS);
    assert_int_equal(few.chunks, EPOCHS * (CHUNKS - 2));
    const moment *a = &many.epoch[0], *b = &many.epoch[1], *c = &few.epoch[0], *d = &few.epoch[1];
    assert_int_equal(b->makings - a->makings, 0);
    assert_int_equal(b->idle - a->idle, d->idle - c->idle);
    assert_int_equal((b->waits - a->waits) - (d->waits - c->waits), 2); /* chunks more */
}

static bool same_file(const char *a, const char *b)
{
    kas_buf x = {0}, y = {0};
    OK(kas_file_read(a, 1 << 24, &x));
    OK(kas_file_read(b, 1 << 24, &y));
    const bool same = x.size == y.size && memcmp(x.data, y.data, x.size) == 0;
    kas_buf_free(&x);
    kas_buf_free(&y);
    return same;
}

/* A stop is heard a chunk late: the checkpoint is that of all steps that were enqueued. */
TEST_WITH(a_stop_between_chunks_loses_and_repeats_nothing, set_up, NULL)
{
    static const int stops[] = {0, CHUNKS - 2, CHUNKS - 1, CHUNKS + 1};
    const char *straight = in_folder("straight"), *resumed = in_folder("resumed"),
               *checkpoint = in_folder("checkpoint");
    watch whole = {0};
    kas_train_options o = options_of(&whole);
    o.weights_out = straight;
    assert_int_equal(train(&o), KAS_TRAINED);
    o.checkpoint = checkpoint;
    o.weights_out = resumed;
    for (size_t i = 0; i < sizeof stops / sizeof *stops; i++) {
        watch stopped = {.stop_step = end_of_chunk(stops[i]), .verdict = KAS_STOP}, rest = {0};
        unlink(checkpoint);
        o.context = &stopped;
        assert_int_equal(train(&o), KAS_STOPPED);
        assert_int_equal(stopped.chunks, stops[i] + 1); /* no report behind the one that stopped */
        o.context = &rest;
        assert_int_equal(train(&o), KAS_TRAINED);
        assert_true(same_file(straight, resumed));
    }
}

TEST_WITH(verdicts_and_bad_losses_end_it, set_up, NULL)
{
    watch pruned = {.stop_step = 1, .verdict = KAS_PRUNE}, diverged = {0};
    kas_train_options o = options_of(&pruned);
    assert_int_equal(train(&o), KAS_PRUNED);
    assert_int_equal(pruned.chunks, 1);
    o.context = &diverged;
    o.recipe.lr = 1000;
    o.recipe.weight_decay = 10;
    o.recipe.warmup_epochs = 0;
    assert_int_equal(train(&o), KAS_DIVERGED);
    assert_int_equal(diverged.chunks, 0); /* a loss that is not finite is no progress */
}

RUN_TESTS(make_problem, free_problem)

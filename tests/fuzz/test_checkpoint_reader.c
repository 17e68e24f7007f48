/* Fuzz test of the reader of checkpoints, and of the training that goes on from one.
 *
 * A checkpoint ends in a checksum of all before it: most mutants get a right one again, or nothing
 * behind the checksum would be reached.  A file is refused with a message that names it, or
 * accepted; then it reads back from what is written as the same bytes, and a training goes on from
 * it to its end, diverges, or refuses it by name.  Those that end count as having gone all the way.
 */
#include <math.h>
#include <unistd.h>

#include "fuzz_run.h"
#include "host/core/file/files.h"
#include "host/core/log.h"
#include "host/core/sha256.h"
#include "host/data/dataset.h"
#include "host/train/checkpoint.h"
#include "host/train/digest.h"
#include "host/train/train.h"
#include "mutate.h"
#include "small_net.h"

enum { TRAIN = 24, VALIDATION = 8, BATCH = 8, EPOCHS = 3, RUNS = 2, DIGEST = 32 };
/* Where the fields before the epochs lie (checkpoint.h): magic, digest of the options, device,
 * step, seconds, state, epochs, size. */
static const size_t fields[] = {0, 8, 40, 168, 176, 184, 440, 448, 456};
enum { FIELDS = sizeof fields / sizeof *fields - 1 };

static kas_net *net;
static kas_dataset *data;
static kas_device *device;
static kas_train_options run[RUNS];
static uint8_t digest[RUNS][DIGEST];

/* ---- the first corpus ------------------------------------------------------------------------ */

/* The plainest run, and one that keeps all that a run may keep. */
static void make_runs(void)
{
    for (int i = 0; i < RUNS; i++) {
        run[i] = (kas_train_options){.net = net,
                                     .dataset = data,
                                     .recipe = kas_recipe_default(),
                                     .seed = 5,
                                     .train_count = TRAIN,
                                     .evaluate_test = true};
        run[i].recipe.epochs = EPOCHS;
        run[i].recipe.batch = BATCH;
        run[i].recipe.warmup_epochs = 0;
        run[i].recipe.crop_pad = 1;
    }
    run[1].recipe.optimiser = KAS_ADAMW;
    run[1].recipe.ema = 0.9;
    run[1].recipe.precision = KAS_PRECISION_FP16;
    for (int i = 0; i < RUNS; i++)
        MUST(kas_train_digest(&run[i], digest[i]) == KAS_OK);
}

static kas_verdict stop_at_epoch(void *context, const kas_epoch *epoch)
{
    return epoch->epoch == *(const int *)context ? KAS_STOP : KAS_CONTINUE;
}

static kas_verdict stop_at_once(void *context, uint64_t step, uint64_t steps, double loss)
{
    (void)context, (void)step, (void)steps, (void)loss;
    return KAS_STOP;
}

/* After each epoch, and after the first steps. */
static void add_checkpoints(const kas_train_options *options)
{
    for (int epoch = -1; epoch < EPOCHS; epoch++) {
        kas_train_options o = *options;
        kas_train_result result;
        kas_buf file = {0};
        o.checkpoint = fuzz_path("first.ckpt");
        o.context = &epoch;
        if (epoch < 0)
            o.on_progress = stop_at_once;
        else
            o.on_epoch = stop_at_epoch;
        unlink(o.checkpoint);
        MUST(kas_train(device, &o, &result) == KAS_OK);
        kas_train_result_free(&result);
        MUST(kas_file_read(o.checkpoint, 1 << 20, &file) == KAS_OK);
        fuzz_add(file.data, file.size);
        kas_buf_free(&file);
    }
}

/* ---- a mutant -------------------------------------------------------------------------------- */

static void seal(kas_buf *file)
{
    kas_sha256 hash;
    if (file->size < DIGEST)
        return;
    kas_sha256_init(&hash);
    kas_sha256_update(&hash, file->data, file->size - DIGEST);
    kas_sha256_final(&hash, (uint8_t *)file->data + file->size - DIGEST);
}

/* A field is damaged, or becomes that of another checkpoint. */
static void change_field(kas_rng *rng, kas_buf *file)
{
    const kas_buf *donor = fuzz_pick(rng);
    const uint32_t field = kas_rng_below(rng, FIELDS);
    const size_t at = fields[field], size = fields[field + 1] - at;
    if (kas_rng_below(rng, 3))
        fuzz_mutate_within(rng, file, at, size);
    else if (file->size >= at + size && donor->size >= at + size)
        memcpy(file->data + at, donor->data + at, size);
}

/* Eight bytes anywhere become a number that no training should have. */
static void put_number(kas_rng *rng, kas_buf *file)
{
    static const double numbers[] = {NAN, INFINITY, -INFINITY, -1, 1e300, -0.0, 5e-324};
    static const float floats[] = {NAN, INFINITY, -INFINITY, -1, 3e38f, -0.0f, 1e-45f};
    const uint32_t which = kas_rng_below(rng, 7);
    if (file->size < fields[FIELDS])
        return;
    const uint32_t words = (uint32_t)(file->size - fields[3]) / 8;
    char *at = file->data + fields[3] + 8 * (size_t)kas_rng_below(rng, words);
    if (kas_rng_below(rng, 2))
        memcpy(at, &numbers[which], 8);
    else
        memcpy(at, &floats[which], 4);
}

static void cut_at_field(kas_rng *rng, kas_buf *file)
{
    const size_t at = fields[kas_rng_below(rng, FIELDS + 1)];
    file->size = at < file->size ? at : file->size;
}

static void make_mutant(kas_rng *rng, kas_buf *file)
{
    const kas_buf *source = fuzz_pick(rng);
    kas_buf_add(file, source->data, source->size);
    for (uint32_t n = 1 + kas_rng_below(rng, 3); n > 0; n--)
        switch (kas_rng_below(rng, 8)) {
        case 0:
            fuzz_mutate_bytes(rng, file);
            break;
        case 1:
            if (kas_rng_below(rng, 4) == 0)
                cut_at_field(rng, file);
            break;
        case 2:
        case 3:
        case 4:
            put_number(rng, file);
            break;
        default:
            change_field(rng, file);
        }
    if (kas_rng_below(rng, 8))
        seal(file);
}

/* ---- what must hold of a file that was accepted ---------------------------------------------- */

static void write_and_read(const kas_checkpoint *c, kas_buf *out)
{
    const char *path = fuzz_path("again.ckpt");
    MUST(kas_checkpoint_write(path, c) == KAS_OK);
    MUST(kas_file_read(path, 1 << 20, out) == KAS_OK);
}

static void check_round_trip(const kas_checkpoint *c)
{
    kas_buf first = {0}, second = {0};
    kas_checkpoint again;
    write_and_read(c, &first);
    MUST(kas_checkpoint_read(fuzz_path("again.ckpt"), c->options, &again) == KAS_OK);
    write_and_read(&again, &second);
    MUST(first.size == second.size && memcmp(first.data, second.data, first.size) == 0);
    kas_checkpoint_free(&again);
    kas_buf_free(&first);
    kas_buf_free(&second);
}

static void check_training(const char *path, const kas_train_options *options)
{
    kas_train_options o = *options;
    kas_train_result r;
    o.checkpoint = path;
    if (!fuzz_accepts(kas_train(device, &o, &r), path))
        return;
    MUST(r.state == KAS_TRAINED || r.state == KAS_DIVERGED);
    for (int i = 0; i < r.epochs; i++)
        MUST(r.epoch[i].epoch == i && isfinite(r.epoch[i].seconds) && r.epoch[i].seconds >= 0);
    if (r.state == KAS_TRAINED) {
        const kas_epoch *last = &r.epoch[EPOCHS - 1];
        MUST(r.epochs == EPOCHS && r.accuracy >= 0 && r.accuracy <= 1);
        MUST(isfinite(last->validation_loss) && isfinite(last->train_loss));
        MUST(last->train_accuracy >= 0 && last->train_accuracy <= 1);
        fuzz.solved++;
    }
    kas_train_result_free(&r);
}

static bool read_checkpoint(kas_rng *rng, const char *bytes, size_t size, const kas_buf *kept)
{
    const char *path = fuzz_path("mutant.ckpt");
    const uint32_t which = kas_rng_below(rng, 16) && size >= fields[2]
                               ? memcmp(bytes + fields[1], digest[1], DIGEST) == 0
                               : kas_rng_below(rng, RUNS);
    kas_checkpoint c;
    fuzz_write(path, bytes, size);
    if (!fuzz_accepts(kas_checkpoint_read(path, digest[which], &c), path))
        return false;
    check_round_trip(&c);
    kas_checkpoint_free(&c);
    check_training(path, &run[which]);
    fuzz_keep(rng, kept);
    return true;
}

int main(int argc, char **argv)
{
    fuzz_begin(argc, argv, 6000);
    kas_log_set_level(KAS_LOG_QUIET);
    net = small_net();
    MUST(kas_dataset_create(SIDE, SIDE, 3, CLASSES, TRAIN, VALIDATION, &data) == KAS_OK);
    for (int i = 0; i < TRAIN; i++)
        data->train.labels[i] = (uint16_t)(i % CLASSES);
    for (int i = 0; i < TRAIN * SIDE * SIDE * 3; i++)
        data->train.pixels[i] = (uint8_t)(i * 2654435761u >> 13);
    kas_dataset_finish(data);
    MUST(kas_device_open("cpu", 1, &device) == KAS_OK);
    make_runs();
    for (int i = 0; i < RUNS; i++)
        add_checkpoints(&run[i]);
    fuzz_cases(make_mutant, read_checkpoint);
    fuzz_end(5, 1, 25);
    kas_device_close(device);
    kas_dataset_close(data);
    kas_net_free(net);
    return 0;
}

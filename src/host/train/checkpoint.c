#include "host/train/checkpoint.h"

#include <stdlib.h>
#include <string.h>

#include "host/core/file/files.h"
#include "host/core/sha256.h"

static const char magic[8] = {'K', 'A', 'S', 'C', 'K', 'P', 'T', '2'};

/* The fixed part of the file. All fields are aligned to 8 bytes, so there is no padding with
 * undefined contents. */
typedef struct header {
    char magic[8];
    uint8_t options[32];
    char device[128];
    uint64_t step;
    double seconds;
    uint8_t state[KAS_CHECKPOINT_STATE];
    uint64_t epochs, size;
} header;

typedef struct epoch_record {
    int64_t epoch;
    double train_loss, train_accuracy, validation_loss, validation_accuracy, seconds;
} epoch_record;

enum { DIGEST = 32, MAX_EPOCHS = 1 << 20 };
static const uint64_t max_bytes = 1ull << 36;

kas_status kas_checkpoint_write(const char *path, const kas_checkpoint *c)
{
    header h = {
        .step = c->step, .seconds = c->seconds, .epochs = (uint64_t)c->epochs, .size = c->size};
    memcpy(h.magic, magic, sizeof magic);
    memcpy(h.options, c->options, sizeof h.options);
    memcpy(h.device, c->device, sizeof h.device);
    memcpy(h.state, c->state, sizeof h.state);
    kas_buf file = {0};
    kas_buf_add(&file, &h, sizeof h);
    for (int i = 0; i < c->epochs; i++) {
        const kas_epoch *e = &c->epoch[i];
        epoch_record r = {e->epoch,           e->train_loss,          e->train_accuracy,
                          e->validation_loss, e->validation_accuracy, e->seconds};
        kas_buf_add(&file, &r, sizeof r);
    }
    kas_buf_add(&file, c->kept, c->size);
    uint8_t digest[DIGEST];
    kas_sha256 hash;
    kas_sha256_init(&hash);
    kas_sha256_update(&hash, kas_buf_text(&file), file.size);
    kas_sha256_final(&hash, digest);
    kas_buf_add(&file, digest, sizeof digest);
    return kas_buf_save(&file, path, KAS_OK);
}

static kas_status check(const char *path, const kas_buf *file, const uint8_t options[32])
{
    const header *h = (const header *)file->data;
    if (file->size < sizeof *h + DIGEST || memcmp(h->magic, magic, sizeof magic) != 0)
        return kas_fail(KAS_BAD_INPUT,
                        "%s: not a checkpoint of this version; remove it to start from the "
                        "beginning",
                        path);
    uint8_t digest[DIGEST];
    kas_sha256 hash;
    kas_sha256_init(&hash);
    kas_sha256_update(&hash, file->data, file->size - DIGEST);
    kas_sha256_final(&hash, digest);
    if (memcmp(digest, file->data + file->size - DIGEST, DIGEST) != 0)
        return kas_fail(KAS_BAD_INPUT,
                        "%s: the checkpoint is damaged (its checksum does not match); remove it to "
                        "start from the beginning",
                        path);
    if (memcmp(h->options, options, sizeof h->options) != 0)
        return kas_fail(
            KAS_BAD_INPUT,
            "%s: the checkpoint is of a run with another network, kernel, data set, "
            "recipe, seed, validation share or initial weights, with another choice of "
            "--test or --sync-batch-norm, or on another kind of device; use the options "
            "that it was made with, or remove it to start from the beginning",
            path);
    if (h->epochs > MAX_EPOCHS || h->size > max_bytes ||
        file->size != sizeof *h + h->epochs * sizeof(epoch_record) + h->size + DIGEST)
        return kas_fail(KAS_BAD_INPUT, "%s: the checkpoint has the wrong size", path);
    return KAS_OK;
}

/* Returns a copy of `size` bytes at *at, which moves on; NULL when memory is exhausted. */
static void *take(const char **at, size_t size)
{
    void *copy = malloc(size ? size : 1);
    if (copy)
        memcpy(copy, *at, size);
    *at += size;
    return copy;
}

static kas_status unpack(const char *path, const kas_buf *file, kas_checkpoint *out)
{
    const header *h = (const header *)file->data;
    const char *at = file->data + sizeof *h;
    *out = (kas_checkpoint){
        .step = h->step, .seconds = h->seconds, .epochs = (int)h->epochs, .size = h->size};
    memcpy(out->options, h->options, sizeof out->options);
    memcpy(out->device, h->device, sizeof out->device);
    out->device[sizeof out->device - 1] = '\0';
    memcpy(out->state, h->state, sizeof out->state);
    epoch_record *records = take(&at, h->epochs * sizeof *records);
    out->epoch = calloc(h->epochs + 1, sizeof *out->epoch);
    out->kept = take(&at, h->size);
    if (!records || !out->epoch || !out->kept) {
        free(records);
        kas_checkpoint_free(out);
        return kas_fail(KAS_NO_MEMORY, "%s: no memory for the checkpoint", path);
    }
    for (int i = 0; i < out->epochs; i++) {
        const epoch_record *r = &records[i];
        out->epoch[i] = (kas_epoch){(int)r->epoch,      r->train_loss,          r->train_accuracy,
                                    r->validation_loss, r->validation_accuracy, r->seconds};
    }
    free(records);
    return KAS_OK;
}

kas_status kas_checkpoint_read(const char *path, const uint8_t options[32], kas_checkpoint *out)
{
    kas_buf file = {0};
    kas_status status = kas_file_read(path, SIZE_MAX / 2, &file);
    if (status == KAS_OK)
        status = check(path, &file, options);
    if (status == KAS_OK)
        status = unpack(path, &file, out);
    kas_buf_free(&file);
    return status;
}

void kas_checkpoint_free(kas_checkpoint *c)
{
    free(c->epoch);
    free(c->kept);
    *c = (kas_checkpoint){0};
}

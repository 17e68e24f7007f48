#include "host/data/digest.h"

static void hash_words(kas_sha256 *hash, const uint32_t *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint8_t bytes[4] = {(uint8_t)words[i], (uint8_t)(words[i] >> 8), (uint8_t)(words[i] >> 16),
                            (uint8_t)(words[i] >> 24)};
        kas_sha256_update(hash, bytes, sizeof bytes);
    }
}

static kas_status hash_file(kas_sha256 *hash, const kas_images *images)
{
    kas_storage_scratch scratch = {0};
    kas_status status = KAS_OK;
    for (uint32_t i = 0; i < images->count && status == KAS_OK; i++) {
        const uint8_t *bytes;
        size_t size;
        status = kas_storage_read(&images->storage, i, &scratch, &bytes, &size);
        if (status == KAS_OK)
            kas_sha256_update(hash, bytes, size);
    }
    kas_storage_scratch_free(&scratch);
    return status;
}

/* Hashes the checksums instead of the bytes, which are too many to be read at every start. */
static void hash_encoded(kas_sha256 *hash, const kas_storage *s)
{
    for (uint32_t i = 0; i < s->count; i++) {
        const uint32_t words[] = {(uint32_t)(s->offset[i + 1] - s->offset[i]), s->crc[i]};
        hash_words(hash, words, 2);
    }
}

void kas_digest_labels(kas_sha256 *hash, const kas_images *images)
{
    for (uint32_t i = 0; i < images->count; i++) {
        const uint8_t bytes[2] = {(uint8_t)images->labels[i], (uint8_t)(images->labels[i] >> 8)};
        kas_sha256_update(hash, bytes, sizeof bytes);
    }
}

static kas_status hash_images(kas_sha256 *hash, const kas_dataset *d, const kas_images *images)
{
    if (images->pixels)
        kas_sha256_update(hash, images->pixels, (size_t)d->h * d->w * d->c * images->count);
    else if (d->encoded)
        hash_encoded(hash, &images->storage);
    else
        KAS_TRY(hash_file(hash, images));
    kas_digest_labels(hash, images);
    return KAS_OK;
}

void kas_digest_begin(kas_sha256 *hash, const kas_dataset *d)
{
    const uint32_t words[] = {d->h, d->w, d->c, d->classes, d->train.count, d->test.count};
    kas_sha256_init(hash);
    hash_words(hash, words, sizeof words / sizeof *words);
    if (d->encoded)
        kas_sha256_update(hash, "encoded", 7);
}

void kas_digest_end(kas_sha256 *hash, char hex[65])
{
    uint8_t digest[32];
    kas_sha256_final(hash, digest);
    kas_sha256_to_hex(digest, hex);
}

kas_status kas_dataset_digest(const kas_dataset *d, char hex[65])
{
    kas_sha256 hash;
    kas_digest_begin(&hash, d);
    KAS_TRY(hash_images(&hash, d, &d->train));
    KAS_TRY(hash_images(&hash, d, &d->test));
    kas_digest_end(&hash, hex);
    return KAS_OK;
}

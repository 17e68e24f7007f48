#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "host/data/import/import.h"

kas_status kas_limit_labels(const char *what, char *const *class_name, uint32_t classes,
                            const uint16_t *label, uint32_t count, uint32_t limit, uint8_t *keep)
{
    memset(keep, 1, count);
    if (limit == 0 || limit == count)
        return KAS_OK;
    if (limit > count)
        return kas_fail(KAS_BAD_INPUT,
                        "%s: expected at most %" PRIu32 " images, %" PRIu32 " were asked for", what,
                        count, limit);
    uint32_t *left = malloc(classes * sizeof *left);
    if (!left)
        return kas_fail(KAS_NO_MEMORY, "out of memory for %" PRIu32 " classes", classes);
    for (uint32_t k = 0; k < classes; k++)
        left[k] = limit / classes + (k < limit % classes);
    for (uint32_t i = 0; i < count; i++) {
        keep[i] = left[label[i]] > 0;
        left[label[i]] -= keep[i];
    }
    kas_status status = KAS_OK;
    for (uint32_t k = 0; k < classes && status == KAS_OK; k++)
        if (left[k] > 0)
            status = kas_fail(KAS_BAD_INPUT,
                              "%s: class %" PRIu32 " (%s) has %" PRIu32
                              " images too few for %" PRIu32 " balanced images",
                              what, k, class_name[k], left[k], limit);
    free(left);
    return status;
}

static kas_status limit_set(const kas_dataset *d, kas_images *images, const char *what,
                            uint32_t limit)
{
    uint8_t *keep = malloc(images->count);
    if (!keep)
        return kas_fail(KAS_NO_MEMORY, "out of memory for %" PRIu32 " images", images->count);
    kas_status status = kas_limit_labels(what, d->class_name, d->classes, images->labels,
                                         images->count, limit, keep);
    size_t image = (size_t)d->h * d->w * d->c;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < images->count && status == KAS_OK; i++)
        if (keep[i]) {
            images->labels[kept] = images->labels[i];
            memmove(images->pixels + kept++ * image, images->pixels + i * image, image);
        }
    if (status == KAS_OK)
        images->count = kept;
    free(keep);
    return status;
}

kas_status kas_dataset_limit(kas_dataset *d, uint32_t train, uint32_t test)
{
    KAS_TRY(limit_set(d, &d->train, "train/images", train));
    return limit_set(d, &d->test, "test/images", test);
}

#include <stdlib.h>
#include <string.h>

#include "host/data/import.h"

static kas_status limit_set(const kas_dataset *d, kas_images *images, const char *what,
                            uint32_t limit)
{
    if (limit == 0 || limit == images->count)
        return KAS_OK;
    if (limit > images->count)
        return kas_fail(KAS_BAD_INPUT, "%s: expected at most %u images, %u were asked for", what,
                        images->count, limit);
    uint32_t *left = malloc(d->classes * sizeof *left), kept = 0;
    if (!left)
        return kas_fail(KAS_NO_MEMORY, "out of memory for %u classes", d->classes);
    for (uint32_t k = 0; k < d->classes; k++)
        left[k] = limit / d->classes + (k < limit % d->classes);
    size_t image = (size_t)d->h * d->w * d->c;
    for (uint32_t i = 0; i < images->count; i++) {
        uint16_t label = images->labels[i];
        if (left[label] == 0)
            continue;
        left[label]--;
        images->labels[kept] = label;
        memmove(images->pixels + kept++ * image, images->pixels + i * image, image);
    }
    kas_status status = KAS_OK;
    for (uint32_t k = 0; k < d->classes && status == KAS_OK; k++)
        if (left[k] > 0)
            status = kas_fail(KAS_BAD_INPUT,
                              "%s: class %u (%s) has %u images too few for %u balanced images",
                              what, k, d->class_name[k], left[k], limit);
    images->count = kept;
    free(left);
    return status;
}

kas_status kas_dataset_limit(kas_dataset *d, uint32_t train, uint32_t test)
{
    KAS_TRY(limit_set(d, &d->train, "train/images", train));
    return limit_set(d, &d->test, "test/images", test);
}

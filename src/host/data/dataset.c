#include "host/data/dataset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/data/dataset_shell.h"
#include "host/data/dataset_write.h"

void kas_dataset_close(kas_dataset *d)
{
    if (!d)
        return;
    for (uint32_t i = 0; d->class_name && i < d->classes; i++)
        free(d->class_name[i]);
    free(d->class_name);
    if (d->fd > 0)
        close(d->fd);
    if (d->mapping) {
        munmap(d->mapping, d->mapping_size);
    } else {
        free(d->train.pixels), free(d->train.labels);
        free(d->test.pixels), free(d->test.labels);
    }
    free(d);
}

kas_status kas_dataset_name_class(kas_dataset *d, uint32_t index, const char *name)
{
    char *copy = strndup(name, KAS_DATASET_NAME_SIZE - 1);
    if (!copy)
        return kas_fail(KAS_NO_MEMORY, "out of memory for class names");
    free(d->class_name[index]);
    d->class_name[index] = copy;
    return KAS_OK;
}

static kas_status create_images(kas_images *images, uint32_t count, uint64_t image)
{
    images->count = count;
    images->pixels = calloc(count, image);
    images->labels = calloc(count, sizeof *images->labels);
    return images->pixels && images->labels
               ? KAS_OK
               : kas_fail(KAS_NO_MEMORY, "out of memory for %u images of %llu bytes", count,
                          (unsigned long long)image);
}

kas_dataset *kas_dataset_shell(const kas_packet *p)
{
    kas_dataset *d = calloc(1, sizeof *d);
    if (!d || !(d->class_name = calloc(p->classes, sizeof *d->class_name))) {
        free(d);
        kas_fail(KAS_NO_MEMORY, "out of memory for %u class names", p->classes);
        return NULL;
    }
    d->h = p->h, d->w = p->w, d->c = p->c, d->classes = p->classes;
    memcpy(d->mean, p->mean, sizeof d->mean);
    memcpy(d->std, p->std, sizeof d->std);
    return d;
}

kas_status kas_dataset_create(uint32_t h, uint32_t w, uint32_t c, uint32_t classes,
                              uint32_t train_count, uint32_t test_count, kas_dataset **out)
{
    const kas_packet p = {.h = h,
                          .w = w,
                          .c = c,
                          .classes = classes,
                          .train_count = train_count,
                          .test_count = test_count,
                          .std = {1, 1, 1, 1}};
    kas_packet_layout layout;
    *out = NULL;
    if (!kas_packet_layout_of(&p, &layout))
        return kas_fail(KAS_BAD_INPUT,
                        "a data set of %u + %u images of %ux%ux%u in %u classes is out of range",
                        train_count, test_count, h, w, c, classes);
    kas_dataset *d = kas_dataset_shell(&p);
    if (!d)
        return KAS_NO_MEMORY;
    kas_status status;
    KAS_TRY_GOTO(create_images(&d->train, train_count, (uint64_t)h * w * c), fail);
    KAS_TRY_GOTO(create_images(&d->test, test_count, (uint64_t)h * w * c), fail);
    for (uint32_t i = 0; i < classes; i++) {
        char name[32];
        snprintf(name, sizeof name, "class %u", i);
        KAS_TRY_GOTO(kas_dataset_name_class(d, i, name), fail);
    }
    *out = d;
    return KAS_OK;
fail:
    kas_dataset_close(d);
    return status;
}

/* Sums of integers are exact, so the result depends neither on the order nor on the machine. */
void kas_dataset_finish(kas_dataset *d)
{
    kas_pixel_sums sums = {0};
    kas_pixel_sums_add(&sums, d->train.pixels, (uint64_t)d->train.count * d->h * d->w, d->c);
    kas_pixel_sums_finish(&sums, d->c, d->mean, d->std);
    kas_dataset_digest(d, d->digest); /* pixels in memory: cannot fail */
}

void kas_dataset_scaling(const kas_dataset *d, char out[KAS_SCALING_TEXT])
{
    int used = 0;
    *out = 0;
    for (uint32_t i = 0; i < 2 * d->c; i++)
        used += snprintf(out + used, KAS_SCALING_TEXT - (size_t)used, "%s%.9g",
                         i == 0      ? "mean "
                         : i == d->c ? ", std "
                                     : " ",
                         (double)(i < d->c ? d->mean[i] : d->std[i - d->c]));
}

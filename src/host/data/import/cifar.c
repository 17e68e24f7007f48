#include <string.h>

#include "host/core/log.h"
#include "host/data/import/archive.h"
#include "host/data/import/import.h"

enum { SIDE = 32, PLANE = SIDE * SIDE, IMAGE = 3 * PLANE, FILES = 7 };

typedef struct layout {
    const char *name, *subfolder;
    uint32_t classes, label_bytes; /* the last label byte is the one used */
    uint32_t train_files;
    const char *file[FILES];          /* training files, test file, names */
    uint32_t train_count, test_count; /* as published */
} layout;

static const layout layouts[] = {
    [KAS_CIFAR10] = {"CIFAR-10",
                     "cifar-10-batches-bin",
                     10,
                     1,
                     5,
                     {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                      "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin", "batches.meta.txt"},
                     50000,
                     10000},
    [KAS_CIFAR100] = {"CIFAR-100",
                      "cifar-100-binary",
                      100,
                      2,
                      1,
                      {"train.bin", "test.bin", "fine_label_names.txt"},
                      50000,
                      10000}};

static kas_status count_records(const char *source, const layout *l, const kas_wanted_file *file,
                                uint32_t *count)
{
    size_t record = l->label_bytes + IMAGE;
    if (file->data.size == 0 || file->data.size % record != 0)
        return kas_fail(KAS_BAD_INPUT,
                        "%s: %s: expected records of %zu bytes (%u of labels, 3072 of pixels), "
                        "found %zu bytes: the file is truncated or of another data set",
                        source, file->name, record, l->label_bytes, file->data.size);
    *count = (uint32_t)(file->data.size / record);
    return KAS_OK;
}

/* Copies planes [C][H][W] to interleaved [H][W][C]. */
static void copy_pixels(const uint8_t *planes, uint8_t *out)
{
    for (int i = 0; i < PLANE; i++)
        for (int c = 0; c < 3; c++)
            out[3 * i + c] = planes[c * PLANE + i];
}

static kas_status copy_records(const char *source, const layout *l, const kas_wanted_file *file,
                               kas_images *images, uint32_t *at)
{
    uint32_t count = 0;
    KAS_TRY(count_records(source, l, file, &count));
    const uint8_t *record = (const uint8_t *)file->data.data;
    for (uint32_t i = 0; i < count; i++, record += l->label_bytes + IMAGE, ++*at) {
        uint8_t label = record[l->label_bytes - 1];
        if (label >= l->classes)
            return kas_fail(KAS_BAD_INPUT,
                            "%s: %s: record %u: expected a label in [0, %u], found %u", source,
                            file->name, i, l->classes - 1, label);
        images->labels[*at] = label;
        copy_pixels(record + l->label_bytes, images->pixels + (size_t)*at * IMAGE);
    }
    return KAS_OK;
}

/* Reads names, one a line, without empty lines. A file with another number of names is not used. */
static kas_status take_names(const char *source, const layout *l, kas_wanted_file *file,
                             kas_dataset *d)
{
    if (!file->found)
        return KAS_OK;
    uint32_t lines = 0;
    char *rest = file->data.data, *line, *names[256];
    while (rest && lines < 256 && (line = strsep(&rest, "\r\n")))
        if (*line)
            names[lines++] = line;
    if (lines != l->classes) {
        kas_warn("%s: %s: expected %u names, found %u; classes are numbered instead", source,
                 file->name, l->classes, lines);
        return KAS_OK;
    }
    for (uint32_t i = 0; i < lines; i++)
        KAS_TRY(kas_dataset_name_class(d, i, names[i]));
    return KAS_OK;
}

static kas_status build(const char *source, const layout *l, kas_wanted_file *files,
                        kas_dataset **out)
{
    uint32_t train = 0, test = 0, at = 0;
    for (uint32_t i = 0; i < l->train_files; i++) {
        uint32_t count = 0;
        KAS_TRY(count_records(source, l, &files[i], &count));
        train += count;
    }
    KAS_TRY(count_records(source, l, &files[l->train_files], &test));
    if (train != l->train_count || test != l->test_count)
        kas_warn("%s: the published %s has %u training and %u test images, this one has %u and %u",
                 source, l->name, l->train_count, l->test_count, train, test);
    KAS_TRY(kas_dataset_create(SIDE, SIDE, 3, l->classes, train, test, out));
    for (uint32_t i = 0; i < l->train_files; i++) {
        KAS_TRY(copy_records(source, l, &files[i], &(*out)->train, &at));
        kas_buf_free(&files[i].data);
    }
    at = 0;
    KAS_TRY(copy_records(source, l, &files[l->train_files], &(*out)->test, &at));
    return take_names(source, l, &files[l->train_files + 1], *out);
}

kas_status kas_import_cifar(kas_cifar kind, const char *source, kas_dataset **out)
{
    const layout *l = &layouts[kind];
    size_t count = l->train_files + 2;
    kas_wanted_file files[FILES] = {0};
    *out = NULL;
    for (size_t i = 0; i < count; i++) {
        files[i].name = l->file[i];
        files[i].required = i + 1 < count;
        files[i].limit = (size_t)1 << (i + 1 < count ? 29 : 20);
    }
    kas_status status = kas_collect_files(source, l->subfolder, files, count);
    if (status == KAS_OK)
        status = build(source, l, files, out);
    for (size_t i = 0; i < count; i++)
        kas_buf_free(&files[i].data);
    if (status != KAS_OK) {
        kas_dataset_close(*out);
        *out = NULL;
    }
    return status;
}

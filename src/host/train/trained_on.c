#include "host/train/trained_on.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/log.h"
#include "host/core/sha256.h"
#include "host/model/safetensors.h"

/* NULL: all images. */
static void describe(const kas_dataset *d, const uint32_t *index, uint32_t count,
                     char out[KAS_TRAINED_ON_SIZE])
{
    char images[65] = "all";
    if (index)
        kas_sha256_hex(index, sizeof *index * count, images);
    snprintf(out, KAS_TRAINED_ON_SIZE, "%.80s %s", d->digest, images);
}

/* Gets what a file says; "" when it says nothing of this data set. */
static kas_status read_of(const char *path, const kas_dataset *d, char out[KAS_TRAINED_ON_SIZE])
{
    kas_safetensors file;
    char all[KAS_TRAINED_ON_SIZE];
    KAS_TRY(kas_safetensors_read(path, KAS_WEIGHTS_LIMIT, &file));
    const char *text = kas_safetensors_metadata(&file, KAS_TRAINED_ON);
    describe(d, NULL, 0, all);
    const bool same = text && strncmp(text, all, strlen(all) - strlen("all")) == 0;
    snprintf(out, KAS_TRAINED_ON_SIZE, "%s", same ? text : "");
    kas_safetensors_free(&file);
    return KAS_OK;
}

kas_status kas_trained_on(const kas_train_options *o, char out[KAS_TRAINED_ON_SIZE])
{
    char before[KAS_TRAINED_ON_SIZE] = "";
    *out = 0;
    if (!o->weights_out)
        return KAS_OK;
    describe(o->dataset, o->train_index, o->train_count, out);
    if (o->weights_in)
        KAS_TRY(read_of(o->weights_in, o->dataset, before));
    if (*before && strcmp(before, out) != 0) /* of two splits: more than either says */
        describe(o->dataset, NULL, 0, out);
    return KAS_OK;
}

kas_status kas_trained_save(kas_model *model, const kas_train_options *o, const char *images)
{
    char scaling[KAS_SCALING_TEXT];
    const char *const metadata[] = {
        "format",     "pt",           "generator", "kas-gpu " KAS_VERSION, "network",
        o->net->name, KAS_TRAINED_ON, images,      KAS_TRAINED_SCALING,    scaling,
        NULL};
    if (!o->weights_out)
        return KAS_OK;
    kas_dataset_scaling(o->dataset, scaling);
    return kas_model_save(model, o->weights_out, metadata);
}

kas_status kas_trained_on_check(const char *path, const kas_dataset *d, uint64_t seed,
                                double validation)
{
    char found[KAS_TRAINED_ON_SIZE], here[KAS_TRAINED_ON_SIZE];
    uint32_t *index, count, held_out;
    KAS_TRY(read_of(path, d, found));
    if (!*found)
        return KAS_OK;
    KAS_TRY(kas_dataset_split(d, seed, validation, &index, &count, &held_out));
    describe(d, index, count, here);
    free(index);
    if (strcmp(found, here) != 0)
        kas_warn("%s was trained on another split, so it may have seen images that are held out "
                 "here, and "
                 "the validation accuracy will be too high; train it without --test, with --seed "
                 "%" PRIu64 " and --validation %g",
                 path, seed, validation);
    return KAS_OK;
}

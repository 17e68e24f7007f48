#include "layers_mutate.h"

#include <stdio.h>

#include "kernel_mutate.h"

static cJSON *part(const cJSON *root, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(root, name);
}

/* ---- kernels --------------------------------------------------------------------------------- */

static void change_kernel(kas_rng *rng, cJSON *root, const cJSON *donor)
{
    cJSON *kernel = fuzz_random_item(rng, part(root, "kernels"));
    const cJSON *other = fuzz_random_item(rng, part(donor, "kernels"));
    if (kernel && other)
        fuzz_mutate_nodes(rng, kernel, other);
}

/* At the end, and most times some layer gets it: one that nobody has is refused. */
static void add_kernel(kas_rng *rng, cJSON *root, const cJSON *donor)
{
    cJSON *kernels = part(root, "kernels"), *layer = fuzz_random_item(rng, part(root, "layers"));
    const cJSON *other = fuzz_random_item(rng, part(donor, "kernels"));
    if (!cJSON_IsArray(kernels) || !other || !layer || !layer->string)
        return;
    char name[128];
    snprintf(name, sizeof name, "%.127s", layer->string);
    cJSON_AddItemToArray(kernels, cJSON_Duplicate(other, 1));
    if (kas_rng_below(rng, 8))
        cJSON_ReplaceItemInObjectCaseSensitive(part(root, "layers"), name,
                                               cJSON_CreateNumber(cJSON_GetArraySize(kernels) - 1));
}

/* Layers that had one behind it have the next now; those that had the last have none that is. */
static void remove_kernel(kas_rng *rng, cJSON *root)
{
    cJSON *kernels = part(root, "kernels");
    const int count = cJSON_GetArraySize(kernels);
    if (count > 0)
        cJSON_DeleteItemFromArray(kernels, (int)kas_rng_below(rng, (uint32_t)count));
}

/* ---- layers ---------------------------------------------------------------------------------- */

static cJSON *random_number(kas_rng *rng, const cJSON *root)
{
    static const double wrong[] = {-1, 0.5, 1024, 1e9, 1e300, -0.0};
    const int kernels = cJSON_GetArraySize(part(root, "kernels"));
    switch (kas_rng_below(rng, 10)) {
    case 0:
        return cJSON_CreateNumber(wrong[kas_rng_below(rng, sizeof wrong / sizeof *wrong)]);
    case 1:
        return kas_rng_below(rng, 2) ? cJSON_CreateString("0") : cJSON_CreateArray();
    case 2:
    case 3:
        return cJSON_CreateNull();
    default:
        return cJSON_CreateNumber(kas_rng_below(rng, (uint32_t)kernels + (kernels == 0)));
    }
}

/* Often one of the test's targets; else short, long, too long, or with what no name may hold. */
static void random_name(kas_rng *rng, char name[128])
{
    static const char *const odd[] = {"", " ", "a b", "a\n", "\x7f", "\xc3\xa9", "layers", "-"};
    const uint32_t length = 60 + kas_rng_below(rng, 8);
    switch (kas_rng_below(rng, 8)) {
    case 0:
        snprintf(name, 128, "%s", odd[kas_rng_below(rng, sizeof odd / sizeof *odd)]);
        return;
    case 1:
        for (uint32_t i = 0; i < length; i++)
            name[i] = 'n';
        name[length] = '\0';
        return;
    default:
        snprintf(name, 128, "layer%u", 1 + kas_rng_below(rng, 4));
    }
}

static void change_layer(kas_rng *rng, cJSON *root)
{
    cJSON *layers = part(root, "layers"), *layer = fuzz_random_item(rng, layers);
    char name[128];
    if (!layer || !layer->string)
        return;
    snprintf(name, sizeof name, "%.127s", layer->string);
    cJSON_ReplaceItemInObjectCaseSensitive(layers, name, random_number(rng, root));
}

/* Now and then a name that is there already. */
static void add_layer(kas_rng *rng, cJSON *root)
{
    cJSON *layers = part(root, "layers");
    char name[128];
    random_name(rng, name);
    if (cJSON_IsObject(layers) &&
        (!cJSON_HasObjectItem(layers, name) || kas_rng_below(rng, 4) == 0))
        cJSON_AddItemToObject(layers, name, random_number(rng, root));
}

static void remove_layer(kas_rng *rng, cJSON *root)
{
    cJSON *layers = part(root, "layers"), *layer = fuzz_random_item(rng, layers);
    if (layer)
        cJSON_Delete(cJSON_DetachItemViaPointer(layers, layer));
}

/* ---- the file -------------------------------------------------------------------------------- */

/* A field of the file becomes something else, goes, or one comes that no file has. */
static void spoil_file(kas_rng *rng, cJSON *root)
{
    cJSON *field = fuzz_random_item(rng, root);
    switch (kas_rng_below(rng, 4)) {
    case 0:
        if (field)
            cJSON_Delete(cJSON_DetachItemViaPointer(root, field));
        return;
    case 1:
        cJSON_AddItemToObject(root, "about", cJSON_CreateString("no such field"));
        return;
    default:
        if (field)
            fuzz_replace(root, field, random_number(rng, root));
    }
}

static void mutate_once(kas_rng *rng, cJSON *root, const cJSON *donor)
{
    switch (kas_rng_below(rng, 16)) {
    case 0:
    case 1:
        add_kernel(rng, root, donor);
        return;
    case 2:
        remove_kernel(rng, root);
        return;
    case 3:
    case 4:
    case 5:
        change_layer(rng, root);
        return;
    case 6:
    case 7:
        add_layer(rng, root);
        return;
    case 8:
        remove_layer(rng, root);
        return;
    case 9:
        if (kas_rng_below(rng, 4) == 0)
            spoil_file(rng, root);
        return;
    default:
        change_kernel(rng, root, donor);
    }
}

void fuzz_mutate_layers(kas_rng *rng, cJSON *root, const cJSON *donor)
{
    for (uint32_t n = 1 + kas_rng_below(rng, 3); n > 0; n--)
        mutate_once(rng, root, donor);
}

#include "host/interpret/normals.h"

#include <stdlib.h>

#include "host/model/params.h"

struct kas_drawn {
    uint64_t seed;
    int layer, slot;
    size_t size;
    float *value; /* [size] */
};

void kas_normals_free(kas_normals *normals)
{
    for (int i = 0; i < normals->count; i++)
        free(normals->list[i].value);
    free(normals->list);
    *normals = (kas_normals){0};
}

/* Returns the entry, a new one without values if need be; NULL: no memory. */
static struct kas_drawn *entry(kas_normals *normals, uint64_t seed, int layer, int slot)
{
    for (int i = 0; i < normals->count; i++)
        if (normals->list[i].layer == layer && normals->list[i].slot == slot &&
            normals->list[i].seed == seed)
            return &normals->list[i];
    if (normals->count % 64 == 0) {
        void *grown = realloc(normals->list, sizeof *normals->list * ((size_t)normals->count + 64));
        if (!grown)
            return NULL;
        normals->list = grown;
    }
    normals->list[normals->count] = (struct kas_drawn){.seed = seed, .layer = layer, .slot = slot};
    return &normals->list[normals->count++];
}

kas_status kas_normals_get(kas_normals *normals, uint64_t seed, int layer, int slot, size_t size,
                           const float **out)
{
    if (normals->total > KAS_NORMALS_MOST)
        kas_normals_free(normals);
    struct kas_drawn *e = entry(normals, seed, layer, slot);
    if (e && e->size < size) {
        const kas_param param = {
            .layer = layer, .slot = slot, .size = size, .init = KAS_INIT_NORMAL, .scale = 1};
        float *value = realloc(e->value, sizeof *value * size);
        if (!value)
            return kas_fail(KAS_NO_MEMORY, "no memory for %zu initial weights", size);
        kas_param_init(&param, seed, value);
        normals->total += size - e->size;
        e->value = value;
        e->size = size;
    }
    if (!e)
        return kas_fail(KAS_NO_MEMORY, "no memory for the list of initial weights");
    *out = e->value;
    return KAS_OK;
}

#include "host/interpret/normals.h"

#include <stdlib.h>

#include "host/core/arena.h"
#include "host/core/random.h"
#include "host/interpret/vector.h"
#include "host/model/params.h"

struct kas_drawn {
    uint64_t seed;
    int layer, slot;
    size_t size;
    float *value; /* [size] */
};

/* Numbers [from, to) as kas_param_init draws them with kas_rng_normal, up to rounding: number i is
 * made of block i of the generator alone (core/random.h), so that many can be made at once. */
static void draw(uint64_t seed, int layer, int slot, size_t from, size_t to, float *value)
{
    const uint64_t stream = (uint64_t)layer * KAS_PARAM_GAIN_SLOT + (uint64_t)slot;
    const kas_rng rng = kas_rng_make(seed, KAS_PURPOSE_INIT, stream);
#pragma omp simd
    for (size_t i = from; i < to; i++) {
        uint32_t c0 = (uint32_t)i, c1 = (uint32_t)(i >> 32), c2 = (uint32_t)stream;
        uint32_t c3 = (uint32_t)(stream >> 32), k0 = rng.key[0], k1 = rng.key[1];
        for (int round = 0; round < 10; round++) {
            const uint64_t a = (uint64_t)0xD2511F53u * c0, b = (uint64_t)0xCD9E8D57u * c2;
            c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
            c1 = (uint32_t)b;
            c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
            c3 = (uint32_t)a;
            k0 += 0x9E3779B9u;
            k1 += 0xBB67AE85u;
        }
        const int64_t first = (int64_t)(((uint64_t)c0 << 21) ^ (c1 >> 11));
        const int64_t second = (int64_t)(((uint64_t)c2 << 21) ^ (c3 >> 11));
        const double u = 1.0 - (double)first * 0x1p-53, v = (double)second * 0x1p-53;
        value[i] = (float)(sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v));
    }
}

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
    if (!KAS_GROW(normals->list, normals->count))
        return NULL;
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
        float *value = realloc(e->value, sizeof *value * size);
        if (!value)
            return kas_fail(KAS_NO_MEMORY, "no memory for %zu initial weights", size);
        draw(seed, layer, slot, e->size, size, value);
        normals->total += size - e->size;
        e->value = value;
        e->size = size;
    }
    if (!e)
        return kas_fail(KAS_NO_MEMORY, "no memory for the list of initial weights");
    *out = e->value;
    return KAS_OK;
}

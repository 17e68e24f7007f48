#include "host/space/name_set.h"

#include <stdlib.h>

static void put(kas_name_set *set, uint64_t name)
{
    size_t i = name & (set->size - 1);
    while (set->slot[i])
        i = (i + 1) & (set->size - 1);
    set->slot[i] = name;
}

static kas_status grow(kas_name_set *set)
{
    kas_name_set larger = {.size = set->size ? set->size * 2 : 1024, .used = set->used};
    larger.slot = calloc(larger.size, sizeof *larger.slot);
    if (!larger.slot)
        return kas_fail(KAS_NO_MEMORY, "no memory to remember %zu kernels", larger.size);
    for (size_t i = 0; i < set->size; i++)
        if (set->slot[i])
            put(&larger, set->slot[i]);
    larger.has_zero = set->has_zero;
    free(set->slot);
    *set = larger;
    return KAS_OK;
}

kas_status kas_name_set_add(kas_name_set *set, const char text[KAS_NAME_SIZE], bool *is_new)
{
    const uint64_t name = strtoull(text, NULL, 16);
    if (name == 0) {
        *is_new = !set->has_zero;
        set->has_zero = true;
        return KAS_OK;
    }
    if (2 * (set->used + 1) > set->size)
        KAS_TRY(grow(set));
    size_t i = name & (set->size - 1);
    while (set->slot[i] && set->slot[i] != name)
        i = (i + 1) & (set->size - 1);
    *is_new = set->slot[i] == 0;
    set->used += *is_new;
    set->slot[i] = name;
    return KAS_OK;
}

void kas_name_set_free(kas_name_set *set)
{
    free(set->slot);
    *set = (kas_name_set){0};
}

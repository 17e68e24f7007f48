#include "ptx/names.h"

#include <stdlib.h>
#include <string.h>

#include "ptx/form.h"

static size_t hash_of(const char *name)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619u;
    return hash;
}

/* Returns the slot of the name, or the free one where it would be. */
static ptx_named *slot_of(const ptx_names *names, const char *name)
{
    size_t at = hash_of(name) % names->room;
    while (names->slot[at].name && strcmp(names->slot[at].name, name) != 0)
        at = (at + 1) % names->room;
    return &names->slot[at];
}

ptx_named *ptx_names_find(const ptx_names *names, const char *name)
{
    ptx_named *found = names->room ? slot_of(names, name) : NULL;
    return found && found->name ? found : NULL;
}

static void grow(ptx_names *names)
{
    const ptx_names old = *names;
    names->room = old.room ? 2 * old.room : 256;
    names->slot = ptx_new(names->room * sizeof *names->slot);
    for (size_t i = 0; i < old.room; i++)
        if (old.slot[i].name)
            *slot_of(names, old.slot[i].name) = old.slot[i];
    free(old.slot);
}

ptx_named *ptx_names_add(ptx_names *names, const char *name)
{
    if (2 * names->count >= names->room)
        grow(names);
    ptx_named *slot = slot_of(names, name);
    if (!slot->name) {
        names->count++;
        slot->name = ptx_new(strlen(name) + 1);
        strcpy(slot->name, name);
    }
    return slot;
}

void ptx_names_free(ptx_names *names)
{
    for (size_t i = 0; i < names->room; i++)
        free(names->slot[i].name);
    free(names->slot);
    *names = (ptx_names){0};
}

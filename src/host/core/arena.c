#include "host/core/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_BLOCK = 64 * 1024, ALIGNMENT = 16 };

typedef struct block {
    struct block *next;
    size_t capacity, used;
    _Alignas(ALIGNMENT) unsigned char data[];
} block;

struct kas_arena {
    block *first, *last;
};

static block *block_create(size_t capacity)
{
    block *b = malloc(sizeof *b + capacity);
    if (b) {
        b->next = NULL;
        b->capacity = capacity;
        b->used = 0;
    }
    return b;
}

kas_arena *kas_arena_create(void)
{
    kas_arena *arena = malloc(sizeof *arena);
    if (!arena)
        return NULL;
    arena->first = arena->last = block_create(FIRST_BLOCK);
    if (!arena->first) {
        free(arena);
        return NULL;
    }
    return arena;
}

void kas_arena_free(kas_arena *arena)
{
    if (!arena)
        return;
    for (block *b = arena->first; b;) {
        block *next = b->next;
        free(b);
        b = next;
    }
    free(arena);
}

/* The last block, or where it has no room for `size` a new one, at least twice as large. */
static block *block_with_room(kas_arena *arena, size_t size)
{
    block *last = arena->last;
    if (last->capacity - last->used >= size)
        return last;
    const size_t capacity = last->capacity * 2;
    last->next = block_create(capacity > size ? capacity : size);
    if (last->next)
        arena->last = last->next;
    return last->next;
}

void *kas_arena_alloc(kas_arena *arena, size_t size)
{
    if (size > SIZE_MAX / 4)
        return NULL;
    size = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    block *b = block_with_room(arena, size);
    if (!b)
        return NULL;
    void *memory = b->data + b->used;
    b->used += size;
    return memset(memory, 0, size);
}

/* ---- lists ----------------------------------------------------------------------------------- */

enum { LEAST = 16 };

bool kas_grow(void **list, size_t count, size_t size)
{
    if (count && (count < LEAST || count & (count - 1)))
        return true;
    void *larger = realloc(*list, (count ? 2 * count : LEAST) * size);
    if (larger)
        *list = larger;
    return larger != NULL;
}

#include "host/core/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_BLOCK = 64 * 1024, ALIGNMENT = 16 };

typedef struct block {
    struct block *next;
    size_t capacity, used;
    _Alignas(ALIGNMENT) unsigned char data[];
} block;

struct kas_arena {
    block *first, *cursor;
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
    arena->first = arena->cursor = block_create(FIRST_BLOCK);
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

void kas_arena_reset(kas_arena *arena)
{
    for (block *b = arena->first; b; b = b->next)
        b->used = 0;
    arena->cursor = arena->first;
}

/* The first block from the cursor on with room for `size`; a new one, at least twice the last, when
 * there is none. */
static block *block_with_room(kas_arena *arena, size_t size)
{
    for (;;) {
        block *b = arena->cursor;
        if (b->capacity - b->used >= size)
            return b;
        if (!b->next) {
            size_t capacity = b->capacity * 2;
            b->next = block_create(capacity > size ? capacity : size);
            if (!b->next)
                return NULL;
        }
        arena->cursor = b->next;
    }
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

char *kas_arena_strdup(kas_arena *arena, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = kas_arena_alloc(arena, size);
    return copy ? memcpy(copy, text, size) : NULL;
}

char *kas_arena_printf(kas_arena *arena, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = length < 0 ? NULL : kas_arena_alloc(arena, (size_t)length + 1);
    if (text)
        vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

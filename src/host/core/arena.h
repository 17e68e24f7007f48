/* Arena: many small allocations with one lifetime, freed together.
 *
 *     block 0 (64 KiB)            block 1 (larger)
 *     [ used ......... | left ]-> [ used .. | free      ]-> NULL
 *
 * Blocks are kept in a list and never moved, so pointers stay valid until kas_arena_free.  Memory
 * is zeroed.  Not thread-safe: one arena, one thread.
 *
 * And KAS_GROW, for lists that live alone and grow by one element at a time. */
#ifndef KAS_CORE_ARENA_H
#define KAS_CORE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

typedef struct kas_arena kas_arena;

/* Creates an empty arena; the caller frees it with kas_arena_free. Returns NULL when memory
 * is exhausted. */
kas_arena *kas_arena_create(void);
void kas_arena_free(kas_arena *arena); /* NULL is allowed */

/* Each of these returns NULL when memory is exhausted. kas_arena_alloc returns `size` zeroed bytes
 * aligned to 16; a size of 0 gives a valid pointer. */
void *kas_arena_alloc(kas_arena *arena, size_t size);

/* Allocates `count` zeroed objects of `type`; NULL when memory is exhausted. */
#define KAS_ARENA_NEW(arena, type, count)                                                          \
    ((type *)kas_arena_alloc((arena), sizeof(type) * (size_t)(count)))

/* Makes room for one element behind the first `count` of a list, which begins as NULL and is made
 * larger by nothing else. Returns false, and leaves the list as it is, when there is no memory; then
 * nothing may be added. No capacity is kept: it is the power of two behind `count`, 16 at least. */
#define KAS_GROW(list, count) kas_grow((void **)&(list), (size_t)(count), sizeof *(list))
bool kas_grow(void **list, size_t count, size_t size);

#endif

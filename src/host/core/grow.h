/* Lists that grow by one element at a time. */
#ifndef KAS_CORE_GROW_H
#define KAS_CORE_GROW_H

#include <stdbool.h>
#include <stddef.h>

/* Makes room for one element behind the first `count` of a list, which begins as NULL and is made
 * larger by nothing else. Returns false, and leaves the list as it is, when there is no memory; then
 * nothing may be added. No capacity is kept: it is the power of two behind `count`, 16 at least. */
#define KAS_GROW(list, count) kas_grow((void **)&(list), (size_t)(count), sizeof *(list))
bool kas_grow(void **list, size_t count, size_t size);

#endif

#include "host/core/grow.h"

#include <stdlib.h>

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

/* Passes over memory in a plan's count (model/planned_bytes.h), by name. */
#ifndef KAS_SUPPORT_PASSES_H
#define KAS_SUPPORT_PASSES_H

#include <string.h>

#include "host/model/planned_bytes.h"

/* How many passes are `what`. */
static inline int count_passes(const kas_planned_bytes *planned, const char *what)
{
    int count = 0;
    for (int i = 0; i < planned->passes; i++)
        count += strcmp(planned->pass[i].what, what) == 0;
    return count;
}

#endif

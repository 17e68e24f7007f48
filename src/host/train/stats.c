#include "host/train/stats.h"

#include <stdlib.h>

#include "host/core/arena.h"

void kas_samples_free(kas_samples *s)
{
    free(s->value);
    *s = (kas_samples){0};
}

kas_status kas_samples_add(kas_samples *s, double value)
{
    if (!KAS_GROW(s->value, s->count))
        return kas_fail(KAS_NO_MEMORY, "no memory for %d measurements", s->count + 1);
    s->value[s->count++] = value;
    return KAS_OK;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double kas_samples_quantile(kas_samples *s, double q)
{
    if (s->count == 0)
        return 0;
    qsort(s->value, (size_t)s->count, sizeof *s->value, ascending);
    double at = q * (s->count - 1);
    int low = (int)at;
    double rest = at - low;
    return low + 1 < s->count ? s->value[low] * (1 - rest) + s->value[low + 1] * rest
                              : s->value[low];
}

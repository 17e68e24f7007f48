#include "host/core/rank.h"

#include <math.h>
#include <stdlib.h>

typedef struct item {
    double value;
    int place;
} item;

static int by_value(const void *a, const void *b)
{
    const item *x = a, *y = b;
    return (x->value > y->value) - (x->value < y->value);
}

kas_status kas_ranks(int count, const double *value, double *rank, int *ranked)
{
    item *list = malloc(sizeof *list * ((size_t)count + 1));
    if (!list)
        return kas_fail(KAS_NO_MEMORY, "no memory for %d ranks", count);
    int n = 0;
    for (int i = 0; i < count; i++) {
        rank[i] = NAN;
        if (isfinite(value[i]))
            list[n++] = (item){value[i], i};
    }
    qsort(list, (size_t)n, sizeof *list, by_value);
    for (int from = 0, to; from < n; from = to) {
        for (to = from + 1; to < n && list[to].value == list[from].value; to++)
            ;
        for (int i = from; i < to; i++)
            rank[list[i].place] = (from + 1 + to) / 2.0;
    }
    *ranked = n;
    free(list);
    return KAS_OK;
}

static double correlation(int count, const double *a, const double *b)
{
    double sa = 0, sb = 0, aa = 0, bb = 0, ab = 0, n = 0;
    for (int i = 0; i < count; i++)
        if (!isnan(a[i])) {
            sa += a[i];
            sb += b[i];
            n++;
        }
    for (int i = 0; i < count; i++)
        if (!isnan(a[i])) {
            aa += (a[i] - sa / n) * (a[i] - sa / n);
            bb += (b[i] - sb / n) * (b[i] - sb / n);
            ab += (a[i] - sa / n) * (b[i] - sb / n);
        }
    return n < 3 || aa == 0 || bb == 0 ? NAN : ab / sqrt(aa * bb);
}

kas_status kas_spearman(int count, const double *a, const double *b, double *out)
{
    double *both = malloc(sizeof *both * 4 * ((size_t)count + 1));
    int ranked;
    if (!both)
        return kas_fail(KAS_NO_MEMORY, "no memory for %d ranks", count);
    double *x = both, *y = both + count, *rx = y + count, *ry = rx + count;
    for (int i = 0; i < count; i++) {
        const bool finite = isfinite(a[i]) && isfinite(b[i]);
        x[i] = finite ? a[i] : NAN;
        y[i] = finite ? b[i] : NAN;
    }
    kas_status status = kas_ranks(count, x, rx, &ranked);
    if (status == KAS_OK)
        status = kas_ranks(count, y, ry, &ranked);
    if (status == KAS_OK)
        *out = correlation(count, rx, ry);
    free(both);
    return status;
}

kas_status kas_combine_ranks(int count, int scores, const double *const *value, double *out)
{
    double *both = malloc(sizeof *both * 2 * ((size_t)count + 1));
    kas_status status = KAS_OK;
    int ranked = 0;
    if (!both)
        return kas_fail(KAS_NO_MEMORY, "no memory for %d ranks", count);
    double *x = both, *rank = both + count;
    for (int i = 0; i < count; i++) {
        out[i] = 0;
        for (int s = 0; s < scores; s++)
            if (!isfinite(value[s][i]))
                out[i] = NAN;
    }
    for (int s = 0; s < scores && status == KAS_OK; s++) {
        for (int i = 0; i < count; i++)
            x[i] = isnan(out[i]) ? NAN : value[s][i];
        status = kas_ranks(count, x, rank, &ranked);
        for (int i = 0; i < count && status == KAS_OK; i++)
            out[i] += log(rank[i] / ranked);
    }
    free(both);
    return status;
}

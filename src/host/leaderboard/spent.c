#include "host/leaderboard/spent.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool on_cpu(const kas_search_options *options)
{
    return strcmp(options->device, "cpu") == 0;
}

double kas_spent_device(const kas_search_options *options, kas_elapsed effort)
{
    return on_cpu(options) ? effort.processor : effort.wall;
}

/* The time from an item's start to its end would hold pauses as well: between two runs of the
 * search, and at a rung. */
static kas_status training_seconds(kas_store *store, const kas_work *w, double *out)
{
    kas_epoch *epoch;
    int count;
    KAS_TRY(kas_store_epochs(store, w->id, &epoch, &count));
    *out = isfinite(w->measured.compile_seconds) ? w->measured.compile_seconds : 0;
    for (int i = 0; i < count; i++)
        *out += isfinite(epoch[i].seconds) ? epoch[i].seconds : 0;
    free(epoch);
    return KAS_OK;
}

kas_status kas_spent_item(kas_store *store, const kas_search_options *options, const kas_work *w,
                          double *seconds)
{
    *seconds = on_cpu(options) && isfinite(w->processor) ? w->processor : w->leased;
    return isfinite(*seconds) ? KAS_OK : training_seconds(store, w, seconds);
}

kas_status kas_spent_study(kas_store *store, const kas_study *study,
                           const kas_search_options *options, const kas_work *work, int count,
                           double *seconds)
{
    *seconds = study->drawing_seconds;
    for (int i = 0; i < count; i++) {
        double item = 0;
        if (kas_spent_counts(&work[i]))
            KAS_TRY(kas_spent_item(store, options, &work[i], &item));
        *seconds += item;
    }
    return KAS_OK;
}

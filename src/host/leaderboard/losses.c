#include "host/leaderboard/losses.h"

#include <stdlib.h>
#include <string.h>

#include "host/score/correct.h"

enum { MOST = 1 << 26 };

void kas_losses_free(kas_losses *losses)
{
    free(losses->baseline);
    free(losses->of);
    *losses = (kas_losses){0};
}

double kas_loss_of(const kas_work *work, const kas_work *baseline, int part)
{
    const kas_paired pair =
        kas_correct_compare(baseline ? baseline->correct : NULL, work->correct, part);
    return 100 * (pair.lost + pair.error);
}

void kas_losses_against(kas_losses *losses, const kas_work *baseline)
{
    const char *images = baseline && baseline->correct ? baseline->correct : "";
    if (losses->baseline && strcmp(losses->baseline, images) == 0)
        return;
    kas_losses_free(losses);
    losses->baseline = strdup(images);
}

/* Returns NULL where nothing can be kept. */
static struct kas_loss *place_of(kas_losses *losses, const kas_work *work)
{
    if (!losses || !losses->baseline || work->state != KAS_WORK_FINISHED || work->id < 0 ||
        work->id >= MOST)
        return NULL;
    if (work->id >= losses->room) {
        const int64_t room = 2 * work->id + 64;
        struct kas_loss *grown = realloc(losses->of, (size_t)room * sizeof *grown);
        if (!grown)
            return NULL;
        memset(grown + losses->room, 0, (size_t)(room - losses->room) * sizeof *grown);
        losses->of = grown;
        losses->room = room;
    }
    return &losses->of[work->id];
}

double kas_losses_find(kas_losses *losses, const kas_work *work, const kas_work *baseline)
{
    struct kas_loss *kept = place_of(losses, work);
    if (kept && kept->known)
        return kept->points;
    const double points = kas_loss_of(work, baseline, KAS_SELECTING);
    if (kept)
        *kept = (struct kas_loss){points, true};
    return points;
}

/* The points that candidates lose against the unmodified network.
 *
 * Each is a comparison of some thousand images, and a supervisor asks who leads after every change
 * of its study.  What a finished candidate loses changes only with the baseline, so the supervisor
 * keeps it: with 10,000 candidates and 5,000 images that takes 1 ms instead of 31. */
#ifndef KAS_LEADERBOARD_LOSSES_H
#define KAS_LEADERBOARD_LOSSES_H

#include "host/store/store.h"

/* What is known; zero at first. */
typedef struct kas_losses {
    char *baseline; /* the images of the unmodified network (score/correct.h) */
    struct kas_loss {
        double points; /* on the images that select */
        bool known;
    } * of; /* [room] by the item's id */
    int64_t room;
} kas_losses;
void kas_losses_free(kas_losses *losses);

/* Finds the points that a candidate or final training loses on a part of its images, the standard
 * error added; NaN: unknown. */
double kas_loss_of(const kas_work *work, const kas_work *baseline, int part);

/* Forgets what is known against another baseline. Call it before a series of kas_losses_find. */
void kas_losses_against(kas_losses *losses, const kas_work *baseline);
/* Finds those on the images that select, from what is known if there is any. With `losses` NULL, and
 * without memory, nothing is kept. */
double kas_losses_find(kas_losses *losses, const kas_work *work, const kas_work *baseline);

#endif

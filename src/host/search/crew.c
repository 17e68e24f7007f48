#include "host/search/crew.h"

#include <time.h>

/* Waits for a change, and once a second shows the supervisor that it only waits: also when changes
 * that concern others wake it more often. */
static void wait_for_change(kas_worker *worker)
{
    kas_crew *crew = worker->crew;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec++;
    pthread_cond_clockwait(&crew->changed, &crew->lock, CLOCK_MONOTONIC, &until);
    pthread_mutex_unlock(&crew->lock);
    kas_lane_wait(worker);
    pthread_mutex_lock(&crew->lock);
}

/* ---- the device for one alone ------------------------------------------------------------------
 */

/* Under the lock. Whoever wants to be alone goes before all others. */
static void enter(kas_worker *worker)
{
    kas_crew *crew = worker->crew;
    while (crew->alone || crew->wanting > 0)
        wait_for_change(worker);
    crew->inside++;
}

static void leave(kas_crew *crew)
{
    crew->inside--;
    pthread_cond_broadcast(&crew->changed);
}

void kas_crew_enter(kas_worker *worker)
{
    pthread_mutex_lock(&worker->crew->lock);
    enter(worker);
    pthread_mutex_unlock(&worker->crew->lock);
}

/* Under the lock. */
static void end_alone(kas_worker *worker)
{
    kas_crew *crew = worker->crew;
    if (!worker->alone)
        return;
    worker->alone = crew->alone = false;
    crew->inside++;
    pthread_cond_broadcast(&crew->changed);
}

void kas_crew_leave(kas_worker *worker)
{
    pthread_mutex_lock(&worker->crew->lock);
    end_alone(worker);
    leave(worker->crew);
    pthread_mutex_unlock(&worker->crew->lock);
}

/* Under the lock, which others may have meanwhile.  Training reports a chunk while the next is
 * under way (train/chunks.h): a lane that stands still must not leave the device busy. */
static void settle(kas_worker *worker)
{
    kas_crew *crew = worker->crew;
    if (!crew->evaluator->settle)
        return;
    pthread_mutex_unlock(&crew->lock);
    crew->evaluator->settle(worker->state);
    pthread_mutex_lock(&crew->lock);
}

void kas_crew_yield(kas_worker *worker)
{
    kas_crew *crew = worker->crew;
    pthread_mutex_lock(&crew->lock);
    end_alone(worker);
    if (crew->wanting > 0 && !crew->alone) {
        settle(worker);
        leave(crew);
        enter(worker);
    }
    pthread_mutex_unlock(&crew->lock);
}

void kas_worker_begin_alone(kas_worker *worker)
{
    kas_crew *crew = worker->crew;
    pthread_mutex_lock(&crew->lock);
    if (!worker->alone) {
        crew->wanting++;
        leave(crew);
        while (crew->inside > 0 || crew->alone)
            wait_for_change(worker);
        crew->wanting--;
        worker->alone = crew->alone = true;
    }
    pthread_mutex_unlock(&crew->lock);
}

void kas_worker_end_alone(kas_worker *worker)
{
    pthread_mutex_lock(&worker->crew->lock);
    end_alone(worker);
    pthread_mutex_unlock(&worker->crew->lock);
}

/* ---- its memory --------------------------------------------------------------------------------
 */

kas_verdict kas_worker_reserve(kas_worker *worker, size_t bytes, size_t room)
{
    kas_crew *crew = worker->crew;
    pthread_mutex_lock(&crew->lock);
    end_alone(worker);
    if (crew->reserved > 0 && crew->reserved + bytes > room) {
        leave(crew);
        while (crew->reserved > 0 && crew->reserved + bytes > room && !worker->stop)
            wait_for_change(worker);
        crew->reserved += bytes; /* before others can, who wait to enter */
        worker->reserved = bytes;
        enter(worker);
    } else {
        crew->reserved += bytes;
        worker->reserved = bytes;
    }
    const bool stop = worker->stop;
    pthread_mutex_unlock(&crew->lock);
    return stop ? KAS_STOP : KAS_CONTINUE;
}

void kas_worker_release(kas_worker *worker)
{
    kas_crew *crew = worker->crew;
    pthread_mutex_lock(&crew->lock);
    crew->reserved -= worker->reserved;
    worker->reserved = 0;
    pthread_cond_broadcast(&crew->changed);
    pthread_mutex_unlock(&crew->lock);
}

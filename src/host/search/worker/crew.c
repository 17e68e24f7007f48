#include "host/search/worker/crew.h"

#include <time.h>

/* Waits for a change, and tells the supervisor once a second that the slot only waits, even when
 * changes that concern other slots wake it more often. */
static void wait_for_change(kas_slot *slot)
{
    kas_crew *crew = slot->crew;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec++;
    pthread_cond_clockwait(&crew->changed, &crew->lock, CLOCK_MONOTONIC, &until);
    pthread_mutex_unlock(&crew->lock);
    kas_slot_wait(slot);
    pthread_mutex_lock(&crew->lock);
}

/* ---- the device for one alone ---------------------------------------------------------------- */

/* Begins shared use of the device. The lock is held. Slots that wait for exclusive use go first. */
static void enter(kas_slot *slot)
{
    kas_crew *crew = slot->crew;
    while (crew->alone || crew->wanting > 0)
        wait_for_change(slot);
    crew->inside++;
}

static void leave(kas_crew *crew)
{
    crew->inside--;
    pthread_cond_broadcast(&crew->changed);
}

void kas_crew_enter(kas_slot *slot)
{
    pthread_mutex_lock(&slot->crew->lock);
    enter(slot);
    pthread_mutex_unlock(&slot->crew->lock);
}

/* Ends exclusive use of the device, if the slot has it; shared use follows. The lock is held. */
static void end_alone(kas_slot *slot)
{
    kas_crew *crew = slot->crew;
    if (!slot->alone)
        return;
    slot->alone = crew->alone = false;
    crew->inside++;
    pthread_cond_broadcast(&crew->changed);
}

void kas_crew_leave(kas_slot *slot)
{
    pthread_mutex_lock(&slot->crew->lock);
    end_alone(slot);
    leave(slot->crew);
    pthread_mutex_unlock(&slot->crew->lock);
}

/* Waits for the slot's enqueued work. The lock is held, but is released meanwhile. Training
 * reports a chunk while the next one runs (train/chunks.h), and a slot that waits must not leave
 * the device busy. */
static void settle(kas_slot *slot)
{
    kas_crew *crew = slot->crew;
    if (!crew->evaluator->settle)
        return;
    pthread_mutex_unlock(&crew->lock);
    crew->evaluator->settle(slot->state);
    pthread_mutex_lock(&crew->lock);
}

void kas_crew_yield(kas_slot *slot)
{
    kas_crew *crew = slot->crew;
    pthread_mutex_lock(&crew->lock);
    end_alone(slot);
    if (crew->wanting > 0 && !crew->alone) {
        settle(slot);
        leave(crew);
        enter(slot);
    }
    pthread_mutex_unlock(&crew->lock);
}

void kas_slot_begin_alone(kas_slot *slot)
{
    kas_crew *crew = slot->crew;
    pthread_mutex_lock(&crew->lock);
    if (!slot->alone) {
        crew->wanting++;
        leave(crew);
        while (crew->inside > 0 || crew->alone)
            wait_for_change(slot);
        crew->wanting--;
        slot->alone = crew->alone = true;
    }
    pthread_mutex_unlock(&crew->lock);
}

void kas_slot_end_alone(kas_slot *slot)
{
    pthread_mutex_lock(&slot->crew->lock);
    end_alone(slot);
    pthread_mutex_unlock(&slot->crew->lock);
}

/* ---- its memory ------------------------------------------------------------------------------ */

static void give_back(kas_slot *slot)
{
    slot->crew->reserved -= slot->reserved;
    slot->reserved = 0;
    pthread_cond_broadcast(&slot->crew->changed);
}

kas_verdict kas_slot_reserve(kas_slot *slot, size_t bytes, size_t room)
{
    kas_crew *crew = slot->crew;
    pthread_mutex_lock(&crew->lock);
    end_alone(slot);
    give_back(slot); /* an imitation's, which has ended */
    if (crew->reserved > 0 && crew->reserved + bytes > room) {
        leave(crew);
        while (crew->reserved > 0 && crew->reserved + bytes > room && !slot->stop)
            wait_for_change(slot);
        crew->reserved += bytes; /* before other slots, which wait to enter, can reserve it */
        slot->reserved = bytes;
        enter(slot);
    } else {
        crew->reserved += bytes;
        slot->reserved = bytes;
    }
    const bool stop = slot->stop;
    pthread_mutex_unlock(&crew->lock);
    return stop ? KAS_STOP : KAS_CONTINUE;
}

void kas_slot_release(kas_slot *slot)
{
    pthread_mutex_lock(&slot->crew->lock);
    give_back(slot);
    pthread_mutex_unlock(&slot->crew->lock);
}

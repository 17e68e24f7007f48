/* Groups on the CPU device: shared memory. Exchanges are done at once. */
#include <stdio.h>
#include <string.h>

#include "host/core/log.h"
#include "host/device/cpu/cpu.h"
#include "host/device/group_impl.h"
#include "host/device/shared.h"

_Static_assert((int)KAS_SHARED_ID <= (int)KAS_GROUP_ID, "an id fits into another");

static kas_status draw_id(kas_device *device, char id[KAS_GROUP_ID])
{
    (void)device;
    return kas_shared_create(id);
}

static kas_status join(kas_group *g, const char id[KAS_GROUP_ID])
{
    kas_shared *shared;
    KAS_TRY(kas_shared_join(id, g->rank, g->ranks, &shared));
    g->link = shared;
    if (g->capture && g->rank == 0)
        kas_warn("exchanges are not captured: only a GPU has graphs");
    g->capture = false;
    snprintf(g->settings, sizeof g->settings, "shared memory in the order of ranks");
    return KAS_OK;
}

static kas_status poll(kas_group *g, bool *joined)
{
    *joined = kas_shared_complete(g->link);
    const int rank = kas_shared_look(g->link);
    return rank < 0 ? KAS_OK : kas_fail(KAS_DEVICE, "rank %d has ended or failed", rank);
}

static void abort_exchanges(kas_group *g)
{
    kas_shared_abort(g->link);
}

static void leave(kas_group *g)
{
    kas_shared_leave(g->link);
}

const kas_group_backend kas_cpu_group = {draw_id, join, poll, abort_exchanges, leave};

kas_status kas_cpu_exchange(const kas_step *step)
{
    kas_group *g = step->group;
    bool done = true;
    if (step->kind == KAS_STEP_MEAN)
        done = kas_shared_mean(g->link, step->to, step->bytes / sizeof(float));
    else if (step->kind == KAS_STEP_GATHER)
        done = kas_shared_gather(g->link, step->to, step->bytes);
    if (done)
        return KAS_OK;
    KAS_TRY(kas_group_check(g)); /* it has the reason where the watcher found one */
    return kas_fail(KAS_DEVICE, "rank %d of %d: another rank has failed", g->rank, g->ranks);
}

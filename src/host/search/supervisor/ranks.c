/* Final trainings that several workers share: each is a rank (docs/parallel.md). The first worker
 * has rank 0, the item and its lease; what the others report only says that they live and how they
 * ended.
 *
 * When one rank ends, the others end too: the group tells them, and whoever has not ended after ten
 * seconds, or half the time that a worker may be silent, is killed. Whatever ended them, the item
 * goes on from its checkpoint, as after any fault of the machine; only a result of its own, such as
 * too little memory on one rank, ends it. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "host/core/file/files.h"
#include "host/core/log.h"
#include "host/search/supervisor/supervisor_state.h"

static const double MOST_GRACE = 10; /* seconds */

static bool is_free(const kas_supervisor *s, const kas_worker *worker)
{
    return worker->process.pid && worker->ready && !worker->ending &&
           kas_worker_busy(s, worker) == 0;
}

bool kas_ranks_free(const kas_supervisor *s, const kas_worker *worker)
{
    const int ranks = s->options->search->ranks;
    if (ranks == 1)
        return true;
    if (s->options->leaves_finals || worker->number % ranks != 0 ||
        worker->number + ranks > s->options->workers)
        return false;
    for (int rank = 0; rank < ranks; rank++)
        if (!is_free(s, worker + rank))
            return false;
    return true;
}

/* ---- the beginning --------------------------------------------------------------------------- */

kas_status kas_ranks_folder(const kas_supervisor *s, char out[KAS_STUDY_PATH])
{
    return kas_study_path(s->options->study, "ranks", out);
}

/* Writes a name that no other attempt of the study has. */
static void meeting_name(const kas_work *work, char out[2 * KAS_ITEM_NAME])
{
    char item[KAS_ITEM_NAME];
    kas_study_item_name(work, item);
    snprintf(out, 2 * KAS_ITEM_NAME, "%s-attempt-%d", item, work->lease);
}

/* Removes the file in which the ranks met, if it is still there. */
static kas_status clear_meeting(const kas_supervisor *s, const kas_work *work)
{
    char folder[KAS_STUDY_PATH], path[KAS_STUDY_PATH], name[2 * KAS_ITEM_NAME];
    meeting_name(work, name);
    KAS_TRY(kas_ranks_folder(s, folder));
    KAS_TRY(kas_study_path(folder, name, path));
    unlink(path);
    return KAS_OK;
}

kas_status kas_ranks_begin(kas_supervisor *s, kas_worker *first)
{
    kas_item *lead = first->item;
    char folder[KAS_STUDY_PATH];
    lead->ranks = s->options->search->ranks;
    first->solo = true;
    for (int rank = 1; rank < lead->ranks; rank++) {
        kas_item *item = first[rank].item;
        *item = *lead;
        item->rank = rank;
        item->work = (kas_work){.id = lead->work.id,
                                .kind = lead->work.kind,
                                .index = lead->work.index,
                                .seed = lead->work.seed,
                                .lease = lead->work.lease};
        first[rank].solo = true;
    }
    KAS_TRY(kas_ranks_folder(s, folder));
    KAS_TRY(kas_mkdirs(folder));
    return clear_meeting(s, &lead->work); /* this attempt has not begun */
}

kas_status kas_ranks_describe(const kas_supervisor *s, const kas_item *item, cJSON *message)
{
    char folder[KAS_STUDY_PATH], name[2 * KAS_ITEM_NAME];
    if (!item->ranks)
        return KAS_OK;
    KAS_TRY(kas_ranks_folder(s, folder));
    meeting_name(&item->work, name);
    kas_message_number(message, "rank", item->rank);
    kas_message_number(message, "ranks", item->ranks);
    kas_message_text(message, "meeting", folder);
    kas_message_text(message, "attempt", name);
    /* The ranks see that one hangs before the supervisor would blame the item. */
    kas_message_number(message, "rank_timeout", s->options->hang_seconds / 2);
    return KAS_OK;
}

/* ---- the end --------------------------------------------------------------------------------- */

static bool failed(kas_work_state state)
{
    return state == KAS_WORK_FAILED || state == KAS_WORK_OUT_OF_MEMORY ||
           state == KAS_WORK_DEVICE_LOST || state == KAS_WORK_MACHINE_FAULT;
}

/* Returns the result of an item none of whose ranks has told one. */
static cJSON *result_of_the_dead(int ranks)
{
    char reason[80];
    snprintf(reason, sizeof reason, "its %d ranks ended without a result", ranks);
    cJSON *result = kas_message("result");
    kas_message_text(result, "state", kas_work_state_name(KAS_WORK_MACHINE_FAULT));
    kas_message_text(result, "reason", reason);
    return result;
}

/* Ends the item, or returns it to the queue, when all of its ranks are over. */
static kas_status settle(kas_supervisor *s, kas_worker *first)
{
    kas_item *lead = first->item;
    const int ranks = lead->ranks;
    for (int rank = 0; rank < ranks; rank++)
        if (!first[rank].item->over)
            return KAS_OK;
    for (int rank = 1; rank < ranks; rank++)
        kas_worker_clear(s, &first[rank], first[rank].item);
    KAS_TRY(clear_meeting(s, &lead->work));
    if (lead->dropped) /* its lease belongs to another supervisor */
        return kas_worker_release(s, first, lead, false);
    cJSON *result = lead->result ? lead->result : result_of_the_dead(ranks);
    lead->result = NULL;
    const kas_status status =
        result ? kas_worker_end_item(s, first, lead, result)
               : kas_fail(KAS_NO_MEMORY, "the result of a final training: out of memory");
    cJSON_Delete(result);
    return status;
}

static void end_others(kas_supervisor *s, kas_item *lead)
{
    if (lead->end_by == 0)
        lead->end_by = kas_supervisor_listened(s) + fmin(MOST_GRACE, s->options->hang_seconds / 2);
}

/* Keeps the result that decides about the item: that of rank 0, but when the ranks failed because
 * one of them did, that one's. A rank that another one has failed reports a fault of the machine.
 */
static kas_status keep(kas_item *lead, const kas_item *item, kas_work_state state,
                       const cJSON *result)
{
    const bool better = !lead->result || (item->rank == 0 && !failed(state)) ||
                        strcmp(kas_message_get_text(lead->result, "state"),
                               kas_work_state_name(KAS_WORK_MACHINE_FAULT)) == 0;
    if (!better || (item->rank > 0 && !failed(state)))
        return KAS_OK;
    cJSON_Delete(lead->result);
    lead->result = cJSON_Duplicate(result, true);
    return lead->result ? KAS_OK
                        : kas_fail(KAS_NO_MEMORY, "the result of a final training: out of memory");
}

/* A training that goes on from a checkpoint in another way keeps both, and says so. When somebody
 * else has the item meanwhile, the next report shows it. */
kas_status kas_ranks_hear_exchange(kas_supervisor *s, kas_item *item, const cJSON *message)
{
    const char *now = kas_message_get_text(message, "exchange"), *before = item->work.exchange;
    const size_t size = strlen(now), had = before ? strlen(before) : 0;
    kas_buf text = {0};
    bool held;
    if (had >= size && strcmp(before + had - size, now) == 0)
        return KAS_OK;
    if (had && item->work.epochs > 0) {
        char name[KAS_ITEM_NAME];
        kas_study_item_name(&item->work, name);
        kas_warn("%s goes on from its checkpoint with another exchange between its ranks (%s) than "
                 "before (%s): a second run may get other bits",
                 name, now, before);
        kas_buf_printf(&text, "%s; then ", before);
    }
    kas_buf_puts(&text, now);
    kas_status status = kas_buf_status(&text);
    if (status == KAS_OK)
        status = kas_store_record_exchange(s->store, item->work.id, item->work.lease,
                                           kas_buf_text(&text), &held);
    kas_buf_free(&text);
    return status;
}

kas_status kas_ranks_hear_result(kas_supervisor *s, kas_worker *worker, kas_item *item,
                                 const cJSON *result)
{
    kas_worker *first = worker - item->rank;
    kas_work_state state;
    if (!kas_work_state_parse(kas_message_get_text(result, "state"), &state) ||
        (state != KAS_WORK_QUEUED && !kas_work_ended(state)))
        return kas_fail(KAS_BAD_INPUT, "result: unknown state");
    KAS_TRY(keep(first->item, item, state, result));
    worker->ending |= state == KAS_WORK_MACHINE_FAULT || state == KAS_WORK_DEVICE_LOST;
    item->over = true;
    if (item->rank == 0 || failed(state))
        end_others(s, first->item);
    return settle(s, first);
}

kas_status kas_ranks_died(kas_supervisor *s, kas_worker *worker, kas_item *item)
{
    kas_worker *first = worker - item->rank;
    item->over = true;
    end_others(s, first->item);
    return settle(s, first);
}

void kas_ranks_watch(kas_supervisor *s)
{
    for (int i = 0; i < s->options->workers; i++) {
        kas_worker *worker = &s->worker[i];
        const kas_item *item = worker->item;
        if (!item->busy || !item->ranks || item->over || !worker->process.pid)
            continue;
        const double end_by = worker[-item->rank].item->end_by;
        if (end_by > 0 && s->listened > end_by)
            kas_process_kill(&worker->process);
    }
}

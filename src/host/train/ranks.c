#include "host/train/ranks.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct identity {
    uint8_t run[32];
    char data[sizeof((kas_dataset *)0)->digest];
    uint64_t step, captures;
} identity;

static kas_status compare(const identity *mine, int self, const identity *other, int rank)
{
    if (memcmp(other->data, mine->data, sizeof mine->data) != 0)
        return kas_fail(KAS_BAD_INPUT,
                        "rank %d has another data set (digest %.12s...) than rank %d (%.12s...)",
                        rank, other->data, self, mine->data);
    if (memcmp(other->run, mine->run, sizeof mine->run) != 0)
        return kas_fail(
            KAS_BAD_INPUT,
            "rank %d has another network, kernel, recipe, seed or split than rank %d; all "
            "ranks must be of one version and one kind of device",
            rank, self);
    if (other->step != mine->step)
        return kas_fail(KAS_BAD_INPUT,
                        "rank %d goes on from step %" PRIu64 " and rank %d from %" PRIu64
                        ": they have read different checkpoints",
                        rank, other->step, self, mine->step);
    if (other->captures != mine->captures)
        return kas_fail(
            KAS_BAD_INPUT,
            "rank %d captures exchanges and rank %d does not; give --capture-exchange to "
            "all ranks or to none",
            mine->captures ? self : rank, mine->captures ? rank : self);
    return KAS_OK;
}

kas_status kas_train_check_ranks(const kas_train_options *o, const uint8_t digest[32],
                                 uint64_t step)
{
    identity mine = {.step = step, .captures = kas_group_captures(o->group)}, all[KAS_MAX_DEVICES];
    char message[512];
    kas_status status = KAS_OK;
    if (!o->group)
        return KAS_OK;
    memcpy(mine.run, digest, sizeof mine.run);
    memcpy(mine.data, o->dataset->digest, sizeof mine.data);
    KAS_TRY(kas_group_gather(o->group, &mine, sizeof mine, all));
    for (int rank = 0; rank < kas_group_ranks(o->group) && status == KAS_OK; rank++)
        status = compare(&mine, kas_group_rank(o->group), &all[rank], rank);
    if (status == KAS_OK)
        return KAS_OK;
    /* All ranks have found the difference. A rank that leaves ends the group, so it waits until all
     * have got here, whatever becomes of that: otherwise a slower one could not say what is
     * wrong. */
    snprintf(message, sizeof message, "%s", kas_error());
    (void)kas_group_gather(o->group, &mine, sizeof mine, all);
    return kas_fail(status, "%s", message);
}

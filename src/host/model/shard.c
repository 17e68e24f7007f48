/* The optimiser's state shared out among the ranks of a group (ZeRO-1: Rajbhandari et al. 2020,
 * section 5.1): of first and second moments each rank has a range of equal size, the last one
 * perhaps less.
 *
 *     gradients   | mean of all ranks, whole, as without |
 *     moments            | own share |
 *     parameters  | rank 0's | own, updated here | rank 2's ... |   then gathered
 *
 * A rank updates its share of the parameters from the same gradients by the same operations as
 * without, so all bits are the same. The memory of parameters has room for equal shares. A
 * checkpoint has the moments of all ranks, in the order of an optimiser that is whole. */
#include <stdlib.h>
#include <string.h>

#include "host/model/model_impl.h"

enum { PIECE = 1 << 20 }; /* floats of each rank that are gathered at once, to take little memory */

size_t kas_shard_begin(const kas_model *m)
{
    return (size_t)kas_group_rank(m->group) * m->share;
}

static size_t size_of_share(const kas_model *m, int rank)
{
    const size_t begin = (size_t)rank * m->share, learned = m->params.learned;
    return begin >= learned ? 0 : learned - begin < m->share ? learned - begin : m->share;
}

size_t kas_shard_size(const kas_model *m)
{
    return size_of_share(m, kas_group_rank(m->group));
}

kas_status kas_shard_record_gather(const kas_model *m, kas_plan *plan)
{
    KAS_TRY(kas_plan_gather(plan, m->group, m->memory + m->layout.parameters,
                            m->share * sizeof(float)));
    if (m->dtype != KAS_F32)
        KAS_TRY(kas_plan_gather(plan, m->group, m->memory + m->layout.copy,
                                m->share * kas_dtype_size(m->dtype)));
    return kas_plan_join(plan, m->group);
}

/* Copies what the ranks have at [at, at + count) of their shares to the whole. */
static void place(const kas_model *m, const float *all, size_t at, size_t count, float *whole)
{
    for (int rank = 0; rank < m->ranks; rank++) {
        const size_t size = size_of_share(m, rank), left = at < size ? size - at : 0;
        memcpy(whole + (size_t)rank * m->share + at, all + (size_t)rank * count,
               (left < count ? left : count) * sizeof *whole);
    }
}

/* Gathers the moments at `part`; `whole` may be NULL. */
static kas_status gather(kas_model *m, size_t part, float *whole)
{
    const size_t most = m->share < PIECE ? m->share : PIECE;
    float *mine = malloc(most * sizeof *mine), *all = malloc(most * (size_t)m->ranks * sizeof *all);
    kas_status status = mine && all ? KAS_OK
                                    : kas_fail(KAS_NO_MEMORY,
                                               "no memory for %zu moments of each of "
                                               "%d ranks",
                                               most, m->ranks);
    for (size_t at = 0, count; at < m->share && status == KAS_OK; at += count) {
        count = m->share - at < most ? m->share - at : most;
        status =
            kas_mem_download(m->device, mine, kas_model_float(m, part, at), count * sizeof *mine);
        if (status == KAS_OK)
            status = kas_group_gather(m->group, mine, count * sizeof *mine, all);
        if (status == KAS_OK && whole)
            place(m, all, at, count, whole);
    }
    free(all);
    free(mine);
    return status;
}

/* Returns the moments of the whole optimiser in `kept`. */
static float *moments(char *kept, size_t part)
{
    return kept ? (float *)(void *)(kept + part) : NULL;
}

kas_status kas_shard_download(kas_model *m, char *kept)
{
    const kas_model_layout *from = &m->layout, *to = &m->whole;
    if (kept) {
        memset(kept, 0, to->kept); /* between the parts too */
        KAS_TRY(kas_mem_download(m->device, kept + to->parameters, m->memory + from->parameters,
                                 m->params.learned * sizeof(float)));
        KAS_TRY(kas_mem_download(m->device, kept + to->average, m->memory + from->average,
                                 to->kept - to->average));
    }
    KAS_TRY(gather(m, from->first, moments(kept, to->first)));
    return m->adamw ? gather(m, from->second, moments(kept, to->second)) : KAS_OK;
}

/* Uploads this rank's share of the moments at `part` of the whole. */
static kas_status upload_share(kas_model *m, size_t part, const char *whole)
{
    return kas_mem_upload(m->device, m->memory + part, whole + kas_shard_begin(m) * sizeof(float),
                          kas_shard_size(m) * sizeof(float));
}

kas_status kas_shard_upload(kas_model *m, const char *kept)
{
    const kas_model_layout *from = &m->whole, *to = &m->layout;
    KAS_TRY(kas_mem_upload(m->device, m->memory + to->parameters, kept + from->parameters,
                           m->params.learned * sizeof(float)));
    KAS_TRY(kas_mem_upload(m->device, m->memory + to->average, kept + from->average,
                           from->kept - from->average));
    KAS_TRY(upload_share(m, to->first, kept + from->first));
    return m->adamw ? upload_share(m, to->second, kept + from->second) : KAS_OK;
}

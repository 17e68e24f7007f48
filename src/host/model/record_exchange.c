/* What the ranks of a group exchange in a training step (docs/parallel.md): running statistics as
 * soon as the forward pass is done, and gradients in buckets as the backward pass completes them.
 *
 * A bucket is a range of the gradients' buffer. The backward pass goes through the layers from the
 * last to the first, and weights lie in the order of layers, so buckets are completed from the end
 * of the weights to their beginning, and what does not decay last. */
#include "host/model/record.h"

#include <stdio.h>
#include <stdlib.h>

enum { LEAST_BUCKET = 1 << 14 /* floats */ };

static size_t bucket_size(const kas_params *p)
{
    const size_t size =
        (p->learned / KAS_BUCKETS + KAS_UPDATE_GROUP) / KAS_UPDATE_GROUP * KAS_UPDATE_GROUP;
    return size < LEAST_BUCKET ? LEAST_BUCKET : size;
}

/* Returns the end of the bucket that begins at `from`. No bucket has both weights that decay and
 * others. */
static size_t bucket_end(const kas_params *p, size_t from)
{
    const size_t size = bucket_size(p);
    const size_t part = from < p->decayed ? p->decayed : p->learned;
    return part - from < size ? part : from + size;
}

/* Returns the operation behind which no gradient in [from, to) changes any more; `last`: of each
 * layer the last one of its backward pass. */
static int completed_by(const kas_params *p, const int *last, size_t from, size_t to)
{
    int operation = 0;
    for (int i = 0; i < p->count; i++) {
        const kas_param *param = &p->param[i];
        if (param->kind != KAS_PARAM_STATISTIC && param->offset < to &&
            param->offset + param->size > from && last[param->layer] > operation)
            operation = last[param->layer];
    }
    return operation;
}

const char *kas_model_exchange(kas_model *m)
{
    const kas_params *p = &m->params;
    int buckets = 0;
    for (size_t from = 0; from < p->learned; from = bucket_end(p, from))
        buckets++;
    snprintf(m->exchange, sizeof m->exchange,
             "%d ranks, %d buckets of at most %zu bytes, added by %s%s%s%s",
             kas_group_ranks(m->group), buckets, bucket_size(p) * sizeof(float),
             kas_group_settings(m->group), m->sync_batch_norm ? ", synchronised batch norm" : "",
             m->share ? ", optimiser in shards" : "",
             kas_group_captures(m->group) ? ", captured with the step" : "");
    return m->exchange;
}

kas_status kas_record_find_buckets(kas_recorder *r)
{
    const kas_params *p = &r->m->params;
    int *last = calloc((size_t)r->m->net->layers, sizeof *last), bucket = 0;
    if (!last)
        return kas_fail(KAS_NO_MEMORY, "no memory for the order of gradients");
    for (int i = 0; i < r->tape->ops; i++)
        if (r->tape->op[i].kind == KAS_TAPE_BACKWARD)
            last[r->tape->op[i].layer] = i;
    for (size_t from = 0, to; from < p->learned; from = to) {
        to = bucket_end(p, from);
        r->completed_by[bucket++] = completed_by(p, last, from, to);
    }
    free(last);
    return KAS_OK;
}

static kas_status exchange_gradients(const kas_recorder *r, int operation)
{
    const kas_model *m = r->m;
    int bucket = 0;
    for (size_t from = 0, to; from < m->params.learned; from = to) {
        to = bucket_end(&m->params, from);
        if (r->completed_by[bucket++] == operation)
            KAS_TRY(kas_plan_mean(r->plan, m->group, kas_model_float(m, m->layout.gradients, from),
                                  to - from));
    }
    return KAS_OK;
}

static kas_status exchange_range(const kas_recorder *r, size_t from, size_t to)
{
    const kas_model *m = r->m;
    return to > from ? kas_plan_mean(r->plan, m->group, kas_model_float(m, m->layout.running, from),
                                     to - from)
                     : KAS_OK;
}

/* Exchanges the running statistics: not gains, which lie between them and which no step changes. */
static kas_status exchange_statistics(const kas_recorder *r)
{
    size_t from = 0, to = 0;
    for (int i = 0; i < r->m->params.count; i++) {
        const kas_param *p = &r->m->params.param[i];
        if (p->kind != KAS_PARAM_STATISTIC)
            continue;
        if (p->slot == KAS_PARAM_GAIN_SLOT) {
            KAS_TRY(exchange_range(r, from, to));
            from = to = 0;
            continue;
        }
        from = to == 0 ? p->offset : from;
        to = p->offset + p->size;
    }
    return exchange_range(r, from, to);
}

kas_status kas_record_exchange(const kas_recorder *r, int operation)
{
    const kas_tape_kind kind = r->tape->op[operation].kind;
    if (!r->m->group || r->options->mode != KAS_TAPE_TRAIN)
        return KAS_OK;
    if (kind == KAS_TAPE_LOSS && !r->m->sync_batch_norm)
        return exchange_statistics(r);
    if (kind == KAS_TAPE_BACKWARD)
        KAS_TRY(exchange_gradients(r, operation));
    if (kind == KAS_TAPE_UPDATE)
        return KAS_OK;
    return r->tape->op[operation + 1].kind == KAS_TAPE_UPDATE ? kas_plan_join(r->plan, r->m->group)
                                                              : KAS_OK;
}

#include "host/train/chunks.h"

#include <stddef.h>

static bool on_cpu(const kas_chunks *c)
{
    return kas_device_get_info(c->device)->kind == KAS_DEVICE_CPU;
}

static kas_status record_gather(kas_chunks *c, uint32_t verdict)
{
    kas_chunk_words *all = (kas_chunk_words *)(void *)c->gathered;
    kas_chunk_words *own = all + kas_group_rank(c->group);
    kas_plan **plan = &c->gather[verdict];
    KAS_TRY(kas_plan_create(c->device, plan));
    KAS_TRY(kas_plan_copy(*plan, &own->metrics, kas_model_metrics(c->model), sizeof own->metrics));
    KAS_TRY(kas_plan_copy(*plan, &own->verdict, &all[c->ranks].verdict + 2 * verdict,
                          2 * sizeof own->verdict));
    KAS_TRY(kas_plan_gather(*plan, c->group, all, sizeof *all));
    return kas_plan_join(*plan, c->group);
}

/* Prepares a plan for each verdict, because the host could not send one without waiting. */
static kas_status prepare_gather(kas_chunks *c)
{
    const size_t words = (size_t)c->ranks * sizeof *c->words;
    const uint32_t verdicts[KAS_STOP + 1][2] = {{KAS_CONTINUE}, {KAS_PRUNE}, {KAS_STOP}};
    void *memory;
    KAS_TRY(kas_mem_alloc(c->device, words + sizeof *c->words + sizeof verdicts, &memory));
    c->gathered = memory;
    KAS_TRY(kas_mem_upload(c->device, c->gathered + words + offsetof(kas_chunk_words, verdict),
                           verdicts, sizeof verdicts));
    for (uint32_t verdict = 0; verdict <= KAS_STOP; verdict++)
        KAS_TRY(record_gather(c, verdict));
    return KAS_OK;
}

kas_status kas_chunks_create(kas_device *device, kas_model *model, kas_group *group,
                             kas_chunks *out)
{
    void *words;
    *out = (kas_chunks){
        .device = device, .model = model, .group = group, .ranks = kas_group_ranks(group)};
    for (int i = 0; i < KAS_CHUNKS_UNDER_WAY; i++)
        KAS_TRY(kas_timer_create(device, &out->timer[i]));
    KAS_TRY(kas_host_alloc(
        device, (size_t)KAS_CHUNKS_UNDER_WAY * (size_t)out->ranks * sizeof *out->words, &words));
    out->words = words;
    return group ? prepare_gather(out) : KAS_OK;
}

void kas_chunks_free(kas_chunks *c)
{
    for (int i = 0; i < KAS_CHUNKS_UNDER_WAY; i++)
        kas_timer_free(c->timer[i]);
    for (int verdict = 0; verdict <= KAS_STOP; verdict++)
        kas_plan_free(c->gather[verdict]);
    kas_mem_free(c->device, c->gathered);
    kas_host_free(c->device, c->words);
    *c = (kas_chunks){0};
}

uint32_t kas_chunks_size(const kas_chunks *c)
{
    return on_cpu(c) ? 1 : KAS_CHUNK_STEPS;
}

static int place_of(uint64_t chunk)
{
    return (int)(chunk % KAS_CHUNKS_UNDER_WAY);
}

kas_status kas_chunks_begin(kas_chunks *c)
{
    return kas_timer_start(c->timer[place_of(c->enqueued)]);
}

static kas_chunk_words *words_of(const kas_chunks *c, int place)
{
    return c->words + (size_t)place * (size_t)c->ranks;
}

static kas_status download_words(kas_chunks *c, int place, kas_verdict verdict)
{
    kas_chunk_words *words = words_of(c, place);
    if (c->group) {
        KAS_TRY(kas_plan_run(c->gather[verdict]));
        return kas_mem_download_later(c->device, words, c->gathered,
                                      (size_t)c->ranks * sizeof *words);
    }
    words->verdict = (uint32_t)verdict;
    return kas_model_get_metrics_later(c->model, &words->metrics);
}

/* The timer's end is enqueued behind the copy, so that waiting for it also waits for the copy. */
kas_status kas_chunks_end(kas_chunks *c, uint64_t step, uint32_t steps, kas_verdict verdict)
{
    const int place = place_of(c->enqueued);
    KAS_TRY(download_words(c, place, verdict));
    KAS_TRY(kas_timer_end(c->timer[place]));
    c->chunk[place] = (kas_chunk){.step = step, .steps = steps};
    c->enqueued++;
    return KAS_OK;
}

void kas_chunk_words_sum(const kas_chunk_words *words, int ranks, kas_metrics *sum,
                         kas_verdict *verdict)
{
    *sum = words[0].metrics;
    *verdict = (kas_verdict)words[0].verdict;
    for (int rank = 1; rank < ranks; rank++) {
        const kas_metrics *m = &words[rank].metrics;
        sum->loss_sum += m->loss_sum;
        sum->correct += m->correct;
        sum->counted += m->counted;
        sum->batch_loss += m->batch_loss;
        sum->not_finite.parameters |= m->not_finite.parameters;
        sum->not_finite.statistics |= m->not_finite.statistics;
        sum->not_finite.averages |= m->not_finite.averages;
        sum->not_finite.logits |= m->not_finite.logits;
        if (words[rank].verdict > *verdict)
            *verdict = (kas_verdict)words[rank].verdict;
    }
    sum->batch_loss /= ranks;
}

bool kas_chunks_pending(const kas_chunks *c)
{
    return c->seen < c->enqueued;
}

bool kas_chunks_due(const kas_chunks *c)
{
    return c->enqueued - c->seen >= (on_cpu(c) ? 1 : KAS_CHUNKS_UNDER_WAY);
}

kas_status kas_chunks_look(kas_chunks *c, kas_chunk *out)
{
    const int place = place_of(c->seen);
    *out = c->chunk[place];
    kas_group_wait(c->group, true);
    const kas_status status = kas_timer_read(c->timer[place], &out->seconds);
    kas_group_wait(c->group, true);
    KAS_TRY(kas_group_check(c->group)); /* then what was read means nothing */
    KAS_TRY(status);
    kas_chunk_words_sum(words_of(c, place), c->ranks, &out->metrics, &out->verdict);
    c->seen++;
    return KAS_OK;
}

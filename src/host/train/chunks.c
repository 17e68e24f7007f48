#include "host/train/chunks.h"

static bool on_cpu(const kas_chunks *c)
{
    return kas_device_get_info(c->device)->kind == KAS_DEVICE_CPU;
}

kas_status kas_chunks_create(kas_device *device, kas_model *model, kas_chunks *out)
{
    void *metrics;
    *out = (kas_chunks){.device = device, .model = model};
    for (int i = 0; i < KAS_CHUNKS_UNDER_WAY; i++)
        KAS_TRY(kas_timer_create(device, &out->timer[i]));
    KAS_TRY(kas_host_alloc(device, KAS_CHUNKS_UNDER_WAY * sizeof *out->metrics, &metrics));
    out->metrics = metrics;
    return KAS_OK;
}

void kas_chunks_free(kas_chunks *c)
{
    for (int i = 0; i < KAS_CHUNKS_UNDER_WAY; i++)
        kas_timer_free(c->timer[i]);
    kas_host_free(c->device, c->metrics);
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

/* The timer's end is enqueued behind the copy, so that waiting for it also waits for the copy. */
kas_status kas_chunks_end(kas_chunks *c, uint64_t step, uint32_t steps)
{
    const int place = place_of(c->enqueued);
    KAS_TRY(kas_model_get_metrics_later(c->model, &c->metrics[place]));
    KAS_TRY(kas_timer_end(c->timer[place]));
    c->chunk[place] = (kas_chunk){.step = step, .steps = steps};
    c->enqueued++;
    return KAS_OK;
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
    KAS_TRY(kas_timer_read(c->timer[place], &out->seconds));
    out->metrics = c->metrics[place];
    c->seen++;
    return KAS_OK;
}

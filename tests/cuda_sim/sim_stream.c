/* Streams: queues of work that is done late, in an order that streams alone do not promise. */
#include <string.h>
#include <time.h>

#include "sim.h"

typedef struct work {
    struct work *next;
    sim_work *run;
    void *data;
} work;

struct CUstream_st {
    CUstream next;
    int device;
    work *head, **tail;
};
struct CUevent_st {
    bool recorded, done;
    CUstream stream;
    struct timespec time;
};

_Thread_local CUcontext sim_context;
static CUstream streams;

void *sim_new(size_t bytes)
{
    void *memory = calloc(1, bytes);
    if (!memory)
        sim_broken("out of memory");
    return memory;
}

int sim_stream_device(CUstream stream)
{
    for (CUstream s = streams; s; s = s->next)
        if (s == stream)
            return s->device;
    sim_broken("stream %p does not exist", (void *)stream);
}

void sim_enqueue(CUstream stream, sim_work *run, void *data)
{
    if (sim_stream_device(stream) != sim_context->device)
        sim_broken("a stream of device %d is used in a context of device %d", stream->device,
                   sim_context->device);
    work *w = sim_new(sizeof *w);
    w->run = run;
    w->data = data;
    *stream->tail = w;
    stream->tail = &w->next;
}

static void run_head(CUstream stream)
{
    work *w = stream->head;
    stream->head = w->next;
    if (!stream->head)
        stream->tail = &stream->head;
    if (!sim_sticky) /* a dead GPU does nothing any more */
        w->run(w->data);
    free(w->data);
    free(w);
}

/* One piece of work of a random stream that has any; false when none has. */
static bool run_any(void)
{
    uint32_t count = 0;
    for (CUstream s = streams; s; s = s->next)
        count += s->head != NULL;
    if (!count)
        return false;
    uint32_t chosen = sim_random(count);
    for (CUstream s = streams; s; s = s->next)
        if (s->head && chosen-- == 0) {
            run_head(s);
            break;
        }
    return true;
}

void sim_drain(CUstream stream)
{
    sim_unlock_memory();
    if (stream)
        while (stream->head)
            run_any();
    else
        while (run_any())
            continue;
    sim_lock_memory();
}

void sim_some_progress(void)
{
    if (sim_random(16) != 0)
        return;
    sim_unlock_memory();
    for (uint32_t n = sim_random(4); n > 0 && run_any(); n--)
        continue;
    sim_lock_memory();
}

/* ---- the driver's functions ------------------------------------------------------------------ */

CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    SIM_CALL(cuStreamCreate, KAS_CUDA_ERROR_OUT_OF_MEMORY, sim_sticky);
    if (!sim_context || flags > KAS_CU_STREAM_NON_BLOCKING)
        return KAS_CUDA_ERROR_INVALID_VALUE;
    CUstream s = sim_new(sizeof *s);
    s->device = sim_context->device;
    s->tail = &s->head;
    s->next = streams;
    streams = s;
    sim_live++;
    *stream = s;
    return KAS_CUDA_SUCCESS;
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
    sim_stream_device(stream);
    sim_drain(stream);
    CUstream *link = &streams;
    while (*link != stream)
        link = &(*link)->next;
    *link = stream->next;
    free(stream);
    sim_live--;
    return sim_call("cuStreamDestroy_v2", KAS_CUDA_ERROR_INVALID_VALUE, sim_sticky);
}

CUresult cuStreamSynchronize(CUstream stream)
{
    SIM_CALL(cuStreamSynchronize, KAS_CUDA_ERROR_INVALID_HANDLE, sim_sticky);
    sim_stream_device(stream);
    sim_drain(stream);
    return KAS_CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    SIM_CALL(cuEventCreate, KAS_CUDA_ERROR_OUT_OF_MEMORY, sim_sticky);
    if (flags != KAS_CU_EVENT_DEFAULT)
        return KAS_CUDA_ERROR_INVALID_VALUE;
    *event = sim_new(sizeof **event);
    sim_live++;
    return KAS_CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent event)
{
    if (event->recorded && !event->done)
        sim_drain(event->stream); /* work that is queued points to it */
    free(event);
    sim_live--;
    return sim_call("cuEventDestroy_v2", KAS_CUDA_ERROR_INVALID_VALUE, sim_sticky);
}

static void reach_event(void *data)
{
    CUevent event = *(CUevent *)data;
    event->done = true;
    clock_gettime(CLOCK_MONOTONIC, &event->time);
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    SIM_CALL(cuEventRecord, KAS_CUDA_ERROR_INVALID_VALUE, sim_sticky);
    event->recorded = true;
    event->done = false;
    event->stream = stream;
    CUevent *data = sim_new(sizeof *data);
    *data = event;
    sim_enqueue(stream, reach_event, data);
    return KAS_CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent event)
{
    SIM_CALL(cuEventSynchronize, KAS_CUDA_ERROR_INVALID_HANDLE, sim_sticky);
    if (event->recorded && !event->done)
        sim_drain(event->stream);
    return KAS_CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
    SIM_CALL(cuEventElapsedTime, KAS_CUDA_ERROR_INVALID_VALUE, sim_sticky);
    if (!start->recorded || !end->recorded)
        return KAS_CUDA_ERROR_INVALID_HANDLE;
    if (!start->done || !end->done)
        return KAS_CUDA_ERROR_NOT_READY;
    *milliseconds = (float)((double)(end->time.tv_sec - start->time.tv_sec) * 1e3 +
                            (double)(end->time.tv_nsec - start->time.tv_nsec) * 1e-6);
    return KAS_CUDA_SUCCESS;
}

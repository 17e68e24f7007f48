/* Streams: queues of work that is done late, in an order that streams alone do not promise. */
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "sim.h"

enum { MAX_LANES = 4 };

typedef struct work {
    struct work *next;
    sim_work *run;
    void *data;
    size_t bytes;
    int lane; /* in a graph */
} work;

/* Work captured from one stream (lane 0) and from those that joined it by its events: later work of
 * a lane waits for earlier work, and for events of other lanes where the capture did. */
struct CUgraph_st {
    CUgraph next;
    int device, lanes;
    work *head, **tail;
};
struct CUgraphExec_st {
    CUgraph graph; /* a copy of its own */
};

struct CUstream_st {
    CUstream next;
    int device;
    work *head, **tail;
    uint64_t given;      /* jobs and graphs so far */
    CUgraph capture;     /* NULL: work is done */
    int lane;            /* of the capture */
    pthread_t capturing; /* the thread that began it */
    bool spoilt;         /* the capture will fail at its end */
};
/* An event may be recorded again while work waits for an earlier record of it. */
struct CUevent_st {
    uint64_t records, reached; /* calls of cuEventRecord; how many of them the work has come to */
    CUstream stream;           /* of the last record */
    uint64_t given;            /* to that stream, this record included */
    double milliseconds;
    CUgraph capture;   /* of the last record within one */
    uint64_t captured; /* records within captures */
    bool spins;        /* a thread that waits for it */
};
/* In a graph: a record of an event, or the wait for it. */
typedef struct mark {
    CUevent event;
    uint64_t number;
} mark;

_Thread_local CUcontext sim_context;
static CUstream streams;
static CUgraph graphs;
static double pretended; /* milliseconds */

void sim_pass_time(int microseconds)
{
    pretended += microseconds * 1e-3;
}

static double milliseconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6 + pretended;
}

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

static void append(work ***tail, sim_work *run, void *data, size_t bytes, int lane)
{
    work *w = sim_new(sizeof *w);
    *w = (work){.run = run, .data = data, .bytes = bytes, .lane = lane};
    **tail = w;
    *tail = &w->next;
}

void sim_enqueue(CUstream stream, sim_work *run, void *data, size_t bytes)
{
    if (sim_stream_device(stream) != sim_context->device)
        sim_broken("a stream of device %d is used in a context of device %d", stream->device,
                   sim_context->device);
    append(stream->capture ? &stream->capture->tail : &stream->tail, run, data, bytes,
           stream->lane);
    stream->given += !stream->capture;
}

static bool captures_here(CUstream s)
{
    return s->capture && pthread_equal(s->capturing, pthread_self());
}

bool sim_capturing(void)
{
    for (CUstream s = streams; s; s = s->next)
        if (captures_here(s))
            return true;
    return false;
}

bool sim_captures(CUstream stream)
{
    return stream->capture;
}

int sim_spoils_capture(void)
{
    for (CUstream s = streams; s; s = s->next)
        s->spoilt |= captures_here(s);
    return sim_capturing() ? KAS_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : 0;
}

static void reach_event(void *data)
{
    CUevent event = *(CUevent *)data;
    event->reached++;
    event->milliseconds = milliseconds_now();
}

static void run_head(CUstream stream)
{
    work *w = stream->head;
    stream->head = w->next;
    if (!stream->head)
        stream->tail = &stream->head;
    if (!sim_sticky || w->run == reach_event) /* a dead GPU does nothing any more */
        w->run(w->data);
    free(w->data);
    free(w);
}

/* A stream's wait for an event of another. */
typedef struct event_wait {
    CUevent event;
    uint64_t record;
} event_wait;

static void pass_event(void *data)
{
    (void)data;
}

static bool can_run(const struct CUstream_st *stream)
{
    if (!stream->head || stream->head->run != pass_event)
        return stream->head != NULL;
    const event_wait *wait = stream->head->data;
    return wait->event->reached >= wait->record;
}

/* Runs one job of a random stream that has any; returns false when none has. */
static bool run_any(void)
{
    uint32_t count = 0, held_up = 0;
    for (CUstream s = streams; s; s = s->next) {
        count += can_run(s);
        held_up += s->head && !can_run(s);
    }
    if (!count && held_up && !sim_sticky)
        sim_broken("%u streams wait for events that nothing will reach", held_up);
    if (!count)
        return false;
    uint32_t chosen = sim_random(count);
    for (CUstream s = streams; s; s = s->next)
        if (can_run(s) && chosen-- == 0) {
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
    SIM_LOCKED();
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
    SIM_NOT_IN_CAPTURE();
    sim_stream_device(stream);
    sim_idle_waits++;
    sim_drain(stream);
    return KAS_CUDA_SUCCESS;
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static CUgraph new_graph(int device)
{
    CUgraph graph = sim_new(sizeof *graph);
    graph->device = device;
    graph->lanes = 1;
    graph->tail = &graph->head;
    graph->next = graphs;
    graphs = graph;
    sim_live++;
    return graph;
}

static void free_graph(CUgraph graph)
{
    for (work *w = graph->head; w;) {
        work *next = w->next;
        free(w->data);
        free(w);
        w = next;
    }
    CUgraph *link = &graphs;
    while (*link != graph)
        link = &(*link)->next;
    *link = graph->next;
    free(graph);
    sim_live--;
}

bool sim_in_a_graph(sim_work *run, const void *first)
{
    for (CUgraph g = graphs; g; g = g->next)
        for (const work *w = g->head; w; w = w->next)
            if (w->run == run && memcmp(w->data, &first, sizeof first) == 0)
                return true;
    return false;
}

static void append_copy(work ***tail, const work *from)
{
    void *data = sim_new(from->bytes);
    memcpy(data, from->data, from->bytes);
    append(tail, from->run, data, from->bytes, from->lane);
}

static void copy_graph(CUgraph to, const struct CUgraph_st *from)
{
    to->lanes = from->lanes;
    for (const work *w = from->head; w; w = w->next)
        append_copy(&to->tail, w);
}

/* Events within a capture; only their order counts. */
static void record_mark(void *data)
{
    (void)data;
}
static void wait_mark(void *data)
{
    (void)data;
}

static void append_mark(CUstream stream, sim_work *run, CUevent event)
{
    mark *m = sim_new(sizeof *m);
    *m = (mark){event, event->captured};
    sim_enqueue(stream, run, m, sizeof *m);
}

static bool same_mark(const work *a, const work *b)
{
    return memcmp(a->data, b->data, sizeof(mark)) == 0;
}

/* Returns whether this wait's record is among the first jobs of the graph, up to the `next`
 * of its lane. */
static bool was_recorded(const struct CUgraph_st *g, const work *wait, const work *const *next)
{
    for (const work *w = g->head; w; w = w->next)
        if (w->run == record_mark && same_mark(w, wait)) {
            for (const work *left = next[w->lane]; left; left = left->next)
                if (left == w)
                    return false;
            return true;
        }
    return false;
}

static const work *in_lane(const work *w, int lane)
{
    while (w && w->lane != lane)
        w = w->next;
    return w;
}

/* The lanes in a random order that respects their waits: what a GPU may do with the graph. */
static void append_interleaved(work ***tail, const struct CUgraph_st *g)
{
    const work *next[MAX_LANES];
    int left = 0;
    for (int lane = 0; lane < g->lanes; lane++)
        next[lane] = in_lane(g->head, lane);
    for (const work *w = g->head; w; w = w->next)
        left++;
    while (left > 0) {
        const int lane = (int)sim_random((uint32_t)g->lanes);
        const work *w = next[lane];
        if (!w || (w->run == wait_mark && !was_recorded(g, w, next)))
            continue;
        if (w->run != wait_mark && w->run != record_mark)
            append_copy(tail, w);
        next[lane] = in_lane(w->next, lane);
        left--;
    }
}

/* Returns whether lane 0 waits for the end of every other lane. */
static bool all_joined(const struct CUgraph_st *g)
{
    for (int lane = 1; lane < g->lanes; lane++) {
        const work *last = NULL;
        for (const work *w = in_lane(g->head, lane); w; w = in_lane(w->next, lane))
            last = w;
        const work *wait = last ? in_lane(last->next, 0) : NULL;
        while (wait && !(wait->run == wait_mark && same_mark(wait, last)))
            wait = in_lane(wait->next, 0);
        if (!last || last->run != record_mark || !wait)
            return false;
    }
    return true;
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
    SIM_CALL(cuStreamBeginCapture_v2, KAS_CUDA_ERROR_INVALID_VALUE, sim_sticky);
    if (mode != KAS_CU_CAPTURE_THREAD_LOCAL || stream->capture)
        return KAS_CUDA_ERROR_INVALID_VALUE;
    stream->capture = new_graph(sim_stream_device(stream));
    stream->lane = 0;
    stream->capturing = pthread_self();
    stream->spoilt = false;
    return KAS_CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    SIM_LOCKED();
    *graph = NULL;
    if (!stream->capture || stream->lane != 0)
        sim_broken("cuStreamEndCapture of a stream that did not begin a capture");
    CUgraph captured = stream->capture;
    bool spoilt = false;
    for (CUstream s = streams; s; s = s->next)
        if (s->capture == captured) {
            s->capture = NULL;
            s->lane = 0;
            spoilt |= s->spoilt;
        }
    CUresult result = sim_call("cuStreamEndCapture", KAS_CUDA_ERROR_INVALID_VALUE, sim_sticky);
    if (result == KAS_CUDA_SUCCESS && spoilt)
        result = KAS_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (result == KAS_CUDA_SUCCESS && !all_joined(captured))
        result = KAS_CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    if (result == KAS_CUDA_SUCCESS)
        *graph = captured;
    else
        free_graph(captured);
    return result;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    SIM_CALL(cuGraphInstantiateWithFlags, KAS_CUDA_ERROR_OUT_OF_MEMORY, sim_sticky);
    if (flags != 0)
        return KAS_CUDA_ERROR_INVALID_VALUE;
    *exec = sim_new(sizeof **exec);
    (*exec)->graph = new_graph(graph->device);
    copy_graph((*exec)->graph, graph);
    return KAS_CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    SIM_CALL(cuGraphLaunch, KAS_CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, sim_sticky);
    if (sim_stream_device(stream) != exec->graph->device || stream->capture)
        return KAS_CUDA_ERROR_INVALID_VALUE;
    append_interleaved(&stream->tail, exec->graph);
    stream->given++;
    sim_graphs++;
    return KAS_CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    SIM_LOCKED();
    free_graph(exec->graph);
    free(exec);
    return sim_call("cuGraphExecDestroy", KAS_CUDA_ERROR_INVALID_VALUE, sim_sticky);
}

CUresult cuGraphDestroy(CUgraph graph)
{
    SIM_LOCKED();
    free_graph(graph);
    return sim_call("cuGraphDestroy", KAS_CUDA_ERROR_INVALID_VALUE, sim_sticky);
}

/* ---- events ---------------------------------------------------------------------------------- */

CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    SIM_CALL(cuEventCreate, KAS_CUDA_ERROR_OUT_OF_MEMORY, sim_sticky);
    if (flags != KAS_CU_EVENT_BLOCKING_SYNC && flags != KAS_CU_EVENT_DISABLE_TIMING)
        return KAS_CUDA_ERROR_INVALID_VALUE;
    *event = sim_new(sizeof **event);
    (*event)->spins = !(flags & KAS_CU_EVENT_BLOCKING_SYNC);
    sim_live++;
    return KAS_CUDA_SUCCESS;
}

static bool waited_for(CUevent event)
{
    for (CUstream s = streams; s; s = s->next)
        for (const work *w = s->head; w; w = w->next)
            if (w->run == pass_event && ((const event_wait *)w->data)->event == event)
                return true;
    return false;
}

CUresult cuEventDestroy_v2(CUevent event)
{
    SIM_LOCKED();
    if (event->reached < event->records || waited_for(event))
        sim_drain(NULL); /* work that is queued points to it */
    free(event);
    sim_live--;
    return sim_call("cuEventDestroy_v2", KAS_CUDA_ERROR_INVALID_VALUE, sim_sticky);
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    SIM_CALL(cuEventRecord, KAS_CUDA_ERROR_INVALID_VALUE, sim_sticky);
    if (stream->capture) {
        event->capture = stream->capture;
        event->captured++;
        append_mark(stream, record_mark, event);
        return KAS_CUDA_SUCCESS;
    }
    event->capture = NULL;
    event->records++;
    event->stream = stream;
    CUevent *data = sim_new(sizeof *data);
    *data = event;
    sim_enqueue(stream, reach_event, data, sizeof *data);
    event->given = stream->given;
    return KAS_CUDA_SUCCESS;
}

static CUstream beginner_of(CUgraph capture)
{
    for (CUstream s = streams; s; s = s->next)
        if (s->capture == capture && s->lane == 0)
            return s;
    return NULL;
}

/* A stream that waits for an event of a capture becomes part of it. */
static CUresult wait_in_capture(CUstream stream, CUevent event)
{
    CUstream first = beginner_of(event->capture);
    if (!first || (stream->capture && stream->capture != event->capture))
        return KAS_CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    if (!stream->capture) {
        if (event->capture->lanes == MAX_LANES)
            sim_broken("a capture of more than %d streams", MAX_LANES);
        stream->capture = event->capture;
        stream->capturing = first->capturing;
        stream->spoilt = false;
        stream->lane = event->capture->lanes++;
    }
    append_mark(stream, wait_mark, event);
    return KAS_CUDA_SUCCESS;
}

/* For the last record so far; none, and nobody waits. */
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    SIM_CALL(cuStreamWaitEvent, KAS_CUDA_ERROR_INVALID_VALUE, sim_sticky);
    if (flags != 0)
        return KAS_CUDA_ERROR_INVALID_VALUE;
    if (event->capture)
        return wait_in_capture(stream, event);
    if (stream->capture) /* for work outside of it */
        return KAS_CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    if (event->records == 0)
        return KAS_CUDA_SUCCESS;
    event_wait *data = sim_new(sizeof *data);
    *data = (event_wait){event, event->records};
    sim_enqueue(stream, pass_event, data, sizeof *data);
    return KAS_CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent event)
{
    SIM_CALL(cuEventSynchronize, KAS_CUDA_ERROR_INVALID_HANDLE, sim_sticky);
    SIM_NOT_IN_CAPTURE();
    if (event->spins)
        sim_broken("a thread that waits for an event would spin");
    sim_idle_waits += event->records && event->given == event->stream->given;
    if (event->reached < event->records)
        sim_drain(event->stream);
    return KAS_CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
    SIM_CALL(cuEventElapsedTime, KAS_CUDA_ERROR_INVALID_VALUE, sim_sticky);
    if (!start->records || !end->records)
        return KAS_CUDA_ERROR_INVALID_HANDLE;
    if (start->reached < start->records || end->reached < end->records)
        return KAS_CUDA_ERROR_NOT_READY;
    *milliseconds = (float)(end->milliseconds - start->milliseconds);
    return KAS_CUDA_SUCCESS;
}

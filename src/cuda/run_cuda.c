/* Plans on the stream.
 *
 * The first run of a plan puts its steps on the stream one after the other: it warms everything up
 * (modules that are loaded lazily, the libraries' own set-up).  The second captures the same calls
 * as a graph.  From then on a run is one call of the driver, whatever the number of steps, where a
 * training step was some hundreds; what that saves on a GPU has not been measured yet.  A plan that
 * runs once is never captured.
 *
 * A graph holds addresses.  Those of a plan never change; the workspace of library calls may move
 * when a later convolution asks for more, and then the graph is made anew.  What cannot be captured
 * (a library call that allocates, say) is said once, and its plan goes on step by step.
 *
 * Exchanges of a group (group_cuda.c) are enqueued between graphs: a plan with k of them has up to
 * k + 1 graphs, of the steps before, between and behind them. Where the group captures
 * (kas_plan_capture_exchanges) they are a branch of one graph, because the stream of exchanges waits
 * for an event of this one, and this one for an event of it. NCCL wants an exchange captured by all
 * ranks or by none, so the ranks tell each other whether they could. */
#include <stdio.h>
#include <stdlib.h>

#include "cuda/cuda.h"
#include "host/core/log.h"
#include "host/device/group_impl.h"

typedef struct kept_plan {
    CUgraphExec *graph;  /* [graphs]; NULL: not made, or given back because the workspace moved */
    int graphs;          /* runs of steps between which an exchange lies */
    uint64_t generation; /* generation of the workspace that the graphs use */
    kas_group *group;    /* whose exchanges the graphs have; NULL: none */
    bool refused;        /* the steps cannot be captured */
} kept_plan;

static bool exchanges(const kas_step *step)
{
    return step->kind >= KAS_STEP_MEAN;
}

static bool is_captured(const kas_step *step)
{
    return exchanges(step) && step->captured && step->group->capture;
}

/* Returns whether the step lies between graphs. */
static bool is_between(const kas_step *step)
{
    return exchanges(step) && !is_captured(step);
}

/* Returns the end of the run of steps that begins at `first`: before the next step that lies between
 * graphs, or behind it where it is the first. */
static int end_of_run(const kas_step *step, int first, int steps)
{
    int end = first + 1;
    while (!is_between(&step[first]) && end < steps && !is_between(&step[end]))
        end++;
    return end;
}

static kas_status run_step(kas_cuda *cuda, const kas_step *step)
{
    const CUdeviceptr to = (CUdeviceptr)(uintptr_t)step->to,
                      from = (CUdeviceptr)(uintptr_t)step->from;
    switch (step->kind) {
    case KAS_STEP_LAUNCH:
        return kas_cuda_launch(cuda, step->function, step->grid, step->block, step->args);
    case KAS_STEP_CONV:
        return kas_cuda_conv_run(step);
    case KAS_STEP_ZERO:
        return step->bytes ? KAS_CU(cuda, cuMemsetD8Async(to, 0, step->bytes, cuda->stream))
                           : KAS_OK;
    case KAS_STEP_COPY:
        return step->bytes ? KAS_CU(cuda, cuMemcpyDtoDAsync_v2(to, from, step->bytes, cuda->stream))
                           : KAS_OK;
    case KAS_STEP_MEAN:
    case KAS_STEP_GATHER:
    case KAS_STEP_JOIN:
        return kas_cuda_exchange(cuda, step);
    }
    return KAS_OK;
}

static kas_status run_steps(kas_cuda *cuda, const kas_step *step, int steps)
{
    for (int i = 0; i < steps; i++) {
        const kas_status status = run_step(cuda, &step[i]);
        if (status != KAS_OK)
            return kas_fail_context(status, "step %d of a plan of %d", i, steps);
    }
    return KAS_OK;
}

/* Captures a graph. The stream leaves capture mode whatever happens in between. */
static kas_status capture(kas_cuda *cuda, kas_cuda_enqueue enqueue, const void *what,
                          CUgraph *graph)
{
    *graph = NULL;
    KAS_TRY(KAS_CU(cuda, cuStreamBeginCapture_v2(cuda->stream, KAS_CU_CAPTURE_THREAD_LOCAL)));
    kas_status status = enqueue(cuda, what);
    if (status == KAS_OK)
        return KAS_CU(cuda, cuStreamEndCapture(cuda->stream, graph));
    /* May fail too; the step's error is the one reported */
    cuda->driver->cuStreamEndCapture(cuda->stream, graph);
    return status;
}

kas_status kas_cuda_make_graph(kas_cuda *cuda, kas_cuda_enqueue enqueue, const void *what,
                               CUgraphExec *out)
{
    CUgraph graph = NULL;
    kas_status status = capture(cuda, enqueue, what, &graph);
    if (status == KAS_OK)
        status = KAS_CU(cuda, cuGraphInstantiateWithFlags(out, graph, 0));
    if (status != KAS_OK)
        *out = NULL;
    if (graph)
        cuda->driver->cuGraphDestroy(graph);
    return status;
}

typedef struct step_list {
    const kas_step *step;
    int steps;
} step_list;

static kas_status enqueue_steps(kas_cuda *cuda, const void *what)
{
    const step_list *list = what;
    return run_steps(cuda, list->step, list->steps);
}

static void destroy_graphs(kas_cuda *cuda, kept_plan *kept)
{
    for (int i = 0; i < kept->graphs; i++)
        if (kept->graph[i])
            cuda->driver->cuGraphExecDestroy(kept->graph[i]);
    free(kept->graph);
    kept->graph = NULL;
    kept->graphs = 0;
}

static kas_status make_graphs(kas_cuda *cuda, const kas_step *step, int steps, kept_plan *kept)
{
    kept->graph = calloc((size_t)steps, sizeof(*kept->graph));
    if (!kept->graph)
        return kas_fail(KAS_NO_MEMORY, "no memory for the graphs of %d steps", steps);
    for (int first = 0, end; first < steps; first = end) {
        end = end_of_run(step, first, steps);
        const step_list list = {step + first, end - first};
        if (!is_between(&step[first]))
            KAS_TRY(kas_cuda_make_graph(cuda, enqueue_steps, &list, &kept->graph[kept->graphs++]));
    }
    return KAS_OK;
}

/* Returns the group whose exchanges are captured with these steps; NULL: none. */
static kas_group *captured_group(const kas_step *step, int steps)
{
    for (int i = 0; i < steps; i++)
        if (is_captured(&step[i]))
            return step[i].group;
    return NULL;
}

/* Tells the other ranks of a group whether this one could capture its exchanges, which failed with
 * `status`. If not all could, the group goes on without. */
static kas_status agree(kas_group *group, kas_status status)
{
    char reason[512];
    int32_t mine = status == KAS_OK, all[KAS_MAX_DEVICES];
    snprintf(reason, sizeof reason, "%s", mine ? "" : kas_error());
    const kas_status met = kas_group_gather(group, &mine, sizeof mine, all);
    if (met != KAS_OK) /* an exchange that failed while it was captured ends the group, too */
        return mine ? met : kas_fail(status, "while a step was captured: %s", reason);
    for (int rank = 0; rank < group->ranks; rank++)
        group->capture &= all[rank];
    if (!mine)
        kas_warn(
            "rank %d of %d: a step is cut into graphs around its exchanges, because it cannot be "
            "captured with them: %s",
            group->rank, group->ranks, reason);
    return KAS_OK;
}

/* Makes one graph of steps with exchanges, or, where a rank cannot, the graphs between them. */
static kas_status make_graphs_alike(kas_cuda *cuda, const kas_step *step, int steps,
                                    kept_plan *kept)
{
    kas_group *group = captured_group(step, steps);
    const kas_status status = make_graphs(cuda, step, steps, kept);
    if (!group || cuda->lost)
        return status;
    KAS_TRY(agree(group, status));
    if (group->capture)
        return KAS_OK;
    destroy_graphs(cuda, kept);
    return make_graphs(cuda, step, steps, kept);
}

/* Makes sure that there are graphs for the steps and the workspace, if they can be made. */
static kas_status prepare(kas_cuda *cuda, const kas_step *step, int steps, kept_plan *kept)
{
    if (kept->refused || (kept->graph && kept->generation == cuda->workspace_generation))
        return KAS_OK;
    destroy_graphs(cuda, kept);
    const kas_status status = make_graphs_alike(cuda, step, steps, kept);
    kept->generation = cuda->workspace_generation;
    kept->group = captured_group(step, steps);
    if (status == KAS_OK)
        return KAS_OK;
    destroy_graphs(cuda, kept);
    if (cuda->lost || kept->group)
        return status;
    kas_warn("a plan of %d steps is run step by step, because it cannot be captured as a graph: %s",
             steps, kas_error());
    kept->refused = true;
    return KAS_OK;
}

static kas_status launch_graphs(kas_cuda *cuda, const kas_step *step, int steps,
                                const kept_plan *kept)
{
    for (int first = 0, end, next = 0; first < steps; first = end) {
        end = end_of_run(step, first, steps);
        KAS_TRY(is_between(&step[first])
                    ? run_step(cuda, &step[first])
                    : KAS_CU(cuda, cuGraphLaunch(kept->graph[next++], cuda->stream)));
    }
    return KAS_OK;
}

kas_status kas_cuda_run(kas_device *device, const kas_step *step, int steps, void **kept)
{
    kas_cuda *cuda = (kas_cuda *)device;
    kept_plan *plan = *kept;
    KAS_TRY(kas_cuda_enter(cuda));
    if (!plan) {
        if (steps > 0) /* an empty graph would be useless */
            *kept = calloc(1, sizeof *plan);
        return run_steps(cuda, step, steps);
    }
    KAS_TRY(prepare(cuda, step, steps, plan));
    KAS_TRY(kas_group_check(plan->group));
    return plan->graph ? launch_graphs(cuda, step, steps, plan) : run_steps(cuda, step, steps);
}

void kas_cuda_forget(kas_device *device, void *kept)
{
    kas_cuda *cuda = (kas_cuda *)device;
    if (kas_cuda_wait_to_free(cuda))
        destroy_graphs(cuda, kept);
    free(((kept_plan *)kept)->graph);
    free(kept);
}

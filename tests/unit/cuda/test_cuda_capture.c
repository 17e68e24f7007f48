/* Exchanges of a group in the graph of a plan (src/cuda/run_cuda.c, group_cuda.c), on the stand-in: the
 * same bits as between graphs, and what becomes of the ranks when one cannot capture or a replay fails.
 * Every rank is a process of its own. */
#include "support/test.h"

#include <math.h>
#include <sys/wait.h>

#include "cuda_fixture.h"
#include "host/core/clock.h"
#include "host/core/file/files.h"
#include "host/device/group.h"
#include "support/folder.h"

enum { MOST = 4, COUNT = 30000, RUNS = 5, WRONG = 99, PATIENCE = 60, DEADLINE = 25 };

/* What a process is asked to do, and what it tells its parent. */
typedef struct job {
    int ranks, rank;
    bool capture;
    double timeout;    /* 0: PATIENCE */
    const char *fault; /* NULL: none */
    int nth, code;
} job;
typedef struct answer {
    int status;           /* of the first call that failed */
    int graphs, captures; /* launches of graphs; whether exchanges are captured still */
    int again;            /* status of another run when the group has failed */
    char message[512];
    float values[3 * COUNT];
} answer;

/* A step as of a training: "gradients" of two layers, each exchanged while the next is computed; behind
 * the join an update that is gathered. All memory is used again in the next step. */
typedef struct step {
    kas_device *device;
    kas_group *group;
    kas_plan *plan;
    float *weights, *gradient, *source; /* COUNT floats each */
} step;

static float number(int rank, size_t i)
{
    return sinf((float)(i * 7 + (size_t)rank * 13)) * (1 + (float)rank);
}

static kas_status record(step *s, const job *j)
{
    const size_t half = COUNT / 2, bytes = half * sizeof(float),
                 share = bytes * 2 / (size_t)j->ranks;
    float *mine = s->weights + (size_t)j->rank * share / sizeof(float);
    KAS_TRY(kas_plan_create(s->device, &s->plan));
    kas_plan_capture_exchanges(s->plan);
    KAS_TRY(kas_plan_copy(s->plan, s->gradient + half, s->source + half, bytes));
    KAS_TRY(kas_plan_mean(s->plan, s->group, s->gradient + half, half));
    KAS_TRY(kas_plan_copy(s->plan, s->gradient, s->source, bytes));
    KAS_TRY(kas_plan_mean(s->plan, s->group, s->gradient, half));
    KAS_TRY(kas_plan_join(s->plan, s->group));
    KAS_TRY(kas_plan_copy(s->plan, mine, (char *)s->gradient + (size_t)j->rank * share, share));
    KAS_TRY(kas_plan_gather(s->plan, s->group, s->weights, share));
    KAS_TRY(kas_plan_join(s->plan, s->group));
    return kas_plan_copy(s->plan, s->source, s->weights, 2 * bytes); /* the next step's gradients */
}

static kas_status make(step *s, const job *j)
{
    static float numbers[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        numbers[i] = number(j->rank, i);
    KAS_TRY(kas_mem_alloc(s->device, 3 * sizeof numbers, (void **)&s->weights));
    s->gradient = s->weights + COUNT;
    s->source = s->gradient + COUNT;
    KAS_TRY(kas_mem_zero(s->device, s->weights, 3 * sizeof numbers));
    KAS_TRY(kas_mem_upload(s->device, s->source, numbers, sizeof numbers));
    return record(s, j);
}

static kas_status run_steps(step *s, const job *j, answer *out)
{
    KAS_TRY(make(s, j));
    if (j->fault)
        sim.make_fail(j->fault, j->nth, j->code, false);
    for (int i = 0; i < RUNS; i++) {
        kas_group_wait(s->group, true);
        KAS_TRY(kas_plan_run(s->plan));
    }
    KAS_TRY(kas_mem_download(s->device, out->values, s->weights, sizeof out->values));
    return kas_group_check(s->group);
}

static kas_status as_rank(const job *j, const char *name, answer *out)
{
    const kas_group_options options = {
        folder, name, j->rank, j->ranks, j->timeout > 0 ? j->timeout : PATIENCE, j->capture};
    step s = {0};
    KAS_TRY(kas_device_open("cuda", 0, &s.device));
    kas_status status = kas_group_open(s.device, &options, &s.group);
    if (status == KAS_OK)
        status = run_steps(&s, j, out);
    snprintf(out->message, sizeof out->message, "%s", status == KAS_OK ? "" : kas_error());
    out->graphs = sim.graphs();
    out->captures = kas_group_captures(s.group);
    if (kas_group_check(s.group) != KAS_OK)
        out->again = kas_plan_run(s.plan);
    kas_group_wait(s.group, false);
    kas_group_abort(s.group, status);
    kas_plan_free(s.plan);
    if (s.weights)
        kas_mem_free(s.device, s.weights);
    kas_group_close(s.group);
    kas_device_close(s.device);
    return sim.live() == 0 ? status : kas_fail(KAS_FAILURE, "something is left");
}

/* Runs a job on all ranks; answers[rank] of a rank that has been killed is all zero. */
static void run(job j, const char *name, const job *other, answer *answers)
{
    int from[MOST], ended;
    pid_t pid[MOST];
    memset(answers, 0, (size_t)j.ranks * sizeof *answers);
    fflush(NULL);
    for (j.rank = 0; j.rank < j.ranks; j.rank++) {
        int pipes[2];
        assert_int_equal(pipe(pipes), 0);
        if ((pid[j.rank] = fork()) == 0) {
            static answer mine;
            begin_anew();
            job own = j.rank == j.ranks - 1 && other ? *other : j;
            own.rank = j.rank;
            mine.status = as_rank(&own, name, &mine);
            _exit(write(pipes[1], &mine, sizeof mine) == (ssize_t)sizeof mine ? 0 : WRONG);
        }
        close(pipes[1]);
        from[j.rank] = pipes[0];
    }
    for (int rank = 0; rank < j.ranks; rank++) {
        size_t got = 0;
        for (ssize_t more = 1; more > 0; got += (size_t)more)
            more = read(from[rank], (char *)&answers[rank] + got, sizeof *answers - got);
        close(from[rank]);
        assert_int_equal(waitpid(pid[rank], &ended, 0), pid[rank]);
    }
}

static answer captured[MOST], cut[MOST];

static void expect_right(const job *j, const answer *answers)
{
    static float source[MOST][COUNT], sum[COUNT];
    for (int rank = 0; rank < j->ranks; rank++)
        for (size_t i = 0; i < COUNT; i++)
            source[rank][i] = number(rank, i);
    for (int turn = 0; turn < RUNS; turn++)
        for (size_t i = 0; i < COUNT; i++) {
            sum[i] = source[0][i];
            for (int rank = 1; rank < j->ranks; rank++)
                sum[i] += source[rank][i];
            sum[i] *= 1 / (float)j->ranks;
            for (int rank = 0; rank < j->ranks; rank++)
                source[rank][i] = sum[i];
        }
    for (int rank = 0; rank < j->ranks; rank++) {
        if (answers[rank].status != KAS_OK)
            fail_msg("rank %d: %s", rank, answers[rank].message);
        assert_memory_equal(answers[rank].values, sum, sizeof sum);
    }
}

TEST_WITH(a_step_is_one_graph_with_the_same_bits, set_up, NULL)
{
    for (int ranks = 2; ranks <= MOST; ranks += 2) {
        run((job){.ranks = ranks, .capture = true}, "captured", NULL, captured);
        run((job){.ranks = ranks}, "cut", NULL, cut);
        const job j = {.ranks = ranks};
        expect_right(&j, captured);
        expect_right(&j, cut);
        for (int rank = 0; rank < ranks; rank++) {
            assert_memory_equal(captured[rank].values, cut[rank].values, sizeof cut->values);
            assert_true(captured[rank].captures && !cut[rank].captures);
            assert_int_equal(captured[rank].graphs, RUNS - 1); /* the first run is step by step */
            assert_int_equal(cut[rank].graphs, 4 * (RUNS - 1));
        }
    }
}

/* One rank cannot: none captures, and the result is right. (The stand-in wants them alike.) */
TEST_WITH(a_rank_that_cannot_capture, set_up, NULL)
{
    static const char *const calls[] = {"cuStreamBeginCapture_v2", "cuStreamEndCapture",
                                        "cuGraphInstantiateWithFlags", "cuStreamWaitEvent"};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        const job j = {.ranks = 2, .capture = true},
                  /* a run waits for five events */
            one = {.ranks = 2, .capture = true, .fault = calls[i], .nth = i == 3 ? 6 : 1};
        run(j, calls[i], &one, captured);
        expect_right(&j, captured);
        for (int rank = 0; rank < 2; rank++) {
            assert_false(captured[rank].captures);
            assert_int_equal(captured[rank].graphs, 4 * (RUNS - 1));
        }
    }
}

TEST_WITH(an_old_nccl_does_not_capture, set_up, NULL)
{
    const job j = {.ranks = 2, .capture = true};
    setenv("KAS_SIM_NCCL", "21604", 1);
    run(j, "old", NULL, captured);
    expect_right(&j, captured);
    assert_false(captured[0].captures || captured[1].captures);
    setenv("KAS_SIM_NCCL", "21605", 1);
    setenv("NCCL_GRAPH_MIXING_SUPPORT", "0", 1);
    run(j, "unmixed", NULL, captured);
    expect_right(&j, captured);
    assert_false(captured[0].captures || captured[1].captures);
    unsetenv("NCCL_GRAPH_MIXING_SUPPORT");
    run(j, "new", NULL, captured);
    assert_true(captured[0].captures && captured[1].captures);
    unsetenv("KAS_SIM_NCCL");
}

/* The last rank's call, or its exchange in a replay, fails or never ends: both ranks end in time and
 * say why, and free everything although graphs have captured the communicator. */
static void expect_end(const char *call, int nth, int code, const char *reason)
{
    const double timeout = code ? 3 : 0, start = kas_monotonic();
    const job j = {.ranks = 2, .capture = true, .timeout = timeout};
    job one = j;
    char name[64];
    one.fault = call;
    one.nth = nth;
    one.code = code;
    snprintf(name, sizeof name, "%s-%d", call, nth);
    run(j, name, &one, captured);
    const double seconds = kas_monotonic() - start;
    for (int rank = 0; rank < 2; rank++)
        if (captured[rank].status != KAS_DEVICE)
            fail_msg("%s: rank %d ended with %d: %s", name, rank, captured[rank].status,
                     captured[rank].message);
    if (strncmp(call, "replayed", 8) == 0) /* the graph is not launched again */
        for (int rank = 0; rank < 2; rank++)
            assert_int_equal(captured[rank].again, KAS_DEVICE);
    if (!strstr(captured[0].message, "rank 0 of 2: ") || !strstr(captured[1].message, reason))
        fail_msg("%s: \"%s\" and \"%s\"", name, captured[0].message, captured[1].message);
    if (seconds > DEADLINE)
        fail_msg("%s: %.1f s", name, seconds);
}

TEST_WITH(every_exchange_fails, set_up, NULL)
{
    enum { IN_PROGRESS = 7 };
    /* The first run makes two and one of these calls; the next are captured. */
    for (int nth = 3; nth <= 4; nth++)
        expect_end("ncclAllReduce", nth, 0, "while a step was captured: step");
    expect_end("ncclAllGather", 2, 0, "while a step was captured: step");
    for (int nth = 1; nth <= 2 * (RUNS - 1); nth++)
        expect_end("replayed ncclAllReduce", nth, 0, "another rank, or the way to it");
    for (int nth = 1; nth < RUNS; nth++)
        expect_end("replayed ncclAllGather", nth, 0, "another rank, or the way to it");
    expect_end("replayed ncclAllReduce", 3, IN_PROGRESS, "no answer of the other ranks for 3 s");
}

static int begin(void **state)
{
    return load_sim(state) == 0 ? make_folder(state) : -1;
}

RUN_TESTS(begin, remove_folder)

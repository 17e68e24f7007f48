/* Several devices of one process on one GPU, each in a thread of its own, on the stand-in: results
 * are those of one alone, and an error is that device's own unless it killed the GPU. */
#include "support/test.h"

#include <pthread.h>
#include <sys/wait.h>

#include "cuda_fixture.h"
#include "cuda/kernels/prelude.h"
#include "cuda/kernels/args.h"

enum { THREADS = 4, ROUNDS = 3, RUNS = 4, FLOATS = 4096 };

typedef struct worker {
    pthread_t thread;
    kas_status status;
    char message[512];
    float result[FLOATS];
    bool too_much; /* asks for more memory than there is, in every round */
} worker;

typedef struct things {
    kas_device *device;
    kas_plan *plan;
    kas_conv *conv[2];
    float *memory; /* x, w, y, dw: a quarter each */
} things;

static kas_status record(things *t)
{
    const kas_conv_desc desc[2] = {
        {2, 4, 4, 8, 8, 1, 1, 1, 1, 0, 0, 8, 8, 0, KAS_F32, false, false, 0},
        {2, 4, 4, 8, 8, 1, 3, 3, 1, 1, 1, 8, 8, 0, KAS_F32, false, false, 0},
    };
    float *x = t->memory, *w = x + FLOATS / 4, *y = w + FLOATS / 4, *dw = y + FLOATS / 4;
    kas_module *module;
    kas_function *add;
    KAS_TRY(kas_module_builtin(t->device, KAS_F32, &module));
    KAS_TRY(kas_module_function(module, "kas_dev_add", &add));
    for (int i = 0; i < 2; i++)
        KAS_TRY(kas_conv_create(t->device, &desc[i], &t->conv[i]));
    KAS_TRY(kas_plan_create(t->device, &t->plan));
    KAS_TRY(kas_plan_conv(t->plan, t->conv[0], KAS_CONV_FORWARD, x, w, y));
    KAS_TRY(kas_plan_conv(t->plan, t->conv[1], KAS_CONV_BACKWARD_WEIGHTS, x, dw, y));
    KAS_TRY(kas_plan_conv(t->plan, t->conv[1], KAS_CONV_FORWARD, y, dw, x));
    const kas_rows_args args = {.a = w,
                                .b = dw,
                                .y = w,
                                .rows = 8,
                                .c = 8,
                                .pitch_a = 8,
                                .pitch_b = 8,
                                .pitch_y = 8,
                                .rows_per_block = 1};
    return kas_plan_launch(t->plan, add, (unsigned[3]){8, 1, 1}, (unsigned[3]){64, 1, 1}, &args,
                           sizeof args);
}

static kas_status use(things *t, worker *w)
{
    float start[FLOATS];
    void *much = NULL;
    for (int i = 0; i < FLOATS; i++)
        start[i] = (float)(i % 17 - 8) / 256;
    KAS_TRY(kas_device_open("cuda", 0, &t->device));
    KAS_TRY(kas_mem_alloc(t->device, sizeof start, (void **)&t->memory));
    KAS_TRY(kas_mem_upload(t->device, t->memory, start, sizeof start));
    KAS_TRY(record(t));
    for (int run = 0; run < RUNS; run++)
        KAS_TRY(kas_plan_run(t->plan));
    if (w->too_much &&
        kas_mem_alloc(t->device, kas_device_get_info(t->device)->memory, &much) != KAS_NO_MEMORY)
        return kas_fail(KAS_FAILURE, "all of the memory was given");
    return kas_mem_download(t->device, w->result, t->memory, sizeof w->result);
}

static void *work(void *data)
{
    worker *w = data;
    for (int round = 0; round < ROUNDS && w->status == KAS_OK; round++) {
        things t = {0};
        w->status = use(&t, w);
        if (w->status != KAS_OK)
            snprintf(w->message, sizeof w->message, "%s", kas_error());
        kas_plan_free(t.plan);
        kas_conv_free(t.conv[0]);
        kas_conv_free(t.conv[1]);
        if (t.device)
            kas_mem_free(t.device, t.memory);
        kas_device_close(t.device);
    }
    return NULL;
}

static void run_threads(worker *w)
{
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&w[i].thread, NULL, work, &w[i]), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(w[i].thread, NULL), 0);
}

static worker *new_workers(void)
{
    worker *w = calloc(THREADS, sizeof *w);
    assert_non_null(w);
    return w;
}

TEST_WITH(threads_get_what_one_gets, set_up, NULL)
{
    worker *alone = new_workers(), *w = new_workers();
    work(alone);
    if (alone->status != KAS_OK)
        fail_msg("%s", alone->message);
    w[1].too_much = true;
    run_threads(w);
    for (int i = 0; i < THREADS; i++) {
        if (w[i].status != KAS_OK)
            fail_msg("thread %d: %s", i, w[i].message);
        for (int k = 0; k < FLOATS; k++)
            if (!(w[i].result[k] == alone->result[k]))
                fail_msg("thread %d, element %d: %g, alone %g", i, k, w[i].result[k],
                         alone->result[k]);
    }
    assert_int_equal(sim.live(), 0);
    free(alone);
    free(w);
}

/* A dead context is dead for every device of the process on that GPU. */
TEST_WITH(a_dead_gpu_is_told_to_every_thread, set_up, NULL)
{
    const pid_t pid = fork(); /* objects of a dead context are not given back */
    assert_true(pid >= 0);
    if (pid == 0) {
        begin_anew();
        worker *w = new_workers();
        char name[64];
        sim.make_fail("cuGraphLaunch", 3, KAS_CUDA_ERROR_ILLEGAL_ADDRESS, true);
        run_threads(w);
        int bad = !sim.failed(name);
        for (int i = 0; i < THREADS; i++)
            bad += w[i].status != KAS_DEVICE_LOST && w[i].status != KAS_DEVICE;
        _exit(bad);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

RUN_TESTS(load_sim)

/* Backward passes on two streams (src/cuda/side_cuda.c), on the stand-in: streams run in random
 * order, so a missing wait shows as another result. */
#include "support/test.h"

#include "cuda_fixture.h"

enum { CONVS = 3, FLOATS = 1280, RUNS = 6 };

static const kas_conv_desc desc = F32(2, 6, 5, 16, 16, 1, 3, 3, 1, 1, 1, 16, 16, 0);

typedef struct things {
    kas_device *device;
    kas_conv *conv;
    kas_plan *plan;
    float *x, *dy[CONVS + 1], *w, *dw[CONVS];
} things;

/* A chain: each layer's dx is the next one's dy. With `apart` false the last dx lies over its x. */
static kas_status make(things *t, bool apart)
{
    const size_t weights = 16 * 9 * 16;
    KAS_TRY(kas_device_open("cuda", 0, &t->device));
    t->x = random_memory(t->device, FLOATS, 1);
    t->w = random_memory(t->device, weights, 2);
    for (int i = 0; i < CONVS; i++) {
        t->dy[i] = random_memory(t->device, FLOATS, 3);
        t->dw[i] = random_memory(t->device, weights, 4);
    }
    t->dy[CONVS] = apart ? random_memory(t->device, FLOATS, 5) : t->x;
    KAS_TRY(kas_conv_create(t->device, &desc, &t->conv));
    KAS_TRY(kas_plan_create(t->device, &t->plan));
    for (int i = 0; i < CONVS; i++) {
        KAS_TRY(
            kas_plan_conv(t->plan, t->conv, KAS_CONV_BACKWARD_WEIGHTS, t->x, t->dw[i], t->dy[i]));
        KAS_TRY(
            kas_plan_conv(t->plan, t->conv, KAS_CONV_BACKWARD_DATA, t->dy[i + 1], t->w, t->dy[i]));
        /* Reads what both wrote, and overwrites what they read. */
        KAS_TRY(kas_plan_copy(t->plan, t->w, t->dw[i], weights * sizeof *t->w));
        if (i > 0)
            KAS_TRY(kas_plan_zero(t->plan, t->dy[i], 64));
    }
    return KAS_OK;
}

static void drop(things *t)
{
    kas_plan_free(t->plan);
    kas_conv_free(t->conv);
    for (int i = 0; i < CONVS; i++) {
        kas_mem_free(t->device, t->dy[i]);
        kas_mem_free(t->device, t->dw[i]);
    }
    if (t->dy[CONVS] != t->x)
        kas_mem_free(t->device, t->dy[CONVS]);
    kas_mem_free(t->device, t->x);
    kas_mem_free(t->device, t->w);
    kas_device_close(t->device);
    assert_int_equal(sim.live(), 0);
}

static void run(const char *streams, bool apart, int runs, float result[2 * FLOATS])
{
    things t = {0};
    setenv("KAS_CUDA_STREAMS", streams, 1);
    OK(make(&t, apart));
    for (int i = 0; i < runs; i++)
        OK(kas_plan_run(t.plan));
    OK(kas_mem_download(t.device, result, t.dy[CONVS], FLOATS * sizeof *result));
    OK(kas_mem_download(t.device, result + FLOATS, t.w, FLOATS * sizeof *result));
    drop(&t);
    unsetenv("KAS_CUDA_STREAMS");
}

TEST_WITH(two_streams_compute_what_one_does, set_up, NULL)
{
    static float one[2 * FLOATS], two[2 * FLOATS];
    for (int apart = 0; apart < 2; apart++)
        for (int runs = 1; runs <= RUNS; runs++) { /* the second is captured, later ones replay */
            run("1", apart, runs, one);
            for (int again = 0; again < 4; again++) {
                run("2", apart, runs, two);
                if (memcmp(one, two, sizeof one) != 0)
                    fail_msg("%d runs, %s: two streams differ", runs,
                             apart ? "apart" : "dx over x");
            }
        }
}

TEST_WITH(they_are_used, set_up, NULL)
{
    things t = {0};
    char name[64];
    setenv("KAS_CUDA_STREAMS", "2", 1);
    OK(make(&t, true));
    sim.make_fail("cuStreamWaitEvent", 1, 0, false);
    assert_int_equal(kas_plan_run(t.plan), KAS_DEVICE);
    assert_true(sim.failed(name));
    drop(&t);
    unsetenv("KAS_CUDA_STREAMS");
}

TEST_WITH(wrong_numbers_are_refused, set_up, NULL)
{
    kas_device *device;
    setenv("KAS_CUDA_STREAMS", "3", 1);
    assert_int_equal(kas_device_open("cuda", 0, &device), KAS_USAGE);
    assert_non_null(strstr(kas_error(), "KAS_CUDA_STREAMS=3"));
    unsetenv("KAS_CUDA_STREAMS");
    assert_int_equal(sim.live(), 0);
}

/* What cannot be captured runs step by step; a failure leaves nothing behind. */
TEST_WITH(every_call_may_fail, set_up, NULL)
{
    int tried = 0;
    setenv("KAS_CUDA_STREAMS", "2", 1);
    for (int nth = 1;; nth += 5, tried++) {
        things t = {0};
        char name[64];
        sim.reset();
        OK(make(&t, true));
        OK(kas_plan_run(t.plan));
        sim.make_fail("*", nth, 0, false);
        kas_status status = kas_plan_run(t.plan);
        if (status == KAS_OK)
            status = kas_plan_run(t.plan);
        if (status == KAS_OK)
            status = kas_device_sync(t.device);
        const bool failed = sim.failed(name);
        sim.make_fail(NULL, 0, 0, false);
        drop(&t);
        if (!failed) {
            OK(status);
            break;
        }
    }
    unsetenv("KAS_CUDA_STREAMS");
    printf("%d calls failed, one in each run\n", tried);
    assert_true(tried > 10);
}

/* There is memory for one workspace more, not for two: the graph goes on with what it has. */
TEST_WITH(a_graph_keeps_its_workspaces, set_up, NULL)
{
    const kas_conv_desc large = F32(2, 6, 5, 32, 32, 1, 3, 3, 1, 1, 1, 32, 32, 0);
    things t = {0};
    char name[64];
    kas_conv *conv = NULL;
    setenv("KAS_CUDA_STREAMS", "2", 1);
    OK(make(&t, true));
    for (int i = 0; i < 3; i++)
        OK(kas_plan_run(t.plan));
    OK(kas_device_sync(t.device));
    sim.make_fail("cuMemAlloc_v2", 2, KAS_CUDA_ERROR_OUT_OF_MEMORY, false);
    assert_int_equal(kas_conv_create(t.device, &large, &conv), KAS_NO_MEMORY);
    assert_true(sim.failed(name));
    OK(kas_plan_run(t.plan)); /* with freed memory the stand-in aborts */
    OK(kas_device_sync(t.device));
    OK(kas_conv_create(t.device, &large, &conv));
    OK(kas_plan_run(t.plan));
    OK(kas_device_sync(t.device));
    kas_conv_free(conv);
    drop(&t);
    unsetenv("KAS_CUDA_STREAMS");
}

RUN_TESTS(load_sim)

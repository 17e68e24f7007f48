/* Plans of the CUDA device as graphs (src/cuda/run_cuda.c), on the stand-in: the second run
 * captures, later ones replay; what cannot be captured runs all the same. */
#include "support/test.h"

#include "cuda_fixture.h"
#include "cuda/kernels/prelude.h"
#include "cuda/kernels/args.h"

/* x += 1 by a launch that adds a vector of ones. */
typedef struct counter {
    kas_device *device;
    kas_plan *plan;
    float *memory; /* x, ones: 8 floats each */
} counter;

static counter make_counter(void)
{
    counter c = {.device = open_cuda("cuda")};
    kas_module *module;
    kas_function *add;
    float values[16];
    for (int i = 0; i < 16; i++)
        values[i] = i < 8 ? 0 : 1;
    OK(kas_mem_alloc(c.device, sizeof values, (void **)&c.memory));
    OK(kas_mem_upload(c.device, c.memory, values, sizeof values));
    OK(kas_module_builtin(c.device, KAS_F32, &module));
    OK(kas_module_function(module, "kas_dev_add", &add));
    OK(kas_plan_create(c.device, &c.plan));
    const kas_rows_args args = {.a = c.memory,
                                .b = c.memory + 8,
                                .y = c.memory,
                                .rows = 1,
                                .c = 8,
                                .pitch_a = 8,
                                .pitch_b = 8,
                                .pitch_y = 8,
                                .rows_per_block = 1};
    OK(kas_plan_launch(c.plan, add, (unsigned[3]){1, 1, 1}, (unsigned[3]){64, 1, 1}, &args,
                       sizeof args));
    return c;
}

static void expect_count(counter *c, float count)
{
    float value[8];
    OK(kas_mem_download(c->device, value, c->memory, sizeof value));
    for (int i = 0; i < 8; i++)
        if (value[i] != count)
            fail_msg("element %d: %g, expected %g", i, value[i], count);
}

static void free_counter(counter *c)
{
    kas_plan_free(c->plan);
    kas_mem_free(c->device, c->memory);
    kas_device_close(c->device);
    assert_int_equal(sim.live(), 0);
}

TEST_WITH(plans_become_graphs, set_up, NULL)
{
    counter c = make_counter();
    for (int run = 1; run <= 5; run++) {
        OK(kas_plan_run(c.plan));
        expect_count(&c, (float)run);
        assert_int_equal(sim.graphs(), run > 1 ? run - 1 : 0); /* the first run is step by step */
    }
    OK(kas_plan_copy(c.plan, c.memory, c.memory + 8, 32)); /* another plan: x = 1 at its end */
    for (int run = 0; run < 3; run++) {
        OK(kas_plan_run(c.plan));
        expect_count(&c, 1);
    }
    assert_int_equal(sim.graphs(), 4 + 2);
    free_counter(&c);
}

TEST_WITH(a_plan_that_cannot_be_captured_runs_all_the_same, set_up, NULL)
{
    static const char *const calls[] = {"cuStreamBeginCapture_v2", "cuStreamEndCapture",
                                        "cuGraphInstantiateWithFlags"};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        sim.reset();
        counter c = make_counter();
        OK(kas_plan_run(c.plan));
        sim.make_fail(calls[i], 1, 0, false);
        for (int run = 2; run <= 4; run++) {
            OK(kas_plan_run(c.plan));
            expect_count(&c, (float)run);
        }
        char name[64];
        assert_true(sim.failed(name));
        assert_int_equal(sim.graphs(), 0);
        free_counter(&c);
    }
}

/* A later convolution asks for more workspace than the one in the graph. */
TEST_WITH(a_graph_follows_its_workspace, set_up, NULL)
{
    const kas_conv_desc small = {2, 6, 5, 8,  16, 1,       3,     3,     1,
                                 1, 1, 8, 16, 0,  KAS_F32, false, false, 0},
                        large = {9, 6, 5, 8,  16, 1,       3,     3,     1,
                                 1, 1, 8, 16, 0,  KAS_F32, false, false, 0};
    kas_device *device = open_cuda("cuda");
    kas_conv *conv[2];
    kas_plan *plan;
    float *x = random_memory(device, 1 << 14, 1), *w = random_memory(device, 1 << 14, 2),
          *y = random_memory(device, 1 << 14, 3);
    OK(kas_conv_create(device, &small, &conv[0]));
    OK(kas_plan_create(device, &plan));
    OK(kas_plan_conv(plan, conv[0], KAS_CONV_FORWARD, x, w, y));
    for (int run = 0; run < 3; run++)
        OK(kas_plan_run(plan));
    OK(kas_conv_create(device, &large, &conv[1]));
    OK(kas_plan_run(plan)); /* with the old address the stand-in aborts */
    OK(kas_device_sync(device));
    assert_int_equal(sim.graphs(), 3);
    kas_plan_free(plan);
    float *all[] = {x, w, y};
    for (int i = 0; i < 3; i++)
        kas_mem_free(device, all[i]);
    for (int i = 0; i < 2; i++)
        kas_conv_free(conv[i]);
    kas_device_close(device);
    assert_int_equal(sim.live(), 0);
}

RUN_TESTS(load_sim)

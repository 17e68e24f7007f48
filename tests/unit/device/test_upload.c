/* Uploads beside the work, on the CPU device and on the CUDA device with the stand-in for NVIDIA's
 * libraries, which does the work of both streams late and in random order. */
#include "support/test.h"

#include "cuda_sim/load_sim.h"
#include "cuda/kernels/prelude.h"
#include "cuda/kernels/args.h"
#include "host/device/device.h"

enum { RING = 2, FLOATS = 64, ROUNDS = 200 };

/* total += the slot's floats; one plan for each slot. */
static void record_sums(kas_device *device, float *ring, float *total, kas_plan *plan[RING])
{
    kas_module *module;
    kas_function *add;
    OK(kas_module_builtin(device, KAS_F32, &module));
    OK(kas_module_function(module, "kas_dev_add", &add));
    for (int i = 0; i < RING; i++) {
        const kas_rows_args args = {.a = total,
                                    .b = ring + i * FLOATS,
                                    .y = total,
                                    .rows = 1,
                                    .c = FLOATS,
                                    .pitch_a = FLOATS,
                                    .pitch_b = FLOATS,
                                    .pitch_y = FLOATS,
                                    .rows_per_block = 1};
        OK(kas_plan_create(device, &plan[i]));
        OK(kas_plan_launch(plan[i], add, (unsigned[3]){1, 1, 1}, (unsigned[3]){64, 1, 1}, &args,
                           sizeof args));
    }
}

static void start_round(kas_upload *upload, float *host, float *ring, int round)
{
    int slot = round % RING;
    OK(kas_upload_wait(upload, slot));
    for (int i = 0; i < FLOATS; i++)
        host[slot * FLOATS + i] = (float)(round + i);
    OK(kas_upload_start(upload, slot, ring + slot * FLOATS, host + slot * FLOATS, 4 * FLOATS));
}

/* Every round's numbers are counted once, though the copies run ahead of the work: a wait that is
 * missing anywhere would count some twice and some never. */
TEST(uploads_overlap_and_keep_order)
{
    for (int cuda = 0; cuda < 2; cuda++) {
        kas_device *device;
        kas_upload *upload;
        kas_plan *plan[RING];
        float *host, *ring, *total, sums[FLOATS];
        OK(kas_device_open(cuda ? "cuda" : "cpu", 1, &device));
        assert_int_equal(kas_upload_create(device, 0, &upload), KAS_DEVICE);
        OK(kas_upload_create(device, RING, &upload));
        assert_int_equal(kas_upload_use(upload, RING), KAS_DEVICE);
        OK(kas_host_alloc(device, sizeof(float) * RING * FLOATS, (void **)&host));
        OK(kas_mem_alloc(device, sizeof(float) * RING * FLOATS, (void **)&ring));
        OK(kas_mem_alloc(device, sizeof sums, (void **)&total));
        OK(kas_mem_zero(device, total, sizeof sums));
        record_sums(device, ring, total, plan);
        start_round(upload, host, ring, 0);
        for (int round = 0; round < ROUNDS; round++) {
            if (round + 1 < ROUNDS)
                start_round(upload, host, ring, round + 1);
            OK(kas_upload_use(upload, round % RING));
            OK(kas_plan_run(plan[round % RING]));
            OK(kas_upload_done(upload, round % RING));
        }
        OK(kas_mem_download(device, sums, total, sizeof sums));
        for (int i = 0; i < FLOATS; i++)
            assert_true(sums[i] == (float)(ROUNDS * (ROUNDS - 1) / 2 + ROUNDS * i));
        for (int i = 0; i < RING; i++)
            kas_plan_free(plan[i]);
        kas_upload_free(upload);
        kas_mem_free(device, ring);
        kas_mem_free(device, total);
        kas_host_free(device, host);
        kas_device_close(device);
    }
    assert_int_equal(sim.live(), 0);
}

RUN_TESTS(load_sim)

/* Measures the two ceilings of a device. */
#include "host/predict/machine.h"

#include <math.h>

#include "cuda/kernels/prelude.h"
#include "cuda/kernels/args.h"
#include "host/device/fill.h"
#include "host/ops/ops.h"
#include "host/predict/seconds.h"

enum { RUNS = 5, MOST_RUNS = 200, ROW = 1024, ROWS_PER_BLOCK = 16 };
static const double long_enough = 0.4; /* seconds of all runs */

/* Gets the shortest of many runs of a plan after one that does not count; frees the plan. What else
 * the machine does makes a run longer and never shorter. */
static kas_status time_plan(kas_device *device, kas_plan *plan, double *least)
{
    kas_timer *timer = NULL;
    kas_status status = KAS_OK;
    double sum = 0;
    *least = INFINITY;
    KAS_TRY_GOTO(kas_timer_create(device, &timer), out);
    for (int run = -1; run < RUNS || (sum < long_enough && run < MOST_RUNS); run++) {
        double seconds;
        KAS_TRY_GOTO(kas_plan_seconds(device, timer, plan, &seconds), out);
        if (run < 0)
            continue;
        *least = fmin(*least, seconds);
        sum += seconds;
    }
out:
    kas_timer_free(timer);
    kas_plan_free(plan);
    return status;
}

/* Measures y = a + b over `rows` rows of ROW floats each. */
static kas_status measure_bandwidth(kas_device *device, int rows, float *memory, double *out)
{
    const size_t size = (size_t)rows * ROW;
    const kas_rows_args args = {.a = memory,
                                .b = memory + size,
                                .y = memory + 2 * size,
                                .rows = rows,
                                .whole = 1,
                                .c = ROW,
                                .pitch_a = ROW,
                                .pitch_b = ROW,
                                .pitch_y = ROW,
                                .rows_per_block = ROWS_PER_BLOCK,
                                .b_every = 1};
    const unsigned grid[3] = {(unsigned)rows / ROWS_PER_BLOCK, 1, 1}, block[3] = {256, 1, 1};
    kas_module *module;
    kas_function *add;
    kas_plan *plan;
    double seconds;
    KAS_TRY(kas_module_builtin(device, KAS_F32, &module));
    KAS_TRY(kas_module_function(module, "kas_dev_add", &add));
    KAS_TRY(kas_plan_create(device, &plan));
    kas_status status = kas_plan_launch(plan, add, grid, block, &args, sizeof args);
    if (status != KAS_OK) {
        kas_plan_free(plan);
        return status;
    }
    KAS_TRY(time_plan(device, plan, &seconds));
    *out = 3.0 * (double)size * sizeof(float) / seconds;
    return KAS_OK;
}

/* Measures a product of side x side matrices: a 1x1 convolution of `side` pixels. The numbers are normal
 * ones, because a GPU that multiplies zeros takes less power and may run faster. */
static kas_status measure_rate(kas_device *device, kas_precision precision, int side, char *memory,
                               double *out)
{
    const kas_conv_desc desc = {.n = 1,
                                .h = side,
                                .w = 1,
                                .c_in = side,
                                .c_out = side,
                                .groups = 1,
                                .kernel_h = 1,
                                .kernel_w = 1,
                                .stride = 1,
                                .x_pitch = side,
                                .y_pitch = side,
                                .dtype = kas_precision_dtype(precision),
                                .tf32 = precision == KAS_PRECISION_TF32,
                                .passes = 1u << KAS_CONV_FORWARD};
    const size_t size = (size_t)side * (size_t)side * kas_dtype_size(desc.dtype);
    kas_conv *conv;
    kas_plan *plan = NULL;
    double seconds = 0;
    kas_rng rng = kas_rng_make(0, KAS_PURPOSE_TEST, 0);
    KAS_TRY(kas_mem_fill_normal(device, memory, desc.dtype, 2 * size / kas_dtype_size(desc.dtype),
                                0.1, &rng));
    KAS_TRY(kas_conv_create(device, &desc, &conv));
    kas_status status = kas_plan_create(device, &plan);
    if (status == KAS_OK)
        status =
            kas_plan_conv(plan, conv, KAS_CONV_FORWARD, memory, memory + size, memory + 2 * size);
    if (status == KAS_OK) {
        status = time_plan(device, plan, &seconds);
        plan = NULL;
    }
    kas_plan_free(plan);
    kas_conv_free(conv);
    if (status == KAS_OK)
        *out = (double)side * side * side / seconds;
    return status;
}

/* Chooses the sizes of three arrays of `rows` rows and of three matrices of `side`. On a GPU they
 * are 512 MB and 256 MB each, several times its last cache, or what fits in a sixteenth of its
 * memory; on the CPU they are 128 MB and 9 MB. */
static void choose_sizes(const kas_device_info *info, int *rows, int *side)
{
    const size_t most = info->memory / 16, row = 3 * ROW * sizeof(float);
    *rows = 32768;
    *side = 1536;
    if (info->kind == KAS_DEVICE_CPU)
        return;
    *rows = 131072;
    *side = 8192;
    while ((size_t)*rows * row > most && *rows > ROWS_PER_BLOCK)
        *rows /= 2;
    while (3 * sizeof(float) * (size_t)*side * (size_t)*side > most && *side > 256)
        *side /= 2;
}

kas_status kas_machine_ceilings(kas_device *device, kas_precision precision, double *bandwidth,
                                double *rate)
{
    int rows, side;
    choose_sizes(kas_device_get_info(device), &rows, &side);
    const size_t arrays = 3 * (size_t)rows * ROW * sizeof(float),
                 matrices = 3 * (size_t)side * (size_t)side * sizeof(float),
                 bytes = arrays > matrices ? arrays : matrices;
    void *memory;
    KAS_TRY(kas_mem_alloc(device, bytes, &memory));
    kas_status status = kas_mem_zero(device, memory, bytes);
    if (status == KAS_OK)
        status = measure_bandwidth(device, rows, memory, bandwidth);
    if (status == KAS_OK)
        status = measure_rate(device, precision, side, memory, rate);
    kas_mem_free(device, memory);
    return status;
}

kas_status kas_machine_measure(kas_device *device, kas_precision precision,
                               const kas_machine *known, kas_machine *out)
{
    if (known) {
        *out = *known;
        return KAS_OK;
    }
    KAS_TRY(kas_machine_of(kas_device_get_info(device), out));
    return kas_machine_ceilings(device, precision, &out->memory_bandwidth, &out->rate[precision]);
}

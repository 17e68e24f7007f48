/* The machines that are known by name.
 *
 * Bandwidths of GPUs are those of NVIDIA's data sheets. Rates are what a library's large product
 * reaches of the data sheet's, without sparsity, at boost clock: 0.8 on tensor cores (790 of 989
 * TFLOP/s were measured on an H200), 0.9 without; a multiply-add is one. Bandwidths of L2 are what
 * microbenchmarks of others report, rounded, and so are latencies of memory: 479 clocks on an H100,
 * 466 on an A100; elsewhere guesses. The shares and costs are those of a GPU on which nothing has
 * been measured yet: the same for all, so that GPUs are compared by their data sheets. */
#include "host/predict/machine.h"

#define T 1e12
/* A data sheet's multiply-adds a second, by kas_precision, as large products reach them. */
#define RATES(fp32, tf32, half)                                                                    \
    {                                                                                              \
        0.9 * (fp32)*T, 0.8 * (tf32)*T, 0.8 * (half)*T, 0.8 * (half)*T                             \
    }
/* What is not known better: a launch within a graph, a call of cuDNN or cuBLASLt, and shares that
 * PyTorch's users see (predict.c says which are those of float32). */
#define USUAL_GPU                                                                                  \
    .gpu = true, .warp = 32, .launch = 1.5e-6, .call = 1e-6,                                       \
    .efficiency = {0.625, 0.625, 0.19, 0.33}, .half_channels = 16, .half_grouped = 16,             \
    .pass = 0.8, .arithmetic = 1, .function = 1, .load = 2, .reduce = 1, .gather = 0.25,           \
    .division = 0.1, .shared = 0.1, .turn = 0.1

static const kas_machine machines[] = {
    /* Two cores of a server, an Intel Xeon of the Ice Lake generation (AVX-512). Costs and shares as
     * fitted to the launches of 142 networks, ResNet-20 with kernels and without, on one core (bench/results). */
    {.name = "cpu",
     .cores = 2,
     .clock = 2.8e9,
     .lanes = 16,
     .warp = 16,
     .memory_bandwidth = 1.37e10,
     .outer_bandwidth = 3.42e10,
     .inner_bandwidth = 1.82e11,
     .outer_bytes = 2.4e7,
     .inner_bytes = 7.04e5,
     .rate = {1.28e11, 1.28e11, 1.28e11, 1.28e11},
     .launch = 5.91e-7,
     .call = 3.9e-6,
     .efficiency = {1.25, 1.93, 1.44, 0.832},
     .half_channels = 0.621,
     .half_grouped = 0.479,
     .pass = 0.552,
     .arithmetic = 0.381,
     .function = 2.2,
     .load = 0.206,
     .reduce = 5,
     .gather = 10.3,
     .division = 0.615,
     .shared = 0.252,
     .turn = 0.231},
    /* The same of an AMD EPYC of the Zen 3 generation (AVX2), fitted to 88 networks. */
    {.name = "cpu-avx2",
     .cores = 2,
     .clock = 3.2e9,
     .lanes = 8,
     .warp = 8,
     .memory_bandwidth = 1.5e10,
     .outer_bandwidth = 9.11e10,
     .inner_bandwidth = 1.83e11,
     .outer_bytes = 2.4e7,
     .inner_bytes = 6.56e5,
     .rate = {1e11, 1e11, 1e11, 1e11},
     .launch = 1.87e-7,
     .call = 3.01e-6,
     .efficiency = {0.964, 1.31, 0.549, 0.551},
     .half_channels = 0.155,
     .half_grouped = 0.164,
     .pass = 0.275,
     .arithmetic = 0.196,
     .function = 1.35,
     .load = 0.132,
     .reduce = 4.79,
     .gather = 5.5,
     .division = 0.195,
     .shared = 0.109,
     .turn = 1.01},
    {.name = "a100",
     USUAL_GPU,
     .cores = 108,
     .clock = 1.41e9,
     .lanes = 64,
     .threads = 2048,
     .memory_bandwidth = 2.04 * T,
     .outer_bandwidth = 4.5 * T,
     .inner_bandwidth = 19.5 * T,
     .read_latency = 3.3e-7,
     .outer_bytes = 4e7,
     .inner_bytes = 2.1e7,
     .rate = RATES(9.7, 78, 156)},
    {.name = "h100",
     USUAL_GPU,
     .cores = 132,
     .clock = 1.83e9,
     .lanes = 128,
     .threads = 2048,
     .memory_bandwidth = 3.35 * T,
     .outer_bandwidth = 5.5 * T,
     .inner_bandwidth = 30.9 * T,
     .read_latency = 2.7e-7,
     .outer_bytes = 5e7,
     .inner_bytes = 3.3e7,
     .rate = RATES(33.5, 247, 494)},
    {.name = "h200",
     USUAL_GPU,
     .cores = 132,
     .clock = 1.83e9,
     .lanes = 128,
     .threads = 2048,
     .memory_bandwidth = 4.8 * T,
     .outer_bandwidth = 5.5 * T,
     .inner_bandwidth = 30.9 * T,
     .read_latency = 2.7e-7,
     .outer_bytes = 5e7,
     .inner_bytes = 3.3e7,
     .rate = RATES(33.5, 247, 494)},
    {.name = "l4",
     USUAL_GPU,
     .cores = 58,
     .clock = 2.04e9,
     .lanes = 128,
     .threads = 1536,
     .memory_bandwidth = 0.3 * T,
     .outer_bandwidth = 2 * T,
     .inner_bandwidth = 15 * T,
     .read_latency = 3e-7,
     .outer_bytes = 4.8e7,
     .inner_bytes = 7e6,
     .rate = RATES(15.1, 30, 60.5)},
    {.name = "rtx4090",
     USUAL_GPU,
     .cores = 128,
     .clock = 2.52e9,
     .lanes = 128,
     .threads = 1536,
     .memory_bandwidth = 1.008 * T,
     .outer_bandwidth = 5 * T,
     .inner_bandwidth = 41 * T,
     .read_latency = 3e-7,
     .outer_bytes = 7.2e7,
     .inner_bytes = 1.6e7,
     .rate = RATES(41.3, 41.3, 82.6)},
    {.name = "orin", /* Jetson AGX Orin, 64 GB */
     USUAL_GPU,
     .cores = 16,
     .clock = 1.3e9,
     .lanes = 128,
     .threads = 1536,
     .memory_bandwidth = 0.2048 * T,
     .outer_bandwidth = 0.6 * T,
     .inner_bandwidth = 2.6 * T,
     .read_latency = 5e-7,
     .outer_bytes = 4e6,
     .inner_bytes = 3e6,
     .rate = RATES(2.66, 10.6, 21.3)},
    {.name = "orin-nano", /* Jetson Orin Nano, 8 GB */
     USUAL_GPU,
     .cores = 8,
     .clock = 0.625e9,
     .lanes = 128,
     .threads = 1536,
     .memory_bandwidth = 0.068 * T,
     .outer_bandwidth = 0.2 * T,
     .inner_bandwidth = 0.64 * T,
     .read_latency = 5e-7,
     .outer_bytes = 2e6,
     .inner_bytes = 1.5e6,
     .rate = RATES(0.64, 2.5, 5.1)},
};

const kas_machine *kas_machine_builtin(int i)
{
    return i >= 0 && i < (int)(sizeof machines / sizeof *machines) ? &machines[i] : NULL;
}

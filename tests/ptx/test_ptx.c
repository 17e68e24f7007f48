/* The executor of PTX: kernels that are right give the right numbers and counts, and each kind of
 * planted fault is found. The kernels are CUDA C and compiled by NVRTC, or PTX where NVRTC would
 * not write what is asked. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx/nvrtc.h"
#include "ptx/ptx.h"

enum { N = 256 };

typedef struct arguments {
    float *x, *y;
    int n;
} arguments;

static const char kernels[] =
    "struct args { float *x, *y; int n; };\n"
    "#define KERNEL(name) extern \"C\" __global__ void name(const args a)\n"
    "#define T ((int)threadIdx.x)\n"
    "#define I ((int)(blockIdx.x * blockDim.x + threadIdx.x))\n"
    "#define COPY(to, from) asm volatile(\"cp.async.ca.shared.global [%0], [%1], 4;\" :: \"l\"(\\\n"
    "  __cvta_generic_to_shared(to)), \"l\"(__cvta_generic_to_global(from)) : \"memory\")\n"
    "#define COPIED asm volatile(\"cp.async.wait_all;\" ::: \"memory\")\n"
    /* right */
    "KERNEL(scale) { if (I < a.n) a.y[I] = 3.0f * a.x[I]; }\n"
    "KERNEL(sum) { __shared__ float s[128]; s[T] = a.x[I]; __syncthreads();\n"
    "  for (int w = 64; w > 0; w /= 2) { if (T < w) s[T] += s[T + w]; __syncthreads(); }\n"
    "  if (T == 0) a.y[blockIdx.x] = s[0]; }\n"
    "KERNEL(row_sum) { float v = a.x[I];\n"
    "  for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffff, v, d);\n"
    "  a.y[I] = v; }\n"
    "KERNEL(diverges) { float v = 0; for (int k = 0; k < I % 7; k++) {\n"
    "    if ((I + k) % 3 == 0) v += 1; else for (int j = 0; j < I % 5; j++) v += 10; }\n"
    "  a.y[I] = v; }\n"
    "KERNEL(flag) { a.y[0] = 7.0f; }\n"
    "KERNEL(turns) { a.y[I] = a.x[I]; __syncthreads(); a.y[I ^ 64] += a.y[I ^ 64]; }\n"
    "KERNEL(bytes) { ((unsigned char *)a.y)[I] = (unsigned char)I; }\n"
    "KERNEL(mixed) { a.y[I] = 0; __syncthreads(); if (I >= 128) a.y[I] = 1;\n"
    "  ((unsigned char *)a.y)[I] = (unsigned char)I; }\n"
    "KERNEL(local) { float v[8]; for (int k = 0; k < 8; k++) v[k] = a.x[(I + k) % a.n];\n"
    "  a.y[I] = v[(int)a.x[I] & 7]; }\n"
    /* row r of a is 1 + r, column c of b is 2^c, in bf16 */
    "#define MMA(d, a0, a1, b) asm(\"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32\"\\\n"
    "  \" {%0, %1, %2, %3}, {%4, %5, %4, %5}, {%6, %6}, {%0, %1, %2, %3};\"\\\n"
    "  : \"+f\"(d[0]), \"+f\"(d[1]), \"+f\"(d[2]), \"+f\"(d[3]) : \"r\"(a0), \"r\"(a1), \"r\"(b))\n"
    "#define TWICE(v) ((__float_as_uint(v) >> 16) * 0x10001u)\n"
    "KERNEL(product) { float d[4] = {1, 2, 3, 4}; const int g = T / 4;\n"
    "  MMA(d, TWICE(1.0f + g), TWICE(9.0f + g), TWICE((float)(1 << g)));\n"
    "  for (int k = 0; k < 4; k++) a.y[4 * T + k] = d[k]; }\n"
    "KERNEL(copy) { a.y[I] = a.x[I]; }\n"
    "KERNEL(apart) { a.y[I] = a.x[(I * 8) % 256]; }\n"
    "KERNEL(banks) { __shared__ float s[32 * 32]; s[T * 32] = 1; __syncthreads();\n"
    "  a.y[I] = s[(31 - T) * 32]; }\n"
    "KERNEL(one_word) { __shared__ float s[32]; s[T] = a.x[I]; __syncthreads(); a.y[I] = s[7]; }\n"
    "KERNEL(chain) { int at = I; for (int k = 0; k < 5; k++) at = ((const int *)a.x)[at]; "
    "((int *)a.y)[I] = at; }\n"
    "KERNEL(kept) { float v[4]; _Pragma(\"unroll\") for (int k = 0; k < 4; k++) { v[k] = 0;\n"
    "    if (T < a.n - k) v[k] = a.x[(I + k * 32) % 256]; }\n"
    "  a.y[I] = v[0] + v[1] + v[2] + v[3]; }\n"
    "KERNEL(guarded) { float v = 0; _Pragma(\"unroll\") for (int k = 0; k < 4; k++)\n"
    "    if (T < a.n - k) v += a.x[(I + k * 32) % 256];\n"
    "  a.y[I] = v; }\n"
    "KERNEL(in_turn) { float v = 0; _Pragma(\"unroll 1\") for (int k = 0; k < 5; k++) v += a.x[(I "
    "+ k * 32) % 256];\n"
    "  a.y[I] = v; }\n"
    "KERNEL(beside) { float v = 0; _Pragma(\"unroll\") for (int k = 0; k < 5; k++) v += a.x[(I + k "
    "* 32) % 256];\n"
    "  a.y[I] = v; }\n"
    "KERNEL(copied) { __shared__ float s[N]; COPY(s + T, a.x + I); COPIED; __syncthreads();\n"
    "  a.y[I] = s[T ^ 64]; }\n"
    "KERNEL(copied_twice) { __shared__ float s[N]; COPY(s + T, a.x + I); COPIED;\n"
    "  COPY(s + T, a.x + I); a.y[I] = 0; COPIED; s[T] += 1; a.x[I] = 5; a.y[I] = s[T]; }\n"
    /* wrong */
    "KERNEL(copy_over_write) { __shared__ float s[N]; COPY(s + T, a.x + I); s[T] = 2; COPIED;\n"
    "  a.y[I] = s[T]; }\n"
    "KERNEL(copy_over_other) { __shared__ float s[N]; COPY(s + T, a.x + I); __syncthreads();\n"
    "  s[T ^ 64] = 2; __syncthreads(); COPIED; a.y[I] = s[T]; }\n"
    "KERNEL(copy_from_written) { __shared__ float s[N]; COPY(s + T, a.x + I); a.x[I] = 1; COPIED;\n"
    "  a.y[I] = s[T]; }\n"
    "KERNEL(copy_over_copy) { __shared__ float s[N]; COPY(s + T, a.x + I); COPY(s + T, a.x + I);\n"
    "  COPIED; a.y[I] = s[T]; }\n"
    "KERNEL(copies_race) { __shared__ float s[N]; COPY(s + T / 2, a.x + I); COPIED;\n"
    "  __syncthreads(); a.y[I] = s[T / 2]; }\n"
    "KERNEL(copy_crooked) { __shared__ float s[N]; COPY((char *)s + 2, a.x); COPIED; a.y[I] = "
    "s[T]; }\n"
    "KERNEL(copy_from_crooked) { __shared__ float s[N]; COPY(s + T, (char *)(a.x + I) + 2); "
    "COPIED;\n"
    "  a.y[I] = s[T]; }\n"
    "KERNEL(copy_from_behind) { __shared__ float s[N]; COPY(s + T, a.x + I + 1); COPIED;\n"
    "  a.y[I] = s[T]; }\n"
    "KERNEL(copy_behind) { __shared__ float s[N]; COPY(s + T + a.n - N + 1, a.x + I); COPIED;\n"
    "  a.y[I] = 0; }\n"
    "KERNEL(shared_behind) { __shared__ float s[N]; s[T] = a.x[I]; __syncthreads();\n"
    "  a.y[I] = s[T + a.n - N + 1]; }\n"
    "KERNEL(shared_write_behind) { __shared__ float s[N]; s[T + a.n - N + 1] = a.x[I];\n"
    "  __syncthreads(); a.y[I] = s[T]; }\n"
    "KERNEL(unwritten_local) { float v[8];\n"
    "  if (a.n == 1) for (int k = 0; k < 8; k++) v[k] = a.x[k];\n"
    "  v[(int)a.x[I] & 3] = 1; a.y[I] = v[((int)a.x[I] & 3) + 4]; }\n"
    "KERNEL(copy_not_awaited) { __shared__ float s[N]; COPY(s + T, a.x + I); __syncthreads();\n"
    "  a.y[I] = s[T ^ 64]; }\n"
    "KERNEL(copy_no_barrier) { __shared__ float s[N]; COPY(s + T, a.x + I); COPIED;\n"
    "  a.y[I] = s[T ^ 1]; }\n"
    "KERNEL(copy_over_reader) { __shared__ float s[N]; s[T] = a.x[I]; __syncthreads();\n"
    "  float v = s[T ^ 64]; COPY(s + T, a.x + I); COPIED; a.y[I] = v; }\n"
    "KERNEL(behind) { a.y[I] = a.x[I + 1]; }\n"
    "KERNEL(before) { a.y[I - 1] = 1; }\n"
    "KERNEL(far_away) { a.y[(long long)1 << 40] = 1; }\n"
    "KERNEL(crooked) { const float4 v = *(const float4 *)(a.x + 1 + 4 * (I % 32)); a.y[I] = v.x + "
    "v.w; }\n"
    "KERNEL(unwritten) { a.y[I] = a.y[I] + 1; }\n"
    "KERNEL(unwritten_shared) { __shared__ float s[N]; if (a.n == 1) s[T] = 0; a.y[I] = s[T]; }\n"
    "KERNEL(no_barrier) { __shared__ float s[N]; s[T] = 0; __syncthreads(); s[T] = a.x[I]; a.y[I] "
    "= s[T ^ 64]; }\n"
    "KERNEL(no_barrier_behind) { __shared__ float s[N]; s[T] = a.x[I]; __syncthreads();\n"
    "  float v = s[T ^ 1]; s[T] = v; a.y[I] = v; }\n"
    "KERNEL(both_write) { __shared__ float s[N]; s[T / 2] = a.x[I]; __syncthreads(); a.y[I] = s[T "
    "/ 2]; }\n"
    "KERNEL(blocks_write) { if (T == 0) a.y[0] = a.x[I]; }\n"
    "KERNEL(blocks_read) { a.x[I] = I + 1; if (T == 0) a.y[I] = a.x[N - 1 - I]; }\n"
    "KERNEL(threads_read) { a.x[I] = a.x[I ^ 1]; }\n"
    "KERNEL(halves_race) { ((unsigned short *)a.y)[I / 2] = (unsigned short)I; }\n"
    "KERNEL(halves_race_behind) { a.y[I] = 0; __syncthreads();\n"
    "  if (T < 2) ((unsigned short *)a.y)[1] = (unsigned short)(T + 1); }\n"
    "KERNEL(product_of_some) { float d[4] = {0, 0, 0, 0}; if (T != 5) MMA(d, 0u, 0u, 0u);\n"
    "  a.y[T] = d[0]; }\n"
    "KERNEL(lane_away) { float v = a.x[I]; if (T % 32 < 16) v = __shfl_sync(0xffff, v, 20); a.y[I] "
    "= v; }\n"
    "KERNEL(mask_too_large) { float v = a.x[I]; if (T % 32 < 16) v += __shfl_xor_sync(0xffffffff, "
    "v, 1);\n"
    "  a.y[I] = v; }\n"
    "KERNEL(not_in_mask) { a.y[I] = __shfl_xor_sync(0xfffffffe, a.x[I], 1); }\n"
    "KERNEL(lanes_wait) { __shared__ float s[N]; s[T] = a.x[I]; if (a.x[I] > 100) __syncthreads(); "
    "a.y[I] = s[T]; }\n"
    "KERNEL(warps_wait) { __shared__ float s[N]; s[T] = a.x[I]; if (T < 32) __syncthreads(); "
    "a.y[I] = s[T]; }\n"
    "KERNEL(other_barrier) { __shared__ float s[N]; s[T] = a.x[I];\n"
    "  if (T < 32) { __syncthreads(); a.y[I] = s[T]; } else { __syncthreads(); a.y[I] = -s[T]; } "
    "}\n"
    "KERNEL(gone) { if (T >= 32) return; __syncthreads(); a.y[I] = 1; }\n"
    "KERNEL(lanes_gone) { if (a.x[I] > 40) return; __syncthreads(); a.y[I] = 1; }\n"
    "KERNEL(written_before) { a.y[I] = a.x[I]; __syncthreads(); a.y[I ^ 1] = __ldg(a.y + (I ^ 1)); "
    "}\n"
    "KERNEL(written_behind) { float v = __ldg(a.x + I); a.x[I] = v + 1; }\n"
    "KERNEL(local_behind) { float v[8]; for (int k = 0; k < 8; k++) v[k] = a.x[(I + k) % a.n];\n"
    "  a.y[I] = v[(int)a.x[I]]; }\n";

/* ---- running --------------------------------------------------------------------------------- */

static ptx_module *module;
/* Apart, so that what lies behind x is in no allocation. */
static _Alignas(256) float memory[3 * N];
static float *const x = memory, *const y = memory + 2 * N;
enum { BYTES = N * sizeof *memory };

static int open_module(void **state)
{
    (void)state;
    static const char *const options[] = {"--std=c++17", "--gpu-architecture=compute_90",
                                          "-DN=256"};
    char fault[PTX_FAULT], *text;
    if (ptx_nvrtc_missing())
        return 0; /* the tests skip */
    if (!ptx_nvrtc_compile(kernels, 3, options, &text)) {
        fprintf(stderr, "%s\n", text);
        return -1;
    }
    module = ptx_read(text, fault);
    free(text);
    return module ? 0 : -1;
}

static int close_module(void **state)
{
    (void)state;
    if (module)
        ptx_free(module);
    return 0;
}

static void need_nvrtc(void)
{
    if (module)
        return;
    if (getenv("KAS_PTX_REQUIRED"))
        fail_msg("%s", ptx_nvrtc_missing());
    printf("SKIPPED: %s\n", ptx_nvrtc_missing());
    skip();
}

/* x[i] = i, and y is not written. */
static void set_memory(void)
{
    ptx_region_add(x, BYTES);
    ptx_region_add(y, BYTES);
    ptx_region_wrote(x, BYTES);
    for (int i = 0; i < N; i++) {
        x[i] = (float)i;
        y[i] = NAN;
    }
}

static void drop_memory(void)
{
    ptx_region_remove(x);
    ptx_region_remove(y);
}

static ptx_function *launch(const char *name, unsigned blocks, unsigned threads,
                            char fault[PTX_FAULT])
{
    const unsigned grid[3] = {blocks, 1, 1}, block[3] = {threads, 1, 1};
    const arguments args = {x, y, N};
    ptx_function *f = ptx_find(module, name, fault);
    if (!f)
        fail_msg("%s: %s", name, fault);
    assert_int_equal(ptx_args_size(f), sizeof args);
    fault[0] = '\0';
    ptx_launch(f, grid, block, &args, 5, fault);
    return f;
}

static ptx_counts run(const char *name, unsigned blocks, unsigned threads)
{
    char fault[PTX_FAULT];
    const ptx_function *f = launch(name, blocks, threads, fault);
    if (fault[0])
        fail_msg("%s", fault);
    return ptx_count(f);
}

/* ---- kernels that are right ------------------------------------------------------------------ */

TEST(elementwise)
{
    need_nvrtc();
    set_memory();
    run("scale", 3, 96); /* the last block has threads without work */
    for (int i = 0; i < N; i++)
        assert_true(y[i] == 3.0f * (float)i);
    drop_memory();
}

TEST(reduction)
{
    need_nvrtc();
    set_memory();
    run("sum", 2, 128);
    assert_true(y[0] == 127 * 64.0f);
    assert_true(y[1] == 127 * 64.0f + 128 * 128.0f);
    drop_memory();
}

TEST(shuffles)
{
    need_nvrtc();
    set_memory();
    run("row_sum", 4, 64);
    for (int i = 0; i < N; i++)
        assert_true(y[i] == 31 * 16.0f + 32.0f * (float)(i / 32 * 32));
    drop_memory();
}

TEST(products)
{
    need_nvrtc();
    set_memory();
    run("product", 1, 32);
    for (int i = 0; i < 128; i++) /* row i / 16 or 8 more, column i / 4 % 4 * 2 or 1 more */
        assert_true(y[i] == (float)((1 + i / 16 + i % 4 / 2 * 8) * (16 << (i / 4 % 4 * 2 + i % 2)) +
                                    i % 4 + 1));
    drop_memory();
}

static float diverging(int i)
{
    float v = 0;
    for (int k = 0; k < i % 7; k++) {
        if ((i + k) % 3 == 0)
            v += 1;
        else
            for (int j = 0; j < i % 5; j++)
                v += 10;
    }
    return v;
}

TEST(divergence)
{
    need_nvrtc();
    set_memory();
    run("diverges", 2, 128);
    for (int i = 0; i < N; i++)
        assert_true(y[i] == diverging(i));
    drop_memory();
}

/* What looks like a race and is none: equal values, a barrier in between, neighbouring bytes. */
TEST(no_races)
{
    need_nvrtc();
    set_memory();
    run("flag", 2, 128);
    assert_true(y[0] == 7);
    run("turns", 2, 128);
    for (int i = 0; i < N; i++)
        assert_true(y[i] == 2 * x[i]);
    run("copied", 1, N);
    for (int i = 0; i < N; i++)
        assert_true(y[i] == x[i ^ 64]);
    run("copied_twice", 1, N);
    for (int i = 0; i < N; i++)
        assert_true(y[i] == (float)i + 1 && x[i] == 5);
    run("bytes", 4, 64);
    for (int i = 0; i < N; i++)
        assert_int_equal(((const unsigned char *)y)[i], i);
    run("mixed", 1, N);
    for (int i = 0; i < N; i++) {
        assert_int_equal(((const unsigned char *)y)[i], i);
        assert_true(y[128 + i / 2] == 1);
    }
    drop_memory();
}

TEST(local_memory)
{
    need_nvrtc();
    set_memory();
    const ptx_counts c = run("local", 4, 64);
    for (int i = 0; i < N; i++)
        assert_true(y[i] == x[(i + i % 8) % N]);
    assert_true(c.instructions[PTX_LOCAL] > 0);
    drop_memory();
}

/* ---- counts ---------------------------------------------------------------------------------- */

TEST(counts)
{
    need_nvrtc();
    set_memory();
    ptx_counts c = run("copy", 1, N);
    assert_int_equal(c.launches, 1);
    assert_int_equal(c.warps, N / 32);
    assert_int_equal(c.instructions[PTX_LOAD], N / 32);
    assert_int_equal(c.instructions[PTX_STORE], N / 32);
    assert_int_equal(c.load_bytes, 4 * N);
    assert_int_equal(c.load_sectors, N / 8);
    c = run("apart", 1, 32);
    assert_int_equal(c.load_sectors, 32);
    c = run("banks", 1, 32);
    assert_int_equal(c.shared_waves, 2 * 32);
    assert_int_equal(c.shared_conflicts, 2 * 31);
    c = run("one_word", 1, 32);
    assert_int_equal(c.shared_waves, 2);
    assert_int_equal(c.shared_conflicts, 0);
    drop_memory();
}

/* Loads that do not wait for each other are one link of the chain, whatever their number. */
TEST(chains)
{
    need_nvrtc();
    set_memory();
    for (int i = 0; i < N; i++)
        ((int *)x)[i] = (i + 1) % N;
    assert_int_equal(run("chain", 1, 32).chain, 5);
    assert_int_equal(((const int *)y)[3], 8);
    assert_int_equal(run("beside", 1, 32).chain, 1);
    assert_int_equal(run("in_turn", 1, 32).chain, 5);
    assert_int_equal(run("in_turn", 8, 32).chain, 5);
    assert_int_equal(run("kept", 1, 32).chain, 1); /* a branch waits only for what was used */
    assert_int_equal(run("guarded", 1, 32).chain, 4);
    drop_memory();
}

/* ---- planted faults -------------------------------------------------------------------------- */

TEST(planted_faults)
{
    static const struct {
        const char *kernel;
        unsigned blocks, threads;
        const char *message; /* part of it */
    } fault[] = {
        {"behind", 1, N, "4 bytes at"},
        {"behind", 1, N, "0 bytes behind the end of an allocation of 1024 bytes"},
        {"behind", 1, N, "thread 255,0,0"},
        {"before", 1, N, "thread 0,0,0"},
        {"far_away", 1, 1, "an access of 4 bytes at"},
        {"crooked", 1, 32, "an access of 16 bytes at"},
        {"crooked", 1, 32, "which is no multiple of them"},
        {"unwritten", 1, N, "that nothing has written"},
        {"unwritten_shared", 1, N, "that nothing has written"},
        {"no_barrier", 1, N, "a race at"},
        {"copy_not_awaited", 1, N, "that nothing has written"},
        {"copy_no_barrier", 1, N, "a race at"},
        {"copy_over_reader", 1, N, "with no barrier between"},
        {"copy_over_write", 1, N, "while a copy (cp.async) to it is under way"},
        {"copy_over_other", 1, N, "while a copy (cp.async) to it is under way"},
        {"copy_from_written", 1, N, "while a copy (cp.async) from it is under way"},
        {"copy_over_copy", 1, N, "while a copy (cp.async) to it is under way"},
        {"copies_race", 1, N, "wrote it in the same launch"},
        {"copy_crooked", 1, N, "an access of 4 bytes at"},
        {"copy_crooked", 1, N, "which is no multiple of them"},
        {"copy_from_crooked", 1, N, "which is no multiple of them"},
        {"copy_from_behind", 1, N, "0 bytes behind the end of an allocation of 1024 bytes"},
        {"copy_behind", 1, N, "0 bytes behind the end of shared memory of 1024 bytes"},
        {"shared_behind", 1, N, "0 bytes behind the end of shared memory of 1024 bytes"},
        {"shared_write_behind", 1, N, "0 bytes behind the end of shared memory of 1024 bytes"},
        {"unwritten_local", 1, N, "that nothing has written"},
        {"no_barrier_behind", 1, N, "with no barrier between"},
        {"both_write", 1, N, "wrote it in the same launch"},
        {"blocks_write", 2, 128, "wrote it in the same launch"},
        {"blocks_read", 2, 128, "a race at"},
        {"threads_read", 1, N, "a race at"},
        {"halves_race", 1, N, "a race at"},
        {"halves_race_behind", 1, N, "a race at"},
        {"lane_away", 1, 32, "a shuffle that reads lane 20, which takes no part in it"},
        {"product_of_some", 1, 32, "a product of matrices in which only lanes 0xffffffdf"},
        {"mask_too_large", 1, 32, "names lanes that are not there"},
        {"not_in_mask", 1, 32, "leaves out its own lane"},
        {"lanes_wait", 1, 128, "a barrier that only lanes"},
        {"warps_wait", 1, 64, "a barrier that other threads of the block do not reach"},
        {"other_barrier", 1, 64, "waits at another one"},
        {"gone", 1, 64, "they have returned"},
        {"lanes_gone", 1, 64, "a barrier that only lanes"},
        {"written_before", 1, 64, "a load of read-only memory at"},
        {"written_behind", 1, 64, "a load of read-only memory (ld.global.nc) did"},
        {"local_behind", 1, 32, "behind the end of local memory of 32 bytes"},
    };
    need_nvrtc();
    for (size_t i = 0; i < sizeof fault / sizeof *fault; i++) {
        char message[PTX_FAULT];
        set_memory();
        launch(fault[i].kernel, fault[i].blocks, fault[i].threads, message);
        drop_memory();
        if (!strstr(message, fault[i].message))
            fail_msg("%s: \"%s\" instead of \"%s\"", fault[i].kernel, message, fault[i].message);
        assert_non_null(strstr(message, "of the PTX"));
    }
}

/* ---- instructions, as PTX -------------------------------------------------------------------- */

#define PTX_TEXT(body)                                                                             \
    ".version 9.0\n.target sm_90\n.address_size 64\n"                                              \
    ".visible .entry k(.param .u64 k_param_0)\n{\n"                                                \
    ".reg .pred %p<4>;\n.reg .b16 %h<4>;\n.reg .f32 %f<8>;\n.reg .b32 %r<8>;\n.reg .b64 %rd<4>;\n" \
    "ld.param.u64 %rd1, [k_param_0];\n" body "ret;\n}\n"

/* Runs a text of one thread; false, and a message, where it has a fault. */
static bool run_text(const char *text, char fault[PTX_FAULT])
{
    const unsigned one[3] = {1, 1, 1};
    const uint64_t args = (uint64_t)(uintptr_t)y;
    ptx_module *m = ptx_read(text, fault);
    ptx_function *f = m ? ptx_find(m, "k", fault) : NULL;
    if (!f)
        fail_msg("%s", fault);
    ptx_region_add(y, BYTES);
    const bool right = ptx_launch(f, one, one, &args, 1, fault);
    ptx_region_remove(y);
    ptx_free(m);
    return right;
}

/* Runs a text of one thread and returns the first word of y. */
static uint32_t result_of(const char *text)
{
    char fault[PTX_FAULT] = "";
    uint32_t word;
    if (!run_text(text, fault))
        fail_msg("%s", fault);
    memcpy(&word, y, sizeof word);
    return word;
}

#define STORE32 "st.global.u32 [%rd1], %r1;\n"
#define STOREF "st.global.f32 [%rd1], %f1;\n"

TEST(roundings)
{
    static const struct {
        const char *text;
        uint32_t result;
    } c[] = {
        /* 1 + 2^-24 and 1 - 2^-26, in all directions */
        {PTX_TEXT("fma.rn.f32 %f1, 0f3F800000, 0f33800000, 0f3F800000;\n" STOREF), 0x3F800000},
        {PTX_TEXT("fma.rp.f32 %f1, 0f3F800000, 0f33800000, 0f3F800000;\n" STOREF), 0x3F800001},
        {PTX_TEXT("fma.rm.f32 %f1, 0f3F800000, 0fB2800000, 0f3F800000;\n" STOREF), 0x3F7FFFFF},
        {PTX_TEXT("fma.rz.f32 %f1, 0fBF800000, 0f33800000, 0fBF800000;\n" STOREF), 0xBF800000},
        /* a product that cancels but for its last bits: only a fused one sees them */
        {PTX_TEXT("fma.rn.f32 %f1, 0f3F800001, 0f3F800001, 0fBF800002;\n" STOREF), 0x28800000},
        {PTX_TEXT("cvt.rzi.s32.f32 %r1, 0fC0200000;\n" STORE32), (uint32_t)-2},
        {PTX_TEXT("cvt.rni.s32.f32 %r1, 0f40200000;\n" STORE32), 2},
        {PTX_TEXT("cvt.rzi.u32.f32 %r1, 0fBF800000;\n" STORE32), 0},
        {PTX_TEXT("cvt.rzi.s32.f32 %r1, 0f7FC00000;\n" STORE32), 0},
        {PTX_TEXT("cvt.rn.bf16.f32 %h1, 0f3F808000;\ncvt.u32.u16 %r1, %h1;\n" STORE32), 0x3F80},
        {PTX_TEXT("cvt.rn.bf16.f32 %h1, 0f3F818000;\ncvt.u32.u16 %r1, %h1;\n" STORE32), 0x3F82},
        {PTX_TEXT("cvt.rn.f16.f32 %h1, 0f477FF000;\ncvt.u32.u16 %r1, %h1;\n" STORE32), 0x7C00},
        {PTX_TEXT("cvt.rn.f16.f32 %h1, 0f33800000;\ncvt.u32.u16 %r1, %h1;\n" STORE32), 1},
        {PTX_TEXT("cvt.sat.f32.f32 %f1, 0f7FC00000;\n" STOREF), 0},
        {PTX_TEXT("ex2.approx.ftz.f32 %f1, 0f40400000;\n" STOREF), 0x41000000},
        {PTX_TEXT("ex2.approx.ftz.f32 %f1, 0fC3000000;\n" STOREF), 0}, /* 2^-128: flushed */
        {PTX_TEXT("max.f32 %f1, 0f7FC00000, 0f3F800000;\n" STOREF), 0x3F800000},
        {PTX_TEXT("shl.b32 %r1, 1, 32;\n" STORE32), 0},
        {PTX_TEXT("shr.s32 %r1, -8, 40;\n" STORE32), UINT32_MAX},
        {PTX_TEXT("bfi.b32 %r1, 0x1AB, 0x11111111, 8, 8;\n" STORE32), 0x1111AB11},
        {PTX_TEXT("bfi.b32 %r1, 1, 2, 32, 8;\n" STORE32), 2},
        {PTX_TEXT("mov.b64 %rd2, {1, 2};\nbfi.b64 %rd2, 0x1AB, %rd2, 40, 8;\n"
                  "mov.b64 {%r2, %r1}, %rd2;\n" STORE32),
         0xAB02},
        {PTX_TEXT("mov.b64 %rd2, {1, 2};\nbfi.b64 %rd2, 0x1AB, %rd2, 8, 64;\n"
                  "mov.b64 {%r1, %r2}, %rd2;\n" STORE32),
         0x1AB01},
        {PTX_TEXT("mul.hi.s32 %r1, -2, 3;\n" STORE32), UINT32_MAX},
        {PTX_TEXT("setp.ne.f32 %p1, 0f7FC00000, 0f3F800000;\nselp.u32 %r1, 1, 2, %p1;\n" STORE32),
         2},
        {PTX_TEXT("setp.neu.f32 %p1, 0f7FC00000, 0f3F800000;\nselp.u32 %r1, 1, 2, %p1;\n" STORE32),
         1},
        {PTX_TEXT("mov.u16 %h1, 3;\nmov.u16 %h2, 5;\nmov.b32 %r1, {%h1, %h2};\n" STORE32), 0x50003},
        {PTX_TEXT("mov.b64 %rd2, {1, 2};\nmov.b64 {%r2, %r1}, %rd2;\n" STORE32), 2},
        {PTX_TEXT("mov.u32 %r1, 4;\nsetp.eq.s32 %p1, %r1, 4;\n@!%p1 mov.u32 %r1, 5;\n" STORE32), 4},
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++)
        if (result_of(c[i].text) != c[i].result)
            fail_msg("case %zu: %08x instead of %08x", i, result_of(c[i].text), c[i].result);
}

/* NVRTC copies arguments before it computes a place among them. */
TEST(arguments_behind)
{
    char fault[PTX_FAULT] = "";
    assert_false(run_text(PTX_TEXT("ld.param.u32 %r1, [k_param_0+8];\n" STORE32), fault));
    if (!strstr(fault, "0 bytes behind the end of the arguments of 8 bytes"))
        fail_msg("%s", fault);
}

TEST(unknown_instruction)
{
    static const char *const text[] = {
        PTX_TEXT("atom.global.add.f32 %f1, [%rd1], 0f3F800000;\n"),
        PTX_TEXT("ld.global.v8.f32 %f1, [%rd1];\n"), PTX_TEXT("bar.sync 1;\n"),
        PTX_TEXT("add.f32 %f1, %rd1, %f2;\n"), PTX_TEXT("add.f32 %f1, %f2;\n")};
    static const char *const name[] = {"the instruction atom.global.add.f32",
                                       "the instruction ld.global.v8.f32", "a barrier other than 0",
                                       "register %rd1 has 8 bytes", "add.f32 with 2 operands"};
    for (int i = 0; i < 5; i++) {
        char fault[PTX_FAULT];
        ptx_module *m = ptx_read(text[i], fault);
        assert_non_null(m);
        assert_null(ptx_find(m, "k", fault));
        if (!strstr(fault, name[i]))
            fail_msg("%s", fault);
        assert_null(ptx_find(m, "another", fault));
        assert_string_equal(fault, "");
        ptx_free(m);
    }
}

RUN_TESTS(open_module, close_module)

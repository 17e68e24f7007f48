#include "cuda/kernels/prelude.h"
#include "cuda/kernels/wide.h"
#include "cuda/kernels/row.h"

/* Kernels for test_device.c and test_dtype.c: right ones, and wrong ones whose fault must show. */
typedef struct copy_args {
    const float *x;
    float *y;
    int count;
} copy_args;

/* y = x backwards, through shared memory. */
KAS_KERNEL(test_reverse, copy_args)
{
    KAS_SHARED(float, tile, 256);
    const int first = KAS_BLOCK_X * 256, n = kas_imin(256, a.count - first);
    KAS_LANES (i, n) {
        tile[i] = a.x[first + i];
    }
    KAS_BARRIER();
    KAS_LANES (i, n) {
        a.y[a.count - 1 - first - i] = tile[i];
    }
}

/* The same with both halves in one lane loop, as if a barrier had been forgotten: each lane writes
 * its own place and reads its neighbour's, which is there already only if lanes run downward. */
KAS_KERNEL(test_missing_barrier, copy_args)
{
    KAS_SHARED(float, tile, 256);
    const int n = kas_imin(256, a.count);
    KAS_LANES (i, n) {
        tile[i] = -1.0f;
    }
    KAS_BARRIER();
    KAS_LANES (i, n) {
        tile[i] = a.x[i];
        a.y[i] = tile[i + 1 < n ? i + 1 : 0];
    }
}

KAS_KERNEL(test_reduce, copy_args)
{
    KAS_SHARED(float, tile, 256);
    for (int pass = 0; pass < 2; pass++) {
        KAS_LANES (i, a.count) {
            tile[i] = a.x[i];
        }
        const float value = pass ? kas_block_max(tile, a.count) : kas_block_sum(tile, a.count);
        KAS_ONE_LANE
        {
            a.y[pass] = value;
        }
    }
}

/* 4 numbers for each block: counter (x, y, z, 7), key (1, 2). */
typedef struct philox_args {
    kas_u32 *out;
} philox_args;
KAS_KERNEL(test_philox, philox_args)
{
    const kas_u32x4 counter = {(kas_u32)KAS_BLOCK_X, (kas_u32)KAS_BLOCK_Y, (kas_u32)KAS_BLOCK_Z, 7};
    const kas_u32x4 bits = kas_philox(counter, 1, 2);
    kas_u32 *out = a.out + 4 * (KAS_BLOCK_X + 3 * (KAS_BLOCK_Y + 2 * KAS_BLOCK_Z));
    KAS_ONE_LANE
    {
        out[0] = bits.x, out[1] = bits.y, out[2] = bits.z, out[3] = bits.w;
    }
}

/* y[f][i] = function f of x[i] */
KAS_KERNEL(test_math, copy_args)
{
    KAS_LANES (i, a.count) {
        const float x = a.x[i];
        a.y[i] = kas_exp(x);
        a.y[a.count + i] = kas_tanh(x);
        a.y[2 * a.count + i] = kas_erf(x);
        a.y[3 * a.count + i] = kas_sin(x);
        a.y[4 * a.count + i] = kas_cos(x);
        a.y[5 * a.count + i] = kas_sqrt(kas_abs(x));
        a.y[6 * a.count + i] = kas_log(kas_max(x, 0.25f));
        a.y[7 * a.count + i] = kas_fma(x, kas_min(x, 1.0f), 2.0f);
        a.y[8 * a.count + i] = kas_sin_fused(x, 0); /* what GPUs run */
        a.y[9 * a.count + i] = kas_sin_fused(x, 1);
    }
}

/* How often each row was visited. */
KAS_KERNEL(test_rows, copy_args)
{
    KAS_ROWS (r, 2, a.count - 1) {
        KAS_LANES (c, 3) {
            a.y[3 * r + c] += 1.0f;
        }
    }
}

/* One conversion for each element: bits of 16 in a word, bits of a float in a word. */
typedef struct number_args {
    const kas_u32 *in;
    kas_u32 *out;
    int count;
} number_args;

#define TEST_VALUE(name, type, call)                                                               \
    KAS_KERNEL(name, number_args)                                                                  \
    {                                                                                              \
        KAS_LANES (i, a.count) {                                                                   \
            const type number = {(kas_u16)a.in[i]};                                                \
            kas_bits bits;                                                                         \
            bits.f = call(number);                                                                 \
            a.out[i] = bits.u;                                                                     \
        }                                                                                          \
    }
#define TEST_OF(name, call)                                                                        \
    KAS_KERNEL(name, number_args)                                                                  \
    {                                                                                              \
        KAS_LANES (i, a.count) {                                                                   \
            kas_bits bits;                                                                         \
            bits.u = a.in[i];                                                                      \
            a.out[i] = call(bits.f).bits;                                                          \
        }                                                                                          \
    }

#undef KAS_DTYPE
#define KAS_DTYPE 1 /* as a text behind the prelude chooses */
TEST_VALUE(test_bf16_value, kas_real, kas_value)
TEST_OF(test_bf16_of, kas_real_of)
TEST_VALUE(test_f16_value, kas_f16, kas_f16_value)
TEST_OF(test_f16_of, kas_f16_of)
TEST_VALUE(test_f16_value_of_bits, kas_f16, kas_f16_value_of_bits)
TEST_OF(test_f16_of_by_bits, kas_f16_of_by_bits)

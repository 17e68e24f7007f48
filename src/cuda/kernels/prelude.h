/* The dialect of CUDA C in which every kernel is written once (docs/dialect.md, design decision 1).
 *
 * This text, and wide.h and row.h behind it, stand in front of every kernel, hand-written or
 * generated. NVRTC and nvcc (__CUDACC__) make a kernel of it whose threads are the lanes; the host
 * compiler makes a function whose lanes are an inner loop that vectorises. No header is included on
 * either side: NVRTC has none, and a compiler without the C library's headers is enough on the CPU.
 *
 *     KAS_KERNEL(kas_dev_scale, kas_scale_args)
 *     {
 *         const int row = KAS_BLOCK_X;
 *         KAS_LANES (c, a.channels) {
 *             a.y[row * a.pitch + c] = a.scale[c] * a.x[row * a.pitch + c];
 *         }
 *     }
 *
 * KAS_ORDER (0, 1, 2) runs the lanes of the CPU ascending, descending or shuffled: a serial loop
 * hides a missing barrier in one direction, so tests build kernels three times. KAS_SUFFIX is
 * appended to the names of kernels, so that the three can be linked into one program. KAS_DTYPE (0,
 * 1, 2) chooses kas_real, the dtype in which activations are stored: float, bf16, float16. */
#ifndef KAS_CUDA_KERNELS_PRELUDE_H
#define KAS_CUDA_KERNELS_PRELUDE_H

typedef unsigned char kas_u8;
typedef unsigned short kas_u16;
typedef unsigned int kas_u32;
typedef int kas_i32;
typedef unsigned long long kas_u64;
typedef long long kas_i64;

/* The most threads of a GPU block: kernels are compiled for it, and both devices refuse more. */
#define KAS_BLOCK_MAX 256

#define KAS_RESTRICT __restrict__

#define KAS_PASTE_(a, b) a##b
#define KAS_PASTE(a, b) KAS_PASTE_(a, b)

/* The bits of a float. */
typedef union kas_bits {
    float f;
    int i;
    kas_u32 u;
} kas_bits;

/* The 16-bit dtypes. They are stored and never computed with; they are structs, so that a text that
 * forgets to convert does not compile. */
typedef struct kas_bf16 {
    kas_u16 bits;
} kas_bf16;
typedef struct kas_f16 {
    kas_u16 bits;
} kas_f16;

#ifdef __CUDACC__
/* ---- GPU ------------------------------------------------------------------------------------ */

#define KAS_FN static __device__ __forceinline__ __attribute__((unused))
/* KAS_BLOCK_MAX threads, and at least one block a multiprocessor: without the 1 ptxas keeps many
 * kernels to the 32 registers of full occupancy, and some of them spill (kas_dev_conv_forward for
 * sm_90: 32 registers and 8 bytes of local memory; with it 40 and none). */
#define KAS_KERNEL(name, args_t)                                                                   \
    extern "C" __global__ void __launch_bounds__(KAS_BLOCK_MAX, 1) name(const args_t a)

#define KAS_BLOCK_X ((int)blockIdx.x)
#define KAS_BLOCK_Y ((int)blockIdx.y)
#define KAS_BLOCK_Z ((int)blockIdx.z)

#define KAS_LANES(i, count) for (int i = (int)threadIdx.x; i < (count); i += (int)blockDim.x)
#define KAS_ROWS(r, first, last)                                                                   \
    for (int r = (first) + (int)threadIdx.y; r < (last); r += (int)blockDim.y)
#define KAS_THREADS(t, count) for (int t = (int)threadIdx.x; t < (count); t = 0x7fffffff)
/* Ends the threads that have none of `count` lanes, in an inlined function only that function. It
 * stands in front of the lanes' values where neither a barrier nor a shuffle follows: no load
 * moves across the test of a KAS_THREADS, and behind this the compiler drops that test. */
#define KAS_LEAVE(count)                                                                           \
    if ((int)threadIdx.x >= (count))                                                               \
    return

/* Unrolled turns load ahead of what they compute, each into registers of its own, so how many there
 * are is chosen (unroll.c).  KAS_LEAN 1, which a text may define in front of a kernel, unrolls
 * nothing: for kernels that spill all the same (compile_nvrtc.c). */
#ifndef KAS_LEAN
#define KAS_LEAN 0
#endif
#define KAS_PRAGMA_(text) _Pragma(#text)
#define KAS_PRAGMA(...) KAS_PRAGMA_(__VA_ARGS__)
#define KAS_UNROLL_WHOLE_0 _Pragma("unroll")
#define KAS_UNROLL_WHOLE_1 _Pragma("unroll 1")
#define KAS_UNROLL_0(turns) KAS_PRAGMA(unroll turns)
#define KAS_UNROLL_1(turns) _Pragma("unroll 1")
#define KAS_UNROLL KAS_PASTE(KAS_UNROLL_WHOLE_, KAS_LEAN)
#define KAS_UNROLL_TURNS(turns) KAS_PASTE(KAS_UNROLL_, KAS_LEAN)(turns)
#define KAS_UNROLL_FEW(turns) KAS_UNROLL_TURNS(turns)

#define KAS_SHARED(type, name, count) __shared__ __attribute__((aligned(16))) type name[count]
#define KAS_LANE(type, name, max_lanes) type name[1]
#define KAS_OF(name, t) name[0]
#define KAS_BARRIER() __syncthreads()
#define KAS_INFINITY __int_as_float(0x7f800000)
#define KAS_ONE_LANE if (threadIdx.x == 0 && threadIdx.y == 0)
#define KAS_ONE_ROW if (threadIdx.y == 0)

#define kas_exp(x) expf(x)
#define kas_log(x) logf(x)
#define kas_tanh(x) tanhf(x)
#define kas_erf(x) erff(x)
#define kas_sqrt(x) sqrtf(x)
#define kas_rsqrt(x) (1.0f / sqrtf(x))
#define kas_abs(x) fabsf(x)
#define kas_fma(x, y, z) fmaf(x, y, z)
#define kas_fused(x, y, z) fmaf(x, y, z)
#define kas_round(x) rintf(x)

KAS_FN float kas_f16_value(kas_f16 h)
{
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h.bits));
    return f;
}
KAS_FN kas_f16 kas_f16_of(float f)
{
    kas_f16 h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h.bits) : "f"(f));
    return h;
}
#else
/* ---- CPU ------------------------------------------------------------------------------------ */

#ifndef KAS_ORDER
#define KAS_ORDER 0
#endif
#ifndef KAS_SUFFIX
#define KAS_SUFFIX
#endif
#define KAS_UNUSED __attribute__((unused))
#define KAS_FN static inline __attribute__((always_inline, unused))

/* Runs blocks [first, last) of the grid, x fastest; with an `order`, block order[k] for each k.
 * Coordinates are counted up and not divided out, because a block may hold as few as 16 lanes. It
 * is no part of a kernel: inside one more loop each would take the compiler a fifth longer. */
typedef void kas_block(const void *args, int x, int y, int z);
static __attribute__((noinline, unused)) void kas_run_blocks(kas_block *block, const void *args,
                                                             const unsigned *grid, unsigned first,
                                                             unsigned last, const unsigned *order)
{
    unsigned x = first % grid[0], y = first / grid[0] % grid[1], z = first / grid[0] / grid[1];
    for (unsigned k = first; k < last; k++) {
        if (order) {
            x = order[k] % grid[0];
            y = order[k] / grid[0] % grid[1];
            z = order[k] / grid[0] / grid[1];
        }
        block(args, (int)x, (int)y, (int)z);
        x = x + 1 < grid[0] ? x + 1 : 0;
        y = x ? y : y + 1 < grid[1] ? y + 1 : 0;
        z += !x && !y;
    }
}

#define KAS_KERNEL(name, args_t)                                                                   \
    KAS_FN void KAS_PASTE(name, _body)(const args_t a, KAS_UNUSED const int kas_x,                 \
                                       KAS_UNUSED const int kas_y, KAS_UNUSED const int kas_z);    \
    static void KAS_PASTE(name, _block)(const void *args, int kas_x, int kas_y, int kas_z)         \
    {                                                                                              \
        KAS_PASTE(name, _body)(*(const args_t *)args, kas_x, kas_y, kas_z);                        \
    }                                                                                              \
    __attribute__((visibility("default"))) void KAS_PASTE(name, KAS_SUFFIX)(                       \
        const void *args, const unsigned *grid, unsigned first, unsigned last,                     \
        const unsigned *order)                                                                     \
    {                                                                                              \
        kas_run_blocks(KAS_PASTE(name, _block), args, grid, first, last, order);                   \
    }                                                                                              \
    KAS_FN void KAS_PASTE(name, _body)(const args_t a, KAS_UNUSED const int kas_x,                 \
                                       KAS_UNUSED const int kas_y, KAS_UNUSED const int kas_z)

#define KAS_BLOCK_X kas_x
#define KAS_BLOCK_Y kas_y
#define KAS_BLOCK_Z kas_z

/* Lanes are independent of each other by definition, so the vectoriser need not prove it.  Without
 * interleaving, 16 channels are two vectors; with it they would all fall into the scalar rest. */
#ifdef __clang__
#define KAS_VECTORISE _Pragma("clang loop vectorize(assume_safety) interleave_count(1)")
#define KAS_UNROLL _Pragma("clang loop unroll(full)")
#else
#define KAS_VECTORISE _Pragma("GCC ivdep")
#define KAS_UNROLL _Pragma("GCC unroll 64")
#endif

#define KAS_UNROLL_TURNS(turns) KAS_UNROLL /* a lane loop around it vectorises */
#define KAS_UNROLL_FEW(turns)

#if KAS_ORDER == 0
#define KAS_RANGE_(i, first, last) for (int i = (first), kas_end_##i = (last); i < kas_end_##i; i++)
#define KAS_LANES_(i, count) KAS_VECTORISE KAS_RANGE_(i, 0, count)
#elif KAS_ORDER == 1
#define KAS_RANGE_(i, first, last)                                                                 \
    for (int kas_end_##i = (first), i = (last)-1; i >= kas_end_##i; i--)
#define KAS_LANES_(i, count) KAS_RANGE_(i, 0, count)
#else
/* k * prime mod n is a permutation for every n that the prime does not divide. */
KAS_FN int kas_shuffled(int k, int n)
{
    return (int)(((kas_u64)k * 2654435761u + 40503u) % (kas_u64)n);
}
#define KAS_RANGE_(i, first, last)                                                                 \
    for (int kas_k_##i = 0, kas_n_##i = (last) - (first), i;                                       \
         kas_k_##i < kas_n_##i && (i = (first) + kas_shuffled(kas_k_##i, kas_n_##i), 1);           \
         kas_k_##i++)
#define KAS_LANES_(i, count) KAS_RANGE_(i, 0, count)
#endif

#define KAS_LANES(i, count) KAS_LANES_(i, count)
#define KAS_ROWS(r, first, last) KAS_RANGE_(r, first, last)
#define KAS_THREADS(t, count) KAS_LANES_(t, count)
#define KAS_LEAVE(count) ((void)0)

#define KAS_SHARED(type, name, count) __attribute__((aligned(64))) type name[count]
#define KAS_LANE(type, name, max_lanes) __attribute__((aligned(64))) type name[max_lanes]
#define KAS_OF(name, t) name[t]
#define KAS_BARRIER() ((void)0)
#define KAS_INFINITY __builtin_inff()
#define KAS_ONE_LANE if (1)
#define KAS_ONE_ROW if (1)

#define kas_log(x) __builtin_logf(x)
#define kas_sqrt(x) __builtin_sqrtf(x)
#define kas_rsqrt(x) (1.0f / __builtin_sqrtf(x))
#define kas_abs(x) __builtin_fabsf(x)
/* Written out: contraction makes one instruction of it where there is one, and elsewhere the C
 * library's exact fmaf would be a call. */
#define kas_fma(x, y, z) ((x) * (y) + (z))
#define kas_fused(x, y, z) __builtin_fmaf(x, y, z) /* rounded once on every machine */

/* Functions that vectorise: no branch, no table, no call.  The C library's are calls, one for each
 * lane.  Errors below 3e-7 relative (measured by test_device over the range where results are
 * neither zero nor infinite); NaN stays NaN. */
KAS_FN float kas_power_of_two(int n) /* -126 <= n <= 127 */
{
    kas_bits bits;
    bits.i = (n + 127) << 23;
    return bits.f;
}
/* x rounded to an integer, |x| < 2^22: the sum's last bit is 1. */
KAS_FN float kas_round(float x)
{
    return (x + 12582912.0f) - 12582912.0f;
}
/* x = n log 2 + r, |r| <= log(2)/2; returns e^r - 1. */
KAS_FN float kas_exp_reduce(float x, float *n)
{
    *n = kas_round(x * 1.44269504f);
    /* log 2 in two parts, the first short enough that n times it is exact */
    const float r = (x - *n * 0.693359375f) + *n * 2.12194440e-4f;
    float p = ((1.0f / 5040 * r + 1.0f / 720) * r + 1.0f / 120) * r + 1.0f / 24;
    p = (p * r + 1.0f / 6) * r + 0.5f;
    return (p * r) * r + r;
}
/* x = n log 2 + r; above 127.5 log 2, r goes on to log 2, beyond which the result is infinite. In
 * the sum with 3 * 2^22 the last bits are those of n. */
KAS_FN float kas_exp(float x)
{
    const float shifted = x * 1.44269504f + 12582912.0f;
    kas_bits last, power;
    last.f = shifted < 12583039.0f ? shifted : 12583039.0f; /* n = 127 */
    const float n = last.f - 12582912.0f;
    const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = ((1.0f / 40320 * r + 1.0f / 5040) * r + 1.0f / 720) * r + 1.0f / 120;
    p = ((p * r + 1.0f / 24) * r + 1.0f / 6) * r + 0.5f;
    p = (p * r + 1.0f) * r + 1.0f;
    power.u = (last.u << 23) + (127u << 23);
    return x < -87.3365448f ? 0.0f : p * power.f; /* below 2^-126 */
}
/* With m = e^2|x| - 1, computed without the cancellation: tanh |x| = m / (m + 2). */
KAS_FN float kas_tanh(float x)
{
    const float size = __builtin_fabsf(x), limited = size < 10.0f ? size : 10.0f;
    float n;
    const float p = kas_exp_reduce(2.0f * limited, &n), power = kas_power_of_two((int)n);
    const float m = power * p + (power - 1.0f);
    const float y = __builtin_copysignf(m / (m + 2.0f), x);
    return x == x ? y : x;
}
/* x times a polynomial in x^2 below 0.9; above it 1 - e^g(|x|), g fitted to log erfc (least squares
 * over Chebyshev points, weighted for the relative error of erf). */
KAS_FN float kas_erf(float x)
{
    const float size = __builtin_fabsf(x), square = x * x;
    float p = 8.5341213e-05f;
    p = p * square - 0.000818078115f;
    p = p * square + 0.0052043316f;
    p = p * square - 0.0268607084f;
    p = p * square + 0.112837188f;
    p = p * square - 0.376126349f;
    p = p * square + 1.12837923f;
    const float t = (size < 4.0f ? size : 4.0f) - 1.0f;
    float g = 1.34680397e-06f;
    g = g * t - 3.02656754e-05f;
    g = g * t + 0.000310370582f;
    g = g * t - 0.00203605788f;
    g = g * t + 0.0100596864f;
    g = g * t - 0.0415662043f;
    g = g * t - 0.843107164f;
    g = g * t - 2.63896751f;
    g = g * t - 1.84960556f;
    const float large = __builtin_copysignf(1.0f - kas_exp(g), x);
    return size < 0.9f ? x * p : x == x ? large : x;
}

/* float16 by arithmetic on the bits, without a branch.  Numbers below 2^-14 are kept, whatever the
 * mode of the CPU device. */
KAS_FN float kas_f16_value_of_bits(kas_f16 h)
{
    const kas_u32 shifted = (h.bits & 0x7fffu) << 13;
    kas_bits usual, small, least;
    /* the exponent's bias from 15 to 127; the largest exponent, of infinity and NaN, to 255 */
    usual.u = shifted + (shifted < 0x0f800000u ? 112u << 23 : 224u << 23);
    least.u = 113u << 23; /* 2^-14; below it the bits count units of 2^-24 */
    small.u = shifted + least.u;
    small.f -= least.f;
    usual.u = (shifted < 1u << 23 ? small.u : usual.u) | (h.bits & 0x8000u) << 16;
    return usual.f;
}
KAS_FN kas_f16 kas_f16_of_by_bits(float f)
{
    kas_bits size, small, half;
    size.f = f;
    const kas_u32 sign = size.u >> 16 & 0x8000u;
    size.u &= 0x7fffffffu;
    half.u = 126u << 23; /* below 2^-14: a sum with 0.5, whose last bit is worth 2^-24 */
    small.f = size.f + half.f;
    /* else the bias from 127 to 15, to the nearest and ties to even; the carry may reach
     * infinity */
    const kas_u32 usual = (size.u - (112u << 23) + 0xfffu + (size.u >> 13 & 1)) >> 13;
    const kas_u32 finite = size.u < 113u << 23 ? small.u - half.u : usual;
    const kas_u32 large = size.u > 0x7f800000u ? 0x7e00u | (size.u >> 13 & 0x3ffu) : 0x7c00u;
    const kas_f16 h = {(kas_u16)((size.u < 143u << 23 ? finite : large) | sign)};
    return h;
}
/* Uses the machine's instructions where the compiler vectorises them. */
#if defined(__F16C__) && (defined(__clang__) || defined(__FLT16_MAX__))
#ifdef __clang__
typedef __fp16 kas_half;
#else
typedef _Float16 kas_half;
#endif
typedef union kas_half_bits {
    kas_half h;
    kas_u16 u;
} kas_half_bits;
KAS_FN float kas_f16_value(kas_f16 h)
{
    kas_half_bits half;
    half.u = h.bits;
    return (float)half.h;
}
KAS_FN kas_f16 kas_f16_of(float f)
{
    kas_half_bits half;
    half.h = (kas_half)f;
    const kas_f16 h = {half.u};
    return h;
}
#else
#define kas_f16_value(h) kas_f16_value_of_bits(h)
#define kas_f16_of(f) kas_f16_of_by_bits(f)
#endif
#endif

/* ---- both ------------------------------------------------------------------------------------ */

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
KAS_FN kas_bf16 kas_bf16_of(float f)
{
    kas_bf16 h;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h.bits) : "f"(f));
    return h;
}
#else
/* To the nearest, ties to even: half a unit is added, less one where the last bit kept is 0. */
KAS_FN kas_bf16 kas_bf16_of(float f)
{
    kas_bits bits;
    bits.f = f;
    const kas_u32 rounded = (bits.u + 0x7fffu + (bits.u >> 16 & 1)) >> 16;
    const kas_u32 nan = bits.u >> 16 | 0x40u;
    const kas_bf16 h = {(kas_u16)((bits.u & 0x7fffffffu) > 0x7f800000u ? nan : rounded)};
    return h;
}
#endif

KAS_FN float kas_bf16_value(kas_bf16 h)
{
    kas_bits bits;
    bits.u = (kas_u32)h.bits << 16;
    return bits.f;
}

/* kas_real: the dtype in which activations are stored, 0 float, 1 bf16, 2 float16.  kas_value and
 * kas_real_of convert, to the nearest and ties to even.  Macros, expanded where they are used: a
 * text may choose its KAS_DTYPE behind the prelude. */
#ifndef KAS_DTYPE
#define KAS_DTYPE 0
#endif
#define kas_real KAS_PASTE(kas_real_, KAS_DTYPE)
#define kas_value(r) KAS_PASTE(kas_value_, KAS_DTYPE)(r)
#define kas_real_of(f) KAS_PASTE(kas_real_of_, KAS_DTYPE)(f)
typedef float kas_real_0;
typedef kas_bf16 kas_real_1;
typedef kas_f16 kas_real_2;
KAS_FN float kas_value_0(float r)
{
    return r;
}
KAS_FN float kas_real_of_0(float f)
{
    return f;
}
#define kas_value_1(r) kas_bf16_value(r)
#define kas_value_2(r) kas_f16_value(r)
#define kas_real_of_1(f) kas_bf16_of(f)
#define kas_real_of_2(f) kas_f16_of(f)

/* NaN where an operand is NaN, as PyTorch has it; fmaxf would give the other one.  Of zeros that
 * differ in their sign the result is the second.  Without a branch, so that loops vectorise; where
 * y is a constant, compilers need one comparison. */
KAS_FN float kas_max(float x, float y)
{
    return ((x > y) | (x != x)) ? x : y;
}
KAS_FN float kas_min(float x, float y)
{
    return ((x < y) | (x != x)) ? x : y;
}
/* 1 / (1 + e^-x). A GPU's true division is a call in a branch, which loads wait for; its
 * approximation has an error of one unit in the last place. */
KAS_FN float kas_sigmoid(float x)
{
    const float sum = 1.0f + kas_exp(-x);
#ifdef __CUDACC__
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(sum));
    return inverse;
#else
    return 1.0f / sum;
#endif
}
/* Returns whether x takes the place of y as the maximum so far. The first of equal values stays,
 * and so does the first NaN. */
KAS_FN int kas_exceeds(float x, float y)
{
    return (x > y) | ((x != x) & (y == y));
}
/* Returns whether x is finite, by its exponent, whatever the mode of the device for small
 * numbers. */
KAS_FN int kas_is_finite(float x)
{
    kas_bits bits;
    bits.f = x;
    return (bits.u & 0x7f800000u) != 0x7f800000u;
}
/* Sets a word to 1. Any number of lanes and blocks may set it at the same time, because all write
 * the same. */
KAS_FN void kas_raise(kas_u32 *word)
{
#ifdef __CUDACC__
    *(volatile kas_u32 *)word = 1;
#else
    __atomic_store_n(word, 1u, __ATOMIC_RELAXED);
#endif
}
KAS_FN int kas_imin(int x, int y)
{
    return x < y ? x : y;
}
KAS_FN int kas_imax(int x, int y)
{
    return x > y ? x : y;
}

/* sin(r + quadrant * pi/2), |r| <= pi/4 or, where the quadrant was rounded, up to 1. */
KAS_FN float kas_sin_near(float r, int quadrant)
{
    r = kas_min(kas_max(r, -1.0f), 1.0f);
    const float s = r * r;
    float sine = 1.0f / 362880;
    sine = sine * s - 1.0f / 5040;
    sine = sine * s + 1.0f / 120;
    sine = sine * s - 1.0f / 6;
    sine = (sine * s) * r + r;
    float cosine = -1.0f / 3628800;
    cosine = cosine * s + 1.0f / 40320;
    cosine = cosine * s - 1.0f / 720;
    cosine = cosine * s + 1.0f / 24;
    cosine = cosine * s - 0.5f;
    cosine = cosine * s + 1.0f;
    const float y = quadrant & 1 ? cosine : sine;
    return quadrant & 2 ? -y : y;
}
/* sin(x + quarter * pi/2) for GPUs, whose double is slow and whose multiply-add rounds once: pi/2
 * in three floats, of which the products are exact enough up to |x| of 10^6, and bounded for any x.
 * CUDA's own sinf has a way for large x that keeps an array in local memory. */
KAS_FN float kas_sin_fused(float x, int quarter)
{
    const float limited = kas_min(kas_max(x, -4e6f), 4e6f);
    const float quadrants = kas_round(limited * 0.636619772f);
    float r = kas_fused(quadrants, -1.57079637f, limited);
    r = kas_fused(quadrants, 4.37113883e-08f, r);
    r = kas_fused(quadrants, 1.71512451e-15f, r);
    const float y = kas_sin_near(r, (int)quadrants + quarter);
    return x - x == 0.0f ? y : x - x; /* NaN for infinities too */
}
/* The same for CPUs.  The quadrant is found in double, which keeps the remainder good to float's
 * last bits up to |x| of 10^6, and bounded for any x. */
KAS_FN float kas_sin_double(float x, int quarter)
{
    const double quadrants =
        ((double)x * 0.63661977236758134 + 6755399441055744.0) - 6755399441055744.0;
    const double turns = (quadrants * 0.25 + 6755399441055744.0) - 6755399441055744.0;
    /* pi/2 in two parts, the first of 33 bits: its product with quadrants below 2^20 is exact */
    const double r =
        ((double)x - quadrants * 1.5707963267341256) - quadrants * 6.0771005065061922e-11;
    const float y = kas_sin_near((float)r, (int)(quadrants - 4.0 * turns) + quarter);
    return x - x == 0.0f ? y : x - x;
}
#ifdef __CUDACC__
#define kas_sin(x) kas_sin_fused(x, 0)
#define kas_cos(x) kas_sin_fused(x, 1)
#else
#define kas_sin(x) kas_sin_double(x, 0)
#define kas_cos(x) kas_sin_double(x, 1)
#endif

/* Return the sum, or the maximum, of shared[0 .. n), the same to every lane, and destroy the array.
 * The tree is fixed, so the bits are the same on every device and in every order of lanes. Use them
 * only where control is uniform, with lanes along x only (a block whose y is 1). The barriers
 * around them are inside. */
KAS_FN float kas_block_sum(float *shared, int n)
{
    int width = 1;
    while (width < n)
        width *= 2;
    KAS_BARRIER();
    for (width /= 2; width > 0; width /= 2) {
        const int pairs = kas_imin(width, n - width);
        KAS_LANES (i, pairs) {
            shared[i] += shared[i + width];
        }
        n = kas_imin(n, width);
        KAS_BARRIER();
    }
    const float sum = shared[0];
    KAS_BARRIER();
    return sum;
}
KAS_FN float kas_block_max(float *shared, int n)
{
    int width = 1;
    while (width < n)
        width *= 2;
    KAS_BARRIER();
    for (width /= 2; width > 0; width /= 2) {
        const int pairs = kas_imin(width, n - width);
        KAS_LANES (i, pairs) {
            shared[i] = kas_max(shared[i], shared[i + width]);
        }
        n = kas_imin(n, width);
        KAS_BARRIER();
    }
    const float max = shared[0];
    KAS_BARRIER();
    return max;
}

/* Philox4x32-10: the same numbers as core/random.h. */
typedef struct kas_u32x4 {
    kas_u32 x, y, z, w;
} kas_u32x4;

KAS_FN kas_u32x4 kas_philox(kas_u32x4 c, kas_u32 key0, kas_u32 key1)
{
    for (int round = 0; round < 10; round++) {
        const kas_u64 p = (kas_u64)0xD2511F53u * c.x;
        const kas_u64 q = (kas_u64)0xCD9E8D57u * c.z;
        c.x = (kas_u32)(q >> 32) ^ c.y ^ key0;
        c.y = (kas_u32)q;
        c.z = (kas_u32)(p >> 32) ^ c.w ^ key1;
        c.w = (kas_u32)p;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return c;
}
/* Returns a number in [0, n) from 32 random bits; the bias is below n / 2^32. */
KAS_FN int kas_scale_u32(kas_u32 bits, int n)
{
    return (int)(((kas_u64)bits * (kas_u32)n) >> 32);
}

#endif

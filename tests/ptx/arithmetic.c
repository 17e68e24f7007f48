/* Arithmetic and logic on registers. */
#include "ptx/lanes.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "ptx/ptx.h"

/* ---- floats ---------------------------------------------------------------------------------- */

static inline uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static inline float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* min and max give the other operand where one is NaN, and count -0 as less than 0. */
static inline float min_float(float a, float b)
{
    const float less = a < b || b != b ? a : b;
    return a == b ? float_of(bits_of(a) | bits_of(b)) : less;
}
static inline float max_float(float a, float b)
{
    const float more = a > b || b != b ? a : b;
    return a == b ? float_of(bits_of(a) & bits_of(b)) : more;
}

static inline float flush(float x)
{
    return fabsf(x) < FLT_MIN ? copysignf(0, x) : x;
}

/* a * b + c rounded down (-1), up (1) or to zero (0). The product of floats is exact in double;
 * what the sum in double loses is found as Knuth's two-sum does. */
static inline float fma_directed(float a, float b, float c, int direction)
{
    const double product = (double)a * b, sum = product + c;
    const double back = sum - product, lost = (product - (sum - back)) + (c - back);
    const float nearest = (float)sum;
    if (!isfinite(sum))
        return nearest;
    const double beyond = (double)nearest > sum ? 1 : (double)nearest < sum ? -1 : -lost;
    const int wanted = direction ? direction : sum > 0 || (sum == 0 && lost > 0) ? -1 : 1;
    if (wanted < 0)
        return beyond > 0 ? nextafterf(nearest, -INFINITY) : nearest;
    return beyond < 0 ? nextafterf(nearest, INFINITY) : nearest;
}

/* ---- integers -------------------------------------------------------------------------------- */

static inline int32_t divide_s32(int32_t a, int32_t b)
{
    return b == 0 ? -1 : b == -1 ? (int32_t) - (uint32_t)a : a / b;
}
static inline int32_t remain_s32(int32_t a, int32_t b)
{
    return b == 0 ? a : b == -1 ? 0 : a % b;
}
static inline int64_t divide_s64(int64_t a, int64_t b)
{
    return b == 0 ? -1 : b == -1 ? (int64_t) - (uint64_t)a : a / b;
}
static inline int64_t remain_s64(int64_t a, int64_t b)
{
    return b == 0 ? a : b == -1 ? 0 : a % b;
}

/* Bits [position, position + length) of a. */
static inline uint32_t extract(uint32_t a, uint32_t position, uint32_t length)
{
    position &= 255, length &= 255;
    const uint32_t mask = length >= 32 ? UINT32_MAX : (UINT32_C(1) << length) - 1;
    return position >= 32 ? 0 : a >> position & mask;
}
static inline int32_t extract_signed(int32_t a, uint32_t position, uint32_t length)
{
    position &= 255, length &= 255;
    if (length == 0)
        return 0;
    const int64_t from = (int64_t)a >> (position > 31 ? 31 : position);
    return length >= 32 ? (int32_t)from
                        : (int32_t)((uint32_t)from << (32 - length)) >> (32 - length);
}

/* prmt: each byte of the result is one of the eight bytes of a and b, or its sign. */
static inline uint32_t permute(uint32_t a, uint32_t b, uint32_t selector)
{
    const uint64_t bytes = (uint64_t)b << 32 | a;
    uint32_t result = 0;
    for (int k = 0; k < 4; k++) {
        const uint32_t s = selector >> 4 * k & 15, byte = bytes >> 8 * (s & 7) & 255;
        result |= (s & 8 ? (byte & 128 ? 255u : 0u) : byte) << 8 * k;
    }
    return result;
}

static inline uint32_t reverse(uint32_t a)
{
    uint32_t result = 0;
    for (int k = 0; k < 32; k++)
        result |= (a >> k & 1) << (31 - k);
    return result;
}

#define FLOATS(X)                                                                                  \
    X("add.f32", add_f32, PTX_FLOAT, f32, f32, f32, none, a + b)                                   \
    X("add.rn.f32", add_rn_f32, PTX_FLOAT, f32, f32, f32, none, a + b)                             \
    X("sub.f32", sub_f32, PTX_FLOAT, f32, f32, f32, none, a - b)                                   \
    X("sub.rn.f32", sub_rn_f32, PTX_FLOAT, f32, f32, f32, none, a - b)                             \
    X("mul.f32", mul_f32, PTX_FLOAT, f32, f32, f32, none, a *b)                                    \
    X("mul.rn.f32", mul_rn_f32, PTX_FLOAT, f32, f32, f32, none, a *b)                              \
    X("fma.rn.f32", fma_rn_f32, PTX_FLOAT, f32, f32, f32, f32, __builtin_fmaf(a, b, c))            \
    X("fma.rm.f32", fma_rm_f32, PTX_FLOAT, f32, f32, f32, f32, fma_directed(a, b, c, -1))          \
    X("fma.rp.f32", fma_rp_f32, PTX_FLOAT, f32, f32, f32, f32, fma_directed(a, b, c, 1))           \
    X("fma.rz.f32", fma_rz_f32, PTX_FLOAT, f32, f32, f32, f32, fma_directed(a, b, c, 0))           \
    X("min.f32", min_f32, PTX_FLOAT, f32, f32, f32, none, min_float(a, b))                         \
    X("max.f32", max_f32, PTX_FLOAT, f32, f32, f32, none, max_float(a, b))                         \
    X("min.NaN.f32", min_nan_f32, PTX_FLOAT, f32, f32, f32, none,                                  \
      a != a || b != b ? NAN : min_float(a, b))                                                    \
    X("max.NaN.f32", max_nan_f32, PTX_FLOAT, f32, f32, f32, none,                                  \
      a != a || b != b ? NAN : max_float(a, b))                                                    \
    X("neg.f32", neg_f32, PTX_FLOAT, f32, f32, none, none, -a)                                     \
    X("abs.f32", abs_f32, PTX_FLOAT, f32, f32, none, none, fabsf(a))                               \
    X("copysign.f32", copysign_f32, PTX_FLOAT, f32, f32, f32, none, copysignf(b, a))               \
    X("add.f64", add_f64, PTX_FLOAT, f64, f64, f64, none, a + b)                                   \
    X("sub.f64", sub_f64, PTX_FLOAT, f64, f64, f64, none, a - b)                                   \
    X("mul.f64", mul_f64, PTX_FLOAT, f64, f64, f64, none, a *b)                                    \
    X("fma.rn.f64", fma_rn_f64, PTX_FLOAT, f64, f64, f64, f64, fma(a, b, c))                       \
    X("neg.f64", neg_f64, PTX_FLOAT, f64, f64, none, none, -a)                                     \
    X("abs.f64", abs_f64, PTX_FLOAT, f64, f64, none, none, fabs(a))                                \
    X("div.rn.f64", div_rn_f64, PTX_SPECIAL, f64, f64, f64, none, a / b)                           \
    X("rcp.rn.f64", rcp_rn_f64, PTX_SPECIAL, f64, f64, none, none, 1 / a)                          \
    X("sqrt.rn.f64", sqrt_rn_f64, PTX_SPECIAL, f64, f64, none, none, sqrt(a))                      \
    X("div.rn.f32", div_rn_f32, PTX_SPECIAL, f32, f32, f32, none, a / b)                           \
    X("rcp.rn.f32", rcp_rn_f32, PTX_SPECIAL, f32, f32, none, none, 1 / a)                          \
    X("sqrt.rn.f32", sqrt_rn_f32, PTX_SPECIAL, f32, f32, none, none, sqrtf(a))

/* The approximate functions, rounded right: within the error that PTX allows. */
#define APPROXIMATIONS(X)                                                                          \
    X("div.full.f32", div_full_f32, PTX_SPECIAL, f32, f32, f32, none, a / b)                       \
    X("div.approx.f32", div_approx_f32, PTX_SPECIAL, f32, f32, f32, none, a / b)                   \
    X("rcp.approx.f32", rcp_approx_f32, PTX_SPECIAL, f32, f32, none, none, 1 / a)                  \
    X("rcp.approx.ftz.f32", rcp_approx_ftz_f32, PTX_SPECIAL, f32, f32, none, none,                 \
      flush(1 / flush(a)))                                                                         \
    X("sqrt.approx.f32", sqrt_approx_f32, PTX_SPECIAL, f32, f32, none, none, sqrtf(a))             \
    X("sqrt.approx.ftz.f32", sqrt_approx_ftz_f32, PTX_SPECIAL, f32, f32, none, none,               \
      sqrtf(flush(a)))                                                                             \
    X("rsqrt.approx.f32", rsqrt_approx_f32, PTX_SPECIAL, f32, f32, none, none,                     \
      (float)(1 / sqrt(a)))                                                                        \
    X("rsqrt.approx.ftz.f32", rsqrt_approx_ftz_f32, PTX_SPECIAL, f32, f32, none, none,             \
      (float)(1 / sqrt(flush(a))))                                                                 \
    X("ex2.approx.f32", ex2_approx_f32, PTX_SPECIAL, f32, f32, none, none, exp2f(a))               \
    X("ex2.approx.ftz.f32", ex2_approx_ftz_f32, PTX_SPECIAL, f32, f32, none, none,                 \
      flush(exp2f(flush(a))))                                                                      \
    X("lg2.approx.f32", lg2_approx_f32, PTX_SPECIAL, f32, f32, none, none, log2f(a))               \
    X("lg2.approx.ftz.f32", lg2_approx_ftz_f32, PTX_SPECIAL, f32, f32, none, none,                 \
      log2f(flush(a)))                                                                             \
    X("sin.approx.f32", sin_approx_f32, PTX_SPECIAL, f32, f32, none, none, sinf(a))                \
    X("cos.approx.f32", cos_approx_f32, PTX_SPECIAL, f32, f32, none, none, cosf(a))                \
    X("tanh.approx.f32", tanh_approx_f32, PTX_SPECIAL, f32, f32, none, none, tanhf(a))

#define MOVES(X)                                                                                   \
    X("mov.u16", mov_u16, PTX_INTEGER, u16, u16, none, none, a)                                    \
    X("mov.b16", mov_b16, PTX_INTEGER, u16, u16, none, none, a)                                    \
    X("mov.u32", mov_u32, PTX_INTEGER, u32, u32, none, none, a)                                    \
    X("mov.s32", mov_s32, PTX_INTEGER, u32, u32, none, none, a)                                    \
    X("mov.b32", mov_b32, PTX_INTEGER, u32, u32, none, none, a)                                    \
    X("mov.f32", mov_f32, PTX_INTEGER, u32, u32, none, none, a)                                    \
    X("mov.u64", mov_u64, PTX_INTEGER, u64, u64, none, none, a)                                    \
    X("mov.s64", mov_s64, PTX_INTEGER, u64, u64, none, none, a)                                    \
    X("mov.b64", mov_b64, PTX_INTEGER, u64, u64, none, none, a)                                    \
    X("mov.f64", mov_f64, PTX_INTEGER, u64, u64, none, none, a)                                    \
    X("cvta.global.u64", cvta_global, PTX_INTEGER, u64, u64, none, none, a)                        \
    X("cvta.to.global.u64", cvta_to_global, PTX_INTEGER, u64, u64, none, none, a)                  \
    X("cvta.shared.u64", cvta_shared, PTX_INTEGER, u64, u64, none, none, a)                        \
    X("cvta.to.shared.u64", cvta_to_shared, PTX_INTEGER, u64, u64, none, none, a)                  \
    X("cvta.local.u64", cvta_local, PTX_INTEGER, u64, u64, none, none, a)                          \
    X("cvta.to.local.u64", cvta_to_local, PTX_INTEGER, u64, u64, none, none, a)

/* Sums, differences and low products are the same bits for signed and unsigned numbers. */
#define WRAPPING(X, T, U, B)                                                                       \
    X("add." #T, add_##T, PTX_INTEGER, U, U, U, none, a + b)                                       \
    X("sub." #T, sub_##T, PTX_INTEGER, U, U, U, none, a - b)                                       \
    X("mul.lo." #T, mul_lo_##T, PTX_INTEGER, U, U, U, none, (B)a *(B)b)                            \
    X("mad.lo." #T, mad_lo_##T, PTX_INTEGER, U, U, U, U, (B)a *(B)b + (B)c)                        \
    X("min." #T, min_##T, PTX_INTEGER, T, T, T, none, a < b ? a : b)                               \
    X("max." #T, max_##T, PTX_INTEGER, T, T, T, none, a > b ? a : b)
#define BITS(X, T, U, W)                                                                           \
    X("and." #T, and_##T, PTX_INTEGER, U, U, U, none, a &b)                                        \
    X("or." #T, or_##T, PTX_INTEGER, U, U, U, none, a | b)                                         \
    X("xor." #T, xor_##T, PTX_INTEGER, U, U, U, none, a ^ b)                                       \
    X("not." #T, not_##T, PTX_INTEGER, U, U, none, none, ~a)                                       \
    X("shl." #T, shl_##T, PTX_INTEGER, U, U, u32, none, b >= W ? 0 : (uint64_t)a << b)
#define SHIFTS(X, T, S, W)                                                                         \
    X("shr.u" #W, shr_u##W, PTX_INTEGER, T, T, u32, none, b >= W ? 0 : (uint64_t)a >> b)           \
    X("shr.s" #W, shr_s##W, PTX_INTEGER, S, S, u32, none, (int64_t)a >> (b >= W ? W - 1 : b))      \
    X("neg.s" #W, neg_s##W, PTX_INTEGER, T, T, none, none, -(uint64_t)a)                           \
    X("abs.s" #W, abs_s##W, PTX_INTEGER, T, S, none, none, a < 0 ? -(uint64_t)a : (uint64_t)a)

#define INTEGERS(X)                                                                                \
    WRAPPING(X, u16, u16, uint32_t)                                                                \
    WRAPPING(X, s16, u16, uint32_t)                                                                \
    WRAPPING(X, u32, u32, uint32_t)                                                                \
    WRAPPING(X, s32, u32, uint32_t)                                                                \
    WRAPPING(X, u64, u64, uint64_t)                                                                \
    WRAPPING(X, s64, u64, uint64_t)                                                                \
    BITS(X, b16, u16, 16)                                                                          \
    BITS(X, b32, u32, 32)                                                                          \
    BITS(X, b64, u64, 64)                                                                          \
    SHIFTS(X, u16, s16, 16)                                                                        \
    SHIFTS(X, u32, s32, 32)                                                                        \
    SHIFTS(X, u64, s64, 64)                                                                        \
    X("mul.wide.u16", mul_wide_u16, PTX_INTEGER, u32, u16, u16, none, (uint32_t)a *b)              \
    X("mul.wide.s16", mul_wide_s16, PTX_INTEGER, u32, s16, s16, none, (int32_t)a *b)               \
    X("mul.wide.u32", mul_wide_u32, PTX_INTEGER, u64, u32, u32, none, (uint64_t)a *b)              \
    X("mul.wide.s32", mul_wide_s32, PTX_INTEGER, u64, s32, s32, none, (int64_t)a *b)               \
    X("mad.wide.u32", mad_wide_u32, PTX_INTEGER, u64, u32, u32, u64, (uint64_t)a *b + c)           \
    X("mad.wide.s32", mad_wide_s32, PTX_INTEGER, u64, s32, s32, u64,                               \
      (uint64_t)((int64_t)a * b) + c)                                                              \
    X("mul.hi.u32", mul_hi_u32, PTX_INTEGER, u32, u32, u32, none, (uint64_t)a *b >> 32)            \
    X("mul.hi.s32", mul_hi_s32, PTX_INTEGER, u32, s32, s32, none, (int64_t)a *b >> 32)             \
    X("mul.hi.u64", mul_hi_u64, PTX_INTEGER, u64, u64, u64, none, (unsigned __int128)a *b >> 64)   \
    X("mul.hi.s64", mul_hi_s64, PTX_INTEGER, u64, s64, s64, none, (__int128)a *b >> 64)            \
    X("div.u32", div_u32, PTX_SPECIAL, u32, u32, u32, none, b ? a / b : UINT32_MAX)                \
    X("div.s32", div_s32, PTX_SPECIAL, s32, s32, s32, none, divide_s32(a, b))                      \
    X("div.u64", div_u64, PTX_SPECIAL, u64, u64, u64, none, b ? a / b : UINT64_MAX)                \
    X("div.s64", div_s64, PTX_SPECIAL, s64, s64, s64, none, divide_s64(a, b))                      \
    X("rem.u32", rem_u32, PTX_SPECIAL, u32, u32, u32, none, b ? a % b : a)                         \
    X("rem.s32", rem_s32, PTX_SPECIAL, s32, s32, s32, none, remain_s32(a, b))                      \
    X("rem.u64", rem_u64, PTX_SPECIAL, u64, u64, u64, none, b ? a % b : a)                         \
    X("rem.s64", rem_s64, PTX_SPECIAL, s64, s64, s64, none, remain_s64(a, b))                      \
    X("bfe.u32", bfe_u32, PTX_INTEGER, u32, u32, u32, u32, extract(a, b, c))                       \
    X("bfe.s32", bfe_s32, PTX_INTEGER, s32, s32, u32, u32, extract_signed(a, b, c))                \
    X("prmt.b32", prmt_b32, PTX_INTEGER, u32, u32, u32, u32, permute(a, b, c))                     \
    X("popc.b32", popc_b32, PTX_INTEGER, u32, u32, none, none, __builtin_popcount(a))              \
    X("clz.b32", clz_b32, PTX_INTEGER, u32, u32, none, none, a ? __builtin_clz(a) : 32)            \
    X("brev.b32", brev_b32, PTX_INTEGER, u32, u32, none, none, reverse(a))                         \
    X("shf.l.wrap.b32", shf_l_wrap_b32, PTX_INTEGER, u32, u32, u32, u32,                           \
      ((uint64_t)b << 32 | a) << (c & 31) >> 32)                                                   \
    X("shf.r.wrap.b32", shf_r_wrap_b32, PTX_INTEGER, u32, u32, u32, u32,                           \
      ((uint64_t)b << 32 | a) >> (c & 31))

FLOATS(PTX_DEFINE_ALU)
APPROXIMATIONS(PTX_DEFINE_ALU)
MOVES(PTX_DEFINE_ALU)
INTEGERS(PTX_DEFINE_ALU)

const ptx_operation ptx_arithmetic[] = {FLOATS(PTX_ROW_ALU) APPROXIMATIONS(PTX_ROW_ALU)
                                            MOVES(PTX_ROW_ALU) INTEGERS(PTX_ROW_ALU){0}};

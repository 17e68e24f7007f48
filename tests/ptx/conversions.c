/* Conversions: cvt. */
#include "ptx/lanes.h"

#include <math.h>
#include <string.h>

#include "ptx/ptx.h"

/* ---- to integers: rounded, then kept within the range; NaN is 0 ------------------------------ */

#define CLAMP(T, low, beyond, first, last)                                                         \
    static inline T clamp_##T(double x)                                                            \
    {                                                                                              \
        return x != x ? 0 : x <= (low) ? (first) : x >= (beyond) ? (last) : (T)x;                  \
    }
CLAMP(s16, -32768.0, 32768.0, INT16_MIN, INT16_MAX)
CLAMP(u16, 0.0, 65536.0, 0, UINT16_MAX)
CLAMP(s32, -2147483648.0, 2147483648.0, INT32_MIN, INT32_MAX)
CLAMP(u32, 0.0, 4294967296.0, 0, UINT32_MAX)
CLAMP(s64, -9223372036854775808.0, 9223372036854775808.0, INT64_MIN, INT64_MAX)
CLAMP(u64, 0.0, 18446744073709551616.0, 0, UINT64_MAX)

/* ---- floats of 16 bits ----------------------------------------------------------------------- */

static inline uint16_t bf16_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return (uint16_t)(x != x ? 0x7fff : rounded);
}
static inline float bf16_value(uint16_t h)
{
    const uint32_t bits = (uint32_t)h << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint16_t f16_of(float x)
{
    const _Float16 h = (_Float16)x;
    uint16_t bits;
    memcpy(&bits, &h, sizeof bits);
    return x != x ? 0x7fff : bits;
}
static inline float f16_value(uint16_t bits)
{
    _Float16 h;
    memcpy(&h, &bits, sizeof h);
    return (float)h;
}

/* To the nearest number with 10 digits of fraction, ties away from zero. */
static inline uint32_t tf32_of(float x)
{
    int exponent;
    const double fraction = frexp(x, &exponent);
    const float rounded = (float)ldexp(round(ldexp(fraction, 11)), exponent - 11);
    uint32_t bits;
    memcpy(&bits, isfinite(x) ? &rounded : &x, sizeof bits);
    return bits;
}

/* Two floats in one register, the first in the upper half. */
static inline uint32_t pair(uint16_t upper, uint16_t lower)
{
    return (uint32_t)upper << 16 | lower;
}

static inline float saturate(float x)
{
    return x > 0 ? (x < 1 ? x : 1) : 0; /* NaN: 0 */
}

/* Numbers of 8 bits lie in registers of 16 or of 32. */
#define FROM_INTEGERS(X, D)                                                                        \
    X("cvt." #D ".u8", D##_u8, PTX_CONVERSION, D, u16, none, none, (uint8_t)a)                     \
    X("cvt." #D ".s8", D##_s8, PTX_CONVERSION, D, s16, none, none, (int8_t)a)                      \
    X("cvt." #D ".u16", D##_u16, PTX_CONVERSION, D, u16, none, none, a)                            \
    X("cvt." #D ".s16", D##_s16, PTX_CONVERSION, D, s16, none, none, a)                            \
    X("cvt." #D ".u32", D##_u32, PTX_CONVERSION, D, u32, none, none, a)                            \
    X("cvt." #D ".s32", D##_s32, PTX_CONVERSION, D, s32, none, none, a)                            \
    X("cvt." #D ".u64", D##_u64, PTX_CONVERSION, D, u64, none, none, a)                            \
    X("cvt." #D ".s64", D##_s64, PTX_CONVERSION, D, s64, none, none, a)
#define TO_FLOATS(X, D)                                                                            \
    X("cvt.rn." #D ".u8", rn_##D##_u8, PTX_CONVERSION, D, u16, none, none, (uint8_t)a)             \
    X("cvt.rn." #D ".s8", rn_##D##_s8, PTX_CONVERSION, D, s16, none, none, (int8_t)a)              \
    X("cvt.rn." #D ".u16", rn_##D##_u16, PTX_CONVERSION, D, u16, none, none, a)                    \
    X("cvt.rn." #D ".s16", rn_##D##_s16, PTX_CONVERSION, D, s16, none, none, a)                    \
    X("cvt.rn." #D ".u32", rn_##D##_u32, PTX_CONVERSION, D, u32, none, none, a)                    \
    X("cvt.rn." #D ".s32", rn_##D##_s32, PTX_CONVERSION, D, s32, none, none, a)                    \
    X("cvt.rn." #D ".u64", rn_##D##_u64, PTX_CONVERSION, D, u64, none, none, a)                    \
    X("cvt.rn." #D ".s64", rn_##D##_s64, PTX_CONVERSION, D, s64, none, none, a)
#define ROUNDED(X, D, A)                                                                           \
    X("cvt.rzi." #D "." #A, rzi_##D##_##A, PTX_CONVERSION, D, A, none, none, clamp_##D(trunc(a)))  \
    X("cvt.rni." #D "." #A, rni_##D##_##A, PTX_CONVERSION, D, A, none, none,                       \
      clamp_##D(nearbyint(a)))                                                                     \
    X("cvt.rmi." #D "." #A, rmi_##D##_##A, PTX_CONVERSION, D, A, none, none, clamp_##D(floor(a)))  \
    X("cvt.rpi." #D "." #A, rpi_##D##_##A, PTX_CONVERSION, D, A, none, none, clamp_##D(ceil(a)))
#define TO_INTEGERS(X, A)                                                                          \
    ROUNDED(X, u16, A)                                                                             \
    ROUNDED(X, s16, A)                                                                             \
    ROUNDED(X, u32, A)                                                                             \
    ROUNDED(X, s32, A)                                                                             \
    ROUNDED(X, u64, A)                                                                             \
    ROUNDED(X, s64, A)

#define CONVERSIONS(X)                                                                             \
    FROM_INTEGERS(X, u16)                                                                          \
    FROM_INTEGERS(X, s16)                                                                          \
    FROM_INTEGERS(X, u32)                                                                          \
    FROM_INTEGERS(X, s32)                                                                          \
    FROM_INTEGERS(X, u64)                                                                          \
    FROM_INTEGERS(X, s64)                                                                          \
    TO_FLOATS(X, f32)                                                                              \
    TO_FLOATS(X, f64)                                                                              \
    TO_INTEGERS(X, f32)                                                                            \
    TO_INTEGERS(X, f64)                                                                            \
    X("cvt.rni.f32.f32", rni_f32_f32, PTX_CONVERSION, f32, f32, none, none, nearbyintf(a))         \
    X("cvt.rzi.f32.f32", rzi_f32_f32, PTX_CONVERSION, f32, f32, none, none, truncf(a))             \
    X("cvt.rmi.f32.f32", rmi_f32_f32, PTX_CONVERSION, f32, f32, none, none, floorf(a))             \
    X("cvt.rpi.f32.f32", rpi_f32_f32, PTX_CONVERSION, f32, f32, none, none, ceilf(a))              \
    X("cvt.sat.f32.f32", sat_f32_f32, PTX_CONVERSION, f32, f32, none, none, saturate(a))           \
    X("cvt.f64.f32", f64_f32, PTX_CONVERSION, f64, f32, none, none, a)                             \
    X("cvt.rn.f32.f64", rn_f32_f64, PTX_CONVERSION, f32, f64, none, none, a)                       \
    X("cvt.rn.bf16.f32", rn_bf16_f32, PTX_CONVERSION, u16, f32, none, none, bf16_of(a))            \
    X("cvt.rn.f16.f32", rn_f16_f32, PTX_CONVERSION, u16, f32, none, none, f16_of(a))               \
    X("cvt.rna.tf32.f32", rna_tf32_f32, PTX_CONVERSION, u32, f32, none, none, tf32_of(a))          \
    X("cvt.f32.bf16", f32_bf16, PTX_CONVERSION, f32, u16, none, none, bf16_value(a))               \
    X("cvt.f32.f16", f32_f16, PTX_CONVERSION, f32, u16, none, none, f16_value(a))                  \
    X("cvt.rn.bf16x2.f32", rn_bf16x2_f32, PTX_CONVERSION, u32, f32, f32, none,                     \
      pair(bf16_of(a), bf16_of(b)))                                                                \
    X("cvt.rn.f16x2.f32", rn_f16x2_f32, PTX_CONVERSION, u32, f32, f32, none,                       \
      pair(f16_of(a), f16_of(b)))

CONVERSIONS(PTX_DEFINE_ALU)

const ptx_operation ptx_conversions[] = {CONVERSIONS(PTX_ROW_ALU){0}};

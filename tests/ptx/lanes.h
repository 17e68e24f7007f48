/* What one instruction does to the 32 lanes of a warp: a table of PTX's names and loops. An
 * instruction on registers is added by a line of one of the tables (arithmetic.c, comparisons.c,
 * conversions.c); others are read in decode.c and done in execute.c. */
#ifndef KAS_TESTS_PTX_LANES_H
#define KAS_TESTS_PTX_LANES_H

#include <stdbool.h>
#include <stdint.h>

/* Computes all 32 lanes of d; d may be a, b or c. */
typedef void ptx_lanes_fn(void *d, const void *a, const void *b, const void *c);

/* An instruction by its name in PTX, suffixes included. The sizes are bytes of a register, 0 where
 * there is no such operand. `sets`: d is a predicate, a word with a bit for each lane. */
typedef struct ptx_operation {
    const char *name;
    ptx_lanes_fn *fn;
    uint8_t class; /* ptx_class */
    bool sets;
    uint8_t d, a, b, c;
} ptx_operation;

/* The tables: their last name is NULL. */
extern const ptx_operation ptx_arithmetic[], ptx_comparisons[], ptx_conversions[];

const ptx_operation *ptx_operation_find(const char *name); /* NULL: none of that name */

/* ---- for the tables -------------------------------------------------------------------------- */

typedef uint8_t none; /* an operand that an instruction does not have */
typedef uint16_t __attribute__((may_alias)) u16;
typedef int16_t __attribute__((may_alias)) s16;
typedef uint32_t __attribute__((may_alias)) u32;
typedef int32_t __attribute__((may_alias)) s32;
typedef uint64_t __attribute__((may_alias)) u64;
typedef int64_t __attribute__((may_alias)) s64;
typedef float __attribute__((may_alias)) f32;
typedef double __attribute__((may_alias)) f64;
enum {
    bytes_none = 0,
    bytes_u16 = 2,
    bytes_s16 = 2,
    bytes_u32 = 4,
    bytes_s32 = 4,
    bytes_u64 = 8,
    bytes_s64 = 8,
    bytes_f32 = 4,
    bytes_f64 = 8
};

/* A function of a table for X(name, id, class, D, A, B, C, value): a, b and c are a lane's
 * operands. */
#define PTX_DEFINE_ALU(name, id, class, D, A, B, C, value)                                         \
    static void id(void *to, const void *from_a, const void *from_b, const void *from_c)           \
    {                                                                                              \
        _Pragma("GCC ivdep") for (int lane = 0; lane < 32; lane++)                                 \
        {                                                                                          \
            const A a = ((const A *)from_a)[lane];                                                 \
            const B b = ((const B *)from_b)[lane];                                                 \
            const C c = ((const C *)from_c)[lane];                                                 \
            (void)a, (void)b, (void)c;                                                             \
            ((D *)to)[lane] = (D)(value);                                                          \
        }                                                                                          \
    }
#define PTX_ROW_ALU(name, id, class, D, A, B, C, value)                                            \
    {name, id, class, false, bytes_##D, bytes_##A, bytes_##B, bytes_##C},
#define PTX_DEFINE_SET(name, id, class, A, value)                                                  \
    static void id(void *to, const void *from_a, const void *from_b, const void *from_c)           \
    {                                                                                              \
        uint32_t mask = 0;                                                                         \
        (void)from_c;                                                                              \
        for (int lane = 0; lane < 32; lane++) {                                                    \
            const A a = ((const A *)from_a)[lane], b = ((const A *)from_b)[lane];                  \
            mask |= (value) ? UINT32_C(1) << lane : 0;                                             \
        }                                                                                          \
        *(uint32_t *)to = mask;                                                                    \
    }
#define PTX_ROW_SET(name, id, class, A, value) {name, id, class, true, 4, bytes_##A, bytes_##A, 0},

#endif

/* Comparisons, and finding an instruction by its name. */
#include <stdlib.h>
#include <string.h>

#include "ptx/lanes.h"
#include "ptx/ptx.h"

#define INTEGER(X, T)                                                                              \
    X("setp.eq." #T, eq_##T, PTX_INTEGER, T, a == b)                                               \
    X("setp.ne." #T, ne_##T, PTX_INTEGER, T, a != b)                                               \
    X("setp.lt." #T, lt_##T, PTX_INTEGER, T, a < b)                                                \
    X("setp.le." #T, le_##T, PTX_INTEGER, T, a <= b)                                               \
    X("setp.gt." #T, gt_##T, PTX_INTEGER, T, a > b)                                                \
    X("setp.ge." #T, ge_##T, PTX_INTEGER, T, a >= b)
#define EQUAL(X, B, T)                                                                             \
    X("setp.eq." #B, eq_##B, PTX_INTEGER, T, a == b)                                               \
    X("setp.ne." #B, ne_##B, PTX_INTEGER, T, a != b)
/* Names that end in u are true where an operand is NaN; the others are false, ne too. */
#define FLOAT(X, T)                                                                                \
    X("setp.eq." #T, eq_##T, PTX_FLOAT, T, a == b)                                                 \
    X("setp.ne." #T, ne_##T, PTX_FLOAT, T, a<b || a> b)                                            \
    X("setp.lt." #T, lt_##T, PTX_FLOAT, T, a < b)                                                  \
    X("setp.le." #T, le_##T, PTX_FLOAT, T, a <= b)                                                 \
    X("setp.gt." #T, gt_##T, PTX_FLOAT, T, a > b)                                                  \
    X("setp.ge." #T, ge_##T, PTX_FLOAT, T, a >= b)                                                 \
    X("setp.equ." #T, equ_##T, PTX_FLOAT, T, !(a < b || a > b))                                    \
    X("setp.neu." #T, neu_##T, PTX_FLOAT, T, a != b)                                               \
    X("setp.ltu." #T, ltu_##T, PTX_FLOAT, T, !(a >= b))                                            \
    X("setp.leu." #T, leu_##T, PTX_FLOAT, T, !(a > b))                                             \
    X("setp.gtu." #T, gtu_##T, PTX_FLOAT, T, !(a <= b))                                            \
    X("setp.geu." #T, geu_##T, PTX_FLOAT, T, !(a < b))                                             \
    X("setp.num." #T, num_##T, PTX_FLOAT, T, a == a && b == b)                                     \
    X("setp.nan." #T, nan_##T, PTX_FLOAT, T, a != a || b != b)

#define COMPARISONS(X)                                                                             \
    INTEGER(X, u16)                                                                                \
    INTEGER(X, s16)                                                                                \
    INTEGER(X, u32)                                                                                \
    INTEGER(X, s32)                                                                                \
    INTEGER(X, u64)                                                                                \
    INTEGER(X, s64)                                                                                \
    EQUAL(X, b16, u16)                                                                             \
    EQUAL(X, b32, u32)                                                                             \
    EQUAL(X, b64, u64)                                                                             \
    FLOAT(X, f32)                                                                                  \
    FLOAT(X, f64)

COMPARISONS(PTX_DEFINE_SET)

const ptx_operation ptx_comparisons[] = {COMPARISONS(PTX_ROW_SET){0}};

const ptx_operation *ptx_operation_find(const char *name)
{
    static const ptx_operation *const tables[] = {ptx_arithmetic, ptx_comparisons, ptx_conversions};
    for (int t = 0; t < 3; t++)
        for (const ptx_operation *o = tables[t]; o->name; o++)
            if (strcmp(o->name, name) == 0)
                return o;
    return NULL;
}

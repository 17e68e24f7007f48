/* Products of matrices by a warp (mma.sync), as the PTX manual defines the fragments: each matrix is
 * gathered whole from its lanes' registers, multiplied, and spread again. */
#include <string.h>

#include "ptx/run.h"

enum { M = 16, N = 8, MAX_K = 16 };

/* The manual's names for a lane: its group, and its place in the group. */
static int group_of(int lane)
{
    return lane >> 2;
}
static int place_of(int lane)
{
    return lane & 3;
}

static uint32_t word_of(const ptx_warp *w, const ptx_instruction *i, int part, int lane)
{
    return ((const u32 *)ptx_at(w, i->part[part]))[lane];
}

static double from_float(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* A number of a or b; a register of 16-bit ones has two, the first in its low half. TF32 has a sign, 8
 * digits of the exponent and 10 of the fraction: the hardware does not look at the rest. */
static double number_of(ptx_mma dtype, uint32_t word, int half)
{
    const uint16_t bits = (uint16_t)(word >> 16 * half);
    _Float16 h;
    switch (dtype) {
    case PTX_MMA_TF32:
        return from_float(word & ~UINT32_C(0x1fff));
    case PTX_MMA_BF16:
        return from_float((uint32_t)bits << 16);
    default:
        memcpy(&h, &bits, sizeof h);
        return (double)h;
    }
}

/* Gathers a, of 16 rows and k columns, and b, of k rows and 8 columns. */
static void gather(const ptx_warp *w, const ptx_instruction *i, double a[M][MAX_K],
                   double b[MAX_K][N])
{
    const ptx_mma dtype = (ptx_mma)i->mode;
    for (int lane = 0; lane < PTX_LANES; lane++) {
        const int group = group_of(lane), place = place_of(lane);
        if (dtype == PTX_MMA_TF32) {
            for (int e = 0; e < 4; e++)
                a[group + (e & 1) * 8][place + (e >> 1) * 4] =
                    number_of(dtype, word_of(w, i, 4 + e, lane), 0);
            for (int e = 0; e < 2; e++)
                b[place + e * 4][group] = number_of(dtype, word_of(w, i, 8 + e, lane), 0);
            continue;
        }
        /* Elements 0, 1, 4 and 5 of a are of the upper rows, the first four of the first columns. */
        for (int e = 0; e < 8; e++)
            a[e < 2 || (e >= 4 && e < 6) ? group : group + 8][place * 2 + (e & 1) + (e >= 4) * 8] =
                number_of(dtype, word_of(w, i, 4 + e / 2, lane), e & 1);
        for (int e = 0; e < 4; e++)
            b[place * 2 + (e & 1) + (e >= 2) * 8][group] =
                number_of(dtype, word_of(w, i, 8 + e / 2, lane), e & 1);
    }
}

bool ptx_multiply(ptx_run_state *x, ptx_warp *w, const ptx_instruction *i, uint32_t mask)
{
    double a[M][MAX_K], b[MAX_K][N];
    const int k = i->mode == PTX_MMA_TF32 ? 8 : 16;
    uint32_t chain = 0;
    if (mask != (uint32_t)PTX_FULL)
        return ptx_run_fault(x, w, i, __builtin_ctz(mask),
                             "a product of matrices in which only lanes %#x take part", mask);
    gather(w, i, a, b);
    for (int part = 4; part < PTX_MMA_PARTS; part++) {
        const uint32_t of = *ptx_chain_at(w, i->part[part]);
        chain = of > chain ? of : chain;
    }
    for (int lane = 0; lane < PTX_LANES; lane++) {
        float d[4];
        for (int e = 0; e < 4; e++) {
            const int row = group_of(lane) + e / 2 * 8, column = place_of(lane) * 2 + e % 2;
            double sum = from_float(word_of(w, i, 10 + e, lane));
            for (int n = 0; n < k; n++)
                sum += a[row][n] * b[n][column];
            d[e] = (float)sum;
        }
        for (int e = 0; e < 4; e++) /* c of this lane has been read: it may be d */
            ((f32 *)ptx_at(w, i->part[e]))[lane] = d[e];
    }
    for (int e = 0; e < 4; e++)
        *ptx_chain_at(w, i->part[e]) = chain;
    ptx_use(w, chain);
    return true;
}

/* Tensor cores: a warp multiplies a matrix of 16 x 16 numbers by one of 16 x 8 and adds to 16 x 8
 * float32 sums, which lie in the registers of its 32 lanes.
 *
 * Numbers come in pairs that are neighbours along the summed dimension k, and lane t holds
 *
 *     rows      [h][i]  pairs 2 (t % 4) of k, in half h of k (8 each), at row t / 4 + 8 i
 *     columns   [h]     the same of k, at column t / 4
 *     sums      [2 i + j]  row t / 4 + 8 i, column 2 (t % 4) + j
 *
 * of 16-bit numbers by one instruction (mma.m16n8k16), of floats, rounded to TF32, by one for each
 * half of k (mma.m16n8k8; as its order of k may be any, lane t holds 2 (t % 4) and the number behind
 * it there too). From sm_80 on; the host launches no such kernel before. On the CPU the lanes are
 * elements of arrays, and the product is a loop over them. */
#ifndef KAS_CUDA_KERNELS_MMA_H
#define KAS_CUDA_KERNELS_MMA_H

#if KAS_DTYPE == 0
#define KAS_PAIR_WORDS 2
#else
#define KAS_PAIR_WORDS 1
#endif
typedef struct __attribute__((aligned(4 * KAS_PAIR_WORDS), may_alias)) kas_pair {
    kas_u32 word[KAS_PAIR_WORDS];
} kas_pair;

/* The most tiles of rows, of columns and of sums that a lane holds parts of. */
#define KAS_MMA_ROW_TILES 4
#define KAS_MMA_COLUMN_TILES 4
#define KAS_MMA_SUM_TILES 12
typedef struct kas_mma_rows {
    kas_pair at[KAS_MMA_ROW_TILES][2][2];
} kas_mma_rows;
typedef struct kas_mma_columns {
    kas_pair at[KAS_MMA_COLUMN_TILES][2];
} kas_mma_columns;
typedef struct kas_mma_sums {
    float at[KAS_MMA_SUM_TILES][4];
} kas_mma_sums;

/* Rounds the bits of a float to TF32's 10 digits, to the nearest, as tensor cores read it. */
KAS_FN kas_u32 kas_tf32(kas_u32 bits)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    kas_u32 rounded;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "r"(bits));
    return rounded;
#else
    const int finite = (bits & 0x7f800000u) != 0x7f800000u;
    return finite ? (bits + 0x1000u) & ~0x1fffu : bits;
#endif
}

/* Returns a pair that lies in memory, on a multiple of its size. */
KAS_FN kas_pair kas_pair_load(const kas_real *from)
{
    kas_pair pair = *(const kas_pair *)from;
#if KAS_DTYPE == 0
    pair.word[0] = kas_tf32(pair.word[0]);
    pair.word[1] = kas_tf32(pair.word[1]);
#endif
    return pair;
}
KAS_FN kas_pair kas_pair_zero(void)
{
    const kas_pair pair = {{0}};
    return pair;
}
/* Returns a pair of numbers that lie apart. */
KAS_FN kas_pair kas_pair_of(kas_real first, kas_real second)
{
#if KAS_DTYPE == 0
    kas_bits a, b;
    a.f = first;
    b.f = second;
    const kas_pair pair = {{kas_tf32(a.u), kas_tf32(b.u)}};
#else
    const kas_pair pair = {{first.bits | (kas_u32)second.bits << 16}};
#endif
    return pair;
}
/* Stores two sums side by side, each rounded to kas_real. */
KAS_FN void kas_pair_store(kas_real *to, float first, float second)
{
    kas_pair pair;
#if KAS_DTYPE == 0
    kas_bits a, b;
    a.f = first;
    b.f = second;
    pair.word[0] = a.u;
    pair.word[1] = b.u;
#else
    pair.word[0] = kas_real_of(first).bits | (kas_u32)kas_real_of(second).bits << 16;
#endif
    *(kas_pair *)to = pair;
}
/* Return the first numbers of two pairs as a pair, and the second ones. */
KAS_FN kas_pair kas_pair_firsts(kas_pair x, kas_pair y)
{
#if KAS_DTYPE == 0
    const kas_pair pair = {{x.word[0], y.word[0]}};
#else
    const kas_pair pair = {{(x.word[0] & 0xffffu) | y.word[0] << 16}};
#endif
    return pair;
}
KAS_FN kas_pair kas_pair_seconds(kas_pair x, kas_pair y)
{
#if KAS_DTYPE == 0
    const kas_pair pair = {{x.word[1], y.word[1]}};
#else
    const kas_pair pair = {{x.word[0] >> 16 | (y.word[0] & 0xffff0000u)}};
#endif
    return pair;
}

/* Adds the product of a tile of rows and one of columns to a tile of sums, for a whole warp: the
 * first lane's structs are passed. */
#ifdef __CUDACC__
KAS_FN void kas_mma(kas_mma_sums *sums, int sum, const kas_mma_rows *rows, int row,
                    const kas_mma_columns *columns, int column)
{
#if __CUDA_ARCH__ < 800
    (void)sums, (void)sum, (void)rows, (void)row, (void)columns, (void)column;
    __trap();
#else
    float *d = sums->at[sum];
    const kas_pair(*a)[2] = rows->at[row], *b = columns->at[column];
#if KAS_DTYPE == 0
    KAS_UNROLL
    for (int h = 0; h < 2; h++) {
        asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
            "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[h][0].word[0]), "r"(a[h][1].word[0]), "r"(a[h][0].word[1]),
              "r"(a[h][1].word[1]), "r"(b[h].word[0]), "r"(b[h].word[1]));
    }
#else
#if KAS_DTYPE == 1
#define KAS_MMA_TYPES_ "f32.bf16.bf16.f32"
#else
#define KAS_MMA_TYPES_ "f32.f16.f16.f32"
#endif
    asm("mma.sync.aligned.m16n8k16.row.col." KAS_MMA_TYPES_
        " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0][0].word[0]), "r"(a[0][1].word[0]), "r"(a[1][0].word[0]), "r"(a[1][1].word[0]),
          "r"(b[0].word[0]), "r"(b[1].word[0]));
#undef KAS_MMA_TYPES_
#endif
#endif
}
#else
KAS_FN float kas_pair_value(kas_pair pair, int i)
{
#if KAS_DTYPE == 0
    kas_bits bits;
    bits.u = pair.word[i];
    return bits.f;
#else
    const kas_real number = {(kas_u16)(pair.word[0] >> 16 * i)};
    return kas_value(number);
#endif
}
static __attribute__((unused)) void kas_mma(kas_mma_sums *sums, int sum, const kas_mma_rows *rows,
                                            int row, const kas_mma_columns *columns, int column)
{
    for (int m = 0; m < 16; m++)
        for (int n = 0; n < 8; n++) {
            float *to = &sums[m % 8 * 4 + n / 2].at[sum][m / 8 * 2 + n % 2];
            for (int k = 0; k < 16; k++) {
                const int t = k / 2 % 4, h = k / 8;
                *to += kas_pair_value(rows[m % 8 * 4 + t].at[row][h][m / 8], k % 2) *
                       kas_pair_value(columns[n * 4 + t].at[column][h], k % 2);
            }
        }
}
#endif

#endif

/* Rows: the third part of the prelude.
 *
 * A softmax or a norm over contiguous elements reads its row once. The row lies in the registers of
 * `threads` neighbouring threads (a power of two, at most a warp's 32), and what they reduce goes
 * round by shuffles, without shared memory or a barrier. Rows lie along KAS_ROWS:
 *
 *     KAS_ROWS (r, 0, 8) {
 *         KAS_ROW_VALUE(s0, 64, 16, KAS_WIDTH);        a value for each of the row's 64 lanes
 *         KAS_WIDE_ROW_LANES (i, 64, 16) {
 *             KAS_WIDE_LOAD(t0, p0, 64 * r + i);
 *             KAS_EACH(KAS_WIDE_ROW_OF(s0, i) = KAS_EACH_VALUE(t0);)
 *         }
 *         const float t1 = kas_row_max(s0, 64, 16, KAS_WIDTH);      the same for the whole row
 *         KAS_WIDE_ROW_LANES (i, 64, 16) { ... KAS_WIDE_ROW_OF(s0, i) - t1 ... }
 *         KAS_ROW_ONCE { p1[r] = t1; }
 *     }
 *
 * Where the reduced elements lie apart, lanes walk columns, and what a lane found at each turn of a
 * walk is kept for the next walk:
 *
 *     KAS_COLUMN_LOADED(s1, 14, 256, 1);            what was loaded, 14 turns of each of 256 lanes
 *     KAS_COLUMN_VALUE(s2, 14, 256, 1);             what was computed
 *     KAS_UNROLL_FEW(14)                            all turns: they are registers
 *     for (int v = 0; v < 14; v++) {
 *         KAS_THREADS (i, 256) {
 *             const float t0 = p0[256 * v + i];
 *             KAS_COLUMN_HOLD(s1, v, 256, i, t0);
 *             KAS_COLUMN_KEEP(s2, v, 256, i, kas_exp(t0));
 *         }
 *     }
 *     ... KAS_COLUMN_AGAIN(s1, v, p0[256 * v + i]) + KAS_COLUMN_OF(s2, v, 256, i) ...
 *
 * On the CPU both arrays would lie in memory, so what was loaded is loaded again there.
 *
 * The numbers of lanes, of threads and of lanes of a thread are constants. There is one order of
 * summation for each device: on a GPU a thread's lanes in their order, then pairs of threads; on
 * the CPU sixteen sums side by side, then pairs. */
#ifndef KAS_CUDA_KERNELS_ROW_H
#define KAS_CUDA_KERNELS_ROW_H

#ifdef __CUDACC__
/* The turns of a thread: how many groups of its lanes it takes to go along the row. */
#define KAS_ROW_TURNS_(count, threads, width)                                                      \
    (((count) + (threads) * (width)-1) / ((threads) * (width)))
#define KAS_ROW_LANES_(i, count, threads, width)                                                   \
    _Pragma("unroll") for (int kas_turn = 0; kas_turn < KAS_ROW_TURNS_(count, threads, width);     \
                           kas_turn++) for (int i = (kas_turn * (threads) + (int)threadIdx.x) *    \
                                                    (width);                                       \
                                            i < (count); i = 0x7fffffff)
#define KAS_ROW_LANES(i, count, threads) KAS_ROW_LANES_(i, count, threads, 1)
#define KAS_WIDE_ROW_LANES(i, count, threads) KAS_ROW_LANES_(i, count, threads, KAS_WIDTH)
#define KAS_ROW_VALUE(name, count, threads, width)                                                 \
    float name[KAS_ROW_TURNS_(count, threads, width) * (width)]
#define KAS_ROW_OF(name, i) name[kas_turn]
#define KAS_WIDE_ROW_OF(name, i) name[kas_turn * KAS_WIDTH + kas_k]
#define KAS_ROW_ONCE if (threadIdx.x == 0)

/* A value for each turn of each lane's walk along a column: loops over turns are unrolled whole. */
#define KAS_COLUMN_VALUE(name, turns, lanes, width) float name[(turns) * (width)]
#define KAS_COLUMN_OF(name, turn, lanes, i) name[turn]
#define KAS_WIDE_COLUMN_OF(name, turn, lanes, i) name[(turn)*KAS_WIDTH + kas_k]
#define KAS_COLUMN_LOADED(name, turns, lanes, width) KAS_COLUMN_VALUE(name, turns, lanes, width)
#define KAS_COLUMN_HOLD(name, turn, lanes, i, value) KAS_COLUMN_KEEP(name, turn, lanes, i, value)
#define KAS_WIDE_COLUMN_HOLD(name, turn, lanes, i, value)                                          \
    KAS_WIDE_COLUMN_KEEP(name, turn, lanes, i, value)
#define KAS_COLUMN_AGAIN(name, turn, load) KAS_COLUMN_OF(name, turn, , )
#define KAS_WIDE_COLUMN_AGAIN(name, turn, load) KAS_WIDE_COLUMN_OF(name, turn, , )

/* Returns the mask of the row's own threads. Only these take part in a shuffle, because others may
 * have no row left. */
KAS_FN kas_u32 kas_row_mask(int threads)
{
    const int lane = (int)(threadIdx.x + blockDim.x * threadIdx.y) & 31;
    return threads == 32 ? 0xffffffffu : ((1u << threads) - 1u) << (lane & ~(threads - 1));
}
#define KAS_ROW_REDUCE(name, first, combine)                                                       \
    KAS_FN float name(const float *value, const int count, const int threads, const int width)     \
    {                                                                                              \
        float all = first;                                                                         \
        _Pragma("unroll") for (int t = 0; t < KAS_ROW_TURNS_(count, threads, width); t++)          \
        {                                                                                          \
            if ((t * threads + (int)threadIdx.x) * width < count) {                                \
                _Pragma("unroll") for (int k = 0; k < width; k++)                                  \
                {                                                                                  \
                    all = combine(all, value[t * width + k]);                                      \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        _Pragma("unroll") for (int apart = threads / 2; apart > 0; apart /= 2)                     \
        {                                                                                          \
            all = combine(all, __shfl_xor_sync(kas_row_mask(threads), all, apart));                \
        }                                                                                          \
        return all;                                                                                \
    }
#else
#define KAS_ROW_LANES(i, count, threads) KAS_LANES (i, count)
#define KAS_WIDE_ROW_LANES(i, count, threads) KAS_WIDE_LANES (i, count)
#define KAS_ROW_VALUE(name, count, threads, width) KAS_LANE(float, name, count)
#define KAS_ROW_OF(name, i) name[i]
#define KAS_WIDE_ROW_OF(name, i) KAS_EACH_OF(name, i)
#define KAS_ROW_ONCE

#define KAS_COLUMN_VALUE(name, turns, lanes, width) KAS_LANE(float, name, (turns) * (lanes))
#define KAS_COLUMN_OF(name, turn, lanes, i) name[(turn) * (lanes) + (i)]
#define KAS_WIDE_COLUMN_OF(name, turn, lanes, i) name[(turn) * (lanes) + KAS_EACH_LANE(i)]
#define KAS_COLUMN_LOADED(name, turns, lanes, width) ((void)0)
#define KAS_COLUMN_HOLD(name, turn, lanes, i, value) ((void)0)
#define KAS_WIDE_COLUMN_HOLD(name, turn, lanes, i, value) ((void)0)
#define KAS_COLUMN_AGAIN(name, turn, load) (load)
#define KAS_WIDE_COLUMN_AGAIN(name, turn, load) (load)

/* Combines the last 16 values by halves: 8 apart, 4, 2 and 1. Compilers do not make vectors of the
 * halves by themselves. */
#if defined(__clang__) || __GNUC__ >= 12
#define KAS_ROW_VECTOR_(n)                                                                         \
    typedef float kas_row_floats_##n __attribute__((vector_size(4 * n)));                          \
    typedef int kas_row_ints_##n __attribute__((vector_size(4 * n)));                              \
    KAS_FN kas_row_floats_##n kas_row_sum_##n(kas_row_floats_##n x, kas_row_floats_##n y)          \
    {                                                                                              \
        return x + y;                                                                              \
    }                                                                                              \
    KAS_FN kas_row_floats_##n kas_row_max_##n(kas_row_floats_##n x, kas_row_floats_##n y)          \
    {                                                                                              \
        const kas_row_ints_##n first = (x > y) | (x != x); /* as kas_max */                        \
        return (kas_row_floats_##n)(((kas_row_ints_##n)x & first) |                                \
                                    ((kas_row_ints_##n)y & ~first));                               \
    }
KAS_ROW_VECTOR_(8)
KAS_ROW_VECTOR_(4)
#define KAS_ROW_HALVES_(name, combine)                                                             \
    KAS_FN float name##_halves(const float *part)                                                  \
    {                                                                                              \
        kas_row_floats_8 low, high;                                                                \
        __builtin_memcpy(&low, part, sizeof low);                                                  \
        __builtin_memcpy(&high, part + 8, sizeof high);                                            \
        low = name##_8(low, high);                                                                 \
        const kas_row_floats_4 all = name##_4(__builtin_shufflevector(low, low, 0, 1, 2, 3),       \
                                              __builtin_shufflevector(low, low, 4, 5, 6, 7));      \
        return combine(combine(all[0], all[2]), combine(all[1], all[3]));                          \
    }
#else
#define KAS_ROW_HALVES_(name, combine)                                                             \
    KAS_FN float name##_halves(float *part)                                                        \
    {                                                                                              \
        for (int apart = 8; apart > 0; apart /= 2)                                                 \
            for (int k = 0; k < apart; k++)                                                        \
                part[k] = combine(part[k], part[k + apart]);                                       \
        return part[0];                                                                            \
    }
#endif
#define KAS_ROW_REDUCE(name, first, combine)                                                       \
    KAS_ROW_HALVES_(name, combine)                                                                 \
    KAS_FN float name(const float *value, int count, int threads, int width)                       \
    {                                                                                              \
        float part[16];                                                                            \
        (void)threads;                                                                             \
        (void)width;                                                                               \
        for (int k = 0; k < 16; k++)                                                               \
            part[k] = k < count ? value[k] : first;                                                \
        int done = 16;                                                                             \
        for (; done + 16 <= count; done += 16)                                                     \
            for (int k = 0; k < 16; k++)                                                           \
                part[k] = combine(part[k], value[done + k]);                                       \
        for (; done < count; done++)                                                               \
            part[done % 16] = combine(part[done % 16], value[done]);                               \
        return name##_halves(part);                                                                \
    }
#endif

#define KAS_COLUMN_KEEP(name, turn, lanes, i, value) KAS_COLUMN_OF(name, turn, lanes, i) = (value)
#define KAS_WIDE_COLUMN_KEEP(name, turn, lanes, i, value)                                          \
    KAS_WIDE_COLUMN_OF(name, turn, lanes, i) = (value)

#define KAS_ROW_ADD_(x, y) ((x) + (y))
KAS_ROW_REDUCE(kas_row_sum, 0.0f, KAS_ROW_ADD_)
KAS_ROW_REDUCE(kas_row_max, -KAS_INFINITY, kas_max)

#endif

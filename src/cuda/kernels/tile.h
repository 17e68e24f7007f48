/* Tiles: the fourth part of the prelude.
 *
 * Lanes that read apart, but side by side from one turn of a loop to the next, are gathers on a
 * CPU. There a block of turns x lanes elements is read side by side and transposed first:
 *
 *     KAS_TILE(s0, 16, 64);
 *     KAS_TILE_FILL(s0, 16, 64, 64, p0, 32);        turn t of lane i is p0[32 * i + t]
 *     for (int v = 0; v < 16; v++) {
 *         KAS_THREADS (i, 64) {
 *             ... KAS_TILED(s0, 64 * v + i, p0[32 * i + v]) ...
 *         }
 *     }
 *
 * What lanes write apart, but side by side from one turn to the next, goes through a tile as well:
 *
 *     KAS_TILE(spill, 8, 64);                           room for a multiple of 8 turns
 *     for (int v = 0; v < 5; v++) {
 *         KAS_THREADS (i, 64) {
 *             KAS_TILE_PUT(spill, 64 * v + i, p1[5 * i + v], value);
 *         }
 *     }
 *     KAS_TILE_STORE(spill, 5, 64, 64, p1, 5);          p1[5 * i + t] is turn t of lane i
 *
 * Lanes that read a few neighbouring elements in an order of their own pick them from a vector, a
 * few lanes at a time:
 *
 *     KAS_TILE(pick0, 1, 8);
 *     KAS_PICK(pick0, 16, p0, 0, 4, 8, 12, 1, 5, 9, 13);        lane i is p0[4 * (i % 4) + i / 4]
 *     KAS_PICKED(pick0);                                        in front of the lanes
 *
 * KAS_PICK reads all of the 2, 4, 8, 16, 32 or 64 elements that it names. KAS_TILE_FILL_REAL and
 * KAS_PICK_REAL read kas_reals. Filling takes the lanes of the tile and how many of them there
 * are. On a GPU there are none of these, and each lane loads what KAS_TILED names last.
 *
 * Sums of which each term is a run of lanes times a number stay in registers: KAS_SUMS declares
 * `turns` sums of `lanes` lanes, in vectors of `width` (8 or 16), all 0; KAS_SUMS_LOAD a run, whose
 * lanes begin at KAS_FIRST_LANE; KAS_SUMS_ADD adds one times x to a turn's sum; KAS_SUMS_KEEP writes
 * all sums to a KAS_COLUMN_VALUE.
 *
 *     KAS_SUMS(q0, 8, 16, 16);
 *     for (int v = 0; v < 64; v++) {
 *         const int i = KAS_FIRST_LANE(0);
 *         KAS_SUMS_LOAD(r0, 16, 16, p1, 16 * v + i);
 *         KAS_UNROLL
 *         for (int t = 0; t < 8; t++) {
 *             KAS_SUMS_ADD(q0, t, 16, 16, r0, p0[64 * t + v]);
 *         }
 *     }
 *     KAS_SUMS_KEEP(s0, q0, 8, 16, 16);
 *
 * A GPU has boxes instead: arrays of the block that all of its threads fill, neighbours in memory
 * by neighbouring threads, between barriers.
 *
 *     KAS_SHARED(float, box0, 17 * 64);
 *     KAS_FILL (r0, v, 64, 16, 256) {                  64 rows of 16 elements, by 256 threads
 *         box0[v + 17 * r0] = p0[32 * r0 + v];
 *     }
 *     KAS_BARRIER();
 *
 * KAS_COPY(to, from) copies a float to such an array while the thread goes on; KAS_COPIED waits for
 * all copies of the thread. */
#ifndef KAS_CUDA_KERNELS_TILE_H
#define KAS_CUDA_KERNELS_TILE_H

#ifdef __CUDACC__
#define KAS_TILE(name, turns, lanes) ((void)0)
#define KAS_TILE_FILL(name, turns, lanes, count, from, stride) ((void)0)
#define KAS_TILE_FILL_REAL(name, turns, lanes, count, from, stride) ((void)0)
#define KAS_TILE_PUT(name, at, place, value) ((place) = (value))
#define KAS_TILE_PUT_REAL(name, at, place, value) ((place) = kas_real_of(value))
#define KAS_TILE_STORE(name, turns, lanes, count, to, stride) ((void)0)
#define KAS_TILE_STORE_REAL(name, turns, lanes, count, to, stride) ((void)0)
#define KAS_PICK(to, window, from, ...) /* blocks on a CPU, so no semicolon follows */
#define KAS_PICK_REAL(to, window, from, ...)
#define KAS_PICKED(name) ((void)0)
#define KAS_TILED(name, at, load) (load)
#define KAS_THREAD_ ((int)(threadIdx.x + blockDim.x * threadIdx.y))
#define KAS_SIDE_(cols, threads) ((cols) < (threads) ? (cols) : (threads))
#define KAS_FILL_(r, c, rows, cols, side, sides)                                                   \
    for (int r = KAS_THREAD_ / (side); r < (rows) && KAS_THREAD_ < (side) * (sides); r += (sides)) \
        for (int c = KAS_THREAD_ % (side); c < (cols); c += (side))
#define KAS_FILL(r, c, rows, cols, threads)                                                        \
    KAS_FILL_(r, c, rows, cols, KAS_SIDE_(cols, threads), (threads) / KAS_SIDE_(cols, threads))
#if __CUDA_ARCH__ >= 800
#define KAS_COPY(to, from)                                                                         \
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"l"(__cvta_generic_to_shared(to)),   \
                 "l"(__cvta_generic_to_global(from))                                               \
                 : "memory")
#define KAS_COPIED() asm volatile("cp.async.wait_all;" ::: "memory")
#else
#define KAS_COPY(to, from) (*(to) = *(from))
#define KAS_COPIED() ((void)0)
#endif
#define kas_inside(inside, x) ((inside) ? (x) : 0.0f)
#define KAS_FIRST_LANE(first) ((first) + (int)threadIdx.x)
#define KAS_SUMS(name, turns, lanes, width) float name[turns] = {0}
#define KAS_SUMS_LOAD(name, lanes, width, p, at) const float name = (p)[at]
#define KAS_SUMS_LOAD_REAL(name, lanes, width, p, at) const float name = kas_value((p)[at])
#define KAS_SUMS_ADD(name, turn, lanes, width, run, x) name[turn] += (run) * (x)
#define KAS_SUMS_KEEP(to, name, turns, lanes, width)                                               \
    KAS_UNROLL for (int kas_k = 0; kas_k < (turns); kas_k++)(to)[kas_k] = name[kas_k]
#else
#define KAS_FIRST_LANE(first) (first)
#define KAS_COPY(to, from) (*(to) = *(from))
#define KAS_COPIED() ((void)0)
/* x where a tap of a window lies inside the image, else 0. Without a choice between values: clang
 * moves a load behind such a choice, and then gathers it lane by lane. */
KAS_FN float kas_inside(int inside, float x)
{
    kas_bits bits;
    bits.f = x;
    bits.u &= inside ? 0xffffffffu : 0u;
    return bits.f;
}
#define KAS_TILE(name, turns, lanes) __attribute__((aligned(64))) float name[(turns) * (lanes)]
#define KAS_TILE_FILL(name, turns, lanes, count, from, stride)                                     \
    kas_tile_fill_0(name, from, stride, turns, lanes, count)
#define KAS_TILE_FILL_REAL(name, turns, lanes, count, from, stride)                                \
    KAS_PASTE(kas_tile_fill_, KAS_DTYPE)(name, from, stride, turns, lanes, count)
#define KAS_TILED(name, at, load) name[at]
#define KAS_TILE_PUT(name, at, place, value) (name[at] = (value))
#define KAS_TILE_PUT_REAL(name, at, place, value) (name[at] = (value))
#define KAS_TILE_STORE(name, turns, lanes, count, to, stride)                                      \
    kas_tile_store(name, to, stride, turns, lanes, count)
#define KAS_TILE_STORE_REAL(name, turns, lanes, count, to, stride)                                 \
    KAS_PASTE(kas_tile_store_, KAS_DTYPE)(name, to, stride, turns, lanes, count)
#define KAS_FILL(r, c, rows, cols, threads) KAS_RANGE_(r, 0, rows) KAS_LANES (c, cols)
/* Without it clang carries the first lanes' elements past the memory into the loop over the lanes,
 * which then does not vectorise. */
#define KAS_PICKED(name) __asm__ volatile("" : : "r"(name) : "memory")

#define KAS_FLOATS_(n)                                                                             \
    typedef float kas_floats_##n __attribute__((vector_size(4 * n)));                              \
    typedef float kas_floats_at_##n __attribute__((vector_size(4 * n), aligned(4), may_alias));
KAS_FLOATS_(2)
KAS_FLOATS_(4)
KAS_FLOATS_(8)
KAS_FLOATS_(16)
KAS_FLOATS_(32)
KAS_FLOATS_(64)
#define KAS_SUMS(name, turns, lanes, width)                                                        \
    KAS_PASTE(kas_floats_, width) name[(turns) * ((lanes) / (width))] = {{0}}
#define KAS_SUMS_LOAD(name, lanes, width, p, at)                                                   \
    const KAS_PASTE(kas_floats_at_, width) *name =                                                 \
        (const KAS_PASTE(kas_floats_at_, width) *)((p) + (at))
#define KAS_SUMS_LOAD_REAL(name, lanes, width, p, at)                                              \
    KAS_PASTE(kas_floats_, width) name[(lanes) / (width)];                                         \
    KAS_LANES (kas_k, lanes)                                                                       \
    ((float *)name)[kas_k] = kas_value((p)[(at) + kas_k])
#define KAS_SUMS_ADD(name, turn, lanes, width, run, x)                                             \
    {                                                                                              \
        const float kas_x = (x);                                                                   \
        KAS_UNROLL                                                                                 \
        for (int kas_k = 0; kas_k < (lanes) / (width); kas_k++)                                    \
            name[(turn) * ((lanes) / (width)) + kas_k] += run[kas_k] * kas_x;                      \
    }
#define KAS_SUMS_KEEP(to, name, turns, lanes, width)                                               \
    KAS_UNROLL                                                                                     \
    for (int kas_k = 0; kas_k < (turns) * ((lanes) / (width)); kas_k++)                            \
    ((KAS_PASTE(kas_floats_at_, width) *)(to))[kas_k] = name[kas_k]
#if defined(__clang__) || __GNUC__ >= 12
#define KAS_PICK(to, window, from, ...)                                                            \
    {                                                                                              \
        const KAS_PASTE(kas_floats_, window) kas_all =                                             \
            *(const KAS_PASTE(kas_floats_at_, window) *)(from);                                    \
        const __typeof__(__builtin_shufflevector(kas_all, kas_all, __VA_ARGS__)) kas_picked =      \
            __builtin_shufflevector(kas_all, kas_all, __VA_ARGS__);                                \
        __builtin_memcpy(to, &kas_picked, sizeof kas_picked);                                      \
    }
#define KAS_INTERLEAVE_(low, high, a, b)                                                           \
    const kas_floats_8 low = __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13);              \
    const kas_floats_8 high = __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15)
#define KAS_PAIR_(low, high, a, b)                                                                 \
    const kas_floats_8 low = __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13);              \
    const kas_floats_8 high = __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15)
#define KAS_HALVES_(k, a, b)                                                                       \
    *(kas_floats_at_8 *)(to + (k)*to_stride) =                                                     \
        __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11);                                   \
    *(kas_floats_at_8 *)(to + ((k) + 4) * to_stride) =                                             \
        __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15)
/* Transposes 8 x 8 elements. */
KAS_FN void kas_transpose_8(float *KAS_RESTRICT to, kas_i64 to_stride,
                            const float *KAS_RESTRICT from, kas_i64 stride)
{
#define KAS_LINE_(k) *(const kas_floats_at_8 *)(from + (k)*stride)
    const kas_floats_8 a0 = KAS_LINE_(0), a1 = KAS_LINE_(1), a2 = KAS_LINE_(2), a3 = KAS_LINE_(3);
    const kas_floats_8 a4 = KAS_LINE_(4), a5 = KAS_LINE_(5), a6 = KAS_LINE_(6), a7 = KAS_LINE_(7);
    KAS_INTERLEAVE_(b0, b1, a0, a1);
    KAS_INTERLEAVE_(b2, b3, a2, a3);
    KAS_INTERLEAVE_(b4, b5, a4, a5);
    KAS_INTERLEAVE_(b6, b7, a6, a7);
    KAS_PAIR_(c0, c1, b0, b2);
    KAS_PAIR_(c2, c3, b1, b3);
    KAS_PAIR_(c4, c5, b4, b6);
    KAS_PAIR_(c6, c7, b5, b7);
    KAS_HALVES_(0, c0, c4);
    KAS_HALVES_(1, c1, c5);
    KAS_HALVES_(2, c2, c6);
    KAS_HALVES_(3, c3, c7);
#undef KAS_LINE_
}
#else
#define KAS_PICK(to, window, from, ...)                                                            \
    {                                                                                              \
        static const kas_u8 kas_place[] = {__VA_ARGS__};                                           \
        for (int kas_k = 0; kas_k < (int)sizeof kas_place; kas_k++)                                \
            (to)[kas_k] = (from)[kas_place[kas_k]];                                                \
    }
KAS_FN void kas_transpose_8(float *KAS_RESTRICT to, kas_i64 to_stride,
                            const float *KAS_RESTRICT from, kas_i64 stride)
{
    for (int t = 0; t < 8; t++)
        for (int i = 0; i < 8; i++)
            to[t * to_stride + i] = from[i * stride + t];
}
#endif

#define KAS_PICK_REAL(to, window, from, ...)                                                       \
    {                                                                                              \
        float kas_line[window];                                                                    \
        for (int kas_k = 0; kas_k < (window); kas_k++)                                             \
            kas_line[kas_k] = kas_value((from)[kas_k]);                                            \
        KAS_PICK(to, window, kas_line, __VA_ARGS__)                                                \
    }

/* Keeps clang from making many loops of one: vectors of the transposition are written out above, and
 * vectors of its ends would take most of the compiler's time for a text with a tile. */
#ifdef __clang__
#define KAS_AS_IT_IS _Pragma("clang loop vectorize(disable) unroll(disable)")
#else
#define KAS_AS_IT_IS
#endif
/* A function of its own, so that a kernel with many tiles stays small. */
static __attribute__((noinline, unused)) void kas_tile_fill_0(float *KAS_RESTRICT to,
                                                              const float *KAS_RESTRICT from,
                                                              kas_i64 stride, int turns, int lanes,
                                                              int count)
{
    const int whole = turns / 8 * 8;
    int i = 0;
    for (; i + 8 <= count; i += 8) {
        const float *at = from + i * stride;
        KAS_AS_IT_IS
        for (int t = 0; t < whole; t += 8)
            kas_transpose_8(to + t * lanes + i, lanes, at + t, stride);
        KAS_AS_IT_IS
        for (int t = whole; t < turns; t++)
            for (int k = 0; k < 8; k++)
                to[t * lanes + i + k] = at[k * stride + t];
    }
    KAS_AS_IT_IS
    for (; i < count; i++) {
        KAS_AS_IT_IS
        for (int t = 0; t < turns; t++)
            to[t * lanes + i] = from[i * stride + t];
    }
}

/* `turns` is a constant, so that the copies of the last ones are a few instructions. */
KAS_FN void kas_tile_store(const float *KAS_RESTRICT from, float *KAS_RESTRICT to, kas_i64 stride,
                           const int turns, int lanes, int count)
{
    const int whole = turns / 8 * 8, rest = turns - whole;
    float line[64];
    int i = 0;
    KAS_AS_IT_IS
    for (; i + 8 <= count; i += 8) {
        KAS_AS_IT_IS
        for (int t = 0; t < whole; t += 8)
            kas_transpose_8(to + i * stride + t, stride, from + t * lanes + i, lanes);
        if (rest) {
            kas_transpose_8(line, 8, from + whole * lanes + i, lanes);
            for (int k = 0; k < 8; k++)
                __builtin_memcpy(to + (i + k) * stride + whole, line + 8 * k,
                                 sizeof *to * (unsigned)rest);
        }
    }
    KAS_AS_IT_IS
    for (; i < count; i++) {
        KAS_AS_IT_IS
        for (int t = 0; t < turns; t++)
            to[i * stride + t] = from[t * lanes + i];
    }
}
#define kas_tile_store_0 kas_tile_store
#define KAS_TILE_STORE_HALVES_(n, half, of)                                                        \
    static __attribute__((noinline, unused)) void kas_tile_store_##n(                              \
        const float *KAS_RESTRICT from, half *KAS_RESTRICT to, kas_i64 stride, int turns,          \
        int lanes, int count)                                                                      \
    {                                                                                              \
        float line[KAS_TILE_TURNS];                                                                \
        for (int i = 0; i < count; i++) {                                                          \
            for (int t = 0; t < turns; t++)                                                        \
                line[t] = from[t * lanes + i];                                                     \
            for (int t = 0; t < turns; t++)                                                        \
                to[i * stride + t] = of(line[t]);                                                  \
        }                                                                                          \
    }

/* Elements of 16 bits become floats eight lanes at a time. */
#define KAS_TILE_HALVES_(n, half, value)                                                           \
    static __attribute__((noinline, unused)) void kas_tile_fill_##n(                               \
        float *KAS_RESTRICT to, const half *KAS_RESTRICT from, kas_i64 stride, int turns,          \
        int lanes, int count)                                                                      \
    {                                                                                              \
        float line[8 * KAS_TILE_TURNS];                                                            \
        for (int i = 0; i < count; i += 8) {                                                       \
            const int some = kas_imin(8, count - i);                                               \
            for (int k = 0; k < some; k++)                                                         \
                for (int t = 0; t < turns; t++)                                                    \
                    line[k * turns + t] = value(from[(i + k) * stride + t]);                       \
            kas_tile_fill_0(to + i, line, turns, turns, lanes, some);                              \
        }                                                                                          \
    }
#define KAS_TILE_TURNS 64 /* most of a tile */
KAS_TILE_HALVES_(1, kas_bf16, kas_bf16_value)
KAS_TILE_HALVES_(2, kas_f16, kas_f16_value)
KAS_TILE_STORE_HALVES_(1, kas_bf16, kas_bf16_of)
KAS_TILE_STORE_HALVES_(2, kas_f16, kas_f16_of)
#endif

#endif

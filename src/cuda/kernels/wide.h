/* Wide lanes: the second part of the prelude.
 *
 * A GPU reaches memory speed with 16-byte accesses. In a *wide* kernel a thread has KAS_WIDTH
 * neighbouring lanes (4 floats or 8 elements of 16 bits take 16 bytes), and i is the first of them:
 *
 *     KAS_WIDE_LANES (i, 512) {
 *         KAS_WIDE_LOAD(t0, p0, i);                          p0 + i on a multiple of 16 bytes
 *         KAS_WIDE_VALUE(t1, p1[KAS_EACH_LANE(i) * 3]);      a value for each lane
 *         KAS_EACH(KAS_EACH_VALUE(t1) += s * KAS_EACH_VALUE(t0);)
 *         KAS_WIDE_STORE(p2, i, t1);
 *     }
 *
 * Names that end in _REAL load and store a kas_real instead of a float.
 *
 * KAS_PART_... are for rows whose length is an argument of the kernel. The last group may be cut
 * off, and the accesses are wide only where the caller says that the row is `whole` (a multiple of
 * KAS_WIDTH, every group on a multiple of 16 bytes). Lanes that are cut off load 0 and store
 * nothing. KAS_PART_COPY(y, x, i, count, whole) copies the elements' bits.
 *
 * Sums over rows keep several rows under way: KAS_WIDE_ROWS(x, 4) declares the values x[0] .. x[3],
 * KAS_PART_READ_REAL loads one of them, and KAS_EACH_VALUE(x[1]) is a lane's value. KAS_KEPT
 * declares values that are the same for all rows: registers of the thread, on the CPU the array
 * itself. KAS_WHOLE(whole) chooses the way of such rows; where a thread has one lane every row
 * counts as whole.
 *
 * What every lane needs in turn, such as the channels over which a sum goes, is read KAS_RUN at a
 * time: KAS_PART_LOAD... outside the lanes, and KAS_RUN_VALUE(x, j) is the j-th.
 *
 * KAS_WATCH(found) in front of lanes, KAS_WATCH_VALUE(found, name) in them and KAS_WATCH_END(found,
 * word) behind them set *word to 1 where a lane's value is not finite (word NULL: nobody asks).
 * This costs no access to memory while all are finite.
 *
 * On the CPU a thread has one lane, and the loop over the lanes vectorises; in the orders 1 and 2
 * the groups are kept, so that tests run what a GPU runs. */
#ifndef KAS_CUDA_KERNELS_WIDE_H
#define KAS_CUDA_KERNELS_WIDE_H

#define KAS_WIDTH_0 4
#define KAS_WIDTH_1 8
#define KAS_WIDTH_2 8
#define KAS_WIDTH KAS_PASTE(KAS_WIDTH_, KAS_DTYPE)

#if defined(__CUDACC__) || KAS_ORDER != 0
#define KAS_WHOLE(whole) (whole)
#define KAS_LANE_(k, ...)                                                                          \
    {                                                                                              \
        enum { kas_k = k };                                                                        \
        __VA_ARGS__                                                                                \
    }
#define KAS_EACH_0(...)                                                                            \
    KAS_LANE_(0, __VA_ARGS__)                                                                      \
    KAS_LANE_(1, __VA_ARGS__) KAS_LANE_(2, __VA_ARGS__) KAS_LANE_(3, __VA_ARGS__)
#define KAS_EACH_1(...)                                                                            \
    KAS_EACH_0(__VA_ARGS__)                                                                        \
    KAS_LANE_(4, __VA_ARGS__)                                                                      \
    KAS_LANE_(5, __VA_ARGS__) KAS_LANE_(6, __VA_ARGS__) KAS_LANE_(7, __VA_ARGS__)
#define KAS_EACH_2(...) KAS_EACH_1(__VA_ARGS__)
#define KAS_EACH(...) KAS_PASTE(KAS_EACH_, KAS_DTYPE)(__VA_ARGS__)
#define KAS_EACH_LANE(i) ((i) + kas_k)
#define KAS_EACH_VALUE(name) name[kas_k]
#define KAS_WIDE_VALUE(name, ...)                                                                  \
    float name[KAS_WIDTH];                                                                         \
    KAS_EACH(name[kas_k] = (__VA_ARGS__);)
#define KAS_WIDE_ROWS(name, rows) float name[rows][KAS_WIDTH]
#define KAS_RUN KAS_WIDTH
#define KAS_RUN_VALUE(name, j) name[j]
#define KAS_WIDE_LOAD(name, from, at)                                                              \
    float name[KAS_WIDTH];                                                                         \
    kas_wide_load_0(name, (from) + (at), KAS_WIDTH)
#define KAS_WIDE_LOAD_REAL(name, from, at)                                                         \
    float name[KAS_WIDTH];                                                                         \
    KAS_PASTE(kas_wide_load_, KAS_DTYPE)(name, (from) + (at), KAS_WIDTH)
#define KAS_WIDE_STORE(to, at, name) kas_wide_store_0((to) + (at), name, KAS_WIDTH)
#define KAS_WIDE_STORE_REAL(to, at, name)                                                          \
    KAS_PASTE(kas_wide_store_, KAS_DTYPE)((to) + (at), name, KAS_WIDTH)

#define KAS_PART_READ_(name, value, from, at, count, whole, load)                                  \
    if (KAS_WHOLE(whole)) {                                                                        \
        load(name, (from) + (at));                                                                 \
    } else {                                                                                       \
        KAS_EACH(name[kas_k] = (at) + kas_k < (count) ? value((from)[(at) + kas_k]) : 0.0f;)       \
    }
#define KAS_PART_STORE_(to, at, name, of, count, whole, store)                                     \
    if (KAS_WHOLE(whole)) {                                                                        \
        store((to) + (at), name);                                                                  \
    } else {                                                                                       \
        KAS_EACH(if ((at) + kas_k < (count))(to)[(at) + kas_k] = of(name[kas_k]);)                 \
    }
#define KAS_PART_COPY(to, from, at, count, whole)                                                  \
    if (KAS_WHOLE(whole)) {                                                                        \
        kas_wide_copy((to) + (at), (from) + (at));                                                 \
    } else {                                                                                       \
        KAS_EACH(if ((at) + kas_k < (count))(to)[(at) + kas_k] = (from)[(at) + kas_k];)            \
    }
#define KAS_PART_FLOAT_(name, from) kas_wide_load_0(name, from, KAS_WIDTH)
#define KAS_PART_REAL_(name, from) KAS_PASTE(kas_wide_load_, KAS_DTYPE)(name, from, KAS_WIDTH)
#define KAS_PART_STORE_FLOAT_(to, name) kas_wide_store_0(to, name, KAS_WIDTH)
#define KAS_PART_STORE_REAL_(to, name) KAS_PASTE(kas_wide_store_, KAS_DTYPE)(to, name, KAS_WIDTH)
#define KAS_PART_READ(name, from, at, count, whole)                                                \
    KAS_PART_READ_(name, kas_value_0, from, at, count, whole, KAS_PART_FLOAT_)
#define KAS_PART_READ_REAL(name, from, at, count, whole)                                           \
    KAS_PART_READ_(name, kas_value, from, at, count, whole, KAS_PART_REAL_)
#define KAS_PART_LOAD(name, from, at, count, whole)                                                \
    float name[KAS_WIDTH];                                                                         \
    KAS_PART_READ(name, from, at, count, whole)
#define KAS_PART_LOAD_REAL(name, from, at, count, whole)                                           \
    float name[KAS_WIDTH];                                                                         \
    KAS_PART_READ_REAL(name, from, at, count, whole)
#define KAS_PART_STORE(to, at, name, count, whole)                                                 \
    KAS_PART_STORE_(to, at, name, kas_real_of_0, count, whole, KAS_PART_STORE_FLOAT_)
#define KAS_PART_STORE_REAL(to, at, name, count, whole)                                            \
    KAS_PART_STORE_(to, at, name, kas_real_of, count, whole, KAS_PART_STORE_REAL_)

typedef struct __attribute__((aligned(16), may_alias)) kas_float4 {
    float x, y, z, w;
} kas_float4;

KAS_FN void kas_wide_check(const void *at)
{
#ifndef __CUDACC__
    if ((kas_u64)at % sizeof(kas_float4)) /* a GPU ends the launch with an error */
        __builtin_trap();
#else
    (void)at;
#endif
}
KAS_FN void kas_wide_load_0(float *to, const float *from, int count)
{
    kas_wide_check(from);
    KAS_UNROLL
    for (int i = 0; i < count; i += 4) {
        const kas_float4 v = *(const kas_float4 *)(from + i);
        to[i] = v.x;
        to[i + 1] = v.y;
        to[i + 2] = v.z;
        to[i + 3] = v.w;
    }
}
KAS_FN void kas_wide_store_0(float *to, const float *from, int count)
{
    kas_wide_check(to);
    KAS_UNROLL
    for (int i = 0; i < count; i += 4) {
        kas_float4 v;
        v.x = from[i];
        v.y = from[i + 1];
        v.z = from[i + 2];
        v.w = from[i + 3];
        *(kas_float4 *)(to + i) = v;
    }
}

/* Eight elements of 16 bits, two in a word, the first in its low half. */
typedef struct __attribute__((aligned(16), may_alias)) kas_words {
    kas_u32 word[4];
} kas_words;
#define KAS_WIDE_HALVES(n, half, value, of)                                                        \
    KAS_FN void kas_wide_load_##n(float *to, const half *from, int count)                          \
    {                                                                                              \
        kas_wide_check(from);                                                                      \
        const kas_words v = *(const kas_words *)from;                                              \
        KAS_UNROLL                                                                                 \
        for (int i = 0; i < count; i += 2) {                                                       \
            const half low = {(kas_u16)v.word[i / 2]}, high = {(kas_u16)(v.word[i / 2] >> 16)};    \
            to[i] = value(low);                                                                    \
            to[i + 1] = value(high);                                                               \
        }                                                                                          \
    }                                                                                              \
    KAS_FN void kas_wide_store_##n(half *to, const float *from, int count)                         \
    {                                                                                              \
        kas_wide_check(to);                                                                        \
        kas_words v;                                                                               \
        KAS_UNROLL                                                                                 \
        for (int i = 0; i < count; i += 2) {                                                       \
            const half low = of(from[i]), high = of(from[i + 1]);                                  \
            v.word[i / 2] = low.bits | (kas_u32)high.bits << 16;                                   \
        }                                                                                          \
        *(kas_words *)to = v;                                                                      \
    }
KAS_WIDE_HALVES(1, kas_bf16, kas_bf16_value, kas_bf16_of)
KAS_WIDE_HALVES(2, kas_f16, kas_f16_value, kas_f16_of)

KAS_FN void kas_wide_copy(void *to, const void *from)
{
    kas_wide_check(from);
    kas_wide_check(to);
    *(kas_words *)to = *(const kas_words *)from;
}

/* Small numbers stored as bytes beside kas_reals: one access of 4 or 8 bytes. */
typedef struct __attribute__((aligned(4), may_alias)) kas_bytes_0 {
    kas_u32 word[1];
} kas_bytes_0;
typedef struct __attribute__((aligned(8), may_alias)) kas_bytes_1 {
    kas_u32 word[2];
} kas_bytes_1;
#define kas_bytes_2 kas_bytes_1
#define KAS_PART_BYTES_(name, from)                                                                \
    {                                                                                              \
        const KAS_PASTE(kas_bytes_, KAS_DTYPE) all =                                               \
            *(const KAS_PASTE(kas_bytes_, KAS_DTYPE) *)(from);                                     \
        KAS_EACH(name[kas_k] = (float)(all.word[kas_k / 4] >> kas_k % 4 * 8 & 255u);)              \
    }
#define KAS_PART_STORE_BYTES_(to, name)                                                            \
    {                                                                                              \
        KAS_PASTE(kas_bytes_, KAS_DTYPE) all = {{0}};                                              \
        KAS_EACH(all.word[kas_k / 4] |= (kas_u32)name[kas_k] << kas_k % 4 * 8;)                    \
        *(KAS_PASTE(kas_bytes_, KAS_DTYPE) *)(to) = all;                                           \
    }
#define KAS_PART_LOAD_BYTES(name, from, at, count, whole)                                          \
    float name[KAS_WIDTH];                                                                         \
    KAS_PART_READ_(name, (float), from, at, count, whole, KAS_PART_BYTES_)
#define KAS_PART_STORE_BYTES(to, at, name, count, whole)                                           \
    KAS_PART_STORE_(to, at, name, (kas_u8), count, whole, KAS_PART_STORE_BYTES_)
#else
#define KAS_WHOLE(whole) 1
#define KAS_EACH(...) __VA_ARGS__
#define KAS_EACH_LANE(i) i
#define KAS_EACH_VALUE(name) name
#define KAS_WIDE_VALUE(name, ...) float name = __VA_ARGS__
#define KAS_WIDE_ROWS(name, rows) float name[rows]
#define KAS_RUN 1
#define KAS_RUN_VALUE(name, j) name
#define KAS_WIDE_LOAD(name, from, at) const float name = (from)[at]
#define KAS_WIDE_LOAD_REAL(name, from, at) const float name = kas_value((from)[at])
#define KAS_WIDE_STORE(to, at, name) (to)[at] = name
#define KAS_WIDE_STORE_REAL(to, at, name) (to)[at] = kas_real_of(name)
#define KAS_PART_READ(name, from, at, count, whole) name = (from)[at]
#define KAS_PART_READ_REAL(name, from, at, count, whole) name = kas_value((from)[at])
#define KAS_PART_STORE(to, at, name, count, whole) (to)[at] = name
#define KAS_PART_COPY(to, from, at, count, whole) (to)[at] = (from)[at]
#define KAS_PART_LOAD(name, from, at, count, whole) const float name = (from)[at]
#define KAS_PART_LOAD_REAL(name, from, at, count, whole) const float name = kas_value((from)[at])
#define KAS_PART_STORE_REAL(to, at, name, count, whole) (to)[at] = kas_real_of(name)
#define KAS_PART_LOAD_BYTES(name, from, at, count, whole) const float name = (float)(from)[at]
#define KAS_PART_STORE_BYTES(to, at, name, count, whole) (to)[at] = (kas_u8)(name)
#endif

#ifdef __CUDACC__
#define KAS_WIDE_LANES(i, count)                                                                   \
    for (int i = (int)threadIdx.x * KAS_WIDTH; i < (count); i += (int)blockDim.x * KAS_WIDTH)
#define KAS_WIDE_THREADS(i, count)                                                                 \
    for (int i = (int)threadIdx.x * KAS_WIDTH; i < (count); i = 0x7fffffff)
#define KAS_WIDE_LEAVE(count)                                                                      \
    if ((int)threadIdx.x * KAS_WIDTH >= (count))                                                   \
    return
#define KAS_PART_LANES(i, count) KAS_WIDE_LANES (i, count)
#define KAS_PART_THREADS(i, count) KAS_WIDE_THREADS (i, count)
#define KAS_WIDE_LANE(name, max_lanes) float name[KAS_WIDTH]
#define KAS_EACH_OF(name, i) name[kas_k]
#define KAS_KEPT(name, from, count, whole)                                                         \
    float name[KAS_WIDTH];                                                                         \
    KAS_PART_THREADS (kas_i, count) {                                                              \
        KAS_PART_READ(name, from, kas_i, count, whole)                                             \
    }
#elif KAS_ORDER != 0
#define KAS_WIDE_LEAVE(count) ((void)0)
#define KAS_WIDE_LANES(i, count)                                                                   \
    KAS_RANGE_(kas_group_##i, 0, (count) / KAS_WIDTH)                                              \
    for (int i = kas_group_##i * KAS_WIDTH, kas_once_##i = 1; kas_once_##i; kas_once_##i = 0)
#define KAS_WIDE_THREADS(i, count) KAS_WIDE_LANES (i, count)
#define KAS_PART_LANES(i, count) KAS_WIDE_LANES (i, (count) + KAS_WIDTH - 1)
#define KAS_PART_THREADS(i, count) KAS_PART_LANES (i, count)
#define KAS_WIDE_LANE(name, max_lanes) KAS_LANE(float, name, max_lanes)
#define KAS_EACH_OF(name, i) name[(i) + kas_k]
#define KAS_KEPT(name, from, count, whole)                                                         \
    const float *const name = (from);                                                              \
    if (whole)                                                                                     \
    kas_wide_check(name)
#else
#define KAS_WIDE_LEAVE(count) ((void)0)
#define KAS_WIDE_LANES(i, count) KAS_LANES (i, count)
#define KAS_WIDE_THREADS(i, count) KAS_THREADS (i, count)
#define KAS_PART_LANES(i, count) KAS_LANES (i, count)
#define KAS_PART_THREADS(i, count) KAS_THREADS (i, count)
#define KAS_KEPT(name, from, count, whole) const float *const name = (from)
#define KAS_WIDE_LANE(name, max_lanes) KAS_LANE(float, name, max_lanes)
#define KAS_EACH_OF(name, i) name[i]
#endif

#define KAS_WATCH(found) kas_u32 found = 0
#define KAS_WATCH_VALUE(found, name) KAS_EACH(found |= !kas_is_finite(KAS_EACH_VALUE(name));)
#define KAS_WATCH_END(found, word)                                                                 \
    if (found && word)                                                                             \
    kas_raise(word)

#endif

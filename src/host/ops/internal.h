/* Declarations that the files of the operations share. */
#ifndef KAS_OPS_INTERNAL_H
#define KAS_OPS_INTERNAL_H

#include "host/ops/ops.h"

#include "cuda/kernels/activation.h"

/* Every kernel of the operations, by the last part of its name. */
#define KAS_OPS_KERNELS(X)                                                                         \
    X(add)                                                                                         \
    X(subtract)                                                                                    \
    X(multiply)                                                                                    \
    X(multiply_sum)                                                                                \
    X(copy)                                                                                        \
    X(widen)                                                                                       \
    X(narrow)                                                                                      \
    X(bias_forward)                                                                                \
    X(bias_backward)                                                                               \
    X(flatten_forward)                                                                             \
    X(flatten_backward)                                                                            \
    X(activation_forward)                                                                          \
    X(activation_backward)                                                                         \
    X(dropout)                                                                                     \
    X(advance)                                                                                     \
    X(augment_mixed)                                                                               \
    X(augment)                                                                                     \
    X(norm_statistics)                                                                             \
    X(norm_combine)                                                                                \
    X(norm_running)                                                                                \
    X(norm_apply)                                                                                  \
    X(norm_apply_relu)                                                                             \
    X(norm_apply_residual)                                                                         \
    X(norm_apply_residual_relu)                                                                    \
    X(norm_apply_active)                                                                           \
    X(norm_gradient)                                                                               \
    X(norm_gradient_relu)                                                                          \
    X(norm_gradient_active)                                                                        \
    X(norm_gradient_residual_relu)                                                                 \
    X(norm_gradient_two)                                                                           \
    X(norm_gradient_two_relu)                                                                      \
    X(norm_gradient_two_residual_relu)                                                             \
    X(norm_gradient_combine)                                                                       \
    X(norm_backward)                                                                               \
    X(norm_backward_relu)                                                                          \
    X(norm_backward_active)                                                                        \
    X(norm_backward_add)                                                                           \
    X(norm_backward_relu_add)                                                                      \
    X(layer_norm_forward)                                                                          \
    X(layer_norm_backward)                                                                         \
    X(layer_norm_gradient)                                                                         \
    X(avg_pool_forward)                                                                            \
    X(avg_pool_backward)                                                                           \
    X(max_pool_forward)                                                                            \
    X(max_pool_backward)                                                                           \
    X(global_pool_forward)                                                                         \
    X(global_pool_backward)                                                                        \
    X(shortcut_a_forward)                                                                          \
    X(shortcut_a_backward)                                                                         \
    X(cross_entropy)                                                                               \
    X(cross_entropy_total)                                                                         \
    X(imitation)                                                                                   \
    X(sgd)                                                                                         \
    X(adamw)                                                                                       \
    X(average)                                                                                     \
    X(clip_partial)                                                                                \
    X(clip_scale)                                                                                  \
    X(loss_scale)

typedef struct kas_kernels {
#define KAS_OPS_FIELD(name) kas_function *name;
    KAS_OPS_KERNELS(KAS_OPS_FIELD)
#undef KAS_OPS_FIELD
} kas_kernels;

/* The kernels for each dtype of activations. Kernels that touch no activations are taken
 * from `of[KAS_F32]`. */
struct kas_ops {
    kas_device *device;
    kas_kernels of[KAS_DTYPES]; /* NULL before kas_ops_use */
};

/* Computes a block whose x covers `lanes` channels (at most 256, or `most`). Where the kernel has
 * rows (`rows`), y fills the rest of the block with them. */
void kas_ops_block(int lanes, unsigned most, bool rows, unsigned block[3]);

/* For kernels that access 16 bytes at once: kas_ops_width returns the lanes of one thread
 * (KAS_PART_LANES of wide.h), and kas_ops_wide_block their block for `c` channels. */
int kas_ops_width(kas_dtype dtype);
void kas_ops_wide_block(int c, kas_dtype dtype, unsigned block[3]);
/* Does the same for kernels that take at most `most` channels a block (KAS_PART_THREADS), with at
 * most `rows` rows of threads. */
void kas_ops_part_block(int c, int most, unsigned rows, kas_dtype dtype, unsigned block[3]);
/* Returns whether all rows are whole: c and every pitch are multiples of the lanes of a thread, and
 * all data is aligned to 16 bytes. Both lists, of tensors and of float arrays, end with NULL; a
 * tensor without data is ignored. */
bool kas_ops_whole(const kas_tensor *const *tensor, const float *const *array);

/* Returns how many rows of `c` elements a block of an element-wise kernel takes: about 4096
 * elements, which is much for a GPU's block, and enough to outweigh the cost of starting a block on
 * the CPU. */
int kas_ops_rows_per_block(int c);
/* Launches an element-wise kernel over the rows of `t`, so many a block. */
kas_status kas_ops_launch_rows(kas_plan *plan, const kas_function *function, const kas_tensor *t,
                               const void *args, size_t size);

/* Returns the rows of a chunk of a sum over `rows` rows: enough to be worth a block, few enough to
 * stay in a cache. There are at most 256 chunks: two blocks for each multiprocessor of a large GPU,
 * and what a team combines (KAS_COMBINE_TEAMS) are loads that are under way together. */
int kas_ops_chunk_rows(int rows);
/* Launches a kernel of batch_norm_statistics.cu that combines what chunks left in args->partial,
 * in float32. */
kas_status kas_ops_combine(kas_plan *plan, const kas_function *function, const kas_norm_args *args);

static inline unsigned kas_ops_chunks(int count, int size)
{
    return (unsigned)((count + size - 1) / size);
}
static inline int kas_tensor_rows(const kas_tensor *t)
{
    return t->n * t->h * t->w;
}

/* Check a tensor and fail with KAS_BAD_INPUT, naming the operation, unless its shape is sound
 * (kas_ops_check), unless shape and dtype are those of `like` (kas_ops_check_like), or unless its
 * dtype is `dtype` (kas_ops_check_number). */
kas_status kas_ops_check(const char *operation, const char *name, const kas_tensor *t);
kas_status kas_ops_check_like(const char *operation, const char *name, const kas_tensor *t,
                              const kas_tensor *like);
kas_status kas_ops_check_number(const char *operation, const char *name, const kas_tensor *t,
                                kas_dtype dtype);

#endif

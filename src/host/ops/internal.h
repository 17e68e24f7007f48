/* What the files of the operations share. */
#ifndef KAS_OPS_INTERNAL_H
#define KAS_OPS_INTERNAL_H

#include "host/ops/ops.h"

#include "cuda/kernels/activation.h"

/* Every kernel of the operations, by the last part of its name. */
#define KAS_OPS_KERNELS(X)                                                                         \
    X(add)                                                                                         \
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

/* By the number of the activations; what reads and writes none is taken from `of[KAS_F32]`. */
struct kas_ops {
    kas_device *device;
    kas_kernels of[KAS_DTYPES]; /* NULL before kas_ops_use */
};

/* A block whose x covers `lanes` channels (at most 256, or `most`) and whose y fills it up with
 * rows where the kernel has rows. */
void kas_ops_block(int lanes, unsigned most, bool rows, unsigned block[3]);

/* Lanes of a thread in the kernels of wide rows (KAS_PART_LANES of wide.h), their block, and
 * whether the rows are `whole`: c and every pitch multiples of that, everything on multiples of 16
 * bytes. Tensors and arrays of float end with NULL; a tensor without data does not count. */
int kas_ops_width(kas_dtype dtype);
void kas_ops_wide_block(int c, kas_dtype dtype, unsigned block[3]);
/* The same for kernels that take at most `most` channels a block (KAS_PART_THREADS), with at most
 * `rows` rows of threads. */
void kas_ops_part_block(int c, int most, unsigned rows, kas_dtype dtype, unsigned block[3]);
bool kas_ops_whole(const kas_tensor *const *tensor, const float *const *array);

/* Rows of `c` numbers that a block of an element-wise kernel takes: about 4096 elements, which is
 * much for a GPU's block and little beside the cost of starting one on the CPU. */
int kas_ops_rows_per_block(int c);

/* Rows of a chunk of a sum over `rows` rows: enough that a chunk is worth a block, few enough that
 * it stays in a cache; at most 512 chunks, since they are combined one after the other. */
int kas_ops_chunk_rows(int rows);

static inline unsigned kas_ops_chunks(int count, int size)
{
    return (unsigned)((count + size - 1) / size);
}
static inline int kas_tensor_rows(const kas_tensor *t)
{
    return t->n * t->h * t->w;
}

/* KAS_BAD_INPUT naming the operation unless the shape is sound, or shape and dtype are those of
 * `like`, or the dtype is that of `like`. */
kas_status kas_ops_check(const char *operation, const char *name, const kas_tensor *t);
kas_status kas_ops_check_like(const char *operation, const char *name, const kas_tensor *t,
                              const kas_tensor *like);
kas_status kas_ops_check_number(const char *operation, const char *name, const kas_tensor *t,
                                kas_dtype dtype);

#endif

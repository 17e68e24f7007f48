/* What the files of bmm, the matrix product of two data tensors, share. Internal to lower.
 *
 * There is one product for every image, instance and position of the batch dims:
 *     value[m][n] = scale * sum over k of lhs[m][k] * rhs[k][n]
 * m, n and k are flat indices over several dims. Where these dims lie differs from tensor to
 * tensor; a kas_matrix says it. */
#ifndef KAS_JIT_LOWER_LOWER_BMM_H
#define KAS_JIT_LOWER_LOWER_BMM_H

#include "jit/lower/lower.h"

/* Where batch, rows and columns of a node's matrices lie in its list of dims. */
typedef struct kas_matrix {
    int node; /* whose tensor it is: a node's, or that of its intermediate (KAS_WITHIN) */
    int dims; /* node whose list of dims it has */
    int batch, cut, rank;
    bool transposed; /* its rows are the product's second index */
} kas_matrix;

typedef struct kas_lowered_bmm {
    kas_matrix lhs, rhs, value;
    int64_t q; /* instances of the value */
    int64_t m, n, k;
    double scale;
    int batches; /* IR dims of the batch: images, q, p, batch dims */
    int64_t batch_size[KAS_IR_RANK], batch_elements;
} kas_lowered_bmm;

/* The index of a batch: [n, q, p, batch dims...]. */
typedef struct kas_batch_index {
    kas_ix at[KAS_IR_RANK];
} kas_batch_index;

/* Convert an index of a matrix's tensor to its batch and two flat indices, in the order of the
 * product; and back. */
void kas_bmm_split(kas_lower *l, const kas_matrix *m, const kas_ix *idx, kas_batch_index *batch,
                   kas_ix *first, kas_ix *second);
void kas_bmm_join(kas_lower *l, const kas_matrix *m, const kas_batch_index *batch, kas_ix first,
                  kas_ix second, kas_ix *idx);
/* Returns e times the product's scale. */
kas_ex kas_bmm_scaled(kas_lower *l, const kas_lowered_bmm *b, kas_ex e);

/* The product by a library: its value, and its contributions to gradients. */
void kas_bmm_library(kas_lower *l, const kas_lowered_bmm *b, int node);
void kas_bmm_library_gradient(kas_lower *l, const kas_lowered_bmm *b, int node);

#endif

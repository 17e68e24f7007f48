/* What the files of the matrix products of two data tensors share.
 *
 * One product for every image, instance and position of the batch dims:
 *     value[m][n] = scale * sum over k of lhs[m][k] * rhs[k][n]
 * m, n and k are flat indices of several dims of the tensors of the nodes, whose places differ by
 * node: a place says where. */
#ifndef KAS_JIT_LOWER_LOWER_BMM_H
#define KAS_JIT_LOWER_LOWER_BMM_H

#include "jit/lower/lower.h"

/* Where batch, rows and columns of a node's matrices lie in its list of dims. */
typedef struct kas_matrix {
    int node; /* whose tensor it is: a node or what lies within it */
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

/* Index of a batch: [n, q, p, batch dims...]. */
typedef struct kas_batch_index {
    kas_ix at[KAS_IR_RANK];
} kas_batch_index;

kas_lowered_bmm kas_bmm_of(kas_lower *l, int node);
/* The batch and the two flat indices of an index of a matrix' tensor, in the order of the product;
 * and back. */
void kas_bmm_split(kas_lower *l, const kas_matrix *m, const kas_ix *idx, kas_batch_index *batch,
                   kas_ix *first, kas_ix *second);
void kas_bmm_join(kas_lower *l, const kas_matrix *m, const kas_batch_index *batch, kas_ix first,
                  kas_ix second, kas_ix *idx);

/* As a library product: value and contributions. */
void kas_bmm_library(kas_lower *l, const kas_lowered_bmm *b, int node);
void kas_bmm_library_gradient(kas_lower *l, const kas_lowered_bmm *b, int node);

#endif

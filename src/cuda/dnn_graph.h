/* One pass of a convolution as an operation graph of cuDNN 9.
 *
 * A graph of cuDNN names tensors (shape, strides, type, alignment) and operations between them; the
 * library then says which of its engines can run it (dnn_plan.h).  Ours have one operation.
 * Tensors are n, c, h, w with the strides of channels-last memory, so that padded pixels are
 * strides like any others: which engines take them is the library's to say.  All three tensors are
 * of the convolution's number (9.19 refuses float32 gradients of weights beside 16-bit pixels),
 * sums are float32. */
#ifndef KAS_CUDA_DNN_GRAPH_H
#define KAS_CUDA_DNN_GRAPH_H

#include "cuda/cuda.h"

/* Alignment of every tensor in bytes: what kas_pitch promises. */
enum { KAS_DNN_ALIGNMENT = 16 };
/* Names of the tensors within a graph. */
enum { KAS_DNN_X = 1, KAS_DNN_W = 2, KAS_DNN_Y = 3 };

typedef struct kas_dnn_graph {
    cudnnBackendDescriptor_t x, w, y, convolution, operation, graph;
} kas_dnn_graph;

/* KAS_UNSUPPORTED when cuDNN refuses the sizes. `*out` is all zero after a failure. */
kas_status kas_dnn_graph_make(kas_cuda *cuda, const kas_conv_desc *desc, kas_conv_pass pass,
                              kas_dnn_graph *out);
void kas_dnn_graph_free(kas_cuda *cuda, kas_dnn_graph *graph);

/* Attributes of descriptors; `name` and `type` as in cuda_api.h. */
kas_status kas_dnn_new(kas_cuda *cuda, cudnnBackendDescriptorType_t type,
                       cudnnBackendDescriptor_t *out);
void kas_dnn_delete(kas_cuda *cuda, cudnnBackendDescriptor_t desc); /* NULL is allowed */
kas_status kas_dnn_set(kas_cuda *cuda, cudnnBackendDescriptor_t desc,
                       cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                       int64_t count, const void *values);
kas_status kas_dnn_get(kas_cuda *cuda, cudnnBackendDescriptor_t desc,
                       cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                       int64_t room, int64_t *count, void *values);
/* What cuDNN calls a bad parameter is a size beyond its limits, since the caller's sizes were
 * checked: such a status becomes KAS_UNSUPPORTED. */
kas_status kas_dnn_refuse_bad_parameters(kas_status status);
kas_status kas_dnn_finalize(kas_cuda *cuda, cudnnBackendDescriptor_t desc);

#endif

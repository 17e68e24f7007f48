/* One pass of a convolution, and what follows it, as an operation graph of cuDNN 9.
 *
 * A graph of cuDNN names tensors (shape, strides, type, alignment) and operations between them; the
 * library then says which of its engines can run it (dnn_plan.h). Ours begin with a convolution,
 * and a forward pass may go on (dnn_epilogue.c):
 *
 *     x, w -> convolution -> add residual -> add bias -> activation -> y
 *
 * A tensor between two operations is virtual: float32 and never in memory. Tensors are n, c, h, w
 * with the strides of channels-last memory, so padded pixels are strides like any others, and the
 * library decides which engines take them. All tensors in memory have the convolution's dtype (9.19
 * refuses float32 gradients of weights with 16-bit pixels); sums are float32. */
#ifndef KAS_CUDA_DNN_GRAPH_H
#define KAS_CUDA_DNN_GRAPH_H

#include "cuda/conv_cuda.h"

/* The ids of the tensors within a graph; virtual tensors have ids from KAS_DNN_BETWEEN on. */
enum { KAS_DNN_X = 1, KAS_DNN_W, KAS_DNN_Y, KAS_DNN_BIAS, KAS_DNN_RESIDUAL, KAS_DNN_BETWEEN };

/* A graph and its parts; `operation` lists the parts that are operations, in their order. */
enum { KAS_DNN_MAX_PARTS = 16, KAS_DNN_MAX_OPERATIONS = 4 };
typedef struct kas_dnn_graph {
    cudnnBackendDescriptor_t graph;
    int parts, operations;
    cudnnBackendDescriptor_t part[KAS_DNN_MAX_PARTS], operation[KAS_DNN_MAX_OPERATIONS];
} kas_dnn_graph;

/* Returns the convolution as cuDNN gets it. It copies an x whose channels are no multiple of 16
 * bytes, all of it; so where x's padding is finite it counts as channels whose weights are zero
 * (forward), or whose gradient is not wanted. */
kas_conv_desc kas_dnn_conv_desc(const kas_conv_desc *desc, kas_conv_pass pass);

/* Makes the graph of a pass; only a forward pass may have something `beside` it. Returns
 * KAS_UNSUPPORTED when cuDNN refuses the sizes or has no such operation. `*out` is all zero
 * after a failure. */
kas_status kas_dnn_graph_make(kas_cuda *cuda, const kas_conv_desc *desc, kas_conv_pass pass,
                              kas_conv_beside beside, kas_dnn_graph *out);
void kas_dnn_graph_free(kas_cuda *cuda, kas_dnn_graph *graph);

/* ---- parts of a graph (dnn_graph.c, dnn_epilogue.c) -------------------------------------------
 *
 * What is made belongs to the graph at once; `*out` is for whoever refers to it. */

typedef struct kas_dnn_tensor {
    int64_t id, size[4], stride[4];
    kas_dtype dtype;
    bool is_virtual;
} kas_dnn_tensor;

/* Adds a tensor to the graph. */
kas_status kas_dnn_add_tensor(kas_cuda *cuda, kas_dnn_graph *graph, const kas_dnn_tensor *tensor,
                              cudnnBackendDescriptor_t *out);
/* Adds a descriptor whose attributes are still to be set. */
kas_status kas_dnn_add_part(kas_cuda *cuda, kas_dnn_graph *graph, cudnnBackendDescriptorType_t type,
                            cudnnBackendDescriptor_t *out);
/* The same for an operation. */
kas_status kas_dnn_add_operation(kas_cuda *cuda, kas_dnn_graph *graph,
                                 cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *out);
/* Adds the operations from `from`, the convolution's output, to the tensor `y`, which
 * is not virtual. */
kas_status kas_dnn_add_epilogue(kas_cuda *cuda, kas_dnn_graph *graph, kas_conv_beside beside,
                                const kas_dnn_tensor *y, cudnnBackendDescriptor_t from);

/* Descriptors and their attributes; `name` and `type` are as in cuda_api.h. */
kas_status kas_dnn_new(kas_cuda *cuda, cudnnBackendDescriptorType_t type,
                       cudnnBackendDescriptor_t *out);
void kas_dnn_delete(kas_cuda *cuda, cudnnBackendDescriptor_t desc); /* NULL is allowed */
kas_status kas_dnn_set(kas_cuda *cuda, cudnnBackendDescriptor_t desc,
                       cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                       int64_t count, const void *values);
kas_status kas_dnn_get(kas_cuda *cuda, cudnnBackendDescriptor_t desc,
                       cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                       int64_t room, int64_t *count, void *values);
/* Turns a bad parameter into KAS_UNSUPPORTED: the caller's sizes were checked, so what cuDNN calls
 * a bad parameter is a size beyond its limits. */
kas_status kas_dnn_refuse_bad_parameters(kas_status status);
kas_status kas_dnn_finalize(kas_cuda *cuda, cudnnBackendDescriptor_t desc);

#endif

#include "cuda/dnn_graph.h"

#include <string.h>

kas_status kas_dnn_new(kas_cuda *cuda, cudnnBackendDescriptorType_t type,
                       cudnnBackendDescriptor_t *out)
{
    return KAS_CUDNN(cuda, cudnnBackendCreateDescriptor(type, out));
}

void kas_dnn_delete(kas_cuda *cuda, cudnnBackendDescriptor_t desc)
{
    if (desc)
        cuda->dnn->cudnnBackendDestroyDescriptor(desc);
}

/* The statement alone does not tell which of the many attributes it was. */
static kas_status with_name(kas_status status, cudnnBackendAttributeName_t name)
{
    return status == KAS_OK ? KAS_OK : kas_fail_context(status, "attribute %d", (int)name);
}

kas_status kas_dnn_set(kas_cuda *cuda, cudnnBackendDescriptor_t desc,
                       cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                       int64_t count, const void *values)
{
    return with_name(KAS_CUDNN(cuda, cudnnBackendSetAttribute(desc, name, type, count, values)),
                     name);
}

kas_status kas_dnn_get(kas_cuda *cuda, cudnnBackendDescriptor_t desc,
                       cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                       int64_t room, int64_t *count, void *values)
{
    return with_name(
        KAS_CUDNN(cuda, cudnnBackendGetAttribute(desc, name, type, room, count, values)), name);
}

kas_status kas_dnn_finalize(kas_cuda *cuda, cudnnBackendDescriptor_t desc)
{
    return KAS_CUDNN(cuda, cudnnBackendFinalize(desc));
}

static kas_status make_tensor(kas_cuda *cuda, int64_t id, int32_t type, const int64_t size[4],
                              const int64_t stride[4], cudnnBackendDescriptor_t *out)
{
    const int64_t alignment = KAS_DNN_ALIGNMENT;
    KAS_TRY(kas_dnn_new(cuda, KAS_DNN_TENSOR, out));
    KAS_TRY(kas_dnn_set(cuda, *out, KAS_DNN_TENSOR_DATA_TYPE, KAS_DNN_TYPE_DATA_TYPE, 1, &type));
    KAS_TRY(kas_dnn_set(cuda, *out, KAS_DNN_TENSOR_DIMENSIONS, KAS_DNN_TYPE_INT64, 4, size));
    KAS_TRY(kas_dnn_set(cuda, *out, KAS_DNN_TENSOR_STRIDES, KAS_DNN_TYPE_INT64, 4, stride));
    KAS_TRY(kas_dnn_set(cuda, *out, KAS_DNN_TENSOR_UNIQUE_ID, KAS_DNN_TYPE_INT64, 1, &id));
    KAS_TRY(kas_dnn_set(cuda, *out, KAS_DNN_TENSOR_ALIGNMENT, KAS_DNN_TYPE_INT64, 1, &alignment));
    return kas_dnn_finalize(cuda, *out);
}

static int32_t type_of(kas_number number)
{
    static const int32_t type[KAS_NUMBERS] = {KAS_CUDNN_DATA_FLOAT, KAS_CUDNN_DATA_BFLOAT16,
                                              KAS_CUDNN_DATA_HALF};
    return type[number];
}

static kas_status make_pixels(kas_cuda *cuda, int64_t id, kas_number number, const int64_t size[4],
                              int pitch, cudnnBackendDescriptor_t *out)
{
    const int64_t h = size[2], w = size[3], stride[4] = {h * w * pitch, 1, w * pitch, pitch};
    return make_tensor(cuda, id, type_of(number), size, stride, out);
}

/* cuDNN sees the groups by the channels of the weights. */
static kas_status make_weights(kas_cuda *cuda, const kas_conv_desc *d,
                               cudnnBackendDescriptor_t *out)
{
    const int64_t c = d->c_in / d->groups, h = d->kernel_h, w = d->kernel_w;
    const int64_t size[4] = {d->c_out, c, h, w}, stride[4] = {h * w * c, 1, w * c, c};
    return make_tensor(cuda, KAS_DNN_W, type_of(d->number), size, stride, out);
}

static kas_status make_convolution(kas_cuda *cuda, const kas_conv_desc *d,
                                   cudnnBackendDescriptor_t *out)
{
    const int32_t compute = KAS_CUDNN_DATA_FLOAT, mode = KAS_CUDNN_CROSS_CORRELATION;
    const int64_t dims = 2, dilation = kas_conv_dilation(d), pad[2] = {d->pad_h, d->pad_w},
                  stride[2] = {d->stride, d->stride}, dilations[2] = {dilation, dilation};
    KAS_TRY(kas_dnn_new(cuda, KAS_DNN_CONVOLUTION, out));
    KAS_TRY(kas_dnn_set(cuda, *out, KAS_DNN_CONVOLUTION_COMPUTE_TYPE, KAS_DNN_TYPE_DATA_TYPE, 1,
                        &compute));
    KAS_TRY(
        kas_dnn_set(cuda, *out, KAS_DNN_CONVOLUTION_MODE, KAS_DNN_TYPE_CONVOLUTION_MODE, 1, &mode));
    KAS_TRY(
        kas_dnn_set(cuda, *out, KAS_DNN_CONVOLUTION_SPATIAL_DIMS, KAS_DNN_TYPE_INT64, 1, &dims));
    KAS_TRY(kas_dnn_set(cuda, *out, KAS_DNN_CONVOLUTION_PRE_PADDINGS, KAS_DNN_TYPE_INT64, 2, pad));
    KAS_TRY(kas_dnn_set(cuda, *out, KAS_DNN_CONVOLUTION_POST_PADDINGS, KAS_DNN_TYPE_INT64, 2, pad));
    KAS_TRY(
        kas_dnn_set(cuda, *out, KAS_DNN_CONVOLUTION_DILATIONS, KAS_DNN_TYPE_INT64, 2, dilations));
    KAS_TRY(kas_dnn_set(cuda, *out, KAS_DNN_CONVOLUTION_STRIDES, KAS_DNN_TYPE_INT64, 2, stride));
    return kas_dnn_finalize(cuda, *out);
}

/* The operation of each pass, and what its attributes are called. */
typedef struct operation {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t convolution, x, w, y, alpha, beta;
} operation;

static const operation operations[3] = {
    [KAS_CONV_FORWARD] = {KAS_DNN_FORWARD, KAS_DNN_FORWARD_CONVOLUTION, KAS_DNN_FORWARD_X,
                          KAS_DNN_FORWARD_W, KAS_DNN_FORWARD_Y, KAS_DNN_FORWARD_ALPHA,
                          KAS_DNN_FORWARD_BETA},
    [KAS_CONV_BACKWARD_DATA] = {KAS_DNN_BACKWARD_DATA, KAS_DNN_DATA_CONVOLUTION, KAS_DNN_DATA_DX,
                                KAS_DNN_DATA_W, KAS_DNN_DATA_DY, KAS_DNN_DATA_ALPHA,
                                KAS_DNN_DATA_BETA},
    [KAS_CONV_BACKWARD_WEIGHTS] = {KAS_DNN_BACKWARD_FILTER, KAS_DNN_FILTER_CONVOLUTION,
                                   KAS_DNN_FILTER_X, KAS_DNN_FILTER_DW, KAS_DNN_FILTER_DY,
                                   KAS_DNN_FILTER_ALPHA, KAS_DNN_FILTER_BETA},
};

static kas_status make_operation(kas_cuda *cuda, kas_conv_pass pass, kas_dnn_graph *g)
{
    const operation *o = &operations[pass];
    const float alpha = 1, beta = 0;
    KAS_TRY(kas_dnn_new(cuda, o->type, &g->operation));
    KAS_TRY(kas_dnn_set(cuda, g->operation, o->convolution, KAS_DNN_TYPE_DESCRIPTOR, 1,
                        &g->convolution));
    KAS_TRY(kas_dnn_set(cuda, g->operation, o->x, KAS_DNN_TYPE_DESCRIPTOR, 1, &g->x));
    KAS_TRY(kas_dnn_set(cuda, g->operation, o->w, KAS_DNN_TYPE_DESCRIPTOR, 1, &g->w));
    KAS_TRY(kas_dnn_set(cuda, g->operation, o->y, KAS_DNN_TYPE_DESCRIPTOR, 1, &g->y));
    KAS_TRY(kas_dnn_set(cuda, g->operation, o->alpha, KAS_DNN_TYPE_FLOAT, 1, &alpha));
    KAS_TRY(kas_dnn_set(cuda, g->operation, o->beta, KAS_DNN_TYPE_FLOAT, 1, &beta));
    return kas_dnn_finalize(cuda, g->operation);
}

static kas_status make_graph(kas_cuda *cuda, kas_dnn_graph *g)
{
    KAS_TRY(kas_dnn_new(cuda, KAS_DNN_GRAPH, &g->graph));
    KAS_TRY(kas_dnn_set(cuda, g->graph, KAS_DNN_GRAPH_OPERATIONS, KAS_DNN_TYPE_DESCRIPTOR, 1,
                        &g->operation));
    if (cuda->dnn_handle)
        KAS_TRY(kas_dnn_set(cuda, g->graph, KAS_DNN_GRAPH_HANDLE, KAS_DNN_TYPE_HANDLE, 1,
                            &cuda->dnn_handle));
    return kas_dnn_finalize(cuda, g->graph);
}

static kas_status make_all(kas_cuda *cuda, const kas_conv_desc *d, kas_conv_pass pass,
                           kas_dnn_graph *g)
{
    const int64_t x[4] = {d->n, d->c_in, d->h, d->w},
                  y[4] = {d->n, d->c_out, kas_conv_out_h(d), kas_conv_out_w(d)};
    KAS_TRY(make_pixels(cuda, KAS_DNN_X, d->number, x, d->x_pitch, &g->x));
    KAS_TRY(make_weights(cuda, d, &g->w));
    KAS_TRY(make_pixels(cuda, KAS_DNN_Y, d->number, y, d->y_pitch, &g->y));
    KAS_TRY(make_convolution(cuda, d, &g->convolution));
    KAS_TRY(make_operation(cuda, pass, g));
    return make_graph(cuda, g);
}

kas_status kas_dnn_refuse_bad_parameters(kas_status status)
{
    return status == KAS_DEVICE && strstr(kas_error(), "BAD_PARAM") ? KAS_UNSUPPORTED : status;
}

kas_status kas_dnn_graph_make(kas_cuda *cuda, const kas_conv_desc *desc, kas_conv_pass pass,
                              kas_dnn_graph *out)
{
    *out = (kas_dnn_graph){NULL};
    const kas_status status = make_all(cuda, desc, pass, out);
    if (status != KAS_OK)
        kas_dnn_graph_free(cuda, out);
    return kas_dnn_refuse_bad_parameters(status);
}

void kas_dnn_graph_free(kas_cuda *cuda, kas_dnn_graph *g)
{
    kas_dnn_delete(cuda, g->graph);
    kas_dnn_delete(cuda, g->operation);
    kas_dnn_delete(cuda, g->convolution);
    kas_dnn_delete(cuda, g->y);
    kas_dnn_delete(cuda, g->w);
    kas_dnn_delete(cuda, g->x);
    *g = (kas_dnn_graph){NULL};
}

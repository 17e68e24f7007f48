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

/* Adds to the message which attribute it was, which the statement alone does not tell. */
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

/* ---- parts ----------------------------------------------------------------------------------- */

kas_status kas_dnn_add_part(kas_cuda *cuda, kas_dnn_graph *g, cudnnBackendDescriptorType_t type,
                            cudnnBackendDescriptor_t *out)
{
    if (g->parts == KAS_DNN_MAX_PARTS)
        return kas_fail(KAS_FAILURE, "a graph of more than %d parts", KAS_DNN_MAX_PARTS);
    KAS_TRY(kas_dnn_new(cuda, type, out));
    g->part[g->parts++] = *out;
    return KAS_OK;
}

kas_status kas_dnn_add_operation(kas_cuda *cuda, kas_dnn_graph *g,
                                 cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *out)
{
    if (g->operations == KAS_DNN_MAX_OPERATIONS)
        return kas_fail(KAS_FAILURE, "a graph of more than %d operations", KAS_DNN_MAX_OPERATIONS);
    KAS_TRY(kas_dnn_add_part(cuda, g, type, out));
    g->operation[g->operations++] = *out;
    return KAS_OK;
}

static int32_t type_of(kas_dtype dtype)
{
    static const int32_t type[KAS_DTYPES] = {KAS_CUDNN_DATA_FLOAT, KAS_CUDNN_DATA_BFLOAT16,
                                             KAS_CUDNN_DATA_HALF};
    return type[dtype];
}

kas_status kas_dnn_add_tensor(kas_cuda *cuda, kas_dnn_graph *g, const kas_dnn_tensor *t,
                              cudnnBackendDescriptor_t *out)
{
    const int64_t alignment = KAS_CONV_ALIGNMENT;
    const int32_t type = type_of(t->dtype);
    KAS_TRY(kas_dnn_add_part(cuda, g, KAS_DNN_TENSOR, out));
    KAS_TRY(kas_dnn_set(cuda, *out, KAS_DNN_TENSOR_DATA_TYPE, KAS_DNN_TYPE_DATA_TYPE, 1, &type));
    KAS_TRY(kas_dnn_set(cuda, *out, KAS_DNN_TENSOR_DIMENSIONS, KAS_DNN_TYPE_INT64, 4, t->size));
    KAS_TRY(kas_dnn_set(cuda, *out, KAS_DNN_TENSOR_STRIDES, KAS_DNN_TYPE_INT64, 4, t->stride));
    KAS_TRY(kas_dnn_set(cuda, *out, KAS_DNN_TENSOR_UNIQUE_ID, KAS_DNN_TYPE_INT64, 1, &t->id));
    KAS_TRY(kas_dnn_set(cuda, *out, KAS_DNN_TENSOR_ALIGNMENT, KAS_DNN_TYPE_INT64, 1, &alignment));
    if (t->is_virtual)
        KAS_TRY(kas_dnn_set(cuda, *out, KAS_DNN_TENSOR_IS_VIRTUAL, KAS_DNN_TYPE_BOOL, 1,
                            &t->is_virtual));
    return kas_dnn_finalize(cuda, *out);
}

static kas_dnn_tensor pixels(int64_t id, kas_dtype dtype, int64_t n, int64_t c, int64_t h,
                             int64_t w, int64_t pitch)
{
    return (kas_dnn_tensor){.id = id,
                            .size = {n, c, h, w},
                            .stride = {h * w * pitch, 1, w * pitch, pitch},
                            .dtype = dtype};
}

static kas_dnn_tensor x_of(const kas_conv_desc *d)
{
    return pixels(KAS_DNN_X, d->dtype, d->n, d->c_in, d->h, d->w, d->x_pitch);
}

static kas_dnn_tensor y_of(const kas_conv_desc *d)
{
    return pixels(KAS_DNN_Y, d->dtype, d->n, d->c_out, kas_conv_out_h(d), kas_conv_out_w(d),
                  d->y_pitch);
}

/* Returns the tensor of the weights, from whose channels cuDNN deduces the groups. */
static kas_dnn_tensor w_of(const kas_conv_desc *d)
{
    const int c = d->c_in / d->groups;
    return pixels(KAS_DNN_W, d->dtype, d->c_out, c, d->kernel_h, d->kernel_w, c);
}

/* ---- the convolution ------------------------------------------------------------------------- */

static kas_status add_convolution(kas_cuda *cuda, kas_dnn_graph *g, const kas_conv_desc *d,
                                  cudnnBackendDescriptor_t *out)
{
    const int32_t compute = KAS_CUDNN_DATA_FLOAT, mode = KAS_CUDNN_CROSS_CORRELATION;
    const int64_t dims = 2, dilation = kas_conv_dilation(d), pad[2] = {d->pad_h, d->pad_w},
                  stride[2] = {d->stride, d->stride}, dilations[2] = {dilation, dilation};
    KAS_TRY(kas_dnn_add_part(cuda, g, KAS_DNN_CONVOLUTION, out));
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

/* The operation of each pass and the names of its attributes. */
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

typedef struct tensors {
    cudnnBackendDescriptor_t x, w, y;
} tensors;

static kas_status add_pass(kas_cuda *cuda, kas_dnn_graph *g, const kas_conv_desc *d,
                           kas_conv_pass pass, const tensors *t)
{
    const operation *o = &operations[pass];
    const float alpha = 1, beta = 0;
    cudnnBackendDescriptor_t convolution, op;
    KAS_TRY(add_convolution(cuda, g, d, &convolution));
    KAS_TRY(kas_dnn_add_operation(cuda, g, o->type, &op));
    KAS_TRY(kas_dnn_set(cuda, op, o->convolution, KAS_DNN_TYPE_DESCRIPTOR, 1, &convolution));
    KAS_TRY(kas_dnn_set(cuda, op, o->x, KAS_DNN_TYPE_DESCRIPTOR, 1, &t->x));
    KAS_TRY(kas_dnn_set(cuda, op, o->w, KAS_DNN_TYPE_DESCRIPTOR, 1, &t->w));
    KAS_TRY(kas_dnn_set(cuda, op, o->y, KAS_DNN_TYPE_DESCRIPTOR, 1, &t->y));
    KAS_TRY(kas_dnn_set(cuda, op, o->alpha, KAS_DNN_TYPE_FLOAT, 1, &alpha));
    KAS_TRY(kas_dnn_set(cuda, op, o->beta, KAS_DNN_TYPE_FLOAT, 1, &beta));
    return kas_dnn_finalize(cuda, op);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static kas_status make_graph(kas_cuda *cuda, kas_dnn_graph *g)
{
    KAS_TRY(kas_dnn_new(cuda, KAS_DNN_GRAPH, &g->graph));
    KAS_TRY(kas_dnn_set(cuda, g->graph, KAS_DNN_GRAPH_OPERATIONS, KAS_DNN_TYPE_DESCRIPTOR,
                        g->operations, g->operation));
    if (cuda->dnn_handle)
        KAS_TRY(kas_dnn_set(cuda, g->graph, KAS_DNN_GRAPH_HANDLE, KAS_DNN_TYPE_HANDLE, 1,
                            &cuda->dnn_handle));
    return kas_dnn_finalize(cuda, g->graph);
}

/* Makes the graph. Where something follows, the convolution's output is virtual. */
static kas_status make_all(kas_cuda *cuda, const kas_conv_desc *d, kas_conv_pass pass,
                           kas_conv_beside beside, kas_dnn_graph *g)
{
    const bool ends = !kas_conv_has_beside(beside);
    const kas_dnn_tensor x = x_of(d), w = w_of(d), y = y_of(d);
    kas_dnn_tensor out = y;
    tensors t;
    if (!ends && pass != KAS_CONV_FORWARD)
        return kas_fail(KAS_UNSUPPORTED, "cuDNN fuses nothing with this pass");
    if (!ends) {
        out.id = KAS_DNN_BETWEEN;
        out.dtype = KAS_F32;
        out.is_virtual = true;
    }
    KAS_TRY(kas_dnn_add_tensor(cuda, g, &x, &t.x));
    KAS_TRY(kas_dnn_add_tensor(cuda, g, &w, &t.w));
    KAS_TRY(kas_dnn_add_tensor(cuda, g, &out, &t.y));
    KAS_TRY(add_pass(cuda, g, d, pass, &t));
    if (!ends)
        KAS_TRY(kas_dnn_add_epilogue(cuda, g, beside, &y, t.y));
    return make_graph(cuda, g);
}

kas_conv_desc kas_dnn_conv_desc(const kas_conv_desc *desc, kas_conv_pass pass)
{
    kas_conv_desc d = *desc;
    if (d.finite_padding && d.groups == 1 && pass != KAS_CONV_BACKWARD_DATA)
        d.c_in = d.x_pitch;
    return d;
}

kas_status kas_dnn_refuse_bad_parameters(kas_status status)
{
    return status == KAS_DEVICE && strstr(kas_error(), "BAD_PARAM") ? KAS_UNSUPPORTED : status;
}

kas_status kas_dnn_graph_make(kas_cuda *cuda, const kas_conv_desc *desc, kas_conv_pass pass,
                              kas_conv_beside beside, kas_dnn_graph *out)
{
    *out = (kas_dnn_graph){NULL};
    const kas_status status = make_all(cuda, desc, pass, beside, out);
    if (status != KAS_OK)
        kas_dnn_graph_free(cuda, out);
    return kas_dnn_refuse_bad_parameters(status);
}

void kas_dnn_graph_free(kas_cuda *cuda, kas_dnn_graph *g)
{
    kas_dnn_delete(cuda, g->graph);
    while (g->parts > 0)
        kas_dnn_delete(cuda, g->part[--g->parts]);
    *g = (kas_dnn_graph){NULL};
}

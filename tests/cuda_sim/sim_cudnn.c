/* cuDNN: convolution on channels-last float32, from the definition, by the strides of the
 * descriptors. */
#include <string.h>

#include "sim.h"

enum { CUDNN_INTERNAL_ERROR = 4000, ALGORITHM = 1, WORKSPACE = 1000 /* for each image */ };

struct cudnnContext {
    int device;
    CUstream stream;
};
struct cudnnTensorStruct {
    int size[4], stride[4]; /* n, c, h, w */
};
struct cudnnFilterStruct {
    int k, c, h, w;
};
struct cudnnConvolutionStruct {
    int pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w, groups;
    cudnnMathType_t math;
};

typedef struct cudnnTensorStruct tensor;
typedef struct cudnnFilterStruct filter;
typedef struct cudnnConvolutionStruct convolution;

#define DNN_CALL(name) SIM_CALL(name, CUDNN_INTERNAL_ERROR, 0)

size_t cudnnGetVersion(void)
{
    return 91900;
}

const char *cudnnGetErrorString(cudnnStatus_t status)
{
    if (status == KAS_CUDNN_BAD_PARAM)
        return "CUDNN_STATUS_BAD_PARAM";
    return status == KAS_CUDNN_NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED"
                                             : "CUDNN_STATUS_OF_THE_STAND_IN";
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
    SIM_CALL(cudnnCreate, KAS_CUDNN_DEVICE_ALLOCATION_FAILED, 1001 /* not initialized */);
    if (!sim_context)
        sim_broken("cudnnCreate without a current context");
    *handle = sim_new(sizeof **handle);
    (*handle)->device = sim_context->device;
    sim_live++;
    return KAS_CUDNN_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle)
{
    SIM_LOCKED();
    free(handle);
    sim_live--;
    return sim_call("cudnnDestroy", CUDNN_INTERNAL_ERROR, 0);
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
    DNN_CALL(cudnnSetStream);
    if (sim_stream_device(stream) != handle->device)
        return KAS_CUDNN_BAD_PARAM;
    handle->stream = stream;
    return KAS_CUDNN_SUCCESS;
}

/* ---- descriptors ------------------------------------------------------------------------------
 */

#define DESCRIPTOR(Name, type)                                                                     \
    cudnnStatus_t cudnnCreate##Name(type *desc)                                                    \
    {                                                                                              \
        SIM_CALL(cudnnCreate##Name, KAS_CUDNN_ALLOCATION_FAILED, 0);                               \
        *desc = sim_new(sizeof **desc);                                                            \
        sim_live++;                                                                                \
        return KAS_CUDNN_SUCCESS;                                                                  \
    }                                                                                              \
    cudnnStatus_t cudnnDestroy##Name(type desc)                                                    \
    {                                                                                              \
        SIM_LOCKED();                                                                              \
        free(desc);                                                                                \
        sim_live--;                                                                                \
        return sim_call("cudnnDestroy" #Name, CUDNN_INTERNAL_ERROR, 0);                            \
    }
DESCRIPTOR(TensorDescriptor, cudnnTensorDescriptor_t)
DESCRIPTOR(FilterDescriptor, cudnnFilterDescriptor_t)
DESCRIPTOR(ConvolutionDescriptor, cudnnConvolutionDescriptor_t)

cudnnStatus_t cudnnSetTensor4dDescriptorEx(cudnnTensorDescriptor_t desc, cudnnDataType_t type,
                                           int n, int c, int h, int w, int n_stride, int c_stride,
                                           int h_stride, int w_stride)
{
    DNN_CALL(cudnnSetTensor4dDescriptorEx);
    if (type != KAS_CUDNN_DATA_FLOAT || n < 1 || c < 1 || h < 1 || w < 1)
        return KAS_CUDNN_BAD_PARAM;
    *desc = (tensor){{n, c, h, w}, {n_stride, c_stride, h_stride, w_stride}};
    return KAS_CUDNN_SUCCESS;
}

cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t desc, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int k, int c, int h, int w)
{
    DNN_CALL(cudnnSetFilter4dDescriptor);
    if (type != KAS_CUDNN_DATA_FLOAT || format != KAS_CUDNN_NHWC || k < 1 || c < 1 || h < 1 ||
        w < 1)
        return KAS_CUDNN_BAD_PARAM;
    *desc = (filter){k, c, h, w};
    return KAS_CUDNN_SUCCESS;
}

cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t desc, int pad_h,
                                              int pad_w, int stride_h, int stride_w, int dilation_h,
                                              int dilation_w, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute)
{
    DNN_CALL(cudnnSetConvolution2dDescriptor);
    if (dilation_h < 1 || dilation_w < 1 || mode != KAS_CUDNN_CROSS_CORRELATION ||
        compute != KAS_CUDNN_DATA_FLOAT)
        return KAS_CUDNN_BAD_PARAM;
    *desc = (convolution){pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w, 1, 0};
    return KAS_CUDNN_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t desc, int groups)
{
    DNN_CALL(cudnnSetConvolutionGroupCount);
    desc->groups = groups;
    return KAS_CUDNN_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t desc, cudnnMathType_t math)
{
    DNN_CALL(cudnnSetConvolutionMathType);
    desc->math = math;
    return KAS_CUDNN_SUCCESS;
}

/* ---- algorithms ------------------------------------------------------------------------------ */

typedef struct problem {
    tensor x, y;
    filter w;
    convolution conv;
} problem;

static bool shapes_fit(const problem *p)
{
    const convolution *c = &p->conv;
    const int span_h = c->dilation_h * (p->w.h - 1) + 1, span_w = c->dilation_w * (p->w.w - 1) + 1;
    const int out_h = (p->x.size[2] + 2 * c->pad_h - span_h) / c->stride_h + 1,
              out_w = (p->x.size[3] + 2 * c->pad_w - span_w) / c->stride_w + 1;
    return p->x.size[0] == p->y.size[0] && p->w.c * p->conv.groups == p->x.size[1] &&
           p->w.k == p->y.size[1] && p->w.k % p->conv.groups == 0 && p->y.size[2] == out_h &&
           p->y.size[3] == out_w;
}

/* cuDNN's documentation: channels-last tensors are "HWC-packed". */
static bool packed(const tensor *t)
{
    return t->stride[1] == 1 && t->stride[3] == t->size[1] &&
           t->stride[2] == t->size[3] * t->stride[3] && t->stride[0] == t->size[2] * t->stride[2];
}

static bool supported(const problem *p)
{
    return packed(&p->x) && packed(&p->y) && !sim_refuses("cudnn");
}

static size_t workspace_of(const problem *p)
{
    return (size_t)p->x.size[0] * WORKSPACE;
}

/* A list as the real one gives: unusable entries stand before the right one. */
static cudnnStatus_t list_algorithms(const problem *p, int wanted, int *found,
                                     kas_cudnn_algo_perf *perf)
{
    const kas_cudnn_algo_perf list[] = {{.algo = 0, .determinism = 0, .math = KAS_CUDNN_FMA_MATH},
                                        {.algo = 7, .determinism = 1, .math = 1 /* tensor cores */},
                                        {.algo = 6,
                                         .determinism = 1,
                                         .math = KAS_CUDNN_FMA_MATH,
                                         .status = KAS_CUDNN_NOT_SUPPORTED},
                                        {.algo = ALGORITHM,
                                         .determinism = 1,
                                         .math = p->conv.math,
                                         .memory = workspace_of(p),
                                         .status = supported(p) ? 0 : KAS_CUDNN_NOT_SUPPORTED}};
    if (!shapes_fit(p))
        return KAS_CUDNN_BAD_PARAM;
    if (wanted < 4)
        sim_broken("fewer algorithms are asked for than there are");
    memcpy(perf, list, sizeof list);
    *found = 4;
    return KAS_CUDNN_SUCCESS;
}

static cudnnStatus_t workspace_size(const problem *p, int algo, size_t *bytes)
{
    if (!shapes_fit(p))
        return KAS_CUDNN_BAD_PARAM;
    if (algo != ALGORITHM || !supported(p))
        return KAS_CUDNN_NOT_SUPPORTED;
    *bytes = workspace_of(p);
    return KAS_CUDNN_SUCCESS;
}

cudnnStatus_t
cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t handle, cudnnTensorDescriptor_t x,
                                       cudnnFilterDescriptor_t w, cudnnConvolutionDescriptor_t conv,
                                       cudnnTensorDescriptor_t y, int wanted, int *found,
                                       cudnnConvolutionFwdAlgoPerf_t *results)
{
    DNN_CALL(cudnnGetConvolutionForwardAlgorithm_v7);
    (void)handle;
    return list_algorithms(&(problem){*x, *y, *w, *conv}, wanted, found, results);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t handle, cudnnFilterDescriptor_t w, cudnnTensorDescriptor_t dy,
    cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t dx, int wanted, int *found,
    cudnnConvolutionBwdDataAlgoPerf_t *results)
{
    DNN_CALL(cudnnGetConvolutionBackwardDataAlgorithm_v7);
    (void)handle;
    return list_algorithms(&(problem){*dx, *dy, *w, *conv}, wanted, found, results);
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t dy,
    cudnnConvolutionDescriptor_t conv, cudnnFilterDescriptor_t dw, int wanted, int *found,
    cudnnConvolutionBwdFilterAlgoPerf_t *results)
{
    DNN_CALL(cudnnGetConvolutionBackwardFilterAlgorithm_v7);
    (void)handle;
    return list_algorithms(&(problem){*x, *dy, *dw, *conv}, wanted, found, results);
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t handle,
                                                      cudnnTensorDescriptor_t x,
                                                      cudnnFilterDescriptor_t w,
                                                      cudnnConvolutionDescriptor_t conv,
                                                      cudnnTensorDescriptor_t y,
                                                      cudnnConvolutionFwdAlgo_t algo, size_t *bytes)
{
    DNN_CALL(cudnnGetConvolutionForwardWorkspaceSize);
    (void)handle;
    return workspace_size(&(problem){*x, *y, *w, *conv}, algo, bytes);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t handle, cudnnFilterDescriptor_t w, cudnnTensorDescriptor_t dy,
    cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t dx,
    cudnnConvolutionBwdDataAlgo_t algo, size_t *bytes)
{
    DNN_CALL(cudnnGetConvolutionBackwardDataWorkspaceSize);
    (void)handle;
    return workspace_size(&(problem){*dx, *dy, *w, *conv}, algo, bytes);
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t dy,
    cudnnConvolutionDescriptor_t conv, cudnnFilterDescriptor_t dw,
    cudnnConvolutionBwdFilterAlgo_t algo, size_t *bytes)
{
    DNN_CALL(cudnnGetConvolutionBackwardFilterWorkspaceSize);
    (void)handle;
    return workspace_size(&(problem){*x, *dy, *dw, *conv}, algo, bytes);
}

/* ---- the three passes ------------------------------------------------------------------------ */

typedef enum pass { FORWARD, DATA, FILTER } pass;
typedef struct job {
    problem p;
    pass pass;
    int device;
    float *x, *w, *y;
    void *workspace;
    size_t workspace_bytes;
} job;

static size_t tensor_bytes(const tensor *t)
{
    size_t last = 0;
    for (int i = 0; i < 4; i++)
        last += (size_t)(t->size[i] - 1) * (size_t)t->stride[i];
    return (last + 1) * sizeof(float);
}

static size_t filter_elements(const filter *w)
{
    return (size_t)w->k * (size_t)w->c * (size_t)w->h * (size_t)w->w;
}

static void check_job(const job *j)
{
    sim_check_range("a convolution's x", j->device, j->x, tensor_bytes(&j->p.x));
    sim_check_range("a convolution's y", j->device, j->y, tensor_bytes(&j->p.y));
    sim_check_range("a convolution's w", j->device, j->w, filter_elements(&j->p.w) * sizeof(float));
    sim_check_range("a convolution's workspace", j->device, j->workspace, j->workspace_bytes);
}

static size_t at(const tensor *t, int n, int c, int h, int w)
{
    return (size_t)n * (size_t)t->stride[0] + (size_t)c * (size_t)t->stride[1] +
           (size_t)h * (size_t)t->stride[2] + (size_t)w * (size_t)t->stride[3];
}

/* The channels of one tap: y[k] += x[c] w[k][c], or one of its two transposes.  Channels lie beside
 * each other (packed). */
static double one_tap(const job *j, double *sum, size_t x, size_t f, double dy)
{
    const float *xs = j->x + x, *ws = j->w + f;
    const int channels = j->p.w.c;
    double total = 0;
    if (j->pass == FORWARD)
        for (int c = 0; c < channels; c++)
            total += (double)xs[c] * ws[c];
    else if (j->pass == DATA)
        for (int c = 0; c < channels; c++)
            sum[x + (size_t)c] += dy * ws[c];
    else
        for (int c = 0; c < channels; c++)
            sum[f + (size_t)c] += dy * xs[c];
    return total;
}

static void one_output(const job *j, double *sum, int n, int k, int oh, int ow)
{
    const problem *p = &j->p;
    const filter *w = &p->w;
    const int first = k / (w->k / p->conv.groups) * w->c;
    const size_t y = at(&p->y, n, k, oh, ow);
    const double dy = j->pass == FORWARD ? 0 : j->y[y];
    double total = 0;
    for (int r = 0; r < w->h; r++)
        for (int s = 0; s < w->w; s++) {
            const int ih = oh * p->conv.stride_h + r * p->conv.dilation_h - p->conv.pad_h,
                      iw = ow * p->conv.stride_w + s * p->conv.dilation_w - p->conv.pad_w;
            if (ih < 0 || ih >= p->x.size[2] || iw < 0 || iw >= p->x.size[3])
                continue;
            total += one_tap(j, sum, at(&p->x, n, first, ih, iw),
                             (size_t)((k * w->h + r) * w->w + s) * (size_t)w->c, dy);
        }
    if (j->pass == FORWARD)
        j->y[y] = (float)total;
}

static void store(const job *j, const double *sum)
{
    const tensor *t = &j->p.x;
    if (j->pass == FILTER)
        for (size_t i = 0; i < filter_elements(&j->p.w); i++)
            j->w[i] = (float)sum[i];
    for (int n = 0; j->pass == DATA && n < t->size[0]; n++)
        for (int c = 0; c < t->size[1]; c++)
            for (int h = 0; h < t->size[2]; h++)
                for (int w = 0; w < t->size[3]; w++)
                    j->x[at(t, n, c, h, w)] = (float)sum[at(t, n, c, h, w)];
}

static void do_job(void *data)
{
    const job *j = data;
    check_job(j);
    memset(j->workspace, 0xA5, j->workspace_bytes);
    const size_t count = tensor_bytes(&j->p.x) / sizeof(float) + filter_elements(&j->p.w);
    double *sum = sim_new(count * sizeof *sum);
    for (int n = 0; n < j->p.y.size[0]; n++)
        for (int k = 0; k < j->p.y.size[1]; k++)
            for (int h = 0; h < j->p.y.size[2]; h++)
                for (int w = 0; w < j->p.y.size[3]; w++)
                    one_output(j, sum, n, k, h, w);
    store(j, sum);
    free(sum);
    sim_convolutions++;
}

static cudnnStatus_t queue_job(cudnnHandle_t handle, job j, const void *alpha, const void *beta,
                               int algo)
{
    if (*(const float *)alpha != 1.0f || *(const float *)beta != 0.0f || !shapes_fit(&j.p))
        return KAS_CUDNN_BAD_PARAM;
    if (algo != ALGORITHM || !supported(&j.p))
        return KAS_CUDNN_NOT_SUPPORTED;
    if (j.workspace_bytes < workspace_of(&j.p))
        return KAS_CUDNN_BAD_PARAM;
    if (!handle->stream)
        sim_broken("a convolution on the default stream");
    j.device = handle->device;
    check_job(&j);
    job *copy = sim_new(sizeof *copy);
    *copy = j;
    sim_enqueue(handle->stream, do_job, copy, sizeof *copy);
    return KAS_CUDNN_SUCCESS;
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void *alpha,
                                      cudnnTensorDescriptor_t x_desc, const void *x,
                                      cudnnFilterDescriptor_t w_desc, const void *w,
                                      cudnnConvolutionDescriptor_t conv,
                                      cudnnConvolutionFwdAlgo_t algo, void *workspace,
                                      size_t workspace_bytes, const void *beta,
                                      cudnnTensorDescriptor_t y_desc, void *y)
{
    SIM_CALL(cudnnConvolutionForward, KAS_CUDNN_EXECUTION_FAILED, KAS_CUDNN_EXECUTION_FAILED);
    return queue_job(handle,
                     (job){.p = {*x_desc, *y_desc, *w_desc, *conv},
                           .pass = FORWARD,
                           .x = (float *)x,
                           .w = (float *)w,
                           .y = y,
                           .workspace = workspace,
                           .workspace_bytes = workspace_bytes},
                     alpha, beta, algo);
}

cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void *alpha,
                                           cudnnFilterDescriptor_t w_desc, const void *w,
                                           cudnnTensorDescriptor_t dy_desc, const void *dy,
                                           cudnnConvolutionDescriptor_t conv,
                                           cudnnConvolutionBwdDataAlgo_t algo, void *workspace,
                                           size_t workspace_bytes, const void *beta,
                                           cudnnTensorDescriptor_t dx_desc, void *dx)
{
    SIM_CALL(cudnnConvolutionBackwardData, KAS_CUDNN_EXECUTION_FAILED, KAS_CUDNN_EXECUTION_FAILED);
    return queue_job(handle,
                     (job){.p = {*dx_desc, *dy_desc, *w_desc, *conv},
                           .pass = DATA,
                           .x = dx,
                           .w = (float *)w,
                           .y = (float *)dy,
                           .workspace = workspace,
                           .workspace_bytes = workspace_bytes},
                     alpha, beta, algo);
}

cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void *alpha,
                                             cudnnTensorDescriptor_t x_desc, const void *x,
                                             cudnnTensorDescriptor_t dy_desc, const void *dy,
                                             cudnnConvolutionDescriptor_t conv,
                                             cudnnConvolutionBwdFilterAlgo_t algo, void *workspace,
                                             size_t workspace_bytes, const void *beta,
                                             cudnnFilterDescriptor_t dw_desc, void *dw)
{
    SIM_CALL(cudnnConvolutionBackwardFilter, KAS_CUDNN_EXECUTION_FAILED,
             KAS_CUDNN_EXECUTION_FAILED);
    return queue_job(handle,
                     (job){.p = {*x_desc, *dy_desc, *dw_desc, *conv},
                           .pass = FILTER,
                           .x = (float *)x,
                           .w = dw,
                           .y = (float *)dy,
                           .workspace = workspace,
                           .workspace_bytes = workspace_bytes},
                     alpha, beta, algo);
}

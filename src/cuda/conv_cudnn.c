/* Convolutions on cuDNN 9 (its plain interface), channels-last float32. */
#include <stdlib.h>
#include <string.h>

#include "cuda/conv_cuda.h"

enum { MAX_ALGORITHMS = 16 };

struct kas_cudnn_conv {
    kas_conv_pass pass;
    cudnnTensorDescriptor_t x, y;
    cudnnFilterDescriptor_t w;
    cudnnConvolutionDescriptor_t conv;
    int algo; /* of the pass's own enum */
    size_t workspace_bytes;
};

static kas_status make_tensor(kas_cuda *cuda, int n, int c, int h, int w, int pitch,
                              cudnnTensorDescriptor_t *out)
{
    if ((int64_t)n * h * w * pitch > INT32_MAX)
        return kas_fail(KAS_UNSUPPORTED, "a tensor of 2^31 elements or more");
    KAS_TRY(KAS_CUDNN(cuda, cudnnCreateTensorDescriptor(out)));
    return KAS_CUDNN(cuda, cudnnSetTensor4dDescriptorEx(*out, KAS_CUDNN_DATA_FLOAT, n, c, h, w,
                                                        h * w * pitch, 1, w * pitch, pitch));
}

static kas_status describe(kas_cuda *cuda, const kas_conv_desc *d, kas_cudnn_conv *c)
{
    KAS_TRY(make_tensor(cuda, d->n, d->c_in, d->h, d->w, d->x_pitch, &c->x));
    KAS_TRY(
        make_tensor(cuda, d->n, d->c_out, kas_conv_out_h(d), kas_conv_out_w(d), d->y_pitch, &c->y));
    KAS_TRY(KAS_CUDNN(cuda, cudnnCreateFilterDescriptor(&c->w)));
    KAS_TRY(KAS_CUDNN(cuda, cudnnSetFilter4dDescriptor(c->w, KAS_CUDNN_DATA_FLOAT, KAS_CUDNN_NHWC,
                                                       d->c_out, d->c_in / d->groups, d->kernel_h,
                                                       d->kernel_w)));
    KAS_TRY(KAS_CUDNN(cuda, cudnnCreateConvolutionDescriptor(&c->conv)));
    const int dilation = kas_conv_dilation(d);
    KAS_TRY(KAS_CUDNN(cuda, cudnnSetConvolution2dDescriptor(
                                c->conv, d->pad_h, d->pad_w, d->stride, d->stride, dilation,
                                dilation, KAS_CUDNN_CROSS_CORRELATION, KAS_CUDNN_DATA_FLOAT)));
    KAS_TRY(KAS_CUDNN(cuda, cudnnSetConvolutionGroupCount(c->conv, d->groups)));
    return KAS_CUDNN(cuda, cudnnSetConvolutionMathType(c->conv, KAS_CUDNN_FMA_MATH));
}

/* cuDNN's ranking for the pass, best first. */
static kas_status rank(kas_cuda *cuda, const kas_cudnn_conv *c, kas_cudnn_algo_perf *perf,
                       int *found)
{
    switch (c->pass) {
    case KAS_CONV_FORWARD:
        return KAS_CUDNN(cuda, cudnnGetConvolutionForwardAlgorithm_v7(cuda->dnn_handle, c->x, c->w,
                                                                      c->conv, c->y, MAX_ALGORITHMS,
                                                                      found, perf));
    case KAS_CONV_BACKWARD_DATA:
        return KAS_CUDNN(
            cuda, cudnnGetConvolutionBackwardDataAlgorithm_v7(cuda->dnn_handle, c->w, c->y, c->conv,
                                                              c->x, MAX_ALGORITHMS, found, perf));
    default:
        return KAS_CUDNN(
            cuda, cudnnGetConvolutionBackwardFilterAlgorithm_v7(
                      cuda->dnn_handle, c->x, c->y, c->conv, c->w, MAX_ALGORITHMS, found, perf));
    }
}

/* Also the last word on whether an algorithm takes these tensors. */
static kas_status workspace_of(kas_cuda *cuda, const kas_cudnn_conv *c, int algo, size_t *bytes)
{
    switch (c->pass) {
    case KAS_CONV_FORWARD:
        return KAS_CUDNN(cuda, cudnnGetConvolutionForwardWorkspaceSize(cuda->dnn_handle, c->x, c->w,
                                                                       c->conv, c->y, algo, bytes));
    case KAS_CONV_BACKWARD_DATA:
        return KAS_CUDNN(cuda, cudnnGetConvolutionBackwardDataWorkspaceSize(
                                   cuda->dnn_handle, c->w, c->y, c->conv, c->x, algo, bytes));
    default:
        return KAS_CUDNN(cuda, cudnnGetConvolutionBackwardFilterWorkspaceSize(
                                   cuda->dnn_handle, c->x, c->y, c->conv, c->w, algo, bytes));
    }
}

static kas_status choose(kas_cuda *cuda, kas_cudnn_conv *c)
{
    kas_cudnn_algo_perf perf[MAX_ALGORITHMS];
    int found = 0;
    memset(perf, 0, sizeof perf);
    KAS_TRY(rank(cuda, c, perf, &found));
    for (int i = 0; i < found; i++) {
        size_t bytes = 0;
        if (perf[i].status != KAS_CUDNN_SUCCESS || perf[i].determinism != KAS_CUDNN_DETERMINISTIC ||
            perf[i].math != KAS_CUDNN_FMA_MATH)
            continue;
        kas_status status = workspace_of(cuda, c, perf[i].algo, &bytes);
        if (status == KAS_UNSUPPORTED || (status == KAS_OK && bytes > KAS_CUDA_MAX_WORKSPACE))
            continue;
        KAS_TRY(status);
        c->algo = perf[i].algo;
        c->workspace_bytes = bytes;
        return kas_cuda_reserve_workspace(cuda, bytes);
    }
    return kas_fail(KAS_UNSUPPORTED,
                    "cuDNN has no deterministic float32 algorithm for these sizes");
}

/* Descriptors that cuDNN calls a bad parameter are sizes beyond its limits: the caller's sizes were
 * checked before. */
static kas_status refuse_bad_parameters(kas_status status)
{
    return status == KAS_DEVICE && strstr(kas_error(), "BAD_PARAM") ? KAS_UNSUPPORTED : status;
}

kas_status kas_cudnn_conv_create(kas_cuda *cuda, const kas_conv_desc *desc, kas_conv_pass pass,
                                 kas_cudnn_conv **out)
{
    kas_status status;
    if (!cuda->dnn_handle)
        return kas_fail(KAS_UNSUPPORTED, "no cuDNN");
    kas_cudnn_conv *c = calloc(1, sizeof *c);
    if (!c)
        return kas_fail(KAS_NO_MEMORY, "no memory for a convolution");
    c->pass = pass;
    KAS_TRY_GOTO(describe(cuda, desc, c), failed);
    KAS_TRY_GOTO(choose(cuda, c), failed);
    *out = c;
    return KAS_OK;
failed:
    kas_cudnn_conv_free(cuda, c);
    return refuse_bad_parameters(status);
}

void kas_cudnn_conv_free(kas_cuda *cuda, kas_cudnn_conv *c)
{
    if (!c)
        return;
    if (c->conv)
        cuda->dnn->cudnnDestroyConvolutionDescriptor(c->conv);
    if (c->w)
        cuda->dnn->cudnnDestroyFilterDescriptor(c->w);
    if (c->y)
        cuda->dnn->cudnnDestroyTensorDescriptor(c->y);
    if (c->x)
        cuda->dnn->cudnnDestroyTensorDescriptor(c->x);
    free(c);
}

kas_status kas_cudnn_conv_run(kas_cuda *cuda, const kas_cudnn_conv *c, void *x, void *w, void *y)
{
    static const float one = 1.0f, zero = 0.0f;
    void *workspace = (void *)(uintptr_t)cuda->workspace;
    switch (c->pass) {
    case KAS_CONV_FORWARD:
        return KAS_CUDNN(cuda, cudnnConvolutionForward(cuda->dnn_handle, &one, c->x, x, c->w, w,
                                                       c->conv, c->algo, workspace,
                                                       c->workspace_bytes, &zero, c->y, y));
    case KAS_CONV_BACKWARD_DATA:
        return KAS_CUDNN(cuda, cudnnConvolutionBackwardData(cuda->dnn_handle, &one, c->w, w, c->y,
                                                            y, c->conv, c->algo, workspace,
                                                            c->workspace_bytes, &zero, c->x, x));
    default:
        return KAS_CUDNN(cuda, cudnnConvolutionBackwardFilter(cuda->dnn_handle, &one, c->x, x, c->y,
                                                              y, c->conv, c->algo, workspace,
                                                              c->workspace_bytes, &zero, c->w, w));
    }
}

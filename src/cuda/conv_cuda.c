/* Convolutions on the CUDA device: which of the three ways each pass takes. */
#include <stdlib.h>

#include "cuda/conv_cuda.h"
#include "cuda/tuning.h"
#include "host/core/log.h"

struct kas_conv {
    kas_device *device;
    kas_conv_desc desc;
    kas_matmul *matmul[3]; /* by pass; at most one of matmul and cudnn */
    kas_matmul *biased[3]; /* beside `matmul`: with a bias as its epilogue */
    kas_cudnn_conv *cudnn[3];
    kas_direct direct;
};

static kas_status open_cublaslt(kas_cuda *cuda)
{
    kas_status status = kas_cublaslt_load(&cuda->lt);
    if (status == KAS_UNSUPPORTED) {
        kas_warn("%s; 1x1 convolutions will be slower", kas_error());
        return KAS_OK;
    }
    KAS_TRY(status);
    return KAS_LT(cuda, cublasLtCreate(&cuda->lt_handle));
}

static kas_status open_cudnn(kas_cuda *cuda)
{
    kas_status status = kas_cudnn_load(&cuda->dnn);
    if (status == KAS_UNSUPPORTED) {
        kas_warn("%s; convolutions will be slower", kas_error());
        return KAS_OK;
    }
    KAS_TRY(status);
    KAS_TRY(KAS_CUDNN(cuda, cudnnCreate(&cuda->dnn_handle)));
    status = KAS_CUDNN(cuda, cudnnSetStream(cuda->dnn_handle, cuda->stream));
    if (status != KAS_OK) { /* a handle that is kept is one on our stream */
        cuda->dnn->cudnnDestroy(cuda->dnn_handle);
        cuda->dnn_handle = NULL;
    }
    return status;
}

static kas_status open_libraries(kas_cuda *cuda)
{
    if (cuda->libraries_tried)
        return KAS_OK;
    if (!cuda->lt_handle)
        KAS_TRY(open_cublaslt(cuda));
    if (!cuda->dnn_handle)
        KAS_TRY(open_cudnn(cuda));
    cuda->libraries_tried = true;
    return KAS_OK;
}

static bool is_matmul(const kas_conv_desc *d)
{
    return d->kernel_h == 1 && d->kernel_w == 1 && d->stride == 1 && d->pad_h == 0 && d->pad_w == 0;
}

static kas_status create_pass(kas_cuda *cuda, kas_conv *conv, kas_conv_pass pass)
{
    kas_status status = KAS_UNSUPPORTED;
    if (is_matmul(&conv->desc))
        status = kas_matmul_create(cuda, &conv->desc, pass, false, &conv->matmul[pass]);
    if (status == KAS_UNSUPPORTED)
        status = kas_cudnn_conv_create(cuda, &conv->desc, pass, &conv->cudnn[pass]);
    if (status == KAS_UNSUPPORTED) {
        kas_debug("convolution %d -> %d, %dx%d, groups %d, pass %d: own kernel (%s)",
                  conv->desc.c_in, conv->desc.c_out, conv->desc.kernel_h, conv->desc.kernel_w,
                  conv->desc.groups, (int)pass, kas_error());
        return KAS_OK;
    }
    return status;
}

kas_status kas_cuda_conv_create(kas_device *device, const kas_conv_desc *desc, kas_conv **out)
{
    kas_cuda *cuda = (kas_cuda *)device;
    kas_status status;
    KAS_TRY(kas_cuda_enter(cuda));
    KAS_TRY(open_libraries(cuda));
    kas_conv *conv = calloc(1, sizeof *conv);
    if (!conv)
        return kas_fail(KAS_NO_MEMORY, "no memory for a convolution");
    conv->device = device;
    conv->desc = *desc;
    /* Always: a library may refuse at the last moment, when nothing may be allocated any more. */
    KAS_TRY_GOTO(kas_direct_create(cuda, desc, &conv->direct), failed);
    for (int pass = 0; pass < 3; pass++)
        KAS_TRY_GOTO(create_pass(cuda, conv, (kas_conv_pass)pass), failed);
    *out = conv;
    return KAS_OK;
failed:
    kas_cuda_conv_free(conv);
    return status;
}

void kas_cuda_conv_free(kas_conv *conv)
{
    kas_cuda *cuda = (kas_cuda *)conv->device;
    kas_cuda_wait_to_free(cuda); /* plans may own modules whose kernels run */
    for (int pass = 0; pass < 3; pass++) {
        kas_matmul_free(cuda, conv->matmul[pass]);
        kas_matmul_free(cuda, conv->biased[pass]);
        kas_cudnn_conv_free(cuda, conv->cudnn[pass]);
    }
    free(conv);
}

void kas_cuda_conv_bytes(const kas_conv *conv, size_t bytes[3])
{
    kas_tuned_bytes(&conv->desc, bytes);
}

kas_status kas_cuda_conv_add_bias(kas_conv *conv)
{
    kas_cuda *cuda = (kas_cuda *)conv->device;
    KAS_TRY(kas_cuda_enter(cuda));
    for (int pass = 0; pass < 3; pass++) {
        if (!conv->matmul[pass] || conv->biased[pass])
            continue;
        const kas_status status =
            kas_matmul_create(cuda, &conv->desc, (kas_conv_pass)pass, true, &conv->biased[pass]);
        if (kas_cuda_is_refusal(cuda, status))
            kas_debug("no bias beside the products of pass %d: %s", pass, kas_error());
        else
            KAS_TRY(status);
    }
    return KAS_OK;
}

bool kas_cuda_conv_takes_bias(const kas_conv *conv, kas_conv_pass pass, const void *x,
                              const void *w, const void *y, const void *bias)
{
    return conv->biased[pass] && kas_matmul_takes(x, w, y, bias);
}

kas_status kas_cuda_conv_run(kas_conv *conv, kas_conv_pass pass, void *x, void *w, void *y,
                             void *bias)
{
    kas_cuda *cuda = (kas_cuda *)conv->device;
    kas_status status = KAS_UNSUPPORTED;
    if (bias) /* the caller asked before whether it is taken */
        return kas_matmul_run(cuda, conv->biased[pass], x, w, y, bias);
    if (conv->matmul[pass])
        status = kas_matmul_run(cuda, conv->matmul[pass], x, w, y, NULL);
    else if (conv->cudnn[pass])
        status = kas_cudnn_conv_run(cuda, conv->cudnn[pass], x, w, y);
    if (status != KAS_UNSUPPORTED)
        return status;
    return kas_direct_run(cuda, &conv->direct, &conv->desc, pass, x, w, y);
}

/* Convolutions on the CUDA device: chooses one of the three ways for each pass. */
#include <stdlib.h>

#include "cuda/conv_cuda.h"
#include "cuda/tuning.h"
#include "host/core/log.h"

/* The way of a pass: at most one of the two; none means our own kernels, with nothing
 * beside the pass. */
typedef struct way {
    bool tried;
    kas_matmul *matmul;
    kas_cudnn_conv *cudnn;
} way;

struct kas_conv {
    kas_device *device;
    kas_conv_desc desc;
    way plain[3], biased[3];      /* by pass */
    way fused[KAS_EPILOGUES_MAX]; /* forward passes, by their epilogue */
    kas_direct direct;
    bool has_direct; /* our kernels take its sizes */
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
    status = KAS_CUDNN(cuda, cudnnCreate(&cuda->dnn_handle));
    /* A part of it may be missing, or for another CUDA. */
    if (status == KAS_DEVICE || status == KAS_UNSUPPORTED) {
        kas_warn("%s: cuDNN cannot be used, and convolutions will be slower: %s",
                 cuda->dnn->library.path, kas_error());
        cuda->dnn_handle = NULL;
        return KAS_OK;
    }
    KAS_TRY(status);
    status = KAS_CUDNN(cuda, cudnnSetStream(cuda->dnn_handle, cuda->stream));
    if (status != KAS_OK) { /* a handle that is kept must be on our stream */
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

static kas_status make_way(kas_conv *conv, kas_conv_pass pass, kas_conv_beside beside, way *out)
{
    kas_cuda *cuda = (kas_cuda *)conv->device;
    kas_status status = KAS_UNSUPPORTED;
    out->tried = true;
    if (is_matmul(&conv->desc))
        status = kas_matmul_create(cuda, &conv->desc, pass, beside, &out->matmul);
    if (kas_cuda_is_refusal(cuda, status))
        status = kas_cudnn_conv_create(cuda, &conv->desc, pass, beside, &out->cudnn);
    return status;
}

static void free_way(kas_cuda *cuda, way *way)
{
    kas_matmul_free(cuda, way->matmul);
    kas_cudnn_conv_free(cuda, way->cudnn);
}

static kas_status run_way(kas_cuda *cuda, const way *way, const kas_conv_operands *o)
{
    if (way->matmul)
        return kas_matmul_run(cuda, way->matmul, o);
    return way->cudnn ? kas_cudnn_conv_run(cuda, way->cudnn, o) : KAS_UNSUPPORTED;
}

static bool takes(const way *way, const kas_conv_operands *o)
{
    return (way->matmul || way->cudnn) && kas_conv_operands_are_aligned(o);
}

/* A library may refuse at the last moment, when nothing may be allocated any more: so our kernels are
 * prepared where they take the sizes. The others are the libraries' alone, such as a product whose weights
 * are many images. */
static kas_status prepare_direct(kas_conv *conv)
{
    const kas_status status =
        kas_direct_create((kas_cuda *)conv->device, &conv->desc, &conv->direct);
    conv->has_direct = status == KAS_OK;
    return status == KAS_UNSUPPORTED ? KAS_OK : status;
}

static kas_status make_pass(kas_conv *conv, kas_conv_pass pass)
{
    kas_cuda *cuda = (kas_cuda *)conv->device;
    const kas_status status = make_way(conv, pass, (kas_conv_beside){false}, &conv->plain[pass]);
    if (!kas_cuda_is_refusal(cuda, status))
        return status;
    kas_debug("convolution %d -> %d, %dx%d, groups %d, pass %d: own kernel (%s)", conv->desc.c_in,
              conv->desc.c_out, conv->desc.kernel_h, conv->desc.kernel_w, conv->desc.groups,
              (int)pass, kas_error());
    if (conv->has_direct)
        return KAS_OK;
    return kas_direct_create(cuda, &conv->desc, &conv->direct); /* says why */
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
    KAS_TRY_GOTO(prepare_direct(conv), failed);
    for (int pass = 0; pass < 3; pass++)
        if (kas_conv_uses(desc, (kas_conv_pass)pass))
            KAS_TRY_GOTO(make_pass(conv, (kas_conv_pass)pass), failed);
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
        free_way(cuda, &conv->plain[pass]);
        free_way(cuda, &conv->biased[pass]);
    }
    for (int i = 0; i < KAS_EPILOGUES_MAX; i++)
        free_way(cuda, &conv->fused[i]);
    free(conv);
}

/* ---- what is beside a pass ------------------------------------------------------------------- */

bool kas_conv_operands_are_aligned(const kas_conv_operands *o)
{
    return ((uintptr_t)o->x | (uintptr_t)o->w | (uintptr_t)o->y | (uintptr_t)o->bias |
            (uintptr_t)o->residual) %
               KAS_CONV_ALIGNMENT ==
           0;
}

/* Asks the library once: what was refused is refused again. */
static kas_status add(kas_conv *conv, kas_conv_pass pass, kas_conv_beside beside, way *way)
{
    kas_cuda *cuda = (kas_cuda *)conv->device;
    if (way->tried)
        return KAS_OK;
    const kas_status status = make_way(conv, pass, beside, way);
    if (!kas_cuda_is_refusal(cuda, status))
        return status;
    kas_debug("pass %d: nothing is fused with it: %s", (int)pass, kas_error());
    return KAS_OK;
}

kas_status kas_cuda_conv_add_bias(kas_conv *conv)
{
    static const kas_conv_pass passes[] = {KAS_CONV_FORWARD, KAS_CONV_BACKWARD_WEIGHTS};
    KAS_TRY(kas_cuda_enter((kas_cuda *)conv->device));
    for (int i = 0; i < 2; i++)
        if (kas_conv_uses(&conv->desc, passes[i]))
            KAS_TRY(
                add(conv, passes[i], (kas_conv_beside){.bias = true}, &conv->biased[passes[i]]));
    return KAS_OK;
}

bool kas_cuda_conv_takes_bias(const kas_conv *conv, kas_conv_pass pass, const void *x,
                              const void *w, const void *y, const void *bias)
{
    const kas_conv_operands o = {.x = (void *)(uintptr_t)x,
                                 .w = (void *)(uintptr_t)w,
                                 .y = (void *)(uintptr_t)y,
                                 .bias = (void *)(uintptr_t)bias};
    return takes(&conv->biased[pass], &o);
}

static int index_of(kas_conv_epilogue epilogue)
{
    return (epilogue.residual ? KAS_EPILOGUES_MAX / 2 : 0) + (int)epilogue.activation;
}

kas_status kas_cuda_conv_add_epilogue(kas_conv *conv, kas_conv_epilogue epilogue)
{
    const kas_conv_beside beside = {
        .bias = true, .residual = epilogue.residual, .activation = epilogue.activation};
    KAS_TRY(kas_cuda_enter((kas_cuda *)conv->device));
    return add(conv, KAS_CONV_FORWARD, beside, &conv->fused[index_of(epilogue)]);
}

bool kas_cuda_conv_takes_epilogue(const kas_conv *conv, kas_conv_epilogue epilogue,
                                  const kas_conv_call *call)
{
    const kas_conv_operands o = {.x = (void *)(uintptr_t)call->x,
                                 .w = (void *)(uintptr_t)call->w,
                                 .y = call->y,
                                 .bias = (void *)(uintptr_t)call->bias_rounded,
                                 .residual = call->residual};
    return takes(&conv->fused[index_of(epilogue)], &o);
}

/* ---- running --------------------------------------------------------------------------------- */

/* Runs a pass. The caller has asked before whether what is beside it is taken. */
kas_status kas_cuda_conv_run(const kas_step *step)
{
    kas_conv *conv = step->conv;
    kas_cuda *cuda = (kas_cuda *)conv->device;
    kas_conv_operands o = {.x = step->x, .w = step->w, .y = step->y, .bias = step->bias};
    if (step->fused) {
        o.bias = (void *)(uintptr_t)step->bias_rounded;
        o.residual = step->residual;
        return run_way(cuda, &conv->fused[index_of(step->epilogue)], &o);
    }
    if (step->bias)
        return run_way(cuda, &conv->biased[step->pass], &o);
    const kas_status status = run_way(cuda, &conv->plain[step->pass], &o);
    if (status != KAS_UNSUPPORTED || !conv->has_direct)
        return status;
    return kas_direct_run(cuda, &conv->direct, &conv->desc, step->pass, &o, KAS_ACTIVATION_NONE);
}

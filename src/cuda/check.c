/* Results of NVIDIA's libraries as statuses and messages. */
#include <stdio.h>
#include <string.h>

#include "cuda/cuda.h"

/* Returns whether only a new process can use the GPU after this error (CUDA driver API,
 * "CUresult": "this leaves the process in an inconsistent state and any further CUDA work will
 * return the same error"). */
static bool is_sticky(CUresult result)
{
    switch ((int)result) {
    case KAS_CUDA_ERROR_ECC_UNCORRECTABLE:
    case KAS_CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case KAS_CUDA_ERROR_CONTAINED:
    case KAS_CUDA_ERROR_ILLEGAL_ADDRESS:
    case KAS_CUDA_ERROR_LAUNCH_TIMEOUT:
    case KAS_CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case KAS_CUDA_ERROR_ASSERT:
    case KAS_CUDA_ERROR_HARDWARE_STACK_ERROR:
    case KAS_CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case KAS_CUDA_ERROR_MISALIGNED_ADDRESS:
    case KAS_CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case KAS_CUDA_ERROR_INVALID_PC:
    case KAS_CUDA_ERROR_LAUNCH_FAILED:
    case KAS_CUDA_ERROR_TENSOR_MEMORY_LEAK:
    case KAS_CUDA_ERROR_MPS_CLIENT_TERMINATED:
    case KAS_CUDA_ERROR_EXTERNAL_DEVICE:
    case KAS_CUDA_ERROR_UNKNOWN:
        return true;
    default:
        return false;
    }
}

static kas_status lose(kas_cuda *cuda)
{
    cuda->lost = true;
    snprintf(cuda->lost_message, sizeof cuda->lost_message, "%.*s",
             (int)sizeof cuda->lost_message - 1, kas_error());
    return KAS_DEVICE_LOST;
}

kas_status kas_cuda_check(kas_cuda *cuda, CUresult result, const char *statement, const char *file,
                          int line)
{
    if (result == KAS_CUDA_SUCCESS)
        return KAS_OK;
    const char *text = NULL, *name = NULL;
    cuda->driver->cuGetErrorString(result, &text);
    cuda->driver->cuGetErrorName(result, &name);
    kas_status status = result == KAS_CUDA_ERROR_OUT_OF_MEMORY ? KAS_NO_MEMORY : KAS_DEVICE;
    kas_fail(status, "%s: %s (%s, error %d) in %s at %s:%d", cuda->base.info.name,
             text ? text : "unknown error", name ? name : "?", (int)result, statement,
             basename(file), line);
    return is_sticky(result) ? lose(cuda) : status;
}

/* Asks the stream whether the context is dead, because a library says only that something
 * failed. */
static kas_status after_library_failure(kas_cuda *cuda, kas_status status)
{
    if (!cuda->stream)
        return status;
    CUresult result = cuda->driver->cuStreamSynchronize(cuda->stream);
    return is_sticky(result) ? lose(cuda) : status;
}

bool kas_cuda_is_refusal(const kas_cuda *cuda, kas_status status)
{
    return status == KAS_UNSUPPORTED || (status == KAS_DEVICE && !cuda->lost);
}

kas_status kas_cuda_check_lt(kas_cuda *cuda, cublasStatus_t result, const char *statement,
                             const char *file, int line)
{
    if (result == KAS_CUBLAS_SUCCESS)
        return KAS_OK;
    kas_status status = KAS_DEVICE;
    if (result == KAS_CUBLAS_ALLOC_FAILED)
        status = KAS_NO_MEMORY;
    else if (result == KAS_CUBLAS_NOT_SUPPORTED || result == KAS_CUBLAS_ARCH_MISMATCH)
        status = KAS_UNSUPPORTED;
    kas_fail(status, "%s: %s in %s at %s:%d", cuda->base.info.name,
             cuda->lt->cublasLtGetStatusString(result), statement, basename(file), line);
    return status == KAS_DEVICE ? after_library_failure(cuda, status) : status;
}

kas_status kas_cuda_check_dnn(kas_cuda *cuda, cudnnStatus_t result, const char *statement,
                              const char *file, int line)
{
    if (result == KAS_CUDNN_SUCCESS)
        return KAS_OK;
    /* cuDNN 9 numbers errors by kind: 3xxx means not supported; 4xxx and 5xxx are failures. A library
     * that is missing, such as NVRTC, may be there another time. */
    kas_status status = KAS_DEVICE;
    const bool unsupported = (int)result / 1000 == KAS_CUDNN_NOT_SUPPORTED / 1000 &&
                             result != KAS_CUDNN_PREREQUISITE_MISSING;
    if (unsupported || result == KAS_CUDNN_COMPILATION_FAILED)
        status = KAS_UNSUPPORTED;
    else if (result == KAS_CUDNN_ALLOCATION_FAILED || result == KAS_CUDNN_DEVICE_ALLOCATION_FAILED)
        status = KAS_NO_MEMORY;
    char words[256] = "";
    cuda->dnn->cudnnGetLastErrorString(words, sizeof words);
    kas_fail(status, "%s: %s%s%s in %s at %s:%d", cuda->base.info.name,
             cuda->dnn->cudnnGetErrorString(result), words[0] ? ": " : "", words, statement,
             basename(file), line);
    return status == KAS_DEVICE ? after_library_failure(cuda, status) : status;
}

/* src/cuda/cuda_api.h against NVIDIA's own headers, where they are installed: every prototype, size
 * and constant, at compile time.  A header that is missing is reported as skipped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#if __has_include(<cuda.h>) && __has_include(<nvrtc.h>) && __has_include(<cublasLt.h>) &&          \
    __has_include(<cudnn.h>) && __has_include(<nccl.h>)
#define HAVE_HEADERS 1
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include <cuda.h>
#include <nvrtc.h>
#include <cublasLt.h>
#include <cudnn.h>
#include <nccl.h>
#define KAS_CUDA_REAL_HEADERS
#include "cuda/cuda_api.h"

#define SAME_PROTOTYPE(name, result, parameters)                                                   \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&name), result(*) parameters), #name);
KAS_DRIVER_FUNCTIONS(SAME_PROTOTYPE)
KAS_NVRTC_FUNCTIONS(SAME_PROTOTYPE)
KAS_CUBLASLT_FUNCTIONS(SAME_PROTOTYPE)
KAS_CUDNN_FUNCTIONS(SAME_PROTOTYPE)
KAS_NCCL_FUNCTIONS(SAME_PROTOTYPE)

#define SAME(ours, theirs) _Static_assert((long long)(ours) == (long long)(theirs), #ours)
SAME(KAS_CUDA_SUCCESS, CUDA_SUCCESS);
SAME(KAS_CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE);
SAME(KAS_CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME(KAS_CUDA_ERROR_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED);
SAME(KAS_CUDA_ERROR_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
SAME(KAS_CUDA_ERROR_INVALID_DEVICE, CUDA_ERROR_INVALID_DEVICE);
SAME(KAS_CUDA_ERROR_INVALID_IMAGE, CUDA_ERROR_INVALID_IMAGE);
SAME(KAS_CUDA_ERROR_ECC_UNCORRECTABLE, CUDA_ERROR_ECC_UNCORRECTABLE);
SAME(KAS_CUDA_ERROR_NVLINK_UNCORRECTABLE, CUDA_ERROR_NVLINK_UNCORRECTABLE);
SAME(KAS_CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_INVALID_HANDLE);
SAME(KAS_CUDA_ERROR_NOT_FOUND, CUDA_ERROR_NOT_FOUND);
SAME(KAS_CUDA_ERROR_NOT_READY, CUDA_ERROR_NOT_READY);
SAME(KAS_CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_ILLEGAL_ADDRESS);
SAME(KAS_CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
SAME(KAS_CUDA_ERROR_LAUNCH_TIMEOUT, CUDA_ERROR_LAUNCH_TIMEOUT);
SAME(KAS_CUDA_ERROR_CONTEXT_IS_DESTROYED, CUDA_ERROR_CONTEXT_IS_DESTROYED);
SAME(KAS_CUDA_ERROR_ASSERT, CUDA_ERROR_ASSERT);
SAME(KAS_CUDA_ERROR_HARDWARE_STACK_ERROR, CUDA_ERROR_HARDWARE_STACK_ERROR);
SAME(KAS_CUDA_ERROR_ILLEGAL_INSTRUCTION, CUDA_ERROR_ILLEGAL_INSTRUCTION);
SAME(KAS_CUDA_ERROR_MISALIGNED_ADDRESS, CUDA_ERROR_MISALIGNED_ADDRESS);
SAME(KAS_CUDA_ERROR_INVALID_ADDRESS_SPACE, CUDA_ERROR_INVALID_ADDRESS_SPACE);
SAME(KAS_CUDA_ERROR_INVALID_PC, CUDA_ERROR_INVALID_PC);
SAME(KAS_CUDA_ERROR_LAUNCH_FAILED, CUDA_ERROR_LAUNCH_FAILED);
SAME(KAS_CUDA_ERROR_UNKNOWN, CUDA_ERROR_UNKNOWN);
SAME(KAS_CU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME(KAS_CU_EVENT_DEFAULT, CU_EVENT_DEFAULT);
SAME(KAS_CU_DEVICE_MAX_THREADS_PER_BLOCK, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME(KAS_CU_DEVICE_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(KAS_CU_DEVICE_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(KAS_CU_DEVICE_MULTIPROCESSORS, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(KAS_NVRTC_SUCCESS, NVRTC_SUCCESS);
SAME(KAS_NVRTC_ERROR_OUT_OF_MEMORY, NVRTC_ERROR_OUT_OF_MEMORY);
SAME(KAS_NVRTC_ERROR_COMPILATION, NVRTC_ERROR_COMPILATION);
SAME(KAS_CUBLAS_SUCCESS, CUBLAS_STATUS_SUCCESS);
SAME(KAS_CUBLAS_ALLOC_FAILED, CUBLAS_STATUS_ALLOC_FAILED);
SAME(KAS_CUBLAS_INVALID_VALUE, CUBLAS_STATUS_INVALID_VALUE);
SAME(KAS_CUBLAS_ARCH_MISMATCH, CUBLAS_STATUS_ARCH_MISMATCH);
SAME(KAS_CUBLAS_EXECUTION_FAILED, CUBLAS_STATUS_EXECUTION_FAILED);
SAME(KAS_CUBLAS_NOT_SUPPORTED, CUBLAS_STATUS_NOT_SUPPORTED);
SAME(KAS_CUDA_R_32F, CUDA_R_32F);
SAME(KAS_CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F);
SAME(KAS_CUBLAS_OP_N, CUBLAS_OP_N);
SAME(KAS_CUBLAS_OP_T, CUBLAS_OP_T);
SAME(KAS_LT_DESC_TRANSA, CUBLASLT_MATMUL_DESC_TRANSA);
SAME(KAS_LT_DESC_TRANSB, CUBLASLT_MATMUL_DESC_TRANSB);
SAME(KAS_LT_LAYOUT_BATCH_COUNT, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
SAME(KAS_LT_LAYOUT_STRIDED_BATCH_OFFSET, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
SAME(KAS_LT_PREFERENCE_MAX_WORKSPACE, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
SAME(KAS_LT_PREFERENCE_ALIGNMENT_A, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
SAME(KAS_LT_PREFERENCE_ALIGNMENT_B, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
SAME(KAS_LT_PREFERENCE_ALIGNMENT_C, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
SAME(KAS_LT_PREFERENCE_ALIGNMENT_D, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
SAME(KAS_CUDNN_SUCCESS, CUDNN_STATUS_SUCCESS);
SAME(KAS_CUDNN_BAD_PARAM, CUDNN_STATUS_BAD_PARAM);
SAME(KAS_CUDNN_NOT_SUPPORTED, CUDNN_STATUS_NOT_SUPPORTED);
SAME(KAS_CUDNN_ALLOCATION_FAILED, CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED);
SAME(KAS_CUDNN_DEVICE_ALLOCATION_FAILED, CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED);
SAME(KAS_CUDNN_EXECUTION_FAILED, CUDNN_STATUS_EXECUTION_FAILED);
SAME(KAS_CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT);
SAME(KAS_CUDNN_NHWC, CUDNN_TENSOR_NHWC);
SAME(KAS_CUDNN_CROSS_CORRELATION, CUDNN_CROSS_CORRELATION);
SAME(KAS_CUDNN_FMA_MATH, CUDNN_FMA_MATH);
SAME(KAS_CUDNN_DETERMINISTIC, CUDNN_DETERMINISTIC);
SAME(KAS_NCCL_SUCCESS, ncclSuccess);

/* One struct of ours stands for three of cuDNN's. */
#define SAME_FIELD(theirs, ours, name)                                                             \
    SAME(offsetof(kas_cudnn_algo_perf, ours), offsetof(theirs, name));                             \
    SAME(sizeof(((kas_cudnn_algo_perf *)0)->ours), sizeof(((theirs *)0)->name))
#define SAME_PERF(theirs)                                                                          \
    SAME(sizeof(kas_cudnn_algo_perf), sizeof(theirs));                                             \
    SAME_FIELD(theirs, algo, algo);                                                                \
    SAME_FIELD(theirs, status, status);                                                            \
    SAME_FIELD(theirs, memory, memory);                                                            \
    SAME_FIELD(theirs, determinism, determinism);                                                  \
    SAME_FIELD(theirs, math, mathType)
SAME_PERF(cudnnConvolutionFwdAlgoPerf_t);
SAME_PERF(cudnnConvolutionBwdDataAlgoPerf_t);
SAME_PERF(cudnnConvolutionBwdFilterAlgoPerf_t);
#else
#include "cuda/cuda_api.h"
#endif

/* What cuda_api.h lays out itself, by numbers, so that it is checked without the headers too. */
_Static_assert(sizeof(cublasLtMatmulAlgo_t) == 64, "cublasLtMatmulAlgo_t");
_Static_assert(sizeof(cublasLtMatmulHeuristicResult_t) == 96, "cublasLtMatmulHeuristicResult_t");
_Static_assert(offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize) == 64, "workspaceSize");
_Static_assert(offsetof(cublasLtMatmulHeuristicResult_t, state) == 72, "state");
_Static_assert(sizeof(CUdeviceptr) == 8, "CUdeviceptr");

static void declarations_agree_with_the_headers(void **state)
{
    (void)state;
#ifdef HAVE_HEADERS
    printf("compared at compile time with CUDA %d, cuDNN %d, NCCL %d\n", CUDA_VERSION,
           (int)CUDNN_VERSION, NCCL_VERSION_CODE);
#else
    printf("SKIPPED: NVIDIA's headers are not installed: src/cuda/cuda_api.h was not compared\n");
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(declarations_agree_with_the_headers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

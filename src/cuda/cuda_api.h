/* The part of NVIDIA's C interfaces that kas-gpu uses, declared by hand.
 *
 * Why by hand: kas-gpu must build on a machine without any CUDA header, and the same binary must
 * use the GPU of the next machine (docs/design.md, decision 2).  Only what is called stands here:
 * types by NVIDIA's names, constants with KAS_ in front, and one list of functions per library,
 * from which library.h makes its tables.  tests/unit/test_cuda_api.c compares every prototype, size
 * and constant with the real headers where they are installed; it defines KAS_CUDA_REAL_HEADERS, so
 * that the types below are NVIDIA's own there.
 *
 * The driver interface (libcuda.so.1, part of the driver) takes the place of the runtime's: it is
 * one library fewer to find, has one soname for all versions, and kernels are launched from loaded
 * images anyway.  Functions with a version suffix are listed by their symbol. */
#ifndef KAS_CUDA_CUDA_API_H
#define KAS_CUDA_CUDA_API_H

#include <stddef.h>
#include <stdint.h>

/* cuDNN has one struct for each pass of a convolution, alike but for the enum of `algo`. */
typedef struct kas_cudnn_algo_perf {
    int algo, status;
    float time;
    size_t memory;
    int determinism, math, reserved[3];
} kas_cudnn_algo_perf;

#ifndef KAS_CUDA_REAL_HEADERS
typedef int CUresult, CUdevice, CUdevice_attribute;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef int CUstreamCaptureMode;
typedef int CUfunction_attribute;

typedef int nvrtcResult;
typedef struct _nvrtcProgram *nvrtcProgram;

typedef int cublasStatus_t, cublasComputeType_t, cudaDataType;
typedef int cublasLtMatmulDescAttributes_t, cublasLtMatrixLayoutAttribute_t;
typedef int cublasLtMatmulPreferenceAttributes_t;
typedef struct cublasLtContext *cublasLtHandle_t;
typedef struct cublasLtMatmulDescOpaque_s *cublasLtMatmulDesc_t;
typedef struct cublasLtMatrixLayoutOpaque_s *cublasLtMatrixLayout_t;
typedef struct cublasLtMatmulPreferenceOpaque_s *cublasLtMatmulPreference_t;
typedef struct {
    uint64_t data[8];
} cublasLtMatmulAlgo_t;
typedef struct {
    cublasLtMatmulAlgo_t algo;
    size_t workspaceSize;
    cublasStatus_t state;
    float wavesCount;
    int reserved[4];
} cublasLtMatmulHeuristicResult_t;

typedef int cudnnStatus_t, cudnnTensorFormat_t, cudnnDataType_t, cudnnMathType_t;
typedef int cudnnConvolutionMode_t, cudnnDeterminism_t;
typedef int cudnnConvolutionFwdAlgo_t, cudnnConvolutionBwdDataAlgo_t,
    cudnnConvolutionBwdFilterAlgo_t;
typedef struct cudnnContext *cudnnHandle_t;
typedef struct cudnnTensorStruct *cudnnTensorDescriptor_t;
typedef struct cudnnFilterStruct *cudnnFilterDescriptor_t;
typedef struct cudnnConvolutionStruct *cudnnConvolutionDescriptor_t;
typedef kas_cudnn_algo_perf cudnnConvolutionFwdAlgoPerf_t, cudnnConvolutionBwdDataAlgoPerf_t,
    cudnnConvolutionBwdFilterAlgoPerf_t;
typedef struct CUstream_st *cudaStream_t;

typedef int ncclResult_t;
#endif

enum {
    KAS_CUDA_SUCCESS = 0,
    KAS_CUDA_ERROR_INVALID_VALUE = 1,
    KAS_CUDA_ERROR_OUT_OF_MEMORY = 2,
    KAS_CUDA_ERROR_NOT_INITIALIZED = 3,
    KAS_CUDA_ERROR_NO_DEVICE = 100,
    KAS_CUDA_ERROR_INVALID_DEVICE = 101,
    KAS_CUDA_ERROR_INVALID_IMAGE = 200,
    KAS_CUDA_ERROR_ECC_UNCORRECTABLE = 214,
    KAS_CUDA_ERROR_NVLINK_UNCORRECTABLE = 220,
    KAS_CUDA_ERROR_INVALID_HANDLE = 400,
    KAS_CUDA_ERROR_NOT_FOUND = 500,
    KAS_CUDA_ERROR_NOT_READY = 600,
    KAS_CUDA_ERROR_ILLEGAL_ADDRESS = 700,
    KAS_CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,
    KAS_CUDA_ERROR_LAUNCH_TIMEOUT = 702,
    KAS_CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
    KAS_CUDA_ERROR_ASSERT = 710,
    KAS_CUDA_ERROR_HARDWARE_STACK_ERROR = 714,
    KAS_CUDA_ERROR_ILLEGAL_INSTRUCTION = 715,
    KAS_CUDA_ERROR_MISALIGNED_ADDRESS = 716,
    KAS_CUDA_ERROR_INVALID_ADDRESS_SPACE = 717,
    KAS_CUDA_ERROR_INVALID_PC = 718,
    KAS_CUDA_ERROR_LAUNCH_FAILED = 719,
    KAS_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
    KAS_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
    KAS_CUDA_ERROR_UNKNOWN = 999,

    KAS_CU_STREAM_NON_BLOCKING = 1,
    KAS_CU_CAPTURE_THREAD_LOCAL = 1,
    KAS_CU_EVENT_DEFAULT = 0,
    KAS_CU_DEVICE_MAX_THREADS_PER_BLOCK = 1,
    KAS_CU_DEVICE_MAJOR = 75,
    KAS_CU_DEVICE_MINOR = 76,
    KAS_CU_DEVICE_MULTIPROCESSORS = 16,

    KAS_NVRTC_SUCCESS = 0,
    KAS_NVRTC_ERROR_OUT_OF_MEMORY = 1,
    KAS_NVRTC_ERROR_COMPILATION = 6,

    KAS_CUBLAS_SUCCESS = 0,
    KAS_CUBLAS_ALLOC_FAILED = 3,
    KAS_CUBLAS_INVALID_VALUE = 7,
    KAS_CUBLAS_ARCH_MISMATCH = 8,
    KAS_CUBLAS_EXECUTION_FAILED = 13,
    KAS_CUBLAS_NOT_SUPPORTED = 15,
    KAS_CUDA_R_32F = 0,
    KAS_CUBLAS_COMPUTE_32F =
        68, /* float32 throughout: TF32 only where COMPUTE_32F_FAST_TF32 asks */
    KAS_CUBLAS_OP_N = 0,
    KAS_CUBLAS_OP_T = 1,
    KAS_LT_DESC_TRANSA = 3,
    KAS_LT_DESC_TRANSB = 4,
    KAS_LT_LAYOUT_BATCH_COUNT = 5,
    KAS_LT_LAYOUT_STRIDED_BATCH_OFFSET = 6,
    KAS_LT_PREFERENCE_MAX_WORKSPACE = 1,
    KAS_LT_PREFERENCE_ALIGNMENT_A = 5,
    KAS_LT_PREFERENCE_ALIGNMENT_B = 6,
    KAS_LT_PREFERENCE_ALIGNMENT_C = 7,
    KAS_LT_PREFERENCE_ALIGNMENT_D = 8,

    KAS_CUDNN_SUCCESS = 0,
    KAS_CUDNN_BAD_PARAM = 2000,
    KAS_CUDNN_NOT_SUPPORTED = 3000,
    KAS_CUDNN_ALLOCATION_FAILED = 4003,
    KAS_CUDNN_DEVICE_ALLOCATION_FAILED = 4004,
    KAS_CUDNN_EXECUTION_FAILED = 5000,
    KAS_CUDNN_DATA_FLOAT = 0,
    KAS_CUDNN_NHWC = 1,
    KAS_CUDNN_CROSS_CORRELATION = 1,
    KAS_CUDNN_FMA_MATH = 3, /* DEFAULT_MATH would allow TF32 */
    KAS_CUDNN_DETERMINISTIC = 1,

    KAS_NCCL_SUCCESS = 0
};

/* X(symbol, result type, (parameters)) */
#define KAS_DRIVER_FUNCTIONS(X)                                                                    \
    X(cuInit, CUresult, (unsigned flags))                                                          \
    X(cuDriverGetVersion, CUresult, (int *version))                                                \
    X(cuGetErrorName, CUresult, (CUresult error, const char **name))                               \
    X(cuGetErrorString, CUresult, (CUresult error, const char **text))                             \
    X(cuDeviceGetCount, CUresult, (int *count))                                                    \
    X(cuDeviceGet, CUresult, (CUdevice * device, int ordinal))                                     \
    X(cuDeviceGetName, CUresult, (char *name, int size, CUdevice device))                          \
    X(cuDeviceGetAttribute, CUresult, (int *value, CUdevice_attribute attribute, CUdevice device)) \
    X(cuDeviceTotalMem_v2, CUresult, (size_t * bytes, CUdevice device))                            \
    X(cuDevicePrimaryCtxRetain, CUresult, (CUcontext * context, CUdevice device))                  \
    X(cuDevicePrimaryCtxRelease_v2, CUresult, (CUdevice device))                                   \
    X(cuCtxSetCurrent, CUresult, (CUcontext context))                                              \
    X(cuMemAlloc_v2, CUresult, (CUdeviceptr * pointer, size_t bytes))                              \
    X(cuMemFree_v2, CUresult, (CUdeviceptr pointer))                                               \
    X(cuMemGetInfo_v2, CUresult, (size_t * free_bytes, size_t * total))                            \
    X(cuMemcpyHtoDAsync_v2, CUresult,                                                              \
      (CUdeviceptr to, const void *from, size_t bytes, CUstream stream))                           \
    X(cuMemcpyDtoHAsync_v2, CUresult, (void *to, CUdeviceptr from, size_t bytes, CUstream stream)) \
    X(cuMemcpyDtoDAsync_v2, CUresult,                                                              \
      (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))                           \
    X(cuMemsetD8Async, CUresult,                                                                   \
      (CUdeviceptr to, unsigned char value, size_t count, CUstream stream))                        \
    X(cuMemHostAlloc, CUresult, (void **pointer, size_t bytes, unsigned flags))                    \
    X(cuMemFreeHost, CUresult, (void *pointer))                                                    \
    X(cuStreamWaitEvent, CUresult, (CUstream stream, CUevent event, unsigned flags))               \
    X(cuStreamCreate, CUresult, (CUstream * stream, unsigned flags))                               \
    X(cuStreamDestroy_v2, CUresult, (CUstream stream))                                             \
    X(cuStreamSynchronize, CUresult, (CUstream stream))                                            \
    X(cuStreamBeginCapture_v2, CUresult, (CUstream stream, CUstreamCaptureMode mode))              \
    X(cuStreamEndCapture, CUresult, (CUstream stream, CUgraph * graph))                            \
    X(cuGraphInstantiateWithFlags, CUresult,                                                       \
      (CUgraphExec * exec, CUgraph graph, unsigned long long flags))                               \
    X(cuGraphLaunch, CUresult, (CUgraphExec exec, CUstream stream))                                \
    X(cuGraphExecDestroy, CUresult, (CUgraphExec exec))                                            \
    X(cuGraphDestroy, CUresult, (CUgraph graph))                                                   \
    X(cuEventCreate, CUresult, (CUevent * event, unsigned flags))                                  \
    X(cuEventDestroy_v2, CUresult, (CUevent event))                                                \
    X(cuEventRecord, CUresult, (CUevent event, CUstream stream))                                   \
    X(cuEventSynchronize, CUresult, (CUevent event))                                               \
    X(cuEventElapsedTime, CUresult, (float *milliseconds, CUevent start, CUevent end))             \
    X(cuModuleLoadData, CUresult, (CUmodule * module, const void *image))                          \
    X(cuModuleUnload, CUresult, (CUmodule module))                                                 \
    X(cuModuleGetFunction, CUresult, (CUfunction * function, CUmodule module, const char *name))   \
    X(cuLaunchKernel, CUresult,                                                                    \
      (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,   \
       unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void **params,  \
       void **extra))

#define KAS_NVRTC_FUNCTIONS(X)                                                                     \
    X(nvrtcGetErrorString, const char *, (nvrtcResult result))                                     \
    X(nvrtcVersion, nvrtcResult, (int *major, int *minor))                                         \
    X(nvrtcGetNumSupportedArchs, nvrtcResult, (int *count))                                        \
    X(nvrtcGetSupportedArchs, nvrtcResult, (int *archs))                                           \
    X(nvrtcCreateProgram, nvrtcResult,                                                             \
      (nvrtcProgram * program, const char *text, const char *name, int headers,                    \
       const char *const *header_texts, const char *const *header_names))                          \
    X(nvrtcDestroyProgram, nvrtcResult, (nvrtcProgram * program))                                  \
    X(nvrtcCompileProgram, nvrtcResult,                                                            \
      (nvrtcProgram program, int count, const char *const *options))                               \
    X(nvrtcGetCUBINSize, nvrtcResult, (nvrtcProgram program, size_t * size))                       \
    X(nvrtcGetCUBIN, nvrtcResult, (nvrtcProgram program, char *cubin))                             \
    X(nvrtcGetProgramLogSize, nvrtcResult, (nvrtcProgram program, size_t * size))                  \
    X(nvrtcGetProgramLog, nvrtcResult, (nvrtcProgram program, char *log))

#define KAS_CUBLASLT_FUNCTIONS(X)                                                                  \
    X(cublasLtGetVersion, size_t, (void))                                                          \
    X(cublasLtGetStatusString, const char *, (cublasStatus_t status))                              \
    X(cublasLtCreate, cublasStatus_t, (cublasLtHandle_t * handle))                                 \
    X(cublasLtDestroy, cublasStatus_t, (cublasLtHandle_t handle))                                  \
    X(cublasLtMatmulDescCreate, cublasStatus_t,                                                    \
      (cublasLtMatmulDesc_t * desc, cublasComputeType_t compute, cudaDataType scale))              \
    X(cublasLtMatmulDescDestroy, cublasStatus_t, (cublasLtMatmulDesc_t desc))                      \
    X(cublasLtMatmulDescSetAttribute, cublasStatus_t,                                              \
      (cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute, const void *value,     \
       size_t size))                                                                               \
    X(cublasLtMatrixLayoutCreate, cublasStatus_t,                                                  \
      (cublasLtMatrixLayout_t * layout, cudaDataType type, uint64_t rows, uint64_t columns,        \
       int64_t leading))                                                                           \
    X(cublasLtMatrixLayoutDestroy, cublasStatus_t, (cublasLtMatrixLayout_t layout))                \
    X(cublasLtMatrixLayoutSetAttribute, cublasStatus_t,                                            \
      (cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute,                   \
       const void *value, size_t size))                                                            \
    X(cublasLtMatmulPreferenceCreate, cublasStatus_t, (cublasLtMatmulPreference_t * preference))   \
    X(cublasLtMatmulPreferenceDestroy, cublasStatus_t, (cublasLtMatmulPreference_t preference))    \
    X(cublasLtMatmulPreferenceSetAttribute, cublasStatus_t,                                        \
      (cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,      \
       const void *value, size_t size))                                                            \
    X(cublasLtMatmulAlgoGetHeuristic, cublasStatus_t,                                              \
      (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,               \
       cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,               \
       cublasLtMatmulPreference_t preference, int wanted,                                          \
       cublasLtMatmulHeuristicResult_t results[], int *found))                                     \
    X(cublasLtMatmul, cublasStatus_t,                                                              \
      (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,       \
       cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout,            \
       const void *beta, const void *c, cublasLtMatrixLayout_t c_layout, void *d,                  \
       cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algo, void *workspace,         \
       size_t workspace_bytes, cudaStream_t stream))

#define KAS_CUDNN_FUNCTIONS(X)                                                                     \
    X(cudnnGetVersion, size_t, (void))                                                             \
    X(cudnnGetErrorString, const char *, (cudnnStatus_t status))                                   \
    X(cudnnCreate, cudnnStatus_t, (cudnnHandle_t * handle))                                        \
    X(cudnnDestroy, cudnnStatus_t, (cudnnHandle_t handle))                                         \
    X(cudnnSetStream, cudnnStatus_t, (cudnnHandle_t handle, cudaStream_t stream))                  \
    X(cudnnCreateTensorDescriptor, cudnnStatus_t, (cudnnTensorDescriptor_t * desc))                \
    X(cudnnDestroyTensorDescriptor, cudnnStatus_t, (cudnnTensorDescriptor_t desc))                 \
    X(cudnnSetTensor4dDescriptorEx, cudnnStatus_t,                                                 \
      (cudnnTensorDescriptor_t desc, cudnnDataType_t type, int n, int c, int h, int w,             \
       int n_stride, int c_stride, int h_stride, int w_stride))                                    \
    X(cudnnCreateFilterDescriptor, cudnnStatus_t, (cudnnFilterDescriptor_t * desc))                \
    X(cudnnDestroyFilterDescriptor, cudnnStatus_t, (cudnnFilterDescriptor_t desc))                 \
    X(cudnnSetFilter4dDescriptor, cudnnStatus_t,                                                   \
      (cudnnFilterDescriptor_t desc, cudnnDataType_t type, cudnnTensorFormat_t format, int k,      \
       int c, int h, int w))                                                                       \
    X(cudnnCreateConvolutionDescriptor, cudnnStatus_t, (cudnnConvolutionDescriptor_t * desc))      \
    X(cudnnDestroyConvolutionDescriptor, cudnnStatus_t, (cudnnConvolutionDescriptor_t desc))       \
    X(cudnnSetConvolution2dDescriptor, cudnnStatus_t,                                              \
      (cudnnConvolutionDescriptor_t desc, int pad_h, int pad_w, int stride_h, int stride_w,        \
       int dilation_h, int dilation_w, cudnnConvolutionMode_t mode, cudnnDataType_t compute))      \
    X(cudnnSetConvolutionGroupCount, cudnnStatus_t,                                                \
      (cudnnConvolutionDescriptor_t desc, int groups))                                             \
    X(cudnnSetConvolutionMathType, cudnnStatus_t,                                                  \
      (cudnnConvolutionDescriptor_t desc, cudnnMathType_t math))                                   \
    X(cudnnGetConvolutionForwardAlgorithm_v7, cudnnStatus_t,                                       \
      (cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,                 \
       cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t y, int wanted, int *found,       \
       cudnnConvolutionFwdAlgoPerf_t *results))                                                    \
    X(cudnnGetConvolutionBackwardDataAlgorithm_v7, cudnnStatus_t,                                  \
      (cudnnHandle_t handle, cudnnFilterDescriptor_t w, cudnnTensorDescriptor_t dy,                \
       cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t dx, int wanted, int *found,      \
       cudnnConvolutionBwdDataAlgoPerf_t *results))                                                \
    X(cudnnGetConvolutionBackwardFilterAlgorithm_v7, cudnnStatus_t,                                \
      (cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t dy,                \
       cudnnConvolutionDescriptor_t conv, cudnnFilterDescriptor_t dw, int wanted, int *found,      \
       cudnnConvolutionBwdFilterAlgoPerf_t *results))                                              \
    X(cudnnGetConvolutionForwardWorkspaceSize, cudnnStatus_t,                                      \
      (cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,                 \
       cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t y,                               \
       cudnnConvolutionFwdAlgo_t algo, size_t * bytes))                                            \
    X(cudnnGetConvolutionBackwardDataWorkspaceSize, cudnnStatus_t,                                 \
      (cudnnHandle_t handle, cudnnFilterDescriptor_t w, cudnnTensorDescriptor_t dy,                \
       cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t dx,                              \
       cudnnConvolutionBwdDataAlgo_t algo, size_t * bytes))                                        \
    X(cudnnGetConvolutionBackwardFilterWorkspaceSize, cudnnStatus_t,                               \
      (cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t dy,                \
       cudnnConvolutionDescriptor_t conv, cudnnFilterDescriptor_t dw,                              \
       cudnnConvolutionBwdFilterAlgo_t algo, size_t * bytes))                                      \
    X(cudnnConvolutionForward, cudnnStatus_t,                                                      \
      (cudnnHandle_t handle, const void *alpha, cudnnTensorDescriptor_t x_desc, const void *x,     \
       cudnnFilterDescriptor_t w_desc, const void *w, cudnnConvolutionDescriptor_t conv,           \
       cudnnConvolutionFwdAlgo_t algo, void *workspace, size_t workspace_bytes, const void *beta,  \
       cudnnTensorDescriptor_t y_desc, void *y))                                                   \
    X(cudnnConvolutionBackwardData, cudnnStatus_t,                                                 \
      (cudnnHandle_t handle, const void *alpha, cudnnFilterDescriptor_t w_desc, const void *w,     \
       cudnnTensorDescriptor_t dy_desc, const void *dy, cudnnConvolutionDescriptor_t conv,         \
       cudnnConvolutionBwdDataAlgo_t algo, void *workspace, size_t workspace_bytes,                \
       const void *beta, cudnnTensorDescriptor_t dx_desc, void *dx))                               \
    X(cudnnConvolutionBackwardFilter, cudnnStatus_t,                                               \
      (cudnnHandle_t handle, const void *alpha, cudnnTensorDescriptor_t x_desc, const void *x,     \
       cudnnTensorDescriptor_t dy_desc, const void *dy, cudnnConvolutionDescriptor_t conv,         \
       cudnnConvolutionBwdFilterAlgo_t algo, void *workspace, size_t workspace_bytes,              \
       const void *beta, cudnnFilterDescriptor_t dw_desc, void *dw))

/* Only found and named so far; several GPUs come with a later issue. */
#define KAS_NCCL_FUNCTIONS(X)                                                                      \
    X(ncclGetVersion, ncclResult_t, (int *version))                                                \
    X(ncclGetErrorString, const char *, (ncclResult_t result))

#endif

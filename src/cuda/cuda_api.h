/* The part of NVIDIA's C interfaces that kas-gpu uses, declared by hand.
 *
 * Why by hand: kas-gpu must build on a machine without any CUDA header, and the same binary must
 * use the GPU of the next machine (docs/design.md, decision 2).  Only what is called stands here:
 * types by NVIDIA's names, constants with KAS_ in front, and one list of functions per library,
 * from which library.h makes its tables.  tests/unit/cuda/test_cuda_api.c compares every prototype,
 * size and constant with the real headers where they are installed; it defines
 * KAS_CUDA_REAL_HEADERS, so that the types below are NVIDIA's own there.
 *
 * The driver interface (libcuda.so.1, part of the driver) takes the place of the runtime's: it is
 * one library fewer to find, has one soname for all versions, and kernels are launched from loaded
 * images anyway.  Functions with a version suffix are listed by their symbol. */
#ifndef KAS_CUDA_CUDA_API_H
#define KAS_CUDA_CUDA_API_H

#include <stddef.h>
#include <stdint.h>

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

typedef int cudnnStatus_t, cudnnBackendDescriptorType_t, cudnnBackendAttributeName_t;
typedef int cudnnBackendAttributeType_t;
typedef struct cudnnContext *cudnnHandle_t;
typedef void *cudnnBackendDescriptor_t;
typedef struct CUstream_st *cudaStream_t;

typedef int ncclResult_t, ncclDataType_t, ncclRedOp_t;
typedef struct ncclComm *ncclComm_t;
typedef struct {
    char internal[128];
} ncclUniqueId;
/* As of version 2.14; later versions have more members behind these. */
typedef struct {
    size_t size;
    unsigned magic, version;
    int blocking;
} ncclConfig_t;
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
    KAS_CUDA_ERROR_CONTAINED = 226,
    KAS_CUDA_ERROR_INVALID_HANDLE = 400,
    KAS_CUDA_ERROR_NOT_FOUND = 500,
    KAS_CUDA_ERROR_NOT_READY = 600,
    KAS_CUDA_ERROR_ILLEGAL_ADDRESS = 700,
    KAS_CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,
    KAS_CUDA_ERROR_LAUNCH_TIMEOUT = 702,
    KAS_CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE = 708,
    KAS_CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
    KAS_CUDA_ERROR_ASSERT = 710,
    KAS_CUDA_ERROR_HARDWARE_STACK_ERROR = 714,
    KAS_CUDA_ERROR_ILLEGAL_INSTRUCTION = 715,
    KAS_CUDA_ERROR_MISALIGNED_ADDRESS = 716,
    KAS_CUDA_ERROR_INVALID_ADDRESS_SPACE = 717,
    KAS_CUDA_ERROR_INVALID_PC = 718,
    KAS_CUDA_ERROR_LAUNCH_FAILED = 719,
    KAS_CUDA_ERROR_TENSOR_MEMORY_LEAK = 721,
    KAS_CUDA_ERROR_MPS_CLIENT_TERMINATED = 810,
    KAS_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
    KAS_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
    KAS_CUDA_ERROR_STREAM_CAPTURE_UNJOINED = 904,
    KAS_CUDA_ERROR_STREAM_CAPTURE_ISOLATION = 905,
    KAS_CUDA_ERROR_EXTERNAL_DEVICE = 911,
    KAS_CUDA_ERROR_UNKNOWN = 999,

    KAS_CU_STREAM_NON_BLOCKING = 1,
    KAS_CU_CAPTURE_THREAD_LOCAL = 1,
    KAS_CU_CTX_SCHED_BLOCKING_SYNC = 4,
    KAS_CU_EVENT_BLOCKING_SYNC = 1,
    KAS_CU_EVENT_DISABLE_TIMING = 2,
    KAS_CU_DEVICE_MAJOR = 75,
    KAS_CU_DEVICE_MINOR = 76,
    KAS_CU_DEVICE_MULTIPROCESSORS = 16,
    KAS_CU_DEVICE_MAX_THREADS_PER_MULTIPROCESSOR = 39,

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
    KAS_CUDA_R_16F = 2,
    KAS_CUDA_R_16BF = 14,
    KAS_CUBLAS_COMPUTE_32F =
        68, /* float32 throughout: TF32 only where COMPUTE_32F_FAST_TF32 asks */
    KAS_CUBLAS_COMPUTE_32F_FAST_TF32 = 77,
    KAS_CUBLAS_OP_N = 0,
    KAS_CUBLAS_OP_T = 1,
    KAS_LT_DESC_TRANSA = 3,
    KAS_LT_DESC_TRANSB = 4,
    KAS_LT_DESC_EPILOGUE = 7,
    KAS_LT_DESC_BIAS_POINTER = 8,
    KAS_LT_EPILOGUE_BIAS = 4,      /* D + bias, one for each row of D */
    KAS_LT_EPILOGUE_RELU_BIAS = 6, /* max(D + bias, 0); of NaN nothing is said (tuning.h) */
    KAS_LT_EPILOGUE_BGRADB = 512,  /* bias = the sums of B over k, one for each column of D */
    KAS_LT_LAYOUT_BATCH_COUNT = 5,
    KAS_LT_LAYOUT_STRIDED_BATCH_OFFSET = 6,
    KAS_LT_PREFERENCE_MAX_WORKSPACE = 1,
    KAS_LT_PREFERENCE_REDUCTION_SCHEMES = 3,
    KAS_LT_PREFERENCE_ALIGNMENT_A = 5,
    KAS_LT_PREFERENCE_ALIGNMENT_B = 6,
    KAS_LT_PREFERENCE_ALIGNMENT_C = 7,
    KAS_LT_PREFERENCE_ALIGNMENT_D = 8,
    KAS_LT_REDUCTION_IN_COMPUTE_TYPE = 2, /* for split sums; not splitting is always allowed */

    KAS_CUDNN_SUCCESS = 0,
    KAS_CUDNN_BAD_PARAM = 2000,
    KAS_CUDNN_NOT_SUPPORTED = 3000,
    KAS_CUDNN_PREREQUISITE_MISSING = 3008,
    KAS_CUDNN_COMPILATION_FAILED = 4001,
    KAS_CUDNN_ALLOCATION_FAILED = 4003,
    KAS_CUDNN_DEVICE_ALLOCATION_FAILED = 4004,
    KAS_CUDNN_EXECUTION_FAILED = 5000,
    KAS_CUDNN_DATA_FLOAT = 0,
    KAS_CUDNN_DATA_HALF = 2,
    KAS_CUDNN_DATA_BFLOAT16 = 9,
    KAS_CUDNN_CROSS_CORRELATION = 1,

    /* Kinds of descriptors of cuDNN's graph interface, */
    KAS_DNN_POINTWISE = 0,
    KAS_DNN_CONVOLUTION = 1,
    KAS_DNN_ENGINE = 2,
    KAS_DNN_ENGINE_CONFIG = 3,
    KAS_DNN_HEURISTICS = 4,
    KAS_DNN_PLAN = 5,
    KAS_DNN_KNOB_CHOICE = 7,
    KAS_DNN_FORWARD = 10,
    KAS_DNN_BACKWARD_FILTER = 11,
    KAS_DNN_BACKWARD_DATA = 12,
    KAS_DNN_OPERATION_POINTWISE = 13,
    KAS_DNN_GRAPH = 15,
    KAS_DNN_VARIANT_PACK = 16,
    KAS_DNN_TENSOR = 17,
    KAS_DNN_GPU = 38, /* since 9.8 */
    /* types of attributes, */
    KAS_DNN_TYPE_HANDLE = 0,
    KAS_DNN_TYPE_DATA_TYPE = 1,
    KAS_DNN_TYPE_BOOL = 2,
    KAS_DNN_TYPE_INT64 = 3,
    KAS_DNN_TYPE_FLOAT = 4,
    KAS_DNN_TYPE_POINTER = 6,
    KAS_DNN_TYPE_CONVOLUTION_MODE = 7,
    KAS_DNN_TYPE_HEURISTICS_MODE = 8,
    KAS_DNN_TYPE_KNOB = 9,
    KAS_DNN_TYPE_NAN_PROPAGATION = 10,
    KAS_DNN_TYPE_NUMERICAL_NOTE = 11,
    KAS_DNN_TYPE_POINTWISE_MODE = 14,
    KAS_DNN_TYPE_DESCRIPTOR = 15,
    KAS_DNN_TYPE_BEHAVIOR_NOTE = 19,
    KAS_DNN_TYPE_CHAR = 24,
    /* their names, */
    KAS_DNN_POINTWISE_MODE = 0,
    KAS_DNN_POINTWISE_COMPUTE_TYPE = 1,
    KAS_DNN_POINTWISE_NAN_PROPAGATION = 2,
    KAS_DNN_POINTWISE_UPPER_CLIP = 4,
    KAS_DNN_POINTWISE_SWISH_BETA = 8,
    KAS_DNN_CONVOLUTION_COMPUTE_TYPE = 100,
    KAS_DNN_CONVOLUTION_MODE = 101,
    KAS_DNN_CONVOLUTION_DILATIONS = 102,
    KAS_DNN_CONVOLUTION_STRIDES = 103,
    KAS_DNN_CONVOLUTION_POST_PADDINGS = 104,
    KAS_DNN_CONVOLUTION_PRE_PADDINGS = 105,
    KAS_DNN_CONVOLUTION_SPATIAL_DIMS = 106,
    KAS_DNN_HEURISTICS_MODE = 200,
    KAS_DNN_HEURISTICS_GRAPH = 201,
    KAS_DNN_HEURISTICS_RESULTS = 202,
    KAS_DNN_HEURISTICS_GPU = 204,
    KAS_DNN_CONFIG_ENGINE = 300,
    KAS_DNN_CONFIG_KNOBS = 302,
    KAS_DNN_PLAN_HANDLE = 400,
    KAS_DNN_PLAN_CONFIG = 401,
    KAS_DNN_PLAN_WORKSPACE = 402,
    KAS_DNN_PLAN_GPU = 407,
    KAS_DNN_KNOB_TYPE = 600,
    KAS_DNN_KNOB_VALUE = 601,
    KAS_DNN_FORWARD_ALPHA = 700,
    KAS_DNN_FORWARD_BETA = 701,
    KAS_DNN_FORWARD_CONVOLUTION = 702,
    KAS_DNN_FORWARD_W = 703,
    KAS_DNN_FORWARD_X = 704,
    KAS_DNN_FORWARD_Y = 705,
    KAS_DNN_DATA_ALPHA = 706,
    KAS_DNN_DATA_BETA = 707,
    KAS_DNN_DATA_CONVOLUTION = 708,
    KAS_DNN_DATA_W = 709,
    KAS_DNN_DATA_DX = 710,
    KAS_DNN_DATA_DY = 711,
    KAS_DNN_FILTER_ALPHA = 712,
    KAS_DNN_FILTER_BETA = 713,
    KAS_DNN_FILTER_CONVOLUTION = 714,
    KAS_DNN_FILTER_DW = 715,
    KAS_DNN_FILTER_X = 716,
    KAS_DNN_FILTER_DY = 717,
    KAS_DNN_OPERATION_POINTWISE_POINTWISE = 750,
    KAS_DNN_OPERATION_POINTWISE_X = 751,
    KAS_DNN_OPERATION_POINTWISE_B = 752,
    KAS_DNN_OPERATION_POINTWISE_Y = 753,
    KAS_DNN_GRAPH_HANDLE = 800,
    KAS_DNN_GRAPH_OPERATIONS = 801,
    KAS_DNN_TENSOR_ALIGNMENT = 900,
    KAS_DNN_TENSOR_DATA_TYPE = 901,
    KAS_DNN_TENSOR_DIMENSIONS = 902,
    KAS_DNN_TENSOR_STRIDES = 903,
    KAS_DNN_TENSOR_UNIQUE_ID = 906,
    KAS_DNN_TENSOR_IS_VIRTUAL = 907,
    KAS_DNN_PACK_UNIQUE_IDS = 1000,
    KAS_DNN_PACK_POINTERS = 1001,
    KAS_DNN_PACK_WORKSPACE = 1003,
    KAS_DNN_ENGINE_GRAPH = 1300,
    KAS_DNN_ENGINE_INDEX = 1301,
    KAS_DNN_ENGINE_NUMERICAL_NOTES = 1303,
    KAS_DNN_ENGINE_BEHAVIOR_NOTES = 1305,
    KAS_DNN_ENGINE_GPU = 1307,
    KAS_DNN_GPU_JSON = 2702,
    /* and values. */
    KAS_DNN_PROPAGATE_NAN = 1,
    KAS_DNN_MODE_ADD = 0,
    KAS_DNN_MODE_RELU = 100,
    KAS_DNN_MODE_SIGMOID = 102,
    KAS_DNN_MODE_GELU = 104, /* by the error function */
    KAS_DNN_MODE_SWISH = 106,
    KAS_DNN_HEURISTICS_FALLBACK = 2,
    KAS_DNN_HEURISTICS_A = 3,
    KAS_DNN_NOTE_TENSOR_CORE = 0,
    KAS_DNN_NOTE_DOWN_CONVERT_INPUTS = 1,
    KAS_DNN_NOTE_REDUCED_PRECISION_REDUCTION = 2,
    KAS_DNN_NOTE_FFT = 3,
    KAS_DNN_NOTE_NONDETERMINISTIC = 4,
    KAS_DNN_NOTE_WINOGRAD = 5,
    KAS_DNN_NOTE_WINOGRAD_4X4 = 6,
    KAS_DNN_NOTE_WINOGRAD_6X6 = 7,
    KAS_DNN_NOTE_WINOGRAD_13X13 = 8,
    KAS_DNN_MAX_NOTES = 16, /* room for all of an engine; 9.19 knows 10 */
    KAS_DNN_BEHAVIOR_RUNTIME_COMPILATION = 0,
    KAS_DNN_BEHAVIOR_FILTER_REORDER = 1,
    KAS_DNN_BEHAVIOR_BIAS_REORDER = 2,

    KAS_NCCL_SUCCESS = 0,
    KAS_NCCL_IN_PROGRESS = 7,
    KAS_NCCL_INT8 = 0,
    KAS_NCCL_FLOAT32 = 7,
    KAS_NCCL_AVG = 4
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
    X(cuDevicePrimaryCtxSetFlags_v2, CUresult, (CUdevice device, unsigned flags))                  \
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
    X(cublasLtMatmulAlgoCheck, cublasStatus_t,                                                     \
      (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,               \
       cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,               \
       const cublasLtMatmulAlgo_t *algo, cublasLtMatmulHeuristicResult_t *result))                 \
    X(cublasLtMatmul, cublasStatus_t,                                                              \
      (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,       \
       cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout,            \
       const void *beta, const void *c, cublasLtMatrixLayout_t c_layout, void *d,                  \
       cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algo, void *workspace,         \
       size_t workspace_bytes, cudaStream_t stream))

#define KAS_CUDNN_FUNCTIONS(X)                                                                     \
    X(cudnnGetVersion, size_t, (void))                                                             \
    X(cudnnGetCudartVersion, size_t, (void))                                                       \
    X(cudnnGetErrorString, const char *, (cudnnStatus_t status))                                   \
    X(cudnnCreate, cudnnStatus_t, (cudnnHandle_t * handle))                                        \
    X(cudnnDestroy, cudnnStatus_t, (cudnnHandle_t handle))                                         \
    X(cudnnSetStream, cudnnStatus_t, (cudnnHandle_t handle, cudaStream_t stream))                  \
    X(cudnnGetLastErrorString, void, (char *message, size_t size))                                 \
    X(cudnnBackendCreateDescriptor, cudnnStatus_t,                                                 \
      (cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t * desc))                        \
    X(cudnnBackendDestroyDescriptor, cudnnStatus_t, (cudnnBackendDescriptor_t desc))               \
    X(cudnnBackendFinalize, cudnnStatus_t, (cudnnBackendDescriptor_t desc))                        \
    X(cudnnBackendSetAttribute, cudnnStatus_t,                                                     \
      (cudnnBackendDescriptor_t desc, cudnnBackendAttributeName_t name,                            \
       cudnnBackendAttributeType_t type, int64_t count, const void *values))                       \
    X(cudnnBackendGetAttribute, cudnnStatus_t,                                                     \
      (cudnnBackendDescriptor_t const desc, cudnnBackendAttributeName_t name,                      \
       cudnnBackendAttributeType_t type, int64_t wanted, int64_t *count, void *values))            \
    X(cudnnBackendExecute, cudnnStatus_t,                                                          \
      (cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack))

#define KAS_NCCL_FUNCTIONS(X)                                                                      \
    X(ncclGetVersion, ncclResult_t, (int *version))                                                \
    X(ncclGetErrorString, const char *, (ncclResult_t result))                                     \
    X(ncclGetUniqueId, ncclResult_t, (ncclUniqueId * id))                                          \
    X(ncclCommInitRankConfig, ncclResult_t,                                                        \
      (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config))             \
    X(ncclCommDestroy, ncclResult_t, (ncclComm_t comm))                                            \
    X(ncclCommAbort, ncclResult_t, (ncclComm_t comm))                                              \
    X(ncclCommGetAsyncError, ncclResult_t, (ncclComm_t comm, ncclResult_t * error))                \
    X(ncclAllReduce, ncclResult_t,                                                                 \
      (const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op,              \
       ncclComm_t comm, cudaStream_t stream))                                                      \
    X(ncclAllGather, ncclResult_t,                                                                 \
      (const void *from, void *to, size_t count, ncclDataType_t type, ncclComm_t comm,             \
       cudaStream_t stream))

#endif

/* NVIDIA's libraries, opened at run time: one table of functions for each.
 *
 * Nothing of NVIDIA is linked. A table is filled at first use by dlopen and dlsym, once in the
 * process, and stays for the process's life: unloading a library that has made a GPU context
 * is not safe.
 *
 * A library is looked for in this order: $KAS_CUDA_LIBS (one file that stands in for all of them:
 * the tests' stand-in), the folders of $KAS_CUDA_PATH (a colon-separated list that env.sh makes;
 * env.sh knows Python's nvidia packages), the loader's own places, /usr/local/cuda/lib64. The
 * toolkit's libraries are taken by major version, 13 then 12; the oldest accepted is 12.8, and none
 * newer than the driver: a cubin of NVRTC 13 does not load under a driver for CUDA 12.
 *
 * Thread-safe. The functions return KAS_UNSUPPORTED with what is missing and where it
 * was looked for. */
#ifndef KAS_CUDA_LIBRARY_H
#define KAS_CUDA_LIBRARY_H

#include "cuda/cuda_api.h"
#include "host/core/status.h"

typedef struct kas_cuda_library {
    char path[4096]; /* the file that was opened */
    char version[32];
} kas_cuda_library;

#define KAS_SLOT(symbol, result, parameters) result(*symbol) parameters;
typedef struct kas_driver {
    kas_cuda_library library;
    KAS_DRIVER_FUNCTIONS(KAS_SLOT)
} kas_driver;
typedef struct kas_nvrtc {
    kas_cuda_library library;
    KAS_NVRTC_FUNCTIONS(KAS_SLOT)
} kas_nvrtc;
typedef struct kas_cublaslt {
    kas_cuda_library library;
    KAS_CUBLASLT_FUNCTIONS(KAS_SLOT)
} kas_cublaslt;
typedef struct kas_cudnn {
    kas_cuda_library library;
    KAS_CUDNN_FUNCTIONS(KAS_SLOT)
} kas_cudnn;
typedef struct kas_nccl {
    kas_cuda_library library;
    KAS_NCCL_FUNCTIONS(KAS_SLOT)
} kas_nccl;
#undef KAS_SLOT

/* Return a library's table, which is filled at the first call; it is never freed. */
kas_status kas_driver_load(const kas_driver **out); /* has called cuInit */
kas_status kas_nvrtc_load(const kas_nvrtc **out);
kas_status kas_cublaslt_load(const kas_cublaslt **out);
kas_status kas_cudnn_load(const kas_cudnn **out);
kas_status kas_nccl_load(const kas_nccl **out);

/* Forgets every table, so that the next load looks again in another environment; for tests. */
void kas_cuda_libraries_reset(void);

#endif

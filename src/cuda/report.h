/* Which of NVIDIA's libraries and GPUs this machine has, in plain types, for
 * `doctor` and `--version`.
 *
 * Asking opens the libraries but creates no context: it costs no GPU memory and works beside a
 * search that fills the GPU. */
#ifndef KAS_CUDA_REPORT_H
#define KAS_CUDA_REPORT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct kas_cuda_part {
    const char *name; /* "driver", "NVRTC", "cuBLASLt", "cuDNN", "NCCL" */
    const char *enables;
    bool found;
    char version[32];
    char path[4096];
    char missing[1024]; /* why it is not found or not usable */
} kas_cuda_part;

typedef struct kas_cuda_gpu {
    int ordinal;
    char name[128];
    char arch[32];
    size_t memory; /* bytes */
    int multiprocessors;
    bool supported; /* whether the NVRTC found here compiles for it */
} kas_cuda_gpu;

enum { KAS_CUDA_PARTS = 5, KAS_CUDA_MAX_GPUS = 64 };
typedef struct kas_cuda_report {
    kas_cuda_part part[KAS_CUDA_PARTS];
    kas_cuda_gpu gpu[KAS_CUDA_MAX_GPUS];
    int gpus;
} kas_cuda_report;

/* Fills the report; what is missing is part of it and no error. */
void kas_cuda_report_make(kas_cuda_report *out);

#endif

#include "cuda/report.h"

#include <stdio.h>
#include <string.h>

#include "cuda/library.h"

/* Fills a part of the report from a table; every table begins with its kas_cuda_library. */
static void fill(kas_cuda_part *part, kas_status status, const void *table)
{
    part->found = status == KAS_OK;
    if (!part->found) {
        snprintf(part->missing, sizeof part->missing, "%s", kas_error());
        return;
    }
    const kas_cuda_library *library = table;
    snprintf(part->version, sizeof part->version, "%s", library->version);
    snprintf(part->path, sizeof part->path, "%s", library->path);
}

static bool compiles_for(const kas_nvrtc *nvrtc, int arch)
{
    int count = 0, archs[64];
    if (!nvrtc || nvrtc->nvrtcGetNumSupportedArchs(&count) != KAS_NVRTC_SUCCESS || count > 64 ||
        nvrtc->nvrtcGetSupportedArchs(archs) != KAS_NVRTC_SUCCESS)
        return false;
    for (int i = 0; i < count; i++)
        if (archs[i] == arch)
            return true;
    return false;
}

static void list_gpus(const kas_driver *driver, const kas_nvrtc *nvrtc, kas_cuda_report *out)
{
    int count = 0;
    if (driver->cuDeviceGetCount(&count) != KAS_CUDA_SUCCESS)
        return;
    for (int i = 0; i < count && out->gpus < KAS_CUDA_MAX_GPUS; i++) {
        kas_cuda_gpu *gpu = &out->gpu[out->gpus];
        CUdevice device;
        int major = 0, minor = 0;
        if (driver->cuDeviceGet(&device, i) != KAS_CUDA_SUCCESS ||
            driver->cuDeviceGetName(gpu->name, sizeof gpu->name, device) != KAS_CUDA_SUCCESS ||
            driver->cuDeviceTotalMem_v2(&gpu->memory, device) != KAS_CUDA_SUCCESS ||
            driver->cuDeviceGetAttribute(&major, KAS_CU_DEVICE_MAJOR, device) != KAS_CUDA_SUCCESS ||
            driver->cuDeviceGetAttribute(&minor, KAS_CU_DEVICE_MINOR, device) != KAS_CUDA_SUCCESS ||
            driver->cuDeviceGetAttribute(&gpu->multiprocessors, KAS_CU_DEVICE_MULTIPROCESSORS,
                                         device) != KAS_CUDA_SUCCESS)
            continue;
        gpu->ordinal = i;
        snprintf(gpu->arch, sizeof gpu->arch, "sm_%d%d", major, minor);
        gpu->supported = compiles_for(nvrtc, major * 10 + minor);
        out->gpus++;
    }
}

void kas_cuda_report_make(kas_cuda_report *out)
{
    const kas_driver *driver = NULL;
    const kas_nvrtc *nvrtc = NULL;
    const kas_cublaslt *lt = NULL;
    const kas_cudnn *dnn = NULL;
    const kas_nccl *nccl = NULL;
    kas_status status;
    memset(out, 0, sizeof *out);
    kas_cuda_part *part = out->part;
    part[0].name = "driver", part[0].enables = "use of the GPU (with NVRTC)";
    part[1].name = "NVRTC", part[1].enables = "kernels for GPUs, also where there is no GPU";
    part[2].name = "cuBLASLt", part[2].enables = "fast fully-connected maps on the GPU";
    part[3].name = "cuDNN", part[3].enables = "fast convolutions on the GPU";
    part[4].name = "NCCL", part[4].enables = "one network on several GPUs";
    status = kas_driver_load(&driver);
    fill(&part[0], status, driver);
    status = kas_nvrtc_load(&nvrtc);
    fill(&part[1], status, nvrtc);
    status = kas_cublaslt_load(&lt);
    fill(&part[2], status, lt);
    status = kas_cudnn_load(&dnn);
    fill(&part[3], status, dnn);
    status = kas_nccl_load(&nccl);
    fill(&part[4], status, nccl);
    if (driver)
        list_gpus(driver, nvrtc, out);
}

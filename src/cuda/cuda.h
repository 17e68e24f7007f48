/* What the files of the CUDA device share. Internal to src/cuda.
 *
 * Every call of a library goes through KAS_CU, KAS_LT or KAS_CUDNN, which turn a refusal into a
 * status with the statement, its place and the library's own words. A "sticky" error (an illegal
 * address, say) means that the context is dead: the device remembers it, and every later call fails
 * with KAS_DEVICE_LOST and the first message, so that a worker ends at once and says why.
 *
 * All work goes to one stream, in program order; only uploads (upload_cuda.c) and exchanges of a group
 * (group_cuda.c) have streams of their own. Every function behind the device's interface makes the
 * context current first, because one thread may hold several devices. Devices on one GPU share its primary context and nothing else: each has its own
 * stream, workspace, handles of libraries and errors, so threads may use them side by side; only a
 * dead context is dead for all of them. */
#ifndef KAS_CUDA_CUDA_H
#define KAS_CUDA_CUDA_H

#include "cuda/library.h"
#include "host/device/backend.h"
#include "jit/compile/compile.h"

typedef struct kas_allocation {
    CUdeviceptr pointer;
    size_t bytes;
} kas_allocation;

typedef struct kas_cuda {
    kas_device base;
    const kas_driver *driver;
    const kas_cublaslt *lt; /* NULL when missing: cuDNN or the direct kernel take over */
    const kas_cudnn *dnn;   /* NULL when missing: the direct kernel takes over */
    CUdevice ordinal;
    CUcontext context;
    CUstream stream;
    _Atomic bool lost; /* the thread that watches a group reads it too */
    char lost_message[512];

    /* What kas_mem_alloc gave and kas_mem_free has not yet taken back */
    kas_allocation *allocation;
    int allocations;
    size_t bytes;

    kas_compiler *compiler;
    kas_module *builtin[KAS_DTYPES]; /* made at first use */

    /* Handles of libraries, made at the first convolution. */
    bool libraries_tried;
    cublasLtHandle_t lt_handle;
    cudnnHandle_t dnn_handle;
    cudnnBackendDescriptor_t dnn_gpu; /* for tests: a description of a GPU in place of the handle */
    /* One workspace for all library calls: they run one after the other on the stream.  Its address
     * is read when a plan runs, because preparing a convolution may make it grow. */
    CUdeviceptr workspace;
    size_t workspace_bytes, most_workspace; /* most_workspace: see kas_cuda_reserve_workspace */
    uint64_t workspace_generation;          /* raised when the workspace moves */
    CUstream exchanges;                     /* of the group (group_cuda.c); NULL: there is none */
} kas_cuda;

struct kas_function {
    CUfunction handle;
    kas_function *next;
    char name[64];
};

/* Turn a result of a library into a status; the macros below call them. */
kas_status kas_cuda_check(kas_cuda *cuda, CUresult result, const char *statement, const char *file,
                          int line);
kas_status kas_cuda_check_lt(kas_cuda *cuda, cublasStatus_t result, const char *statement,
                             const char *file, int line);
kas_status kas_cuda_check_dnn(kas_cuda *cuda, cudnnStatus_t result, const char *statement,
                              const char *file, int line);
/* Returns whether a library refused, or failed without harm to the device, so that another way can
 * be taken. */
bool kas_cuda_is_refusal(const kas_cuda *cuda, kas_status status);
/* Checks a call of a function in the library's table: KAS_CU(cuda,
 * cuStreamSynchronize(cuda->stream)). */
#define KAS_CU(cuda, call) kas_cuda_check((cuda), (cuda)->driver->call, #call, __FILE__, __LINE__)
#define KAS_LT(cuda, call) kas_cuda_check_lt((cuda), (cuda)->lt->call, #call, __FILE__, __LINE__)
#define KAS_CUDNN(cuda, call)                                                                      \
    kas_cuda_check_dnn((cuda), (cuda)->dnn->call, #call, __FILE__, __LINE__)

/* Makes the context current; returns KAS_DEVICE_LOST when it is dead. Every function behind the
 * device's interface calls it first. */
kas_status kas_cuda_enter(kas_cuda *cuda);
/* The same for a function that frees something and goes on whatever fails. Returns false when the
 * context is dead; the end of the process will then free everything. */
bool kas_cuda_enter_to_free(kas_cuda *cuda);
/* The same, and waits for running work, which may use what is freed. */
bool kas_cuda_wait_to_free(kas_cuda *cuda);
/* Makes the workspace at least `bytes` large; waits for running work when it has to grow. Returns
 * KAS_UNSUPPORTED for more than `most_workspace`: a 32nd of the memory, but from 256 MiB to 2 GiB. Plans of
 * memory count that (kas_device_info.workspace), so nothing is reserved beyond it. */
kas_status kas_cuda_reserve_workspace(kas_cuda *cuda, size_t bytes);

/* What follows, up to kas_cuda_launch, implements the device's functions of the
 * same names (host/device/backend.h). */
kas_status kas_cuda_host_alloc(kas_device *device, size_t bytes, void **out);
void kas_cuda_host_free(kas_device *device, void *memory);
kas_status kas_cuda_upload_create(kas_device *device, int slots, kas_upload **out);
void kas_cuda_upload_free(kas_upload *upload);
kas_status kas_cuda_upload_start(kas_upload *upload, int slot, void *to, const void *from,
                                 size_t bytes);
kas_status kas_cuda_upload_use(kas_upload *upload, int slot);
kas_status kas_cuda_upload_done(kas_upload *upload, int slot);
kas_status kas_cuda_upload_wait(kas_upload *upload, int slot);

kas_status kas_cuda_module_load(kas_device *device, const char *image_path, kas_module **out);
kas_status kas_cuda_module_builtin(kas_device *device, kas_dtype dtype, kas_module **out);
void kas_cuda_module_free(kas_module *module);
kas_status kas_cuda_module_function(kas_module *module, const char *name, kas_function **out);
kas_status kas_cuda_launch(kas_cuda *cuda, const kas_function *function, const unsigned grid[3],
                           const unsigned block[3], const void *args);

/* Convolutions, as device.h defines them; conv_cuda.h has the three ways in which they run. */
kas_status kas_cuda_conv_create(kas_device *device, const kas_conv_desc *desc, kas_conv **out);
void kas_cuda_conv_free(kas_conv *conv);
/* Enqueues one KAS_STEP_CONV on the stream. */
kas_status kas_cuda_conv_run(const kas_step *step);
kas_status kas_cuda_conv_add_bias(kas_conv *conv);
bool kas_cuda_conv_takes_bias(const kas_conv *conv, kas_conv_pass pass, const void *x,
                              const void *w, const void *y, const void *bias);
kas_status kas_cuda_conv_add_epilogue(kas_conv *conv, kas_conv_epilogue epilogue);
bool kas_cuda_conv_takes_epilogue(const kas_conv *conv, kas_conv_epilogue epilogue,
                                  const kas_conv_call *call);

/* Enqueues a KAS_STEP_MEAN, GATHER or JOIN (group_cuda.c). */
kas_status kas_cuda_exchange(kas_cuda *cuda, const kas_step *step);

/* Captures what `enqueue` puts on the stream as a graph, without running it. `*out` is NULL
 * after a failure. */
typedef kas_status (*kas_cuda_enqueue)(kas_cuda *cuda, const void *what);
kas_status kas_cuda_make_graph(kas_cuda *cuda, kas_cuda_enqueue enqueue, const void *what,
                               CUgraphExec *out);

/* Run the steps of a plan, and free what the device has kept of it (host/device/backend.h). */
kas_status kas_cuda_run(kas_device *device, const kas_step *step, int steps, void **kept);
void kas_cuda_forget(kas_device *device, void *kept);

#endif

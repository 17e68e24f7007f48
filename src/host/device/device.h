/* The only interface to compute devices: memory, modules of compiled kernels, convolutions, plans.
 *
 * It has two implementations: the CPU device (device_cpu.c) and the CUDA device (src/cuda/). Code
 * above this header uses both alike, apart from a few choices by kas_device_info.kind; no CUDA type
 * appears here.  Both run the same kernels: text in the common dialect
 * (src/cuda/kernels/prelude.h), built by the host compiler or by NVRTC.
 *
 * Work is recorded in a plan and the plan is run: the CPU device walks it, the CUDA device enqueues
 * it on its stream (and may capture it).  A plan never allocates and never synchronises; what
 * varies from step to step (learning rate, step number, random offset, data cursor) is read by the
 * kernels from device memory.  Order within a plan is program order.
 *
 * Ownership: an object from kas_X_create is freed with kas_X_free, before the device is closed.
 * Threads: a device and its objects belong to one thread; any number of devices may be open, also
 * several on one GPU, each in a thread of its own. Errors: KAS_DEVICE with the failing statement;
 * KAS_NO_MEMORY when an allocation fails (the device stays usable); KAS_DEVICE_LOST when only a new
 * process can continue. Because work may be asynchronous, errors of earlier work can surface at
 * kas_device_sync.  Other folders include this header. */
#ifndef KAS_DEVICE_DEVICE_H
#define KAS_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/core/status.h"
#include "host/device/epilogue.h"

typedef struct kas_device kas_device;
typedef struct kas_module kas_module;     /* a compiled program: shared object or cubin */
typedef struct kas_function kas_function; /* one kernel of a module; lives as long as its module */
typedef struct kas_plan kas_plan;
typedef struct kas_conv kas_conv; /* a prepared convolution */
typedef struct kas_timer kas_timer;
typedef struct kas_upload kas_upload; /* copies to the device that overlap with its work */

typedef enum kas_device_kind { KAS_DEVICE_CPU, KAS_DEVICE_CUDA } kas_device_kind;

/* The dtype in which activations, their gradients and the weights that convolutions read are
 * stored (docs/training.md, Precision).  Arithmetic is float32 in all of them; so are parameters,
 * their gradients, statistics and losses.  The values are the prelude's KAS_DTYPE. */
typedef enum kas_dtype { KAS_F32, KAS_BF16, KAS_F16 } kas_dtype;
enum { KAS_DTYPES = 3 };

static inline size_t kas_dtype_size(kas_dtype dtype) /* bytes */
{
    return dtype == KAS_F32 ? 4 : 2;
}
extern const char *const kas_dtype_names[]; /* "fp32", "bf16", "fp16", NULL */

typedef struct kas_device_info {
    kas_device_kind kind;
    char name[128]; /* "Intel(R) Xeon(R) ...", "NVIDIA H100 80GB HBM3" */
    char arch[32];  /* what kernels are compiled for: "cpu" or "sm_90" */
    int threads;    /* CPU: threads used */
    int blocks;     /* CUDA: how many blocks of KAS_MAX_BLOCK threads it runs at once; CPU: 0 */
    size_t memory;  /* bytes, total */
    /* Bytes of `memory` that this handle may take for the libraries that it calls, in addition to
     * what its users allocate. It keeps what it has taken until kas_device_trim. */
    size_t workspace;
} kas_device_info;

/* What --device says: "auto" (CUDA if a GPU can be used, else the CPU), "cpu", "cuda", "cuda:N" or,
 * where a command uses several, "cuda:0,1". KAS_USAGE for anything else. */
enum { KAS_MAX_DEVICES = 64 };
typedef struct kas_device_spec {
    bool cpu, cuda; /* which may be used; auto: either */
    int ordinals;   /* GPUs that were named; 0: any */
    int ordinal[KAS_MAX_DEVICES];
} kas_device_spec;
kas_status kas_device_spec_read(const char *text, kas_device_spec *out);

/* `spec` is a kas_device_spec's text that names one GPU at most; without a number the first one is
 * opened. `threads`: of the CPU device; 0 = all cores. */
kas_status kas_device_open(const char *spec, int threads, kas_device **out);
void kas_device_close(kas_device *device); /* NULL is allowed */
const kas_device_info *kas_device_get_info(const kas_device *device);
/* Returns the float32 values of a vector of the processor for which the CPU device's kernels were built:
 * 16 with AVX-512, else 8. */
int kas_cpu_lanes(void);
/* Frees the memory that the device holds for libraries. No plan and no convolution of it
 * may exist. */
void kas_device_trim(kas_device *device);
/* Sets a function that the device calls, with `context`, before it times something whose result is
 * kept, such as the choice among a library's plans. A user that shares the hardware with others
 * makes them wait in it. The device may call it several times, and the user decides when the quiet
 * period ends. NULL: no function is called. */
void kas_device_set_quiet(kas_device *device, void (*begin)(void *context), void *context);

/* Allocates memory of the device, aligned to 256 bytes. The host must not read through a pointer of
 * the CUDA device; pointer arithmetic is fine on both. */
kas_status kas_mem_alloc(kas_device *device, size_t bytes, void **out);
void kas_mem_free(kas_device *device, void *memory); /* waits for running work; NULL is allowed */
/* Copy synchronously, after all work that was enqueued before. */
kas_status kas_mem_upload(kas_device *device, void *to_device, const void *from_host, size_t bytes);
kas_status kas_mem_download(kas_device *device, void *to_host, const void *from_device,
                            size_t bytes);
kas_status kas_mem_zero(kas_device *device, void *memory, size_t bytes);
/* Enqueues a copy and does not wait. `to_host`, which must be memory of kas_host_alloc, is filled
 * once any work that was enqueued later is known to be done (kas_timer_read, kas_device_sync). */
kas_status kas_mem_download_later(kas_device *device, void *to_host, const void *from_device,
                                  size_t bytes);

/* ---- uploads beside the work --------------------------------------------------------------------
 *
 * For data that does not fit on the device: a ring of `slots` pieces of device memory, each of
 * which is filled while plans that read the others run. On the CUDA device the copies have a stream
 * of their own, so that they overlap with the work; the CPU device copies at once. Every use of a
 * slot has this order:
 *
 *     kas_upload_start(slot)   the copy begins, behind the work that read the slot before
 *     kas_upload_use(slot)     what is enqueued from here on sees the new data
 *     kas_plan_run(...)
 *     kas_upload_done(slot)    what was enqueued up to here was the last to read them
 *
 * Other slots may be started in between. The host memory must keep its contents until
 * kas_upload_wait(slot) has returned. */
kas_status kas_upload_create(kas_device *device, int slots, kas_upload **out);
void kas_upload_free(kas_upload *upload); /* waits for its copies; NULL is allowed */
kas_status kas_upload_start(kas_upload *upload, int slot, void *to_device, const void *from_host,
                            size_t bytes);
kas_status kas_upload_use(kas_upload *upload, int slot);
kas_status kas_upload_done(kas_upload *upload, int slot);
kas_status kas_upload_wait(kas_upload *upload, int slot); /* for the copy, not for the work */

/* Allocates host memory for copies that overlap with work, aligned to 256 bytes or more. It is
 * page-locked on the CUDA device, where a copy from or to other memory waits for an extra copy on
 * the host. */
kas_status kas_host_alloc(kas_device *device, size_t bytes, void **out);
void kas_host_free(kas_device *device, void *memory); /* waits for running work; NULL is allowed */

/* Loads the image that kas_compile (jit/compile/compile.h) made for this device's arch. */
kas_status kas_module_load(kas_device *device, const char *image_path, kas_module **out);
/* Gets the module of src/cuda/kernels for activations of this dtype, which is linked in (CPU) or
 * compiled at first use (CUDA). The device owns it: do not free it. */
kas_status kas_module_builtin(kas_device *device, kas_dtype dtype, kas_module **out);
void kas_module_free(kas_module *module);
kas_status kas_module_function(kas_module *module, const char *name, kas_function **out);

/* ---- convolution ------------------------------------------------------------------------------
 *
 * Channels-last.  x: [n][h][w] pixels of x_pitch numbers, the first c_in used; y: [n][out_h][out_w]
 * pixels of y_pitch numbers, the first c_out used; weights [c_out][kernel_h][kernel_w][c_in /
 * groups] (cuDNN's KRSC), dense.  Tap k reads pixel out * stride - pad + k * dilation; out = (in +
 * 2*pad - dilation * (kernel - 1) - 1) / stride + 1.  A fully-connected map is a 1x1 convolution.
 * No bias.  x, y, dx, dy and the weights that are read have `dtype`; sums are float32 and are
 * rounded to `dtype` once. dw is always float32 (cuDNN gives it only rounded to `dtype` once, and
 * it is widened from there). The order of accumulation is the library's, but the same in every run
 * on the same kind of device. */
typedef struct kas_conv_desc {
    int n, h, w, c_in, c_out, groups;
    int kernel_h, kernel_w, stride, pad_h, pad_w;
    int x_pitch, y_pitch; /* elements per pixel, >= c_in, c_out */
    int dilation;         /* distance of two taps in pixels; 0 means 1 */
    kas_dtype dtype;
    bool tf32; /* KAS_F32: factors may be rounded to TF32, if the device has it */
    /* What stands behind the c_in channels of x's pixels is finite, zeros mostly: the images. */
    bool finite_padding;
    unsigned passes; /* bits 1 << kas_conv_pass of those that are used; 0 means all */
} kas_conv_desc;

typedef enum kas_conv_pass {
    KAS_CONV_FORWARD,         /* y  = conv(x, w)                        */
    KAS_CONV_BACKWARD_DATA,   /* dx = conv^T(dy, w), overwrites         */
    KAS_CONV_BACKWARD_WEIGHTS /* dw = corr(x, dy), overwrites           */
} kas_conv_pass;

static inline bool kas_conv_uses(const kas_conv_desc *d, kas_conv_pass pass)
{
    return !d->passes || (d->passes >> pass & 1);
}

static inline int kas_conv_dilation(const kas_conv_desc *d)
{
    return d->dilation ? d->dilation : 1;
}
/* Returns the pixels from the first tap to the last, inclusive. */
static inline int kas_conv_span(const kas_conv_desc *d, int kernel)
{
    return kas_conv_dilation(d) * (kernel - 1) + 1;
}
static inline int kas_conv_out_h(const kas_conv_desc *d)
{
    return (d->h + 2 * d->pad_h - kas_conv_span(d, d->kernel_h)) / d->stride + 1;
}
static inline int kas_conv_out_w(const kas_conv_desc *d)
{
    return (d->w + 2 * d->pad_w - kas_conv_span(d, d->kernel_w)) / d->stride + 1;
}

static inline double kas_conv_flops(const kas_conv_desc *d) /* of each pass */
{
    return (double)d->n * kas_conv_out_h(d) * kas_conv_out_w(d) * d->c_out * d->kernel_h *
           d->kernel_w * (d->c_in / d->groups);
}
/* Returns whether each channel is a group. */
static inline bool kas_conv_is_depthwise(const kas_conv_desc *d)
{
    return d->c_in == d->groups && d->c_out == d->groups;
}

/* Prepares the passes that are used (descriptors, algorithms, workspace). It works for every valid
 * descriptor: where the library refuses, the device's own fallback is used. */
kas_status kas_conv_create(kas_device *device, const kas_conv_desc *desc, kas_conv **out);
void kas_conv_free(kas_conv *conv);

/* A bias [c_out] in the call of a pass, for devices that do it without another pass over y. In
 * FORWARD it is added to y before y is rounded. In BACKWARD_WEIGHTS the sums of dy over all pixels
 * are written to it. As for weights, the bias that is read has the convolution's dtype and its
 * gradient is float32, because libraries take no other bias with 16-bit outputs. kas_conv_add_bias
 * prepares it if possible. kas_conv_takes_bias says, for a pass with its pointers, whether
 * kas_plan_conv_bias may be called; if not, the caller records kernels of its own. */
kas_status kas_conv_add_bias(kas_conv *conv);
bool kas_conv_takes_bias(const kas_conv *conv, kas_conv_pass pass, const void *x, const void *w,
                         const void *y, const void *bias);

/* ---- convolution with an epilogue, for inference ------------------------------------------------
 *
 *     y = activation(conv(x, w) + bias  [+ residual])
 *
 * in one call of a library. bias [c_out] is given both in float32 and in the convolution's dtype,
 * because some libraries take only the latter. residual has the shape, pitch and dtype of y. Sums
 * are float32 and are rounded to `dtype` once, behind the activation (formulas: net.h). No two
 * tensors overlap. The caller folds a batch norm with fixed statistics into w and bias.
 *
 * As with a bias, kas_conv_add_epilogue prepares an epilogue if possible, and
 * kas_conv_takes_epilogue says whether kas_plan_conv_epilogue may be called; if not, the caller
 * records kernels of its own. Several epilogues may be added, and the same one more than once,
 * because layers share a convolution. */
typedef struct kas_conv_epilogue {
    bool residual;
    kas_activation activation; /* with a residual: none or ReLU */
} kas_conv_epilogue;
typedef struct kas_conv_call { /* the tensors of one call */
    const void *x, *w;
    const float *bias;
    const void *bias_rounded; /* in the convolution's dtype; for KAS_F32 bias itself */
    const void *residual;     /* NULL when the epilogue has none */
    void *y;
} kas_conv_call;
kas_status kas_conv_add_epilogue(kas_conv *conv, kas_conv_epilogue epilogue);
bool kas_conv_takes_epilogue(const kas_conv *conv, kas_conv_epilogue epilogue,
                             const kas_conv_call *call);
/* Declares that the weights at `w` stay fixed until the next call for them. A FORWARD pass
 * (`epilogue` NULL) or an added epilogue with this w may from now on read a copy in the library's
 * preferred layout, which this call makes once instead of once a run (oneDNN on the CPU). Call it
 * again whenever the weights were written. The convolution owns the copy. */
kas_status kas_conv_hold(kas_conv *conv, const kas_conv_epilogue *epilogue, const void *w);

/* ---- plans ----------------------------------------------------------------------------------- */
kas_status kas_plan_create(kas_device *device, kas_plan **out);
void kas_plan_free(kas_plan *plan);
/* Limits of a launch: threads of a block (KAS_BLOCK_MAX of the prelude, for which kernels are
 * compiled), and bytes of arguments. */
enum { KAS_MAX_BLOCK = 256, KAS_MAX_ARGS = 4096 };
/* Returns whether a launch is one on every device: CUDA takes 65535 blocks in y and in z, and 2^31 - 1
 * in all. */
static inline bool kas_launch_is_legal(const unsigned grid[3], const unsigned block[3])
{
    const uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
    return threads >= 1 && threads <= KAS_MAX_BLOCK && grid[0] >= 1 && grid[1] >= 1 &&
           grid[2] >= 1 && grid[1] <= 65535 && grid[2] <= 65535 &&
           (uint64_t)grid[0] * grid[1] * grid[2] <= INT32_MAX;
}
/* Records a launch of `grid` blocks of `block` threads; on the CPU `block` is checked and otherwise
 * ignored (lanes are loops). `args`, the kernel's one struct argument, is copied. */
kas_status kas_plan_launch(kas_plan *plan, const kas_function *function, const unsigned grid[3],
                           const unsigned block[3], const void *args, size_t args_size);
/* Records a pass of a convolution. FORWARD reads x, w and writes y; BACKWARD_DATA reads w, y (= dy)
 * and writes x (= dx); BACKWARD_WEIGHTS reads x, y (= dy) and writes w (= dw). */
kas_status kas_plan_conv(kas_plan *plan, kas_conv *conv, kas_conv_pass pass, void *x, void *w,
                         void *y);
kas_status kas_plan_conv_bias(kas_plan *plan, kas_conv *conv, kas_conv_pass pass, void *x, void *w,
                              void *y, void *bias); /* only if kas_conv_takes_bias */
/* Records a convolution with its epilogue; allowed only if kas_conv_takes_epilogue returns true. */
kas_status kas_plan_conv_epilogue(kas_plan *plan, kas_conv *conv, kas_conv_epilogue epilogue,
                                  const kas_conv_call *call);
kas_status kas_plan_zero(kas_plan *plan, void *memory, size_t bytes);
kas_status kas_plan_copy(kas_plan *plan, void *to, const void *from, size_t bytes);
kas_status kas_plan_run(kas_plan *plan); /* enqueues; may return before the work is done */
kas_status kas_device_sync(kas_device *device);

/* Returns the number of recorded steps: launches, convolutions, fills and copies. */
int kas_plan_steps(const kas_plan *plan);
/* Runs the plan once and measures each step between two points of the queue: `seconds`
 * [kas_plan_steps]. The steps run one by one, without a graph and on one stream. A device that
 * works asynchronously first clears memory for a while and runs the whole plan once, so that the
 * measured steps are enqueued before it reaches them; otherwise small steps would seem to take as
 * long as their launch. Waits for the end. */
kas_status kas_plan_time_steps(kas_plan *plan, double *seconds);

/* A timer measures the device time between two points of the queue. It is also the way to wait for
 * one of them while the device continues with later work. */
kas_status kas_timer_create(kas_device *device, kas_timer **out);
void kas_timer_free(kas_timer *timer);
kas_status kas_timer_start(kas_timer *timer);
kas_status kas_timer_end(kas_timer *timer);                   /* enqueues the second point */
kas_status kas_timer_read(kas_timer *timer, double *seconds); /* waits for the second point */
kas_status kas_timer_stop(kas_timer *timer, double *seconds); /* ends and reads */
/* Runs a plan until a further run costs the host no more than one launch; does nothing on the CPU. */
kas_status kas_plan_prepare(kas_plan *plan);
/* Runs a plan and measures it. On a device that works asynchronously the measured run is enqueued while
 * others of the plan are under way, as many as outlast its launch: a timer that starts on an idle device
 * measures that too. */
kas_status kas_plan_time(kas_plan *plan, kas_timer *timer, double *seconds);

/* Returns the pitch of a channels-last tensor: the channels rounded up so that every pixel starts
 * on a 16-byte boundary. */
static inline int kas_pitch_of(kas_dtype dtype, int channels)
{
    return dtype == KAS_F32 ? (channels + 3) & ~3 : (channels + 7) & ~7;
}
static inline int kas_pitch(int channels)
{
    return kas_pitch_of(KAS_F32, channels);
}
/* Returns whether a kernel may access 16 bytes at once there (wide.h). */
static inline bool kas_is_aligned(const void *memory)
{
    return (uintptr_t)memory % 16 == 0;
}

#endif

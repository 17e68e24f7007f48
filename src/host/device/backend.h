/* The interface that a device implements. Only the dispatcher (device.c and plan.c) and the devices
 * include this file.
 *
 * Every function is required unless marked optional. Each object that a device creates starts with
 * a pointer to its device, through which the dispatcher finds the table. */
#ifndef KAS_DEVICE_BACKEND_H
#define KAS_DEVICE_BACKEND_H

#include "host/device/device.h"
#include "host/device/group.h"

typedef struct kas_group_backend kas_group_backend; /* group_impl.h */

/* One recorded operation of a plan (plan.c), already checked. */
typedef struct kas_step {
    enum {
        KAS_STEP_LAUNCH,
        KAS_STEP_CONV,
        KAS_STEP_ZERO,
        KAS_STEP_COPY,
        KAS_STEP_MEAN,   /* group.h: of `to`, bytes of floats */
        KAS_STEP_GATHER, /* `to`, bytes of each rank */
        KAS_STEP_JOIN
    } kind;
    /* LAUNCH */
    const kas_function *function;
    unsigned grid[3], block[3];
    void *args; /* owned by the plan */
    /* CONV */
    kas_conv *conv;
    kas_conv_pass pass;
    void *x, *w, *y;
    void *bias; /* NULL: none; otherwise conv_takes_bias returned true */
    bool fused; /* FORWARD with an epilogue: conv_takes_epilogue returned true */
    kas_conv_epilogue epilogue;
    const void *bias_rounded, *residual; /* as in kas_conv_call */
    /* ZERO and COPY; bytes may be 0 */
    void *to;
    const void *from;
    size_t bytes;
    kas_group *group; /* MEAN, GATHER and JOIN */
    bool captured;    /* the same: it may be part of a graph (kas_plan_capture_exchanges) */
} kas_step;

typedef struct kas_backend {
    void (*close)(kas_device *);
    kas_status (*mem_alloc)(kas_device *, size_t, void **);
    void (*mem_free)(kas_device *, void *);
    kas_status (*mem_upload)(kas_device *, void *, const void *, size_t);
    kas_status (*mem_download)(kas_device *, void *, const void *, size_t);
    kas_status (*mem_zero)(kas_device *, void *, size_t);
    kas_status (*mem_download_later)(kas_device *, void *, const void *, size_t);
    kas_status (*host_alloc)(kas_device *, size_t, void **);
    void (*host_free)(kas_device *, void *);
    /* `slot` is within the ring (device.c checks it). */
    kas_status (*upload_create)(kas_device *, int slots, kas_upload **);
    void (*upload_free)(kas_upload *);
    kas_status (*upload_start)(kas_upload *, int, void *, const void *, size_t);
    kas_status (*upload_use)(kas_upload *, int);
    kas_status (*upload_done)(kas_upload *, int);
    kas_status (*upload_wait)(kas_upload *, int);
    kas_status (*module_load)(kas_device *, const char *, kas_module **);
    kas_status (*module_builtin)(kas_device *, kas_dtype, kas_module **);
    void (*module_free)(kas_module *);
    kas_status (*module_function)(kas_module *, const char *, kas_function **);
    kas_status (*conv_create)(kas_device *, const kas_conv_desc *, kas_conv **);
    void (*conv_free)(kas_conv *);
    kas_status (*conv_add_bias)(kas_conv *); /* optional, with the next */
    bool (*conv_takes_bias)(const kas_conv *, kas_conv_pass, const void *, const void *,
                            const void *, const void *);
    kas_status (*conv_add_epilogue)(kas_conv *, kas_conv_epilogue); /* optional, with the next */
    bool (*conv_takes_epilogue)(const kas_conv *, kas_conv_epilogue, const kas_conv_call *);
    kas_status (*conv_hold)(kas_conv *, const kas_conv_epilogue *, const void *); /* optional */
    /* Enqueues the steps of a plan in order. *kept belongs to the device and is NULL in the first
     * run of these steps: the CUDA device keeps a graph there, which it creates in the second run.
     * All other runs neither allocate nor wait. */
    kas_status (*run)(kas_device *, const kas_step *, int steps, void **kept);
    void (*forget)(kas_device *, void *kept); /* frees *kept; NULL when the device keeps nothing */
    kas_status (*sync)(kas_device *);
    void (*trim)(kas_device *); /* optional */
    kas_status (*timer_create)(kas_device *, kas_timer **);
    void (*timer_free)(kas_timer *);
    kas_status (*timer_start)(kas_timer *);
    kas_status (*timer_end)(kas_timer *);
    kas_status (*timer_read)(kas_timer *, double *);
    const kas_group_backend *group;
} kas_backend;

/* The first member of every device's own struct. Objects begin with `kas_device *device`. */
struct kas_device {
    const kas_backend *backend;
    kas_device_info info;
    void (*quiet)(void *context); /* of kas_device_set_quiet, or NULL */
    void *quiet_context;
};
struct kas_object {
    kas_device *device;
};
/* The first members of every device's own convolution. */
typedef struct kas_conv_base {
    kas_device *device;
    kas_conv_desc desc;
} kas_conv_base;
/* The first members of every device's own ring of uploads. */
struct kas_upload {
    kas_device *device;
    int slots;
};

kas_status kas_device_open_cpu(int threads, kas_device **out);
/* Fails with KAS_UNSUPPORTED, and says what is missing, when there is no usable GPU. */
kas_status kas_device_open_cuda(int ordinal, kas_device **out);

#endif

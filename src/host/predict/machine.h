/* A machine model: a device as a few numbers, from which times are predicted (predict.h).
 *
 * Some numbers are facts about the hardware: cores, clock, bandwidths, rates. The others say what
 * our kernels and the libraries make of it: what an operation costs in steps of a core, and the
 * share of the rate that a library's convolution reaches by the class of its shape. A machine is
 *
 *     built in    by name: data sheets, and shares as measured elsewhere. Never measured itself,
 *                 unless it says so
 *     a file      written by `kas-gpu doctor --calibrate` (calibrate.h), on the machine itself
 *
 * and `calibrated` tells which. `error` and `margin` say how far its predictions can be trusted. docs/predict.md has every number. Other folders include this
 * header. */
#ifndef KAS_PREDICT_MACHINE_H
#define KAS_PREDICT_MACHINE_H

#include <stdbool.h>

#include "host/core/json/fields.h"
#include "host/device/device.h"
#include "host/recipe/recipe.h"

/* The classes of a library's convolution. */
typedef enum kas_conv_class {
    KAS_CONV_WINDOW,    /* a window of more than one pixel, one group */
    KAS_CONV_MAP,       /* 1x1, one group */
    KAS_CONV_GROUPED,   /* several groups */
    KAS_CONV_DEPTHWISE, /* one channel a group */
    KAS_CONV_CLASSES
} kas_conv_class;
kas_conv_class kas_conv_class_of(const kas_conv_desc *desc);

typedef struct kas_machine {
    char name[128];   /* of the machine or the device */
    char device[128]; /* as kas_device_info has it, of a calibrated machine; else "" */
    bool gpu, calibrated;

    double cores;   /* multiprocessors of a GPU; threads of a CPU */
    double clock;   /* steps a second of a core */
    double lanes;   /* float32 values that a core computes in a step */
    double warp;    /* lanes that run together: a row of lanes takes a multiple of them */
    double threads; /* that a core keeps ready while others wait; 0: a CPU, which waits for none */
    double memory_bandwidth, outer_bandwidth, inner_bandwidth; /* bytes a second, of all cores */
    double outer_bytes, inner_bytes;     /* sizes of the caches, of all cores together */
    double rate[KAS_PRECISION_FP16 + 1]; /* multiply-adds a second, by kas_precision */
    double read_latency;                 /* seconds of a read that another one waits for */
    double launch, call;                 /* seconds of a launch; more for a library's call */
    double efficiency[KAS_CONV_CLASSES]; /* share of the rate, with many channels */
    /* Input channels (of a group) with which half of it is reached */
    double half_channels, half_grouped;
    double pass; /* share of the bandwidth that other passes reach */
    /* Costs in steps of a core (kas_effort): of an operation on a row of `lanes` values, a function
     * (for each plain operation that kas_fn_cost counts), a read or write side by side, a sum kept
     * outside of registers; of one gathered value (on a CPU, one whose cache line is lost), one
     * division of an index; of an operation that a row shares; of a row's start. */
    double arithmetic, function, load, reduce, gather, division, shared, turn;
    /* What calibration found on kernels that it had not fitted, for times relative to the
     * unmodified network; 0: not known. Half of the kernels were predicted with at most this
     * relative error; and of a hundred, ninety-five were predicted at most this factor too slow. */
    double error, margin;
} kas_machine;

/* The fields of a machine file. Those from number *fitted up to *count - 1 are what calibration
 * fits. */
const kas_field *kas_machine_fields(int *fitted, int *count);

/* Finds a machine by what --machine takes: a built-in name ("h100"), the path of a machine file, or
 * "auto", the device of this machine that kas_machine_here finds by `device` and `threads`. A built-in
 * CPU has `threads` cores, too, unless that is 0. Fails
 * with KAS_BAD_INPUT, which names the built-in ones, or field, value and limits in a damaged
 * file. */
kas_status kas_machine_find(const char *spec, const char *device, int threads, kas_machine *out);
/* Finds the model of an open device: the calibrated one that is kept, else the built-in one of its
 * name, else one of its kind. */
kas_status kas_machine_of(const kas_device_info *info, kas_machine *out);
/* Does so for the device that --device names ("auto", "cpu", "cuda:1"; NULL: "auto"), without opening
 * a GPU: for processes that leave it to others. `threads`: of a CPU; 0 = all cores. */
kas_status kas_machine_here(const char *device, int threads, kas_machine *out);
/* Finds it among the built-in ones. */
void kas_machine_builtin_of(const kas_device_info *info, kas_machine *out);
/* The built-in machine number i; NULL at the end. */
const kas_machine *kas_machine_builtin(int i);

/* Returns whether each cache is at least as fast as what lies behind it. All machines are: otherwise
 * more bytes could take less time. */
static inline bool kas_machine_is_ordered(const kas_machine *m)
{
    return m->inner_bandwidth >= m->outer_bandwidth && m->outer_bandwidth >= m->memory_bandwidth;
}

kas_status kas_machine_read(const char *path, kas_machine *out);
kas_status kas_machine_write(const char *path, const kas_machine *machine);
/* The file in which the calibration of a device is kept, in the folder for caches. */
kas_status kas_machine_kept(const kas_device_info *info, char path[4096]);

/* Measures bandwidth and rate of a device, the two ceilings that benchmarks compare with: they must
 * come from the same run as the times, because a shared machine delivers less on some days than on
 * others. The bandwidth is that of adding two arrays that no cache holds, the rate that of a
 * library's product of large matrices in this precision. The best of many runs, in about a
 * second. All other numbers are those of kas_machine_of. When `known` is not NULL, *out is a copy
 * of it and nothing is measured. */
kas_status kas_machine_measure(kas_device *device, kas_precision precision,
                               const kas_machine *known, kas_machine *out);
/* Measures these two only: bytes and multiply-adds a second. */
kas_status kas_machine_ceilings(kas_device *device, kas_precision precision, double *bandwidth,
                                double *rate);

/* Returns the floor of a kernel in seconds: its bytes at the bandwidth of memory, its multiply-adds
 * at the rate, whichever takes longer. A kernel whose data fits in a cache can be faster. */
static inline double kas_machine_floor(const kas_machine *m, kas_precision precision, double bytes,
                                       double flops)
{
    const double memory = bytes / m->memory_bandwidth, arithmetic = flops / m->rate[precision];
    return memory > arithmetic ? memory : arithmetic;
}

#endif

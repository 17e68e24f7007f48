/* Measures a machine model: times sampled kernels on a device and fits the model's costs and shares
 * to the times of their launches.
 *
 * The kernels are drawn from both spaces with a seed of their own, so that studies with other seeds
 * are predicted and not remembered. Bandwidth and rate are measured (machine.h); numbers of
 * cores and lanes stay as they were; everything else is fitted, sizes of caches included, beginning with what was known before, which also holds the numbers that the launches say
 * little about. To find the error, half
 * of the kernels are predicted by what was fitted to the other half.
 *
 * Nothing else should run meanwhile. Networks whose turns were disturbed all the same (turns.h) are
 * left out, with a warning. */
#ifndef KAS_PREDICT_CALIBRATE_H
#define KAS_PREDICT_CALIBRATE_H

#include "host/net/targets.h"
#include "host/predict/predict.h"
#include "host/space/sample/sampler.h"

enum { KAS_CALIBRATION_SEED = 20150, KAS_CALIBRATION_KERNELS = 48, KAS_CALIBRATION_LEAST = 8 };

typedef struct kas_machine_calibration {
    int kernels;             /* KAS_CALIBRATION_LEAST or more */
    kas_precision precision; /* of the kernels; the rates of all precisions are measured */
    const char *cache_dir;   /* of the JIT; NULL = default */
    void (*on_kernel)(int done, int of); /* NULL: not called */
} kas_machine_calibration;

/* Draws `count` distinct kernels within the cost of what they replace, every fifth one from
 * NAS-PTE's space, the others by the guided sampler. The caller frees each with kas_sample_free. */
kas_status kas_machine_calibration_draw(const kas_target *targets, int count, uint64_t seed,
                                        int kernels, kas_sample *out);

/* Takes some seconds for each kernel, most of which is compiling. */
kas_status kas_machine_calibrate(kas_device *device, const kas_machine_calibration *options,
                                 kas_machine *out);

/* The launches of one network, with measured times: what is fitted. */
typedef struct kas_fit_network {
    const kas_planned_bytes *planned;
    double seconds; /* of the whole */
} kas_fit_network;

/* Fits the machine to `count` networks and returns the loss: about the square of the relative error
 * of a network. In a network each launch weighs as much as its time, and the time of the whole
 * weighs most. Networks weigh the same, but those without kernels, beside which all others are
 * judged, as much as a tenth of all. */
double kas_machine_fit(kas_machine *machine, const kas_fit_network *network, int count);

#endif

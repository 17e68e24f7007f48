/* Calibration: finds by how much the output of each kernel is multiplied, so that at initialisation
 * it has the scale of a usual layer.
 *
 * Fully-connected maps have unit gain, but other primitives change the variance by any amount: a
 * quarter of the kernels that are sampled for all layers of a network give outputs of a standard
 * deviation below 0.01 or above 100.  A small one is lost in the epsilon of the batch norm behind
 * it, a large one overflows 16-bit numbers, and without batch norms the deviations of all layers
 * multiply.  So each kernel gets a gain, in the order of the layers, from what it computes behind
 * the calibrated ones before it: layer-sequential unit variance (Mishkin and Matas, "All you need
 * is a good init", 2016).  The activations are those of training images in the network as training
 * starts it, batch norms with the statistics of the batch.
 *
 * A gain is a power of two, so multiplying by it loses no digit and the bits of a kernel's output
 * stay.  It is not part of the weights, because a batch norm makes the rate at which a weight
 * learns inverse to the square of its size: weights times 1000 would never move.
 *
 * Where a batch norm is the next layer, the standard deviation is that within channels, since the
 * norm takes away their means; a deviation from 0.1 to 10 is left as it is, for there the epsilon
 * (1e-5) is at most a thousandth of the variance.  Elsewhere it is that of the whole output, and
 * the nearest power of two is taken.  Other folders include this header. */
#ifndef KAS_SCORE_CALIBRATE_H
#define KAS_SCORE_CALIBRATE_H

#include <stdbool.h>
#include <stdint.h>

#include "host/data/dataset.h"
#include "host/model/model.h"
#include "host/space/file/gains.h"

#define KAS_CALIBRATE_LOW 0.1
#define KAS_CALIBRATE_HIGH 10.0
/* A deviation below this share of the largest value is rounding: the output is constant. */
#define KAS_CALIBRATE_NOISE 1e-6

typedef struct kas_calibrate_options {
    const kas_net *net;
    kas_programs *programs; /* of inference in float32, built without gains; loaded if need be */
    const kas_dataset *dataset;
    const uint32_t *index; /* of the training images to choose from; NULL = the first */
    uint32_t count;        /* how many those are */
    uint64_t seed;         /* of the training that will follow: it draws the same weights */
    const char *init;      /* weights that it starts from; NULL = none */
    bool init_partial;
    const char *cache_dir; /* of the JIT; NULL = default */
} kas_calibrate_options;

typedef enum kas_calibrated {
    KAS_CALIBRATE_OK,
    KAS_CALIBRATE_SAME,      /* a kernel's output is the same at all positions of all images */
    KAS_CALIBRATE_NOT_FINITE /* an element of a kernel's output is not finite */
} kas_calibrated;

typedef struct kas_calibration {
    kas_calibrated result; /* of the first layer that is neither */
    char layer[64];        /* its name */
    /* of the outputs without their gains, over the layers looked at; NaN: of none */
    double std_min, std_max;
    double compile_seconds; /* of the JIT; 0: everything was cached */
} kas_calibration;

/* Finds the gains of all targets and gives them to `replacement`, which is that of the programs.
 * Without success (result) it stays as it is. The same options give the same gains on the same kind
 * of device. Failures of the JIT, of the data set and of the device pass through. */
kas_status kas_calibrate(kas_device *device, const kas_calibrate_options *options,
                         kas_replacement *replacement, kas_calibration *out);

/* Reads the images for a calibration: `batch` of the `count` training images with these indices
 * (NULL: the first), spread evenly over them, normalised and not augmented. The caller frees
 * *out. */
kas_status kas_calibration_images(const kas_dataset *dataset, const uint32_t *index, uint32_t count,
                                  int batch, float **out);

/* Appends the reason why a candidate cannot be trained. */
void kas_calibration_reason(const kas_calibration *calibration, char *out, size_t size);

#endif

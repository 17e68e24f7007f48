/* Imitation: each kernel of a replacement learns to give the output of the convolution that it
 * replaces, on the activations of a trained network.
 *
 * One plan is a step: a batch goes through the trained network, whose batch norms use their running
 * statistics; at each target the kernel reads the convolution's input, and its weights take one
 * step of the optimiser against the share of the output's variance that it misses (ops.h). No
 * target depends on another, and the trained network does not change (net/twins.h).
 *
 * Then the kernels stand in the network: the running statistics of its batch norms are estimated
 * again, and it is validated without having been trained.
 *
 * The result is a pure function of the options, like that of a training. */
#ifndef KAS_TRAIN_IMITATE_H
#define KAS_TRAIN_IMITATE_H

#include "host/train/train.h"

typedef struct kas_imitate_options {
    /* Of a training, whose programs there must be. weights_in is the trained network without
     * kernels, weights_out the network with kernels. The recipe gives the epochs, the batch, the
     * optimiser without its weight decay, the schedule and the augmentation; its precision is fp32
     * or tf32. on_progress gets the mean share missed in place of the loss.
     * Not used: evaluate_test, recompute, on_epoch, checkpoint, init_partial. */
    kas_train_options train;
    uint32_t images; /* so many of the training images, at random; 0 = all */
    bool unscored;   /* only weights_out is wanted: nothing is validated */
} kas_imitate_options;

typedef struct kas_imitate_result {
    int targets;
    const kas_target **target; /* [targets] that are replaced */
    double *missed;            /* [targets] share of the variance, on the validation images */
    double mean; /* of them; unscored: on the last images that the kernels learned from */
    double trained_accuracy; /* top-1 of the trained network on the validation images */
    double accuracy;         /* of the network with the kernels */
    uint32_t steps;
    double seconds; /* of the steps */
    double compile_seconds;
    size_t memory; /* bytes of device memory planned */
} kas_imitate_result;

/* Checks what can be known before anything is compiled or trained, of options without programs too:
 * recipe, images, and that scoring has a batch of validation images. */
kas_status kas_imitate_check(const kas_imitate_options *options);

/* The caller frees *out with kas_imitate_result_free, also after a failure. Fails with
 * KAS_INTERRUPTED when on_progress asks for an end, and with KAS_NOTHING_VALID when a kernel's
 * weights or output became not finite. */
kas_status kas_imitate(kas_device *device, const kas_imitate_options *options,
                       kas_imitate_result *out);
void kas_imitate_result_free(kas_imitate_result *result);

#endif

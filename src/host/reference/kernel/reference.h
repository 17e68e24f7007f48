/* The independent judge: evaluates kernels in float64, naively, straight from docs/primitives.md.
 *
 * It shares no code with the JIT or the devices: every device, every generated kernel and every
 * export is compared with it. Speed does not matter here; being obviously right does.
 *
 * Layout: plain row-major logical order. x: [batch][c_in][h][w], of the size that kas_target_read
 * gives; y: [batch][c_out][h][w]; weight
 * number i (in node order): [instance][group][out][in], see space/weights.h. Other folders include
 * this header. */
#ifndef KAS_REFERENCE_KERNEL_REFERENCE_H
#define KAS_REFERENCE_KERNEL_REFERENCE_H

#include "host/space/kernel.h"
#include "host/space/target.h"

/* A kernel at one target, all instances, with the sum over parts_in divided by sqrt(parts_in). */
typedef struct kas_reference kas_reference;

/* Prepares a kernel at one target for `batch` images; kas_reference_free frees it. Returns
 * KAS_ILLEGAL when a size is no integer at the target. */
kas_status kas_reference_create(const kas_kernel *kernel, const kas_target *target,
                                const kas_binding *binding, int batch, kas_reference **out);
void kas_reference_free(kas_reference *ref);
/* Multiplies the output by a factor, 1 at first. */
void kas_reference_set_gain(kas_reference *ref, double gain);

/* Returns the number of weights, and the elements of weight i over all instances. */
int kas_reference_weights(const kas_reference *ref);
size_t kas_reference_weight_size(const kas_reference *ref, int i);

/* Computes y = f(x, weights) and keeps the intermediates for the gradient. */
kas_status kas_reference_forward(kas_reference *ref, const double *x, const double *const *weight,
                                 double *y);
/* Computes the gradients of sum(dy * y) at the point of the last forward pass. Overwrites
 * dx and dweight[i]. */
kas_status kas_reference_backward(kas_reference *ref, const double *dy, double *dx,
                                  double *const *dweight);

/* Makes later passes round at random, to find how far rounding alone moves the results. The value
 * of every node is rounded to a significand of `bits` bits (24: float32) before another node reads
 * it, and so is every node's gradient before it is passed on: up or down by the toss of a coin,
 * which `seed` decides, as in the CESTAC method (Vignes, Mathematics and Computers in Simulation
 * 35, 1993). What the format holds exactly stays as it is. The exception is what a norm subtracts
 * (the means of its operand and of its gradient): that is always moved by half a unit in its last
 * place, because a sum in the format gets the mean of equal values wrong by as much, and the norm
 * magnifies the error. Branches are those of the rounded values. 0 bits: exact again. */
void kas_reference_round(kas_reference *ref, int bits, uint64_t seed);

/* Returns the values of a node at the last forward pass, [batch][instance][elements]: to find where
 * a device departs from the reference. *elements gets the elements of one instance. */
const double *kas_reference_node_value(const kas_reference *ref, int node, size_t *elements);

/* Compares the analytic gradient with central differences along `directions` random directions of x
 * and of each weight, the branches of max, min, ReLU, abs and of the limits of exp, sqrt and square
 * frozen at the base point. *worst is the largest |analytic - numeric| / max(|analytic|, |numeric|,
 * scale), NaN when something is not finite. `scale` is the length of the gradient weighted by the
 * direction (what a random direction typically gives), but at least 1e-6 of sum |dy * y|, below
 * which differences are rounding. 1e-6 is a fair tolerance. */
kas_status kas_reference_check_gradient(kas_reference *ref, const double *x,
                                        const double *const *weight, const double *dy,
                                        int directions, uint64_t seed, double *worst);
/* The same for a gradient that comes from elsewhere: from a device, or from a test that spoiled
 * it. */
kas_status kas_reference_compare_gradient(kas_reference *ref, const double *x,
                                          const double *const *weight, const double *dy,
                                          const double *dx, const double *const *dweight,
                                          int directions, uint64_t seed, double *worst);

/* Computes the standard deviation of the output, over images, channels and positions, of a kernel
 * as training starts it: x standard normal, every weight as its primitive initialises it
 * (space/weights.h). *out is not finite when an element of the output is not. Outside the two
 * limits float32 says little of a kernel: an output that cancels to nothing is rounding, and a
 * large one comes of values that may overflow. */
#define KAS_DEVIATION_LOW 0.01
#define KAS_DEVIATION_HIGH 100.0
kas_status kas_reference_output_deviation(const kas_kernel *kernel, const kas_target *target,
                                          const kas_binding *binding, int batch, uint64_t seed,
                                          double *out);

#endif

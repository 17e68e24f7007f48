/* The independent judge: the kernel IR in float64, naively, straight from docs/primitives.md.
 *
 * Shares no code with the JIT or the devices: every device, every generated kernel and every export
 * is compared with it.  Speed does not matter here; being obviously right does.
 *
 * Layout: plain row-major logical order.  x: [batch][c_in][h][w]; y: [batch][c_out][h][w]; weight
 * of fully-connected node number i (in node order): [instance][group][out][in], see kas_fc_sizes.
 */
#ifndef KAS_REFERENCE_REFERENCE_H
#define KAS_REFERENCE_REFERENCE_H

#include "host/space/kernel.h"
#include "host/space/target.h"

/* A kernel at one target, all instances, with the sum over parts_in divided by sqrt(parts_in). */
typedef struct kas_reference kas_reference;

kas_status kas_reference_create(const kas_kernel *kernel, const kas_target *target,
                                const kas_binding *binding, int batch, kas_reference **out);
void kas_reference_free(kas_reference *ref);

int kas_reference_weights(const kas_reference *ref);
size_t kas_reference_weight_size(const kas_reference *ref, int i); /* elements, all instances */

/* y = f(x, weights). Keeps intermediates for the gradient. */
kas_status kas_reference_forward(kas_reference *ref, const double *x, const double *const *weight,
                                 double *y);
/* Gradients of sum(dy * y) at the point of the last forward. dx and dweight[i] are overwritten. */
kas_status kas_reference_backward(kas_reference *ref, const double *dy, double *dx,
                                  double *const *dweight);

/* Finite differences: compares the analytic gradient with central differences along `directions`
 * random directions over (x, weights), the branches of max, min, ReLU and abs frozen at the base
 * point. *worst is the largest |analytic - numeric| / max(|analytic|, |numeric|, scale). */
kas_status kas_reference_check_gradient(kas_reference *ref, const double *x,
                                        const double *const *weight, const double *dy,
                                        int directions, uint64_t seed, double *worst);

#endif

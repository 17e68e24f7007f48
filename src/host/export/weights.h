/* Makes the tensors of an export: weights from a file or initial ones, and the logits that the
 * float64 reference computes with them. */
#ifndef KAS_EXPORT_WEIGHTS_H
#define KAS_EXPORT_WEIGHTS_H

#include "host/export/python.h"
#include "host/reference/net/layers.h"

/* Fills every parameter and running statistic from a safetensors file. Fails with
 * KAS_BAD_INPUT and names a tensor that is missing, has another shape, or does not belong to
 * this network and kernel. */
kas_status kas_export_read_weights(const char *path, kas_ref_net *net);

/* Fills the network with initial values, rounded to float32. Learned matrices are normal with
 * variance 1/fan_in (unit gain), the kernels' factors are 1, and running statistics are computed
 * from the images, so that values stay in range through all layers. */
kas_status kas_export_init_weights(kas_ref_net *net, uint64_t seed, int n, const double *images);

/* Writes all tensors as float32, with PyTorch's names and shapes. */
kas_status kas_export_write_weights(const kas_ref_net *net, const char *title, const char *path);

/* Fills `images` [n][c][h][w] with fixed, normally distributed values: normalised images look like
 * that to a network. */
void kas_export_check_images(const kas_net *net, int n, double *images);

/* Computes the images' logits [n][classes] in the reference. Fails with KAS_FAILURE when one is not
 * finite. */
kas_status kas_export_logits(kas_ref_net *net, int n, const double *images, double *logits);

/* Writes check.safetensors: the images, their logits in the reference, in double, and "sensitivity"
 * [1]: how much the logits change, relative to the largest, when every image and every parameter
 * changes by at most half a unit in the last place of float32. Networks of unusual kernels can
 * amplify rounding greatly, and no float32 comparison can be tighter than that. The function changes
 * the network's parameters. */
kas_status kas_export_write_check(kas_ref_net *net, int n, const double *images,
                                  const double *logits, const char *path);

#endif

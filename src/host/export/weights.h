/* The tensors of an export: trained ones from a file, or initial ones, and the logits that they
 * give in the float64 reference. */
#ifndef KAS_EXPORT_WEIGHTS_H
#define KAS_EXPORT_WEIGHTS_H

#include "host/export/python.h"
#include "host/reference/net/layers.h"

/* Fills every parameter and statistic from a safetensors file. KAS_BAD_INPUT naming the tensor that
 * is missing, has another shape, or does not belong to this network and kernel. */
kas_status kas_export_read_weights(const char *path, kas_ref_net *net);

/* Initial values, rounded to float32: normal with variance 1/fan_in (unit gain) for everything
 * learned that is a matrix, 1 for the kernels' factors, running statistics from the images, so that
 * values stay in range through all layers. */
kas_status kas_export_init_weights(kas_ref_net *net, uint64_t seed, int n, const double *images);

/* float32, PyTorch's names and shapes. */
kas_status kas_export_write_weights(const kas_ref_net *net, const char *title, const char *path);

/* Fixed images [n][c][h][w], normal: what normalised images look like to a network. */
void kas_export_check_images(const kas_net *net, int n, double *images);

/* check.safetensors: the images, the logits that the reference gives for them, in double, and
 * "sensitivity" [1]: how much the logits change, relative to the largest, when every image and
 * every parameter is moved by at most half a unit in the last place of float32.  Networks of odd
 * kernels can amplify rounding greatly; a comparison in float32 can ask for no more than that.
 * KAS_FAILURE when a logit is not finite. The network's parameters are moved. */
kas_status kas_export_write_check(kas_ref_net *net, int n, const double *images, const char *path);

#endif

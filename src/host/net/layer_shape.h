/* The shape of a layer's output from those of its inputs: derived here and nowhere else. */
#ifndef KAS_NET_LAYER_SHAPE_H
#define KAS_NET_LAYER_SHAPE_H

#include "host/net/net.h"

/* Fills h, w and c of `layer`, whose other fields are set and whose inputs are layers of `net`.
 * Set beforehand: c of CONV, LINEAR and SHORTCUT_A; h and w of ADAPTIVE_AVG_POOL.  Sizes are
 * PyTorch's: floor((size + 2 pad - kernel) / stride) + 1, with ceil_mode the ceiling, but never a
 * window that starts beyond the image and its padding in front.
 * KAS_BAD_INPUT names the layer, the shapes found and what was expected; also for an output of one
 * image, or a weight, of more than 2^30 values. */
kas_status kas_layer_shape(const kas_net *net, kas_layer *layer);

#endif

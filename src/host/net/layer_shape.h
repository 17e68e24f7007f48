/* Derives the shape of a layer's output from the shapes of its inputs. No other code
 * derives shapes. */
#ifndef KAS_NET_LAYER_SHAPE_H
#define KAS_NET_LAYER_SHAPE_H

#include "host/net/net.h"

/* Fills h, w and c of `layer`, whose other fields are set and whose inputs are layers of `net`. The
 * caller sets beforehand: c of CONV, LINEAR and SHORTCUT_A; h and w of ADAPTIVE_AVG_POOL. Sizes are
 * PyTorch's: floor((size + 2 pad - kernel) / stride) + 1, or the ceiling with ceil_mode, but never
 * with a window that starts beyond the image and its padding in front. Fails with KAS_BAD_INPUT and
 * names the layer, the shapes found and what was expected; also when an output of one image, or a
 * weight, has more than 2^30 values. */
kas_status kas_layer_shape(const kas_net *net, kas_layer *layer);

#endif

/* Matches the weights in a file with the parameters of a network.
 *
 * Names are PyTorch's (params.h), so a file of torchvision's can be used unchanged.
 * For a layer L that a kernel replaces there are two cases:
 *
 *   - The file has L.weight, as that of a network without kernels does: the kernel's weights begin
 *     at random, as without a file, and the file's tensors of L are not used.
 *   - The file has the kernel's own L.weight0, ...: the same kernel is trained further from them.
 *
 * Everything else is taken from the file, including the batch norm after a replaced layer.
 *
 * Everything must fit, or the file is refused, because it shows only much later that half of a
 * network was trained from scratch by mistake. `partial` is for known differences, such as a
 * classifier for other classes: tensors that are missing, have another shape or belong to no layer
 * are left out and reported.
 *
 * A file with a number that is not finite comes from a training that diverged. It is refused as a
 * whole, even when the tensor would not be used. */
#ifndef KAS_MODEL_PRETRAINED_H
#define KAS_MODEL_PRETRAINED_H

#include "host/model/params.h"

typedef struct kas_pretrained {
    const kas_named_tensor **tensor; /* [params->count]; NULL: not taken from the file */
    int taken;                       /* number of entries that are not NULL */
    int begun_anew;                  /* kernel weights that begin at random although the file has
                                        the layer */
    int left_out;                    /* parameters and tensors, with `partial` */
    kas_buf list;                    /* what was left out: "fc.weight (shape ...), ..." */
} kas_pretrained;

/* Matches the file's tensors with `params`. `path` is for messages. Fails with KAS_BAD_INPUT and
 * names the tensor when one is not finite, and when one is missing, has another shape, or belongs
 * to no layer; with `partial` the latter only when nothing fits. The caller calls
 * kas_pretrained_free, also after a failure. */
kas_status kas_pretrained_match(const char *path, const kas_safetensors *file, const kas_net *net,
                                const kas_programs *programs, const kas_params *params,
                                bool partial, kas_pretrained *out);
void kas_pretrained_free(kas_pretrained *pretrained);

/* Checks that the file fits `net` with the kernels of `replacement` (NULL: as it is). Needs
 * no device. */
kas_status kas_pretrained_check(const char *path, const kas_net *net, const kas_programs *programs,
                                bool partial);

/* Gives the replacement the gains that belong to a file of weights: LAYER.gain, or 1 where the file
 * has none. Layers for which the file has the weights of the convolution keep their gains, because
 * there the kernels begin anew. */
kas_status kas_pretrained_gains(const char *path, kas_replacement *replacement);

#endif

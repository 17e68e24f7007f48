/* Weights of a file for a network: which tensor becomes which parameter.
 *
 * Names are PyTorch's (params.h), so a file of torchvision's serves as it is.  With kernels in
 * place of layers there are two cases for a replaced layer L:
 *   - the file has L.weight, as a network without kernels does: the kernel's weights begin at
 *     random, as without a file, and the file's tensors of L are not used;
 *   - the file has the kernel's own L.weight0, ...: a training of the same kernel goes on from it.
 * Everything else is taken from the file, the batch norm after a replaced layer too.
 *
 * Everything must fit, or the file is refused, since a network that was trained half from scratch
 * by mistake shows only much later.  `partial` is for what is known to differ, such as a classifier
 * of other classes: tensors that are missing, of another shape or of no layer are left out, and
 * told.
 *
 * A file with a number that is not finite is of a training that diverged, and is refused whole,
 * also where the tensor would not be taken. */
#ifndef KAS_MODEL_PRETRAINED_H
#define KAS_MODEL_PRETRAINED_H

#include "host/model/params.h"

typedef struct kas_pretrained {
    const kas_named_tensor **tensor; /* [params->count]; NULL: the parameter keeps what it has */
    int taken;                       /* how many are not NULL */
    int begun_anew;                  /* kernel weights in place of layers that the file has */
    int left_out;                    /* parameters and tensors, with `partial` */
    kas_buf list;                    /* of them, for people: "fc.weight (shape ...), ..." */
} kas_pretrained;

/* `path` is for messages. KAS_BAD_INPUT naming the tensor that is not finite; that is missing, has
 * another shape, or belongs to no layer, with `partial` only when nothing fits.
 * kas_pretrained_free also after a failure. */
kas_status kas_pretrained_match(const char *path, const kas_safetensors *file, const kas_net *net,
                                const kas_programs *programs, const kas_params *params,
                                bool partial, kas_pretrained *out);
void kas_pretrained_free(kas_pretrained *pretrained);

/* Bytes that a file of these parameters may have: room for float64, other tensors, the header. */
size_t kas_pretrained_limit(const kas_params *params);

/* Does the file serve `net`, with kernels in it or (NULL) as it is?  Needs no device. */
kas_status kas_pretrained_check(const char *path, const kas_net *net, const kas_programs *programs,
                                bool partial);

#endif

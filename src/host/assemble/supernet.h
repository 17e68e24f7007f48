/* A supernet: a copy of a network in which all options of a target stand side by side, and the sum
 * of their outputs, each times its weight, goes on.
 *
 *                .--> convolution --> gate --.
 *     input -----+--> kernel 1   --> gate ---+--> sum --> ...
 *                '--> kernel 2   --> gate --'
 *
 * A gate is a depthwise 1x1 convolution whose values are all the option's weight.  The gradient of
 * the weight is the sum of theirs: the dot product of the option's output and the gradient of the
 * sum.  So a supernet has only layers that every network may have, and trains as any.
 *
 * Option 0 keeps the name of its layer, so that files of weights of the network fit; option k of
 * target t is "t@k". */
#ifndef KAS_ASSEMBLE_SUPERNET_H
#define KAS_ASSEMBLE_SUPERNET_H

#include "host/assemble/choices.h"

typedef struct kas_supernet {
    kas_net *net;
    int *gate; /* [targets][options] layer; -1: there is no such option */
    int targets, options;
    kas_target *target; /* of `net`, one for each option that is a kernel */
    kas_replacement replacement;
} kas_supernet;

/* The caller calls kas_supernet_free, also after a failure. `choices` must outlive *out. */
kas_status kas_supernet_create(const kas_choices *choices, kas_supernet *out);
void kas_supernet_free(kas_supernet *supernet);

#endif

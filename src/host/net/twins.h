/* Twins: a copy of a network in which a convolution and a kernel stand side by side.
 *
 *     input ---> kernel (the twin)        nobody reads its output
 *          `---> convolution ---> ...     the network goes on as it was
 *
 * Directly before each target that a replacement replaces, the copy has a twin of it: a convolution
 * of the same name and input. The replacement that comes with the copy puts its kernels in the
 * place of the twins, so that each kernel can be compared with the convolution that it stands for.
 * Parameters have their usual names ("L.weight" is the convolution's, "L.weight0", ... are the
 * kernel's), so files of weights fit both networks. */
#ifndef KAS_NET_TWINS_H
#define KAS_NET_TWINS_H

#include "host/net/net.h"
#include "host/space/solve/replacement.h"

typedef struct kas_twins {
    kas_net *net;
    bool *twin; /* [net->layers]: the next layer is the convolution whose output it should give */
    int count;
    kas_target *target;          /* [targets] of the replacement, at the layers of `net` */
    kas_replacement replacement; /* borrows everything else from the one that it was made of */
} kas_twins;

/* The caller calls kas_twins_free, also after a failure. `net` and `replacement` must outlive
 * *out. */
kas_status kas_twins_create(const kas_net *net, const kas_replacement *replacement, kas_twins *out);
void kas_twins_free(kas_twins *twins);

#endif

/* A kernel between two others: some outputs are made as the one makes them, the rest as the other
 * does.
 *
 * Source: NAS-PTE (Turner, Crowley, O'Boyle, ASPLOS 2021), section 7.7: between a network of
 * convolutions in 2 groups and one in 4 lie networks whose outputs are split, with either grouping
 * in each share.
 * Other folders include this header. */
#ifndef KAS_SPACE_EVOLVE_BLEND_H
#define KAS_SPACE_EVOLVE_BLEND_H

#include "host/space/kernel.h"

/* The most shares into which the outputs are split. */
enum { KAS_BLEND_SHARES = 4 };

/* Makes the kernel of which `share` of `shares` output channels are made as by `b` and the others
 * as by `a`: the first ones by b, except for all shares but one of more than two, which are the
 * last ones. 0 < share < shares <= KAS_BLEND_SHARES. Both kernels must end in a fully-connected map
 * to C channels that nothing else reads, have no free sizes, and take the stride alike; else, and
 * where the kernel has no room, KAS_ILLEGAL says why. */
kas_status kas_blend(const kas_kernel *a, const kas_kernel *b, int share, int shares,
                     kas_kernel *out);

#endif

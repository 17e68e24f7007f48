/* Makes kernels from outlines, by the steps and rules of the guided sampler.
 *
 * Internal to evolve/. */
#ifndef KAS_SPACE_EVOLVE_REBUILD_H
#define KAS_SPACE_EVOLVE_REBUILD_H

#include "host/space/evolve/outline.h"

/* Rebuilds the first `nodes` nodes of a tidy outline in d->growth, as the beginning of a kernel of
 * `primitives` primitives, or as a whole kernel (`nodes` = outline->nodes = primitives + 1). A size
 * that a node had in its parent stays with `keep_sizes`; otherwise, and where it does not fit,
 * sizes are matched again (6.2): a branch takes the value it had in the parent if that is among
 * those that fit, else one of them at random, from d->rng.
 *
 * Returns KAS_REJECT_NONE when every rule of the samplers allows what was built. A whole kernel is
 * then finished: its output is [C, H, W]; its sizes are not solved. */
kas_reject kas_rebuild(kas_guided *d, const kas_outline *outline, int nodes, int primitives,
                       bool keep_sizes);

#endif

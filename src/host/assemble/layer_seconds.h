/* Which target of a network takes how much of the time of a forward pass. */
#ifndef KAS_ASSEMBLE_LAYER_SECONDS_H
#define KAS_ASSEMBLE_LAYER_SECONDS_H

#include "host/model/planned_bytes.h"

/* Adds up the seconds of the passes, with targets in the order of layers: seconds[t] of target t
 * and of the layers behind it up to the next target, whose passes its kernel may do where it
 * writes; seconds[count] of all before the first. A pass without a time counts nothing. The sum is
 * that of the network. */
void kas_layer_seconds(const kas_planned_bytes *planned, const kas_target *targets, int count,
                       double *seconds);

#endif

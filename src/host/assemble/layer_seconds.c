#include "host/assemble/layer_seconds.h"

#include <math.h>
#include <string.h>

void kas_layer_seconds(const kas_planned_bytes *planned, const kas_target *targets, int count,
                       double *seconds)
{
    memset(seconds, 0, sizeof *seconds * ((size_t)count + 1));
    for (int i = 0; i < planned->passes; i++) {
        const kas_sweep *pass = &planned->pass[i];
        int owner = count;
        for (int t = 0; t < count; t++)
            if (targets[t].layer <= pass->layer)
                owner = t;
        if (isfinite(pass->seconds))
            seconds[owner] += pass->seconds;
    }
}

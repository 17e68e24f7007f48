/* Which pixels of the input a pixel of a tensor depends on. Internal to the samplers. */
#ifndef KAS_SPACE_CANVAS_RECEPTIVE_FIELD_H
#define KAS_SPACE_CANVAS_RECEPTIVE_FIELD_H

#include "host/space/kernel.h"

/* Relative to the pixel's own place, [low, high] along H and along W; the hull where there are gaps
 * between the taps of a window. */
typedef struct kas_receptive_field {
    int16_t low[2], high[2];
} kas_receptive_field;

/* The view of node i from those of its operands. window: K_H and K_W. */
kas_receptive_field kas_receptive_field_of(const kas_kernel *kernel, int i,
                                           const kas_receptive_field *const operands[],
                                           const uint32_t window[2]);

/* Pixels across, the pixel's own place included, along the axis where there are more. */
int kas_receptive_field_across(const kas_receptive_field *view);

#endif

/* Rewrites of a kernel's loops, which schedule.c applies before it places them.
 * Internal to schedule. */
#ifndef KAS_JIT_SCHEDULE_NEST_H
#define KAS_JIT_SCHEDULE_NEST_H

#include "jit/schedule/schedule.h"

/* Splits loops and reductions as long as that removes divisions. */
kas_status kas_nest_split(kas_ir *ir, kas_nest *nest);
/* Merges neighbouring loops that every index walks as one loop. */
kas_status kas_nest_merge(kas_ir *ir, kas_nest *nest);
/* Writes to `to` the nest with loops i and i + 1 as one loop, even if that adds divisions. Returns
 * false when the loop would be too long. */
bool kas_nest_merge_pair(kas_ir *ir, const kas_nest *nest, int i, kas_nest *to);

/* Chooses the lanes and the loop inside them, and makes one loop of several where that is cheapest
 * (lanes.c). `keeps`: lanes keep values between loops and have no loop inside. */
kas_status kas_nest_choose_lane(kas_ir *ir, kas_nest *nest, bool keeps);

/* What the first lanes of a row touch, found by evaluating the index with all other variables 0. */
typedef struct kas_lane_pattern {
    int lanes, sectors; /* looked at; touched */
    bool fixed, contiguous;
    int64_t farthest; /* distance of neighbours */
} kas_lane_pattern;
kas_lane_pattern kas_ix_lane_pattern(const kas_ir *ir, kas_ix ix, int lane);
/* Returns how many divisions of an index take the lane apart, including divisions inside others. */
int kas_ix_lane_divisions(const kas_ir *ir, kas_ix ix, int lane);

#endif

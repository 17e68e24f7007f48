/* What the files of this folder share: steps, rewrites of a kernel's loops, the default's rules for
 * lanes and placements, and what a launch is predicted to take. Internal to schedule. */
#ifndef KAS_JIT_SCHEDULE_NEST_H
#define KAS_JIT_SCHEDULE_NEST_H

#include "jit/schedule/schedule.h"

/* What several files go by. */
enum {
    KAS_WARP = 32,            /* threads of a GPU that run together */
    KAS_MOST_LANES = 1024,    /* of a block */
    KAS_MOST_INNER = 16,      /* turns of a loop inside the lanes */
    KAS_MOST_TILE_TURNS = 64, /* KAS_TILE_TURNS of tile.h */
    KAS_MOST_GRID_YZ = 65535  /* coordinates y and z of a block */
};

/* Adds a step that was taken; returns false when there are too many. */
bool kas_nest_record(kas_nest *nest, kas_step step);
/* Takes a step on the loop of a variable. */
kas_status kas_nest_step_on(kas_ir *ir, kas_nest *nest, kas_step_kind kind, int var, int64_t n);
/* Returns KAS_ILLEGAL with the step and the reason. */
kas_status kas_nest_refuse(const kas_ir *ir, const kas_nest *nest, kas_step step,
                           const char *reason);
/* Returns the place of a loop of the nest, -1 of any other variable; and whether it was given its
 * place in a block. */
int kas_nest_place_in(const kas_nest *nest, int var);
bool kas_nest_is_placed(const kas_nest *nest, int var);
/* Returns whether a reduction runs around the lanes, or is thought to. */
bool kas_nest_runs_around(const kas_ir *ir, const kas_nest *nest, kas_ex e);
/* Take the steps `stage` and `prefetch` on a loop that there is (stage.c). */
kas_status kas_nest_stage(kas_ir *ir, kas_nest *nest, kas_step step);
kas_status kas_nest_prefetch(kas_ir *ir, kas_nest *nest, kas_step step);
/* Takes the step `rfactor` on a loop that there is (rfactor.c). */
kas_status kas_nest_rfactor(kas_ir *ir, kas_nest *nest, kas_step step);
/* Computes the threads of a block from its lanes and rows. */
void kas_nest_set_threads(kas_nest *nest);

/* Bytes of shared memory that a GPU's block has without asking for more, and those that an array of
 * floats takes of them: each begins at a multiple of 16 bytes (KAS_SHARED of prelude.h). */
enum { KAS_BLOCK_BYTES = 48 * 1024 };
static inline int64_t kas_block_array_bytes(int64_t elements)
{
    return (elements + 3) / 4 * 16;
}

/* Splits loops and reductions as long as that removes divisions. */
kas_status kas_nest_split(kas_ir *ir, kas_nest *nest);
/* Merges neighbouring loops that every index walks as one loop. */
kas_status kas_nest_merge(kas_ir *ir, kas_nest *nest);
/* Writes to `to` the nest with loops i and i + 1 as one loop, even if that adds divisions. Returns
 * false when the loop would be too long, or is a row or a column. */
bool kas_nest_merge_pair(kas_ir *ir, const kas_nest *nest, int i, kas_nest *to);

/* Chooses the lanes and the loop inside them, and makes one loop of several where that is cheapest
 * (lanes.c). `keeps`: lanes keep values between loops and have no loop inside. */
kas_status kas_nest_choose_lane(kas_ir *ir, kas_nest *nest, bool keeps);
/* Calls `see` with each choice of lanes. */
typedef kas_status kas_lanes_visitor(void *context, kas_nest trial);
kas_status kas_nest_each_lane(kas_ir *ir, const kas_nest *nest, bool keeps, kas_lanes_visitor *see,
                              void *context);

/* Place a kernel whose lanes are chosen, by the usual rules (schedule.c). `keeps` as above; `work`:
 * turns of the longest reduction. kas_nest_place does all but the reductions. The others place the
 * lanes of a block; how many of them a thread has; the loops, of which turns of `rows` (or of the
 * innermost one where that is -1) share a block, `count` of them or, where it is 0, as many as that
 * is worth; and the reductions that have no place yet. */
kas_status kas_nest_place(kas_ir *ir, kas_nest *nest, bool keeps, double work);
kas_status kas_nest_place_lanes(kas_ir *ir, kas_nest *nest, bool keeps);
kas_status kas_nest_place_width(kas_ir *ir, kas_nest *nest);
kas_status kas_nest_place_loops(kas_ir *ir, kas_nest *nest, double work, int rows, int64_t count);
kas_status kas_nest_place_reductions(kas_ir *ir, kas_nest *nest);
/* Predicts the seconds of a launch on a GPU, and what it must take to move its bytes (ways.c). */
kas_status kas_nest_price(const kas_ir *ir, const kas_nest *nest, double *seconds, double *least);
/* On a GPU, where the placement `nest` leaves the launch far from what its bytes take, looks for
 * other placements of the open nest, and puts one that is predicted to be faster in its place
 * (ways.c). Reductions may still have no place. `keeps` and `work` as above. */
kas_status kas_nest_improve(kas_ir *ir, const kas_nest *open, bool keeps, double work,
                            kas_nest *nest);

/* Finds the variable along which most of what the lanes read apart lies side by side, as `turned`
 * (tiles.c); -1 where there is none, and on a GPU. */
kas_status kas_nest_find_turned(const kas_ir *ir, kas_nest *nest);
/* Makes tiles along the turned variable, after splitting it where it is long. */
kas_status kas_nest_turn(kas_ir *ir, kas_nest *nest);
/* Lists the loads that have a tile along the turned variable; there may be none. */
kas_status kas_nest_list_tiles(kas_ir *ir, kas_nest *nest);
/* Writes to `to` the nest with two short loops, along which what a lane writes lies side by side, as
 * one. Returns false where there are none. */
bool kas_nest_merge_taps(kas_ir *ir, const kas_nest *nest, int lane, kas_nest *to);
/* Finds the tile through which the kernel writes, along the turned loop or the one inside the lanes;
 * there may be none. */
void kas_nest_find_spill(kas_ir *ir, kas_nest *nest);
/* Lists the loads that a GPU's block reads from shared memory, where a tile has all turns of
 * reduction `loop`, which runs around the lanes, or what all rows of the block read (-1); there may
 * be none (boxes.c). All loops of the nest have their place. */
kas_status kas_nest_list_boxes(kas_ir *ir, kas_nest *nest, int loop);
/* Returns how often a thread turns to fill an array. */
double kas_box_turns(const kas_ir *ir, const kas_nest *nest, const kas_shared_box *box);
/* Returns the bytes of the sectors from which an array is filled. */
double kas_box_bytes(const kas_ir *ir, const kas_shared_box *box);
/* Adds what it takes to fill the boxes of all blocks: for each element a read, a write and their
 * addresses, and where a thread begins two divisions. */
void kas_nest_count_fills(const kas_ir *ir, const kas_nest *nest, kas_effort *effort);
/* Adds what it takes to write the parts of sums to shared memory and to add them up, which each row
 * of threads does for itself; `lanes`: of all rows of the launch (rfactor.c). */
void kas_nest_count_parts(const kas_ir *ir, const kas_nest *nest, double lanes, kas_effort *effort);
/* Fills `out` with the values of a sum where variable `lane` is first, first + 1, ... and all others
 * are 0; `count` is at most KAS_LANES_AT_ONCE. */
enum { KAS_LANES_AT_ONCE = 32 };
void kas_ix_sum_at(const kas_ir *ir, const kas_ix_sum *sum, int lane, int64_t first, int count,
                   int64_t *out);

/* Writes to `to` the nest with variable var = outer * inner + inner variable; both are new, the
 * inner one last. Returns false when there would be too many loops. Like kas_nest_merge_pair it
 * records the step, of which it takes for granted that it is legal. */
bool kas_nest_split_loop(kas_ir *ir, const kas_nest *nest, int var, int64_t inner, kas_nest *to);

/* Cuts a loop along which windows slide and runs its turns inside the lanes (slide.c). */
kas_status kas_nest_slide(kas_ir *ir, kas_nest *nest);
/* On a CPU, places the lanes and the virtual threads of a kernel whose one long sum is of products of
 * a run of lanes and a number: its sums then stay in registers (slide.c, emit_sums.c). */
kas_status kas_nest_keep_sums(kas_ir *ir, kas_nest *nest);
/* Splits a reduction over several of whose turns a loop's windows step, x[2 * h + k], in parts of as
 * many: then neighbouring turns of the loop share what they load, x[2 * (h + k / 2) + k % 2]. Does
 * nothing where there is none; returns KAS_ILLEGAL where it cannot be split. */
kas_status kas_nest_split_taps(kas_ir *ir, kas_nest *nest, int loop);

/* Returns whether lanes read apart at an index that is side by side along `turned`. */
bool kas_ix_is_turned(const kas_ir *ir, kas_ix ix, int lane, int turned);

/* Finds the tests behind which windows need no guards (inside.c); none on a GPU. */
kas_status kas_nest_find_insides(kas_ir *ir, kas_nest *nest);

/* Returns how many different 32-byte sectors the first lanes of a row touch, for each of these
 * lanes: at most 1. Found by evaluating the index of elements of `size` bytes with all other
 * variables 0. */
double kas_ix_lane_sectors(const kas_ir *ir, kas_ix ix, int lane, size_t size);
/* Counts what the threads of a GPU wait for: rounds, near, fetched and registers of the effort
 * (waits.c). */
kas_status kas_nest_count_waits(const kas_ir *ir, const kas_nest *nest, kas_effort *effort);
/* Computes the bytes that all blocks of a GPU's launch fetch and write beyond L1. */
kas_status kas_nest_fetched(const kas_ir *ir, const kas_nest *nest, double *bytes);
/* Returns how many divisions of an index take the lane apart, including divisions inside others. */
int kas_ix_lane_divisions(const kas_ir *ir, kas_ix ix, int lane);

#endif

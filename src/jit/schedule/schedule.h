/* Scheduling: decides which loops of one kernel are lanes, grid axes, rows or plain loops.
 *
 * A kernel's nest is opened, and transformed by the steps of a schedule (sequence.h); what results
 * is what emit.h writes as text. The default schedule:
 *
 *     lanes   what lanes.c finds cheapest: the dimension, or the trailing dimensions made one,
 *             along which the kernel's accesses touch least memory; cut in chunks when long
 *     grid    up to three coordinates of the block (a chunk of lanes or of rows is one)
 *     rows    a loop that the threads' y coordinate shares, with so many turns in a block that the
 *             block has work for its threads
 *     serial  what is left
 *
 * Loops are split where that removes a division, so that indices are sums of coordinates. Other
 * folders include this header. */
#ifndef KAS_JIT_SCHEDULE_SCHEDULE_H
#define KAS_JIT_SCHEDULE_SCHEDULE_H

#include "jit/schedule/rows.h"
#include "jit/schedule/sequence.h"

enum { KAS_NEST_LOOPS = 32, KAS_TILES = 8, KAS_INSIDES = 8, KAS_BOXES = 4, KAS_BOX_DIMS = 4 };
/* What a grid axis counts: chunks of lanes, chunks of rows */
enum { KAS_AXIS_NONE = -1, KAS_AXIS_LANES = -2, KAS_AXIS_ROWS = -3 };

enum { KAS_TILE_VARS = 2 };
/* A load whose elements are transposed before the lanes read them (tiles.c). */
typedef struct kas_tile {
    kas_ex load;
    kas_ix base;    /* flat address of the first lane's first turn */
    int64_t stride; /* elements from one lane to the next */
    int64_t turns;
    kas_ix turn; /* where tiles are read inside the lanes: the number of the turn */
    /* Reductions inside the lanes on which the load depends: a tile has `turns` for each of their
     * turns */
    int vars, var[KAS_TILE_VARS];
    int64_t copies; /* their turns together */
} kas_tile;

/* A tile through which what lanes write apart goes to memory (tiles.c). */
typedef struct kas_spill {
    int var;        /* its turns: the turned loop, or the one inside the lanes */
    int64_t turns;  /* 0: there is none */
    int64_t stride; /* elements from one lane to the next */
    kas_ix base;    /* flat address of the first lane's first turn */
} kas_spill;

/* What the lanes of a GPU's block read by one load, as an array in shared memory (boxes.c). */
typedef struct kas_shared_box {
    kas_ex load;
    kas_ix place;                /* in the array, of what a lane reads */
    kas_ix from;                 /* flat address of the element that turns of all `dim` name */
    int dims, dim[KAS_BOX_DIMS]; /* variables, neighbours in memory first */
    int64_t step[KAS_BOX_DIMS];  /* elements of the array from one turn to the next */
    int64_t pads, pad, pad_step; /* runs of `pad` elements in front of each `pad_step`: not read */
    int64_t elements;            /* of the array, with those that keep banks apart */
    int64_t run;                 /* neighbours in memory that are copied together */
    /* Turns that the banks need for what the lanes of a warp read, and for what they copy */
    double waves, fill_waves;
} kas_shared_box;

/* A test of a pixel's place: low <= ix <= high (inside.c). */
typedef struct kas_inside {
    kas_ix ix;
    int64_t low, high;
} kas_inside;

typedef struct kas_nest {
    int tensor;                      /* tensor whose memory is written */
    kas_ex value;                    /* loads only, no reads */
    kas_ix store;                    /* flat address */
    int loops, loop[KAS_NEST_LOOPS]; /* variables, outermost first */
    int lane;                        /* variable, -1 = one lane */
    /* Bytes that a lane fetches in one turn where lanes do not lie side by side */
    double lane_bytes;
    int64_t lanes;      /* lanes of a block */
    int column;         /* in a kernel of columns: the variable that its lanes walk; else -1 */
    int width;          /* lanes of a thread: 1, or a group (wide.h) */
    int inner;          /* variable or -1 */
    int rows;           /* variable or -1 */
    int64_t block_rows; /* turns of `rows` in a block */
    int factored;       /* reduction whose turns are rows, with sums of their own; or -1 */
    int64_t parts;      /* its turns; 0 where there is none */
    double part_words;  /* floats of shared memory, in which a block keeps all parts */
    int serials, serial[KAS_NEST_LOOPS];
    int axis_var[3]; /* what each grid axis counts: a variable or a KAS_AXIS_... */
    unsigned grid[3], block[3];
    bool wide;                            /* addresses need 64 bits */
    bool row;                             /* the lanes are a row (rows.h): they stay as they are */
    int outputs, output[KAS_ROW_OUTPUTS]; /* tensors that are written too, once a row */
    kas_ex output_value[KAS_ROW_OUTPUTS];
    kas_ix output_store[KAS_ROW_OUTPUTS];
    int turned;        /* variable along which tiles are read; -1: there are none */
    int64_t turns;     /* of it in a tile that is filled in front of its loop */
    bool tiles_within; /* the turned loop stands inside the lanes */
    int tiles;
    kas_tile tile[KAS_TILES];
    kas_spill spill;
    /* Where all of these hold, the lanes need no guards; the share of pixels where they do */
    int insides;
    kas_inside inside[KAS_INSIDES];
    double inside_share;
    bool slides;     /* `inner` are virtual threads: neighbours whose windows overlap (slide.c) */
    bool keeps_sums; /* they are there for sums that stay in a CPU's registers (slide.c) */
    /* The steps that made the nest what it is. Loop or reduction `id` is variable var_of[id]. The
     * first `opened` are its loops before any step, the next ones, up to `bases`, its reductions */
    kas_schedule schedule;
    int opened, bases, ids, var_of[KAS_LOOP_IDS];
    uint8_t state[KAS_LOOP_IDS]; /* kas_loop_state */
    /* On a GPU: arrays of a block, filled in front of its rows, or in each turn of the reductions
     * around `boxed`, a reduction around the lanes */
    int boxes, boxed; /* boxed: -1 in front of the rows */
    int ahead;        /* reduction around `boxed` in whose turns the next one's are filled; or -1 */
    kas_shared_box box[KAS_BOXES];
    int first_lane,
        first_row;      /* variables: the first of the block, or of those that run together */
    double fills;       /* how often a block fills its arrays */
    kas_step_kind last; /* step from `lane` on; what comes after it has a place behind it */
} kas_nest;

/* What steps made of a loop or reduction: nothing (then a reduction is a loop inside the lanes); it
 * is unrolled; it runs around the lanes; other loops replace it. */
typedef enum kas_loop_state {
    KAS_LOOP_OPEN,
    KAS_LOOP_UNROLLED,
    KAS_LOOP_AROUND,
    KAS_LOOP_REPLACED
} kas_loop_state;

/* Opens the nest of the kernel that writes `value` to the memory of `tensor`: no step is taken. */
kas_status kas_nest_open(kas_ir *ir, int tensor, kas_ex value, kas_nest *out);
/* Takes one step. Returns KAS_ILLEGAL with a message that names the dependence that forbids it, or
 * what else does; the nest is then as before. */
kas_status kas_nest_step(kas_ir *ir, kas_nest *nest, kas_step step);
/* Chooses the default schedule of an open nest. */
kas_status kas_schedule_default(kas_ir *ir, const kas_nest *open, kas_schedule *out);
/* Takes all steps of a schedule on an open nest and completes it. Returns KAS_ILLEGAL where a step is
 * illegal or a loop was given no place. */
kas_status kas_schedule_apply(kas_ir *ir, const kas_schedule *schedule, kas_nest *nest);

/* Returns whether an index is within its guard or clamp wherever the kernel's `inside` holds. */
bool kas_nest_covers(const kas_ir *ir, const kas_nest *nest, kas_ix ix);
/* Returns whether a CPU guards an index without a choice between values (kas_inside, tile.h): that of
 * the taps of a window, be they a reduction or a loop that turns inside the lanes. */
bool kas_nest_guards_taps(const kas_ir *ir, const kas_nest *nest, const kas_masks *masks,
                          kas_ix ix);

/* How lanes first .. first + lanes - 1 pick their elements of a load (picks.c): lane l takes
 * element place[l] of the `window` elements at `start` beside the part of the index that no lane
 * changes. */
typedef struct kas_pick {
    int lanes, window, place[16];
    int64_t start;
} kas_pick;
/* Finds how some lanes pick; returns false where they cannot, and on a GPU. kas_nest_picks returns
 * whether all lanes can. */
bool kas_nest_pick(const kas_ir *ir, const kas_ex_node *load, int lane, int first, kas_pick *out);
bool kas_nest_picks(const kas_ir *ir, const kas_ex_node *load, int lane);
bool kas_atom_has_lane(const kas_ir *ir, const kas_atom *atom, int lane);

/* Puts the taps along which windows slide along the loop inside the lanes last (slide.c): these loops
 * are unrolled first, and neighbours share what they load in unrolled turns. `var`: the reductions
 * of `body`, outermost first. */
void kas_nest_order_taps(const kas_ir *ir, const kas_nest *nest, kas_ex body, int *var, int vars);

/* Returns whether the body of a sum is the product of a load whose lanes lie side by side, alike for
 * all virtual threads, and of one that is a number to the lanes. */
bool kas_nest_product(const kas_ir *ir, const kas_nest *nest, kas_ex body, kas_ex *run,
                      kas_ex *number);

/* Returns how many loads at an index a thread makes for one turn of the taps along which windows do
 * not slide, and how many taps there are along which they do; 1 where no windows slide. */
double kas_nest_slide_loads(const kas_masks *masks, const kas_nest *nest, kas_ix ix, double *taps);

/* Returns the array in which lanes of a GPU find a load, or NULL (boxes.c). */
const kas_shared_box *kas_nest_box_of(const kas_nest *nest, kas_ex load);

/* Calls `see` for each index expression of the kernel, once for each place where it stands. */
typedef void kas_ix_visitor(void *context, const kas_ex_node *node, kas_ix ix);
kas_status kas_nest_visit(const kas_ir *ir, const kas_nest *nest, kas_ix_visitor *see,
                          void *context);

/* Returns the turns of the loops of a reduction, including reductions of its kind
 * directly inside it. */
double kas_reduce_length(const kas_ir *ir, kas_ex e);
/* Returns whether the reduction should run outside the lanes: it is too long for the compiler to
 * unroll, and a loop inside a lane does not vectorise. */
bool kas_reduce_is_long(const kas_ir *ir, kas_ex e);
/* Returns the number of a variable's loop or reduction (sequence.h); -1 where it has none. */
int kas_nest_id_of(const kas_nest *nest, int var);
/* Returns what steps made of a reduction. */
kas_loop_state kas_nest_state_of(const kas_nest *nest, const kas_ex_node *reduce);
/* Returns whether a reduction runs as a loop, around the lanes if it can: by its step, and before
 * there is one by kas_reduce_is_long. */
bool kas_nest_is_long(const kas_ir *ir, const kas_nest *nest, kas_ex e);

/* Proves from ranges alone that every access stays inside its tensor's memory and that the launch
 * is legal; returns KAS_FAILURE otherwise. */
kas_status kas_nest_prove_bounds(const kas_ir *ir, const kas_nest *nest);
/* Counts the least FLOPs and bytes of the operation, without the few bytes of a gain, and what its
 * instructions are (effort.c). */
kas_status kas_nest_count(const kas_ir *ir, const kas_nest *nest, double *flops, double *bytes,
                          kas_effort *effort);

#endif

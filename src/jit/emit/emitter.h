/* The state of the emission of one kernel, and the functions that emit.c (loops, lanes, phases)
 * takes from emit_value.c (expressions). Internal to emit. */
#ifndef KAS_JIT_EMIT_EMITTER_H
#define KAS_JIT_EMIT_EMITTER_H

#include "jit/emit/emit.h"
#include "jit/schedule/wide.h"

enum { KAS_NOT_EMITTED = -1, KAS_DEEP = 64 };

/* What lanes pick of a load (schedule/picks.c), at each turn of loops inside the lanes. */
typedef struct kas_picked {
    kas_ex load;
    int number, vars, var[4];
} kas_picked;

typedef struct kas_emitter {
    const kas_ir *ir;
    const kas_nest *nest;
    kas_buf *out;
    kas_masks masks;
    int *name; /* by kas_ex: number of its value; KAS_NOT_EMITTED; or -2 - k: lane value k */
    int *live; /* stack of the expressions that have a name */
    int lives, temps, lane_values, indent;
    int arg_of_tensor[KAS_MAX_LAUNCH_ARGS];
    int args, inputs; /* inputs come first */
    int *var_name;    /* by variable: the number in its name */
    int vars;
    char *phased; /* by kas_ex: emitted as a phase, or looked at (1); by emit_slide.c (2) */
    int *hoisted; /* by kas_ex: the loop for which it was last looked at */
    int turns;
    uint64_t open; /* mask of the variables of open loops */
    /* By kas_ex: whether it differs between the lanes of a thread; 0 = not looked at */
    char *wide;
    bool inside; /* whether the kernel's `inside` holds: guards are left out */
    int picks, pick_names;
    int row_picks;       /* the first of them, which are the same for all rows of the block */
    uint64_t not_picked; /* mask of the variables on which they do not depend */
    kas_picked pick[16];
    bool filled; /* whether the tiles, or arrays of shared memory, are filled */
    bool each;   /* whether the text being written stands for each lane of a thread */
} kas_emitter;

__attribute__((format(printf, 2, 3))) void kas_emit_line(kas_emitter *e, const char *format, ...);
void kas_emit_start(kas_emitter *e); /* writes the indentation */
int kas_emit_var_name(kas_emitter *e, int var);
void kas_emit_put_ix(kas_emitter *e, kas_ix ix);
void kas_emit_put_sum(kas_emitter *e, const kas_ix_sum *sum);
/* Writes the name of a value that was emitted, or a constant. */
void kas_emit_put_value(kas_emitter *e, kas_ex x);
int kas_emit_arg(kas_emitter *e, int tensor); /* returns the number of its pointer, -1 = none */
/* Returns whether a tensor is of the program's dtype, which is kas_real in the text; and the type
 * to which argument `arg` points. */
bool kas_emit_is_real(const kas_emitter *e, int tensor);
const char *kas_emit_type(const kas_emitter *e, int arg);

/* Returns whether x is a KAS_WIDE_VALUE: one value for each lane of a thread. */
bool kas_emit_is_wide(kas_emitter *e, kas_ex x);
/* Emits x and what it needs, unless it has a name already. */
void kas_emit_value(kas_emitter *e, kas_ex x);
/* Emits what the body of a loop needs but does not change: everything that depends only on the
 * variables of loops that are open. `turn` numbers the loops. */
void kas_emit_hoist(kas_emitter *e, kas_ex x, int turn);
/* Stores the value of the kernel, which was emitted before, at its address. */
void kas_emit_store(kas_emitter *e);
/* Declares the tiles of the kernel and fills them, before the loop along which they are read or, if
 * that stands inside the lanes, before the lanes (emit_tile.c). */
void kas_emit_fill_tiles(kas_emitter *e);
/* Declares the tile through which the kernel writes, where it has one; copies it to memory; writes
 * what stands in front of the value that a lane puts into it. */
void kas_emit_open_spill(kas_emitter *e);
void kas_emit_spill(kas_emitter *e);
void kas_emit_put_spill(kas_emitter *e);
/* Declares the arrays of shared memory and fills them, between barriers (emit_box.c). */
void kas_emit_fill_boxes(kas_emitter *e);
/* The same for arrays that are filled ahead: for the first turn of the loop around them, and within
 * it, where this turn's are complete, for the next one. */
void kas_emit_fill_first(kas_emitter *e);
void kas_emit_fill_next(kas_emitter *e);
/* Writes the load x as an element of its array; returns false when it has none that is filled. */
bool kas_emit_put_boxed(kas_emitter *e, kas_ex x);
/* Writes what lanes pick for x, in front of a loop over the lanes; kas_emit_forget_picks forgets it
 * behind that loop. kas_emit_row_picks writes what lanes pick alike in all rows of the block, in
 * front of the rows; it is never forgotten. kas_emit_is_picked returns whether there are picks for a
 * load. */
void kas_emit_row_picks(kas_emitter *e);
void kas_emit_picks(kas_emitter *e, kas_ex x);
bool kas_emit_is_picked(const kas_emitter *e, kas_ex load);
void kas_emit_forget_picks(kas_emitter *e);
/* Writes the load x as an element of its tile; returns false when it has none that is filled, and
 * the lanes do not pick it. */
bool kas_emit_put_tiled(kas_emitter *e, kas_ex x);
/* Writes a load from memory. */
void kas_emit_put_load(kas_emitter *e, const kas_ex_node *node);
/* Emit the body of a kernel whose lanes are a row (emit_row.c), or walk columns (emit_column.c). */
kas_status kas_emit_row(kas_emitter *e);
kas_status kas_emit_column(kas_emitter *e);
/* Emits what x sums up over windows that slide, for all turns of the loop inside the lanes
 * (emit_slide.c). */
void kas_emit_sliding(kas_emitter *e, kas_ex x);
/* Emits a CPU's sum x, number `index`, in registers (emit_sums.c); returns false where it is none
 * that can be. */
bool kas_emit_register_sum(kas_emitter *e, kas_ex x, kas_ex body, const int *var, int vars,
                           int index);
/* Opens the loop of virtual threads inside the lanes. */
void kas_emit_open_turns(kas_emitter *e);
/* Returns whether a reduction around the lanes has a value for each virtual thread. */
bool kas_emit_has_turns(kas_emitter *e, kas_ex x);
/* Writes the name of value `number` of x, a reduction around the lanes, in a lane. */
void kas_emit_lane_value(kas_emitter *e, kas_ex x, int number, char text[60]);
/* Opens the loop over the lanes of a block. `threads`: values are kept for the lanes from
 * loop to loop. */
void kas_emit_open_lanes(kas_emitter *e, bool threads);
/* kas_emit_leave_mark returns a mark; kas_emit_forget forgets the names given after it, when the
 * block in which they live is closed. */
int kas_emit_leave_mark(const kas_emitter *e);
void kas_emit_forget(kas_emitter *e, int mark);

/* Finds the variables of a chain of reductions of one kind, which becomes one nest of loops, and
 * returns its body. A part that is unrolled, inside one that is not, is a sum of its own. */
kas_ex kas_emit_nest_of(const kas_emitter *e, kas_ex x, int *var, int *vars);
const char *kas_emit_first_value(kas_fn fn);
void kas_emit_open_loop(kas_emitter *e, int var);
/* Opens the loops of a reduction over `body`, outermost first, with the number of turns that a GPU
 * unrolls (unroll.c). `brief`: the CPU unrolls them whole. */
void kas_emit_open_loops(kas_emitter *e, kas_ex body, const int *var, int vars, bool brief);
/* Writes how far a GPU unrolls a walk along a column. `whole`: all turns, because its values
 * are in registers. */
void kas_emit_unroll_walk(kas_emitter *e, kas_ex body, int var, bool whole);
void kas_emit_close_block(kas_emitter *e);
void kas_emit_close_loops(kas_emitter *e, const int *var, int vars);
/* Writes the step of a reduction, `acc` (and `index`) op= body, for one turn. `acc` and `index` are
 * lvalues, of each lane when body is wide. */
void kas_emit_accumulate(kas_emitter *e, kas_fn fn, const char *acc, const char *index, kas_ex body,
                         int var);

#endif

/* State of the emission of one kernel, and the parts that emit.c (loops, lanes, phases) takes from
 * emit_value.c (expressions). */
#ifndef KAS_JIT_EMIT_EMITTER_H
#define KAS_JIT_EMIT_EMITTER_H

#include "jit/emit/emit.h"
#include "jit/schedule/wide.h"

enum { KAS_NOT_EMITTED = -1, KAS_DEEP = 64 };

typedef struct kas_emitter {
    const kas_ir *ir;
    const kas_nest *nest;
    kas_buf *out;
    kas_masks masks;
    int *name; /* by kas_ex: number of its value, KAS_NOT_EMITTED, or -2 - k: lane value k */
    int *live; /* stack of expressions with a name */
    int lives, temps, lane_values, indent;
    int arg_of_tensor[KAS_MAX_LAUNCH_ARGS];
    int args, inputs; /* the inputs come first */
    int *var_name;    /* by variable */
    int vars;
    char *phased; /* by kas_ex: done as a phase or looked at */
    int *hoisted; /* by kas_ex: the loop for which it was last looked at */
    int turns;
    uint64_t open; /* mask of the variables of open loops */
    char *wide;    /* by kas_ex: whether the lanes of a thread differ in it; 0 = not looked at */
    bool each;     /* what is written stands for each lane of a thread */
} kas_emitter;

__attribute__((format(printf, 2, 3))) void kas_emit_line(kas_emitter *e, const char *format, ...);
void kas_emit_start(kas_emitter *e); /* indentation */
int kas_emit_var_name(kas_emitter *e, int var);
void kas_emit_put_ix(kas_emitter *e, kas_ix ix);
/* The name of a value that was emitted, or a constant. */
void kas_emit_put_value(kas_emitter *e, kas_ex x);
int kas_emit_arg(kas_emitter *e, int tensor); /* number of its pointer, -1 = none */
/* Whether a tensor holds 16-bit numbers, kas_real in the text; the type of what argument points to.
 */
bool kas_emit_is_real(const kas_emitter *e, int tensor);
const char *kas_emit_type(const kas_emitter *e, int arg);

/* Whether x is a KAS_WIDE_VALUE: one for each lane of a thread. */
bool kas_emit_is_wide(kas_emitter *e, kas_ex x);
/* Emits a value and what it needs, unless it has a name already. */
void kas_emit_value(kas_emitter *e, kas_ex x);
/* Emits what the body of a loop needs but does not change in it: whatever depends only on the
 * variables of loops that are open.  `turn` numbers the loops. */
void kas_emit_hoist(kas_emitter *e, kas_ex x, int turn);
/* Writes the value of the kernel, which was emitted, where it belongs. */
void kas_emit_store(kas_emitter *e);
/* What a kernel does whose lanes are a row (emit_row.c), or walk columns (emit_column.c). */
kas_status kas_emit_row(kas_emitter *e);
kas_status kas_emit_column(kas_emitter *e);
/* Opens the lanes of a block; `threads`: values are kept for them from loop to loop. */
void kas_emit_open_lanes(kas_emitter *e, bool threads);
/* Names given after the mark are forgotten when the block they live in is closed. */
int kas_emit_leave_mark(const kas_emitter *e);
void kas_emit_forget(kas_emitter *e, int mark);

/* A chain of reductions of one kind is one nest of loops; returns the body. */
kas_ex kas_emit_nest_of(const kas_emitter *e, kas_ex x, int *var, int *vars);
const char *kas_emit_first_value(kas_fn fn);
void kas_emit_open_loop(kas_emitter *e, int var);
/* The loops of a reduction over `body`, outermost first, with what a GPU unrolls of them
 * (unroll.c). `brief`: the CPU unrolls them whole. */
void kas_emit_open_loops(kas_emitter *e, kas_ex body, const int *var, int vars, bool brief);
/* How far a GPU unrolls a walk along a column; `whole`: its turns are in registers. */
void kas_emit_unroll_walk(kas_emitter *e, kas_ex body, int var, bool whole);
void kas_emit_close_block(kas_emitter *e);
void kas_emit_close_loops(kas_emitter *e, const int *var, int vars);
/* accumulator (and index) op= body, for one turn; `acc` and `index` are lvalues, of each lane when
 * body is wide. */
void kas_emit_accumulate(kas_emitter *e, kas_fn fn, const char *acc, const char *index, kas_ex body,
                         int var);

#endif

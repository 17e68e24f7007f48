/* How far a GPU unrolls the loops of a reduction.
 *
 * Its compiler moves the loads of all unrolled turns in front of what uses them.  That is how many
 * are under way at once, and that many registers are full: a 5x5 window over two operands, 16 bytes
 * at a time, takes 200 of a thread's 255, and some such kernels spill.  So turns are unrolled,
 * innermost loop first, until their loads fill LOADED registers.  Beyond that nothing is gained:
 * 256 threads with 64 values each under way are 64 KiB, and a multiprocessor needs some 16 to 32
 * KiB to keep memory busy (latency 600 to 800 ns, 25 to 40 GB/s of bandwidth each).  Where windows
 * slide, turns side by side share loads, and up to SLID registers of them are unrolled.
 *
 * The CPU's compiler is told to unroll short reductions whole all the same: a loop inside the lanes
 * would keep them from vectorising (prelude.h). */
#include "jit/emit/emitter.h"

#include <math.h>

#include "host/core/gcd.h"

enum {
    LOADED = 112,
    SLID = 224,  /* where windows slide: loads that are used again need not all be under way */
    SINGLE = 2,  /* a value and its address */
    RUN = 4 + 1, /* 16 bytes and their address */
    FEW = 4      /* most turns of a long loop: the compiler's own choice takes over 200 registers */
};

typedef struct count {
    kas_emitter *emitter;
    uint64_t loops; /* loops whose turns are counted separately */
    double registers;
    int innermost; /* loop, and the registers when all its turns are unrolled where windows slide */
    double slid;
} count;

static void see_load(void *context, kas_ex x, const kas_ex_node *node)
{
    count *c = context;
    kas_emitter *e = c->emitter;
    if (node->kind != KAS_EX_LOAD || e->name[x] != KAS_NOT_EMITTED)
        return;
    const kas_group g = kas_ix_group(e->ir, node->ix, e->nest->lane);
    double registers = SINGLE;
    if (e->nest->width > 1 && g.kind != KAS_GROUP_SAME)
        registers = g.kind == KAS_GROUP_RUN && g.aligned ? RUN : SINGLE * e->nest->width;
    const uint64_t mask = kas_masks_ex(&e->masks, x) & ~(e->open | c->loops);
    const uint64_t inside = mask & ~UINT64_C(0) << e->nest->loops;
    c->registers += registers * kas_masks_turns(&e->masks, inside);
    double taps;
    const double together = kas_nest_slide_loads(&e->masks, e->nest, node->ix, &taps);
    const bool again = taps == 1 && kas_ix_has_var(e->ir, node->ix, c->innermost);
    c->slid += registers * together * (again ? (double)e->ir->var_size[c->innermost] : 1);
}

/* Returns how many turns of the innermost loop, the last of at least one, may be unrolled. */
static double room(kas_emitter *e, kas_ex body, const int *var, int vars)
{
    count c = {.emitter = e, .innermost = var[vars - 1]};
    for (int i = 0; i < vars; i++)
        c.loops |= UINT64_C(1) << kas_masks_index(&e->masks, var[i]);
    /* When memory is exhausted, a later step fails and says so. */
    if (kas_ex_visit(e->ir, body, see_load, &c) != KAS_OK)
        return 1;
    const double turns = LOADED / (c.registers > 1 ? c.registers : 1);
    const double inner = e->nest->inner < 0 ? 1 : (double)e->ir->var_size[e->nest->inner];
    if (!e->nest->slides)
        return turns / inner;
    /* Neighbours share loads where all taps along which windows slide are unrolled. */
    const double taps = (double)e->ir->var_size[c.innermost];
    return !e->ir->cpu && c.slid <= SLID ? fmax(taps, turns - inner + 1) : turns - inner + 1;
}

static void say_brief(kas_emitter *e, long long size, long long turns)
{
    if (e->nest->slides && !e->ir->cpu) /* whose neighbours a CPU need not unroll as well */
        kas_emit_line(e, "KAS_UNROLL_FEW(%lld)", turns);
    else if (turns == size)
        kas_emit_line(e, "KAS_UNROLL");
    else
        kas_emit_line(e, "KAS_UNROLL_TURNS(%lld)", turns);
}

void kas_emit_unroll_walk(kas_emitter *e, kas_ex body, int var, bool whole)
{
    const double most = room(e, body, &var, 1);
    const long long few = most < 1 ? 1 : most < FEW ? (long long)most : FEW;
    kas_emit_line(e, "KAS_UNROLL_FEW(%lld)", whole ? (long long)e->ir->var_size[var] : few);
}

void kas_emit_open_loops(kas_emitter *e, kas_ex body, const int *var, int vars, bool brief)
{
    long long turns[KAS_DEEP];
    if (vars == 0) /* a sum may have no loop here */
        return;
    const double most = room(e, body, var, vars);
    double left = most;
    for (int i = vars - 1; i >= 0; i--) {
        const long long size = e->ir->var_size[var[i]];
        turns[i] = kas_divisor_within(size, (int64_t)left);
        left = turns[i] == size ? left / (double)size : 1;
    }
    for (int i = 0; i < vars; i++) {
        if (brief)
            say_brief(e, e->ir->var_size[var[i]], turns[i]);
        else if (e->nest->width > 1 && i == vars - 1)
            kas_emit_line(e, "KAS_UNROLL_FEW(%d)", most < 1 ? 1 : most < FEW ? (int)most : FEW);
        kas_emit_open_loop(e, var[i]);
    }
}

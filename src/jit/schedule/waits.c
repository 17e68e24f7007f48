/* Counts what the threads of a GPU wait for in a launch: rounds of loads, one behind the other, and
 * what a block fetches.
 *
 * A thread issues the loads of a round together and then waits for all of them:
 *
 *     a long reduction       a round for every few turns, which ptxas unrolls; in a kernel of rows
 *                            one for each turn: its lanes stand behind a guard, which is a branch,
 *                            and no load moves in front of it (KAS_THREADS)
 *     a column               likewise, for each turn of its walk: once where registers keep it
 *     a row                  one round; its reductions go round by shuffles
 *     anything else          one round, or as many as the loads of short reductions fill
 *                            registers (unroll.c)
 *
 * each as often as the thread's own loops turn. The blocks' loads go to the multiprocessor's cache
 * (L1) first. Of a load's sectors a share is new to the block: the distinct sectors among those
 * that its turns touch. That share of the rounds waits for L2 or memory, the rest for L1. */
#include <math.h>
#include <stdlib.h>

#include "jit/schedule/nest.h"
#include "jit/schedule/wide.h"

enum {
    SECTOR_BYTES = 32,
    /* Turns of a reduction around the lanes, or of a walk, whose loads are under way at once where
     * no guard stands between them: what ptxas unrolls of a loop of unknown length */
    TURNS_UNDER_WAY = 4,
    SHUFFLES = 4, /* what a reduction among the threads of a row takes, in reads of L1 */
    /* Registers: of a thread that computes addresses; most for loads under way, and for each
     * load, as in unroll.c */
    BASE = 26,
    LOADED = 112,
    SINGLE = 2,
    RUN = 5,
    TERMS = 64,
    /* Of a multiprocessor: registers, and 4-byte words of shared memory (an A100's; newer ones have
     * more). What leaves room for as few blocks counts as registers. */
    REGISTERS = 65536,
    SHARED_WORDS = 164 * 1024 / 4
};

typedef struct waits {
    const kas_ir *ir;
    const kas_nest *nest;
    kas_masks masks;
    uint64_t loops;   /* bits of the kernel's own loops */
    char *seen;       /* by kas_ex */
    double turns;     /* of the loops around a thread's work */
    double share;     /* of the turns of the reduction that is counted now: the most that is new */
    double inside;    /* turns of reductions inside it */
    double registers; /* of the loads in lanes, all their turns together */
    double fresh;     /* of these loads, how many are new */
    bool loads;       /* there are loads outside of long reductions */
    double serial;    /* turns of the taps that are not unrolled */
    double kept;      /* registers for sums and columns */
    double walks;     /* along a column or a row */
    kas_effort *effort;
} waits;

/* ---- what a block touches -------------------------------------------------------------------- */

/* Returns how many values a variable takes within a block. */
static double in_block(const waits *w, int var)
{
    const kas_nest *n = w->nest;
    const double size = (double)w->ir->var_size[var];
    if (var == n->lane)
        return (double)n->lanes < size ? (double)n->lanes : size;
    if (var == n->rows)
        return (double)n->block_rows < size ? (double)n->block_rows : size;
    for (int axis = 0; axis < 3; axis++)
        if (n->axis_var[axis] == var)
            return 1;
    return size;
}

typedef struct term {
    double step, count; /* between values; how many values */
} term;

/* Lists the parts of an index by which it changes within a block. */
static int terms_of(const waits *w, kas_ix ix, double factor, term *out, int count)
{
    const kas_ix_sum *s = kas_ix_get(w->ir, ix);
    for (int i = 0; i < s->terms && count < TERMS; i++) {
        const kas_atom *atom = kas_atom_get(w->ir, s->term[i].atom);
        const double step = fabs(factor * (double)s->term[i].coeff);
        if (atom->kind == KAS_ATOM_VAR) {
            out[count++] = (term){step, in_block(w, atom->of)};
        } else if (atom->kind == KAS_ATOM_CLAMP) {
            count = terms_of(w, atom->of, step, out, count);
        } else {
            term of[TERMS];
            const int parts = terms_of(w, atom->of, 1, of, 0);
            double product = 1, span = 1;
            for (int k = 0; k < parts; k++) {
                product *= of[k].count;
                span += of[k].step * (of[k].count - 1);
            }
            span = atom->kind == KAS_ATOM_DIV ? ceil(span / (double)atom->a)
                                              : fmin(span, (double)atom->a);
            out[count++] = (term){step, fmin(product, span)};
        }
    }
    return count;
}

static int by_step(const void *a, const void *b)
{
    const term *x = a, *y = b;
    return (x->step > y->step) - (x->step < y->step);
}

/* Returns the bytes of the sectors that a block touches at an index: the distinct values of the
 * sum of its terms, which overlap where a step is shorter than what smaller steps span. */
static double footprint(const waits *w, kas_ix ix, double size)
{
    term t[TERMS];
    const int count = terms_of(w, ix, 1, t, 0);
    double distinct = 1, span = 1, least = 0;
    qsort(t, (size_t)count, sizeof *t, by_step);
    for (int i = 0; i < count; i++) {
        if (t[i].count <= 1 || t[i].step <= 0)
            continue;
        least = least > 0 ? least : t[i].step;
        const double more = t[i].step < span ? distinct * t[i].step / span : distinct;
        distinct += (t[i].count - 1) * more;
        span += (t[i].count - 1) * t[i].step;
    }
    return fmax(SECTOR_BYTES, distinct * fmin(SECTOR_BYTES, fmax(1, least) * size));
}

/* Returns the bytes of the sectors of a block's accesses, each access by itself. */
static double touched(const waits *w, kas_ix ix, double size)
{
    const kas_nest *n = w->nest;
    const uint64_t mask = kas_masks_ix(&w->masks, ix) | w->loops;
    double times = 1;
    for (int i = 0; i < w->masks.vars; i++)
        if (mask >> i & 1)
            times *= in_block(w, w->masks.var[i]);
    return times * SECTOR_BYTES *
           (n->lane < 0 ? 1 : kas_ix_lane_sectors(w->ir, ix, n->lane, (size_t)size));
}

/* Adds what all blocks fetch or write at an index, and returns the share of its sectors that is new
 * to the block. */
static double fetch(waits *w, kas_ix ix, int tensor)
{
    const kas_nest *n = w->nest;
    const double size = (double)kas_dtype_size(w->ir->tensor[tensor].dtype);
    const double blocks = (double)n->grid[0] * n->grid[1] * n->grid[2];
    const double all = touched(w, ix, size), own = fmin(all, footprint(w, ix, size));
    w->effort->fetched += blocks * own;
    return own / all;
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static void add_rounds(waits *w, double rounds, double share)
{
    w->effort->rounds += w->turns * rounds * share;
    w->effort->near += w->turns * rounds * (1 - share);
}

static void see_phase(void *context, kas_ex e, const kas_ex_node *node)
{
    waits *w = context;
    w->seen[e] = 1;
    if (node->kind == KAS_EX_LOAD && !kas_nest_box_of(w->nest, e))
        w->share = fmax(w->share, fetch(w, node->ix, node->tensor));
    else if (node->kind == KAS_EX_REDUCE && kas_nest_is_long(w->ir, w->nest, e))
        w->inside = fmax(w->inside, kas_reduce_length(w->ir, e));
}

/* Counts a reduction outside the lanes, or a walk along a column. */
static kas_status count_phase(waits *w, kas_ex body, double turns)
{
    w->share = 0;
    w->inside = 1;
    KAS_TRY(kas_ex_visit(w->ir, body, see_phase, w));
    w->kept += w->nest->width;
    add_rounds(w, ceil(turns / (w->nest->row ? 1 : TURNS_UNDER_WAY)) * w->inside, w->share);
    return KAS_OK;
}

static void count_load(waits *w, kas_ex e, const kas_ex_node *node)
{
    double taps;
    const double together = kas_nest_slide_loads(&w->masks, w->nest, node->ix, &taps);
    const double turns = kas_masks_turns(&w->masks, kas_masks_ex(&w->masks, e) & ~w->loops) / taps;
    const kas_group g = kas_ix_group(w->ir, node->ix, w->nest->lane);
    double registers = SINGLE;
    if (w->nest->width > 1 && g.kind != KAS_GROUP_SAME)
        registers = g.kind == KAS_GROUP_RUN && g.aligned ? RUN : SINGLE * w->nest->width;
    w->loads = true;
    /* Where windows slide, only the taps along which they do are unrolled. */
    w->serial = fmax(w->serial, w->nest->slides ? turns : 1);
    w->registers += registers * together * (w->nest->slides ? 1 : turns);
    if (!kas_nest_box_of(w->nest, e))
        w->fresh += fetch(w, node->ix, node->tensor) * turns * taps;
}

static kas_status look(waits *w, kas_ex e)
{
    const kas_ex_node *node = kas_ex_get(w->ir, e);
    if (w->seen[e])
        return KAS_OK;
    w->seen[e] = 1;
    if (node->kind == KAS_EX_REDUCE && kas_nest_runs_around(w->ir, w->nest, e)) {
        kas_ex body = node->a[0];
        while (kas_ex_get(w->ir, body)->kind == KAS_EX_REDUCE &&
               kas_ex_get(w->ir, body)->fn == node->fn)
            body = kas_ex_get(w->ir, body)->a[0];
        const double turns = kas_reduce_length(w->ir, e);
        const double parts = node->var == w->nest->factored ? (double)w->nest->parts : 1;
        return count_phase(w, body, turns / parts * ceil(parts / w->nest->block[1]));
    }
    if (node->kind == KAS_EX_LOAD)
        count_load(w, e, node);
    w->walks += node->kind == KAS_EX_ROW;
    for (int i = 0; i < kas_ex_children(node); i++)
        KAS_TRY(look(w, node->a[i]));
    return KAS_OK;
}

static void see_row(void *context, kas_ex e, const kas_ex_node *node)
{
    (void)e;
    *(double *)context += node->kind == KAS_EX_ROW;
}

/* Counts the walks along a column. */
static kas_status count_column(waits *w)
{
    const kas_nest *n = w->nest;
    const double size = (double)w->ir->var_size[n->column];
    const bool keeps = size * n->width <= KAS_COLUMN_KEPT;
    double walks = 1;
    KAS_TRY(kas_ex_visit(w->ir, n->value, see_row, &walks));
    if (keeps)
        w->kept += size * n->width;
    return count_phase(w, n->value, size * (keeps ? 1 : walks));
}

/* Returns how often a thread begins its work anew: rows, loops and lanes that it takes in turn. */
static double turns_of_thread(const waits *w)
{
    const kas_nest *n = w->nest;
    double turns = n->rows < 0 ? 1 : ceil(in_block(w, n->rows) / n->block[1]);
    for (int i = 0; i < n->serials; i++)
        turns *= (double)w->ir->var_size[n->serial[i]];
    if (n->row)
        return turns;
    return turns * ceil((double)n->lanes / ((double)n->block[0] * n->width));
}

/* Counts what the threads of a block wait for while they fill boxes: memory, then the barriers on
 * both sides, and what shared memory leaves room for. */
static void count_boxes(waits *w)
{
    const kas_nest *n = w->nest;
    const double blocks = (double)n->grid[0] * n->grid[1] * n->grid[2];
    const double threads = (double)n->block[0] * n->block[1];
    double rounds = 0, words = 0;
    for (int i = 0; i < n->boxes; i++) {
        rounds += ceil(kas_box_turns(w->ir, n, &n->box[i]) / TURNS_UNDER_WAY);
        words += (double)n->box[i].elements;
        w->effort->fetched += blocks * n->fills * kas_box_bytes(w->ir, &n->box[i]);
    }
    if (n->boxes == 0)
        return;
    /* Of what is under way ahead, threads wait for the first, and pass one barrier a turn. */
    const double first = n->ahead < 0 ? n->fills : n->fills / (double)w->ir->var_size[n->ahead];
    words *= n->ahead < 0 ? 1 : 2;
    w->effort->rounds += first * rounds;
    w->effort->near += n->fills + first;
    w->effort->registers = fmax(w->effort->registers, words / threads * REGISTERS / SHARED_WORDS);
}

/* Counts what threads wait for while they add up the parts of a sum: a barrier, and reads of shared
 * memory side by side. */
static void count_parts(waits *w)
{
    const kas_nest *n = w->nest;
    const double threads = (double)n->block[0] * n->block[1];
    if (n->factored < 0)
        return;
    w->effort->near += w->turns * (1 + ceil((double)n->parts / TURNS_UNDER_WAY));
    w->effort->registers =
        fmax(w->effort->registers, n->part_words / threads * REGISTERS / SHARED_WORDS);
}

static kas_status count(waits *w)
{
    const kas_nest *n = w->nest;
    w->loops = (UINT64_C(1) << n->loops) - 1;
    w->turns = turns_of_thread(w);
    KAS_TRY(n->column >= 0 ? count_column(w) : look(w, n->value));
    if (w->loads) {
        const double parts = fmax(1, ceil(w->registers / LOADED)) * w->serial;
        add_rounds(w, parts, fmin(1, w->fresh / parts));
    }
    w->effort->near += w->turns * w->walks * SHUFFLES;
    w->kept += n->slides ? in_block(w, n->inner) * n->width : 0;
    fetch(w, n->store, n->tensor);
    w->effort->registers = BASE + w->kept + fmin(w->registers, LOADED);
    count_boxes(w);
    count_parts(w);
    w->effort->together = n->width * (n->inner < 0 ? 1 : in_block(w, n->inner));
    return KAS_OK;
}

kas_status kas_nest_count_waits(const kas_ir *ir, const kas_nest *nest, kas_effort *effort)
{
    waits w = {.ir = ir, .nest = nest, .serial = 1, .effort = effort};
    KAS_TRY(kas_masks_init(&w.masks, ir, nest->value, nest->loops, nest->loop));
    w.seen = calloc((size_t)ir->exprs.count, 1);
    const kas_status status = w.seen ? count(&w) : kas_ir_no_memory();
    free(w.seen);
    kas_masks_free(&w.masks);
    return status;
}

static void see_fetch(void *context, kas_ex e, const kas_ex_node *node)
{
    const waits *w = context;
    if (node->kind == KAS_EX_LOAD && !kas_nest_box_of(w->nest, e))
        fetch(context, node->ix, node->tensor);
}

kas_status kas_nest_fetched(const kas_ir *ir, const kas_nest *nest, double *bytes)
{
    kas_effort effort = {0};
    waits w = {.ir = ir, .nest = nest, .effort = &effort};
    KAS_TRY(kas_masks_init(&w.masks, ir, nest->value, nest->loops, nest->loop));
    w.loops = (UINT64_C(1) << nest->loops) - 1;
    const kas_status status = kas_ex_visit(ir, nest->value, see_fetch, &w);
    fetch(&w, nest->store, nest->tensor);
    kas_masks_free(&w.masks);
    *bytes = effort.fetched;
    return status;
}

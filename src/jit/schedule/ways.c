/* Other ways to place a kernel on a GPU, where the usual rules leave a launch far from what its
 * bytes take: from the best choice of lanes on, one thing is changed at a time (virtual threads, the
 * rows of a block, its lanes, what is staged in shared memory), and what is faster is kept.
 *
 * What a launch costs are the same counts as for predictions (host/predict/gpu.c) with the numbers
 * of one machine, an H100: only ratios matter, and they differ little from one GPU to the next. */
#include <math.h>
#include <stdlib.h>

#include "jit/schedule/nest.h"

static const double cores = 132, clock_rate = 1.83e9, core_lanes = 128, warp = 32,
                    threads_kept = 2048, bandwidth = 3.35e12, outer_bandwidth = 5.5e12,
                    inner_bandwidth = 30.9e12, far_read = 2e-7, near_read = 2e-8,
                    registers_kept = 65536, blocks_kept = 32, issue = 4, port = 64;
/* Steps of a core for each count (kas_effort). */
static const double load_cost = 2, gather_cost = 0.25, single_cost = 0.1;

kas_status kas_nest_price(const kas_ir *ir, const kas_nest *nest, double *seconds, double *least)
{
    kas_effort e;
    double flops, bytes;
    KAS_TRY(kas_nest_count(ir, nest, &flops, &bytes, &e));
    const double blocks = (double)nest->grid[0] * nest->grid[1] * nest->grid[2];
    const double threads = (double)nest->block[0] * nest->block[1] * nest->block[2];
    const double row = (double)nest->block[0] * nest->width, lanes = fmax(1, e.lanes);
    const double idle = ceil(lanes / row) * row / lanes * ceil(threads / warp) * warp / threads;
    const double kept =
        fmax(1, fmin(blocks_kept,
                     floor(fmin(threads_kept, registers_kept / fmax(1, e.registers)) / threads)));
    const double busy = fmin(blocks, cores);
    const double warps = fmin(kept, ceil(blocks / cores)) * ceil(threads / warp);
    const double rate =
        fmin(1, warps * fmin(issue, fmax(1, e.together)) * warp / (issue * core_lanes));
    const double steps =
        (e.arithmetic + e.functions + load_cost * e.loads + e.reduced) * idle / core_lanes +
        gather_cost * e.gathers + single_cost * (e.divisions + e.shared + e.turns);
    const double waves = ceil(blocks / (cores * kept));
    *least = bytes / bandwidth;
    *seconds = fmax(fmax(*least, steps / (busy * clock_rate * rate)),
                    fmax(e.fetched / fmin(outer_bandwidth, busy * port * clock_rate),
                         e.sectors * cores / (busy * inner_bandwidth)));
    *seconds = fmax(*seconds, waves * (e.rounds * far_read + e.near * near_read));
    return KAS_OK;
}

/* ---- ways ------------------------------------------------------------------------------------ */

enum {
    CHOICES = 16,     /* most choices of lanes that are compared */
    MOST_VIRTUAL = 8, /* turns of virtual threads */
    MOST_ROWS = 64,   /* turns of the rows of a block, beside all of them */
    LEAST_LANES = 32, /* of a block */
    LEAST_TURNS = 8,  /* of a part of a reduction that is staged */
    MOST_TURNS = 64,
    MOST_TRIED = 1024,
    SWEEPS = 2
};
/* How far from what its bytes take a launch is before other ways are tried, and seconds below which
 * it does not matter; how much less time makes another way worth it, and a step on the way there. */
static const double far = 1.5, too_short = 1e-6, worth = 0.95, better = 0.98;

/* A way to place a kernel whose lanes are chosen. Loops are variables, -1: none. */
typedef struct way {
    int choice;  /* of the lanes */
    int virtual; /* loop of which `turns` turns are virtual threads: they share what they load */
    int rows;    /* loop of which `count` turns share a block */
    int part;    /* reduction of which `length` turns are staged at a time */
    int64_t turns, count, length, lanes; /* lanes of a block; 0: as many as usual */
    bool narrow;                         /* a lane for each thread */
    bool staged;                         /* what the rows of a block read */
} way;

/* A way up to its rows, with which the next one begins if it differs in nothing else: most ways do. */
typedef struct begun {
    way of;
    kas_status status;
    kas_nest nest;
    int part; /* the inner part of the reduction that is staged */
    int rest; /* what is outside of the virtual threads' loop */
} begun;

typedef struct search {
    kas_ir *ir;
    bool keeps;   /* lanes keep values between loops */
    double work;  /* turns of the longest reduction */
    double least; /* seconds that its bytes take */
    kas_nest choice[CHOICES];
    kas_nest usual[CHOICES]; /* each, placed by the usual rules */
    double price[CHOICES];   /* of that */
    int choices;
    way tried[MOST_TRIED]; /* those beyond it may be tried again */
    int tries;
    begun begun;
    way at;         /* where the search is */
    double seconds; /* there */
    kas_nest best;  /* there */
} search;

/* Cuts a loop or reduction, if it is longer than `turns`, and returns the inner part in `var`. */
static kas_status cut(kas_ir *ir, kas_nest *nest, int *var, int64_t turns)
{
    if (turns >= ir->var_size[*var])
        return KAS_OK;
    KAS_TRY(kas_nest_step_on(ir, nest, KAS_STEP_SPLIT, *var, turns));
    *var = ir->vars - 1; /* the inner loop is the last variable that was made */
    return KAS_OK;
}

/* Gives a block its lanes. Lanes that keep values have a thread for each group of them. */
static kas_status place_lanes(const search *s, kas_nest *nest, const way *w)
{
    const bool keeps = s->keeps || w->part >= 0;
    if (nest->row)
        return w->narrow ? KAS_OK : kas_nest_place_width(s->ir, nest);
    if (!w->narrow && w->lanes == 0)
        return kas_nest_place_lanes(s->ir, nest, keeps);
    const int64_t extent = s->ir->var_size[nest->lane], lanes = w->lanes > 0 ? w->lanes
                                                                : keeps      ? KAS_MAX_BLOCK
                                                                             : KAS_MOST_LANES;
    if (lanes < extent)
        KAS_TRY(
            kas_nest_step(s->ir, nest, (kas_step){.kind = KAS_STEP_LANES, .n = (int32_t)lanes}));
    if (!w->narrow)
        KAS_TRY(kas_nest_place_width(s->ir, nest));
    return keeps && nest->lanes > (int64_t)KAS_MAX_BLOCK * nest->width
               ? kas_fail(KAS_ILLEGAL, "lanes that keep values have a thread each")
               : KAS_OK;
}

/* Returns how many rows share a block; 0: as many as usual. Those that meet at barriers are as many
 * as fill its threads, and divide the loop's. */
static int64_t count_of(const search *s, const way *w, const kas_nest *nest)
{
    const int64_t threads = (nest->lanes / nest->width + KAS_WARP - 1) / KAS_WARP * KAS_WARP;
    if (w->count > 0 || w->part < 0)
        return w->count;
    if (w->rows < 0)
        return 1;
    int64_t count = KAS_MAX_BLOCK / threads;
    while (count > 1 && s->ir->var_size[w->rows] % count)
        count--;
    return count < 1 ? 1 : count;
}

static bool is_but_rows(const way *a, const way *b)
{
    return a->choice == b->choice && a->virtual == b->virtual && a->turns == b->turns &&
           a->part == b->part && a->length == b->length && a->lanes == b->lanes &&
           a->narrow == b->narrow;
}

static bool is_same(const way *a, const way *b)
{
    return is_but_rows(a, b) && a->rows == b->rows && a->count == b->count &&
           a->staged == b->staged;
}

/* Places all but the rows. */
static kas_status begin(const search *s, const way *w, begun *b)
{
    kas_ir *ir = s->ir;
    int virtual = w->virtual, outer = w->part;
    b->nest = s->choice[w->choice];
    b->part = w->part;
    b->rest = -1;
    if (w->part >= 0) {
        KAS_TRY(cut(ir, &b->nest, &b->part, w->length));
        outer = b->part == w->part ? b->part : ir->vars - 2;
    }
    if (virtual >= 0) {
        KAS_TRY(kas_nest_split_taps(ir, &b->nest, virtual));
        KAS_TRY(cut(ir, &b->nest, &virtual, w->turns));
        b->rest = virtual == w->virtual ? -1 : ir->vars - 2;
        KAS_TRY(kas_nest_step_on(ir, &b->nest, KAS_STEP_VTHREAD, virtual, 0));
    }
    if (w->part >= 0)
        KAS_TRY(kas_nest_step_on(ir, &b->nest, KAS_STEP_AROUND, outer, 0));
    return place_lanes(s, &b->nest, w);
}

static kas_status place_rows(const search *s, const way *w, kas_nest *nest)
{
    kas_ir *ir = s->ir;
    const int rows = w->virtual >= 0 && w->rows == w->virtual ? s->begun.rest : w->rows;
    *nest = s->begun.nest;
    KAS_TRY(kas_nest_place_loops(ir, nest, w->part < 0 ? s->work : 1, rows, count_of(s, w, nest)));
    if (w->part >= 0) {
        KAS_TRY(kas_nest_place_reductions(ir, nest));
        return kas_nest_step_on(ir, nest, KAS_STEP_STAGE, s->begun.part, w->length);
    }
    if (!w->staged)
        return KAS_OK;
    return nest->rows >= 0
               ? kas_nest_step_on(ir, nest, KAS_STEP_STAGE, nest->rows, nest->block_rows)
               : kas_nest_step_on(ir, nest, KAS_STEP_STAGE, nest->lane, nest->lanes);
}

/* Makes KAS_ILLEGAL of the status where there is no such way. */
static kas_status judge(kas_ir *ir, kas_status status)
{
    if (ir->status == KAS_UNSUPPORTED) { /* an index is too long; it is in no kernel */
        ir->status = KAS_OK;
        return KAS_ILLEGAL;
    }
    KAS_TRY(ir->status);
    return status == KAS_UNSUPPORTED ? KAS_ILLEGAL : status;
}

/* Places a kernel in one way. Returns KAS_ILLEGAL where there is no such way. */
static kas_status place(search *s, const way *w, kas_nest *nest)
{
    if (!is_but_rows(&s->begun.of, w)) {
        s->begun.of = *w;
        s->begun.status = judge(s->ir, begin(s, w, &s->begun));
    }
    KAS_TRY(s->begun.status);
    return judge(s->ir, place_rows(s, w, nest));
}

/* Returns whether a way has been tried, and notes that it has. */
static bool is_tried(search *s, const way *w)
{
    for (int i = 0; i < s->tries; i++)
        if (is_same(&s->tried[i], w))
            return true;
    if (s->tries < MOST_TRIED)
        s->tried[s->tries++] = *w;
    return false;
}

/* Goes to another way if it is better. */
static kas_status try_way(search *s, const way *w)
{
    kas_nest nest;
    double seconds, least;
    if (better * s->seconds <= s->least || is_tried(s, w))
        return KAS_OK;
    const bool quiet = kas_quiet(true);
    const kas_status status = place(s, w, &nest);
    kas_quiet(quiet);
    if (status == KAS_ILLEGAL)
        return KAS_OK;
    KAS_TRY(status);
    KAS_TRY(kas_nest_price(s->ir, &nest, &seconds, &least));
    if (seconds >= better * s->seconds)
        return KAS_OK;
    s->seconds = seconds;
    s->at = *w;
    s->best = nest;
    return KAS_OK;
}

/* Returns whether a loop of the kernel's own may be virtual threads or rows. */
static bool is_free(const kas_nest *nest, int var)
{
    return var != nest->lane && var != nest->inner && var != nest->column;
}

static kas_status try_virtual(search *s)
{
    const kas_nest *n = &s->choice[s->at.choice];
    way w = s->at;
    w.virtual = -1;
    w.turns = 1;
    KAS_TRY(try_way(s, &w));
    for (int i = 0; i < n->loops && n->inner < 0 && !n->row && n->column < 0; i++)
        for (int64_t turns = 2; turns <= MOST_VIRTUAL && is_free(n, n->loop[i]); turns++) {
            w = s->at;
            w.virtual = n->loop[i];
            w.turns = turns;
            if (s->ir->var_size[w.virtual] % turns == 0)
                KAS_TRY(try_way(s, &w));
        }
    return KAS_OK;
}

/* Tries numbers of rows, and with each whether it pays to stage what they read. */
static kas_status try_rows(search *s)
{
    const kas_nest *n = &s->choice[s->at.choice];
    for (int i = 0; i < n->loops; i++) {
        const int64_t size = s->ir->var_size[n->loop[i]];
        for (int64_t count = 1; count <= MOST_ROWS && is_free(n, n->loop[i]); count *= 2) {
            way w = s->at;
            w.rows = n->loop[i];
            w.count = count < size && count < MOST_ROWS ? count : size;
            w.staged = false;
            KAS_TRY(try_way(s, &w));
            w.staged = true;
            if (w.part < 0)
                KAS_TRY(try_way(s, &w));
            if (count >= size)
                break;
        }
    }
    return KAS_OK;
}

/* Tries fewer lanes in a block, and as many threads as lanes. */
static kas_status try_lanes(search *s)
{
    const kas_nest *n = &s->choice[s->at.choice];
    const int64_t extent = n->lane < 0 ? 1 : s->ir->var_size[n->lane];
    for (int64_t lanes = 0; lanes < extent && lanes <= KAS_MOST_LANES;
         lanes = lanes ? 2 * lanes : LEAST_LANES)
        for (int narrow = 0; narrow < 2; narrow++) {
            way w = s->at;
            w.lanes = lanes;
            w.narrow = narrow;
            if (lanes == 0 || !n->row)
                KAS_TRY(try_way(s, &w));
        }
    return KAS_OK;
}

/* Finds the reductions along which what lanes read apart lies side by side. */
typedef struct turning {
    const kas_ir *ir;
    const kas_nest *nest;
    bool along[KAS_LOOP_IDS]; /* by number of the reduction */
} turning;

static void see_turned(void *context, kas_ex e, const kas_ex_node *node)
{
    turning *t = context;
    int64_t apart, between;
    (void)e;
    if (node->kind != KAS_EX_LOAD ||
        (kas_ix_coeff(t->ir, node->ix, t->nest->lane, &apart) && apart * apart <= 1))
        return;
    for (int id = 0; id < t->nest->ids; id++)
        t->along[id] |= t->nest->state[id] == KAS_LOOP_OPEN &&
                        kas_nest_place_in(t->nest, t->nest->var_of[id]) < 0 &&
                        kas_ix_coeff(t->ir, node->ix, t->nest->var_of[id], &between) &&
                        between == 1;
}

/* Tries the ways to stage a part of a reduction, with as many rows as fill a block's threads. */
static kas_status try_parts(search *s)
{
    const int choice = s->at.choice;
    const kas_nest *n = &s->choice[choice];
    turning t = {.ir = s->ir, .nest = n};
    KAS_TRY(kas_ex_visit(s->ir, n->value, see_turned, &t));
    for (int id = 0; id < n->ids && !n->row; id++)
        for (int64_t length = LEAST_TURNS; length <= MOST_TURNS && t.along[id]; length *= 2)
            for (int rows = -1; rows < n->loops; rows++)
                for (int narrow = 0; narrow < 2; narrow++) {
                    const way w = {.choice = choice,
                                   .virtual = -1,
                                   .rows = rows < 0 ? -1 : n->loop[rows],
                                   .part = n->var_of[id],
                                   .length = length,
                                   .narrow = narrow};
                    if (w.rows < 0 || is_free(n, w.rows))
                        KAS_TRY(try_way(s, &w));
                }
    return KAS_OK;
}

/* Returns the way to a placement by the usual rules. */
static way way_of(const search *s, int choice, const kas_nest *nest)
{
    const kas_nest *open = &s->choice[choice];
    way w = {.choice = choice,
             .virtual = -1,
             .rows = nest->rows,
             .part = -1,
             .turns = 1,
             .count = nest->block_rows};
    if (!nest->slides)
        return w;
    w.turns = s->ir->var_size[nest->inner];
    w.virtual = nest->inner;
    for (int i = 0; i < open->loops; i++) /* the one that was cut */
        if (kas_nest_place_in(nest, open->loop[i]) < 0)
            w.virtual = open->loop[i];
    if (w.virtual != nest->inner && nest->rows == nest->inner - 1) /* its outer part */
        w.rows = w.virtual;
    return w;
}

/* Searches from a choice of lanes on. */
static kas_status climb(search *s, int choice)
{
    s->at = way_of(s, choice, &s->usual[choice]);
    s->best = s->usual[choice];
    s->seconds = s->price[choice];
    for (int i = 0; i < SWEEPS; i++) {
        const double before = s->seconds;
        KAS_TRY(try_virtual(s));
        KAS_TRY(try_rows(s));
        KAS_TRY(try_lanes(s));
        if (i == 0)
            KAS_TRY(try_parts(s));
        if (s->seconds == before)
            break;
    }
    return KAS_OK;
}

static kas_status add_choice(void *context, kas_nest trial)
{
    search *s = context;
    double least;
    if (s->choices == CHOICES)
        return KAS_OK;
    const int i = s->choices++;
    s->choice[i] = s->usual[i] = trial;
    KAS_TRY(kas_nest_place(s->ir, &s->usual[i], s->keeps, s->work));
    KAS_TRY(s->ir->status);
    return kas_nest_price(s->ir, &s->usual[i], &s->price[i], &least);
}

static kas_status improve(search *s, const kas_nest *open, kas_nest *nest, double seconds)
{
    KAS_TRY(open->row ? add_choice(s, *open)
                      : kas_nest_each_lane(s->ir, open, s->keeps, add_choice, s));
    int least = 0;
    for (int i = 1; i < s->choices; i++)
        if (s->price[i] < s->price[least])
            least = i;
    KAS_TRY(climb(s, least));
    if (s->seconds < worth * seconds)
        *nest = s->best;
    return KAS_OK;
}

kas_status kas_nest_improve(kas_ir *ir, const kas_nest *open, bool keeps, double work,
                            kas_nest *nest)
{
    double seconds, least;
    if (ir->cpu || nest->lane < 0)
        return KAS_OK;
    KAS_TRY(ir->status);
    KAS_TRY(kas_nest_price(ir, nest, &seconds, &least));
    if (seconds < far * least || seconds < too_short)
        return KAS_OK;
    search *s = malloc(sizeof *s);
    if (!s)
        return kas_fail(KAS_NO_MEMORY, "out of memory while a kernel was scheduled");
    s->ir = ir;
    s->keeps = keeps;
    s->work = work;
    s->least = least;
    s->choices = s->tries = 0;
    s->begun.of.choice = -1; /* nothing has begun */
    const kas_status status = improve(s, open, nest, seconds);
    free(s);
    return status;
}

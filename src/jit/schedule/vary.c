#include "jit/schedule/vary.h"

#include "jit/schedule/nest.h"
#include "jit/schedule/wide.h"

enum { MOST_CHANGES = 4, AXES = 3 };

typedef struct varying {
    kas_ir *ir;
    kas_nest nest;
    kas_rng *rng;
} varying;

static bool one_in(varying *v, uint32_t n)
{
    return kas_rng_below(v->rng, n) == 0;
}

/* Takes a step if it is legal. Only faults are failures. */
static kas_status try_step(varying *v, kas_step_kind kind, int loop, int other, int64_t n,
                           bool *taken)
{
    kas_nest next = v->nest;
    const bool quiet = kas_quiet(true);
    const kas_status status = kas_nest_step(v->ir, &next,
                                            (kas_step){.kind = (uint8_t)kind,
                                                       .loop = (uint8_t)loop,
                                                       .other = (uint8_t)other,
                                                       .n = (int32_t)n});
    kas_quiet(quiet);
    *taken = status == KAS_OK;
    if (*taken)
        v->nest = next;
    return status == KAS_ILLEGAL ? KAS_OK : status;
}

/* Returns a loop or reduction that no step has replaced, or -1 where `first` and what follows it is
 * nothing. */
static int any_loop(varying *v, int first)
{
    int list[KAS_LOOP_IDS], count = 0;
    for (int id = first; id < v->nest.ids; id++)
        if (v->nest.state[id] != KAS_LOOP_REPLACED)
            list[count++] = id;
    return count ? list[kas_rng_below(v->rng, (uint32_t)count)] : -1;
}

static int64_t size_of(const varying *v, int id)
{
    return v->ir->var_size[v->nest.var_of[id]];
}

/* Returns a divisor of `size` above 1 and at most `most`; 1 where there is none. */
static int64_t divisor(varying *v, int64_t size, int64_t most)
{
    int64_t list[KAS_MOST_LANES];
    uint32_t count = 0;
    for (int64_t d = 2; d <= size && d <= most; d++)
        if (size % d == 0)
            list[count++] = d;
    return count ? list[kas_rng_below(v->rng, count)] : 1;
}

/* Splits, fuses and interchanges a few loops. */
static kas_status change_loops(varying *v)
{
    bool taken;
    for (uint32_t i = kas_rng_below(v->rng, MOST_CHANGES); i > 0; i--) {
        const int a = any_loop(v, 0), b = any_loop(v, 0);
        const kas_step_kind kind = (kas_step_kind)(KAS_STEP_SPLIT + kas_rng_below(v->rng, 3));
        if (a < 0)
            return KAS_OK;
        if (a == b && kind != KAS_STEP_SPLIT)
            continue;
        KAS_TRY(try_step(v, kind, a, b, divisor(v, size_of(v, a), 64), &taken));
    }
    return v->ir->status;
}

/* Chooses the lanes, and perhaps a loop inside them. */
static kas_status choose_lanes(varying *v)
{
    bool taken = v->nest.lane >= 0;
    for (int i = 0; i < 2 * KAS_NEST_LOOPS && !taken && v->nest.loops > 0; i++)
        KAS_TRY(try_step(v, KAS_STEP_LANE, any_loop(v, 0), 0, 0, &taken));
    if (one_in(v, 3)) {
        const int inside = any_loop(v, 0);
        KAS_TRY(
            try_step(v, one_in(v, 2) ? KAS_STEP_UNROLL : KAS_STEP_VTHREAD, inside, 0, 0, &taken));
    }
    return KAS_OK;
}

/* Gives the turns of a reduction sums of their own. */
static kas_status factor_a_sum(varying *v)
{
    bool taken = false;
    for (int id = v->nest.opened; id < v->nest.ids && !taken; id++)
        if (v->nest.state[id] == KAS_LOOP_OPEN)
            KAS_TRY(try_step(v, KAS_STEP_RFACTOR, id, 0, 0, &taken));
    return KAS_OK;
}

static kas_status choose_block(varying *v)
{
    bool taken;
    const int64_t extent = v->nest.lane < 0 ? 1 : v->ir->var_size[v->nest.lane];
    for (int id = 0; id < v->nest.ids; id++)
        if (v->nest.state[id] != KAS_LOOP_REPLACED && one_in(v, 2) && v->nest.tiles == 0)
            KAS_TRY(try_step(v, KAS_STEP_STAGE, id, 0, divisor(v, size_of(v, id), 64), &taken));
    const int64_t lanes = one_in(v, 2) ? KAS_MOST_LANES >> kas_rng_below(v->rng, 6)
                                       : divisor(v, extent, KAS_MOST_LANES);
    if (!v->nest.row && lanes < extent)
        KAS_TRY(try_step(v, KAS_STEP_LANES, 0, 0, lanes, &taken));
    if (!one_in(v, 3))
        KAS_TRY(try_step(v, KAS_STEP_VECTORISE, 0, 0, kas_wide(v->ir), &taken));
    if (one_in(v, 4))
        KAS_TRY(factor_a_sum(v));
    const int turned = v->nest.turned >= 0 ? kas_nest_id_of(&v->nest, v->nest.turned) : -1;
    const int rows = turned >= 0 ? turned : any_loop(v, 0);
    if (rows >= 0) {
        const int64_t most = size_of(v, rows) < KAS_MOST_LANES ? size_of(v, rows) : KAS_MOST_LANES;
        const int64_t n = turned >= 0 ? v->nest.turns : 1 + kas_rng_below(v->rng, (uint32_t)most);
        KAS_TRY(try_step(v, KAS_STEP_ROWS, rows, 0, n, &taken));
    }
    return KAS_OK;
}

/* Gives what has no place yet a coordinate of the block, or makes it serial. */
static kas_status place_rest(varying *v)
{
    uint32_t list[KAS_LOOP_IDS + 2], count = 0;
    int axis = 0;
    for (int id = 0; id < v->nest.ids; id++)
        if (v->nest.state[id] != KAS_LOOP_REPLACED)
            list[count++] = (uint32_t)id;
    kas_rng_shuffle(v->rng, list, count);
    for (int i = count; i > 0; i--)
        list[i + 1] = list[i - 1];
    list[0] = KAS_LOOP_LANES;
    list[1] = KAS_LOOP_ROWS;
    for (uint32_t i = 0; i < count + 2; i++) {
        bool taken = false;
        while (axis < AXES && v->nest.axis_var[axis] != KAS_AXIS_NONE)
            axis++;
        if (axis < AXES && (i < 2 || !one_in(v, 4)))
            KAS_TRY(try_step(v, KAS_STEP_BLOCK, (int)list[i], axis, 0, &taken));
        if (!taken && i >= 2)
            KAS_TRY(try_step(v, KAS_STEP_SERIAL, (int)list[i], 0, 0, &taken));
    }
    return KAS_OK;
}

static kas_status place_reductions(varying *v)
{
    bool taken;
    for (int id = v->nest.opened; id < v->nest.ids; id++)
        if (v->nest.state[id] == KAS_LOOP_OPEN && !one_in(v, 5))
            KAS_TRY(
                try_step(v, one_in(v, 2) ? KAS_STEP_UNROLL : KAS_STEP_AROUND, id, 0, 0, &taken));
    return one_in(v, 2) ? try_step(v, KAS_STEP_UNSWITCH, 0, 0, 0, &taken) : KAS_OK;
}

/* Returns the turns of a loop that a GPU's box holds (steps.c). */
static int64_t turns_of_box(const varying *v, int id)
{
    const int var = v->nest.var_of[id];
    return var == v->nest.rows   ? v->nest.block_rows
           : var == v->nest.lane ? v->nest.lanes
                                 : v->ir->var_size[var];
}

/* Stages what a GPU's block reads. */
static kas_status stage_block(varying *v)
{
    bool taken = v->ir->cpu;
    const int first = one_in(v, 2) ? v->nest.opened : 0; /* reductions only */
    for (int id = first; id < v->nest.ids && !taken; id++)
        if (v->nest.state[id] != KAS_LOOP_REPLACED && !one_in(v, 3))
            KAS_TRY(try_step(v, KAS_STEP_STAGE, id, 0, turns_of_box(v, id), &taken));
    return KAS_OK;
}

/* Fills boxes one turn ahead. */
static kas_status fill_ahead(varying *v)
{
    bool taken;
    return v->nest.boxes == 0 || v->nest.boxed < 0 || one_in(v, 2)
               ? KAS_OK
               : try_step(v, KAS_STEP_PREFETCH, kas_nest_id_of(&v->nest, v->nest.boxed), 0, 0,
                          &taken);
}

static kas_status draw(varying *v)
{
    if (!one_in(v, 4))
        KAS_TRY(kas_nest_split(v->ir, &v->nest));
    if (!one_in(v, 4))
        KAS_TRY(kas_nest_merge(v->ir, &v->nest));
    KAS_TRY(change_loops(v));
    KAS_TRY(choose_lanes(v));
    KAS_TRY(choose_block(v));
    KAS_TRY(place_rest(v));
    KAS_TRY(place_reductions(v));
    KAS_TRY(stage_block(v));
    return fill_ahead(v);
}

/* ---- near the default ------------------------------------------------------------------------ */

/* The default sequence while it is taken again with changes. */
typedef struct replay {
    varying *v;
    uint8_t now[KAS_LOOP_LANES + 1]; /* by loop of the default sequence: what takes its place */
    int next;                        /* the loop that its next split or fuse makes */
    int vthread, unrolled;           /* parts that were split off; -1: there are none */
    bool factor;                     /* give the turns of a reduction sums of their own */
} replay;

/* Splits a loop (or a reduction) and goes on with its outer part; returns the inner one, or -1. */
static kas_status split_off(replay *r, bool reduction, int *inner)
{
    varying *v = r->v;
    int list[KAS_LOOP_IDS], count = 0;
    bool taken;
    *inner = -1;
    for (int id = 0; id < v->nest.ids; id++) {
        const bool own = kas_nest_place_in(&v->nest, v->nest.var_of[id]) >= 0;
        if (v->nest.state[id] != KAS_LOOP_REPLACED && own != reduction)
            list[count++] = id;
    }
    if (count == 0)
        return KAS_OK;
    const int loop = list[kas_rng_below(v->rng, (uint32_t)count)];
    const int64_t n = INT64_C(1) << (1 + kas_rng_below(v->rng, 4));
    KAS_TRY(try_step(v, KAS_STEP_SPLIT, loop, 0, n, &taken));
    for (int id = 0; id < r->next && taken; id++)
        if (r->now[id] == loop)
            r->now[id] = (uint8_t)(v->nest.ids - 2);
    *inner = taken ? v->nest.ids - 1 : -1;
    return KAS_OK;
}

/* Takes a step of the default sequence, with another number or not at all. */
static kas_status take_again(replay *r, kas_step s)
{
    varying *v = r->v;
    bool taken;
    const int loop = r->now[s.loop];
    const int other = s.kind == KAS_STEP_BLOCK ? s.other : r->now[s.other];
    int64_t n = s.n;
    if (s.kind == KAS_STEP_LANES && one_in(v, 2))
        n = n * (one_in(v, 2) ? 4 : 1) / 2;
    if (s.kind == KAS_STEP_ROWS && v->nest.turned < 0 && one_in(v, 2))
        n = divisor(v, size_of(v, loop), KAS_MOST_LANES);
    if ((s.kind == KAS_STEP_VECTORISE || s.kind == KAS_STEP_UNSWITCH) && one_in(v, 4))
        return KAS_OK;
    if (s.kind == KAS_STEP_STAGE && !v->ir->cpu)
        n = turns_of_box(v, loop);
    const int ids = v->nest.ids;
    KAS_TRY(try_step(v, (kas_step_kind)s.kind, loop, other, n, &taken));
    for (int made = ids; made < v->nest.ids; made++)
        r->now[r->next++] = (uint8_t)made;
    return KAS_OK;
}

/* The default sequence with small changes: a part of a loop as virtual threads, a part of a
 * reduction unrolled inside the lanes, other numbers of lanes and rows. */
static kas_status draw_near(varying *v, const kas_schedule *from)
{
    replay r = {.v = v, .next = v->nest.bases, .vthread = -1, .unrolled = -1};
    r.factor = v->nest.ids > v->nest.opened && one_in(v, 4);
    bool taken;
    for (int id = 0; id <= KAS_LOOP_LANES; id++)
        r.now[id] = (uint8_t)id;
    for (int i = 0; i < from->steps; i++) {
        if (r.factor && from->step[i].kind >= KAS_STEP_ROWS) {
            KAS_TRY(factor_a_sum(v));
            r.factor = false;
        }
        KAS_TRY(take_again(&r, from->step[i]));
        if (from->step[i].kind != KAS_STEP_LANE)
            continue;
        if (one_in(v, 2))
            KAS_TRY(split_off(&r, true, &r.unrolled));
        if (r.factor && r.unrolled >= 0 && one_in(v, 2)) /* the inner part's turns */
            KAS_TRY(try_step(v, KAS_STEP_INTERCHANGE, r.unrolled - 1, r.unrolled, 0, &taken));
        if (one_in(v, 2) && !r.factor)
            KAS_TRY(split_off(&r, false, &r.vthread));
        if (r.vthread >= 0)
            KAS_TRY(try_step(v, KAS_STEP_VTHREAD, r.vthread, 0, 0, &taken));
    }
    if (v->nest.factored >= 0) /* what were the block's rows have no place yet */
        KAS_TRY(place_rest(v));
    if (r.unrolled >= 0 && (v->ir->cpu || one_in(v, 2))) /* else a GPU may stage it */
        KAS_TRY(try_step(v, KAS_STEP_UNROLL, r.unrolled, 0, 0, &taken));
    if (v->nest.boxes == 0 && one_in(v, 2))
        KAS_TRY(stage_block(v));
    return fill_ahead(v);
}

kas_status kas_schedule_vary(kas_ir *ir, const kas_nest *open, const kas_schedule *usual,
                             kas_rng *rng, kas_schedule *out)
{
    enum { TRIES = 16 };
    for (int i = 0; i < TRIES; i++) {
        varying v = {.ir = ir, .nest = *open, .rng = rng};
        KAS_TRY(one_in(&v, 2) ? draw_near(&v, usual) : draw(&v));
        kas_nest complete = *open;
        const bool quiet = kas_quiet(true);
        const kas_status status = kas_schedule_apply(ir, &v.nest.schedule, &complete);
        kas_quiet(quiet);
        if (status == KAS_OK)
            *out = v.nest.schedule;
        if (status != KAS_ILLEGAL)
            return status;
    }
    *out = *usual;
    return KAS_OK;
}

/* Which dimension the lanes of a block run along: a small model of what memory costs.
 *
 * Candidates are every loop by itself, and the trailing loops made one, whether or not that puts
 * divisions into some indices.  One operand that is broadcast over groups of channels splits the
 * channels for all; with the loop merged by force the others stay contiguous, and that operand pays
 * for a division by a constant.
 *
 * The price of a candidate, for an element: of each access, the 32-byte sectors that 32 consecutive
 * lanes touch (found by evaluating its index), in units of a contiguous access,
 *
 *     all lanes at one place                 0.25
 *     contiguous                             1
 *     2 to 4 apart, a loop inside between    1.25
 *     picked, on a CPU (picks.c)             2
 *     read or written as a tile (tiles.c)    4, on a CPU
 *     anything else                          2 to 8; on the CPU, a gather: 6 to 8
 *     lanes a page and more apart            3 times that: every lane is a miss in L1 and TLB,
 *                                            and strides of powers of two share a set
 *
 * accesses inside reductions count several times; a division of the lane costs as much as an
 * access; and short rows of lanes pay for their start. */
#include "jit/schedule/nest.h"

#include <stdlib.h>

enum {
    SECTOR = 8,         /* floats in 32 bytes, which a GPU fetches at once */
    PAGE = 1024,        /* floats */
    REDUCED = 4,        /* weight of a read at every turn of a reduction */
    ROW_START = 64,     /* price of starting a row of lanes */
    ROW_START_CPU = 32, /* on a CPU, of a row that fills a vector */
    VECTOR = 8,
    GATHER_CPU = 6, /* least price of a gather on a CPU: a load for each lane */
    NEAR_CPU = 3,   /* that of one from a line or two, in a column, where nothing is picked */
    NEAR = 4,       /* distance of neighbours that compilers interleave */
    SECTOR_BYTES = 32,
    LONG_ENOUGH = 1024, /* lanes; more of them save nothing */
    /* Most turns of a loop inside the lanes: compilers interleave that many well */
    INNER_MOST = 4,
    INNER_MOST_CPU = 8, /* there each lane's stores are still better than a scatter of all lanes */
};

typedef struct price {
    const kas_ir *ir;
    kas_masks masks;
    int loops, lane, inner, turned, column;
    double sum, bytes;
} price;

/* ---- one access ------------------------------------------------------------------------------ */

/* Computes the values of a sum at several lanes. Returns false where they are all the same: then
 * only the first is set. */
static bool find_values(const kas_ir *ir, const kas_ix_sum *s, int lane, int64_t first, int count,
                        int64_t *out)
{
    int64_t same = s->constant, inner[KAS_LANES_AT_ONCE];
    bool varies = false;
    for (int i = 0; i < s->terms; i++) {
        const kas_atom *atom = kas_atom_get(ir, s->term[i].atom);
        const int64_t coeff = s->term[i].coeff;
        const bool variable = atom->kind == KAS_ATOM_VAR;
        const bool moves =
            variable ? atom->of == lane
                     : find_values(ir, kas_ix_get(ir, atom->of), lane, first, count, inner);
        if (moves && !varies)
            memset(out, 0, sizeof *out * (size_t)count);
        varies |= moves;
        if (variable)
            for (int l = 0; moves && l < count; l++)
                out[l] += coeff * (first + l);
        else if (moves)
            for (int l = 0; l < count; l++)
                out[l] += coeff * kas_atom_at(atom, inner[l]);
        else
            same += coeff * kas_atom_at(atom, inner[0]);
    }
    if (!varies)
        *out = same;
    for (int l = 0; varies && l < count; l++)
        out[l] += same;
    return varies;
}

void kas_ix_sum_at(const kas_ir *ir, const kas_ix_sum *sum, int lane, int64_t first, int count,
                   int64_t *out)
{
    if (!find_values(ir, sum, lane, first, count, out))
        for (int l = 1; l < count; l++)
            out[l] = *out;
}

typedef struct pattern {
    int lanes, sectors; /* looked at; touched */
    bool fixed, contiguous;
    int64_t farthest; /* distance of neighbours */
} pattern;

static pattern look(const kas_ir *ir, kas_ix ix, int lane)
{
    const int64_t size = ir->var_size[lane];
    pattern p = {size < KAS_WARP ? (int)size : KAS_WARP, 1, true, true, 0};
    int64_t value[KAS_WARP], before;
    kas_ix_sum_at(ir, kas_ix_get(ir, ix), lane, 0, p.lanes, value);
    before = *value;
    for (int l = 1; l < p.lanes; l++) {
        const int64_t now = value[l];
        p.fixed &= now == before;
        p.contiguous &= now == before + 1;
        p.sectors += now / SECTOR != before / SECTOR;
        p.farthest = llabs(now - before) > p.farthest ? llabs(now - before) : p.farthest;
        before = now;
    }
    return p;
}

/* Returns how many sectors these bytes lie in. */
static int count_sectors(const int64_t *value, int lanes, int64_t size)
{
    int64_t seen[KAS_WARP];
    int sectors = 0;
    for (int l = 0; l < lanes; l++) {
        const int64_t sector = value[l] * size / SECTOR_BYTES;
        int i = sectors - 1;
        while (i >= 0 && seen[i] != sector)
            i--;
        if (i < 0)
            seen[sectors++] = sector;
    }
    return sectors;
}

double kas_ix_lane_sectors(const kas_ir *ir, kas_ix ix, int lane, size_t size)
{
    const int64_t extent = ir->var_size[lane], bytes = (int64_t)size;
    const int lanes = extent < KAS_WARP ? (int)extent : KAS_WARP;
    const kas_ix_sum *sum = kas_ix_get(ir, ix);
    int64_t value[KAS_WARP], apart;
    if (!kas_ix_coeff(ir, ix, lane, &apart)) {
        kas_ix_sum_at(ir, sum, lane, 0, lanes, value);
        return (double)count_sectors(value, lanes, bytes) / lanes;
    }
    if (llabs(apart) * bytes >= SECTOR_BYTES)
        return 1;
    kas_ix_sum_at(ir, sum, lane, 0, 1, value);
    const int64_t last = value[0] + apart * (lanes - 1);
    return (double)(llabs(last * bytes / SECTOR_BYTES - value[0] * bytes / SECTOR_BYTES) + 1) /
           lanes;
}

int kas_ix_lane_divisions(const kas_ir *ir, kas_ix ix, int lane)
{
    const kas_ix_sum *s = kas_ix_get(ir, ix);
    int divisions = 0;
    for (int i = 0; i < s->terms; i++) {
        const kas_atom *atom = kas_atom_get(ir, s->term[i].atom);
        if (atom->kind == KAS_ATOM_VAR || !kas_ix_has_var(ir, atom->of, lane))
            continue;
        divisions += kas_ix_lane_divisions(ir, atom->of, lane) + (atom->kind != KAS_ATOM_CLAMP);
    }
    return divisions;
}

/* Returns whether a reduction walks contiguously through what the lanes leave out: then sectors are
 * fetched once and found again. */
static bool walked_by_reduction(const price *p, kas_ix ix)
{
    int64_t coeff;
    for (int i = p->loops; i < p->masks.vars; i++)
        if (kas_ix_coeff(p->ir, ix, p->masks.var[i], &coeff) && llabs(coeff) == 1)
            return true;
    return false;
}

/* Returns whether the lanes and the loop inside them together walk contiguously. */
static bool interleaved(const kas_ir *ir, kas_ix ix, int lane, int inner)
{
    int64_t apart, between;
    return kas_ix_coeff(ir, ix, lane, &apart) && kas_ix_coeff(ir, ix, inner, &between) &&
           between == 1 && apart == ir->var_size[inner];
}

/* Returns a loop that may run inside the lanes, or -1. */
static int inner_loop(const kas_ir *ir, const kas_nest *nest, int lane)
{
    for (int i = 0; i < nest->loops; i++) {
        const int var = nest->loop[i];
        if (var != lane && ir->var_size[var] <= (ir->cpu ? INNER_MOST_CPU : INNER_MOST) &&
            interleaved(ir, nest->store, lane, var))
            return var;
    }
    return -1;
}

static double access_price(const price *p, kas_ix ix, const pattern *a, bool near)
{
    if (p->inner >= 0 && interleaved(p->ir, ix, p->lane, p->inner))
        return 1.25;
    if (a->fixed)
        return 0.25;
    if (a->contiguous)
        return 1;
    if (near && p->column < 0)
        return 2;
    if (kas_ix_is_turned(p->ir, ix, p->lane, p->turned))
        return 4;
    double cost = (double)a->sectors * SECTOR / a->lanes;
    const double least = near ? NEAR_CPU : p->ir->cpu && a->farthest > NEAR ? GATHER_CPU : 2;
    cost = cost < least ? least : cost;
    if (walked_by_reduction(p, ix))
        cost /= 2;
    return a->farthest >= PAGE ? cost * 3 : cost;
}

static void see_access(void *context, const kas_ex_node *node, kas_ix ix)
{
    price *p = context;
    const bool near = node && kas_nest_picks(p->ir, node, p->lane);
    if (!near || p->column >= 0)
        p->sum += kas_ix_lane_divisions(p->ir, ix, p->lane);
    if (node && node->kind != KAS_EX_LOAD)
        return;
    const pattern a = look(p->ir, ix, p->lane);
    const bool reduced = kas_masks_ix(&p->masks, ix) >> p->loops != 0;
    double cost = access_price(p, ix, &a, near) * (reduced ? REDUCED : 1);
    if (p->inner >= 0 && !kas_ix_has_var(p->ir, ix, p->inner))
        cost /= (double)p->ir->var_size[p->inner]; /* once for all turns */
    p->sum += cost;
    if (!a.fixed && !a.contiguous &&
        !kas_ix_is_turned(
            p->ir, ix, p->lane,
            p->turned)) /* these come and go; of others more is fetched than is used */
        p->bytes += 32.0 * a.sectors / a.lanes;
}

/* ---- candidates ------------------------------------------------------------------------------ */

static kas_status price_of(const kas_ir *ir, const kas_nest *nest, double *out, double *bytes)
{
    const int lane = nest->lane;
    price p = {.ir = ir,
               .loops = nest->loops,
               .lane = lane,
               .inner = nest->inner,
               .turned = nest->turned,
               .column = nest->column};
    KAS_TRY(kas_masks_init(&p.masks, ir, nest->value, nest->loops, nest->loop));
    const kas_status status = kas_nest_visit(ir, nest, see_access, &p);
    kas_masks_free(&p.masks);
    const double size = (double)ir->var_size[lane];
    const int fills = p.column < 0 ? VECTOR : 2 * VECTOR;
    *out = p.sum + (ir->cpu && size >= fills ? ROW_START_CPU : ROW_START) /
                       (size < LONG_ENOUGH ? size : LONG_ENOUGH);
    *bytes = p.bytes;
    return status;
}

/* The cheapest lanes so far. */
typedef struct choice {
    const kas_ir *ir;
    kas_nest best;
    double least;
} choice;

static kas_status consider(void *context, kas_nest trial)
{
    choice *c = context;
    double cost;
    KAS_TRY(price_of(c->ir, &trial, &cost, &trial.lane_bytes));
    if (c->least >= 0 && cost >= c->least)
        return KAS_OK;
    c->least = cost;
    c->best = trial;
    return KAS_OK;
}

static kas_status look_at(kas_ir *ir, kas_nest trial, int lane, bool keeps, kas_lanes_visitor *see,
                          void *context)
{
    const int inner = keeps ? -1 : inner_loop(ir, &trial, lane);
    KAS_TRY(kas_nest_step_on(ir, &trial, KAS_STEP_LANE, lane, 0));
    if (inner >= 0)
        KAS_TRY(kas_nest_step_on(ir, &trial, KAS_STEP_UNROLL, inner, 0));
    KAS_TRY(kas_nest_find_turned(ir, &trial));
    return see(context, trial);
}

kas_status kas_nest_each_lane(kas_ir *ir, const kas_nest *nest, bool keeps, kas_lanes_visitor *see,
                              void *context)
{
    kas_nest trial = *nest;
    for (int i = nest->loops - 1; i >= 0; i--)
        if (nest->loop[i] != nest->column) {
            kas_nest merged;
            KAS_TRY(look_at(ir, *nest, nest->loop[i], keeps, see, context));
            if (kas_nest_merge_taps(ir, nest, nest->loop[i], &merged))
                KAS_TRY(look_at(ir, merged, nest->loop[i], keeps, see, context));
        }
    while (trial.loops > 1 && ir->var_size[trial.loop[trial.loops - 1]] < LONG_ENOUGH) {
        kas_nest merged;
        if (!kas_nest_merge_pair(ir, &trial, trial.loops - 2, &merged))
            break;
        trial = merged;
        KAS_TRY(look_at(ir, trial, trial.loop[trial.loops - 1], keeps, see, context));
    }
    return ir->status;
}

kas_status kas_nest_choose_lane(kas_ir *ir, kas_nest *nest, bool keeps)
{
    choice c = {.ir = ir, .best = *nest, .least = -1};
    KAS_TRY(kas_nest_each_lane(ir, nest, keeps, consider, &c));
    *nest = c.best;
    return ir->status;
}

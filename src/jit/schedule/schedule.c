#include "jit/schedule/schedule.h"

#include <string.h>

#include "jit/schedule/nest.h"
#include "jit/schedule/wide.h"

enum {
    LANES = 1024,     /* lanes of a block, when each lane is alone */
    LANES_KEPT = 256, /* when a lane keeps values between loops: one round of threads */
    LANES_LEAST = 64, /* fewest lanes, for the sake of the block's threads */
    TILED_LEAST = 16, /* fewest lanes of tiles */
    /* Most bytes that the lanes of a block touch in a turn: half of a small L1 */
    L1_BYTES = 16384,
    ENOUGH_BLOCKS = 512, /* blocks, so that every multiprocessor of a large GPU has some */
    ENOUGH_BLOCKS_CPU = 32,
    BLOCK_WORK = 8192,   /* elements, reduced ones included, that make a block worth its start */
    UNROLLED = 25,       /* most turns of a reduction inside a lane: a 5x5 window */
    UNROLLED_COST = 100, /* most simple operations of all its turns */
    INSIDE = 32,         /* most turns of the part of a long sum that is inside a lane, on a CPU */
    INSIDE_COST = 4      /* most simple operations of a turn there */
};

/* Of what blocks fetch, how much less makes another order of the loops worth it */
static const double worth = 0.8;

double kas_reduce_length(const kas_ir *ir, kas_ex e)
{
    double length = 1;
    const kas_ex_node *node = kas_ex_get(ir, e);
    for (const int fn = node->fn; node->kind == KAS_EX_REDUCE && node->fn == fn;
         node = kas_ex_get(ir, node->a[0]))
        length *= (double)ir->var_size[node->var];
    return length;
}

static void see_cost(void *context, kas_ex e, const kas_ex_node *node)
{
    (void)e;
    if (node->kind == KAS_EX_UNARY || node->kind == KAS_EX_BINARY || node->kind == KAS_EX_SELECT)
        *(double *)context += kas_fn_cost((kas_fn)node->fn);
}

bool kas_reduce_is_long(const kas_ir *ir, kas_ex e)
{
    double cost = 1;
    const double length = kas_reduce_length(ir, e);
    if (length > UNROLLED)
        return true;
    if (kas_ex_visit(ir, e, see_cost, &cost) != KAS_OK)
        return false;
    return length > 4 && length * cost > UNROLLED_COST;
}

typedef struct long_search {
    const kas_ir *ir;
    bool found;
    double work; /* turns of the longest reduction */
} long_search;

static void see_long(void *context, kas_ex e, const kas_ex_node *node)
{
    long_search *s = context;
    if (node->kind != KAS_EX_REDUCE)
        return;
    const double length = kas_reduce_length(s->ir, e);
    s->found |= kas_reduce_is_long(s->ir, e);
    s->work = length > s->work ? length : s->work;
}

/* ---- loops ----------------------------------------------------------------------------------- */

typedef struct axes {
    int count;
    int var[KAS_NEST_LOOPS + 1];
    int64_t size[KAS_NEST_LOOPS + 1];
} axes;

static void add_axis(axes *a, int var, int64_t size)
{
    a->var[a->count] = var;
    a->size[a->count++] = size;
}

static void remove_axis(axes *a, int at)
{
    a->count--;
    memmove(a->var + at, a->var + at + 1, sizeof *a->var * (size_t)(a->count - at));
    memmove(a->size + at, a->size + at + 1, sizeof *a->size * (size_t)(a->count - at));
}

static int smallest(const axes *a)
{
    int at = -1;
    for (int i = 0; i < a->count; i++)
        if (a->var[i] >= 0 && (at < 0 || a->size[i] < a->size[at]))
            at = i;
    return at;
}

/* Makes the axis of a variable the last one. Returns false when there is none. */
static bool make_innermost(axes *a, int var)
{
    for (int i = 0; i < a->count; i++)
        if (a->var[i] == var) {
            const int64_t size = a->size[i];
            remove_axis(a, i);
            add_axis(a, var, size);
            return true;
        }
    return false;
}

/* Makes an axis a coordinate of the block. */
static kas_status place_block(kas_ir *ir, kas_nest *nest, int var, int axis)
{
    const int id = var == KAS_AXIS_LANES  ? KAS_LOOP_LANES
                   : var == KAS_AXIS_ROWS ? KAS_LOOP_ROWS
                                          : kas_nest_id_of(nest, var);
    return kas_nest_step(
        ir, nest, (kas_step){.kind = KAS_STEP_BLOCK, .loop = (uint8_t)id, .other = (uint8_t)axis});
}

/* Assigns grid axes by falling size; what does not fit becomes a serial loop. */
static kas_status place_grid(kas_ir *ir, kas_nest *nest, axes *a)
{
    while (a->count > 3) {
        const int at = smallest(a);
        KAS_TRY(kas_nest_step_on(ir, nest, KAS_STEP_SERIAL, a->var[at], 0));
        remove_axis(a, at);
    }
    for (int axis = 0; axis < 3; axis++) {
        int at = -1;
        for (int i = 0; i < a->count; i++)
            if (at < 0 || a->size[i] > a->size[at])
                at = i;
        if (at < 0)
            continue;
        if (axis > 0 && a->size[at] > KAS_MOST_GRID_YZ && a->var[at] >= 0)
            KAS_TRY(kas_nest_step_on(ir, nest, KAS_STEP_SERIAL, a->var[at], 0));
        else
            KAS_TRY(place_block(ir, nest, a->var[at], axis));
        remove_axis(a, at);
    }
    return KAS_OK;
}

/* Gives a thread a group of lanes, where that pays. */
kas_status kas_nest_place_width(kas_ir *ir, kas_nest *nest)
{
    int width = 1;
    if (nest->tiles == 0)
        KAS_TRY(kas_nest_width(ir, nest, &width));
    if (nest->column >= 0 && ir->var_size[nest->column] * width > KAS_COLUMN_KEPT &&
        ir->var_size[nest->column] <= KAS_COLUMN_KEPT)
        width = 1; /* its registers then hold a column */
    return width == 1 ? KAS_OK
                      : kas_nest_step(ir, nest, (kas_step){.kind = KAS_STEP_VECTORISE, .n = width});
}

/* Chooses the number of lanes of a block: what L1 holds, when they touch more than their own
 * elements. */
kas_status kas_nest_place_lanes(kas_ir *ir, kas_nest *nest, bool keeps)
{
    const int64_t extent = nest->lane < 0 ? 1 : ir->var_size[nest->lane];
    int64_t most = keeps ? LANES_KEPT : LANES;
    int64_t tile_bytes = 4 * nest->spill.turns;
    for (int i = 0; i < nest->tiles; i++)
        tile_bytes += 4 * nest->tile[i].turns * nest->tile[i].copies;
    while (most > LANES_LEAST && (double)most * nest->lane_bytes > L1_BYTES)
        most /= 2;
    while (most > TILED_LEAST && most * tile_bytes > L1_BYTES)
        most /= 2;
    const int64_t chunks = (extent + most - 1) / most;
    const int64_t lanes = chunks == 1 ? extent : ((extent + chunks - 1) / chunks + 31) / 32 * 32;
    if (lanes < extent)
        KAS_TRY(kas_nest_step(ir, nest, (kas_step){.kind = KAS_STEP_LANES, .n = (int32_t)lanes}));
    return kas_nest_place_width(ir, nest);
}

/* Returns how many turns of a loop of `size` make a block worth its start and leave blocks enough;
 * at least what fills a block's threads. */
static int64_t rows_of_block(const kas_ir *ir, const kas_nest *nest, int64_t size, double blocks,
                             double work)
{
    const double enough = ir->cpu ? ENOUGH_BLOCKS_CPU : ENOUGH_BLOCKS;
    double rows = BLOCK_WORK / ((double)nest->lanes * work);
    if (rows > blocks / enough)
        rows = blocks / enough;
    const int64_t least = nest->block[0] < KAS_WARP ? KAS_WARP / nest->block[0]
                          : nest->lanes < KAS_WARP  ? 2
                                                    : 1;
    const int64_t whole = rows < (double)least ? least : (int64_t)rows;
    return whole < size ? whole : size;
}

/* Places the loops; turns of `rows`, or of the innermost loop where that is -1, share a block:
 * `count` of them, or as many as that is worth where it is 0. */
kas_status kas_nest_place_loops(kas_ir *ir, kas_nest *nest, double work, int rows, int64_t count)
{
    axes a = {0};
    const int64_t extent = nest->lane < 0 ? 1 : ir->var_size[nest->lane];
    const int64_t chunks = (extent + nest->lanes - 1) / nest->lanes;
    double blocks = (double)chunks;
    for (int i = 0; i < nest->loops; i++)
        if (nest->loop[i] != nest->lane && nest->loop[i] != nest->inner &&
            nest->loop[i] != nest->column) {
            add_axis(&a, nest->loop[i], ir->var_size[nest->loop[i]]);
            blocks *= (double)ir->var_size[nest->loop[i]];
        }
    make_innermost(&a, rows);
    const bool turned = make_innermost(&a, nest->turned);
    if (a.count > 0) {
        const int64_t size = a.size[a.count - 1];
        const int64_t here = turned      ? nest->turns
                             : count > 0 ? count
                                         : rows_of_block(ir, nest, size, blocks, work);
        if (here > 1) {
            KAS_TRY(kas_nest_step_on(ir, nest, KAS_STEP_ROWS, a.var[--a.count], here));
            if (here < size)
                add_axis(&a, KAS_AXIS_ROWS, (size + here - 1) / here);
        }
    }
    if (chunks > 1)
        add_axis(&a, KAS_AXIS_LANES, chunks);
    return place_grid(ir, nest, &a);
}

/* Places the loops of a GPU's kernel: turns of the loop share a block that fetch the same,
 * neighbours in a window, or other elements of the same sectors. */
static kas_status place_sharing(kas_ir *ir, kas_nest *nest, double work)
{
    const kas_nest open = *nest;
    double least, fetched;
    KAS_TRY(kas_nest_place_loops(ir, nest, work, -1, 0));
    KAS_TRY(kas_nest_fetched(ir, nest, &least));
    for (int i = 0; i < open.loops; i++) {
        const int var = open.loop[i];
        if (var == open.lane || var == open.inner || var == open.column)
            continue;
        for (int full = 0; full < 2; full++) { /* rows as usual, and as many as there are threads */
            kas_nest trial = open;
            KAS_TRY(kas_nest_place_loops(ir, &trial, full ? 1 : work, var, 0));
            KAS_TRY(kas_nest_fetched(ir, &trial, &fetched));
            if (fetched >= worth * least)
                continue;
            least = fetched;
            *nest = trial;
        }
    }
    return KAS_OK;
}

/* By place in the masks: what is known of the chain of reductions that begins with a variable. */
typedef struct chains {
    const kas_ir *ir;
    const kas_nest *nest;
    kas_masks masks;
    bool is_inner[64]; /* it stands right inside a reduction of its kind */
    bool is_long[64], in_lanes[64];
    int last[64]; /* its innermost loop, where a lane should add that one up by itself; else -1 */
} chains;

static void see_inner(void *context, kas_ex e, const kas_ex_node *node)
{
    chains *c = context;
    (void)e;
    if (node->kind != KAS_EX_REDUCE)
        return;
    const kas_ex_node *body = kas_ex_get(c->ir, node->a[0]);
    if (body->kind == KAS_EX_REDUCE && body->fn == node->fn)
        c->is_inner[kas_masks_index(&c->masks, body->var)] = true;
}

/* Returns the innermost loop of a long sum around a CPU's lanes, if its turns are few and cheap:
 * inside the lanes it adds up in a register, and the lanes' sums are loaded and stored less
 * often. */
static int summed_inside(const chains *c, kas_ex e, const kas_ex_node *node)
{
    double cost = 0;
    int last = -1;
    bool tiled = node->var == c->nest->turned; /* its turns are those of the tiles */
    if (!c->ir->cpu || c->nest->keeps_sums || node->fn != KAS_FN_REDUCE_SUM ||
        kas_ex_visit(c->ir, e, see_cost, &cost) != KAS_OK)
        return -1;
    for (const kas_ex_node *r = kas_ex_get(c->ir, node->a[0]);
         r->kind == KAS_EX_REDUCE && r->fn == node->fn; r = kas_ex_get(c->ir, r->a[0])) {
        last = r->var;
        tiled |= last == c->nest->turned;
    }
    if (tiled)
        return -1;
    return last >= 0 && c->ir->var_size[last] <= INSIDE && cost <= INSIDE_COST ? last : -1;
}

static void see_chain(void *context, kas_ex e, const kas_ex_node *node)
{
    chains *c = context;
    if (node->kind != KAS_EX_REDUCE)
        return;
    const int i = kas_masks_index(&c->masks, node->var);
    /* virtual threads whose sums stay in registers run around the lanes */
    c->is_long[i] |= kas_reduce_is_long(c->ir, e) || c->nest->keeps_sums;
    c->in_lanes[i] |= kas_masks_ex(&c->masks, e) >> c->nest->loops ||
                      (c->nest->inner >= 0 && !c->nest->keeps_sums);
    c->last[i] = summed_inside(c, e, node);
}

/* Unrolls short reductions; long ones run around the lanes, where they can. */
kas_status kas_nest_place_reductions(kas_ir *ir, kas_nest *nest)
{
    chains c = {.ir = ir, .nest = nest};
    KAS_TRY(kas_masks_init(&c.masks, ir, nest->value, nest->loops, nest->loop));
    kas_status status = kas_ex_visit(ir, nest->value, see_inner, &c);
    if (status == KAS_OK)
        status = kas_ex_visit(ir, nest->value, see_chain, &c);
    for (int i = c.masks.vars - 1; i >= nest->loops && status == KAS_OK; i--)
        if (!c.is_inner[i] && !(c.is_long[i] && c.in_lanes[i]) &&
            nest->state[kas_nest_id_of(nest, c.masks.var[i])] == KAS_LOOP_OPEN) {
            status = kas_nest_step_on(ir, nest, c.is_long[i] ? KAS_STEP_AROUND : KAS_STEP_UNROLL,
                                      c.masks.var[i], 0);
            if (status == KAS_OK && c.is_long[i] && c.last[i] >= 0)
                status = kas_nest_step_on(ir, nest, KAS_STEP_UNROLL, c.last[i], 0);
        }
    kas_masks_free(&c.masks);
    return status;
}

/* A row has a group of its lanes or one lane in a thread, and as many threads as groups, but at most
 * a warp; the other groups are their next turns. */
kas_status kas_nest_place(kas_ir *ir, kas_nest *nest, bool keeps, double work)
{
    if (nest->row) {
        KAS_TRY(kas_nest_place_width(ir, nest));
        return kas_nest_place_loops(ir, nest, 1, -1, 0);
    }
    if (!nest->keeps_sums) {
        KAS_TRY(kas_nest_turn(ir, nest));
        KAS_TRY(kas_nest_slide(ir, nest));
        KAS_TRY(kas_nest_place_lanes(ir, nest, keeps));
    }
    if (!ir->cpu)
        return place_sharing(ir, nest, nest->slides ? 1 : work);
    return kas_nest_place_loops(ir, nest, work, -1, 0);
}

/* Chooses lanes by what their accesses cost, and on a GPU, where that leaves the launch far from
 * what its bytes take, by all that is counted. */
static kas_status place_kernel(kas_ir *ir, kas_nest *nest)
{
    long_search reduce = {ir, nest->column >= 0, 1};
    const kas_nest open = *nest;
    if (nest->column >= 0)
        reduce.work = (double)ir->var_size[nest->column];
    if (!nest->row) {
        KAS_TRY(kas_ex_visit(ir, nest->value, see_long, &reduce));
        if (ir->cpu && nest->column < 0)
            KAS_TRY(kas_nest_keep_sums(ir, nest));
        if (nest->lane < 0)
            KAS_TRY(kas_nest_choose_lane(ir, nest, reduce.found));
    }
    KAS_TRY(kas_nest_place(ir, nest, reduce.found, reduce.work));
    return kas_nest_improve(ir, &open, reduce.found, reduce.work, nest);
}

kas_status kas_schedule_default(kas_ir *ir, const kas_nest *open, kas_schedule *out)
{
    kas_nest nest = *open;
    KAS_TRY(kas_nest_split(ir, &nest));
    KAS_TRY(kas_nest_merge(ir, &nest));
    KAS_TRY(place_kernel(ir, &nest));
    KAS_TRY(kas_nest_place_reductions(ir, &nest));
    const bool quiet = kas_quiet(true);
    const kas_status status =
        kas_nest_step(ir, &nest, (kas_step){.kind = KAS_STEP_UNSWITCH}); /* where it is legal */
    kas_quiet(quiet);
    if (status != KAS_OK && status != KAS_ILLEGAL)
        return status;
    *out = nest.schedule;
    return ir->status;
}

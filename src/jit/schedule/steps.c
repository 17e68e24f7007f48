/* Takes the steps of a schedule: each is checked, and then changes the nest (sequence.h). */
#include <string.h>

#include "jit/schedule/dependence.h"
#include "jit/schedule/nest.h"
#include "jit/schedule/sequence_text.h"
#include "jit/schedule/wide.h"

enum {
    MOST_UNROLLED = 64,    /* turns; KAS_UNROLL of prelude.h */
    MOST_DEPENDENCES = 64, /* that are listed */
    TILE_BYTES = 1 << 16   /* of all tiles of a block */
};

/* ---- refusals -------------------------------------------------------------------------------- */

kas_status kas_nest_refuse(const kas_ir *ir, const kas_nest *nest, kas_step step,
                           const char *reason)
{
    kas_buf text = {0};
    if (kas_is_quiet(KAS_ILLEGAL)) /* a search asks often */
        return KAS_ILLEGAL;
    kas_step_print(ir, nest, step, &text);
    const kas_status status = kas_fail(KAS_ILLEGAL, "%s: illegal: %s", kas_buf_text(&text), reason);
    kas_buf_free(&text);
    return status;
}

static kas_status refuse_carried(const kas_ir *ir, const kas_nest *nest, kas_step step,
                                 kas_dependence_kind kind)
{
    static const char *const why[] = {
        "", "dependence S3 -> S3: its turns write the same elements",
        "dependence S2 -> S3: each lane of the row needs what all of them computed",
        "dependence S2 -> S2': a walk along the column needs the whole of the walk before",
        "dependence S2 -> S2: a turn adds to the sum of the turns before"};
    return kas_nest_refuse(ir, nest, step, why[kind]);
}

/* ---- loops ----------------------------------------------------------------------------------- */

static int var_of(const kas_nest *nest, int id)
{
    return id < nest->ids && nest->state[id] != KAS_LOOP_REPLACED ? nest->var_of[id] : -1;
}

int kas_nest_id_of(const kas_nest *nest, int var)
{
    for (int i = nest->ids - 1; i >= 0; i--)
        if (nest->var_of[i] == var)
            return i;
    return -1;
}

int kas_nest_place_in(const kas_nest *nest, int var)
{
    for (int i = 0; i < nest->loops; i++)
        if (nest->loop[i] == var)
            return i;
    return -1;
}

bool kas_nest_is_placed(const kas_nest *nest, int var)
{
    bool placed = var == nest->lane || var == nest->inner || var == nest->rows ||
                  var == nest->column || var == nest->turned;
    for (int i = 0; i < nest->serials; i++)
        placed |= nest->serial[i] == var;
    for (int i = 0; i < 3; i++)
        placed |= nest->axis_var[i] == var;
    return placed;
}

kas_loop_state kas_nest_state_of(const kas_nest *nest, const kas_ex_node *reduce)
{
    const int id = kas_nest_id_of(nest, reduce->var);
    return id < 0 ? KAS_LOOP_OPEN : (kas_loop_state)nest->state[id];
}

bool kas_nest_is_long(const kas_ir *ir, const kas_nest *nest, kas_ex e)
{
    const kas_loop_state state = kas_nest_state_of(nest, kas_ex_get(ir, e));
    return state == KAS_LOOP_OPEN ? kas_reduce_is_long(ir, e) : state == KAS_LOOP_AROUND;
}

bool kas_nest_runs_around(const kas_ir *ir, const kas_nest *nest, kas_ex e)
{
    /* What has no place yet stays inside the lanes where virtual threads have sums of their own. */
    return nest->slides ? kas_nest_state_of(nest, kas_ex_get(ir, e)) == KAS_LOOP_AROUND
                        : kas_nest_is_long(ir, nest, e);
}

bool kas_nest_record(kas_nest *nest, kas_step step)
{
    if (nest->schedule.steps == KAS_SCHEDULE_STEPS)
        return false;
    nest->schedule.step[nest->schedule.steps++] = step;
    return true;
}

/* ---- reductions ------------------------------------------------------------------------------ */

typedef struct reduction {
    const kas_ir *ir;
    int var, other;
    int fn, inside; /* inside: loops of other reductions on which it depends */
    /* `other` is of its kind, and right inside it; or inside it, with more of that kind between them */
    bool chained, around;
    kas_masks masks;
    int loops;
    double turns; /* of the unrolled loops of its chain */
} reduction;

static void see_reduction(void *context, kas_ex e, const kas_ex_node *node)
{
    reduction *r = context;
    if (node->kind != KAS_EX_REDUCE || node->var != r->var)
        return;
    r->fn = node->fn;
    r->inside |= kas_masks_ex(&r->masks, e) >> r->loops != 0;
    r->turns = kas_reduce_length(r->ir, e);
    const kas_ex_node *body = kas_ex_get(r->ir, node->a[0]);
    r->chained |= body->kind == KAS_EX_REDUCE && body->fn == node->fn && body->var == r->other;
    for (; body->kind == KAS_EX_REDUCE && body->fn == node->fn;
         body = kas_ex_get(r->ir, body->a[0]))
        r->around |= body->var == r->other;
}

static kas_status find_reduction(const kas_ir *ir, const kas_nest *nest, int var, int other,
                                 reduction *r)
{
    *r = (reduction){.ir = ir, .var = var, .other = other, .loops = nest->loops};
    KAS_TRY(kas_masks_init(&r->masks, ir, nest->value, nest->loops, nest->loop));
    const kas_status status = kas_ex_visit(ir, nest->value, see_reduction, r);
    kas_masks_free(&r->masks);
    return status;
}

/* Returns the reduction around the lanes in each of whose turns what they read is staged; or -1. */
static int staged_in(const kas_nest *nest)
{
    return nest->boxes > 0                          ? nest->boxed
           : nest->tiles > 0 && !nest->tiles_within ? nest->turned
                                                    : -1;
}

static kas_status place_reduction(const kas_ir *ir, kas_nest *nest, kas_step step)
{
    const int var = var_of(nest, step.loop), staged = staged_in(nest);
    reduction r;
    KAS_TRY(find_reduction(ir, nest, var, staged, &r));
    if (nest->state[step.loop] != KAS_LOOP_OPEN)
        return kas_nest_refuse(ir, nest, step, "the reduction has its place already");
    if ((r.around || var == staged) && (step.kind == KAS_STEP_UNROLL || nest->boxes > 0))
        return kas_nest_refuse(ir, nest, step, "what its turns read is staged, turn by turn");
    if (step.kind == KAS_STEP_UNROLL && r.turns > MOST_UNROLLED)
        return kas_nest_refuse(ir, nest, step, "at most 64 turns are unrolled; split it first");
    if (step.kind == KAS_STEP_AROUND && r.inside)
        return kas_nest_refuse(
            ir, nest, step,
            "dependence S2 -> S2: each turn of the reduction outside it uses its result");
    if (step.kind == KAS_STEP_AROUND && nest->tiles_within && var == nest->turned)
        return kas_nest_refuse(ir, nest, step,
                               "what its turns read is staged for all of them, inside the lanes");
    if (step.kind == KAS_STEP_AROUND && nest->inner >= 0 && !nest->slides)
        return kas_nest_refuse(ir, nest, step,
                               "an unrolled loop inside the lanes keeps its sums there; virtual "
                               "threads have sums of their own");
    nest->state[step.loop] = step.kind == KAS_STEP_UNROLL ? KAS_LOOP_UNROLLED : KAS_LOOP_AROUND;
    return KAS_OK;
}

/* ---- splits, fusions and interchanges -------------------------------------------------------- */

/* A reduction around the lanes is written in front of them, by itself. */
static bool is_around(const kas_nest *nest, int var)
{
    const int id = kas_nest_id_of(nest, var);
    return id >= 0 && nest->state[id] == KAS_LOOP_AROUND;
}

static kas_status split(kas_ir *ir, kas_nest *nest, kas_step step)
{
    const int var = var_of(nest, step.loop);
    const int64_t size = ir->var_size[var];
    kas_nest cut;
    reduction r;
    if (step.n < 2 || step.n >= size || size % step.n)
        return kas_nest_refuse(ir, nest, step,
                               "the number must divide the loop's turns, with turns left");
    if (nest->row && var == nest->lane)
        return refuse_carried(ir, nest, step, KAS_DEPENDENCE_ROW);
    if (var == nest->column)
        return refuse_carried(ir, nest, step, KAS_DEPENDENCE_WALK);
    if (kas_nest_is_placed(nest, var) || is_around(nest, var))
        return kas_nest_refuse(ir, nest, step, "the loop has its place already");
    if (kas_nest_place_in(nest, var) < 0) {
        KAS_TRY(find_reduction(ir, nest, var, -1, &r));
        if (r.fn == KAS_FN_REDUCE_ARGMAX)
            return kas_nest_refuse(
                ir, nest, step, "the result of an argument of a maximum is the number of its turn");
    }
    if (!kas_nest_split_loop(ir, nest, var, step.n, &cut))
        return kas_nest_refuse(ir, nest, step, "there are too many loops");
    *nest = cut;
    return KAS_OK;
}

static kas_status fuse(kas_ir *ir, kas_nest *nest, kas_step step)
{
    const int a = var_of(nest, step.loop), b = var_of(nest, step.other);
    const int at = kas_nest_place_in(nest, a);
    kas_nest merged;
    if (at < 0 || at + 1 == nest->loops || nest->loop[at + 1] != b)
        return kas_nest_refuse(ir, nest, step, "the second loop must stand right inside the first");
    if (kas_nest_is_placed(nest, a) || kas_nest_is_placed(nest, b))
        return kas_nest_refuse(ir, nest, step, "a loop has its place already");
    if (!kas_nest_merge_pair(ir, nest, at, &merged))
        return kas_nest_refuse(ir, nest, step, "the loop would be too long");
    *nest = merged;
    return KAS_OK;
}

static kas_status interchange_reductions(kas_ir *ir, kas_nest *nest, kas_step step)
{
    const int a = var_of(nest, step.loop), b = var_of(nest, step.other);
    kas_dependence list[MOST_DEPENDENCES];
    kas_buf text = {0};
    reduction r;
    int count;
    KAS_TRY(find_reduction(ir, nest, a, b, &r));
    if (!r.chained)
        return kas_nest_refuse(
            ir, nest, step,
            "the second reduction must stand right inside the first and be of its kind");
    if (is_around(nest, a) || is_around(nest, b))
        return kas_nest_refuse(ir, nest, step, "a reduction runs around the lanes already");
    KAS_TRY(kas_nest_dependences(ir, nest, list, MOST_DEPENDENCES, &count));
    const int reversed = kas_dependence_reversed(list, count, a, b);
    if (reversed >= 0) {
        kas_buf_puts(&text, "it reverses the dependence ");
        kas_dependence_print(&list[reversed], &text);
        const kas_status status = kas_nest_refuse(ir, nest, step, kas_buf_text(&text));
        kas_buf_free(&text);
        return status;
    }
    nest->value = kas_ex_interchange(ir, nest->value, a, b);
    for (int i = 0; i < nest->outputs; i++)
        nest->output_value[i] = kas_ex_interchange(ir, nest->output_value[i], a, b);
    return kas_nest_record(nest, step) ? ir->status
                                       : kas_nest_refuse(ir, nest, step, "too many steps");
}

static kas_status interchange(kas_ir *ir, kas_nest *nest, kas_step step)
{
    const int a = kas_nest_place_in(nest, var_of(nest, step.loop)),
              b = kas_nest_place_in(nest, var_of(nest, step.other));
    if (a < 0 && b < 0)
        return interchange_reductions(ir, nest, step);
    if (a < 0 || b < 0)
        return kas_nest_refuse(
            ir, nest, step,
            "dependence S1 -> S2: a sum begins in front of its turns; `around` moves a "
            "reduction around the lanes");
    if (kas_nest_is_placed(nest, nest->loop[a]) || kas_nest_is_placed(nest, nest->loop[b]))
        return kas_nest_refuse(ir, nest, step, "a loop has its place already");
    for (int i = 0; i < 2; i++) {
        const int var = nest->loop[i ? b : a];
        const kas_dependence_kind kind = kas_nest_carries(ir, nest, var);
        if (kind != KAS_DEPENDENCE_NONE)
            return refuse_carried(ir, nest, step, kind);
    }
    const int var = nest->loop[a];
    nest->loop[a] = nest->loop[b];
    nest->loop[b] = var;
    return kas_nest_record(nest, step) ? KAS_OK : kas_nest_refuse(ir, nest, step, "too many steps");
}

/* ---- places ---------------------------------------------------------------------------------- */

static int64_t extent_of(const kas_ir *ir, const kas_nest *nest)
{
    return nest->lane < 0 ? 1 : ir->var_size[nest->lane];
}

/* Computes the threads of a block from its lanes and rows. Short rows of lanes share a warp, whose
 * threads lie along x, then along y; the threads of a row (rows.h) are a power of two. */
void kas_nest_set_threads(kas_nest *nest)
{
    const int64_t threads = nest->lanes / nest->width;
    const int64_t warps = (threads + KAS_WARP - 1) / KAS_WARP * KAS_WARP;
    const int64_t rows = nest->rows >= 0 ? nest->block_rows : nest->parts;
    const bool short_rows = threads < KAS_WARP && (nest->width > 1 || rows > 0);
    nest->block[0] = (unsigned)(short_rows              ? threads
                                : warps < KAS_MAX_BLOCK ? warps
                                                        : KAS_MAX_BLOCK);
    if (nest->row) {
        nest->block[0] = 1;
        while (nest->block[0] < KAS_WARP && nest->block[0] * nest->width < nest->lanes)
            nest->block[0] *= 2;
    }
    const int64_t room = KAS_MAX_BLOCK / nest->block[0];
    nest->block[1] = (unsigned)(rows < 1 ? 1 : rows < room ? rows : room);
    nest->block[2] = 1;
}

static kas_status place_inside(const kas_ir *ir, kas_nest *nest, kas_step step)
{
    const int var = var_of(nest, step.loop);
    bool around = nest->inner >= 0;
    for (int i = 0; i < nest->ids && step.kind != KAS_STEP_VTHREAD; i++)
        around |= nest->state[i] == KAS_LOOP_AROUND;
    if (around)
        return kas_nest_refuse(
            ir, nest, step,
            "one loop runs inside the lanes, and an unrolled one beside no reduction around them");
    if (nest->row || nest->column >= 0 || nest->lane < 0)
        return kas_nest_refuse(ir, nest, step,
                               "only lanes that are no row and no column hold a loop");
    if (ir->var_size[var] > KAS_MOST_INNER)
        return kas_nest_refuse(ir, nest, step,
                               "at most 16 turns run inside the lanes; split it first");
    nest->inner = var;
    nest->slides = step.kind == KAS_STEP_VTHREAD;
    return KAS_OK;
}

static kas_status place_rows(const kas_ir *ir, kas_nest *nest, kas_step step)
{
    const int var = var_of(nest, step.loop);
    if (nest->rows >= 0 || nest->factored >= 0)
        return kas_nest_refuse(ir, nest, step, "the rows of a block are a loop already");
    if (step.n < 2 || step.n > ir->var_size[var])
        return kas_nest_refuse(ir, nest, step,
                               "a block has 2 rows or more, and at most the loop's turns");
    nest->rows = var;
    nest->block_rows = step.n;
    return KAS_OK;
}

static kas_status place_axis(const kas_ir *ir, kas_nest *nest, kas_step step)
{
    int var = var_of(nest, step.loop);
    int64_t size = 0;
    if (step.loop == KAS_LOOP_LANES) {
        var = KAS_AXIS_LANES;
        size = (extent_of(ir, nest) + nest->lanes - 1) / nest->lanes;
    } else if (step.loop == KAS_LOOP_ROWS && nest->rows >= 0) {
        var = KAS_AXIS_ROWS;
        size = (ir->var_size[nest->rows] + nest->block_rows - 1) / nest->block_rows;
    } else if (step.loop != KAS_LOOP_ROWS) {
        size = ir->var_size[var];
    }
    if (size < (step.loop >= KAS_LOOP_ROWS ? 2 : 1))
        return kas_nest_refuse(ir, nest, step, "there is one chunk only");
    if (kas_nest_is_placed(nest, var))
        return kas_nest_refuse(ir, nest, step, "the loop has its place already");
    if (nest->axis_var[step.other] != KAS_AXIS_NONE)
        return kas_nest_refuse(ir, nest, step, "this coordinate of the block is another loop");
    if (size > (step.other ? KAS_MOST_GRID_YZ : INT32_MAX))
        return kas_nest_refuse(ir, nest, step, "a block's coordinates y and z are below 65536");
    nest->axis_var[step.other] = var;
    nest->grid[step.other] = (unsigned)size;
    return KAS_OK;
}

static kas_status place_lanes(const kas_ir *ir, kas_nest *nest, kas_step step)
{
    if (step.n < 1 || step.n > extent_of(ir, nest) || (nest->row && step.n != extent_of(ir, nest)))
        return kas_nest_refuse(ir, nest, step,
                               nest->row ? "a row's lanes share a block"
                                         : "a block has 1 lane to all of them");
    nest->lanes = step.n;
    return KAS_OK;
}

static kas_status widen(const kas_ir *ir, kas_nest *nest, kas_step step)
{
    if (step.n != kas_wide(ir) || nest->tiles > 0 || !kas_nest_can_widen(ir, nest))
        return kas_nest_refuse(
            ir, nest, step,
            "what the lanes write must be aligned runs of 16 bytes, and lanes neither "
            "read tiles nor hold a loop");
    nest->width = step.n;
    return KAS_OK;
}

static kas_status unswitch(kas_ir *ir, kas_nest *nest, kas_step step)
{
    KAS_TRY(kas_nest_find_insides(ir, nest));
    return nest->insides > 0
               ? KAS_OK
               : kas_nest_refuse(
                     ir, nest, step,
                     "the kernel has no windows that lie inside the image often enough");
}

/* ---- one step -------------------------------------------------------------------------------- */

/* Checks what all steps that give a loop its place have in common. */
static kas_status check_place(const kas_ir *ir, const kas_nest *nest, kas_step step)
{
    const int var = var_of(nest, step.loop);
    if (kas_nest_place_in(nest, var) < 0)
        return refuse_carried(ir, nest, step, KAS_DEPENDENCE_SUM);
    const kas_dependence_kind kind = kas_nest_carries(ir, nest, var);
    if (kind != KAS_DEPENDENCE_NONE && step.kind != KAS_STEP_SERIAL)
        return refuse_carried(ir, nest, step, kind);
    const bool tiles = step.kind == KAS_STEP_ROWS && var == nest->turned && step.n == nest->turns;
    return kas_nest_is_placed(nest, var) && !tiles
               ? kas_nest_refuse(ir, nest, step, "the loop has its place already")
               : KAS_OK;
}

static bool places_a_loop(const kas_nest *nest, kas_step step)
{
    return step.kind == KAS_STEP_LANE || step.kind == KAS_STEP_VTHREAD ||
           step.kind == KAS_STEP_ROWS || step.kind == KAS_STEP_SERIAL ||
           (step.kind == KAS_STEP_BLOCK && step.loop < KAS_LOOP_ROWS) ||
           (step.kind == KAS_STEP_UNROLL && kas_nest_place_in(nest, var_of(nest, step.loop)) >= 0);
}

static kas_status place(kas_ir *ir, kas_nest *nest, kas_step step)
{
    if (places_a_loop(nest, step))
        KAS_TRY(check_place(ir, nest, step));
    switch ((kas_step_kind)step.kind) {
    case KAS_STEP_UNROLL:
    case KAS_STEP_AROUND:
    case KAS_STEP_VTHREAD:
        if (kas_nest_place_in(nest, var_of(nest, step.loop)) < 0)
            return place_reduction(ir, nest, step);
        return step.kind == KAS_STEP_AROUND
                   ? kas_nest_refuse(ir, nest, step, "only a reduction runs around the lanes")
                   : place_inside(ir, nest, step);
    case KAS_STEP_LANE:
        if (nest->lane >= 0)
            return kas_nest_refuse(ir, nest, step, "the lanes are another loop");
        nest->lane = var_of(nest, step.loop);
        nest->lanes = ir->var_size[nest->lane];
        return KAS_OK;
    case KAS_STEP_STAGE:
        return kas_nest_stage(ir, nest, step);
    case KAS_STEP_PREFETCH:
        return kas_nest_prefetch(ir, nest, step);
    case KAS_STEP_LANES:
        return place_lanes(ir, nest, step);
    case KAS_STEP_VECTORISE:
        return widen(ir, nest, step);
    case KAS_STEP_ROWS:
        return place_rows(ir, nest, step);
    case KAS_STEP_RFACTOR:
        return kas_nest_rfactor(ir, nest, step);
    case KAS_STEP_SERIAL:
        nest->serial[nest->serials++] = var_of(nest, step.loop);
        return KAS_OK;
    case KAS_STEP_BLOCK:
        return place_axis(ir, nest, step);
    default:
        return unswitch(ir, nest, step);
    }
}

/* Returns the step beside which this one stands in the order of sequence.h. */
static kas_step_kind rank_of(const kas_ir *ir, const kas_nest *nest, kas_step step)
{
    const bool reduction = step.kind == KAS_STEP_AROUND ||
                           (step.kind == KAS_STEP_UNROLL && !places_a_loop(nest, step));
    return reduction                                 ? nest->last
           : step.kind == KAS_STEP_UNROLL            ? KAS_STEP_VTHREAD
           : step.kind == KAS_STEP_BLOCK             ? KAS_STEP_SERIAL
           : step.kind == KAS_STEP_RFACTOR           ? KAS_STEP_ROWS
           : step.kind == KAS_STEP_STAGE && !ir->cpu ? KAS_STEP_UNSWITCH /* comes last, too */
                                                     : (kas_step_kind)step.kind;
}

kas_status kas_nest_step(kas_ir *ir, kas_nest *nest, kas_step step)
{
    /* Only a block's axis may be the loops over chunks of lanes or of rows, which have no variable. */
    const bool of_chunks = step.kind == KAS_STEP_BLOCK && step.loop >= KAS_LOOP_ROWS;
    const bool has_loop = step.kind != KAS_STEP_LANES && step.kind != KAS_STEP_VECTORISE &&
                          step.kind != KAS_STEP_UNSWITCH && !of_chunks;
    if (has_loop && var_of(nest, step.loop) < 0)
        return kas_nest_refuse(ir, nest, step, "there is no such loop any more");
    if (step.kind < KAS_STEP_UNROLL && nest->last >= KAS_STEP_STAGE)
        return kas_nest_refuse(ir, nest, step,
                               "loops change before tiles and blocks are made of them");
    switch ((kas_step_kind)step.kind) {
    case KAS_STEP_SPLIT:
        return split(ir, nest, step);
    case KAS_STEP_FUSE:
        return fuse(ir, nest, step);
    case KAS_STEP_INTERCHANGE:
        return interchange(ir, nest, step);
    default:
        break;
    }
    const kas_step_kind rank = rank_of(ir, nest, step);
    if (rank < nest->last)
        return kas_nest_refuse(
            ir, nest, step,
            "the order is lane, unroll or vthread of a loop, stage (on a GPU last), "
            "lanes, vectorise, "
            "rows or rfactor, serial and block, unswitch, prefetch");
    if (rank == nest->last && !has_loop && !of_chunks)
        return kas_nest_refuse(ir, nest, step, "it was taken already");
    KAS_TRY(place(ir, nest, step));
    nest->last = rank > nest->last ? rank : nest->last;
    kas_nest_set_threads(nest);
    return kas_nest_record(nest, step)
               ? ir->status
               : kas_nest_refuse(ir, nest, step, "the schedule has too many steps");
}

kas_status kas_nest_step_on(kas_ir *ir, kas_nest *nest, kas_step_kind kind, int var, int64_t n)
{
    const int id = kas_nest_id_of(nest, var);
    return kas_nest_step(ir, nest,
                         (kas_step){.kind = (uint8_t)kind, .loop = (uint8_t)id, .n = (int32_t)n});
}

/* ---- all steps ------------------------------------------------------------------------------- */

static kas_status unplaced(const kas_ir *ir, const kas_nest *nest, const char *what, int id)
{
    kas_buf name = {0};
    if (id >= 0)
        kas_loop_print(ir, nest, id, &name);
    const kas_status status =
        kas_fail(KAS_ILLEGAL,
                 "%s%s has no place: a step must make it a lane, rows, serial, a "
                 "coordinate of the block, or run it inside the lanes",
                 what, kas_buf_text(&name));
    kas_buf_free(&name);
    return status;
}

/* Checks that each loop has a place. */
static kas_status check_complete(const kas_ir *ir, const kas_nest *nest)
{
    bool lanes = nest->lanes < extent_of(ir, nest),
         rows = nest->rows >= 0 && nest->block_rows < ir->var_size[nest->rows];
    for (int i = 0; i < nest->loops; i++)
        if (!kas_nest_is_placed(nest, nest->loop[i]))
            return unplaced(ir, nest, "loop ", kas_nest_id_of(nest, nest->loop[i]));
    for (int i = 0; i < 3; i++) {
        lanes &= nest->axis_var[i] != KAS_AXIS_LANES;
        rows &= nest->axis_var[i] != KAS_AXIS_ROWS;
    }
    if (lanes || rows)
        return unplaced(
            ir, nest, lanes ? "the loop over chunks of `lanes`" : "the loop over chunks of `rows`",
            -1);
    if (kas_nest_place_in(nest, nest->turned) >= 0 && nest->rows != nest->turned)
        return unplaced(ir, nest, "the loop along which tiles are read must be rows; loop ",
                        kas_nest_id_of(nest, nest->turned));
    int64_t tile_bytes = 4 * nest->lanes * nest->spill.turns;
    for (int i = 0; i < nest->tiles; i++)
        tile_bytes += 4 * nest->lanes * nest->tile[i].turns * nest->tile[i].copies;
    if (nest->lanes > KAS_MOST_LANES || tile_bytes > TILE_BYTES)
        return kas_fail(KAS_ILLEGAL,
                        "lanes %lld: illegal: a block has at most %d lanes, and tiles of %d bytes",
                        (long long)nest->lanes, KAS_MOST_LANES, TILE_BYTES);
    bool kept = nest->column >= 0;
    for (int i = 0; i < nest->ids; i++)
        kept |= nest->state[i] == KAS_LOOP_AROUND;
    if (kept && nest->lanes > (int64_t)KAS_MAX_BLOCK * nest->width)
        return kas_fail(
            KAS_ILLEGAL,
            "lanes %lld: illegal: lanes that keep a sum from turn to turn have a thread "
            "each, and a block has at most %d",
            (long long)nest->lanes, KAS_MAX_BLOCK);
    return KAS_OK;
}

static void see_width(void *context, const kas_ex_node *node, kas_ix ix)
{
    kas_nest *nest = ((void **)context)[0];
    const kas_range r = kas_ix_range(((void **)context)[1], ix);
    (void)node;
    nest->wide |= r.low < -INT32_MAX / 2 || r.high > INT32_MAX - 1;
}

kas_status kas_schedule_apply(kas_ir *ir, const kas_schedule *schedule, kas_nest *nest)
{
    for (int i = 0; i < schedule->steps; i++)
        KAS_TRY(kas_nest_step(ir, nest, schedule->step[i]));
    kas_nest_find_spill(ir, nest);
    KAS_TRY(check_complete(ir, nest));
    for (int i = 0; i < nest->outputs; i++)
        nest->wide |= kas_ix_range(ir, nest->output_store[i]).high > INT32_MAX - 1;
    void *context[2] = {nest, ir};
    return kas_nest_visit(ir, nest, see_width, context);
}

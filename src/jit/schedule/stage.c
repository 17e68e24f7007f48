/* Takes the steps `stage` and `prefetch` (sequence.h): tiles on a CPU (tiles.c), boxes in shared
 * memory on a GPU (boxes.c). */
#include "jit/schedule/nest.h"

enum { TILE_LANES = 8 /* fewest; kas_tile_fill transposes as many */ };

/* Returns why the loop of a step cannot be that of boxes in shared memory, or NULL. */
static const char *why_not_shared(const kas_ir *ir, const kas_nest *nest, kas_step step)
{
    const int var = nest->var_of[step.loop];
    const bool reduction = kas_nest_place_in(nest, var) < 0;
    if (nest->lane < 0 || nest->column >= 0)
        return "there are no lanes, or they walk a column";
    for (int i = 0; i < nest->loops; i++)
        if (!kas_nest_is_placed(nest, nest->loop[i]))
            return "on a GPU all loops of the nest have their place before";
    if (!reduction && (nest->rows >= 0 ? var != nest->rows || step.n != nest->block_rows
                                       : var != nest->lane || step.n != nest->lanes))
        return "a box holds what a block reads: all turns of its rows or, where it has none, of "
               "its lanes";
    if (nest->factored >= 0)
        return "the rows of the block are parts of a sum";
    if (reduction && nest->row)
        return "the reductions of a row run inside its lanes";
    if (reduction && step.n != ir->var_size[var])
        return "a box holds all turns of a reduction; split it first";
    if (reduction && nest->rows >= 0 &&
        (nest->block_rows % nest->block[1] || ir->var_size[nest->rows] % nest->block_rows))
        return "its threads meet in each turn, so all must have the same number of rows";
    return NULL;
}

/* Stages what the lanes of a GPU's block read in its shared memory. */
static kas_status stage_shared(kas_ir *ir, kas_nest *nest, kas_step step)
{
    const kas_nest open = *nest;
    const int var = nest->var_of[step.loop];
    const char *why =
        nest->boxes ? "a block's boxes are filled at one place" : why_not_shared(ir, nest, step);
    if (why)
        return kas_nest_refuse(ir, nest, step, why);
    const kas_status status =
        kas_nest_list_boxes(ir, nest, kas_nest_place_in(nest, var) < 0 ? var : -1);
    if (status == KAS_OK && nest->boxes > 0)
        return KAS_OK;
    *nest = open;
    return status != KAS_OK
               ? status
               : kas_nest_refuse(
                     ir, nest, step,
                     "no load there lies apart from lane to lane, within 48 KB of shared memory, "
                     "or the reduction does not run around the lanes");
}

kas_status kas_nest_stage(kas_ir *ir, kas_nest *nest, kas_step step)
{
    if (!ir->cpu)
        return stage_shared(ir, nest, step);
    if (nest->lane < 0 || nest->column >= 0 || nest->row || nest->lanes < TILE_LANES)
        return kas_nest_refuse(ir, nest, step,
                               "there are fewer than 8 lanes, or they are a row or a column");
    const kas_nest open = *nest;
    nest->turned = nest->var_of[step.loop];
    nest->turns = step.n;
    const int64_t size = ir->var_size[nest->turned];
    if (size % step.n || (kas_nest_place_in(nest, nest->turned) < 0 && size != step.n) ||
        step.n > KAS_MOST_TILE_TURNS)
        return kas_nest_refuse(
            ir, nest, step,
            "a tile has at most 64 turns, which divide the loop's; of a reduction it has "
            "all");
    const kas_status status = kas_nest_list_tiles(ir, nest);
    kas_nest_find_spill(ir, nest);
    const bool spills = nest->spill.turns > 0 && nest->spill.var != nest->inner;
    if (status == KAS_OK && (nest->tiles > 0 || spills))
        return KAS_OK;
    *nest = open;
    return status != KAS_OK
               ? status
               : kas_nest_refuse(ir, nest, step,
                                 "no load lies apart from lane to lane and side by side along "
                                 "this loop, and no result does");
}

/* ---- prefetch -------------------------------------------------------------------------------- */

typedef struct around {
    const kas_ir *ir;
    const kas_nest *nest;
    int found, var; /* var: the reduction right around the boxed one, the last that was found */
} around;

static void see_around(void *context, kas_ex e, const kas_ex_node *node)
{
    around *a = context;
    (void)e;
    if (node->kind != KAS_EX_REDUCE || kas_nest_state_of(a->nest, node) == KAS_LOOP_UNROLLED)
        return;
    const kas_ex_node *body = kas_ex_get(a->ir, node->a[0]);
    if (body->kind != KAS_EX_REDUCE || body->fn != node->fn || body->var != a->nest->boxed ||
        kas_nest_state_of(a->nest, body) == KAS_LOOP_AROUND) /* it runs by itself, in front */
        return;
    a->found += a->found == 0 || a->var != node->var;
    a->var = node->var;
}

/* Returns why the next boxes cannot be filled while lanes read these, or NULL. */
static const char *why_not_ahead(const kas_ir *ir, const kas_nest *nest, int var, const around *a)
{
    int64_t bytes = 0;
    if (ir->cpu)
        return "dependence C -> S2: on a CPU the thread that reads a tile fills it, and does "
               "nothing else meanwhile";
    if (nest->boxes == 0 || nest->boxed != var)
        return "this reduction's turns are not staged";
    if (nest->ahead >= 0)
        return "the next turn's are under way already";
    if (a->found != 1)
        return "dependence C -> S2: no reduction stands right around it, so there is no next turn; "
               "split it first";
    for (int i = 0; i < nest->boxes; i++) {
        const kas_ex_node *load = kas_ex_get(ir, nest->box[i].load);
        bytes += kas_block_array_bytes(2 * nest->box[i].elements);
        if (ir->tensor[load->tensor].dtype != KAS_F32)
            return "dependence C -> S2: 16-bit elements are converted while they are copied, so "
                   "the threads wait for them";
    }
    return bytes > KAS_BLOCK_BYTES ? "two arrays do not fit into 48 KB of shared memory" : NULL;
}

kas_status kas_nest_prefetch(kas_ir *ir, kas_nest *nest, kas_step step)
{
    around a = {.ir = ir, .nest = nest};
    KAS_TRY(kas_ex_visit(ir, nest->value, see_around, &a));
    const char *why = why_not_ahead(ir, nest, nest->var_of[step.loop], &a);
    if (why)
        return kas_nest_refuse(ir, nest, step, why);
    nest->ahead = a.var;
    return KAS_OK;
}

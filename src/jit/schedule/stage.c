/* Takes the step `stage` (sequence.h): tiles on a CPU (tiles.c), boxes in shared memory on a GPU
 * (boxes.c). */
#include "jit/schedule/nest.h"

enum {
    TILE_LANES = 8, /* fewest; kas_tile_fill transposes as many */
    TILE_TURNS = 64 /* KAS_TILE_TURNS of tile.h */
};

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
        step.n > TILE_TURNS)
        return kas_nest_refuse(
            ir, nest, step,
            "a tile has at most 64 turns, which divide the loop's; of a reduction it has "
            "all");
    const kas_status status = kas_nest_list_tiles(ir, nest);
    if (status == KAS_OK && nest->tiles > 0)
        return KAS_OK;
    *nest = open;
    return status != KAS_OK
               ? status
               : kas_nest_refuse(ir, nest, step,
                                 "no load lies apart from lane to lane and side by side along "
                                 "this loop");
}

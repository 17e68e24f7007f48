/* Proves every kernel's accesses before its text is used. */
#include "jit/schedule/nest.h"

typedef struct bounds {
    const kas_ir *ir;
    const kas_nest *nest;
    kas_status status;
} bounds;

static void see_bounds(void *context, const kas_ex_node *node, kas_ix ix)
{
    bounds *b = context;
    if (b->status != KAS_OK || (node && node->kind != KAS_EX_LOAD))
        return;
    const int tensor = node ? node->tensor : b->nest->tensor;
    const kas_range r = kas_ix_range(b->ir, ix);
    const int64_t floats = b->ir->tensor[tensor].floats;
    if (r.low < 0 || r.high >= floats)
        b->status = kas_fail(KAS_FAILURE,
                             "generated kernel of tensor %d %s tensor %d at %lld..%lld; it has "
                             "%lld elements: this is a fault of the lowering, please report it",
                             b->nest->tensor, node ? "reads" : "writes", tensor, (long long)r.low,
                             (long long)r.high, (long long)floats);
}

kas_status kas_nest_prove_bounds(const kas_ir *ir, const kas_nest *nest)
{
    bounds b = {ir, nest, KAS_OK};
    KAS_TRY(kas_nest_visit(ir, nest, see_bounds, &b));
    KAS_TRY(b.status);
    for (int i = 0; i < nest->outputs; i++) {
        const kas_nest output = {.tensor = nest->output[i]};
        b.nest = &output;
        see_bounds(&b, NULL, nest->output_store[i]);
        KAS_TRY(b.status);
    }
    const int64_t extent = nest->lane < 0 ? 1 : ir->var_size[nest->lane];
    if (extent % nest->width || nest->lanes % nest->width)
        return kas_fail(KAS_FAILURE,
                        "generated kernel of tensor %d: %d lanes a thread do not divide %lld lanes "
                        "in blocks of %lld: this is a fault of the lowering, please report it",
                        nest->tensor, nest->width, (long long)extent, (long long)nest->lanes);
    if (!kas_launch_is_legal(nest->grid, nest->block))
        return kas_fail(KAS_FAILURE,
                        "generated kernel of tensor %d: grid %u x %u x %u, block %u x %u x %u is "
                        "not a legal launch: this is a fault of the lowering, please report it",
                        nest->tensor, nest->grid[0], nest->grid[1], nest->grid[2], nest->block[0],
                        nest->block[1], nest->block[2]);
    return KAS_OK;
}

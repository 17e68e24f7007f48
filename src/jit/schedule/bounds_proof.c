/* Proves every kernel's accesses before its text is used, and computes its least cost. */
#include <stdlib.h>

#include "jit/schedule/schedule.h"

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
    const double threads = (double)nest->block[0] * nest->block[1] * nest->block[2];
    if (threads > KAS_MAX_BLOCK || nest->grid[0] > INT32_MAX || nest->grid[1] > 65535 ||
        nest->grid[2] > 65535)
        return kas_fail(KAS_FAILURE,
                        "generated kernel of tensor %d: grid %u x %u x %u, block %u x %u x %u is "
                        "not a legal launch: this is a fault of the lowering, please report it",
                        nest->tensor, nest->grid[0], nest->grid[1], nest->grid[2], nest->block[0],
                        nest->block[1], nest->block[2]);
    return KAS_OK;
}

typedef struct floors {
    const kas_ir *ir;
    kas_masks masks;
    char *read; /* by tensor */
    double flops, bytes;
} floors;

static double times(const floors *f, uint64_t mask)
{
    double n = 1;
    for (int i = 0; i < f->masks.vars; i++)
        if (mask >> i & 1)
            n *= (double)f->ir->var_size[f->masks.var[i]];
    return n;
}

static double size_of(const kas_ir *ir, int tensor)
{
    return (double)kas_dtype_size(ir->tensor[tensor].dtype);
}

static double bytes_of(const kas_ir *ir, int tensor)
{
    return size_of(ir, tensor) * (double)ir->tensor[tensor].elements;
}

static void see_cost(void *context, kas_ex e, const kas_ex_node *node)
{
    floors *f = context;
    const double n = times(f, kas_masks_ex(&f->masks, e));
    if (node->kind == KAS_EX_LOAD && !f->read[node->tensor] &&
        f->ir->tensor[node->tensor].role != KAS_ROLE_GAIN) {
        f->read[node->tensor] = 1;
        const double there = (double)f->ir->tensor[node->tensor].elements;
        f->bytes += size_of(f->ir, node->tensor) * (n < there ? n : there);
    }
    if (node->kind == KAS_EX_UNARY || node->kind == KAS_EX_BINARY || node->kind == KAS_EX_SELECT)
        f->flops += n;
    if (node->kind == KAS_EX_REDUCE || node->kind == KAS_EX_ROW) {
        const kas_ex_node *body = kas_ex_get(f->ir, node->a[0]);
        while (body->kind == KAS_EX_GUARD)
            body = kas_ex_get(f->ir, body->a[0]);
        const bool fused = body->kind == KAS_EX_BINARY && body->fn == KAS_FN_MUL;
        if (!fused) /* a multiply-add is one */
            f->flops += n * (double)f->ir->var_size[node->var];
    }
}

kas_status kas_nest_floors(const kas_ir *ir, const kas_nest *nest, double *flops, double *bytes)
{
    floors f = {.ir = ir};
    kas_status status = kas_masks_init(&f.masks, ir, nest->value, nest->loops, nest->loop);
    if (status != KAS_OK)
        return status;
    f.read = calloc((size_t)ir->tensors, 1);
    if (!f.read)
        status = kas_fail(KAS_NO_MEMORY, "out of memory while a kernel was lowered");
    else
        status = kas_ex_visit(ir, nest->value, see_cost, &f);
    *flops = f.flops;
    *bytes = f.bytes + bytes_of(ir, nest->tensor);
    for (int i = 0; i < nest->outputs; i++)
        *bytes += bytes_of(ir, nest->output[i]);
    free(f.read);
    kas_masks_free(&f.masks);
    return status;
}

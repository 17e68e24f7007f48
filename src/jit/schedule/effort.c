/* Counts what a launch does, from its expressions alone: the least FLOPs and bytes, and what its
 * instructions are.
 *
 * How often an expression is computed follows from the variables on which it depends. The lanes are
 * the innermost loop, so what depends on them is computed for each lane in each turn of every loop
 * around them. What does not depend on them stands in front of them: in the outermost loop that has
 * its variables, or, inside a reduction, in each turn of it. */
#include <stdlib.h>

#include "jit/schedule/nest.h"

enum { SECTOR_BYTES = 32, IN_FLIGHT = 8 };

typedef struct counter {
    const kas_ir *ir;
    const kas_nest *nest;
    kas_masks masks;
    uint64_t all, lane; /* bits of the kernel's loops; of the lanes */
    char *read;         /* by tensor */
    double rows;        /* of lanes */
    double longest;     /* turns of a reduction */
    double flops, bytes;
    kas_effort *effort;
} counter;

/* ---- how often ------------------------------------------------------------------------------- */

static double turns_of(const counter *c, uint64_t mask)
{
    double n = 1;
    for (int i = 0; i < c->masks.vars; i++)
        if (mask >> i & 1)
            n *= (double)c->ir->var_size[c->masks.var[i]];
    return n;
}

/* Returns how often a value that depends on these variables is computed. */
static double computed(const counter *c, uint64_t mask)
{
    const int inner =
        c->nest->inner >= 0 ? kas_masks_index(&c->masks, c->nest->inner) : c->masks.vars;
    uint64_t around = 0;
    if (mask & c->lane)
        around = inner < c->masks.vars ? c->all & ~(UINT64_C(1) << inner) : c->all;
    else if (mask >> c->nest->loops)
        around = c->all & ~c->lane;
    return turns_of(c, mask | around);
}

/* Adds operations on a value. */
static void operate(counter *c, uint64_t mask, double cost)
{
    const double n = computed(c, mask) * cost;
    if (!(mask & c->lane))
        c->effort->shared += n;
    else if (cost > 1)
        c->effort->functions += n;
    else
        c->effort->arithmetic += n;
}

/* ---- accesses -------------------------------------------------------------------------------- */

static void divide(counter *c, uint64_t mask, kas_ix ix)
{
    if (mask & c->lane)
        c->effort->divisions += computed(c, mask) * kas_ix_lane_divisions(c->ir, ix, c->nest->lane);
}

static void access(counter *c, uint64_t mask, kas_ix ix)
{
    const double n = computed(c, mask);
    if (!(mask & c->lane)) {
        c->effort->shared += n;
        c->effort->sectors += n * SECTOR_BYTES;
        return;
    }
    const kas_lane_pattern p = kas_ix_lane_pattern(c->ir, ix, c->nest->lane);
    if (p.contiguous || p.fixed)
        c->effort->loads += n;
    else
        c->effort->gathers += n;
    c->effort->sectors += n * SECTOR_BYTES * p.sectors / p.lanes;
    divide(c, mask, ix);
}

static double size_of(const kas_ir *ir, int tensor)
{
    return (double)kas_dtype_size(ir->tensor[tensor].dtype);
}

static double bytes_of(const kas_ir *ir, int tensor)
{
    return size_of(ir, tensor) * (double)ir->tensor[tensor].elements;
}

/* ---- expressions ----------------------------------------------------------------------------- */

/* A sum of products: a multiply-add is one operation. */
static bool is_fused(const counter *c, const kas_ex_node *reduce)
{
    const kas_ex_node *body = kas_ex_get(c->ir, reduce->a[0]);
    while (body->kind == KAS_EX_GUARD)
        body = kas_ex_get(c->ir, body->a[0]);
    return body->kind == KAS_EX_BINARY && body->fn == KAS_FN_MUL;
}

static void see_reduction(counter *c, kas_ex e, const kas_ex_node *node, uint64_t mask)
{
    const uint64_t body = kas_masks_ex(&c->masks, node->a[0]);
    if (!is_fused(c, node)) {
        c->flops += turns_of(c, mask) * (double)c->ir->var_size[node->var];
        operate(c, body, 1);
    }
    if (node->kind == KAS_EX_ROW)
        return;
    const double length = kas_reduce_length(c->ir, e);
    c->longest = length > c->longest ? length : c->longest;
    if (body & c->lane && kas_reduce_is_long(c->ir, e))
        c->effort->turns += c->rows * length;
}

static void see(void *context, kas_ex e, const kas_ex_node *node)
{
    counter *c = context;
    const uint64_t mask = kas_masks_ex(&c->masks, e);
    const double n = turns_of(c, mask);
    switch ((kas_ex_kind)node->kind) {
    case KAS_EX_LOAD:
        if (!c->read[node->tensor]) {
            const double there = (double)c->ir->tensor[node->tensor].elements;
            c->read[node->tensor] = 1;
            c->bytes += size_of(c->ir, node->tensor) * (n < there ? n : there);
        }
        access(c, mask, node->ix);
        break;
    case KAS_EX_UNARY:
    case KAS_EX_BINARY:
    case KAS_EX_SELECT:
        c->flops += n;
        operate(c, mask, kas_fn_cost((kas_fn)node->fn));
        break;
    case KAS_EX_GUARD:
    case KAS_EX_INDEX:
        operate(c, mask, 1);
        divide(c, mask, node->ix);
        break;
    case KAS_EX_REDUCE:
    case KAS_EX_ROW:
        see_reduction(c, e, node, mask);
        break;
    default:
        break;
    }
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void begin(counter *c)
{
    const kas_nest *n = c->nest;
    c->all = (UINT64_C(1) << n->loops) - 1;
    double lanes = 1;
    if (n->lane >= 0) {
        const double extent = (double)c->ir->var_size[n->lane];
        c->lane = UINT64_C(1) << kas_masks_index(&c->masks, n->lane);
        lanes = (double)n->lanes < extent ? (double)n->lanes : extent;
    }
    c->rows = turns_of(c, c->all) / lanes;
    c->effort->lanes = lanes;
    c->effort->turns = c->rows;
}

static void end(counter *c)
{
    const kas_nest *n = c->nest;
    double threads = n->width;
    for (int i = 0; i < 3; i++)
        threads *= (double)n->grid[i] * n->block[i];
    access(c, c->all, n->store);
    c->bytes += bytes_of(c->ir, n->tensor);
    for (int i = 0; i < n->outputs; i++)
        c->bytes += bytes_of(c->ir, n->output[i]);
    const double elements = turns_of(c, c->all) / threads;
    c->effort->rounds = (elements > 1 ? elements : 1) * (1 + c->longest / IN_FLIGHT);
}

kas_status kas_nest_count(const kas_ir *ir, const kas_nest *nest, double *flops, double *bytes,
                          kas_effort *effort)
{
    counter c = {.ir = ir, .nest = nest, .effort = effort};
    *effort = (kas_effort){0};
    kas_status status = kas_masks_init(&c.masks, ir, nest->value, nest->loops, nest->loop);
    if (status != KAS_OK)
        return status;
    c.read = calloc((size_t)ir->tensors, 1);
    if (!c.read) {
        status = kas_fail(KAS_NO_MEMORY, "out of memory while a kernel was lowered");
    } else {
        begin(&c);
        status = kas_ex_visit(ir, nest->value, see, &c);
        end(&c);
    }
    *flops = c.flops;
    *bytes = c.bytes;
    free(c.read);
    kas_masks_free(&c.masks);
    return status;
}

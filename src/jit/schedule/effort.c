/* Counts what a launch does, from its expressions alone: the least FLOPs and bytes, and what its
 * instructions are.
 *
 * How often an expression is computed follows from the variables on which it depends. The lanes are
 * the innermost loop, so what depends on them is computed for each lane in each turn of every loop
 * around them. What does not depend on them stands in front of them: in the outermost loop that has
 * its variables, or, inside a reduction, in each turn of it. Indices of a GPU's kernels are taken
 * apart: each division or clamp stands in front of the loops on which it does not depend. */
#include <math.h>
#include <stdlib.h>

#include "host/core/gcd.h"
#include "jit/schedule/nest.h"
#include "jit/schedule/wide.h"

enum {
    SECTOR_BYTES = 32,
    WORD = 4,          /* of a bank of shared memory, which takes as long as an access to L1 */
    LARGEST_PLAIN = 3, /* operations; what costs more is a function */
    CLAMP = 2,         /* operations of an index: a minimum and a maximum */
    DIVIDE = 3         /* by a constant: a product and shifts */
};
/* Found on the CPU: the least that a gather costs beside one from as many sectors as lanes, and its
 * cost where each lane walks side by side. */
static const double least_gather = 0.15, walked_gather = 0.4;
/* What reads and writes apart in memory cost on a CPU, beside a read whose cache line is lost before
 * its next value is wanted: a read in a line that is kept, one in a kept line that a lane's own
 * reduction walks, one of an element of a tile, one that is picked, one of neighbours after all, and a
 * write, which fetches its line first. Picks are not fitted to measurements. */
static const double kept_read = 0.3, walked_read = 0.15, tiled_read = 0.05, picked_read = 0.05,
                    near_access = 0.03, write_apart = 1.5;
/* A row of one or two vectors that reads apart is compiled to scalar code, and so are the functions
 * in it. */
enum { SHORT_ROW = 32 };
static const double alone_operation = 1, alone_function = 1;
/* Lanes for which a CPU's compiler keeps the sums of a loop around them in registers. */
enum { KEPT_LANES = 64 };
/* An innermost cache of a CPU: the bytes between lines that share a place, and how many share it */
enum { LINE_BYTES = 64, WAY_BYTES = 4096, WAYS = 8 };

typedef enum access_kind { READ, PICKED, WRITE } access_kind; /* PICKED: a read, emit_tile.c */

typedef struct counter {
    const kas_ir *ir;
    const kas_nest *nest;
    kas_masks masks;
    uint64_t all, lane; /* bits of the kernel's loops; of the lanes */
    uint64_t around;    /* of the reductions that run around the lanes */
    double *read;       /* by tensor: elements that loads so far read */
    char *indexed;      /* by atom, on a GPU: it is counted */
    float *skipped;     /* by kas_ex: of a load, the share of its turns that a guard leaves out */
    float *slid;        /* by kas_ex, on a CPU: unshared() of the value; 0: it depends on no tap */
    double rows;        /* of lanes */
    double row_lanes;   /* lanes of a row */
    bool reads_apart;
    double flops, bytes;
    kas_effort *effort;
} counter;

/* ---- how often ------------------------------------------------------------------------------- */

static uint64_t bit_of(const counter *c, int var)
{
    return UINT64_C(1) << kas_masks_index(&c->masks, var);
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
    return kas_masks_turns(&c->masks, mask | around);
}

/* Adds operations on a value that is computed in this share of its turns. */
static void operate(counter *c, uint64_t mask, double cost, double share)
{
    const double n = computed(c, mask) * cost * share;
    if (!(mask & c->lane))
        c->effort->shared += n;
    else if (cost > LARGEST_PLAIN)
        c->effort->functions += n;
    else
        c->effort->arithmetic += n;
}

/* ---- accesses -------------------------------------------------------------------------------- */

/* Returns the share of what is done at an index that neighbours do not do already. */
static double unshared(const counter *c, kas_ix ix)
{
    double taps;
    const double loads = kas_nest_slide_loads(&c->masks, c->nest, ix, &taps);
    return c->nest->slides && kas_ix_has_var(c->ir, ix, c->nest->inner)
               ? loads / (taps * (double)c->ir->var_size[c->nest->inner])
               : 1;
}

/* Returns the lanes of a row, with the turns inside them. */
static double lanes_of_row(const counter *c)
{
    return c->row_lanes * (c->nest->inner < 0 ? 1 : (double)c->ir->var_size[c->nest->inner]);
}

/* Finds the share of a value's turns that neighbours in a window do not compute already: a function of
 * one load is computed as often as that. */
static void find_slid(counter *c, kas_ex e, const kas_ex_node *node, uint64_t mask)
{
    if (!c->ir->cpu || !c->nest->slides || mask >> c->nest->loops == 0)
        return;
    float share = node->kind == KAS_EX_LOAD ? (float)unshared(c, node->ix) : 0;
    for (int i = 0; i < kas_ex_children(node); i++) {
        const float of = c->slid[node->a[i]];
        share = of == 0 || of == share ? share : share == 0 ? of : 1;
    }
    c->slid[e] = node->kind == KAS_EX_REDUCE ? 1 : share;
}

/* Returns how often a guard or clamp is computed, beside its turns: not where windows lie
 * inside. */
static double guarded(const counter *c, kas_ix ix)
{
    return kas_nest_covers(c->ir, c->nest, ix) ? 1 - c->nest->inside_share : 1;
}

/* Returns the operations of an index beside sums and products, which are part of an address. */
static double index_cost(const counter *c, kas_ix ix)
{
    const kas_ix_sum *s = kas_ix_get(c->ir, ix);
    double cost = 0;
    for (int i = 0; i < s->terms; i++) {
        const kas_atom *atom = kas_atom_get(c->ir, s->term[i].atom);
        if (atom->kind != KAS_ATOM_VAR)
            cost += index_cost(c, atom->of) +
                    (atom->kind == KAS_ATOM_CLAMP ? CLAMP * guarded(c, atom->of) : DIVIDE);
    }
    return cost;
}

/* Returns for how many of a GPU's lanes an index is computed: once for all lanes of a thread where
 * they lie side by side, or at one place. */
static double of_thread(const counter *c, kas_ix ix)
{
    if (c->nest->width == 1)
        return 1;
    return kas_ix_group(c->ir, ix, c->nest->lane).kind == KAS_GROUP_APART ? 1
                                                                          : 1.0 / c->nest->width;
}

/* Returns how often a GPU computes a part of an index. Compilers move it in front of every loop on
 * which it does not depend. A thread keeps its block and its lanes; its own loops are, from the
 * outermost on, plain loops, rows, a column or the turns inside the lanes, and reductions. */
static double moved(const counter *c, uint64_t mask)
{
    const kas_nest *n = c->nest;
    const int innermost[] = {n->inner, n->column, n->rows};
    uint64_t around = c->all & (mask | ~c->lane);
    double times = 1;
    /* of a reduction: only the turns inside the lanes are known to stand inside it */
    const int movable = mask >> n->loops ? 1 : 3 + n->serials;
    for (int i = 0; i < movable; i++) {
        const int var = i < 3 ? innermost[i] : n->serial[n->serials - 1 - (i - 3)];
        const uint64_t bit = var < 0 ? 0 : bit_of(c, var);
        if (mask & bit)
            break;
        around &= ~bit;
        if (bit && var == n->rows)
            times = n->block[1] * ceil((double)c->ir->var_size[var] / (double)n->block_rows);
    }
    return times * kas_masks_turns(&c->masks, mask | around);
}

/* Adds the parts of an index that are not counted yet; what several indices share is computed
 * once. */
static void compute_parts(counter *c, kas_ix whole, kas_ix ix, double share)
{
    const kas_ix_sum *s = kas_ix_get(c->ir, ix);
    for (int i = 0; i < s->terms; i++) {
        const kas_atom *atom = kas_atom_get(c->ir, s->term[i].atom);
        if (atom->kind == KAS_ATOM_VAR || c->indexed[s->term[i].atom])
            continue;
        c->indexed[s->term[i].atom] = 1;
        compute_parts(c, whole, atom->of, share);
        const uint64_t mask = kas_masks_ix(&c->masks, atom->of);
        if (atom->kind != KAS_ATOM_CLAMP && mask & c->lane)
            c->effort->divisions += share * moved(c, mask) * of_thread(c, whole);
        else
            c->effort->shared += moved(c, mask & ~c->lane) * unshared(c, atom->of) *
                                 (atom->kind == KAS_ATOM_CLAMP ? CLAMP : DIVIDE);
    }
}

/* Adds the computation of an index: divisions of the lanes for each lane, all else for a row. */
static void compute_index(counter *c, kas_ix ix, double share, bool picked)
{
    if (!c->ir->cpu) {
        compute_parts(c, ix, ix, share);
        return;
    }
    const uint64_t mask = kas_masks_ix(&c->masks, ix);
    double cost = index_cost(c, ix);
    if (mask & c->lane) {
        const int divisions = kas_ix_lane_divisions(c->ir, ix, c->nest->lane) * !picked;
        c->effort->divisions += share * computed(c, mask) * divisions;
        cost -= DIVIDE * divisions;
    }
    if (cost > 0)
        c->effort->shared += computed(c, mask & ~c->lane) * cost * unshared(c, ix);
}

/* Returns whether lanes lie side by side. A compiler sees that only where no division stands in
 * between. */
static bool is_side_by_side(const counter *c, kas_ix ix)
{
    int64_t stride;
    return kas_ix_coeff(c->ir, ix, c->nest->lane, &stride) && stride == 1;
}

/* Returns whether the lanes together with the loop inside them lie side by side. */
static bool is_interleaved(const counter *c, kas_ix ix)
{
    const int inner = c->nest->inner;
    int64_t apart, between;
    return inner >= 0 && kas_ix_coeff(c->ir, ix, c->nest->lane, &apart) &&
           kas_ix_coeff(c->ir, ix, inner, &between) && between == 1 &&
           apart == c->ir->var_size[inner];
}

/* Returns whether each lane, in a reduction of its own, walks side by side through what the lanes
 * leave out: then most of it is found in the cache. */
static bool is_walked(const counter *c, kas_ix ix)
{
    int64_t coeff;
    for (int i = c->nest->loops; i < c->masks.vars; i++)
        if (!(c->around >> i & 1) && kas_ix_coeff(c->ir, ix, c->masks.var[i], &coeff) &&
            (coeff == 1 || coeff == -1))
            return true;
    return false;
}

/* Returns whether lanes find their values in a tile, or write to one. */
static bool is_tiled(const counter *c, kas_ix ix)
{
    for (int i = 0; i < c->nest->tiles; i++)
        if (kas_ex_get(c->ir, c->nest->tile[i].load)->ix == ix)
            return true;
    return c->nest->spill.turns > 0 && c->nest->store == ix;
}

/* Returns whether lanes limit an index each for itself: no compiler sees that they lie side by side. */
static bool is_limited(const counter *c, kas_ix ix)
{
    const kas_ix_sum *s = kas_ix_get(c->ir, ix);
    for (int i = 0; i < s->terms; i++) {
        const kas_atom *atom = kas_atom_get(c->ir, s->term[i].atom);
        if (atom->kind == KAS_ATOM_CLAMP && kas_masks_ix(&c->masks, atom->of) & c->lane)
            return true;
    }
    return false;
}

/* Returns what a gather costs beside one of values in as many sectors as there are lanes. */
static double gather_weight(const counter *c, kas_ix ix, double sectors)
{
    if (is_interleaved(c, ix) || sectors < least_gather)
        return least_gather;
    return is_walked(c, ix) ? sectors * walked_gather : sectors;
}

/* Returns whether the innermost cache of a CPU keeps the lines of all lanes of a row, so that a loop
 * finds them again. Lines that are a large power of two apart share few places. */
static bool is_kept(const counter *c, kas_ix ix, double size)
{
    int64_t coeff;
    if (!kas_ix_coeff(c->ir, ix, c->nest->lane, &coeff))
        return true;
    const int64_t apart = llabs(coeff) * (int64_t)size, shared = kas_gcd(apart, WAY_BYTES),
                  places = WAY_BYTES / (shared > LINE_BYTES ? shared : LINE_BYTES);
    const double lines = apart < LINE_BYTES ? (double)apart / LINE_BYTES : 1;
    return c->row_lanes * lines <= (double)(WAYS * places);
}

/* Returns whether lanes pick their values (emit_tile.c). */
static bool is_picked(const counter *c, const kas_ex_node *load)
{
    const kas_nest *n = c->nest;
    return n->lane >= 0 && !n->row && n->column < 0 && n->lanes == c->ir->var_size[n->lane] &&
           !is_tiled(c, load->ix) && kas_nest_picks(c->ir, load, n->lane);
}

/* Adds accesses that are not side by side. They cost less where several lanes find their values in
 * one sector. */
static void access_apart(counter *c, kas_ix ix, double n, size_t size, access_kind kind)
{
    const double sectors = kas_ix_lane_sectors(c->ir, ix, c->nest->lane, size);
    c->effort->gathers += n * gather_weight(c, ix, sectors);
    if (kind == READ && !is_tiled(c, ix) && kas_ix_lane_divisions(c->ir, ix, c->nest->lane) > 0)
        c->reads_apart = true;
    if (kind == PICKED) {
        c->effort->scattered += n * picked_read;
    } else if (is_tiled(c, ix)) {
        c->effort->scattered += n * tiled_read;
    } else if (is_limited(c, ix)) {
        c->effort->scattered += n * kept_read;
    } else if (is_interleaved(c, ix) || sectors < least_gather) {
        c->effort->scattered += n * near_access;
    } else if (kind == WRITE) {
        c->effort->scattered += n * sectors * write_apart;
    } else if (is_walked(c, ix) && is_kept(c, ix, (double)size)) {
        c->effort->scattered += n * sectors * walked_read;
    } else {
        c->effort->scattered += n * sectors * (is_kept(c, ix, (double)size) ? kept_read : 1);
        c->reads_apart = true;
    }
}

/* Adds the accesses of all lanes at an index. `box`: where they find their values, or NULL. */
static void access(counter *c, uint64_t mask, kas_ix ix, size_t size, double share,
                   access_kind kind, const kas_shared_box *box)
{
    const double n = share * computed(c, mask) * unshared(c, ix);
    compute_index(c, ix, share, kind == PICKED);
    if (box) {
        c->effort->loads += n * box->waves;
        c->effort->sectors += n * box->waves * WORD;
        return;
    }
    if (!(mask & c->lane)) {
        c->effort->shared += n;
        c->effort->sectors += n * SECTOR_BYTES;
        return;
    }
    if (is_side_by_side(c, ix))
        c->effort->loads += n;
    else
        access_apart(c, ix, n, size, kind);
    c->effort->sectors += n * SECTOR_BYTES * kas_ix_lane_sectors(c->ir, ix, c->nest->lane, size);
}

static double size_of(const kas_ir *ir, int tensor)
{
    return (double)kas_dtype_size(ir->tensor[tensor].dtype);
}

static double bytes_of(const kas_ir *ir, int tensor)
{
    return size_of(ir, tensor) * (double)ir->tensor[tensor].elements;
}

/* Adds bytes of a tensor that the launch must move. */
static void move(counter *c, int tensor, double bytes)
{
    c->bytes += bytes;
    switch (c->ir->tensor[tensor].role) {
    case KAS_ROLE_X:
    case KAS_ROLE_Y:
    case KAS_ROLE_DX:
    case KAS_ROLE_DY:
    case KAS_ROLE_RESIDUAL:
        c->effort->far += bytes;
        break;
    default:
        break;
    }
}

/* ---- expressions ----------------------------------------------------------------------------- */

/* Returns the cost of an operation. A minimum or maximum keeps NaN, which takes comparisons. An erf
 * or sine of a CPU (prelude.h) takes more than three times as long as its exp, which counts 8. */
static double cost_of(const counter *c, kas_fn fn)
{
    enum { KEEPS_NAN = 3, ARGMAX = 5, CPU_ERF = 28, CPU_SINE = 26 };
    switch (fn) {
    case KAS_FN_ERF:
        return c->ir->cpu ? CPU_ERF : kas_fn_cost(fn);
    case KAS_FN_SIN:
    case KAS_FN_COS:
        return c->ir->cpu ? CPU_SINE : kas_fn_cost(fn);
    case KAS_FN_MIN:
    case KAS_FN_MAX:
    case KAS_FN_REDUCE_MAX:
        return KEEPS_NAN;
    case KAS_FN_REDUCE_ARGMAX:
        return ARGMAX;
    default:
        return kas_fn_cost(fn);
    }
}

/* Adds a choice between values. A compiler makes it once for a row where all lanes choose alike; a
 * CPU's lanes then have an operation with the result (kas_inside, tile.h). */
static void choose(counter *c, uint64_t condition, uint64_t mask, double share)
{
    const bool alike = !(condition & c->lane);
    operate(c, alike ? (mask & ~c->lane) | condition : mask, 1, share);
    if (alike && c->ir->cpu && mask & c->lane)
        operate(c, mask, 1, share);
}

/* A sum of products: a multiply-add is one operation. */
static bool is_fused(const counter *c, const kas_ex_node *reduce)
{
    const kas_ex_node *body = kas_ex_get(c->ir, reduce->a[0]);
    while (body->kind == KAS_EX_GUARD)
        body = kas_ex_get(c->ir, body->a[0]);
    return body->kind == KAS_EX_BINARY && body->fn == KAS_FN_MUL;
}

/* Returns whether a CPU keeps a sum around the lanes in registers: that of few lanes, and one that is
 * written so (emit_sums.c). */
static bool in_registers(const counter *c, kas_ex e)
{
    kas_ex run, number;
    if (c->ir->cpu && lanes_of_row(c) <= KEPT_LANES)
        return true;
    while (kas_ex_get(c->ir, e)->kind == KAS_EX_REDUCE)
        e = kas_ex_get(c->ir, e)->a[0];
    return c->ir->cpu && c->nest->slides && kas_nest_product(c->ir, c->nest, e, &run, &number);
}

static void see_reduction(counter *c, kas_ex e, const kas_ex_node *node, uint64_t mask)
{
    const uint64_t body = kas_masks_ex(&c->masks, node->a[0]);
    if (!is_fused(c, node)) {
        c->flops += kas_masks_turns(&c->masks, mask) * (double)c->ir->var_size[node->var];
        operate(c, body, cost_of(c, (kas_fn)node->fn), 1);
    }
    if (node->kind == KAS_EX_ROW) {
        if (!c->ir->cpu || c->nest->row || c->row_lanes > KEPT_LANES)
            c->effort->reduced += computed(c, body);
        return;
    }
    const double length = kas_reduce_length(c->ir, e);
    if (body & c->lane && kas_nest_runs_around(c->ir, c->nest, e)) {
        if (!in_registers(c, e))
            c->effort->reduced += computed(c, body);
        c->effort->turns +=
            c->rows * length / (c->nest->slides ? (double)c->ir->var_size[c->nest->inner] : 1);
    }
}

/* Finds the reductions around the lanes, and what guards leave out: where all lanes of a row
 * fail the same guard, a compiler skips the load behind it. So the parts of a concatenation
 * together cost one. */
static void see_before(void *context, kas_ex e, const kas_ex_node *node)
{
    counter *c = context;
    for (const kas_ex_node *r = node;
         r->kind == KAS_EX_REDUCE && kas_nest_is_long(c->ir, c->nest, e);
         r = kas_ex_get(c->ir, r->a[0]))
        c->around |= UINT64_C(1) << kas_masks_index(&c->masks, r->var);
    if (node->kind != KAS_EX_GUARD || kas_masks_ix(&c->masks, node->ix) & c->lane)
        return;
    if (kas_nest_guards_taps(c->ir, c->nest, &c->masks, node->ix))
        return; /* taps leave nothing out there (kas_inside) */
    const kas_range r = kas_ix_range(c->ir, node->ix);
    const int64_t low = r.low > node->low ? r.low : node->low,
                  high = r.high < node->high ? r.high : node->high;
    const double inside = high < low ? 0 : (double)(high - low + 1) / (double)(r.high - r.low + 1);
    kas_ex behind = node->a[0];
    while (kas_ex_get(c->ir, behind)->kind == KAS_EX_GUARD)
        behind = kas_ex_get(c->ir, behind)->a[0];
    if (kas_ex_get(c->ir, behind)->kind == KAS_EX_LOAD && c->skipped[behind] < 1 - inside)
        c->skipped[behind] = (float)(1 - inside);
}

/* Counts the bytes of a load with so many turns. Loads of one tensor read different parts of it, as
 * far as there are any. */
static void read_more(counter *c, int tensor, double turns)
{
    const double left = (double)c->ir->tensor[tensor].elements - c->read[tensor];
    const double more = turns < left ? turns : left;
    c->read[tensor] += more;
    if (c->ir->tensor[tensor].role != KAS_ROLE_GAIN)
        move(c, tensor, size_of(c->ir, tensor) * more);
}

static void see(void *context, kas_ex e, const kas_ex_node *node)
{
    counter *c = context;
    const uint64_t mask = kas_masks_ex(&c->masks, e);
    const double n = kas_masks_turns(&c->masks, mask);
    find_slid(c, e, node, mask);
    switch ((kas_ex_kind)node->kind) {
    case KAS_EX_LOAD:
        read_more(c, node->tensor, n);
        access(c, mask, node->ix, kas_dtype_size(c->ir->tensor[node->tensor].dtype),
               1 - c->skipped[e], is_picked(c, node) ? PICKED : READ, kas_nest_box_of(c->nest, e));
        break;
    case KAS_EX_UNARY:
    case KAS_EX_BINARY:
        c->flops += n;
        operate(c, mask, cost_of(c, (kas_fn)node->fn), c->slid[e] > 0 ? c->slid[e] : 1);
        break;
    case KAS_EX_SELECT:
        c->flops += n;
        choose(c, kas_masks_ex(&c->masks, node->a[0]) | kas_masks_ex(&c->masks, node->a[1]), mask,
               1);
        break;
    case KAS_EX_GUARD:
        choose(c, kas_masks_ix(&c->masks, node->ix), mask,
               guarded(c, node->ix) * unshared(c, node->ix));
        compute_index(c, node->ix, 1, false);
        break;
    case KAS_EX_INDEX:
        operate(c, mask, 1, 1);
        compute_index(c, node->ix, 1, false);
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
    c->rows = kas_masks_turns(&c->masks, c->all) / lanes;
    c->row_lanes = lanes;
    c->effort->lanes = lanes;
    c->effort->turns = c->rows;
}

static void end(counter *c)
{
    const kas_nest *n = c->nest;
    access(c, c->all, n->store, kas_dtype_size(c->ir->tensor[n->tensor].dtype), 1, WRITE, NULL);
    kas_nest_count_fills(c->ir, n, c->effort);
    kas_nest_count_parts(c->ir, n, c->rows * c->row_lanes, c->effort);
    move(c, n->tensor, bytes_of(c->ir, n->tensor));
    for (int i = 0; i < n->outputs; i++)
        move(c, n->output[i], bytes_of(c->ir, n->output[i]));
    if (c->reads_apart && lanes_of_row(c) <= SHORT_ROW)
        c->effort->alone = alone_operation * (c->effort->arithmetic + c->effort->loads) +
                           alone_function * c->effort->functions;
}

kas_status kas_nest_count(const kas_ir *ir, const kas_nest *nest, double *flops, double *bytes,
                          kas_effort *effort)
{
    counter c = {.ir = ir, .nest = nest, .effort = effort};
    *effort = (kas_effort){0};
    kas_status status = kas_masks_init(&c.masks, ir, nest->value, nest->loops, nest->loop);
    if (status != KAS_OK)
        return status;
    c.read = calloc((size_t)ir->tensors, sizeof *c.read);
    c.indexed = calloc((size_t)ir->atoms.count, 1);
    c.skipped = calloc((size_t)ir->exprs.count, sizeof *c.skipped);
    c.slid = calloc((size_t)ir->exprs.count, sizeof *c.slid);
    if (!c.read || !c.indexed || !c.skipped || !c.slid) {
        status = kas_ir_no_memory();
    } else {
        begin(&c);
        status = kas_ex_visit(ir, nest->value, see_before, &c);
        if (status == KAS_OK)
            status = kas_ex_visit(ir, nest->value, see, &c);
        end(&c);
    }
    *flops = c.flops;
    *bytes = c.bytes;
    free(c.read);
    free(c.indexed);
    free(c.skipped);
    free(c.slid);
    kas_masks_free(&c.masks);
    if (status == KAS_OK)
        status = kas_nest_count_waits(ir, nest, effort);
    return status;
}

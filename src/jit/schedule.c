#include "jit/schedule.h"

#include <stdlib.h>
#include <string.h>

#include "jit/nest.h"

enum {
    LANES = 1024,       /* of a block, when each lane is alone */
    LANES_KEPT = 256,   /* when a lane keeps values between loops: one round of threads */
    ENOUGH_BLOCKS = 64, /* from which on a loop may run inside the block */
    FULL_VECTOR = 32,   /* lanes beyond which more of them are no better */
    GRID_YZ = 65535
};

double kas_reduce_length(const kas_ir *ir, kas_ex e)
{
    double length = 1;
    const kas_ex_node *node = kas_ex_get(ir, e);
    for (const int fn = node->fn; node->kind == KAS_EX_REDUCE && node->fn == fn;
         node = kas_ex_get(ir, node->a[0]))
        length *= (double)ir->var_size[node->var];
    return length;
}

/* What a strided access is worth beside a contiguous one, on both devices. */
#define STRIDED 0.1

/* ---- lanes -------------------------------------------------------------------------------------
 */

typedef struct lane_score {
    const kas_ir *ir;
    int var;
    double good, all;
} lane_score;

static void see_stride(void *context, const kas_ex_node *node, kas_ix ix)
{
    lane_score *s = context;
    int64_t coeff;
    if (node && node->kind != KAS_EX_LOAD)
        return;
    const double weight = node ? 1 : 2;
    const bool linear = kas_ix_coeff(s->ir, ix, s->var, &coeff);
    s->all += weight;
    s->good += weight * (linear && (coeff == 0 || coeff == 1) ? 1 : STRIDED);
}

static kas_status choose_lane(const kas_ir *ir, kas_nest *nest)
{
    double best = 0;
    nest->lane = -1;
    for (int i = nest->loops - 1; i >= 0; i--) {
        lane_score s = {ir, nest->loop[i], 0, 0};
        KAS_TRY(kas_nest_visit(ir, nest, see_stride, &s));
        const int64_t size = ir->var_size[nest->loop[i]];
        const double score = (double)(size < FULL_VECTOR ? size : FULL_VECTOR) * s.good / s.all;
        if (score > best) {
            best = score;
            nest->lane = nest->loop[i];
        }
    }
    return KAS_OK;
}

typedef struct long_search {
    const kas_ir *ir;
    bool found;
} long_search;

static void see_long(void *context, kas_ex e, const kas_ex_node *node)
{
    long_search *s = context;
    s->found |= node->kind == KAS_EX_REDUCE && kas_reduce_length(s->ir, e) > KAS_LONG_REDUCE;
}

/* ---- the rest
 * ------------------------------------------------------------------------------------ */

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

/* Grid axes by falling size; what does not fit becomes a serial loop. */
static void place_grid(kas_nest *nest, axes *a)
{
    while (a->count > 3) {
        const int at = smallest(a);
        nest->serial[nest->serials++] = a->var[at];
        remove_axis(a, at);
    }
    for (int axis = 0; axis < 3; axis++) {
        int at = -1;
        for (int i = 0; i < a->count; i++)
            if (at < 0 || a->size[i] > a->size[at])
                at = i;
        nest->axis_var[axis] = -1;
        nest->grid[axis] = 1;
        if (at < 0)
            continue;
        if (axis > 0 && a->size[at] > GRID_YZ && a->var[at] >= 0) {
            nest->serial[nest->serials++] = a->var[at];
        } else {
            nest->axis_var[axis] = a->var[at];
            nest->grid[axis] = (unsigned)a->size[at];
        }
        remove_axis(a, at);
    }
}

static void place_loops(const kas_ir *ir, kas_nest *nest, bool keeps)
{
    axes a = {0};
    const int64_t extent = nest->lane < 0 ? 1 : ir->var_size[nest->lane];
    const int64_t most = keeps ? LANES_KEPT : LANES;
    const int64_t chunks = (extent + most - 1) / most;
    nest->lanes = chunks == 1 ? extent : ((extent + chunks - 1) / chunks + 31) / 32 * 32;
    double blocks = (double)chunks;
    for (int i = 0; i < nest->loops; i++)
        if (nest->loop[i] != nest->lane) {
            add_axis(&a, nest->loop[i], ir->var_size[nest->loop[i]]);
            blocks *= (double)ir->var_size[nest->loop[i]];
        }
    unsigned threads = (unsigned)(nest->lanes + 31) / 32 * 32;
    if (threads > KAS_MAX_BLOCK)
        threads = KAS_MAX_BLOCK;
    nest->block[0] = threads;
    nest->block[1] = nest->block[2] = 1;
    nest->rows = -1;
    if (a.count > 0) {
        const int64_t size = a.size[a.count - 1];
        if (blocks / (double)size >= ENOUGH_BLOCKS || nest->lanes < 32) {
            nest->rows = a.var[--a.count];
            const unsigned room = KAS_MAX_BLOCK / threads;
            nest->block[1] = size < room ? (unsigned)size : room;
        }
    }
    if (chunks > 1)
        add_axis(&a, -2, chunks);
    place_grid(nest, &a);
}

static void see_width(void *context, const kas_ex_node *node, kas_ix ix)
{
    kas_nest *nest = ((void **)context)[0];
    const kas_range r = kas_ix_range(((void **)context)[1], ix);
    (void)node;
    nest->wide |= r.low < -INT32_MAX / 2 || r.high > INT32_MAX - 1;
}

kas_status kas_schedule(kas_ir *ir, int tensor, kas_ex value, kas_nest *out)
{
    const kas_tensor *t = &ir->tensor[tensor];
    *out = (kas_nest){.tensor = tensor, .value = value};
    for (int d = 0; d < t->rank; d++) {
        if (t->var[d] < 0)
            continue;
        out->loop[out->loops++] = t->var[d];
        out->store =
            kas_ix_add(ir, out->store, kas_ix_scale(ir, kas_ix_var(ir, t->var[d]), t->stride[d]));
    }
    KAS_TRY(kas_nest_split(ir, out));
    KAS_TRY(kas_nest_merge(ir, out));
    KAS_TRY(choose_lane(ir, out));
    long_search reduce = {ir, false};
    KAS_TRY(kas_ex_visit(ir, out->value, see_long, &reduce));
    place_loops(ir, out, reduce.found);
    void *context[2] = {out, ir};
    return kas_nest_visit(ir, out, see_width, context);
}

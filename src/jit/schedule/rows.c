#include "jit/schedule/rows.h"

#include <stdlib.h>
#include <string.h>

#include "jit/schedule/schedule.h"

enum {
    MOST_READ = 14,      /* the most tensors that a kernel reads, as in fuse.c */
    LEAST_CHANNELS = 16, /* fewest contiguous elements behind a column: the lanes */
    MANY_COLUMNS = 16384 /* as in reduce.c: threads enough to keep a GPU busy */
};

typedef struct finder {
    kas_ir *ir;
    char *inside; /* by tensor: what the kernel being looked at would take in */
    char *wanted; /* by tensor: which of those the other pass reads */
    char *read;   /* by tensor: what a kernel reads; scratch of loads_of */
    char *seen;   /* by kas_ex: scratch of loads_of */
    int exprs;    /* expressions before any was added */
} finder;

/* ---- columns --------------------------------------------------------------------------------- */

/* Returns the dims of t, as bits, in which every tensor inside has size 1 and t has more; 0 where
 * these tensors differ from t in something else, or from each other. */
static uint32_t lost_dims(const kas_ir *ir, const kas_ir_tensor *t, const char *inside)
{
    uint32_t lost = 0;
    for (int s = 0; s < ir->tensors; s++) {
        const kas_ir_tensor *other = &ir->tensor[s];
        uint32_t here = 0;
        if (!inside[s])
            continue;
        if (other->rank != t->rank)
            return 0;
        for (int d = 0; d < t->rank; d++) {
            if (other->size[d] == t->size[d])
                continue;
            if (other->size[d] != 1)
                return 0;
            here |= UINT32_C(1) << d;
        }
        if (lost && here != lost)
            return 0;
        lost = here;
    }
    return lost;
}

/* Returns the number of elements of the walked dims; *behind gets that of the dims behind the last
 * of them. */
static int64_t walk(const kas_ir_tensor *t, uint32_t walked, int64_t *behind)
{
    int64_t length = 1;
    int dim[KAS_IR_RANK];
    kas_ir_memory_order(t, dim);
    *behind = 1;
    for (int i = 0; i < t->rank; i++) {
        const int d = dim[i];
        *behind = walked >> d & 1 ? 1 : *behind * t->size[d];
        length *= walked >> d & 1 ? t->size[d] : 1;
    }
    return length;
}

/* Returns the dims, as bits, that a kernel of columns of tensor `number` walks, where what is
 * `inside` reduces `along` elements; 0 where there are no columns or they would not pay.
 *
 * A column that fits in registers is read once. A longer one is read again at each walk, by as many
 * threads as there are columns. Few threads would wait for memory longer than separate kernels, of
 * which the last has a thread for every element. */
static uint32_t columns_of(const kas_ir *ir, int number, const char *inside, int64_t along)
{
    const kas_ir_tensor *t = &ir->tensor[number];
    const uint32_t walked = lost_dims(ir, t, inside);
    int64_t behind;
    if (!walked || along > KAS_COLUMN_MOST || walk(t, walked, &behind) != along ||
        behind < LEAST_CHANNELS)
        return 0;
    return along <= KAS_COLUMN_KEPT || t->elements / along >= MANY_COLUMNS ? walked : 0;
}

/* ---- who reads what -------------------------------------------------------------------------- */

/* Sets f->read for what an expression loads, after substituting what is not in memory or is
 * inside. */
static void loads_of(finder *f, kas_ex e, bool through)
{
    if (f->seen[e])
        return;
    f->seen[e] = 1;
    const kas_ex_node *node = kas_ex_get(f->ir, e);
    if (node->kind == KAS_EX_READ) {
        const kas_ir_tensor *t = &f->ir->tensor[node->tensor];
        const bool in_memory = t->materialised || t->memory >= 0;
        if (in_memory)
            f->read[kas_fuse_memory(f->ir, node->tensor)] = 1;
        if (!in_memory || (through && f->inside[node->tensor]))
            loads_of(f, t->def, through);
    }
    for (int i = 0; i < kas_ex_children(node); i++)
        loads_of(f, node->a[i], through);
}

static void loads_of_tensor(finder *f, int t, bool through)
{
    memset(f->read, 0, (size_t)f->ir->tensors);
    memset(f->seen, 0, (size_t)f->exprs);
    loads_of(f, f->ir->tensor[t].def, through);
}

static bool has_kernel(const kas_ir_tensor *t)
{
    return t->kind == KAS_TENSOR_DEF && t->materialised && t->memory < 0;
}

static bool is_reduced(const kas_ir_tensor *t, int64_t along)
{
    return has_kernel(t) && t->along == along && t->role == KAS_ROLE_SCRATCH && !t->operand &&
           t->row_owner < 0;
}

/* Marks the reductions that tensor t reads, and those that these read; returns their number. */
static int take_in(finder *f, int t, int64_t along)
{
    const kas_ir *ir = f->ir;
    int count = 0, before;
    memset(f->inside, 0, (size_t)ir->tensors);
    do {
        before = count;
        loads_of_tensor(f, t, true);
        for (int s = 0; s < ir->tensors; s++)
            if (f->read[s] && !f->inside[s] && is_reduced(&ir->tensor[s], along) &&
                ir->tensor[s].backward == ir->tensor[t].backward) {
                f->inside[s] = 1;
                count++;
            }
    } while (count > before);
    return count;
}

/* Returns whether nothing else in t's pass reads what is inside, because a reader might
 * come before t. */
static bool alone(finder *f, int t)
{
    const kas_ir *ir = f->ir;
    memset(f->wanted, 0, (size_t)ir->tensors);
    for (int k = 0; k < ir->tensors; k++) {
        if (k == t || f->inside[k] || !has_kernel(&ir->tensor[k]))
            continue;
        loads_of_tensor(f, k, false);
        for (int s = 0; s < ir->tensors; s++) {
            if (!f->read[s] || !f->inside[s])
                continue;
            if (ir->tensor[k].backward == ir->tensor[t].backward)
                return false;
            f->wanted[s] = 1;
        }
    }
    return true;
}

/* ---- the row --------------------------------------------------------------------------------- */

bool kas_row_has_dim(const kas_ir_tensor *t, int d)
{
    return t->row_var >= 0 && (t->walked ? t->walked : t->row_dims) >> d & 1;
}

void kas_row_index(kas_ir *ir, const kas_ir_tensor *t, kas_ix *idx)
{
    int64_t size[KAS_IR_RANK];
    kas_ix row[KAS_IR_RANK];
    kas_ix place = t->row_var < 0 ? 0 : kas_ix_var(ir, t->row_var);
    int dims = 0, next = 0, dim[KAS_IR_RANK];
    if (t->row_var >= 0 && t->row_block >= 0)
        place = kas_ix_add(
            ir, place, kas_ix_scale(ir, kas_ix_var(ir, t->row_block), ir->var_size[t->row_var]));
    kas_ir_memory_order(t, dim);
    for (int i = 0; i < t->rank; i++)
        if (kas_row_has_dim(t, dim[i]))
            size[dims++] = t->size[dim[i]];
    kas_ix_unflatten(ir, place, dims, size, row);
    for (int i = 0; i < t->rank; i++)
        idx[dim[i]] = kas_row_has_dim(t, dim[i]) ? row[next++] : kas_ix_var(ir, t->var[dim[i]]);
}

/* Returns the trailing dims of a pixel, as bits, that hold one or several rows of `along` elements;
 * 0: none do. */
static uint32_t row_dims(const kas_ir_tensor *t, int64_t along, int64_t *rows)
{
    int64_t elements = 1;
    uint32_t dims = 0;
    int dim[KAS_IR_RANK], i = t->rank;
    kas_ir_memory_order(t, dim);
    while (elements < along && i > KAS_DIM_Q) {
        elements *= t->size[dim[--i]];
        dims |= UINT32_C(1) << dim[i];
    }
    *rows = elements / along;
    return elements >= along && elements % along == 0 ? dims : 0;
}

typedef struct converter {
    kas_ir *ir;
    int var;  /* of the row */
    int rows; /* number of reductions converted */
    bool failed;
    int *memo, capacity; /* by kas_ex: result + 1 */
    kas_alpha_names names;
} converter;

static void see_var(void *context, kas_ex e, const kas_ex_node *node)
{
    converter *c = context;
    (void)e;
    if ((node->kind == KAS_EX_LOAD || node->kind == KAS_EX_INDEX || node->kind == KAS_EX_GUARD) &&
        kas_ix_has_var(c->ir, node->ix, c->var))
        c->failed = true;
}

static kas_ex convert(converter *c, kas_ex e);

/* Converts a chain of reductions to one over the lanes. Returns -1 when it is none, or its result
 * differs between lanes. */
static kas_ex convert_reduce(converter *c, kas_ex e)
{
    kas_ir *ir = c->ir;
    const kas_ex_node *node = kas_ex_get(ir, e);
    const int fn = node->fn;
    int64_t size[KAS_IR_RANK], elements = 1;
    int var[KAS_IR_RANK], vars = 0;
    for (; node->kind == KAS_EX_REDUCE && node->fn == fn && vars < KAS_IR_RANK;
         node = kas_ex_get(ir, node->a[0])) {
        elements *= size[vars] = ir->var_size[node->var];
        var[vars++] = node->var;
        e = node->a[0];
    }
    converter uniform = {.ir = ir, .var = c->var}; /* fails where the value is not uniform */
    if (elements != ir->var_size[c->var] || fn == KAS_FN_REDUCE_ARGMAX ||
        kas_ex_visit(ir, e, see_var, &uniform) != KAS_OK || uniform.failed)
        return -1;
    kas_ix to[KAS_IR_RANK];
    kas_subst s = {0};
    kas_ix_unflatten(ir, kas_ix_var(ir, c->var), vars, size, to);
    for (int i = 0; i < vars; i++)
        kas_subst_add(ir, &s, var[i], to[i]);
    c->rows++;
    return kas_ex_row(ir, (kas_fn)fn, c->var, convert(c, kas_ex_map(ir, e, &s, false)));
}

static kas_ex convert_node(converter *c, kas_ex e)
{
    const kas_ex_node *node = kas_ex_get(c->ir, e);
    kas_ex a[4] = {0};
    if (kas_ex_children(node) == 0)
        return e;
    if (node->kind == KAS_EX_REDUCE) {
        const kas_ex row = convert_reduce(c, e);
        if (row >= 0)
            return row;
        c->failed |= kas_reduce_is_long(c->ir, e);
    }
    for (int i = 0; i < kas_ex_children(node); i++)
        a[i] = convert(c, node->a[i]);
    return kas_ex_with(c->ir, node, a);
}

static kas_ex convert(converter *c, kas_ex e)
{
    if (e < c->capacity && c->memo[e])
        return c->memo[e] - 1;
    const kas_ex result = convert_node(c, e);
    if (e >= c->capacity) {
        const int capacity = c->ir->exprs.count * 2;
        int *memo = realloc(c->memo, sizeof *memo * (size_t)capacity);
        if (!memo) {
            c->failed = true;
            return result;
        }
        memset(memo + c->capacity, 0, sizeof *memo * (size_t)(capacity - c->capacity));
        c->memo = memo;
        c->capacity = capacity;
    }
    c->memo[e] = result + 1;
    return result;
}

/* Returns the value of tensor `from`, with its variables replaced by those of t outside the row.
 * An operand that the row reads again and again is substituted each time; where it holds a
 * reduction (a window sum), its bound variables are named by place, so that it is one value,
 * computed once. */
static kas_ex value_of(finder *f, converter *c, const kas_ir_tensor *own, int from, bool itself)
{
    kas_ir *ir = f->ir;
    kas_inliner inliner = {.ir = ir, .row = f->inside};
    kas_ex value = kas_inline(&inliner, from);
    kas_inliner_free(&inliner);
    kas_subst s = {0};
    kas_ix idx[KAS_IR_RANK];
    const kas_ir_tensor *other = &ir->tensor[from];
    kas_row_index(ir, own, idx);
    for (int d = 0; d < own->rank; d++) {
        c->failed |= other->rank != own->rank ||
                     other->size[d] != (itself || !kas_row_has_dim(own, d) ? own->size[d] : 1);
        if (!c->failed && other->var[d] >= 0)
            kas_subst_add(ir, &s, other->var[d], idx[d]);
    }
    if (c->failed)
        return 0;
    return kas_ex_alpha_rename(ir, &c->names, convert(c, kas_ex_map(ir, value, &s, false)));
}

/* ---- what is checked ------------------------------------------------------------------------- */

enum { MOST_REDUCTIONS = 2 * KAS_ROW_OUTPUTS };

typedef struct within {
    const kas_ir *ir;
    int var;                           /* of the row */
    bool column;                       /* the reduced elements lie apart */
    int along, across;                 /* loads of elements side by side; loads in another order */
    kas_ex reduction[MOST_REDUCTIONS]; /* reductions of the kernel's value */
    int reductions, reads;
    bool too_many;
    char *read;  /* by tensor */
    char *seen;  /* by kas_ex: whether the kernel's value holds it */
    int missing; /* loads and reductions of other values that the kernel's value does not hold */
} within;

static void see_within(void *context, kas_ex e, const kas_ex_node *node)
{
    within *w = context;
    w->seen[e] = 1;
    if (node->kind == KAS_EX_LOAD && !w->read[node->tensor]) {
        w->read[node->tensor] = 1;
        w->reads++;
    }
    if (node->kind == KAS_EX_LOAD && kas_ix_has_var(w->ir, node->ix, w->var)) {
        int64_t apart;
        const bool is_apart = kas_ix_coeff(w->ir, node->ix, w->var, &apart) && llabs(apart) > 1;
        const bool across = is_apart != w->column;
        w->across += across;
        w->along += !across;
    }
    if (node->kind != KAS_EX_ROW)
        return;
    w->too_many |= w->reductions == MOST_REDUCTIONS;
    if (!w->too_many)
        w->reduction[w->reductions++] = e;
}

static void see_missing(void *context, kas_ex e, const kas_ex_node *node)
{
    within *w = context;
    w->missing += !w->seen[e] && (node->kind == KAS_EX_LOAD || node->kind == KAS_EX_REDUCE ||
                                  node->kind == KAS_EX_ROW);
}

/* Checks that all reductions stand outside of other loops: a window over softmaxes has a row at
 * each of its taps. */
static kas_status stand_free(const kas_ir *ir, const within *w, kas_ex value, int loops,
                             const int *loop, bool *fit)
{
    kas_masks masks;
    KAS_TRY(kas_masks_init(&masks, ir, value, loops, loop));
    for (int i = 0; i < w->reductions; i++)
        *fit &= kas_masks_ex(&masks, w->reduction[i]) >> loops == 0;
    kas_masks_free(&masks);
    return KAS_OK;
}

static int loops_of(const kas_ir_tensor *t, int *loop)
{
    int loops = 0;
    for (int d = 0; d < t->rank; d++)
        if (t->var[d] >= 0 && !kas_row_has_dim(t, d))
            loop[loops++] = t->var[d];
    if (t->row_block >= 0)
        loop[loops++] = t->row_block;
    loop[loops++] = t->row_var;
    return loops;
}

/* Checks that a kernel of rows pays: it reads few enough tensors, most of them along the row (a
 * softmax that is written transposed reads across what it writes: kernels of its own are faster);
 * its rows are of its own pixels; and what is written beside the rows is made of what they hold.
 * value[0] is tensor t's. */
static kas_status look_within(within *w, const kas_ir_tensor *t, const kas_ex *value, int values,
                              bool *fit)
{
    int loop[KAS_IR_RANK + 2];
    const int loops = loops_of(t, loop);
    KAS_TRY(kas_ex_visit(w->ir, value[0], see_within, w));
    *fit = w->reads <= MOST_READ && w->along >= w->across && !w->too_many;
    KAS_TRY(stand_free(w->ir, w, value[0], loops, loop, fit));
    for (int i = 1; i < values; i++)
        KAS_TRY(kas_ex_visit(w->ir, value[i], see_missing, w));
    *fit &= w->missing == 0;
    return KAS_OK;
}

static kas_status fits(finder *f, const kas_ir_tensor *t, const kas_ex *value, int values,
                       bool *fit)
{
    within w = {.ir = f->ir, .var = t->row_var, .column = t->walked != 0, .read = f->read};
    w.seen = calloc((size_t)f->ir->exprs.count, 1);
    if (!w.seen)
        return kas_ir_no_memory();
    memset(f->read, 0, (size_t)f->ir->tensors);
    const kas_status status = look_within(&w, t, value, values, fit);
    free(w.seen);
    return status;
}

/* `own` is tensor t as it would be with rows or columns. */
static kas_status try_row(finder *f, int t, const kas_ir_tensor *own)
{
    kas_ir *ir = f->ir;
    converter c = {.ir = ir, .var = own->row_var};
    kas_ex value[KAS_ROW_OUTPUTS + 1];
    int tensor[KAS_ROW_OUTPUTS + 1] = {t}, values = 1;
    bool fit = false;
    for (int s = 0; s < ir->tensors; s++) {
        if (!f->wanted[s])
            continue;
        if (values > KAS_ROW_OUTPUTS)
            return KAS_OK;
        tensor[values++] = s;
    }
    for (int i = 0; i < values && !c.failed; i++)
        value[i] = value_of(f, &c, own, tensor[i], i == 0);
    free(c.memo);
    KAS_TRY(ir->status);
    if (!c.failed && c.rows > 0)
        KAS_TRY(fits(f, own, value, values, &fit));
    if (!fit)
        return KAS_OK;
    for (int s = 0; s < ir->tensors; s++)
        if (f->inside[s]) {
            ir->tensor[s].row_owner = t;
            ir->tensor[s].materialised = f->wanted[s];
        }
    ir->tensor[t] = *own;
    for (int i = 0; i < values; i++)
        ir->tensor[tensor[i]].row_value = value[i];
    return KAS_OK;
}

/* Tries rows, then columns, of `along` elements. */
static kas_status try_along(finder *f, int t, int64_t along)
{
    kas_ir *ir = f->ir;
    int64_t rows;
    kas_ir_tensor own = ir->tensor[t];
    own.row_var = kas_ir_var(ir, along);
    own.row_dims = row_dims(&own, along, &rows);
    if (own.row_dims && along >= KAS_ROW_LEAST && along <= KAS_ROW_MOST) {
        own.row_block = kas_ir_loop_var(ir, rows);
        KAS_TRY(try_row(f, t, &own));
    }
    if (ir->tensor[t].row_var >= 0)
        return KAS_OK;
    own.row_block = -1;
    own.walked = columns_of(ir, t, f->inside, along);
    return own.walked ? try_row(f, t, &own) : KAS_OK;
}

/* Tries the lengths of the reductions that t reads, one after the other. */
static kas_status look_at(finder *f, int t)
{
    kas_ir *ir = f->ir;
    int64_t tried = 0;
    for (int s = 0; s < ir->tensors && ir->tensor[t].row_var < 0; s++) {
        memset(f->inside, 0, (size_t)ir->tensors);
        loads_of_tensor(f, t, false);
        const int64_t along = ir->tensor[s].along;
        if (!f->read[s] || along < 2 || along == tried)
            continue;
        tried = along;
        if (take_in(f, t, along) == 0 || !alone(f, t))
            continue;
        KAS_TRY(try_along(f, t, along));
    }
    return KAS_OK;
}

kas_status kas_rows_find(kas_ir *ir)
{
    const size_t tensors = (size_t)ir->tensors;
    finder f = {.ir = ir, .exprs = ir->exprs.count};
    kas_status status = KAS_OK;
    f.inside = calloc(tensors, 1);
    f.wanted = calloc(tensors, 1);
    f.read = calloc(tensors, 1);
    f.seen = calloc((size_t)f.exprs, 1);
    if (!f.inside || !f.wanted || !f.read || !f.seen)
        status = kas_ir_no_memory();
    for (int t = 0; t < ir->tensors && status == KAS_OK; t++) {
        const kas_ir_tensor *tensor = &ir->tensor[t];
        if (has_kernel(tensor) && tensor->pitch > 0 && tensor->along == 0)
            status = look_at(&f, t);
    }
    free(f.inside);
    free(f.wanted);
    free(f.read);
    free(f.seen);
    return status;
}

int kas_rows_outputs(const kas_ir *ir, int t, int *output)
{
    int count = 0;
    for (int s = 0; s < ir->tensors && count < KAS_ROW_OUTPUTS; s++)
        if (ir->tensor[s].row_owner == t && ir->tensor[s].materialised)
            output[count++] = s;
    return count;
}

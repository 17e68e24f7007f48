#include "jit/fuse/fuse.h"

#include <stdlib.h>
#include <string.h>

enum {
    INLINE_BUDGET = 16, /* operations per element that may be repeated to save a trip to memory */
    INLINE_BUDGET_CPU = 6, /* whose caches hold a tensor that the next kernel reads */
    LONG_REDUCTION = 32,
    /* For an element and apart in memory: a trip to memory saves most of them */
    MANY_READS = 100,
    MANY_READS_CPU = 16, /* where lanes pick each of them out of vectors, or gather it */
    MAX_LEAVES = 14      /* KAS_MAX_LAUNCH_ARGS has a margin for what cannot be split further */
};

double kas_fn_cost(kas_fn fn)
{
    switch (fn) {
    case KAS_FN_EXP:
    case KAS_FN_SIN:
    case KAS_FN_COS:
    case KAS_FN_SIGMOID:
        return 8;
    case KAS_FN_TANH:
    case KAS_FN_ERF:
        return 12;
    case KAS_FN_SQRT:
    case KAS_FN_DIV:
        return 4;
    default:
        return 1;
    }
}

/* ---- order ----------------------------------------------------------------------------------- */

typedef struct ordering {
    kas_ir *ir;
    char *placed; /* by tensor */
    int count;
    kas_status status;
} ordering;

static void place(ordering *o, int t);

static void place_operand(void *context, kas_ex e, const kas_ex_node *node)
{
    (void)e;
    if (node->kind == KAS_EX_READ)
        place(context, node->tensor);
}

static void place(ordering *o, int t)
{
    if (o->placed[t] || o->status != KAS_OK)
        return;
    o->placed[t] = 1;
    const kas_ir_tensor *tensor = &o->ir->tensor[t];
    if (tensor->kind == KAS_TENSOR_DEF) {
        const kas_status status = kas_ex_visit(o->ir, tensor->def, place_operand, o);
        if (status != KAS_OK)
            o->status = status;
    } else if (tensor->kind == KAS_TENSOR_CONV) {
        place(o, tensor->conv_in[0]);
        place(o, tensor->conv_in[1]);
    }
    o->ir->order[o->count++] = t;
}

/* Orders the tensors. Their numbers alone give no order, because partial sums are made after the
 * tensor that adds them up. */
static kas_status order_tensors(kas_ir *ir)
{
    ordering o = {.ir = ir, .placed = calloc((size_t)ir->tensors, 1)};
    ir->order = kas_arena_alloc(ir->arena, sizeof *ir->order * (size_t)ir->tensors);
    if (!o.placed || !ir->order)
        o.status = kas_ir_no_memory();
    for (int t = 0; t < ir->tensors; t++)
        if (o.status == KAS_OK)
            place(&o, t);
    free(o.placed);
    return o.status;
}

/* ---- how often each tensor is wanted
 * ------------------------------------------------------------ */

typedef struct visit {
    kas_ir *ir;
    kas_masks masks;
    uint64_t outer;  /* mask of the tensor's own variables */
    char *seen;      /* by kas_ex */
    int *readers;    /* by tensor: expressions of wanted tensors that read it */
    int own;         /* the tensor whose kernel the reader stands in */
    bool counting;   /* whether reads are counted */
    double evals;    /* evaluations of the reader */
    double work;     /* operations of the reader for one element */
    bool long_sum;   /* the reader holds a long reduction */
    char *in_reduce; /* by tensor: a reduction reads another element of it at every turn */
    double *walked;  /* by tensor: how many of these elements lie side by side */
    double window;   /* turns of the reader's reductions */
    int *kernel;     /* by tensor: the one whose kernel its reader stands in */
    char *alone;     /* by tensor: its kernel has a sum that stands alone */
    bool row;        /* the reader is a sum of a softmax or norm, which may become a row */
} visit;

static double repeats(const visit *v, uint64_t mask)
{
    return kas_masks_turns(&v->masks, mask & ~v->outer);
}

/* Returns whether a reduction walks along what lies side by side in the tensor that is read. */
static bool walks(const visit *v, const kas_ex_node *node)
{
    const int d = kas_ir_innermost(&v->ir->tensor[node->tensor]);
    return (kas_masks_ix(&v->masks, node->idx[d]) & ~v->outer) != 0;
}

static void visit_ex(visit *v, kas_ex e)
{
    if (v->seen[e])
        return;
    v->seen[e] = 1;
    kas_ir *ir = v->ir;
    const kas_ex_node *node = kas_ex_get(ir, e);
    const double times = repeats(v, kas_masks_ex(&v->masks, e));
    if (node->kind == KAS_EX_READ && v->counting) {
        kas_ir_tensor *t = &ir->tensor[node->tensor];
        t->evals += v->evals * times;
        v->readers[node->tensor]++;
        v->kernel[node->tensor] = v->own;
        if (times > 1)
            v->in_reduce[node->tensor] = 1;
        if (!v->row && times > v->walked[node->tensor] && walks(v, node))
            v->walked[node->tensor] = times;
    } else if (node->kind == KAS_EX_REDUCE) {
        const double length = times * (double)ir->var_size[node->var];
        v->work += length;
        v->long_sum |= length >= LONG_REDUCTION;
        v->window += length;
    } else if (kas_ex_children(node) > 0) {
        v->work += times * kas_fn_cost((kas_fn)node->fn);
    }
    for (int i = 0; i < kas_ex_children(node); i++)
        visit_ex(v, node->a[i]);
}

/* Computes work and long_sum of tensor t in v; with `counting`, counts the reads of its
 * definition. */
static kas_status visit_tensor(visit *v, int t, bool counting, double evals)
{
    kas_ir *ir = v->ir;
    v->counting = counting;
    v->evals = evals;
    v->work = 0;
    v->long_sum = false;
    v->window = 0;
    v->row = ir->tensor[t].along > 0;
    KAS_TRY(
        kas_masks_init(&v->masks, ir, ir->tensor[t].def, ir->tensor[t].rank, ir->tensor[t].var));
    v->outer = 0;
    for (int d = 0; d < ir->tensor[t].rank; d++)
        if (ir->tensor[t].var[d] >= 0)
            v->outer |= UINT64_C(1) << kas_masks_index(&v->masks, ir->tensor[t].var[d]);
    memset(v->seen, 0, (size_t)ir->exprs.count);
    visit_ex(v, ir->tensor[t].def);
    kas_masks_free(&v->masks);
    return KAS_OK;
}

static bool always_in_memory(const kas_ir_tensor *t)
{
    return t->kind != KAS_TENSOR_DEF || t->role != KAS_ROLE_SCRATCH || t->pitch == 0 ||
           (t->operand && t->memory < 0);
}

/* Decides tensor by tensor, readers before what they read. */
static kas_status decide(kas_ir *ir, const char *forced, visit *v)
{
    for (int t = 0; t < ir->tensors; t++) {
        ir->tensor[t].evals = 0;
        ir->tensor[t].materialised = false;
        v->readers[t] = 0;
        v->in_reduce[t] = 0;
        v->walked[t] = 0;
        v->alone[t] = 0;
        v->kernel[t] = t;
    }
    for (int i = ir->tensors - 1; i >= 0; i--) {
        const int t = ir->order[i];
        kas_ir_tensor *tensor = &ir->tensor[t];
        const bool wanted = tensor->role == KAS_ROLE_Y || tensor->role == KAS_ROLE_DX ||
                            tensor->role == KAS_ROLE_DWEIGHT || tensor->evals > 0;
        if (!wanted)
            continue;
        if (tensor->kind == KAS_TENSOR_CONV)
            for (int k = 0; k < 2; k++) {
                ir->tensor[tensor->conv_in[k]].evals += 1;
                v->readers[tensor->conv_in[k]]++;
            }
        if (tensor->kind != KAS_TENSOR_DEF) {
            tensor->materialised = true;
            continue;
        }
        if (tensor->memory >= 0) { /* a view: only its base must be there */
            ir->tensor[tensor->memory].evals += 1;
            v->readers[tensor->memory]++;
            continue;
        }
        KAS_TRY(visit_tensor(v, t, false, 0));
        const double again = tensor->evals / (double)tensor->elements - 1;
        tensor->materialised =
            always_in_memory(tensor) || forced[t] ||
            v->work * again > (ir->cpu ? INLINE_BUDGET_CPU : INLINE_BUDGET) ||
            (v->long_sum && v->in_reduce[t]) ||
            v->window * v->walked[t] >= (ir->cpu ? MANY_READS_CPU : MANY_READS) ||
            (tensor->alone && v->alone[v->kernel[t]]);
        v->own = tensor->materialised ? t : v->kernel[t];
        v->alone[v->own] |= tensor->alone;
        const double elements = (double)tensor->elements;
        KAS_TRY(visit_tensor(v, t, true, tensor->materialised ? elements : tensor->evals));
    }
    return KAS_OK;
}

/* ---- limits ---------------------------------------------------------------------------------- */

/* Returns how many tensors in memory, beside those in `leaf`, a kernel with this expression would
 * read, and adds them to `leaf`. */
static int count_leaves(const kas_ir *ir, char *leaf, char *seen, kas_ex e)
{
    if (seen[e])
        return 0;
    seen[e] = 1;
    const kas_ex_node *node = kas_ex_get(ir, e);
    int count = 0;
    if (node->kind == KAS_EX_READ) {
        const int memory = kas_fuse_memory(ir, node->tensor);
        const kas_ir_tensor *read = &ir->tensor[memory];
        if (!read->materialised)
            return count_leaves(ir, leaf, seen, ir->tensor[node->tensor].def);
        count = !leaf[memory];
        leaf[memory] = 1;
    }
    for (int i = 0; i < kas_ex_children(node); i++)
        count += count_leaves(ir, leaf, seen, node->a[i]);
    return count;
}

/* Marks the inlined operands of an expression as those that shall lie in memory. Returns whether there
 * are any that were not marked. */
static bool force_operands(kas_ir *ir, char *forced, char *seen, kas_ex e)
{
    if (seen[e])
        return false;
    seen[e] = 1;
    const kas_ex_node *node = kas_ex_get(ir, e);
    bool any = false;
    if (node->kind == KAS_EX_READ) {
        const kas_ir_tensor *read = &ir->tensor[node->tensor];
        if (read->kind == KAS_TENSOR_DEF && !read->materialised && read->memory < 0 &&
            !forced[node->tensor])
            forced[node->tensor] = any = true;
    }
    for (int i = 0; i < kas_ex_children(node); i++)
        any |= force_operands(ir, forced, seen, node->a[i]);
    return any;
}

/* Puts into memory the inlined operands of the first tensor that reads too many. Returns false when
 * no tensor does. */
static bool limit_leaves(kas_ir *ir, char *forced, char *leaf, char *seen)
{
    for (int t = 0; t < ir->tensors; t++) {
        if (ir->tensor[t].kind != KAS_TENSOR_DEF || !ir->tensor[t].materialised)
            continue;
        memset(leaf, 0, (size_t)ir->tensors);
        memset(seen, 0, (size_t)ir->exprs.count);
        if (count_leaves(ir, leaf, seen, ir->tensor[t].def) <= MAX_LEAVES)
            continue;
        memset(seen, 0, (size_t)ir->exprs.count);
        if (force_operands(ir, forced, seen, ir->tensor[t].def))
            return true;
    }
    return false;
}

kas_status kas_fuse(kas_ir *ir)
{
    kas_status status = KAS_OK;
    const size_t tensors = (size_t)ir->tensors;
    KAS_TRY(kas_fuse_views(ir));
    KAS_TRY(order_tensors(ir));
    visit v = {.ir = ir};
    /* Indices made above may have added expressions; none are added below. */
    v.seen = malloc((size_t)ir->exprs.count);
    v.readers = calloc(tensors, sizeof *v.readers);
    v.in_reduce = calloc(tensors, 1);
    v.walked = calloc(tensors, sizeof *v.walked);
    v.kernel = calloc(tensors, sizeof *v.kernel);
    v.alone = calloc(tensors, 1);
    char *forced = calloc(tensors, 1), *leaf = calloc(tensors, 1);
    if (!v.seen || !v.readers || !v.in_reduce || !v.walked || !v.kernel || !v.alone || !forced ||
        !leaf) {
        status = kas_ir_no_memory();
        goto done;
    }
    do {
        KAS_TRY_GOTO(decide(ir, forced, &v), done);
    } while (limit_leaves(ir, forced, leaf, v.seen));
    kas_fuse_results(ir, v.readers);
    status = ir->status;
done:
    free(v.seen);
    free(v.readers);
    free(v.in_reduce);
    free(v.walked);
    free(v.kernel);
    free(v.alone);
    free(forced);
    free(leaf);
    return status;
}

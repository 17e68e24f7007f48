/* Takes the step `rfactor` (sequence.h): the turns of a reduction become rows of the block, each
 * with a sum of its own in shared memory. */
#include "jit/schedule/nest.h"

typedef struct factoring {
    const kas_ir *ir;
    const kas_nest *nest;
    kas_masks masks;
    int var, sums; /* sums: reductions over the variable */
    bool place;    /* one of them is an argument of a maximum */
    bool inside;   /* one of them stands inside another reduction */
} factoring;

static void see_sum(void *context, kas_ex e, const kas_ex_node *node)
{
    factoring *f = context;
    if (node->kind != KAS_EX_REDUCE)
        return;
    const kas_ex_node *body = kas_ex_get(f->ir, node->a[0]);
    f->inside |= body->kind == KAS_EX_REDUCE && body->var == f->var;
    if (node->var != f->var)
        return;
    f->sums++;
    f->place |= node->fn == KAS_FN_REDUCE_ARGMAX;
    f->inside |= kas_masks_ex(&f->masks, e) >> f->nest->loops != 0;
}

static kas_status look(const kas_ir *ir, const kas_nest *nest, int var, factoring *f)
{
    *f = (factoring){.ir = ir, .nest = nest, .var = var};
    KAS_TRY(kas_masks_init(&f->masks, ir, nest->value, nest->loops, nest->loop));
    const kas_status status = kas_ex_visit(ir, nest->value, see_sum, f);
    kas_masks_free(&f->masks);
    return status;
}

/* Returns why the turns of a reduction cannot have sums of their own, or NULL. */
static const char *why_not(const kas_ir *ir, const kas_nest *nest, int id, const factoring *f)
{
    if (f->sums == 0)
        return "only a reduction has parts";
    if (f->place)
        return "dependence S2 -> S2: of equal elements the first one's place is the result, so the "
               "search keeps its order";
    if (f->inside)
        return "dependence S2 -> S2: each turn of the reduction outside it uses its result; "
               "interchange them first";
    if (nest->state[id] != KAS_LOOP_OPEN || f->var == nest->turned)
        return "the reduction has its place already";
    if (nest->rows >= 0 || nest->factored >= 0)
        return "the rows of a block are a loop already";
    if (nest->row || nest->column >= 0 || nest->inner >= 0)
        return "the lanes are a row or a column, or hold a loop";
    return f->sums * kas_block_array_bytes(ir->var_size[f->var] * nest->lanes) > KAS_BLOCK_BYTES
               ? "the parts of a block do not fit into 48 KB of shared memory"
               : NULL;
}

kas_status kas_nest_rfactor(kas_ir *ir, kas_nest *nest, kas_step step)
{
    const int var = nest->var_of[step.loop];
    factoring f;
    KAS_TRY(look(ir, nest, var, &f));
    const char *why = why_not(ir, nest, step.loop, &f);
    if (why)
        return kas_nest_refuse(ir, nest, step, why);
    nest->state[step.loop] = KAS_LOOP_AROUND;
    nest->factored = var;
    nest->parts = ir->var_size[var];
    nest->part_words = (double)(f.sums * nest->parts * nest->lanes);
    return KAS_OK;
}

void kas_nest_count_parts(const kas_ir *ir, const kas_nest *n, double lanes, kas_effort *effort)
{
    enum { WORD = 4 };
    if (n->factored < 0)
        return;
    const double results = lanes * n->part_words / (double)n->lanes;
    const double times = ir->cpu ? 1 : n->block[1];
    effort->arithmetic += results * times;
    effort->loads += results * (1 + times);
    effort->sectors += results * (1 + times) * WORD;
}

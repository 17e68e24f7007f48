#include "host/space/guided.h"

#include <stdlib.h>

#include "host/space/pair_uses.h"
#include "host/space/primitive.h"
#include "host/space/split.h"

/* Dead ends of one try. More are rare, and a fresh try costs less than digging on. */
enum { MOST_DEAD_ENDS = 16 };

/* A split serves when every segment has at least one element at every target. */
static void add_split(kas_guided *d, kas_split split)
{
    for (int i = 0; i < d->growth->bindings; i++) {
        uint64_t size;
        if (!kas_dim_eval(&split.whole, &d->growth->binding[i], &size) ||
            (split.first ? size <= split.first : size % split.shares != 0))
            return;
    }
    d->split[d->splits++] = split;
}

/* Equal shares of the channels or of the image, and the first few channels (NAS-PTE unrolls 16). */
static void list_splits(kas_guided *d)
{
    static const kas_symbol cut[] = {KAS_SYM_C, KAS_SYM_H, KAS_SYM_W};
    for (int i = 0; i < 3; i++)
        for (uint8_t shares = 2; shares <= KAS_MAX_SHARES; shares++)
            add_split(d, (kas_split){.whole = kas_dim_symbol(cut[i]), .shares = shares});
    for (uint32_t first = 8; first <= 64; first *= 2)
        add_split(d, (kas_split){.whole = kas_dim_symbol(KAS_SYM_C), .first = first});
}

kas_status kas_guided_create(const kas_sample_options *options, const kas_target *targets,
                             int count, kas_growth *growth, kas_guided *out)
{
    *out = (kas_guided){.growth = growth};
    KAS_TRY(kas_guide_create(options, targets, count, growth, &out->guide));
    out->use = malloc(KAS_MAX_USES * sizeof *out->use);
    if (!out->use)
        return kas_fail(KAS_NO_MEMORY, "no memory to sample a kernel");
    out->numbers = kas_group_numbers(targets, count, out->number);
    list_splits(out);
    return KAS_OK;
}

void kas_guided_free(kas_guided *guided)
{
    kas_guide_free(&guided->guide);
    free(guided->use);
    guided->use = NULL;
}

static uint32_t below(kas_guided *d, int n)
{
    return kas_rng_below(&d->rng, (uint32_t)n);
}

void kas_guided_begin(kas_guided *d, uint64_t attempt)
{
    const kas_sample_options *o = d->guide.options;
    d->rng =
        kas_rng_make(o->seed ^ ((uint64_t)KAS_GUIDED_VERSION << 48), KAS_PURPOSE_SAMPLE, attempt);
    d->primitives = o->min_primitives + (int)below(d, o->max_primitives - o->min_primitives + 1);
}

/* Any of the values that the shapes and all sizes that hold the variable allow. */
static int draw_value(void *context, int var, const kas_value *const *value, int count)
{
    kas_guided *d = context;
    int allowed[KAS_MAX_SUBSTITUTIONS], found = 0;
    for (int i = 0; i < count; i++)
        if (value[i]->tiles && kas_growth_takes(d->growth, var, &value[i]->size))
            allowed[found++] = i;
    return found ? allowed[below(d, found)] : -1;
}

/* What proved useless in this step whatever the operation is. */
typedef struct fruitless {
    uint64_t kept;                 /* nodes whose shape, made a leaf once more, serves nothing */
    uint64_t tiled[KAS_MAX_NODES]; /* [lhs]: every rhs that it is not to be broadcast to */
    uint64_t multiplied[4][KAS_MAX_NODES]; /* [transpose][lhs]: nor multiplied by */
} fruitless;

/* Where it is noted that no broadcast or product of two shapes serves. */
static uint64_t *pair_note(fruitless *f, const kas_use *use)
{
    return use->op == KAS_OP_BMM ? &f->multiplied[use->transpose][use->in[0]]
                                 : &f->tiled[use->in[0]];
}

static bool is_fruitless(fruitless *f, const kas_use *use)
{
    if (kas_type_is_of_pairs(kas_type_of((kas_op)use->op)))
        return *pair_note(f, use) >> use->in[1] & 1;
    return kas_op_keeps_shape((kas_op)use->op) && (f->kept >> use->in[0] & 1);
}

/* The rest could not merge with a leaf of this shape. A value drawn on the way could be another. */
static void note_shape(const kas_growth *g, const kas_use *use, fruitless *f)
{
    if (kas_type_is_of_pairs(kas_type_of((kas_op)use->op)) && !g->step[g->kernel.nodes - 1].saved)
        *pair_note(f, use) |= (uint64_t)1 << use->in[1];
    if (kas_op_keeps_shape((kas_op)use->op))
        f->kept |= (uint64_t)1 << use->in[0];
}

/* Appends the use when the kernel can still be completed with it; when it is the last, the kernel
 * is complete. */
static bool try_use(kas_guided *d, const kas_use *use, fruitless *f)
{
    kas_growth *g = d->growth;
    if (!kas_growth_try(g, use, draw_value, d))
        return false;
    kas_reject why = kas_guide_admits(&d->guide);
    if (why == KAS_REJECT_NONE &&
        (g->kernel.nodes <= g->primitives || kas_growth_finish(g) == KAS_REJECT_NONE))
        return true;
    if (why == KAS_REJECT_OUTPUT)
        note_shape(g, use, f);
    if (why == KAS_REJECT_BUDGET || why == KAS_REJECT_SIZE)
        d->too_dear = why;
    kas_growth_undo(g);
    return false;
}

/* Any use of two operands, legal or not. */
static kas_use draw_pair(kas_guided *d, kas_type type)
{
    int nodes = d->growth->kernel.nodes;
    kas_use use = {.inputs = 2};
    use.in[0] = (uint8_t)below(d, nodes);
    if (type == KAS_TYPE_BMM) { /* also of a tensor with itself */
        use.op = KAS_OP_BMM;
        use.in[1] = (uint8_t)below(d, nodes);
        use.transpose = (uint8_t)below(d, KAS_TRANSPOSE_LHS + KAS_TRANSPOSE_RHS + 1);
        use.softmax = (uint8_t)below(d, 2);
        return use;
    }
    use.op = (uint8_t)(KAS_OP_ADD + below(d, KAS_OP_MAX - KAS_OP_ADD + 1));
    use.in[1] = (uint8_t)below(d, nodes - 1);
    use.in[1] += use.in[1] >= use.in[0];
    return use;
}

/* There are as many as pairs of nodes, and many of them serve: some are drawn before all are
 * listed, which changes the cost and not the distribution. */
static bool try_pairs(kas_guided *d, kas_type type, const kas_use_filter *filter, fruitless *f)
{
    enum { DRAWS = 24 };
    for (int n = 0; n < DRAWS && d->growth->kernel.nodes > 1; n++) {
        kas_use use = draw_pair(d, type);
        if (kas_pair_use_serves(d->growth, filter, &use) && !is_fruitless(f, &use) &&
            try_use(d, &use, f))
            return true;
    }
    return false;
}

static bool try_type(kas_guided *d, kas_type type, const kas_use_filter *filter, fruitless *f)
{
    const bool pairs = kas_type_is_of_pairs(type);
    if (pairs && try_pairs(d, type, filter, f))
        return true;
    int count = pairs ? kas_list_pair_uses(d->growth, type, filter, d->use)
                      : kas_list_uses(&d->growth->kernel, type, filter, d->use);
    while (count > 0) {
        uint32_t pick = below(d, count);
        if (!is_fruitless(f, &d->use[pick]) && try_use(d, &d->use[pick], f))
            return true;
        d->use[pick] = d->use[--count];
    }
    return false;
}

static int list_types(uint64_t ops, kas_type type[KAS_TYPE_COUNT])
{
    uint32_t found = 0;
    int count = 0;
    for (int op = KAS_OP_INPUT + 1; op < KAS_OP_COUNT; op++)
        if (ops & KAS_OP_BIT(op))
            found |= 1u << kas_type_of((kas_op)op);
    for (int t = 0; t < KAS_TYPE_COUNT; t++)
        if (found & 1u << t)
            type[count++] = (kas_type)t;
    return count;
}

static bool step(kas_guided *d)
{
    kas_use_filter filter;
    kas_type type[KAS_TYPE_COUNT];
    fruitless f = {0};
    kas_guide_next(&d->guide, &filter);
    for (int count = list_types(filter.ops, type); count > 0; count--) {
        uint32_t pick = below(d, count);
        if (try_type(d, type[pick], &filter, &f))
            return true;
        type[pick] = type[count - 1];
    }
    return false;
}

static void begin(kas_guided *d)
{
    kas_split split[KAS_MAX_SPLITS] = {0};
    uint32_t group = d->numbers ? d->number[below(d, d->numbers)] : 0;
    if (d->splits && (d->guide.filter.ops & KAS_OP_BIT(KAS_OP_SLICE)))
        split[0] = d->split[below(d, d->splits)];
    kas_growth_begin(d->growth, d->primitives, group, split);
    kas_guide_begin(&d->guide);
    d->too_dear = KAS_REJECT_DEAD_END;
}

kas_reject kas_guided_try(kas_guided *d)
{
    kas_growth *g = d->growth;
    int dead_ends = 0;
    begin(d);
    while (g->kernel.nodes <= g->primitives) {
        if (step(d))
            continue;
        if (++dead_ends > MOST_DEAD_ENDS || g->kernel.nodes == 1)
            return d->too_dear;
        for (int back = 0; back < dead_ends && g->kernel.nodes > 1; back++)
            kas_growth_undo(g);
    }
    return KAS_REJECT_NONE;
}

bool kas_guided_is_hopeless(const kas_guided *d)
{
    return d->growth->kernel.nodes == 1;
}

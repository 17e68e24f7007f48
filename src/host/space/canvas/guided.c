#include "host/space/canvas/guided.h"

#include <stdlib.h>

#include "host/space/canvas/merge.h"
#include "host/space/canvas/pair_ops.h"
#include "host/space/split.h"

/* The most dead ends of one try. After each of them the try begins again from the input: the
 * first primitives are cheap to draw, and they are the cause of a dead end more often than the
 * last ones. */
enum { MOST_DEAD_ENDS = 16 };

/* The most types drawn in one step before it counts as a dead end. Where four types had no
 * candidate few have one, and looking for it costs more than beginning again. Every type with a
 * candidate is still as likely as any other. */
enum { MOST_TYPES = 4 };

/* Adds a split if every segment has at least one element at every target. */
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

/* Lists equal shares of the channels or of the image, and the first few channels
 * (NAS-PTE unrolls 16). */
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
    out->use = malloc(KAS_MAX_CANDIDATE_OPS * sizeof *out->use);
    out->pair = malloc(KAS_MAX_NODES * KAS_MAX_NODES * sizeof *out->pair);
    if (!out->use || !out->pair)
        return kas_fail(KAS_NO_MEMORY, "no memory to sample a kernel");
    out->numbers = kas_group_numbers(targets, count, out->number);
    list_splits(out);
    return KAS_OK;
}

void kas_guided_free(kas_guided *guided)
{
    kas_guide_free(&guided->guide);
    free(guided->use);
    free(guided->pair);
    guided->use = NULL;
    guided->pair = NULL;
}

void kas_guided_begin(kas_guided *d, uint64_t attempt)
{
    const kas_sample_options *o = d->guide.options;
    d->rng =
        kas_rng_make(o->seed ^ ((uint64_t)KAS_GUIDED_VERSION << 48), KAS_PURPOSE_SAMPLE, attempt);
    d->primitives =
        o->min_primitives + kas_guided_below(d, o->max_primitives - o->min_primitives + 1);
}

/* For the last primitive the value must also be one with which RHS becomes [C, H, W]. */
int kas_guided_values(const kas_guided *d, const kas_candidate_op *use, int var,
                      const kas_value *const *value, int count, int allowed[KAS_MAX_SUBSTITUTIONS])
{
    const kas_growth *g = d->growth;
    const uint32_t lhs = g->known[use->in[0]].number, rhs = g->known[use->in[1]].number;
    const bool last = g->kernel.nodes == g->primitives;
    int found = 0;
    for (int i = 0; i < count; i++)
        if (value[i]->tiles && (last ? kas_takes_last(g, lhs, rhs, &value[i]->size)
                                     : kas_growth_takes(g, var, &value[i]->size)))
            allowed[found++] = i;
    return found;
}

int kas_guided_draw_value(void *context, const kas_candidate_op *use, int var,
                          const kas_value *const *value, int count)
{
    kas_guided *d = context;
    int allowed[KAS_MAX_SUBSTITUTIONS];
    const int found = kas_guided_values(d, use, var, value, count, allowed);
    return found ? allowed[kas_guided_below(d, found)] : -1;
}

/* Returns the same class for all candidate operations that give their one operand the same shape,
 * whatever else they do; -1 where nothing is known. */
static int shape_class(const kas_candidate_op *use)
{
    if (kas_op_has_trait(use->op, KAS_TRAIT_SAME_SHAPE))
        return 0;
    switch (use->op) {
    case KAS_OP_FC:
    case KAS_OP_CONV:
        return 1;
    case KAS_OP_FOLD_AVG:
    case KAS_OP_FOLD_MAX:
        return 2 + use->dim;
    case KAS_OP_UNFOLD:
        return 2 + KAS_MAX_DIMS + (use->axes - 1) * (KAS_MAX_WINDOW + 1) + use->kernel;
    default:
        return -1;
    }
}
enum { SHAPE_CLASSES = 2 + KAS_MAX_DIMS + 3 * (KAS_MAX_WINDOW + 1) };

/* What proved useless in this step. */
typedef struct fruitless {
    /* Nodes, as bits, from which nothing can be made with a result of this shape */
    uint64_t shape[SHAPE_CLASSES];
} fruitless;

static bool is_fruitless(const fruitless *f, const kas_candidate_op *use)
{
    const int class_ = shape_class(use);
    return class_ >= 0 && (f->shape[class_] >> use->in[0] & 1);
}

typedef enum outcome {
    APPENDED,
    REFUSED,
    REFUSED_SHAPE /* any other candidate that gives this shape is refused too */
} outcome;

/* Returns whether the candidate needs an integer size that other candidates with the same result do
 * not need. */
static bool divides_more(const kas_candidate_op *use)
{
    return use->grouped || use->op == KAS_OP_SHUFFLE;
}

/* Appends the candidate if the kernel can still be completed with it, or is complete. */
static outcome try_use(kas_guided *d, const kas_candidate_op *use)
{
    kas_growth *g = d->growth;
    if (!kas_growth_try(g, use, kas_guided_draw_value, d))
        return g->refused == KAS_REFUSED_OUTPUT ? REFUSED_SHAPE : REFUSED;
    /* Another value could have given another shape. */
    const outcome for_shape = g->step[g->kernel.nodes - 1].saved ? REFUSED : REFUSED_SHAPE;
    const kas_reject admitted = kas_guide_admits(&d->guide);
    kas_reject why = admitted;
    if (why == KAS_REJECT_NONE && g->kernel.nodes > g->primitives)
        why = kas_guide_finish(&d->guide);
    if (why == KAS_REJECT_NONE)
        return APPENDED;
    if (why == KAS_REJECT_BUDGET || why == KAS_REJECT_SIZE)
        d->too_dear = why;
    kas_growth_undo(g);
    return admitted == KAS_REJECT_OUTPUT || (admitted == KAS_REJECT_VARIABLES && !divides_more(use))
               ? for_shape
               : REFUSED;
}

/* Tries candidates of two operands. There are as many as pairs of nodes, so a pair is looked at
 * only when it is drawn. Every candidate that serves is as likely as any other. */
static bool try_pairs(kas_guided *d, kas_type type, const kas_op_filter *filter)
{
    const int uses = kas_ops_of_a_pair(type);
    int count = kas_list_pairs(d->growth, type, filter, d->pair);
    while (count > 0) {
        kas_operands *pair = &d->pair[kas_guided_below(d, count)];
        const int k = kas_guided_below(d, uses);
        if (!pair->asked)
            pair->serve = kas_pair_serves(d->growth, type, filter, pair);
        pair->asked = true;
        if (!pair->serve)
            *pair = d->pair[--count];
        else if (pair->serve >> k & 1) {
            const kas_candidate_op use = kas_pair_op(type, pair, k);
            const outcome how = try_use(d, &use);
            if (how == APPENDED)
                return true;
            pair->serve &= (uint8_t) ~(1u << k);
            /* All broadcasts of the pair give this shape, and the product with and
             * without softmax does */
            if (how == REFUSED_SHAPE)
                pair->serve &= (uint8_t) ~(type == KAS_TYPE_BMM ? 3u << (k & ~1) : UINT8_MAX);
        }
    }
    return false;
}

static bool try_type(kas_guided *d, kas_type type, const kas_op_filter *filter, fruitless *f)
{
    if (kas_type_is_of_pairs(type))
        return try_pairs(d, type, filter);
    int count = kas_list_candidate_ops(&d->growth->kernel, type, filter, d->use);
    while (count > 0) {
        const int pick = kas_guided_below(d, count);
        const kas_candidate_op *use = &d->use[pick];
        const outcome how = is_fruitless(f, use) ? REFUSED : try_use(d, use);
        if (how == APPENDED)
            return true;
        if (how == REFUSED_SHAPE && shape_class(use) >= 0)
            f->shape[shape_class(use)] |= (uint64_t)1 << use->in[0];
        d->use[pick] = d->use[--count];
    }
    return false;
}

static int list_types(const kas_guide *guide, uint64_t ops, kas_type type[KAS_TYPE_COUNT])
{
    int count = 0;
    for (int t = 0; t < KAS_TYPE_COUNT; t++)
        if (ops & guide->of_type[t])
            type[count++] = (kas_type)t;
    return count;
}

/* Returns how many types to draw. The first step draws from all of them: if none has a candidate,
 * no attempt will ever succeed. */
static int types_to_draw(const kas_guided *d, int count)
{
    return d->growth->kernel.nodes > 1 && count > MOST_TYPES ? MOST_TYPES : count;
}

static bool step(kas_guided *d)
{
    kas_op_filter filter;
    kas_type type[KAS_TYPE_COUNT];
    fruitless f = {0};
    kas_guide_next(&d->guide, &filter);
    int count = list_types(&d->guide, filter.ops, type);
    for (int left = types_to_draw(d, count); left > 0; left--, count--) {
        const int pick = kas_guided_below(d, count);
        if (try_type(d, type[pick], &filter, &f))
            return true;
        type[pick] = type[count - 1];
    }
    return false;
}

/* Returns whether kernels have a way of cutting: the options allow slices, and something can be
 * cut. */
static bool cuts(const kas_guided *d)
{
    return d->splits && (d->guide.filter.ops & KAS_OP_BIT(KAS_OP_SLICE));
}

void kas_guided_begin_kernel(kas_guided *d, int primitives, uint32_t group, int split)
{
    kas_split cut[KAS_MAX_SPLITS] = {0};
    if (group == 0 && d->numbers)
        group = d->number[kas_guided_below(d, d->numbers)];
    if (cuts(d))
        cut[0] = d->split[split < 0 ? kas_guided_below(d, d->splits) : split];
    kas_growth_begin(d->growth, primitives, group, cut);
    kas_guide_begin(&d->guide);
}

kas_reject kas_guided_complete(kas_guided *d)
{
    kas_growth *g = d->growth;
    const int given = g->kernel.nodes;
    int dead_ends = 0;
    d->too_dear = KAS_REJECT_DEAD_END;
    while (g->kernel.nodes <= g->primitives) {
        if (step(d))
            continue;
        if (++dead_ends > MOST_DEAD_ENDS || g->kernel.nodes == 1)
            return d->too_dear;
        while (g->kernel.nodes > given)
            kas_growth_undo(g);
    }
    return KAS_REJECT_NONE;
}

kas_reject kas_guided_try(kas_guided *d)
{
    kas_guided_begin_kernel(d, d->primitives, 0, -1);
    return kas_guided_complete(d);
}

bool kas_guided_is_hopeless(const kas_guided *d)
{
    return d->growth->kernel.nodes == 1;
}

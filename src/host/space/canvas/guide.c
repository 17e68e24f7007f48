#include "host/space/canvas/guide.h"

#include "host/core/integer.h"
#include "host/space/canvas/merge.h"
#include "host/space/canvas/prune.h"
#include "host/space/primitive.h"

enum { IMPOSSIBLE = KAS_MAX_NODES };

static void set_window(kas_guide *guide, const kas_target *targets, int count)
{
    for (int t = 0; t < count; t++) {
        if (targets[t].kernel_h > guide->kernel[0])
            guide->kernel[0] = targets[t].kernel_h;
        if (targets[t].kernel_w > guide->kernel[1])
            guide->kernel[1] = targets[t].kernel_w;
    }
}

/* Drops a window that every target's convolution has: it is K_H x K_W by another name. */
static void drop_equal_window(kas_guide *guide, const kas_target *targets, int count)
{
    uint32_t k = guide->kernel[0];
    bool equal = guide->filter.kernels & 1;
    for (int t = 0; t < count; t++)
        equal = equal && targets[t].kernel_h == k && targets[t].kernel_w == k;
    if (equal && k <= KAS_MAX_WINDOW) {
        guide->equal_window = (int)k;
        guide->filter.kernels &= (uint16_t) ~(1u << k);
    }
}

/* Returns the numbers of a list as bits, or `usual` when the list is empty. */
static uint16_t bits_of(const kas_int_list *list, int zero, uint16_t usual)
{
    uint16_t bits = 0;
    for (int i = 0; i < list->count; i++)
        bits |= (uint16_t)(1u << (list->value[i] + zero));
    return list->count ? bits : usual;
}

static void set_operations(kas_guide *guide)
{
    const kas_sample_options *o = guide->options;
    const uint16_t kernels = 1 << 0 | 1 << 3 | 1 << 5 | 1 << 7;
    const uint16_t dilations = 1 << 1 | 1 << 2 | 1 << 3;
    const uint16_t shifts = (1 << (2 * KAS_MAX_SHIFT + 1)) - 1 - (1 << KAS_MAX_SHIFT);
    guide->filter = (kas_op_filter){.skip_illegal = true,
                                    .ops = kas_sample_operations(o),
                                    .kernels = bits_of(&o->kernels, 0, kernels),
                                    .dilations = bits_of(&o->dilations, 0, dilations),
                                    .shifts = bits_of(&o->shifts, KAS_MAX_SHIFT, shifts)};
    for (int op = KAS_OP_INPUT + 1; op < KAS_OP_COUNT; op++) {
        if (kas_op_has_weight((kas_op)op))
            guide->weighted |= KAS_OP_BIT(op);
        if (kas_op_has_trait(op, KAS_TRAIT_SPATIAL))
            guide->spatial |= KAS_OP_BIT(op);
        if (kas_op_get((kas_op)op)->inputs > 1)
            guide->merging |= KAS_OP_BIT(op);
        if (kas_op_has_trait(op, KAS_TRAIT_VARIADIC))
            guide->variadic |= KAS_OP_BIT(op);
        guide->of_type[kas_type_of(op)] |= KAS_OP_BIT(op);
        guide->class_[op] =
            (uint8_t)(kas_op_has_weight((kas_op)op) | kas_op_has_trait(op, KAS_TRAIT_SPATIAL) << 1);
    }
}

kas_status kas_guide_create(const kas_sample_options *options, const kas_target *targets, int count,
                            kas_growth *growth, kas_guide *out)
{
    *out = (kas_guide){.options = options, .growth = growth};
    KAS_TRY(kas_cost_bound_create(options, targets, count, growth, &out->bound));
    set_operations(out);
    set_window(out, targets, count);
    drop_equal_window(out, targets, count);
    out->min_receptive = options->min_receptive;
    if (out->min_receptive == 0) /* one neighbour, where a convolution sees one */
        out->min_receptive = out->kernel[0] > 1 || out->kernel[1] > 1 ? 2 : 1;
    return KAS_OK;
}

void kas_guide_free(kas_guide *guide)
{
    kas_cost_bound_free(&guide->bound);
}

void kas_guide_begin(kas_guide *guide)
{
    kas_cost_bound_begin(&guide->bound);
    guide->note[0] = (kas_guide_note){.missing = guide->options->required, .seen = 1};
}

/* ---- primitives that are still needed ---- */

static uint64_t leaves_of(const kas_growth *g)
{
    uint64_t leaves = 0;
    for (int i = 0; i < g->kernel.nodes; i++)
        leaves |= (uint64_t)!g->read[i] << i;
    return leaves;
}

/* Returns how many primitives that merge nothing must still come: the required ones, then as many
 * more as weights and a look at a neighbour need. */
static int others_needed(const kas_guide *guide, uint64_t missing, int weighted, bool sees)
{
    uint64_t single = missing & ~guide->merging;
    int weights =
        guide->options->min_weighted - weighted - kas_count_bits(single & guide->weighted);
    int looks = !sees && !(single & guide->spatial);
    bool both = guide->filter.ops & guide->weighted & guide->spatial;
    weights = weights > 0 ? weights : 0;
    int rest = both && looks < weights ? weights : both && looks ? looks : weights + looks;
    return kas_count_bits(single) + rest;
}

/* Returns the most leaves that one merge can take: two, or all segments of the kernel's split. */
static int most_merged(const kas_growth *g)
{
    return g->segments > 2 ? g->segments : 2;
}

/* Returns how many leaves at least must be among the operands of one of `ops`, so that the
 * primitives left can merge the others. The operations must be alike. */
static int leaves_needed(const kas_guide *guide, uint64_t ops)
{
    const kas_growth *g = guide->growth;
    const kas_guide_note *note = &guide->note[g->kernel.nodes - 1];
    uint64_t missing = note->missing & ~ops;
    int left = g->primitives - g->kernel.nodes; /* primitives after this one */
    int weighted = note->weighted + ((guide->weighted & ops) != 0);
    bool sees = note->seen >= guide->min_receptive || (guide->spatial & ops);
    int others = others_needed(guide, missing, weighted, sees);
    if (weighted > guide->options->max_weighted ||
        others + kas_count_bits(missing & guide->merging) > left)
        return IMPOSSIBLE;
    int by_width = g->width + 1 - guide->options->max_width;
    int by_left = g->width - (left - others) * (most_merged(g) - 1);
    /* kas_growth_try takes every primitive left to merge two leaves at most */
    int by_topology = g->width - left;
    by_left = by_left > by_topology ? by_left : by_topology;
    return by_width > by_left ? by_width : by_left;
}

/* Returns whether only merges are left after an operation of one operand. No merge takes a window's
 * dims in again, and they are no part of C. */
static bool leaves_only_merges(const kas_growth *g)
{
    return g->primitives - g->kernel.nodes <= g->width - 1;
}

/* Returns the operations that may have `count` operands. */
static uint64_t with_operands(const kas_guide *guide, int count)
{
    if (count <= 1)
        return UINT64_MAX;
    if (count <= 2)
        return guide->merging;
    return count <= KAS_MAX_INPUTS ? guide->variadic : 0;
}

/* Returns the leaves that operations which are alike need, and drops those that cannot have
 * so many operands. */
static int set_needs(const kas_guide *guide, uint64_t ops, kas_op_filter *out)
{
    const int needed = ops ? leaves_needed(guide, ops) : 0;
    out->ops &= ~ops | with_operands(guide, needed);
    return needed;
}

void kas_guide_next(const kas_guide *guide, kas_op_filter *out)
{
    const kas_growth *g = guide->growth;
    *out = guide->filter;
    out->leaves = leaves_of(g);
    if (g->kernel.nodes == g->primitives) /* redundant as the output, see kas_growth_finish */
        out->ops &=
            ~(KAS_OP_BIT(KAS_OP_GROUP) | KAS_OP_BIT(KAS_OP_GROUP_ALL) | KAS_OP_BIT(KAS_OP_NEG));
    if (leaves_only_merges(g))
        out->ops &= ~KAS_OP_BIT(KAS_OP_UNFOLD);
    const uint64_t missing = guide->note[g->kernel.nodes - 1].missing;
    int8_t needed[4];
    for (int c = 0; c < 4; c++) /* with or without a weight, spatial or not */
        needed[c] =
            (int8_t)set_needs(guide,
                              out->ops & ~missing & (c & 1 ? guide->weighted : ~guide->weighted) &
                                  (c & 2 ? guide->spatial : ~guide->spatial),
                              out);
    for (int op = 0; op < KAS_OP_COUNT; op++)
        out->leaves_needed[op] = needed[guide->class_[op]];
    for (uint64_t ops = out->ops & missing; ops; ops &= ops - 1)
        out->leaves_needed[__builtin_ctzll(ops)] = (int8_t)set_needs(guide, ops & -ops, out);
}

/* Returns how many merges the leaves need at least. All leaves but one must go. If no leaf has both
 * H and W, one more merge is needed: a broadcast to an inner node, which gives them back. The last
 * product can do that too; where bmm is allowed, kas_leaves_could_merge looks at it when only
 * merges are left. */
static int merges_needed(const kas_growth *g)
{
    bool image = g->ops & KAS_OP_BIT(KAS_OP_BMM);
    for (int i = 0; i < g->kernel.nodes && !image; i++) {
        const kas_shape *shape = &g->kernel.node[i].shape;
        image = !g->read[i] && kas_shape_has(shape, KAS_AXIS_H) && kas_shape_has(shape, KAS_AXIS_W);
    }
    const int most = most_merged(g);
    return (g->width - 1 + most - 2) / (most - 1) + !image;
}

/* ---- all of it ---- */

/* Checks a complete kernel, whether it was grown or given. What the output sees counts here, not
 * what some node saw. */
static kas_reject check_output(const kas_guide *guide, const kas_guide_note *note)
{
    const kas_growth *g = guide->growth;
    const uint32_t last = g->known[g->kernel.nodes - 1].number;
    if (!kas_could_be_output(g, last))
        return kas_pairs_facts(g->pairs, last)->output == KAS_OUTPUT_NEVER ? KAS_REJECT_OUTPUT
                                                                           : KAS_REJECT_VARIABLES;
    if (note->missing)
        return KAS_REJECT_DEAD_END;
    if (note->weighted < guide->options->min_weighted)
        return KAS_REJECT_NO_WEIGHT;
    if (note->weighted > guide->options->max_weighted)
        return KAS_REJECT_DEAD_END;
    return kas_receptive_field_across(&note->view) < guide->min_receptive ? KAS_REJECT_ONE_PIXEL
                                                                          : KAS_REJECT_NONE;
}

static kas_reject check_needs(const kas_guide *guide, const kas_guide_note *note)
{
    const kas_growth *g = guide->growth;
    int left = g->primitives + 1 - g->kernel.nodes;
    bool sees = note->seen >= guide->min_receptive;
    if (left == 0)
        return check_output(guide, note);
    int others = others_needed(guide, note->missing, note->weighted, sees);
    int merges = merges_needed(g);
    if (merges > left)
        return KAS_REJECT_OUTPUT;
    if (others + merges > left)
        return KAS_REJECT_DEAD_END;
    const kas_reject why = left == g->width - 1 ? kas_leaves_could_merge(g) : KAS_REJECT_NONE;
    if (why != KAS_REJECT_NONE)
        return why;
    return kas_growth_only_leaves_are_read(g) && kas_prune_groups(&g->kernel, leaves_of(g))
               ? KAS_REJECT_REDUNDANT
               : KAS_REJECT_NONE;
}

static kas_receptive_field view_of(const kas_guide *guide, int i)
{
    const kas_kernel *kernel = &guide->growth->kernel;
    const kas_receptive_field *operands[KAS_MAX_INPUTS];
    for (int k = 0; k < kernel->node[i].inputs; k++)
        operands[k] = &guide->note[kernel->node[i].in[k]].view;
    return kas_receptive_field_of(kernel, i, operands, guide->kernel);
}

kas_reject kas_guide_admits(kas_guide *guide)
{
    const kas_growth *g = guide->growth;
    int i = g->kernel.nodes - 1;
    uint64_t bit = KAS_OP_BIT(g->kernel.node[i].op);
    const kas_guide_note *before = &guide->note[i - 1];
    kas_guide_note *note = &guide->note[i];
    note->missing = before->missing & ~bit;
    note->weighted = before->weighted + ((guide->weighted & bit) != 0);
    note->view = view_of(guide, i);
    int across = kas_receptive_field_across(&note->view);
    note->seen = across > before->seen ? across : before->seen;
    kas_reject why = check_needs(guide, note);
    if (why != KAS_REJECT_NONE || i == g->primitives)
        return why;
    return kas_cost_bound_count(&guide->bound);
}

kas_reject kas_guide_finish(kas_guide *guide)
{
    kas_reject why = kas_growth_finish(guide->growth);
    return why != KAS_REJECT_NONE ? why : kas_cost_bound_finish(&guide->bound);
}

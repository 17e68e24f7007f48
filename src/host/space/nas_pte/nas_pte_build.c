/* Makes the kernel of a transformed convolution. */
#include <string.h>

#include "host/space/nas_pte/nas_pte_tree.h"
#include "host/space/split.h"

enum { CHANNELS, ROWS, COLUMNS, AXES, MOST_CUTS = 16 }; /* dims of every [c, h, w] */

/* A part of the input. It is sliced when it is needed, so what nobody reads is never made. */
typedef struct view {
    int cuts;
    struct {
        uint8_t dim, split, segment;
    } cut[MOST_CUTS];
} view;

/* What a part works on: the input it reads, and the input's own values at the output's place. */
typedef struct place {
    view read, keep;
    kas_dim reads; /* channels */
    kas_dim size[AXES];
} place;

/* ---- nodes ----------------------------------------------------------------------------------- */

static bool same_node(const kas_node *a, const kas_node *b)
{
    return a->op == b->op && memcmp(a->in, b->in, sizeof a->in) == 0 && a->dim == b->dim &&
           a->axes == b->axes && a->symbol == b->symbol && a->split == b->split &&
           a->segment == b->segment;
}

/* Returns the node's number; one without weights that is there already is used again. */
static int append(kas_kernel *k, kas_node node)
{
    for (int i = 0; i < k->nodes && node.op != KAS_OP_FC; i++)
        if (same_node(&k->node[i], &node))
            return i;
    if (k->nodes == KAS_MAX_NODES) {
        kas_fail(KAS_ILLEGAL, "a kernel has at most %d nodes", KAS_MAX_NODES);
        return -1;
    }
    k->node[k->nodes++] = node;
    return kas_node_infer(k, k->nodes - 1) == KAS_OK ? k->nodes - 1 : -1;
}

static int unary(kas_kernel *k, kas_op op, int in, kas_node node)
{
    if (in < 0)
        return -1;
    node.op = (uint8_t)op;
    node.inputs = 1;
    node.in[0] = (uint8_t)in;
    return append(k, node);
}

static int concat(kas_kernel *k, const int *in, int dim, int split)
{
    kas_node node = {.op = KAS_OP_CONCAT, .dim = (int8_t)dim, .split = (uint8_t)split};
    node.inputs = (uint8_t)kas_split_segments(&k->split[split]);
    for (int i = 0; i < node.inputs; i++) {
        if (in[i] < 0)
            return -1;
        node.in[i] = (uint8_t)in[i];
    }
    return append(k, node);
}

/* The kernel's split of `whole`, made when it has none. */
static int split_of(kas_kernel *k, const kas_dim *whole, int shares, int first)
{
    for (int s = 0; s < KAS_MAX_SPLITS; s++) {
        kas_split *split = &k->split[s];
        if (split->whole.num == 0)
            *split =
                (kas_split){.whole = *whole, .shares = (uint8_t)shares, .first = (uint32_t)first};
        if (kas_dim_equal(&split->whole, whole) && split->shares == shares &&
            split->first == (uint32_t)first)
            return s;
    }
    kas_fail(KAS_ILLEGAL, "a kernel has at most %d splits", KAS_MAX_SPLITS);
    return -1;
}

static int group_symbol(kas_kernel *k, uint32_t groups)
{
    for (int g = 0; g < KAS_MAX_GROUPS; g++) {
        if (k->group_value[g] == 0)
            k->group_value[g] = groups;
        if (k->group_value[g] == groups)
            return g;
    }
    kas_fail(KAS_ILLEGAL, "a kernel has at most %d group numbers", KAS_MAX_GROUPS);
    return -1;
}

/* ---- views ----------------------------------------------------------------------------------- */

static view part_of(const view *v, int dim, int split, int segment)
{
    view out = *v;
    if (out.cuts < MOST_CUTS) {
        out.cut[out.cuts].dim = (uint8_t)dim;
        out.cut[out.cuts].split = (uint8_t)split;
        out.cut[out.cuts].segment = (uint8_t)segment;
    }
    out.cuts++;
    return out;
}

static int make_view(kas_kernel *k, const view *v)
{
    int node = 0;
    if (v->cuts > MOST_CUTS) {
        kas_fail(KAS_ILLEGAL, "a part is cut more than %d times", MOST_CUTS);
        return -1;
    }
    for (int i = 0; i < v->cuts && node >= 0; i++)
        node = unary(k, KAS_OP_SLICE, node,
                     (kas_node){.dim = (int8_t)v->cut[i].dim,
                                .split = v->cut[i].split,
                                .segment = v->cut[i].segment});
    return node;
}

/* The place that segment `segment` of a split along `dim` leaves. A band is read where it is made;
 * channels are read whole, unless the split is of those too. */
static bool narrow(kas_kernel *k, const place *p, int dim, int split, int segment, bool reads_too,
                   place *out)
{
    *out = *p;
    out->keep = part_of(&p->keep, dim, split, segment);
    if (reads_too)
        out->read = part_of(&p->read, dim, split, segment);
    if (!kas_split_segment(k, split, segment, &out->size[dim]))
        return false;
    if (reads_too && dim == CHANNELS)
        out->reads = out->size[CHANNELS];
    return true;
}

/* ---- a leaf ---------------------------------------------------------------------------------- */

static int convolution(kas_kernel *k, const kas_pte_part *leaf, const view *read,
                       const kas_dim *outputs)
{
    int x = make_view(k, read);
    if (leaf->depthwise) {
        x = unary(k, KAS_OP_GROUP_ALL, x, (kas_node){0});
    } else if (leaf->group) {
        const int symbol = group_symbol(k, leaf->group);
        x = symbol < 0 ? -1 : unary(k, KAS_OP_GROUP, x, (kas_node){.symbol = (uint8_t)symbol});
    }
    x = unary(k, KAS_OP_UNFOLD, x, (kas_node){.axes = KAS_AXIS_H | KAS_AXIS_W});
    return unary(k, KAS_OP_FC, x,
                 (kas_node){.grouped = leaf->depthwise || leaf->group, .out = *outputs});
}

/* Joins segment 0, made here, with the input's own values behind it. */
static int fill_up(kas_kernel *k, int first, const place *p, int dim, int split)
{
    int in[KAS_MAX_INPUTS] = {first};
    for (int s = 1; s < kas_split_segments(&k->split[split]); s++) {
        const view rest = part_of(&p->keep, dim, split, s);
        in[s] = make_view(k, &rest);
    }
    return first < 0 ? -1 : concat(k, in, dim, split);
}

/* Outputs that are computed, and the channels that a bottleneck leaves as they are. */
static int channels_of_leaf(kas_kernel *k, const kas_pte_part *leaf, const place *p)
{
    kas_dim outputs = p->size[CHANNELS];
    view read = p->read;
    int split = -1;
    if (leaf->in) {
        const int inputs = split_of(k, &p->reads, leaf->in, 0);
        if (inputs < 0)
            return -1;
        read = part_of(&read, CHANNELS, inputs, 0);
    }
    if (leaf->out) {
        split = split_of(k, &p->size[CHANNELS], leaf->out, 0);
        if (split < 0 || !kas_split_segment(k, split, 0, &outputs))
            return -1;
    }
    const int y = convolution(k, leaf, &read, &outputs);
    return split < 0 ? y : fill_up(k, y, p, CHANNELS, split);
}

static int build_leaf(kas_kernel *k, const kas_pte_part *leaf, const place *p)
{
    place rows, corner;
    if (!leaf->space)
        return channels_of_leaf(k, leaf, p);
    const int by_row = split_of(k, &p->size[ROWS], leaf->space, 0);
    const int by_column = split_of(k, &p->size[COLUMNS], leaf->space, 0);
    if (by_row < 0 || by_column < 0 || !narrow(k, p, ROWS, by_row, 0, true, &rows) ||
        !narrow(k, &rows, COLUMNS, by_column, 0, true, &corner))
        return -1;
    const int y = channels_of_leaf(k, leaf, &corner);
    return fill_up(k, fill_up(k, y, &rows, COLUMNS, by_column), p, ROWS, by_row);
}

/* ---- the tree -------------------------------------------------------------------------------- */

static int build_part(kas_kernel *k, const kas_pte_tree *tree, int i, const place *p)
{
    const kas_pte_part *part = &tree->part[i];
    if (part->cut == KAS_PTE_LEAF)
        return build_leaf(k, part, p);
    const int dim = part->cut == KAS_PTE_BANDS_H   ? ROWS
                    : part->cut == KAS_PTE_BANDS_W ? COLUMNS
                                                   : CHANNELS;
    const bool unroll = part->cut == KAS_PTE_UNROLL;
    const int split =
        split_of(k, &p->size[dim], unroll ? 0 : part->factor, unroll ? part->factor : 0);
    int in[KAS_MAX_INPUTS];
    if (split < 0)
        return -1;
    for (int c = 0; c < part->children; c++) {
        place inner; /* the unrolled outputs read all channels, those behind them the others */
        if (!narrow(k, p, dim, split, c, dim != CHANNELS || (unroll && c == 1), &inner))
            return -1;
        in[c] = build_part(k, tree, part->first + c, &inner);
        if (in[c] < 0)
            return -1;
    }
    return concat(k, in, dim, split);
}

static kas_status apply(const kas_pte_sequence *sequence, kas_pte_tree *tree)
{
    kas_pte_begin(tree);
    for (int s = 0; s < sequence->steps; s++) {
        const kas_pte_step *step = &sequence->step[s];
        const char *name = kas_pte_kind_name((kas_pte_kind)step->kind);
        const int part = kas_pte_find_leaf(tree, step->leaf);
        if (part < 0)
            return kas_fail(KAS_ILLEGAL, "step %d, %s: there is no leaf %d of %d", s, name,
                            step->leaf, kas_pte_leaves(tree));
        const char *misfit = kas_pte_misfit(tree, part, (kas_pte_kind)step->kind);
        if (misfit)
            return kas_fail(KAS_ILLEGAL, "step %d, %s of leaf %d: %s", s, name, step->leaf, misfit);
        kas_pte_change(tree, part, (kas_pte_kind)step->kind, step->factor);
    }
    return KAS_OK;
}

kas_status kas_pte_is_redundant(const kas_pte_sequence *sequence, bool *redundant)
{
    kas_pte_tree tree;
    KAS_TRY(apply(sequence, &tree));
    *redundant = kas_pte_has_idle_cut(&tree);
    return KAS_OK;
}

kas_status kas_pte_kernel(const kas_pte_sequence *sequence, kas_kernel *out)
{
    kas_pte_tree tree;
    KAS_TRY(apply(sequence, &tree));
    const kas_dim c = kas_dim_symbol(KAS_SYM_C);
    const place whole = {.reads = c,
                         .size = {c, kas_dim_symbol(KAS_SYM_H), kas_dim_symbol(KAS_SYM_W)}};
    memset(out, 0, sizeof *out);
    if (append(out, (kas_node){.op = KAS_OP_INPUT}) < 0 || build_part(out, &tree, 0, &whole) < 0)
        return kas_fail_context(KAS_ILLEGAL, "sequence of %d transformations", sequence->steps);
    return kas_kernel_infer(out);
}

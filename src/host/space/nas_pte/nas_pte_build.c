/* Makes the kernel of a transformed convolution. */
#include <string.h>

#include "host/space/append.h"
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

static int unary(kas_kernel *k, kas_op op, int in, kas_node node)
{
    if (in < 0)
        return -1;
    node.op = (uint8_t)op;
    node.inputs = 1;
    node.in[0] = (uint8_t)in;
    return kas_append_node(k, &node);
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
    return kas_append_node(k, &node);
}

/* A split of which a bottleneck takes segment 0: the first of n parts. As many shares as one
 * concatenation joins are the form that such kernels always had. */
static int first_part(kas_kernel *k, const kas_dim *whole, uint16_t parts)
{
    kas_split split = {.whole = *whole};
    if (parts <= KAS_MAX_SHARES)
        split.shares = (uint8_t)parts;
    else
        split.part = parts;
    return kas_append_split(k, &split);
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
    const uint32_t groups = kas_pte_groups(leaf);
    const int axes = (leaf->one_row ? 0 : KAS_AXIS_H) | (leaf->one_column ? 0 : KAS_AXIS_W);
    if (leaf->depthwise) {
        x = unary(k, KAS_OP_GROUP_ALL, x, (kas_node){0});
    } else if (groups > 1) {
        const int symbol = kas_append_group(k, groups);
        x = symbol < 0 ? -1 : unary(k, KAS_OP_GROUP, x, (kas_node){.symbol = (uint8_t)symbol});
    }
    if (axes)
        x = unary(k, KAS_OP_UNFOLD, x, (kas_node){.axes = (uint8_t)axes});
    return unary(k, KAS_OP_FC, x,
                 (kas_node){.grouped = leaf->depthwise || groups > 1, .out = *outputs});
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
        const int inputs = first_part(k, &p->reads, leaf->in);
        if (inputs < 0)
            return -1;
        read = part_of(&read, CHANNELS, inputs, 0);
    }
    if (leaf->out) {
        split = first_part(k, &p->size[CHANNELS], leaf->out);
        if (split < 0 || !kas_split_segment(k, split, 0, &outputs))
            return -1;
    }
    const int y = convolution(k, leaf, &read, &outputs);
    return split < 0 ? y : fill_up(k, y, p, CHANNELS, split);
}

/* The same for rows (dim ROWS) and columns. */
static int pixels_of_leaf(kas_kernel *k, const kas_pte_part *leaf, const place *p, int dim)
{
    const uint16_t parts = dim == ROWS ? leaf->rows : leaf->columns;
    place first = *p;
    int split = -1;
    if (parts) {
        split = first_part(k, &p->size[dim], parts);
        if (split < 0 || !narrow(k, p, dim, split, 0, true, &first))
            return -1;
    }
    const int y =
        dim == ROWS ? pixels_of_leaf(k, leaf, &first, COLUMNS) : channels_of_leaf(k, leaf, &first);
    return split < 0 ? y : fill_up(k, y, p, dim, split);
}

/* ---- the tree -------------------------------------------------------------------------------- */

/* Lets the place of a band read one slice of its channels. */
static bool slice_inputs(kas_kernel *k, const place *whole, int slices, int slice, place *band)
{
    const int split =
        kas_append_split(k, &(kas_split){.whole = whole->reads, .shares = (uint8_t)slices});
    if (split < 0)
        return false;
    band->read = part_of(&band->read, CHANNELS, split, slice);
    return kas_split_segment(k, split, slice, &band->reads);
}

static int build_part(kas_kernel *k, const kas_pte_tree *tree, int i, const place *p)
{
    const kas_pte_part *part = &tree->part[i];
    if (part->cut == KAS_PTE_LEAF)
        return pixels_of_leaf(k, part, p, ROWS);
    const bool rows = part->cut == KAS_PTE_BANDS_H || part->cut == KAS_PTE_GROUP_H;
    const bool columns = part->cut == KAS_PTE_BANDS_W || part->cut == KAS_PTE_GROUP_W;
    const bool unroll = part->cut == KAS_PTE_UNROLL;
    const bool slices = part->cut == KAS_PTE_GROUP_H || part->cut == KAS_PTE_GROUP_W;
    const int dim = rows ? ROWS : columns ? COLUMNS : CHANNELS;
    kas_split cut = {.whole = p->size[dim], .shares = unroll ? 0 : (uint8_t)part->factor};
    cut.first = unroll ? part->factor : 0;
    const int split = kas_append_split(k, &cut);
    int in[KAS_MAX_INPUTS];
    if (split < 0)
        return -1;
    for (int c = 0; c < part->children; c++) {
        place inner; /* the unrolled outputs read all channels, those behind them the others */
        if (!narrow(k, p, dim, split, c, dim != CHANNELS || (unroll && c == 1), &inner) ||
            (slices && !slice_inputs(k, p, part->factor, c, &inner)))
            return -1;
        in[c] = build_part(k, tree, part->first + c, &inner);
        if (in[c] < 0)
            return -1;
    }
    return concat(k, in, dim, split);
}

/* Applies the steps. Returns KAS_ILLEGAL, and names the step, when one does not fit. */
static kas_status apply(const kas_pte_sequence *sequence, kas_pte_tree *tree)
{
    kas_pte_begin(tree, &(kas_pte_sizes){.groups = sequence->groups});
    for (int s = 0; s < sequence->steps; s++) {
        const kas_pte_step *step = &sequence->step[s];
        const char *name = kas_pte_kind_name((kas_pte_kind)step->kind);
        const int part = kas_pte_find_leaf(tree, step->leaf);
        if (part < 0)
            return kas_fail(KAS_ILLEGAL, "step %d, %s: there is no leaf %d of %d", s, name,
                            step->leaf, kas_pte_leaves(tree));
        const char *misfit = kas_pte_misfit(tree, part, step);
        if (misfit)
            return kas_fail(KAS_ILLEGAL, "step %d, %s of leaf %d: %s", s, name, step->leaf, misfit);
        kas_pte_change(tree, part, step);
    }
    return KAS_OK;
}

kas_status kas_pte_check_program(const kas_pte_sequence *sequence)
{
    kas_pte_tree tree;
    KAS_TRY(apply(sequence, &tree));
    for (int s = 0; s < sequence->steps; s++) {
        const kas_pte_kind kind = (kas_pte_kind)sequence->step[s].kind;
        if (kas_pte_lost(kind))
            return kas_fail(KAS_ILLEGAL,
                            "the sequence is a neural transformation by step %d, %s: %s", s,
                            kas_pte_kind_name(kind), kas_pte_lost(kind));
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
    out->stride_inside = sequence->stride_inside;
    if (kas_append_node(out, &(kas_node){.op = KAS_OP_INPUT}) < 0 ||
        build_part(out, &tree, 0, &whole) < 0)
        return kas_fail_context(KAS_ILLEGAL, "sequence of %d transformations", sequence->steps);
    return kas_kernel_infer(out);
}

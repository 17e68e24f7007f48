#include "host/space/nas_pte/nas_pte_tree.h"

#include <string.h>

#include "host/core/gcd.h"

void kas_pte_begin(kas_pte_tree *tree, const kas_pte_sizes *sizes)
{
    kas_pte_part *root = &tree->part[0];
    const uint32_t groups = sizes->groups > 1 ? sizes->groups : 0;
    *tree = (kas_pte_tree){.parts = 1, .sizes = *sizes};
    *root = (kas_pte_part){.cut = KAS_PTE_LEAF,
                           .square = true,
                           .tile = {(uint16_t)groups},
                           .makes = sizes->c,
                           .reads = sizes->c,
                           .h = sizes->h,
                           .w = sizes->w};
    for (uint8_t loop = 0; loop <= KAS_PTE_KW; loop++) {
        if (loop == KAS_PTE_H && groups)
            root->order[root->loops++] = KAS_PTE_G;
        root->order[root->loops++] = loop;
    }
}

/* Finds a leaf in the order of the output's parts; *left counts the leaves that are still
 * to be passed. */
static int find(const kas_pte_tree *tree, int i, int *left)
{
    const kas_pte_part *part = &tree->part[i];
    if (part->cut == KAS_PTE_LEAF)
        return part->fixed || (*left)-- > 0 ? -1 : i;
    for (int k = 0; k < part->children; k++) {
        const int found = find(tree, part->first + k, left);
        if (found >= 0)
            return found;
    }
    return -1;
}

int kas_pte_find_leaf(const kas_pte_tree *tree, int leaf)
{
    return find(tree, 0, &leaf);
}

int kas_pte_leaves(const kas_pte_tree *tree)
{
    int leaves = 0;
    for (int i = 0; i < tree->parts; i++)
        leaves += tree->part[i].cut == KAS_PTE_LEAF && !tree->part[i].fixed;
    return leaves;
}

uint32_t kas_pte_groups(const kas_pte_part *leaf)
{
    uint32_t groups = 1;
    for (int t = 0; t < KAS_PTE_MAX_TILES; t++)
        groups *= leaf->tile[t] ? leaf->tile[t] : 1;
    return groups;
}

/* ---- kinds ----------------------------------------------------------------------------------- */

enum { MOST_FACTOR = 4096 };
#define WINDOW_LOST "no output depends on the other rows or columns of the window"

static const struct {
    const char *name;
    uint16_t least, most;
    const char *lost;
} kinds[KAS_PTE_KINDS] = {
    [KAS_PTE_GROUP] = {"group", 2, MOST_FACTOR,
                       "the outputs of a group no longer depend on the inputs of the others"},
    [KAS_PTE_DEPTHWISE] = {"depthwise", 1, 1,
                           "an output channel no longer depends on the other input channels"},
    [KAS_PTE_BOTTLENECK_IN] = {"bottleneck_in", 2, MOST_FACTOR,
                               "no output depends on the input channels behind the first ones"},
    [KAS_PTE_BOTTLENECK_OUT] = {"bottleneck_out", 2, MOST_FACTOR,
                                "the output channels behind the first ones are not computed"},
    [KAS_PTE_BOTTLENECK_SPACE] = {"bottleneck_space", 2, MOST_FACTOR,
                                  "the pixels behind the first rows and columns are not computed"},
    [KAS_PTE_SPLIT] = {"split", 2, KAS_MAX_INPUTS, NULL},
    [KAS_PTE_UNROLL] = {"unroll", 1, MOST_FACTOR,
                        "the outputs that are not unrolled no longer depend on the first inputs"},
    [KAS_PTE_BANDS_H] = {"bands_h", 2, KAS_MAX_INPUTS,
                         "a band has weights of its own and reads no row of another one"},
    [KAS_PTE_BANDS_W] = {"bands_w", 2, KAS_MAX_INPUTS,
                         "a band has weights of its own and reads no column of another one"},
    [KAS_PTE_BOTTLENECK_H] = {"bottleneck_h", 2, MOST_FACTOR,
                              "the rows behind the first ones are not computed"},
    [KAS_PTE_BOTTLENECK_W] = {"bottleneck_w", 2, MOST_FACTOR,
                              "the columns behind the first ones are not computed"},
    [KAS_PTE_BOTTLENECK_KH] = {"bottleneck_kh", 3, KAS_MAX_WINDOW, WINDOW_LOST},
    [KAS_PTE_BOTTLENECK_KW] = {"bottleneck_kw", 3, KAS_MAX_WINDOW, WINDOW_LOST},
    [KAS_PTE_GROUP_H] = {"group_h", 2, KAS_MAX_INPUTS,
                         "the rows of a band depend on one slice of the input channels"},
    [KAS_PTE_GROUP_W] = {"group_w", 2, KAS_MAX_INPUTS,
                         "the columns of a band depend on one slice of the input channels"},
    [KAS_PTE_INTERCHANGE] = {"interchange", 1, 1, NULL},
    [KAS_PTE_FUSE] = {"fuse", 1, 1, NULL},
    [KAS_PTE_BOTTLENECK] = {"bottleneck", 2, MOST_FACTOR,
                            "the iterations behind the first part of the loop are not executed"},
};

const char *kas_pte_kind_name(kas_pte_kind kind)
{
    return kinds[kind].name;
}

const char *kas_pte_lost(kas_pte_kind kind)
{
    return kinds[kind].lost;
}

void kas_pte_factor_range(kas_pte_kind kind, int *least, int *most)
{
    *least = kinds[kind].least;
    *most = kinds[kind].most;
}

const char *kas_pte_loop_name(kas_pte_loop loop)
{
    static const char *const names[KAS_PTE_LOOPS] = {"co", "ci", "h",  "w", "kh",
                                                     "kw", "g",  "g2", "g3"};
    return names[loop];
}

/* Returns the size that a factor must divide; 0: it is not known, or there is none. */
static uint32_t divided_by(const kas_pte_tree *tree, const kas_pte_part *leaf, kas_pte_kind kind)
{
    switch (kind) {
    case KAS_PTE_GROUP:
        return kas_gcd(leaf->makes, leaf->reads) / kas_pte_groups(leaf);
    case KAS_PTE_BOTTLENECK_IN:
        return leaf->reads;
    case KAS_PTE_BOTTLENECK_OUT:
    case KAS_PTE_SPLIT:
        return leaf->makes;
    case KAS_PTE_BOTTLENECK_SPACE:
        return kas_gcd(leaf->h, leaf->w);
    case KAS_PTE_BANDS_H:
    case KAS_PTE_BOTTLENECK_H:
        return leaf->h;
    case KAS_PTE_BANDS_W:
    case KAS_PTE_BOTTLENECK_W:
        return leaf->w;
    case KAS_PTE_BOTTLENECK_KH:
        return tree->sizes.kernel_h;
    case KAS_PTE_BOTTLENECK_KW:
        return tree->sizes.kernel_w;
    case KAS_PTE_GROUP_H:
        return kas_gcd(leaf->h, leaf->reads);
    case KAS_PTE_GROUP_W:
        return kas_gcd(leaf->w, leaf->reads);
    default:
        return 0;
    }
}

int kas_pte_factors(const kas_pte_tree *tree, int i, kas_pte_kind kind,
                    uint16_t out[KAS_PTE_MOST_FACTORS])
{
    static const uint16_t unrolled[] = {8, 16, 32};
    const uint32_t size = divided_by(tree, &tree->part[i], kind);
    int count = 0;
    if (kind == KAS_PTE_DEPTHWISE)
        out[count++] = 1;
    for (int k = 0; kind == KAS_PTE_UNROLL && k < 3; k++)
        out[count++] = unrolled[k];
    /* A group for each channel is depthwise */
    const uint32_t most = kind == KAS_PTE_GROUP && size ? size - 1 : kinds[kind].most;
    for (uint32_t f = kinds[kind].least; count < KAS_PTE_MOST_FACTORS && f <= most && f <= size;
         f++)
        if (f > 1 && size % f == 0)
            out[count++] = (uint16_t)f;
    return count;
}

/* ---- whether a step fits --------------------------------------------------------------------- */

static int place_of(const kas_pte_part *leaf, int loop)
{
    for (int p = 0; p < leaf->loops; p++)
        if (leaf->order[p] == loop)
            return p;
    return -1;
}

/* Returns the kind of step that tiles the two outermost loops together, or -1. */
static int grouping(const kas_pte_part *leaf)
{
    const int a = leaf->order[0], b = leaf->order[1], other = a == KAS_PTE_CI ? b : a;
    if (a != KAS_PTE_CI && b != KAS_PTE_CI)
        return -1;
    return other == KAS_PTE_CO  ? KAS_PTE_GROUP
           : other == KAS_PTE_H ? KAS_PTE_GROUP_H
           : other == KAS_PTE_W ? KAS_PTE_GROUP_W
                                : -1;
}

/* Returns the kind of bottleneck of the outermost loop, or -1. */
static int bottleneck(const kas_pte_part *leaf)
{
    static const int8_t kind[KAS_PTE_LOOPS] = {KAS_PTE_BOTTLENECK_OUT,
                                               KAS_PTE_BOTTLENECK_IN,
                                               KAS_PTE_BOTTLENECK_H,
                                               KAS_PTE_BOTTLENECK_W,
                                               KAS_PTE_BOTTLENECK_KH,
                                               KAS_PTE_BOTTLENECK_KW,
                                               -1,
                                               -1,
                                               -1};
    return kind[leaf->order[0]];
}

/* Says why `group` cannot tile the two outermost loops. */
static const char *no_grouping(const kas_pte_part *leaf)
{
    const int a = leaf->order[0], b = leaf->order[1];
    if (a >= KAS_PTE_G || b >= KAS_PTE_G)
        return "one of its two outermost loops is a group loop, which numbers outputs and inputs "
               "alike: the outputs of the other tiles would have no write, and the next layer "
               "depends on them; interchange(g,ci) brings co and ci outermost";
    if (a == KAS_PTE_CI || b == KAS_PTE_CI)
        return "its two outermost loops are both summed over: a slice of the channels would be "
               "read in its own rows of the window, which no primitive does";
    return "none of its two outermost loops is ci: two loops over outputs, or one over outputs and "
           "one over the window, tiled together leave outputs without a write, and the next layer "
           "depends on them";
}

static const char *misfit_loops(const kas_pte_part *leaf, const kas_pte_step *step)
{
    const int a = place_of(leaf, step->loop[0]), b = place_of(leaf, step->loop[1]);
    if (a < 0 || b < 0)
        return "it has no such loop";
    if (a == b)
        return "it takes two loops";
    if (step->kind == KAS_PTE_INTERCHANGE)
        return NULL;
    if (step->loop[0] < KAS_PTE_G || step->loop[1] < KAS_PTE_G)
        return "only loops that number parts of the same channels can be one: c_i and the window "
               "carry the dependence of the sum from one iteration to the next, the others none";
    if (step->loop[1] != step->loop[0] + 1)
        return "the second loop must number the parts of the first one's parts (g, then g2)";
    return b == a + 1 ? NULL
                      : "the second loop must lie directly inside the first one: the iterations "
                        "between them depend on both; interchange brings it there";
}

static bool is_cut(kas_pte_kind kind)
{
    return kind == KAS_PTE_SPLIT || kind == KAS_PTE_UNROLL || kind == KAS_PTE_BANDS_H ||
           kind == KAS_PTE_BANDS_W || kind == KAS_PTE_GROUP_H || kind == KAS_PTE_GROUP_W;
}

static const char *misfit_channels(const kas_pte_part *leaf, kas_pte_kind kind)
{
    if (leaf->depthwise)
        return "a depthwise convolution has no loop left over channels";
    switch (kind) {
    case KAS_PTE_GROUP:
        if (grouping(leaf) != KAS_PTE_GROUP)
            return no_grouping(leaf);
        return leaf->tile[KAS_PTE_MAX_TILES - 1] ? "it has as many group loops as there can be"
                                                 : NULL;
    case KAS_PTE_GROUP_H:
    case KAS_PTE_GROUP_W:
        return leaf->in || leaf->tile[0] ? "its inputs are fewer already, or in groups" : NULL;
    case KAS_PTE_DEPTHWISE:
        if (leaf->tile[0])
            return "it is grouped already";
        return leaf->square && leaf->in == leaf->out
                   ? NULL
                   : "it does not read as many channels as it makes";
    case KAS_PTE_BOTTLENECK_IN:
        return leaf->in ? "its inputs are fewer already" : NULL;
    case KAS_PTE_BOTTLENECK_OUT:
        return leaf->out ? "its outputs are fewer already" : NULL;
    case KAS_PTE_UNROLL:
        return leaf->square && !leaf->in && !leaf->out
                   ? NULL
                   : "it does not read and make the same channels";
    default:
        return NULL;
    }
}

static const char *misfit(const kas_pte_tree *tree, const kas_pte_part *leaf, kas_pte_kind kind)
{
    if (is_cut(kind) && tree->parts > KAS_PTE_MAX_PARTS - KAS_MAX_INPUTS)
        return "the convolution has too many parts";
    switch (kind) {
    case KAS_PTE_BOTTLENECK_SPACE:
        return leaf->rows || leaf->columns ? "its pixels are fewer already" : NULL;
    case KAS_PTE_BOTTLENECK_H:
        return leaf->rows ? "its rows are fewer already" : NULL;
    case KAS_PTE_BOTTLENECK_W:
        return leaf->columns ? "its columns are fewer already" : NULL;
    case KAS_PTE_BOTTLENECK_KH:
        return leaf->one_row ? "its window has one row already" : NULL;
    case KAS_PTE_BOTTLENECK_KW:
        return leaf->one_column ? "its window has one column already" : NULL;
    case KAS_PTE_BANDS_H:
    case KAS_PTE_BANDS_W:
        return NULL;
    default:
        return misfit_channels(leaf, kind);
    }
}

/* Returns the kind that a step has at a leaf: a positional step is one of the others. -1: none. */
static int kind_at(const kas_pte_part *leaf, const kas_pte_step *step)
{
    const int found = step->kind == KAS_PTE_BOTTLENECK ? bottleneck(leaf)
                      : step->kind == KAS_PTE_GROUP    ? grouping(leaf)
                                                       : step->kind;
    return step->kind == KAS_PTE_GROUP && found < 0 ? KAS_PTE_GROUP : found;
}

const char *kas_pte_misfit(const kas_pte_tree *tree, int i, const kas_pte_step *step)
{
    const kas_pte_part *leaf = &tree->part[i];
    if (step->kind == KAS_PTE_INTERCHANGE || step->kind == KAS_PTE_FUSE)
        return misfit_loops(leaf, step);
    const int kind = kind_at(leaf, step);
    if (kind < 0 || kind == KAS_PTE_BOTTLENECK)
        return "its outermost loop numbers outputs and inputs alike; interchange brings co, ci, h, "
               "w, kh or kw outermost";
    if (step->factor < kinds[kind].least)
        return "the factor is less than 3, and a window of two rows or columns has no middle one";
    if (step->factor > kinds[kind].most)
        return "the factor is larger than the number of parts that can be joined again";
    if (kind == KAS_PTE_GROUP && kas_pte_groups(leaf) > UINT16_MAX / step->factor)
        return "its groups would be more than 65535";
    const char *why = misfit(tree, leaf, (kas_pte_kind)kind);
    const uint32_t size = divided_by(tree, leaf, (kas_pte_kind)kind);
    if (!why && size && size % step->factor != 0)
        return "the factor does not divide it";
    return why;
}

/* ---- changes --------------------------------------------------------------------------------- */

static void cut(kas_pte_tree *tree, int i, kas_pte_kind kind, uint16_t factor)
{
    kas_pte_part *part = &tree->part[i];
    kas_pte_part child = *part;
    const bool by_group = kind == KAS_PTE_GROUP_H || kind == KAS_PTE_GROUP_W;
    child.square = child.square && kind != KAS_PTE_SPLIT && !by_group;
    child.makes /= kind == KAS_PTE_SPLIT ? factor : 1;
    child.reads /= by_group ? factor : 1;
    child.h /= kind == KAS_PTE_BANDS_H || kind == KAS_PTE_GROUP_H ? factor : 1;
    child.w /= kind == KAS_PTE_BANDS_W || kind == KAS_PTE_GROUP_W ? factor : 1;
    part->cut = (uint8_t)kind;
    part->factor = factor;
    part->first = tree->parts;
    part->children = kind == KAS_PTE_UNROLL ? 2 : factor;
    if (kind == KAS_PTE_UNROLL)
        child.makes = child.reads = child.makes > factor ? child.makes - factor : 0;
    for (int k = 0; k < part->children; k++)
        tree->part[tree->parts++] = child;
    if (kind == KAS_PTE_UNROLL) {
        kas_pte_part *unrolled = &tree->part[part->first];
        *unrolled = child;
        unrolled->fixed = true;
        unrolled->depthwise = false;
        memset(unrolled->tile, 0, sizeof unrolled->tile);
    }
}

static void group(kas_pte_part *leaf, uint16_t factor)
{
    int t = 0;
    while (leaf->tile[t])
        t++;
    leaf->tile[t] = factor;
    memmove(leaf->order + 1, leaf->order, leaf->loops++);
    leaf->order[0] = (uint8_t)(KAS_PTE_G + t);
}

static void remove_loop(kas_pte_part *leaf, int loop)
{
    int to = 0;
    for (int p = 0; p < leaf->loops; p++)
        if (leaf->order[p] != loop)
            leaf->order[to++] = leaf->order[p];
    leaf->loops = (uint8_t)to;
}

/* Puts two group loops together; the loops behind them get the names before theirs. */
static void fuse(kas_pte_part *leaf, int a, int b)
{
    const int t = b - KAS_PTE_G;
    leaf->tile[a - KAS_PTE_G] = (uint16_t)(leaf->tile[a - KAS_PTE_G] * leaf->tile[t]);
    remove_loop(leaf, b);
    for (int p = 0; p < leaf->loops; p++)
        leaf->order[p] -= leaf->order[p] > b;
    for (int k = t; k < KAS_PTE_MAX_TILES; k++)
        leaf->tile[k] = k + 1 < KAS_PTE_MAX_TILES ? leaf->tile[k + 1] : 0;
}

/* The two loops over channels become one, in the place of the outer one. */
static void make_depthwise(kas_pte_part *leaf)
{
    const bool outer_ci = place_of(leaf, KAS_PTE_CI) < place_of(leaf, KAS_PTE_CO);
    leaf->depthwise = true;
    remove_loop(leaf, outer_ci ? KAS_PTE_CO : KAS_PTE_CI);
    for (int p = 0; p < leaf->loops; p++)
        if (leaf->order[p] == (outer_ci ? KAS_PTE_CI : KAS_PTE_CO))
            leaf->order[p] = KAS_PTE_G;
}

void kas_pte_change(kas_pte_tree *tree, int i, const kas_pte_step *step)
{
    kas_pte_part *leaf = &tree->part[i];
    const uint16_t factor = step->factor;
    const int kind = kind_at(leaf, step);
    switch (kind) {
    case KAS_PTE_INTERCHANGE: {
        const int a = place_of(leaf, step->loop[0]), b = place_of(leaf, step->loop[1]);
        leaf->order[a] = step->loop[1];
        leaf->order[b] = step->loop[0];
        return;
    }
    case KAS_PTE_FUSE:
        fuse(leaf, step->loop[0], step->loop[1]);
        return;
    case KAS_PTE_GROUP:
        group(leaf, factor);
        return;
    case KAS_PTE_DEPTHWISE:
        make_depthwise(leaf);
        return;
    case KAS_PTE_BOTTLENECK_IN:
        leaf->in = factor;
        return;
    case KAS_PTE_BOTTLENECK_OUT:
        leaf->out = factor;
        return;
    case KAS_PTE_BOTTLENECK_SPACE:
        leaf->rows = leaf->columns = factor;
        return;
    case KAS_PTE_BOTTLENECK_H:
        leaf->rows = factor;
        return;
    case KAS_PTE_BOTTLENECK_W:
        leaf->columns = factor;
        return;
    case KAS_PTE_BOTTLENECK_KH:
        leaf->one_row = true;
        return;
    case KAS_PTE_BOTTLENECK_KW:
        leaf->one_column = true;
        return;
    default:
        cut(tree, i, (kas_pte_kind)kind, factor);
    }
}

/* Returns whether a share is a map of the same values as the first share. Groups would differ: the
 * shares of a grouped convolution read all groups each. */
static bool maps_the_same(const kas_pte_part *share, const kas_pte_part *first)
{
    return !share->tile[0] && !share->out && share->in == first->in && share->rows == first->rows &&
           share->columns == first->columns && share->one_row == first->one_row &&
           share->one_column == first->one_column;
}

/* Returns whether two shares of one split are cut alike, into bands, and map the same values in
 * each band: every band is then one map. Splits inside of both leave the outputs in another
 * order. */
static bool shares_are_alike(const kas_pte_tree *tree, const kas_pte_part *share,
                             const kas_pte_part *first)
{
    if (share->cut != first->cut)
        return false;
    if (share->cut == KAS_PTE_LEAF)
        return maps_the_same(share, first);
    bool alike = share->cut != KAS_PTE_SPLIT && share->cut != KAS_PTE_UNROLL &&
                 share->factor == first->factor;
    for (int k = 0; alike && k < share->children; k++)
        alike =
            shares_are_alike(tree, &tree->part[share->first + k], &tree->part[first->first + k]);
    return alike;
}

static bool is_idle(const kas_pte_tree *tree, const kas_pte_part *split)
{
    bool alike = true;
    for (int k = 0; k < split->children; k++)
        alike = alike &&
                shares_are_alike(tree, &tree->part[split->first + k], &tree->part[split->first]);
    return alike;
}

bool kas_pte_has_idle_cut(const kas_pte_tree *tree)
{
    for (int i = 0; i < tree->parts; i++)
        if (tree->part[i].cut == KAS_PTE_SPLIT && is_idle(tree, &tree->part[i]))
            return true;
    return false;
}

#include "host/space/nas_pte/nas_pte_tree.h"

void kas_pte_begin(kas_pte_tree *tree)
{
    *tree = (kas_pte_tree){.parts = 1, .part = {{.cut = KAS_PTE_LEAF, .square = true}}};
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

static const struct {
    const char *name;
    int factors;
    uint8_t factor[4];
} kinds[KAS_PTE_KINDS] = {
    [KAS_PTE_GROUP] = {"group", 4, {2, 4, 8, 16}},
    [KAS_PTE_DEPTHWISE] = {"depthwise", 1, {1}},
    [KAS_PTE_BOTTLENECK_IN] = {"bottleneck_in", 2, {2, 4}},
    [KAS_PTE_BOTTLENECK_OUT] = {"bottleneck_out", 2, {2, 4}},
    [KAS_PTE_BOTTLENECK_SPACE] = {"bottleneck_space", 2, {2, 4}},
    [KAS_PTE_SPLIT] = {"split", 2, {2, 4}},
    [KAS_PTE_UNROLL] = {"unroll", 3, {8, 16, 32}},
    [KAS_PTE_BANDS_H] = {"bands_h", 2, {2, 4}},
    [KAS_PTE_BANDS_W] = {"bands_w", 2, {2, 4}},
};

const uint8_t *kas_pte_factors(kas_pte_kind kind, int *count)
{
    *count = kinds[kind].factors;
    return kinds[kind].factor;
}

const char *kas_pte_kind_name(kas_pte_kind kind)
{
    return kinds[kind].name;
}

const char *kas_pte_misfit(const kas_pte_tree *tree, int i, kas_pte_kind kind)
{
    const kas_pte_part *leaf = &tree->part[i];
    const bool bands = kind == KAS_PTE_BANDS_H || kind == KAS_PTE_BANDS_W;
    const bool cuts = bands || kind == KAS_PTE_SPLIT || kind == KAS_PTE_UNROLL;
    if (cuts && tree->parts > KAS_PTE_MAX_PARTS - 4)
        return "the convolution has too many parts";
    if (kind == KAS_PTE_BOTTLENECK_SPACE)
        return leaf->space ? "its pixels are fewer already" : NULL;
    if (bands)
        return NULL;
    if (leaf->depthwise)
        return "a depthwise convolution has no loop left over channels";
    switch (kind) {
    case KAS_PTE_GROUP:
        return leaf->group ? "it is grouped already" : NULL;
    case KAS_PTE_DEPTHWISE:
        if (leaf->group)
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

static void cut(kas_pte_tree *tree, int i, kas_pte_kind kind, int factor)
{
    kas_pte_part *part = &tree->part[i];
    kas_pte_part child = *part;
    child.square = child.square && kind != KAS_PTE_SPLIT;
    part->cut = (uint8_t)kind;
    part->factor = (uint8_t)factor;
    part->first = tree->parts;
    part->children = kind == KAS_PTE_UNROLL ? 2 : factor;
    for (int k = 0; k < part->children; k++)
        tree->part[tree->parts++] = child;
    if (kind == KAS_PTE_UNROLL)
        tree->part[part->first] =
            (kas_pte_part){.cut = KAS_PTE_LEAF, .fixed = true, .space = child.space};
}

void kas_pte_change(kas_pte_tree *tree, int i, kas_pte_kind kind, int factor)
{
    kas_pte_part *leaf = &tree->part[i];
    switch (kind) {
    case KAS_PTE_GROUP:
        leaf->group = (uint8_t)factor;
        return;
    case KAS_PTE_DEPTHWISE:
        leaf->depthwise = true;
        return;
    case KAS_PTE_BOTTLENECK_IN:
        leaf->in = (uint8_t)factor;
        return;
    case KAS_PTE_BOTTLENECK_OUT:
        leaf->out = (uint8_t)factor;
        return;
    case KAS_PTE_BOTTLENECK_SPACE:
        leaf->space = (uint8_t)factor;
        return;
    default:
        cut(tree, i, kind, factor);
    }
}

/* Groups would differ: the shares of a grouped convolution read all groups each. */
static bool shares_are_one(const kas_pte_tree *tree, const kas_pte_part *part)
{
    const kas_pte_part *first = &tree->part[part->first];
    for (int k = 0; k < part->children; k++) {
        const kas_pte_part *share = first + k;
        if (share->cut != KAS_PTE_LEAF || share->group || share->out || share->in != first->in ||
            share->space != first->space)
            return false;
    }
    return true;
}

bool kas_pte_has_idle_cut(const kas_pte_tree *tree)
{
    for (int i = 0; i < tree->parts; i++)
        if (tree->part[i].cut == KAS_PTE_SPLIT && shares_are_one(tree, &tree->part[i]))
            return true;
    return false;
}

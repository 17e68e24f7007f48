/* The parts of a convolution while a sequence of transformations is applied. Internal to
 * nas_pte*.c.
 *
 * A tree: what is cut has the parts as children; a leaf is a convolution with what was done to it.
 * Parts begin with what was done before the cut. */
#ifndef KAS_SPACE_NAS_PTE_NAS_PTE_TREE_H
#define KAS_SPACE_NAS_PTE_NAS_PTE_TREE_H

#include "host/space/nas_pte/nas_pte.h"

enum { KAS_PTE_LEAF = KAS_PTE_KINDS, KAS_PTE_MAX_PARTS = 64 };

typedef struct kas_pte_part {
    uint8_t cut;    /* KAS_PTE_SPLIT, _UNROLL, _BANDS_H or _BANDS_W; KAS_PTE_LEAF: none */
    uint8_t factor; /* of the cut */
    int first, children;
    /* of a leaf; 0 = not done */
    uint8_t group, in, out, space;
    bool depthwise, fixed; /* fixed: the unrolled outputs, which no step changes any more */
    bool square;           /* reads as many channels as it makes, bottlenecks aside */
} kas_pte_part;

typedef struct kas_pte_tree {
    int parts;
    kas_pte_part part[KAS_PTE_MAX_PARTS]; /* [0] is the root */
} kas_pte_tree;

void kas_pte_begin(kas_pte_tree *tree);
int kas_pte_leaves(const kas_pte_tree *tree);
/* The part that is leaf number `leaf`, -1 = there is none. */
int kas_pte_find_leaf(const kas_pte_tree *tree, int leaf);

/* Factors that a kind can have; *count of them. */
const uint8_t *kas_pte_factors(kas_pte_kind kind, int *count);
const char *kas_pte_kind_name(kas_pte_kind kind);

/* NULL when the step fits part `i`, a leaf; else why not. */
const char *kas_pte_misfit(const kas_pte_tree *tree, int i, kas_pte_kind kind);
/* The step fits. */
void kas_pte_change(kas_pte_tree *tree, int i, kas_pte_kind kind, int factor);

/* Is there a split whose shares are maps of the same values, so that together they are one map? */
bool kas_pte_has_idle_cut(const kas_pte_tree *tree);

#endif

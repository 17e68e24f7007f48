/* The parts of a convolution while a sequence of transformations is applied, as a tree: a part that
 * is cut has the results as children; a leaf is a convolution with the steps that were applied to
 * it. Children begin with the steps of the part that was cut. Internal to nas_pte*.c. */
#ifndef KAS_SPACE_NAS_PTE_NAS_PTE_TREE_H
#define KAS_SPACE_NAS_PTE_NAS_PTE_TREE_H

#include "host/space/nas_pte/nas_pte.h"

enum { KAS_PTE_LEAF = KAS_PTE_KINDS, KAS_PTE_MAX_PARTS = 64 };

typedef struct kas_pte_part {
    uint8_t cut;    /* KAS_PTE_SPLIT, _UNROLL, _BANDS_H or _BANDS_W; KAS_PTE_LEAF: none */
    uint8_t factor; /* factor of the cut */
    int first, children;
    /* Factors of the steps applied to a leaf; 0 = not applied */
    uint8_t group, in, out, space;
    bool depthwise, fixed; /* fixed: the unrolled outputs, which no later step changes */
    bool square;           /* reads as many channels as it makes, bottlenecks not counted */
} kas_pte_part;

typedef struct kas_pte_tree {
    int parts;
    kas_pte_part part[KAS_PTE_MAX_PARTS]; /* [0] is the root */
} kas_pte_tree;

/* Begins with the whole convolution as the only leaf. */
void kas_pte_begin(kas_pte_tree *tree);
/* Returns the number of leaves that steps may still change. */
int kas_pte_leaves(const kas_pte_tree *tree);
/* Returns the part that is leaf number `leaf`, or -1. */
int kas_pte_find_leaf(const kas_pte_tree *tree, int leaf);

/* Returns the factors that a kind can have, *count of them. */
const uint8_t *kas_pte_factors(kas_pte_kind kind, int *count);
const char *kas_pte_kind_name(kas_pte_kind kind);

/* Returns NULL when a step of this kind fits part `i`, a leaf; else why it does not. */
const char *kas_pte_misfit(const kas_pte_tree *tree, int i, kas_pte_kind kind);
/* Applies a step, which must fit, to part `i`. */
void kas_pte_change(kas_pte_tree *tree, int i, kas_pte_kind kind, int factor);

/* Returns whether there is a split whose shares are maps of the same values, so that together they
 * are one map. */
bool kas_pte_has_idle_cut(const kas_pte_tree *tree);

#endif

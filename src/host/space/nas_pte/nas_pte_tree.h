/* The parts of a convolution while a sequence of transformations is applied, as a tree: a part that
 * is cut has the results as children; a leaf is a loop nest with the steps that were applied to it.
 * Children begin with the steps of the part that was cut. Internal to nas_pte*.c. */
#ifndef KAS_SPACE_NAS_PTE_NAS_PTE_TREE_H
#define KAS_SPACE_NAS_PTE_NAS_PTE_TREE_H

#include "host/space/nas_pte/nas_pte.h"

enum { KAS_PTE_LEAF = KAS_PTE_KINDS, KAS_PTE_MAX_PARTS = 64, KAS_PTE_MAX_TILES = 3 };

typedef struct kas_pte_part {
    uint8_t cut; /* KAS_PTE_SPLIT, _UNROLL, _BANDS_H, _BANDS_W, _GROUP_H or _GROUP_W; KAS_PTE_LEAF:
                    none */
    uint16_t factor; /* of the cut */
    int first, children;
    /* A leaf: its loops from the outermost to the innermost */
    uint8_t loops, order[KAS_PTE_LOOPS];
    uint16_t tile[KAS_PTE_MAX_TILES]; /* of loops g, g2, g3; 0 = there is none */
    /* Factors of bottlenecks: c_i, c_o, h, w; of the window: whether one row or column is left;
     * 0 = not applied */
    uint16_t in, out, rows, columns;
    bool one_row, one_column;
    bool depthwise, fixed; /* fixed: the unrolled outputs, which no later step changes */
    bool square;           /* reads as many channels as it makes, bottlenecks not counted */
    /* Channels that it makes and reads, rows and columns, before its bottlenecks; 0 = not known */
    uint32_t makes, reads, h, w;
} kas_pte_part;

typedef struct kas_pte_tree {
    int parts;
    kas_pte_sizes sizes;
    kas_pte_part part[KAS_PTE_MAX_PARTS]; /* [0] is the root */
} kas_pte_tree;

/* Begins with the whole convolution as the only leaf. Sizes of 0 are not known. */
void kas_pte_begin(kas_pte_tree *tree, const kas_pte_sizes *sizes);
/* Returns the number of leaves that steps may still change. */
int kas_pte_leaves(const kas_pte_tree *tree);
/* Returns the part that is leaf number `leaf`, or -1. */
int kas_pte_find_leaf(const kas_pte_tree *tree, int leaf);

/* Returns the number of groups of a leaf: the product of its tiles, 1 without any. */
uint32_t kas_pte_groups(const kas_pte_part *leaf);

const char *kas_pte_kind_name(kas_pte_kind kind);
const char *kas_pte_loop_name(kas_pte_loop loop);
/* Gets the least and greatest factor that a step of this kind can have; 1 and 1: it has none. */
void kas_pte_factor_range(kas_pte_kind kind, int *least, int *most);
/* Lists the factors from which one is drawn for part `i`, a leaf; returns their number. */
enum { KAS_PTE_MOST_FACTORS = 128 };
int kas_pte_factors(const kas_pte_tree *tree, int i, kas_pte_kind kind,
                    uint16_t out[KAS_PTE_MOST_FACTORS]);

/* Returns NULL when a step fits part `i`, a leaf; else why it does not. */
const char *kas_pte_misfit(const kas_pte_tree *tree, int i, const kas_pte_step *step);
/* Applies a step, which must fit, to part `i`. */
void kas_pte_change(kas_pte_tree *tree, int i, const kas_pte_step *step);

/* Returns whether there is a split whose shares are maps of the same values, so that together they
 * are one map. */
bool kas_pte_has_idle_cut(const kas_pte_tree *tree);

#endif

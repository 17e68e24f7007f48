/* The space of NAS-PTE: the convolution, changed by a sequence of program transformations.
 *
 * Source: Turner, Crowley, O'Boyle, "Neural Architecture Search as Program Transformation
 * Exploration" (ASPLOS 2021), sections 5 and 7.3. A sequence starts from the loop nest of the
 * convolution, [C_o, C_i, H, W, K_H, K_W]; every step changes the domain of one *leaf*, a
 * convolution over a part of it. The result is a kernel of the same primitives as any other (slice,
 * concat, group, unfold, fc), so everything behind the sampler is the same.
 *
 *   group(G)             C_o and C_i tiled together by G, one of the loops dropped: G groups
 *   depthwise            the case G = C_o = C_i
 *   bottleneck_in(B)     c_i < C_i/B: only the first C_i/B channels are read
 *   bottleneck_out(B)    c_o < C_o/B: only the first C_o/B outputs are computed
 *   bottleneck_space(B)  h < H/B, w < W/B: only those pixels are computed
 *   split(n)             C_o in n shares, each a leaf of its own, so later steps may differ there
 *   unroll(f)            the first f outputs become a full convolution of their own; the leaf that
 *                        is left reads and makes the other channels
 *   bands_h(n), bands_w(n)  the image in n bands, each a leaf with weights of its own
 *
 * The paper's sequences also have interchange and fuse between these steps, to bring a loop
 * outermost and back. A step here names its loop, so they are left out. The paper's networks go on
 * with fewer channels or pixels, but a kernel here must end in [C, H, W]: what a bottleneck does
 * not compute keeps the input's value there, as if the output had begun as a copy of the input. So
 * costs are exactly the paper's (equations 1 to 3), and no part of the output is empty. */
#ifndef KAS_SPACE_NAS_PTE_NAS_PTE_H
#define KAS_SPACE_NAS_PTE_NAS_PTE_H

#include "host/core/buf.h"
#include "host/core/random.h"
#include "host/space/kernel.h"

typedef enum kas_pte_kind {
    KAS_PTE_GROUP,
    KAS_PTE_DEPTHWISE,
    KAS_PTE_BOTTLENECK_IN,
    KAS_PTE_BOTTLENECK_OUT,
    KAS_PTE_BOTTLENECK_SPACE,
    KAS_PTE_SPLIT,
    KAS_PTE_UNROLL,
    KAS_PTE_BANDS_H,
    KAS_PTE_BANDS_W,
    KAS_PTE_KINDS
} kas_pte_kind;

typedef struct kas_pte_step {
    uint8_t kind; /* kas_pte_kind */
    uint8_t factor;
    uint8_t leaf; /* number of the leaf, in the order of the output's parts, from 0 */
} kas_pte_step;

/* The version is part of the key of random numbers and of a study; it is raised when a change
 * alters what is drawn. It starts at 100, because older studies keep the guided sampler's
 * version. */
enum { KAS_PTE_MAX_STEPS = 12, KAS_PTE_DRAWN_STEPS = 6, KAS_PTE_VERSION = 101 };

typedef struct kas_pte_sequence {
    int steps;
    kas_pte_step step[KAS_PTE_MAX_STEPS];
} kas_pte_sequence;

/* Makes the kernel of a sequence: inferred, not canonical. A sequence without steps gives the
 * convolution itself. Returns KAS_ILLEGAL, naming the step, when a step does not fit its leaf or
 * there is no such leaf, or when the kernel would need more nodes, splits or group numbers than
 * there are. */
kas_status kas_pte_kernel(const kas_pte_sequence *sequence, kas_kernel *out);

/* Reads steps in their order, "split(2) group(2) group(4)@1", where "@leaf" is left out for leaf 0;
 * or the name of one of the paper's sequences: "pte-1" (bands of rows), "pte-2" (unroll, then
 * group), "pte-3" (halves of the outputs in 2 and in 4 groups). The authors' code numbers them
 * differently. Returns KAS_BAD_INPUT with the word that is wrong. */
kas_status kas_pte_parse(const char *text, kas_pte_sequence *out);

/* Sets *redundant when some cut leaves parts that together are what was cut: a split into shares
 * that later steps do not tell apart is one convolution again. Returns KAS_ILLEGAL for a sequence
 * that does not fit. */
kas_status kas_pte_is_redundant(const kas_pte_sequence *sequence, bool *redundant);

/* Callback: whether a kernel has integer sizes within the limits at the layers for which
 * it is drawn. */
typedef struct kas_pte_fit {
    bool (*has_sizes)(void *context, const kas_kernel *kernel);
    void *context;
} kas_pte_fit;

/* Draws a random sequence and its kernel. The length is uniform in `least` (0 or 1) to
 * KAS_PTE_DRAWN_STEPS; for every step the leaf, the kind among those that fit the leaf, and the
 * factor are each uniform. A step after which the kernel has no room (nodes, splits, group numbers)
 * or no sizes (`fit`, NULL = not asked) is drawn again; when none is found the sequence ends early,
 * with `least` 0 perhaps before the first step. A redundant sequence is drawn again at its length.
 * Returns false when nothing came of it. `kernel` is not set when the sequence has no step. */
bool kas_pte_draw(kas_rng *rng, const kas_pte_fit *fit, int least, kas_pte_sequence *out,
                  kas_kernel *kernel);
/* Returns the random numbers of an attempt. */
kas_rng kas_pte_rng(uint64_t seed, uint64_t attempt);

#endif

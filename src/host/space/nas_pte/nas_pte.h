/* The space of NAS-PTE: the convolution, changed by a sequence of program transformations.
 *
 * Source: Turner, Crowley, O'Boyle, "Neural Architecture Search as Program Transformation
 * Exploration" (ASPLOS 2021), sections 5 and 7.3.  A sequence starts from the loop nest of the
 * convolution, [C_o, C_i, H, W, K_H, K_W]; every step changes the domain of one *leaf*, a
 * convolution over a part of it.  What comes out is a kernel of the same primitives as any other
 * (slice, concat, group, unfold, fc), so everything behind the sampler is the same.
 *
 *   group(G)             C_o and C_i tiled together by G, one of the loops dropped: G groups
 *   depthwise            the case G = C_o = C_i
 *   bottleneck_in(B)     c_i < C_i/B: only the first C_i/B channels are read
 *   bottleneck_out(B)    c_o < C_o/B: only the first C_o/B outputs are computed
 *   bottleneck_space(B)  h < H/B, w < W/B: only those pixels are computed
 *   split(n)             C_o in n shares, each a leaf of its own: steps behind differ between them
 *   unroll(f)            the first f outputs are a full convolution of their own; the leaf that is
 *                        left reads and makes the other channels
 *   bands_h(n), bands_w(n)  the image in n bands, each a leaf with weights of its own
 *
 * Interchange and fuse, which the paper's sequences have between these, bring a loop outermost and
 * back; a step here names its loop, so they are left out.  How a shape is restored: the paper's
 * networks go on with fewer channels or pixels, a kernel here must end in [C, H, W].  What a
 * bottleneck does not compute keeps the input's value there, as if the output had begun as a copy
 * of the input.  So costs are exactly the paper's (equations 1 to 3), and no part of the output is
 * empty. */
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
    uint8_t leaf; /* counted in the order of the output's parts, from 0 */
} kas_pte_step;

/* The version is part of the key of random numbers and of a study: raised when a change alters what
 * is drawn. From 100, because studies of before version 100 keep the guided sampler's version. */
enum { KAS_PTE_MAX_STEPS = 12, KAS_PTE_DRAWN_STEPS = 6, KAS_PTE_VERSION = 101 };

typedef struct kas_pte_sequence {
    int steps;
    kas_pte_step step[KAS_PTE_MAX_STEPS];
} kas_pte_sequence;

/* The kernel of a sequence, inferred, not canonical; no step is the convolution itself.
 * KAS_ILLEGAL, naming the step, when it does not fit the leaf or there is none of that number, or
 * when the kernel would need more nodes, splits or group numbers than there are. */
kas_status kas_pte_kernel(const kas_pte_sequence *sequence, kas_kernel *out);

/* Reads "split(2) group(2) group(4)@1", steps in their order, "@leaf" when it is not leaf 0; or the
 * name of one of the paper's sequences: "pte-1" (bands of rows), "pte-2"
 * (unroll, then group), "pte-3" (halves of the outputs in 2 and in 4 groups). The authors' code
 * counts them otherwise. KAS_BAD_INPUT with the word that is wrong. */
kas_status kas_pte_parse(const char *text, kas_pte_sequence *out);

/* Does a cut leave parts that together are what was cut?  A split into shares that nothing tells
 * apart afterwards is one convolution again. KAS_ILLEGAL for a sequence that does not fit. */
kas_status kas_pte_is_redundant(const kas_pte_sequence *sequence, bool *redundant);

/* Whether a kernel has whole sizes within the limits at the layers that it is drawn for. */
typedef struct kas_pte_fit {
    bool (*has_sizes)(void *context, const kas_kernel *kernel);
    void *context;
} kas_pte_fit;

/* A random sequence and its kernel: the length uniform in `least` (0 or 1) to KAS_PTE_DRAWN_STEPS,
 * and for every step the leaf, the kind among those that fit the leaf, and the factor, each
 * uniform. A step after which the kernel has no room (nodes, splits, group numbers) or no sizes
 * (`fit`, NULL = not asked) is drawn again; where none is found the sequence ends early, which
 * with `least` 0 may be before the first.  A
 * redundant sequence is drawn again at its length. False when nothing came of it; `kernel` is not
 * set where there is no step. */
bool kas_pte_draw(kas_rng *rng, const kas_pte_fit *fit, int least, kas_pte_sequence *out,
                  kas_kernel *kernel);
/* The random numbers of an attempt. */
kas_rng kas_pte_rng(uint64_t seed, uint64_t attempt);

#endif

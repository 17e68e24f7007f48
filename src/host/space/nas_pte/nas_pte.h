/* The space of NAS-PTE: the convolution, changed by a sequence of program transformations.
 *
 * Source: Turner, Crowley, O'Boyle, "Neural Architecture Search as Program Transformation
 * Exploration" (ASPLOS 2021), sections 4, 5 and 7.3. A sequence starts from the loop nest of the
 * convolution, [c_o, c_i, h, w, k_h, k_w]; every step changes one *leaf*, a convolution over a part
 * of the outputs. The result is a kernel of the same primitives as any other (slice, concat, group,
 * unfold, fc), so everything behind the sampler is the same.
 *
 *   interchange(a,b)     loops a and b change places
 *   fuse(a,b)            two group loops, b directly inside a, become one
 *   group(G)             the two outermost loops tiled together by G, one tile loop dropped:
 *                        c_o and c_i: G groups; h or w, and c_i: G bands, each of which reads
 *                        one of G slices of the input channels
 *   group_h(G), group_w(G)  the latter two without the interchanges
 *   depthwise            the case G = C_o = C_i of group
 *   bottleneck(B)        the outermost loop runs over the first of B parts of its range
 *   bottleneck_in(B), _out(B), _h(B), _w(B)  c_i, c_o, h, w without the interchanges
 *   bottleneck_space(B)  h and w
 *   bottleneck_kh(B), bottleneck_kw(B)  of the window its middle row or column is left (B = K:
 *                        sizes of windows are primes)
 *   split(n)             C_o in n shares, each a leaf of its own, so later steps may differ there
 *   unroll(f)            the first f outputs become a full convolution of their own; the leaf that
 *                        is left reads and makes the other channels
 *   bands_h(n), bands_w(n)  the image in n bands, each a leaf with weights of its own
 *
 * The paper's networks go on with fewer channels or pixels, but a kernel here must end in [C, H,
 * W]: what a bottleneck does not compute keeps the input's value there, as if the output had begun
 * as a copy of the input. So costs are exactly the paper's (equations 1 to 3), and no part of the
 * output is empty.
 *
 * Legality (section 4.1): interchange, fuse and split keep every dependence, so the nest computes
 * what the convolution computes. Every other step removes dependences (kas_pte_lost says which):
 * a sequence with one of these is a neural transformation, which is judged by what the network can
 * still learn. A step that no kernel can express is refused (KAS_ILLEGAL), and the message says
 * what stands against it. docs/sampling.md, "The space of NAS-PTE", has the decisions. */
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
    KAS_PTE_BOTTLENECK_H,
    KAS_PTE_BOTTLENECK_W,
    KAS_PTE_BOTTLENECK_KH,
    KAS_PTE_BOTTLENECK_KW,
    KAS_PTE_GROUP_H,
    KAS_PTE_GROUP_W,
    KAS_PTE_DRAWN_KINDS,
    /* Steps that only prepare others, and their positional form: they make no kernel that the kinds
     * above do not make, so they are not drawn. */
    KAS_PTE_INTERCHANGE = KAS_PTE_DRAWN_KINDS,
    KAS_PTE_FUSE,
    KAS_PTE_BOTTLENECK,
    KAS_PTE_KINDS
} kas_pte_kind;

/* The loops of a leaf. A group loop is named when it is made: g is the outermost digit of the
 * channels' numbers, g2 the next. */
typedef enum kas_pte_loop {
    KAS_PTE_CO,
    KAS_PTE_CI,
    KAS_PTE_H,
    KAS_PTE_W,
    KAS_PTE_KH,
    KAS_PTE_KW,
    KAS_PTE_G,
    KAS_PTE_LOOPS = KAS_PTE_G + 3
} kas_pte_loop;

typedef struct kas_pte_step {
    uint8_t kind;    /* kas_pte_kind */
    uint8_t leaf;    /* number of the leaf, in the order of the output's parts, from 0 */
    uint8_t loop[2]; /* kas_pte_loop; of INTERCHANGE and FUSE, else 0 */
    uint16_t factor; /* 1 where a kind has none */
} kas_pte_step;

/* The version is part of the key of random numbers and of a study; it is raised when a change
 * alters what is drawn. It starts at 100, because older studies keep the guided sampler's
 * version. */
enum { KAS_PTE_MAX_STEPS = 16, KAS_PTE_DRAWN_STEPS = 6, KAS_PTE_VERSION = 104 };

typedef struct kas_pte_sequence {
    int steps;
    /* Groups of the convolution with which it begins; 0 = 1. Its group loop lies directly inside of
     * co and ci, so that a step may group them again. */
    uint32_t groups;
    bool stride_inside; /* of the kernel */
    kas_pte_step step[KAS_PTE_MAX_STEPS];
} kas_pte_sequence;

/* Makes the kernel of a sequence: inferred, not canonical. A sequence without steps gives the
 * convolution itself. Returns KAS_ILLEGAL, naming the step, when a step does not fit its leaf or
 * there is no such leaf, or when the kernel would need more nodes, splits or group numbers than
 * there are. */
kas_status kas_pte_kernel(const kas_pte_sequence *sequence, kas_kernel *out);

/* Reads steps in their order, "split(2) group(2) group(4)@1", where "@leaf" is left out for leaf 0;
 * or the name of one of the paper's sequences: "pte-1" (bands of rows, each in 2 groups), "pte-2"
 * (unroll, then group), "pte-3" (halves of the outputs in 2 and in 4 groups), "pte-1-bands" (bands
 * alone, as in the authors' code, which also numbers them differently). Returns KAS_BAD_INPUT with
 * the word that is wrong. */
kas_status kas_pte_parse(const char *text, kas_pte_sequence *out);

/* Returns the dependence that a step of this kind removes, in words; NULL: it keeps all. */
const char *kas_pte_lost(kas_pte_kind kind);
/* Checks that a sequence is a program transformation: its nest computes what the convolution
 * computes. Returns KAS_ILLEGAL for a neural transformation, and names the first step that makes it
 * one and the dependence that the step removes. */
kas_status kas_pte_check_program(const kas_pte_sequence *sequence);

/* Sets *redundant when some cut leaves parts that together are what was cut: a split into shares
 * that later steps do not tell apart is one convolution again. Returns KAS_ILLEGAL for a sequence
 * that does not fit. */
kas_status kas_pte_is_redundant(const kas_pte_sequence *sequence, bool *redundant);

/* The sizes of a convolution, from which factors are drawn. */
typedef struct kas_pte_sizes {
    uint32_t c, h, w, kernel_h, kernel_w;
    uint32_t groups; /* 0 = 1 */
    uint32_t stride; /* the largest; a kernel takes it, as the paper's convolutions do; 0 = 1 */
} kas_pte_sizes;

/* Where kernels are drawn for: the sizes (of several layers their greatest common divisors), and
 * whether a kernel has integer sizes within the limits there. */
typedef struct kas_pte_fit {
    bool (*has_sizes)(void *context, const kas_kernel *kernel);
    void *context;
    kas_pte_sizes sizes;
} kas_pte_fit;

/* Draws a random sequence and its kernel. The length is uniform in `least` (0 or 1) to
 * KAS_PTE_DRAWN_STEPS; for every step the leaf, the kind among those that fit the leaf, and the
 * factor among those that divide the leaf's sizes are each uniform. A step after which the kernel
 * has no room (nodes, splits, group numbers) or no sizes is drawn again; when none is found the
 * sequence ends early, with `least` 0 perhaps before the first step. A redundant sequence is drawn
 * again at its length. Returns false when nothing came of it. `kernel` is not set when the sequence
 * has no step. */
bool kas_pte_draw(kas_rng *rng, const kas_pte_fit *fit, int least, kas_pte_sequence *out,
                  kas_kernel *kernel);
/* Returns the random numbers of an attempt. */
kas_rng kas_pte_rng(uint64_t seed, uint64_t attempt);

#endif

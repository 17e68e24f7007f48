/* A schedule is a sequence of transformations of a kernel's loop nest.
 *
 * A kernel computes each element of a tensor. As a loop nest, before any transformation, it is
 *
 *     for n, h, w, c                              its loops: the dims of what it writes
 *         S1   s = 0
 *         for r0, r1                              its reductions, where the value has them
 *             S2   s += f(n, h, w, c, r0, r1)
 *         S3   y[n, h, w, c] = g(s)
 *
 * (Turner, Crowley, O'Boyle, "Neural Architecture Search as Program Transformation Exploration",
 * ASPLOS 2021, section 4, Algorithm 1). A sequence transforms the nest step by step; code is
 * written from the nest that results, and nothing but steps changes it. kas_schedule_default
 * chooses a sequence by rules; a file may prescribe another one (schedule_file.h).
 *
 * A step is legal where it keeps the order of all dependent instances of S1, S2 and S3 (section
 * 4.1). The dependences of a nest are direction vectors over its loops (dependence.h). They are
 * few, because a kernel reads nothing that it writes:
 *
 *     result   S1 -> S2 -> S3   a sum begins before it is added to, and is used when it is complete
 *     sum      S2 -> S2         turns of a reduction, in their order; additions may be reordered,
 *                               because they are marked associative (then the last bits may
 *                               change), and so may maxima (then they do not, but for the sign of
 *                               a zero), but not the search for the place of a maximum
 *     row      S2 -> S3         lanes of a row: each needs what all of them computed (rows.h)
 *     walk     S2 -> S2'        columns: a walk needs what the whole of the one before found
 *     output   S3 -> S3         two turns write one element
 *
 * The steps. L stands for a loop or, where that is said, for a reduction (R).
 *
 *     split L n        L becomes L/n and L%n inside it (strip-mining, section 4). L may be a
 *                      reduction. n divides L's size. No order changes. Not a row, a column or an
 *                      argument of a maximum, whose result is the number of a turn.
 *     fuse A B         A and B, right inside A, become A*B. No order changes.
 *     interchange A B  Two loops, or two reductions one right inside the other, change places. The
 *                      permuted vectors must stay lexicographically positive (section 4.1), except
 *                      those that may be reordered. Splits and interchanges together are tiling
 *                      (section 4).
 *     unroll L         A loop runs innermost, inside the lanes, and is unrolled: L moves inside all
 *                      others. Or a reduction inside the lanes is unrolled.
 *     around R         The reduction and the loop of the lanes change places, with a sum for each
 *                      lane and each virtual thread: S1, S2 and S3 have lane loops of their own.
 *                      Illegal inside another reduction, each of whose turns uses the result.
 *     lane L           L's turns are lanes: threads of a GPU's block (thread x), lanes of a vector
 *                      of a CPU. L must carry no dependence (row: the lanes exchange values).
 *     vthread L        Virtual threads: L's turns run in one thread, statement by statement for all
 *                      turns, with a sum for each in registers. L must carry no dependence.
 *     stage L n        What lanes read apart but side by side along L is first copied to a tile of
 *                      n turns (tiles.c), and what they write so goes through one. L may be a
 *                      reduction, which writes nothing. Legal because the kernel does not
 *                      write what it reads. On a GPU it is what lanes read apart, copied to shared
 *                      memory (boxes.c): in front of the rows of a block (L are the rows and n all
 *                      of its turns there, or the lanes where a block has no rows), or in front of
 *                      a reduction around the lanes (n are all of its turns). Then threads meet at
 *                      barriers in each turn, and all must have the same number of rows. What is
 *                      copied in front of a reduction around the lanes is so in each turn of those
 *                      around it: neither it nor these can be unrolled any more.
 *     lanes n          n lanes share a block; chunks of as many are a loop called `lanes`.
 *     vectorise n      A thread has n neighbouring lanes and accesses 16 bytes at once. What is
 *                      written must be aligned runs (wide.h).
 *     rows L n         n turns of L share a block (thread y); chunks of as many are a loop called
 *                      `rows`. L must carry no dependence.
 *     rfactor R        R's turns share a block in place of rows (thread y), each with a sum of its
 *                      own: S1 and S2 stand inside R, and S3 follows when the threads have met and
 *                      each has added up the parts, in the order of R's turns. Legal where the
 *                      dependence S2 -> S2 that R carries may be reordered, and R stands inside no
 *                      other reduction.
 *     serial L         L runs in order around rows and lanes, inside what was made serial before.
 *     block L x|y|z    L is a coordinate of the block: turns may run at the same time and in any
 *                      order. L may be `lanes` or `rows`. L must carry no dependence.
 *     unswitch         The lanes are written twice, behind a test of whether all windows lie inside
 *                      the image (inside.c). On a CPU only.
 *     prefetch R       Double buffering of what `stage R n` copies in each turn of the reduction
 *                      right around R: the copy for the next turn is under way while lanes read
 *                      this one.
 *                      Copies are instances of a statement C of their own, C -> S2 within a turn
 *                      and S2 -> C of the next one. With two arrays, a copy waits only for those
 *                      who read the same array, one turn before. On a GPU only: a CPU's thread
 *                      copies and reads in turn.
 *
 * From `lane` on, steps come in the order in which they are listed here, a loop's unroll beside
 * vthread, rfactor beside rows, serial beside block, and a GPU's stage and prefetch last: what
 * shares a block cannot be split any more. Steps without a loop are taken once.
 *
 * How far a GPU unrolls loops (emit/unroll.c), which values stay in registers between the loops of a
 * row (emit/emit_kept.h) and what lanes pick (picks.c) follow from the nest and are no steps. A
 * reduction is also split over launches, when a kernel is lowered (lower/reduce.c); its parts are
 * then a tensor, which has a kernel and a schedule of its own. */
#ifndef KAS_JIT_SCHEDULE_SEQUENCE_H
#define KAS_JIT_SCHEDULE_SEQUENCE_H

#include <stdint.h>

typedef enum kas_step_kind {
    KAS_STEP_SPLIT,
    KAS_STEP_FUSE,
    KAS_STEP_INTERCHANGE,
    KAS_STEP_UNROLL,
    KAS_STEP_AROUND,
    KAS_STEP_LANE,
    KAS_STEP_VTHREAD,
    KAS_STEP_STAGE,
    KAS_STEP_LANES,
    KAS_STEP_VECTORISE,
    KAS_STEP_ROWS,
    KAS_STEP_RFACTOR,
    KAS_STEP_SERIAL,
    KAS_STEP_BLOCK,
    KAS_STEP_UNSWITCH,
    KAS_STEP_PREFETCH,
    KAS_STEP_KINDS
} kas_step_kind;

/* Loops are numbered: those of the nest before any step, outermost first; then the reductions; then
 * those that steps make, in their order (a split makes the outer one first). KAS_LOOP_LANES and
 * KAS_LOOP_ROWS are the loops over chunks of lanes and of rows. */
enum { KAS_LOOP_LANES = 254, KAS_LOOP_ROWS = 253, KAS_LOOP_IDS = 192, KAS_SCHEDULE_STEPS = 160 };

typedef struct kas_step {
    uint8_t kind, loop, other; /* other: of fuse and interchange; the axis of block */
    int32_t n;
} kas_step;

typedef struct kas_schedule {
    int steps;
    kas_step step[KAS_SCHEDULE_STEPS];
} kas_schedule;

#endif

/* Dependences of a kernel's nest, as direction vectors over its loops (sequence.h says which there
 * are; Turner et al., section 4.1). Other folders include this header. */
#ifndef KAS_JIT_SCHEDULE_DEPENDENCE_H
#define KAS_JIT_SCHEDULE_DEPENDENCE_H

#include "host/core/buf.h"
#include "jit/schedule/schedule.h"

typedef enum kas_dependence_kind {
    KAS_DEPENDENCE_NONE,
    KAS_DEPENDENCE_OUTPUT, /* S3 -> S3 */
    KAS_DEPENDENCE_ROW,    /* S2 -> S3 of another lane */
    KAS_DEPENDENCE_WALK,   /* S2 -> S2 of the next walk */
    KAS_DEPENDENCE_SUM     /* S2 -> S2 of the next turn */
} kas_dependence_kind;

/* By loop, where the instance that depends lies: '=' in the same turn, '<' in a later one, '*' in
 * any. Loops are those of the nest, then its reductions, outermost first. */
typedef struct kas_dependence {
    kas_dependence_kind kind;
    bool reorderable; /* it may be done in another order, because it is marked associative */
    int loops, var[64];
    char direction[64];
} kas_dependence;

/* Returns which dependence a loop of the nest itself carries, so that its turns cannot run at the
 * same time. */
kas_dependence_kind kas_nest_carries(const kas_ir *ir, const kas_nest *nest, int var);

/* Lists the dependences; out[0..*count), at most `room`, of which there is one for each loop and
 * reduction that carries one. */
kas_status kas_nest_dependences(const kas_ir *ir, const kas_nest *nest, kas_dependence *out,
                                int room, int *count);
/* Returns the place of the first dependence whose vector is no longer lexicographically positive
 * once variables a and b change places, and that may not be reordered; -1 where there is none. */
int kas_dependence_reversed(const kas_dependence *list, int count, int a, int b);
/* Appends the order in which a nest adds up its sums: nests of one kernel with equal texts add the
 * same terms in the same order, so that they give the same bits where products and sums are rounded
 * apart. Called when all steps are taken. */
kas_status kas_nest_print_sums(const kas_ir *ir, const kas_nest *nest, kas_buf *out);
/* Appends a dependence as people write it: "S2 -> S2 (=, =, <, *)". */
void kas_dependence_print(const kas_dependence *d, kas_buf *out);

#endif

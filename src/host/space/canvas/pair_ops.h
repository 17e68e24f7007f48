/* Uses of two operands, of which the guided sampler offers only those that shapes let through:
 * there are as many as pairs of nodes, and hardly any of a long kernel serve.  What is left out
 * would be refused, so nothing changes but the time; and a pair is looked at when it is drawn.
 * Internal to the sampler. */
#ifndef KAS_SPACE_CANVAS_PAIR_OPS_H
#define KAS_SPACE_CANVAS_PAIR_OPS_H

#include "host/space/canvas/growth.h"

static inline bool kas_type_is_of_pairs(kas_type type)
{
    return type == KAS_TYPE_BROADCAST || type == KAS_TYPE_BMM;
}

/* Two nodes, and what they could be used for. */
typedef struct kas_operands {
    uint8_t lhs, rhs;
    bool asked;    /* is `serve` known? It is asked for when the pair is drawn */
    uint8_t serve; /* bit k: use k of kas_pair_op, and it was not tried in vain */
} kas_operands;

/* Uses that a pair could have: five broadcasts; or four transposes with and without softmax. */
enum { KAS_BROADCASTS = KAS_OP_MAX - KAS_OP_ADD + 1, KAS_PRODUCTS = 8 };
static inline int kas_ops_of_a_pair(kas_type type)
{
    return type == KAS_TYPE_BMM ? KAS_PRODUCTS : KAS_BROADCASTS;
}
kas_candidate_op kas_pair_op(kas_type type, const kas_operands *pair, int k);

/* The pairs with enough leaves among them. Returns how many. */
int kas_list_pairs(const kas_growth *g, kas_type type, const kas_op_filter *filter,
                   kas_operands out[KAS_MAX_NODES * KAS_MAX_NODES]);

/* Of a pair's uses those that the filter and the shapes let through, as bits. */
uint8_t kas_pair_serves(const kas_growth *g, kas_type type, const kas_op_filter *filter,
                        const kas_operands *pair);

#endif

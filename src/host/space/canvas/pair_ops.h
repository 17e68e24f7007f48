/* Candidate operations of two operands. The guided sampler offers only those that the shapes allow:
 * there are as many as pairs of nodes, and in a long kernel hardly any of them serve. What is left
 * out would be refused, so this changes nothing but the time; and a pair is looked at only when it
 * is drawn. Internal to the samplers. */
#ifndef KAS_SPACE_CANVAS_PAIR_OPS_H
#define KAS_SPACE_CANVAS_PAIR_OPS_H

#include "host/space/canvas/growth.h"

static inline bool kas_type_is_of_pairs(kas_type type)
{
    return type == KAS_TYPE_BROADCAST || type == KAS_TYPE_BMM;
}

/* Two nodes, and the operations for which they could be the operands. */
typedef struct kas_operands {
    uint8_t lhs, rhs;
    bool asked;    /* whether `serve` is known; it is asked for when the pair is drawn */
    uint8_t serve; /* bit k: candidate k of kas_pair_op may be tried */
} kas_operands;

/* The candidates of a pair: five broadcasts; or four transposes, each with and without softmax. */
enum { KAS_BROADCASTS = KAS_OP_MAX - KAS_OP_ADD + 1, KAS_PRODUCTS = 8 };
static inline int kas_ops_of_a_pair(kas_type type)
{
    return type == KAS_TYPE_BMM ? KAS_PRODUCTS : KAS_BROADCASTS;
}
/* Returns candidate k of a pair. */
kas_candidate_op kas_pair_op(kas_type type, const kas_operands *pair, int k);

/* Lists the pairs with enough leaves among them. Returns their number. */
int kas_list_pairs(const kas_growth *g, kas_type type, const kas_op_filter *filter,
                   kas_operands out[KAS_MAX_NODES * KAS_MAX_NODES]);

/* Returns the candidates of a pair that the filter and the shapes allow, as bits. */
uint8_t kas_pair_serves(const kas_growth *g, kas_type type, const kas_op_filter *filter,
                        const kas_operands *pair);

#endif

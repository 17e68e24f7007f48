/* Shapes by number, and what two shapes may be to one another.
 *
 * A sampler meets the same shapes again and again, and most of what it asks about two operands (can
 * the one be broadcast to the other and with which values of a variable, which of their products
 * are legal, can the result be the output) depends on their shapes alone.  So every shape gets a
 * number, and the answers are kept by pairs of numbers.  All of them follow from the shapes: a
 * table that forgets changes how long an attempt takes and never what it gives.
 *
 * Nor do the answers depend on which variables shapes hold, only on whether two hold the same one.
 * By Theorem 1 a shape holds one at most: its number is that of its pattern, in which the variable
 * is x0, and which variable it is.  Of a pair LHS's variable is x0, and RHS's is x1 unless it is
 * the same; the sizes that are kept for a pair are written in these.
 *
 * Like kas_buf, a table that got no memory says so afterwards: kas_pairs_status. Internal to the
 * samplers. */
#ifndef KAS_SPACE_CANVAS_PAIRS_H
#define KAS_SPACE_CANVAS_PAIRS_H

#include "host/space/kernel.h"

/* May LHS be broadcast to RHS, as far as their shapes tell? */
typedef enum kas_fit {
    KAS_FIT_NEVER,   /* the shape rule forbids it */
    KAS_FIT_MIXES,   /* a pruning rule does: kas_shapes_mix_pixels */
    KAS_FIT_TILES,   /* `repetitions` must be an integer */
    KAS_FIT_BY_VALUE /* a variable of LHS takes a value first */
} kas_fit;

/* A value of LHS's variable (kas_match_substitutions). */
typedef struct kas_value {
    kas_dim size;
    bool tiles; /* no pruning rule is against it */
} kas_value;

typedef struct kas_pair {
    uint32_t lhs, rhs; /* keys of the pair; 0 = the slot is empty */
    uint8_t fit;       /* kas_fit; BY_VALUE: of LHS's variable */
    uint16_t values;   /* see kas_pairs_values; 0 = not listed yet */
    uint32_t first_value;
    kas_dim repetitions; /* TILES: of LHS; BY_VALUE: times the value. In the variables of a pair */
} kas_pair;

/* The products of two shapes. */
typedef struct kas_products {
    uint32_t lhs, rhs;
    uint8_t legal;      /* bit t: that with transpose t */
    uint8_t outputs;    /* bit t: and it could be the output */
    uint32_t result[4]; /* [t]: number of its shape */
} kas_products;

/* Of a shape's number: its pattern's, and the variable that it holds or -1. */
enum { KAS_NUMBER_VARS = 32 };
static inline uint32_t kas_number_pattern(uint32_t number)
{
    return number / KAS_NUMBER_VARS;
}
static inline int kas_number_var(uint32_t number)
{
    return (int)(number % KAS_NUMBER_VARS) - 1;
}
/* The number with another variable in the place of the one that it has, if it has one. */
static inline uint32_t kas_number_with_var(uint32_t number, int var)
{
    return kas_number_var(number) < 0 ? number
                                      : number - number % KAS_NUMBER_VARS + (uint32_t)var + 1;
}

/* What one shape could be. */
typedef enum kas_output { KAS_OUTPUT_NEVER, KAS_OUTPUT_AS_IT_IS, KAS_OUTPUT_BY_VALUE } kas_output;
typedef struct kas_shape_facts {
    /* What tells cheaply that no product of two shapes can be; in one line of the cache: */
    uint64_t channels, pixels; /* hashes of the products of these dims */
    uint64_t parts;            /* kas_part_bit of all in `first` and `last` */
    uint64_t batch;            /* hash of the first dim where that is a group dim; else 0 */
    bool flat, image, as_rows; /* no H and W; has both, whole; has H, then W among its channels */
    uint8_t output;            /* kas_output: is it [C, H, W]? */
    uint32_t whole_in; /* a context in which all its sizes are integers; 0 = none is known */

    kas_shape shape; /* the pattern: its variable is x0 */
    kas_dim value;   /* output BY_VALUE: what its variable must be */
    /* Of a flat shape, [n - 1]: hashes of the products of its first n dims, and of its last. */
    uint64_t first[KAS_MAX_CHANNEL_DIMS], last[KAS_MAX_CHANNEL_DIMS];
} kas_shape_facts;

/* Fills what follows from facts->shape: it is the output when it is [C, H, W] up to grouping, or is
 * once a variable has its value. */
void kas_shape_find_output(kas_shape_facts *facts);

typedef struct kas_pairs kas_pairs;

kas_status kas_pairs_create(kas_pairs **out);
void kas_pairs_free(kas_pairs *pairs);

/* Forgets everything when that has become much: numbers are good until the next call. */
void kas_pairs_begin(kas_pairs *pairs);
/* KAS_NO_MEMORY when a number or an answer since the last call is wrong for lack of memory. */
kas_status kas_pairs_status(kas_pairs *pairs);

/* The number of a shape, and what is known of it. */
uint32_t kas_pairs_number(kas_pairs *pairs, const kas_shape *shape);
const kas_shape_facts *kas_pairs_facts(const kas_pairs *pairs, uint32_t number);
/* All its sizes are integers in that context, whatever its variable is. */
void kas_pairs_note_whole(kas_pairs *pairs, uint32_t number, uint32_t context);

/* A number for a group number and a kernel's splits, good until kas_pairs_begin. */
uint32_t kas_pairs_context(kas_pairs *pairs, uint32_t group, const kas_split *split);

/* What was said of a set of shapes under a context: 0 or 1; -1 when it was not, or is forgotten. */
typedef struct kas_merge_key {
    uint32_t context, pattern[3]; /* of shapes, + 1, ascending; 0 = none */
    uint32_t alike;               /* which of them hold the same variable */
} kas_merge_key;
int kas_pairs_recall(const kas_pairs *pairs, const kas_merge_key *key);
void kas_pairs_remember(kas_pairs *pairs, const kas_merge_key *key, bool answer);

/* Valid until the next call for another pair. */
kas_pair *kas_pairs_get(kas_pairs *pairs, uint32_t lhs, uint32_t rhs);
kas_products kas_pairs_products(kas_pairs *pairs, uint32_t lhs, uint32_t rhs);

/* One of 64 bits for a hash: what has not the bit has not the size. */
static inline uint64_t kas_part_bit(uint64_t hash)
{
    return (uint64_t)1 << (hash >> 58);
}

/* Could the first dim of both be one of a batch? */
static inline bool kas_may_batch(const kas_shape_facts *lhs, const kas_shape_facts *rhs)
{
    return lhs->batch && lhs->batch == rhs->batch;
}

/* False when the two have no product at all, or none that is the output; most pairs have none.
 * Without a batch all channels or all pixels of one with pixels meet those of the other, or a part
 * of the channels of one without. */
static inline bool kas_may_multiply(const kas_shape_facts *lhs, const kas_shape_facts *rhs)
{
    if (kas_may_batch(lhs, rhs))
        return true;
    if (lhs->flat || rhs->flat) {
        const kas_shape_facts *flat = lhs->flat ? lhs : rhs, *other = lhs->flat ? rhs : lhs;
        return !other->flat &&
               (flat->parts & (kas_part_bit(other->channels) | kas_part_bit(other->pixels)));
    }
    return lhs->channels == rhs->channels || lhs->pixels == rhs->pixels ||
           lhs->channels == rhs->pixels || lhs->pixels == rhs->channels;
}
static inline bool kas_may_multiply_last(const kas_shape_facts *lhs, const kas_shape_facts *rhs)
{
    return rhs->as_rows || kas_may_batch(lhs, rhs) ||
           (rhs->image && (lhs->flat ? (lhs->parts & kas_part_bit(rhs->channels)) != 0
                                     : lhs->pixels == rhs->channels));
}

/* BY_VALUE: the values, pair->values of them, in the variables of a pair; listed at the first call.
 */
const kas_value *kas_pairs_values(kas_pairs *pairs, kas_pair *pair);
/* A size of a pair where RHS is the shape of that number; it holds no variable of LHS's. */
kas_dim kas_pair_size(const kas_dim *size, uint32_t rhs);

#endif

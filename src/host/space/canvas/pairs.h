/* Numbers for shapes, and facts about pairs of shapes.
 *
 * A sampler meets the same shapes again and again, and most of what it asks about two operands
 * depends on their shapes alone: can one be broadcast to the other and with which values of a
 * variable, which of their products are legal, can the result be the output. So every shape gets a
 * number, and the answers are kept by pairs of numbers. Because all answers follow from the shapes,
 * a table that forgets some changes how long an attempt takes and never what it gives.
 *
 * Nor do the answers depend on which variables the shapes hold, only on whether two shapes hold the
 * same one. By Theorem 1 a shape holds at most one. So its number is made of the number of its
 * pattern, in which the variable is called x0, and of the variable itself. In a pair LHS's variable
 * is called x0, and RHS's is called x1 unless it is the same; the sizes that are kept for a pair
 * are written with these names.
 *
 * Like kas_buf, a table that got no memory says so afterwards: see kas_pairs_status. Internal to
 * the samplers. */
#ifndef KAS_SPACE_CANVAS_PAIRS_H
#define KAS_SPACE_CANVAS_PAIRS_H

#include "host/space/kernel.h"

/* Whether LHS may be broadcast to RHS, as far as their shapes tell. */
typedef enum kas_fit {
    KAS_FIT_NEVER,   /* the shape rule forbids it */
    KAS_FIT_MIXES,   /* a pruning rule forbids it: kas_shapes_mix_pixels */
    KAS_FIT_TILES,   /* it may if `repetitions` is an integer */
    KAS_FIT_BY_VALUE /* a variable of LHS must take a value first */
} kas_fit;

/* A value that LHS's variable may take (kas_match_substitutions). */
typedef struct kas_value {
    kas_dim size;
    bool tiles; /* no pruning rule forbids it */
} kas_value;

typedef struct kas_pair {
    uint32_t lhs, rhs; /* keys of the pair; 0 = the slot is empty */
    uint8_t fit;       /* kas_fit; BY_VALUE: of LHS's variable */
    uint16_t values;   /* how many; see kas_pairs_values; 0 = not listed yet */
    uint32_t first_value;
    /* TILES: how often LHS is repeated; BY_VALUE: the same times the value. In the variables
     * of a pair */
    kas_dim repetitions;
} kas_pair;

/* The products of two shapes. */
typedef struct kas_products {
    uint32_t lhs, rhs;
    uint8_t legal;      /* bit t: the product with transpose t is legal */
    uint8_t outputs;    /* bit t: and it could be the output */
    uint32_t result[4]; /* [t]: number of its shape */
} kas_products;

/* Return the two parts of a shape's number: the number of its pattern, and the variable that it
 * holds or -1. */
enum { KAS_NUMBER_VARS = 32 };
static inline uint32_t kas_number_pattern(uint32_t number)
{
    return number / KAS_NUMBER_VARS;
}
static inline int kas_number_var(uint32_t number)
{
    return (int)(number % KAS_NUMBER_VARS) - 1;
}
/* Returns the number with another variable in the place of its own, if it has one. */
static inline uint32_t kas_number_with_var(uint32_t number, int var)
{
    return kas_number_var(number) < 0 ? number
                                      : number - number % KAS_NUMBER_VARS + (uint32_t)var + 1;
}

/* Whether a shape is [C, H, W]: never, already, or with the right value of its variable. */
typedef enum kas_output { KAS_OUTPUT_NEVER, KAS_OUTPUT_AS_IT_IS, KAS_OUTPUT_BY_VALUE } kas_output;
/* What is known of a shape's pattern. */
typedef struct kas_shape_facts {
    /* These fields tell cheaply that two shapes have no product. They share one cache line: */
    uint64_t channels, pixels; /* hashes of the products of all channel dims, of all pixel dims */
    uint64_t parts;            /* kas_part_bit of all in `first` and `last` */
    uint64_t batch;            /* hash of the first dim where that is a group dim; else 0 */
    bool flat, image, as_rows; /* no H and W; both, whole; H, then W among its channels */
    uint8_t output;            /* kas_output: is it [C, H, W]? */
    uint32_t whole_in;         /* a context in which all its sizes are integers; 0 = none known */

    kas_shape shape; /* the pattern: its variable is x0 */
    kas_dim value;   /* KAS_OUTPUT_BY_VALUE: the value that its variable must take */
    /* For a flat shape, [n - 1]: hashes of the products of its first n dims, and of its
     * last n dims. */
    uint64_t first[KAS_MAX_CHANNEL_DIMS], last[KAS_MAX_CHANNEL_DIMS];
} kas_shape_facts;

/* Fills `output` and `value` from facts->shape: a shape is the output when it is [C, H, W] up to
 * grouping, or becomes so when its variable takes a value. */
void kas_shape_find_output(kas_shape_facts *facts);

typedef struct kas_pairs kas_pairs;

/* Makes empty tables; kas_pairs_free frees them. Returns KAS_NO_MEMORY. */
kas_status kas_pairs_create(kas_pairs **out);
void kas_pairs_free(kas_pairs *pairs);

/* Begins an attempt: forgets everything when the tables have grown large. Numbers stay valid until
 * the next call. */
void kas_pairs_begin(kas_pairs *pairs);
/* Returns KAS_NO_MEMORY when a number or an answer since the last call is wrong for lack of
 * memory. */
kas_status kas_pairs_status(kas_pairs *pairs);

/* Return the number of a shape, and the facts of a number. */
uint32_t kas_pairs_number(kas_pairs *pairs, const kas_shape *shape);
const kas_shape_facts *kas_pairs_facts(const kas_pairs *pairs, uint32_t number);
/* Notes that all sizes of the shape are integers in that context, whatever its variable is. */
void kas_pairs_note_whole(kas_pairs *pairs, uint32_t number, uint32_t context);

/* Returns a number for a group number and a kernel's splits. It stays valid until
 * kas_pairs_begin. */
uint32_t kas_pairs_context(kas_pairs *pairs, uint32_t group, const kas_split *split);

/* A set of at most three shapes under a context: the key of a remembered answer. */
typedef struct kas_merge_key {
    uint32_t context, pattern[3]; /* patterns + 1, ascending; 0 = none */
    uint32_t alike;               /* which of the shapes hold the same variable, as bits */
} kas_merge_key;
/* kas_pairs_recall returns the answer that kas_pairs_remember stored for the set, 0 or 1; -1 when
 * there was none or it is forgotten. */
int kas_pairs_recall(const kas_pairs *pairs, const kas_merge_key *key);
void kas_pairs_remember(kas_pairs *pairs, const kas_merge_key *key, bool answer);

/* Return what is known of a pair. The kas_pair is valid until the next call for another pair. */
kas_pair *kas_pairs_get(kas_pairs *pairs, uint32_t lhs, uint32_t rhs);
kas_products kas_pairs_products(kas_pairs *pairs, uint32_t lhs, uint32_t rhs);

/* Returns one of 64 bits for a hash. A set of sizes without the bit does not hold the size. */
static inline uint64_t kas_part_bit(uint64_t hash)
{
    return (uint64_t)1 << (hash >> 58);
}

/* Returns whether the first dim of both could be the dim of a batch. */
static inline bool kas_may_batch(const kas_shape_facts *lhs, const kas_shape_facts *rhs)
{
    return lhs->batch && lhs->batch == rhs->batch;
}

/* Return false only when the two have no product at all, or none that is the output; most pairs
 * have none. In a product without a batch, all channels or all pixels of an operand with pixels are
 * contracted with those of the other, or with a part of the channels of a flat one. */
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

/* Returns the values of a KAS_FIT_BY_VALUE pair, pair->values of them, in the variables of a pair.
 * They are listed at the first call. NULL when there are none or no memory. */
const kas_value *kas_pairs_values(kas_pairs *pairs, kas_pair *pair);
/* Returns a size of a pair for the RHS with that number: x1 becomes its variable. The size holds no
 * variable of LHS. */
kas_dim kas_pair_size(const kas_dim *size, uint32_t rhs);

#endif

#include "host/space/canvas/pairs.h"

#include <stdlib.h>
#include <string.h>

#include "host/space/canvas/prune.h"
#include "host/space/solve/solve.h"

/* The most shapes, values and contexts that are kept when an attempt begins. A few thousand shapes
 * make up nearly all that a sampler meets. PAIRS and MERGES are the slots of tables in which a
 * newcomer replaces what was there. */
enum {
    MOST_NUMBERS = 1 << 12,
    MOST_VALUES = 1 << 15,
    MOST_CONTEXTS = 1 << 10,
    PAIRS = 1 << 13,
    MERGES = 1 << 13
};

typedef struct context {
    uint32_t group;
    kas_split split[KAS_MAX_SPLITS];
} context;

typedef struct merge {
    kas_merge_key key; /* all 0: empty */
    bool answer;
} merge;

struct kas_pairs {
    bool failed;
    uint32_t numbers, room; /* room: a power of two */
    kas_shape_facts *facts; /* [room] */
    uint32_t *slot;         /* [2 * room]: number + 1 by hash, open addressing; 0 = empty */
    uint32_t values, value_room;
    kas_value *value;
    kas_pair pair[PAIRS];
    kas_products products[PAIRS];
    merge merge[MERGES];
    uint32_t contexts;
    context context[MOST_CONTEXTS];
    kas_kernel product; /* LHS, RHS and their product, for kas_node_infer */
};

kas_status kas_pairs_create(kas_pairs **out)
{
    const uint32_t room = 256;
    kas_pairs *pairs = calloc(1, sizeof *pairs);
    *out = pairs;
    if (pairs) {
        pairs->facts = malloc(room * sizeof *pairs->facts);
        pairs->slot = calloc(2 * room, sizeof *pairs->slot);
        pairs->value = malloc(room * sizeof *pairs->value);
        pairs->room = pairs->value_room = room;
    }
    if (pairs && pairs->facts && pairs->slot && pairs->value)
        return KAS_OK;
    kas_pairs_free(pairs);
    *out = NULL;
    return kas_fail(KAS_NO_MEMORY, "no memory for the shapes of a sampler");
}

void kas_pairs_free(kas_pairs *pairs)
{
    if (!pairs)
        return;
    free(pairs->facts);
    free(pairs->slot);
    free(pairs->value);
    free(pairs);
}

void kas_pairs_begin(kas_pairs *pairs)
{
    if (pairs->numbers <= MOST_NUMBERS && pairs->values <= MOST_VALUES &&
        pairs->contexts < MOST_CONTEXTS)
        return;
    pairs->numbers = pairs->values = pairs->contexts = 0;
    memset(pairs->slot, 0, 2 * (size_t)pairs->room * sizeof *pairs->slot);
    memset(pairs->pair, 0, sizeof pairs->pair);
    memset(pairs->products, 0, sizeof pairs->products);
    memset(pairs->merge, 0, sizeof pairs->merge);
}

kas_status kas_pairs_status(kas_pairs *pairs)
{
    if (!pairs->failed)
        return KAS_OK;
    pairs->failed = false;
    return kas_fail(KAS_NO_MEMORY, "no memory for %u shapes of a sampler", 2 * pairs->room);
}

/* ---- numbers ---- */

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    return hash ^ (hash >> 29);
}

/* Multiplies the words independently, so that they do not wait for one another. */
static uint64_t hash_dim(uint64_t hash, const kas_dim *dim)
{
    static const uint64_t factor[] = {0xa0761d6478bd642fu, 0xe7037ed1a0b428dbu, 0x8ebc6af09c88c6e3u,
                                      0x589965cc75374cc3u, 0x1d8e4e27c47d124fu};
    uint64_t word[sizeof *dim / sizeof(uint64_t)], sum = 0;
    _Static_assert(sizeof word == sizeof *dim && sizeof word == sizeof factor,
                   "a size is whole words");
    memcpy(word, dim, sizeof word);
    for (size_t i = 0; i < sizeof word / sizeof *word; i++)
        sum += (word[i] ^ word[i] >> 32) * factor[i];
    return mix(hash, sum);
}

static uint64_t hash_shape(const kas_shape *shape)
{
    uint64_t groups;
    _Static_assert(sizeof groups == sizeof shape->is_group, "the marks are one word");
    memcpy(&groups, shape->is_group, sizeof groups);
    uint64_t hash = mix(groups, (uint64_t)shape->channels);
    for (int d = 0; d < shape->channels; d++)
        hash = hash_dim(hash, &shape->channel[d]);
    return hash_dim(hash_dim(hash, &shape->spatial[0]), &shape->spatial[1]);
}

void kas_shape_find_output(kas_shape_facts *facts)
{
    const kas_dim c = kas_dim_symbol(KAS_SYM_C);
    kas_dim product;
    facts->output = KAS_OUTPUT_NEVER;
    if (!kas_shape_has_image(&facts->shape) ||
        !kas_shape_product(&facts->shape, 0, facts->shape.channels, &product))
        return;
    const int var = kas_dim_var(&product);
    if (var < 0) {
        facts->output = kas_dim_equal(&product, &c) ? KAS_OUTPUT_AS_IT_IS : KAS_OUTPUT_NEVER;
        return;
    }
    product.exp[KAS_SYM_X0 + var] = 0;
    if (kas_dim_div(&c, &product, &facts->value))
        facts->output = KAS_OUTPUT_BY_VALUE;
}

static uint64_t hash_product(const kas_shape *shape, int from, int to)
{
    kas_dim product;
    return kas_shape_product(shape, from, to, &product) ? hash_dim(1, &product) : 0;
}

/* Returns whether H, then W are among the channel dims: a product with the shape transposed can
 * give back the image. */
static bool holds_pixels(const kas_shape *shape)
{
    const kas_dim h = kas_dim_symbol(KAS_SYM_H), w = kas_dim_symbol(KAS_SYM_W);
    for (int d = 0; d + 1 < shape->channels; d++)
        if (kas_dim_equal(&shape->channel[d], &h) && kas_dim_equal(&shape->channel[d + 1], &w))
            return true;
    return false;
}

/* Multiplies *product by dim d and returns its hash. If the product left its range on the way,
 * returns the hash of dims [from, to), whose product may be in range. */
static uint64_t hash_next(kas_dim *product, bool *in_range, const kas_shape *shape, int d, int from,
                          int to)
{
    *in_range = *in_range && kas_dim_mul(product, &shape->channel[d], product);
    return *in_range ? hash_dim(1, product) : hash_product(shape, from, to);
}

static uint64_t find_parts(kas_shape_facts *facts)
{
    const kas_shape *shape = &facts->shape;
    const int channels = shape->channels;
    kas_dim first = kas_dim_const(1), last = first;
    bool in_range[2] = {true, true};
    uint64_t parts = 0;
    for (int d = 0; d < channels; d++) {
        const int from = channels - d - 1;
        facts->first[d] = hash_next(&first, &in_range[0], shape, d, 0, d + 1);
        facts->last[d] = hash_next(&last, &in_range[1], shape, from, from, channels);
        parts |= kas_part_bit(facts->first[d]) | kas_part_bit(facts->last[d]);
    }
    return parts;
}

static void find_contents(kas_shape_facts *facts)
{
    const kas_shape *shape = &facts->shape;
    const int channels = shape->channels, rank = kas_shape_rank(shape);
    facts->channels = hash_product(shape, 0, channels);
    facts->pixels = hash_product(shape, channels, rank);
    facts->flat = rank == channels;
    facts->parts = facts->flat ? find_parts(facts) : 0;
    facts->batch = channels > 0 && shape->is_group[0] ? hash_dim(1, &shape->channel[0]) | 1 : 0;
    facts->image = kas_shape_has_image(shape);
    facts->as_rows = holds_pixels(shape);
}

static uint32_t *slot_of(const kas_pairs *pairs, const kas_shape *shape)
{
    const uint32_t last = 2 * pairs->room - 1;
    uint32_t i = (uint32_t)hash_shape(shape) & last;
    while (pairs->slot[i] &&
           memcmp(&pairs->facts[pairs->slot[i] - 1].shape, shape, sizeof *shape) != 0)
        i = (i + 1) & last;
    return &pairs->slot[i];
}

static bool make_room(kas_pairs *pairs)
{
    const size_t room = 2 * (size_t)pairs->room;
    uint32_t *slot = calloc(2 * room, sizeof *slot);
    kas_shape_facts *facts = realloc(pairs->facts, room * sizeof *facts);
    if (facts)
        pairs->facts = facts;
    if (!facts || !slot) {
        free(slot);
        return false;
    }
    free(pairs->slot);
    pairs->slot = slot;
    pairs->room = (uint32_t)room;
    for (uint32_t n = 0; n < pairs->numbers; n++)
        *slot_of(pairs, &pairs->facts[n].shape) = n + 1;
    return true;
}

/* Returns the variable of a shape and its place. Theorem 1 says that there is at most one. */
static int find_var(const kas_shape *shape, int *at)
{
    int var = -1;
    for (*at = 0; *at < shape->channels; ++*at)
        if ((var = kas_dim_var(&shape->channel[*at])) >= 0)
            return var;
    return var;
}

/* Renames the variable at dim `at`. */
static void rename_var(kas_shape *shape, int at, int from, int to)
{
    shape->channel[at].exp[KAS_SYM_X0 + to] = shape->channel[at].exp[KAS_SYM_X0 + from];
    shape->channel[at].exp[KAS_SYM_X0 + from] = 0;
}

static uint32_t number_of_pattern(kas_pairs *pairs, const kas_shape *shape)
{
    uint32_t *slot = slot_of(pairs, shape);
    if (*slot)
        return *slot - 1;
    if (pairs->numbers == pairs->room) {
        if (!make_room(pairs)) {
            pairs->failed = true;
            return 0;
        }
        slot = slot_of(pairs, shape);
    }
    kas_shape_facts *facts = &pairs->facts[pairs->numbers];
    facts->shape = *shape;
    facts->whole_in = 0;
    kas_shape_find_output(facts);
    find_contents(facts);
    *slot = ++pairs->numbers;
    return pairs->numbers - 1;
}

uint32_t kas_pairs_number(kas_pairs *pairs, const kas_shape *shape)
{
    int at;
    const int var = find_var(shape, &at);
    if (var <= 0)
        return number_of_pattern(pairs, shape) * KAS_NUMBER_VARS + (uint32_t)(var + 1);
    kas_shape pattern = *shape;
    rename_var(&pattern, at, var, 0);
    return number_of_pattern(pairs, &pattern) * KAS_NUMBER_VARS + (uint32_t)(var + 1);
}

const kas_shape_facts *kas_pairs_facts(const kas_pairs *pairs, uint32_t number)
{
    return &pairs->facts[kas_number_pattern(number)];
}

void kas_pairs_note_whole(kas_pairs *pairs, uint32_t number, uint32_t context)
{
    pairs->facts[kas_number_pattern(number)].whole_in = context;
}

/* ---- keys of pairs ---- */

static uint32_t lhs_key(uint32_t lhs)
{
    return kas_number_pattern(lhs) + 1;
}

static uint32_t rhs_key(uint32_t lhs, uint32_t rhs)
{
    const bool same = kas_number_var(lhs) >= 0 && kas_number_var(lhs) == kas_number_var(rhs);
    return (kas_number_pattern(rhs) << 1 | same) + 1;
}

static const kas_shape *lhs_shape(const kas_pairs *pairs, uint32_t key)
{
    return &pairs->facts[key - 1].shape;
}

/* Returns RHS as the pair sees it: a variable of its own is x1. */
static kas_shape rhs_shape(const kas_pairs *pairs, uint32_t key)
{
    kas_shape shape = pairs->facts[(key - 1) >> 1].shape;
    int at;
    if (!((key - 1) & 1) && find_var(&shape, &at) == 0)
        rename_var(&shape, at, 0, 1);
    return shape;
}

kas_dim kas_pair_size(const kas_dim *size, uint32_t rhs)
{
    kas_dim named = *size;
    const int8_t power = size->exp[KAS_SYM_X0 + 1];
    if (power != 0) {
        named.exp[KAS_SYM_X0 + 1] = 0;
        named.exp[KAS_SYM_X0 + kas_number_var(rhs)] = power;
    }
    return named;
}

/* ---- broadcasts ---- */

static void give_value(kas_shape *shape, int var, const kas_dim *value)
{
    for (int d = 0; d < shape->channels; d++)
        if (shape->channel[d].exp[KAS_SYM_X0 + var] != 0)
            kas_dim_substitute(&shape->channel[d], var, value, &shape->channel[d]);
}

static bool tiles(const kas_shape *lhs, const kas_shape *rhs, int var, const kas_dim *value)
{
    kas_shape with_value = *lhs;
    give_value(&with_value, var, value);
    return !kas_shapes_mix_pixels(&with_value, rhs);
}

static kas_value *add_values(kas_pairs *pairs, kas_pair *pair, int count)
{
    const uint32_t needed = pairs->values + (uint32_t)count;
    if (needed > pairs->value_room) {
        kas_value *value = realloc(pairs->value, 2 * (size_t)needed * sizeof *value);
        if (!value) {
            pairs->failed = true;
            return NULL;
        }
        pairs->value = value;
        pairs->value_room = 2 * needed;
    }
    pair->first_value = pairs->values;
    pair->values = (uint16_t)count;
    pairs->values = needed;
    return &pairs->value[pair->first_value];
}

const kas_value *kas_pairs_values(kas_pairs *pairs, kas_pair *pair)
{
    if (pair->values > 0)
        return &pairs->value[pair->first_value];
    const kas_shape *lhs = lhs_shape(pairs, pair->lhs), rhs = rhs_shape(pairs, pair->rhs);
    kas_dim size[KAS_MAX_SUBSTITUTIONS];
    int count, var;
    if (kas_match_substitutions(lhs, &rhs, size, &count, &var) != KAS_OK)
        return NULL;
    kas_value *value = add_values(pairs, pair, count);
    for (int i = 0; value && i < count; i++)
        value[i] = (kas_value){size[i], tiles(lhs, &rhs, var, &size[i])};
    return value;
}

static kas_fit find_fit(const kas_pairs *pairs, kas_pair *pair)
{
    const kas_shape *lhs = lhs_shape(pairs, pair->lhs), rhs = rhs_shape(pairs, pair->rhs);
    kas_broadcast parts;
    int var;
    if (kas_broadcast_align(lhs, &rhs, &parts) != KAS_OK ||
        kas_match_variable(&parts, &var, &pair->repetitions) != KAS_OK)
        return KAS_FIT_NEVER;
    if (var >= 0)
        return KAS_FIT_BY_VALUE;
    if (!kas_dim_div(&parts.rhs, &parts.lhs, &pair->repetitions))
        return KAS_FIT_NEVER;
    return kas_parts_mix_pixels(&parts, &rhs) ? KAS_FIT_MIXES : KAS_FIT_TILES;
}

static uint32_t slot_of_pair(uint32_t lhs, uint32_t rhs)
{
    return (uint32_t)(mix(1, (uint64_t)lhs << 32 | rhs) % PAIRS);
}

kas_pair *kas_pairs_get(kas_pairs *pairs, uint32_t lhs, uint32_t rhs)
{
    const uint32_t a = lhs_key(lhs), b = rhs_key(lhs, rhs);
    kas_pair *pair = &pairs->pair[slot_of_pair(a, b)];
    if (pair->lhs == a && pair->rhs == b)
        return pair;
    *pair = (kas_pair){.lhs = a, .rhs = b};
    pair->fit = (uint8_t)find_fit(pairs, pair);
    return pair;
}

/* ---- products ---- */

/* Returns whether the product of the first, or of the last, n channels of a flat shape is that size
 * for some n. */
static bool has_part(const kas_shape_facts *flat, bool first, uint64_t size)
{
    const uint64_t *part = first ? flat->first : flat->last;
    for (int d = 0; d < flat->shape.channels; d++)
        if (part[d] == size)
            return true;
    return false;
}

/* Returns whether that transpose of two tensors contracts the same size on both sides: all channels
 * or all pixels of one operand, and of the other too, or a part of the channels of a flat one. A
 * batch takes as much from the channels of both. This is cheaper than the rule and never excludes
 * what the rule allows. */
static bool may_contract(const kas_shape_facts *lhs, const kas_shape_facts *rhs, int transpose)
{
    const bool rows[2] = {transpose & KAS_TRANSPOSE_LHS, !(transpose & KAS_TRANSPOSE_RHS)};
    if (kas_may_batch(lhs, rhs) && (lhs->flat || rhs->flat || rows[0] != rows[1]))
        return true;
    const uint64_t left = rows[0] ? lhs->channels : lhs->pixels;
    const uint64_t right = rows[1] ? rhs->channels : rhs->pixels;
    if (lhs->flat || rhs->flat)
        return lhs->flat ? !rhs->flat && has_part(lhs, rows[0], right)
                         : has_part(rhs, rows[1], left);
    return left == right;
}

/* Returns the transposes that may be legal, as bits. */
static unsigned transposes(const kas_shape_facts *lhs, const kas_shape_facts *rhs)
{
    unsigned found = 0;
    for (int t = 0; t <= KAS_TRANSPOSE_LHS + KAS_TRANSPOSE_RHS; t++)
        found |= (unsigned)may_contract(lhs, rhs, t) << t;
    return found;
}

static void find_products(kas_pairs *pairs, kas_products *products)
{
    kas_kernel *kernel = &pairs->product;
    unsigned left =
        transposes(&pairs->facts[products->lhs - 1], &pairs->facts[(products->rhs - 1) >> 1]);
    if (!left)
        return;
    kernel->nodes = 3;
    kernel->node[0].shape = *lhs_shape(pairs, products->lhs);
    kernel->node[1].shape = rhs_shape(pairs, products->rhs);
    for (; left; left &= left - 1) {
        const uint8_t t = (uint8_t)__builtin_ctz(left);
        kernel->node[2] = (kas_node){.op = KAS_OP_BMM, .inputs = 2, .in = {0, 1}, .transpose = t};
        if (kas_node_infer(kernel, 2) != KAS_OK)
            continue;
        products->result[t] = kas_pairs_number(pairs, &kernel->node[2].shape);
        products->legal |= (uint8_t)(1u << t);
        if (kas_pairs_facts(pairs, products->result[t])->output != KAS_OUTPUT_NEVER)
            products->outputs |= (uint8_t)(1u << t);
    }
}

kas_products kas_pairs_products(kas_pairs *pairs, uint32_t lhs, uint32_t rhs)
{
    const uint32_t a = lhs_key(lhs), b = rhs_key(lhs, rhs);
    kas_products *kept = &pairs->products[slot_of_pair(a, b)];
    if (!kas_may_multiply(kas_pairs_facts(pairs, lhs), kas_pairs_facts(pairs, rhs)))
        return (kas_products){0};
    if (kept->lhs != a || kept->rhs != b) {
        *kept = (kas_products){.lhs = a, .rhs = b};
        find_products(pairs, kept);
    }
    kas_products products = *kept;
    const int var[2] = {kas_number_var(lhs), kas_number_var(rhs)};
    for (int t = 0; products.legal >> t; t++)
        if (kas_number_var(products.result[t]) >= 0)
            products.result[t] =
                kas_number_with_var(products.result[t], var[kas_number_var(products.result[t])]);
    return products;
}

/* ---- sets of shapes ---- */

uint32_t kas_pairs_context(kas_pairs *pairs, uint32_t group, const kas_split *split)
{
    context *last = &pairs->context[pairs->contexts];
    memset(last, 0, sizeof *last);
    last->group = group;
    memcpy(last->split, split, sizeof last->split);
    uint32_t i = 0;
    while (memcmp(&pairs->context[i], last, sizeof *last) != 0)
        i++;
    pairs->contexts += i == pairs->contexts;
    return i + 1;
}

static uint32_t merge_slot(const kas_merge_key *key)
{
    uint64_t hash = mix(key->context, (uint64_t)key->pattern[0] << 32 | key->pattern[1]);
    return (uint32_t)(mix(hash, (uint64_t)key->pattern[2] << 32 | key->alike) % MERGES);
}

int kas_pairs_recall(const kas_pairs *pairs, const kas_merge_key *key)
{
    const merge *m = &pairs->merge[merge_slot(key)];
    return memcmp(&m->key, key, sizeof *key) == 0 ? m->answer : -1;
}

void kas_pairs_remember(kas_pairs *pairs, const kas_merge_key *key, bool answer)
{
    pairs->merge[merge_slot(key)] = (merge){*key, answer};
}

#include "host/space/canvas/prune.h"

#include "host/space/append.h"

static bool is_rearrangement(int op)
{
    return op == KAS_OP_GROUP || op == KAS_OP_GROUP_ALL || op == KAS_OP_SHIFT ||
           op == KAS_OP_UNFOLD || op == KAS_OP_SHUFFLE || op == KAS_OP_SLICE;
}

/* Returns whether the weights of the operation can absorb a sign. */
static bool is_linear(int op)
{
    return op == KAS_OP_FC || op == KAS_OP_CONV || op == KAS_OP_CONV_DEPTHWISE || op == KAS_OP_MIX;
}

/* Returns the node that computed the values of node i: rearrangements only move them. */
static int producer(const kas_kernel *k, int i)
{
    while (is_rearrangement(k->node[i].op))
        i = k->node[i].in[0];
    return i;
}

/* Returns the node whose values node i repeats in another shape: a grouping moves
 * nothing in memory. */
static int ungrouped(const kas_kernel *k, int i)
{
    while (k->node[i].op == KAS_OP_GROUP || k->node[i].op == KAS_OP_GROUP_ALL)
        i = k->node[i].in[0];
    return i;
}

static bool non_negative(const kas_kernel *k, int i)
{
    for (;;) {
        i = producer(k, i);
        switch (k->node[i].op) {
        case KAS_OP_RELU:
        case KAS_OP_SIGMOID:
        case KAS_OP_ABS:
        case KAS_OP_EXP:
        case KAS_OP_SQRT:
        case KAS_OP_SQUARE:
        case KAS_OP_SOFTMAX:
            return true;
        case KAS_OP_FOLD_AVG:
        case KAS_OP_FOLD_MAX:
        case KAS_OP_POOL_AVG:
        case KAS_OP_POOL_MAX:
            i = k->node[i].in[0];
            break;
        default:
            return false;
        }
    }
}

static bool elementwise(const kas_kernel *k, const kas_node *node)
{
    int p = producer(k, node->in[0]), op = k->node[p].op;
    if (op == node->op) /* relu of relu, neg of neg, square of square, ... */
        return true;
    bool of_negated = op == KAS_OP_NEG && non_negative(k, k->node[p].in[0]);
    switch (node->op) {
    case KAS_OP_RELU: /* the relu changes nothing, or makes everything 0 */
        return non_negative(k, p) || of_negated;
    case KAS_OP_ABS:
        return non_negative(k, p) || op == KAS_OP_NEG;
    case KAS_OP_SQUARE: /* the sign is lost anyway; the square of sqrt gives x back */
        return op == KAS_OP_NEG || op == KAS_OP_ABS || op == KAS_OP_SQRT;
    case KAS_OP_SQRT: /* the root is |x|, or a constant */
        return op == KAS_OP_SQUARE || of_negated;
    case KAS_OP_NEG: /* the weights absorb the sign */
        return is_linear(op);
    default:
        return false;
    }
}

/* Returns whether the map is not grouped, so that it reads and makes its channels in any order. */
static bool is_whole_map(const kas_node *node)
{
    return (node->op == KAS_OP_FC || node->op == KAS_OP_CONV) && !node->grouped;
}

/* Returns whether the weights of a linear map absorb the node before it: the sign of a neg; a
 * factor, if every channel has its own; a shuffle, if the map is not grouped. */
static bool linear(const kas_kernel *k, const kas_node *node)
{
    int p = k->node[producer(k, node->in[0])].op;
    return p == KAS_OP_NEG || (p == KAS_OP_SCALE && node->op != KAS_OP_MIX) ||
           (k->node[node->in[0]].op == KAS_OP_SHUFFLE && is_whole_map(node));
}

static bool fc(const kas_kernel *k, const kas_node *node)
{
    const kas_node *in = &k->node[node->in[0]];
    return linear(k, node) ||
           /* Two linear operators in a row are one */
           (in->op == KAS_OP_FC && !in->grouped && !node->grouped);
}

static bool is_one(const kas_shape *shape, int i)
{
    return kas_dim_is_one(kas_shape_at(shape, i));
}

static bool fold(const kas_kernel *k, const kas_node *node)
{
    const kas_node *in = &k->node[node->in[0]];
    if (is_one(&in->shape, node->dim))
        return true;
    if (in->op == node->op && in->dim > node->dim) /* the same dims in the other order */
        return true;
    if (node->op == KAS_OP_FOLD_AVG && in->op == KAS_OP_FC && node->dim == 0)
        return true; /* the mean of the outputs of a linear map is one with a single output */
    return node->op == KAS_OP_FOLD_AVG && in->op == KAS_OP_SOFTMAX && in->dim == node->dim &&
           in->dim_end == node->dim + 1; /* a constant: the mean of what sums to 1 */
}

/* Returns whether all dims of the range have size 1, so that there is nothing to
 * compare along them. */
static bool covers_ones(const kas_kernel *k, const kas_node *node)
{
    bool all_ones = true;
    for (int d = node->dim; d < node->dim_end; d++)
        all_ones = all_ones && is_one(&k->node[node->in[0]].shape, d);
    return all_ones;
}

static bool softmax(const kas_kernel *k, const kas_node *node)
{
    return covers_ones(k, node) || k->node[producer(k, node->in[0])].op == KAS_OP_SOFTMAX;
}

/* Returns whether a mix is redundant: over all channel dims it is an FC, and a mix of what a mix
 * has made is one mix. */
static bool mix(const kas_kernel *k, const kas_node *node)
{
    const kas_node *in = &k->node[node->in[0]];
    return linear(k, node) || in->shape.channels == node->dim_end - node->dim ||
           (in->op == KAS_OP_MIX && in->dim == node->dim && node->dim_end == node->dim + 1);
}

/* Returns whether a scale is redundant: one factor is enough, and the weights of a linear map
 * absorb it. */
static bool scale(const kas_kernel *k, const kas_node *node)
{
    const kas_node *in = &k->node[node->in[0]];
    return (is_linear(in->op) && in->op != KAS_OP_MIX) ||
           (in->op == KAS_OP_SCALE && in->dim == node->dim && in->dim_end == node->dim_end);
}

static bool norm(const kas_kernel *k, const kas_node *node)
{
    const kas_node *in = &k->node[node->in[0]];
    return covers_ones(k, node) ||
           (in->op == KAS_OP_NORM && in->dim == node->dim && in->dim_end == node->dim_end);
}

static bool group(const kas_kernel *k, const kas_node *node)
{
    const kas_node *in = &k->node[node->in[0]];
    if (in->op == KAS_OP_GROUP || in->op == KAS_OP_GROUP_ALL)
        return true;
    int rest = node->op == KAS_OP_GROUP ? node->dim + 1 : node->dim;
    return is_one(&node->shape, rest); /* G by G, or a dim of one */
}

/* h, then w is hw; h, then h repeats most neighbours */
static bool unfold(const kas_kernel *k, const kas_node *node)
{
    return k->node[node->in[0]].op == KAS_OP_UNFOLD;
}

static bool shuffle(const kas_kernel *k, const kas_node *node)
{
    return is_whole_map(&k->node[node->in[0]]);
}

static bool shift(const kas_kernel *k, const kas_node *node)
{
    const kas_node *in = &k->node[node->in[0]];
    if (in->op == KAS_OP_SHIFT && in->axes == KAS_AXIS_W && node->axes == KAS_AXIS_H)
        return true; /* the same as H, then W */
    for (; in->op == KAS_OP_SHIFT; in = &k->node[in->in[0]])
        if (in->axes == node->axes && in->offset == -node->offset)
            return true;
    return false;
}

static bool pool(const kas_kernel *k, const kas_node *node)
{
    const kas_node *in = &k->node[node->in[0]];
    if (in->op != node->op || (in->axes & node->axes))
        return false;
    return in->kernel == node->kernel || in->axes == KAS_AXIS_W;
}

/* Returns whether the slice takes a segment out of a concatenation: that segment is there
 * already. */
static bool slice(const kas_kernel *k, const kas_node *node)
{
    const kas_node *in = &k->node[node->in[0]];
    return in->op == KAS_OP_CONCAT && in->split == node->split && in->dim == node->dim;
}

/* Returns whether the concatenation joins all segments that were just cut: the whole
 * is there already. */
static bool concat(const kas_kernel *k, const kas_node *node)
{
    for (int i = 0; i < node->inputs; i++) {
        const kas_node *in = &k->node[node->in[i]];
        if (in->op != KAS_OP_SLICE || in->split != node->split || in->dim != node->dim ||
            in->segment != i || in->in[0] != k->node[node->in[0]].in[0])
            return false;
    }
    return true;
}

/* Returns whether a is relu or abs of b: then min and max of a and b say nothing new. */
static bool is_rectified(const kas_kernel *k, int a, int b)
{
    const kas_node *node = &k->node[a];
    return (node->op == KAS_OP_RELU || node->op == KAS_OP_ABS) && node->in[0] == b;
}

bool kas_parts_mix_pixels(const kas_broadcast *parts, const kas_shape *rhs)
{
    kas_dim pixels;
    if (!kas_shape_product(rhs, rhs->channels, kas_shape_rank(rhs) - parts->suffix, &pixels))
        return true;
    return !kas_dim_is_one(&pixels) && !kas_dim_is_one(&parts->lhs) &&
           !kas_dim_equal(&pixels, &parts->lhs);
}

bool kas_shapes_mix_pixels(const kas_shape *lhs, const kas_shape *rhs)
{
    kas_broadcast parts;
    return kas_broadcast_align(lhs, rhs, &parts) != KAS_OK || kas_parts_mix_pixels(&parts, rhs);
}

bool kas_same_values(const kas_kernel *k, int a, int b)
{
    return ungrouped(k, a) == ungrouped(k, b);
}

static bool broadcast(const kas_kernel *k, const kas_node *node)
{
    int a = node->in[0], b = node->in[1];
    const kas_node *lhs = &k->node[a], *rhs = &k->node[b];
    bool equal = kas_shape_equal(&lhs->shape, &rhs->shape);
    bool sum = node->op == KAS_OP_ADD || node->op == KAS_OP_SUB;
    if (kas_same_values(k, a, b) || kas_shapes_mix_pixels(&lhs->shape, &rhs->shape))
        return true; /* x - x, or pixels mixed with channels */
    if (equal && a > b && kas_op_has_trait(node->op, KAS_TRAIT_COMMUTES)) /* one order is enough */
        return true;
    if (sum && (rhs->op == KAS_OP_NEG || (lhs->op == KAS_OP_NEG && equal)))
        return true; /* add for sub, sub for add */
    if (sum && lhs->op == KAS_OP_FC && rhs->op == KAS_OP_FC && lhs->in[0] == rhs->in[0] &&
        lhs->grouped == rhs->grouped && equal)
        return true; /* the sum of two maps of the same values is one map */
    return (node->op == KAS_OP_MIN || node->op == KAS_OP_MAX) &&
           (is_rectified(k, a, b) || is_rectified(k, b, a));
}

/* NULL: the type has no rule of its own. */
static bool (*const rules[KAS_TYPE_COUNT + 1])(const kas_kernel *k, const kas_node *node) = {
    [KAS_TYPE_GROUP] = group,
    [KAS_TYPE_SHIFT] = shift,
    [KAS_TYPE_UNFOLD] = unfold,
    [KAS_TYPE_FC] = fc,
    [KAS_TYPE_ELEMENTWISE] = elementwise,
    [KAS_TYPE_FOLD] = fold,
    [KAS_TYPE_SOFTMAX] = softmax,
    [KAS_TYPE_BROADCAST] = broadcast,
    [KAS_TYPE_SCALE] = scale,
    [KAS_TYPE_NORM] = norm,
    [KAS_TYPE_MIX] = mix,
    [KAS_TYPE_CONV] = linear,
    [KAS_TYPE_POOL] = pool,
    [KAS_TYPE_SHUFFLE] = shuffle,
    [KAS_TYPE_SLICE] = slice,
    [KAS_TYPE_CONCAT] = concat,
};

bool kas_prune_node(const kas_kernel *kernel, int i)
{
    const kas_node *node = &kernel->node[i];
    if (kas_find_node(kernel, i, node) >= 0)
        return true;
    return rules[kas_type_of(node->op)] && rules[kas_type_of(node->op)](kernel, node);
}

/* Returns whether some reader of node i sees how its channels are split, or could come to see it
 * because a node in `open` may get readers. Element-wise functions, shifts, unfolds and depthwise
 * convolutions pass the question on; a map that is not grouped contracts all channels in the same
 * order, and the output is flattened. */
static bool split_is_seen(const kas_kernel *k, int i, uint64_t open)
{
    if (open >> i & 1)
        return true;
    for (int j = i + 1; j < k->nodes; j++) {
        const kas_node *node = &k->node[j];
        bool reads = false;
        for (int n = 0; n < node->inputs; n++)
            reads = reads || node->in[n] == i;
        if (!reads)
            continue;
        bool passes = kas_type_of(node->op) == KAS_TYPE_ELEMENTWISE || node->op == KAS_OP_SHIFT ||
                      node->op == KAS_OP_UNFOLD || node->op == KAS_OP_CONV_DEPTHWISE;
        bool contracts = (node->op == KAS_OP_FC || node->op == KAS_OP_CONV) && !node->grouped;
        if (passes ? split_is_seen(k, j, open) : !contracts)
            return true;
    }
    return false;
}

bool kas_prune_groups(const kas_kernel *kernel, uint64_t open)
{
    for (int i = 1; i < kernel->nodes; i++) {
        const int op = kernel->node[i].op;
        if ((op == KAS_OP_GROUP || op == KAS_OP_GROUP_ALL) && !split_is_seen(kernel, i, open))
            return true;
    }
    return false;
}

bool kas_prune_output(const kas_kernel *kernel)
{
    return kernel->node[kernel->nodes - 1].op == KAS_OP_NEG;
}

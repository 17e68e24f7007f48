#include "host/space/uses.h"

#include <string.h>

#include "host/space/primitive.h"
#include "host/space/split.h"

kas_node kas_use_node(const kas_use *use, int var)
{
    kas_node node = {.op = use->op,
                     .inputs = use->inputs,
                     .dim = use->dim,
                     .dim_end = use->dim_end,
                     .axes = use->axes,
                     .offset = use->offset,
                     .kernel = use->kernel,
                     .dilation = use->dilation,
                     .grouped = use->grouped,
                     .split = use->split,
                     .segment = use->segment,
                     .transpose = use->transpose,
                     .softmax = use->softmax};
    memcpy(node.in, use->in, sizeof node.in);
    if (kas_primitive_get(use->op)->attributes & KAS_ATTR_OUT)
        node.out = kas_dim_symbol((kas_symbol)(KAS_SYM_X0 + var));
    return node;
}

kas_use kas_node_use(const kas_node *node)
{
    kas_use use = {.op = node->op,
                   .inputs = node->inputs,
                   .dim = node->dim,
                   .dim_end = node->dim_end,
                   .axes = node->axes,
                   .offset = node->offset,
                   .kernel = node->kernel,
                   .dilation = node->dilation,
                   .grouped = node->grouped,
                   .split = node->split,
                   .segment = node->segment,
                   .transpose = node->transpose,
                   .softmax = node->softmax};
    memcpy(use.in, node->in, sizeof use.in);
    return use;
}

kas_type kas_type_of(kas_op op)
{
    switch (op) {
    case KAS_OP_GROUP:
    case KAS_OP_GROUP_ALL:
        return KAS_TYPE_GROUP;
    case KAS_OP_SHIFT:
        return KAS_TYPE_SHIFT;
    case KAS_OP_UNFOLD:
        return KAS_TYPE_UNFOLD;
    case KAS_OP_FC:
        return KAS_TYPE_FC;
    case KAS_OP_FOLD_AVG:
    case KAS_OP_FOLD_MAX:
        return KAS_TYPE_FOLD;
    case KAS_OP_SOFTMAX:
        return KAS_TYPE_SOFTMAX;
    case KAS_OP_SCALE:
        return KAS_TYPE_SCALE;
    case KAS_OP_NORM:
        return KAS_TYPE_NORM;
    case KAS_OP_MIX:
        return KAS_TYPE_MIX;
    case KAS_OP_CONV:
    case KAS_OP_CONV_DEPTHWISE:
        return KAS_TYPE_CONV;
    case KAS_OP_BMM:
        return KAS_TYPE_BMM;
    case KAS_OP_POOL_AVG:
    case KAS_OP_POOL_MAX:
        return KAS_TYPE_POOL;
    case KAS_OP_SHUFFLE:
        return KAS_TYPE_SHUFFLE;
    case KAS_OP_SLICE:
        return KAS_TYPE_SLICE;
    case KAS_OP_CONCAT:
        return KAS_TYPE_CONCAT;
    default:
        return kas_op_get(op)->unary ? KAS_TYPE_ELEMENTWISE : KAS_TYPE_BROADCAST;
    }
}

const char *kas_type_name(kas_type type)
{
    static const char *const names[KAS_TYPE_COUNT] = {[KAS_TYPE_GROUP] = "group",
                                                      [KAS_TYPE_SHIFT] = "shift",
                                                      [KAS_TYPE_UNFOLD] = "unfold",
                                                      [KAS_TYPE_FC] = "fc",
                                                      [KAS_TYPE_ELEMENTWISE] = "element-wise",
                                                      [KAS_TYPE_FOLD] = "fold",
                                                      [KAS_TYPE_SOFTMAX] = "softmax",
                                                      [KAS_TYPE_BROADCAST] = "broadcast",
                                                      [KAS_TYPE_SCALE] = "scale",
                                                      [KAS_TYPE_NORM] = "norm",
                                                      [KAS_TYPE_MIX] = "mix",
                                                      [KAS_TYPE_CONV] = "conv",
                                                      [KAS_TYPE_BMM] = "bmm",
                                                      [KAS_TYPE_POOL] = "pool",
                                                      [KAS_TYPE_SHUFFLE] = "shuffle",
                                                      [KAS_TYPE_SLICE] = "slice",
                                                      [KAS_TYPE_CONCAT] = "concat"};
    return names[type];
}

bool kas_op_keeps_shape(kas_op op)
{
    switch (kas_type_of(op)) {
    case KAS_TYPE_SHIFT:
    case KAS_TYPE_ELEMENTWISE:
    case KAS_TYPE_SOFTMAX:
    case KAS_TYPE_SCALE:
    case KAS_TYPE_NORM:
    case KAS_TYPE_POOL:
    case KAS_TYPE_SHUFFLE:
        return true;
    default:
        return op == KAS_OP_CONV_DEPTHWISE;
    }
}

kas_use_filter kas_use_filter_table_1(void)
{
    kas_use_filter filter = {.kernels = 1 << 0,
                             .dilations = 1 << 1,
                             .shifts = 1 << (KAS_MAX_SHIFT - 1) | 1 << (KAS_MAX_SHIFT + 1)};
    for (int op = KAS_OP_INPUT + 1; op < KAS_OP_COUNT; op++)
        if (kas_type_of((kas_op)op) < KAS_TYPES_OF_TABLE_1)
            filter.ops |= KAS_OP_BIT(op);
    return filter;
}

bool kas_use_passes(const kas_use_filter *filter, const kas_use *use)
{
    uint16_t attributes = kas_primitive_get(use->op)->attributes;
    int dilation = use->dilation ? use->dilation : 1;
    if (!(filter->ops & KAS_OP_BIT(use->op)))
        return false;
    if ((attributes & KAS_ATTR_KERNEL) && !(filter->kernels >> use->kernel & 1))
        return false;
    if ((attributes & KAS_ATTR_DILATION) && !(filter->dilations >> dilation & 1))
        return false;
    return !(attributes & KAS_ATTR_OFFSET) || (filter->shifts >> (KAS_MAX_SHIFT + use->offset) & 1);
}

bool kas_use_has_leaves(const kas_use_filter *filter, const kas_use *use)
{
    int needed = filter->leaves_needed[use->op];
    uint64_t leaves = filter->leaves;
    for (int k = 0; k < use->inputs && needed > 0; k++) {
        uint64_t operand = (uint64_t)1 << use->in[k];
        needed -= (leaves & operand) != 0;
        leaves &= ~operand; /* a leaf that is read twice is one */
    }
    return needed <= 0;
}

typedef struct list {
    const kas_use_filter *filter;
    kas_use *out;
    int count;
} list;

static void add(list *l, kas_use use)
{
    if (l->count < KAS_MAX_USES && (l->filter->ops & KAS_OP_BIT(use.op)) &&
        kas_use_has_leaves(l->filter, &use))
        l->out[l->count++] = use;
}

/* A use of one operand. */
static kas_use of(int node, uint8_t op)
{
    return (kas_use){.op = op, .inputs = 1, .in = {(uint8_t)node}};
}

/* Of each dim below `rank`. */
static void add_dims(list *l, int node, uint8_t op, int rank)
{
    kas_use use = of(node, op);
    for (use.dim = 0; use.dim < rank; use.dim++)
        add(l, use);
}

static void add_groups(list *l, int node, const kas_shape *shape)
{
    for (int8_t d = 0; d < shape->channels; d++)
        for (uint8_t op = KAS_OP_GROUP; op <= KAS_OP_GROUP_ALL; op++) {
            kas_use use = of(node, op);
            use.dim = d;
            add(l, use);
        }
}

static bool has_group(const kas_shape *shape)
{
    for (int d = 0; d < shape->channels; d++)
        if (shape->is_group[d])
            return true;
    return false;
}

static bool has_axes(const kas_shape *shape, int axes)
{
    return (!(axes & KAS_AXIS_H) || kas_shape_has(shape, KAS_AXIS_H)) &&
           (!(axes & KAS_AXIS_W) || kas_shape_has(shape, KAS_AXIS_W));
}

static void add_shifts(list *l, int node, const kas_shape *shape)
{
    kas_use use = of(node, KAS_OP_SHIFT);
    for (use.axes = KAS_AXIS_H; use.axes <= KAS_AXIS_W; use.axes++)
        for (use.offset = -KAS_MAX_SHIFT; use.offset <= KAS_MAX_SHIFT; use.offset++)
            if ((l->filter->shifts >> (KAS_MAX_SHIFT + use.offset) & 1) &&
                !(l->filter->skip_illegal && !has_axes(shape, use.axes)))
                add(l, use);
}

/* Windows over H, W or both; dilated ones where the primitive can be. */
static void add_windows(list *l, const kas_kernel *kernel, int node, uint8_t op, uint8_t grouped)
{
    const kas_shape *shape = &kernel->node[node].shape;
    const kas_use_filter *f = l->filter;
    const bool dilated = kas_primitive_get(op)->attributes & KAS_ATTR_DILATION;
    const unsigned dilations = dilated ? f->dilations : 1 << 1;
    kas_use use = of(node, op);
    use.grouped = grouped;
    if (f->skip_illegal && grouped && !has_group(shape))
        return;
    for (use.axes = 1; use.axes <= (KAS_AXIS_H | KAS_AXIS_W); use.axes++)
        for (unsigned kernels = f->skip_illegal && !has_axes(shape, use.axes) ? 0 : f->kernels;
             kernels; kernels &= kernels - 1)
            for (int d = 1; d <= KAS_MAX_DILATION; d++) {
                use.kernel = (uint8_t)__builtin_ctz(kernels);
                use.dilation = d > 1 ? (uint8_t)d : 0;
                if (dilations >> d & 1)
                    add(l, use);
            }
}

static void add_fcs(list *l, int node, const kas_shape *shape)
{
    kas_use use = of(node, KAS_OP_FC);
    int most = l->filter->skip_illegal && !has_group(shape) ? 0 : 1;
    for (use.grouped = 0; use.grouped <= most; use.grouped++)
        add(l, use);
}

static void add_elementwise(list *l, int node)
{
    for (uint8_t op = KAS_OP_RELU; op <= KAS_OP_SQUARE; op++)
        add(l, of(node, op));
}

static void add_folds(list *l, int node, const kas_shape *shape)
{
    for (int8_t d = 0; d < kas_shape_rank(shape); d++)
        for (uint8_t op = KAS_OP_FOLD_AVG; op <= KAS_OP_FOLD_MAX; op++) {
            kas_use use = of(node, op);
            use.dim = d;
            add(l, use);
        }
}

/* Every range of consecutive dims below `rank`. */
static void add_ranges(list *l, int node, uint8_t op, int rank)
{
    kas_use use = of(node, op);
    for (use.dim = 0; use.dim < rank; use.dim++)
        for (use.dim_end = (int8_t)(use.dim + 1); use.dim_end <= rank; use.dim_end++)
            add(l, use);
}

/* There are many pairs: their leaves are counted once for all operations. */
static void add_broadcasts(list *l, int lhs, int nodes)
{
    const kas_use_filter *f = l->filter;
    for (int rhs = 0; rhs < nodes; rhs++) {
        int leaves = (int)(f->leaves >> lhs & 1) + (int)(f->leaves >> rhs & 1);
        for (uint8_t op = KAS_OP_ADD; rhs != lhs && op <= KAS_OP_MAX; op++)
            if ((f->ops & KAS_OP_BIT(op)) && leaves >= f->leaves_needed[op] &&
                l->count < KAS_MAX_USES)
                l->out[l->count++] =
                    (kas_use){.op = op, .inputs = 2, .in = {(uint8_t)lhs, (uint8_t)rhs}};
    }
}

static bool has_size(const kas_shape *shape, int d, const kas_dim *size)
{
    return kas_dim_equal(kas_shape_at(shape, d), size);
}

/* Every segment of every dim that a split of the kernel cuts. */
static void add_slices(list *l, const kas_kernel *kernel, int node)
{
    const kas_shape *shape = &kernel->node[node].shape;
    kas_use use = of(node, KAS_OP_SLICE);
    for (use.split = 0; use.split < KAS_MAX_SPLITS; use.split++) {
        const kas_split *split = &kernel->split[use.split];
        for (use.dim = 0; split->whole.num && use.dim < kas_shape_rank(shape); use.dim++)
            for (use.segment = 0;
                 has_size(shape, use.dim, &split->whole) && use.segment < kas_split_segments(split);
                 use.segment++)
                add(l, use);
    }
}

typedef struct concats {
    list *l;
    const kas_kernel *kernel;
    int segments;
    kas_dim size[KAS_MAX_SHARES]; /* of each segment */
} concats;

/* Chooses operand number use->inputs and those after it among the nodes with that segment's size
 * that are like the first in every other dim. `needed`: leaves that must still be among them. */
static void add_operands(concats *c, kas_use *use, int needed)
{
    const int k = use->inputs, left = c->segments - k;
    if (left == 0) {
        add(c->l, *use);
        return;
    }
    for (int i = 0; i < c->kernel->nodes && c->l->count < KAS_MAX_USES; i++) {
        const kas_shape *shape = &c->kernel->node[i].shape;
        const int leaf = c->l->filter->leaves >> i & 1;
        if (needed - leaf > left - 1 || use->dim >= kas_shape_rank(shape) ||
            !kas_dim_equal(kas_shape_at(shape, use->dim), &c->size[k]) ||
            (k > 0 &&
             !kas_shapes_match_beside(shape, &c->kernel->node[use->in[0]].shape, use->dim)))
            continue;
        use->in[k] = (uint8_t)i;
        use->inputs = (uint8_t)(k + 1);
        add_operands(c, use, needed - leaf);
        use->inputs = (uint8_t)k;
    }
}

/* All tuples of operands at once: this type is not listed node by node. */
static void add_concats(list *l, const kas_kernel *kernel)
{
    kas_use use = {.op = KAS_OP_CONCAT};
    for (use.split = 0; use.split < KAS_MAX_SPLITS; use.split++) {
        const kas_split *split = &kernel->split[use.split];
        concats c = {.l = l, .kernel = kernel};
        bool fits = split->whole.num != 0;
        if (fits)
            c.segments = kas_split_segments(split);
        for (int k = 0; k < c.segments; k++)
            fits = fits && kas_split_segment(kernel, use.split, k, &c.size[k]);
        for (use.dim = 0; fits && use.dim < KAS_MAX_DIMS; use.dim++)
            add_operands(&c, &use, l->filter->leaves_needed[KAS_OP_CONCAT]);
    }
}

static void add_uses(list *l, const kas_kernel *kernel, kas_type type, int i)
{
    const kas_shape *shape = &kernel->node[i].shape;
    int rank = kas_shape_rank(shape), channels = shape->channels;
    switch (type) {
    case KAS_TYPE_GROUP:
        add_groups(l, i, shape);
        break;
    case KAS_TYPE_SHIFT:
        add_shifts(l, i, shape);
        break;
    case KAS_TYPE_UNFOLD:
        add_windows(l, kernel, i, KAS_OP_UNFOLD, 0);
        break;
    case KAS_TYPE_FC:
        add_fcs(l, i, shape);
        break;
    case KAS_TYPE_ELEMENTWISE:
        add_elementwise(l, i);
        break;
    case KAS_TYPE_FOLD:
        add_folds(l, i, shape);
        break;
    case KAS_TYPE_SOFTMAX:
        add_ranges(l, i, KAS_OP_SOFTMAX, rank);
        break;
    case KAS_TYPE_BROADCAST:
        add_broadcasts(l, i, kernel->nodes);
        break;
    case KAS_TYPE_SCALE:
        add_ranges(l, i, KAS_OP_SCALE, channels);
        break;
    case KAS_TYPE_NORM:
        add_ranges(l, i, KAS_OP_NORM, rank);
        break;
    case KAS_TYPE_MIX:
        add_ranges(l, i, KAS_OP_MIX, channels);
        break;
    case KAS_TYPE_CONV:
        add_windows(l, kernel, i, KAS_OP_CONV, 0);
        add_windows(l, kernel, i, KAS_OP_CONV, 1);
        add_windows(l, kernel, i, KAS_OP_CONV_DEPTHWISE, 0);
        break;
    case KAS_TYPE_POOL:
        add_windows(l, kernel, i, KAS_OP_POOL_AVG, 0);
        add_windows(l, kernel, i, KAS_OP_POOL_MAX, 0);
        break;
    case KAS_TYPE_SHUFFLE:
        add_dims(l, i, KAS_OP_SHUFFLE, channels);
        break;
    case KAS_TYPE_SLICE:
        add_slices(l, kernel, i);
        break;
    case KAS_TYPE_CONCAT: /* see add_concats */
    case KAS_TYPE_BMM:    /* see kas_list_pair_uses */
    case KAS_TYPE_COUNT:
        break;
    }
}

/* The nodes that a use may have as its only operand, or as its first of several. */
static uint64_t first_operands(const kas_use_filter *filter, kas_type type)
{
    uint64_t any = UINT64_MAX;
    for (int op = KAS_OP_INPUT + 1; op < KAS_OP_COUNT; op++)
        if (kas_type_of((kas_op)op) == type && (filter->ops & KAS_OP_BIT(op)) &&
            (kas_op_get((kas_op)op)->inputs > 1 || filter->leaves_needed[op] <= 0))
            return any;
    return filter->leaves;
}

int kas_list_uses(const kas_kernel *kernel, kas_type type, const kas_use_filter *filter,
                  kas_use out[KAS_MAX_USES])
{
    list l = {.filter = filter, .out = out};
    uint64_t first = first_operands(filter, type);
    if (type == KAS_TYPE_CONCAT)
        add_concats(&l, kernel);
    for (int i = 0; i < kernel->nodes; i++)
        if (first >> i & 1)
            add_uses(&l, kernel, type, i);
    return l.count;
}

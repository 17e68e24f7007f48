#include "host/space/canvas/candidate_ops.h"

#include <string.h>

#include "host/space/primitive.h"
#include "host/space/split.h"

void kas_candidate_op_node(const kas_candidate_op *use, int var, kas_node *out)
{
    out->op = use->op;
    out->inputs = use->inputs;
    memcpy(out->in, use->in, sizeof out->in);
    out->dim = use->dim;
    out->dim_end = use->dim_end;
    out->axes = use->axes;
    out->offset = use->offset;
    out->symbol = 0;
    out->grouped = use->grouped;
    out->kernel = use->kernel;
    out->dilation = use->dilation;
    out->split = use->split;
    out->segment = use->segment;
    out->transpose = use->transpose;
    out->softmax = use->softmax;
    out->out = (kas_dim){0};
    if (kas_primitive_get(use->op)->attributes & KAS_ATTR_OUT)
        out->out = kas_dim_symbol((kas_symbol)(KAS_SYM_X0 + var));
}

kas_candidate_op kas_node_candidate_op(const kas_node *node)
{
    kas_candidate_op use = {.op = node->op,
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

const char *kas_type_name(kas_type type)
{
    static const char *const names[KAS_TYPE_COUNT] = {
        [KAS_TYPE_GROUP] = "group",
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
        [KAS_TYPE_CONCAT] = "concat",
    };
    return names[type];
}

bool kas_candidate_op_passes(const kas_op_filter *filter, const kas_candidate_op *use)
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

bool kas_candidate_op_has_leaves(const kas_op_filter *filter, const kas_candidate_op *use)
{
    int needed = filter->leaves_needed[use->op];
    uint64_t leaves = filter->leaves;
    for (int k = 0; k < use->inputs && needed > 0; k++) {
        uint64_t operand = (uint64_t)1 << use->in[k];
        needed -= (leaves & operand) != 0;
        leaves &= ~operand; /* a leaf that is read twice counts once */
    }
    return needed <= 0;
}

typedef struct list {
    const kas_op_filter *filter;
    kas_candidate_op *out;
    int count;
} list;

static void add(list *l, kas_candidate_op use)
{
    if (l->count < KAS_MAX_CANDIDATE_OPS)
        l->out[l->count++] = use;
}

/* Returns whether an operation of one operand is allowed on this node. Asked once for all
 * attributes of the operation. */
static bool is_wanted(const list *l, int node, int op)
{
    return (l->filter->ops & KAS_OP_BIT(op)) &&
           l->filter->leaves_needed[op] <= (int)(l->filter->leaves >> node & 1);
}

/* Returns a candidate operation with one operand. */
static kas_candidate_op of(int node, uint8_t op)
{
    return (kas_candidate_op){.op = op, .inputs = 1, .in = {(uint8_t)node}};
}

/* Lists the operation for each dim below `rank`. */
static void add_dims(list *l, int node, uint8_t op, int rank)
{
    kas_candidate_op use = of(node, op);
    for (use.dim = 0; use.dim < rank && is_wanted(l, node, op); use.dim++)
        add(l, use);
}

/* Lists two operations, `op` and the next one, for each dim below `rank`. */
static void add_dims_of_two(list *l, int node, uint8_t op, int rank)
{
    const bool wanted[2] = {is_wanted(l, node, op), is_wanted(l, node, op + 1)};
    kas_candidate_op use = of(node, op);
    for (use.dim = 0; use.dim < rank; use.dim++)
        for (int k = 0; k < 2; k++) {
            use.op = (uint8_t)(op + k);
            if (wanted[k])
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
    kas_candidate_op use = of(node, KAS_OP_SHIFT);
    for (use.axes = KAS_AXIS_H; use.axes <= KAS_AXIS_W && is_wanted(l, node, use.op); use.axes++)
        for (use.offset = -KAS_MAX_SHIFT; use.offset <= KAS_MAX_SHIFT; use.offset++)
            if ((l->filter->shifts >> (KAS_MAX_SHIFT + use.offset) & 1) &&
                !(l->filter->skip_illegal && !has_axes(shape, use.axes)))
                add(l, use);
}

/* Lists windows over H, W or both, dilated ones too where the primitive has a dilation. */
static void add_windows(list *l, const kas_kernel *kernel, int node, uint8_t op, uint8_t grouped)
{
    const kas_shape *shape = &kernel->node[node].shape;
    const kas_op_filter *f = l->filter;
    const bool dilated = kas_primitive_get(op)->attributes & KAS_ATTR_DILATION;
    const unsigned dilations = (dilated ? f->dilations : 1 << 1) & ~1u;
    kas_candidate_op use = of(node, op);
    use.grouped = grouped;
    if (!is_wanted(l, node, op) || (f->skip_illegal && grouped && !has_group(shape)))
        return;
    for (use.axes = 1; use.axes <= (KAS_AXIS_H | KAS_AXIS_W); use.axes++)
        for (unsigned kernels = f->skip_illegal && !has_axes(shape, use.axes) ? 0 : f->kernels;
             kernels; kernels &= kernels - 1)
            for (unsigned left = dilations; left; left &= left - 1) {
                const int d = __builtin_ctz(left);
                use.kernel = (uint8_t)__builtin_ctz(kernels);
                use.dilation = d > 1 ? (uint8_t)d : 0;
                add(l, use);
            }
}

static void add_fcs(list *l, int node, const kas_shape *shape)
{
    kas_candidate_op use = of(node, KAS_OP_FC);
    int most = l->filter->skip_illegal && !has_group(shape) ? 0 : 1;
    for (use.grouped = 0; use.grouped <= most && is_wanted(l, node, use.op); use.grouped++)
        add(l, use);
}

static void add_elementwise(list *l, int node)
{
    for (uint8_t op = KAS_OP_RELU; op <= KAS_OP_SQUARE; op++)
        if (is_wanted(l, node, op))
            add(l, of(node, op));
}

/* Lists every range of consecutive dims below `rank`. */
static void add_ranges(list *l, int node, uint8_t op, int rank)
{
    kas_candidate_op use = of(node, op);
    for (use.dim = 0; use.dim < rank && is_wanted(l, node, op); use.dim++)
        for (use.dim_end = (int8_t)(use.dim + 1); use.dim_end <= rank; use.dim_end++)
            add(l, use);
}

/* Lists the broadcasts of one LHS. There are many pairs, so the leaves of a pair are counted once
 * for all operations. */
static void add_broadcasts(list *l, int lhs, int nodes)
{
    const kas_op_filter *f = l->filter;
    for (int rhs = 0; rhs < nodes; rhs++) {
        int leaves = (int)(f->leaves >> lhs & 1) + (int)(f->leaves >> rhs & 1);
        for (uint8_t op = KAS_OP_ADD; rhs != lhs && op <= KAS_OP_MAX; op++)
            if ((f->ops & KAS_OP_BIT(op)) && leaves >= f->leaves_needed[op] &&
                l->count < KAS_MAX_CANDIDATE_OPS)
                l->out[l->count++] =
                    (kas_candidate_op){.op = op, .inputs = 2, .in = {(uint8_t)lhs, (uint8_t)rhs}};
    }
}

static bool has_size(const kas_shape *shape, int d, const kas_dim *size)
{
    return kas_dim_equal(kas_shape_at(shape, d), size);
}

/* Lists every segment of every dim that a split of the kernel cuts. */
static void add_slices(list *l, const kas_kernel *kernel, int node)
{
    const kas_shape *shape = &kernel->node[node].shape;
    kas_candidate_op use = of(node, KAS_OP_SLICE);
    for (use.split = 0; use.split < KAS_MAX_SPLITS && is_wanted(l, node, use.op); use.split++) {
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
    /* Nodes, as bits, whose dim has the size of the segment */
    uint64_t nodes[KAS_MAX_SHARES][KAS_MAX_DIMS];
} concats;

/* Chooses operand number use->inputs and those after it among the nodes whose dim has the size of
 * that segment and which equal the first operand in every other dim. `needed` is the number of
 * leaves that must still be among them. */
static void add_operands(concats *c, kas_candidate_op *use, int needed)
{
    const int k = use->inputs, left = c->segments - k;
    if (left == 0) {
        if (kas_candidate_op_has_leaves(c->l->filter, use))
            add(c->l, *use);
        return;
    }
    uint64_t nodes = c->nodes[k][use->dim];
    if (needed > left - 1)
        nodes &= needed > left ? 0 : c->l->filter->leaves;
    for (; nodes && c->l->count < KAS_MAX_CANDIDATE_OPS; nodes &= nodes - 1) {
        const int i = __builtin_ctzll(nodes);
        const kas_node *node = c->kernel->node;
        if (k > 0 && !kas_shapes_match_beside(&node[i].shape, &node[use->in[0]].shape, use->dim))
            continue;
        use->in[k] = (uint8_t)i;
        use->inputs = (uint8_t)(k + 1);
        add_operands(c, use, needed - (int)(c->l->filter->leaves >> i & 1));
        use->inputs = (uint8_t)k;
    }
}

/* Finds the dims of nodes that have a segment's size. Returns false when some segment has none. */
static bool find_segments(concats *c, int split)
{
    kas_dim size;
    uint64_t any = 0;
    memset(c->nodes, 0, sizeof c->nodes);
    for (int k = 0; k < c->segments; k++, any = 0) {
        if (!kas_split_segment(c->kernel, split, k, &size))
            return false;
        for (int i = 0; i < c->kernel->nodes; i++)
            for (int d = 0; d < kas_shape_rank(&c->kernel->node[i].shape); d++) {
                const uint64_t has = has_size(&c->kernel->node[i].shape, d, &size);
                c->nodes[k][d] |= has << i;
                any |= has;
            }
        if (!any)
            return false;
    }
    return true;
}

/* Lists concatenations with all tuples of operands at once, not node by node. */
static void add_concats(list *l, const kas_kernel *kernel)
{
    kas_candidate_op use = {.op = KAS_OP_CONCAT};
    concats c = {.l = l, .kernel = kernel};
    for (use.split = 0; use.split < KAS_MAX_SPLITS && (l->filter->ops & KAS_OP_BIT(use.op));
         use.split++) {
        if (kernel->split[use.split].whole.num == 0)
            continue;
        c.segments = kas_split_segments(&kernel->split[use.split]);
        const bool fits = find_segments(&c, use.split);
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
        add_dims_of_two(l, i, KAS_OP_GROUP, channels);
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
        add_dims_of_two(l, i, KAS_OP_FOLD_AVG, rank);
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
    case KAS_TYPE_BMM:    /* see kas_list_pairs */
    case KAS_TYPE_INPUT:
        break;
    }
}

/* Returns the nodes that may be the only operand, or the first of several, as bits. */
static uint64_t first_operands(const kas_op_filter *filter, kas_type type)
{
    uint64_t any = UINT64_MAX;
    for (int op = KAS_OP_INPUT + 1; op < KAS_OP_COUNT; op++)
        if (kas_type_of(op) == type && (filter->ops & KAS_OP_BIT(op)) &&
            (kas_op_get((kas_op)op)->inputs > 1 || filter->leaves_needed[op] <= 0))
            return any;
    return filter->leaves;
}

int kas_list_candidate_ops(const kas_kernel *kernel, kas_type type, const kas_op_filter *filter,
                           kas_candidate_op out[KAS_MAX_CANDIDATE_OPS])
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

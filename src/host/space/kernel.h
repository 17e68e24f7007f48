/* The kernel: a micro-DAG of primitives (paper, section 3 and Table 1).
 *
 * Node 0 is the input [C, H, W]; every other node applies one primitive to earlier nodes; the last
 * node is the output. A node's tensor has channel dimensions first, then what is left of H and W:
 *
 *     [ channel[0], ..., channel[channels-1], (H), (W) ]
 *
 * A batch index and the instance index (target.h) stand in front of these dimensions; the
 * primitives do not see them. docs/primitives.md defines what each primitive computes, its
 * gradient, its legality and its cost; names here and there agree.
 *
 * The output must have both H and W, and channel dimensions whose product is C: [G, C/G, H, W] lies
 * in memory as [C, H, W] does, so flattening costs nothing and is implied. */
#ifndef KAS_SPACE_KERNEL_H
#define KAS_SPACE_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "host/core/buf.h"
#include "host/core/status.h"
#include "host/space/dim.h"

enum {
    KAS_MAX_NODES = 64, /* input included */
    KAS_MAX_CHANNEL_DIMS = 8,
    KAS_MAX_DIMS = KAS_MAX_CHANNEL_DIMS + 2,
    KAS_MAX_INPUTS = 4 /* operands of one node */
};

/* The primitives. Files hold their names and never these values, so the order may change; but the
 * primitives of a type stand together. */
typedef enum kas_op {
    KAS_OP_INPUT,
    /* rearrangement */
    KAS_OP_GROUP,     /* dim X -> G, X/G            attributes: dim, symbol */
    KAS_OP_GROUP_ALL, /* dim X -> X, 1              attributes: dim */
    KAS_OP_SHIFT,     /* circular, along H or W     attributes: axes (one), offset */
    KAS_OP_UNFOLD,    /* appends K_H, K_W or both to the channel dims, zero padding
                         attributes: axes, kernel, dilation */
    KAS_OP_SHUFFLE,   /* [G, X/G] of a dim transposed attributes: dim, symbol */
    KAS_OP_SLICE,     /* one segment of a dim      attributes: dim, split, segment */
    KAS_OP_CONCAT,    /* all segments of a split, in order: the whole dim
                         attributes: dim, split */
    /* arithmetic */
    KAS_OP_FC,   /* channels -> [out]; learned  attributes: grouped, out */
    KAS_OP_CONV, /* the same with a window over H, W or both  attributes: as FC's, axes, kernel,
                    dilation */
    KAS_OP_CONV_DEPTHWISE, /* every channel by itself    attributes: axes, kernel, dilation */
    KAS_OP_MIX,            /* channel dims [dim, dim_end) -> out, others kept; learned
                              attributes: dim, dim_end, out */
    KAS_OP_SCALE, /* times a learned factor for each position of channel dims [dim, dim_end)
                     attributes: dim, dim_end */
    KAS_OP_RELU,
    KAS_OP_GELU,
    KAS_OP_SIGMOID,
    KAS_OP_TANH,
    KAS_OP_ABS,
    KAS_OP_EXP,
    KAS_OP_NEG,
    KAS_OP_SIN,
    KAS_OP_SQRT,
    KAS_OP_SQUARE,
    KAS_OP_FOLD_AVG, /* removes one dim             attributes: dim */
    KAS_OP_FOLD_MAX,
    KAS_OP_SOFTMAX,  /* over dims [dim, dim_end)    attributes: dim, dim_end */
    KAS_OP_NORM,     /* mean 0, variance 1 over dims [dim, dim_end)  attributes: dim, dim_end */
    KAS_OP_POOL_AVG, /* over a window of pixels     attributes: axes, kernel */
    KAS_OP_POOL_MAX,
    KAS_OP_BMM, /* product of two data tensors, in[0] = LHS, in[1] = RHS
                   attributes: transpose, softmax */
    /* broadcast: in[0] = LHS is tiled over in[1] = RHS; shape of RHS */
    KAS_OP_ADD,
    KAS_OP_SUB,
    KAS_OP_MUL,
    KAS_OP_MIN,
    KAS_OP_MAX,
    KAS_OP_COUNT
} kas_op;

enum { KAS_AXIS_H = 1, KAS_AXIS_W = 2 };               /* bits of `axes` */
enum { KAS_TRANSPOSE_LHS = 1, KAS_TRANSPOSE_RHS = 2 }; /* bits of `transpose` */
enum { KAS_MAX_SHIFT = 3, KAS_MAX_WINDOW = 7, KAS_MAX_DILATION = 3 };

typedef struct kas_shape {
    int channels; /* number of channel dimensions, 0..8 */
    kas_dim channel[KAS_MAX_CHANNEL_DIMS];
    uint8_t
        /* Made by GROUP or GROUP_ALL: a grouped FC keeps this dim apart */
        is_group[KAS_MAX_CHANNEL_DIMS];
    kas_dim spatial[2]; /* along H, along W; all zero: the dim was folded away */
} kas_shape;

typedef struct kas_node {
    uint8_t op;                 /* kas_op */
    uint8_t inputs;             /* 0 to 4 */
    uint8_t in[KAS_MAX_INPUTS]; /* node numbers, smaller than this node's */
    int8_t dim, dim_end;        /* indices into the list [channels..., H, W] of the INPUT's shape */
    uint8_t axes;               /* KAS_AXIS_* */
    /* SHIFT: output[i] = input[(i + offset) mod size]; the paper's offset is 1 */
    int8_t offset;
    uint8_t symbol;  /* GROUP, SHUFFLE: which group symbol, 0..3 */
    uint8_t grouped; /* FC, CONV: contracts only the dims that are not group dims */
    /* Window along an axis: 3, 5 or 7; 0 = K_H, K_W of the replaced convolution */
    uint8_t kernel;
    uint8_t dilation;  /* pixels from one tap of a window to the next: 1 to 3; 0 = 1 */
    uint8_t split;     /* SLICE, CONCAT: which of the kernel's splits, 0..3 */
    uint8_t segment;   /* SLICE: which segment of the split */
    uint8_t transpose; /* BMM: KAS_TRANSPOSE_* */
    uint8_t softmax;   /* BMM: a softmax of the product, along its columns */
    /* FC, CONV, MIX: size of the new dimension: a free variable or its value */
    kas_dim out;
    kas_shape shape; /* shape of the result; derived, see kas_kernel_infer */
} kas_node;

/* A way of cutting a dim, named S0 to S3 in files; see split.h. */
typedef struct kas_split {
    kas_dim whole; /* size of the dim that is cut; num 0 = the kernel has no such split */
    /* Elements of the first of two segments, whose rest is symbol R<number>; or 0 and: */
    uint32_t first;
    uint8_t shares; /* 2 to 4 segments of equal size; or 0 and: */
    uint16_t part;  /* the first of two segments is whole/part, the second is what is left */
} kas_split;

typedef struct kas_kernel {
    int nodes;
    kas_node node[KAS_MAX_NODES];
    kas_split split[KAS_MAX_SPLITS];
    uint32_t group_value[KAS_MAX_GROUPS]; /* one value for all targets; 0 = symbol not used */
    /* The stride of the convolution is that of the kernel's windows: the kernel is computed at
     * every stride-th pixel of the layer's input. Otherwise an average pool takes it first. */
    bool stride_inside;
} kas_kernel;

/* Primitives of one type share their code, and the samplers draw a type before a primitive of it:
 * the rows of the paper's Table 1 in its order, then the others in the order in which they came. */
typedef enum kas_type {
    KAS_TYPE_GROUP,
    KAS_TYPE_SHIFT,
    KAS_TYPE_UNFOLD,
    KAS_TYPE_FC,
    KAS_TYPE_ELEMENTWISE,
    KAS_TYPE_FOLD,
    KAS_TYPE_SOFTMAX,
    KAS_TYPE_BROADCAST,
    KAS_TYPE_SCALE,
    KAS_TYPE_NORM,
    KAS_TYPE_MIX,
    KAS_TYPE_CONV,
    KAS_TYPE_BMM,
    KAS_TYPE_POOL,
    KAS_TYPE_SHUFFLE,
    KAS_TYPE_SLICE,
    KAS_TYPE_CONCAT,
    KAS_TYPE_COUNT,
    KAS_TYPE_INPUT = KAS_TYPE_COUNT /* no sampler draws it */
} kas_type;

enum {
    KAS_TRAIT_SPATIAL = 1,    /* an output pixel may depend on several pixels of an operand */
    KAS_TRAIT_SAME_SHAPE = 2, /* the result always has shape and marks of the first operand */
    KAS_TRAIT_COMMUTES = 4,   /* operands of equal shape may be exchanged */
    KAS_TRAIT_VARIADIC = 8    /* takes up to KAS_MAX_INPUTS operands */
};

/* What code outside src/host/space knows of a primitive: its row of the table in primitives.c. */
typedef struct kas_op_info {
    const char *name; /* as in kernel files: "unfold", "fold_avg", ... */
    kas_type type;
    uint8_t inputs; /* operands; the fewest where the primitive is variadic */
    uint8_t traits; /* KAS_TRAIT_* */
} kas_op_info;
const kas_op_info *kas_op_get(kas_op op);
static inline kas_type kas_type_of(int op)
{
    return kas_op_get((kas_op)op)->type;
}
static inline bool kas_op_has_trait(int op, int trait)
{
    return kas_op_get((kas_op)op)->traits & trait;
}

/* Returns whether the tensor still has a dim along `axis`, KAS_AXIS_H or KAS_AXIS_W. */
static inline bool kas_shape_has(const kas_shape *shape, int axis)
{
    return shape->spatial[axis == KAS_AXIS_W].num != 0;
}
/* Returns the place of that dim in the list of dims [channels..., H, W]. */
int kas_shape_place(const kas_shape *shape, int axis);
/* Returns whether both image dims are there and whole: H and W, as the output must have them. */
bool kas_shape_has_image(const kas_shape *shape);
/* Returns the number of dims of a shape. */
static inline int kas_shape_rank(const kas_shape *shape)
{
    return shape->channels + kas_shape_has(shape, KAS_AXIS_H) + kas_shape_has(shape, KAS_AXIS_W);
}
/* Returns dim i of the list [channels..., H, W]. */
static inline const kas_dim *kas_shape_at(const kas_shape *shape, int i)
{
    if (i < shape->channels)
        return &shape->channel[i];
    return &shape->spatial[i > shape->channels || !kas_shape_has(shape, KAS_AXIS_H)];
}
static inline kas_dim kas_shape_dim(const kas_shape *shape, int i)
{
    return *kas_shape_at(shape, i);
}
/* Computes the product of dims [from, to). Returns false when the monomial overflows. */
bool kas_shape_product(const kas_shape *shape, int from, int to, kas_dim *out);
/* Computes the product of all dims (without batch and instance). Returns false when
 * the monomial overflows. */
bool kas_shape_size(const kas_shape *shape, kas_dim *out);
bool kas_shape_equal(const kas_shape *a, const kas_shape *b); /* compares dims, not is_group */
/* Returns whether the shapes have equal dims everywhere but at dim d. */
bool kas_shapes_match_beside(const kas_shape *a, const kas_shape *b, int d);
void kas_shape_print(const kas_shape *shape, kas_buf *out); /* appends "[G0, C/G0, H, W]" */

/* Derives node i's shape from its inputs and attributes and checks the primitive's own rules.
 * Returns KAS_ILLEGAL with a message that names the node and the rule. */
kas_status kas_node_infer(kas_kernel *kernel, int i);
/* Infers all nodes in order, then checks the rules for the whole: one input, one output, everything
 * reachable, the output's shape, Theorem 1. A kernel from outside (a file) passes through this
 * before any use. */
kas_status kas_kernel_infer(kas_kernel *kernel);

/* The aligned parts of a broadcast (paper, section 5): the common suffix is stripped first, then
 * the common prefix, by symbolic equality; LHS is then tiled over what remains of RHS. */
typedef struct kas_broadcast {
    int prefix, suffix; /* number of dims stripped at each end */
    kas_dim lhs, rhs;   /* sizes of what remains; lhs must divide rhs */
} kas_broadcast;
/* Aligns two shapes. Returns KAS_ILLEGAL when a product of sizes leaves its range; whether lhs
 * divides rhs is not checked. */
kas_status kas_broadcast_align(const kas_shape *lhs, const kas_shape *rhs, kas_broadcast *out);

/* How a BMM sees its operands (docs/primitives.md): each operand is a batch of matrices, with dims
 * [0, batch) as the batch, [batch, cut) as the rows and the remaining dims as the columns. */
typedef struct kas_product {
    int batch, cut[2];
    kas_dim contracted; /* product of the dims that are summed over */
} kas_product;
/* Finds batch, cuts and contracted size of a BMM node, whose operands are inferred. Returns
 * KAS_ILLEGAL when the operands have no such product. */
kas_status kas_product_align(const kas_kernel *kernel, int node, kas_product *out);
/* Returns how many dims of LHS the result keeps; they stand behind the batch dims and in
 * front of RHS's. */
int kas_product_kept(const kas_kernel *kernel, int node, const kas_product *product);

/* Returns the free variables as a mask: bit v is set when x_v still appears in the `out` of a
 * node. */
uint32_t kas_kernel_vars(const kas_kernel *kernel);
/* Replaces x_var everywhere and infers again every node that this changes (6.2). Those nodes must
 * have been inferred before. The rules for the whole kernel are not checked, so that a kernel that
 * is still growing can be substituted too. */
kas_status kas_kernel_substitute(kas_kernel *kernel, int var, const kas_dim *value);

/* Checks legality at one target: every dim an integer, groups divide, broadcasts tile. */
kas_status kas_kernel_check_binding(const kas_kernel *kernel, const kas_binding *binding);

/* Evaluates the dims of a node's result under a binding: sizes[0..*rank) in the order [channels...,
 * H, W]. Returns KAS_ILLEGAL when one is no integer below 2^32. */
kas_status kas_node_sizes(const kas_node *node, const kas_binding *binding,
                          uint32_t sizes[KAS_MAX_DIMS], int *rank);

/* Returns the size of a node's window along KAS_AXIS_H or KAS_AXIS_W: 1 along an axis that the
 * window leaves alone. */
kas_dim kas_node_window(const kas_node *node, int axis);
/* Returns the pixels from one tap of the node's window to the next, at least 1. */
int kas_node_dilation(const kas_node *node);

/* The cost of one instance per image at one target. FLOPs: a multiply-add is one, any other
 * arithmetic is one per element (paper, Figure 8). */
typedef struct kas_cost {
    double flops, params;
    double largest_tensor; /* elements per image of one instance */
    double largest_weight; /* elements of one weight */
} kas_cost;
/* Computes the cost. Returns KAS_ILLEGAL when the kernel is not legal at the target. */
kas_status kas_kernel_cost(const kas_kernel *kernel, const kas_binding *binding, kas_cost *out);

#endif

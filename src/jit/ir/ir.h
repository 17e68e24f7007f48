/* The tensor IR between a micro-DAG and generated text.
 *
 * A *tensor* is a box of elements with a definition: a scalar expression over its index variables
 * that reads other tensors. The IR does not say which tensors exist in memory: fuse.c decides that,
 * and substitutes the definitions of the others into their readers.
 *
 *     y[n,h,w,c] = sum(kh) sum(kw) weight[kh,kw,c] * guard(0 <= h+kh-1 < H, x[n,clamp(h+kh-1),..])
 *                                                     `--------------- an expression (kas_ex)
 *                                                          `------ an index expression (kas_ix)
 *
 * Expressions are float32. A tensor in memory has a dtype: the program's (float32, bf16 or float16)
 * for activations, their gradients and weights; float32 for sums and indices.
 *
 * Everything is a pure function, total on its ranges: an index that may leave its tensor is clamped
 * and the value guarded. So any expression may be evaluated anywhere (hoisted out of loops,
 * shared), and the range of every address is known from the ranges of the variables alone.
 *
 * Index and scalar expressions are hash-consed: a handle is an int, and equal handles mean equal
 * expressions. Memory belongs to the kas_ir. The first failure (out of memory, a limit) is kept in
 * `status` with its message; later calls return handle 0, which is valid, so that a builder checks
 * once at its end. An IR belongs to one thread. Other folders include this header. */
#ifndef KAS_JIT_IR_IR_H
#define KAS_JIT_IR_IR_H

#include <stdbool.h>
#include <stdint.h>

#include "host/core/arena.h"
#include "host/core/status.h"
#include "jit/ir/hashcons.h"
#include "jit/ir/program.h"

typedef int kas_ix;
typedef int kas_ex;

enum {
    KAS_IR_RANK = 18,  /* dims of a tensor: batch, h, w, two instance dims, channels, taps */
    KAS_IX_TERMS = 32, /* terms of an index sum */
    KAS_SUBST_MAX = 64
};

/* First dims of a node's tensor. */
enum { KAS_DIM_N, KAS_DIM_H, KAS_DIM_W, KAS_DIM_Q, KAS_DIM_P, KAS_DIM_C };

/* ---- index expressions: constant + sum of coefficient * atom --------------------------------- */

typedef enum kas_atom_kind {
    KAS_ATOM_VAR,  /* `of` is a variable */
    KAS_ATOM_DIV,  /* of / a, where `of` is an index expression with values >= 0 */
    KAS_ATOM_MOD,  /* of % a */
    KAS_ATOM_CLAMP /* min(max(of, a), b) */
} kas_atom_kind;

typedef struct kas_atom {
    int32_t kind, of;
    int64_t a, b;
} kas_atom;

typedef struct kas_ix_sum {
    int64_t constant;
    int64_t terms;
    struct {
        int64_t coeff;
        int64_t atom; /* handles ascending */
    } term[KAS_IX_TERMS];
} kas_ix_sum;

typedef struct kas_range {
    int64_t low, high; /* both inclusive */
} kas_range;

/* ---- scalar expressions ---------------------------------------------------------------------- */

typedef enum kas_ex_kind {
    KAS_EX_CONST,  /* value */
    KAS_EX_INDEX,  /* (float) ix */
    KAS_EX_READ,   /* tensor at idx[rank] */
    KAS_EX_LOAD,   /* tensor in memory at the flat address ix: what a READ becomes in a kernel */
    KAS_EX_UNARY,  /* fn of a[0] */
    KAS_EX_BINARY, /* a[0] fn a[1] */
    KAS_EX_SELECT, /* a[0] fn a[1] ? a[2] : a[3] */
    KAS_EX_GUARD,  /* low <= ix <= high ? a[0] : 0 */
    KAS_EX_REDUCE, /* over var in [0, its size): fn of a[0] */
    KAS_EX_ROW     /* the same, where var is the lanes that a kernel has anyway (rows.h) */
} kas_ex_kind;

typedef enum kas_fn {
    /* unary */
    KAS_FN_NEG,
    KAS_FN_ABS,
    KAS_FN_EXP,
    KAS_FN_TANH,
    KAS_FN_ERF,
    KAS_FN_SQRT,
    KAS_FN_SIN,
    KAS_FN_COS,
    /* a function of its own, because the quotient's symbolic derivative overflows */
    KAS_FN_SIGMOID,
    /* binary */
    KAS_FN_ADD,
    KAS_FN_SUB,
    KAS_FN_MUL,
    KAS_FN_DIV,
    KAS_FN_MIN,
    KAS_FN_MAX,
    /* comparisons of SELECT */
    KAS_FN_LT,
    KAS_FN_LE,
    KAS_FN_EQ,
    /* reductions */
    KAS_FN_REDUCE_SUM,
    KAS_FN_REDUCE_MAX,
    KAS_FN_REDUCE_ARGMAX /* the first index of the maximum, as a float */
} kas_fn;

typedef struct kas_ex_node {
    int32_t kind, fn;
    int32_t a[4];
    int32_t ix, tensor, var, rank;
    int32_t idx[KAS_IR_RANK];
    int64_t low, high;
    double value;
} kas_ex_node;

/* ---- tensors --------------------------------------------------------------------------------- */

typedef enum kas_tensor_kind {
    KAS_TENSOR_EXTERN, /* given by the caller: X, DY, weights */
    KAS_TENSOR_DEF,    /* has a definition */
    KAS_TENSOR_CONV    /* made by a library convolution */
} kas_tensor_kind;

typedef struct kas_ir_tensor {
    kas_tensor_kind kind;
    bool backward;  /* belongs to the backward pass */
    kas_role role;  /* KAS_ROLE_SCRATCH for inner tensors; set to SAVED late */
    int role_index; /* number of the weight, for weights and their gradients */
    int rank;
    int64_t size[KAS_IR_RANK], stride[KAS_IR_RANK]; /* elements */
    int var[KAS_IR_RANK];                           /* formal index variables; -1 where size is 1 */
    int64_t elements;                               /* product of sizes */
    int64_t floats;                                 /* elements of its memory, padding included */
    int pitch;                                      /* elements per pixel; 0 = not an activation */
    int parts; /* first dims, which count parts of a sum that another tensor adds up (reduce.c) */
    uint32_t ahead; /* channel dims, as bits, that stand in front of the others in memory */
    kas_dtype dtype;
    kas_ex def;
    /* CONV: operands are tensors; the result is this tensor */
    kas_conv_pass pass;
    kas_conv_desc conv;
    int conv_in[2]; /* FORWARD: x, w; BACKWARD_DATA: dy, w; BACKWARD_WEIGHTS: x, dy */
    /* fuse.c */
    bool alone;        /* no other such sum stands in its kernel: a CPU keeps one in registers */
    bool operand;      /* a library reads it: it must be in memory, in its order */
    bool materialised; /* has memory and an operation of its own */
    bool once;         /* depends on the weights and the gain alone (jit/once.h) */
    int memory;        /* tensor whose memory it uses; itself when -1 */
    int64_t offset;    /* elements of that memory in front of it */
    double evals;      /* how often an element is evaluated, all readers and elements together */
    int buffer;        /* buffer of the program, or -1 */
    /* rows.c */
    /* For a softmax or norm: elements reduced for each element of this tensor; else 0 */
    int64_t along;
    /* Variable of what is reduced, where its kernel's lanes are a row or walk columns; else -1 */
    int row_var;
    uint32_t walked; /* for columns: the dims that are walked, as bits; 0: a row */
    /* Variable that counts the rows of the dims that hold several; -1: there is one row */
    int row_block;
    uint32_t row_dims; /* those dims, as bits */
    int row_owner;     /* tensor whose kernel computes this one too, or -1 */
    /* For rows and columns: the value over row_var and the owner's variables, loads only */
    kas_ex row_value;
} kas_ir_tensor;

/* A tensor that joins others along a channel dim, each from its place on. Without parts there is none. */
typedef struct kas_ir_join {
    int tensor, dim, parts, part[KAS_MAX_INPUTS];
    int64_t begin[KAS_MAX_INPUTS];
} kas_ir_join;

typedef struct kas_ir {
    kas_dtype dtype; /* dtype of activations and weights */
    bool cpu;        /* kernels are scheduled for a CPU */
    int lanes;       /* of a CPU's vector: float32 values */
    kas_arena *arena;
    kas_hashcons atoms, sums, exprs;
    kas_range *ix_range; /* by kas_ix */
    int ix_ranges;
    int64_t *var_size;
    int vars;
    kas_ir_tensor *tensor;
    int tensors;
    kas_ir_join join[2];    /* what Y and X's gradient repeat */
    int *order;             /* tensors, operands before what reads them; set by kas_fuse */
    int *memo, *memo_stamp; /* kas_ex_map uses them */
    int memo_size, memo_epoch, memo_epochs; /* the epoch in use; how many there were */
    kas_status status;
} kas_ir;

/* Makes an empty IR; kas_ir_free frees it. Returns KAS_NO_MEMORY. */
kas_status kas_ir_init(kas_ir *ir);
void kas_ir_free(kas_ir *ir);
/* Returns KAS_NO_MEMORY with its message. */
kas_status kas_ir_no_memory(void);
/* Records a failure; only the first one is kept. */
void kas_ir_fail(kas_ir *ir, kas_status status);

/* Returns a new variable with values in [0, size). */
int kas_ir_var(kas_ir *ir, int64_t size);
/* Returns a new variable, or -1, which stands for the index 0, where there is one value. */
int kas_ir_loop_var(kas_ir *ir, int64_t size);
/* Adds a tensor, row-major over `size`, with new variables. pitch 0: dense; else the first three
 * dims are batch, h, w and a pixel (the product of the others) takes `pitch` elements. Tensors with
 * a pitch and tensors that the caller gives are of the IR's dtype; the rest (sums) are float32. */
int kas_ir_add_tensor(kas_ir *ir, kas_tensor_kind kind, int rank, const int64_t *size, int pitch);
/* Writes the variables of a tensor as indices. */
void kas_ir_own_index(kas_ir *ir, int tensor, kas_ix *idx);
/* Puts channel dims, as bits, in front of the other channel dims in memory. Indices stay as they are,
 * so whoever reads or writes the tensor need not know; a library's operand stays in its order. */
void kas_ir_put_ahead(kas_ir *ir, int tensor, uint32_t ahead);
/* Lists the dims of a tensor in the order of memory, outermost first. */
void kas_ir_memory_order(const kas_ir_tensor *t, int *dim);
/* Returns the innermost dim in memory that has several elements; the outermost one where none
 * has. */
int kas_ir_innermost(const kas_ir_tensor *t);

/* Returns the elements of a tensor's memory. Behind tensors of ours there are some more on a
 * CPU, so that whole vectors can be read (schedule/picks.c). */
static inline int64_t kas_ir_memory(const kas_ir *ir, int tensor)
{
    enum { MORE = 64 };
    const kas_ir_tensor *t = &ir->tensor[tensor];
    const bool own = ir->cpu && (t->role == KAS_ROLE_SCRATCH || t->role == KAS_ROLE_SAVED);
    return t->floats + (own ? MORE : 0);
}

/* ix.c, ix_div.c. `/` and `%` are simplified away wherever the ranges allow. */
kas_ix kas_ix_const(kas_ir *ir, int64_t value);
kas_ix kas_ix_var(kas_ir *ir, int var); /* the index 0 for var -1 */
kas_ix kas_ix_add(kas_ir *ir, kas_ix a, kas_ix b);
kas_ix kas_ix_scale(kas_ir *ir, kas_ix a, int64_t factor);
kas_ix kas_ix_div(kas_ir *ir, kas_ix a, int64_t divisor); /* a >= 0 */
kas_ix kas_ix_mod(kas_ir *ir, kas_ix a, int64_t divisor); /* floored: a may be negative */
kas_ix kas_ix_clamp(kas_ir *ir, kas_ix a, int64_t low, int64_t high);
kas_range kas_ix_range(const kas_ir *ir, kas_ix a);
kas_range kas_ix_sum_range(const kas_ir *ir, const kas_ix_sum *s);
const kas_ix_sum *kas_ix_get(const kas_ir *ir, kas_ix a);
const kas_atom *kas_atom_get(const kas_ir *ir, int64_t atom);
/* Returns the value of an atom, no variable, where `of` is the value of its expression. */
static inline int64_t kas_atom_at(const kas_atom *atom, int64_t of)
{
    return atom->kind == KAS_ATOM_DIV   ? of / atom->a
           : atom->kind == KAS_ATOM_MOD ? of % atom->a
           : of < atom->a               ? atom->a
           : of > atom->b               ? atom->b
                                        : of;
}
/* Return the handle of a sum (terms in order of their atoms) and of a single atom; for
 * ix.c and ix_div.c. */
kas_ix kas_ix_put(kas_ir *ir, const kas_ix_sum *s);
kas_ix kas_ix_put_atom(kas_ir *ir, kas_atom atom);
/* Compute the row-major flat index of `rank` coordinates, and its inverse. */
kas_ix kas_ix_flatten(kas_ir *ir, int rank, const int64_t *size, const kas_ix *idx);
void kas_ix_unflatten(kas_ir *ir, kas_ix flat, int rank, const int64_t *size, kas_ix *idx);

/* A substitution. All variables are replaced at once, not one after the other. */
typedef struct kas_subst {
    int count;
    int var[KAS_SUBST_MAX];
    kas_ix to[KAS_SUBST_MAX];
} kas_subst;
/* Adds "`var` becomes `to`" to a substitution. */
void kas_subst_add(kas_ir *ir, kas_subst *s, int var, kas_ix to);
kas_ix kas_ix_subst(kas_ir *ir, kas_ix a, const kas_subst *s);
bool kas_ix_has_var(const kas_ir *ir, kas_ix a, int var);
/* Finds the coefficient of `var`. Returns false when `var` also stands inside an atom. */
bool kas_ix_coeff(const kas_ir *ir, kas_ix a, int var, int64_t *coeff);

/* ex.c */
kas_ex kas_ex_const(kas_ir *ir, double value);
kas_ex kas_ex_index(kas_ir *ir, kas_ix ix);
kas_ex kas_ex_read(kas_ir *ir, int tensor, const kas_ix *idx);
kas_ex kas_ex_load(kas_ir *ir, int tensor, kas_ix address);
kas_ex kas_ex_unary(kas_ir *ir, kas_fn fn, kas_ex a);
kas_ex kas_ex_binary(kas_ir *ir, kas_fn fn, kas_ex a, kas_ex b);
kas_ex kas_ex_mul(kas_ir *ir, kas_ex a, kas_ex b);
kas_ex kas_ex_sub(kas_ir *ir, kas_ex a, kas_ex b);
kas_ex kas_ex_select(kas_ir *ir, kas_fn compare, kas_ex a, kas_ex b, kas_ex yes, kas_ex no);
kas_ex kas_ex_guard(kas_ir *ir, kas_ix ix, int64_t low, int64_t high, kas_ex a);
kas_ex kas_ex_reduce(kas_ir *ir, kas_fn fn, int var, kas_ex a);
/* Returns nested reductions over these variables, outermost first; -1 is none. */
kas_ex kas_ex_reduce_all(kas_ir *ir, kas_fn fn, int vars, const int *var, kas_ex a);
/* Returns fn over all values of `var`, on which a depends; the result is the same for all of
 * them. */
kas_ex kas_ex_row(kas_ir *ir, kas_fn fn, int var, kas_ex a);
/* Returns a copy of a node with other operands. */
kas_ex kas_ex_with(kas_ir *ir, const kas_ex_node *node, const kas_ex *a);
const kas_ex_node *kas_ex_get(const kas_ir *ir, kas_ex e);
int kas_ex_children(const kas_ex_node *node); /* number of a[] in use */

/* Calls `see` once for every expression in root, root included, operands first. */
typedef void kas_ex_visitor(void *context, kas_ex e, const kas_ex_node *node);
kas_status kas_ex_visit(const kas_ir *ir, kas_ex root, kas_ex_visitor *see, void *context);

/* Substitutes variables; with `rename`, bound variables are replaced by new ones too. */
kas_ex kas_ex_map(kas_ir *ir, kas_ex e, const kas_subst *s, bool rename);
/* Returns e with the reduction over `var` as two nested ones: var = outer * (size of
 * inner) + inner. */
kas_ex kas_ex_split(kas_ir *ir, kas_ex e, int var, int outer, int inner);
/* Returns e with the reduction over `inner`, right inside one over `outer`, around it instead. */
kas_ex kas_ex_interchange(kas_ir *ir, kas_ex e, int outer, int inner);
/* Names bound variables by their place alone (alpha_rename.c), so that expressions which differ
 * only in the variables of their reductions become one. Expressions that shall become one share
 * `names`. e holds loads, no reads. */
enum { KAS_ALPHA_NAMES = 64 };
typedef struct kas_alpha_names {
    int count, var[KAS_ALPHA_NAMES];
} kas_alpha_names;
kas_ex kas_ex_alpha_rename(kas_ir *ir, kas_alpha_names *names, kas_ex e);
/* Returns d e / d leaf, where `leaf` is a READ in e and e holds no reduction (diff.c). */
kas_ex kas_ex_diff(kas_ir *ir, kas_ex e, kas_ex leaf);
/* Returns d (a fn b) / d a with `first`, else d (a fn b) / d b; the operands may be
 * the same expression. */
kas_ex kas_ex_partial(kas_ir *ir, kas_fn fn, kas_ex a, kas_ex b, bool first);

#endif

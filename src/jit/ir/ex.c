/* Scalar expressions: construction with light simplification, and substitution of variables. */
#include <stdlib.h>
#include <string.h>

#include "jit/ir/ir.h"

const kas_ex_node *kas_ex_get(const kas_ir *ir, kas_ex e)
{
    return kas_hashcons_get(&ir->exprs, e);
}

int kas_ex_children(const kas_ex_node *node)
{
    switch ((kas_ex_kind)node->kind) {
    case KAS_EX_UNARY:
    case KAS_EX_GUARD:
    case KAS_EX_REDUCE:
    case KAS_EX_ROW:
        return 1;
    case KAS_EX_BINARY:
        return 2;
    case KAS_EX_SELECT:
        return 4;
    default:
        return 0;
    }
}

static kas_ex put(kas_ir *ir, const kas_ex_node *node)
{
    int number = kas_hashcons_put(&ir->exprs, ir->arena, node, sizeof *node);
    if (number < 0) {
        kas_ir_fail(ir, kas_ir_no_memory());
        return 0;
    }
    return number;
}

/* All fields zero, padding included: nodes are compared byte by byte. */
#define NODE(name, kind_)                                                                          \
    kas_ex_node name;                                                                              \
    memset(&name, 0, sizeof name);                                                                 \
    name.kind = (kind_)

kas_ex kas_ex_const(kas_ir *ir, double value)
{
    NODE(node, KAS_EX_CONST);
    node.value = value == 0 ? 0.0 : value; /* -0 and 0 are one */
    return put(ir, &node);
}

static bool is_const(const kas_ir *ir, kas_ex e, double value)
{
    const kas_ex_node *node = kas_ex_get(ir, e);
    return node->kind == KAS_EX_CONST && node->value == value;
}

kas_ex kas_ex_index(kas_ir *ir, kas_ix ix)
{
    kas_range r = kas_ix_range(ir, ix);
    if (r.low == r.high)
        return kas_ex_const(ir, (double)r.low);
    NODE(node, KAS_EX_INDEX);
    node.ix = ix;
    return put(ir, &node);
}

kas_ex kas_ex_read(kas_ir *ir, int tensor, const kas_ix *idx)
{
    NODE(node, KAS_EX_READ);
    node.tensor = tensor;
    node.rank = ir->tensor[tensor].rank;
    for (int d = 0; d < node.rank; d++)
        node.idx[d] = ir->tensor[tensor].size[d] == 1 ? 0 : idx[d];
    return put(ir, &node);
}

kas_ex kas_ex_load(kas_ir *ir, int tensor, kas_ix address)
{
    NODE(node, KAS_EX_LOAD);
    node.tensor = tensor;
    node.ix = address;
    return put(ir, &node);
}

kas_ex kas_ex_unary(kas_ir *ir, kas_fn fn, kas_ex a)
{
    if (fn == KAS_FN_NEG && kas_ex_get(ir, a)->kind == KAS_EX_CONST)
        return kas_ex_const(ir, -kas_ex_get(ir, a)->value);
    NODE(node, KAS_EX_UNARY);
    node.fn = fn;
    node.a[0] = a;
    return put(ir, &node);
}

kas_ex kas_ex_binary(kas_ir *ir, kas_fn fn, kas_ex a, kas_ex b)
{
    if (fn == KAS_FN_ADD && is_const(ir, a, 0))
        return b;
    if ((fn == KAS_FN_ADD || fn == KAS_FN_SUB) && is_const(ir, b, 0))
        return a;
    if (fn == KAS_FN_MUL && (is_const(ir, a, 0) || is_const(ir, b, 0)))
        return kas_ex_const(ir, 0);
    if (fn == KAS_FN_MUL && is_const(ir, a, 1))
        return b;
    if ((fn == KAS_FN_MUL || fn == KAS_FN_DIV) && is_const(ir, b, 1))
        return a;
    NODE(node, KAS_EX_BINARY);
    node.fn = fn;
    node.a[0] = a;
    node.a[1] = b;
    return put(ir, &node);
}

kas_ex kas_ex_mul(kas_ir *ir, kas_ex a, kas_ex b)
{
    return kas_ex_binary(ir, KAS_FN_MUL, a, b);
}

kas_ex kas_ex_sub(kas_ir *ir, kas_ex a, kas_ex b)
{
    return kas_ex_binary(ir, KAS_FN_SUB, a, b);
}

kas_ex kas_ex_select(kas_ir *ir, kas_fn compare, kas_ex a, kas_ex b, kas_ex yes, kas_ex no)
{
    if (yes == no)
        return yes;
    NODE(node, KAS_EX_SELECT);
    node.fn = compare;
    node.a[0] = a;
    node.a[1] = b;
    node.a[2] = yes;
    node.a[3] = no;
    return put(ir, &node);
}

kas_ex kas_ex_guard(kas_ir *ir, kas_ix ix, int64_t low, int64_t high, kas_ex a)
{
    kas_range r = kas_ix_range(ir, ix);
    if (is_const(ir, a, 0) || (r.low >= low && r.high <= high))
        return a;
    if (r.high < low || r.low > high)
        return kas_ex_const(ir, 0);
    NODE(node, KAS_EX_GUARD);
    node.ix = ix;
    node.low = low;
    node.high = high;
    node.a[0] = a;
    return put(ir, &node);
}

kas_ex kas_ex_reduce(kas_ir *ir, kas_fn fn, int var, kas_ex a)
{
    if (is_const(ir, a, 0))
        return a;
    if (var < 0 || ir->var_size[var] == 1) {
        kas_subst s = {0};
        kas_subst_add(ir, &s, var, 0);
        return fn == KAS_FN_REDUCE_ARGMAX ? kas_ex_const(ir, 0) : kas_ex_map(ir, a, &s, false);
    }
    NODE(node, KAS_EX_REDUCE);
    node.fn = fn;
    node.var = var;
    node.a[0] = a;
    return put(ir, &node);
}

kas_ex kas_ex_reduce_all(kas_ir *ir, kas_fn fn, int vars, const int *var, kas_ex a)
{
    for (int i = vars - 1; i >= 0; i--)
        a = var[i] < 0 ? a : kas_ex_reduce(ir, fn, var[i], a);
    return a;
}

kas_ex kas_ex_row(kas_ir *ir, kas_fn fn, int var, kas_ex a)
{
    NODE(node, KAS_EX_ROW);
    node.fn = fn;
    node.var = var;
    node.a[0] = a;
    return put(ir, &node);
}

kas_ex kas_ex_with(kas_ir *ir, const kas_ex_node *node, const kas_ex *a)
{
    switch ((kas_ex_kind)node->kind) {
    case KAS_EX_UNARY:
        return kas_ex_unary(ir, (kas_fn)node->fn, a[0]);
    case KAS_EX_BINARY:
        return kas_ex_binary(ir, (kas_fn)node->fn, a[0], a[1]);
    case KAS_EX_SELECT:
        return kas_ex_select(ir, (kas_fn)node->fn, a[0], a[1], a[2], a[3]);
    case KAS_EX_GUARD:
        return kas_ex_guard(ir, node->ix, node->low, node->high, a[0]);
    case KAS_EX_REDUCE:
        return kas_ex_reduce(ir, (kas_fn)node->fn, node->var, a[0]);
    default:
        return kas_ex_row(ir, (kas_fn)node->fn, node->var, a[0]);
    }
}

static void visit(const kas_ir *ir, kas_ex e, char *seen, kas_ex_visitor *see, void *context)
{
    if (seen[e])
        return;
    seen[e] = 1;
    const kas_ex_node *node = kas_ex_get(ir, e);
    for (int i = 0; i < kas_ex_children(node); i++)
        visit(ir, node->a[i], seen, see, context);
    see(context, e, node);
}

kas_status kas_ex_visit(const kas_ir *ir, kas_ex root, kas_ex_visitor *see, void *context)
{
    char *seen = calloc((size_t)ir->exprs.count, 1);
    if (!seen)
        return kas_ir_no_memory();
    visit(ir, root, seen, see, context);
    free(seen);
    return KAS_OK;
}

/* ---- substitution ---------------------------------------------------------------------------- */

typedef struct map_state {
    kas_ir *ir;
    kas_subst s;
    bool rename;
    int split, outer, inner; /* the reduction over `split` becomes two; -1 = none */
    int around;              /* the reduction over it goes inside the one over `inner`; -1 = none */
} map_state;

static bool memo_room(kas_ir *ir, int size)
{
    if (size <= ir->memo_size)
        return true;
    int room = size * 2;
    int *memo = realloc(ir->memo, sizeof *memo * (size_t)room);
    if (memo)
        ir->memo = memo;
    int *stamp = realloc(ir->memo_stamp, sizeof *stamp * (size_t)room);
    if (stamp)
        ir->memo_stamp = stamp;
    if (!memo || !stamp) {
        kas_ir_fail(ir, kas_ir_no_memory());
        return false;
    }
    memset(stamp + ir->memo_size, 0, sizeof *stamp * (size_t)(room - ir->memo_size));
    ir->memo_size = room;
    return true;
}

static kas_ex map(map_state *m, kas_ex e);

/* Puts a new variable in the place of a reduction's. The map has one list for all of an expression, so
 * each variable may be that of one reduction. */
static int rename_var(map_state *m, int var)
{
    const int renamed = kas_ir_var(m->ir, m->ir->var_size[var]);
    for (int i = 0; i < m->s.count; i++)
        if (m->s.var[i] == var)
            kas_ir_fail(m->ir,
                        kas_fail(KAS_FAILURE, "two reductions of one definition have the same "
                                              "variable: this is a fault of the lowering, "
                                              "please report it"));
    kas_subst_add(m->ir, &m->s, var, kas_ix_var(m->ir, renamed));
    return renamed;
}

static kas_ex map_node(map_state *m, const kas_ex_node *node)
{
    kas_ir *ir = m->ir;
    kas_ix idx[KAS_IR_RANK];
    switch ((kas_ex_kind)node->kind) {
    case KAS_EX_CONST:
        return kas_ex_const(ir, node->value);
    case KAS_EX_INDEX:
        return kas_ex_index(ir, kas_ix_subst(ir, node->ix, &m->s));
    case KAS_EX_READ:
        for (int d = 0; d < node->rank; d++)
            idx[d] = kas_ix_subst(ir, node->idx[d], &m->s);
        return kas_ex_read(ir, node->tensor, idx);
    case KAS_EX_LOAD:
        return kas_ex_load(ir, node->tensor, kas_ix_subst(ir, node->ix, &m->s));
    case KAS_EX_UNARY:
        return kas_ex_unary(ir, (kas_fn)node->fn, map(m, node->a[0]));
    case KAS_EX_BINARY: {
        kas_ex a = map(m, node->a[0]);
        return kas_ex_binary(ir, (kas_fn)node->fn, a, map(m, node->a[1]));
    }
    case KAS_EX_SELECT: {
        kas_ex a[4];
        for (int i = 0; i < 4; i++)
            a[i] = map(m, node->a[i]);
        return kas_ex_select(ir, (kas_fn)node->fn, a[0], a[1], a[2], a[3]);
    }
    case KAS_EX_GUARD: {
        kas_ex a = map(m, node->a[0]);
        return kas_ex_guard(ir, kas_ix_subst(ir, node->ix, &m->s), node->low, node->high, a);
    }
    case KAS_EX_REDUCE: {
        int var = node->var;
        if (var == m->split) {
            kas_ex rest = kas_ex_reduce(ir, (kas_fn)node->fn, m->inner, map(m, node->a[0]));
            return kas_ex_reduce(ir, (kas_fn)node->fn, m->outer, rest);
        }
        if (var == m->around) {
            const kas_ex_node *body = kas_ex_get(ir, node->a[0]);
            if (body->kind == KAS_EX_REDUCE && body->fn == node->fn && body->var == m->inner) {
                const kas_fn fn = (kas_fn)node->fn;
                const kas_ex rest = map(m, body->a[0]);
                return kas_ex_reduce(ir, fn, m->inner, kas_ex_reduce(ir, fn, var, rest));
            }
        }
        if (m->rename)
            var = rename_var(m, var);
        return kas_ex_reduce(ir, (kas_fn)node->fn, var, map(m, node->a[0]));
    }
    case KAS_EX_ROW: /* its variable is the kernel's and is never replaced */
        return kas_ex_row(ir, (kas_fn)node->fn, node->var, map(m, node->a[0]));
    }
    return 0;
}

static kas_ex map(map_state *m, kas_ex e)
{
    kas_ir *ir = m->ir;
    int epoch = ir->memo_epoch;
    if (e < ir->memo_size && ir->memo_stamp[e] == epoch)
        return ir->memo[e];
    kas_ex result = map_node(m, kas_ex_get(ir, e));
    if (memo_room(ir, e + 1)) {
        ir->memo[e] = result;
        ir->memo_stamp[e] = epoch;
    }
    return result;
}

static kas_ex run_map(map_state *m, kas_ex e)
{
    const int outer = m->ir->memo_epoch; /* of the map from which this one is called */
    m->ir->memo_epoch = ++m->ir->memo_epochs;
    kas_ex result = map(m, e);
    m->ir->memo_epoch = outer;
    return result;
}

kas_ex kas_ex_map(kas_ir *ir, kas_ex e, const kas_subst *s, bool rename)
{
    map_state m = {.ir = ir, .s = *s, .rename = rename, .split = -1, .around = -1};
    return run_map(&m, e);
}

kas_ex kas_ex_split(kas_ir *ir, kas_ex e, int var, int outer, int inner)
{
    map_state m = {.ir = ir, .split = var, .outer = outer, .inner = inner, .around = -1};
    const kas_ix high = kas_ix_scale(ir, kas_ix_var(ir, outer), ir->var_size[inner]);
    kas_subst_add(ir, &m.s, var, kas_ix_add(ir, high, kas_ix_var(ir, inner)));
    return run_map(&m, e);
}

kas_ex kas_ex_interchange(kas_ir *ir, kas_ex e, int outer, int inner)
{
    map_state m = {.ir = ir, .split = -1, .around = outer, .inner = inner};
    return run_map(&m, e);
}

/* pool_avg and pool_max: windows of neighbours; those outside the image are left out. */
#include "jit/lower/lower.h"

enum { AXES = 2 };

/* Taps by axis, H then W; an axis that is not pooled has one tap. */
typedef struct pool_window {
    int64_t taps[AXES], extent[AXES];
} pool_window;

static pool_window window_of(const kas_lower *l, int node)
{
    const kas_node *n = &l->kernel->node[node];
    const kas_ir_tensor *in = &l->ir->tensor[l->tensor[n->in[0]]];
    pool_window w;
    for (int i = 0; i < AXES; i++) {
        const kas_dim size = kas_node_window(n, i == 0 ? KAS_AXIS_H : KAS_AXIS_W);
        uint64_t taps = 1;
        kas_dim_eval(&size, l->binding, &taps);
        w.taps[i] = (int64_t)taps;
        w.extent[i] = in->size[KAS_DIM_H + i];
    }
    return w;
}

/* Moves the pixel of `idx` by tap[] to the pixel that it reads or, with direction -1, to the one
 * that reads it, clamped into the image; from[] is its place before clamping. */
static void move_pixel(kas_ir *ir, const pool_window *w, const kas_ix *tap, int direction,
                       kas_ix *idx, kas_ix *from)
{
    for (int i = 0; i < AXES; i++) {
        const kas_ix step = kas_ix_scale(ir, tap[i], direction);
        from[i] = kas_ix_add(ir, kas_ix_add(ir, idx[KAS_DIM_H + i], step),
                             kas_ix_const(ir, -direction * (w->taps[i] / 2)));
        idx[KAS_DIM_H + i] = kas_ix_clamp(ir, from[i], 0, w->extent[i] - 1);
    }
}

static kas_ex inside(kas_ir *ir, const pool_window *w, const kas_ix *from, kas_ex e)
{
    for (int i = 0; i < AXES; i++)
        e = kas_ex_guard(ir, from[i], 0, w->extent[i] - 1, e);
    return e;
}

/* Returns how many taps lie inside the image. */
static kas_ex count_inside(kas_ir *ir, const pool_window *w, const kas_ix *idx)
{
    kas_ex count = kas_ex_const(ir, 1);
    for (int i = 0; i < AXES; i++) {
        const int64_t before = w->taps[i] / 2, after = w->taps[i] - 1 - before;
        const kas_ix at = idx[KAS_DIM_H + i];
        const kas_ix first =
            kas_ix_clamp(ir, kas_ix_add(ir, at, kas_ix_const(ir, -before)), 0, w->extent[i] - 1);
        const kas_ix last =
            kas_ix_clamp(ir, kas_ix_add(ir, at, kas_ix_const(ir, after)), 0, w->extent[i] - 1);
        const kas_ix length =
            kas_ix_add(ir, kas_ix_add(ir, last, kas_ix_scale(ir, first, -1)), kas_ix_const(ir, 1));
        count = kas_ex_binary(ir, KAS_FN_MUL, count, kas_ex_index(ir, length));
    }
    return count;
}

/* Makes a variable for each axis. */
static void tap_vars(kas_ir *ir, const pool_window *w, int *var, kas_ix *tap)
{
    for (int i = 0; i < AXES; i++) {
        var[i] = w->taps[i] > 1 ? kas_ir_var(ir, w->taps[i]) : -1;
        tap[i] = kas_ix_var(ir, var[i]);
    }
}

static kas_ex reduce(kas_ir *ir, kas_fn fn, const int *var, kas_ex e)
{
    for (int i = AXES - 1; i >= 0; i--)
        e = kas_ex_reduce(ir, fn, var[i], e);
    return e;
}

static kas_ex average(kas_lower *l, int node)
{
    kas_ir *ir = l->ir;
    const pool_window w = window_of(l, node);
    kas_ix idx[KAS_IR_RANK], tap[AXES], from[AXES];
    int var[AXES];
    kas_lower_vars(l, node, idx);
    const kas_ex count = count_inside(ir, &w, idx);
    tap_vars(ir, &w, var, tap);
    move_pixel(ir, &w, tap, 1, idx, from);
    const kas_ex x = inside(ir, &w, from, kas_lower_read(l, l->kernel->node[node].in[0], idx));
    return kas_ex_binary(ir, KAS_FN_DIV, reduce(ir, KAS_FN_REDUCE_SUM, var, x), count);
}

/* Clamping repeats a pixel of the window, so it changes no maximum. */
static kas_ex maximum(kas_lower *l, int node)
{
    kas_ir *ir = l->ir;
    const pool_window w = window_of(l, node);
    kas_ix idx[KAS_IR_RANK], tap[AXES], from[AXES];
    int var[AXES];
    kas_lower_vars(l, node, idx);
    tap_vars(ir, &w, var, tap);
    move_pixel(ir, &w, tap, 1, idx, from);
    return reduce(ir, KAS_FN_REDUCE_MAX, var, kas_lower_read(l, l->kernel->node[node].in[0], idx));
}

/* Returns the number of the tap that won, counted in rows; it is never one outside the image. */
static kas_ex winner(kas_lower *l, int node)
{
    kas_ir *ir = l->ir;
    const double lowest = -3.4028234663852886e38; /* the lowest float */
    const pool_window w = window_of(l, node);
    const int64_t taps = w.taps[0] * w.taps[1];
    const int var = taps > 1 ? kas_ir_var(ir, taps) : -1;
    const kas_ix number = kas_ix_var(ir, var);
    const kas_ix tap[AXES] = {kas_ix_div(ir, number, w.taps[1]), kas_ix_mod(ir, number, w.taps[1])};
    kas_ix idx[KAS_IR_RANK], from[AXES];
    kas_lower_vars(l, node, idx);
    move_pixel(ir, &w, tap, 1, idx, from);
    const kas_ex one = kas_ex_const(ir, 1);
    const kas_ex x = kas_ex_select(ir, KAS_FN_EQ, inside(ir, &w, from, one), one,
                                   kas_lower_read(l, l->kernel->node[node].in[0], idx),
                                   kas_ex_const(ir, lowest));
    return kas_ex_reduce(ir, KAS_FN_REDUCE_ARGMAX, var, x);
}

void kas_lower_pool(kas_lower *l, int node)
{
    kas_ir *ir = l->ir;
    const kas_node *n = &l->kernel->node[node];
    const int64_t q = ir->tensor[l->tensor[n->in[0]]].size[KAS_DIM_Q];
    if (n->op == KAS_OP_POOL_MAX && l->training) {
        const int arg = kas_lower_result(l, node, q); /* its tensor is the node's for a moment */
        const kas_ex e = winner(l, node);
        ir->tensor[arg].def = e;
        ir->tensor[arg].dtype = KAS_F32; /* an index: 16 bits hold few of them */
        l->aux[node] = arg;
    }
    const int tensor = kas_lower_result(l, node, q);
    const kas_ex e = n->op == KAS_OP_POOL_AVG ? average(l, node) : maximum(l, node);
    ir->tensor[tensor].def = e;
}

/* Makes dy / count a tensor, computed once for all that read it. */
static int share_of_each(kas_lower *l, int node, const pool_window *w)
{
    kas_ir *ir = l->ir;
    const kas_ir_tensor value = ir->tensor[l->tensor[node]];
    const int share = kas_lower_tensor(l, value.size, value.rank);
    kas_ix idx[KAS_IR_RANK];
    for (int d = 0; d < value.rank; d++)
        idx[d] = kas_ix_var(ir, ir->tensor[share].var[d]);
    const kas_ex e = kas_ex_binary(ir, KAS_FN_DIV, kas_lower_read_gradient(l, node, idx),
                                   count_inside(ir, w, idx));
    ir->tensor[share].def = e;
    return share;
}

void kas_lower_pool_gradient(kas_lower *l, int node)
{
    kas_ir *ir = l->ir;
    const kas_node *n = &l->kernel->node[node];
    const pool_window w = window_of(l, node);
    kas_ix idx[KAS_IR_RANK], tap[AXES], from[AXES];
    int var[AXES];
    kas_ex e;
    kas_lower_vars(l, n->in[0], idx);
    tap_vars(ir, &w, var, tap);
    move_pixel(ir, &w, tap, -1, idx, from);
    if (n->op == KAS_OP_POOL_AVG) {
        e = kas_ex_read(ir, share_of_each(l, node, &w), idx);
    } else {
        const kas_ix number = kas_ix_add(ir, kas_ix_scale(ir, tap[0], w.taps[1]), tap[1]);
        e = kas_ex_select(ir, KAS_FN_EQ, kas_ex_read(ir, l->aux[node], idx),
                          kas_ex_index(ir, number), kas_lower_read_gradient(l, node, idx),
                          kas_ex_const(ir, 0));
    }
    kas_lower_contribute(l, n->in[0], reduce(ir, KAS_FN_REDUCE_SUM, var, inside(ir, &w, from, e)));
}

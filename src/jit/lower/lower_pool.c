/* pool_avg and pool_max: windows of neighbours; those outside the image are left out.
 *
 * A large maximum comes in two stages, along W and then along H: 7 + 7 comparisons in the place of
 * 49. So does its gradient: each result's goes to the row of its window that won, and from there to
 * the tap that won in that row. */
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

/* Returns x inside the image, and the lowest float outside. */
static kas_ex or_lowest(kas_ir *ir, const pool_window *w, const kas_ix *from, kas_ex x)
{
    const kas_ex one = kas_ex_const(ir, 1);
    return kas_ex_select(ir, KAS_FN_EQ, inside(ir, w, from, one), one, x,
                         kas_ex_const(ir, -3.4028234663852886e38));
}

/* Returns the number of the tap that won, counted in rows; it is never one outside the image. */
static kas_ex winner(kas_lower *l, int node)
{
    kas_ir *ir = l->ir;
    const pool_window w = window_of(l, node);
    const int64_t taps = w.taps[0] * w.taps[1];
    const int var = taps > 1 ? kas_ir_var(ir, taps) : -1;
    const kas_ix number = kas_ix_var(ir, var);
    const kas_ix tap[AXES] = {kas_ix_div(ir, number, w.taps[1]), kas_ix_mod(ir, number, w.taps[1])};
    kas_ix idx[KAS_IR_RANK], from[AXES];
    kas_lower_vars(l, node, idx);
    move_pixel(ir, &w, tap, 1, idx, from);
    const kas_ex x = or_lowest(ir, &w, from, kas_lower_read(l, l->kernel->node[node].in[0], idx));
    return kas_ex_reduce(ir, KAS_FN_REDUCE_ARGMAX, var, x);
}

/* ---- a maximum in two stages ----------------------------------------------------------------- */

static bool has_stages(const pool_window *w)
{
    enum { LEAST_TAPS = 25 };
    return w->taps[0] > 1 && w->taps[1] > 1 && w->taps[0] * w->taps[1] >= LEAST_TAPS;
}

/* Makes the maxima along W, or the taps that won, of what `node` reads. */
static int reduce_rows(kas_lower *l, int node, pool_window w, kas_fn fn)
{
    kas_ir *ir = l->ir;
    const kas_ir_tensor result = ir->tensor[l->tensor[node]];
    const bool small = fn == KAS_FN_REDUCE_ARGMAX; /* 16 bits hold the number of a tap in a row */
    const int tensor =
        kas_ir_add_tensor(ir, KAS_TENSOR_DEF, result.rank, result.size, small ? result.pitch : 0);
    kas_ix idx[KAS_IR_RANK], tap[AXES], from[AXES];
    int var[AXES];
    w.taps[0] = 1;
    for (int d = 0; d < result.rank; d++)
        idx[d] = kas_ix_var(ir, ir->tensor[tensor].var[d]);
    tap_vars(ir, &w, var, tap);
    move_pixel(ir, &w, tap, 1, idx, from);
    kas_ex x = kas_lower_read(l, l->kernel->node[node].in[0], idx);
    if (fn == KAS_FN_REDUCE_ARGMAX)
        x = or_lowest(ir, &w, from, x);
    const kas_ex e = kas_ex_reduce(ir, fn, var[1], x);
    ir->tensor[tensor].def = e;
    return tensor;
}

/* Reduces along H what reduce_rows made, for each element of `tensor`. */
static kas_ex reduce_columns(kas_lower *l, pool_window w, int tensor, int maxima, kas_fn fn)
{
    kas_ir *ir = l->ir;
    const kas_ir_tensor result = ir->tensor[tensor];
    kas_ix idx[KAS_IR_RANK], tap[AXES], from[AXES];
    int var[AXES];
    w.taps[1] = 1;
    for (int d = 0; d < result.rank; d++)
        idx[d] = kas_ix_var(ir, result.var[d]);
    tap_vars(ir, &w, var, tap);
    move_pixel(ir, &w, tap, 1, idx, from);
    kas_ex x = kas_ex_read(ir, maxima, idx);
    if (fn == KAS_FN_REDUCE_ARGMAX)
        x = or_lowest(ir, &w, from, x);
    return kas_ex_reduce(ir, fn, var[0], x);
}

/* Makes the row of each window that won; it lies like `columns`. */
static int winning_row(kas_lower *l, pool_window w, int columns, int maxima)
{
    const kas_ir_tensor like = l->ir->tensor[columns];
    const int row = kas_ir_add_tensor(l->ir, KAS_TENSOR_DEF, like.rank, like.size, like.pitch);
    const kas_ex e = reduce_columns(l, w, row, maxima, KAS_FN_REDUCE_ARGMAX);
    l->ir->tensor[row].def = e;
    return row;
}

/* Returns the sum of the gradients `dy`, a tensor's or, where that is -1, the node's, of all results
 * that tap `tensor` names as their winner, at a pixel of what windows of one axis read. */
static kas_ex sum_of_won(kas_lower *l, int node, const pool_window *w, int tensor, int dy,
                         kas_ix *idx)
{
    kas_ir *ir = l->ir;
    kas_ix tap[AXES], from[AXES];
    int var[AXES];
    tap_vars(ir, w, var, tap);
    move_pixel(ir, w, tap, -1, idx, from);
    const kas_ix number = kas_ix_add(ir, kas_ix_scale(ir, tap[0], w->taps[1]), tap[1]);
    const kas_ex e =
        kas_ex_select(ir, KAS_FN_EQ, kas_ex_read(ir, tensor, idx), kas_ex_index(ir, number),
                      dy < 0 ? kas_lower_read_gradient(l, node, idx) : kas_ex_read(ir, dy, idx),
                      kas_ex_const(ir, 0));
    return reduce(ir, KAS_FN_REDUCE_SUM, var, inside(ir, w, from, e));
}

/* Makes the gradient of the maxima along W. */
static int gradient_of_rows(kas_lower *l, int node, pool_window w)
{
    kas_ir *ir = l->ir;
    const kas_ir_tensor like = ir->tensor[l->won[node]];
    const int tensor = kas_ir_add_tensor(ir, KAS_TENSOR_DEF, like.rank, like.size, 0);
    kas_ix idx[KAS_IR_RANK];
    w.taps[1] = 1;
    for (int d = 0; d < like.rank; d++)
        idx[d] = kas_ix_var(ir, ir->tensor[tensor].var[d]);
    const kas_ex e = sum_of_won(l, node, &w, l->won[node], -1, idx);
    ir->tensor[tensor].def = e;
    return tensor;
}

/* ---- value and gradient ---------------------------------------------------------------------- */

void kas_lower_pool(kas_lower *l, int node)
{
    kas_ir *ir = l->ir;
    const kas_node *n = &l->kernel->node[node];
    const int64_t q = ir->tensor[l->tensor[n->in[0]]].size[KAS_DIM_Q];
    const bool max = n->op == KAS_OP_POOL_MAX;
    const pool_window w = window_of(l, node);
    const bool staged = max && has_stages(&w);
    int tensor = kas_lower_result(l, node, q);
    const int maxima = staged ? reduce_rows(l, node, w, KAS_FN_REDUCE_MAX) : -1;
    if (staged && l->training) {
        l->aux[node] = reduce_rows(l, node, w, KAS_FN_REDUCE_ARGMAX);
        l->won[node] = winning_row(l, w, l->aux[node], maxima);
    } else if (max && l->training) { /* for a moment the winner's tensor is the node's */
        const kas_ex e = winner(l, node);
        ir->tensor[tensor].def = e;
        ir->tensor[tensor].dtype = KAS_F32; /* an index: 16 bits hold few of them */
        l->aux[node] = tensor;
        tensor = kas_lower_result(l, node, q);
    }
    const kas_ex e = staged ? reduce_columns(l, w, tensor, maxima, KAS_FN_REDUCE_MAX)
                     : max  ? maximum(l, node)
                            : average(l, node);
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

static kas_ex average_gradient(kas_lower *l, int node, const pool_window *w, kas_ix *idx)
{
    kas_ix tap[AXES], from[AXES];
    int var[AXES];
    tap_vars(l->ir, w, var, tap);
    move_pixel(l->ir, w, tap, -1, idx, from);
    const kas_ex e = kas_ex_read(l->ir, share_of_each(l, node, w), idx);
    return reduce(l->ir, KAS_FN_REDUCE_SUM, var, inside(l->ir, w, from, e));
}

void kas_lower_pool_gradient(kas_lower *l, int node)
{
    const kas_node *n = &l->kernel->node[node];
    const pool_window w = window_of(l, node);
    const bool max = n->op == KAS_OP_POOL_MAX, staged = max && has_stages(&w);
    pool_window own = w;
    kas_ix idx[KAS_IR_RANK];
    kas_lower_vars(l, n->in[0], idx);
    if (staged)
        own.taps[0] = 1;
    const int rows = staged ? gradient_of_rows(l, node, w) : -1;
    kas_lower_contribute(l, n->in[0],
                         max ? sum_of_won(l, node, &own, l->aux[node], rows, idx)
                             : average_gradient(l, node, &w, idx));
}

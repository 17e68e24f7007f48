/* pool_avg and pool_max: windows of neighbours; those outside the image are left out.
 *
 * A large window comes in two stages, along W and then along H: 7 + 7 steps in the place of 49. So
 * does its gradient: that of a maximum goes to the row of the window that won, and from there to the
 * tap that won in that row. An average has stages on a CPU only. */
#include "jit/lower/lower.h"

enum { AXES = 2 };

static kas_window window_of(kas_lower *l, int node)
{
    return kas_lower_window(l, node, l->kernel->node[node].in[0]);
}

/* Returns how many taps lie inside the image. */
static kas_ex count_inside(kas_ir *ir, const kas_window *w, const kas_ix *idx)
{
    kas_ex count = kas_ex_const(ir, 1);
    for (int i = 0; i < AXES; i++) {
        const int64_t before = w->taps[i] / 2, after = w->taps[i] - 1 - before;
        const kas_ix at = idx[KAS_DIM_H + i];
        const kas_ix first =
            kas_ix_clamp(ir, kas_ix_add(ir, at, kas_ix_const(ir, -before)), 0, w->size[i] - 1);
        const kas_ix last =
            kas_ix_clamp(ir, kas_ix_add(ir, at, kas_ix_const(ir, after)), 0, w->size[i] - 1);
        const kas_ix length =
            kas_ix_add(ir, kas_ix_add(ir, last, kas_ix_scale(ir, first, -1)), kas_ix_const(ir, 1));
        count = kas_ex_binary(ir, KAS_FN_MUL, count, kas_ex_index(ir, length));
    }
    return count;
}

/* Returns x inside the image, and the lowest float outside. */
static kas_ex or_lowest(kas_ir *ir, const kas_window *w, const kas_ix *from, kas_ex x)
{
    const kas_ex one = kas_ex_const(ir, 1);
    return kas_ex_select(ir, KAS_FN_EQ, kas_lower_inside(ir, w, from, one), one, x,
                         kas_ex_const(ir, -3.4028234663852886e38));
}

/* Returns the sum, the maximum or the number of the winner over windows along the axes of `var`, of x
 * at a pixel that was clamped from `from`. Clamping repeats a pixel of the window, so it changes no
 * maximum. */
static kas_ex over_window(kas_ir *ir, const kas_window *w, kas_fn fn, const int *var,
                          const kas_ix *from, kas_ex x)
{
    if (fn == KAS_FN_REDUCE_SUM)
        x = kas_lower_inside(ir, w, from, x);
    if (fn == KAS_FN_REDUCE_ARGMAX)
        x = or_lowest(ir, w, from, x);
    return kas_ex_reduce_all(ir, fn, AXES, var, x);
}

/* Returns the sum or maximum over the whole windows of what `node` reads. */
static kas_ex in_one(kas_lower *l, int node, kas_fn fn)
{
    kas_ir *ir = l->ir;
    const kas_window w = window_of(l, node);
    kas_ix idx[KAS_IR_RANK], tap[AXES], from[AXES];
    int var[AXES];
    kas_lower_vars(l, node, idx);
    kas_lower_tap_vars(ir, &w, var, tap);
    kas_lower_move(ir, &w, tap, 1, idx, from);
    return over_window(ir, &w, fn, var, from, kas_lower_read(l, l->kernel->node[node].in[0], idx));
}

/* Returns the number of the tap that won, counted in rows; it is one outside the image
 * only where all inside are below the lowest float32. */
static kas_ex winner(kas_lower *l, int node)
{
    kas_ir *ir = l->ir;
    const kas_window w = window_of(l, node);
    const int64_t taps = w.taps[0] * w.taps[1];
    const int var = kas_ir_loop_var(ir, taps);
    const kas_ix number = kas_ix_var(ir, var);
    const kas_ix tap[AXES] = {kas_ix_div(ir, number, w.taps[1]), kas_ix_mod(ir, number, w.taps[1])};
    kas_ix idx[KAS_IR_RANK], from[AXES];
    kas_lower_vars(l, node, idx);
    kas_lower_move(ir, &w, tap, 1, idx, from);
    const kas_ex x = or_lowest(ir, &w, from, kas_lower_read(l, l->kernel->node[node].in[0], idx));
    return kas_ex_reduce(ir, KAS_FN_REDUCE_ARGMAX, var, x);
}

/* ---- two stages ------------------------------------------------------------------------------ */

/* Neighbours on a GPU share the loads of an average (slide.c). */
static bool has_stages(const kas_lower *l, const kas_window *w, bool max)
{
    enum { LEAST_TAPS = 25 };
    return (max || l->ir->cpu) && w->taps[0] > 1 && w->taps[1] > 1 &&
           w->taps[0] * w->taps[1] >= LEAST_TAPS;
}

/* Makes the sums or maxima along W, or the taps that won, of what `node` reads. */
static int reduce_rows(kas_lower *l, int node, kas_window w, kas_fn fn)
{
    kas_ir *ir = l->ir;
    const kas_ir_tensor result = ir->tensor[l->tensor[node]];
    const bool small = fn == KAS_FN_REDUCE_ARGMAX; /* 16 bits hold the number of a tap in a row */
    const int tensor = kas_lower_like(l, l->tensor[node], small ? result.pitch : 0);
    kas_ix idx[KAS_IR_RANK], tap[AXES], from[AXES];
    int var[AXES];
    w.taps[0] = 1;
    kas_ir_own_index(ir, tensor, idx);
    kas_lower_tap_vars(ir, &w, var, tap);
    kas_lower_move(ir, &w, tap, 1, idx, from);
    const kas_ex e =
        over_window(ir, &w, fn, var, from, kas_lower_read(l, l->kernel->node[node].in[0], idx));
    ir->tensor[tensor].def = e;
    return tensor;
}

/* Reduces along H what reduce_rows made, for each element of `tensor`. */
static kas_ex reduce_columns(kas_lower *l, kas_window w, int tensor, int rows, kas_fn fn)
{
    kas_ir *ir = l->ir;
    kas_ix idx[KAS_IR_RANK], tap[AXES], from[AXES];
    int var[AXES];
    w.taps[1] = 1;
    kas_ir_own_index(ir, tensor, idx);
    kas_lower_tap_vars(ir, &w, var, tap);
    kas_lower_move(ir, &w, tap, 1, idx, from);
    return over_window(ir, &w, fn, var, from, kas_ex_read(ir, rows, idx));
}

/* Makes the row of each window that won; it lies like `columns`. */
static int winning_row(kas_lower *l, kas_window w, int columns, int maxima)
{
    const kas_ir_tensor like = l->ir->tensor[columns];
    const int row = kas_lower_like(l, columns, like.pitch);
    const kas_ex e = reduce_columns(l, w, row, maxima, KAS_FN_REDUCE_ARGMAX);
    l->ir->tensor[row].def = e;
    return row;
}

/* ---- value and gradient ---------------------------------------------------------------------- */

void kas_lower_pool(kas_lower *l, int node)
{
    kas_ir *ir = l->ir;
    const kas_node *n = &l->kernel->node[node];
    const int64_t q = kas_lower_q(l, n->in[0]);
    const bool max = n->op == KAS_OP_POOL_MAX;
    const kas_fn fn = max ? KAS_FN_REDUCE_MAX : KAS_FN_REDUCE_SUM;
    const kas_window w = window_of(l, node);
    const bool staged = has_stages(l, &w, max);
    int tensor = kas_lower_result(l, node, q);
    const int rows = staged ? reduce_rows(l, node, w, fn) : -1;
    if (max && staged && l->training) {
        l->aux[node] = reduce_rows(l, node, w, KAS_FN_REDUCE_ARGMAX);
        l->won[node] = winning_row(l, w, l->aux[node], rows);
    } else if (max && l->training) { /* for a moment the winner's tensor is the node's */
        const kas_ex e = winner(l, node);
        ir->tensor[tensor].def = e;
        ir->tensor[tensor].dtype = KAS_F32; /* an index: 16 bits hold few of them */
        l->aux[node] = tensor;
        tensor = kas_lower_result(l, node, q);
    }
    kas_ex e = staged ? reduce_columns(l, w, tensor, rows, fn) : in_one(l, node, fn);
    if (!max) {
        kas_ix idx[KAS_IR_RANK];
        kas_lower_vars(l, node, idx);
        e = kas_ex_binary(ir, KAS_FN_DIV, e, count_inside(ir, &w, idx));
    }
    ir->tensor[tensor].def = e;
}

/* Makes dy / count a tensor, computed once for all that read it. */
static int share_of_each(kas_lower *l, int node, const kas_window *w)
{
    kas_ir *ir = l->ir;
    const kas_ir_tensor value = ir->tensor[l->tensor[node]];
    const int share = kas_lower_like(l, l->tensor[node], value.pitch);
    kas_ix idx[KAS_IR_RANK];
    kas_ir_own_index(ir, share, idx);
    const kas_ex e = kas_ex_binary(ir, KAS_FN_DIV, kas_lower_read_gradient(l, node, idx),
                                   count_inside(ir, w, idx));
    ir->tensor[share].def = e;
    return share;
}

/* Returns the sum of the gradients `dy` of all windows along the axes of `w` that read a pixel, or,
 * where `won` is a tensor, of those whose winner it names. dy is a tensor's or, where that is -1,
 * the node's. */
static kas_ex from_windows(kas_lower *l, int node, const kas_window *w, int won, int dy,
                           kas_ix *idx)
{
    kas_ir *ir = l->ir;
    kas_ix tap[AXES], from[AXES];
    int var[AXES];
    kas_lower_tap_vars(ir, w, var, tap);
    kas_lower_move(ir, w, tap, -1, idx, from);
    kas_ex e = dy < 0 ? kas_lower_read_gradient(l, node, idx) : kas_ex_read(ir, dy, idx);
    const kas_ix number = kas_ix_add(ir, kas_ix_scale(ir, tap[0], w->taps[1]), tap[1]);
    if (won >= 0)
        e = kas_ex_select(ir, KAS_FN_EQ, kas_ex_read(ir, won, idx), kas_ex_index(ir, number), e,
                          kas_ex_const(ir, 0));
    return kas_ex_reduce_all(ir, KAS_FN_REDUCE_SUM, AXES, var, kas_lower_inside(ir, w, from, e));
}

/* Makes the gradient of what reduce_rows made. */
static int gradient_of_rows(kas_lower *l, int node, kas_window w, int won, int dy)
{
    kas_ir *ir = l->ir;
    const int tensor = kas_lower_like(l, l->tensor[node], 0);
    kas_ix idx[KAS_IR_RANK];
    w.taps[1] = 1;
    kas_ir_own_index(ir, tensor, idx);
    const kas_ex e = from_windows(l, node, &w, won, dy, idx);
    ir->tensor[tensor].def = e;
    return tensor;
}

void kas_lower_pool_gradient(kas_lower *l, int node)
{
    const kas_node *n = &l->kernel->node[node];
    kas_window w = window_of(l, node);
    const bool max = n->op == KAS_OP_POOL_MAX;
    int dy = max ? -1 : share_of_each(l, node, &w);
    kas_ix idx[KAS_IR_RANK];
    if (has_stages(l, &w, max)) {
        dy = gradient_of_rows(l, node, w, max ? l->won[node] : -1, dy);
        w.taps[0] = 1;
    }
    kas_lower_vars(l, n->in[0], idx);
    kas_lower_contribute(l, n->in[0], from_windows(l, node, &w, max ? l->aux[node] : -1, dy, idx));
}

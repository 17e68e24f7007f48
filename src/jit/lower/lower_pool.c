/* pool_avg and pool_max: windows of neighbours; those outside the image are left out.
 *
 * On a GPU a large maximum comes in two stages, along W and then along H: 7 + 7 comparisons in the
 * place of 49. The tap that won is found from the largest of each row of the window and its tap. */
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

static bool has_stages(const kas_lower *l, const pool_window *w)
{
    enum { LEAST_TAPS = 25 };
    return !l->ir->cpu && w->taps[0] > 1 && w->taps[1] > 1 && w->taps[0] * w->taps[1] >= LEAST_TAPS;
}

/* Makes the maxima along W, or the taps that won, of what `node` reads. */
static int reduce_rows(kas_lower *l, int node, pool_window w, kas_fn fn)
{
    kas_ir *ir = l->ir;
    const kas_ir_tensor result = ir->tensor[l->tensor[node]];
    const int tensor = kas_ir_add_tensor(ir, KAS_TENSOR_DEF, result.rank, result.size, 0);
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

static kas_ex winner_of_rows(kas_lower *l, int node, pool_window w, int maxima)
{
    kas_ir *ir = l->ir;
    const kas_ir_tensor result = ir->tensor[l->tensor[node]];
    const int numbers = reduce_rows(l, node, w, KAS_FN_REDUCE_ARGMAX);
    const int row = kas_lower_tensor(l, result.size, result.rank);
    const int64_t columns = w.taps[1];
    kas_ix idx[KAS_IR_RANK], tap[AXES], from[AXES];
    int var[AXES];
    const kas_ex best = reduce_columns(l, w, row, maxima, KAS_FN_REDUCE_ARGMAX);
    ir->tensor[row].def = best;
    kas_lower_vars(l, node, idx);
    const kas_ex winner = kas_ex_read(ir, row, idx);
    w.taps[1] = 1;
    tap_vars(ir, &w, var, tap);
    move_pixel(ir, &w, tap, 1, idx, from);
    const kas_ex number = kas_ex_binary(ir, KAS_FN_ADD, kas_ex_read(ir, numbers, idx),
                                        kas_ex_index(ir, kas_ix_scale(ir, tap[0], columns)));
    return kas_ex_reduce(ir, KAS_FN_REDUCE_SUM, var[0],
                         kas_ex_select(ir, KAS_FN_EQ, winner, kas_ex_index(ir, tap[0]), number,
                                       kas_ex_const(ir, 0)));
}

/* ---- value and gradient ---------------------------------------------------------------------- */

void kas_lower_pool(kas_lower *l, int node)
{
    kas_ir *ir = l->ir;
    const kas_node *n = &l->kernel->node[node];
    const int64_t q = ir->tensor[l->tensor[n->in[0]]].size[KAS_DIM_Q];
    const bool max = n->op == KAS_OP_POOL_MAX;
    const pool_window w = window_of(l, node);
    const bool staged = max && has_stages(l, &w);
    int tensor = kas_lower_result(l, node, q);
    const int maxima = staged ? reduce_rows(l, node, w, KAS_FN_REDUCE_MAX) : -1;
    if (max && l->training) { /* for a moment the winner's tensor is the node's */
        const kas_ex e = staged ? winner_of_rows(l, node, w, maxima) : winner(l, node);
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

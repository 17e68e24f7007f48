/* Windows of neighbours along H and W: unfolds, convolutions and pools. */
#include "jit/lower/lower.h"

int64_t kas_lower_taps(kas_lower *l, int node, int axis)
{
    const kas_dim taps = kas_node_window(&l->kernel->node[node], axis);
    uint64_t size = 1;
    if (!kas_dim_eval(&taps, l->binding, &size))
        kas_ir_fail(l->ir, kas_fail(KAS_ILLEGAL, "node %d: the window has no size", node));
    return (int64_t)size;
}

kas_window kas_lower_window(kas_lower *l, int node, int in)
{
    const kas_ir_tensor *image = &l->ir->tensor[l->tensor[in]];
    return (kas_window){
        .taps = {kas_lower_taps(l, node, KAS_AXIS_H), kas_lower_taps(l, node, KAS_AXIS_W)},
        .size = {image->size[KAS_DIM_H], image->size[KAS_DIM_W]},
        .step = kas_node_dilation(&l->kernel->node[node])};
}

void kas_lower_tap_vars(kas_ir *ir, const kas_window *w, int var[2], kas_ix tap[2])
{
    for (int i = 0; i < 2; i++) {
        var[i] = kas_ir_loop_var(ir, w->taps[i]);
        tap[i] = kas_ix_var(ir, var[i]);
    }
}

void kas_lower_move(kas_ir *ir, const kas_window *w, const kas_ix tap[2], int direction,
                    kas_ix *idx, kas_ix from[2])
{
    const int64_t step = direction * w->step;
    for (int i = 0; i < 2; i++) {
        kas_ix *at = &idx[KAS_DIM_H + i];
        from[i] = kas_ix_add(ir, kas_ix_add(ir, *at, kas_ix_scale(ir, tap[i], step)),
                             kas_ix_const(ir, -step * (w->taps[i] / 2)));
        *at = kas_ix_clamp(ir, from[i], 0, w->size[i] - 1);
    }
}

kas_ex kas_lower_inside(kas_ir *ir, const kas_window *w, const kas_ix from[2], kas_ex e)
{
    for (int i = 0; i < 2; i++)
        e = kas_ex_guard(ir, from[i], 0, w->size[i] - 1, e);
    return e;
}

#include "host/ops/internal.h"

static kas_status launch(kas_plan *plan, const kas_function *function, kas_activation kind,
                         const kas_tensor *kept, const kas_tensor *dy, const kas_tensor *out)
{
    if (kind <= KAS_ACTIVATION_NONE || kind > KAS_ACTIVATION_GELU)
        return kas_fail(KAS_BAD_INPUT, "activation: kind %d, expected %d to %d", (int)kind,
                        KAS_ACTIVATION_RELU, KAS_ACTIVATION_GELU);
    const kas_tensor *const all[] = {kept, out, dy, NULL};
    const kas_activation_args args = {.kept = kept->data,
                                      .dy = dy ? dy->data : NULL,
                                      .out = out->data,
                                      .rows = kas_tensor_rows(out),
                                      .c = out->c,
                                      .pitch_kept = kept->pitch,
                                      .pitch_dy = dy ? dy->pitch : 0,
                                      .pitch_out = out->pitch,
                                      .rows_per_block = kas_ops_rows_per_block(out->c),
                                      .whole = kas_ops_whole(all, NULL),
                                      .kind = (int)kind};
    return kas_ops_launch_rows(plan, function, out, &args, sizeof args);
}

kas_status kas_op_activation_forward(kas_ops *ops, kas_plan *plan, kas_activation kind,
                                     kas_tensor x, kas_tensor y)
{
    KAS_TRY(kas_ops_check("activation", "x", &x));
    KAS_TRY(kas_ops_check_like("activation", "y", &y, &x));
    return launch(plan, ops->of[x.dtype].activation_forward, kind, &x, NULL, &y);
}

kas_status kas_op_activation_backward(kas_ops *ops, kas_plan *plan, kas_activation kind,
                                      kas_tensor kept, kas_tensor dy, kas_tensor dx)
{
    KAS_TRY(kas_ops_check("activation backward", "what is kept", &kept));
    KAS_TRY(kas_ops_check_like("activation backward", "dy", &dy, &kept));
    KAS_TRY(kas_ops_check_like("activation backward", "dx", &dx, &kept));
    return launch(plan, ops->of[dy.dtype].activation_backward, kind, &kept, &dy, &dx);
}

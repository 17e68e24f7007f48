#include "host/ops/internal.h"

#include "host/core/random.h"

kas_status kas_op_dropout(kas_ops *ops, kas_plan *plan, const kas_dropout *dropout, kas_tensor x,
                          kas_tensor y)
{
    KAS_TRY(kas_ops_check("dropout", "x", &x));
    KAS_TRY(kas_ops_check_like("dropout", "y", &y, &x));
    if (!(dropout->probability >= 0 && dropout->probability < 1))
        return kas_fail(KAS_BAD_INPUT, "dropout: probability %g, expected [0, 1)",
                        dropout->probability);
    const kas_rng rng = kas_rng_make(dropout->seed, KAS_PURPOSE_DROPOUT, 0);
    const kas_tensor *const all[] = {&x, &y, NULL};
    const kas_dropout_args args = {.x = x.data,
                                   .y = y.data,
                                   .state = dropout->state,
                                   .rows = kas_tensor_rows(&x),
                                   .c = x.c,
                                   .pitch_x = x.pitch,
                                   .pitch_y = y.pitch,
                                   .rows_per_block = kas_ops_rows_per_block(x.c),
                                   .key0 = rng.key[0],
                                   .key1 = rng.key[1],
                                   .layer = dropout->layer,
                                   .threshold = (kas_u32)(dropout->probability * 4294967296.0),
                                   .scale = (float)(1 / (1 - dropout->probability)),
                                   .whole = kas_ops_whole(all, NULL)};
    return kas_ops_launch_rows(plan, ops->of[x.dtype].dropout, &x, &args, sizeof args);
}

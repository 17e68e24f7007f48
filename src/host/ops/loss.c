#include "host/ops/internal.h"

kas_status kas_op_cross_entropy(kas_ops *ops, kas_plan *plan, kas_tensor logits,
                                const uint16_t *labels, double smoothing, const kas_mix *mix,
                                kas_tensor dlogits, const kas_loss_scale *scale,
                                kas_metrics *metrics, float *scratch)
{
    KAS_TRY(kas_ops_check("cross entropy", "logits", &logits));
    KAS_TRY(kas_ops_check_number("cross entropy", "logits", &logits, KAS_F32));
    if (dlogits.data)
        KAS_TRY(kas_ops_check_like("cross entropy", "dlogits", &dlogits, &logits));
    if (logits.h != 1 || logits.w != 1 || logits.c > KAS_NO_LABEL)
        return kas_fail(KAS_BAD_INPUT,
                        "cross entropy: logits are [%d][%d][%d] with %d classes: expected 1 x 1 "
                        "and at most %d classes",
                        logits.n, logits.h, logits.w, logits.c, KAS_NO_LABEL);
    if (!(smoothing >= 0 && smoothing < 1))
        return kas_fail(KAS_BAD_INPUT, "cross entropy: label smoothing %g, expected [0, 1)",
                        smoothing);
    const kas_tensor *const all[] = {&logits, &dlogits, NULL};
    const kas_loss_args args = {.logits = logits.data,
                                .labels = labels,
                                .dlogits = dlogits.data,
                                .loss = scratch,
                                .hit = scratch + logits.n,
                                .metrics = metrics,
                                .rows = mix ? mix->rows : NULL,
                                .state = mix ? mix->state : NULL,
                                .scale = scale,
                                .n = logits.n,
                                .classes = logits.c,
                                .pitch = logits.pitch,
                                .pitch_d = dlogits.pitch,
                                .whole = kas_ops_whole(all, NULL),
                                .smoothing = (float)smoothing};
    const unsigned grid[3] = {(unsigned)logits.n, 1, 1}, one[3] = {1, 1, 1};
    unsigned block[3];
    kas_ops_part_block(logits.c, KAS_LOSS_LANES, 1, KAS_F32, block);
    KAS_TRY(kas_plan_launch(plan, ops->of[KAS_F32].cross_entropy, grid, block, &args, sizeof args));
    /* The lanes of the second kernel are not strided: the block has as many threads as lanes. */
    const unsigned lanes[3] = {KAS_LOSS_LANES, 1, 1};
    return kas_plan_launch(plan, ops->of[KAS_F32].cross_entropy_total, one, lanes, &args,
                           sizeof args);
}

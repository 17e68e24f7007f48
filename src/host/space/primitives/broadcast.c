#include "host/space/primitive.h"

static bool same_dim(const kas_shape *a, int i, const kas_shape *b, int j)
{
    return kas_dim_equal(kas_shape_at(a, i), kas_shape_at(b, j));
}

kas_status kas_broadcast_align(const kas_shape *lhs, const kas_shape *rhs, kas_broadcast *out)
{
    int l = kas_shape_rank(lhs), r = kas_shape_rank(rhs);
    *out = (kas_broadcast){0};
    while (l > 0 && r > 0 && same_dim(lhs, l - 1, rhs, r - 1)) {
        out->suffix++;
        l--;
        r--;
    }
    while (out->prefix < l && out->prefix < r && same_dim(lhs, out->prefix, rhs, out->prefix))
        out->prefix++;
    if (!kas_shape_product(lhs, out->prefix, l, &out->lhs) ||
        !kas_shape_product(rhs, out->prefix, r, &out->rhs))
        return kas_fail(KAS_ILLEGAL, "broadcast: a product of sizes leaves its range");
    return KAS_OK;
}

kas_status kas_infer_broadcast(kas_kernel *kernel, int i)
{
    kas_dim repetitions;
    KAS_TRY(kas_divisor_broadcast(kernel, i, &repetitions));
    kernel->node[i].shape = *kas_node_input(kernel, i, 1);
    return KAS_OK;
}

/* The divisor of a broadcast: how often LHS is repeated over RHS. */
kas_status kas_divisor_broadcast(const kas_kernel *kernel, int i, kas_dim *out)
{
    kas_broadcast parts;
    KAS_TRY(
        kas_broadcast_align(kas_node_input(kernel, i, 0), kas_node_input(kernel, i, 1), &parts));
    if (!kas_dim_div(&parts.rhs, &parts.lhs, out))
        return kas_node_fail(kernel, i, "the number of repetitions leaves its range");
    return KAS_OK;
}

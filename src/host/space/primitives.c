#include "host/space/primitive.h"

#include <stdarg.h>
#include <stdio.h>

enum {
    SPATIAL = KAS_TRAIT_SPATIAL,
    SAME_SHAPE = KAS_TRAIT_SAME_SHAPE,
    COMMUTES = KAS_TRAIT_COMMUTES,
    VARIADIC = KAS_TRAIT_VARIADIC,
    RANGE = KAS_ATTR_DIM | KAS_ATTR_DIM_END,
    SYMBOL = KAS_ATTR_DIM | KAS_ATTR_SYMBOL,
    WINDOW = KAS_ATTR_AXES | KAS_ATTR_KERNEL,
    DILATED = WINDOW | KAS_ATTR_DILATION,
    MAP = KAS_ATTR_GROUPED | KAS_ATTR_OUT
};

#define ELEMENTWISE(name)                                                                          \
    {                                                                                              \
        {name, KAS_TYPE_ELEMENTWISE, 1, SAME_SHAPE}, 0, kas_infer_elementwise, NULL,               \
            kas_cost_result                                                                        \
    }
#define BROADCAST(name, traits)                                                                    \
    {                                                                                              \
        {name, KAS_TYPE_BROADCAST, 2, traits}, 0, kas_infer_broadcast, kas_divisor_broadcast,      \
            kas_cost_result                                                                        \
    }
#define FOLD(name)                                                                                 \
    {                                                                                              \
        {name, KAS_TYPE_FOLD, 1, SPATIAL}, KAS_ATTR_DIM, kas_infer_fold, NULL, kas_cost_input      \
    }
#define POOL(name)                                                                                 \
    {                                                                                              \
        {name, KAS_TYPE_POOL, 1, SPATIAL | SAME_SHAPE}, WINDOW, kas_infer_pool, NULL,              \
            kas_cost_pool                                                                          \
    }

/* Name, type, operands, traits; attributes; shape rule, divisor, cost, weight.  What is left out is
 * NULL: there is none. */
/* clang-format off */
const kas_primitive kas_primitives[KAS_OP_COUNT] = {
    [KAS_OP_INPUT] = {{"input", KAS_TYPE_INPUT, 0, 0}, 0, kas_infer_input},
    [KAS_OP_GROUP] = {{"group", KAS_TYPE_GROUP, 1, 0}, SYMBOL, kas_infer_group},
    [KAS_OP_GROUP_ALL] = {{"group_all", KAS_TYPE_GROUP, 1, 0}, KAS_ATTR_DIM, kas_infer_group_all},
    [KAS_OP_SHIFT] = {{"shift", KAS_TYPE_SHIFT, 1, SPATIAL | SAME_SHAPE},
                      KAS_ATTR_AXES | KAS_ATTR_OFFSET, kas_infer_shift},
    [KAS_OP_UNFOLD] = {{"unfold", KAS_TYPE_UNFOLD, 1, SPATIAL}, DILATED, kas_infer_unfold},
    [KAS_OP_SHUFFLE] = {{"shuffle", KAS_TYPE_SHUFFLE, 1, SAME_SHAPE},
                        SYMBOL, kas_infer_shuffle, kas_divisor_shuffle},
    [KAS_OP_SLICE] = {{"slice", KAS_TYPE_SLICE, 1, 0},
                      KAS_ATTR_DIM | KAS_ATTR_SPLIT | KAS_ATTR_SEGMENT, kas_infer_slice},
    [KAS_OP_CONCAT] = {{"concat", KAS_TYPE_CONCAT, 2, VARIADIC},
                       KAS_ATTR_DIM | KAS_ATTR_SPLIT, kas_infer_concat},
    [KAS_OP_FC] = {{"fc", KAS_TYPE_FC, 1, 0}, MAP,
                   kas_infer_fc, kas_divisor_weight, kas_cost_weight, kas_weight_fc},
    [KAS_OP_CONV] = {{"conv", KAS_TYPE_CONV, 1, SPATIAL}, DILATED | MAP,
                     kas_infer_conv, kas_divisor_weight, kas_cost_weight, kas_weight_conv},
    [KAS_OP_CONV_DEPTHWISE] = {{"conv_depthwise", KAS_TYPE_CONV, 1, SPATIAL | SAME_SHAPE}, DILATED,
                               kas_infer_conv_depthwise, NULL, kas_cost_weight,
                               kas_weight_conv_depthwise},
    [KAS_OP_MIX] = {{"mix", KAS_TYPE_MIX, 1, 0}, RANGE | KAS_ATTR_OUT,
                    kas_infer_mix, NULL, kas_cost_weight, kas_weight_mix},
    [KAS_OP_SCALE] = {{"scale", KAS_TYPE_SCALE, 1, SAME_SHAPE}, RANGE,
                      kas_infer_scale, NULL, kas_cost_weight, kas_weight_scale},
    [KAS_OP_RELU] = ELEMENTWISE("relu"),
    [KAS_OP_GELU] = ELEMENTWISE("gelu"),
    [KAS_OP_SIGMOID] = ELEMENTWISE("sigmoid"),
    [KAS_OP_TANH] = ELEMENTWISE("tanh"),
    [KAS_OP_ABS] = ELEMENTWISE("abs"),
    [KAS_OP_EXP] = ELEMENTWISE("exp"),
    [KAS_OP_NEG] = ELEMENTWISE("neg"),
    [KAS_OP_SIN] = ELEMENTWISE("sin"),
    [KAS_OP_SQRT] = ELEMENTWISE("sqrt"),
    [KAS_OP_SQUARE] = ELEMENTWISE("square"),
    [KAS_OP_FOLD_AVG] = FOLD("fold_avg"),
    [KAS_OP_FOLD_MAX] = FOLD("fold_max"),
    [KAS_OP_SOFTMAX] = {{"softmax", KAS_TYPE_SOFTMAX, 1, SPATIAL | SAME_SHAPE}, RANGE,
                        kas_infer_softmax, NULL, kas_cost_result},
    [KAS_OP_NORM] = {{"norm", KAS_TYPE_NORM, 1, SPATIAL | SAME_SHAPE}, RANGE,
                     kas_infer_norm, NULL, kas_cost_result},
    [KAS_OP_POOL_AVG] = POOL("pool_avg"),
    [KAS_OP_POOL_MAX] = POOL("pool_max"),
    [KAS_OP_BMM] = {{"bmm", KAS_TYPE_BMM, 2, SPATIAL}, KAS_ATTR_PRODUCT,
                    kas_infer_bmm, NULL, kas_cost_bmm},
    [KAS_OP_ADD] = BROADCAST("add", COMMUTES),
    [KAS_OP_SUB] = BROADCAST("sub", 0),
    [KAS_OP_MUL] = BROADCAST("mul", COMMUTES),
    [KAS_OP_MIN] = BROADCAST("min", COMMUTES),
    [KAS_OP_MAX] = BROADCAST("max", COMMUTES),
};
/* clang-format on */

const kas_op_info *kas_op_get(kas_op op)
{
    const kas_primitive *primitive = kas_primitive_get((int)op);
    return primitive ? &primitive->info : NULL;
}

kas_status kas_node_fail(const kas_kernel *kernel, int i, const char *format, ...)
{
    const kas_op_info *info = kas_op_get(kernel->node[i].op);
    char text[512];
    va_list args;
    if (kas_is_quiet(KAS_ILLEGAL))
        return KAS_ILLEGAL;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return kas_fail(KAS_ILLEGAL, "node %d (%s): %s", i, info ? info->name : "unknown", text);
}

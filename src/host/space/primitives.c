#include "host/space/primitive.h"

#include <stdarg.h>
#include <stdio.h>

#define ELEMENTWISE(name)                                                                          \
    {                                                                                              \
        {name, 1, KAS_CLASS_ARITHMETIC, true}, 0, kas_infer_elementwise, NULL, kas_cost_result     \
    }
#define BLEND(name)                                                                                \
    {                                                                                              \
        {name, 2, KAS_CLASS_BLEND, false}, 0, kas_infer_blend, kas_divisor_blend, kas_cost_result  \
    }
#define FOLD(name)                                                                                 \
    {                                                                                              \
        {name, 1, KAS_CLASS_ARITHMETIC, false}, KAS_ATTR_DIM, kas_infer_fold, NULL, kas_cost_input \
    }

#define POOL(name)                                                                                 \
    {                                                                                              \
        {name, 1, KAS_CLASS_ARITHMETIC, false}, KAS_ATTR_AXES | KAS_ATTR_KERNEL, kas_infer_pool,   \
            NULL, kas_cost_pool                                                                    \
    }

const kas_primitive kas_primitives[KAS_OP_COUNT] = {
    [KAS_OP_INPUT] = {{"input", 0, KAS_CLASS_INPUT, false}, 0, kas_infer_input, NULL, NULL},
    [KAS_OP_GROUP] = {{"group", 1, KAS_CLASS_REARRANGE, false},
                      KAS_ATTR_DIM | KAS_ATTR_SYMBOL,
                      kas_infer_group,
                      NULL,
                      NULL},
    [KAS_OP_GROUP_ALL] = {{"group_all", 1, KAS_CLASS_REARRANGE, false},
                          KAS_ATTR_DIM,
                          kas_infer_group_all,
                          NULL,
                          NULL},
    [KAS_OP_SHIFT] = {{"shift", 1, KAS_CLASS_REARRANGE, false},
                      KAS_ATTR_AXES | KAS_ATTR_OFFSET,
                      kas_infer_shift,
                      NULL,
                      NULL},
    [KAS_OP_UNFOLD] = {{"unfold", 1, KAS_CLASS_REARRANGE, false},
                       KAS_ATTR_AXES | KAS_ATTR_KERNEL | KAS_ATTR_DILATION,
                       kas_infer_unfold,
                       NULL,
                       NULL},
    [KAS_OP_SHUFFLE] = {{"shuffle", 1, KAS_CLASS_REARRANGE, false},
                        KAS_ATTR_DIM | KAS_ATTR_SYMBOL,
                        kas_infer_shuffle,
                        kas_divisor_shuffle,
                        NULL},
    [KAS_OP_SLICE] = {{"slice", 1, KAS_CLASS_REARRANGE, false},
                      KAS_ATTR_DIM | KAS_ATTR_SPLIT | KAS_ATTR_SEGMENT,
                      kas_infer_slice,
                      NULL,
                      NULL},
    [KAS_OP_CONCAT] = {{"concat", 2, KAS_CLASS_REARRANGE, false, true},
                       KAS_ATTR_DIM | KAS_ATTR_SPLIT,
                       kas_infer_concat,
                       NULL,
                       NULL},
    [KAS_OP_FC] = {{"fc", 1, KAS_CLASS_ARITHMETIC, false},
                   KAS_ATTR_GROUPED | KAS_ATTR_OUT,
                   kas_infer_fc,
                   kas_divisor_weight,
                   kas_cost_weight,
                   kas_weight_fc},
    [KAS_OP_CONV] = {{"conv", 1, KAS_CLASS_ARITHMETIC, false},
                     KAS_ATTR_AXES | KAS_ATTR_KERNEL | KAS_ATTR_DILATION | KAS_ATTR_GROUPED |
                         KAS_ATTR_OUT,
                     kas_infer_conv,
                     kas_divisor_weight,
                     kas_cost_weight,
                     kas_weight_conv},
    [KAS_OP_CONV_DEPTHWISE] = {{"conv_depthwise", 1, KAS_CLASS_ARITHMETIC, false},
                               KAS_ATTR_AXES | KAS_ATTR_KERNEL | KAS_ATTR_DILATION,
                               kas_infer_conv_depthwise,
                               NULL,
                               kas_cost_weight,
                               kas_weight_conv_depthwise},
    [KAS_OP_MIX] = {{"mix", 1, KAS_CLASS_ARITHMETIC, false},
                    KAS_ATTR_DIM | KAS_ATTR_DIM_END | KAS_ATTR_OUT,
                    kas_infer_mix,
                    NULL,
                    kas_cost_weight,
                    kas_weight_mix},
    [KAS_OP_SCALE] = {{"scale", 1, KAS_CLASS_ARITHMETIC, false},
                      KAS_ATTR_DIM | KAS_ATTR_DIM_END,
                      kas_infer_scale,
                      NULL,
                      kas_cost_weight,
                      kas_weight_scale},
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
    [KAS_OP_POOL_AVG] = POOL("pool_avg"),
    [KAS_OP_POOL_MAX] = POOL("pool_max"),
    [KAS_OP_SOFTMAX] = {{"softmax", 1, KAS_CLASS_ARITHMETIC, false},
                        KAS_ATTR_DIM | KAS_ATTR_DIM_END,
                        kas_infer_along,
                        NULL,
                        kas_cost_result},
    [KAS_OP_NORM] = {{"norm", 1, KAS_CLASS_ARITHMETIC, false},
                     KAS_ATTR_DIM | KAS_ATTR_DIM_END,
                     kas_infer_along,
                     NULL,
                     kas_cost_result},
    [KAS_OP_BMM] = {.info = {.name = "bmm", .inputs = 2, .class_ = KAS_CLASS_ARITHMETIC},
                    .attributes = KAS_ATTR_PRODUCT,
                    .infer = kas_infer_bmm,
                    .cost = kas_cost_bmm},
    [KAS_OP_ADD] = BLEND("add"),
    [KAS_OP_SUB] = BLEND("sub"),
    [KAS_OP_MUL] = BLEND("mul"),
    [KAS_OP_MIN] = BLEND("min"),
    [KAS_OP_MAX] = BLEND("max"),
};

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

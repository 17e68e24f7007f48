/* The names of the kinds of layers, as in network files. */
#include "host/net/net.h"

const char *kas_layer_op_name(kas_layer_op op)
{
    static const char *const names[KAS_LAYER_OPS] = {
        [KAS_LAYER_INPUT] = "input",
        [KAS_LAYER_CONV] = "conv",
        [KAS_LAYER_BATCH_NORM] = "batch_norm",
        [KAS_LAYER_RELU] = "relu",
        [KAS_LAYER_ADD] = "add",
        [KAS_LAYER_AVG_POOL] = "avg_pool",
        [KAS_LAYER_GLOBAL_AVG_POOL] = "global_avg_pool",
        [KAS_LAYER_SHORTCUT_A] = "shortcut_a",
        [KAS_LAYER_LINEAR] = "linear",
        [KAS_LAYER_RELU6] = "relu6",
        [KAS_LAYER_SILU] = "silu",
        [KAS_LAYER_HARD_SWISH] = "hard_swish",
        [KAS_LAYER_HARD_SIGMOID] = "hard_sigmoid",
        [KAS_LAYER_GELU] = "gelu",
        [KAS_LAYER_SIGMOID] = "sigmoid",
        [KAS_LAYER_MAX_POOL] = "max_pool",
        [KAS_LAYER_ADAPTIVE_AVG_POOL] = "adaptive_avg_pool",
        [KAS_LAYER_MULTIPLY] = "multiply",
        [KAS_LAYER_CONCAT] = "concat",
        [KAS_LAYER_DROPOUT] = "dropout",
        [KAS_LAYER_FLATTEN] = "flatten",
        [KAS_LAYER_LAYER_NORM] = "layer_norm",
    };
    return names[op];
}

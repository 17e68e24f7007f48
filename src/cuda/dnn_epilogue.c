/* Adds to a graph of cuDNN what follows a convolution: pointwise operations, one after the
 * other. */
#include "cuda/dnn_graph.h"

/* An operation y = mode(x) or mode(x, b). cuDNN's defaults clip a ReLU at 0 and infinity,
 * and make 0 of NaN; 9 calls the attribute that asks for NaN deprecated, so engines are
 * asked too (tuning.h). */
typedef struct pointwise {
    int32_t mode;
    float upper_clip; /* of a ReLU; 0: none */
} pointwise;

/* Finds the pointwise operation that is this activation, by the formulas of net.h. Returns false
 * for activations that take several of cuDNN's operations. */
static bool find_activation(kas_activation activation, pointwise *out)
{
    switch (activation) {
    case KAS_ACTIVATION_RELU:
        *out = (pointwise){.mode = KAS_DNN_MODE_RELU};
        return true;
    case KAS_ACTIVATION_RELU6:
        *out = (pointwise){.mode = KAS_DNN_MODE_RELU, .upper_clip = 6};
        return true;
    case KAS_ACTIVATION_SIGMOID:
        *out = (pointwise){.mode = KAS_DNN_MODE_SIGMOID};
        return true;
    case KAS_ACTIVATION_SILU:
        *out = (pointwise){.mode = KAS_DNN_MODE_SWISH};
        return true;
    case KAS_ACTIVATION_GELU:
        *out = (pointwise){.mode = KAS_DNN_MODE_GELU};
        return true;
    default:
        return false;
    }
}

static kas_status add_pointwise(kas_cuda *cuda, kas_dnn_graph *g, pointwise p,
                                cudnnBackendDescriptor_t *out)
{
    const int32_t compute = KAS_CUDNN_DATA_FLOAT, nan = KAS_DNN_PROPAGATE_NAN;
    const float beta = 1;
    KAS_TRY(kas_dnn_add_part(cuda, g, KAS_DNN_POINTWISE, out));
    KAS_TRY(
        kas_dnn_set(cuda, *out, KAS_DNN_POINTWISE_MODE, KAS_DNN_TYPE_POINTWISE_MODE, 1, &p.mode));
    KAS_TRY(kas_dnn_set(cuda, *out, KAS_DNN_POINTWISE_COMPUTE_TYPE, KAS_DNN_TYPE_DATA_TYPE, 1,
                        &compute));
    if (p.mode == KAS_DNN_MODE_RELU)
        KAS_TRY(kas_dnn_set(cuda, *out, KAS_DNN_POINTWISE_NAN_PROPAGATION,
                            KAS_DNN_TYPE_NAN_PROPAGATION, 1, &nan));
    if (p.upper_clip > 0)
        KAS_TRY(kas_dnn_set(cuda, *out, KAS_DNN_POINTWISE_UPPER_CLIP, KAS_DNN_TYPE_FLOAT, 1,
                            &p.upper_clip));
    if (p.mode == KAS_DNN_MODE_SWISH)
        KAS_TRY(
            kas_dnn_set(cuda, *out, KAS_DNN_POINTWISE_SWISH_BETA, KAS_DNN_TYPE_FLOAT, 1, &beta));
    return kas_dnn_finalize(cuda, *out);
}

/* The chain of operations made so far. */
typedef struct chain {
    kas_cuda *cuda;
    kas_dnn_graph *graph;
    const kas_dnn_tensor *y;
    cudnnBackendDescriptor_t end; /* the tensor that the next operation reads */
    int left;                     /* operations still to come */
} chain;

/* Adds the next tensor: virtual, or y where the chain ends. */
static kas_status add_output(chain *c, cudnnBackendDescriptor_t *out)
{
    kas_dnn_tensor t = *c->y;
    if (--c->left > 0) {
        t.id = KAS_DNN_BETWEEN + c->graph->operations;
        t.dtype = KAS_F32;
        t.is_virtual = true;
    }
    return kas_dnn_add_tensor(c->cuda, c->graph, &t, out);
}

/* Adds an operation; `b` is NULL where it has one operand. */
static kas_status append(chain *c, pointwise p, const kas_dnn_tensor *b)
{
    cudnnBackendDescriptor_t mode, second, out, op;
    KAS_TRY(add_pointwise(c->cuda, c->graph, p, &mode));
    if (b)
        KAS_TRY(kas_dnn_add_tensor(c->cuda, c->graph, b, &second));
    KAS_TRY(add_output(c, &out));
    KAS_TRY(kas_dnn_add_operation(c->cuda, c->graph, KAS_DNN_OPERATION_POINTWISE, &op));
    KAS_TRY(kas_dnn_set(c->cuda, op, KAS_DNN_OPERATION_POINTWISE_POINTWISE, KAS_DNN_TYPE_DESCRIPTOR,
                        1, &mode));
    KAS_TRY(kas_dnn_set(c->cuda, op, KAS_DNN_OPERATION_POINTWISE_X, KAS_DNN_TYPE_DESCRIPTOR, 1,
                        &c->end));
    if (b)
        KAS_TRY(kas_dnn_set(c->cuda, op, KAS_DNN_OPERATION_POINTWISE_B, KAS_DNN_TYPE_DESCRIPTOR, 1,
                            &second));
    KAS_TRY(
        kas_dnn_set(c->cuda, op, KAS_DNN_OPERATION_POINTWISE_Y, KAS_DNN_TYPE_DESCRIPTOR, 1, &out));
    c->end = out;
    return kas_dnn_finalize(c->cuda, op);
}

/* The residual before the bias: in the other order only engines that are compiled at run
 * time take it. */
static kas_status append_all(chain *c, kas_conv_beside e, const pointwise *activation)
{
    const pointwise add = {.mode = KAS_DNN_MODE_ADD};
    const int64_t channels = c->y->size[1];
    const kas_dnn_tensor bias = {.id = KAS_DNN_BIAS,
                                 .size = {1, channels, 1, 1},
                                 .stride = {channels, 1, channels, channels},
                                 .dtype = c->y->dtype};
    kas_dnn_tensor residual = *c->y;
    residual.id = KAS_DNN_RESIDUAL;
    if (e.residual)
        KAS_TRY(append(c, add, &residual));
    if (e.bias)
        KAS_TRY(append(c, add, &bias));
    return activation ? append(c, *activation, NULL) : KAS_OK;
}

kas_status kas_dnn_add_epilogue(kas_cuda *cuda, kas_dnn_graph *graph, kas_conv_beside e,
                                const kas_dnn_tensor *y, cudnnBackendDescriptor_t from)
{
    const bool activates = e.activation != KAS_ACTIVATION_NONE;
    pointwise activation;
    if (activates && !find_activation(e.activation, &activation))
        return kas_fail(KAS_UNSUPPORTED, "cuDNN has no operation for activation %d",
                        (int)e.activation);
    chain c = {cuda, graph, y, from, e.bias + e.residual + activates};
    return append_all(&c, e, activates ? &activation : NULL);
}

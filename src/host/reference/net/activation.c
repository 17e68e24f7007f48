/* Functions of one value, as PyTorch defines them: NaN gives NaN.  Where x is NaN no limit cuts the
 * gradient off (PyTorch's ReLU does the same, its ReLU6 and hard sigmoid give 0). */
#include <math.h>

#include "host/reference/net/layers.h"

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double hard_sigmoid(double x)
{
    return x <= -3 ? 0 : x >= 3 ? 1 : (x + 3) / 6;
}

/* Return the cumulative distribution and the density of the standard normal distribution. */
static double cumulative(double x)
{
    return erfc(-x / sqrt(2)) / 2;
}

static double density(double x)
{
    return exp(-x * x / 2) / sqrt(2 * acos(-1));
}

double kas_ref_activation(kas_layer_op op, double x)
{
    switch (op) {
    case KAS_LAYER_RELU:
        return isnan(x) || x > 0 ? x : 0;
    case KAS_LAYER_RELU6:
        return x > 6 ? 6 : isnan(x) || x > 0 ? x : 0;
    case KAS_LAYER_SILU:
        return x * sigmoid(x);
    case KAS_LAYER_HARD_SWISH:
        return x * hard_sigmoid(x);
    case KAS_LAYER_HARD_SIGMOID:
        return hard_sigmoid(x);
    case KAS_LAYER_GELU:
        return x * cumulative(x);
    case KAS_LAYER_SIGMOID:
        return sigmoid(x);
    default:
        return NAN; /* not an activation: nothing that uses it may pass */
    }
}

double kas_ref_activation_slope(kas_layer_op op, double x)
{
    double s = sigmoid(x);
    switch (op) {
    case KAS_LAYER_RELU:
        return isnan(x) || x > 0;
    case KAS_LAYER_RELU6:
        return isnan(x) || (x > 0 && x < 6);
    case KAS_LAYER_SILU:
        return s + x * s * (1 - s);
    case KAS_LAYER_HARD_SWISH:
        return x <= -3 ? 0 : x >= 3 ? 1 : x / 3 + 0.5;
    case KAS_LAYER_HARD_SIGMOID:
        return isnan(x) || (x > -3 && x < 3) ? 1.0 / 6 : 0;
    case KAS_LAYER_GELU:
        return cumulative(x) + x * density(x);
    case KAS_LAYER_SIGMOID:
        return s * (1 - s);
    default:
        return NAN;
    }
}

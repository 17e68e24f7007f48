/* The epilogue of a convolution: what a network does with its output before anything else reads it,
 *
 *     y = activation((x - mean) / deviation * gamma + beta  [+ residual])
 *
 * that is, a batch norm, perhaps the sum of a residual block, and perhaps an activation. A kernel
 * in the convolution's place can do all of it where it writes its result if the statistics are
 * known, as in evaluation and inference (docs/jit.md, "Epilogues"). net/epilogues.h finds the
 * epilogues of a network.  Other folders include this header. */
#ifndef KAS_DEVICE_EPILOGUE_H
#define KAS_DEVICE_EPILOGUE_H

#include <stdbool.h>

/* The numbers are those of cuda/kernels/activation.h. Formulas: net.h. */
typedef enum kas_activation {
    KAS_ACTIVATION_NONE,
    KAS_ACTIVATION_RELU,
    KAS_ACTIVATION_RELU6,
    KAS_ACTIVATION_SIGMOID,
    KAS_ACTIVATION_HARD_SIGMOID,
    KAS_ACTIVATION_SILU,
    KAS_ACTIVATION_HARD_SWISH,
    KAS_ACTIVATION_GELU
} kas_activation;

typedef struct kas_epilogue {
    bool norm; /* false: no batch norm follows, and the other members have no meaning */
    bool residual;
    kas_activation activation;
} kas_epilogue;

enum { KAS_EPILOGUES_MAX = 2 * (KAS_ACTIVATION_GELU + 1) }; /* number of different epilogues */

static inline bool kas_epilogue_same(kas_epilogue a, kas_epilogue b)
{
    return a.norm == b.norm && a.residual == b.residual && a.activation == b.activation;
}

#endif

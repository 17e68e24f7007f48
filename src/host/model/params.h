/* The tensors of a network that training changes, parameters and running statistics: their names,
 * logical shapes and places in memory.
 *
 *     learned (parameters, and likewise gradients and momentum):
 *     | conv, linear and kernel weights ... | batch norm, biases, kernel factors |
 *     0                                   decayed ^                    learned ^   floats
 *     statistics: | running_mean, running_var of each batch norm |
 *
 * Weights that decay come first, so that the optimiser is one launch over one buffer.  Each tensor
 * starts at a multiple of 64 floats.
 *
 * Names are those of PyTorch's state_dict ("layer1.0.conv1.weight", "bn1.running_mean"); logical
 * order is PyTorch's: convolution [c_out][c_in/groups][kh][kw], linear [out][in].  A kernel in
 * place of convolution L has "L.weight0", "L.weight1", ... instead of "L.weight": one for each node
 * with a weight, in node order, [instance][group][out][in] (space/weights.h); and if any kernel's
 * output is scaled, every kernel has "L.gain" [1], which no step changes (kernel-file.md, "Gains").
 */
#ifndef KAS_MODEL_PARAMS_H
#define KAS_MODEL_PARAMS_H

#include "host/net/net.h"
#include "jit/programs.h"
#include "host/model/safetensors.h"

typedef enum kas_param_kind {
    KAS_PARAM_WEIGHT,   /* decays */
    KAS_PARAM_PLAIN,    /* learned, does not decay */
    KAS_PARAM_STATISTIC /* running statistics, gains */
} kas_param_kind;

typedef enum kas_init { KAS_INIT_CONSTANT, KAS_INIT_NORMAL, KAS_INIT_UNIFORM } kas_init;

enum { KAS_PARAM_GAIN_SLOT = 64 }; /* behind the weights of a kernel */

typedef struct kas_param {
    char name[KAS_TENSOR_NAME];
    kas_param_kind kind;
    int layer, slot; /* slot: 0 weight, 1 bias, 2 mean, 3 var; for a kernel the number of the
                        weight */
    int rank;
    uint64_t shape[4];
    size_t size;           /* elements */
    size_t offset;         /* in floats, from the start of the learned or the statistics buffer */
    const kas_weight *map; /* kernel weights: their order in memory; owned by the program */
    kas_init init;
    double scale; /* the constant, the standard deviation, or the bound */
} kas_param;

typedef struct kas_params {
    int count;
    kas_param *param;                    /* in the order of PyTorch's state_dict */
    size_t decayed, learned, statistics; /* floats, padding included */
} kas_params;

kas_status kas_params_build(const kas_net *net, const kas_programs *programs, kas_params *out);
void kas_params_free(kas_params *params);
int kas_params_find(const kas_params *params, int layer, int slot); /* -1 = none */
int kas_params_find_name(const kas_params *params, const char *name);

/* Draws the initial values of one tensor in logical order, as a pure function of seed, layer and
 * slot. Convolutions are normal with variance 2/fan_out (He et al.; PyTorch's kaiming_normal_,
 * fan_out). Weights and biases of linear layers are uniform within 1/sqrt(in) (PyTorch's default).
 * The maps of kernels are normal with variance 1/fan_in and their factors are 1. Batch norms begin
 * with 1 and 0. */
void kas_param_init(const kas_param *param, uint64_t seed, float *values);

/* Convert between logical order and the order in memory; `memory` is the tensor's own
 * [size] floats. */
void kas_param_to_memory(const kas_param *param, const float *logical, float *memory);
void kas_param_from_memory(const kas_param *param, const float *memory, float *logical);

#endif

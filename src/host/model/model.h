/* A network on a device, for one batch size: its memory, its tensors, and plans of its steps.
 *
 * One allocation, planned before it is made:
 *
 *     | parameters | first, second | average | running | its average | scale |  kept: a checkpoint
 *     | learned      moments         EMA       BN statistics           of the loss, float16 |
 *     | copy, of the average too | gradients | decay | clip | state | metrics | of the step
 *     | learned, in 16 bits        learned     by 64   length of the gradient |
 *     | weights and biases with batch norms folded into them | without training
 *     | transient ........................................................ |
 *       activations and their gradients
 *
 * The copies are there where activations have 16 bits: what convolutions and linear layers read.
 * The optimiser writes the first with the parameters; kas_model_set, _load and _upload do so too,
 * and what is folded they make anew (fold.h).
 *
 * Moments, gradients, decay and clip are there in training only, `second` with AdamW, averages with
 * ema, clip with clip.  All of [learned] are laid out as the parameters are (params.h).  The
 * transient part is as large as the largest of the steps (training, evaluation, inference) and is
 * laid out anew by each (tape.h): what one step leaves there, another overwrites.
 *
 * Where a kernel replaces convolutions: an average pool of the stride, then the kernel's program.
 * Other folders include this header. */
#ifndef KAS_MODEL_MODEL_H
#define KAS_MODEL_MODEL_H

#include "host/model/memory.h"
#include "host/model/params.h"
#include "host/model/tape.h"
#include "host/ops/ops.h"

typedef struct kas_model_options {
    const kas_net *net; /* must outlive the model, as the programs must */
    /* Built for the same batch, training and precision; NULL = the network as it is. */
    kas_programs *programs;
    int batch;
    bool training;  /* false: evaluation and inference only */
    bool recompute; /* less memory for more work: tape.h; the results have the same bits */
    const kas_recipe *recipe; /* what the optimiser must remember; NULL: that of plain SGD */
    kas_precision precision;  /* of training and inference; the recipe's is not read here */
    const char *cache_dir;    /* of the JIT; NULL = default */
} kas_model_options;

/* Lowers `replacement` for models of these options (their programs are not read) on `device`, an
 * arch or a device as in kas_linear_policy_of. Models and plans of memory can share the programs.
 */
kas_status kas_model_build_programs(const kas_model_options *options,
                                    const kas_replacement *replacement, const char *device,
                                    kas_programs *out);

typedef struct kas_model kas_model;

/* Loads the programs unless they are loaded. Parameters are not set: see kas_model_init,
 * kas_model_set, kas_model_load. */
kas_status kas_model_create(kas_device *device, const kas_model_options *options, kas_model **out);
void kas_model_free(kas_model *model); /* NULL is allowed */
/* Needs no device. */
kas_status kas_model_plan_memory(const kas_model_options *options, kas_memory_plan *out);
size_t kas_model_memory(const kas_model *model);
double kas_model_compile_seconds(const kas_model *model); /* 0 when the cache had everything */

/* ---- tensors: host copies in PyTorch's logical order, see params.h --------------------------- */

const kas_params *kas_model_params(const kas_model *model);
kas_status kas_model_init(kas_model *model, uint64_t seed); /* also zeroes moments and averages */
kas_status kas_model_get(kas_model *model, int param, float *values);
/* What is evaluated and saved: the average where the recipe asks for one, else the same. */
kas_status kas_model_get_result(kas_model *model, int param, float *values);
kas_status kas_model_set(kas_model *model, int param, const float *values);
kas_status kas_model_get_gradient(kas_model *model, int param, float *values);

/* The loss scale of training in float16 (ops.h). Setting it is KAS_BAD_INPUT where there is none;
 * getting it then gives 1. Gradients are given without it, if it is still that of their step. */
kas_status kas_model_get_scale(kas_model *model, kas_loss_scale *scale);
kas_status kas_model_set_scale(kas_model *model, kas_loss_scale scale);

/* All of them as safetensors, averaged ones where the recipe asks for an average. `metadata` as in
 * kas_safetensors_write. KAS_FAILURE, and no file, when one is not finite. */
kas_status kas_model_save(kas_model *model, const char *path, const char *const *metadata);
/* KAS_BAD_INPUT naming the tensor that is missing, has another shape, belongs to no layer, or is
 * not finite. */
kas_status kas_model_load(kas_model *model, const char *path, bool partial);

/* Everything that a run needs to go on, as it lies in memory: kas_model_kept bytes. */
size_t kas_model_kept(const kas_model *model);
kas_status kas_model_download(kas_model *model, void *kept);
kas_status kas_model_upload(kas_model *model, const void *kept);
/* The first parameter or running statistic that is not finite in `kept`, itself or its average;
 * NULL when there is none.  Moments may be: AdamW's square of a large gradient is infinite in a
 * network that goes on well. */
const kas_param *kas_model_kept_not_finite(const kas_model *model, const void *kept);

/* ---- steps ----------------------------------------------------------------------------------- */

typedef struct kas_step_options {
    kas_tape_mode mode;        /* TRAIN, EVALUATE or INFER */
    const kas_augment *images; /* where images come from (`state` is filled in); NULL: they are
                                  given by kas_model_set_batch. Not for INFER. */
    const kas_recipe *recipe;  /* loss and optimiser of TRAIN; its weight decay holds for the whole
                                  model from the last plan with `rows` on. NULL: no smoothing */
    const kas_step_row *rows;  /* device, indexed by the step; NULL: gradients only (TRAIN) */
    uint64_t dropout_seed;     /* TRAIN; which values are dropped depends on the step too */
    int *mark;     /* [kas_model_operations + 1]: filled with the steps of the plan before each
                      operation     of the tape, and behind the last; NULL: not asked for */
    bool averaged; /* EVALUATE, INFER: with the averaged parameters, if the model has them; then
                      kas_model_record_average's plan must have run since they changed */
} kas_step_options;

/* Operations of the tape of a step (tape.h). */
int kas_model_operations(const kas_model *model, kas_tape_mode mode);
/* Records a step; run with kas_plan_run, freed with kas_plan_free before the model. */
kas_status kas_model_record(kas_model *model, const kas_step_options *options, kas_plan **out);
/* The averaged parameters as convolutions of 16-bit numbers read them: training writes only its own
 * copy. To run once in front of evaluations. *out NULL: there is nothing to do. */
kas_status kas_model_record_average(kas_model *model, kas_plan **out);

kas_status kas_model_set_state(kas_model *model, kas_step_state state);
kas_status kas_model_set_metrics(kas_model *model, const kas_metrics *metrics);
kas_status kas_model_get_metrics(kas_model *model, kas_metrics *metrics); /* waits */
/* Enqueued only (kas_mem_download_later); into memory of kas_host_alloc. */
kas_status kas_model_get_metrics_later(kas_model *model, kas_metrics *metrics);

/* Batch of a recorded step without `images`: [batch][c][h][w], already normalised; labels [batch],
 * NULL for INFER. Must be given again before each run of TRAIN and EVALUATE. */
kas_status kas_model_set_batch(kas_model *model, kas_tape_mode mode, const float *images,
                               const uint16_t *labels);
/* Normal numbers as the batch of INFER, the same every time: for measurements, since zeros and
 * denormals take other times than images do. */
kas_status kas_model_draw_images(kas_model *model);
/* Of the last run of a step of `mode`: [batch][classes]. */
kas_status kas_model_get_logits(kas_model *model, kas_tape_mode mode, float *logits);

#endif

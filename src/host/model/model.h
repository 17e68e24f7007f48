/* A network on a device, for one batch size: its memory, its tensors, and plans of its steps.
 *
 * One allocation, planned before it is made:
 *
 *     | parameters | first, second | average | running | its average | scale |  kept: a checkpoint
 *     | learned      moments         EMA       BN statistics           of the loss, float16 |
 *     | copy, of the average too | gradients | decay | clip | state | metrics | imitated | a step
 *     | learned, in 16 bits        learned     by 64   length of the gradient | [twins]
 *     | weights and biases with batch norms folded into them | without training
 *     | 1, which kernels without a gain read |
 *     | transient ........................................................ |
 *       activations and their gradients
 *
 * Where activations have 16 bits, convolutions and linear layers read the 16-bit copies. The
 * optimiser writes the copy of the parameters together with the parameters; kas_model_set,
 * kas_model_load and kas_model_upload do so too, and they also compute the folded parameters
 * again (fold.h).
 *
 * Moments, gradients, decay and clip exist in training only: `second` only with AdamW, the averages
 * only when the recipe has `ema`, clip only when it has `clip`.  Every part with the size [learned]
 * has the layout of the parameters (params.h).  The transient part is as large as the largest of
 * the steps (training, evaluation, inference) and each of them lays it out in its own way (tape.h),
 * so one step overwrites what another left there.
 *
 * A kernel that replaces a convolution with a stride runs behind an average pool of that stride,
 * unless it takes the stride itself.
 * Other folders include this header. */
#ifndef KAS_MODEL_MODEL_H
#define KAS_MODEL_MODEL_H

#include "host/model/memory.h"
#include "host/model/params.h"
#include "host/model/tape.h"
#include "host/ops/ops.h"

typedef struct kas_model_options {
    const kas_net *net; /* must outlive the model, and so must the programs */
    /* Built for the same batch, training and precision; NULL = the network as it is. */
    kas_programs *programs;
    int batch;
    bool training; /* false: evaluation and inference only */
    /* Without training: no layer includes the group behind it, and batch norms take the statistics
     * of the batch, as in a training step. For kas_model_run_operation. */
    bool separate;
    /* Of a network with twins (net/twins.h), [layers]: its kernels imitate the convolutions. The
     * model then has the mode IMITATE in place of TRAIN. NULL: there are none. */
    const bool *twin;
    bool recompute; /* take less memory and do more work (tape.h); the results have the same bits */
    const kas_recipe *recipe; /* what the optimiser must remember; NULL: that of plain SGD */
    kas_precision precision;  /* of training and inference; the recipe's is not read here */
    const char *cache_dir;    /* of the JIT; NULL = default */
    /* Training by several ranks (docs/parallel.md), each with `batch` images: steps of TRAIN then
     * exchange gradients, and with sync_batch_norm the statistics of batch norms. */
    kas_group *group; /* NULL: one rank; it must outlive the model's plans */
    int ranks;        /* of the group; for planning memory without one; 0 = 1 */
    bool sync_batch_norm;
    bool shard_optimiser; /* each rank has the moments of its share of the parameters only */
    const char *tuned;    /* of programs: a folder of tuned schedules (jit/tuned.h); NULL: none */
} kas_model_options;

/* Lowers `replacement` for models of these options (their programs are not read) on `device`, an
 * arch or a device as in kas_linear_policy_of. Models and plans of memory can share the programs.
 */
kas_status kas_model_build_programs(const kas_model_options *options,
                                    const kas_replacement *replacement, const char *device,
                                    kas_programs *out);

typedef struct kas_model kas_model;

/* Creates a model, and loads the programs unless they are loaded. Its parameters are not set: call
 * kas_model_init, kas_model_set or kas_model_load. The caller frees it with kas_model_free. */
kas_status kas_model_create(kas_device *device, const kas_model_options *options, kas_model **out);
void kas_model_free(kas_model *model); /* NULL is allowed */
/* Computes the memory that such a model needs. Needs no device. */
kas_status kas_model_plan_memory(const kas_model_options *options, kas_memory_plan *out);
/* Returns the bytes of device memory that the model holds. */
size_t kas_model_memory(const kas_model *model);
/* Says how the ranks of a model with a group exchange: what the bits of its training depend on.
 * The text is the model's, and changes where the first steps show that exchanges cannot be captured. */
const char *kas_model_exchange(kas_model *model);
double kas_model_compile_seconds(const kas_model *model); /* 0: the cache had everything */

/* ---- tensors: host copies in PyTorch's logical order, see params.h --------------------------- */

const kas_params *kas_model_params(const kas_model *model);
kas_status kas_model_init(kas_model *model, uint64_t seed); /* also zeroes moments and averages */
kas_status kas_model_get(kas_model *model, int param, float *values);
/* Gets the values that are evaluated and saved: the moving average where the recipe asks for one,
 * else the parameter itself. */
kas_status kas_model_get_result(kas_model *model, int param, float *values);
kas_status kas_model_set(kas_model *model, int param, const float *values);
kas_status kas_model_get_gradient(kas_model *model, int param, float *values);

/* Get and set the loss scale of training in float16 (ops.h). In a model without one, setting it
 * fails with KAS_BAD_INPUT and getting it gives 1. kas_model_get_gradient divides by the scale, so
 * it is right as long as the scale is still that of the gradient's step. */
kas_status kas_model_get_scale(kas_model *model, kas_loss_scale *scale);
kas_status kas_model_set_scale(kas_model *model, kas_loss_scale scale);

/* Writes all tensors to a safetensors file, the averages where the recipe asks for them.
 * `metadata` is as in kas_safetensors_write. Fails with KAS_FAILURE, and writes no file, when a
 * value is not finite. */
kas_status kas_model_save(kas_model *model, const char *path, const char *const *metadata);
/* Sets all tensors from a safetensors file; `partial` as in pretrained.h. Fails with
 * KAS_BAD_INPUT and names the tensor that is missing, has another shape, belongs to no layer, or
 * is not finite. */
kas_status kas_model_load(kas_model *model, const char *path, bool partial);
/* Does the same, and says how many tensors were taken, and which weights begin at random or were left
 * out. */
kas_status kas_model_load_and_tell(kas_model *model, const char *path, bool partial);

/* Copy everything that a run needs to continue, as it lies in memory, to and from the host:
 * kas_model_kept bytes. With shard_optimiser all ranks must download at the same time, and those
 * that need nothing may pass NULL; what is kept is the same as without. */
size_t kas_model_kept(const kas_model *model);
kas_status kas_model_download(kas_model *model, void *kept);
kas_status kas_model_upload(kas_model *model, const void *kept);
/* Returns the first parameter or running statistic in `kept` that is not finite, or whose average
 * is not; NULL when there is none. Moments are not looked at: AdamW's square of a large gradient
 * may be infinite in a network that trains well. */
const kas_param *kas_model_kept_not_finite(const kas_model *model, const void *kept);

/* ---- steps ----------------------------------------------------------------------------------- */

typedef struct kas_step_options {
    kas_tape_mode mode;        /* TRAIN, IMITATE, EVALUATE or INFER */
    const kas_augment *images; /* where images come from (`state` is filled in); NULL:
                                  kas_model_set_batch gives them. Not for INFER. */
    const kas_recipe *recipe;  /* loss and optimiser of TRAIN. Its weight decay holds for the
                                  whole model from the last plan with `rows` on. NULL: no label
                                  smoothing */
    const kas_step_row *rows;  /* device memory, indexed by the step; NULL: compute gradients
                                  only (TRAIN) */
    bool forward_only;         /* TRAIN: nothing changes but the running statistics */
    float least_momentum;      /* batch norms whose momentum is smaller take this one */
    uint64_t dropout_seed;     /* TRAIN; the step is mixed in, so that each step drops other
                                  values */
    int *mark;     /* [kas_model_operations + 1], output: the number of plan steps before each
                      operation of the tape, and at the end of all. May be NULL. */
    bool averaged; /* EVALUATE, INFER: use the averaged parameters, if the model has them. The
                      plan of kas_model_record_average must then have run since they changed. */
} kas_step_options;

/* Returns the number of operations on the tape of a step (tape.h). */
int kas_model_operations(const kas_model *model, kas_tape_mode mode);
/* Runs one operation of an inference and waits for it: all in their order are an inference. */
kas_status kas_model_run_operation(kas_model *model, int operation);
/* Returns the tensor that an operation of an inference writes, valid until the next operation, and
 * in *layer the layer whose output it is (-1: it is a copy). */
kas_tensor kas_model_output_of(const kas_model *model, int operation, int *layer);
/* Records a step as a plan. Run it with kas_plan_run, and free it with kas_plan_free before
 * the model. */
kas_status kas_model_record(kas_model *model, const kas_step_options *options, kas_plan **out);
/* Records a plan that rounds the averaged parameters to 16 bits for convolutions, because training
 * writes only the copy of the parameters themselves. Run it once before evaluations. *out is NULL
 * when there is nothing to do. */
kas_status kas_model_record_average(kas_model *model, kas_plan **out);

kas_status kas_model_set_state(kas_model *model, kas_step_state state);
kas_status kas_model_set_metrics(kas_model *model, const kas_metrics *metrics);
kas_status kas_model_get_metrics(kas_model *model, kas_metrics *metrics); /* waits */
const kas_metrics *kas_model_metrics(const kas_model *model);             /* in device memory */
/* What the kernels of a network with twins missed in all steps of IMITATE and EVALUATE since
 * kas_model_forget_imitated: [twins], in the order of layers. */
kas_status kas_model_forget_imitated(kas_model *model);
kas_status kas_model_get_imitated(kas_model *model, kas_imitated *imitated); /* waits */
/* Enqueues the copy and does not wait (kas_mem_download_later). `metrics` must be memory
 * of kas_host_alloc. */
kas_status kas_model_get_metrics_later(kas_model *model, kas_metrics *metrics);

/* Sets the batch of a step that was recorded without `images`: [batch][c][h][w], already
 * normalised, and labels [batch], NULL for INFER. Call it before each run of TRAIN and EVALUATE. */
kas_status kas_model_set_batch(kas_model *model, kas_tape_mode mode, const float *images,
                               const uint16_t *labels);
/* Fills the batch of INFER with normally distributed numbers, the same every time. Measurements
 * need them, because arithmetic on zeros and denormals takes a different time than on images. */
kas_status kas_model_draw_images(kas_model *model);
/* Gets the logits of the last run of a step of `mode`: [batch][classes]. */
kas_status kas_model_get_logits(kas_model *model, kas_tape_mode mode, float *logits);
/* Gets which images of the last run of EVALUATE were classified correctly: [batch], 1 or 0; 0 for
 * what fills up an incomplete batch. */
kas_status kas_model_get_hits(kas_model *model, float *hit);

#endif

/* Declarations that the files of the model share. */
#ifndef KAS_MODEL_MODEL_IMPL_H
#define KAS_MODEL_MODEL_IMPL_H

#include "host/model/fold.h"
#include "host/model/model.h"

enum { KAS_TAPE_MODES = 4 };

/* Offsets of the parts in the model's memory, in bytes. */
typedef struct kas_model_layout {
    size_t parameters, first, second, average, running, average_running, scale; /* kept */
    size_t kept;               /* bytes of the parts above: a checkpoint saves them */
    size_t copy, average_copy; /* of the parameters, in the dtype of the activations */
    size_t folded;             /* parameters with batch norms folded in (fold.h) */
    size_t one;                /* the gain of kernels that have none */
    size_t gradients, decay, clip, state, metrics, imitated, transient, total;
} kas_model_layout;

struct kas_model {
    kas_device *device;
    const kas_net *net;
    int batch;
    bool training, separate;
    bool adamw, averaged, clipped; /* what the recipe asks for in training */
    kas_dtype dtype;               /* of activations */
    bool tf32;
    kas_group *group;
    bool sync_batch_norm;
    char exchange[320]; /* see kas_model_exchange */
    /* Floats of the moments that each of the `ranks` has, the last one perhaps less (shard.c); 0:
     * all ranks have all */
    size_t share;
    int ranks;
    const kas_programs *programs; /* NULL = the network as it is */
    const bool *twin;             /* NULL = the network has none */
    int twins;
    kas_params params;
    kas_tape tape[KAS_TAPE_MODES];
    kas_folds folds; /* none in a model that trains */
    kas_model_layout layout;
    kas_model_layout whole; /* `layout` as it is without `share`: a checkpoint has its kept part */
    char *memory;           /* device */
    kas_ops *ops;
    kas_conv **conv;  /* [layers]; layers of one shape share one; NULL for other layers */
    bool *conv_owner; /* [layers] */
    void **address;   /* scratch of kas_loaded_append: [most buffers of a program] */
    double compile_seconds;
};

/* Fills the part of a model that needs no device. The caller frees it with kas_model_forget, also
 * after a failure. */
kas_status kas_model_describe(kas_model *m, const kas_model_options *options);
void kas_model_forget(kas_model *m);

/* Returns the convolution that computes a CONV or LINEAR layer, over tensors of `dtype`. */
kas_conv_desc kas_layer_conv_desc(const kas_net *net, int layer, int batch, kas_dtype dtype);

/* Returns whether the model scales its loss: it does in float16 training. */
static inline bool kas_model_scales(const kas_model *model)
{
    return model->training && model->dtype == KAS_F16;
}
kas_status kas_model_reset_scale(kas_model *model);

/* Does what kas_model_set does, except for values that are derived from several parameters; the
 * caller must call kas_model_refold afterwards. */
kas_status kas_model_set_alone(kas_model *model, int param, const float *values);
/* Rounds `values` to the dtype of the activations and copies them to the device. */
kas_status kas_model_upload_rounded(kas_model *model, void *to_device, const float *values,
                                    size_t count);

/* Of a model whose moments are shared out (shard.c). Returns where this rank's share begins, and
 * the floats in it, 0 in a small network. */
size_t kas_shard_begin(const kas_model *model);
size_t kas_shard_size(const kas_model *model);
/* Records that all ranks get the parameters which each of them has updated. */
kas_status kas_shard_record_gather(const kas_model *model, kas_plan *plan);
/* Copy what is kept to and from the host: kas_model_download and kas_model_upload. */
kas_status kas_shard_download(kas_model *model, char *kept);
kas_status kas_shard_upload(kas_model *model, const char *kept);

static inline float *kas_model_float(const kas_model *model, size_t byte_offset, size_t index)
{
    return (float *)(void *)(model->memory + byte_offset) + index;
}

#endif

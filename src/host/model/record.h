/* Turns the operations of a tape into launches of a plan: the parts of kas_model_record. */
#ifndef KAS_MODEL_RECORD_H
#define KAS_MODEL_RECORD_H

#include "host/model/model_impl.h"

enum { KAS_BUCKETS = 8 }; /* a bucket has at least this share of the gradients */

typedef struct kas_recorder {
    kas_model *m;
    const kas_tape *tape;
    const kas_step_options *options;
    kas_plan *plan;
    /* Of each bucket of gradients the operation that completes it; weights that decay and others
     * may both end in a smaller one. */
    int completed_by[KAS_BUCKETS + 2];
} kas_recorder;

/* Returns the device memory of a buffer; NULL for slot -1. */
static inline float *kas_record_slot(const kas_recorder *r, int slot)
{
    if (slot < 0)
        return NULL;
    return kas_model_float(r->m, r->m->layout.transient + r->tape->buffer[slot].offset, 0);
}

/* Returns the tensor at `place`, with the shape of the output of `layer`. Its data is NULL when
 * there is no place. */
static inline kas_tensor kas_record_tensor(const kas_recorder *r, kas_place place, int layer)
{
    const kas_layer *l = &r->m->net->layer[layer];
    char *data = (char *)kas_record_slot(r, place.slot);
    if (data)
        data += (size_t)place.offset * kas_dtype_size(place.dtype);
    return (kas_tensor){data, r->m->batch, l->h, l->w, l->c, place.pitch, place.dtype};
}

static inline kas_step_state *kas_record_state(const kas_recorder *r)
{
    return (kas_step_state *)(void *)(r->m->memory + r->m->layout.state);
}

static inline kas_metrics *kas_record_metrics(const kas_recorder *r)
{
    return (kas_metrics *)(void *)(r->m->memory + r->m->layout.metrics);
}

/* Returns a parameter of a layer, or its gradient. `which` is its slot (params.h). */
float *kas_record_parameter(const kas_recorder *r, int layer, int which, bool gradient);

/* Returns the parameter as products read it, in `dtype`: float32, or the dtype of
 * the activations. */
void *kas_record_weights(const kas_recorder *r, int layer, int which, kas_dtype dtype);

/* record_layers.c */
kas_status kas_record_forward(kas_recorder *r, const kas_tape_op *op);
kas_status kas_record_again(kas_recorder *r, const kas_tape_op *op);
kas_status kas_record_backward(kas_recorder *r, const kas_tape_op *op);

/* Records what the ranks of a group exchange behind an operation of the tape (record_exchange.c).
 * kas_record_find_buckets comes first. */
kas_status kas_record_find_buckets(kas_recorder *r);
kas_status kas_record_exchange(const kas_recorder *r, int operation);

/* Kernels in place of convolutions (record_replaced.c). */
kas_status kas_record_replaced_forward(kas_recorder *r, const kas_tape_op *op);
/* Records a program whose last call is a library's, with the group behind it folded into that call or,
 * where the device does not take it, as a pass of its own. The model's addresses are set. */
kas_status kas_record_folded_program(const kas_recorder *r, const kas_tape_op *op);
kas_status kas_record_replaced_backward(kas_recorder *r, const kas_tape_op *op);

#endif

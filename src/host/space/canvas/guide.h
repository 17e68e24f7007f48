/* Lower bounds on what a growing kernel still needs and on what it costs. With them the guided
 * sampler meets few dead ends.
 *
 * Because all are lower bounds, nothing is refused that could still be completed
 * within the options:
 *
 *   primitives  all leaves must be merged (Canvas' width), required primitives and weights must
 *               come, the output pixel must see far enough, and the shape must lead back to
 *               [C, H, W] (Syno's shape distance; here it is short, since a fully-connected map
 *               reaches any number of channels and a broadcast gives back H and W)
 *   cost        FLOPs, parameters, tensors and weights at every target (cost_bound.h)
 *
 * Internal to the samplers. */
#ifndef KAS_SPACE_CANVAS_GUIDE_H
#define KAS_SPACE_CANVAS_GUIDE_H

#include "host/space/canvas/cost_bound.h"
#include "host/space/canvas/receptive_field.h"

/* What is known of the kernel when node i is the last one. */
typedef struct kas_guide_note {
    uint64_t missing;         /* required operations that are not there yet, as bits */
    int weighted;             /* number of nodes with weights */
    int seen;                 /* pixels across that the node with the widest view sees */
    kas_receptive_field view; /* receptive field of node i */
} kas_guide_note;

typedef struct kas_guide {
    const kas_sample_options *options;
    kas_growth *growth;
    kas_op_filter filter; /* the filter of the options */
    /* As bits: operations with weights; operations that may look beyond a pixel; operations with
     * several operands */
    uint64_t weighted, spatial, merging;
    uint64_t variadic;                /* operations with any number of operands */
    uint64_t of_type[KAS_TYPE_COUNT]; /* operations of each type */
    uint8_t class_[KAS_OP_COUNT];     /* bit 0: weighted; bit 1: spatial */
    int min_receptive;
    /* a window that equals K_H x K_W at every target and is never offered; 0 = there is none */
    int equal_window;
    uint32_t kernel[2]; /* the largest K_H and K_W of the targets */
    kas_cost_bound bound;
    kas_guide_note note[KAS_MAX_NODES];
} kas_guide;

/* Prepares a guide. Call kas_guide_free also after a failure; the growth stays the caller's. */
kas_status kas_guide_create(const kas_sample_options *options, const kas_target *targets, int count,
                            kas_growth *growth, kas_guide *out);
void kas_guide_free(kas_guide *guide);

/* Begins a kernel; call it after kas_growth_begin. */
void kas_guide_begin(kas_guide *guide);

/* Sets the filter to the candidate operations after which the kernel could still be completed, as
 * far as the operation and the number of leaves tell. */
void kas_guide_next(const kas_guide *guide, kas_op_filter *out);

/* Returns KAS_REJECT_NONE when the kernel can still be completed after a successful kas_growth_try;
 * otherwise the caller undoes the step. KAS_REJECT_OUTPUT: the shapes of the leaves are the reason,
 * whatever operation made them. KAS_REJECT_VARIABLES: the reason is these shapes together with the
 * sizes that must be integers. */
kas_reject kas_guide_admits(kas_guide *guide);

/* Finishes the kernel after its last primitive was admitted: kas_growth_finish, then the cost of
 * the whole kernel. */
kas_reject kas_guide_finish(kas_guide *guide);

#endif

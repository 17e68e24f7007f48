/* What a growing kernel still needs, and what it costs at least: why the guided sampler meets few
 * dead ends.
 *
 * All of it are lower bounds, so nothing is refused that could still be completed within the
 * options:
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

/* What is known when node i is the last one. */
typedef struct kas_guide_note {
    uint64_t missing;         /* required operations that are not there yet */
    int weighted;             /* nodes with weights */
    int seen;                 /* pixels across that any node sees */
    kas_receptive_field view; /* of node i */
} kas_guide_note;

typedef struct kas_guide {
    const kas_sample_options *options;
    kas_growth *growth;
    kas_op_filter filter;                /* what the options allow */
    uint64_t weighted, spatial, merging; /* operations with weights, that may look beyond a pixel,
                                            that have several operands */
    uint64_t variadic;                   /* that have any number of them */
    uint64_t of_type[KAS_TYPE_COUNT];    /* of each type */
    uint8_t class_[KAS_OP_COUNT];        /* bit 0: weighted; bit 1: spatial */
    int min_receptive;
    int equal_window;   /* K_H x K_W by another name, never offered; 0 = there is none */
    uint32_t kernel[2]; /* largest K_H, K_W of the targets */
    kas_cost_bound bound;
    kas_guide_note note[KAS_MAX_NODES];
} kas_guide;

/* kas_guide_free frees what it owns, also after a failure; the growth is the caller's. */
kas_status kas_guide_create(const kas_sample_options *options, const kas_target *targets, int count,
                            kas_growth *growth, kas_guide *out);
void kas_guide_free(kas_guide *guide);

/* After kas_growth_begin. */
void kas_guide_begin(kas_guide *guide);

/* The uses from which the kernel could still be completed, as far as operation and width tell. */
void kas_guide_next(const kas_guide *guide, kas_op_filter *out);

/* After a successful kas_growth_try: can the kernel still be completed?  Otherwise the caller takes
 * the node back.  OUTPUT: the shapes of the leaves are the reason, whatever operation made them;
 * VARIABLES: these and the sizes that must be integers. */
kas_reject kas_guide_admits(kas_guide *guide);

/* The last primitive was admitted: kas_growth_finish, and what the whole kernel costs. */
kas_reject kas_guide_finish(kas_guide *guide);

#endif

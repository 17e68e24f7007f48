/* What a user may ask of a sampler.
 *
 * One table of fields serves `sample` and `search`, the help text and the options that a study
 * keeps (core/json/fields.h).  Whether the options can be met at all is checked before anything is
 * sampled. */
#ifndef KAS_SPACE_CANVAS_SAMPLE_OPTIONS_H
#define KAS_SPACE_CANVAS_SAMPLE_OPTIONS_H

#include "host/core/json/fields.h"
#include "host/space/solve/solve.h"

/* Where kernels come from: grown from primitives (growth.h), or the convolution changed by
 * transformations (nas_pte.h), for which of what is below only seed, per_layer and budget are
 * asked. */
typedef enum kas_space { KAS_SPACE_CANVAS, KAS_SPACE_NAS_PTE, KAS_SPACE_COUNT } kas_space;
extern const char *const kas_space_names[]; /* "canvas", "nas-pte", NULL */

/* The largest limit on FLOPs, parameters or latency relative to what is replaced. */
enum { KAS_MOST_RATIO = 1000000 };

typedef enum kas_sampler_kind {
    KAS_SAMPLER_GUIDED,
    KAS_SAMPLER_REJECTION,
    KAS_SAMPLER_AS_STUDY /* what the study began with; a new one: guided. Never stored */
} kas_sampler_kind;

/* The rejection sampler has the primitives of Table 1 with the paper's windows and shifts, and
 * has only seed, numbers of primitives, max_width, spatial_weights and budget: others are refused.
 */
typedef enum kas_per_layer {
    KAS_PER_LAYER_NO,
    KAS_PER_LAYER_YES,
    /* as the space's paper has it, NAS-PTE's yes, Canvas' no; or as the study began. Never stored
     */
    KAS_PER_LAYER_AUTO
} kas_per_layer;

typedef struct kas_sample_options {
    int space;     /* kas_space */
    int per_layer; /* kas_per_layer; yes is NAS-PTE's only */
    int sampler;   /* kas_sampler_kind */
    uint64_t seed;
    int min_primitives, max_primitives; /* input not counted; default 3..12 */
    int max_width;                      /* leaves at once; default 3 */
    int min_weighted, max_weighted;     /* primitives with weights; default 1..63 */
    int min_receptive; /* pixels across, along H or W, that an output pixel sees; 0 = 2 where a
                          target is larger than 1x1, else 1 */
    uint64_t allowed, forbidden, required; /* bit of each kas_op; allowed 0 = all */
    kas_int_list kernels;   /* windows; 0 = that of the replaced convolution; empty = 0, 3, 5, 7 */
    kas_int_list dilations; /* empty = 1 to 3 */
    kas_int_list shifts;    /* empty = -3 to 3 */
    bool spatial_weights;   /* sizes may hold H and W: such kernels keep to one image size */
    kas_budget budget;
} kas_sample_options;
kas_sample_options kas_sample_defaults(void);

/* Every option but seed and budget, which commands have already. What studies of before the guided
 * sampler lack reads as the rejection sampler's. */
const kas_field *kas_sample_fields(int *count);

/* KAS_USAGE naming the options that cannot all be met, whatever the targets are. */
kas_status kas_sample_options_check(const kas_sample_options *options);

/* Whether every layer gets a sequence of its own. */
bool kas_sample_is_per_layer(const kas_sample_options *options);

/* The operations that may be used. */
uint64_t kas_sample_operations(const kas_sample_options *options);

/* Part of the random numbers' key; raised when a change alters what a sampler gives. */
enum { KAS_REJECTION_VERSION = 3, KAS_GUIDED_VERSION = 8 };

#endif

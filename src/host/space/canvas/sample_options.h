/* The options of a sampler.
 *
 * One table of fields serves `sample`, `search`, the help text and the options that a study
 * keeps (core/json/fields.h). Whether the options can be met at all is checked before
 * anything is sampled. */
#ifndef KAS_SPACE_CANVAS_SAMPLE_OPTIONS_H
#define KAS_SPACE_CANVAS_SAMPLE_OPTIONS_H

#include "host/core/json/fields.h"
#include "host/space/solve/solve.h"

/* The search space: kernels grown from primitives (canvas/growth.h), or the convolution
 * changed by transformations (nas_pte/nas_pte.h). The second uses only the options seed,
 * per_layer and budget. */
typedef enum kas_space { KAS_SPACE_CANVAS, KAS_SPACE_NAS_PTE, KAS_SPACE_COUNT } kas_space;
extern const char *const kas_space_names[]; /* "canvas", "nas-pte", NULL */

/* The largest limit on FLOPs, parameters or latency relative to what is replaced. */
enum { KAS_MOST_RATIO = 1000000 };

/* Whether every layer gets a kernel of its own. */
typedef enum kas_per_layer {
    KAS_PER_LAYER_NO,
    KAS_PER_LAYER_YES,
    /* As the space's paper: yes for NAS-PTE, no for Canvas; or as the study began. Never stored */
    KAS_PER_LAYER_AUTO
} kas_per_layer;

typedef struct kas_sample_options {
    int space;     /* kas_space */
    int per_layer; /* kas_per_layer; only NAS-PTE's space takes yes */
    uint64_t seed;
    int min_primitives, max_primitives; /* input not counted; default 3..12 */
    int max_width;                      /* leaves at once; default 3 */
    int min_weighted, max_weighted;     /* primitives with weights; default 1..63 */
    /* Pixels across, along H or W, that an output pixel must see; 0 = 2 where a target is larger
     * than 1x1, else 1 */
    int min_receptive;
    uint64_t allowed, forbidden, required; /* KAS_OP_BIT of primitives; allowed 0 = all */
    /* Windows; 0 = the window of the replaced convolution; empty = 0, 3, 5, 7 */
    kas_int_list kernels;
    kas_int_list dilations; /* empty = 1 to 3 */
    kas_int_list shifts;    /* empty = -3 to 3 */
    bool spatial_weights;   /* weights may hold H and W: such kernels fit one image size */
    kas_budget budget;
} kas_sample_options;
/* Returns the options of a command without any flags. */
kas_sample_options kas_sample_defaults(void);

/* Returns the fields of all options but seed and budget, which commands have already. */
const kas_field *kas_sample_fields(int *count);

/* Returns KAS_USAGE naming the options that cannot all be met, whatever the targets are. */
kas_status kas_sample_options_check(const kas_sample_options *options);

/* Returns whether every layer gets a sequence of its own. */
bool kas_sample_is_per_layer(const kas_sample_options *options);

/* Returns the operations that may be used, as KAS_OP_BIT. */
uint64_t kas_sample_operations(const kas_sample_options *options);

/* The version of the sampler: part of the key of random numbers, raised when a change alters what it
 * gives. */
enum { KAS_GUIDED_VERSION = 8 };

#endif

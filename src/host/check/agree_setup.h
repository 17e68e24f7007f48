/* One kernel at one target, on a device and in the float64 reference, from the same numbers: what
 * agree.c compares. */
#ifndef KAS_CHECK_AGREE_SETUP_H
#define KAS_CHECK_AGREE_SETUP_H

#include "host/check/agree.h"
#include "host/reference/kernel/reference.h"

/* What a kernel computes, in the reference's order of elements. */
typedef struct kas_agree_results {
    double *y, *dx, **dweight;
} kas_agree_results;

typedef struct kas_agree_setup {
    kas_device *device;
    const kas_program *program;
    const kas_target *target;
    int x_pitch, y_pitch;
    kas_loaded *loaded;
    kas_plan *plan;
    void **memory;
    void *host; /* as large as the largest buffer */
    kas_reference *reference;
    size_t x_size, y_size;
    double *x, *dy, **weight;
    bool with_nan; /* the last inputs hold NaN */
    kas_agree_results exact, rounded;
} kas_agree_setup;

/* How far one tensor lies from the reference's. */
typedef struct kas_gap {
    double worst, squares; /* largest difference; sum of their squares */
    double scale;          /* largest value of the reference */
    size_t count;
    bool broken;      /* something is not finite and should be, or the other way round */
    size_t nan, lost; /* elements that are NaN in the reference; a number of ours among them */
} kas_gap;

/* Relative to the tensor's scale (agree.h): the largest difference, and their root mean square.
 * INFINITY when it is broken. */
double kas_gap_worst(const kas_gap *gap);
double kas_gap_rms(const kas_gap *gap);

/* Gaps stand in the order y, dx, weight 0, weight 1, ... */
enum { KAS_GAP_Y, KAS_GAP_DX, KAS_GAP_WEIGHTS };

/* To be freed also where it fails. */
kas_status kas_agree_setup_open(kas_agree_setup *b, kas_device *device, const kas_kernel *kernel,
                                const kas_program *program, kas_module *module, int pitch_more);
void kas_agree_setup_free(kas_agree_setup *b);

/* New inputs; both sides run on them, with everything that the device writes full of NaN before;
 * with `with_nan` full of zeros, and NaN among the inputs. */
kas_status kas_agree_setup_run(kas_agree_setup *b, const kas_agree_options *options, int turn,
                               bool with_nan);
/* Device against reference at the last inputs. `gap` [KAS_GAP_WEIGHTS + weights]. */
kas_status kas_agree_setup_gaps(kas_agree_setup *b, kas_gap *gap);
/* Likewise the reference with its values rounded at random to the program's dtype against itself.
 */
kas_status kas_agree_setup_rounding(kas_agree_setup *b, uint64_t seed, kas_gap *gap);

#endif

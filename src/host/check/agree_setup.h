/* One kernel at one target, on a device and in the float64 reference, with the same inputs: what
 * agree.c compares. Internal to agree*.c. */
#ifndef KAS_CHECK_AGREE_SETUP_H
#define KAS_CHECK_AGREE_SETUP_H

#include "host/check/agree.h"
#include "host/reference/kernel/reference.h"

/* The results of a kernel, in the reference's order of elements. */
typedef struct kas_agree_results {
    double *y, *dx, **dweight;
} kas_agree_results;

typedef struct kas_agree_setup {
    kas_device *device;
    const kas_program *program;
    const kas_target *target;
    int x_pitch, y_pitch;
    float gain;
    kas_dtype judged_as; /* whose tolerances are used */
    kas_loaded *loaded;
    kas_plan *plan;
    void **memory;
    void *host; /* staging memory, as large as the largest buffer */
    kas_reference *reference;
    size_t x_size, y_size;
    double *x, *dy, **weight;
    /* What the epilogues' kernels read, and what they gave ([epilogues]) */
    double *norm[KAS_NORM_PARTS], *residual, **outcome;
    kas_plan *epilogue_plan[KAS_EPILOGUES_MAX];
    bool with_nan; /* whether the last inputs hold NaN */
    kas_agree_results exact, rounded;
} kas_agree_setup;

/* The distance of one tensor from the reference's. */
typedef struct kas_gap {
    double worst, squares; /* largest difference; sum of their squares */
    double scale;          /* largest value of the reference */
    size_t count;
    bool broken; /* something is not finite that should be, or the other way round */
    /* Elements that are NaN in the reference; how many of them are numbers on the device */
    size_t nan, lost;
    uint64_t digest; /* of the device's values, bit for bit and in their order */
} kas_gap;

/* Return the largest difference and the root mean square of the differences, relative to the
 * tensor's scale (agree.h); INFINITY when the gap is broken. */
double kas_gap_worst(const kas_gap *gap);
double kas_gap_rms(const kas_gap *gap);

/* The order of gaps: y, dx, weight 0, weight 1, ..., y with epilogue 0, 1, ... */
enum { KAS_GAP_Y, KAS_GAP_DX, KAS_GAP_WEIGHTS };

/* Opens a set-up. Call kas_agree_setup_free also after a failure. */
kas_status kas_agree_setup_open(kas_agree_setup *b, kas_device *device, const kas_kernel *kernel,
                                const kas_program *program, kas_module *module,
                                const kas_agree_options *options, float gain);
void kas_agree_setup_free(kas_agree_setup *b);

/* Draws new inputs and runs both sides on them. Everything that the device writes is full of NaN
 * before or, with `with_nan`, full of zeros, and then there is NaN among the inputs. */
kas_status kas_agree_setup_run(kas_agree_setup *b, const kas_agree_options *options, int turn,
                               bool with_nan);
/* Compares the device with the reference at the last inputs. `gap` has one for each
 * tensor, zeroed; of a program without gradients theirs stay so, which is no gap. */
kas_status kas_agree_setup_gaps(kas_agree_setup *b, kas_gap *gap);
/* Compares the reference, its values rounded at random to the program's dtype, with itself. */
kas_status kas_agree_setup_rounding(kas_agree_setup *b, uint64_t seed, kas_gap *gap);

#endif

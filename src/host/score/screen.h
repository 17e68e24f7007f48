/* The first screen of a candidate: is its output usable at initialisation?
 *
 * Fully-connected maps have unit gain; the effect of other primitives on the variance is measured
 * here (docs/design.md, decision 4).  At every distinct target the kernel runs once on the device
 * standard normal input with freshly drawn weights.  An output that is not finite, or whose
 * standard deviation lies outside [0.01, 100], has lost or blown up its signal: the batch norm that
 * follows would divide by noise, and training it would waste minutes.  The screen costs well under
 * a second apart from compiling, and in float32 nothing is compiled for it alone: the latency is
 * measured next with the same programs.  Other folders include this header. */
#ifndef KAS_SCORE_SCREEN_H
#define KAS_SCORE_SCREEN_H

#include <stdbool.h>
#include <stdint.h>

#include "jit/programs.h"

#define KAS_SCREEN_STD_LOW 0.01
#define KAS_SCREEN_STD_HIGH 100.0

typedef struct kas_screen {
    bool finite;             /* at every target */
    double std_min, std_max; /* of the output over batch, positions and channels; over targets */
    char worst[64];          /* the target whose figure is farthest from 1 */
    double compile_seconds;  /* of the JIT; 0: everything was cached */
} kas_screen;

/* Runs programs of inference in float32, and loads them if they are not. `seed` draws input and
 * weights; the same seed gives the same figures on the same device. `cache_dir` is the JIT's (NULL
 * = default). Failures of the JIT pass through. */
kas_status kas_screen_kernel(kas_device *device, kas_programs *programs, uint64_t seed,
                             const char *cache_dir, kas_screen *out);

/* Returns whether the output is finite and its standard deviation within the limits at
 * every target. */
bool kas_screen_passes(const kas_screen *screen);

#endif

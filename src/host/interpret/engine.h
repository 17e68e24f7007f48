/* What a pass asks of the code that exists once for float and once for double. Internal to
 * interpret. */
#ifndef KAS_INTERPRET_ENGINE_H
#define KAS_INTERPRET_ENGINE_H

#include "host/interpret/interpret.h"
#include "host/interpret/steps.h"

typedef struct kas_engine {
    size_t size; /* of a number in bytes */
    /* Converts, and multiplies */
    void (*store)(void *to, const float *from, size_t n, double factor);
    void (*positive)(void *x, size_t n);
    void (*fill)(void *x, size_t n, double value);
    double (*get)(const void *x, size_t i);
    /* act[layer] from those of its inputs; their gradients from grad[layer], no further than layer
     * `to` */
    void (*forward)(kas_interpreter *pass, int layer);
    void (*backward)(kas_interpreter *pass, int layer, int to);
    double (*loss)(kas_interpreter *pass, const uint16_t *labels);
} kas_engine;

extern const kas_engine kas_engine_f32, kas_engine_f64;

#endif

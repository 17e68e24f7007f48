#include <math.h>
#include <stdlib.h>

#include "host/core/random.h"
#include "host/reference/kernel/reference.h"
#include "host/space/weights.h"

/* The tensors of one run. */
typedef struct run {
    kas_reference *reference;
    size_t x_size, y_size;
    double *x, *y, *weight[KAS_MAX_NODES];
    int weights;
} run;

static void fill(double *to, size_t count, double scale, uint64_t seed, uint64_t stream)
{
    kas_rng rng = kas_rng_make(seed, KAS_PURPOSE_TEST, stream);
    for (size_t i = 0; i < count; i++)
        to[i] = scale * kas_rng_normal(&rng);
}

static kas_status make_weights(run *r, const kas_kernel *kernel, const kas_binding *binding,
                               uint64_t seed)
{
    for (int i = 0; i < kernel->nodes; i++) {
        kas_weight_sizes sizes;
        if (!kas_op_has_weight((kas_op)kernel->node[i].op))
            continue;
        KAS_TRY(kas_weight_sizes_at(kernel, i, binding, &sizes));
        const size_t count = kas_reference_weight_size(r->reference, r->weights);
        double *weight = calloc(count + 1, sizeof *weight);
        if (!weight)
            return kas_fail(KAS_NO_MEMORY, "no memory for a weight of %zu elements", count);
        r->weight[r->weights++] = weight;
        if (sizes.init == KAS_WEIGHT_NORMAL)
            fill(weight, count, 1 / sqrt((double)sizes.fan_in), seed, (uint64_t)r->weights);
        for (size_t k = 0; sizes.init == KAS_WEIGHT_ONES && k < count; k++)
            weight[k] = 1;
    }
    return KAS_OK;
}

/* Computes in two passes, so that a constant output gives 0. */
static double deviation(const double *y, size_t count)
{
    double mean = 0, square = 0;
    for (size_t i = 0; i < count; i++)
        mean += y[i] / (double)count;
    for (size_t i = 0; i < count; i++)
        square += (y[i] - mean) * (y[i] - mean) / (double)count;
    return sqrt(square);
}

kas_status kas_reference_output_deviation(const kas_kernel *kernel, const kas_target *target,
                                          const kas_binding *binding, int batch, uint64_t seed,
                                          double *out)
{
    const size_t area = (size_t)batch * target->h * target->w;
    uint32_t h, w;
    kas_target_read(target, kernel->stride_inside, &h, &w);
    run r = {.x_size = (size_t)batch * h * w * target->c_in, .y_size = area * target->c_out};
    kas_status status = KAS_OK;
    r.x = calloc(r.x_size + 1, sizeof *r.x);
    r.y = calloc(r.y_size + 1, sizeof *r.y);
    if (!r.x || !r.y) {
        status = kas_fail(KAS_NO_MEMORY, "no memory for the tensors of %s", target->name);
        goto out;
    }
    KAS_TRY_GOTO(kas_reference_create(kernel, target, binding, batch, &r.reference), out);
    KAS_TRY_GOTO(make_weights(&r, kernel, binding, seed), out);
    fill(r.x, r.x_size, 1, seed, 0);
    KAS_TRY_GOTO(kas_reference_forward(r.reference, r.x, (const double *const *)r.weight, r.y),
                 out);
    *out = deviation(r.y, r.y_size);
out:
    for (int i = 0; i < r.weights; i++)
        free(r.weight[i]);
    kas_reference_free(r.reference);
    free(r.x);
    free(r.y);
    return status;
}

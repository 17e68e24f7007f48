/* A kernel at a small target with its reference, for tests of the reference. */
#ifndef KAS_TESTS_UNIT_REFERENCE_REFERENCE_FIXTURE_H
#define KAS_TESTS_UNIT_REFERENCE_REFERENCE_FIXTURE_H

#include "support/test.h"

#include <string.h>

#include "finite_difference.h"
#include "host/reference/kernel/reference.h"
#include "support/build.h"
#include "host/space/split.h"

enum { FIXTURE_MOST = 4096, FIXTURE_WEIGHTS = 4 };

typedef struct fixture {
    kas_kernel kernel;
    kas_target target;
    kas_binding binding;
    kas_reference *ref;
    int batch;
    size_t x_size, y_size;
    double x[FIXTURE_MOST], y[FIXTURE_MOST], dy[FIXTURE_MOST], dx[FIXTURE_MOST];
    double weight[FIXTURE_WEIGHTS][FIXTURE_MOST], dweight[FIXTURE_WEIGHTS][FIXTURE_MOST];
} fixture;

/* Sets the target [c, h, w] with K_H = kh, K_W = kw, G0 = 2, x0 = 6; one instance, one image. */
static inline void fixture_target(fixture *f, uint32_t c, uint32_t h, uint32_t w, uint32_t kh,
                                  uint32_t kw)
{
    memset(f, 0, sizeof *f);
    f->batch = 1;
    f->target = kas_target_plain(c, h, w, kh);
    f->target.kernel_w = kw;
    f->binding.value[KAS_SYM_C] = c;
    f->binding.value[KAS_SYM_H] = h;
    f->binding.value[KAS_SYM_W] = w;
    f->binding.value[KAS_SYM_KH] = kh;
    f->binding.value[KAS_SYM_KW] = kw;
    f->binding.value[KAS_SYM_G0] = 2;
    f->binding.value[KAS_SYM_X0] = 6;
}

static inline void fixture_parts(fixture *f, uint32_t parts_in, uint32_t parts_out)
{
    f->target.parts_in = parts_in;
    f->target.parts_out = parts_out;
    f->target.c_in = parts_in * f->target.c;
    f->target.c_out = parts_out * f->target.c;
}

/* Makes the reference once the kernel is built; `last` is the number of its last node. */
static inline void fixture_create(fixture *f, int last)
{
    if (last < 0)
        fail_msg("building the kernel failed: %s", kas_error());
    f->kernel.group_value[0] = 2;
    kas_splits_bind(&f->kernel, &f->binding);
    OK(kas_reference_create(&f->kernel, &f->target, &f->binding, f->batch, &f->ref));
    size_t pixels = (size_t)f->batch * f->target.h * f->target.w;
    f->x_size = pixels * f->target.c_in;
    f->y_size = pixels * f->target.c_out;
    assert_true(f->x_size <= FIXTURE_MOST && f->y_size <= FIXTURE_MOST);
    assert_true(kas_reference_weights(f->ref) <= FIXTURE_WEIGHTS);
    fd_nan(f->y, FIXTURE_MOST);
    fd_nan(f->dx, FIXTURE_MOST);
    for (int i = 0; i < kas_reference_weights(f->ref); i++) {
        assert_true(kas_reference_weight_size(f->ref, i) <= FIXTURE_MOST);
        fd_nan(f->dweight[i], FIXTURE_MOST);
    }
}

static inline void fixture_forward(fixture *f)
{
    const double *weight[FIXTURE_WEIGHTS] = {f->weight[0], f->weight[1], f->weight[2],
                                             f->weight[3]};
    assert_int_equal(kas_reference_forward(f->ref, f->x, weight, f->y), KAS_OK);
}

static inline void fixture_backward(fixture *f)
{
    double *dweight[FIXTURE_WEIGHTS] = {f->dweight[0], f->dweight[1], f->dweight[2], f->dweight[3]};
    assert_int_equal(kas_reference_backward(f->ref, f->dy, f->dx, dweight), KAS_OK);
}

static inline void fixture_free(fixture *f)
{
    kas_reference_free(f->ref);
    f->ref = NULL;
}

static inline void assert_values(const char *what, const double *found, const double *expected,
                                 size_t size)
{
    double worst = 0;
    for (size_t i = 0; i < size; i++) {
        double error = fabs(found[i] - expected[i]);
        if (!(error <= 1e-12))
            fail_msg("%s: element %zu: found %.17g, expected %.17g", what, i, found[i],
                     expected[i]);
        worst = fmax(worst, error);
    }
    printf("%s: largest error %.3g, tolerance 1e-12\n", what, worst);
}

static inline void assert_node(const fixture *f, int node, const double *expected, size_t size)
{
    size_t elements;
    const double *value = kas_reference_node_value(f->ref, node, &elements);
    assert_int_equal(elements, size);
    assert_values(kas_op_get((kas_op)f->kernel.node[node].op)->name, value, expected, size);
}

#define VALUES(...) (double[]){__VA_ARGS__}, sizeof((double[]){__VA_ARGS__}) / sizeof(double)

#endif

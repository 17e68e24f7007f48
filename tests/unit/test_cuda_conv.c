/* Convolutions of the CUDA device on the stand-in: which way each pass takes, and that all ways
 * compute the same. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cuda_fixture.h"

typedef struct routes {
    kas_conv_desc desc;
    int launches, matmuls, convolutions; /* expected of the three passes */
    int offset;                          /* floats by which every pointer is shifted */
    const char *refused;                 /* library that refuses everything; NULL: none */
} routes;

/* Runs the three passes; `out` gets y, dx and dw with their padding, one after the other. */
static size_t run_passes(kas_device *device, const kas_conv_desc *d, int offset, float **out)
{
    const size_t xs = (size_t)d->n * d->h * d->w * d->x_pitch + 4,
                 ys = (size_t)d->n * kas_conv_out_h(d) * kas_conv_out_w(d) * d->y_pitch + 4,
                 ws = (size_t)d->c_out * d->kernel_h * d->kernel_w * (d->c_in / d->groups) + 4;
    float *x = random_memory(device, xs, 1), *w = random_memory(device, ws, 2),
          *dy = random_memory(device, ys, 3), *y = random_memory(device, ys, 4),
          *dx = random_memory(device, xs, 5), *dw = random_memory(device, ws, 6);
    kas_conv *conv;
    kas_plan *plan;
    OK(kas_conv_create(device, d, &conv));
    OK(kas_plan_create(device, &plan));
    OK(kas_plan_conv(plan, conv, KAS_CONV_FORWARD, x + offset, w + offset, y + offset));
    OK(kas_plan_conv(plan, conv, KAS_CONV_BACKWARD_DATA, dx + offset, w + offset, dy + offset));
    OK(kas_plan_conv(plan, conv, KAS_CONV_BACKWARD_WEIGHTS, x + offset, dw + offset, dy + offset));
    OK(kas_plan_run(plan));
    OK(kas_device_sync(device));
    *out = malloc((xs + ys + ws) * sizeof **out);
    assert_non_null(*out);
    OK(kas_mem_download(device, *out, y, ys * 4));
    OK(kas_mem_download(device, *out + ys, dx, xs * 4));
    OK(kas_mem_download(device, *out + ys + xs, dw, ws * 4));
    kas_plan_free(plan);
    kas_conv_free(conv);
    float *all[] = {x, w, dy, y, dx, dw};
    for (int i = 0; i < 6; i++)
        kas_mem_free(device, all[i]);
    return xs + ys + ws;
}

static double compare_with_cpu(const kas_conv_desc *d, int offset, const float *got, size_t count)
{
    kas_device *cpu;
    float *want;
    double worst = 0;
    OK(kas_device_open("cpu", 1, &cpu));
    assert_int_equal(run_passes(cpu, d, offset, &want), count);
    for (size_t i = 0; i < count; i++) {
        const double error = fabs((double)got[i] - want[i]) / fmax(1, fabs(want[i]));
        if (!(error <= 1e-4))
            fail_msg("element %zu: %g, the CPU has %g", i, got[i], want[i]);
        worst = fmax(worst, error);
    }
    free(want);
    kas_device_close(cpu);
    return worst;
}

static void convolutions_take_the_right_way(void **state)
{
    (void)state;
    /* Of conv.kc's kernels a forward pass takes two (weights are transposed first), the others one;
     * a depthwise backward pass takes two. */
    const routes list[] = {
        {.desc = F32(2, 5, 4, 12, 20, 1, 1, 1, 1, 0, 0, 12, 20, 0), .matmuls = 3},
        {.desc = F32(2, 5, 4, 12, 20, 4, 1, 1, 1, 0, 0, 16, 24, 0), .matmuls = 3}, /* groups */
        {.desc = F32(3, 1, 1, 7, 5, 1, 1, 1, 1, 0, 0, 8, 8, 0), .matmuls = 3},     /* odd sizes */
        {.desc = F32(2, 5, 4, 12, 20, 1, 1, 1, 1, 0, 0, 12, 20, 0), .launches = 4, .offset = 1},
        {.desc = F32(2, 6, 5, 8, 16, 1, 3, 3, 1, 1, 1, 8, 16, 0), .convolutions = 3},
        {.desc = F32(2, 6, 5, 8, 16, 1, 3, 3, 1, 1, 1, 8, 16, 0), .launches = 4, .offset = 1},
        {.desc = F32(2, 6, 5, 8, 16, 2, 3, 3, 2, 1, 1, 8, 16, 0), .convolutions = 3}, /* stride */
        {.desc = F32(2, 6, 5, 8, 16, 1, 1, 1, 2, 0, 0, 8, 16, 0), .convolutions = 3}, /* 1x1 */
        {.desc = F32(2, 6, 5, 3, 16, 1, 3, 3, 1, 1, 1, 4, 16, 0), .convolutions = 3}, /* padded */
        {.desc = F32(2, 6, 5, 6, 6, 6, 3, 3, 1, 1, 1, 8, 8, 0), .convolutions = 3}, /* depthwise */
        {.desc = F32(2, 7, 6, 8, 16, 1, 3, 3, 1, 2, 2, 8, 16, 2), .convolutions = 3}, /* dilated */
        {.desc = F32(2, 6, 5, 3, 16, 1, 3, 3, 1, 1, 1, 4, 16, 0),
         .launches = 4,
         .refused = "cudnn"},
        {.desc = F32(2, 6, 5, 6, 6, 6, 3, 3, 1, 1, 1, 8, 8, 0), .launches = 5, .refused = "cudnn"},
        {.desc = F32(2, 7, 6, 3, 16, 1, 3, 3, 1, 3, 3, 4, 16, 3),
         .launches = 4,
         .refused = "cudnn"},
        {.desc = F32(2, 7, 6, 6, 6, 6, 3, 3, 1, 2, 2, 8, 8, 2), .launches = 5, .refused = "cudnn"},
    };
    double worst = 0;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        kas_device *device = open_cuda("cuda");
        float *got;
        int launches, matmuls, convolutions;
        sim.reset();
        if (list[i].refused)
            sim.refuse(list[i].refused);
        const size_t count = run_passes(device, &list[i].desc, list[i].offset, &got);
        sim.counts(&launches, &matmuls, &convolutions);
        kas_device_close(device);
        worst = fmax(worst, compare_with_cpu(&list[i].desc, list[i].offset, got, count));
        if (launches != list[i].launches || matmuls != list[i].matmuls ||
            convolutions != list[i].convolutions)
            fail_msg("case %zu: %d launches, %d products, %d convolutions; expected %d, %d, %d", i,
                     launches, matmuls, convolutions, list[i].launches, list[i].matmuls,
                     list[i].convolutions);
        free(got);
        assert_int_equal(sim.live(), 0);
    }
    printf("largest error %.3g, tolerance 1e-4\n", worst);
}

/* The stand-in's engine with tensor cores rounds to TF32, which shows in 3 digits. */
static void tf32_only_where_it_is_allowed(void **state)
{
    (void)state;
    kas_conv_desc desc = F32(2, 6, 5, 8, 16, 1, 3, 3, 1, 1, 1, 8, 16, 0);
    float *result[2];
    double largest = 0;
    size_t count = 0;
    for (int i = 0; i < 2; i++) {
        kas_device *device = open_cuda("cuda");
        desc.tf32 = i;
        count = run_passes(device, &desc, 0, &result[i]);
        kas_device_close(device);
    }
    for (size_t i = 0; i < count; i++)
        if (isfinite(result[0][i]) && isfinite(result[1][i]))
            largest = fmax(largest, fabs((double)result[0][i] - result[1][i]));
    printf("largest difference %.3g, from 1e-5 to 1e-1 expected\n", largest);
    assert_true(largest > 1e-5 && largest < 1e-1);
    free(result[0]);
    free(result[1]);
    assert_int_equal(sim.live(), 0);
}

static void refused_convolutions_fall_back(void **state)
{
    (void)state;
    const struct {
        const char *refused;
        int launches, convolutions;
    } list[] = {{"cublasLt", 0, 3}, {"cublasLt cudnn", 4, 0}};
    const kas_conv_desc desc = F32(2, 5, 4, 12, 20, 1, 1, 1, 1, 0, 0, 12, 20, 0);
    for (int i = 0; i < 2; i++) {
        kas_device *device = open_cuda("cuda");
        float *got;
        int launches, matmuls, convolutions;
        sim.reset();
        sim.refuse(list[i].refused);
        const size_t count = run_passes(device, &desc, 0, &got);
        sim.counts(&launches, &matmuls, &convolutions);
        assert_int_equal(launches, list[i].launches);
        assert_int_equal(matmuls, 0);
        assert_int_equal(convolutions, list[i].convolutions);
        kas_device_close(device);
        compare_with_cpu(&desc, 0, got, count);
        free(got);
    }
}

#define TEST(f) cmocka_unit_test_setup(f, set_up)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(convolutions_take_the_right_way),
        TEST(tf32_only_where_it_is_allowed),
        TEST(refused_convolutions_fall_back),
    };
    return cmocka_run_group_tests(tests, load_sim, NULL);
}

/* Convolutions of the CUDA device on the stand-in: which way each pass takes, and that all ways
 * compute the same. */
#include "support/test.h"

#include <math.h>

#include "cuda/conv_cuda.h"
#include "cuda_fixture.h"

typedef struct routes {
    kas_conv_desc desc;
    int launches, matmuls, convolutions; /* expected of the three passes */
    int offset;                          /* floats by which every pointer is shifted */
    const char *refused;                 /* library that refuses everything; NULL: none */
    bool finite_padding;
} routes;

/* Runs the passes; `out` gets y, dx and dw with their padding, one after the other. */
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
    float *const call[3][3] = {{x, w, y}, {dx, w, dy}, {x, dw, dy}};
    for (int pass = 0; pass < 3; pass++)
        if (kas_conv_uses(d, (kas_conv_pass)pass))
            OK(kas_plan_conv(plan, conv, (kas_conv_pass)pass, call[pass][0] + offset,
                             call[pass][1] + offset, call[pass][2] + offset));
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
        if (!(error <= (d->tf32 ? 1e-2 : 1e-4)))
            fail_msg("element %zu: %g, the CPU has %g", i, got[i], want[i]);
        worst = fmax(worst, error);
    }
    free(want);
    kas_device_close(cpu);
    return worst;
}

TEST_WITH(convolutions_take_the_right_way, set_up, NULL)
{
    /* Of conv.cu's kernels a forward pass takes two (weights are transposed first), the others one;
     * a depthwise backward pass takes two. */
    routes list[] = {
        /* A gradient of 4.7 million weights on tensor cores: two more launches add up its parts. */
        {.desc = {1, 1, 1, 65600, 65600, 8200, 3, 3, 1, 1, 1, 65600, 65600, 1, KAS_F32, true, false,
                  4},
         .launches = 3,
         .refused = "cudnn"},
        /* More groups and more channels than our own kernels take: the libraries alone. */
        {.desc = F32(2, 2, 1, 65540, 65540, 65540, 1, 1, 1, 0, 0, 65540, 65540, 0), .matmuls = 3},
        {.desc = F32(1, 2, 2, 65540, 65540, 65540, 1, 1, 2, 0, 0, 65540, 65540, 0),
         .convolutions = 3},
        {.desc = F32(1, 2, 1, 65540, 4, 1, 1, 1, 1, 0, 0, 65540, 4, 0), .matmuls = 3},
        {.desc = F32(2, 5, 4, 12, 20, 1, 1, 1, 1, 0, 0, 12, 20, 0), .matmuls = 3},
        {.desc = F32(2, 5, 4, 12, 20, 4, 1, 1, 1, 0, 0, 16, 24, 0), .matmuls = 3}, /* groups */
        {.desc = F32(3, 1, 1, 7, 5, 1, 1, 1, 1, 0, 0, 8, 8, 0), .matmuls = 3},     /* odd sizes */
        {.desc = F32(2, 5, 4, 12, 20, 1, 1, 1, 1, 0, 0, 12, 20, 0), .launches = 4, .offset = 1},
        {.desc = F32(2, 6, 5, 8, 16, 1, 3, 3, 1, 1, 1, 8, 16, 0), .convolutions = 3},
        {.desc = F32(2, 6, 5, 8, 16, 1, 3, 3, 1, 1, 1, 8, 16, 0), .launches = 4, .offset = 1},
        {.desc = F32(2, 6, 5, 8, 16, 2, 3, 3, 2, 1, 1, 8, 16, 0), .convolutions = 3}, /* stride */
        {.desc = F32(2, 6, 5, 8, 16, 1, 1, 1, 2, 0, 0, 8, 16, 0), .convolutions = 3}, /* 1x1 */
        {.desc = F32(2, 6, 5, 3, 16, 1, 3, 3, 1, 1, 1, 4, 16, 0), .convolutions = 3}, /* padded */
        {.desc = F32(2, 7, 6, 8, 16, 1, 3, 3, 1, 2, 2, 8, 16, 2), .convolutions = 3}, /* dilated */
        {.desc = F32(2, 6, 5, 3, 16, 1, 3, 3, 1, 1, 1, 4, 16, 0),
         .launches = 4,
         .refused = "cudnn"},
        {.desc = F32(2, 6, 5, 6, 6, 6, 3, 3, 1, 1, 1, 8, 8, 0), .launches = 5, .refused = "cudnn"},
        /* Four blocks share the 134 rows of the weights' gradient, and one more kernel adds up. */
        {.desc = F32(2, 67, 5, 6, 6, 6, 3, 3, 1, 1, 1, 8, 8, 0), .launches = 6, .refused = "cudnn"},
        /* Channels that pad the images: weights are padded for cuDNN, their gradient is cut. */
        {.desc = F32(2, 6, 5, 3, 16, 1, 3, 3, 1, 1, 1, 4, 16, 0),
         .launches = 2,
         .convolutions = 3,
         .finite_padding = true},
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
        list[i].desc.finite_padding = list[i].finite_padding;
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
    printf("largest error %.3g, tolerance 1e-4, of TF32 1e-2\n", worst);
}

/* The stand-in's engine with tensor cores rounds to TF32, which shows in 3 digits. */
TEST_WITH(tf32_only_where_it_is_allowed, set_up, NULL)
{
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

TEST_WITH(refused_convolutions_fall_back, set_up, NULL)
{
    const struct {
        const char *refused;
        int launches, convolutions;
        bool cannot_start; /* cuDNN */
    } list[] = {
        {"cublasLt", 0, 3, false}, {"cublasLt cudnn", 4, 0, false}, {"cublasLt", 4, 0, true}};
    const kas_conv_desc desc = F32(2, 5, 4, 12, 20, 1, 1, 1, 1, 0, 0, 12, 20, 0);
    for (int i = 0; i < 3; i++) {
        kas_device *device = open_cuda("cuda");
        float *got;
        int launches, matmuls, convolutions;
        sim.reset();
        sim.refuse(list[i].refused);
        if (list[i].cannot_start)
            sim.make_fail("cudnnCreate", 1, 1001, false);
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

/* An internal error of a library that leaves the GPU usable is a refusal. */
TEST_WITH(failures_of_a_library_fall_back, set_up, NULL)
{
    const kas_conv_desc one = F32(2, 5, 4, 12, 20, 1, 1, 1, 1, 0, 0, 12, 20, 0),
                        three = F32(2, 5, 4, 12, 20, 1, 3, 3, 1, 1, 1, 12, 20, 0);
    const struct {
        kas_conv_desc desc;
        const char *function;
        int code, launches, matmuls, convolutions; /* expected of the passes */
    } list[] = {{one, "cublasLtMatrixLayoutCreate", 14, 0, 2, 1},
                {one, "cublasLtMatmulAlgoGetHeuristic", 14, 0, 2, 1},
                {three, "cudnnBackendCreateDescriptor", 4000, 2, 0, 2}};
    for (int i = 0; i < 3; i++) {
        kas_device *device = open_cuda("cuda");
        float *got;
        int launches, matmuls, convolutions;
        char name[64];
        sim.reset();
        sim.make_fail(list[i].function, 1, list[i].code, false);
        const size_t count = run_passes(device, &list[i].desc, 0, &got);
        assert_true(sim.failed(name));
        sim.counts(&launches, &matmuls, &convolutions);
        if (launches != list[i].launches || matmuls != list[i].matmuls ||
            convolutions != list[i].convolutions)
            fail_msg("%s: %d launches, %d products, %d convolutions", list[i].function, launches,
                     matmuls, convolutions);
        kas_device_close(device);
        compare_with_cpu(&list[i].desc, 0, got, count);
        free(got);
        assert_int_equal(sim.live(), 0);
    }
}

/* ---- a bias beside a product ----------------------------------------------------------------- */

static void expect_near(const char *what, double got, double want)
{
    if (!(fabs(got - want) <= 1e-5 * fmax(1, fabs(want))))
        fail_msg("%s: %g, expected %g", what, got, want);
}

/* y with the bias, and the bias' gradient, against what the same device has without. */
TEST_WITH(a_bias_comes_with_a_product, set_up, NULL)
{
    enum { PIXELS = 2 * 5 * 4, IN = 12, OUT = 20 };
    const kas_conv_desc desc = F32(2, 5, 4, IN, OUT, 1, 1, 1, 1, 0, 0, IN, OUT, 0);
    kas_device *device = open_cuda("cuda");
    kas_conv *conv;
    kas_plan *plan;
    float *x = random_memory(device, PIXELS * IN, 1), *w = random_memory(device, IN * OUT, 2),
          *y = random_memory(device, PIXELS * OUT, 3),
          *biased = random_memory(device, PIXELS * OUT, 4), *bias = random_memory(device, 24, 5),
          *dbias = random_memory(device, 24, 6), *dw = random_memory(device, IN * OUT, 7);
    static float host_y[PIXELS * OUT], host_biased[PIXELS * OUT], host_bias[24], host_dbias[24];
    OK(kas_conv_create(device, &desc, &conv));
    assert_false(kas_conv_takes_bias(conv, KAS_CONV_FORWARD, x, w, biased, bias));
    OK(kas_conv_add_bias(conv));
    OK(kas_conv_add_bias(conv)); /* layers may share a convolution */
    assert_true(kas_conv_takes_bias(conv, KAS_CONV_FORWARD, x, w, biased, bias));
    assert_true(kas_conv_takes_bias(conv, KAS_CONV_BACKWARD_WEIGHTS, x, dw, y, dbias));
    assert_false(kas_conv_takes_bias(conv, KAS_CONV_BACKWARD_DATA, x, w, y, bias));
    assert_false(kas_conv_takes_bias(conv, KAS_CONV_FORWARD, x, w, biased, bias + 1));
    OK(kas_plan_create(device, &plan));
    OK(kas_plan_conv(plan, conv, KAS_CONV_FORWARD, x, w, y));
    OK(kas_plan_conv_bias(plan, conv, KAS_CONV_FORWARD, x, w, biased, bias));
    OK(kas_plan_conv_bias(plan, conv, KAS_CONV_BACKWARD_WEIGHTS, x, dw, y, dbias));
    for (int run = 0; run < 3; run++)
        OK(kas_plan_run(plan));
    OK(kas_mem_download(device, host_y, y, sizeof host_y));
    OK(kas_mem_download(device, host_biased, biased, sizeof host_biased));
    OK(kas_mem_download(device, host_bias, bias, sizeof host_bias));
    OK(kas_mem_download(device, host_dbias, dbias, sizeof host_dbias));
    for (int c = 0; c < OUT; c++) {
        double sum = 0;
        for (int p = 0; p < PIXELS; p++) {
            sum += host_y[p * OUT + c];
            expect_near("y", host_biased[p * OUT + c], (double)host_y[p * OUT + c] + host_bias[c]);
        }
        expect_near("the bias' gradient", host_dbias[c], sum);
    }
    kas_plan_free(plan);
    kas_conv_free(conv);
    float *all[] = {x, w, y, biased, bias, dbias, dw};
    for (int i = 0; i < 7; i++)
        kas_mem_free(device, all[i]);
    kas_device_close(device);
    assert_int_equal(sim.live(), 0);
}

/* Of each number, which the operations' tests compare with the reference (ops/test_conv.c). */
TEST_WITH(biases_come_in_every_number, set_up, NULL)
{
    kas_device *device = open_cuda("cuda");
    float *memory = random_memory(device, 64, 1);
    for (int dtype = 0; dtype < KAS_DTYPES; dtype++) {
        kas_conv_desc desc = F32(2, 5, 4, 16, 24, 1, 1, 1, 1, 0, 0, 16, 24, 0);
        kas_conv *conv;
        desc.dtype = (kas_dtype)dtype;
        OK(kas_conv_create(device, &desc, &conv));
        OK(kas_conv_add_bias(conv));
        assert_true(kas_conv_takes_bias(conv, KAS_CONV_FORWARD, memory, memory, memory, memory));
        assert_true(
            kas_conv_takes_bias(conv, KAS_CONV_BACKWARD_WEIGHTS, memory, memory, memory, memory));
        kas_conv_free(conv);
    }
    kas_mem_free(device, memory);
    kas_device_close(device);
}

/* Beside cuDNN's forward pass too, but no gradient beside its backward pass. */
TEST_WITH(a_bias_may_be_refused, set_up, NULL)
{
    const struct {
        kas_conv_desc desc;
        const char *refused;
        bool forward;
    } list[] = {
        {F32(2, 5, 4, 12, 20, 4, 1, 1, 1, 0, 0, 12, 20, 0), "", true}, /* groups */
        {F32(2, 5, 4, 12, 20, 1, 3, 3, 1, 1, 1, 12, 20, 0), "", true},
        {F32(2, 5, 4, 12, 20, 1, 3, 3, 1, 1, 1, 12, 20, 0), "cudnn", false},
        {F32(2, 5, 4, 12, 20, 1, 1, 1, 1, 0, 0, 12, 20, 0), "cublasLt", true},
        {F32(2, 5, 4, 12, 20, 1, 1, 1, 1, 0, 0, 12, 20, 0), "cublasLt cudnn", false},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        kas_device *device = open_cuda("cuda");
        kas_conv *conv;
        float *memory = random_memory(device, 64, 1);
        sim.refuse(list[i].refused);
        OK(kas_conv_create(device, &list[i].desc, &conv));
        OK(kas_conv_add_bias(conv));
        for (int pass = 0; pass < 3; pass++)
            assert_int_equal(
                kas_conv_takes_bias(conv, (kas_conv_pass)pass, memory, memory, memory, memory),
                pass == KAS_CONV_FORWARD && list[i].forward);
        kas_conv_free(conv);
        kas_mem_free(device, memory);
        kas_device_close(device);
        sim.reset();
    }
}

/* ---- epilogues --------------------------------------------------------------------------------
 *
 * That they are right is the operations' test (ops/test_conv_epilogue.c). */

typedef struct epilogue_case {
    kas_conv_desc desc;
    kas_conv_epilogue epilogue;
    const char *refused, *loses_nan;
    int matmuls, convolutions; /* expected of one call; none: not taken */
} epilogue_case;

static void run_epilogue(const epilogue_case *c, size_t number)
{
    kas_device *device = open_cuda("cuda");
    kas_conv *conv;
    kas_plan *plan;
    int launches, matmuls, convolutions;
    float *memory[5];
    for (int i = 0; i < 5; i++)
        memory[i] = random_memory(device, 4096, (uint32_t)i);
    kas_conv_call call = {.x = memory[0],
                          .w = memory[1],
                          .bias = memory[2],
                          .bias_rounded = memory[2],
                          .residual = c->epilogue.residual ? memory[3] : NULL,
                          .y = memory[4]};
    sim.reset();
    sim.refuse(c->refused);
    sim.lose_nan(c->loses_nan);
    OK(kas_conv_create(device, &c->desc, &conv));
    OK(kas_conv_add_epilogue(conv, c->epilogue));
    OK(kas_plan_create(device, &plan));
    const bool taken = kas_conv_takes_epilogue(conv, c->epilogue, &call);
    sim.counts(&launches, &matmuls, &convolutions); /* what timing the plans took */
    const int before[3] = {launches, matmuls, convolutions};
    if (taken) {
        OK(kas_plan_conv_epilogue(plan, conv, c->epilogue, &call));
        OK(kas_plan_run(plan));
        OK(kas_device_sync(device));
        call.bias_rounded = memory[2] + 1;
        assert_false(kas_conv_takes_epilogue(conv, c->epilogue, &call));
    }
    sim.counts(&launches, &matmuls, &convolutions);
    if (launches != before[0] || matmuls - before[1] != c->matmuls ||
        convolutions - before[2] != c->convolutions)
        fail_msg("case %zu: %d launches, %d products, %d convolutions; expected 0, %d, %d", number,
                 launches - before[0], matmuls - before[1], convolutions - before[2], c->matmuls,
                 c->convolutions);
    kas_plan_free(plan);
    kas_conv_free(conv);
    for (int i = 0; i < 5; i++)
        kas_mem_free(device, memory[i]);
    kas_device_close(device);
    assert_int_equal(sim.live(), 0);
}

TEST_WITH(epilogues_take_the_right_way, set_up, NULL)
{
    const kas_conv_desc one = F32(2, 5, 4, 12, 20, 1, 1, 1, 1, 0, 0, 12, 20, 0),
                        many = F32(2, 5, 4, 12, 20, 4, 1, 1, 1, 0, 0, 12, 20, 0), /* groups */
        three = F32(2, 5, 4, 12, 20, 1, 3, 3, 1, 1, 1, 12, 20, 0);
    const epilogue_case list[] = {
        {one, {false, KAS_ACTIVATION_NONE}, "", "cublasLt", 1, 0},
        {one, {true, KAS_ACTIVATION_RELU}, "", "", 1, 0},
        {one, {true, KAS_ACTIVATION_RELU}, "", "cublasLt", 0, 1}, /* what loses NaN is not taken */
        {one, {true, KAS_ACTIVATION_RELU}, "", "cublasLt cudnn", 0, 0},
        {one, {false, KAS_ACTIVATION_RELU6}, "", "", 0, 1}, /* cuBLASLt clips at 0 alone, */
        {one, {false, KAS_ACTIVATION_GELU}, "", "", 0, 1},  /* and has another GELU */
        {one, {true, KAS_ACTIVATION_RELU}, "cublasLt", "", 0, 1},
        {many, {true, KAS_ACTIVATION_RELU}, "", "", 0, 1},
        {three, {true, KAS_ACTIVATION_NONE}, "", "cudnn", 0, 1},
        {three, {true, KAS_ACTIVATION_RELU}, "", "", 0, 1},
        {three, {true, KAS_ACTIVATION_RELU}, "", "cudnn", 0, 0},
        {three, {false, KAS_ACTIVATION_RELU6}, "", "cudnn", 0, 0},
        {three, {false, KAS_ACTIVATION_SILU}, "", "", 0, 1},
        {three, {false, KAS_ACTIVATION_HARD_SWISH}, "", "", 0, 0},
        {three, {true, KAS_ACTIVATION_RELU}, "cudnn", "", 0, 0},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        run_epilogue(&list[i], i);
}

/* Prepares an epilogue while one call after the other fails: it is had or not, and nothing is left
 * behind. */
TEST_WITH(preparing_an_epilogue_may_fail, set_up, NULL)
{
    static const kas_conv_epilogue epilogue = {true, KAS_ACTIVATION_RELU};
    const kas_conv_desc list[] = {F32(2, 5, 4, 12, 20, 1, 1, 1, 1, 0, 0, 12, 20, 0),
                                  F32(2, 5, 4, 12, 20, 1, 3, 3, 1, 1, 1, 12, 20, 0)};
    int failed = 0;
    for (int i = 0; i < 2; i++)
        for (int nth = 1;; nth++) {
            kas_device *device = open_cuda("cuda");
            kas_conv *conv;
            char name[64];
            OK(kas_conv_create(device, &list[i], &conv));
            sim.make_fail("*", nth, 0, false);
            const kas_status status = kas_conv_add_epilogue(conv, epilogue);
            const bool any = sim.failed(name);
            sim.make_fail(NULL, 0, 0, false);
            if (status != KAS_OK && status != KAS_DEVICE && status != KAS_NO_MEMORY)
                fail_msg("call %d, %s: %s", nth, name, kas_error());
            kas_conv_free(conv);
            kas_device_close(device);
            assert_int_equal(sim.live(), 0);
            if (!any)
                break;
            failed++;
        }
    printf("%d calls failed, one in each run\n", failed);
    assert_true(failed > 40);
}

/* A handle without our stream would run on the default stream, where the stand-in aborts. */
TEST_WITH(cudnn_is_opened_again, set_up, NULL)
{
    const kas_conv_desc desc = F32(2, 4, 4, 8, 8, 1, 3, 3, 1, 1, 1, 8, 8, 0);
    kas_device *device = open_cuda("cuda");
    kas_conv *conv = NULL;
    kas_plan *plan;
    sim.make_fail("cudnnSetStream", 1, 0, false);
    assert_int_equal(kas_conv_create(device, &desc, &conv), KAS_DEVICE);
    sim.make_fail(NULL, 0, 0, false);
    OK(kas_conv_create(device, &desc, &conv));
    float *x = random_memory(device, 1 << 10, 1), *w = random_memory(device, 1 << 10, 2),
          *y = random_memory(device, 1 << 10, 3);
    OK(kas_plan_create(device, &plan));
    OK(kas_plan_conv(plan, conv, KAS_CONV_FORWARD, x, w, y));
    OK(kas_plan_run(plan));
    OK(kas_device_sync(device));
    kas_plan_free(plan);
    kas_conv_free(conv);
    float *all[] = {x, w, y};
    for (int i = 0; i < 3; i++)
        kas_mem_free(device, all[i]);
    kas_device_close(device);
    assert_int_equal(sim.live(), 0);
}

/* What a handle keeps for the libraries is said, can be had back, and is taken anew. */
TEST_WITH(workspace_is_given_back, set_up, NULL)
{
    /* Its weights' gradients are transposed in the workspace. */
    const kas_conv_desc desc = F32(2, 6, 6, 8, 8, 1, 3, 3, 1, 1, 1, 8, 8, 1);
    kas_device *device = open_cuda("cuda"), *cpu;
    float *first, *again;
    OK(kas_device_open("cpu", 1, &cpu));
    assert_int_equal(kas_device_get_info(cpu)->workspace, 0);
    kas_device_trim(cpu);
    kas_device_close(cpu);
    assert_true(kas_device_get_info(device)->workspace >= 256 << 20);
    sim.refuse("cublasLt,cudnn");
    const size_t count = run_passes(device, &desc, 0, &first);
    const int live = sim.live();
    kas_device_trim(device);
    assert_int_equal(sim.live(), live - 1);
    kas_device_trim(device);
    assert_int_equal(run_passes(device, &desc, 0, &again), count);
    assert_memory_equal(first, again, count * sizeof *first);
    free(first);
    free(again);
    kas_device_close(device);
    assert_int_equal(sim.live(), 0);
}

/* What a memory plan counts for the libraries' calls is never passed: not by 16-bit gradients that
 * lie behind an engine's workspace of all but a few bytes, not by transposed weights. So a convolution
 * of too many weights is the libraries' alone. */
TEST_WITH(workspace_has_a_bound, set_up, NULL)
{
    enum { EACH_IMAGE = 1000, WEIGHTS = 8 * 3 * 3 * 8, IMAGES = (256 << 20) / EACH_IMAGE };
    kas_conv_desc desc = {2, 1, 1, 8, 8, 1, 3, 3, 1, 1, 1, 8, 8, 1, KAS_BF16, false, false, 0};
    const kas_conv_desc large = F32(1, 1, 1, 8192, 8200, 1, 1, 1, 1, 0, 0, 8192, 8200, 1);
    kas_device *device = open_cuda("cuda");
    const kas_cuda *cuda = (const kas_cuda *)device;
    kas_cudnn_conv *pass;
    kas_conv *conv;
    OK(kas_conv_create(device, &desc, &conv)); /* opens cuDNN */
    kas_conv_free(conv);
    const size_t kept = cuda->workspace_bytes, gradients = 2 * WEIGHTS;
    assert_int_equal(kept, (2 * EACH_IMAGE + 255) / 256 * 256 + gradients);
    desc.n = IMAGES;
    assert_true((size_t)IMAGES * EACH_IMAGE + gradients > 256 << 20);
    assert_int_equal(kas_cudnn_conv_create((kas_cuda *)device, &desc, KAS_CONV_BACKWARD_WEIGHTS,
                                           (kas_conv_beside){false}, &pass),
                     KAS_UNSUPPORTED);
    assert_int_equal(cuda->workspace_bytes, kept);
    OK(kas_conv_create(device, &large, &conv));
    kas_conv_free(conv);
    sim.refuse("cublasLt cudnn");
    assert_int_equal(kas_conv_create(device, &large, &conv), KAS_UNSUPPORTED);
    assert_non_null(strstr(kas_error(), "67174400 weights"));
    assert_int_equal(kas_device_get_info(device)->workspace, 256 << 20);
    kas_device_close(device);
    assert_int_equal(sim.live(), 0);
}

/* It grows with the GPU, and so do the engines that may be chosen. */
TEST_WITH(a_large_gpu_has_a_large_workspace, set_up, NULL)
{
    enum { EACH_IMAGE = 1000, IMAGES = (257 << 20) / EACH_IMAGE };
    const kas_conv_desc desc = F32(IMAGES, 1, 1, 4, 4, 1, 3, 3, 1, 1, 1, 4, 4, 0);
    const struct {
        const char *memory;
        size_t workspace;
    } list[] = {{"1000000", 256 << 20},
                {"8589934592", 256 << 20},
                {"85899345920", (size_t)2 << 30},
                {"17179869184", 512 << 20}};
    kas_device *device = NULL;
    kas_conv *conv;
    for (int i = 0; i < 4; i++) {
        kas_device_close(device);
        setenv("KAS_SIM_MEMORY", list[i].memory, 1);
        device = open_cuda("cuda");
        assert_int_equal(kas_device_get_info(device)->workspace, list[i].workspace);
    }
    OK(kas_conv_create(device, &desc, &conv));
    kas_conv_free(conv);
    assert_true(((const kas_cuda *)device)->workspace_bytes > 256 << 20);
    kas_device_close(device);
    unsetenv("KAS_SIM_MEMORY");
}

RUN_TESTS(load_sim)

/* Kernels that take the stride: the convolution as a kernel is the strided convolution, and what a
 * kernel computes is every stride-th pixel of what it computes without a stride. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/random.h"
#include "host/reference/kernel/reference.h"
#include "host/space/canonical.h"
#include "host/space/file/kernel_json.h"
#include "host/space/nas_pte/nas_pte.h"
#include "host/space/solve/solve.h"

enum { C = 8, MOST = 16, WEIGHTS = 8, SIZE = C * MOST * MOST };

static double x[SIZE], y[SIZE], whole[SIZE], weight[WEIGHTS][C * C * 9];

static void fill(void)
{
    kas_rng rng = kas_rng_make(1, KAS_PURPOSE_TEST, 0);
    for (int i = 0; i < SIZE; i++)
        x[i] = kas_rng_normal(&rng);
    for (int w = 0; w < WEIGHTS; w++)
        for (int i = 0; i < C * C * 9; i++)
            weight[w][i] = kas_rng_normal(&rng);
}

static kas_target target_of(uint32_t in, uint32_t stride)
{
    kas_target t = kas_target_plain(C, (in + stride - 1) / stride, (in + stride - 1) / stride, 3);
    t.stride = stride;
    t.in_h = t.in_w = in;
    return t;
}

static kas_kernel kernel_of(const char *steps, bool stride_inside)
{
    kas_pte_sequence sequence;
    kas_kernel kernel;
    OK(kas_pte_parse(steps, &sequence));
    sequence.stride_inside = stride_inside;
    OK(kas_pte_kernel(&sequence, &kernel));
    return kernel;
}

static kas_reference *open_at(const kas_kernel *kernel, const kas_target *target)
{
    const kas_binding binding = kas_target_binding(kernel, target);
    kas_reference *reference;
    OK(kas_reference_create(kernel, target, &binding, 1, &reference));
    assert_in_range(kas_reference_weights(reference), 1, WEIGHTS);
    for (int w = 0; w < kas_reference_weights(reference); w++)
        assert_in_range(kas_reference_weight_size(reference, w), 1, C * C * 9);
    return reference;
}

static void run(const kas_kernel *kernel, const kas_target *target, const double *in, double *out)
{
    const double *list[WEIGHTS];
    kas_reference *reference = open_at(kernel, target);
    for (int w = 0; w < WEIGHTS; w++)
        list[w] = weight[w];
    OK(kas_reference_forward(reference, in, list, out));
    kas_reference_free(reference);
}

static double convolution(int in, int stride, int co, int h, int w)
{
    double sum = 0;
    for (int ci = 0; ci < C; ci++)
        for (int kh = 0; kh < 3; kh++)
            for (int kw = 0; kw < 3; kw++) {
                const int row = stride * h + kh - 1, column = stride * w + kw - 1;
                if (row >= 0 && row < in && column >= 0 && column < in)
                    sum += weight[0][((co * C + ci) * 3 + kh) * 3 + kw] *
                           x[(ci * in + row) * in + column];
            }
    return sum;
}

TEST(the_convolution_is_strided)
{
    static const int cases[][2] = {{8, 1}, {8, 2}, {7, 2}, {9, 3}, {10, 3}, {16, 4}, {1, 2}};
    double worst = 0;
    fill();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int in = cases[i][0], stride = cases[i][1], side = (in + stride - 1) / stride;
        const kas_target target = target_of((uint32_t)in, (uint32_t)stride);
        const kas_kernel kernel = kernel_of("", true);
        run(&kernel, &target, x, y);
        for (int e = 0; e < C * side * side; e++) {
            const double wanted =
                convolution(in, stride, e / (side * side), e / side % side, e % side);
            const double error = fabs(y[e] - wanted);
            worst = error > worst ? error : worst;
            if (!(error <= 1e-11))
                fail_msg("%d pixels, stride %d: element %d is %g, not %g", in, stride, e, y[e],
                         wanted);
        }
    }
    print_message("largest error %.3g, tolerance 1e-11\n", worst);
}

/* Without the stride, the same kernel has all pixels. */
TEST(kernels_are_strided)
{
    static const char *const sequences[] = {"group(2)",
                                            "depthwise",
                                            "bottleneck_out(2)",
                                            "bottleneck_in(4) split(2) group(2)@1",
                                            "bands_h(2) group(2)",
                                            "group_w(2)",
                                            "bottleneck_space(2)",
                                            "unroll(3)",
                                            "bottleneck_kh(3) bottleneck_kw(3)",
                                            "bottleneck_h(4) bottleneck_kw(3)"};
    double worst = 0;
    fill();
    for (size_t i = 0; i < sizeof sequences / sizeof *sequences; i++) {
        const kas_kernel inside = kernel_of(sequences[i], true),
                         plain = kernel_of(sequences[i], false);
        const kas_target all = target_of(16, 1), strided = target_of(16, 2);
        run(&inside, &strided, x, y);
        run(&plain, &all, x, whole);
        for (int e = 0; e < C * 64; e++) {
            const double wanted = whole[(e / 64 * 16 + e / 8 % 8 * 2) * 16 + e % 8 * 2];
            const double error = fabs(y[e] - wanted);
            worst = error > worst ? error : worst;
            if (!(error <= 1e-11))
                fail_msg("%s: element %d is %g, not %g", sequences[i], e, y[e], wanted);
        }
    }
    print_message("largest error %.3g, tolerance 1e-11\n", worst);
}

TEST(gradients_agree_with_differences)
{
    const kas_kernel kernel = kernel_of("bottleneck_out(2) group(2)", true);
    const kas_target target = target_of(7, 2);
    kas_reference *reference = open_at(&kernel, &target);
    const double *list[WEIGHTS] = {weight[0], weight[1]};
    double worst;
    fill();
    OK(kas_reference_check_gradient(reference, x, list, weight[2], 4, 1, &worst));
    print_message("largest error %.3g, tolerance 1e-6\n", worst);
    assert_true(worst <= 1e-6);
    kas_reference_free(reference);
}

/* Costs are those of the strided convolution, and there is no pool. */
TEST(the_pool_costs_nothing)
{
    const kas_target target = target_of(8, 2);
    const kas_kernel inside = kernel_of("", true), pooled = kernel_of("", false);
    const kas_binding binding = kas_target_binding(&inside, &target);
    kas_cost cost[2];
    OK(kas_layer_cost(&inside, &target, &binding, &cost[0]));
    OK(kas_layer_cost(&pooled, &target, &binding, &cost[1]));
    assert_true(cost[0].flops == kas_target_conv_flops(&target));
    assert_true(cost[1].flops == cost[0].flops + C * 64);
}

TEST(what_cannot_take_the_stride)
{
    static const struct {
        const char *nodes, *words;
    } cases[] = {{"{\"op\": \"unfold\", \"in\": [0], \"axes\": \"h\"}, {\"op\": \"fc\", \"in\": "
                  "[1], \"out\": "
                  "\"C\"}, {\"op\": \"unfold\", \"in\": [2], \"axes\": \"w\"}, {\"op\": \"fc\", "
                  "\"in\": [3], "
                  "\"out\": \"C\"}",
                  "node 3 (unfold): with the stride inside, a window reads the input"},
                 {"{\"op\": \"shift\", \"in\": [0], \"axes\": \"h\", \"offset\": 1}, {\"op\": "
                  "\"fc\", \"in\": "
                  "[1], \"out\": \"C\"}",
                  "node 1 (shift): with the stride inside, a kernel consists of"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kas_buf text = {0};
        kas_kernel kernel;
        kas_buf_printf(&text,
                       "{\"format\": \"kas-gpu kernel\", \"version\": 1, \"nodes\": [{\"op\": "
                       "\"input\"}, %s], \"stride\": \"inside\"}",
                       cases[i].nodes);
        assert_int_equal(kas_kernel_read_json("k", kas_buf_text(&text), text.size, &kernel),
                         KAS_BAD_INPUT);
        if (!strstr(kas_error(), cases[i].words))
            fail_msg("%s", kas_error());
        kas_buf_free(&text);
    }
    const kas_kernel bands = kernel_of("bands_h(2)", true);
    kas_target target = target_of(7, 2);
    kas_solution solution;
    const kas_budget budget = {0};
    assert_int_equal(kas_solve(&bands, &target, 1, &budget, &solution), KAS_ILLEGAL);
    assert_non_null(strstr(kas_error(), "which the stride of 2 does not divide"));
}

/* The flag is part of a kernel's file and of its name. */
TEST(the_name_tells)
{
    const kas_kernel inside = kernel_of("group(2)", true), pooled = kernel_of("group(2)", false);
    char name[3][KAS_NAME_SIZE];
    kas_buf text = {0};
    kas_kernel read;
    OK(kas_kernel_name(&inside, name[0]));
    OK(kas_kernel_name(&pooled, name[1]));
    assert_string_not_equal(name[0], name[1]);
    OK(kas_kernel_write_json(&inside, NULL, &text));
    OK(kas_kernel_read_json("k", kas_buf_text(&text), text.size, &read));
    OK(kas_kernel_name(&read, name[2]));
    assert_string_equal(name[0], name[2]);
    kas_buf_free(&text);
}

RUN_TESTS()

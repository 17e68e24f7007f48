/* The share of a tensor's variance that its imitation misses, and its gradient, against float64. */
#include "op_case.h"

static const double eps = 1e-5;

/* Sums of squares about the mean, of channel `k` of a [n][c][pixels]; *mean may be NULL. */
static double squares(const double *x, int n, int c, int pixels, int k, double *mean)
{
    double sum = 0, square = 0;
    for (int i = 0; i < n; i++)
        for (int p = 0; p < pixels; p++)
            sum += x[((size_t)i * c + k) * pixels + p];
    const double middle = sum / (n * pixels);
    for (int i = 0; i < n; i++)
        for (int p = 0; p < pixels; p++)
            square += pow(x[((size_t)i * c + k) * pixels + p] - middle, 2);
    if (mean)
        *mean = middle;
    return square;
}

/* Overwrites e with the gradient of missed / wanted. */
static void reference(double *e, const double *target, const double *weight, int n, int c,
                      int pixels, double *missed, double *wanted)
{
    double mean;
    *missed = *wanted = 0;
    for (int k = 0; k < c; k++) {
        *missed += weight[k] * squares(e, n, c, pixels, k, NULL) / (n * pixels);
        *wanted += weight[k] * squares(target, n, c, pixels, k, NULL) / (n * pixels);
    }
    for (int k = 0; k < c; k++) {
        squares(e, n, c, pixels, k, &mean);
        for (int i = 0; i < n; i++)
            for (int p = 0; p < pixels; p++) {
                double *at = &e[((size_t)i * c + k) * pixels + p];
                *at = 2 * weight[k] * (*at - mean) / (n * pixels * *wanted);
            }
    }
}

static void run_case(int n, int c, int h, int w, bool norm, bool gradient)
{
    const size_t size = (size_t)n * c * h * w;
    double *y = random_values(size, 1), *target = random_values(size, 2);
    double *gamma = random_values((size_t)c, 3), *var = random_values((size_t)c, 4);
    double *e = malloc(size * sizeof *e), *weight = malloc((size_t)c * sizeof *weight);
    assert_true(e && weight);
    for (size_t i = 0; i < size; i++) {
        target[i] = (float)(3 * target[i] + 20); /* far from 0 */
        e[i] = y[i] - target[i];
    }
    for (int k = 0; k < c; k++) {
        var[k] = (float)(var[k] * var[k]);
        weight[k] = norm ? gamma[k] * gamma[k] / (var[k] + eps) : 1;
    }
    kas_tensor ty = make_tensor(y, n, c, h, w), tt = make_tensor(target, n, c, h, w);
    float *tg = array_to_device(gamma, (size_t)c), *tv = array_to_device(var, (size_t)c);
    float *scratch = array_to_device(NULL, kas_imitation_scratch(&tt));
    kas_imitated sum = {.missed = 1, .wanted = 2}, *sums = upload(&sum, sizeof sum);
    const kas_imitation imitation = {.output = ty,
                                     .target = tt,
                                     .gamma = norm ? tg : NULL,
                                     .running_var = norm ? tv : NULL,
                                     .eps = (float)eps,
                                     .gradient = gradient,
                                     .scratch = scratch,
                                     .sum = sums};
    OK(kas_op_imitation(the_ops, new_plan(), &imitation));
    run_plan();
    OK(kas_mem_download(the_device, &sum, sums, sizeof sum));
    double missed, wanted, *d = malloc(size * sizeof *d);
    assert_non_null(d);
    memcpy(d, e, size * sizeof *d);
    reference(d, target, weight, n, c, h * w, &missed, &wanted);
    const double got[2] = {sum.missed - 1, sum.wanted - 2}, want[2] = {missed, wanted};
    compare("missed", &got[0], &want[0], 1, 1e-5);
    compare("wanted", &got[1], &want[1], 1, 1e-5);
    double *result = numbers_from_device(KAS_F32, ty.data, n, c, h, w, ty.pitch);
    for (size_t i = 0; gradient && i < size; i++) {
        d[i] *= (double)size; /* of order 1 */
        result[i] *= (double)size;
    }
    compare(gradient ? "gradient" : "difference", result, gradient ? d : e, size, 1e-5);
    check_tensor("target", &tt, target, 0);
    free(result);
    FREE(ty.data, tt.data, tg, tv, scratch, sums);
    free(y), free(target), free(gamma), free(var), free(e), free(weight), free(d);
}

TEST(test_imitation)
{
    EACH_ORDER(order)
    {
        for (int norm = 0; norm < 2; norm++) {
            run_case(3, 16, 5, 4, norm, true);
            run_case(2, 7, 3, 3, norm, true);
            run_case(4, 70, 9, 9, norm, false);
            run_case(1, 300, 4, 2, norm, true);
            run_case(64, 8, 8, 8, norm, true);
        }
    }
    print_worst("imitation");
}

/* One operand off a multiple of 16 bytes. */
TEST(test_crooked)
{
    EACH_CROOKED(5)
    EACH_ORDER(order)
    run_case(3, 16, 5, 4, true, true);
}

/* A kernel that gives the target up to a constant misses nothing. */
TEST(test_constants_do_not_count)
{
    double *target = random_values(2 * 8 * 9, 1), *y = malloc(2 * 8 * 9 * sizeof *y);
    assert_non_null(y);
    for (int i = 0; i < 2 * 8 * 9; i++)
        y[i] = target[i] = number_round(KAS_BF16, (float)target[i]);
    for (int i = 0; i < 2 * 8 * 9; i++)
        y[i] += i / 9 % 8;
    kas_tensor ty = make_tensor(y, 2, 8, 3, 3), tt = make_tensor(target, 2, 8, 3, 3);
    float *scratch = array_to_device(NULL, kas_imitation_scratch(&tt));
    kas_imitated sum = {0}, *sums = upload(&sum, sizeof sum);
    const kas_imitation imitation = {
        .output = ty, .target = tt, .gradient = true, .scratch = scratch, .sum = sums};
    OK(kas_op_imitation(the_ops, new_plan(), &imitation));
    run_plan();
    OK(kas_mem_download(the_device, &sum, sums, sizeof sum));
    print_message("missed %.3g of %.3g, tolerance 1e-10\n", sum.missed, sum.wanted);
    assert_true(sum.wanted >= 1 && sum.missed <= 1e-10 * sum.wanted);
    FREE(ty.data, tt.data, scratch, sums);
    free(y), free(target);
}

RUN_TESTS(open_the_ops, close_the_ops)

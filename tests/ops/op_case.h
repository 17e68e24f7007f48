/* What the tests of the operations share: a device (DEVICE=cpu|cuda, default cpu), tensors with
 * NaN in their padding, outputs full of NaN, and a comparison that NaN fails. */
#ifndef TESTS_OPS_OP_CASE_H
#define TESTS_OPS_OP_CASE_H

#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/random.h"
#include "host/device/cpu/device_cpu.h"
#include "host/device/device.h"
#include "host/ops/ops.h"

#include "dtype.h"

/* Returns the orders of lanes to run: all three on the CPU, one on a GPU. */
static kas_device *the_device;
/* The dtype of what make_tensor makes. Random values are numbers that this dtype holds exactly. */
static kas_dtype the_dtype;
static double worst_error, worst_tolerance;
/* Of each case's tensors and arrays, counted in the order in which they are made, this one starts
 * one element after a multiple of 16 bytes. A kernel that makes a 16-byte access there all the same
 * traps (in order 2), as it does on a GPU. 0: none starts so. */
static int the_crooked, tensors_made;
static char worst_place[160];

static inline int orders(void)
{
    return kas_device_get_info(the_device)->kind == KAS_DEVICE_CPU ? 3 : 1;
}

static inline void set_order(int order)
{
    if (orders() == 3)
        OK(kas_device_cpu_set_order(the_device, (kas_cpu_order)order));
}

static inline int open_the_device(void **state)
{
    (void)state;
    const char *spec = getenv("DEVICE");
    if (kas_device_open(spec && *spec ? spec : "cpu", 2, &the_device) != KAS_OK) {
        printf("%s\n", kas_error());
        return 1;
    }
    return 0;
}

static inline int close_the_device(void **state)
{
    (void)state;
    kas_device_close(the_device);
    return 0;
}

static inline double *random_values(size_t count, uint64_t stream)
{
    kas_rng rng = kas_rng_make(1, KAS_PURPOSE_TEST, stream);
    double *value = malloc(count * sizeof *value + 1);
    assert_non_null(value);
    for (size_t i = 0; i < count; i++)
        value[i] = number_round(the_dtype, (float)kas_rng_normal(&rng));
    return value;
}

static inline double *nan_values(size_t count)
{
    double *value = malloc(count * sizeof *value + 1);
    assert_non_null(value);
    for (size_t i = 0; i < count; i++)
        value[i] = NAN;
    return value;
}

/* The value of all bit patterns, by number_value. */
static inline const double *all_values(kas_dtype dtype)
{
    static double value[KAS_DTYPES][1 << 16];
    if (value[dtype][1] == 0)
        for (int i = 0; i < 1 << 16; i++)
            value[dtype][i] = number_value(dtype, (uint16_t)i);
    return value[dtype];
}

/* Writes one element of an array in a device's memory format. */
static inline void put_number(kas_dtype dtype, void *array, size_t at, double value)
{
    if (dtype == KAS_F32)
        ((float *)array)[at] = (float)value;
    else
        ((uint16_t *)array)[at] = number_bits(dtype, value);
}
static inline double get_number(kas_dtype dtype, const void *array, size_t at)
{
    return dtype == KAS_F32 ? (double)((const float *)array)[at]
                            : all_values(dtype)[((const uint16_t *)array)[at]];
}

/* Makes device memory [n][h][w][pitch] from doubles [n][c][h][w], with NaN in the padding, and
 * everywhere when `from` is NULL. */
static inline void *numbers_to_device(kas_dtype dtype, const double *from, int n, int c, int h,
                                      int w, int pitch)
{
    const size_t pixels = (size_t)n * h * w, bytes = pixels * pitch * kas_dtype_size(dtype);
    void *host = malloc(bytes);
    char *memory;
    assert_non_null(host);
    for (size_t i = 0; i < pixels * pitch; i++)
        put_number(dtype, host, i, NAN);
    for (int i = 0; from && i < n; i++)
        for (int k = 0; k < c; k++)
            for (int p = 0; p < h * w; p++)
                put_number(dtype, host, ((size_t)i * h * w + p) * pitch + k,
                           from[((size_t)i * c + k) * h * w + p]);
    OK(kas_mem_alloc(the_device, bytes + 16, (void **)&memory));
    if (++tensors_made == the_crooked)
        memory += kas_dtype_size(dtype);
    OK(kas_mem_upload(the_device, memory, host, bytes));
    free(host);
    return memory;
}

/* Makes the x of a convolution. Where its padding must be finite, it is 1: weights that are zero
 * there leave nothing of it. */
static inline void *conv_x_to_device(const kas_conv_desc *d, const double *from)
{
    const size_t pixels = (size_t)d->h * d->w;
    const int channels = d->finite_padding ? d->x_pitch : d->c_in;
    double *wide = malloc((size_t)d->n * channels * pixels * sizeof *wide);
    assert_non_null(wide);
    for (int i = 0; i < d->n; i++)
        for (int k = 0; k < channels; k++)
            for (size_t p = 0; p < pixels; p++)
                wide[((size_t)i * channels + k) * pixels + p] =
                    k < d->c_in ? from[((size_t)i * d->c_in + k) * pixels + p] : 1;
    void *x = numbers_to_device(d->dtype, wide, d->n, channels, d->h, d->w, d->x_pitch);
    free(wide);
    return x;
}

/* Reads a tensor back. The padding must still be NaN: no operation writes it. */
static inline double *numbers_from_device(kas_dtype dtype, const void *memory, int n, int c, int h,
                                          int w, int pitch)
{
    const size_t pixels = (size_t)n * h * w, bytes = pixels * pitch * kas_dtype_size(dtype);
    void *host = malloc(bytes);
    double *value = nan_values(pixels * c);
    assert_non_null(host);
    OK(kas_mem_download(the_device, host, memory, bytes));
    for (size_t i = 0; i < pixels; i++)
        for (int k = c; k < pitch; k++)
            if (!isnan(get_number(dtype, host, i * pitch + k)))
                fail_msg("padding of pixel %zu was written: %g", i,
                         get_number(dtype, host, i * pitch + k));
    for (int i = 0; i < n; i++)
        for (int k = 0; k < c; k++)
            for (int p = 0; p < h * w; p++)
                value[((size_t)i * c + k) * h * w + p] =
                    get_number(dtype, host, ((size_t)i * h * w + p) * pitch + k);
    free(host);
    return value;
}

static inline float *to_device(const double *from, int n, int c, int h, int w, int pitch)
{
    return numbers_to_device(KAS_F32, from, n, c, h, w, pitch);
}
static inline double *from_device(const float *memory, int n, int c, int h, int w, int pitch)
{
    return numbers_from_device(KAS_F32, memory, n, c, h, w, pitch);
}

/* Copy plain arrays to the device and back. */
static inline float *array_to_device(const double *from, size_t count)
{
    return to_device(from, 1, 1, 1, (int)count, 1);
}
static inline double *array_from_device(const float *memory, size_t count)
{
    return from_device(memory, 1, 1, 1, (int)count, 1);
}

/* Bytes as they are. */
static inline void *upload(const void *host, size_t bytes)
{
    void *memory;
    OK(kas_mem_alloc(the_device, bytes, &memory));
    OK(kas_mem_upload(the_device, memory, host, bytes));
    return memory;
}

/* Fails unless |got - want| <= tolerance * (largest |want|, at least floor). */
static inline void compare(const char *what, const double *got, const double *want, size_t count,
                           double tolerance)
{
    double scale = 1e-3, error = 0;
    for (size_t i = 0; i < count; i++)
        scale = fmax(scale, fabs(want[i]));
    for (size_t i = 0; i < count; i++) {
        const double diff = fabs(got[i] - want[i]) / scale;
        if (!(diff <= tolerance))
            fail_msg("%s[%zu]: %.9g, expected %.9g (relative to the largest, %.3g: %.3g > %.3g)",
                     what, i, got[i], want[i], scale, diff, tolerance);
        error = fmax(error, diff);
    }
    if (error >= worst_error) {
        worst_error = error;
        worst_tolerance = tolerance;
        snprintf(worst_place, sizeof worst_place, "%s", what);
    }
}

/* The same where NaN and infinities are meant to come out: NaN and infinities must stand exactly
 * where `want` has them, and the scale is that of the other numbers. */
static inline void compare_special(const char *what, const double *got, const double *want,
                                   size_t count, double tolerance)
{
    double scale = 1e-3;
    for (size_t i = 0; i < count; i++)
        scale = isfinite(want[i]) ? fmax(scale, fabs(want[i])) : scale;
    for (size_t i = 0; i < count; i++) {
        const bool same = isnan(want[i])   ? isnan(got[i])
                          : isinf(want[i]) ? got[i] == want[i]
                                           : fabs(got[i] - want[i]) <= tolerance * scale;
        if (!same)
            fail_msg("%s[%zu]: %.9g, expected %.9g", what, i, got[i], want[i]);
    }
}

/* Puts NaN and infinities at several places, neighbours among them, in every lane of a wide
 * access. */
static inline void put_special(double *x, size_t count)
{
    static const double special[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < count; i += 7)
        x[i] = special[i / 7 % 3];
    for (size_t i = 5; i < count; i += 31)
        x[i] = NAN;
}

static inline void print_worst(const char *what)
{
    if (!the_crooked)
        printf("%s: largest error %.3g (%s), tolerance %.3g\n", what, worst_error, worst_place,
               worst_tolerance);
    worst_error = worst_tolerance = 0;
}

/* Run the operations as the tests use them: one plan, run once. */
static kas_ops *the_ops;
static kas_plan *the_plan;

static inline int open_the_ops(void **state)
{
    if (open_the_device(state))
        return 1;
    if (kas_ops_create(the_device, &the_ops) != KAS_OK ||
        kas_ops_use(the_ops, the_dtype) != KAS_OK) {
        printf("%s\n", kas_error());
        return 1;
    }
    return 0;
}
static inline int close_the_ops(void **state)
{
    kas_ops_free(the_ops);
    return close_the_device(state);
}

/* Makes a plan for what follows up to run_plan(). */
static inline kas_plan *new_plan(void)
{
    OK(kas_plan_create(the_device, &the_plan));
    return the_plan;
}
static inline void run_plan(void)
{
    OK(kas_plan_run(the_plan));
    OK(kas_device_sync(the_device));
    kas_plan_free(the_plan);
    the_plan = NULL;
    tensors_made = 0;
}

/* Runs the tests of a file for one dtype after the other. */
static inline int run_for_each_dtype(CMFixtureFunction open, CMFixtureFunction close)
{
    int failed = 0;
    for (int dtype = 0; dtype < KAS_DTYPES; dtype++) {
        the_dtype = (kas_dtype)dtype;
        printf("%s\n", kas_dtype_names[the_dtype]);
        failed += run_all_tests(open, close);
    }
    return failed;
}
#define RUN_FOR_EACH_DTYPE(open, close)                                                            \
    int main(void)                                                                                 \
    {                                                                                              \
        return run_for_each_dtype(open, close);                                                    \
    }

static inline kas_tensor make_tensor(const double *from, int n, int c, int h, int w)
{
    const int pitch = kas_pitch_of(the_dtype, c);
    return (kas_tensor){
        numbers_to_device(the_dtype, from, n, c, h, w, pitch), n, h, w, c, pitch, the_dtype};
}
/* Returns what one rounding of a result to the_dtype adds to a tolerance. */
static inline double rounding(void)
{
    return the_dtype == KAS_F32 ? 0 : 1.001 * number_epsilon(the_dtype);
}
/* Compares with the tolerance of float32 arithmetic, `tolerance`, plus what rounding
 * to the_dtype adds. */
static inline void check_tensor(const char *what, const kas_tensor *t, const double *want,
                                double tolerance)
{
    double *got = numbers_from_device(t->dtype, t->data, t->n, t->c, t->h, t->w, t->pitch);
    compare(what, got, want, (size_t)t->n * t->c * t->h * t->w,
            tolerance + (t->dtype == KAS_F32 ? 0 : rounding()));
    free(got);
}
static inline void check_special(const char *what, const kas_tensor *t, const double *want,
                                 double tolerance)
{
    double *got = numbers_from_device(t->dtype, t->data, t->n, t->c, t->h, t->w, t->pitch);
    compare_special(what, got, want, (size_t)t->n * t->c * t->h * t->w,
                    tolerance + (t->dtype == KAS_F32 ? 0 : rounding()));
    free(got);
}
/* Returns whether 16 bits round the output to the end of a function's slope; then the backward pass
 * takes it for that end. */
static inline bool rounds_to_kink(kas_layer_op op, double y)
{
    const double end = op == KAS_LAYER_RELU6 ? 6 : op == KAS_LAYER_HARD_SIGMOID ? 1 : NAN;
    return number_round(the_dtype, y) == end;
}
static inline void check_array(const char *what, const float *memory, const double *want,
                               size_t count, double tolerance)
{
    double *got = array_from_device(memory, count);
    compare(what, got, want, count, tolerance);
    free(got);
}
/* Frees device memory, of crooked tensors too: FREE(a, b, c). */
#define FREE(...)                                                                                  \
    do {                                                                                           \
        void *all_[] = {__VA_ARGS__};                                                              \
        for (size_t i_ = 0; i_ < sizeof all_ / sizeof *all_; i_++)                                 \
            kas_mem_free(the_device, (void *)((uintptr_t)all_[i_] / 16 * 16));                     \
    } while (0)

static const int odd_channels[] = {3, 12, 16, 20, 64, 130};
/* Runs what follows for each number of channels; only for whole rows where a tensor is crooked,
 * because others have no 16-byte accesses anyway. */
#define EACH_OF_CHANNELS(c, channels)                                                              \
    for (size_t i_##c = 0, c;                                                                      \
         i_##c < sizeof(channels) / sizeof *(channels) && (c = (size_t)(channels)[i_##c], 1);      \
         i_##c++)                                                                                  \
        if (!the_crooked || c % 16 == 0)
#define EACH_CHANNELS(c) EACH_OF_CHANNELS(c, odd_channels)
/* Runs what follows in each order. In 16 bits only ascending and shuffled: in the latter a thread
 * has 8 lanes, as on a GPU. */
#define EACH_ORDER(order)                                                                          \
    for (int order = the_crooked ? orders() - 1 : 0; order < orders() && (set_order(order), 1);    \
         order += the_dtype == KAS_F32 ? 1 : 2, set_order(order < orders() ? order : 0))
/* Runs what follows once for each of the first `most` tensors of a case being the crooked one. */
#define EACH_CROOKED(most)                                                                         \
    for (the_crooked = 1, tensors_made = 0; the_crooked || (set_order(0), 0);                      \
         the_crooked = the_crooked < (most) ? the_crooked + 1 : 0)

#endif

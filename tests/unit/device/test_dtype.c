/* bf16 and float16: every value of 16 bits both ways, and rounding at and around every tie, against
 * a conversion in float64 that knows only what the formats are.  The prelude's functions run where
 * kernels run (the CPU device, with small numbers flushed), vectorised, on the machine's own
 * instructions and on arithmetic of bits. */
#include <libgen.h>
#include <limits.h>
#include <unistd.h>

#include "ops/dtype.h"
#include "ops/op_case.h"
#include "support/sizes.h"

typedef struct number_args {
    const uint32_t *in;
    uint32_t *out;
    int count;
} number_args;

enum { ALL = 1 << 16 };

static kas_module *load(void)
{
    char self[PATH_MAX], path[PATH_MAX + 32];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(length > 0);
    self[length] = 0;
    snprintf(path, sizeof path, "%s/device_kernels.so0", dirname(self));
    kas_module *module;
    OK(kas_module_load(the_device, path, &module));
    return module;
}

/* out[i] = kernel(in[i]) on the device. */
static void convert(const char *kernel, const uint32_t *in, uint32_t *out, int count)
{
    kas_module *module = load();
    kas_function *function;
    kas_plan *plan;
    const size_t bytes = (size_t)count * sizeof *in;
    number_args args = {.count = count};
    OK(kas_mem_alloc(the_device, bytes, (void **)&args.in));
    OK(kas_mem_alloc(the_device, bytes, (void **)&args.out));
    OK(kas_mem_upload(the_device, (void *)args.in, in, bytes));
    OK(kas_module_function(module, kernel, &function));
    OK(kas_plan_create(the_device, &plan));
    OK(kas_plan_launch(plan, function, (unsigned[3]){1, 1, 1}, (unsigned[3]){64, 1, 1}, &args,
                       sizeof args));
    OK(kas_plan_run(plan));
    OK(kas_mem_download(the_device, out, args.out, bytes));
    kas_plan_free(plan);
    kas_module_free(module);
    kas_mem_free(the_device, (void *)args.in);
    kas_mem_free(the_device, args.out);
}

typedef struct format {
    kas_dtype dtype;
    const char *value, *of; /* kernels */
} format;

static const format formats[] = {
    {KAS_BF16, "test_bf16_value", "test_bf16_of"},
    {KAS_F16, "test_f16_value", "test_f16_of"},
    {KAS_F16, "test_f16_value_of_bits", "test_f16_of_by_bits"},
};
enum { FORMATS = sizeof formats / sizeof *formats };

static float float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}
static uint32_t bits_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof f);
    return bits;
}

TEST(every_value_comes_and_goes)
{
    static uint32_t bits[ALL], value[ALL], back[ALL];
    for (uint32_t i = 0; i < ALL; i++)
        bits[i] = i;
    for (int f = 0; f < FORMATS; f++) {
        int nans = 0;
        convert(formats[f].value, bits, value, ALL);
        convert(formats[f].of, value, back, ALL);
        for (uint32_t i = 0; i < ALL; i++) {
            const double want = number_value(formats[f].dtype, (uint16_t)i);
            const double got = float_of(value[i]);
            if (isnan(want)) {
                nans++;
                if (!isnan(got) || !isnan(number_value(formats[f].dtype, (uint16_t)back[i])))
                    fail_msg("%s(%04x): NaN became %g and %04x", formats[f].value, i, got, back[i]);
                continue;
            }
            if (got != want || signbit(got) != signbit(want))
                fail_msg("%s(%04x) = %.9g, expected %.9g", formats[f].value, i, got, want);
            if (back[i] != i)
                fail_msg("%s(%.9g) = %04x, expected %04x", formats[f].of, got, back[i], i);
        }
        assert_int_equal(nans, formats[f].dtype == KAS_BF16 ? 254 : 2046);
    }
}

/* The float in the middle of each value and the next one, its neighbours on both sides, and those
 * of the values: where a rounding goes wrong if it goes wrong anywhere. */
TEST(rounds_to_nearest_even)
{
    enum { EACH = 6 };
    static uint32_t in[ALL * EACH], out[ALL * EACH];
    for (int f = 0; f < FORMATS; f++) {
        const kas_dtype dtype = formats[f].dtype;
        int count = 0, ties = 0;
        for (uint32_t i = 0; i < ALL; i++) {
            const double low = number_value(dtype, (uint16_t)i);
            const double high = number_next(dtype, (uint16_t)i);
            if (!isfinite(low))
                continue;
            const float middle = (float)(0.5 * (low + high)), at = (float)low;
            assert_true((double)middle == 0.5 * (low + high));
            const float all[EACH] = {
                middle, nextafterf(middle, INFINITY), nextafterf(middle, -INFINITY),
                at,     nextafterf(at, INFINITY),     nextafterf(at, -INFINITY)};
            for (int k = 0; k < EACH; k++)
                in[count++] = bits_of(all[k]);
            ties++;
        }
        convert(formats[f].of, in, out, count);
        for (int i = 0; i < count; i++) {
            const double want = number_round(dtype, float_of(in[i]));
            const double got = number_value(dtype, (uint16_t)out[i]);
            if (!(got == want && signbit(got) == signbit(want)))
                fail_msg("%s(%.9g) = %.9g, expected %.9g", formats[f].of, float_of(in[i]), got,
                         want);
        }
        print_message("%s: %d ties and their neighbours\n", formats[f].of, ties);
    }
}

/* Bits drawn at random, so that every exponent of a float is met, and every kind of NaN. */
TEST(rounds_any_float)
{
    enum { COUNT = 200000 };
    static uint32_t in[COUNT], out[COUNT];
    kas_rng rng = kas_rng_make(3, KAS_PURPOSE_TEST, 0);
    for (int i = 0; i < COUNT; i++)
        in[i] = kas_rng_u32(&rng);
    for (int f = 0; f < FORMATS; f++) {
        convert(formats[f].of, in, out, COUNT);
        for (int i = 0; i < COUNT; i++) {
            const double want = number_round(formats[f].dtype, float_of(in[i]));
            const double got = number_value(formats[f].dtype, (uint16_t)out[i]);
            if (isnan(want) ? !isnan(got) : got != want)
                fail_msg("%s(%.9g) = %.9g, expected %.9g", formats[f].of, float_of(in[i]), got,
                         want);
        }
    }
}

/* Pitches keep 16 bytes; convolutions name numbers that are none. */
TEST(sizes_and_pitches)
{
    assert_int_equal(kas_dtype_size(KAS_F32), 4);
    assert_int_equal(kas_dtype_size(KAS_BF16), 2);
    assert_int_equal(kas_dtype_size(KAS_F16), 2);
    assert_int_equal(kas_pitch_of(KAS_F32, 12), 12);
    assert_int_equal(kas_pitch_of(KAS_BF16, 12), 16);
    assert_int_equal(kas_pitch_of(KAS_F16, 1), 8);
    for (int dtype = 0; dtype < KAS_DTYPES; dtype++)
        for (int c = 1; c < 70; c++) {
            const size_t size = kas_dtype_size((kas_dtype)dtype);
            const int pitch = kas_pitch_of((kas_dtype)dtype, c);
            assert_true(pitch >= c && (size_t)(pitch - c) * size < 16 && pitch * size % 16 == 0);
        }
    assert_string_equal(kas_dtype_names[KAS_BF16], "bf16");
    kas_conv *conv;
    kas_conv_desc d =
        CONV_OF(1, 4, 8, 8, 1, 1, 1, .x_pitch = 8, .y_pitch = 8, .dtype = (kas_dtype)3);
    assert_int_equal(kas_conv_create(the_device, &d, &conv), KAS_BAD_INPUT);
    d.dtype = KAS_BF16, d.tf32 = true;
    assert_int_equal(kas_conv_create(the_device, &d, &conv), KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "TF32"));
}

static int open_cpu(void **state)
{
    (void)state;
    return kas_device_open("cpu", 1, &the_device) != KAS_OK;
}

RUN_TESTS(open_cpu, close_the_device)

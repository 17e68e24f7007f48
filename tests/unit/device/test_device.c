/* The dispatcher, the CPU device's memory, modules and plans, and the prelude of the device code.
 */
#include <libgen.h>
#include <limits.h>
#include <unistd.h>

#include "ops/op_case.h"

#include "cuda/kernels/device_code.h"
#include "host/device/fill.h"

typedef struct copy_args {
    const float *x;
    float *y;
    int count;
} copy_args;

/* The module of test kernels, compiled for one order of lanes: it lies beside this program. */
static kas_module *load(int order)
{
    char self[PATH_MAX], path[PATH_MAX + 32];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(length > 0);
    self[length] = 0;
    snprintf(path, sizeof path, "%s/device_kernels.so%d", dirname(self), order);
    kas_module *module;
    OK(kas_module_load(the_device, path, &module));
    return module;
}

static void run(kas_module *module, const char *name, unsigned gx, unsigned gy, unsigned gz,
                const void *args, size_t size)
{
    kas_function *function;
    kas_plan *plan;
    OK(kas_module_function(module, name, &function));
    OK(kas_plan_create(the_device, &plan));
    OK(kas_plan_launch(plan, function, (unsigned[3]){gx, gy, gz}, (unsigned[3]){64, 1, 1}, args,
                       size));
    OK(kas_plan_run(plan));
    OK(kas_device_sync(the_device));
    kas_plan_free(plan);
}

TEST(test_open)
{
    kas_device *device;
    const char *bad[] = {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cpu:0", "cuda:0,1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(kas_device_open(bad[i], 0, &device), KAS_USAGE);
    assert_int_equal(kas_device_open("cpu", -1, &device), KAS_USAGE);
    OK(kas_device_open("auto", 1, &device));
    kas_device_close(device);
    OK(kas_device_open("cpu", 0, &device));
    const kas_device_info *info = kas_device_get_info(device);
    assert_int_equal(info->kind, KAS_DEVICE_CPU);
    assert_string_equal(info->arch, "cpu");
    assert_true(info->threads >= 1 && info->memory > 0 && info->name[0]);
    kas_device_close(device);
    kas_device_close(NULL);
}

TEST(test_memory)
{
    void *memory;
    OK(kas_mem_alloc(the_device, 0, &memory));
    kas_mem_free(the_device, memory);
    kas_mem_free(the_device, NULL);
    assert_int_equal(kas_mem_alloc(the_device, SIZE_MAX - 100, &memory), KAS_NO_MEMORY);
    assert_int_equal(kas_mem_alloc(the_device, SIZE_MAX / 4, &memory), KAS_NO_MEMORY);
    float value[3] = {1, 2, 3};
    OK(kas_mem_alloc(the_device, 12, &memory));
    assert_int_equal((uintptr_t)memory % 256, 0);
    OK(kas_mem_upload(the_device, memory, value, 12));
    OK(kas_mem_zero(the_device, memory, 8));
    OK(kas_mem_download(the_device, value, memory, 12));
    assert_true(value[0] == 0 && value[1] == 0 && value[2] == 3);
    kas_mem_free(the_device, memory);
}

TEST(test_modules)
{
    kas_module *module;
    kas_function *function, *again;
    assert_int_equal(kas_module_load(the_device, "/nowhere/x.so", &module), KAS_DEVICE);
    assert_non_null(strstr(kas_error(), "/nowhere/x.so"));
    OK(kas_module_builtin(the_device, KAS_F32, &module));
    assert_int_equal(kas_module_function(module, "kas_dev_nothing", &function), KAS_DEVICE);
    assert_non_null(strstr(kas_error(), "kas_dev_nothing"));
    OK(kas_module_function(module, "kas_dev_add", &function));
    OK(kas_module_function(module, "kas_dev_add", &again));
    assert_ptr_equal(function, again);
}

/* Zero, copy and launch in program order; blocks of all three coordinates; launches refused. */
TEST(test_plan)
{
    kas_module *module = load(0);
    kas_function *function;
    kas_plan *plan;
    float *x, *y, *z, value[600];
    for (int i = 0; i < 600; i++)
        value[i] = (float)i;
    OK(kas_mem_alloc(the_device, sizeof value, (void **)&x));
    OK(kas_mem_alloc(the_device, sizeof value, (void **)&y));
    OK(kas_mem_alloc(the_device, sizeof value, (void **)&z));
    OK(kas_mem_upload(the_device, x, value, sizeof value));
    OK(kas_module_function(module, "test_reverse", &function));
    OK(kas_plan_create(the_device, &plan));
    const copy_args args = {x, y, 600};
    const unsigned grid[3] = {3, 1, 1}, block[3] = {256, 1, 1}, large[3] = {256, 2, 1},
                   none[3] = {0, 1, 1};
    OK(kas_plan_launch(plan, function, grid, block, &args, sizeof args));
    OK(kas_plan_copy(plan, z, y, sizeof value));
    OK(kas_plan_zero(plan, x, sizeof value));
    assert_int_equal(kas_plan_launch(plan, function, grid, large, &args, sizeof args), KAS_DEVICE);
    assert_int_equal(kas_plan_launch(plan, function, none, block, &args, sizeof args), KAS_DEVICE);
    for (int order = 0; order < orders(); order++) {
        set_order(order);
        OK(kas_mem_upload(the_device, x, value, sizeof value));
        OK(kas_mem_zero(the_device, y, sizeof value));
        OK(kas_plan_run(plan));
        float got[600];
        OK(kas_mem_download(the_device, got, z, sizeof got));
        for (int i = 0; i < 600; i++)
            assert_true(got[i] == value[599 - i]);
        OK(kas_mem_download(the_device, got, x, sizeof got));
        assert_true(got[0] == 0 && got[599] == 0);
    }
    set_order(0);
    kas_plan_free(plan);
    kas_module_free(module);
    kas_mem_free(the_device, x), kas_mem_free(the_device, y), kas_mem_free(the_device, z);
}

/* The three orders must agree on right kernels and must not on one without a barrier. */
TEST(test_orders)
{
    double value[200], want[200], *got;
    for (int i = 0; i < 200; i++)
        value[i] = i + 1, want[i] = (i + 1) % 200 + 1;
    float *x = array_to_device(value, 200);
    int faults = 0;
    for (int order = 0; order < 3; order++) {
        kas_module *module = load(order);
        float *y = array_to_device(NULL, 600);
        run(module, "test_missing_barrier", 1, 1, 1, &(copy_args){x, y, 200}, sizeof(copy_args));
        got = array_from_device(y, 200);
        for (int i = 0; i < 200; i++)
            if (got[i] != want[i]) {
                faults++;
                break;
            }
        free(got);
        run(module, "test_reduce", 1, 1, 1, &(copy_args){x, y, 200}, sizeof(copy_args));
        got = array_from_device(y, 2);
        assert_true(got[0] == 20100 && got[1] == 200);
        free(got);
        OK(kas_mem_zero(the_device, y, 2400));
        run(module, "test_rows", 1, 1, 1, &(copy_args){x, y, 200}, sizeof(copy_args));
        got = array_from_device(y, 600);
        for (int i = 0; i < 600; i++)
            assert_true(got[i] == (i >= 6 && i < 597));
        free(got);
        kas_mem_free(the_device, y);
        kas_module_free(module);
    }
    print_message("a missing barrier showed in %d of 3 orders of lanes\n", faults);
    assert_true(faults >= 2);
    kas_mem_free(the_device, x);
}

TEST(test_philox)
{
    kas_module *module = load(0);
    uint32_t *memory, got[3 * 2 * 5 * 4], want[4];
    OK(kas_mem_alloc(the_device, sizeof got, (void **)&memory));
    run(module, "test_philox", 3, 2, 5, &memory, sizeof memory);
    OK(kas_mem_download(the_device, got, memory, sizeof got));
    for (uint32_t i = 0; i < 30; i++) {
        kas_philox4x32((uint32_t[4]){i % 3, i / 3 % 2, i / 6, 7}, (uint32_t[2]){1, 2}, want);
        assert_memory_equal(want, got + 4 * i, sizeof want);
    }
    kas_mem_free(the_device, memory);
    kas_module_free(module);
}

/* Relative, but absolute below `floor`, where sin and log pass through zero. */
static void check_math(const char *what, const double *x, size_t count, double floor,
                       double tolerance)
{
    enum { FUNCTIONS = 10 };
    static const char *const name[FUNCTIONS] = {
        "exp", "tanh", "erf", "sin", "cos", "sqrt", "log", "fma", "sin of GPUs", "cos of GPUs"};
    float *in = array_to_device(x, count), *out = array_to_device(NULL, FUNCTIONS * count);
    kas_module *module = load(0);
    run(module, "test_math", 1, 1, 1, &(copy_args){in, out, (int)count}, sizeof(copy_args));
    double *got = array_from_device(out, FUNCTIONS * count), worst = 0;
    for (size_t i = 0; i < count; i++) {
        const double v = (float)x[i];
        const double want[FUNCTIONS] = {exp(v),
                                        tanh(v),
                                        erf(v),
                                        sin(v),
                                        cos(v),
                                        sqrt(fabs(v)),
                                        log(v < 0.25 ? 0.25 : v), /* NaN stays NaN */
                                        v * fmin(v, 1) + 2,
                                        sin(v),
                                        cos(v)};
        for (int f = 0; f < FUNCTIONS; f++) {
            const double y = got[f * count + i];
            const bool nan = isnan(want[f]) && isnan(y);
            if (nan || (isinf((float)want[f]) && y == (double)(float)want[f]))
                continue;
            if (fabs(want[f]) < 0x1p-126 && y == 0) /* flushed: docs/dialect.md */
                continue;
            if (f >= 8 && fabs(v) > 1e6 && fabs(y) <= 1) /* no digits are promised there */
                continue;
            const double error = fabs(y - want[f]) / fmax(fabs(want[f]), floor);
            if (!(error <= tolerance))
                fail_msg("%s(%.9g) = %.9g, expected %.9g", name[f], v, y, want[f]);
            worst = fmax(worst, error);
        }
    }
    print_message("math, %s: largest relative error %.3g, tolerance %.3g\n", what, worst,
                  tolerance);
    free(got);
    kas_module_free(module);
    FREE(in, out);
}

TEST(test_math)
{
    enum { COUNT = 40001 };
    static double x[COUNT];
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)(i - COUNT / 2) / 1000;
    check_math("-20 to 20", x, COUNT, 1e-6, 3e-7);
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)(i - COUNT / 2) / 230;
    check_math("-87 to 87", x, COUNT, 1e-6, 3e-7);
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)exp(-80 + 0.004 * i) * (i % 2 ? 1 : -1); /* 1e-35 to 1e35 */
    check_math("tiny and small", x, 24000, 1e-38, 3e-7);       /* up to 9e6 */
    const double special[] = {0, -0.0, INFINITY, -INFINITY, NAN, 88.7, 88.8, 200, -103, -200};
    check_math("special", special, sizeof special / sizeof *special, 1e-30, 3e-7);
}

TEST(test_timer)
{
    kas_timer *timer;
    double seconds = -1;
    OK(kas_timer_create(the_device, &timer));
    OK(kas_timer_start(timer));
    OK(kas_timer_stop(timer, &seconds));
    assert_true(seconds >= 0 && seconds < 60);
    kas_timer_free(timer);
}

/* Each step has a time of its own, and is run. */
TEST(test_times_of_steps)
{
    enum { LARGE = 1 << 24 };
    kas_plan *plan;
    char *memory, last = 1;
    double seconds[3] = {-1, -1, -1};
    OK(kas_mem_alloc(the_device, LARGE, (void **)&memory));
    OK(kas_plan_create(the_device, &plan));
    OK(kas_plan_zero(plan, memory, 4));
    OK(kas_plan_zero(plan, memory, LARGE));
    OK(kas_plan_copy(plan, memory, memory + 4, 4));
    assert_int_equal(kas_plan_steps(plan), 3);
    for (int run = 0; run < 2; run++) {
        OK(kas_plan_time_steps(plan, seconds));
        assert_true(seconds[0] >= 0 && seconds[2] >= 0);
    }
    assert_true(seconds[1] > seconds[2]); /* the first run also met memory for the first time */
    OK(kas_mem_download(the_device, &last, memory + LARGE - 1, 1));
    assert_int_equal(last, 0);
    kas_plan_free(plan);
    kas_mem_free(the_device, memory);
}

/* Normal numbers of the deviation that was asked for; after a million of them the same come again. */
TEST(test_normal_numbers)
{
    enum { MILLION = 1 << 20, MORE = 5 };
    float *memory, *values = malloc((MILLION + MORE) * sizeof *values);
    double sum = 0, square = 0;
    kas_rng rng = kas_rng_make(1, KAS_PURPOSE_TEST, 0);
    OK(kas_mem_alloc(the_device, (MILLION + MORE) * sizeof *values, (void **)&memory));
    OK(kas_mem_fill_normal(the_device, memory, KAS_F32, MILLION + MORE, 0.1, &rng));
    OK(kas_mem_download(the_device, values, memory, (MILLION + MORE) * sizeof *values));
    for (int i = 0; i < MILLION; i++) {
        sum += values[i];
        square += (double)values[i] * values[i];
    }
    printf("mean %.2g, deviation %.5f\n", sum / MILLION, sqrt(square / MILLION));
    assert_true(fabs(sum / MILLION) <= 5e-4 && fabs(sqrt(square / MILLION) - 0.1) <= 5e-4);
    assert_memory_equal(values, values + MILLION, MORE * sizeof *values);
    kas_mem_free(the_device, memory);
    free(values);
}

TEST(test_texts)
{
    assert_non_null(strstr(kas_prelude_text, "#define KAS_LANES"));
    assert_non_null(strstr(kas_builtin_text[0], "KAS_KERNEL(kas_dev_add, kas_rows_args)"));
    assert_null(strstr(kas_builtin_text[0], "#include"));
    assert_null(strstr(kas_prelude_text, "#include"));
    int flags = 0;
    while (kas_device_code_flags[flags])
        flags++;
    assert_true(flags >= 5);
}

static int open_cpu(void **state)
{
    (void)state;
    return kas_device_open("cpu", 2, &the_device) != KAS_OK;
}

RUN_TESTS(open_cpu, close_the_device)

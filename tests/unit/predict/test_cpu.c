/* What a CPU's libraries and caches make of a launch. */
#include "support/test.h"

#include <math.h>

#include "host/device/cpu/cpu_conv.h"
#include "host/predict/cpu.h"
#include "host/predict/predict.h"
#include "support/sizes.h"

static double part_of(const kas_machine *m, const kas_conv_desc *d, kas_bound part)
{
    const kas_sweep pass = {.library = true, .conv = *d};
    return kas_predict_pass(m, &pass).part[part];
}

/* What a CPU's library computes: the taps inside the image, in whole vectors, and a broadcast of each
 * input. */
TEST(cpu_convolutions)
{
    kas_machine m;
    kas_conv_desc d = {.n = 8,
                       .h = 64,
                       .w = 16,
                       .c_in = 32,
                       .c_out = 16,
                       .groups = 1,
                       .kernel_h = 7,
                       .kernel_w = 1,
                       .stride = 1,
                       .dilation = 2,
                       .pad_h = 6};
    OK(kas_machine_find("cpu", "auto", 0, &m));
    const double tall = part_of(&m, &d, KAS_BOUND_ARITHMETIC);
    d.c_out = 32; /* two multiply-adds for each broadcast, where there was one */
    assert_true(fabs(part_of(&m, &d, KAS_BOUND_ARITHMETIC) / tall - 1.5) < 1e-9);
    d.c_out = 16;
    d.h = 8; /* of 7 * 8 taps that are 2 apart 32 lie inside; of 7 * 64 taps 424 */
    assert_true(fabs(part_of(&m, &d, KAS_BOUND_ARITHMETIC) / tall - 32.0 / 424) < 1e-9);
    d.groups = 32; /* depthwise: all lanes are used, and copies count as two taps more */
    d.c_out = 32;
    const double many = part_of(&m, &d, KAS_BOUND_ARITHMETIC);
    d.h = 64;
    assert_true(fabs(part_of(&m, &d, KAS_BOUND_ARITHMETIC) / many -
                     8 * (424.0 / 64 + 2) / (32.0 / 8 + 2)) < 1e-9);
}

/* Checks whether a machine computes a convolution over lines of pixels, with as many multiply-adds as
 * those say, whatever this processor has. */
static void check_lines(const char *machine, const kas_conv_desc *d, bool pays)
{
    kas_machine m;
    OK(kas_machine_find(machine, "auto", 0, &m));
    assert_int_equal(kas_lines_pay(d, KAS_CONV_FORWARD, (int)m.lanes), pays);
    const double macs = part_of(&m, d, KAS_BOUND_ARITHMETIC) * m.rate[KAS_PRECISION_FP32] *
                        m.efficiency[KAS_CONV_DEPTHWISE];
    assert_int_equal(fabs(macs / kas_lines_macs(d) - 1) < 1e-9, pays);
}

/* Few channels of a group, and with AVX-512 maps of more than 32 channels to very few. */
TEST(cpu_lines)
{
    kas_conv_desc d = CONV_OF(8, 32, 16, 16, 8, 3, 1, .x_pitch = 16, .y_pitch = 16);
    check_lines("cpu", &d, true);
    check_lines("cpu-avx2", &d, true);
    d.groups = d.kernel_h = d.kernel_w = 1;
    d.pad_h = d.pad_w = 0;
    d.c_in = d.x_pitch = 48;
    d.c_out = 2;
    check_lines("cpu", &d, true);
    check_lines("cpu-avx2", &d, false);
}

/* A kernel's weights are copied in every call, an activation is a pass over the result, and pieces
 * do not find the network's tensors in the nearest cache. */
TEST(cpu_passes)
{
    kas_machine m;
    kas_operation op = {.grid = {64, 1, 1}, .block = {256, 1, 1}, .times = 8};
    kas_sweep conv = {.library = true, .bytes = 1e5, .conv = CONV_OF(8, 8, 64, 64, 1, 1, 1)};
    OK(kas_machine_find("cpu", "auto", 0, &m));
    const double held = kas_predict_pass(&m, &conv).part[KAS_BOUND_MEMORY];
    conv.activated = true;
    const double activated = kas_predict_pass(&m, &conv).part[KAS_BOUND_MEMORY];
    assert_true(fabs(activated - held - 2.0 * 8 * 64 * 64 * 4 / m.inner_bandwidth) < 1e-12);
    conv.activated = false;
    conv.kernel = &(kas_operation){.times = 1};
    const double copied = kas_predict_pass(&m, &conv).part[KAS_BOUND_MEMORY];
    assert_true(fabs(copied - held - 2.0 * 64 * 64 * 4 / m.inner_bandwidth) < 1e-12);

    kas_sweep pass = {.kernel = &op, .bytes = 8 * m.inner_bytes / 4};
    const double near = kas_predict_pass(&m, &pass).part[KAS_BOUND_MEMORY];
    pass.far = pass.bytes;
    const double far = kas_predict_pass(&m, &pass).part[KAS_BOUND_MEMORY];
    assert_true(fabs(near - pass.bytes / m.inner_bandwidth) < 1e-12);
    assert_true(fabs(far - pass.bytes / m.outer_bandwidth) < 1e-12);
}

/* Matrix products take what oneDNN's matmul took for them on one core of an EPYC (Zen 3, 50 G
 * multiply-adds a second; called alone, the least of 60 runs), within a third. Small ones are
 * convolutions in groups. */
TEST(cpu_products)
{
    static const struct {
        int groups, m, k, n;
        double seconds;
    } measured[] = {{32, 32, 256, 32, 227e-6},   {32, 32, 32, 256, 248e-6},
                    {128, 8, 256, 8, 146e-6},    {32, 16, 1024, 16, 319e-6},
                    {32, 256, 32, 256, 1804e-6}, {64, 16, 64, 16, 56e-6},
                    {32, 49, 512, 49, 1165e-6},  {32, 256, 16, 16, 86e-6}};
    kas_machine m;
    OK(kas_machine_find("cpu", "auto", 0, &m));
    m.rate[KAS_PRECISION_FP32] = 50e9;
    kas_conv_desc d = {.n = 1, .h = 1, .kernel_h = 1, .kernel_w = 1, .stride = 1};
    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++) {
        d.groups = measured[i].groups;
        d.w = measured[i].m;
        d.c_in = d.groups * measured[i].k;
        d.c_out = d.groups * measured[i].n;
        assert_true(kas_products_pay(&d, KAS_CONV_FORWARD));
        const double ratio = kas_cpu_conv_seconds(&m, &d, KAS_CONV_FORWARD) / measured[i].seconds;
        if (ratio < 0.75 || ratio > 1.33)
            fail_msg("product %zu: predicted %.2f of the time", i, ratio);
    }
    d.w = 8;
    assert_false(kas_products_pay(&d, KAS_CONV_FORWARD));
    assert_false(kas_products_pay(&d, KAS_CONV_BACKWARD_WEIGHTS)); /* sums of 8 terms */
}

RUN_TESTS()

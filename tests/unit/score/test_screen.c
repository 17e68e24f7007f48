/* The screen: known gains on the CPU device, and kernels that lose or blow up their signal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/net/targets.h"
#include "host/reference/kernel/reference.h"
#include "host/score/screen.h"
#include "host/space/file/kernel_json.h"

static kas_device *device;
static kas_net *net;
static kas_target *target;
static int targets;

static int set_up(void **state)
{
    (void)state;
    return kas_device_open("cpu", 1, &device) == KAS_OK &&
                   kas_net_build("resnet20", 8, 8, 3, 10, &net) == KAS_OK &&
                   kas_net_targets(net, NULL, &target, &targets) == KAS_OK
               ? 0
               : -1;
}

static int tear_down(void **state)
{
    (void)state;
    free(target);
    kas_net_free(net);
    kas_device_close(device);
    return 0;
}

static void make(const char *nodes, kas_replacement *out)
{
    char text[1024];
    snprintf(text, sizeof text,
             "{\"format\":\"kas-gpu kernel\",\"version\":1,\"nodes\":[{\"op\":\"input\"},%s]}",
             nodes);
    kas_budget budget = {0};
    kas_kernel kernel;
    if (kas_kernel_read_json("test", text, strlen(text), &kernel) != KAS_OK ||
        kas_replacement_solve(&kernel, 1, NULL, target, targets, &budget, out) != KAS_OK)
        fail_msg("%s", kas_error());
}

static kas_screen screen(const char *nodes, uint64_t seed)
{
    kas_replacement replacement;
    kas_screen out;
    memset(&out, 0xff, sizeof out);
    make(nodes, &replacement);
    kas_programs programs;
    if (kas_programs_build(&replacement,
                           &(kas_program_options){.batch = 2,
                                                  .linear_policy = kas_linear_policy_of(
                                                      kas_device_get_info(device)->arch)},
                           &programs) != KAS_OK ||
        kas_screen_kernel(device, &programs, seed, NULL, &out) != KAS_OK)
        fail_msg("%s", kas_error());
    kas_programs_free(&programs);
    kas_replacement_free(&replacement);
    return out;
}

static void assert_std(const kas_screen *s, double expected, double tolerance)
{
    double worst = fmax(fabs(s->std_min - expected), fabs(s->std_max - expected));
    print_message("largest error %.3g, tolerance %.3g\n", worst, tolerance);
    assert_true(s->finite && worst <= tolerance);
}

static const char fc[] = "{\"op\":\"fc\",\"in\":[0],\"out\":\"C\"}";

/* Unit gain; the standard deviation of ReLU of a normal number is sqrt(1/2 - 1/(2 pi)). */
static void known_gains(void **state)
{
    (void)state;
    kas_screen s = screen(fc, 1);
    assert_std(&s, 1, 0.15);
    assert_true(kas_screen_passes(&s));
    s = screen("{\"op\":\"fc\",\"in\":[0],\"out\":\"C\"},{\"op\":\"relu\",\"in\":[1]}", 1);
    assert_std(&s, sqrt(0.5 - 0.5 / M_PI), 0.15);
    s = screen("{\"op\":\"unfold\",\"in\":[0],\"axes\":\"hw\"},"
               "{\"op\":\"fc\",\"in\":[1],\"out\":\"C\"}",
               1);
    /* a convolution: zero padding takes some of the variance, most on the 2x2 images */
    assert_true(s.finite && s.std_min >= 0.5 && s.std_max <= 1.2);
}

static void same_seed_same_figures(void **state)
{
    (void)state;
    kas_screen a = screen(fc, 7), b = screen(fc, 7), c = screen(fc, 8);
    assert_true(a.std_min == b.std_min && a.std_max == b.std_max);
    assert_string_equal(a.worst, b.worst);
    assert_true(a.std_min != c.std_min);
}

static void lost_signal(void **state)
{
    (void)state;
    kas_screen s = screen("{\"op\":\"fc\",\"in\":[0],\"out\":\"C\"},"
                          "{\"op\":\"sub\",\"in\":[1,1]}",
                          1);
    assert_true(s.finite && s.std_max == 0);
    assert_false(kas_screen_passes(&s));
    assert_true(s.worst[0]);
}

static void blown_up_signal(void **state)
{
    (void)state;
    kas_screen s = screen("{\"op\":\"fc\",\"in\":[0],\"out\":\"C\"},{\"op\":\"exp\",\"in\":[1]},"
                          "{\"op\":\"square\",\"in\":[2]},{\"op\":\"square\",\"in\":[3]}",
                          1);
    assert_true(s.finite && s.std_max > KAS_SCREEN_STD_HIGH);
    assert_false(kas_screen_passes(&s));
}

/* `check` asks the reference instead of a device: other draws, the same answer. */
static void the_reference_agrees(void **state)
{
    (void)state;
    static const struct {
        const char *nodes;
        double low, high;
    } cases[] = {{"{\"op\":\"fc\",\"in\":[0],\"out\":\"C\"}", 0.85, 1.15},
                 {"{\"op\":\"fc\",\"in\":[0],\"out\":\"C\"},{\"op\":\"sub\",\"in\":[1,1]}", 0, 0},
                 {"{\"op\":\"fc\",\"in\":[0],\"out\":\"C\"},{\"op\":\"exp\",\"in\":[1]},"
                  "{\"op\":\"square\",\"in\":[2]},{\"op\":\"square\",\"in\":[3]}",
                  KAS_SCREEN_STD_HIGH, 1e9}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kas_replacement r;
        double first = NAN, again = NAN, largest = 0;
        make(cases[i].nodes, &r);
        for (int t = 0; t < targets; t++) {
            assert_int_equal(kas_reference_output_deviation(r.kernel, &target[t],
                                                            &r.solution.binding[t], 2, 1, &first),
                             KAS_OK);
            assert_true(first >= cases[i].low || i == 2);
            largest = fmax(largest, first);
        }
        assert_true(largest >= cases[i].low && largest <= cases[i].high);
        assert_int_equal(kas_reference_output_deviation(r.kernel, &target[targets - 1],
                                                        &r.solution.binding[targets - 1], 2, 1,
                                                        &again),
                         KAS_OK);
        assert_true(first == again);
        kas_replacement_free(&r);
    }
}

static void limits(void **state)
{
    (void)state;
    kas_screen s = {.finite = true, .std_min = 0.01, .std_max = 100};
    assert_true(kas_screen_passes(&s));
    s.std_min = 0.0099;
    assert_false(kas_screen_passes(&s));
    s = (kas_screen){.finite = true, .std_min = 1, .std_max = 100.1};
    assert_false(kas_screen_passes(&s));
    s = (kas_screen){.finite = false, .std_min = 1, .std_max = 1};
    assert_false(kas_screen_passes(&s));
    s = (kas_screen){.finite = true, .std_min = NAN, .std_max = NAN};
    assert_false(kas_screen_passes(&s));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_gains),          cmocka_unit_test(same_seed_same_figures),
        cmocka_unit_test(lost_signal),          cmocka_unit_test(blown_up_signal),
        cmocka_unit_test(the_reference_agrees), cmocka_unit_test(limits),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

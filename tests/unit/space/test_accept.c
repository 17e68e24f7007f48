/* The replay of given kernels with the sampler's own steps. */
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "support/build.h"
#include "support/accept.h"
#include "host/space/file/kernel_json.h"
#include "host/space/sample/sampler.h"

#define HW (KAS_AXIS_H | KAS_AXIS_W)

static const kas_target targets[] = {
    KAS_TARGET_PLAIN("a", 64, 32, 32, 3),
    KAS_TARGET_PLAIN("b", 128, 16, 16, 3),
};
enum { TARGETS = 2 };

static kas_sample_options any_length(void)
{
    kas_sample_options o = kas_sample_defaults();
    o.min_primitives = 1;
    o.max_primitives = 24;
    return o;
}

static void assert_accepted(const kas_kernel *k, const char *refused)
{
    kas_sample_options o = any_length();
    kas_buf reason = {0};
    kas_status status = kas_sampler_accepts(k, targets, TARGETS, &o, &reason);
    if (!refused && status != KAS_OK)
        fail_msg("refused: %s", kas_buf_text(&reason));
    if (refused && (status != KAS_ILLEGAL || !strstr(kas_buf_text(&reason), refused)))
        fail_msg("status %d, \"%s\" instead of \"%s\"", status, kas_buf_text(&reason), refused);
    kas_buf_free(&reason);
}

TEST(test_known_kernels_are_reachable)
{
    static const char *const names[] = {
        "conv",       "depthwise_separable", "group_conv",        "shift_conv",
        "involution", "squeeze_excite",      "spatial_separable", "residual"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[96];
        kas_kernel k;
        snprintf(path, sizeof path, "kernels/%s.json", names[i]);
        OK(kas_kernel_read_file(path, &k));
        print_message("%s\n", names[i]);
        assert_accepted(&k, NULL);
    }
}

/* Whatever the sampler makes, it accepts: the canonical numbering is not the one of its growth. */
TEST(test_samples_are_accepted)
{
    kas_sample_options o = kas_sample_defaults();
    kas_sampler *sampler;
    o.seed = 5;
    assert_int_equal(kas_sampler_create(&o, targets, TARGETS, &sampler), KAS_OK);
    for (int n = 0; n < 500; n++) {
        kas_sample s;
        assert_int_equal(kas_sampler_next(sampler, 0, &s), KAS_OK);
        assert_accepted(s.replacement.kernel, NULL);
        kas_sample_free(&s);
    }
    kas_sampler_free(sampler);
}

/* Where every convolution is 3x3 the sampler never says 3: K_H x K_W is the same window. */
TEST(test_a_window_by_another_name)
{
    kas_kernel k = {0};
    int x = kas_build_unfold_window(&k, kas_build_input(&k), HW, 3, 0);
    kas_build_fc(&k, x, false, "C");
    assert_accepted(&k, NULL);
}

TEST(test_refusals)
{
    kas_kernel k = {0};
    int x = kas_build_input(&k);
    x = kas_build_elementwise(&k, KAS_OP_RELU, kas_build_elementwise(&k, KAS_OP_RELU, x));
    kas_build_fc(&k, kas_build_unfold(&k, x, HW), false, "C");
    assert_accepted(&k, "node 2 (relu): a pruning rule");
    k = (kas_kernel){0};
    kas_build_fc(&k, kas_build_input(&k), false, "C");
    assert_accepted(&k, "sees one pixel");
    k = (kas_kernel){0};
    kas_build_shift(&k, kas_build_elementwise(&k, KAS_OP_SIN, kas_build_input(&k)), KAS_AXIS_H, 1);
    assert_accepted(&k, "no weight");
    k = (kas_kernel){.group_value = {3}};
    x = kas_build_group(&k, kas_build_input(&k), 0, 0);
    kas_build_fc(&k, kas_build_unfold(&k, x, HW), true, "C");
    assert_accepted(&k, "G0 does not divide");
    k = (kas_kernel){.group_value = {4, 8}};
    x = kas_build_group(&k, kas_build_input(&k), 0, 1);
    kas_build_fc(&k, kas_build_unfold(&k, x, HW), true, "C");
    assert_accepted(&k, "one group number");
    k = (kas_kernel){0};
    x = kas_build_input(&k);
    int sine = kas_build_elementwise(&k, KAS_OP_SIN, x),
        shifted = kas_build_shift(&k, x, KAS_AXIS_W, 1);
    kas_build_fc(&k, kas_build_broadcast(&k, KAS_OP_MUL, sine, shifted), false, "C");
    assert_accepted(&k, NULL);
    kas_sample_options narrow = any_length();
    kas_buf reason = {0};
    narrow.max_width = 1;
    assert_int_equal(kas_sampler_accepts(&k, targets, TARGETS, &narrow, &reason), KAS_ILLEGAL);
    assert_string_equal(kas_buf_text(&reason), "node 2 (shift): too many leaves, or more than the "
                                               "primitives left can merge");
    kas_buf_free(&reason);
    narrow.min_primitives = 5;
    assert_int_equal(kas_sampler_accepts(&k, targets, TARGETS, &narrow, &reason), KAS_ILLEGAL);
    kas_buf_free(&reason);
}

RUN_TESTS()

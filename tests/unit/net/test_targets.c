/* Which convolutions are replaced, and with what shapes. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "support/layers.h"
#include "host/net/targets.h"

static kas_target *targets_of(const char *name, const char *filter, int *count, double *share)
{
    kas_net *net = NULL;
    kas_target *targets = NULL;
    assert_int_equal(kas_net_build(name, 32, 32, 3, 100, &net), KAS_OK);
    assert_int_equal(kas_net_targets(net, filter, &targets, count), KAS_OK);
    *share = kas_targets_flops_share(net, targets, *count);
    kas_net_free(net);
    return targets;
}

TEST(all_but_the_stem)
{
    int count;
    double share;
    kas_target *t = targets_of("resnet20", NULL, &count, &share);
    assert_int_equal(count, 18);
    assert_string_equal(t[0].name, "layer1.0.conv1");
    assert_string_equal(t[17].name, "layer3.2.conv2");
    /* 40.54 of 41.5 million: nearly everything but stem, batch norms and sums */
    print_message("resnet20: %d targets hold %.4f of the FLOPs\n", count, share);
    assert_true(share > 0.96 && share < 0.98);
    free(t);
    t = targets_of("resnet18", NULL, &count, &share);
    assert_int_equal(count, 16 + 3); /* the 1x1 shortcuts too */
    free(t);
}

TEST(filter_narrows)
{
    int count;
    double all, one, three;
    free(targets_of("resnet18", "3x3,1x1", &count, &all));
    assert_int_equal(count, 19);
    kas_target *t = targets_of("resnet18", "1x1", &count, &one);
    assert_int_equal(count, 3);
    assert_string_equal(t[0].name, "layer2.0.downsample.0");
    assert_int_equal(t[0].kernel_h, 1);
    free(t);
    free(targets_of("resnet18", "3x3", &count, &three));
    assert_int_equal(count, 16);
    assert_true(one > 0 && one + three <= all + 1e-12 && one + three >= all - 1e-12);
}

TEST(widening_and_stride)
{
    int count;
    double share;
    kas_target *t = targets_of("resnet20", "3x3", &count, &share);
    const kas_target *wide = &t[6]; /* layer2.0.conv1: 16 -> 32 channels, stride 2 */
    assert_string_equal(wide->name, "layer2.0.conv1");
    assert_int_equal(wide->c_in, 16);
    assert_int_equal(wide->c_out, 32);
    assert_int_equal(wide->c, 16);
    assert_int_equal(wide->parts_in, 1);
    assert_int_equal(wide->parts_out, 2);
    assert_int_equal(wide->stride, 2);
    assert_int_equal(wide->h, 16); /* of the output */
    free(t);
}

/* 32 -> 48 and 48 -> 32 channels: neither divides the other; grouped, "valid" and 4x4 ones stay. */
TEST(awkward_convolutions)
{
    kas_builder b;
    kas_builder_start(&b, "test", 8, 8, 3, 2);
    int x = kas_builder_conv(&b, 0, "stem", 32, 3, 1);
    x = kas_builder_conv(&b, x, "up", 48, 5, 1);
    x = kas_builder_conv(&b, x, "down", 32, 7, 1);
    x = kas_builder_conv(&b, x, "grouped", 32, 3, 1);
    x = kas_builder_conv(&b, x, "valid", 32, 3, 1);
    kas_builder_conv(&b, x, "even", 32, 4, 1);
    kas_net *net = NULL;
    assert_int_equal(kas_builder_finish(&b, &net), KAS_OK);
    net->layer[4].groups = 2;
    net->layer[5].pad_h = 0;
    kas_target *t = NULL;
    int count = 0;
    assert_int_equal(kas_net_targets(net, NULL, &t, &count), KAS_OK);
    assert_int_equal(count, 2);
    assert_int_equal(t[0].c, 16);
    assert_int_equal(t[0].parts_in, 2);
    assert_int_equal(t[0].parts_out, 3);
    assert_int_equal(t[0].kernel_h, 5);
    assert_int_equal(t[1].parts_in, 3);
    assert_int_equal(t[1].parts_out, 2);
    free(t);
    kas_net_free(net);
}

TEST(bad_filters_are_explained)
{
    kas_net *net = NULL;
    assert_int_equal(kas_net_build("resnet20", 32, 32, 3, 10, &net), KAS_OK);
    static const char *const bad[] = {"",     "3",    "3x",    "3x4",      "2x2",   "3x3,",
                                      ",3x3", "3X3",  "33x33", "3x3 ,1x1", "9x9",   "3x3;1x1",
                                      "axa",  "3x3x", "3x3,,", "3x3, 1x1", "-3x-3", "0x0"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        kas_target *t = NULL;
        int count = 0;
        assert_int_equal(kas_net_targets(net, bad[i], &t, &count), KAS_USAGE);
        assert_non_null(strstr(kas_error(), bad[i]));
        assert_null(t);
    }
    kas_target *t = NULL;
    int count = 0;
    assert_int_equal(kas_net_targets(net, "7x7", &t, &count), KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "7x7"));
    kas_net_free(net);
}

RUN_TESTS()

/* Descriptions of networks: parameters as published, names as torchvision's, shapes at any size. */
#include "support/test.h"

#include <string.h>

#include "host/core/embedded.h"
#include "host/net/net.h"

static kas_net *build(const char *name, int h, int w, int c, int classes)
{
    kas_net *net = NULL;
    assert_int_equal(kas_net_build(name, h, w, c, classes, &net), KAS_OK);
    return net;
}

static int find(const kas_net *net, const char *name)
{
    for (int i = 0; i < net->layers; i++)
        if (strcmp(net->layer[i].name, name) == 0)
            return i;
    return -1;
}

TEST(parameters_as_published)
{
    static const struct {
        const char *name;
        int classes;
        double params;
    } cases[] = {{"resnet20", 10, 269722},
                 {"resnet20", 100, 269722 + 90 * 65},
                 {"resnet18", 10, 11173962},
                 {"resnet18", 100, 11173962 + 90 * 513}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kas_net *net = build(cases[i].name, 32, 32, 3, cases[i].classes);
        print_message("%s, %d classes: %.0f parameters, expected %.0f\n", cases[i].name,
                      cases[i].classes, kas_net_params(net), cases[i].params);
        assert_true(kas_net_params(net) == cases[i].params);
        kas_net_free(net);
    }
}

/* Convolutions and the classifier of ResNet-20 at 32x32: 40.55 million multiply-adds (He et al.);
 * the rest are one operation an element, counted here by hand. */
TEST(flops_by_hand)
{
    kas_net *net = build("resnet20", 32, 32, 3, 10);
    double convs = 3 * 16 * 9 * 1024.0; /* stem */
    convs += 6 * 16 * 16 * 9 * 1024.0;
    convs += (16 * 32 + 5 * 32 * 32) * 9 * 256.0;
    convs += (32 * 64 + 5 * 64 * 64) * 9 * 64.0;
    double elements = 16 * 1024.0, rest = 0;
    rest += elements * 2;           /* stem: batch norm, ReLU */
    rest += 3 * 5 * elements;       /* a block: 2 batch norms, 2 ReLUs, 1 sum */
    rest += 3 * 5 * (elements / 2); /* 32 channels on a quarter of the pixels */
    rest += 3 * 5 * (elements / 4);
    rest += elements / 4; /* global pool */
    rest += 64 * 10 + 10; /* classifier */
    print_message("resnet20: %.0f FLOPs, expected %.0f\n", kas_net_flops(net), convs + rest);
    assert_true(kas_net_flops(net) == convs + rest);
    assert_true(convs > 40.5e6 && convs < 40.6e6);
    kas_net_free(net);
}

TEST(layers_are_named_as_in_torchvision)
{
    static const char *const names[] = {"conv1",
                                        "bn1",
                                        "layer1.0.conv1",
                                        "layer1.0.bn1",
                                        "layer4.1.conv2",
                                        "layer2.0.downsample.0",
                                        "fc",
                                        "layer2.0.downsample.1"};
    kas_net *net = build("resnet18", 32, 32, 3, 10);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_true(find(net, names[i]) > 0);
    assert_int_equal(find(net, "layer1.0.downsample.0"), -1);
    kas_net_free(net);
    net = build("resnet20", 32, 32, 3, 10);
    assert_true(find(net, "layer3.2.conv2") > 0);
    assert_int_equal(find(net, "layer4.0.conv1"), -1);
    kas_net_free(net);
}

static void assert_consistent(const kas_net *net)
{
    int stems = 0, last = net->layers - 1;
    for (int i = 1; i < net->layers; i++) {
        const kas_layer *l = &net->layer[i];
        assert_int_equal(find(net, l->name), i); /* names are unique */
        assert_true(l->h >= 1 && l->w >= 1 && l->c >= 1);
        stems += l->stem;
        for (int k = 0; k < l->inputs; k++)
            assert_in_range(l->in[k], 0, i - 1);
        assert_int_equal(l->inputs > 1, l->op == KAS_LAYER_ADD || l->op == KAS_LAYER_CONCAT);
        if (l->op == KAS_LAYER_ADD) {
            assert_int_equal(l->h, net->layer[l->in[1]].h);
            assert_int_equal(l->c, net->layer[l->in[1]].c);
        }
    }
    assert_int_equal(stems, 1);
    assert_int_equal(net->layer[last].op, KAS_LAYER_LINEAR);
    assert_int_equal(net->layer[last].c, 7);
}

/* Inputs come before the layer, shapes agree at sums, the last layer gives the logits: at odd sizes
 * and other channel counts too.  An image that is too small for a network is said to be. */
TEST(descriptions_are_consistent)
{
    static const int sizes[][3] = {{32, 32, 3}, {64, 33, 1}, {224, 224, 3}, {97, 130, 4},
                                   {28, 28, 1}, {31, 17, 4}, {1, 1, 1}};
    enum { LARGE_ENOUGH = 4 }; /* for every network */
    int small = 0;
    for (const kas_embedded *e = kas_embedded_networks; e->name; e++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            kas_net *net = NULL;
            kas_status status =
                kas_net_build(e->name, sizes[s][0], sizes[s][1], sizes[s][2], 7, &net);
            if (status == KAS_OK) {
                assert_consistent(net);
                kas_net_free(net);
                continue;
            }
            assert_int_equal(status, KAS_BAD_INPUT);
            assert_non_null(strstr(kas_error(), "expected a larger image"));
            assert_true(s >= LARGE_ENOUGH);
            small++;
        }
    assert_in_range(small, 5, 10); /* VGG and DenseNets, whose pools drop what does not fit */
}

TEST(bad_requests_are_explained)
{
    kas_net *net = NULL;
    assert_int_equal(kas_net_build("resnet21", 32, 32, 3, 10, &net), KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "resnet20"));
    assert_non_null(strstr(kas_error(), "resnet21"));
    assert_int_equal(kas_net_build("resnet20", 0, 32, 3, 10, &net), KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "height"));
    assert_int_equal(kas_net_build("resnet20", 32, 32, 3, 1, &net), KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "classes"));
    assert_null(net);
}

RUN_TESTS()

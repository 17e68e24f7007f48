/* Parameters and multiply-adds of every network, against figures that others published. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "host/net/targets.h"

/* Where a figure is from. */
#define TORCHVISION "torchvision's documentation: num_params and GFLOPS of the model's weights"
#define TRUNK                                                                                      \
    "torchvision's num_params with a classifier of 10: the small stem has the same weights"
#define HUYVNPHAN                                                                                  \
    "github.com/huyvnphan/PyTorch_CIFAR10, No. Params (torchvision's networks for CIFAR-10)"
#define CHENYAOFO "github.com/chenyaofo/pytorch-cifar-models, #Params and #MAdds on CIFAR-10"
#define NATS                                                                                       \
    "NAS-Bench-201 (Dong and Yang 2020): params and flops of its API, in millions, on CIFAR-10"
#define KUANGLIU                                                                                   \
    "github.com/kuangliu/pytorch-cifar at 49b7aa9, its model built and its parameters counted"

static const struct figure {
    const char *net;
    int side, classes;
    double params, params_unit; /* published, and the unit in which it is rounded: 1 = exact */
    double madds, madds_unit;   /* 0 = none published */
    const char *source;
} figures[] = {
    {"resnet18", 224, 1000, 11689512, 1, 1.81e9, 1e7, TORCHVISION},
    {"resnet34", 224, 1000, 21797672, 1, 3.66e9, 1e7, TORCHVISION},
    {"vgg16_bn", 224, 1000, 138365992, 1, 15.47e9, 1e7, TORCHVISION},
    {"densenet161", 224, 1000, 28681000, 1, 7.73e9, 1e7, TORCHVISION},
    {"densenet169", 224, 1000, 14149480, 1, 3.36e9, 1e7, TORCHVISION},
    {"densenet201", 224, 1000, 20013928, 1, 4.29e9, 1e7, TORCHVISION},
    {"mobilenet_v2", 224, 1000, 3504872, 1, 0.30e9, 1e7, TORCHVISION},
    {"regnet_x_800mf", 224, 1000, 7259656, 1, 0.80e9, 1e7, TORCHVISION},
    {"mnasnet1_0", 224, 1000, 4383312, 1, 0.31e9, 1e7, TORCHVISION},
    {"resnet18", 32, 10, 11173962, 1, 0, 0, KUANGLIU},
    {"resnet34", 32, 10, 21282122, 1, 0, 0, KUANGLIU},
    {"resnet34", 32, 10, 21.282e6, 1e3, 0, 0, HUYVNPHAN},
    {"vgg16_bn", 32, 10, 33.647e6, 1e3, 0, 0, HUYVNPHAN},
    /* 26,482,378 there; the batch norm of 2 x 96 behind the stem, which it leaves out, is kept. */
    {"densenet161", 32, 10, 26482378 + 2 * 96, 1, 0, 0, KUANGLIU},
    {"densenet161", 32, 10, 26.483e6, 1e3, 0, 0, HUYVNPHAN},
    {"densenet169", 32, 10, 12.493e6, 1e3, 0, 0, HUYVNPHAN},
    {"mobilenet_v2", 32, 10, 2.237e6, 1e3, 0, 0, HUYVNPHAN},
    {"mobilenet_v2", 32, 10, 2.24e6, 1e4, 87.98e6, 1e4, CHENYAOFO},
    {"regnet_x_800mf", 32, 10, 7259656 - 990 * 673, 1, 0, 0, TRUNK},
    {"mnasnet1_0", 32, 10, 4383312 - 990 * 1281, 1, 0, 0, TRUNK},
    {"resnet20", 32, 10, 0.27e6, 1e4, 40.6e6, 1e5, "He et al. 2015, table 6: 0.27 M"},
    /* 9,128,778 there, with a stem of 1x1; the paper's is 3x3. */
    {"resnext29_2x64d", 32, 10, 9128778 + 8 * 3 * 64, 1, 0, 0, KUANGLIU},
    {"nb201", 32, 10, 1.531546e6, 1, 220.11969e6, 1e2, NATS},       /* all edges 3x3 */
    {"nb201:cell=25", 32, 10, 0.073306e6, 1, 7.78305e6, 1e2, NATS}, /* 3-0 skip_connect */
};

static kas_net *build(const char *name, int side, int classes)
{
    kas_net *net = NULL;
    OK(kas_net_build(name, side, side, 3, classes, &net));
    return net;
}

static bool rounds_to(double value, double published, double unit)
{
    return fabs(value - published) <= (unit == 1 ? 0 : unit / 2);
}

TEST(counts_agree)
{
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        const struct figure *f = &figures[i];
        kas_net *net = build(f->net, f->side, f->classes);
        double params = kas_net_params(net), madds = kas_net_multiply_adds(net);
        print_message("%-16s %3d: %9.0f parameters (%9.0f), %11.0f multiply-adds (%.4g)  %s\n",
                      f->net, f->side, params, f->params, madds, f->madds, f->source);
        assert_true(rounds_to(params, f->params, f->params_unit));
        assert_true(f->madds == 0 || rounds_to(madds, f->madds, f->madds_unit));
        kas_net_free(net);
    }
}

/* ResNet-29 from the template of Xie et al. 2016, section 5.3, added up by hand. */
TEST(resnet29_by_hand)
{
    double sum = 9 * 3 * 64 + 2 * 64, c = 64;
    for (int stage = 0; stage < 3; stage++) {
        double inner = 64 << stage, out = 4 * inner;
        sum += c * out + 2 * out; /* shortcut of the first block */
        for (int block = 0; block < 3; block++, c = out)
            sum += c * inner + 9 * inner * inner + inner * out + 2 * (inner + inner + out);
    }
    sum += c * 10 + 10;
    kas_net *net = build("resnet29", 32, 10);
    print_message("resnet29: %.0f parameters, expected %.0f\n", kas_net_params(net), sum);
    assert_true(kas_net_params(net) == sum);
    kas_net_free(net);
}

/* The edges of NAS-Bench-201's cells that lie on a path from node 0 to node 3, found by following all
 * paths, as bits in the order of the digits. */
static int edges_on_paths(const int op[6])
{
    static const int paths[] = {1 << 3, 1 << 0 | 1 << 4, 1 << 1 | 1 << 5, 1 << 0 | 1 << 2 | 1 << 5};
    int joined = 0;
    for (size_t p = 0; p < sizeof paths / sizeof *paths; p++) {
        bool whole = true;
        for (int e = 0; e < 6; e++)
            whole = whole && (!(paths[p] & 1 << e) || op[e] > 0);
        joined |= whole ? paths[p] : 0;
    }
    return joined;
}

#ifdef __SANITIZE_ADDRESS__
enum { EVERY = 13 };
#else
enum { EVERY = 1 };
#endif

/* All 15,625 cells, and every 13th under the sanitizer, which takes four times as long: each has the
 * operations of its digits on its paths, or no path and no network. */
TEST(every_cell_has_its_network)
{
    int refused = 0;
    for (int cell = 0; cell < 15625; cell += EVERY) {
        const int op[6] = {cell / 3125,   cell / 625 % 5, cell / 125 % 5,
                           cell / 25 % 5, cell / 5 % 5,   cell % 5};
        const int joined = edges_on_paths(op);
        int found[5] = {0}, wanted[5] = {0};
        char name[64];
        kas_net *net = NULL;
        snprintf(name, sizeof name, "nb201:cell=%d,n=1,width=2", cell);
        const kas_status status = kas_net_build(name, 4, 4, 3, 2, &net);
        refused += status != KAS_OK;
        if ((status == KAS_OK) != (joined != 0))
            fail_msg("%s: %s", name, status == KAS_OK ? "it has no path" : kas_error());
        if (status != KAS_OK)
            continue;
        for (int e = 0; e < 6; e++)
            wanted[op[e]] += (joined >> e & 1) * 3; /* three cells */
        for (int i = 0; i < net->layers; i++) {
            const kas_layer *l = &net->layer[i];
            const bool in_cell = strncmp(l->name, "cells", 5) == 0;
            found[1] += in_cell && strstr(l->name, ".skip");
            found[2] += in_cell && l->op == KAS_LAYER_CONV && l->kernel_h == 1;
            found[3] += in_cell && l->op == KAS_LAYER_CONV && l->kernel_h == 3;
            found[4] += in_cell && l->op == KAS_LAYER_AVG_POOL;
        }
        for (int o = 1; o < 5; o++)
            if (found[o] != wanted[o])
                fail_msg("%s: %d layers of operation %d, not %d", name, found[o], o, wanted[o]);
        kas_net_free(net);
    }
    print_message("%d cells have no path\n", refused);
    kas_net *none = NULL;
    assert_int_equal(kas_net_build("nb201:cell=0", 4, 4, 3, 2, &none), KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "the cell has no path from its input to its result"));
    assert_int_equal(kas_net_build("nb201:cell=15625", 4, 4, 3, 2, &none), KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "cell is the number of a cell, 0 to 15624"));
    assert_int_equal(kas_net_build("nb201:cell=|skip_connect~0|", 4, 4, 3, 2, &none),
                     KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "networks/README.md"));
    if (EVERY == 1)
        assert_int_equal(refused, 341);
}

RUN_TESTS()

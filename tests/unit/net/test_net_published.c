/* Parameters and multiply-adds of every network, against figures that others published. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <string.h>

#include <cmocka.h>

#include "host/net/targets.h"

/* Where a figure is from. */
#define TORCHVISION "torchvision's documentation: num_params and GFLOPS of the model's weights"
#define TRUNK                                                                                      \
    "torchvision's num_params with a classifier of 10: the small stem has the same weights"
#define HUYVNPHAN                                                                                  \
    "github.com/huyvnphan/PyTorch_CIFAR10, No. Params (torchvision's networks for CIFAR-10)"
#define CHENYAOFO "github.com/chenyaofo/pytorch-cifar-models, #Params and #MAdds on CIFAR-10"
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
};

static kas_net *build(const char *name, int side, int classes)
{
    kas_net *net = NULL;
    if (kas_net_build(name, side, side, 3, classes, &net) != KAS_OK)
        fail_msg("%s", kas_error());
    return net;
}

static bool rounds_to(double value, double published, double unit)
{
    return fabs(value - published) <= (unit == 1 ? 0 : unit / 2);
}

static void counts_agree(void **state)
{
    (void)state;
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
static void resnet29_by_hand(void **state)
{
    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_agree),
        cmocka_unit_test(resnet29_by_hand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

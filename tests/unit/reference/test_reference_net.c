/* A whole network in float64: finite differences of every parameter through every kind of layer,
 * and the optimiser by hand. */
#include "support/test.h"

#include <string.h>

#include "host/reference/net/layers.h"
#include "finite_difference.h"
#include "support/reference_update.h"
#include "unit/model/zoo_net.h"

#define TOLERANCE 1e-7

enum { BATCH = 3 };

/* Two branches that meet, so that a tensor read twice gets both gradients. */
static const char text[] =
    "{\"format\": \"kas-gpu network\", \"version\": 1, \"name\": \"test\", \"layers\": ["
    "{\"conv\": \"conv1\", \"channels\": 4, \"kernel\": 3}, {\"batch_norm\": \"bn1\"},"
    "{\"relu\": \"relu1\"},"
    "{\"conv\": \"conv2\", \"channels\": 6, \"kernel\": 3, \"stride\": 2, \"groups\": 2},"
    "{\"shortcut_a\": \"s\", \"channels\": 6, \"stride\": 2, \"from\": \"relu1\"},"
    "{\"add\": \"add\", \"from\": [\"conv2\", \"s\"]}, {\"relu\": \"relu2\"},"
    "{\"avg_pool\": \"p\", \"kernel\": 2, \"ceil_mode\": true}, {\"global_avg_pool\": \"gap\"},"
    "{\"linear\": \"fc\", \"channels\": \"classes\"}]}";
static kas_net *network;

static int make_network(void **state)
{
    (void)state;
    return kas_net_build(text, 6, 5, 2, 5, &network) != KAS_OK;
}

static int free_network(void **state)
{
    (void)state;
    kas_net_free(network);
    return 0;
}

typedef struct run {
    kas_ref_net *net;
    double images[BATCH * 2 * 6 * 5];
    uint16_t labels[BATCH];
} run;

static double loss_of(void *context)
{
    run *r = context;
    double loss = NAN;
    assert_int_equal(kas_ref_net_step(r->net, BATCH, r->images, r->labels, 0.1, &loss, NULL), 0);
    return loss;
}

static void make_run(run *r)
{
    assert_int_equal(kas_ref_net_create(network, &r->net), KAS_OK);
    for (int i = 0; i < r->net->params; i++)
        if (r->net->param[i].grad)
            fd_random(r->net->param[i].value, r->net->param[i].size, 100 + i);
    fd_random(r->images, BATCH * 60, 1);
    memcpy(r->labels, (uint16_t[]){4, 0, 2}, sizeof r->labels);
}

static double copy_gradients_and_check(run *r, double spoil)
{
    static double grad[16][256];
    fd_array arrays[16];
    int count = 0;
    loss_of(r);
    for (int i = 0; i < r->net->params; i++) {
        kas_ref_param *p = &r->net->param[i];
        if (!p->grad)
            continue;
        assert_true(p->size <= 256);
        memcpy(grad[count], p->grad, p->size * sizeof(double));
        arrays[count] = (fd_array){p->value, grad[count], p->size};
        count++;
    }
    grad[0][5] += spoil;
    return fd_worst(loss_of, r, arrays, count);
}

TEST(test_gradients)
{
    run r;
    make_run(&r);
    assert_true(fd_within("whole network", copy_gradients_and_check(&r, 0), TOLERANCE));
    assert_false(
        fd_within("spoiled gradient (must fail)", copy_gradients_and_check(&r, 1e-5), TOLERANCE));
    kas_ref_net_free(r.net);
}

/* In evaluation mode, batch norm uses the running statistics. Momentum 0.1 from (0, 1): after many
 * steps on one batch they are that batch's mean and unbiased variance. */
TEST(test_evaluation)
{
    run r;
    make_run(&r);
    for (int i = 0; i < 400; i++)
        loss_of(&r);
    double train[BATCH * 5], eval[BATCH * 5], loss, worst = 0;
    fd_nan(train, BATCH * 5);
    fd_nan(eval, BATCH * 5);
    assert_int_equal(kas_ref_net_step(r.net, BATCH, r.images, r.labels, 0, &loss, train), KAS_OK);
    /* give the running variance the factor that makes it biased again */
    kas_ref_param *var = kas_ref_net_find(r.net, "bn1.running_var");
    assert_non_null(var);
    for (size_t k = 0; k < var->size; k++)
        var->value[k] *= (BATCH * 30 - 1.0) / (BATCH * 30);
    assert_int_equal(kas_ref_net_eval(r.net, BATCH, r.images, eval), KAS_OK);
    for (int i = 0; i < BATCH * 5; i++)
        worst = fd_larger(worst, fabs(train[i] - eval[i]));
    assert_true(fd_within("evaluation against training mode", worst, 1e-12));
    kas_ref_net_free(r.net);
}

/* Every parameter, gradient and velocity set to a known value, then one step. */
static void sgd_once(kas_ref_net *net, bool weights_only)
{
    double *velocity[16] = {0}, memory[16][256];
    for (int i = 0; i < net->params; i++) {
        kas_ref_param *p = &net->param[i];
        velocity[i] = memory[i];
        for (size_t k = 0; k < p->size; k++) {
            p->value[k] = 1;
            memory[i][k] = 1;
            if (p->grad)
                p->grad[k] = 0.5;
        }
    }
    kas_ref_net_sgd(net, velocity, 0.1, 0.9, 0.1, weights_only);
}

/* p = 1, g = 0.5, v = 1, decay 0.1: g' = 0.6; v = 0.9 + 0.6 = 1.5; p = 1 - 0.1 * (0.6 + 1.35).
 * Without decay: g' = 0.5; v = 1.4; p = 1 - 0.1 * (0.5 + 1.26). */
TEST(test_sgd_by_hand)
{
    run r;
    make_run(&r);
    struct {
        const char *name;
        double weights_only, everything;
    } expected[] = {{"conv1.weight", 0.805, 0.805}, {"conv2.weight", 0.805, 0.805},
                    {"fc.weight", 0.805, 0.805},    {"bn1.weight", 0.824, 0.805},
                    {"bn1.bias", 0.824, 0.805},     {"fc.bias", 0.824, 0.805},
                    {"bn1.running_mean", 1, 1},     {"bn1.running_var", 1, 1}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        kas_ref_param *p = kas_ref_net_find(r.net, expected[i].name);
        assert_non_null(p);
        sgd_once(r.net, true);
        assert_true(fd_within(p->name, fabs(p->value[0] - expected[i].weights_only), 1e-15));
        sgd_once(r.net, false);
        assert_true(fd_within(p->name, fabs(p->value[0] - expected[i].everything), 1e-15));
    }
    kas_ref_net_free(r.net);
}

/* A layer of every kind: central differences of a few elements of every parameter.  The kinks of
 * max pools, ReLUs and dropout stay where they are for so small a step. */
TEST(test_every_kind)
{
    enum { IMAGES = 2, SIZE = IMAGES * 3 * 9 * 8 };
    static double images[SIZE];
    const uint16_t labels[IMAGES] = {3, 8};
    kas_net *net = zoo_net(9, 8);
    kas_ref_net *ref;
    double loss, up, down, worst = 0;
    assert_non_null(net);
    assert_int_equal(kas_ref_net_create(net, &ref), KAS_OK);
    ref->dropout_seed = 5;
    fd_random(images, SIZE, 1);
    for (int i = 0; i < ref->params; i++)
        if (ref->param[i].grad)
            fd_random(ref->param[i].value, ref->param[i].size, 100 + (uint64_t)i);
    for (int i = 0; i < ref->params; i++) {
        kas_ref_param *p = &ref->param[i];
        size_t step = p->size / 4 + 1;
        for (size_t k = i % step; p->grad && k < p->size; k += step) {
            double kept = p->value[k], h = 1e-5;
            assert_int_equal(kas_ref_net_step(ref, IMAGES, images, labels, 0.1, &loss, NULL), 0);
            double gradient = p->grad[k];
            p->value[k] = kept + h;
            assert_int_equal(kas_ref_net_step(ref, IMAGES, images, labels, 0.1, &up, NULL), 0);
            p->value[k] = kept - h;
            assert_int_equal(kas_ref_net_step(ref, IMAGES, images, labels, 0.1, &down, NULL), 0);
            p->value[k] = kept;
            double error = fabs((up - down) / (2 * h) - gradient) / fmax(1, fabs(gradient));
            if (!(error <= 1e-6))
                printf("%s[%zu]: %.9g, expected %.9g\n", p->name, k, gradient, (up - down) / 2 / h);
            worst = fd_larger(worst, error);
        }
    }
    assert_true(fd_within("every kind of layer", worst, 1e-6));
    kas_ref_net_free(ref);
    kas_net_free(net);
}

RUN_TESTS(make_network, free_network)

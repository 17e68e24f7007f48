/* Networks with a kernel in place of a convolution. */
#include "reference_fixture.h"

#include "host/reference/net/layers.h"
#include "support/sizes.h"

#define TOLERANCE 1e-7

enum { BATCH = 2 };

/* conv2 keeps its shape; conv3 has stride 2, odd sizes, and channels of which neither number
 * divides the other: 4 to 6, so 2 x 3 instances of 2 channels. */
static const char text[] =
    "{\"format\": \"kas-gpu network\", \"version\": 1, \"name\": \"test\", \"layers\": ["
    "{\"conv\": \"conv1\", \"channels\": 4, \"kernel\": 3}, {\"relu\": \"relu1\"},"
    "{\"conv\": \"conv2\", \"channels\": 4, \"kernel\": 3}, {\"batch_norm\": \"bn2\"},"
    "{\"conv\": \"conv3\", \"channels\": 6, \"kernel\": 3, \"stride\": 2},"
    "{\"global_avg_pool\": \"gap\"}, {\"linear\": \"fc\", \"channels\": \"classes\"}]}";
static kas_net *network;

static int make_network(void **state)
{
    (void)state;
    return kas_net_build(text, 5, 5, 2, 5, &network) != KAS_OK;
}

static int free_network(void **state)
{
    (void)state;
    kas_net_free(network);
    return 0;
}

static const kas_target targets[] = {
    TARGET_OF("conv2", 4, 4, 4, 5, 5, 3, 1, .layer = 3),
    TARGET_OF("conv3", 4, 6, 2, 3, 3, 3, 2, .layer = 5),
};

static kas_binding binding_of(const kas_target *t)
{
    kas_binding b = {{0}};
    b.value[KAS_SYM_C] = t->c;
    b.value[KAS_SYM_H] = t->h;
    b.value[KAS_SYM_W] = t->w;
    b.value[KAS_SYM_KH] = t->kernel_h;
    b.value[KAS_SYM_KW] = t->kernel_w;
    b.value[KAS_SYM_X0] = 3;
    return b;
}

typedef struct run {
    kas_ref_net *net;
    double images[BATCH * 2 * 25];
} run;

static const uint16_t labels[BATCH] = {4, 1};

static double loss_of(void *context)
{
    run *r = context;
    double loss = NAN;
    assert_int_equal(kas_ref_net_step(r->net, BATCH, r->images, labels, 0.1, &loss, NULL), KAS_OK);
    return loss;
}

static void randomize(run *r)
{
    fd_random(r->images, BATCH * 50, 1);
    for (int i = 0; i < r->net->params; i++)
        if (r->net->param[i].grad)
            fd_random(r->net->param[i].value, r->net->param[i].size, 10 + i);
}

TEST(test_gradients)
{
    static double grad[16][512];
    fd_array arrays[16];
    int count = 0;
    run r;
    kas_kernel k = {0};
    int wide = kas_build_fc(&k, kas_build_unfold(&k, kas_build_input(&k), 3), false, "x0");
    assert_true(kas_build_fc(&k, kas_build_elementwise(&k, KAS_OP_TANH, wide), false, "C") > 0);
    kas_binding bindings[] = {binding_of(&targets[0]), binding_of(&targets[1])};
    const kas_replacement replacement = {.target = targets,
                                         .kernel = &k,
                                         .kernels = 1,
                                         .solution = {.targets = 2, .binding = bindings}};
    assert_int_equal(kas_ref_net_create_replaced(network, &replacement, &r.net), KAS_OK);
    /* conv3: 6 instances of 3 x (2*3*3) and of 2 x 3 */
    assert_int_equal(kas_ref_net_find(r.net, "conv3.weight0")->size, 6 * 3 * 18);
    assert_int_equal(kas_ref_net_find(r.net, "conv3.weight1")->size, 6 * 2 * 3);
    assert_null(kas_ref_net_find(r.net, "conv3.weight"));
    randomize(&r);
    loss_of(&r);
    for (int i = 0; i < r.net->params; i++) {
        kas_ref_param *p = &r.net->param[i];
        if (!p->grad)
            continue;
        assert_true(p->size <= 512);
        memcpy(grad[count], p->grad, p->size * sizeof(double));
        arrays[count] = (fd_array){p->value, grad[count], p->size};
        count++;
    }
    assert_true(fd_within("replaced network", fd_worst(loss_of, &r, arrays, count), TOLERANCE));
    grad[1][3] += 1e-4;
    assert_false(fd_within("spoiled (must fail)", fd_worst(loss_of, &r, arrays, count), TOLERANCE));
    kas_ref_net_free(r.net);
}

/* A kernel that is a convolution, with the convolution's weights, changes nothing: kernel IR and
 * layers are two independent codes. */
TEST(test_same_as_convolution)
{
    kas_kernel k = {0};
    assert_true(kas_build_fc(&k, kas_build_unfold(&k, kas_build_input(&k), 3), false, "C") > 0);
    kas_binding binding = binding_of(&targets[0]);
    run plain, replaced;
    assert_int_equal(kas_ref_net_create(network, &plain.net), KAS_OK);
    const kas_replacement replacement = {.target = targets,
                                         .kernel = &k,
                                         .kernels = 1,
                                         .solution = {.targets = 1, .binding = &binding}};
    assert_int_equal(kas_ref_net_create_replaced(network, &replacement, &replaced.net), KAS_OK);
    randomize(&plain);
    randomize(&replaced); /* the same list of parameters, so the same values */
    double logits[2][BATCH * 5], loss[2] = {NAN, NAN}, worst = 0;
    fd_nan(logits[0], 2 * BATCH * 5);
    run *runs[] = {&plain, &replaced};
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            kas_ref_net_step(runs[i]->net, BATCH, runs[i]->images, labels, 0, &loss[i], logits[i]),
            KAS_OK);
    for (int i = 0; i < BATCH * 5; i++)
        worst = fd_larger(worst, fabs(logits[0][i] - logits[1][i]));
    assert_true(fd_within("logits", worst, 1e-12));
    const double *a = kas_ref_net_find(plain.net, "conv2.weight")->grad;
    const double *b = kas_ref_net_find(replaced.net, "conv2.weight0")->grad;
    for (int i = 0; i < 144; i++)
        worst = fd_larger(worst, fabs(a[i] - b[i]));
    assert_true(fd_within("gradient of the weight", worst, 1e-12));
    for (int i = 0; i < 2; i++)
        assert_int_equal(kas_ref_net_eval(runs[i]->net, BATCH, runs[i]->images, logits[i]), KAS_OK);
    for (int i = 0; i < BATCH * 5; i++)
        worst = fd_larger(worst, fabs(logits[0][i] - logits[1][i]));
    assert_true(fd_within("logits in evaluation mode", worst, 1e-12));
    kas_ref_net_free(plain.net);
    kas_ref_net_free(replaced.net);
}

RUN_TESTS(make_network, free_network)

/* Networks with a kernel in place of a convolution. */
#include "reference_fixture.h"

#include "host/reference/net/layers.h"

#define TOLERANCE 1e-7

enum { BATCH = 2 };

#define READS(...) .in = (int[]){__VA_ARGS__}, .inputs = sizeof((int[]){__VA_ARGS__}) / sizeof(int)

/* conv2 keeps its shape; conv3 has stride 2, odd sizes, and channels of which neither number
 * divides the other: 4 to 6, so 2 x 3 instances of 2 channels. */
static kas_layer description[] = {
    {.op = KAS_LAYER_INPUT, .name = "input", .h = 5, .w = 5, .c = 2},
    {.op = KAS_LAYER_CONV,
     .name = "conv1",
     READS(0),
     .h = 5,
     .w = 5,
     .c = 4,
     .kernel_h = 3,
     .kernel_w = 3,
     .stride = 1,
     .pad_h = 1,
     .pad_w = 1,
     .groups = 1,
     .stem = true},
    {.op = KAS_LAYER_RELU, .name = "relu1", READS(1), .h = 5, .w = 5, .c = 4},
    {.op = KAS_LAYER_CONV,
     .name = "conv2",
     READS(2),
     .h = 5,
     .w = 5,
     .c = 4,
     .kernel_h = 3,
     .kernel_w = 3,
     .stride = 1,
     .pad_h = 1,
     .pad_w = 1,
     .groups = 1,
     .stem = false},
    {.op = KAS_LAYER_BATCH_NORM,
     .eps = 1e-5,
     .momentum = 0.1,
     .name = "bn2",
     READS(3),
     .h = 5,
     .w = 5,
     .c = 4},
    {.op = KAS_LAYER_CONV,
     .name = "conv3",
     READS(4),
     .h = 3,
     .w = 3,
     .c = 6,
     .kernel_h = 3,
     .kernel_w = 3,
     .stride = 2,
     .pad_h = 1,
     .pad_w = 1,
     .groups = 1,
     .stem = false},
    {.op = KAS_LAYER_GLOBAL_AVG_POOL, .name = "gap", READS(5), .h = 1, .w = 1, .c = 6},
    {.op = KAS_LAYER_LINEAR, .bias = true, .name = "fc", READS(6), .h = 1, .w = 1, .c = 5},
};
static const kas_net network = {.name = "test", .layers = 8, .layer = description, .classes = 5};

static const kas_target targets[] = {
    {.name = "conv2",
     .layer = 3,
     .c_in = 4,
     .c_out = 4,
     .c = 4,
     .parts_in = 1,
     .parts_out = 1,
     .h = 5,
     .w = 5,
     .kernel_h = 3,
     .kernel_w = 3,
     .stride = 1},
    {.name = "conv3",
     .layer = 5,
     .c_in = 4,
     .c_out = 6,
     .c = 2,
     .parts_in = 2,
     .parts_out = 3,
     .h = 3,
     .w = 3,
     .kernel_h = 3,
     .kernel_w = 3,
     .stride = 2},
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
    assert_int_equal(kas_ref_net_create_replaced(&network, &replacement, &r.net), KAS_OK);
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
    assert_int_equal(kas_ref_net_create(&network, &plain.net), KAS_OK);
    const kas_replacement replacement = {.target = targets,
                                         .kernel = &k,
                                         .kernels = 1,
                                         .solution = {.targets = 1, .binding = &binding}};
    assert_int_equal(kas_ref_net_create_replaced(&network, &replacement, &replaced.net), KAS_OK);
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

RUN_TESTS()

/* Long sums with few results: in how many stages they come, what a GPU's threads wait for in each,
 * and that the results are right. */
#include "agree_fixture.h"

#include "jit/ir/program.h"

enum { HW = KAS_AXIS_H | KAS_AXIS_W, SIDES = 3 };
/* Divided at will; 29 has no divisor that is short enough; one loop alone is long */
static const setting shapes[SIDES] = {
    {8, 1, 1, 14, 16, 3}, {48, 1, 1, 29, 5, 3}, {8, 2, 1, 1, 120, 1}};

static void scale(kas_kernel *k)
{
    const int x = kas_build_input(k);
    kas_build_along(k, KAS_OP_SCALE, x, 0, 1);
}

/* x times its product with its own mean: a sum over all pixels as one loop. */
static void product(kas_kernel *k)
{
    const int x = kas_build_input(k), mean = kas_build_fold(k, KAS_OP_FOLD_AVG, x, 0);
    kas_build_broadcast(k, KAS_OP_MUL, kas_build_bmm(k, x, mean, KAS_TRANSPOSE_RHS, false), x);
}

/* Each image has one factor: the gradient of what is broadcast is a sum over the channels. */
static void gate(kas_kernel *k)
{
    const int x = kas_build_input(k);
    const int rows = kas_build_fold(k, KAS_OP_FOLD_AVG, x, 1);
    const int mean = kas_build_fold(k, KAS_OP_FOLD_AVG, rows, 1);
    kas_build_broadcast(k, KAS_OP_MUL, kas_build_elementwise(k, KAS_OP_SIGMOID, mean), x);
}

static void depthwise(kas_kernel *k)
{
    kas_build_conv_depthwise(k, kas_build_input(k), HW, 0, 1);
}

/* Maxima in stages too. */
static void softmax(kas_kernel *k)
{
    kas_build_softmax(k, kas_build_input(k), 1, 3);
}

/* The product wants the norm transposed, so that no row takes its sums over the channels in. */
static void attention(kas_kernel *k)
{
    const int x = kas_build_input(k), norm = kas_build_along(k, KAS_OP_NORM, x, 0, 1);
    kas_build_bmm(k, kas_build_bmm(k, x, norm, KAS_TRANSPOSE_RHS, false), x, 0, false);
}

/* The number of the largest element is kept for the gradient. */
static void peak(kas_kernel *k)
{
    const int x = kas_build_input(k);
    kas_build_broadcast(k, KAS_OP_MUL, kas_build_fold(k, KAS_OP_FOLD_MAX, x, 0), x);
}

static const struct {
    const char *name;
    void (*build)(kas_kernel *kernel);
    bool whole; /* elements are whole numbers: the first of equal ones wins */
} kernels[] = {{"scale", scale, false},     {"product", product, false},
               {"gate", gate, false},       {"depthwise", depthwise, false},
               {"softmax", softmax, false}, {"attention", attention, false},
               {"maximum", peak, true}};
enum { KERNELS = sizeof kernels / sizeof *kernels };

TEST(results_are_right)
{
    for (int i = 0; i < KERNELS; i++) {
        kas_kernel k = {0};
        kas_target target[SIDES];
        kas_binding binding[SIDES];
        kas_agreement result[SIDES];
        kernels[i].build(&k);
        OK(kas_kernel_infer(&k));
        for (int s = 0; s < SIDES; s++) {
            target[s] = make_target(shapes[s]);
            binding[s] = make_binding(&target[s]);
        }
        /* Lanes and blocks are shuffled for every other kernel: compiling takes the time. */
        const int order = compiler[2] ? i % 2 * 2 : 0;
        const kas_agree_options options = {
            .batch = 4, .seed = 3, .directions = 1, .whole = kernels[i].whole, .dtype = KAS_F32};
        if (on_cpu())
            OK(kas_device_cpu_set_order(device, (kas_cpu_order)order));
        OK(kas_agree(device, compiler[order], &k, target, binding, SIDES, &options, result));
        for (int s = 0; s < SIDES; s++)
            record(&result[s], kernels[i].name, &target[s]);
    }
}

/* ---- what threads wait for ------------------------------------------------------------------- */

typedef struct waits {
    int launches;
    double rounds; /* of the launch that waits most */
    double bytes;  /* of all launches */
} waits;

static waits waits_of(void (*build)(kas_kernel *kernel), setting shape, kas_linear_policy policy)
{
    kas_kernel k = {0};
    const kas_target target = make_target(shape);
    const kas_binding binding = make_binding(&target);
    const kas_program_options options = {.batch = 64,
                                         .training = true,
                                         .dtype = KAS_F32,
                                         .linear_policy = policy,
                                         .unwritten = true,
                                         .prefix = "k"};
    kas_program *p;
    waits w = {0};
    build(&k);
    OK(kas_kernel_infer(&k));
    OK(kas_program_build(&k, &target, &binding, &options, &p));
    for (int i = 0; i < p->forwards + p->backwards; i++) {
        const kas_operation *op = i < p->forwards ? &p->forward[i] : &p->backward[i - p->forwards];
        w.rounds = op->effort.rounds > w.rounds ? op->effort.rounds : w.rounds;
        w.bytes += op->bytes;
    }
    w.launches = p->forwards + p->backwards;
    kas_program_free(p);
    return w;
}

/* The totals of the CPU device's two stages, as they were on a GPU too: what was read from machine
 * code, turn by turn. */
TEST(turns_are_counted)
{
    const setting first = {64, 1, 1, 56, 56, 3};
    /* four turns are under way at once */
    assert_true(waits_of(scale, first, KAS_LINEAR_CPU).rounds == 64 * 56 / 4);
    assert_true(waits_of(product, first, KAS_LINEAR_CPU).rounds == 56 * 56 / 4);
}

/* At the first layers of ResNet-18, where sums over 200,704 pixels waited for 3,584 reads one
 * behind the other; and at its last ones. */
TEST(no_thread_waits_long)
{
    static const setting layers[] = {{64, 1, 1, 56, 56, 3}, {512, 1, 1, 7, 7, 3}};
    for (int i = 0; i < KERNELS; i++)
        for (int s = 0; s < 2; s++) {
            const waits gpu = waits_of(kernels[i].build, layers[s], KAS_LINEAR_GPU),
                        cpu = waits_of(kernels[i].build, layers[s], KAS_LINEAR_CPU);
            printf("%s at %ux%u: %d launches, %.0f rounds, %.1f MB; on the CPU device %d, %.0f, "
                   "%.1f\n",
                   kernels[i].name, layers[s].h, layers[s].w, gpu.launches, gpu.rounds,
                   gpu.bytes / 1e6, cpu.launches, cpu.rounds, cpu.bytes / 1e6);
            if (!(gpu.rounds <= 100))
                fail_msg("%s waits for %.0f rounds of loads", kernels[i].name, gpu.rounds);
            assert_true(gpu.bytes <= 1.5 * cpu.bytes);
        }
}

RUN_TESTS(set_up, tear_down)

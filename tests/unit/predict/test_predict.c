/* Predictions: monotone, never below the floor, with the right bound; a fit finds a machine again. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "host/core/machine.h"
#include "host/predict/calibrate.h"
#include "host/predict/predict.h"
#include "host/space/file/assignment.h"
#include "support/sizes.h"

enum { BATCH = 32, KERNELS = 3 };
static const char *const kernels[KERNELS] = {"kernels/depthwise_separable.json",
                                             "kernels/involution.json", "kernels/nas_pte_3.json"};

static kas_net *net;
static kas_target *target;
static int targets;
static kas_replacement replacement[KERNELS];

static int begin(void **state)
{
    (void)state;
    const kas_budget budget = {0};
    OK(kas_net_build("resnet20", 16, 16, 3, 10, &net));
    OK(kas_net_targets(net, NULL, &target, &targets));
    for (int i = 0; i < KERNELS; i++) {
        kas_assignment read;
        OK(kas_assignment_read_file(kernels[i], &read));
        OK(kas_assignment_fit(&read, target, targets, &budget, &replacement[i]));
        kas_assignment_free(&read);
    }
    return 0;
}

static int end(void **state)
{
    (void)state;
    for (int i = 0; i < KERNELS; i++)
        kas_replacement_free(&replacement[i]);
    free(target);
    kas_net_free(net);
    return 0;
}

static void build(const kas_replacement *r, bool gpu, kas_programs *out)
{
    const kas_model_options options = {.batch = BATCH};
    OK(kas_model_build_programs(&options, r, gpu ? "cuda" : "cpu", out));
}

/* ---- one pass -------------------------------------------------------------------------------- */

TEST(more_bytes_take_longer)
{
    for (int i = 0; kas_machine_builtin(i); i++) {
        double before = 0;
        for (double bytes = 1; bytes < 1e12; bytes *= 1.1) {
            const kas_sweep pass = {.what = "copy", .bytes = bytes};
            const kas_estimate e = kas_predict_pass(kas_machine_builtin(i), &pass);
            if (!(e.seconds >= before && e.seconds >= e.floor))
                fail_msg("%s: %g bytes take %g s, fewer took %g s; floor %g s",
                         kas_machine_builtin(i)->name, bytes, e.seconds, before, e.floor);
            before = e.seconds;
        }
    }
}

/* More of anything that a kernel does takes no less time, and some time more in the end. What is
 * counted for CPUs alone changes nothing on a GPU, and the other way round. */
TEST(more_work_takes_longer)
{
    static const struct {
        size_t member;
        bool cpu, gpu;
    } counts[] = {
        {offsetof(kas_effort, turns), true, true},
        {offsetof(kas_effort, arithmetic), true, true},
        {offsetof(kas_effort, functions), true, true},
        {offsetof(kas_effort, loads), true, true},
        {offsetof(kas_effort, gathers), false, true},
        {offsetof(kas_effort, reduced), true, true},
        {offsetof(kas_effort, divisions), true, true},
        {offsetof(kas_effort, shared), true, true},
        {offsetof(kas_effort, scattered), true, false},
        {offsetof(kas_effort, alone), true, false},
    };
    for (int m = 0; kas_machine_builtin(m); m++)
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            kas_operation op = {.grid = {64, 1, 1}, .block = {256, 1, 1}, .effort.lanes = 256};
            const kas_sweep pass = {.kernel = &op, .bytes = 1e4};
            const double none = kas_predict_pass(kas_machine_builtin(m), &pass).seconds;
            const bool matters = kas_machine_builtin(m)->gpu ? counts[i].gpu : counts[i].cpu;
            double before = 0;
            for (double n = 1; n < 1e14; n *= 10) {
                *(double *)(void *)((char *)&op.effort + counts[i].member) = n;
                const double now = kas_predict_pass(kas_machine_builtin(m), &pass).seconds;
                assert_true(now >= before);
                before = now;
            }
            assert_true(matters ? before > 10 * none : before == none);
        }
}

static kas_bound bound_of(const char *machine, const kas_sweep *pass)
{
    kas_machine m;
    OK(kas_machine_find(machine, "auto", 0, &m));
    return kas_predict_pass(&m, pass).bound;
}

TEST(bounds)
{
    const kas_conv_desc map = CONV_OF(256, 56, 512, 512, 1, 1, 1);
    kas_operation waits = {.grid = {1, 1, 1}, .block = {32, 1, 1}, .effort.rounds = 1000};
    const kas_sweep large = {.bytes = 1e9}, small = {.bytes = 1e3},
                    product = {.bytes = 1e8, .library = true, .conv = map},
                    slow = {.bytes = 1e3, .kernel = &waits};
    static const char *const machines[] = {"h100", "orin", "cpu"};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(bound_of(machines[i], &large), KAS_BOUND_MEMORY);
        assert_int_equal(bound_of(machines[i], &small), KAS_BOUND_LAUNCH);
        assert_int_equal(bound_of(machines[i], &product), KAS_BOUND_ARITHMETIC);
    }
    assert_int_equal(bound_of("h100", &slow), KAS_BOUND_LATENCY);
}

/* ---- what a GPU waits for -------------------------------------------------------------------- */

static double predict_on(const char *machine, const kas_operation *op, double bytes)
{
    kas_machine m;
    const kas_sweep pass = {.bytes = bytes, .kernel = op};
    OK(kas_machine_find(machine, "auto", 0, &m));
    return kas_predict_pass(&m, &pass).seconds;
}

static void within(const char *what, double seconds, double low, double high)
{
    static const double factor = 1.5;
    printf("%s: %.1f us, %.1f to %.1f within %g\n", what, 1e6 * seconds, 1e6 * low, 1e6 * high,
           factor);
    assert_true(seconds >= low / factor && seconds <= high * factor);
}

/* Launches whose times were read from machine code for an H100: the total of the partial sums of a
 * scale's gradient at 64x56x56, batch 64; a sum over 3,136 pixels by 1,024 threads; a batch norm's
 * combining pass over 512 chunks of 64 channels. */
TEST(as_read_from_machine_code)
{
    const kas_operation total = {.grid = {1, 1, 1},
                                 .block = {32, 1, 1},
                                 .bytes = 9.2e5,
                                 .effort = {.lanes = 64, .rounds = 3584, .fetched = 9.2e5}};
    const kas_operation sum = {.grid = {64, 1, 1},
                               .block = {32, 1, 1},
                               .bytes = 5.22e7,
                               .effort = {.lanes = 64, .rounds = 3136, .fetched = 5.22e7}};
    const kas_sweep combine = {.bytes = 2.6e5, .rounds = 64};
    kas_machine m;
    OK(kas_machine_find("h100", "auto", 0, &m));
    within("total of partial sums", predict_on("h100", &total, total.bytes), 0.3e-3, 0.45e-3);
    within("sum over one variable", predict_on("h100", &sum, sum.bytes), 0.8e-3, 0.8e-3);
    within("batch norm combine", kas_predict_pass(&m, &combine).seconds, 8e-6, 11e-6);
}

/* More blocks than fit at once wait for others to end; registers and threads decide how many
 * fit. */
TEST(blocks_come_in_waves)
{
    kas_operation op = {.grid = {132 * 8, 1, 1}, .block = {256, 1, 1}, .effort.rounds = 100};
    op.effort.registers = 32;
    const double one = predict_on("h100", &op, 1e4);
    op.grid[0]++;
    const double two = predict_on("h100", &op, 1e4);
    op.effort.registers = 128; /* two blocks on a multiprocessor: five waves */
    const double five = predict_on("h100", &op, 1e4);
    printf("1, 2 and 5 waves: %.2f %.2f %.2f us\n", 1e6 * one, 1e6 * two, 1e6 * five);
    assert_true(fabs((two - one) / (five - two) - 1.0 / 3) <= 1e-9);
    op.effort.rounds = 0;
    op.effort.near = 100; /* reads of L1 */
    assert_true(predict_on("h100", &op, 1e4) < five / 2);
}

/* Few blocks reach few multiprocessors, which fetch slowly. */
TEST(few_blocks_fetch_slowly)
{
    kas_operation op = {.grid = {1, 1, 1}, .block = {256, 1, 1}, .effort.fetched = 1e6};
    const double alone = predict_on("h100", &op, 1e6);
    op.grid[0] = 132;
    assert_true(alone > 4 * predict_on("h100", &op, 1e6));
}

/* A convolution's precision chooses the rate; few channels reach less of it. */
TEST(convolutions)
{
    kas_machine m;
    kas_sweep pass = {.library = true, .conv = CONV_OF(128, 32, 256, 256, 1, 3, 1)};
    OK(kas_machine_find("h100", "auto", 0, &m));
    const double fp32 = kas_predict_pass(&m, &pass).part[KAS_BOUND_ARITHMETIC];
    pass.conv.tf32 = true;
    const double tf32 = kas_predict_pass(&m, &pass).part[KAS_BOUND_ARITHMETIC];
    /* Without tensor cores a library comes nearer to its rate, which is lower. */
    const double slower = m.rate[KAS_PRECISION_TF32] / m.rate[KAS_PRECISION_FP32];
    assert_true(fp32 / tf32 < slower && fp32 / tf32 > slower / 2);
    pass.conv.groups = 256; /* a 256th of the multiply-adds, at a small share of the rate */
    assert_int_equal(kas_conv_class_of(&pass.conv), KAS_CONV_DEPTHWISE);
    const double depthwise = kas_predict_pass(&m, &pass).part[KAS_BOUND_ARITHMETIC];
    assert_true(depthwise > tf32 / 256 * 2);
    pass.conv.tf32 = false; /* not on tensor cores anyway */
    assert_true(kas_predict_pass(&m, &pass).part[KAS_BOUND_ARITHMETIC] == depthwise);
}

/* The groups of a 1x1 map are a batch of products on a GPU, and a long sum of few results is cut. */
TEST(products)
{
    kas_machine m;
    kas_sweep pass = {.library = true, .conv = CONV_OF(64, 28, 128, 128, 1, 1, 1)};
    OK(kas_machine_find("h100", "auto", 0, &m));
    const double one = kas_predict_pass(&m, &pass).part[KAS_BOUND_ARITHMETIC];
    pass.conv.groups = 16;
    pass.conv.c_in *= 16;
    pass.conv.c_out *= 16;
    const double many = kas_predict_pass(&m, &pass).part[KAS_BOUND_ARITHMETIC];
    assert_true(fabs(many / one - 16) < 1e-9);
    pass.conv = (kas_conv_desc)CONV_OF(64, 1, 1 << 18, 8, 1, 1, 1);
    pass.conv_pass = KAS_CONV_FORWARD;
    const double forward = kas_predict_pass(&m, &pass).part[KAS_BOUND_ARITHMETIC];
    pass.conv_pass = KAS_CONV_BACKWARD_WEIGHTS;
    const double weights = kas_predict_pass(&m, &pass).part[KAS_BOUND_ARITHMETIC];
    assert_true(forward == weights);
    pass.conv.n = 1 << 18;
    pass.conv.c_in = 64; /* tiles enough forward; a long sum for 64 x 8 weights */
    assert_true(kas_predict_pass(&m, &pass).part[KAS_BOUND_ARITHMETIC] < 40 * forward);
}

/* A floor that nothing reaches says nothing: with many channels a library is within twice of it. */
TEST(libraries_come_near_their_floors)
{
    kas_sweep pass = {.library = true, .bytes = 2e8, .conv = CONV_OF(128, 56, 256, 256, 1, 3, 1)};
    for (int i = 0; kas_machine_builtin(i); i++)
        for (int number = 0; number < KAS_DTYPES && kas_machine_builtin(i)->gpu; number++) {
            pass.conv.dtype = (kas_dtype)number;
            const kas_estimate e = kas_predict_pass(kas_machine_builtin(i), &pass);
            assert_true(e.seconds <= 2 * e.floor && e.seconds >= e.floor);
        }
}

/* ---- a network ------------------------------------------------------------------------------- */

TEST(never_below_the_floor)
{
    for (int i = 0; kas_machine_builtin(i); i++) {
        const kas_machine *m = kas_machine_builtin(i);
        for (int k = -1; k < KERNELS; k++) {
            kas_programs programs = {0};
            kas_prediction p;
            double sum = 0;
            if (k >= 0)
                build(&replacement[k], m->gpu, &programs);
            OK(kas_predict(m, net, k < 0 ? NULL : &programs, BATCH, KAS_PRECISION_FP32, &p));
            assert_true(p.planned.passes >= 19 && p.seconds >= p.floor && p.floor > 0);
            for (int j = 0; j < p.planned.passes; j++) {
                const kas_estimate *e = &p.estimate[j];
                if (!(e->seconds >= e->floor && isfinite(e->seconds)))
                    fail_msg("%s: %s takes %g s, floor %g s", m->name, p.planned.pass[j].what,
                             e->seconds, e->floor);
                sum += e->seconds;
            }
            assert_true(fabs(sum - p.seconds) <= 1e-12 * sum);
            kas_prediction_free(&p);
            kas_programs_free(&programs);
        }
    }
}

/* Launches of a kernel know which of their bytes are the network's own; convolutions know whether an
 * activation follows, the network's own and those with which a kernel ends, whose weights are held. */
TEST(passes_of_a_network)
{
    const kas_machine *m = kas_machine_builtin(0);
    kas_programs programs;
    kas_prediction p;
    int activated = 0, held = 0;
    double far = 0, inner = 0;
    build(&replacement[0], false, &programs);
    OK(kas_predict(m, net, &programs, BATCH, KAS_PRECISION_FP32, &p));
    for (int i = 0; i < p.planned.passes; i++) {
        const kas_sweep *pass = &p.planned.pass[i];
        assert_true(pass->far >= 0 && pass->far <= pass->bytes);
        assert_true(pass->kernel || pass->far == 0);
        activated += pass->activated;
        held += pass->held;
        far += pass->far;
        inner += pass->kernel ? pass->bytes - pass->far : 0;
    }
    assert_int_equal(activated, 1 + 18); /* the first convolution, which stays, and the kernels */
    assert_int_equal(held, 2 * 18); /* of the window and the map of a depthwise separable kernel */
    assert_true(far > 18 * 2.0 * BATCH * 16 * 8 * 8 * sizeof(float) && inner > 0);
    kas_prediction_free(&p);
    kas_programs_free(&programs);
}

/* More images take longer, and a machine that is twice as fast in everything takes half. */
TEST(sizes_and_speeds)
{
    kas_prediction p;
    kas_machine m = *kas_machine_builtin(0), fast = m;
    double before = 0;
    for (int batch = 1; batch <= 256; batch *= 4) {
        OK(kas_predict(&m, net, NULL, batch, KAS_PRECISION_FP32, &p));
        assert_true(p.seconds > before);
        before = p.seconds;
        kas_prediction_free(&p);
    }
    fast.clock *= 2;
    fast.memory_bandwidth *= 2;
    fast.outer_bandwidth *= 2;
    fast.inner_bandwidth *= 2;
    fast.rate[KAS_PRECISION_FP32] *= 2;
    fast.launch /= 2;
    fast.call /= 2;
    OK(kas_predict(&fast, net, NULL, 256, KAS_PRECISION_FP32, &p));
    assert_true(fabs(p.seconds / before - 0.5) <= 1e-9);
    kas_prediction_free(&p);
}

TEST(candidates)
{
    kas_machine here = *kas_machine_builtin(0), *m = &here;
    here.cores = kas_cores(); /* by which programs cut the batch into pieces */
    kas_predictor *predictor;
    OK(kas_predictor_create(m, net, BATCH, KAS_PRECISION_FP32, &predictor));
    assert_true(kas_predictor_margin(predictor) >= 1);
    for (int k = 0; k < KERNELS; k++) {
        kas_programs programs;
        kas_prediction p;
        double seconds, again;
        OK(kas_predict_candidate(predictor, &replacement[k], &seconds));
        OK(kas_predict_candidate(predictor, &replacement[k], &again));
        build(&replacement[k], false, &programs);
        OK(kas_predict(m, net, &programs, BATCH, KAS_PRECISION_FP32, &p));
        assert_true(seconds == p.seconds && seconds == again);
        kas_prediction_free(&p);
        kas_programs_free(&programs);
    }
    kas_predictor_free(predictor);
    kas_programs unwritten; /* they can be looked at, and not compiled */
    OK(kas_predict_lower(m, &replacement[0], BATCH, KAS_PRECISION_FP32, false, &unwritten));
    assert_int_equal(kas_programs_compile(&unwritten, NULL, 1, NULL, NULL, NULL), KAS_FAILURE);
    kas_programs_free(&unwritten);
    kas_machine never = *m;
    never.calibrated = false;
    OK(kas_predictor_create(&never, net, BATCH, KAS_PRECISION_FP32, &predictor));
    assert_true(kas_predictor_margin(predictor) == 2);
    kas_predictor_free(predictor);
}

/* ---- the fit --------------------------------------------------------------------------------- */

/* Times that another machine would have are fitted: the loss falls to nearly nothing, and the
 * network's time comes out. */
TEST(a_machine_is_found_again)
{
    const kas_machine *known = kas_machine_builtin(0);
    kas_machine real = *known, fitted = *known;
    kas_programs programs[KERNELS];
    kas_prediction p[KERNELS];
    kas_fit_network network[KERNELS];
    real.gather *= 3;
    real.load /= 2;
    real.turn *= 2;
    real.launch *= 1.7;
    real.efficiency[KAS_CONV_WINDOW] /= 1.5;
    for (int k = 0; k < KERNELS; k++) {
        build(&replacement[k], false, &programs[k]);
        OK(kas_predict(&real, net, &programs[k], BATCH, KAS_PRECISION_FP32, &p[k]));
        network[k] = (kas_fit_network){&p[k].planned, p[k].seconds};
    }
    const double loss = kas_machine_fit(&fitted, network, KERNELS);
    printf("loss after the fit %.2g, allowed 2e-3\n", loss);
    assert_true(loss <= 2e-3);
    for (int k = 0; k < KERNELS; k++) {
        kas_prediction q;
        OK(kas_predict(&fitted, net, &programs[k], BATCH, KAS_PRECISION_FP32, &q));
        printf("%s: %.4f of the time\n", kernels[k], q.seconds / p[k].seconds);
        assert_true(fabs(q.seconds / p[k].seconds - 1) <= 0.05);
        kas_prediction_free(&q);
        kas_prediction_free(&p[k]);
        kas_programs_free(&programs[k]);
    }
}

/* Calibration's kernels are distinct, legal for both spaces, and the same every time. */
TEST(the_draw_is_the_same)
{
    enum { COUNT = 6 };
    kas_sample a[COUNT], b[COUNT];
    OK(kas_machine_calibration_draw(target, targets, KAS_CALIBRATION_SEED, COUNT, a));
    OK(kas_machine_calibration_draw(target, targets, KAS_CALIBRATION_SEED, COUNT, b));
    for (int i = 0; i < COUNT; i++) {
        assert_string_equal(a[i].name, b[i].name);
        assert_true((a[i].replacement.kernel_of != NULL) == (i == 4));
        assert_ptr_equal(a[i].replacement.target, target);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(a[i].name, a[j].name);
    }
    for (int i = 0; i < COUNT; i++) {
        kas_sample_free(&a[i]);
        kas_sample_free(&b[i]);
    }
}

RUN_TESTS(begin, end)

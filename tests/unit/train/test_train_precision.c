/* Training in 16 bits: one step against the float64 reference (of every kind of layer:
 * test_train_model), many steps beside float32, a run that is taken up again, and the loss scale of
 * float16. */
#include "unit/model/model_fixture.h"

#include "host/net/targets.h"
#include "host/space/file/kernel_json.h"
#include "host/train/schedule.h"

static const kas_precision small[] = {KAS_PRECISION_BF16, KAS_PRECISION_FP16};

static kas_net *resnet20(void)
{
    kas_net *net = NULL;
    assert_int_equal(kas_net_build("resnet20", 8, 8, 3, 10, &net), KAS_OK);
    return net;
}

TEST(steps_agree)
{
    for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
        the_precision = small[i];
        pair p = make_pair_of(resnet20(), NULL, 8);
        check_small(&p, "resnet20", through_kinks());
        free_pair(&p);
    }
}

/* Generated kernels over 16 bits, with and without a stride. */
TEST(kernels_agree)
{
    const kas_budget budget = {.max_flops_ratio = 1.1, .max_params_ratio = 1.1};
    for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
        kas_kernel kernel;
        kas_target *target = NULL;
        kas_replacement replacement;
        int count = 0;
        kas_net *net = resnet20();
        the_precision = small[i];
        assert_int_equal(kas_kernel_read_file("kernels/group_conv.json", &kernel), KAS_OK);
        assert_int_equal(kas_net_targets(net, NULL, &target, &count), KAS_OK);
        assert_int_equal(
            kas_replacement_solve(&kernel, 1, NULL, target, count, &budget, &replacement), KAS_OK);
        pair p = make_pair_of(net, &replacement, 8);
        check_small(&p, "group_conv in resnet20", 1.5 * through_kinks());
        free_pair(&p);
        kas_replacement_free(&replacement);
        free(target);
    }
}

/* ---- several steps of one batch -------------------------------------------------------------- */

enum { STEPS = 12 };
static const kas_recipe recipe = {.optimiser = KAS_NESTEROV,
                                  .momentum = 0.9,
                                  .weight_decay = 1e-3,
                                  .epochs = 1,
                                  .batch = 16,
                                  .schedule = KAS_CONSTANT,
                                  .lr = 0.05,
                                  .ema = 0.9};

typedef struct training {
    pair pair;
    kas_plan *plan;
    kas_step_row *rows;
    uint32_t done;
} training;

static training begin(kas_precision precision)
{
    kas_step_row row[STEPS];
    training t = {0};
    the_precision = precision;
    t.pair = make_pair_with(resnet20(), NULL, recipe.batch, &recipe, false);
    for (uint64_t i = 0; i < STEPS; i++)
        row[i] = kas_schedule_row(&(kas_run_plan){&recipe, STEPS, 0, 8, 8}, i);
    assert_int_equal(kas_mem_alloc(device, sizeof row, (void **)&t.rows), KAS_OK);
    assert_int_equal(kas_mem_upload(device, t.rows, row, sizeof row), KAS_OK);
    t.plan = record_with(&t.pair, KAS_TAPE_TRAIN, &recipe, t.rows);
    assert_int_equal(kas_model_init(t.pair.model, 5), KAS_OK);
    return t;
}

static void end(training *t)
{
    kas_plan_free(t->plan);
    free_pair(&t->pair);
    kas_mem_free(device, t->rows);
}

static double step(training *t)
{
    const kas_metrics zero = {0};
    kas_metrics metrics;
    kas_model *m = t->pair.model;
    assert_int_equal(kas_model_set_state(m, (kas_step_state){.step = t->done++}), KAS_OK);
    assert_int_equal(kas_model_set_metrics(m, &zero), KAS_OK);
    assert_int_equal(kas_model_set_batch(m, KAS_TAPE_TRAIN, t->pair.images, t->pair.labels),
                     KAS_OK);
    assert_int_equal(kas_plan_run(t->plan), KAS_OK);
    assert_int_equal(kas_model_get_metrics(m, &metrics), KAS_OK);
    return metrics.batch_loss;
}

/* The loss falls as it does in float32, to within what is stated here. */
TEST(training_stays_near_float32)
{
    static const struct {
        kas_precision precision;
        double most;
    } runs[] = {{KAS_PRECISION_TF32, 0}, {KAS_PRECISION_BF16, 0.05}, {KAS_PRECISION_FP16, 0.01}};
    double exact[STEPS];
    training t = begin(KAS_PRECISION_FP32);
    for (int i = 0; i < STEPS; i++)
        exact[i] = step(&t);
    assert_true(exact[STEPS - 1] < 0.6 * exact[0]);
    end(&t);
    for (size_t r = 0; r < sizeof runs / sizeof *runs; r++) {
        double worst = 0;
        t = begin(runs[r].precision);
        for (int i = 0; i < STEPS; i++)
            worst = fmax(worst, fabs(step(&t) - exact[i]) / exact[0]);
        print_message(
            "precision %d: loss from %.4f to %.4f in float32, at most %.2g of the first away; "
            "tolerance %g\n",
            (int)runs[r].precision, exact[0], exact[STEPS - 1], worst, runs[r].most);
        /* TF32 is what the device makes of it: the CPU has none */
        if (runs[r].precision != KAS_PRECISION_TF32 ||
            kas_device_get_info(device)->kind == KAS_DEVICE_CPU)
            assert_true(worst <= runs[r].most);
        end(&t);
    }
}

/* Logits of inference, with the averaged parameters or with those in training. */
static void infer(training *t, bool averaged, float *logits)
{
    const kas_step_options options = {.mode = KAS_TAPE_INFER, .averaged = averaged};
    kas_plan *plan = NULL;
    assert_int_equal(kas_model_record(t->pair.model, &options, &plan), KAS_OK);
    assert_int_equal(kas_model_set_batch(t->pair.model, KAS_TAPE_INFER, t->pair.images, NULL),
                     KAS_OK);
    assert_int_equal(kas_plan_run(plan), KAS_OK);
    assert_int_equal(kas_model_get_logits(t->pair.model, KAS_TAPE_INFER, logits), KAS_OK);
    kas_plan_free(plan);
}

/* After the first step the averages are the parameters: convolutions read a copy of their own,
 * which is made when it is asked for. */
TEST(averages_are_read)
{
    float own[16 * 10], averaged[16 * 10];
    for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
        training t = begin(small[i]);
        kas_plan *average = NULL;
        assert_int_equal(kas_model_record_average(t.pair.model, &average), KAS_OK);
        assert_non_null(average);
        step(&t);
        infer(&t, true, averaged);
        infer(&t, false, own);
        assert_true(memcmp(own, averaged, sizeof own) != 0);
        assert_int_equal(kas_plan_run(average), KAS_OK);
        infer(&t, true, averaged);
        assert_memory_equal(own, averaged, sizeof own);
        kas_plan_free(average);
        end(&t);
    }
    training t = begin(KAS_PRECISION_FP32);
    kas_plan *average = NULL;
    assert_int_equal(kas_model_record_average(t.pair.model, &average), KAS_OK);
    assert_null(average);
    end(&t);
}

/* Everything that a run goes on from lies in what a checkpoint keeps. */
TEST(a_run_resumes_with_the_same_bits)
{
    for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
        training t = begin(small[i]);
        const size_t bytes = kas_model_kept(t.pair.model);
        char *half = malloc(bytes), *straight = malloc(bytes), *resumed = malloc(bytes);
        assert_true(half && straight && resumed);
        for (int k = 0; k < STEPS; k++) {
            if (k == STEPS / 2)
                assert_int_equal(kas_model_download(t.pair.model, half), KAS_OK);
            step(&t);
        }
        assert_int_equal(kas_model_download(t.pair.model, straight), KAS_OK);
        end(&t);
        t = begin(small[i]);
        assert_int_equal(kas_model_upload(t.pair.model, half), KAS_OK);
        t.done = STEPS / 2;
        while (t.done < STEPS)
            step(&t);
        assert_int_equal(kas_model_download(t.pair.model, resumed), KAS_OK);
        assert_memory_equal(resumed, straight, bytes);
        end(&t);
        free(half), free(straight), free(resumed);
    }
}

/* ---- the loss scale -------------------------------------------------------------------------- */

static float *parameters(kas_model *m, size_t *count)
{
    const kas_params *params = kas_model_params(m);
    float *values = calloc(params->learned, sizeof *values);
    assert_non_null(values);
    for (int i = 0; i < params->count; i++)
        if (params->param[i].kind != KAS_PARAM_STATISTIC)
            assert_int_equal(kas_model_get(m, i, values + params->param[i].offset), KAS_OK);
    *count = params->learned;
    return values;
}

/* A scale far too large overflows the gradients: these steps change no parameter and no moment, and
 * the scale is halved until the gradients are finite again; that step counts. */
TEST(an_overflow_skips_its_step)
{
    training t = begin(KAS_PRECISION_FP16);
    kas_model *m = t.pair.model;
    kas_loss_scale scale = {.scale = 0x1p24f};
    size_t count;
    uint32_t skipped = 0;
    step(&t);
    assert_int_equal(kas_model_get_scale(m, &scale), KAS_OK);
    assert_true(scale.scale == KAS_SCALE_FIRST && scale.good == 1 && scale.skipped == 0);
    assert_int_equal(kas_model_set_scale(m, (kas_loss_scale){.scale = 0x1p24f, .good = 7}), KAS_OK);
    const size_t bytes = kas_model_kept(m);
    char *before = malloc(bytes), *after = malloc(bytes);
    assert_true(before && after);
    float *own = parameters(m, &count), *now = NULL;
    const size_t moments = 2 * (count * sizeof(float)); /* parameters, then velocities */
    assert_int_equal(kas_model_download(m, before), KAS_OK);
    for (scale.good = 0; t.done < STEPS && scale.good != 1; skipped++) {
        free(now);
        step(&t);
        assert_int_equal(kas_model_get_scale(m, &scale), KAS_OK);
        now = parameters(m, &count);
        if (scale.good == 0) {
            assert_true(scale.scale == 0x1p24f / (float)(2u << skipped));
            assert_int_equal(scale.skipped, skipped + 1);
            assert_memory_equal(now, own, count * sizeof *own);
            assert_int_equal(kas_model_download(m, after), KAS_OK);
            assert_memory_equal(before, after, moments);
        }
    }
    assert_in_range(skipped, 2, STEPS - 1); /* the last one of them counted */
    assert_int_equal(scale.good, 1);
    assert_int_equal(scale.skipped, skipped - 1);
    assert_memory_not_equal(now, own, count * sizeof *own);
    for (size_t i = 0; i < count; i++)
        assert_true(isfinite(now[i]));
    print_message("%u steps skipped, until the scale was %g\n", scale.skipped, (double)scale.scale);
    free(before), free(after), free(own), free(now);
    end(&t);
}

/* Activations take half, with a copy of the weights beside. */
TEST(memory_is_less)
{
    kas_net *net = NULL;
    kas_memory_plan plan[4];
    assert_int_equal(kas_net_build("resnet20", 32, 32, 3, 10, &net), KAS_OK);
    for (int precision = 0; precision < 4; precision++) {
        const kas_model_options options = {
            .net = net, .batch = 128, .training = true, .precision = (kas_precision)precision};
        assert_int_equal(kas_model_plan_memory(&options, &plan[precision]), KAS_OK);
    }
    const double share = (double)plan[2].activations / (double)plan[0].activations;
    print_message("activations in bf16: %.3f of float32's bytes\n", share);
    assert_true(share > 0.49 && share < 0.52);
    assert_int_equal(plan[1].total, plan[0].total);
    assert_int_equal(plan[2].kept, plan[0].kept);
    assert_int_equal(plan[2].activations, plan[3].activations);
    const double copy = (double)(plan[2].gradients - plan[0].gradients) / (double)plan[0].kept;
    assert_true(copy > 0.24 && copy <= 0.25); /* of parameters, velocities and a few statistics */
    kas_net_free(net);
}

TEST(only_float16_scales)
{
    training t = begin(KAS_PRECISION_BF16);
    kas_loss_scale scale;
    assert_int_equal(kas_model_set_scale(t.pair.model, (kas_loss_scale){.scale = 2}),
                     KAS_BAD_INPUT);
    assert_int_equal(kas_model_get_scale(t.pair.model, &scale), KAS_OK);
    assert_true(scale.scale == 1);
    end(&t);
}

RUN_TESTS(open_device, close_device)

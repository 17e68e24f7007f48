/* The optimisers, clipping and the moving average against the float64 reference, with the
 * schedule's own rows. */
#include "op_case.h"

#include "support/reference_update.h"
#include "host/train/schedule.h"

enum { FIRST_STEP = 1, STEPS = 4, STEPS_PER_EPOCH = 5 };

static kas_recipe make_recipe(int optimiser)
{
    return (kas_recipe){.epochs = 1,
                        .batch = 1,
                        .optimiser = optimiser,
                        .momentum = 0.9,
                        .beta1 = 0.9,
                        .beta2 = 0.99,
                        .epsilon = 1e-6,
                        .lr = 0.1,
                        .ema = 0.3,
                        .clip = 5};
}

/* What both sides hold; the gradient is the same in every step, or NaN would not show. */
typedef struct numbers {
    size_t count;
    double *param, *first, *second, *grad, *decay, *average;
} numbers;

static numbers make_numbers(size_t count)
{
    numbers n = {count,
                 random_values(count, 1),
                 calloc(count, sizeof(double)),
                 calloc(count, sizeof(double)),
                 random_values(count, 2),
                 random_values(count / KAS_UPDATE_GROUP, 3),
                 calloc(count, sizeof(double))};
    assert_true(n.first && n.second && n.average);
    for (size_t i = 0; i < count / KAS_UPDATE_GROUP; i++)
        n.decay[i] = i % 3 ? (float)5e-2 : 0;
    return n;
}

static void free_numbers(numbers *n)
{
    free(n->param), free(n->first), free(n->second), free(n->grad), free(n->decay);
    free(n->average);
}

/* One step of the reference, group by group because each has its own decay. */
static void reference_step(numbers *n, const kas_recipe *r, uint64_t step)
{
    double lr = kas_recipe_lr(r, STEPS_PER_EPOCH, step), done = (double)step;
    double scale = r->clip > 0 ? kas_ref_clip(n->count, n->grad, r->clip) : 1;
    double renew = 1 - fmin(r->ema, done / (done + 10)), grad[KAS_UPDATE_GROUP];
    for (size_t at = 0; at < n->count; at += KAS_UPDATE_GROUP) {
        double decay = n->decay[at / KAS_UPDATE_GROUP];
        for (int i = 0; i < KAS_UPDATE_GROUP; i++)
            grad[i] = scale * n->grad[at + (size_t)i];
        const kas_ref_adamw adamw = {lr, r->beta1, r->beta2, r->epsilon, decay, (int)step + 1};
        if (r->optimiser == KAS_ADAMW)
            kas_ref_adamw_step(&adamw, KAS_UPDATE_GROUP, grad, n->first + at, n->second + at,
                               n->param + at);
        else
            kas_ref_sgd(KAS_UPDATE_GROUP, lr, r->momentum, r->optimiser == KAS_NESTEROV, decay,
                        grad, n->first + at, n->param + at);
    }
    for (size_t i = 0; i < n->count; i++)
        n->average[i] += renew * (n->param[i] - n->average[i]);
}

static void run_case(size_t count, kas_recipe recipe)
{
    numbers n = make_numbers(count);
    kas_step_row rows[FIRST_STEP + STEPS];
    for (uint64_t i = 0; i < FIRST_STEP + STEPS; i++)
        rows[i] = kas_schedule_row(&(kas_run_plan){&recipe, STEPS_PER_EPOCH, 0, 8, 8}, i);
    const kas_step_state at = {.step = FIRST_STEP};
    kas_step_state *state = upload(&at, sizeof at);
    float *scratch = array_to_device(NULL, kas_clip_scratch(count) + 1);
    kas_update u = {.recipe = &recipe,
                    .param = array_to_device(n.param, count),
                    .first = array_to_device(n.first, count),
                    .second = array_to_device(n.second, count),
                    .grad = array_to_device(n.grad, count),
                    .decay = array_to_device(n.decay, count / KAS_UPDATE_GROUP),
                    .count = count,
                    .grad_scale = recipe.clip > 0 ? scratch : NULL,
                    .rows = upload(rows, sizeof rows),
                    .state = state,
                    .dtype = the_dtype,
                    .copy = the_dtype ? numbers_to_device(the_dtype, NULL, 1, 1, 1, (int)count, 1)
                                      : NULL};
    const kas_average average = {
        array_to_device(n.average, count), u.param, count, u.rows, state, NULL};
    kas_plan *plan = new_plan();
    for (uint64_t step = FIRST_STEP; step < FIRST_STEP + STEPS; step++) {
        if (recipe.clip > 0)
            OK(kas_op_clip(the_ops, plan, u.grad, count, recipe.clip, scratch + 1, scratch));
        OK(kas_op_update(the_ops, plan, &u));
        OK(kas_op_average(the_ops, plan, &average));
        OK(kas_op_advance(the_ops, plan, state, 1));
        reference_step(&n, &recipe, step);
    }
    run_plan();
    check_array("param", u.param, n.param, count, 1e-6);
    check_array("first moment", u.first, n.first, count, 1e-6);
    check_array("second moment", u.second, n.second, count, 1e-6);
    if (the_dtype != KAS_F32) { /* exactly the parameters, rounded */
        double *param = array_from_device(u.param, count);
        double *copy = numbers_from_device(the_dtype, u.copy, 1, 1, 1, (int)count, 1);
        for (size_t i = 0; i < count; i++)
            assert_true(copy[i] == number_round(the_dtype, param[i]));
        free(param), free(copy);
    }
    check_array("average", average.average, n.average, count, 1e-6);
    FREE(u.param, u.first, u.second, (void *)u.grad, (void *)u.decay, (void *)u.rows, state);
    FREE(average.average, scratch, u.copy);
    free_numbers(&n);
}

TEST(optimisers_agree)
{
    EACH_ORDER(order)
    {
        for (int optimiser = KAS_NESTEROV; optimiser <= KAS_ADAMW; optimiser++) {
            kas_recipe recipe = make_recipe(optimiser);
            run_case(64, recipe);
            run_case(1024 * 5 + 192, recipe);
            recipe.clip = 0;
            run_case(1024, recipe);
        }
    }
    print_worst("optimisers");
}

/* Several blocks of the first pass; a gradient that is short enough keeps its length. */
TEST(clipping_measures_the_whole_gradient)
{
    static const size_t counts[] = {64, 16384, 16384 * 300 + 64};
    EACH_ORDER(order)
    {
        for (int i = 0; i < 6; i++) {
            size_t count = counts[i % 3];
            double *grad = random_values(count, 4), limit = i < 3 ? 1.5 : 1e6;
            double want = kas_ref_clip(count, grad, limit);
            float *g = array_to_device(grad, count), *scale = array_to_device(NULL, 1),
                  *scratch = array_to_device(NULL, kas_clip_scratch(count));
            kas_plan *plan = new_plan();
            OK(kas_op_clip(the_ops, plan, g, count, limit, scratch, scale));
            run_plan();
            check_array("scale", scale, &want, 1, 1e-6);
            assert_true(i < 3 ? want < 1 : want == 1);
            FREE(g, scale, scratch);
            free(grad);
        }
    }
    print_worst("clipping");
}

/* The average begins as the parameters after the first step, whatever the memory held. */
TEST(the_average_begins_with_the_first_step)
{
    kas_recipe recipe = make_recipe(KAS_SGD);
    const kas_run_plan plan = {&recipe, 10, 0, 8, 8};
    assert_true(kas_schedule_row(&plan, 0).renew == 1);
    recipe.ema = 0.9;
    assert_true(fabs(1 - (double)kas_schedule_row(&plan, 10).renew - 0.5) <= 1e-7);
    assert_true(fabs(1 - (double)kas_schedule_row(&plan, 90).renew - 0.9) <= 1e-7);
    assert_true(fabs(1 - (double)kas_schedule_row(&plan, 9999).renew - 0.9) <= 1e-7);
}

TEST(wrong_sizes_are_refused)
{
    kas_recipe recipe = make_recipe(KAS_SGD);
    const kas_update update = {.recipe = &recipe, .count = 65};
    const kas_average average = {.count = 65};
    assert_int_equal(kas_op_update(the_ops, NULL, &update), KAS_BAD_INPUT);
    assert_int_equal(kas_op_average(the_ops, NULL, &average), KAS_BAD_INPUT);
    float room[8]; /* never read or written */
    float *beside = (uintptr_t)room % 16 ? room : room + 1;
    const kas_update shifted = {.recipe = &recipe, .count = 64, .grad = beside};
    const kas_average moved = {.count = 64, .average = beside};
    assert_int_equal(kas_op_update(the_ops, NULL, &shifted), KAS_BAD_INPUT);
    assert_int_equal(kas_op_average(the_ops, NULL, &moved), KAS_BAD_INPUT);
    assert_int_equal(kas_op_clip(the_ops, NULL, NULL, 65, 1, NULL, NULL), KAS_BAD_INPUT);
    assert_int_equal(kas_op_clip(the_ops, NULL, NULL, 64, 0, NULL, NULL), KAS_BAD_INPUT);
    float *const crooked = (float *)(uintptr_t)4; /* never read */
    assert_int_equal(kas_op_clip(the_ops, NULL, crooked, 64, 1, NULL, NULL), KAS_BAD_INPUT);
}

/* Grows after some good steps, halves and skips at infinity and NaN, limits the true length. */
TEST(the_loss_scale_follows_the_gradient)
{
    const size_t count = 16384 + 64;
    double *grad = random_values(count, 5), length = 0;
    for (size_t i = 0; i < count; i++)
        length += grad[i] * grad[i];
    length = sqrt(length);
    float *g = array_to_device(grad, count), *factor = array_to_device(NULL, 1);
    const kas_loss_scale first = {.scale = 8};
    kas_scaling s = {.scale = upload(&first, sizeof first),
                     .grad = g,
                     .count = count,
                     .patience = 3,
                     .scratch = array_to_device(NULL, kas_clip_scratch(count)),
                     .factor = factor};
    static const struct {
        double bad, limit; /* bad: put into the gradient; 0 = nothing */
        float scale;       /* after the step */
        uint32_t good, skipped;
    } steps[] = {{0, 0, 8, 1, 0},        {0, 0.5, 8, 2, 0}, {0, 0, 16, 0, 0},
                 {INFINITY, 0, 8, 0, 1}, {NAN, 0, 4, 0, 2}, {0, 0, 4, 1, 2},
                 {-INFINITY, 1, 2, 0, 3}};
    float used = first.scale;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        const float bad = (float)(steps[i].bad != 0 ? steps[i].bad : grad[count - 70]);
        OK(kas_mem_upload(the_device, g + count - 70, &bad, sizeof bad));
        s.limit = steps[i].limit;
        kas_plan *plan = new_plan();
        OK(kas_op_loss_scale(the_ops, plan, &s));
        run_plan();
        kas_loss_scale got;
        float f;
        OK(kas_mem_download(the_device, &got, s.scale, sizeof got));
        OK(kas_mem_download(the_device, &f, factor, sizeof f));
        const double limited = s.limit > 0 ? fmin(s.limit / (length / used + 1e-6), 1) : 1;
        const double want = steps[i].bad == 0 ? limited / used : 0;
        assert_true(fabs(f - want) <= 1e-6 * want);
        assert_true(got.scale == steps[i].scale);
        assert_int_equal(got.good, steps[i].good);
        assert_int_equal(got.skipped, steps[i].skipped);
        used = got.scale;
    }
    FREE(g, factor, s.scale, s.scratch);
    free(grad);
}

RUN_FOR_EACH_DTYPE(open_the_ops, close_the_ops)

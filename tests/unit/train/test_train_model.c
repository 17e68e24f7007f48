/* The model on a device against the float64 reference: logits, loss, every gradient, the optimiser,
 * and tensors in files. */
#include "unit/model/model_fixture.h"

#include "support/layers.h"
#include "support/reference_update.h"
#include "host/train/schedule.h"
#include "unit/model/zoo_net.h"

static pair make_pair(const char *name, int h, int w, int n)
{
    kas_net *net = NULL;
    assert_int_equal(kas_net_build(name, h, w, 3, 10, &net), KAS_OK);
    return make_pair_of(net, NULL, n);
}

static void step_agrees(const char *name, int h, int w, int n)
{
    pair p = make_pair(name, h, w, n);
    check_step(&p, name, 1e-3);
    free_pair(&p);
}

TEST(resnet20_step)
{
    step_agrees("resnet20", 12, 12, 6);
}

TEST(resnet20_odd_sizes)
{
    step_agrees("resnet20", 13, 9, 5);
}

TEST(resnet18_step)
{
    step_agrees("resnet18", 8, 8, 4);
}

/* What the ResNets do not have: sums without a ReLU and of sums, an output with three readers, a
 * ReLU after a convolution, a batch norm with two readers, pools inside. */
static kas_net *knots(void)
{
    kas_net *net = NULL;
    kas_builder b;
    kas_builder_start(&b, "knots", 9, 8, 3, 10);
    int stem = kas_builder_relu(&b, kas_builder_conv(&b, 0, "stem", 8, 3, 1), "relu0");
    int left = kas_builder_batch_norm(&b, kas_builder_conv(&b, stem, "c1", 8, 3, 1), "bn1");
    int sum = kas_builder_add(&b, left, stem, "sum1"); /* fused, no ReLU */
    int right = kas_builder_relu(&b, kas_builder_conv(&b, sum, "c2", 8, 1, 1), "relu1");
    int both = kas_builder_add(&b, right, sum, "sum2");
    int all = kas_builder_add(&b, both, stem, "sum3"); /* of a sum; third reader of the stem */
    int norm = kas_builder_batch_norm(&b, all, "bn2"); /* two readers: stays alone */
    int relu = kas_builder_relu(&b, norm, "relu2");
    int end = kas_builder_relu(&b, kas_builder_add(&b, relu, norm, "sum4"), "relu4");
    int plain = kas_builder_conv(&b, end, "c4", 8, 3, 1);
    int other = kas_builder_batch_norm(&b, kas_builder_conv(&b, end, "c5", 8, 3, 1), "bn4");
    int half = kas_builder_add(&b, plain, other, "sum5"); /* the batch norm is its second input */
    int twice = kas_builder_add(&b, half, half, "sum6");
    int pool = kas_builder_avg_pool(&b, twice, "pool", 2);
    int last = kas_builder_batch_norm(&b, kas_builder_conv(&b, pool, "c3", 12, 3, 2), "bn3");
    kas_builder_linear(&b, kas_builder_global_avg_pool(&b, last, "gap"), "fc", 10);
    assert_int_equal(kas_builder_finish(&b, &net), KAS_OK);
    return net;
}

TEST(knotted_network)
{
    pair p = make_pair_of(knots(), NULL, 5);
    check_step(&p, "knots", 1e-3);
    free_pair(&p);
}

static kas_net *make_zoo(int h, int w)
{
    kas_net *net = zoo_net(h, w);
    if (!net)
        fail_msg("%s", kas_error());
    return net;
}

TEST(every_kind_of_layer)
{
    static const int sizes[][2] = {{12, 12}, {13, 9}};
    for (int i = 0; i < 2; i++) {
        pair p = make_pair_of(make_zoo(sizes[i][0], sizes[i][1]), NULL, 5);
        check_step(&p, "zoo", 1e-3);
        free_pair(&p);
    }
}

/* In 16 bits libraries read other copies of weights and biases. */
TEST(every_kind_of_layer_in_16_bits)
{
    for (int i = 0; i < 2; i++) {
        the_precision = i ? KAS_PRECISION_FP16 : KAS_PRECISION_BF16;
        pair p = make_pair_of(make_zoo(13, 9), NULL, 5);
        check_small(&p, "zoo", 0.5 * through_kinks());
        free_pair(&p);
    }
    the_precision = KAS_PRECISION_FP32;
}

/* A step's gradients and logits as bits. */
static float *step_bits(bool recompute, size_t *count)
{
    pair p = make_pair_with(make_zoo(13, 10), NULL, 4, NULL, recompute);
    const kas_params *params = kas_model_params(p.model);
    size_t learned = params->learned, logits = 10 * (size_t)p.n;
    float *bits = calloc(learned + logits, sizeof *bits);
    assert_non_null(bits);
    kas_plan *plan = record(&p, KAS_TAPE_TRAIN);
    assert_int_equal(kas_model_set_batch(p.model, KAS_TAPE_TRAIN, p.images, p.labels), KAS_OK);
    assert_int_equal(kas_plan_run(plan), KAS_OK);
    assert_int_equal(kas_model_get_logits(p.model, KAS_TAPE_TRAIN, bits + learned), KAS_OK);
    for (int i = 0; i < params->count; i++)
        if (params->param[i].kind != KAS_PARAM_STATISTIC)
            assert_int_equal(kas_model_get_gradient(p.model, i, bits + params->param[i].offset),
                             KAS_OK);
    print_message("recompute %d: %zu bytes\n", recompute, kas_model_memory(p.model));
    kas_plan_free(plan);
    free_pair(&p);
    *count = learned + logits;
    return bits;
}

TEST(recomputation_gives_the_same_bits)
{
    size_t count, again;
    float *kept = step_bits(false, &count), *recomputed = step_bits(true, &again);
    assert_int_equal(count, again);
    assert_memory_equal(kept, recomputed, count * sizeof *kept);
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += fabs((double)kept[i]);
    assert_true(sum > 0);
    free(kept);
    free(recomputed);
}

static void evaluate(kas_net *net)
{
    static const kas_tape_mode modes[] = {KAS_TAPE_EVALUATE, KAS_TAPE_INFER};
    pair p = make_pair_of(net, NULL, 3);
    double logits64[30];
    assert_int_equal(kas_ref_net_eval(p.ref, p.n, p.images64, logits64), KAS_OK);
    for (int i = 0; i < 2; i++) {
        float logits[30];
        for (int k = 0; k < 30; k++)
            logits[k] = NAN;
        kas_plan *plan = record(&p, modes[i]);
        assert_int_equal(kas_model_set_batch(p.model, modes[i], p.images, p.labels), KAS_OK);
        assert_int_equal(kas_plan_run(plan), KAS_OK);
        if (modes[i] == KAS_TAPE_INFER) /* the images given once stay for all runs */
            assert_int_equal(kas_plan_run(plan), KAS_OK);
        assert_int_equal(kas_model_get_logits(p.model, modes[i], logits), KAS_OK);
        double error = relative(logits, logits64, 30);
        print_message("%s, mode %d: relative error of logits %.2e, tolerance 1e-4\n", p.net->name,
                      modes[i], error);
        assert_true(error <= 1e-4);
        kas_plan_free(plan);
    }
    free_pair(&p);
}

/* Nor does dropout drop. */
TEST(evaluation_uses_running_statistics)
{
    kas_net *net = NULL;
    assert_int_equal(kas_net_build("resnet18", 9, 8, 3, 10, &net), KAS_OK);
    evaluate(net);
    evaluate(make_zoo(13, 10));
}

/* The reference's side of a parameter's update. */
static void reference_update(const kas_recipe *r, const kas_ref_param *p, bool decays, int step,
                             double scale, double lr, double *first, double *second)
{
    double decay = decays ? r->weight_decay : 0;
    double *grad = malloc(sizeof *grad * p->size);
    assert_non_null(grad);
    for (size_t k = 0; k < p->size; k++)
        grad[k] = scale * p->grad[k];
    const kas_ref_adamw adamw = {lr, r->beta1, r->beta2, r->epsilon, decay, step + 1};
    if (r->optimiser == KAS_ADAMW)
        kas_ref_adamw_step(&adamw, p->size, grad, first, second, p->value);
    else
        kas_ref_sgd(p->size, lr, r->momentum, r->optimiser == KAS_NESTEROV, decay, grad, first,
                    p->value);
    free(grad);
}

/* The factor that clips all gradients of the reference together. */
static double reference_clip(const kas_ref_net *net, double limit)
{
    double squares = 0;
    for (int i = 0; i < net->params; i++)
        for (size_t k = 0; net->param[i].grad && k < net->param[i].size; k++)
            squares += net->param[i].grad[k] * net->param[i].grad[k];
    return limit > 0 ? fmin(1, limit / (sqrt(squares) + 1e-6)) : 1;
}

enum { UPDATES = 3 };

/* Compares every parameter and its average after a step, then sets the reference's own, so that
 * rounding does not add up. */
static double compare_parameters(pair *p, double *const *average, double renew)
{
    const kas_params *params = kas_model_params(p->model);
    double worst = 0;
    for (int i = 0; i < params->count; i++) {
        size_t size = params->param[i].size;
        float *values = malloc(sizeof *values * size);
        assert_non_null(values);
        for (size_t k = 0; k < size; k++)
            average[i][k] += renew * (p->ref->param[i].value[k] - average[i][k]);
        assert_int_equal(kas_model_get(p->model, i, values), KAS_OK);
        double error = relative(values, p->ref->param[i].value, size);
        worst = error <= worst ? worst : error;
        assert_int_equal(kas_model_get_result(p->model, i, values), KAS_OK);
        error = relative(values, average[i], size);
        worst = error <= worst ? worst : error;
        for (size_t k = 0; k < size; k++)
            values[k] = (float)p->ref->param[i].value[k];
        assert_int_equal(kas_model_set(p->model, i, values), KAS_OK);
        free(values);
    }
    return worst;
}

/* Whole steps with moments, decay, clipping and averaging, from the reference's weights each time.
 */
static void optimiser_agrees(const kas_recipe *recipe, const char *name, double tolerance)
{
    kas_net *net = NULL;
    assert_int_equal(kas_net_build("resnet20", 8, 8, 3, 10, &net), KAS_OK);
    pair p = make_pair_with(net, NULL, 4, recipe, false);
    const kas_params *params = kas_model_params(p.model);
    kas_step_row rows[UPDATES];
    void *memory = NULL;
    double *state[3][128], worst = 0; /* first and second moment, average */
    assert_true(params->count <= 128);
    for (int i = 0; i < 3 * params->count; i++)
        state[i % 3][i / 3] = calloc(params->param[i / 3].size, sizeof(double));
    for (uint64_t s = 0; s < UPDATES; s++)
        rows[s] = kas_schedule_row(&(kas_run_plan){recipe, UPDATES, 0, 8, 8}, s);
    assert_int_equal(kas_mem_alloc(device, sizeof rows, &memory), KAS_OK);
    assert_int_equal(kas_mem_upload(device, memory, rows, sizeof rows), KAS_OK);
    kas_plan *plan = record_with(&p, KAS_TAPE_TRAIN, recipe, memory);
    for (uint32_t s = 0; s < UPDATES; s++) {
        double loss, lr = kas_recipe_lr(recipe, UPDATES, s);
        assert_int_equal(kas_model_set_state(p.model, (kas_step_state){.step = s}), KAS_OK);
        assert_int_equal(kas_model_set_batch(p.model, KAS_TAPE_TRAIN, p.images, p.labels), KAS_OK);
        assert_int_equal(kas_plan_run(plan), KAS_OK);
        assert_int_equal(kas_ref_net_step(p.ref, p.n, p.images64, p.labels, 0.1, &loss, NULL),
                         KAS_OK);
        double scale = reference_clip(p.ref, recipe->clip);
        for (int i = 0; i < params->count; i++)
            if (p.ref->param[i].grad)
                reference_update(recipe, &p.ref->param[i],
                                 recipe->decay_all || params->param[i].kind == KAS_PARAM_WEIGHT,
                                 (int)s, scale, lr, state[0][i], state[1][i]);
        double renew = recipe->ema > 0 ? (double)rows[s].renew : 1;
        double error = compare_parameters(&p, state[2], renew);
        worst = error <= worst ? worst : error;
    }
    print_message("%s: largest relative error of a parameter after a step %.2e, tolerance %.0e\n",
                  name, worst, tolerance);
    assert_true(worst <= tolerance);
    for (int i = 0; i < 3 * params->count; i++)
        free(state[i % 3][i / 3]);
    kas_plan_free(plan);
    kas_mem_free(device, memory);
    free_pair(&p);
}

TEST(optimisers_agree)
{
    kas_recipe r = usual_recipe;
    r.epochs = 1;
    r.lr = 0.1;
    optimiser_agrees(&r, "nesterov", 1e-5);
    r.optimiser = KAS_SGD;
    r.decay_all = true;
    r.clip = 0.5;
    r.ema = 0.9;
    optimiser_agrees(&r, "sgd, clipped and averaged", 1e-5);
    /* epsilon: a gradient near 0 has no sign that two precisions would agree on */
    r = (kas_recipe){.epochs = 1, .optimiser = KAS_ADAMW, .beta1 = 0.9, .beta2 = 0.999};
    r.epsilon = 1e-3;
    r.lr = 0.01;
    r.weight_decay = 0.05;
    r.label_smoothing = 0.1;
    r.ema = 0.5;
    optimiser_agrees(&r, "adamw, averaged", 1e-5);
}

TEST(initial_weights_have_their_variance)
{
    pair p = make_pair("resnet18", 8, 8, 2);
    const kas_params *params = kas_model_params(p.model);
    double worst = 0;
    for (int i = 0; i < params->count; i++) {
        const kas_param *param = &params->param[i];
        if (param->init != KAS_INIT_NORMAL)
            continue;
        float *values = malloc(sizeof *values * param->size);
        double sum = 0, squares = 0, n = (double)param->size;
        assert_non_null(values);
        kas_param_init(param, 1, values);
        for (size_t k = 0; k < param->size; k++) {
            sum += values[k];
            squares += (double)values[k] * values[k];
        }
        free(values);
        double expected = 2.0 / (double)(param->shape[0] * param->shape[2] * param->shape[3]);
        double error = fabs(squares / n / expected - 1) * sqrt(n / 2); /* in standard errors */
        double mean = fabs(sum / n) / sqrt(expected / n);
        worst = fmax(worst, fmax(error, mean));
    }
    print_message("largest deviation %.2f standard errors, tolerance 4.5\n", worst);
    assert_true(worst <= 4.5);
    free_pair(&p);
}

TEST(files_round_trip_and_are_checked)
{
    pair p = make_pair("resnet20", 8, 8, 2), q = make_pair("resnet20", 8, 8, 2);
    char path[64];
    snprintf(path, sizeof path, "/tmp/kas_test_model_%d.safetensors", (int)getpid());
    assert_int_equal(kas_model_init(q.model, 99), KAS_OK);
    assert_int_equal(kas_model_save(p.model, path, NULL), KAS_OK);
    assert_int_equal(kas_model_load(q.model, path, false), KAS_OK);
    const kas_params *params = kas_model_params(p.model);
    for (int i = 0; i < params->count; i++) {
        size_t bytes = sizeof(float) * params->param[i].size;
        float *a = malloc(bytes), *b = malloc(bytes);
        assert_true(a && b);
        assert_int_equal(kas_model_get(p.model, i, a), KAS_OK);
        assert_int_equal(kas_model_get(q.model, i, b), KAS_OK);
        assert_memory_equal(a, b, bytes);
        free(a);
        free(b);
    }
    kas_safetensors file;
    assert_int_equal(kas_safetensors_read(path, 1 << 24, &file), KAS_OK);
    file.tensor[0].shape[0] = 8; /* conv1.weight with half its channels */
    assert_int_equal(kas_safetensors_write(path, file.tensor, file.count, NULL), KAS_OK);
    assert_int_equal(kas_model_load(q.model, path, false), KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "conv1.weight"));
    file.tensor[0].shape[0] = 16;
    assert_int_equal(kas_safetensors_write(path, file.tensor + 1, file.count - 1, NULL), KAS_OK);
    assert_int_equal(kas_model_load(q.model, path, false), KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "missing"));
    strcpy(file.tensor[1].name, "nonsense");
    assert_int_equal(kas_safetensors_write(path, file.tensor, file.count, NULL), KAS_OK);
    assert_int_equal(kas_model_load(q.model, path, false), KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "nonsense"));
    kas_safetensors_free(&file);
    unlink(path);
    free_pair(&p);
    free_pair(&q);
}

TEST(memory_is_planned_without_a_device)
{
    pair p = make_pair("resnet20", 8, 8, 2);
    kas_model_options options = {.net = p.net, .batch = 2, .training = true};
    kas_memory_plan training, inference;
    assert_int_equal(kas_model_plan_memory(&options, &training), KAS_OK);
    assert_int_equal(training.total, kas_model_memory(p.model));
    assert_int_equal(training.total, training.kept + training.gradients + training.activations);
    options.training = false;
    assert_int_equal(kas_model_plan_memory(&options, &inference), KAS_OK);
    assert_true(inference.total < training.total / 2 + inference.gradients);
    /* each convolution with its batch norm in it (fold.h) */
    size_t folded = 0;
    for (int i = 0; i < p.net->layers; i++)
        if (p.net->layer[i].op == KAS_LAYER_CONV)
            folded += sizeof(float) * (size_t)(kas_layer_params(p.net, i) + p.net->layer[i].c);
    assert_true(inference.gradients >= folded && inference.gradients < training.gradients);
    free_pair(&p);
}

/* DenseNet-161 at ImageNet's size and batch 128 fits a GPU of 80 GB, with more than half of it
 * left; the bound below is what must be kept: the inputs of all convolutions and batch norms. */
TEST(densenet_fits_80_gb)
{
    kas_net *net = NULL;
    kas_memory_plan kept, again;
    assert_int_equal(kas_net_build("densenet161", 224, 224, 3, 1000, &net), KAS_OK);
    kas_model_options options = {.net = net, .batch = 128, .training = true};
    assert_int_equal(kas_model_plan_memory(&options, &kept), KAS_OK);
    options.recompute = true;
    assert_int_equal(kas_model_plan_memory(&options, &again), KAS_OK);
    print_message("densenet161, 3x224x224, batch 128: %.1f GB, with recomputation %.1f GB\n",
                  (double)kept.total / 1e9, (double)again.total / 1e9);
    assert_true(kept.total < 25e9);
    assert_true((double)again.total < 0.4 * (double)kept.total);
    double outputs = 0; /* of the convolutions: inputs of batch norms, in both plans */
    for (int i = 0; i < net->layers; i++)
        if (net->layer[i].op == KAS_LAYER_CONV)
            outputs += 4.0 * 128 * net->layer[i].h * net->layer[i].w * net->layer[i].c;
    assert_true((double)again.activations > outputs);
    kas_net_free(net);
}

RUN_TESTS(open_device, close_device)

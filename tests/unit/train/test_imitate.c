/* Kernels that imitate convolutions: the gradient against finite differences, what a kernel can and
 * cannot hold, and that the trained network stays what it is.  DEVICE chooses the device (cpu). */
#include "unit/model/model_fixture.h"

#include "host/core/file/files.h"
#include "host/core/log.h"
#include "host/net/targets.h"
#include "host/net/twins.h"
#include "host/space/file/kernel_json.h"
#include "host/train/imitate.h"
#include "support/layers.h"

enum { SIZE = 8, CLASSES = 4, TRAIN = 256, VALIDATION = 40, BATCH = 16 };

/* A stride, channels of which neither number divides the other, a convolution without a batch norm,
 * and a convolution whose output lies in a sum. */
static kas_net *small_net(void)
{
    kas_net *net = NULL;
    kas_builder b;
    kas_builder_start(&b, "small", SIZE, SIZE, 3, CLASSES);
    int x = kas_builder_conv(&b, 0, "stem", 12, 3, 1);
    const int stem = kas_builder_relu(&b, kas_builder_batch_norm(&b, x, "bn0"), "relu0");
    x = kas_builder_conv(&b, stem, "same", 12, 3, 1);
    x = kas_builder_add(&b, kas_builder_batch_norm(&b, x, "bn1"), stem, "sum");
    x = kas_builder_relu(&b, x, "relu1");
    x = kas_builder_conv(&b, x, "up", 18, 3, 2);
    x = kas_builder_relu(&b, kas_builder_batch_norm(&b, x, "bn2"), "relu2");
    x = kas_builder_relu(&b, kas_builder_conv(&b, x, "plain", 18, 3, 1), "relu3");
    kas_builder_linear(&b, kas_builder_global_avg_pool(&b, x, "pool"), "fc", CLASSES);
    assert_int_equal(kas_builder_finish(&b, &net), KAS_OK);
    return net;
}

/* The network with a kernel, lowered for imitation. */
typedef struct place {
    kas_net *net;
    kas_target *target;
    kas_replacement replacement;
    kas_programs *programs;
} place;

static place *place_kernel(const char *path)
{
    const kas_budget budget = {.max_flops_ratio = 2, .max_params_ratio = 2};
    const kas_model_options options = {.batch = BATCH, .training = true};
    place *p = calloc(1, sizeof *p);
    kas_model_options model = options;
    kas_kernel kernel;
    int count = 0;
    assert_non_null(p);
    p->net = small_net();
    if (kas_kernel_read_file(path, &kernel) != KAS_OK ||
        kas_net_targets(p->net, NULL, &p->target, &count) != KAS_OK ||
        kas_replacement_solve(&kernel, 1, NULL, p->target, count, &budget, &p->replacement) !=
            KAS_OK)
        fail_msg("%s: %s", path, kas_error());
    p->programs = give_programs(&model, &p->replacement, kas_device_get_info(device)->arch);
    return p;
}

static void free_place(place *p)
{
    free_programs(p->programs);
    kas_replacement_free(&p->replacement);
    free(p->target);
    kas_net_free(p->net);
    free(p);
}

/* ---- the gradient ---------------------------------------------------------------------------- */

/* A model of the network with twins, and one step of it that computes gradients only. */
typedef struct student {
    kas_twins twins;
    kas_programs programs;
    kas_model *model;
    kas_plan *plan;
    kas_imitated imitated[8];
} student;

static student *make_student(place *p)
{
    student *s = calloc(1, sizeof *s);
    double seconds;
    assert_non_null(s);
    assert_int_equal(kas_twins_create(p->net, &p->replacement, &s->twins), KAS_OK);
    assert_int_equal(s->twins.count, 3);
    assert_int_equal(kas_programs_load(p->programs, device, NULL, &seconds), KAS_OK);
    s->programs = *p->programs;
    s->programs.replacement = &s->twins.replacement;
    const kas_model_options options = {.net = s->twins.net,
                                       .programs = &s->programs,
                                       .batch = BATCH,
                                       .training = true,
                                       .twin = s->twins.twin};
    const kas_step_options step = {.mode = KAS_TAPE_IMITATE};
    OK(kas_model_create(device, &options, &s->model));
    OK(kas_model_init(s->model, 5));
    OK(kas_model_record(s->model, &step, &s->plan));
    return s;
}

static void free_student(student *s)
{
    kas_plan_free(s->plan);
    kas_model_free(s->model);
    kas_twins_free(&s->twins);
    free(s);
}

/* Runs the step; returns the sum of the shares missed. */
static double run_student(student *s, const float *images)
{
    double sum = 0;
    assert_int_equal(kas_model_set_batch(s->model, KAS_TAPE_IMITATE, images, NULL), KAS_OK);
    assert_int_equal(kas_model_forget_imitated(s->model), KAS_OK);
    assert_int_equal(kas_plan_run(s->plan), KAS_OK);
    assert_int_equal(kas_model_get_imitated(s->model, s->imitated), KAS_OK);
    for (int i = 0; i < s->twins.count; i++)
        sum += s->imitated[i].missed / s->imitated[i].wanted;
    return sum;
}

/* The share is a quadratic function of one weight of a kernel of linear primitives, so a central
 * difference over a long way is exact. Returns the error relative to the longer of both. */
static double difference_error(student *s, int param, const float *images)
{
    const size_t size = kas_model_params(s->model)->param[param].size;
    float *value = malloc(size * sizeof *value), *moved = malloc(size * sizeof *moved);
    float *gradient = malloc(size * sizeof *gradient);
    kas_rng rng = kas_rng_make(1, KAS_PURPOSE_TEST, (uint64_t)param);
    double inner = 0, end[2];
    assert_true(value && moved && gradient);
    run_student(s, images);
    assert_int_equal(kas_model_get_gradient(s->model, param, gradient), KAS_OK);
    assert_int_equal(kas_model_get(s->model, param, value), KAS_OK);
    double *direction = malloc(size * sizeof *direction);
    assert_non_null(direction);
    for (size_t i = 0; i < size; i++) {
        direction[i] = 0.1 * kas_rng_normal(&rng) + gradient[i]; /* along which it does change */
        inner += direction[i] * gradient[i];
    }
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < size; i++)
            moved[i] = (float)(value[i] + (side ? 1 : -1) * direction[i]);
        assert_int_equal(kas_model_set(s->model, param, moved), KAS_OK);
        end[side] = run_student(s, images);
    }
    assert_int_equal(kas_model_set(s->model, param, value), KAS_OK);
    const double numeric = (end[1] - end[0]) / 2;
    free(value), free(moved), free(gradient), free(direction);
    return fabs(numeric - inner) / fmax(fabs(numeric), fabs(inner));
}

static float *random_images(void)
{
    const size_t size = (size_t)BATCH * 3 * SIZE * SIZE;
    float *images = malloc(size * sizeof *images);
    kas_rng rng = kas_rng_make(2, KAS_PURPOSE_TEST, 0);
    assert_non_null(images);
    for (size_t i = 0; i < size; i++)
        images[i] = (float)kas_rng_normal(&rng);
    return images;
}

TEST(gradients_are_those_of_the_share)
{
    place *p = place_kernel("kernels/depthwise_separable.json");
    student *s = make_student(p);
    const kas_params *params = kas_model_params(s->model);
    float *images = random_images();
    double worst = 0;
    int kernels = 0;
    for (int i = 0; i < params->count; i++)
        if (params->param[i].map) {
            const double error = difference_error(s, i, images);
            worst = error <= worst ? worst : error;
            kernels++;
        }
    print_message("%d weights of kernels: largest relative error of a gradient %.2e, tolerance "
                  "1e-3\n",
                  kernels, worst);
    assert_int_equal(kernels, 6);
    assert_true(worst <= 1e-3);
    free(images);
    free_student(s);
    free_place(p);
}

/* ---- whole imitations ------------------------------------------------------------------------ */

static kas_dataset noise = {.path = "noise",
                            .h = SIZE,
                            .w = SIZE,
                            .c = 3,
                            .classes = CLASSES,
                            .mean = {0.5f, 0.5f, 0.5f},
                            .std = {0.3f, 0.3f, 0.3f},
                            .digest = "noise"};
static uint32_t validation[VALIDATION];

static void make_noise(void)
{
    enum { IMAGES = TRAIN + VALIDATION, PIXELS = SIZE * SIZE * 3 };
    static uint8_t pixels[IMAGES * PIXELS];
    static uint16_t labels[IMAGES];
    kas_rng rng = kas_rng_make(1, KAS_PURPOSE_TEST, 78);
    for (int i = 0; i < IMAGES * PIXELS; i++)
        pixels[i] = (uint8_t)kas_rng_below(&rng, 256);
    for (int i = 0; i < IMAGES; i++)
        labels[i] = (uint16_t)(i % CLASSES);
    noise.train = noise.test = (kas_images){.count = IMAGES, .pixels = pixels, .labels = labels};
    for (uint32_t i = 0; i < VALIDATION; i++)
        validation[i] = TRAIN + i;
}

/* Writes a trained network: any weights will do, and running statistics that belong to them. */
static void write_trained(const kas_net *net, const char *path)
{
    kas_train_options o = {.net = net,
                           .dataset = &noise,
                           .recipe = kas_recipe_default(),
                           .train_count = TRAIN,
                           .validation_index = validation,
                           .validation_count = VALIDATION,
                           .weights_out = path};
    kas_train_result result;
    o.recipe.epochs = 3;
    o.recipe.batch = BATCH;
    OK(kas_train(device, &o, &result));
    kas_train_result_free(&result);
}

static kas_imitate_options imitation(place *p, const char *trained)
{
    kas_imitate_options o = {.train = {.net = p->net,
                                       .dataset = &noise,
                                       .programs = p->programs,
                                       .train_count = TRAIN,
                                       .validation_index = validation,
                                       .validation_count = VALIDATION,
                                       .weights_in = trained}};
    assert_int_equal(kas_recipe_load("imitation", &o.train.recipe, NULL), KAS_OK);
    o.train.recipe.batch = BATCH;
    o.train.recipe.epochs = 25;
    o.train.recipe.lr = 0.02;
    o.train.recipe.crop_pad = 1;
    return o;
}

static void imitate(const kas_imitate_options *o, kas_imitate_result *result)
{
    OK(kas_imitate(device, o, result));
    for (int i = 0; i < result->targets; i++)
        print_message("%s misses %.4f\n", result->target[i]->name, result->missed[i]);
    print_message("mean %.4f, accuracy %.4f, of the trained network %.4f\n", result->mean,
                  result->accuracy, result->trained_accuracy);
}

static const char *in_tmp(const char *name)
{
    static char path[2][64];
    static int next;
    char *p = path[next++ % 2];
    snprintf(p, sizeof path[0], "/tmp/kas_imitate_%d.%s", (int)getpid(), name);
    return p;
}

/* A kernel that is the convolution learns it, except behind the average pool that takes a stride;
 * a depthwise one cannot, whatever its weights are. */
TEST(the_share_says_what_a_kernel_can_hold)
{
    const char *trained = in_tmp("trained");
    static const char *const kernels[] = {"kernels/conv.json", "kernels/depthwise.json"};
    for (int k = 0; k < 2; k++) {
        place *p = place_kernel(kernels[k]);
        kas_imitate_result r;
        if (k == 0)
            write_trained(p->net, trained);
        const kas_imitate_options o = imitation(p, trained);
        imitate(&o, &r);
        assert_int_equal(r.targets, 3);
        for (int i = 0; i < 3; i++) {
            const bool held = k == 0 && p->target[i].stride == 1;
            assert_ptr_equal(r.target[i], &p->target[i]);
            assert_true(r.missed[i] <= 1.01 && (held ? r.missed[i] <= 0.01 : r.missed[i] >= 0.2));
        }
        kas_imitate_result_free(&r);
        free_place(p);
    }
    unlink(trained);
}

static kas_buf whole(const char *path)
{
    kas_buf b = {0};
    assert_int_equal(kas_file_read(path, 1 << 24, &b), KAS_OK);
    return b;
}

/* The same options give the same file, however slowly the network's batch norms follow; everything
 * but the kernels and the running statistics is the trained network's. */
TEST(the_trained_network_stays)
{
    char trained[64], out[3][64];
    snprintf(trained, sizeof trained, "%s", in_tmp("trained"));
    place *p = place_kernel("kernels/depthwise_separable.json");
    static const char *const names[] = {"first", "second", "slow"};
    kas_buf file[3];
    write_trained(p->net, trained);
    for (int k = 0; k < 3; k++) {
        kas_imitate_options o = imitation(p, trained);
        kas_imitate_result r;
        snprintf(out[k], sizeof out[k], "%s", in_tmp(names[k]));
        o.train.recipe.epochs = 2;
        o.train.recipe.weight_decay = 0.5; /* must not reach the trained network */
        o.train.weights_out = out[k];
        o.images = 100;
        for (int i = 0; k == 2 && i < p->net->layers; i++)
            p->net->layer[i].momentum = 0.0003;
        imitate(&o, &r);
        assert_int_equal(r.steps, 2 * (100 / BATCH));
        kas_imitate_result_free(&r);
        file[k] = whole(out[k]);
    }
    for (int k = 1; k < 3; k++) {
        assert_int_equal(file[0].size, file[k].size);
        assert_memory_equal(file[0].data, file[k].data, file[0].size);
    }
    kas_safetensors before, after;
    int same = 0, estimated = 0;
    assert_int_equal(kas_safetensors_read(trained, 1 << 24, &before), KAS_OK);
    assert_int_equal(kas_safetensors_read(out[0], 1 << 24, &after), KAS_OK);
    for (int i = 0; i < after.count; i++) {
        const kas_named_tensor *t = &after.tensor[i];
        const kas_named_tensor *old = kas_safetensors_find(&before, t->name);
        const size_t bytes = kas_named_tensor_elements(t) * sizeof(float);
        if (old && strstr(t->name, "running"))
            estimated += memcmp(t->data, old->data, bytes) != 0;
        else if (old)
            same += memcmp(t->data, old->data, bytes) == 0;
    }
    print_message("%d of %d tensors are the trained network's, %d were estimated again\n", same,
                  after.count, estimated);
    assert_int_equal(same, 1 + 2 * 3 + 2); /* the stem, three batch norms, the classifier */
    assert_int_equal(estimated, 2 * 3);
    kas_safetensors_free(&before);
    kas_safetensors_free(&after);
    for (int k = 0; k < 3; k++) {
        kas_buf_free(&file[k]);
        unlink(out[k]);
    }
    unlink(trained);
    free_place(p);
}

TEST(what_does_not_fit_is_refused)
{
    place *p = place_kernel("kernels/depthwise.json");
    kas_imitate_result r;
    const kas_imitate_options good = imitation(p, "/nonexistent/weights");
    kas_imitate_options o = good;
    o.images = TRAIN + 1;
    assert_int_equal(kas_imitate(device, &o, &r), KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "--images: 257"));
    kas_imitate_result_free(&r);
    o = good;
    o.train.recipe.precision = KAS_PRECISION_BF16;
    assert_int_equal(kas_imitate(device, &o, &r), KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "fp32 or tf32"));
    kas_imitate_result_free(&r);
    o = good;
    o.train.validation_count = BATCH - 1;
    assert_int_equal(kas_imitate(device, &o, &r), KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "15 validation images"));
    kas_imitate_result_free(&r);
    assert_int_not_equal(kas_imitate(device, &good, &r), KAS_OK);
    assert_non_null(strstr(kas_error(), "/nonexistent/weights"));
    kas_imitate_result_free(&r);
    free_place(p);
}

static int open_all(void **state)
{
    kas_log_set_level(KAS_LOG_WARN);
    make_noise();
    return open_device(state);
}

RUN_TESTS(open_all, close_device)

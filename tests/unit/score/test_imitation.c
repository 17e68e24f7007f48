/* The score `imitation` against float64: the same learning by the reference's passes, with the formulas written out once
 * more. */
#include "world.h"

#include "host/model/params.h"

/* The score in float64, of the reference's passes: every target reads what it has in the network as
 * it is, and correlations are written out in another way. */
typedef struct mimic {
    judge plain, kernels;
    double *first[64], *second[64]; /* moments of each weight */
} mimic;

/* Returns the mean share of the variance that is given, and leaves the gradients of the weights. */
static double mimic_look(world *w, mimic *m, bool learn)
{
    static const int alike[] = {2, 0, 1}; /* conv1 stands for conv2; conv3 has a stride */
    double all = 0;
    assert_int_equal(w->targets, 3);
    for (int t = 0; t < w->targets; t++) {
        const int i = w->target[t].layer, in = w->net->layer[i].in[0], c = w->net->layer[i].c;
        const size_t size = kas_ref_layer_size(&m->kernels.pass, i),
                     each = size / BATCH / (size_t)c;
        /* As many images as have 512 pixels */
        const size_t most = (511 + each) / each, n = most < BATCH ? most : BATCH;
        memcpy(m->kernels.pass.act[in], m->plain.pass.act[in],
               sizeof(double) * kas_ref_layer_size(&m->plain.pass, in));
        OK(kas_ref_layer_forward(&m->kernels.pass, i));
        double *x = m->kernels.pass.act[i], *y = m->plain.pass.act[i], *g = m->kernels.pass.grad[i];
        for (int k = 0; k < c; k++) {
            double mx = 0, my = 0, xx = 0, yy = 0, xy = 0;
            for (size_t e = 0; e < n * (size_t)c * each; e++)
                if (e / each % (size_t)c == (size_t)k)
                    mx += x[e] / (double)(n * each), my += y[e] / (double)(n * each);
            for (size_t e = 0; e < n * (size_t)c * each; e++)
                if (e / each % (size_t)c == (size_t)k) {
                    xx += (x[e] - mx) * (x[e] - mx);
                    yy += (y[e] - my) * (y[e] - my);
                    xy += (x[e] - mx) * (y[e] - my);
                }
            const double r = xy / sqrt(xx * yy);
            all += r > 0 ? alike[t] * r * r / c / w->targets : 0;
            for (size_t e = 0; e < size; e++)
                if (e / each % (size_t)c == (size_t)k)
                    g[e] = e >= n * (size_t)c * each
                               ? 0
                               : -((y[e] - my) / sqrt(xx * yy) - r * (x[e] - mx) / xx) / c;
        }
        if (learn)
            OK(kas_ref_layer_backward(&m->kernels.pass, i));
    }
    return all;
}

static void mimic_step(mimic *m, const kas_interpreter *names, int step, int steps)
{
    const double rate = 0.015 * (1 + cos(M_PI * step / steps));
    for (int i = 0; i < names->weights; i++) {
        const kas_interpret_weight *at = &names->weight[i];
        kas_ref_param *param = kas_ref_net_param(m->kernels.net, at->layer, at->slot);
        if (names->target[at->layer] < 0)
            continue;
        if (!m->first[i]) {
            m->first[i] = calloc(at->size, sizeof(double));
            m->second[i] = calloc(at->size, sizeof(double));
        }
        for (size_t k = 0; k < at->size; k++) {
            const double g = param->grad[k];
            m->first[i][k] += 0.1 * (g - m->first[i][k]);
            m->second[i][k] += 0.001 * (g * g - m->second[i][k]);
            param->value[k] -= rate * m->first[i][k] / (1 - pow(0.9, step + 1)) /
                               (sqrt(m->second[i][k] / (1 - pow(0.999, step + 1))) + 1e-8);
        }
    }
}

/* A file with other weights than any draw gives, of norms too. */
static kas_safetensors trained_file(const kas_net *net)
{
    kas_safetensors file = {0};
    kas_params params;
    OK(kas_params_build(net, NULL, &params));
    file.tensor = calloc((size_t)params.count, sizeof *file.tensor);
    for (int i = 0; i < params.count; i++) {
        const kas_param *param = &params.param[i];
        kas_named_tensor *t = &file.tensor[file.count++];
        float *values = test_images(param->size, 90 + (uint64_t)i);
        for (size_t k = 0; k < param->size; k++)
            values[k] = 0.3F * values[k] + (param->rank == 1 && param->slot == 0 ? 1 : 0);
        *t = (kas_named_tensor){.rank = param->rank, .data = values};
        snprintf(t->name, sizeof t->name, "%s", param->name);
        memcpy(t->shape, param->shape, sizeof param->shape);
    }
    kas_params_free(&params);
    return file;
}

/* Gives the reference the weights of the file. */
static void judge_file(judge *j, const kas_net *net, const kas_safetensors *file)
{
    kas_params params;
    OK(kas_params_build(net, NULL, &params));
    for (int i = 0; i < params.count; i++) {
        const kas_param *from = &params.param[i];
        kas_ref_param *to = kas_ref_net_param(j->net, from->layer, from->slot);
        if (from->kind == KAS_PARAM_STATISTIC)
            continue;
        assert_non_null(to);
        for (size_t k = 0; k < from->size; k++)
            to->value[k] = (double)((const float *)file->tensor[i].data)[k];
    }
    kas_params_free(&params);
}

static void free_file(kas_safetensors *file)
{
    for (int i = 0; i < file->count; i++)
        free((void *)(uintptr_t)file->tensor[i].data);
    free(file->tensor);
}

static void agrees(int side, bool trained)
{
    enum { STEPS = 12 };
    world *w = world_make_sized(KAS_LAYER_RELU, KAS_OP_SIGMOID, side);
    mimic m = {.kernels = judge_of(w, w->net, BATCH, KAS_INTERPRET_TRAINING)};
    const kas_interpret_options options = {.net = w->net, .batch = BATCH, .exact = true};
    kas_interpret_options named = options;
    kas_interpret_memory memory[2] = {{0}};
    kas_normals normals = {0};
    kas_interpreter *plain, *names;
    named.replacement = &w->replacement;
    OK(kas_interpret_create(&options, &memory[0], &plain));
    OK(kas_interpret_create(&named, &memory[1], &names));
    OK(kas_interpret_draw(plain, SEED ^ 0x9e3779b97f4a7c15u, KAS_INTERPRET_TRAINING, &normals));
    m.plain = judge_make(w->net, NULL, BATCH);
    judge_weights(&m.plain, plain);
    kas_safetensors file = {0};
    if (trained) {
        file = trained_file(w->net);
        judge_file(&m.plain, w->net, &file);
        w->setup.trained = &file;
    }
    judge_forward(&m.plain, w->minibatch[0].image);
    const double before = mimic_look(w, &m, false);
    for (int step = 0; step < STEPS; step++) {
        mimic_look(w, &m, true);
        mimic_step(&m, names, step, STEPS);
    }
    const double learned = mimic_look(w, &m, false);
    judge_forward(&m.plain, w->minibatch[1].image);
    const double expected = mimic_look(w, &m, false);
    assert_true(learned > before + 0.05);
    assert_near("imitation", value_of(w, KAS_SCORE_IMITATION), expected, 2e-4);
    for (int i = 0; i < names->weights; i++) {
        free(m.first[i]);
        free(m.second[i]);
    }
    kas_interpret_free(plain);
    kas_interpret_free(names);
    for (int i = 0; i < 2; i++)
        kas_interpret_memory_free(&memory[i]);
    kas_normals_free(&normals);
    judge_free(&m.plain);
    judge_free(&m.kernels);
    world_free(w);
    free_file(&file);
}

TEST(imitation_agrees)
{
    agrees(6, false);
    agrees(20, false); /* two of eight images, and six where a stride has halved the sides */
}

/* Convolutions and norms of a file are imitated. */
TEST(imitation_of_a_trained_network_agrees)
{
    agrees(6, true);
    agrees(20, true);
}

/* What computes the same in every image and pixel gives nothing; a network as it is gives all. */
TEST(imitation_of_a_constant)
{
    world *w = world_make(KAS_LAYER_RELU, KAS_OP_RELU);
    kas_kernel k = {0};
    const int x = kas_build_input(&k), zero = kas_build_broadcast(&k, KAS_OP_SUB, x, x);
    assert_true(kas_build_fc(&k, kas_build_elementwise(&k, KAS_OP_EXP, zero), false, "C") >= 0);
    OK(kas_kernel_infer(&k));
    kas_replacement_free(&w->replacement);
    OK(kas_replacement_solve(&k, 1, NULL, w->target, w->targets,
                             &(kas_budget){.max_flops_ratio = 9}, &w->replacement));
    assert_true(fabs(value_of(w, KAS_SCORE_IMITATION)) <= 0);
    kas_scored out;
    OK(kas_score_average(&w->setup, NULL, 0, SEED, 1, &w->memory, &out));
    assert_true(out.state[KAS_SCORE_IMITATION] == KAS_SCORED &&
                out.value[KAS_SCORE_IMITATION] == 1);
    world_free(w);
}

RUN_TESTS()

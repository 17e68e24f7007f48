/* A small network with kernels whose scores are computed, and the reference with the same weights. */
#ifndef KAS_TESTS_UNIT_SCORE_WORLD_H
#define KAS_TESTS_UNIT_SCORE_WORLD_H

#include "unit/interpret/judged.h"
#include "near.h"

#include <stdio.h>

#include "host/net/targets.h"
#include "host/score/untrained/scoring.h"
#include "support/build.h"
#include "support/layers.h"

enum { BATCH = 8, SEED = 4 };

/* ---- a network ------------------------------------------------------------------------------- */

typedef struct world {
    kas_net *net;
    kas_target *target;
    int targets;
    kas_replacement replacement;
    kas_minibatch minibatch[KAS_SCORE_MINIBATCHES];
    kas_score_setup setup;
    kas_score_memory memory;
} world;

/* Two residual blocks, the second with half of the pixels. `op` is the activation in and behind the first. */
static inline kas_net *small_net(kas_layer_op op, int side)
{
    kas_net *net = NULL;
    kas_builder b;
    kas_builder_start(&b, "small", side, side, 3, 5);
    int x = kas_builder_conv(&b, 0, "stem", 8, 3, 1);
    x = kas_builder_relu(&b, kas_builder_batch_norm(&b, x, "bn0"), "relu0");
    int y = kas_builder_conv(&b, x, "conv1", 8, 3, 1);
    y = kas_builder_relu(&b, kas_builder_batch_norm(&b, y, "bn1"), "relu1");
    y = kas_builder_batch_norm(&b, kas_builder_conv(&b, y, "conv2", 8, 3, 1), "bn2");
    x = kas_builder_relu(&b, kas_builder_add(&b, x, y, "add2"), "relu2");
    y = kas_builder_conv(&b, x, "conv3", 8, 3, 2);
    y = kas_builder_relu(&b, kas_builder_batch_norm(&b, y, "bn3"), "relu3");
    x = kas_builder_avg_pool(&b, x, "pool", 2);
    x = kas_builder_relu(&b, kas_builder_add(&b, x, y, "add4"), "relu4");
    x = kas_builder_global_avg_pool(&b, x, "gap");
    kas_builder_linear(&b, x, "fc", 5);
    OK(kas_builder_finish(&b, &net));
    for (int i = 0; i < net->layers; i++)
        if (net->layer[i].op == KAS_LAYER_RELU)
            net->layer[i].op = op;
    return net;
}

/* The mean of the windows, twice the ReLU of a map of them: has every kind of weight that scores count. */
static inline kas_kernel small_kernel(kas_op function)
{
    kas_kernel k = {0};
    const int windows = kas_build_unfold(&k, kas_build_input(&k), KAS_AXIS_H);
    const int map = kas_build_elementwise(&k, function, kas_build_fc(&k, windows, false, "C"));
    const int scaled = kas_build_along(&k, KAS_OP_SCALE, map, 0, 1);
    assert_true(kas_build_conv_depthwise(&k, scaled, KAS_AXIS_W, 3, 1) >= 0);
    OK(kas_kernel_infer(&k));
    return k;
}

/* Takes the network, and replaces its targets by the small kernel. */
static inline world *world_of(kas_net *net, kas_op function)
{
    const int side = net->layer[0].h;
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->net = net;
    OK(kas_net_targets(w->net, NULL, &w->target, &w->targets));
    const kas_kernel kernel = small_kernel(function);
    OK(kas_replacement_solve(&kernel, 1, NULL, w->target, w->targets,
                             &(kas_budget){.max_flops_ratio = 9}, &w->replacement));
    const size_t size = (size_t)BATCH * 3 * (size_t)side * (size_t)side;
    for (int m = 0; m < KAS_SCORE_MINIBATCHES; m++) {
        w->minibatch[m] =
            (kas_minibatch){BATCH, test_images(size, 7 + (uint64_t)m), calloc(BATCH, 2)};
        for (int i = 0; i < BATCH; i++)
            w->minibatch[m].label[i] = (uint16_t)((i + m) % 5);
    }
    w->setup = (kas_score_setup){.net = w->net,
                                 .target = w->target,
                                 .targets = w->targets,
                                 .batch = BATCH,
                                 .seed = SEED,
                                 .minibatch = w->minibatch};
    return w;
}

static inline world *world_make_sized(kas_layer_op op, kas_op function, int side)
{
    return world_of(small_net(op, side), function);
}

static inline world *world_make(kas_layer_op op, kas_op function)
{
    return world_make_sized(op, function, 6);
}

static inline void world_free(world *w)
{
    for (int m = 0; m < KAS_SCORE_MINIBATCHES; m++)
        kas_minibatch_free(&w->minibatch[m]);
    kas_score_memory_free(&w->memory);
    kas_replacement_free(&w->replacement);
    free(w->target);
    kas_net_free(w->net);
    free(w);
}

static inline kas_scored score(world *w, const char *list)
{
    kas_scored out;
    OK(kas_scores_parse(list, w->setup.asked));
    OK(kas_score_check(&w->setup));
    OK(kas_score_average(&w->setup, &w->replacement, 0, SEED, 1, &w->memory, &out));
    return out;
}

static inline double value_of(world *w, kas_score_id id)
{
    const kas_scored all = score(w, kas_score_get(id)->name);
    assert_int_equal(all.state[id], KAS_SCORED);
    return all.value[id];
}

/* ---- the same in float64 --------------------------------------------------------------------- */

/* A judge with the weights that a draw gives. */
static inline judge judge_of(const world *w, const kas_net *net, int batch, kas_interpret_init how)
{
    const kas_interpret_options options = {
        .net = net, .replacement = &w->replacement, .batch = batch, .exact = true};
    kas_interpret_memory memory = {0};
    kas_normals normals = {0};
    kas_interpreter *p;
    OK(kas_interpret_create(&options, &memory, &p));
    OK(kas_interpret_draw(p, SEED, how, &normals));
    judge j = judge_make(net, &w->replacement, batch);
    judge_weights(&j, p);
    kas_interpret_free(p);
    kas_interpret_memory_free(&memory);
    kas_normals_free(&normals);
    return j;
}

#endif

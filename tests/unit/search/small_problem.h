/* A problem that takes no time: a ResNet of one block a stage on 40 images of noise, 8 x 8. */
#ifndef KAS_TESTS_SEARCH_SMALL_PROBLEM_H
#define KAS_TESTS_SEARCH_SMALL_PROBLEM_H

#include "host/core/random.h"
#include "host/net/targets.h"
#include "host/score/untrained/score.h"
#include "host/study/problem.h"
#include "support/test.h"

enum { IMAGES = 40, SIZE = 8, CLASSES = 4 };

static inline void open_problem(kas_problem *out)
{
    kas_rng rng = kas_rng_make(3, KAS_PURPOSE_TEST, 0);
    *out = (kas_problem){0};
    OK(kas_dataset_create(SIZE, SIZE, 3, CLASSES, IMAGES, 4, &out->dataset));
    for (uint32_t i = 0; i < IMAGES * SIZE * SIZE * 3; i++)
        out->dataset->train.pixels[i] = (uint8_t)kas_rng_u32(&rng);
    for (uint32_t i = 0; i < IMAGES; i++)
        out->dataset->train.labels[i] = (uint16_t)(i % CLASSES);
    OK(kas_net_build("resnet20:n=1", SIZE, SIZE, 3, CLASSES, &out->net));
    OK(kas_net_targets(out->net, NULL, &out->target, &out->targets));
}

/* The potential as kas-gpu score has it; replacement NULL: the network's own. */
static inline double potential(const kas_problem *p, int batch, uint64_t seed,
                               const kas_replacement *replacement)
{
    kas_minibatch m[KAS_SCORE_MINIBATCHES];
    kas_score_memory memory = {0};
    kas_scored scored;
    kas_score_setup setup = {.net = p->net,
                             .target = p->target,
                             .targets = p->targets,
                             .batch = batch,
                             .seed = seed,
                             .minibatch = m};
    OK(kas_scores_parse("fisher", setup.asked));
    OK(kas_minibatches_draw(p->dataset, batch, KAS_SCORE_MINIBATCHES, seed, m));
    OK(kas_score_average(&setup, replacement, 0, seed, 1, &memory, &scored));
    for (int k = 0; k < KAS_SCORE_MINIBATCHES; k++)
        kas_minibatch_free(&m[k]);
    kas_score_memory_free(&memory);
    return scored.value[KAS_SCORE_FISHER];
}

#endif

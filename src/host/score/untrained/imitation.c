/* imitation: how well the kernels learn, in a few steps, to give what the convolutions give that they
 * replace. It is a short form of `kas-gpu imitate` (train/imitate.h) that needs no trained network.
 *
 * The convolutions have the weights of a trained network (kas_score_setup.trained) or else weights of
 * their own, drawn at random, and each kernel has some of its own. A kernel reads
 * what its convolution reads in the unmodified network. With r the correlation of a channel of the
 * kernel with the same channel of the convolution, over the pixels of all images of the minibatch, it
 * takes STEPS steps of Adam against
 *
 *     mean over channels of 1 - r
 *
 * at a rate that falls by the cosine. The score is, on the other minibatch,
 *
 *     mean over replaced targets of the mean over channels of max(r, 0)^2
 *
 * the share of the convolution's variance that the kernel gives: 1 for the unmodified network, 0 for
 * a constant or noise. A correlation knows nothing of a channel's mean and scale, as the batch norm
 * behind the layer does; a loss that does takes most of the steps to find the scale.
 *
 * Two things bound the cost. Of targets with the same sizes and the same kernel the first stands for
 * all, of a trained network too, whose layers differ. And a target looks at as many images as have PIXELS pixels there, at least one, so that large
 * images cost no more than small ones.
 *
 * Our own; docs/scores.md says how it was compared. It asks what a kernel can hold and whether it can
 * learn it, layer by layer. What happens where kernels follow one another it does not see, and so not
 * whether a training diverges. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host/score/untrained/scoring.h"

/* The rate is that of the recipe `imitation`. */
enum { STEPS = 12, PIXELS = 512 };
static const double RATE = 0.03;
/* The convolutions' weights are those of another seed: a kernel must not begin with them. */
static const uint64_t OTHER_SEED = 0x9e3779b97f4a7c15u;

typedef struct imitation {
    kas_scoring *scoring;
    kas_interpreter *kernels;
    float *moment; /* [2 * values] of Adam */
    int *alike;    /* [targets] how many targets this one stands for; 0: another stands for it */
} imitation;

/* ---- what is given --------------------------------------------------------------------------- */

/* Means, variances and covariance of a channel of the kernel's and the convolution's output. */
typedef struct channel {
    double mean[2], variance[2], covariance;
} channel;

/* Returns 0 where it is rounding: squares are added up in float32. NaN comes through. */
static double variance_of(double mean, double mean_square)
{
    const double variance = mean_square - mean * mean;
    return variance <= 1e-5 * mean_square ? 0 : variance;
}

/* Tensors are [n][c][pixels], and begin with the channel. */
static channel channel_of(const float *kernel, const float *convolution, size_t n, size_t c,
                          size_t pixels)
{
    double sum[5] = {0};
    const double count = (double)(n * pixels);
    for (size_t b = 0; b < n; b++, kernel += c * pixels, convolution += c * pixels) {
        float x = 0, y = 0, xx = 0, yy = 0, xy = 0;
#pragma omp simd reduction(+ : x, y, xx, yy, xy)
        for (size_t i = 0; i < pixels; i++) {
            x += kernel[i];
            y += convolution[i];
            xx += kernel[i] * kernel[i];
            yy += convolution[i] * convolution[i];
            xy += kernel[i] * convolution[i];
        }
        const float part[5] = {x, y, xx, yy, xy};
        for (int k = 0; k < 5; k++)
            sum[k] += (double)part[k] / count;
    }
    return (channel){.mean = {sum[0], sum[1]},
                     .variance = {variance_of(sum[0], sum[2]), variance_of(sum[1], sum[3])},
                     .covariance = sum[4] - sum[0] * sum[1]};
}

/* Returns 0 where a channel is constant. */
static double correlation(const channel *s)
{
    const double product = s->variance[0] * s->variance[1];
    return product == 0 ? 0 : s->covariance / sqrt(product); /* NaN comes through */
}

/* Fills the gradient of the mean over `c` channels of 1 - r, for one of them. */
static void fill_gradient(const channel *s, const float *kernel, const float *convolution, size_t n,
                          size_t c, size_t pixels, float *gradient)
{
    const double r = correlation(s);
    const double each = r != 0 ? 1 / ((double)(n * pixels * c) * sqrt(s->variance[0])) : 0;
    const double own = each * r / sqrt(s->variance[0]), other = each / sqrt(s->variance[1]);
    for (size_t b = 0; b < n; b++)
        for (size_t i = b * c * pixels; i < b * c * pixels + pixels; i++)
            gradient[i] = r != 0 ? (float)(own * ((double)kernel[i] - s->mean[0]) -
                                           other * ((double)convolution[i] - s->mean[1]))
                                 : 0;
}

/* Returns the share of a layer's variance that is given; fills the gradient unless it is NULL. */
static double given_share(const kas_layer *l, int images, const float *kernel,
                          const float *convolution, float *gradient)
{
    const size_t n = (size_t)images, c = (size_t)l->c, pixels = (size_t)l->h * (size_t)l->w;
    double share = 0;
    for (size_t at = 0; at < c * pixels; at += pixels) {
        const channel s = channel_of(kernel + at, convolution + at, n, c, pixels);
        const double r = correlation(&s);
        share += r < 0 ? 0 : r * r / (double)c;
        if (gradient)
            fill_gradient(&s, kernel + at, convolution + at, n, c, pixels, gradient + at);
    }
    return share;
}

/* Returns how many images of the minibatch a target looks at. */
static int images_of(const kas_score_setup *setup, const kas_layer *l)
{
    const int images = (PIXELS + l->h * l->w - 1) / (l->h * l->w);
    return images < setup->batch ? images : setup->batch;
}

/* Returns the mean share that the kernels give on a minibatch; with `learn` adds the gradients of
 * their weights. */
static double look(imitation *m, int minibatch, bool learn)
{
    const kas_score_setup *setup = m->scoring->setup;
    const kas_interpreter *plain = m->scoring->memory->original[minibatch];
    double sum = 0;
    for (int t = 0; t < setup->targets; t++) {
        const int i = setup->target[t].layer;
        const kas_layer *l = &setup->net->layer[i];
        const int images = images_of(setup, l);
        if (m->alike[t] == 0)
            continue;
        kas_interpret_target(m->kernels, i, plain, images);
        sum += m->alike[t] * given_share(l, images, m->kernels->act[i], plain->act[i],
                                         learn ? m->kernels->grad[i] : NULL);
        if (learn)
            kas_interpret_target_backward(m->kernels, i, plain, images);
    }
    return sum / kas_replacement_replaced(m->scoring->replacement);
}

/* ---- learning -------------------------------------------------------------------------------- */

/* Adam (Kingma and Ba 2015) with its usual constants. */
static void step(imitation *m, int number)
{
    const size_t values = m->kernels->values;
    float *weight = m->kernels->value, *first = m->moment, *second = m->moment + values;
    const float *gradient = m->kernels->slope;
    const double rate = RATE * 0.5 * (1 + cos(acos(-1) * number / STEPS));
    const float scale = (float)(rate / (1 - pow(0.9, number + 1))),
                scale2 = (float)(1 / (1 - pow(0.999, number + 1)));
    for (size_t i = 0; i < values; i++) {
        first[i] = 0.9f * first[i] + 0.1f * gradient[i];
        second[i] = 0.999f * second[i] + 0.001f * gradient[i] * gradient[i];
        weight[i] -= scale * first[i] / (sqrtf(scale2 * second[i]) + 1e-8f);
    }
}

static void learn(imitation *m)
{
    for (int number = 0; number < STEPS; number++) {
        memset(m->kernels->slope, 0, sizeof(float) * m->kernels->values);
        look(m, 0, true);
        step(m, number);
    }
}

/* ---- which targets ------------------------------------------------------------------------- */

/* Of targets with the same sizes and the same kernel the first stands for all. */
static kas_status choose_targets(imitation *m)
{
    const kas_score_setup *setup = m->scoring->setup;
    const kas_replacement *r = m->scoring->replacement;
    m->alike = calloc((size_t)setup->targets + 1, sizeof *m->alike);
    if (!m->alike)
        return kas_fail(KAS_NO_MEMORY, "no memory for %d targets", setup->targets);
    for (int t = 0; t < setup->targets; t++) {
        const kas_kernel *kernel = kas_replacement_kernel(r, t);
        int first = 0;
        while (kas_replacement_kernel(r, first) != kernel ||
               !kas_target_same_sizes(&setup->target[first], &setup->target[t]))
            first++;
        if (kernel)
            m->alike[first]++;
    }
    return KAS_OK;
}

/* ---- life ------------------------------------------------------------------------------------ */

/* Runs the unmodified network on a minibatch, with the weights that are imitated. */
static kas_status run_original(kas_scoring *s, int b)
{
    kas_score_memory *memory = s->memory;
    const kas_interpret_options options = {.net = s->setup->net, .batch = s->setup->batch};
    if (!memory->original[b])
        KAS_TRY(kas_interpret_create(&options, &memory->block[4 + b], &memory->original[b]));
    KAS_TRY(kas_interpret_draw(memory->original[b], s->seed ^ OTHER_SEED, KAS_INTERPRET_TRAINING,
                               &memory->normals));
    if (s->setup->trained)
        KAS_TRY(kas_interpret_load(memory->original[b], s->setup->trained));
    kas_interpret_forward(memory->original[b], kas_scoring_minibatch(s, b > 0)->image);
    return KAS_OK;
}

/* One kernel after the other reads what the same convolutions read and give. */
static kas_status run_originals(kas_scoring *s)
{
    kas_score_memory *memory = s->memory;
    if (memory->original[KAS_SCORE_MINIBATCHES - 1] && memory->original_seed == s->seed &&
        memory->original_first == s->minibatch)
        return KAS_OK;
    for (int b = 0; b < KAS_SCORE_MINIBATCHES; b++)
        KAS_TRY(run_original(s, b));
    memory->original_seed = s->seed;
    memory->original_first = s->minibatch;
    return KAS_OK;
}

static kas_status create(imitation *m)
{
    kas_scoring *s = m->scoring;
    const kas_interpret_options options = {.net = s->setup->net,
                                           .replacement = s->replacement,
                                           .batch = s->setup->batch,
                                           .weight_gradients = true};
    KAS_TRY(choose_targets(m));
    KAS_TRY(run_originals(s));
    KAS_TRY(kas_interpret_create(&options, &s->memory->block[3], &m->kernels));
    m->moment = calloc(2 * m->kernels->values, sizeof *m->moment);
    if (!m->moment)
        return kas_fail(KAS_NO_MEMORY, "no memory for the moments of %zu weights",
                        m->kernels->values);
    return kas_interpret_draw(m->kernels, s->seed, KAS_INTERPRET_TRAINING, &s->memory->normals);
}

kas_status kas_score_imitation(kas_scoring *s, double *value)
{
    imitation m = {.scoring = s};
    *value = 1;
    if (!s->replacement || kas_replacement_replaced(s->replacement) == 0)
        return KAS_OK;
    const kas_status status = create(&m);
    if (status == KAS_OK) {
        learn(&m);
        *value = look(&m, 1, false);
    }
    free(m.alike);
    free(m.moment);
    kas_interpret_free(m.kernels);
    return status;
}

/* zen: how far a small change of the image moves what the network sees, before the pixels are
 * averaged (Lin et al., "Zen-NAS: A zero-shot NAS for high-performance image recognition", ICCV
 * 2021, algorithm 1; idstcv/ZenNAS, compute_zen_score.py). Images x and e are standard normal, and
 * so are the weights:
 *
 *     log( mean over images of |f(x) - f(x + 0.01 e)|_1 )
 *         + sum over batch norms of log sqrt( mean over channels of the variance in front of it )
 *
 * The variances are those of the minibatch x (the published code takes running variances, which are
 * a tenth of the way there). f is the network in front of its global pool; without one, in front of
 * its first linear layer. The network is scored with its residual links; the published search scores
 * it without them (no_reslink=True), so its values are of other networks. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host/score/untrained/scoring.h"

int kas_score_last_image_layer(const kas_net *net)
{
    for (int i = 1; i < net->layers; i++) {
        const kas_layer_op op = net->layer[i].op;
        if ((op == KAS_LAYER_GLOBAL_AVG_POOL || op == KAS_LAYER_ADAPTIVE_AVG_POOL ||
             op == KAS_LAYER_LINEAR || op == KAS_LAYER_FLATTEN) &&
            kas_net_is_cut(net, i)) /* else a gate reads it, beside the image */
            return net->layer[i].in[0];
    }
    return net->layers - 1;
}

static double log_deviations(const kas_interpreter *p)
{
    double sum = 0;
    for (int i = 0; i < p->options.net->layers; i++) {
        const kas_layer *l = &p->options.net->layer[i];
        double variance = 0;
        for (int c = 0; l->op == KAS_LAYER_BATCH_NORM && c < l->c; c++) {
            const double rstd = kas_interpret_get(p, p->rstd, p->norm[i] + (size_t)c);
            variance += (1 / (rstd * rstd) - l->eps) / l->c;
        }
        sum += l->op == KAS_LAYER_BATCH_NORM ? log(variance) / 2 : 0;
    }
    return sum;
}

static double difference(const kas_interpreter *p, int layer, const float *before)
{
    const float *after = p->act[layer];
    double sum = 0;
    for (size_t i = 0; i < kas_interpret_elements(p, layer); i++)
        sum += fabs((double)after[i] - (double)before[i]);
    return log(sum / p->options.batch);
}

static kas_status run(kas_scoring *s, kas_interpreter *p, double *value)
{
    const int layer = kas_score_last_image_layer(s->setup->net);
    const size_t size = kas_interpret_elements(p, layer), pixels = kas_interpret_elements(p, 0);
    float *x = NULL, *e = NULL, *before = malloc(sizeof *before * size);
    kas_status status = before ? KAS_OK : kas_fail(KAS_NO_MEMORY, "no memory for %zu values", size);
    if (status == KAS_OK)
        status = kas_normal_images(pixels, s->setup->seed, 1, &x);
    if (status == KAS_OK)
        status = kas_normal_images(pixels, s->setup->seed, 2, &e);
    if (status == KAS_OK) {
        kas_interpret_forward(p, x);
        memcpy(before, p->act[layer], sizeof *before * size);
        *value = log_deviations(p);
        for (size_t i = 0; i < pixels; i++)
            x[i] += 0.01F * e[i];
        kas_interpret_forward(p, x);
        *value += difference(p, layer, before);
    }
    free(before);
    free(x);
    free(e);
    return status;
}

kas_status kas_score_zen(kas_scoring *s, double *value)
{
    const kas_interpret_options options = {
        .net = s->setup->net, .replacement = s->replacement, .batch = s->setup->batch};
    kas_interpreter *p = NULL;
    kas_status status = kas_interpret_create(&options, &s->memory->block[2], &p);
    if (status == KAS_OK)
        status = kas_interpret_draw(p, s->seed, KAS_INTERPRET_UNIT, &s->memory->normals);
    if (status == KAS_OK)
        status = run(s, p, value);
    kas_interpret_free(p);
    return status;
}

/* Three of AZ-NAS's four scores (Lee and Ham, "AZ-NAS: Assembling zero-cost proxies for network
 * architecture search", CVPR 2024, equations 2 to 8; cvlab-yonsei/AZ-NAS, compute_az_nas_score.py);
 * the fourth, complexity, is `flops`. The images are standard normal. A block is a use of a block in
 * the network file's list of layers (a residual block, a cell of NAS-Bench-201, a layer of a
 * DenseNet), or else what lies between such uses and convolves: a stem with the norm, activation and
 * pool behind it. It ends where everything that follows reads its last layer only. In a network
 * without such uses, as from_pytorch.py writes it, every layer after which that is so ends a block,
 * unless a norm, activation or pool follows and is such a layer too. For NAS-Bench-201 these are the
 * published blocks: the stem, the cells and the two reductions, before the last batch norm.
 *
 * expressivity: s_l is the entropy of the eigenvalues, divided by their sum, of the covariance
 *     matrix of a block's channels over all pixels of all images; the sum over blocks.
 * progressivity: the smallest s_l - s_(l-1).
 * trainability: G_out has entries +1 and -1 at random at the end of a block, and G_in is the
 *     gradient that it gives at the end of the block before (taken apart by pixels where the image
 *     is larger there); sigma is the largest singular value of their product [c_in][c_out], divided
 *     by the number of pixels: the mean over blocks of 2 - sigma - 1 / sigma. A block that passes
 *     the gradient on as it is, an identity, counts as -infinity.
 *
 * az_nas combines the four by the sum of the logarithms of ranks (equation 9, rank.h). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/random.h"
#include "host/score/untrained/eigen.h"
#include "host/score/untrained/scoring.h"

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Returns whether a layer does more than normalise, activate or pool what it reads. */
static bool transforms(const kas_layer *l)
{
    switch (l->op) {
    case KAS_LAYER_CONV:
    case KAS_LAYER_LINEAR:
    case KAS_LAYER_ADD:
    case KAS_LAYER_MULTIPLY:
    case KAS_LAYER_CONCAT:
    case KAS_LAYER_GLOBAL_AVG_POOL:
    case KAS_LAYER_ADAPTIVE_AVG_POOL:
    case KAS_LAYER_FLATTEN:
    case KAS_LAYER_SHORTCUT_A:
        return true;
    default:
        return false;
    }
}

/* Returns whether all layers behind layer `i` read, of `i` and those before it, only `i`. */
static bool is_cut(const kas_net *net, int i)
{
    for (int k = i + 1; k < net->layers; k++)
        for (int j = 0; j < net->layer[k].inputs; j++)
            if (net->layer[k].in[j] < i)
                return false;
    return true;
}

/* Returns whether the next layer belongs to the same block as layer `i`. */
static bool goes_on(const kas_net *net, int i)
{
    const kas_layer *l = &net->layer[i], *next = &net->layer[i + 1];
    if (l->block || next->block)
        return l->block == next->block;
    return !transforms(next) && is_cut(net, i + 1);
}

/* Lists the last layers of blocks; returns their number. */
static int find_blocks(const kas_net *net, int *end)
{
    bool any = false; /* in the block so far, a layer that transforms */
    int count = 0;
    for (int i = 1; i + 1 < net->layers; i++) {
        const kas_layer *l = &net->layer[i];
        any |= transforms(l);
        if (l->h * l->w > 1 && (any || l->block) && !goes_on(net, i) && is_cut(net, i)) {
            end[count++] = i;
            any = false;
        }
    }
    return count;
}

/* ---- expressivity ---------------------------------------------------------------------------- */

/* Adds x x^T of an image [c][pixels] to the upper triangle. */
static void add_products(int c, size_t pixels, const float *x, double *matrix)
{
    for (int i = 0; i < c; i++)
        for (int j = i; j < c; j++) {
            float sum = 0;
            const float *a = x + (size_t)i * pixels, *b = x + (size_t)j * pixels;
#pragma omp simd reduction(+ : sum)
            for (size_t k = 0; k < pixels; k++)
                sum += a[k] * b[k];
            matrix[i * c + j] += (double)sum;
        }
}

static kas_status entropy(const kas_interpreter *p, int layer, double *out)
{
    const kas_layer *l = &p->options.net->layer[layer];
    const size_t pixels = (size_t)l->h * (size_t)l->w, c = (size_t)l->c,
                 n = (size_t)p->options.batch;
    const float *x = p->act[layer];
    double *matrix = calloc(c * c, sizeof *matrix), *value = malloc(sizeof *value * c);
    double *mean = calloc(c, sizeof *mean), total = 0;
    kas_status status = KAS_OK;
    *out = 0;
    if (!matrix || !value || !mean) {
        status = kas_fail(KAS_NO_MEMORY, "no memory for %zu channels", c);
        goto out;
    }
    for (size_t b = 0; b < n; b++)
        add_products(l->c, pixels, x + b * c * pixels, matrix);
    for (size_t k = 0; k < n * c; k++)
        for (size_t i = 0; i < pixels; i++)
            mean[k % c] += (double)x[k * pixels + i] / (double)(n * pixels);
    for (size_t i = 0; i < c; i++)
        for (size_t j = i; j < c; j++)
            matrix[i * c + j] = matrix[i * c + j] / (double)(n * pixels) - mean[i] * mean[j];
    KAS_TRY_GOTO(kas_eigenvalues(l->c, matrix, l->c, value), out);
    for (size_t i = 0; i < c; i++)
        total += value[i];
    for (size_t i = 0; i < c; i++)
        *out -= value[i] / total * log(fmax(value[i] / total, 0) + 1e-8);
out:
    free(matrix);
    free(value);
    free(mean);
    return status;
}

/* ---- trainability ---------------------------------------------------------------------------- */

static void random_signs(float *x, size_t n, uint64_t seed, int layer)
{
    kas_rng rng = kas_rng_make(seed, KAS_PURPOSE_TEST, 16 + (uint64_t)layer);
    uint32_t bits = 0;
    for (size_t i = 0; i < n; i++) {
        bits = i % 32 ? bits >> 1 : kas_rng_u32(&rng);
        x[i] = bits & 1 ? 1 : -1;
    }
}

/* How many pixels of `in` along each axis belong to one of `out`; the last may have fewer. */
typedef struct cell {
    int h, w;
} cell;

static cell cell_of(const kas_layer *in, const kas_layer *out)
{
    return (cell){(in->h + out->h - 1) / out->h, (in->w + out->w - 1) / out->w};
}

/* The sum over the pixels of an image of channel `row / cells` at its pixel `row % cells` of each
 * cell, times channel `c` of the end. */
static double sum_of(const kas_interpreter *p, int in, int out, cell each, int n, int row, int c)
{
    const kas_layer *a = &p->options.net->layer[in], *b = &p->options.net->layer[out];
    const size_t from = (size_t)(n * a->c + row / (each.h * each.w)) * (size_t)(a->h * a->w),
                 to = (size_t)(n * b->c + c) * (size_t)(b->h * b->w);
    const float *x = (const float *)p->grad[in] + from, *y = (const float *)p->grad[out] + to;
    double sum = 0;
    for (int h = row / each.w % each.h; h < a->h; h += each.h)
        for (int w = row % each.w; w < a->w; w += each.w)
            sum += (double)x[h * a->w + w] * (double)y[h / each.h * b->w + w / each.w];
    return sum;
}

/* The product of the gradients at `in` and `out`, divided by the number of pixels:
 * [channels of in, times the pixels of a cell][channels of out]. */
static void multiply(const kas_interpreter *p, int in, int out, double *product)
{
    const kas_layer *a = &p->options.net->layer[in], *b = &p->options.net->layer[out];
    const cell each = cell_of(a, b);
    const int rows = a->c * each.h * each.w;
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < b->c; c++) {
            double sum = 0;
            for (int n = 0; n < p->options.batch; n++)
                sum += sum_of(p, in, out, each, n, r, c) / ((double)p->options.batch * b->h * b->w);
            product[r * b->c + c] = sum;
        }
}

/* The largest singular value of a matrix [rows][columns]. */
static kas_status singular(int rows, int columns, const double *x, double *out)
{
    double *square = calloc((size_t)columns * (size_t)columns, sizeof *square);
    double *value = malloc(sizeof *value * (size_t)columns);
    kas_status status = KAS_OK;
    if (!square || !value) {
        status = kas_fail(KAS_NO_MEMORY, "no memory for %d columns", columns);
        goto out;
    }
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < columns; i++)
            for (int j = i; j < columns; j++)
                square[i * columns + j] += x[r * columns + i] * x[r * columns + j];
    KAS_TRY_GOTO(kas_eigenvalues(columns, square, columns, value), out);
    *out = sqrt(value[columns - 1] <= 0 ? 0 : value[columns - 1]); /* NaN comes through */
out:
    free(square);
    free(value);
    return status;
}

/* Returns whether a block is an identity: the gradient at its end comes through unchanged. */
static bool passes_on(const kas_interpreter *p, int in, int out)
{
    const kas_layer *a = &p->options.net->layer[in], *b = &p->options.net->layer[out];
    return a->c == b->c && a->h == b->h && a->w == b->w &&
           memcmp(p->grad[in], p->grad[out], sizeof(float) * kas_interpret_elements(p, out)) == 0;
}

static kas_status trainability_of(kas_scoring *s, kas_interpreter *p, int in, int out,
                                  double *value)
{
    const kas_layer *a = &s->setup->net->layer[in], *b = &s->setup->net->layer[out];
    const cell each = cell_of(a, b);
    const int rows = a->c * each.h * each.w;
    double sigma = 0, *product;
    random_signs(p->grad[out], kas_interpret_elements(p, out), s->setup->seed, out);
    kas_interpret_backward(p, out, in, false);
    if (passes_on(p, in, out)) {
        *value = -INFINITY;
        return KAS_OK;
    }
    product = malloc(sizeof *product * (size_t)rows * (size_t)b->c);
    if (!product)
        return kas_fail(KAS_NO_MEMORY, "no memory for %d x %d channels", rows, b->c);
    multiply(p, in, out, product);
    const kas_status status = singular(rows, b->c, product, &sigma);
    if (status == KAS_OK)
        *value += 2 - sigma - 1 / (sigma + 1e-6);
    free(product);
    return status;
}

/* ---- all three ------------------------------------------------------------------------------- */

static kas_status over_blocks(kas_scoring *s, kas_interpreter *p, const int *end, int blocks)
{
    double before = 0;
    s->progressivity = INFINITY;
    for (int k = 0; k < blocks; k++) {
        double now;
        KAS_TRY(entropy(p, end[k], &now));
        s->expressivity += now;
        if (k > 0 && !(now - before >= s->progressivity)) /* NaN comes through */
            s->progressivity = now - before;
        before = now;
    }
    for (int k = blocks - 1; k > 0; k--)
        KAS_TRY(trainability_of(s, p, end[k - 1], end[k], &s->trainability));
    s->trainability /= blocks - 1;
    return KAS_OK;
}

static kas_status run(kas_scoring *s, const int *end, int blocks)
{
    const kas_interpret_options options = {.net = s->setup->net,
                                           .replacement = s->replacement,
                                           .batch = s->setup->batch,
                                           .backward = true};
    kas_interpreter *p = NULL;
    float *images = NULL;
    kas_status status = kas_interpret_create(&options, &s->memory->block[2], &p);
    if (status == KAS_OK)
        status = kas_interpret_draw(p, s->seed, KAS_INTERPRET_TRAINING, &s->memory->normals);
    if (status == KAS_OK)
        status = kas_normal_images(kas_interpret_elements(p, 0), s->setup->seed, 1, &images);
    if (status == KAS_OK) {
        kas_interpret_forward(p, images);
        status = over_blocks(s, p, end, blocks);
    }
    free(images);
    kas_interpret_free(p);
    return status;
}

static kas_status know(kas_scoring *s)
{
    if (s->az_known)
        return KAS_OK;
    int *end = malloc(sizeof *end * (size_t)s->setup->net->layers);
    if (!end)
        return kas_fail(KAS_NO_MEMORY, "no memory for %d layers", s->setup->net->layers);
    const int blocks = find_blocks(s->setup->net, end);
    const kas_status status = blocks > 1
                                  ? run(s, end, blocks)
                                  : kas_fail(KAS_UNSUPPORTED, "the network has no two blocks");
    free(end);
    s->az_known = status == KAS_OK;
    return status;
}

kas_status kas_score_expressivity(kas_scoring *s, double *value)
{
    KAS_TRY(know(s));
    *value = s->expressivity;
    return KAS_OK;
}

kas_status kas_score_progressivity(kas_scoring *s, double *value)
{
    KAS_TRY(know(s));
    *value = s->progressivity;
    return KAS_OK;
}

kas_status kas_score_trainability(kas_scoring *s, double *value)
{
    KAS_TRY(know(s));
    *value = s->trainability;
    return KAS_OK;
}

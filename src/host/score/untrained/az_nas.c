/* Three of AZ-NAS's four scores (Lee and Ham, "AZ-NAS: Assembling zero-cost proxies for network
 * architecture search", CVPR 2024, equations 2 to 8; cvlab-yonsei/AZ-NAS, compute_az_nas_score.py);
 * the fourth, complexity, is `flops`. The images are standard normal. A block is a use of a block in
 * the network file's list of layers (a residual block, a cell of NAS-Bench-201, a layer of a
 * DenseNet), or else what lies between such uses and convolves: a stem with the norm, activation and
 * pool behind it. It ends where everything that follows reads its last layer only. In a network
 * without such uses, as from_pytorch.py writes it, every layer after which that is so ends a block,
 * unless a norm, activation or pool follows and is such a layer too. Nothing behind the global pool
 * is a block. For NAS-Bench-201 these are the published blocks: the stem, the cells and the two
 * reductions, before the last batch norm.
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

/* Returns whether the next layer belongs to the same block as layer `i`. */
static bool goes_on(const kas_net *net, int i)
{
    const kas_layer *l = &net->layer[i], *next = &net->layer[i + 1];
    if (l->block || next->block)
        return l->block == next->block;
    return !transforms(next) && kas_net_is_cut(net, i + 1);
}

/* Lists the last layers of blocks in front of the global pool; returns their number. */
static int find_blocks(const kas_net *net, int *end)
{
    const int last = kas_score_last_image_layer(net);
    bool any = false; /* in the block so far, a layer that transforms */
    int count = 0;
    for (int i = 1; i <= last && i + 1 < net->layers; i++) {
        const kas_layer *l = &net->layer[i];
        any |= transforms(l);
        if ((any || l->block) && !goes_on(net, i) && kas_net_is_cut(net, i)) {
            end[count++] = i;
            any = false;
        }
    }
    return count;
}

/* ---- expressivity ---------------------------------------------------------------------------- */

/* Adds the products of all pairs of rows of x [rows][columns] to the upper triangle. */
static void add_products(int rows, size_t columns, const float *x, double *matrix)
{
    for (int i = 0; i < rows; i++)
        for (int j = i; j < rows; j++) {
            float sum = 0;
            const float *a = x + (size_t)i * columns, *b = x + (size_t)j * columns;
#pragma omp simd reduction(+ : sum)
            for (size_t k = 0; k < columns; k++)
                sum += a[k] * b[k];
            matrix[i * rows + j] += (double)sum;
        }
}

/* Copies x [n][c][pixels], with the mean of each channel subtracted, to [c][samples], or to
 * [samples][c] if `turned`. */
static void centre(int n, int c, size_t pixels, const float *x, bool turned, float *to)
{
    const size_t samples = (size_t)n * pixels;
    for (int k = 0; k < c; k++) {
        double mean = 0;
        for (size_t s = 0; s < samples; s++)
            mean += (double)x[(s / pixels * (size_t)c + (size_t)k) * pixels + s % pixels];
        mean /= (double)samples;
        for (size_t s = 0; s < samples; s++) {
            const double value =
                (double)x[(s / pixels * (size_t)c + (size_t)k) * pixels + s % pixels] - mean;
            to[turned ? s * (size_t)c + (size_t)k : (size_t)k * samples + s] = (float)value;
        }
    }
}

/* The products of all channels, or where there are fewer pixels those of all pixels, have the
 * eigenvalues of the covariance matrix but for zeros, of which an entropy has nothing. */
static kas_status entropy(const kas_interpreter *p, int layer, double *out)
{
    const kas_layer *l = &p->options.net->layer[layer];
    const size_t pixels = (size_t)l->h * (size_t)l->w, c = (size_t)l->c,
                 samples = pixels * (size_t)p->options.batch;
    const bool turned = samples < c;
    const size_t rows = turned ? samples : c, columns = turned ? c : samples;
    float *x = malloc(sizeof *x * rows * columns);
    double *matrix = calloc(rows * rows, sizeof *matrix), *value = malloc(sizeof *value * rows);
    double total = 0;
    kas_status status = KAS_OK;
    *out = 0;
    if (!x || !matrix || !value) {
        status = kas_fail(KAS_NO_MEMORY, "no memory for %zu channels", c);
        goto out;
    }
    centre(p->options.batch, l->c, pixels, p->act[layer], turned, x);
    add_products((int)rows, columns, x, matrix);
    KAS_TRY_GOTO(kas_eigenvalues((int)rows, matrix, (int)rows, value), out);
    for (size_t i = 0; i < rows; i++)
        total += value[i];
    for (size_t i = 0; i < rows; i++)
        *out -= value[i] / total * log(fmax(value[i] / total, 0) + 1e-8);
out:
    free(x);
    free(matrix);
    free(value);
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

/* The gradient at a layer as a matrix [rows][pixels of the block's end, of all images]; a row is a
 * channel at one pixel of the cells. */
typedef struct gradient {
    const float *x;
    const kas_layer *layer, *end;
    cell each;
    int images;
} gradient;

static gradient gradient_of(const kas_interpreter *p, int layer, int end)
{
    const kas_layer *l = &p->options.net->layer[layer], *e = &p->options.net->layer[end];
    return (gradient){(const float *)p->grad[layer], l, e, cell_of(l, e), p->options.batch};
}

static int rows_of(const gradient *g)
{
    return g->layer->c * g->each.h * g->each.w;
}

static size_t pixels_of(const gradient *g)
{
    return (size_t)g->end->h * (size_t)g->end->w;
}

/* Adds row `row` of an image, times `factor`, to its pixels; or returns its product with them. */
static void add_row(const gradient *g, int image, int row, double factor, double *pixel)
{
    const kas_layer *l = g->layer;
    const int cells = g->each.h * g->each.w;
    const float *x = g->x + (size_t)(image * l->c + row / cells) * (size_t)(l->h * l->w);
    for (int h = row % cells / g->each.w; h < l->h; h += g->each.h, pixel += g->end->w)
        for (int w = row % g->each.w, at = 0; w < l->w; w += g->each.w, at++)
            pixel[at] += factor * (double)x[h * l->w + w];
}
static double dot_row(const gradient *g, int image, int row, const double *pixel)
{
    const kas_layer *l = g->layer;
    const int cells = g->each.h * g->each.w;
    const float *x = g->x + (size_t)(image * l->c + row / cells) * (size_t)(l->h * l->w);
    double sum = 0;
    for (int h = row % cells / g->each.w; h < l->h; h += g->each.h, pixel += g->end->w)
        for (int w = row % g->each.w, at = 0; w < l->w; w += g->each.w, at++)
            sum += pixel[at] * (double)x[h * l->w + w];
    return sum;
}

static void to_pixels(const gradient *g, const double *v, double *pixel)
{
    memset(pixel, 0, sizeof *pixel * pixels_of(g) * (size_t)g->images);
    for (int n = 0; n < g->images; n++)
        for (int r = 0; r < rows_of(g); r++)
            add_row(g, n, r, v[r], pixel + (size_t)n * pixels_of(g));
}

static void to_rows(const gradient *g, const double *pixel, double *v)
{
    memset(v, 0, sizeof *v * (size_t)rows_of(g));
    for (int n = 0; n < g->images; n++)
        for (int r = 0; r < rows_of(g); r++)
            v[r] += dot_row(g, n, r, pixel + (size_t)n * pixels_of(g));
}

/* The product of the gradients at the beginning and the end of a block. */
typedef struct product {
    gradient in, out;
    double *pixel, *row; /* scratch: for each pixel of all images, and for each row of `in` */
} product;

/* Multiplies the product's transpose with the product and v, without making either. */
static void multiply(void *context, const double *v, double *out)
{
    const product *m = context;
    to_pixels(&m->out, v, m->pixel);
    to_rows(&m->in, m->pixel, m->row);
    to_pixels(&m->in, m->row, m->pixel);
    to_rows(&m->out, m->pixel, out);
}

/* The largest singular value of the product, divided by the number of pixels. */
static kas_status singular(const kas_interpreter *p, int in, int out, double *sigma)
{
    product m = {.in = gradient_of(p, in, out), .out = gradient_of(p, out, out)};
    const size_t pixels = pixels_of(&m.out) * (size_t)m.out.images;
    double square = 0;
    m.pixel = malloc(sizeof *m.pixel * pixels);
    m.row = malloc(sizeof *m.row * (size_t)rows_of(&m.in));
    const kas_status status = m.pixel && m.row
                                  ? kas_largest_eigenvalue(rows_of(&m.out), multiply, &m, &square)
                                  : kas_fail(KAS_NO_MEMORY, "no memory for %zu pixels", pixels);
    free(m.pixel);
    free(m.row);
    *sigma = sqrt(square < 0 ? 0 : square) / (double)pixels; /* NaN comes through */
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
    double sigma;
    random_signs(p->grad[out], kas_interpret_elements(p, out), s->setup->seed, out);
    kas_interpret_backward(p, out, in, false);
    if (passes_on(p, in, out)) {
        *value = -INFINITY;
        return KAS_OK;
    }
    KAS_TRY(singular(p, in, out, &sigma));
    *value += 2 - sigma - 1 / (sigma + 1e-6);
    return KAS_OK;
}

/* ---- all three ------------------------------------------------------------------------------- */

static kas_status over_blocks(kas_scoring *s, kas_interpreter *p, const int *end, int blocks)
{
    double before = 0;
    s->progressivity = INFINITY;
    for (int k = 0; k < blocks; k++) { /* a growth that is NaN stays the least one */
        double now;
        KAS_TRY(entropy(p, end[k], &now));
        s->expressivity += now;
        if (k > 0 && !isnan(s->progressivity) && !(now - before >= s->progressivity))
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

/* Scores without training against float64: gradients and activations from the reference, the scores'
 * formulas written out once more; states, and what ReLU hides. */
#include "world.h"

#include <stdio.h>

#include "host/score/untrained/eigen.h"

static judge judge_data(const world *w, int minibatch)
{
    judge j = judge_of(w, w->net, BATCH, KAS_INTERPRET_TRAINING);
    judge_forward(&j, w->minibatch[minibatch].image);
    judge_loss(&j, w->minibatch[minibatch].label);
    judge_backward(&j, w->net->layers - 1, 0);
    return j;
}

static double fisher64(const judge *j, int layer)
{
    const kas_layer *l = &j->net->net->layer[layer];
    const int area = l->h * l->w;
    double sum = 0;
    for (int n = 0; n < j->pass.n; n++)
        for (int c = 0; c < l->c; c++) {
            double inner = 0;
            for (int i = 0; i < area; i++)
                inner += j->pass.act[layer][(n * l->c + c) * area + i] *
                         j->pass.grad[layer][(n * l->c + c) * area + i];
            sum += inner * inner / (2.0 * j->pass.n);
        }
    return sum;
}

/* Goes over the weights that count: not batch norms, biases, statistics. */
static const kas_ref_param *next_weight(const judge *j, int *at)
{
    while (*at < j->net->params) {
        const kas_ref_param *p = &j->net->param[(*at)++];
        if (j->net->net->layer[p->layer].op != KAS_LAYER_BATCH_NORM && !strstr(p->name, "bias"))
            return p;
    }
    return NULL;
}

static double sum_weights(const judge *j, double power)
{
    double sum = 0;
    const kas_ref_param *p;
    for (int at = 0; (p = next_weight(j, &at));) {
        double part = 0;
        for (size_t i = 0; i < p->size; i++)
            part += power == 1 ? fabs(p->value[i] * p->grad[i]) : p->grad[i] * p->grad[i];
        sum += power == 1 ? part : sqrt(part);
    }
    return sum;
}

TEST(gradients_agree)
{
    world *w = world_make(KAS_LAYER_RELU, KAS_OP_RELU);
    judge j = judge_data(w, 0), other = judge_data(w, 1);
    double fisher = 0, all = 0, zico = 0;
    const kas_ref_param *p, *q;
    for (int t = 0; t < w->targets; t++)
        fisher += fisher64(&j, w->target[t].layer);
    for (int i = 0; i < w->net->layers; i++)
        all += kas_layer_is_linear(&w->net->layer[i]) ? fisher64(&j, i) : 0;
    for (int at = 0, bt = 0; (p = next_weight(&j, &at)) && (q = next_weight(&other, &bt));) {
        double sum = 0;
        for (size_t i = 0; i < p->size; i++)
            sum += fabs(p->grad[i] - q->grad[i]) > 0
                       ? (fabs(p->grad[i]) + fabs(q->grad[i])) / fabs(p->grad[i] - q->grad[i])
                       : 0;
        zico += log(sum);
    }
    assert_near("fisher", value_of(w, KAS_SCORE_FISHER), fisher, 1e-5);
    assert_near("fisher_all", value_of(w, KAS_SCORE_FISHER_ALL), all, 1e-5);
    assert_near("snip", value_of(w, KAS_SCORE_SNIP), sum_weights(&j, 1), 1e-5);
    assert_near("grad_norm", value_of(w, KAS_SCORE_GRAD_NORM), sum_weights(&j, 2), 1e-5);
    assert_near("zico", value_of(w, KAS_SCORE_ZICO), zico, 1e-3);
    judge_free(&other);
    /* Together they give what each gives alone. */
    const kas_scored both = score(w, "zico,jacob_cov,fisher,snip");
    assert_near("fisher again", both.value[KAS_SCORE_FISHER], fisher, 1e-5);
    assert_near("zico again", both.value[KAS_SCORE_ZICO], zico, 1e-3);
    judge_free(&j);
    world_free(w);
}

TEST(jacobian_agrees)
{
    world *w = world_make(KAS_LAYER_RELU, KAS_OP_RELU);
    judge j = judge_data(w, 0);
    const int last = w->net->layers - 1, pixels = 3 * 6 * 6;
    double matrix[BATCH * BATCH], value[BATCH], expected = 0;
    for (size_t i = 0; i < kas_ref_layer_size(&j.pass, last); i++)
        j.pass.grad[last][i] = 1;
    judge_backward(&j, last, 0);
    for (int a = 0; a < BATCH; a++) /* centre and normalise the rows */
    {
        double *x = j.pass.grad[0] + a * pixels, mean = 0, norm = 0;
        for (int i = 0; i < pixels; i++)
            mean += x[i] / pixels;
        for (int i = 0; i < pixels; i++)
            norm += (x[i] - mean) * (x[i] - mean);
        for (int i = 0; i < pixels; i++)
            x[i] = (x[i] - mean) / sqrt(norm);
    }
    for (int a = 0; a < BATCH; a++)
        for (int b = a; b < BATCH; b++) {
            matrix[a * BATCH + b] = 0;
            for (int i = 0; i < pixels; i++)
                matrix[a * BATCH + b] +=
                    j.pass.grad[0][a * pixels + i] * j.pass.grad[0][b * pixels + i];
        }
    OK(kas_eigenvalues(BATCH, matrix, BATCH, value));
    for (int i = 0; i < BATCH; i++)
        expected -= log(value[i] + 1e-5) + 1 / (value[i] + 1e-5);
    assert_near("jacob_cov", value_of(w, KAS_SCORE_JACOB_COV), expected, 1e-6);
    judge_free(&j);
    world_free(w);
}

/* The ReLUs of the network, and those of the kernels, in any order. */
static int signs64(const world *w, const judge *j, bool **sign)
{
    int count = 0, room = 0;
    for (int i = 0; i < w->net->layers; i++)
        room += (int)(kas_ref_layer_size(&j->pass, i) / BATCH);
    room *= 2;
    *sign = calloc((size_t)room * BATCH, sizeof **sign);
    for (int i = 0; i < w->net->layers; i++) {
        size_t size = kas_ref_layer_size(&j->pass, i) / BATCH;
        const double *value = w->net->layer[i].op == KAS_LAYER_RELU ? j->pass.act[i] : NULL;
        if (j->pass.replaced[i].ref) /* node 3 of small_kernel, after the map */
            value = kas_reference_node_value(j->pass.replaced[i].ref, 3, &size);
        for (size_t k = 0; value && k < size; k++, count++)
            for (size_t n = 0; n < BATCH; n++)
                (*sign)[(size_t)count * BATCH + n] = value[n * size + k] > 0;
    }
    return count;
}

TEST(patterns_agree)
{
    world *w = world_make(KAS_LAYER_RELU, KAS_OP_RELU);
    judge j = judge_data(w, 0);
    bool *sign, seen[1 << BATCH] = {0};
    const int count = signs64(w, &j, &sign);
    double matrix[BATCH * BATCH] = {0}, value[BATCH], expected = 0, different = 0;
    for (int k = 0; k < count; k++) {
        int pattern = 0;
        for (int a = 0; a < BATCH; a++) {
            pattern |= sign[k * BATCH + a] << a;
            for (int b = a; b < BATCH; b++)
                matrix[a * BATCH + b] += sign[k * BATCH + a] == sign[k * BATCH + b];
        }
        different += !seen[pattern];
        seen[pattern] = true;
    }
    OK(kas_eigenvalues(BATCH, matrix, BATCH, value));
    for (int i = 0; i < BATCH; i++)
        expected += log(value[i]);
    assert_near("naswot", value_of(w, KAS_SCORE_NASWOT), expected, 1e-9);
    assert_near("swap", value_of(w, KAS_SCORE_SWAP), different, 0);
    free(sign);
    judge_free(&j);
    world_free(w);
}

/* The network without its batch norms, whose places dropouts take that drop nothing. */
TEST(synflow_agrees)
{
    world *w = world_make(KAS_LAYER_RELU, KAS_OP_RELU);
    const double found = value_of(w, KAS_SCORE_SYNFLOW);
    const int last = w->net->layers - 1;
    for (int i = 0; i < w->net->layers; i++)
        if (w->net->layer[i].op == KAS_LAYER_BATCH_NORM)
            w->net->layer[i].op = KAS_LAYER_DROPOUT;
    judge j = judge_of(w, w->net, 1, KAS_INTERPRET_POSITIVE);
    for (int i = 0; i < j.net->params; i++)
        for (size_t k = 0; k < j.net->param[i].size; k++)
            assert_true(j.net->param[i].value[k] >= 0);
    judge_forward(&j, NULL);
    for (size_t i = 0; i < kas_ref_layer_size(&j.pass, last); i++)
        j.pass.grad[last][i] = 1;
    judge_backward(&j, last, 0);
    assert_near("synflow", found, sum_weights(&j, 1), 1e-10);
    judge_free(&j);
    world_free(w);
}

static int layer_named(const world *w, const char *name)
{
    for (int i = 0; i < w->net->layers; i++)
        if (strcmp(w->net->layer[i].name, name) == 0)
            return i;
    return -1;
}

TEST(zen_agrees)
{
    world *w = world_make(KAS_LAYER_RELU, KAS_OP_RELU);
    judge j = judge_of(w, w->net, BATCH, KAS_INTERPRET_UNIT);
    const int end = layer_named(w, "relu4");
    const size_t pixels = (size_t)BATCH * 3 * 6 * 6, size = kas_ref_layer_size(&j.pass, end);
    float *x, *e;
    double *before = malloc(sizeof *before * size), difference = 0, expected = 0;
    OK(kas_normal_images(pixels, SEED, 1, &x));
    OK(kas_normal_images(pixels, SEED, 2, &e));
    judge_forward(&j, x);
    memcpy(before, j.pass.act[end], sizeof *before * size);
    for (int i = 0; i < w->net->layers; i++) {
        const kas_layer *l = &w->net->layer[i];
        double variance = 0;
        for (int c = 0; l->op == KAS_LAYER_BATCH_NORM && c < l->c; c++)
            variance += 1 / pow(j.pass.rstd[i][c], 2) - l->eps;
        expected += l->op == KAS_LAYER_BATCH_NORM ? log(sqrt(variance / l->c)) : 0;
    }
    for (size_t i = 0; i < pixels; i++)
        x[i] += 0.01F * e[i];
    judge_forward(&j, x);
    for (size_t i = 0; i < size; i++)
        difference += fabs(j.pass.act[end][i] - before[i]) / BATCH;
    assert_near("zen", value_of(w, KAS_SCORE_ZEN), expected + log(difference), 1e-5);
    free(before);
    free(x);
    free(e);
    judge_free(&j);
    world_free(w);
}

TEST(meco_agrees)
{
    world *w = world_make(KAS_LAYER_RELU, KAS_OP_RELU);
    judge j = judge_of(w, w->net, 1, KAS_INTERPRET_TRAINING);
    double expected = 0;
    float *x;
    OK(kas_normal_images(3 * 6 * 6, SEED, 3, &x));
    judge_forward(&j, x);
    for (int i = 1; i < w->net->layers; i++) {
        const kas_layer *l = &w->net->layer[i];
        const int area = l->h * l->w;
        double matrix[16 * 16] = {0}, mean[16] = {0}, least;
        for (int c = 0; c < l->c; c++)
            for (int k = 0; k < area; k++)
                mean[c] += j.pass.act[i][c * area + k] / area;
        for (int a = 0; area > l->c && a < l->c; a++)
            for (int b = a; b < l->c; b++) {
                double ab = 0, aa = 0, bb = 0;
                for (int k = 0; k < area; k++) {
                    const double p = j.pass.act[i][a * area + k] - mean[a],
                                 q = j.pass.act[i][b * area + k] - mean[b];
                    ab += p * q;
                    aa += p * p;
                    bb += q * q;
                }
                matrix[a * l->c + b] = aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 0;
            }
        if (area > l->c) { /* else it is singular */
            OK(kas_eigenvalues(l->c, matrix, 1, &least));
            expected += least;
        }
    }
    assert_near("meco", value_of(w, KAS_SCORE_MECO), expected, 1e-5);
    free(x);
    judge_free(&j);
    world_free(w);
}

/* ---- AZ-NAS ---------------------------------------------------------------------------------- */

enum { MOST_BLOCKS = 10, MOST_CHANNELS = 48 };

static double entropy64(const judge *j, int layer)
{
    const kas_layer *l = &j->net->net->layer[layer];
    const int area = l->h * l->w, c = l->c;
    double matrix[MOST_CHANNELS * MOST_CHANNELS], mean[MOST_CHANNELS] = {0};
    double value[MOST_CHANNELS], total = 0, entropy = 0;
    assert_in_range(c, 1, MOST_CHANNELS);
    for (int k = 0; k < BATCH * c * area; k++)
        mean[k / area % c] += j->pass.act[layer][k] / (BATCH * area);
    for (int a = 0; a < c; a++)
        for (int b = a; b < c; b++) {
            matrix[a * c + b] = 0;
            for (int n = 0; n < BATCH; n++)
                for (int i = 0; i < area; i++)
                    matrix[a * c + b] += (j->pass.act[layer][(n * c + a) * area + i] - mean[a]) *
                                         (j->pass.act[layer][(n * c + b) * area + i] - mean[b]) /
                                         (BATCH * area);
        }
    OK(kas_eigenvalues(c, matrix, c, value));
    for (int a = 0; a < c; a++)
        total += value[a];
    for (int a = 0; a < c; a++)
        entropy -= value[a] / total * log(value[a] / total + 1e-8);
    return entropy;
}

/* The largest singular value by the power method. */
static double largest_singular(const double *x, int rows, int columns)
{
    double v[MOST_CHANNELS], length = 0;
    for (int c = 0; c < columns; c++)
        v[c] = 1 + 0.1 * c;
    for (int turn = 0; turn < 20000; turn++) {
        double next[MOST_CHANNELS] = {0};
        length = 0;
        for (int r = 0; r < rows; r++) {
            double dot = 0;
            for (int c = 0; c < columns; c++)
                dot += x[r * columns + c] * v[c];
            for (int c = 0; c < columns; c++)
                next[c] += dot * x[r * columns + c];
        }
        for (int c = 0; c < columns; c++)
            length += next[c] * next[c];
        for (int c = 0; c < columns; c++)
            v[c] = next[c] / sqrt(length);
    }
    return sqrt(sqrt(length));
}

/* The gradients at the beginning and the end of a block, multiplied. Signs are those of az_nas.c. */
static double sigma64(judge *j, int in, int out)
{
    const kas_layer *a = &j->net->net->layer[in], *b = &j->net->net->layer[out];
    const int stride = (a->h + b->h - 1) / b->h;
    kas_rng rng = kas_rng_make(SEED, KAS_PURPOSE_TEST, 16 + (uint64_t)out);
    double product[MOST_CHANNELS * 4 * MOST_CHANNELS] = {0};
    uint32_t bits = 0;
    for (size_t i = 0; i < kas_ref_layer_size(&j->pass, out); i++) {
        bits = i % 32 ? bits >> 1 : kas_rng_u32(&rng);
        j->pass.grad[out][i] = bits & 1 ? 1 : -1;
    }
    judge_backward(j, out, in);
    for (int n = 0; n < BATCH; n++)
        for (int c = 0; c < b->c; c++)
            for (int h = 0; h < a->h; h++)
                for (int w = 0; w < a->w; w++)
                    for (int k = 0; k < a->c; k++)
                        product[((k * stride + h % stride) * stride + w % stride) * b->c + c] +=
                            j->pass.grad[in][((n * a->c + k) * a->h + h) * a->w + w] *
                            j->pass.grad[out]
                                        [((n * b->c + c) * b->h + h / stride) * b->w + w / stride] /
                            (BATCH * b->h * b->w);
    return largest_singular(product, a->c * stride * stride, b->c);
}

/* `ends` names the layers at the ends of blocks, with spaces between. */
static int find_ends(const world *w, const char *ends, int end[MOST_BLOCKS])
{
    char text[512], *rest = NULL;
    int blocks = 0;
    snprintf(text, sizeof text, "%s", ends);
    for (char *name = strtok_r(text, " ", &rest); name; name = strtok_r(NULL, " ", &rest)) {
        assert_in_range(blocks, 0, MOST_BLOCKS - 1);
        end[blocks] = layer_named(w, name);
        if (end[blocks++] < 0)
            fail_msg("no layer %s", name);
    }
    return blocks;
}

static void assert_az_nas_agrees(world *w, const char *ends)
{
    judge j = judge_of(w, w->net, BATCH, KAS_INTERPRET_TRAINING);
    int end[MOST_BLOCKS];
    const int blocks = find_ends(w, ends, end);
    double entropy[MOST_BLOCKS], sum = 0, least = INFINITY, trainability = 0;
    float *x;
    OK(kas_normal_images(kas_ref_layer_size(&j.pass, 0), SEED, 1, &x));
    judge_forward(&j, x);
    for (int k = 0; k < blocks; k++)
        sum += entropy[k] = entropy64(&j, end[k]);
    for (int k = 1; k < blocks; k++)
        least = fmin(least, entropy[k] - entropy[k - 1]);
    for (int k = blocks - 1; k > 0; k--) {
        const double sigma = sigma64(&j, end[k - 1], end[k]);
        trainability += (2 - sigma - 1 / (sigma + 1e-6)) / (blocks - 1);
    }
    assert_near("expressivity", value_of(w, KAS_SCORE_EXPRESSIVITY), sum, 1e-5);
    assert_near("progressivity", value_of(w, KAS_SCORE_PROGRESSIVITY), least, 1e-4);
    assert_near("trainability", value_of(w, KAS_SCORE_TRAINABILITY), trainability, 1e-4);
    free(x);
    judge_free(&j);
    world_free(w);
}

/* Where the stride of 2 halves an odd number of pixels, the last cells are smaller. The network has no file, so the
 * layers alone tell where blocks end. */
TEST(az_nas_agrees)
{
    for (int side = 6; side <= 7; side++)
        assert_az_nas_agrees(world_make_sized(KAS_LAYER_RELU, KAS_OP_RELU, side),
                             "relu0 relu2 relu4");
}

static world *world_named(const char *spec)
{
    kas_net *net = NULL;
    OK(kas_net_build(spec, 8, 8, 3, 5, &net));
    return world_of(net, KAS_OP_RELU);
}

/* Of blocks with more channels than pixels in all images the products of pixels are taken. */
TEST(az_nas_of_few_pixels)
{
    static const char wide[] =
        "{\"format\": \"kas-gpu network\", \"version\": 1, \"name\": \"wide\", "
        "\"layers\": ["
        "{\"conv\": \"stem\", \"channels\": 4, \"kernel\": 3}, "
        "{\"relu\": \"relu0\"}, "
        "{\"conv\": \"conv1\", \"channels\": 48, \"kernel\": 3, \"stride\": 4}, "
        "{\"relu\": \"relu1\"}, "
        "{\"conv\": \"conv2\", \"channels\": 40, \"kernel\": 1}, "
        "{\"relu\": \"relu2\"}, "
        "{\"global_avg_pool\": \"gap\"}, "
        "{\"linear\": \"fc\", \"channels\": \"classes\"}]}";
    assert_true(2 * 2 * BATCH < 40);
    assert_az_nas_agrees(world_named(wide), "relu0 relu1 relu2");
}

/* Networks whose blocks begin with a ReLU or a batch norm: 3x3 convolutions at all edges of a cell;
 * a chain of two, so that all goes through node 1; one convolution. A DenseNet's layer ends with its
 * concatenation. Without blocks in the file a layer that a batch norm follows ends a block only
 * where others read it too. The last transition leaves a single pixel. */
TEST(az_nas_knows_blocks)
{
    static const char cells[] =
        "stem_bn cells1.0.node3 reduction1.add cells2.0.node3 reduction2.add cells3.0.node3";
    static const char flat[] =
        "{\"format\": \"kas-gpu network\", \"version\": 1, \"name\": \"flat\", "
        "\"layers\": ["
        "{\"conv\": \"stem\", \"channels\": 4, \"kernel\": 3}, "
        "{\"batch_norm\": \"bn1\"}, {\"relu\": \"relu1\"}, "
        "{\"conv\": \"conv1\", \"channels\": 4, \"kernel\": 3}, "
        "{\"concat\": \"cat1\", \"from\": [\"stem\", \"conv1\"]}, "
        "{\"batch_norm\": \"bn2\"}, {\"relu\": \"relu2\"}, "
        "{\"conv\": \"conv2\", \"channels\": 8, \"kernel\": 1}, "
        "{\"avg_pool\": \"pool\", \"kernel\": 2}, "
        "{\"global_avg_pool\": \"gap\"}, "
        "{\"linear\": \"fc\", \"channels\": \"classes\"}]}";
    assert_az_nas_agrees(world_named("nb201:cell=11718,n=1,width=4"), cells);
    assert_az_nas_agrees(world_named("nb201:cell=9390,n=1,width=4"), cells);
    assert_az_nas_agrees(world_named("nb201:cell=75,n=1,width=4"), cells);
    assert_az_nas_agrees(world_named("densenet161:growth=4,first=4,n1=2,n2=1,n3=1,n4=0"),
                         "features.relu0 features.denseblock1.denselayer1.cat "
                         "features.denseblock1.denselayer2.cat features.transition1.pool "
                         "features.denseblock2.denselayer1.cat features.transition2.pool "
                         "features.denseblock3.denselayer1.cat features.transition3.pool");
    assert_az_nas_agrees(world_named(flat), "stem relu2 pool");
}

/* A cell that is a skip passes gradients on as they are. */
TEST(an_identity_is_not_trainable)
{
    world *w = world_named("nb201:cell=25,n=1,width=4");
    const kas_scored all = score(w, "expressivity,progressivity,trainability");
    assert_int_equal(all.state[KAS_SCORE_EXPRESSIVITY], KAS_SCORED);
    assert_int_equal(all.state[KAS_SCORE_PROGRESSIVITY], KAS_SCORED);
    assert_int_equal(all.state[KAS_SCORE_TRAINABILITY], KAS_SCORE_NOT_FINITE);
    world_free(w);
}

/* ---- counts, states, traps ------------------------------------------------------------------- */

/* Each kernel: map 8 x 24, 8 factors, depthwise 8 x 3; stem 8 x 27, linear 8 x 5 + 5, four batch norms of 16. */
TEST(counts_by_hand)
{
    world *w = world_make(KAS_LAYER_RELU, KAS_OP_RELU);
    assert_near("params", value_of(w, KAS_SCORE_PARAMS), 3 * (192 + 8 + 24) + 216 + 45 + 4 * 16, 0);
    assert_near("layers", value_of(w, KAS_SCORE_LAYERS), 3 * 3 + 2, 0);
    const double flops = value_of(w, KAS_SCORE_FLOPS);
    const double others = kas_net_flops(w->net) - kas_layer_flops(w->net, w->target[0].layer) -
                          kas_layer_flops(w->net, w->target[1].layer) -
                          kas_layer_flops(w->net, w->target[2].layer);
    assert_near("flops", flops, others + w->replacement.solution.flops, 1e-12);
    world_free(w);
}

/* naswot and swap see ReLU only: without one they are blind, while the others have a value; and a kernel's own
 * function changes their neurons only if it is a ReLU. */
TEST(patterns_see_relu_only)
{
    world *w = world_make(KAS_LAYER_SILU, KAS_OP_TANH);
    const kas_scored none = score(w, "naswot,swap,fisher");
    assert_int_equal(none.state[KAS_SCORE_NASWOT], KAS_SCORE_BLIND);
    assert_int_equal(none.state[KAS_SCORE_SWAP], KAS_SCORE_BLIND);
    assert_int_equal(none.state[KAS_SCORE_FISHER], KAS_SCORED);
    assert_true(isnan(none.value[KAS_SCORE_NASWOT]));
    world_free(w);
    w = world_make(KAS_LAYER_SILU, KAS_OP_RELU);
    assert_int_equal(score(w, "naswot").state[KAS_SCORE_NASWOT], KAS_SCORED);
    world_free(w);
}

TEST(not_finite_is_a_state)
{
    world *w = world_make(KAS_LAYER_RELU, KAS_OP_RELU);
    w->minibatch[0].image[5] = INFINITY;
    kas_scored all =
        score(w, "fisher,fisher_all,snip,grad_norm,naswot,swap,jacob_cov,zico,synflow,params");
    for (int i = KAS_SCORE_FISHER; i <= KAS_SCORE_ZICO; i++) {
        assert_int_equal(all.state[i], KAS_SCORE_NOT_FINITE);
        assert_true(isnan(all.value[i]));
    }
    assert_int_equal(all.state[KAS_SCORE_SYNFLOW], KAS_SCORED);
    assert_string_equal(all.layer, "input");
    /* Two equal images: the determinant is 0, and the other scores go on. */
    memcpy(w->minibatch[0].image, w->minibatch[0].image + 108, sizeof(float) * 108);
    all = score(w, "naswot,fisher");
    assert_int_equal(all.state[KAS_SCORE_NASWOT], KAS_SCORE_NOT_FINITE);
    assert_int_equal(all.state[KAS_SCORE_FISHER], KAS_SCORED);
    world_free(w);
}

TEST(draws_are_averaged)
{
    world *w = world_make(KAS_LAYER_RELU, KAS_OP_RELU);
    kas_scored one, two, both;
    OK(kas_scores_parse("fisher,synflow,params", w->setup.asked));
    OK(kas_score_average(&w->setup, &w->replacement, 0, SEED, 1, &w->memory, &one));
    OK(kas_score_average(&w->setup, &w->replacement, 0, SEED + 1, 1, &w->memory, &two));
    OK(kas_score_average(&w->setup, &w->replacement, 0, SEED, 2, &w->memory, &both));
    for (int i = 0; i < KAS_SCORES; i++)
        if (w->setup.asked[i])
            assert_near(kas_score_get(i)->name, both.value[i], (one.value[i] + two.value[i]) / 2,
                        1e-12);
    assert_true(one.value[KAS_SCORE_FISHER] != two.value[KAS_SCORE_FISHER]);
    world_free(w);
}

RUN_TESTS()

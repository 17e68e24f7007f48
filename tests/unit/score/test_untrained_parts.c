/* Parts of scores without training, on cases worked out by hand: Fisher's equations, eigenvalues, ranks; the names of
 * scores and the minibatches, and how bad ones are refused. */
#include "support/test.h"

#include <string.h>

#include "host/core/random.h"
#include "host/score/untrained/eigen.h"
#include "host/score/untrained/fisher.h"
#include "host/core/rank.h"
#include "host/score/untrained/score.h"
#include "near.h"

/* ---- by hand --------------------------------------------------------------------------------- */

/* Two images, two channels, two pixels. Channel 0: (1*1 + 2*3) = 7 and (0*5 - 1*2) = -2, so (49 + 4) / 4. Channel 1: 0
 * and 4 * 0.5 = 2, so 4 / 4. */
TEST(fisher_by_hand)
{
    const float a[] = {1, 2, 3, 0, 0, -1, 4, 1}, g[] = {1, 3, 0, 7, 5, 2, 0.5F, 0};
    assert_near("Delta_l", kas_fisher_layer(2, 2, 2, a, g), 53.0 / 4 + 1, 1e-15);
}

TEST(eigenvalues_by_hand)
{
    double two[] = {2, 1, NAN, 2}, value[3];
    OK(kas_eigenvalues(2, two, 2, value));
    assert_near("smaller", value[0], 1, 1e-14);
    assert_near("larger", value[1], 3, 1e-14);
    /* 1 + 2 cos of 0, 2 pi / 3 and 4 pi / 3, and 4 more: eigenvalues 3, 3, 6 + ... of a circulant */
    double three[] = {4, 1, 1, 0, 4, 1, 0, 0, 4};
    OK(kas_eigenvalues(3, three, 3, value));
    assert_near("double", value[0], 3, 1e-14);
    assert_near("double", value[1], 3, 1e-14);
    assert_near("single", value[2], 6, 1e-14);
    double bad[] = {1, INFINITY, 0, 1};
    OK(kas_eigenvalues(2, bad, 1, value));
    assert_true(isnan(value[0]));
}

/* ---- the largest one, without the matrix ---- */

enum { LARGE = 60 };
static void multiply(void *context, const double *v, double *out)
{
    const double *a = context;
    for (int i = 0; i < LARGE; i++) {
        out[i] = 0;
        for (int j = 0; j < LARGE; j++)
            out[i] += a[i * LARGE + j] * v[j];
    }
}

/* x^T x of x [rows][LARGE], whose elements are normal. */
static void make_square(int rows, double *a)
{
    kas_rng rng = kas_rng_make((uint64_t)rows, KAS_PURPOSE_TEST, 1);
    memset(a, 0, sizeof *a * LARGE * LARGE);
    for (int r = 0; r < rows; r++) {
        double x[LARGE];
        for (int i = 0; i < LARGE; i++)
            x[i] = kas_rng_normal(&rng);
        for (int i = 0; i < LARGE; i++)
            for (int j = 0; j < LARGE; j++)
                a[i * LARGE + j] += x[i] * x[j];
    }
}

/* Of rank 0, 1, 7, and more than the matrix has rows. */
TEST(largest_of_all)
{
    static const int rows[] = {0, 1, 7, 2 * LARGE};
    double a[LARGE * LARGE], value[LARGE], found;
    for (int k = 0; k < 4; k++) {
        make_square(rows[k], a);
        OK(kas_largest_eigenvalue(LARGE, multiply, a, &found));
        OK(kas_eigenvalues(LARGE, a, LARGE, value));
        assert_true(fabs(found - value[LARGE - 1]) <= 1e-11 * value[LARGE - 1]);
    }
    make_square(7, a);
    a[LARGE + 3] = NAN;
    OK(kas_largest_eigenvalue(LARGE, multiply, a, &found));
    assert_true(isnan(found));
}

/* Eigenvalues of random matrices: their sums are the traces of A and of A A. */
TEST(eigenvalues_of_larger)
{
    enum { N = 40 };
    double a[N * N], value[N], sum = 0, squares = 0, trace = 0, norm = 0;
    kas_rng rng = kas_rng_make(1, KAS_PURPOSE_TEST, 0);
    for (int i = 0; i < N; i++)
        for (int j = i; j < N; j++) {
            a[i * N + j] = kas_rng_normal(&rng);
            norm += (i == j ? 1 : 2) * a[i * N + j] * a[i * N + j];
            trace += i == j ? a[i * N + j] : 0;
        }
    OK(kas_eigenvalues(N, a, N, value));
    for (int i = 0; i < N; i++) {
        sum += value[i];
        squares += value[i] * value[i];
        assert_true(i == 0 || value[i] >= value[i - 1]);
    }
    assert_near("trace", sum, trace, 1e-11);
    assert_near("norm", squares, norm, 1e-11);
}

TEST(ranks_leave_out_what_is_not_finite)
{
    const double value[] = {3, NAN, 1, 3, -INFINITY, 2}, up[] = {1, 2, 3, 4},
                 down[] = {9, 8, 7, NAN};
    const double third[] = {2, 0, 1, 3};
    const double *both[] = {up, down};
    double rank[6], correlation, combined[4];
    int ranked;
    OK(kas_ranks(6, value, rank, &ranked));
    assert_int_equal(ranked, 4);
    assert_true(rank[0] == 3.5 && isnan(rank[1]) && rank[2] == 1 && rank[3] == 3.5 &&
                isnan(rank[4]) && rank[5] == 2);
    OK(kas_spearman(4, up, down, &correlation));
    assert_near("Spearman", correlation, -1, 1e-15);
    OK(kas_spearman(4, value, third, &correlation));
    assert_near("Spearman", correlation, sqrt(3) / 2, 1e-12); /* ranks 2.5 1 2.5 against 2 1 3 */
    OK(kas_combine_ranks(4, 2, both, combined));
    assert_near("combined", combined[0], log(1.0 / 3) + log(3.0 / 3), 1e-15);
    assert_near("combined", combined[1], 2 * log(2.0 / 3), 1e-15);
    assert_true(isnan(combined[3]));
}

/* ---- input ----------------------------------------------------------------------------------- */

static void assert_refused(kas_status found, kas_status expected, const char *text)
{
    assert_int_equal(found, expected);
    if (!strstr(kas_error(), text))
        fail_msg("\"%s\" does not say \"%s\"", kas_error(), text);
}

TEST(names)
{
    bool asked[KAS_SCORES];
    kas_score_setup setup = {0};
    OK(kas_scores_parse("az_nas", asked));
    assert_true(asked[KAS_SCORE_TRAINABILITY] && asked[KAS_SCORE_FLOPS] &&
                !asked[KAS_SCORE_FISHER]);
    OK(kas_scores_parse("all", asked));
    for (int i = 0; i < KAS_SCORES; i++)
        assert_true(asked[i]);
    assert_refused(kas_scores_parse("snip,fishers", asked), KAS_USAGE,
                   "no score \"fishers\"; there are fisher,");
    assert_refused(kas_scores_parse("", asked), KAS_USAGE, "no score \"\"");
    OK(kas_scores_parse("synflow,naswot", setup.asked));
    assert_refused(kas_score_check(&setup), KAS_USAGE, "naswot needs images: give --dataset");
}

TEST(minibatches)
{
    kas_dataset *d;
    kas_minibatch m[KAS_SCORE_MINIBATCHES], again[KAS_SCORE_MINIBATCHES];
    OK(kas_dataset_create(4, 4, 3, 3, 40, 4, &d));
    for (uint32_t i = 0; i < 40 * 48; i++)
        d->train.pixels[i] = (uint8_t)(i * 2654435761u >> 13);
    for (int i = 0; i < 40; i++)
        d->train.labels[i] = (uint16_t)(i % 3);
    OK(kas_minibatches_draw(d, 16, KAS_SCORE_MINIBATCHES, 3, m));
    OK(kas_minibatches_draw(d, 16, KAS_SCORE_MINIBATCHES, 3, again));
    for (int k = 0; k < KAS_SCORE_MINIBATCHES; k++)
        assert_memory_equal(m[k].image, again[k].image, sizeof(float) * 16 * 48);
    for (int a = 0; a < 16; a++) /* no image is in both */
        for (int b = 0; b < 16; b++)
            assert_memory_not_equal(m[0].image + a * 48, m[1].image + b * 48, sizeof(float) * 48);
    for (int k = 0; k < KAS_SCORE_MINIBATCHES; k++) {
        kas_minibatch_free(&m[k]);
        kas_minibatch_free(&again[k]);
    }
    assert_refused(kas_minibatches_draw(d, 21, KAS_SCORE_MINIBATCHES, 3, m), KAS_BAD_INPUT,
                   "40 images are too few for 2 minibatches of 21");
    for (int k = 0; k < KAS_SCORE_MINIBATCHES; k++)
        kas_minibatch_free(&m[k]);
    memset(d->train.labels, 0, sizeof *d->train.labels * 40);
    assert_refused(kas_minibatches_draw(d, 20, KAS_SCORE_MINIBATCHES, 3, m), KAS_BAD_INPUT,
                   "all 20 images of the minibatch are of class 0");
    for (int k = 0; k < KAS_SCORE_MINIBATCHES; k++)
        kas_minibatch_free(&m[k]);
    for (uint32_t i = 0; i < 48; i++)
        d->train.pixels[7 * 48 + i] = (uint8_t)(i % 3);
    assert_refused(kas_minibatches_draw(d, 20, KAS_SCORE_MINIBATCHES, 3, m), KAS_BAD_INPUT,
                   "image 7 of the training set is constant");
    for (int k = 0; k < KAS_SCORE_MINIBATCHES; k++)
        kas_minibatch_free(&m[k]);
    kas_dataset_close(d);
}

/* az_nas has no value where a part has none, and the state of that part. */
TEST(ranks_have_the_state_of_their_parts)
{
    enum { KERNELS = 4 };
    int part[KAS_SCORE_PARTS];
    kas_scored kernel[KERNELS] = {0};
    const kas_score_setup setup = {.asked = {[KAS_SCORE_AZ_NAS] = true}};
    kas_score_parts(KAS_SCORE_AZ_NAS, part);
    for (int k = 0; k < KERNELS; k++)
        for (int s = 0; s < KAS_SCORE_PARTS; s++) {
            kernel[k].state[part[s]] = KAS_SCORED;
            kernel[k].value[part[s]] = k;
        }
    kernel[2].state[part[1]] = KAS_SCORE_BLIND, kernel[2].value[part[1]] = NAN;
    kernel[3].state[part[0]] = KAS_SCORE_NOT_FINITE, kernel[3].value[part[0]] = NAN;
    OK(kas_score_rank(&setup, kernel, KERNELS));
    static const kas_score_state expected[] = {KAS_SCORED, KAS_SCORED, KAS_SCORE_BLIND,
                                               KAS_SCORE_NOT_FINITE};
    for (int k = 0; k < KERNELS; k++) {
        assert_int_equal(kernel[k].state[KAS_SCORE_AZ_NAS], expected[k]);
        assert_true(isfinite(kernel[k].value[KAS_SCORE_AZ_NAS]) == (k < 2));
    }
}

RUN_TESTS()

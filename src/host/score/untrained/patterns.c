/* Scores that see which ReLUs are active: those of the network, ReLU6 included, and those of
 * kernels. They see no other function: a network without ReLU has no such score.
 *
 * naswot: log |det K|, where K[i][j] is the number of ReLUs that images i and j agree on (Mellor et
 *     al., "Neural architecture search without training", ICML 2021;
 *     BayesWatch/nas-without-training, hook_logdet).
 * swap: the number of different patterns that a ReLU's values have over the images (Peng et al.,
 *     "SWAP-NAS: Sample-wise activation patterns for ultra-fast NAS", ICLR 2024, definition 3.2,
 *     without the regularisation by parameters); of at most 64 images. */
#include <math.h>
#include <stdlib.h>

#include "host/score/untrained/eigen.h"
#include "host/score/untrained/scoring.h"

static kas_status signs(kas_scoring *s, bool *finite)
{
    KAS_TRY(kas_scoring_forward(s, false, finite));
    return s->data->neurons ? KAS_OK : kas_fail(KAS_UNSUPPORTED, "the network has no ReLU");
}

static double agreement(const kas_interpreter *p, int i, int j)
{
    const uint64_t *a = p->sign + (size_t)i * p->sign_words,
                   *b = p->sign + (size_t)j * p->sign_words;
    size_t differ = 0;
    for (size_t k = 0; k < p->sign_words; k++)
        differ += (size_t)__builtin_popcountll(a[k] ^ b[k]);
    return (double)(p->neurons - differ);
}

/* An eigenvalue that is rounding counts as 0, and the determinant with it. */
static kas_status log_determinant(int n, double *matrix, double *out)
{
    double *value = malloc(sizeof *value * (size_t)n);
    if (!value)
        return kas_fail(KAS_NO_MEMORY, "no memory for a determinant");
    kas_status status = kas_eigenvalues(n, matrix, n, value);
    *out = 0;
    for (int i = 0; i < n && status == KAS_OK; i++)
        *out += value[i] > 1e-12 * value[n - 1] ? log(value[i]) : -INFINITY;
    free(value);
    return status;
}

kas_status kas_score_naswot(kas_scoring *s, double *value)
{
    bool finite;
    KAS_TRY(signs(s, &finite));
    const int n = s->data->options.batch;
    double *matrix = malloc(sizeof *matrix * (size_t)n * (size_t)n);
    if (!matrix)
        return kas_fail(KAS_NO_MEMORY, "no memory for %d images", n);
    for (int i = 0; i < n; i++)
        for (int j = i; j < n; j++)
            matrix[i * n + j] = agreement(s->data, i, j);
    kas_status status = log_determinant(n, matrix, value);
    free(matrix);
    if (!finite)
        *value = NAN;
    return status;
}

/* A set of patterns: an open hash table. The pattern 0 is counted apart. */
typedef struct pattern_set {
    uint64_t *slot, mask;
    size_t count;
    bool zero;
} pattern_set;

static void insert(pattern_set *set, uint64_t pattern)
{
    if (!pattern) {
        set->zero = true;
        return;
    }
    uint64_t at = pattern * 0x9e3779b97f4a7c15u;
    for (at ^= at >> 32; set->slot[at & set->mask] != pattern; at++)
        if (!set->slot[at & set->mask]) {
            set->slot[at & set->mask] = pattern;
            set->count++;
            return;
        }
}

kas_status kas_score_swap(kas_scoring *s, double *value)
{
    bool finite;
    KAS_TRY(signs(s, &finite));
    const kas_interpreter *p = s->data;
    const int n = p->options.batch < 64 ? p->options.batch : 64;
    pattern_set set = {.mask = 1};
    while (set.mask < 2 * p->neurons)
        set.mask *= 2;
    set.slot = calloc(set.mask--, sizeof *set.slot);
    if (!set.slot)
        return kas_fail(KAS_NO_MEMORY, "no memory for the patterns of %zu ReLUs", p->neurons);
    for (size_t k = 0; k < p->neurons; k++) {
        uint64_t pattern = 0;
        for (int i = 0; i < n; i++)
            pattern |= (p->sign[(size_t)i * p->sign_words + k / 64] >> k % 64 & 1) << i;
        insert(&set, pattern);
    }
    *value = finite ? (double)(set.count + set.zero) : NAN;
    free(set.slot);
    return KAS_OK;
}

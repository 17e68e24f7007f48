/* jacob_cov: how differently the images move the logits (Mellor et al., "Neural architecture search
 * without training", arXiv 2006.04647v1; SamsungLabs/zero-cost-nas, jacob_cov.py). J[n] is the
 * gradient of the sum of all logits with respect to image n; v are the eigenvalues of the
 * correlation matrix of the rows of J:
 *
 *     - sum over i of log(v_i + k) + 1 / (v_i + k),   k = 1e-5 */
#include <math.h>
#include <stdlib.h>

#include "host/score/untrained/eigen.h"
#include "host/score/untrained/scoring.h"

kas_status kas_score_jacob_cov(kas_scoring *s, double *value)
{
    bool finite;
    KAS_TRY(kas_scoring_gradient(s, false, KAS_GRADIENT_SUM, &finite));
    const int n = s->data->options.batch;
    double *eigen = malloc(sizeof *eigen * (size_t)n);
    double *matrix =
        kas_correlation(n, kas_interpret_elements(s->data, 0) / (size_t)n, s->data->grad[0]);
    kas_status status = eigen && matrix ? kas_eigenvalues(n, matrix, n, eigen)
                                        : kas_fail(KAS_NO_MEMORY, "no memory for %d images", n);
    for (int i = 0; i < n && status == KAS_OK; i++)
        *value -= finite ? log(eigen[i] + 1e-5) + 1 / (eigen[i] + 1e-5) : NAN;
    free(matrix);
    free(eigen);
    return status;
}

/* bmm: y[b, m, n] = sum over k of lhs[b, m, k] * rhs[b, k, n] / sqrt(K), then, with softmax, along
 * n. Operands are row-major matrices [b][rows][columns]; a transposed LHS is [b, k, m], a
 * transposed RHS [b, n, k]. */
#include "host/reference/kernel/evaluate.h"

#include <math.h>

/* Elements of one matrix dim follow from the elements of operands and result: with B matrices,
 * LHS has B*M*K, RHS B*K*N, the result B*M*N. */
static kas_status sizes(const kas_kernel *kernel, int i, kas_ref_node *out)
{
    const kas_node *lhs = &kernel->node[kernel->node[i].in[0]],
                   *rhs = &kernel->node[kernel->node[i].in[1]];
    size_t l = out->in[0].elements, r = out->in[1].elements, y = out->out.elements;
    out->batch = 1;
    for (int d = 0; d < lhs->shape.channels && d < rhs->shape.channels; d++) {
        if (!lhs->shape.is_group[d] || !rhs->shape.is_group[d] ||
            !kas_dim_equal(&lhs->shape.channel[d], &rhs->shape.channel[d]))
            break;
        out->batch *= out->in[0].size[d];
    }
    l /= out->batch;
    r /= out->batch;
    y /= out->batch;
    out->contracted = (size_t)llround(sqrt((double)l * (double)r / (double)y));
    if (out->contracted == 0 || l % out->contracted || r % out->contracted ||
        l / out->contracted * (r / out->contracted) != y)
        return kas_fail(KAS_ILLEGAL, "reference: node %d: %zu and %zu elements give no %zu", i, l,
                        r, y);
    out->rows = l / out->contracted;
    out->columns = r / out->contracted;
    return KAS_OK;
}

static size_t lhs_at(const kas_ref_node *n, size_t b, size_t m, size_t k)
{
    const bool t = n->node->transpose & KAS_TRANSPOSE_LHS;
    return b * n->rows * n->contracted + (t ? k * n->rows + m : m * n->contracted + k);
}

static size_t rhs_at(const kas_ref_node *n, size_t b, size_t k, size_t c)
{
    const bool t = n->node->transpose & KAS_TRANSPOSE_RHS;
    return b * n->contracted * n->columns + (t ? c * n->contracted + k : k * n->columns + c);
}

static void softmax(double *row, size_t length)
{
    double max = row[0], sum = 0;
    for (size_t c = 1; c < length; c++)
        max = row[c] > max ? row[c] : max;
    for (size_t c = 0; c < length; c++)
        sum += row[c] = exp(row[c] - max);
    for (size_t c = 0; c < length; c++)
        row[c] /= sum;
}

static void forward(const kas_ref_node *n, const kas_ref_values *v)
{
    const double scale = 1 / sqrt((double)n->contracted);
    for (size_t b = 0; b < n->batch; b++)
        for (size_t m = 0; m < n->rows; m++) {
            double *row = v->y + (b * n->rows + m) * n->columns;
            for (size_t c = 0; c < n->columns; c++) {
                row[c] = 0;
                for (size_t k = 0; k < n->contracted; k++)
                    row[c] += v->in[0][lhs_at(n, b, m, k)] * v->in[1][rhs_at(n, b, k, c)] * scale;
            }
            if (n->node->softmax)
                softmax(row, n->columns);
        }
}

static void backward(const kas_ref_node *n, const kas_ref_values *v, const kas_ref_gradients *g)
{
    const double scale = 1 / sqrt((double)n->contracted);
    for (size_t b = 0; b < n->batch; b++)
        for (size_t m = 0; m < n->rows; m++) {
            const double *y = v->y + (b * n->rows + m) * n->columns;
            const double *dy = g->dy + (b * n->rows + m) * n->columns;
            double dot = 0;
            for (size_t c = 0; n->node->softmax && c < n->columns; c++)
                dot += y[c] * dy[c];
            for (size_t c = 0; c < n->columns; c++) {
                const double d = (n->node->softmax ? y[c] * (dy[c] - dot) : dy[c]) * scale;
                for (size_t k = 0; k < n->contracted; k++) {
                    const size_t l = lhs_at(n, b, m, k), r = rhs_at(n, b, k, c);
                    g->din[0][l] += d * v->in[1][r];
                    g->din[1][r] += d * v->in[0][l];
                }
            }
        }
}

const kas_ref_op kas_eval_bmm = {forward, backward, sizes};

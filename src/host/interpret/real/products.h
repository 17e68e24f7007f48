/* bmm: y[b][m][n] = sum over k of lhs[b][m][k] * rhs[b][k][n] / sqrt(K), and then a softmax along
 * n. A transposed LHS is [b][k][m], a transposed RHS [b][n][k]. */
#ifndef KAS_INTERPRET_REAL_PRODUCTS_H
#define KAS_INTERPRET_REAL_PRODUCTS_H

#include "host/interpret/real/reduce.h"

/* The matrices of one batch. */
typedef struct operands {
    const real *l, *r;
    size_t m, n, k;
    bool lt, rt;
    real scale;
} operands;

static operands operands_of(const kas_step *s, const values *v, size_t b)
{
    return (operands){.l = v->in[0] + b * s->rows * s->contracted,
                      .r = v->in[1] + b * s->contracted * s->columns,
                      .m = s->rows,
                      .n = s->columns,
                      .k = s->contracted,
                      .lt = s->node->transpose & KAS_TRANSPOSE_LHS,
                      .rt = s->node->transpose & KAS_TRANSPOSE_RHS,
                      .scale = 1 / sqrt((real)s->contracted)};
}

static const real *transposed(size_t rows, size_t columns, const real *x, real *work)
{
    transpose(rows, columns, x, work);
    return work;
}

static void bmm_forward(const kas_step *s, const values *v)
{
    for (size_t b = 0; b < s->batch; b++) {
        const operands o = operands_of(s, v, b);
        real *y = v->y + b * o.m * o.n;
        const matrix l = o.lt ? (matrix){o.l, 1, o.m} : (matrix){o.l, o.k, 1};
        matmul(o.m, o.n, o.k, l, o.rt ? transposed(o.n, o.k, o.r, v->work) : o.r, o.n, y, o.n,
               false);
        EACH(o.m * o.n, y[i] *= o.scale);
        for (size_t m = 0; s->node->softmax && m < o.m; m++)
            softmax_row(o.n, y + m * o.n, y + m * o.n);
    }
}

static void bmm_dlhs(const operands *o, const real *d, real *dl, real *work)
{
    if (o->lt)
        matmul(o->k, o->m, o->n, o->rt ? (matrix){o->r, 1, o->k} : (matrix){o->r, o->n, 1},
               transposed(o->m, o->n, d, work), o->m, dl, o->m, true);
    else
        matmul(o->m, o->k, o->n, (matrix){d, o->n, 1},
               o->rt ? o->r : transposed(o->k, o->n, o->r, work), o->k, dl, o->k, true);
}

static void bmm_drhs(const operands *o, const real *d, real *dr, real *work)
{
    if (o->rt)
        matmul(o->n, o->k, o->m, (matrix){d, 1, o->n},
               o->lt ? transposed(o->k, o->m, o->l, work) : o->l, o->k, dr, o->k, true);
    else
        matmul(o->k, o->n, o->m, o->lt ? (matrix){o->l, o->m, 1} : (matrix){o->l, 1, o->k}, d, o->n,
               dr, o->n, true);
}

static void bmm_backward(const kas_step *s, const values *v)
{
    for (size_t b = 0; b < s->batch; b++) {
        const operands o = operands_of(s, v, b);
        const real *y = v->y + b * o.m * o.n;
        real *d = v->dy + b * o.m * o.n;
        for (size_t m = 0; s->node->softmax && m < o.m; m++)
            softmax_row_slope(o.n, y + m * o.n, d + m * o.n);
        EACH(o.m * o.n, d[i] *= o.scale);
        bmm_dlhs(&o, d, v->din[0] + b * o.m * o.k, v->work);
        bmm_drhs(&o, d, v->din[1] + b * o.k * o.n, v->work);
    }
}

#endif

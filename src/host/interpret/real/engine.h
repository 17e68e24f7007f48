/* Chooses the function of each layer, and adds up the gradients of layers that several read.
 * Defines ENGINE for numbers of type `real`. */
#include "host/interpret/real/layers.h"

/* ---- forward --------------------------------------------------------------------------------- */

static place place_of(const kas_interpreter *p, int i)
{
    const kas_layer *l = &p->options.net->layer[i], *in = &p->options.net->layer[l->in[0]];
    return (place){.p = p,
                   .l = l,
                   .in = in,
                   .n = (size_t)p->options.batch,
                   .area = (size_t)l->h * (size_t)l->w,
                   .in_area = (size_t)in->h * (size_t)in->w,
                   .x = p->act[l->in[0]],
                   .y = p->act[i]};
}

static void multiply_forward(const place *a)
{
    const kas_layer *other = &a->p->options.net->layer[a->l->in[1]];
    const size_t pixels = (size_t)other->h * (size_t)other->w;
    const real *factor = a->p->act[a->l->in[1]];
    for (size_t k = 0; k < a->n * (size_t)a->l->c; k++)
        EACH(a->area, a->y[k * a->area + i] =
                          a->x[k * a->area + i] * factor[k * pixels + (pixels == 1 ? 0 : i)]);
}

static void concat_forward(const place *a)
{
    size_t begin = 0;
    for (int k = 0; k < a->l->inputs; k++) {
        const size_t run = (size_t)a->p->options.net->layer[a->l->in[k]].c * a->area;
        for (size_t n = 0; n < a->n; n++)
            memcpy(a->y + n * (size_t)a->l->c * a->area + begin,
                   (real *)a->p->act[a->l->in[k]] + n * run, sizeof(real) * run);
        begin += run;
    }
}

static void run_layer(const kas_interpreter *p, int i, const place *a, size_t size)
{
    const real *second = a->l->inputs > 1 ? p->act[a->l->in[1]] : NULL;
    switch (a->l->op) {
    case KAS_LAYER_CONV:
        conv_forward(a);
        return;
    case KAS_LAYER_LINEAR:
        linear_forward(a);
        return;
    case KAS_LAYER_BATCH_NORM:
        if (p->options.without_norms)
            memcpy(a->y, a->x, sizeof(real) * size);
        else
            batch_norm_forward(a, (real *)p->mean + p->norm[i], (real *)p->rstd + p->norm[i]);
        if (p->loaded)
            norm_affine(a, (real *)p->factor + p->norm[i], (real *)p->offset + p->norm[i]);
        return;
    case KAS_LAYER_LAYER_NORM:
        layer_norm(a, false);
        if (p->loaded)
            norm_affine(a, (real *)p->factor + p->norm[i], (real *)p->offset + p->norm[i]);
        return;
    case KAS_LAYER_ADD:
        EACH(size, a->y[i] = a->x[i] + second[i]);
        return;
    case KAS_LAYER_MULTIPLY:
        multiply_forward(a);
        return;
    case KAS_LAYER_CONCAT:
        concat_forward(a);
        return;
    case KAS_LAYER_AVG_POOL:
    case KAS_LAYER_MAX_POOL:
    case KAS_LAYER_ADAPTIVE_AVG_POOL:
    case KAS_LAYER_GLOBAL_AVG_POOL:
        pool(a, false);
        return;
    case KAS_LAYER_SHORTCUT_A:
        shortcut(a, false);
        return;
    case KAS_LAYER_DROPOUT: /* drops nothing */
    case KAS_LAYER_FLATTEN: /* [c][h][w] is the order already */
        memcpy(a->y, a->x, sizeof(real) * size);
        return;
    default:
        activation_forward(a->l->op, size, a->x, a->y);
    }
}

static void forward(kas_interpreter *p, int i)
{
    const place a = place_of(p, i);
    const size_t size = kas_interpret_elements(p, i), each = size / a.n;
    if (p->target[i] >= 0)
        replaced_forward(p, i, a.x, a.y);
    else
        run_layer(p, i, &a, size);
    if (p->sign && (a.l->op == KAS_LAYER_RELU || a.l->op == KAS_LAYER_RELU6))
        for (size_t n = 0; n < a.n; n++)
            note_signs(p, (int)n, p->sign_at[i], each, a.y + n * each);
}

/* ---- backward -------------------------------------------------------------------------------- */

/* Where the gradient of `layer` that comes from one reader is written: its place, or beside it
 * until it is added. */
static real *piece_of(const kas_interpreter *p, int layer, int to)
{
    return layer >= to && !p->claimed[layer] ? p->grad[layer] : p->pieces;
}

static void add_piece(kas_interpreter *p, int layer, int to)
{
    if (layer < to)
        return;
    if (p->claimed[layer])
        add_to(p->grad[layer], p->pieces, kas_interpret_elements(p, layer));
    p->claimed[layer] = true;
}

/* Passes on the gradient of a sum, a product or a concatenation to input number k. */
static void part_backward(const place *a, int k, real *dx)
{
    const kas_layer *in = &a->p->options.net->layer[a->l->in[k]];
    const size_t run = (size_t)in->c * (size_t)in->h * (size_t)in->w,
                 whole = (size_t)a->l->c * a->area;
    const real *other = a->p->act[a->l->in[k == 0]];
    size_t begin = 0;
    for (int i = 0; i < k; i++)
        begin += (size_t)a->p->options.net->layer[a->l->in[i]].c * a->area;
    if (a->l->op == KAS_LAYER_ADD) {
        memcpy(dx, a->dy, sizeof(real) * a->n * whole);
    } else if (a->l->op == KAS_LAYER_CONCAT) {
        for (size_t n = 0; n < a->n; n++)
            memcpy(dx + n * run, a->dy + n * whole + begin, sizeof(real) * run);
    } else if (run == whole) {
        const kas_layer *second = &a->p->options.net->layer[a->l->in[1]];
        const size_t pixels = (size_t)second->h * (size_t)second->w;
        for (size_t c = 0; c < a->n * (size_t)a->l->c; c++)
            EACH(a->area,
                 dx[c * a->area + i] = a->dy[c * a->area + i] *
                                       (k == 1 || pixels > 1 ? other[c * a->area + i] : other[c]));
    } else { /* a factor for each channel */
        for (size_t c = 0; c < a->n * (size_t)a->l->c; c++)
            dx[c] = dot(a->area, other + c * a->area, a->dy + c * a->area);
    }
}

static void single_backward(const kas_interpreter *p, int i, const place *a)
{
    const size_t size = kas_interpret_elements(p, i);
    switch (a->l->op) {
    case KAS_LAYER_CONV:
        conv_backward(a);
        return;
    case KAS_LAYER_LINEAR:
        linear_backward(a);
        return;
    case KAS_LAYER_BATCH_NORM:
        if (p->options.without_norms)
            memcpy(a->dx, a->dy, sizeof(real) * size);
        else
            batch_norm_backward(a, (real *)p->mean + p->norm[i], (real *)p->rstd + p->norm[i]);
        return;
    case KAS_LAYER_LAYER_NORM:
        layer_norm(a, true);
        return;
    case KAS_LAYER_AVG_POOL:
    case KAS_LAYER_MAX_POOL:
    case KAS_LAYER_ADAPTIVE_AVG_POOL:
    case KAS_LAYER_GLOBAL_AVG_POOL:
        pool(a, true);
        return;
    case KAS_LAYER_SHORTCUT_A:
        shortcut(a, true);
        return;
    case KAS_LAYER_DROPOUT:
    case KAS_LAYER_FLATTEN:
        memcpy(a->dx, a->dy, sizeof(real) * size);
        return;
    default:
        activation_backward(a->l->op, size, a->x, a->dy, a->dx);
    }
}

static void backward(kas_interpreter *p, int i, int to)
{
    place a = place_of(p, i);
    a.dy = p->grad[i];
    if (a.l->op == KAS_LAYER_ADD || a.l->op == KAS_LAYER_MULTIPLY || a.l->op == KAS_LAYER_CONCAT) {
        for (int k = 0; k < a.l->inputs; k++)
            if (a.l->in[k] >= to) {
                part_backward(&a, k, piece_of(p, a.l->in[k], to));
                add_piece(p, a.l->in[k], to);
            }
        return;
    }
    a.dx = piece_of(p, a.l->in[0], to);
    a.wanted = a.l->in[0] >= to;
    if (p->target[i] >= 0)
        replaced_backward(p, i, a.x, a.dy, a.dx);
    else
        single_backward(p, i, &a);
    add_piece(p, a.l->in[0], to);
}

/* ---- numbers --------------------------------------------------------------------------------- */

static double loss(kas_interpreter *p, const uint16_t *labels)
{
    const int last = p->options.net->layers - 1;
    const size_t classes = (size_t)p->options.net->classes, n = (size_t)p->options.batch;
    const real *logits = p->act[last];
    real *d = p->grad[last];
    double sum = 0;
    for (size_t b = 0; b < n; b++, logits += classes, d += classes) {
        double most = -INFINITY, total = 0;
        for (size_t c = 0; c < classes; c++)
            most = (double)logits[c] > most ? (double)logits[c] : most;
        for (size_t c = 0; c < classes; c++)
            total += exp((double)logits[c] - most);
        for (size_t c = 0; c < classes; c++)
            d[c] = (real)((exp((double)logits[c] - most) / total - (c == labels[b])) / (double)n);
        sum += log(total) + most - (double)logits[labels[b]];
    }
    return sum / (double)n;
}

static void store(void *to, const float *from, size_t n, double factor)
{
    for (size_t i = 0; i < n; i++)
        ((real *)to)[i] = (real)from[i] * (real)factor;
}

static void positive(void *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((real *)x)[i] = fabs(((real *)x)[i]);
}

static void fill(void *x, size_t n, double value)
{
    set(n, x, (real)value);
}

static double get(const void *x, size_t i)
{
    return (double)((const real *)x)[i];
}

const kas_engine ENGINE = {.size = sizeof(real),
                           .store = store,
                           .positive = positive,
                           .fill = fill,
                           .get = get,
                           .forward = forward,
                           .backward = backward,
                           .loss = loss};

/* A kernel in a convolution's place, image by image: its primitives in order, all instances, the
 * pool that takes a stride (docs/design.md, "Replacement rules"). */
#ifndef KAS_INTERPRET_REAL_KERNEL_H
#define KAS_INTERPRET_REAL_KERNEL_H

#include "host/interpret/engine.h"
#include "host/interpret/real/maps.h"
#include "host/interpret/real/products.h"

/* Inlined, so that the functions that it calls are compiled for each direction. */
static inline __attribute__((always_inline)) void step(const kas_step *s, const values *v,
                                                       bool backward)
{
    switch (kas_type_of(s->op)) {
    case KAS_TYPE_FC:
        (backward ? fc_backward : fc_forward)(s, v);
        return;
    case KAS_TYPE_CONV:
        if (s->op == KAS_OP_CONV)
            (backward ? fc_backward : fc_forward)(s, v);
        else
            depthwise(s, v, backward);
        return;
    case KAS_TYPE_MIX:
        mix(s, v, backward);
        return;
    case KAS_TYPE_SCALE:
        scale(s, v, backward);
        return;
    case KAS_TYPE_ELEMENTWISE:
        if (backward)
            function_backward(s->op, s->elements, v->in[0], v->dy, v->din[0]);
        else
            function_forward(s->op, s->elements, v->in[0], v->y);
        return;
    case KAS_TYPE_FOLD:
        if (s->op == KAS_OP_FOLD_AVG)
            fold_avg(s, v, backward);
        else
            fold_max(s, v, backward);
        return;
    case KAS_TYPE_SOFTMAX:
        softmax(s, v, backward);
        return;
    case KAS_TYPE_NORM:
        (backward ? norm_backward : norm_forward)(s, v);
        return;
    case KAS_TYPE_POOL:
        if (s->op == KAS_OP_POOL_AVG)
            pool_avg(s, v, backward);
        else
            pool_max(s, v, backward);
        return;
    case KAS_TYPE_BMM:
        (backward ? bmm_backward : bmm_forward)(s, v);
        return;
    case KAS_TYPE_BROADCAST:
        broadcast(s, v, backward);
        return;
    default:
        move_values(s, v, backward);
    }
}

static void step_forward(const kas_step *s, const values *v)
{
    step(s, v, false);
}

static void step_backward(const kas_step *s, const values *v)
{
    step(s, v, true);
}

static uint64_t signs_of(size_t n, const real *x)
{
    uint64_t word = 0;
#pragma omp simd reduction(| : word)
    for (size_t i = 0; i < n; i++)
        word |= (uint64_t)(x[i] > 0) << i;
    return word;
}

/* Notes which of n values of an image are above 0. */
static void note_signs(const kas_interpreter *p, int image, size_t at, size_t n, const real *x)
{
    uint64_t *row = p->sign + (size_t)image * p->sign_words;
    for (size_t i = 0; i < n;) {
        const size_t free_bits = 64 - at % 64, count = n - i < free_bits ? n - i : free_bits;
        row[at / 64] |= signs_of(count, x + i) << at % 64;
        at += count;
        i += count;
    }
}

/* One instance of a kernel for one image. */
typedef struct instance {
    const kas_interpreter *pass;
    const kas_steps *steps;
    int layer, image, number; /* number: of the instance */
    const real *x;
    real *y, *dx; /* y: the result, or NULL: among the scratch */
} instance;

static values values_of(const instance *c, int i)
{
    const kas_interpreter *p = c->pass;
    const kas_step *s = &c->steps->step[i];
    const bool last = i == c->steps->count - 1;
    values v = {.work = p->work};
    for (int k = 0; k < s->node->inputs; k++) {
        const int from = s->node->in[k];
        v.in[k] = from ? (real *)p->scratch + c->steps->step[from].at : c->x;
        if (p->scratch_grad)
            v.din[k] = from ? (real *)p->scratch_grad + c->steps->step[from].at : c->dx;
    }
    v.y = last && c->y ? c->y : (real *)p->scratch + s->at;
    if (p->scratch_grad)
        v.dy = (real *)p->scratch_grad + s->at;
    if (s->weight >= 0) {
        const kas_interpret_weight *w = &p->weight[p->first[c->layer] + s->weight];
        const size_t at = w->at + (size_t)c->number * s->groups * s->fan_out * s->fan_in;
        v.weight = (real *)p->value + at;
        if (p->slope)
            v.dweight = (real *)p->slope + at;
    }
    return v;
}

static void instance_forward(const instance *c)
{
    for (int i = 1; i < c->steps->count; i++) {
        const kas_step *s = &c->steps->step[i];
        const values v = values_of(c, i);
        step_forward(s, &v);
        if (c->pass->sign && s->op == KAS_OP_RELU)
            note_signs(c->pass, c->image,
                       c->pass->sign_at[c->layer] + (size_t)c->number * c->steps->neurons + s->sign,
                       s->elements, v.y);
    }
}

/* The gradient of the result is among the scratch gradients; the others are 0. */
static void instance_backward(const instance *c)
{
    for (int i = 1; i < c->steps->count; i++)
        if (c->steps->step[i].computed) {
            const values v = values_of(c, i);
            step_forward(&c->steps->step[i], &v);
        }
    for (int i = c->steps->count - 1; i > 0; i--) {
        const values v = values_of(c, i);
        step_backward(&c->steps->step[i], &v);
    }
}

/* The average pool of a stride, in ceil mode: over one image plane, forward or backward. */
static void stride_pool(const kas_target *t, const kas_layer *in, size_t planes, const real *x,
                        real *y)
{
    const int s = (int)t->stride;
    for (size_t p = 0; p < planes; p++)
        for (int h = 0; h < (int)t->h; h++)
            for (int w = 0; w < (int)t->w; w++) {
                const int bottom = h * s + s < in->h ? h * s + s : in->h;
                const int right = w * s + s < in->w ? w * s + s : in->w;
                real sum = 0;
                for (int i = h * s; i < bottom; i++)
                    for (int j = w * s; j < right; j++)
                        sum += x[(p * (size_t)in->h + (size_t)i) * (size_t)in->w + (size_t)j];
                y[(p * t->h + (size_t)h) * t->w + (size_t)w] =
                    sum / (real)((bottom - h * s) * (right - w * s));
            }
}

static void stride_spread(const kas_target *t, const kas_layer *in, size_t planes, const real *dy,
                          real *dx)
{
    const int s = (int)t->stride;
    for (size_t p = 0; p < planes; p++)
        for (int i = 0; i < in->h; i++)
            for (int j = 0; j < in->w; j++) {
                const int h = i / s, w = j / s;
                const int rows = h * s + s < in->h ? s : in->h - h * s;
                const int columns = w * s + s < in->w ? s : in->w - w * s;
                dx[(p * (size_t)in->h + (size_t)i) * (size_t)in->w + (size_t)j] =
                    dy[(p * t->h + (size_t)h) * t->w + (size_t)w] / (real)(rows * columns);
            }
}

/* Copies image planes into larger ones, with zeros behind them, or back. */
static void pad_planes(const kas_layer *in, size_t planes, size_t h, size_t w, const real *x,
                       real *y)
{
    set(planes * h * w, y, 0);
    for (size_t row = 0; row < planes * (size_t)in->h; row++)
        memcpy(y + (row / (size_t)in->h * h + row % (size_t)in->h) * w, x + row * (size_t)in->w,
               (size_t)in->w * sizeof *y);
}

static void crop_planes(const kas_layer *in, size_t planes, size_t h, size_t w, const real *y,
                        real *x)
{
    for (size_t row = 0; row < planes * (size_t)in->h; row++)
        memcpy(x + row * (size_t)in->w, y + (row / (size_t)in->h * h + row % (size_t)in->h) * w,
               (size_t)in->w * sizeof *y);
}

/* How a target reads its input and which results of the kernel are its own. */
typedef struct strided {
    const kas_target *t;
    const kas_layer *in;
    size_t planes;       /* of all images */
    size_t h, w;         /* of what the kernel reads and computes */
    size_t part, x_part; /* elements of a part of the result, and of what the kernel reads */
    bool inside;         /* the kernel takes the stride */
} strided;

static strided strided_of(const kas_interpreter *p, int layer)
{
    const int target = p->target[layer];
    const kas_target *t = &p->options.replacement->target[target];
    const bool inside =
        t->stride > 1 && kas_replacement_kernel(p->options.replacement, target)->stride_inside;
    const size_t s = inside ? t->stride : 1;
    return (strided){.t = t,
                     .in = &p->options.net->layer[p->options.net->layer[layer].in[0]],
                     .planes = (size_t)p->options.batch * t->c_in,
                     .h = t->h * s,
                     .w = t->w * s,
                     .part = (size_t)t->c * t->h * t->w,
                     .x_part = (size_t)t->c * t->h * t->w * s * s,
                     .inside = inside};
}

/* Returns what the kernel reads: the input, or the pool of it, or the input in whole strides. */
static const real *strided_input(const strided *d, const real *x, real *pooled)
{
    if (d->t->stride <= 1)
        return x;
    if (d->inside)
        pad_planes(d->in, d->planes, d->h, d->w, x, pooled);
    else
        stride_pool(d->t, d->in, d->planes, x, pooled);
    return pooled;
}

/* Returns the number, among what the kernel computes, of element i of a part of the result. */
static size_t strided_at(const strided *d, size_t i)
{
    const size_t w = d->t->w, pixels = d->t->h * w, s = d->t->stride;
    return d->inside ? (i / pixels * d->h + i % pixels / w * s) * d->w + i % w * s : i;
}

static real factor_of(const kas_replacement *r, int target)
{
    return (real)kas_replacement_gain(r, target) / sqrt((real)r->target[target].parts_in);
}

static void replaced_forward(const kas_interpreter *p, int layer, const real *x, real *y)
{
    const int target = p->target[layer];
    const strided d = strided_of(p, layer);
    const kas_target *t = d.t;
    const size_t part = d.part;
    const real factor = factor_of(p->options.replacement, target);
    const bool direct = t->parts_in == 1 && !d.inside;
    x = strided_input(&d, x, p->pooled);
    if (!direct)
        set((size_t)p->options.batch * part * t->parts_out, y, 0);
    for (int n = 0; n < p->options.batch; n++)
        for (uint32_t q = 0; q < t->parts_out * t->parts_in; q++) {
            real *to = y + ((size_t)n * t->parts_out + q / t->parts_in) * part;
            const instance c = {.pass = p,
                                .steps = &p->steps[target],
                                .layer = layer,
                                .image = n,
                                .number = (int)q,
                                .x = x + ((size_t)n * t->parts_in + q % t->parts_in) * d.x_part,
                                .y = direct ? to : NULL};
            instance_forward(&c);
            const real *from =
                direct ? to : (real *)p->scratch + c.steps->step[c.steps->count - 1].at;
            if (direct && factor != 1)
                EACH(part, to[i] *= factor);
            else if (d.inside)
                EACH(part, to[i] += factor * from[strided_at(&d, i)]);
            else if (!direct)
                EACH(part, to[i] += factor * from[i]);
        }
}

/* Overwrites dx and adds to the gradients of the weights. */
static void replaced_backward(const kas_interpreter *p, int layer, const real *x, const real *dy,
                              real *dx)
{
    const int target = p->target[layer];
    const strided d = strided_of(p, layer);
    const kas_target *t = d.t;
    const kas_steps *steps = &p->steps[target];
    const size_t part = d.part, all = (size_t)p->options.batch * t->parts_in * d.x_part;
    const real factor = factor_of(p->options.replacement, target);
    real *to = t->stride > 1 ? (real *)p->pooled + all : dx;
    x = strided_input(&d, x, p->pooled);
    set(all, to, 0);
    for (int n = 0; n < p->options.batch; n++)
        for (uint32_t q = 0; q < t->parts_out * t->parts_in; q++) {
            const size_t from = ((size_t)n * t->parts_in + q % t->parts_in) * d.x_part;
            const real *out = dy + ((size_t)n * t->parts_out + q / t->parts_in) * part;
            const instance c = {.pass = p,
                                .steps = steps,
                                .layer = layer,
                                .image = n,
                                .number = (int)q,
                                .x = x + from,
                                .dx = to + from};
            real *last = (real *)p->scratch_grad + steps->step[steps->count - 1].at;
            set(steps->elements, p->scratch_grad, 0);
            if (d.inside)
                EACH(part, last[strided_at(&d, i)] = factor * out[i]);
            else
                EACH(part, last[i] = factor * out[i]);
            instance_backward(&c);
        }
    if (t->stride > 1 && d.inside)
        crop_planes(d.in, d.planes, d.h, d.w, to, dx);
    else if (t->stride > 1)
        stride_spread(t, d.in, d.planes, to, dx);
}

#endif

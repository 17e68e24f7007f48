/* Runs the convolutions of a network alone. */
#include <stdlib.h>

#include "host/device/fill.h"
#include "host/bench/step_model.h"
#include "host/model/model_impl.h"

/* Five buffers, each as large as the largest convolution needs. Outputs never overlap inputs, so
 * every run computes the same numbers. */
typedef enum buffer { X, W, Y, DX, DW, BUFFERS } buffer;

struct kas_bench_convs {
    kas_device *device;
    kas_precision precision;
    kas_conv **conv; /* [convs] */
    int convs;
    void *memory[BUFFERS];
    kas_plan *plan;
    kas_timer *timer;
};

static kas_conv_desc describe(const kas_net *net, int layer, int batch, kas_precision precision)
{
    kas_conv_desc d = kas_layer_conv_desc(net, layer, batch, kas_precision_dtype(precision));
    d.tf32 = precision == KAS_PRECISION_TF32;
    return d;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static bool wanted(const kas_net *net, int only, int layer)
{
    return net->layer[layer].op == KAS_LAYER_CONV && (only < 0 || only == layer);
}

/* Computes the elements of each buffer. */
static void sizes(const kas_net *net, int only, int batch, size_t size[BUFFERS])
{
    for (int b = 0; b < BUFFERS; b++)
        size[b] = 0;
    for (int i = 0; i < net->layers; i++) {
        if (!wanted(net, only, i))
            continue;
        const kas_conv_desc d = describe(net, i, batch, KAS_PRECISION_BF16); /* widest pitches */
        size_t n = (size_t)d.n;
        size_t x = n * (size_t)d.h * (size_t)d.w * (size_t)d.x_pitch;
        size_t y = n * (size_t)kas_conv_out_h(&d) * (size_t)kas_conv_out_w(&d) * (size_t)d.y_pitch;
        size_t w =
            (size_t)d.c_out * (size_t)d.kernel_h * (size_t)d.kernel_w * (size_t)(d.c_in / d.groups);
        size[X] = size[DX] = larger(size[X], x);
        size[Y] = larger(size[Y], y);
        size[W] = size[DW] = larger(size[W], w);
    }
}

static kas_status allocate(kas_bench_convs *c, const kas_net *net, int only, int batch)
{
    const kas_dtype dtype = kas_precision_dtype(c->precision);
    size_t size[BUFFERS];
    sizes(net, only, batch, size);
    for (int b = 0; b < BUFFERS; b++) {
        const size_t bytes = size[b] * (b == DW ? sizeof(float) : kas_dtype_size(dtype));
        KAS_TRY(kas_mem_alloc(c->device, bytes, &c->memory[b]));
        KAS_TRY(kas_mem_zero(c->device, c->memory[b], bytes));
    }
    kas_rng rng = kas_rng_make(0, KAS_PURPOSE_TEST, 0);
    KAS_TRY(kas_mem_fill_normal(c->device, c->memory[X], dtype, size[X], 1, &rng));
    return kas_mem_fill_normal(c->device, c->memory[W], dtype, size[W], 0.05, &rng);
}

static kas_status record(kas_bench_convs *c, const kas_net *net, int only, int batch,
                         kas_tape_mode mode)
{
    void *const *m = c->memory;
    for (int i = 0; i < net->layers; i++) {
        if (!wanted(net, only, i))
            continue;
        const kas_conv_desc d = describe(net, i, batch, c->precision);
        KAS_TRY(kas_conv_create(c->device, &d, &c->conv[c->convs]));
        kas_conv *conv = c->conv[c->convs++];
        KAS_TRY(kas_plan_conv(c->plan, conv, KAS_CONV_FORWARD, m[X], m[W], m[Y]));
        if (mode != KAS_TAPE_TRAIN)
            continue;
        if (net->layer[i].in[0] != 0)
            KAS_TRY(kas_plan_conv(c->plan, conv, KAS_CONV_BACKWARD_DATA, m[DX], m[W], m[Y]));
        KAS_TRY(kas_plan_conv(c->plan, conv, KAS_CONV_BACKWARD_WEIGHTS, m[X], m[DW], m[Y]));
    }
    return KAS_OK;
}

static kas_status prepare(kas_bench_convs *c, const kas_net *net, int only, int batch,
                          kas_tape_mode mode)
{
    c->conv = calloc((size_t)net->layers, sizeof(kas_conv *));
    if (!c->conv)
        return kas_fail(KAS_NO_MEMORY, "no memory for %d convolutions", net->layers);
    KAS_TRY(kas_plan_create(c->device, &c->plan));
    KAS_TRY(kas_timer_create(c->device, &c->timer));
    KAS_TRY(allocate(c, net, only, batch));
    return record(c, net, only, batch, mode);
}

kas_status kas_bench_convs_create(kas_device *device, const kas_net *net, int layer, int batch,
                                  kas_tape_mode mode, kas_precision precision,
                                  kas_bench_convs **out)
{
    kas_bench_convs *c = calloc(1, sizeof *c);
    if (!c)
        return kas_fail(KAS_NO_MEMORY, "no memory for the convolutions of %s", net->name);
    c->device = device;
    c->precision = precision;
    kas_status status = prepare(c, net, layer, batch, mode);
    if (status != KAS_OK) {
        kas_bench_convs_free(c);
        return status;
    }
    *out = c;
    return KAS_OK;
}

void kas_bench_convs_free(kas_bench_convs *c)
{
    if (!c)
        return;
    kas_plan_free(c->plan);
    for (int i = 0; i < c->convs; i++)
        kas_conv_free(c->conv[i]);
    free(c->conv);
    for (int b = 0; b < BUFFERS; b++)
        if (c->memory[b])
            kas_mem_free(c->device, c->memory[b]);
    kas_timer_free(c->timer);
    free(c);
}

kas_status kas_bench_convs_run(kas_bench_convs *c, double *seconds)
{
    return kas_plan_time(c->plan, c->timer, seconds);
}

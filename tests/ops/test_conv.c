/* Convolution, all passes: oneDNN and our loops against the float64 reference. */
#include "op_case.h"

#include "host/reference/net/layers.h"

typedef struct conv_case {
    int n, h, w, c_in, c_out, groups, kernel_h, kernel_w, stride, pad, extra_pitch, dilation;
} conv_case;

enum { SAME = -1 }; /* half of the kernel on each side */

static const conv_case cases[] = {
    {2, 9, 7, 3, 16, 1, 3, 3, 1, 1, 0, 0},      /* stem: pitch 4 for 3 channels */
    {2, 8, 8, 16, 16, 1, 3, 3, 1, 1, 0, 0},     /* */
    {3, 9, 9, 16, 32, 1, 3, 3, 2, 1, 0, 0},     /* odd size, stride */
    {2, 8, 8, 16, 32, 1, 1, 1, 2, 0, 0, 0},     /* projection */
    {2, 5, 6, 12, 20, 1, 3, 3, 1, 1, 0, 0},     /* sizes that are no multiple of a vector */
    {2, 5, 6, 12, 20, 4, 3, 3, 1, 1, 0, 0},     /* grouped */
    {2, 6, 5, 20, 20, 20, 3, 3, 1, 1, 0, 0},    /* depthwise */
    {2, 7, 7, 64, 64, 64, 5, 5, 2, 2, 0, 0},    /* depthwise, stride */
    {2, 7, 7, 130, 130, 130, 3, 3, 1, 1, 2, 0}, /* depthwise, several chunks of lanes */
    {1, 4, 4, 70, 130, 1, 1, 1, 1, 0, 2, 0},    /* several chunks of lanes */
    {5, 1, 1, 64, 10, 1, 1, 1, 1, 0, 0, 0},     /* linear */
    {2, 6, 6, 20, 12, 1, 1, 3, 1, 1, 4, 0},     /* 1x3, pads in h too, wide pitch */
    {2, 6, 6, 24, 12, 1, 7, 7, 1, 3, 0, 0},
    {2, 9, 8, 16, 12, 1, 3, 3, 1, 2, 0, 2},     /* taps 2 apart */
    {2, 9, 8, 12, 20, 4, 5, 5, 1, 6, 0, 3},     /* grouped, 3 apart, most taps outside */
    {2, 11, 9, 20, 20, 20, 3, 3, 2, 2, 0, 2},   /* depthwise, stride */
    {2, 6, 9, 24, 12, 4, 1, 7, 1, SAME, 0, 0},  /* grouped, not square */
    {2, 9, 5, 20, 20, 20, 5, 1, 2, SAME, 0, 0}, /* depthwise, not square */
    {2, 7, 6, 16, 48, 16, 3, 5, 1, SAME, 0, 0}, /* three outputs a channel */
    /* over lines of pixels, beside the library */
    {3, 9, 12, 20, 20, 20, 5, 3, 1, SAME, 4, 2}, /* depthwise, taps apart */
    {2, 5, 6, 16, 16, 16, 7, 7, 1, 9, 0, 3},     /* depthwise, far, in short lines */
    {2, 9, 13, 36, 3, 1, 3, 5, 1, SAME, 4, 0},   /* to few outputs */
    {3, 6, 11, 2, 20, 1, 5, 3, 1, SAME, 0, 0},   /* from few inputs */
    {20, 4, 4, 40, 1, 1, 1, 1, 1, 0, 0, 0},      /* to one output, more images than blocks */
    {3, 7, 9, 24, 12, 6, 3, 3, 1, SAME, 0, 0},   /* groups of 4 to 2, vectors that are not full */
    {2, 9, 11, 36, 36, 12, 3, 3, 1, SAME, 4, 0}, /* groups of 3 across vectors */
    {2, 9, 20, 16, 48, 16, 5, 5, 1, SAME, 0, 0}, /* three outputs a channel, 5x5 */
    {2, 6, 9, 64, 64, 16, 3, 3, 1, 2, 0, 2},     /* groups of 4, taps apart */
    {19, 5, 4, 32, 16, 4, 1, 3, 1, SAME, 0, 0},  /* groups of 8 to 4, more images than blocks */
    {2, 7, 7, 32, 32, 16, 1, 1, 1, 0, 0, 0},     /* groups of 2 without windows */
    {3, 6, 9, 20, 40, 20, 3, 3, 1, SAME, 0,
     0},                                      /* two outputs a channel, vectors that are not full */
    {5, 6, 9, 12, 6, 3, 3, 3, 1, SAME, 4, 0}, /* two images in a vector, and the last alone */
    {4, 5, 7, 6, 8, 2, 3, 5, 1, SAME, 0, 2},  /* two images, taps apart */
    /* matrix products */
    {1, 1, 24, 100, 60, 5, 1, 1, 1, 0, 4, 0},  /* too short sums of x's gradient */
    {1, 1, 33, 120, 150, 3, 1, 1, 1, 0, 8, 0}, /* all passes */
    {1, 1, 300, 64, 128, 4, 1, 1, 1, 0, 0, 0}, /* many rows */
    /* on tensor cores, where our own kernels run on a GPU and TF32 is allowed */
    {3, 7, 5, 32, 32, 4, 3, 3, 1, SAME, 0, 0},   /* octets, an odd number of them */
    {5, 19, 15, 32, 32, 2, 3, 3, 1, SAME, 8, 0}, /* more pixels than a block has */
    {2, 9, 8, 64, 64, 2, 3, 3, 2, 1, 0, 0},      /* 32 channels of a group, stride */
    {2, 9, 10, 48, 144, 3, 3, 5, 1, SAME, 0, 2}, /* 16 to 48, taps apart */
    {2, 11, 9, 128, 64, 2, 3, 3, 2, 2, 0, 2},    /* 64 to 32, taps apart, stride */
    {2, 6, 9, 16, 80, 2, 5, 5, 3, SAME, 0, 0},   /* 8 to 40, stride 3 */
};

static double the_error; /* what products may add to a tolerance */

typedef struct tensors {
    double *x, *w, *dy, *y, *dx, *dw; /* reference */
    size_t xs, ws, ys;
    int out_h, out_w;
} tensors;

/* The reference knows no dilation: a kernel whose taps lie apart is a larger one with zeros between
 * them.  Copies `maps` kernels into the larger form, or back out of it. */
static void spread(const kas_conv_desc *d, size_t maps, double *taps, double *wide, bool back)
{
    const int span_h = kas_conv_span(d, d->kernel_h), span_w = kas_conv_span(d, d->kernel_w);
    for (size_t m = 0; m < maps; m++)
        for (int kh = 0; kh < d->kernel_h; kh++)
            for (int kw = 0; kw < d->kernel_w; kw++) {
                double *tap = &taps[(m * d->kernel_h + kh) * d->kernel_w + kw];
                double *at = &wide[(m * span_h + kh * kas_conv_dilation(d)) * span_w +
                                   kw * kas_conv_dilation(d)];
                *(back ? tap : at) = *(back ? at : tap);
            }
}

static tensors make_reference(const kas_conv_desc *d)
{
    const size_t maps = (size_t)d->c_out * (d->c_in / d->groups);
    const int span_h = kas_conv_span(d, d->kernel_h), span_w = kas_conv_span(d, d->kernel_w);
    double *wide = calloc(maps * span_h * span_w, sizeof *wide);
    double *dwide = nan_values(maps * span_h * span_w);
    tensors t = {.out_h = kas_conv_out_h(d), .out_w = kas_conv_out_w(d)};
    t.xs = (size_t)d->n * d->c_in * d->h * d->w;
    t.ys = (size_t)d->n * d->c_out * t.out_h * t.out_w;
    t.ws = maps * d->kernel_h * d->kernel_w;
    t.x = random_values(t.xs, 1), t.w = random_values(t.ws, 2), t.dy = random_values(t.ys, 3);
    t.y = nan_values(t.ys), t.dx = nan_values(t.xs), t.dw = nan_values(t.ws);
    spread(d, maps, t.w, wide, false);
    kas_ref_conv_forward(d->n, d->c_in, d->h, d->w, d->c_out, span_h, span_w, d->stride, d->pad_h,
                         d->pad_w, d->groups, t.x, wide, t.y);
    kas_ref_conv_backward(d->n, d->c_in, d->h, d->w, d->c_out, span_h, span_w, d->stride, d->pad_h,
                          d->pad_w, d->groups, t.x, wide, t.dy, t.dx, dwide);
    spread(d, maps, t.dw, dwide, true);
    free(wide);
    free(dwide);
    return t;
}

static void free_reference(tensors *t)
{
    double *all[] = {t->x, t->w, t->dy, t->y, t->dx, t->dw};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* PyTorch's [co][ci][kh][kw] <-> KRSC is [n][c][h][w] <-> [n][h][w][c] with n = co. */
static void run_case(const kas_conv_desc *d, const tensors *t, const char *what)
{
    kas_conv *conv;
    kas_plan *plan;
    const int ci = d->c_in / d->groups;
    OK(kas_conv_create(the_device, d, &conv));
    OK(kas_plan_create(the_device, &plan));
    const kas_dtype dtype = d->dtype;
    void *x = conv_x_to_device(d, t->x);
    void *w = numbers_to_device(dtype, t->w, d->c_out, ci, d->kernel_h, d->kernel_w, ci);
    void *dy = numbers_to_device(dtype, t->dy, d->n, d->c_out, t->out_h, t->out_w, d->y_pitch);
    void *y = numbers_to_device(dtype, NULL, d->n, d->c_out, t->out_h, t->out_w, d->y_pitch);
    void *dx = numbers_to_device(dtype, NULL, d->n, d->c_in, d->h, d->w, d->x_pitch);
    float *dw = to_device(NULL, d->c_out, ci, d->kernel_h, d->kernel_w, ci);
    OK(kas_plan_conv(plan, conv, KAS_CONV_FORWARD, x, w, y));
    OK(kas_plan_conv(plan, conv, KAS_CONV_BACKWARD_DATA, dx, w, dy));
    OK(kas_plan_conv(plan, conv, KAS_CONV_BACKWARD_WEIGHTS, x, dw, dy));
    OK(kas_plan_run(plan));
    double *got[3] = {numbers_from_device(dtype, y, d->n, d->c_out, t->out_h, t->out_w, d->y_pitch),
                      numbers_from_device(dtype, dx, d->n, d->c_in, d->h, d->w, d->x_pitch),
                      from_device(dw, d->c_out, ci, d->kernel_h, d->kernel_w, ci)};
    char label[128];
    const bool dw_is_widened = kas_device_get_info(the_device)->kind == KAS_DEVICE_CUDA;
    for (int pass = 0; pass < 3; pass++) {
        snprintf(label, sizeof label, "%s, %d->%d/%d %dx%d, pass %d", what, d->c_in, d->c_out,
                 d->groups, d->kernel_h, d->kernel_w, pass);
        compare(label, got[pass], ((double *[]){t->y, t->dx, t->dw})[pass],
                (size_t[]){t->ys, t->xs, t->ws}[pass],
                2e-6 + the_error +
                    (pass < 2 || dw_is_widened ? rounding() : 0)); /* dw is float32 */
        if (orders() == 3)
            printf("%s: %s\n", label, kas_conv_cpu_implementation(conv, (kas_conv_pass)pass));
        free(got[pass]);
    }
    FREE(x, w, dy, y, dx, dw);
    kas_plan_free(plan);
    kas_conv_free(conv);
}

static kas_conv_desc desc_of(const conv_case *c)
{
    return (kas_conv_desc){.n = c->n,
                           .h = c->h,
                           .w = c->w,
                           .c_in = c->c_in,
                           .c_out = c->c_out,
                           .groups = c->groups,
                           .kernel_h = c->kernel_h,
                           .kernel_w = c->kernel_w,
                           .stride = c->stride,
                           .pad_h = c->pad == SAME ? c->kernel_h / 2 : c->pad,
                           .pad_w = c->pad == SAME ? c->kernel_w / 2 : c->pad,
                           .x_pitch = kas_pitch_of(the_dtype, c->c_in) + c->extra_pitch,
                           .y_pitch = kas_pitch_of(the_dtype, c->c_out) + c->extra_pitch,
                           .dilation = c->dilation,
                           .dtype = the_dtype};
}

/* Runs a list; `tf32` and `finite_padding` are members of kas_conv_desc. */
static void run_all(const conv_case *list, size_t count, bool tf32, bool finite_padding,
                    const char *what)
{
    for (size_t i = 0; i < count; i++) {
        kas_conv_desc desc = desc_of(&list[i]);
        desc.tf32 = tf32;
        desc.finite_padding = finite_padding;
        tensors t = make_reference(&desc);
        run_case(&desc, &t, what);
        free_reference(&t);
    }
    print_worst(what);
}

TEST(test_library)
{
    run_all(cases, sizeof cases / sizeof *cases, false, false, "library");
}

/* Float32 with products that may be rounded to TF32, of which the CPU makes no use. */
TEST(test_tf32)
{
    if (the_dtype != KAS_F32 || orders() == 3)
        skip();
    the_error = 2.0 / 1024; /* two factors, each with the error of a last digit that is cut off */
    run_all(cases, sizeof cases / sizeof *cases, true, false, "TF32");
    the_error = 0;
}

/* The first layer: what pads the images may be channels to a library. */
TEST(test_finite_padding)
{
    static const conv_case stems[] = {
        {2, 9, 7, 3, 16, 1, 3, 3, 1, 1, 0, 0},  /* */
        {2, 9, 7, 1, 12, 1, 5, 5, 2, 2, 8, 0},  /* one channel, wide pitch */
        {2, 6, 9, 5, 20, 1, 7, 3, 1, 1, 0, 0},  /* 63 rows of weights */
        {2, 5, 6, 8, 20, 1, 3, 3, 1, 1, 0, 0},  /* no padding */
        {2, 5, 6, 12, 20, 4, 3, 3, 1, 1, 8, 0}, /* grouped */
        {1, 4, 4, 3, 70, 1, 1, 1, 1, 0, 0, 0},  /* a product */
    };
    run_all(stems, sizeof stems / sizeof *stems, false, true, "finite padding");
}

TEST(test_loops)
{
    if (orders() != 3)
        skip();
    OK(kas_device_cpu_use_library(the_device, false));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const kas_conv_desc desc = desc_of(&cases[i]);
        tensors t = make_reference(&desc);
        EACH_ORDER(order)
        {
            run_case(&desc, &t, "loops");
        }
        free_reference(&t);
    }
    set_order(0);
    OK(kas_device_cpu_use_library(the_device, true));
    print_worst("loops");
}

/* So many channels and pixels that AVX2's windows run in oneDNN's own layout. */
TEST(test_large)
{
    if (orders() != 3 || the_dtype != KAS_F32)
        skip();
    static const conv_case large[] = {{1, 46, 46, 256, 256, 16, 3, 3, 1, SAME, 0, 0}};
    run_all(large, 1, false, false, "large");
}

/* Our loops with one operand off a multiple of 16 bytes, dense and depthwise. */
TEST(test_crooked)
{
    if (orders() != 3)
        skip();
    OK(kas_device_cpu_use_library(the_device, false));
    for (int depthwise = 0; depthwise < 2; depthwise++) {
        const conv_case c = {2, 8, 8, 16, 16, depthwise ? 16 : 1, 3, 3, 1, 1, 0, 0};
        const kas_conv_desc desc = desc_of(&c);
        tensors t = make_reference(&desc);
        EACH_CROOKED(6)
        EACH_ORDER(order)
        {
            tensors_made = 0;
            run_case(&desc, &t, "crooked");
        }
        free_reference(&t);
    }
    OK(kas_device_cpu_use_library(the_device, true));
}

/* The same bits from run to run, whatever else the threads do. */
TEST(test_deterministic)
{
    const kas_conv_desc desc = desc_of(&(conv_case){8, 16, 16, 16, 32, 1, 3, 3, 1, 1, 0, 0});
    const size_t xs = 8 * 16 * 16 * 16, ys = 2 * xs, ws = 32 * 16 * 9;
    double *vx = random_values(xs, 1), *vy = random_values(ys, 2);
    void *x = numbers_to_device(the_dtype, vx, 1, 1, 1, (int)xs, 1);
    void *dy = numbers_to_device(the_dtype, vy, 1, 1, 1, (int)ys, 1);
    float *dw = array_to_device(NULL, ws), *first = malloc(ws * 4), *again = malloc(ws * 4);
    kas_conv *conv;
    kas_plan *plan;
    OK(kas_conv_create(the_device, &desc, &conv));
    OK(kas_plan_create(the_device, &plan));
    OK(kas_plan_conv(plan, conv, KAS_CONV_BACKWARD_WEIGHTS, x, dw, dy));
    for (int run = 0; run < 10; run++) {
        OK(kas_plan_run(plan));
        OK(kas_mem_download(the_device, run ? again : first, dw, ws * 4));
        if (run)
            assert_memory_equal(first, again, ws * 4);
    }
    free(vx), free(vy), free(first), free(again);
    FREE(x, dy, dw);
    kas_plan_free(plan);
    kas_conv_free(conv);
}

/* ---- a bias beside a pass -------------------------------------------------------------------- */

static double *sums_over_pixels(const kas_conv_desc *d, const tensors *t)
{
    const size_t pixels = (size_t)t->out_h * t->out_w;
    double *sum = calloc((size_t)d->c_out, sizeof *sum);
    for (size_t i = 0; i < t->ys; i++)
        sum[i / pixels % (size_t)d->c_out] += t->dy[i];
    return sum;
}

/* y of the reference gets the bias; the pass must add it before it rounds. */
static void run_bias_forward(kas_conv *conv, const kas_conv_desc *d, tensors *t, const void *x,
                             void *w)
{
    const size_t pixels = (size_t)t->out_h * t->out_w;
    double *vb = random_values((size_t)d->c_out, 4);
    void *bias = numbers_to_device(d->dtype, vb, 1, 1, 1, d->c_out, 1);
    void *y = numbers_to_device(d->dtype, NULL, d->n, d->c_out, t->out_h, t->out_w, d->y_pitch);
    for (size_t i = 0; i < t->ys; i++)
        t->y[i] += vb[i / pixels % (size_t)d->c_out];
    if (kas_conv_takes_bias(conv, KAS_CONV_FORWARD, x, w, y, bias)) {
        OK(kas_plan_conv_bias(new_plan(), conv, KAS_CONV_FORWARD, (void *)x, w, y, bias));
        run_plan();
        double *got =
            numbers_from_device(d->dtype, y, d->n, d->c_out, t->out_h, t->out_w, d->y_pitch);
        compare("a bias with the forward pass", got, t->y, t->ys, 2e-6 + rounding());
        free(got);
    }
    free(vb);
    FREE(bias, y);
}

static void run_bias_backward(kas_conv *conv, const kas_conv_desc *d, const tensors *t,
                              const void *x, void *dw)
{
    double *want = sums_over_pixels(d, t);
    float *dbias = array_to_device(NULL, (size_t)d->c_out);
    void *dy = numbers_to_device(d->dtype, t->dy, d->n, d->c_out, t->out_h, t->out_w, d->y_pitch);
    if (kas_conv_takes_bias(conv, KAS_CONV_BACKWARD_WEIGHTS, x, dw, dy, dbias)) {
        OK(kas_plan_conv_bias(new_plan(), conv, KAS_CONV_BACKWARD_WEIGHTS, (void *)x, dw, dy,
                              dbias));
        run_plan();
        check_array("the bias' gradient", dbias, want, (size_t)d->c_out, 3e-6);
    }
    free(want);
    FREE(dbias, dy);
}

TEST(test_bias)
{
    static const conv_case biased[] = {
        {5, 1, 1, 64, 10, 1, 1, 1, 1, 0, 0, 0},  /* linear */
        {3, 4, 5, 70, 130, 1, 1, 1, 1, 0, 8, 0}, /* 1x1, wide pitch */
        {2, 5, 6, 12, 20, 1, 3, 3, 1, 1, 0, 0},
    };
    for (size_t i = 0; i < sizeof biased / sizeof *biased; i++) {
        const kas_conv_desc d = desc_of(&biased[i]);
        const int ci = d.c_in / d.groups;
        tensors t = make_reference(&d);
        kas_conv *conv;
        void *x = numbers_to_device(d.dtype, t.x, d.n, d.c_in, d.h, d.w, d.x_pitch);
        void *w = numbers_to_device(d.dtype, t.w, d.c_out, ci, d.kernel_h, d.kernel_w, ci);
        float *dw = to_device(NULL, d.c_out, ci, d.kernel_h, d.kernel_w, ci);
        OK(kas_conv_create(the_device, &d, &conv));
        OK(kas_conv_add_bias(conv));
        run_bias_forward(conv, &d, &t, x, w);
        run_bias_backward(conv, &d, &t, x, dw);
        kas_conv_free(conv);
        FREE(x, w, dw);
        free_reference(&t);
    }
    print_worst("biases");
}

TEST(test_bad_descriptor)
{
    kas_conv *conv;
    kas_conv_desc desc = desc_of(&cases[0]);
    desc.x_pitch = 2;
    assert_int_equal(kas_conv_create(the_device, &desc, &conv), KAS_BAD_INPUT);
    desc = desc_of(&cases[0]);
    desc.groups = 2;
    assert_int_equal(kas_conv_create(the_device, &desc, &conv), KAS_BAD_INPUT);
    desc = desc_of(&cases[0]);
    desc.kernel_h = 12;
    assert_int_equal(kas_conv_create(the_device, &desc, &conv), KAS_BAD_INPUT);
    desc = desc_of(&cases[0]);
    desc.dilation = 5; /* the kernel spans 11, as do 9 rows with padding 1 and 7 columns with 2 */
    desc.pad_w = 2;
    assert_int_equal(kas_conv_create(the_device, &desc, &conv), KAS_OK);
    kas_conv_free(conv);
    desc.dilation = 6;
    assert_int_equal(kas_conv_create(the_device, &desc, &conv), KAS_BAD_INPUT);
    desc.dilation = -1;
    assert_int_equal(kas_conv_create(the_device, &desc, &conv), KAS_BAD_INPUT);
}

RUN_FOR_EACH_DTYPE(open_the_device, close_the_device)

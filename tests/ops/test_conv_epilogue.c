/* Convolutions with bias, residual and activation in one call, against the float64 reference, where
 * the device takes them; weights that are held, and held again after they changed. */
#include "op_case.h"

#include <unistd.h>

#include "host/reference/net/layers.h"

typedef struct conv_case {
    int n, h, w, c_in, c_out, groups, kernel, stride, extra_pitch;
} conv_case;

static const conv_case cases[] = {
    {2, 9, 7, 3, 16, 1, 3, 1, 0},      /* stem */
    {2, 8, 8, 16, 16, 1, 3, 1, 0},     /* */
    {3, 9, 9, 16, 32, 1, 3, 2, 0},     /* odd size, stride */
    {2, 8, 8, 16, 32, 1, 1, 1, 0},     /* 1x1 */
    {2, 2, 2, 64, 128, 1, 3, 1, 0},    /* a small image */
    {2, 5, 6, 12, 20, 1, 3, 1, 0},     /* sizes that are no multiple of a vector */
    {2, 5, 6, 12, 20, 4, 3, 1, 0},     /* grouped */
    {2, 6, 5, 20, 20, 20, 3, 1, 0},    /* depthwise */
    {2, 7, 7, 64, 64, 64, 5, 2, 0},    /* depthwise, stride */
    {2, 7, 7, 130, 130, 130, 3, 1, 2}, /* gaps between pixels */
    {5, 1, 1, 64, 10, 1, 1, 1, 0},     /* linear */
    {2, 6, 9, 24, 40, 8, 3, 1, 4},     /* grouped, over lines of pixels, with gaps */
    {2, 6, 9, 40, 2, 1, 3, 1, 0},      /* to few outputs, over lines */
    {2, 9, 8, 32, 48, 2, 3, 1, 0},     /* octets: our own kernel on tensor cores takes it */
    {2, 9, 7, 3, 16, 1, 3, 1, 0},      /* a stem with finite padding */
};
enum { FINITE = sizeof cases / sizeof *cases - 1 };

static const struct {
    kas_conv_epilogue epilogue;
    kas_layer_op op;
} behind[] = {
    {{true, KAS_ACTIVATION_NONE}, KAS_LAYER_INPUT},
    {{true, KAS_ACTIVATION_RELU}, KAS_LAYER_RELU},
    {{false, KAS_ACTIVATION_RELU}, KAS_LAYER_RELU},
    {{false, KAS_ACTIVATION_NONE}, KAS_LAYER_INPUT},
    {{false, KAS_ACTIVATION_RELU6}, KAS_LAYER_RELU6},
    {{false, KAS_ACTIVATION_SIGMOID}, KAS_LAYER_SIGMOID},
    {{false, KAS_ACTIVATION_HARD_SIGMOID}, KAS_LAYER_HARD_SIGMOID},
    {{false, KAS_ACTIVATION_SILU}, KAS_LAYER_SILU},
    {{false, KAS_ACTIVATION_HARD_SWISH}, KAS_LAYER_HARD_SWISH},
    {{false, KAS_ACTIVATION_GELU}, KAS_LAYER_GELU},
};
enum { BEHIND = sizeof behind / sizeof *behind, FEW = 3 };

static kas_conv_desc desc_of(const conv_case *c)
{
    return (kas_conv_desc){.n = c->n,
                           .h = c->h,
                           .w = c->w,
                           .c_in = c->c_in,
                           .c_out = c->c_out,
                           .groups = c->groups,
                           .kernel_h = c->kernel,
                           .kernel_w = c->kernel,
                           .stride = c->stride,
                           .pad_h = c->kernel / 2,
                           .pad_w = c->kernel / 2,
                           .x_pitch = kas_pitch_of(the_dtype, c->c_in) + c->extra_pitch,
                           .y_pitch = kas_pitch_of(the_dtype, c->c_out) + c->extra_pitch,
                           .dtype = the_dtype,
                           .finite_padding = c == &cases[FINITE]};
}

/* Two sets of weights: the second is written over the first. */
typedef struct tensors {
    double *x, *w[2], *bias, *residual, *y[2]; /* y: of the convolution alone */
    size_t ys, ws;
    int out_h, out_w;
} tensors;

static tensors make_reference(const kas_conv_desc *d)
{
    tensors t = {.out_h = kas_conv_out_h(d), .out_w = kas_conv_out_w(d)};
    t.ys = (size_t)d->n * d->c_out * t.out_h * t.out_w;
    t.ws = (size_t)d->c_out * (d->c_in / d->groups) * d->kernel_h * d->kernel_w;
    t.x = random_values((size_t)d->n * d->c_in * d->h * d->w, 1);
    t.bias = random_values(d->c_out, 4), t.residual = random_values(t.ys, 5);
    for (int i = 0; i < 2; i++) {
        t.w[i] = random_values(t.ws, 2 + i);
        t.y[i] = nan_values(t.ys);
        kas_ref_conv_forward(d->n, d->c_in, d->h, d->w, d->c_out, d->kernel_h, d->kernel_w,
                             d->stride, d->pad_h, d->pad_w, d->groups, t.x, t.w[i], t.y[i]);
    }
    return t;
}

static void free_reference(tensors *t)
{
    double *all[] = {t->x, t->w[0], t->w[1], t->bias, t->residual, t->y[0], t->y[1]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static bool special; /* NaN is among the operands */

static void check(const kas_conv_desc *d, const tensors *t, int b, int weights, const void *y,
                  const char *what)
{
    char label[160];
    double *want = nan_values(t->ys);
    const size_t pixels = (size_t)t->out_h * t->out_w;
    for (size_t i = 0; i < t->ys; i++) {
        const double sum = t->y[weights][i] + t->bias[i / pixels % d->c_out] +
                           (behind[b].epilogue.residual ? t->residual[i] : 0);
        want[i] = behind[b].op == KAS_LAYER_INPUT ? sum : kas_ref_activation(behind[b].op, sum);
    }
    double *got = numbers_from_device(d->dtype, y, d->n, d->c_out, t->out_h, t->out_w, d->y_pitch);
    snprintf(label, sizeof label, "%d->%d/%d %dx%d at %dx%d, activation %d%s, %s", d->c_in,
             d->c_out, d->groups, d->kernel_h, d->kernel_w, d->h, d->w,
             (int)behind[b].epilogue.activation, behind[b].epilogue.residual ? ", residual" : "",
             what);
    (special ? compare_special : compare)(label, got, want, t->ys, 4e-6 + rounding());
    free(got);
    free(want);
}

static bool has_library(const kas_conv *conv)
{
    return orders() != 3 ||
           strcmp(kas_conv_cpu_implementation(conv, KAS_CONV_FORWARD), "our loops") != 0;
}

/* One epilogue: without holding the weights, held, and held once more with others. Is it taken? */
static bool run_behind(const kas_conv_desc *d, const tensors *t, kas_conv *conv, int b)
{
    const kas_conv_epilogue e = behind[b].epilogue;
    const int ci = d->c_in / d->groups;
    const size_t bytes = t->ws * kas_dtype_size(d->dtype);
    void *w = numbers_to_device(d->dtype, t->w[0], d->c_out, ci, d->kernel_h, d->kernel_w, ci);
    void *other = numbers_to_device(d->dtype, t->w[1], d->c_out, ci, d->kernel_h, d->kernel_w, ci);
    void *host = malloc(bytes);
    kas_conv_call call = {
        .x = conv_x_to_device(d, t->x), .w = w, .bias = array_to_device(t->bias, d->c_out)};
    void *rounded = numbers_to_device(d->dtype, t->bias, 1, 1, 1, d->c_out, 1);
    call.bias_rounded = rounded;
    void *residual =
        numbers_to_device(d->dtype, t->residual, d->n, d->c_out, t->out_h, t->out_w, d->y_pitch);
    call.residual = e.residual ? residual : NULL;
    call.y = numbers_to_device(d->dtype, NULL, d->n, d->c_out, t->out_h, t->out_w, d->y_pitch);
    assert_false(kas_conv_takes_epilogue(conv, e, &call)); /* not yet prepared */
    OK(kas_conv_add_epilogue(conv, e));
    OK(kas_conv_add_epilogue(conv, e)); /* layers share a convolution */
    const bool taken = kas_conv_takes_epilogue(conv, e, &call);
    kas_plan *plan;
    OK(kas_plan_create(the_device, &plan));
    if (taken) {
        OK(kas_plan_conv_epilogue(plan, conv, e, &call));
        OK(kas_plan_run(plan));
        check(d, t, b, 0, call.y, "not held");
        OK(kas_conv_hold(conv, &e, w));
        OK(kas_plan_run(plan));
        check(d, t, b, 0, call.y, "held");
        OK(kas_mem_download(the_device, host, other, bytes));
        OK(kas_mem_upload(the_device, w, host, bytes));
        OK(kas_conv_hold(conv, &e, w));
        OK(kas_plan_run(plan));
        check(d, t, b, 1, call.y, "held again");
    }
    kas_plan_free(plan);
    FREE((void *)(uintptr_t)call.x, w, other, (void *)(uintptr_t)call.bias, residual, call.y,
         rounded);
    free(host);
    return taken;
}

/* NaN in the bias of one channel and in one pixel comes through every activation, and nothing else
 * becomes NaN. */
TEST(test_special)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const kas_conv_desc d = desc_of(&cases[i]);
        tensors t = make_reference(&d);
        kas_conv *conv;
        OK(kas_conv_create(the_device, &d, &conv));
        t.bias[d.c_out / 2] = NAN;
        t.residual[1] = NAN;
        special = true;
        for (int b = 0; b < BEHIND && has_library(conv); b++)
            run_behind(&d, &t, conv, b);
        special = false;
        kas_conv_free(conv);
        free_reference(&t);
    }
}

TEST(test_epilogues)
{
    const int shapes = sizeof cases / sizeof *cases;
    int taken = 0, all = 0, without = 0;
    for (int i = 0; i < shapes; i++) {
        const kas_conv_desc desc = desc_of(&cases[i]);
        tensors t = make_reference(&desc);
        kas_conv *conv;
        OK(kas_conv_create(the_device, &desc, &conv));
        const bool all_behind = i == 1 || i == 3 || i == 7 || i == 11; /* one of each kind */
        const int most = all_behind ? BEHIND : FEW;
        without += !has_library(conv);
        for (int b = 0; b < most && has_library(conv); b++, all++)
            taken += run_behind(&desc, &t, conv, b);
        kas_conv_free(conv);
        free_reference(&t);
    }
    printf("%d of %d are taken\n", taken, all);
    if (without)
        printf("SKIPPED: %s: no library computes %d of %d convolutions on this machine, and our "
               "loops have no epilogues\n",
               kas_dtype_names[the_dtype], without, shapes);
    if (without == shapes)
        skip();
    /* Where the stand-in's libraries refuse, our own kernel on tensor cores takes some in 16 bits. */
    assert_true(taken > 0 || (getenv("KAS_SIM_REFUSE") && the_dtype == KAS_F32));
    if (taken)
        print_worst("epilogues");
}

/* The convolution alone, of weights that are held. */
TEST(test_held)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const kas_conv_desc d = desc_of(&cases[i]);
        const int ci = d.c_in / d.groups;
        tensors t = make_reference(&d);
        kas_conv *conv;
        OK(kas_conv_create(the_device, &d, &conv));
        void *w[2], *x = conv_x_to_device(&d, t.x);
        void *y = numbers_to_device(d.dtype, NULL, d.n, d.c_out, t.out_h, t.out_w, d.y_pitch);
        for (int k = 0; k < 2; k++) { /* two layers of one shape */
            w[k] = numbers_to_device(d.dtype, t.w[k], d.c_out, ci, d.kernel_h, d.kernel_w, ci);
            OK(kas_conv_hold(conv, NULL, w[k]));
        }
        for (int k = 0; k < 2; k++) {
            kas_plan *plan = new_plan();
            OK(kas_plan_conv(plan, conv, KAS_CONV_FORWARD, x, w[k], y));
            run_plan();
            double *got =
                numbers_from_device(d.dtype, y, d.n, d.c_out, t.out_h, t.out_w, d.y_pitch);
            compare("held", got, t.y[k], t.ys, 2e-6 + rounding());
            free(got);
        }
        FREE(x, y, w[0], w[1]);
        kas_conv_free(conv);
        free_reference(&t);
    }
    print_worst("held");
}

TEST(test_refused)
{
    const kas_conv_desc desc = desc_of(&cases[1]);
    kas_conv *conv;
    OK(kas_conv_create(the_device, &desc, &conv));
    assert_int_equal(kas_conv_add_epilogue(conv, (kas_conv_epilogue){true, KAS_ACTIVATION_GELU}),
                     KAS_BAD_INPUT);
    kas_conv_free(conv);
}

TEST(test_our_loops_take_none)
{
    const kas_conv_desc desc = desc_of(&cases[1]);
    kas_conv *conv;
    if (orders() != 3) {
        printf("SKIPPED: only the CPU device can do without its library\n");
        skip();
    }
    OK(kas_device_cpu_use_library(the_device, false));
    const kas_conv_epilogue relu = {false, KAS_ACTIVATION_RELU};
    char memory[1];
    const kas_conv_call call = {.x = memory, .w = memory, .y = memory};
    OK(kas_conv_create(the_device, &desc, &conv));
    OK(kas_conv_add_epilogue(conv, relu));
    assert_false(kas_conv_takes_epilogue(conv, relu, &call));
    kas_conv_free(conv);
    OK(kas_device_cpu_use_library(the_device, true));
}

/* Runs all tests, and then again with the convolutions of CPUs without AVX-512, and of those without AVX2,
 * where oneDNN has matrix products that it computes wrongly with an epilogue. */
int main(int argc, char **argv)
{
    static const char *const limits[] = {"AVX2", "SSE41"};
    enum { LIMITS = sizeof limits / sizeof *limits };
    const int failed = run_for_each_dtype(open_the_device, close_the_device), next = argc - 1;
    if (failed || next == LIMITS || (next == 0 && getenv("DNNL_MAX_CPU_ISA")))
        return failed;
    printf("again as on a CPU with no more than %s\n", limits[next]);
    fflush(stdout);
    setenv("DNNL_MAX_CPU_ISA", limits[next], 1);
    execl("/proc/self/exe", argv[0], "again", next ? "again" : NULL, (char *)NULL);
    perror("execl");
    return 1;
}

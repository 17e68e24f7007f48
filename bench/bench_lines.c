/* Which convolutions does the CPU device compute over lines of pixels better than oneDNN does? The
 * rule is kas_lines_pay in src/host/device/cpu/cpu_conv_lines.c; this measures both ways of shapes
 * for which it could be either.
 *
 *     build/bench/bench_lines [--rounds N] [--batch N] [--number P]
 *                             [--shape TEXT]      (those whose name has it)
 *
 * One JSON object a line for each shape and pass that the kernels over lines can run: seconds of both
 * ways, which take turns on one thread, and how many times oneDNN's time the lines take, medians and
 * quartiles; the same of the processor time, which others on the machine disturb less; oneDNN's
 * implementation; and the way that the rule takes. */
#include <stdio.h>
#include <string.h>

#include "options.h"
#include "turns.h"
#include "host/device/cpu/cpu_conv.h"
#include "host/device/cpu/device_cpu.h"
#include "host/report/line.h"

enum { LINES, LIBRARY, WAYS };
static const char *const way_names[WAYS] = {"lines", "library"};
static const double least_seconds = 2e-3; /* of a turn */

/* The program is linked with --wrap=kas_lines_pay. */
bool __real_kas_lines_pay(const kas_conv_desc *desc, kas_conv_pass pass, int lanes);
bool __wrap_kas_lines_pay(const kas_conv_desc *desc, kas_conv_pass pass, int lanes);

static int wanted;
bool __wrap_kas_lines_pay(const kas_conv_desc *desc, kas_conv_pass pass, int lanes)
{
    (void)lanes;
    return wanted == LINES && kas_lines_fit(desc, pass);
}

typedef struct shape {
    int c_in, c_out, groups, kernel_h, kernel_w, dilation, side;
} shape;
static const shape shapes[] = {
    /* windows to or from few channels */
    {16, 4, 1, 3, 1, 1, 32},
    {16, 4, 1, 3, 3, 1, 32},
    {16, 1, 1, 3, 3, 1, 32},
    {8, 4, 1, 3, 3, 1, 32},
    {8, 2, 1, 3, 3, 1, 32},
    {64, 4, 1, 3, 3, 1, 16},
    {64, 1, 1, 3, 3, 1, 16},
    {64, 2, 1, 3, 1, 1, 16},
    {256, 4, 1, 3, 1, 1, 16},
    {16, 4, 1, 5, 5, 1, 16},
    {64, 1, 1, 7, 7, 1, 16},
    {32, 4, 1, 3, 3, 2, 16},
    {4, 16, 1, 3, 1, 1, 32},
    {4, 16, 1, 3, 3, 1, 32},
    {1, 16, 1, 3, 3, 1, 32},
    {4, 64, 1, 3, 3, 1, 16},
    {4, 64, 1, 3, 1, 1, 8},
    /* maps */
    {16, 1, 1, 1, 1, 1, 32},
    {32, 4, 1, 1, 1, 1, 16},
    {64, 1, 1, 1, 1, 1, 16},
    {64, 4, 1, 1, 1, 1, 16},
    {112, 1, 1, 1, 1, 1, 32},
    {256, 2, 1, 1, 1, 1, 8},
    {1, 128, 1, 1, 1, 1, 16},
    /* groups */
    {8, 8, 2, 3, 3, 1, 32},
    {16, 16, 8, 3, 3, 1, 32},
    {16, 16, 4, 3, 3, 1, 32},
    {16, 16, 2, 3, 3, 1, 32},
    {64, 64, 16, 3, 1, 1, 16},
    {32, 32, 8, 5, 5, 1, 16},
    {32, 32, 8, 3, 3, 2, 16},
    {32, 64, 8, 3, 3, 1, 16},
    {64, 32, 8, 3, 3, 1, 16},
    {64, 64, 16, 1, 1, 1, 16},
    {32, 32, 4, 3, 3, 1, 8},
    {32, 32, 8, 3, 3, 1, 8},
    {64, 64, 32, 3, 3, 1, 8},
    {16, 64, 4, 1, 1, 1, 16},
    {32, 8, 2, 1, 1, 1, 16},
    {64, 32, 8, 1, 1, 1, 8},
    {32, 8, 2, 3, 3, 1, 16},
    {64, 56, 8, 3, 3, 1, 8},
    {8, 32, 4, 3, 3, 1, 16},
    {64, 64, 4, 3, 3, 1, 8},
    /* groups of one input */
    {16, 32, 16, 3, 3, 1, 16},
    {16, 48, 16, 3, 3, 1, 16},
    {8, 24, 8, 3, 3, 1, 16},
    {32, 64, 32, 3, 3, 1, 8},
    {64, 128, 64, 3, 3, 1, 8},
    {64, 256, 64, 3, 3, 1, 8},
    {64, 192, 64, 1, 3, 1, 8},
    {64, 128, 64, 5, 5, 1, 8},
    {64, 128, 64, 1, 1, 1, 8},
    /* depthwise */
    {16, 16, 16, 3, 3, 1, 32},
    {64, 64, 64, 5, 5, 1, 16},
    {64, 64, 64, 7, 7, 1, 16},
    {64, 64, 64, 3, 3, 2, 16},
    {16, 16, 16, 5, 5, 2, 16},
    {16, 16, 16, 5, 5, 3, 16},
    {16, 16, 16, 1, 7, 2, 16},
    {16, 16, 16, 7, 1, 2, 16},
    {64, 64, 64, 7, 7, 3, 16},
};
static const char *const pass_names[] = {"forward", "data", "weights"};

typedef struct options {
    const char *number, *shape;
    int batch, rounds;
} options;

typedef struct bench {
    const options *o;
    kas_device *device;
    kas_dtype dtype;
    kas_conv *conv[WAYS];
    kas_plan *plan[WAYS];
    void *memory[3]; /* x, w, y */
    int repeats;     /* of a turn */
} bench;

static kas_conv_desc desc_of(const bench *b, const shape *s)
{
    return (kas_conv_desc){.n = b->o->batch,
                           .h = s->side,
                           .w = s->side,
                           .c_in = s->c_in,
                           .c_out = s->c_out,
                           .groups = s->groups,
                           .kernel_h = s->kernel_h,
                           .kernel_w = s->kernel_w,
                           .stride = 1,
                           .pad_h = s->kernel_h / 2 * s->dilation,
                           .pad_w = s->kernel_w / 2 * s->dilation,
                           .x_pitch = (s->c_in + 7) / 8 * 8,
                           .y_pitch = (s->c_out + 7) / 8 * 8,
                           .dilation = s->dilation,
                           .dtype = b->dtype};
}

static void name_of(const shape *s, char *to, size_t size)
{
    const char *kind = s->groups == 1 ? "" : s->groups == s->c_in ? "depthwise " : "groups ";
    snprintf(to, size, "%s%dx%d%s%.0d %d to %d", kind, s->kernel_h, s->kernel_w,
             s->dilation > 1 ? " apart " : "", s->dilation > 1 ? s->dilation : 0, s->c_in,
             s->c_out);
}

/* ---- measuring ------------------------------------------------------------------------------- */

static kas_status run(void *context, int way, double *seconds)
{
    const bench *b = context;
    const double before = kas_monotonic();
    for (int i = 0; i < b->repeats; i++)
        KAS_TRY(kas_plan_run(b->plan[way]));
    *seconds = (kas_monotonic() - before) / b->repeats;
    return KAS_OK;
}

static kas_status prepare(bench *b, const kas_conv_desc *d, kas_conv_pass pass)
{
    const size_t pixels = (size_t)d->n * (size_t)(d->h * d->w);
    const size_t bytes[3] = {pixels * (size_t)d->x_pitch * sizeof(float),
                             sizeof(float) * (size_t)(d->c_out * d->kernel_h * d->kernel_w) *
                                 (size_t)(d->c_in / d->groups),
                             pixels * (size_t)d->y_pitch * sizeof(float)};
    for (int i = 0; i < 3; i++) {
        KAS_TRY(kas_mem_alloc(b->device, bytes[i], &b->memory[i]));
        memset(b->memory[i], 0, bytes[i]);
    }
    for (wanted = 0; wanted < WAYS; wanted++) {
        KAS_TRY(kas_conv_create(b->device, d, &b->conv[wanted]));
        KAS_TRY(kas_plan_create(b->device, &b->plan[wanted]));
        KAS_TRY(kas_plan_conv(b->plan[wanted], b->conv[wanted], pass, b->memory[0], b->memory[1],
                              b->memory[2]));
    }
    double seconds = 0;
    for (b->repeats = 1; seconds * b->repeats < least_seconds; b->repeats *= 2)
        KAS_TRY(run(b, LIBRARY, &seconds));
    return KAS_OK;
}

static void clean(bench *b)
{
    for (int w = 0; w < WAYS; w++) {
        kas_plan_free(b->plan[w]);
        if (b->conv[w])
            kas_conv_free(b->conv[w]);
        b->plan[w] = NULL;
        b->conv[w] = NULL;
    }
    for (int i = 0; i < 3; i++) {
        kas_mem_free(b->device, b->memory[i]);
        b->memory[i] = NULL;
    }
}

static kas_status put(const bench *b, const shape *s, const char *name, const kas_conv_desc *d,
                      kas_conv_pass pass, turns *figures)
{
    kas_buf out = {0};
    kas_line_begin(&out);
    kas_line_text(&out, "bench", "lines");
    kas_line_text(&out, "shape", name);
    kas_line_int(&out, "groups", s->groups);
    kas_line_int(&out, "side", s->side);
    kas_line_text(&out, "pass", pass_names[pass]);
    kas_line_text(&out, "number", b->o->number);
    kas_line_int(&out, "batch", b->o->batch);
    kas_line_int(&out, "rounds", b->o->rounds);
    turns_put(&out, figures, way_names);
    kas_line_text(&out, "implementation", kas_conv_cpu_implementation(b->conv[LIBRARY], pass));
    kas_line_text(
        &out, "chosen",
        way_names[__real_kas_lines_pay(d, pass, kas_cpu_avx2 ? kas_cpu_lanes() : 4) ? LINES
                                                                                    : LIBRARY]);
    return turns_print(&out);
}

static kas_status measure(bench *b, const shape *s)
{
    char name[64];
    const kas_conv_desc d = desc_of(b, s);
    name_of(s, name, sizeof name);
    for (int pass = 0; pass < 3 && strstr(name, b->o->shape); pass++) {
        turns t = {.ratio = {0}};
        if (!kas_lines_fit(&d, (kas_conv_pass)pass))
            continue;
        kas_status status = prepare(b, &d, (kas_conv_pass)pass);
        if (status == KAS_OK)
            status = turns_take(&t, b->o->rounds, run, b);
        if (status == KAS_OK)
            status = put(b, s, name, &d, (kas_conv_pass)pass, &t);
        turns_free(&t);
        clean(b);
        KAS_TRY(status);
    }
    return KAS_OK;
}

/* ---- set-up ---------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    options o = {.number = "fp32", .shape = "", .batch = 32, .rounds = 9};
    const bench_option options[] = {{"--batch", &o.batch, NULL},
                                    {"--rounds", &o.rounds, NULL},
                                    {"--number", NULL, &o.number},
                                    {"--shape", NULL, &o.shape},
                                    {NULL, NULL, NULL}};
    bench b = {.o = &o};
    int first;
    kas_status status = bench_options_read(argc, argv, options, &first);
    if (status == KAS_OK)
        status = turns_number(o.number, &b.dtype);
    if (status == KAS_OK)
        status = kas_device_open("cpu", 1, &b.device);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes && status == KAS_OK; i++)
        status = measure(&b, &shapes[i]);
    kas_device_close(b.device);
    if (status != KAS_OK)
        fprintf(stderr, "bench_lines: %s\n", kas_error());
    return status == KAS_OK ? 0 : 1;
}

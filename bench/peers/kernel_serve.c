/* One kernel in the place of one convolution on a device, at the command of another program
 * (kernels.py) that runs the same kernel its own way and takes turns with this one.
 *
 *     kernel_serve KERNEL.json NET CxHxW LAYER DEVICE THREADS PRECISION PHASE SCHEDULES IN OUT
 *
 * PRECISION is fp32, tf32, bf16 or fp16 as in training. PHASE is training, a forward and a backward
 * pass, or inference, a forward pass without gradients. SCHEDULES is default, or tuned: by what
 * kas-gpu tune has kept in the cache. IN (safetensors): x [n,c_in,h,w], dy [n,c_out,h,w], weight0,
 * weight1, ... in logical order, float32; they are rounded to PRECISION here. OUT: y, and of
 * training dx, dweight0, ..., of the first run, in float32. The first line is "ready" with three
 * numbers: seconds that were spent waiting for the compiler (0: the cache had it), seconds from the
 * kernel to the end of its first run (lower, compile, load, choose the libraries' plans, run;
 * without opening the device and copying data), and launches that have a tuned schedule. Then, line
 * by line on standard input, "run N" runs N times and answers with the seconds of all N; the end of
 * the input ends the program. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "host/device/dtype.h"
#include "host/model/safetensors.h"
#include "host/net/targets.h"
#include "host/ops/ops.h"
#include "host/space/canonical.h"
#include "host/space/file/kernel_json.h"
#include "host/space/solve/solve.h"
#include "jit/compile/compile.h"
#include "jit/ir/program.h"
#include "jit/tuned.h"

enum { MOST_BYTES = 1 << 30, NAME = 32 };
enum {
    KERNEL = 1,
    NET,
    INPUT,
    LAYER,
    DEVICE,
    THREADS,
    PRECISION,
    PHASE,
    SCHEDULES,
    IN,
    OUT,
    ARGUMENTS
};
static const char *const phases[] = {"training", "inference", NULL};
static const char *const schedules[] = {"default", "tuned", NULL};

typedef struct session {
    kas_kernel kernel;
    kas_net *net;
    kas_target *targets;
    int count, layer, batch, threads;
    int precision, phase, schedules;
    kas_solution solution;
    const kas_target *target;
    kas_device *device;
    const kas_device_info *info;
    kas_safetensors in;
    kas_program *program;
    kas_compiler *compiler;
    kas_module *module;
    kas_loaded *loaded;
    kas_plan *plan;
    kas_timer *timer;
    void **memory; /* [buffers] */
    double compile_seconds, prepare_seconds;
} session;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- the kernel at its layer ----------------------------------------------------------------- */

static kas_status read_problem(session *s, char **argv)
{
    const kas_budget budget = {.max_flops_ratio = 1, .max_params_ratio = 1};
    int c, h, w;
    s->layer = -1;
    if (sscanf(argv[INPUT], "%dx%dx%d", &c, &h, &w) != 3)
        return kas_fail(KAS_USAGE, "input \"%s\": expected CxHxW", argv[INPUT]);
    KAS_TRY(kas_choice_parse("precision", kas_precision_names, argv[PRECISION], &s->precision));
    KAS_TRY(kas_choice_parse("phase", phases, argv[PHASE], &s->phase));
    KAS_TRY(kas_choice_parse("schedules", schedules, argv[SCHEDULES], &s->schedules));
    KAS_TRY(kas_kernel_read_file(argv[KERNEL], &s->kernel));
    KAS_TRY(kas_kernel_canonicalize(&s->kernel, &s->kernel));
    KAS_TRY(kas_net_build(argv[NET], h, w, c, 10, &s->net));
    KAS_TRY(kas_net_targets(s->net, NULL, &s->targets, &s->count));
    KAS_TRY(kas_solve(&s->kernel, s->targets, s->count, &budget, &s->solution));
    for (int t = 0; t < s->count; t++)
        if (strcmp(s->targets[t].name, argv[LAYER]) == 0)
            s->layer = t;
    if (s->layer < 0 || s->targets[s->layer].stride != 1)
        return kas_fail(KAS_BAD_INPUT, "%s has no target \"%s\" of stride 1", argv[NET],
                        argv[LAYER]);
    s->target = &s->targets[s->layer];
    KAS_TRY(kas_safetensors_read(argv[IN], MOST_BYTES, &s->in));
    const kas_named_tensor *x = kas_safetensors_find(&s->in, "x");
    if (!x || x->rank != 4)
        return kas_fail(KAS_BAD_INPUT, "%s: tensor \"x\" [n,c,h,w] is missing", argv[IN]);
    s->batch = (int)x->shape[0];
    return KAS_OK;
}

static kas_status build(session *s)
{
    char tuned[4096];
    const kas_linear_policy policy = kas_linear_policy_of(s->info->arch);
    KAS_TRY(kas_tuned_folder(s->info, tuned));
    const kas_program_options options = {.batch = s->batch,
                                         .training = s->phase == 0,
                                         .dtype = kas_precision_dtype(s->precision),
                                         .tf32 = s->precision == KAS_PRECISION_TF32,
                                         .linear_policy = policy,
                                         .lanes = kas_cpu_lanes(),
                                         .piece_bytes = kas_piece_bytes(policy, s->threads),
                                         .tuned = s->schedules ? tuned : NULL,
                                         .prefix = "k"};
    return kas_program_build(&s->kernel, s->target, &s->solution.binding[s->layer], &options,
                             &s->program);
}

static kas_status load(session *s)
{
    char path[4096];
    kas_compile_stats stats;
    const double start = now();
    KAS_TRY(build(s));
    const kas_program *p = s->program;
    KAS_TRY(kas_compiler_open(s->info->arch, NULL, &s->compiler));
    KAS_TRY(kas_compile(s->compiler, p->source, path, &stats));
    s->compile_seconds = kas_compile_waited(&stats);
    KAS_TRY(kas_module_load(s->device, path, &s->module));
    KAS_TRY(kas_program_load(s->device, p, &s->module, &s->loaded));
    s->memory = calloc((size_t)p->buffers + 1, sizeof *s->memory);
    if (!s->memory)
        return kas_fail(KAS_NO_MEMORY, "no memory for a list of %d buffers", p->buffers);
    for (int i = 0; i < p->buffers; i++) {
        KAS_TRY(kas_mem_alloc(s->device, p->buffer[i].bytes, &s->memory[i]));
        KAS_TRY(kas_mem_zero(s->device, s->memory[i], p->buffer[i].bytes));
    }
    KAS_TRY(kas_timer_create(s->device, &s->timer));
    KAS_TRY(kas_plan_create(s->device, &s->plan));
    KAS_TRY(kas_loaded_append(s->loaded, s->plan, false, s->memory));
    if (s->phase == 0)
        KAS_TRY(kas_loaded_append(s->loaded, s->plan, true, s->memory));
    s->prepare_seconds += now() - start;
    return KAS_OK;
}

static void unload(session *s)
{
    kas_plan_free(s->plan);
    kas_timer_free(s->timer);
    for (int i = 0; s->memory && i < s->program->buffers; i++)
        kas_mem_free(s->device, s->memory[i]);
    free(s->memory);
    kas_loaded_free(s->loaded);
    kas_module_free(s->module);
    kas_compiler_close(s->compiler);
    kas_device_close(s->device);
    kas_program_free(s->program);
    kas_safetensors_free(&s->in);
    kas_solution_free(&s->solution);
    free(s->targets);
    kas_net_free(s->net);
}

/* ---- tensors in and out ---------------------------------------------------------------------- */

/* How elements of a buffer are ordered in a file: [n][c][h][w] of a feature map, the logical order
 * of a weight. `at[i]` is the place of element i in the buffer. */
typedef struct order {
    size_t count, *at;
} order;

static kas_status feature_order(const session *s, int channels, order *out)
{
    const size_t n = (size_t)s->program->batch, area = (size_t)s->target->h * s->target->w,
                 c = (size_t)channels, pitch = (size_t)kas_pitch_of(s->program->dtype, channels);
    size_t i = 0;
    *out = (order){n * c * area, malloc(sizeof *out->at * n * c * area)};
    if (!out->at)
        return kas_fail(KAS_NO_MEMORY, "no memory for %zu elements", out->count);
    for (size_t image = 0; image < n; image++)
        for (size_t k = 0; k < c; k++)
            for (size_t pixel = 0; pixel < area; pixel++)
                out->at[i++] = (image * area + pixel) * pitch + k;
    return KAS_OK;
}

static kas_status weight_order(const kas_weight *w, order *out)
{
    size_t i = 0;
    *out = (order){w->elements, malloc(sizeof *out->at * w->elements)};
    if (!out->at)
        return kas_fail(KAS_NO_MEMORY, "no memory for %zu elements", out->count);
    for (uint32_t r = 0; r < w->instances; r++)
        for (uint32_t g = 0; g < w->groups; g++)
            for (uint32_t o = 0; o < w->fan_out; o++)
                for (uint32_t k = 0; k < w->fan_in; k++)
                    out->at[i++] = kas_weight_offset(w, r, g, o, k);
    return KAS_OK;
}

static kas_status order_of(const session *s, const kas_buffer *b, order *out)
{
    if (b->role == KAS_ROLE_X || b->role == KAS_ROLE_DX)
        return feature_order(s, (int)s->target->c_in, out);
    if (b->role == KAS_ROLE_Y || b->role == KAS_ROLE_DY)
        return feature_order(s, (int)s->target->c_out, out);
    return weight_order(&s->program->weight[b->index], out);
}

/* The name of a buffer in a file; false for what is nobody else's business. */
static bool name_of(const kas_buffer *b, char name[NAME])
{
    static const char *const names[] = {
        [KAS_ROLE_X] = "x",   [KAS_ROLE_Y] = "y",           [KAS_ROLE_DX] = "dx",
        [KAS_ROLE_DY] = "dy", [KAS_ROLE_WEIGHT] = "weight", [KAS_ROLE_DWEIGHT] = "dweight"};
    if ((size_t)b->role >= sizeof names / sizeof *names) /* neither side has it */
        return false;
    if (b->role == KAS_ROLE_WEIGHT || b->role == KAS_ROLE_DWEIGHT)
        snprintf(name, NAME, "%s%d", names[b->role], b->index);
    else
        snprintf(name, NAME, "%s", names[b->role]);
    return true;
}

static bool is_input(kas_role role)
{
    return role == KAS_ROLE_X || role == KAS_ROLE_DY || role == KAS_ROLE_WEIGHT;
}

static kas_status upload(session *s, int buffer, const char *name)
{
    const kas_buffer *b = &s->program->buffer[buffer];
    const kas_named_tensor *t = kas_safetensors_find(&s->in, name);
    order order = {0};
    void *values = calloc(b->bytes, 1);
    kas_status status = values ? KAS_OK : kas_fail(KAS_NO_MEMORY, "no memory for %s", name);
    if (status == KAS_OK)
        status = order_of(s, b, &order);
    if (status == KAS_OK && (!t || kas_named_tensor_elements(t) != order.count))
        status = kas_fail(KAS_BAD_INPUT, "tensor \"%s\": expected %zu elements", name, order.count);
    if (status == KAS_OK) {
        for (size_t i = 0; i < order.count; i++)
            kas_dtype_put(values, b->dtype, order.at[i], (float)kas_named_tensor_get(t, i));
        status = kas_mem_upload(s->device, s->memory[buffer], values, b->bytes);
    }
    free(order.at);
    free(values);
    return status;
}

/* `to->data` is the caller's to free. */
static kas_status download(session *s, int buffer, kas_named_tensor *to)
{
    const kas_buffer *b = &s->program->buffer[buffer];
    order order = {0};
    void *values = malloc(b->bytes);
    float *ordered = NULL;
    kas_status status = values ? KAS_OK : kas_fail(KAS_NO_MEMORY, "no memory for %s", to->name);
    if (status == KAS_OK)
        status = order_of(s, b, &order);
    if (status == KAS_OK)
        status = kas_mem_download(s->device, values, s->memory[buffer], b->bytes);
    if (status == KAS_OK && !(ordered = malloc(sizeof *ordered * order.count)))
        status = kas_fail(KAS_NO_MEMORY, "no memory for %s", to->name);
    for (size_t i = 0; status == KAS_OK && i < order.count; i++)
        ordered[i] = kas_dtype_get(values, b->dtype, order.at[i]);
    to->dtype = KAS_SAFETENSORS_F32;
    to->rank = 1;
    to->shape[0] = order.count;
    to->data = ordered;
    free(order.at);
    free(values);
    return status;
}

static kas_status upload_all(session *s)
{
    static const float gain = 1;
    for (int i = 0; i < s->program->buffers; i++) {
        char name[NAME];
        if (s->program->buffer[i].role == KAS_ROLE_GAIN)
            KAS_TRY(kas_mem_upload(s->device, s->memory[i], &gain, sizeof gain));
        if (name_of(&s->program->buffer[i], name) && is_input(s->program->buffer[i].role))
            KAS_TRY(upload(s, i, name));
    }
    return KAS_OK;
}

static kas_status write_results(session *s, const char *path)
{
    int count = 0;
    kas_status status = KAS_OK;
    kas_named_tensor *tensor = calloc((size_t)s->program->buffers + 1, sizeof *tensor);
    if (!tensor)
        return kas_fail(KAS_NO_MEMORY, "no memory for a list of tensors");
    for (int i = 0; i < s->program->buffers && status == KAS_OK; i++)
        if (name_of(&s->program->buffer[i], tensor[count].name) &&
            !is_input(s->program->buffer[i].role))
            status = download(s, i, &tensor[count++]);
    if (status == KAS_OK)
        status = kas_safetensors_write(path, tensor, count, NULL);
    for (int i = 0; i < count; i++)
        free((void *)tensor[i].data);
    free(tensor);
    return status;
}

/* ---- service --------------------------------------------------------------------------------- */

static kas_status serve(session *s)
{
    char line[64];
    int runs;
    while (fgets(line, sizeof line, stdin)) {
        double seconds;
        if (sscanf(line, "run %d", &runs) != 1 || runs < 1)
            return kas_fail(KAS_USAGE, "\"%s\": expected \"run N\"", line);
        KAS_TRY(kas_timer_start(s->timer));
        for (int i = 0; i < runs; i++)
            KAS_TRY(kas_plan_run(s->plan));
        KAS_TRY(kas_timer_stop(s->timer, &seconds));
        printf("%.9g\n", seconds);
        fflush(stdout);
    }
    return KAS_OK;
}

static kas_status run(session *s, char **argv)
{
    KAS_TRY(read_problem(s, argv));
    s->threads = atoi(argv[THREADS]);
    KAS_TRY(kas_device_open(argv[DEVICE], s->threads, &s->device));
    s->info = kas_device_get_info(s->device);
    KAS_TRY(load(s));
    KAS_TRY(upload_all(s));
    const double start = now();
    KAS_TRY(kas_plan_run(s->plan));
    KAS_TRY(kas_device_sync(s->device));
    s->prepare_seconds += now() - start;
    KAS_TRY(write_results(s, argv[OUT]));
    printf("ready %.9g %.9g %d\n", s->compile_seconds, s->prepare_seconds, s->program->tuned);
    fflush(stdout);
    return serve(s);
}

int main(int argc, char **argv)
{
    if (argc != ARGUMENTS) {
        fputs("usage: kernel_serve KERNEL.json NET CxHxW LAYER DEVICE THREADS PRECISION PHASE "
              "SCHEDULES IN OUT\n",
              stderr);
        return 2;
    }
    session s = {0};
    const kas_status status = run(&s, argv);
    if (status != KAS_OK)
        fprintf(stderr, "kernel_serve: %s\n", kas_error());
    unload(&s);
    return status == KAS_OK ? 0 : 1;
}

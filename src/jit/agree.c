#include "jit/agree.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/random.h"
#include "host/reference/reference.h"

/* One kernel at one target, on both sides. */
typedef struct bench {
    kas_device *device;
    const kas_program *program;
    const kas_target *target;
    int x_pitch, y_pitch;
    kas_loaded *loaded;
    kas_plan *plan;
    void **memory;
    float *host; /* as large as the largest buffer */
    kas_reference *reference;
    size_t x_size, y_size;
    double *x, *y, *dy, *dx;
    double **weight, **dweight;
} bench;

static kas_status no_memory(void)
{
    return kas_fail(KAS_NO_MEMORY, "out of memory while a kernel was checked");
}

/* ---- set-up
 * -------------------------------------------------------------------------------------- */

static double *zeros(size_t count)
{
    return calloc(count + 1, sizeof(double));
}

static kas_status make_reference(bench *b, const kas_kernel *kernel)
{
    const kas_program *p = b->program;
    const kas_target *t = b->target;
    KAS_TRY(kas_reference_create(kernel, t, &p->binding, p->batch, &b->reference));
    b->x_size = (size_t)p->batch * t->c_in * t->h * t->w;
    b->y_size = (size_t)p->batch * t->c_out * t->h * t->w;
    b->x = zeros(b->x_size);
    b->dx = zeros(b->x_size);
    b->y = zeros(b->y_size);
    b->dy = zeros(b->y_size);
    b->weight = calloc((size_t)p->weights + 1, sizeof *b->weight);
    b->dweight = calloc((size_t)p->weights + 1, sizeof *b->dweight);
    if (!b->x || !b->dx || !b->y || !b->dy || !b->weight || !b->dweight)
        return no_memory();
    if (kas_reference_weights(b->reference) != p->weights)
        return kas_fail(KAS_FAILURE, "the reference has %d weights, the program %d",
                        kas_reference_weights(b->reference), p->weights);
    for (int i = 0; i < p->weights; i++) {
        const size_t size = kas_reference_weight_size(b->reference, i);
        if (size != p->weight[i].elements)
            return kas_fail(KAS_FAILURE, "weight %d: %zu elements in the reference, %zu here", i,
                            size, p->weight[i].elements);
        b->weight[i] = zeros(size);
        b->dweight[i] = zeros(size);
        if (!b->weight[i] || !b->dweight[i])
            return no_memory();
    }
    return KAS_OK;
}

static kas_status make_device_side(bench *b, kas_module *module)
{
    const kas_program *p = b->program;
    size_t largest = 1;
    b->memory = calloc((size_t)p->buffers + 1, sizeof *b->memory);
    if (!b->memory)
        return no_memory();
    for (int i = 0; i < p->buffers; i++) {
        KAS_TRY(kas_mem_alloc(b->device, p->buffer[i].bytes, &b->memory[i]));
        if (p->buffer[i].bytes > largest)
            largest = p->buffer[i].bytes;
    }
    b->host = malloc(largest);
    if (!b->host)
        return no_memory();
    KAS_TRY(kas_program_load(b->device, p, module, &b->loaded));
    KAS_TRY(kas_plan_create(b->device, &b->plan));
    KAS_TRY(kas_loaded_append(b->loaded, b->plan, false, b->memory));
    return kas_loaded_append(b->loaded, b->plan, true, b->memory);
}

static void bench_free(bench *b)
{
    kas_plan_free(b->plan);
    kas_loaded_free(b->loaded);
    for (int i = 0; b->memory && i < b->program->buffers; i++)
        kas_mem_free(b->device, b->memory[i]);
    for (int i = 0; i < b->program->weights; i++) {
        free(b->weight ? b->weight[i] : NULL);
        free(b->dweight ? b->dweight[i] : NULL);
    }
    free(b->weight);
    free(b->dweight);
    free(b->memory);
    free(b->host);
    free(b->x);
    free(b->y);
    free(b->dx);
    free(b->dy);
    kas_reference_free(b->reference);
}

/* ---- data
 * ------------------------------------------------------------------------------------------ */

/* Values that float32 holds exactly, so that both sides start from the same numbers. */
static void fill(double *to, size_t count, double scale, uint64_t seed, uint64_t stream)
{
    kas_rng rng = kas_rng_make(seed, KAS_PURPOSE_TEST, stream);
    for (size_t i = 0; i < count; i++)
        to[i] = (double)(float)(scale * kas_rng_normal(&rng));
}

static void draw(bench *b, uint64_t seed, bool whole, int turn)
{
    const uint64_t stream = (uint64_t)turn * 1000;
    fill(b->x, b->x_size, 1, seed, stream);
    for (size_t i = 0; whole && i < b->x_size; i++)
        b->x[i] = rint(b->x[i]);
    fill(b->dy, b->y_size, 1, seed, stream + 1);
    for (int i = 0; i < b->program->weights; i++)
        fill(b->weight[i], b->program->weight[i].elements,
             1 / sqrt((double)b->program->weight[i].fan_in), seed, stream + 2 + (uint64_t)i);
}

static int buffer(const kas_program *p, kas_role role, int index)
{
    for (int i = 0; i < p->buffers; i++)
        if (p->buffer[i].role == role && p->buffer[i].index == index)
            return i;
    return -1;
}

/* Between the reference's [n][c][h][w] and the device's [n][h][w][pitch]; NaN in the padding. */
static void pack(const bench *b, const double *from, uint32_t channels, int pitch)
{
    const size_t area = (size_t)b->target->h * b->target->w;
    for (size_t n = 0; n < (size_t)b->program->batch; n++)
        for (size_t pixel = 0; pixel < area; pixel++)
            for (size_t c = 0; c < (size_t)pitch; c++)
                b->host[(n * area + pixel) * (size_t)pitch + c] =
                    c < channels ? (float)from[(n * channels + c) * area + pixel] : NAN;
}

static kas_status upload_tensor(bench *b, kas_role role, const double *from, uint32_t channels,
                                int pitch)
{
    const int i = buffer(b->program, role, 0);
    pack(b, from, channels, pitch);
    return kas_mem_upload(b->device, b->memory[i], b->host, b->program->buffer[i].bytes);
}

/* Calls the offset of every element of a weight in logical order. */
#define FOR_WEIGHT(w, logical, offset)                                                             \
    for (uint32_t r_ = 0; r_ < (w)->instances; r_++)                                               \
        for (uint32_t g_ = 0; g_ < (w)->groups; g_++)                                              \
            for (uint32_t o_ = 0; o_ < (w)->fan_out; o_++)                                         \
                for (uint32_t i_ = 0; i_ < (w)->fan_in; i_++)                                      \
                    for (size_t logical = ((((size_t)r_ * (w)->groups + g_) * (w)->fan_out + o_) * \
                                           (w)->fan_in) +                                          \
                                          i_,                                                      \
                                offset = kas_weight_offset(w, r_, g_, o_, i_), once_ = 1;          \
                         once_; once_ = 0)

static kas_status upload(bench *b)
{
    const kas_program *p = b->program;
    for (int i = 0; i < p->buffers; i++) {
        memset(b->host, 0xff, p->buffer[i].bytes); /* NaN */
        KAS_TRY(kas_mem_upload(b->device, b->memory[i], b->host, p->buffer[i].bytes));
    }
    KAS_TRY(upload_tensor(b, KAS_ROLE_X, b->x, b->target->c_in, b->x_pitch));
    KAS_TRY(upload_tensor(b, KAS_ROLE_DY, b->dy, b->target->c_out, b->y_pitch));
    for (int k = 0; k < p->weights; k++) {
        const kas_weight *w = &p->weight[k];
        const int i = buffer(p, KAS_ROLE_WEIGHT, k);
        FOR_WEIGHT(w, logical, offset)
        b->host[offset] = (float)b->weight[k][logical];
        KAS_TRY(kas_mem_upload(b->device, b->memory[i], b->host, p->buffer[i].bytes));
    }
    return KAS_OK;
}

/* ---- comparison
 * -------------------------------------------------------------------------------------- */

typedef struct error {
    double worst, scale;
    bool broken; /* something is not finite */
} error;

static void compare(error *e, double ours, double wanted)
{
    const double difference = fabs(ours - wanted);
    if (!(difference <= 1e300))
        e->broken = true;
    e->worst = difference > e->worst ? difference : e->worst;
    e->scale = fabs(wanted) > e->scale ? fabs(wanted) : e->scale;
}

static double relative(const error *e)
{
    const double scale = e->scale > KAS_AGREE_FLOOR ? e->scale : KAS_AGREE_FLOOR;
    return e->broken ? INFINITY : e->worst / scale;
}

static kas_status compare_tensor(bench *b, kas_role role, const double *wanted, uint32_t channels,
                                 int pitch, double *out)
{
    const int i = buffer(b->program, role, 0);
    const size_t area = (size_t)b->target->h * b->target->w;
    error e = {0};
    KAS_TRY(kas_mem_download(b->device, b->host, b->memory[i], b->program->buffer[i].bytes));
    for (size_t n = 0; n < (size_t)b->program->batch; n++)
        for (size_t pixel = 0; pixel < area; pixel++)
            for (size_t c = 0; c < channels; c++)
                compare(&e, (double)b->host[(n * area + pixel) * (size_t)pitch + c],
                        wanted[(n * channels + c) * area + pixel]);
    *out = relative(&e);
    return KAS_OK;
}

static kas_status compare_weights(bench *b, double *out)
{
    *out = 0;
    for (int k = 0; k < b->program->weights; k++) {
        const kas_weight *w = &b->program->weight[k];
        const int i = buffer(b->program, KAS_ROLE_DWEIGHT, k);
        error e = {0};
        KAS_TRY(kas_mem_download(b->device, b->host, b->memory[i], b->program->buffer[i].bytes));
        FOR_WEIGHT(w, logical, offset)
        compare(&e, (double)b->host[offset], b->dweight[k][logical]);
        *out = fmax(*out, relative(&e));
    }
    return KAS_OK;
}

static kas_status attempt(bench *b, const kas_agree_options *o, int turn, kas_agreement *r)
{
    const double *const *weight = (const double *const *)b->weight;
    draw(b, o->seed, o->whole, turn);
    KAS_TRY(upload(b));
    KAS_TRY(kas_reference_forward(b->reference, b->x, weight, b->y));
    KAS_TRY(kas_reference_backward(b->reference, b->dy, b->dx, b->dweight));
    KAS_TRY(kas_plan_run(b->plan));
    KAS_TRY(kas_device_sync(b->device));
    KAS_TRY(compare_tensor(b, KAS_ROLE_Y, b->y, b->target->c_out, b->y_pitch, &r->forward));
    KAS_TRY(compare_tensor(b, KAS_ROLE_DX, b->dx, b->target->c_in, b->x_pitch, &r->dx));
    KAS_TRY(compare_weights(b, &r->dweight));
    r->draws = turn + 1;
    r->ok = r->forward <= KAS_AGREE_FORWARD && r->dx <= KAS_AGREE_GRADIENT &&
            r->dweight <= KAS_AGREE_GRADIENT;
    return KAS_OK;
}

static kas_status compare_all(bench *b, const kas_agree_options *o, kas_agreement *r)
{
    for (int turn = 0; turn < KAS_AGREE_DRAWS && !r->ok; turn++)
        KAS_TRY(attempt(b, o, turn, r));
    if (o->directions > 0) {
        KAS_TRY(kas_reference_check_gradient(b->reference, b->x, (const double *const *)b->weight,
                                             b->dy, o->directions, o->seed, &r->numeric));
        r->ok = r->ok && r->numeric <= KAS_AGREE_NUMERIC;
    }
    return KAS_OK;
}

static kas_status run_one(kas_device *device, const kas_kernel *kernel, const kas_program *program,
                          kas_module *module, const kas_agree_options *o, kas_agreement *r)
{
    bench b = {.device = device, .program = program, .target = &program->target};
    b.x_pitch = kas_pitch((int)program->target.c_in) + o->pitch_more;
    b.y_pitch = kas_pitch((int)program->target.c_out) + o->pitch_more;
    *r = (kas_agreement){.operations = program->forwards + program->backwards};
    for (int i = 0; i < program->forwards; i++)
        r->convolutions += program->forward[i].kind == KAS_OPERATION_CONV;
    for (int i = 0; i < program->backwards; i++)
        r->convolutions += program->backward[i].kind == KAS_OPERATION_CONV;
    kas_status status = make_reference(&b, kernel);
    if (status == KAS_OK)
        status = make_device_side(&b, module);
    if (status == KAS_OK)
        status = compare_all(&b, o, r);
    bench_free(&b);
    return status;
}

/* ---- all targets in one text
 * ---------------------------------------------------------------------------- */

static kas_status build_programs(const kas_kernel *kernel, const kas_target *target,
                                 const kas_binding *binding, int count, const kas_agree_options *o,
                                 kas_program **program, kas_buf *text)
{
    for (int i = 0; i < count; i++) {
        char prefix[16];
        snprintf(prefix, sizeof prefix, "k%d", i);
        const kas_program_options options = {
            .batch = o->batch,
            .training = true,
            .x_pitch = kas_pitch((int)target[i].c_in) + o->pitch_more,
            .y_pitch = kas_pitch((int)target[i].c_out) + o->pitch_more,
            .prefix = prefix};
        KAS_TRY(kas_program_build(kernel, &target[i], &binding[i], &options, &program[i]));
        kas_buf_puts(text, program[i]->source);
    }
    return kas_buf_status(text);
}

kas_status kas_agree(kas_device *device, kas_compiler *compiler, const kas_kernel *kernel,
                     const kas_target *target, const kas_binding *binding, int count,
                     const kas_agree_options *options, kas_agreement *result)
{
    kas_status status = KAS_OK;
    kas_buf text = {0};
    char path[4096];
    kas_module *module = NULL;
    kas_program **program = calloc((size_t)count + 1, sizeof *program);
    if (!program)
        return no_memory();
    KAS_TRY_GOTO(build_programs(kernel, target, binding, count, options, program, &text), done);
    KAS_TRY_GOTO(kas_compile(compiler, kas_buf_text(&text), path, NULL), done);
    KAS_TRY_GOTO(kas_module_load(device, path, &module), done);
    for (int i = 0; i < count; i++)
        KAS_TRY_GOTO(run_one(device, kernel, program[i], module, options, &result[i]), done);
done:
    kas_module_free(module);
    for (int i = 0; i < count; i++)
        kas_program_free(program[i]);
    free(program);
    kas_buf_free(&text);
    return status;
}

kas_status kas_agree_text(const kas_kernel *kernel, const kas_target *target,
                          const kas_binding *binding, int count, const kas_agree_options *options,
                          kas_buf *text)
{
    kas_program **program = calloc((size_t)count + 1, sizeof *program);
    if (!program)
        return no_memory();
    const kas_status status =
        build_programs(kernel, target, binding, count, options, program, text);
    for (int i = 0; i < count; i++)
        kas_program_free(program[i]);
    free(program);
    return status;
}

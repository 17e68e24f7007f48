#include "host/check/agree_setup.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/random.h"
#include "host/device/dtype.h"
#include "host/net/epilogues.h"
#include "host/reference/net/layers.h"

static kas_status no_memory(void)
{
    return kas_fail(KAS_NO_MEMORY, "out of memory while a kernel was checked");
}

/* ---- set-up ---------------------------------------------------------------------------------- */

static double *zeros(size_t count)
{
    return calloc(count + 1, sizeof(double));
}

static kas_status same_weights(const kas_agree_setup *b)
{
    const kas_program *p = b->program;
    if (kas_reference_weights(b->reference) != p->weights)
        return kas_fail(KAS_FAILURE, "the reference has %d weights, the program %d",
                        kas_reference_weights(b->reference), p->weights);
    for (int i = 0; i < p->weights; i++) {
        const size_t size = kas_reference_weight_size(b->reference, i);
        if (size != p->weight[i].elements)
            return kas_fail(KAS_FAILURE, "weight %d: %zu elements in the reference, %zu here", i,
                            size, p->weight[i].elements);
    }
    return KAS_OK;
}

static kas_status make_results(const kas_agree_setup *b, kas_agree_results *r)
{
    const kas_program *p = b->program;
    r->y = zeros(b->y_size);
    r->dx = zeros(b->x_size);
    r->dweight = calloc((size_t)p->weights + 1, sizeof *r->dweight);
    if (!r->y || !r->dx || !r->dweight)
        return no_memory();
    for (int i = 0; i < p->weights; i++) {
        r->dweight[i] = zeros(p->weight[i].elements);
        if (!r->dweight[i])
            return no_memory();
    }
    return KAS_OK;
}

static void free_results(const kas_agree_setup *b, kas_agree_results *r)
{
    free(r->y);
    free(r->dx);
    for (int i = 0; r->dweight && i < b->program->weights; i++)
        free(r->dweight[i]);
    free(r->dweight);
}

/* What the kernels of epilogues read. */
static kas_status make_epilogues(kas_agree_setup *b)
{
    const int epilogues = b->program->epilogues;
    b->residual = zeros(b->y_size);
    b->outcome = calloc((size_t)epilogues + 1, sizeof *b->outcome);
    if (!b->residual || !b->outcome)
        return no_memory();
    for (int i = 0; i < KAS_NORM_PARTS; i++)
        if (!(b->norm[i] = zeros(b->target->c_out)))
            return no_memory();
    for (int e = 0; e < epilogues; e++)
        if (!(b->outcome[e] = zeros(b->y_size)))
            return no_memory();
    return KAS_OK;
}

static void free_epilogues(kas_agree_setup *b)
{
    free(b->residual);
    for (int i = 0; i < KAS_NORM_PARTS; i++)
        free(b->norm[i]);
    for (int e = 0; e < b->program->epilogues; e++) {
        kas_plan_free(b->epilogue_plan[e]);
        if (b->outcome)
            free(b->outcome[e]);
    }
    free(b->outcome);
}

static kas_status make_reference(kas_agree_setup *b, const kas_kernel *kernel)
{
    const kas_program *p = b->program;
    const kas_target *t = b->target;
    KAS_TRY(kas_reference_create(kernel, t, &p->binding, p->batch, &b->reference));
    b->x_size = (size_t)p->batch * t->c_in * p->x_h * p->x_w;
    b->y_size = (size_t)p->batch * t->c_out * t->h * t->w;
    b->x = zeros(b->x_size);
    b->dy = zeros(b->y_size);
    b->weight = calloc((size_t)p->weights + 1, sizeof *b->weight);
    if (!b->x || !b->dy || !b->weight)
        return no_memory();
    KAS_TRY(same_weights(b));
    for (int i = 0; i < p->weights; i++) {
        b->weight[i] = zeros(p->weight[i].elements);
        if (!b->weight[i])
            return no_memory();
    }
    KAS_TRY(make_epilogues(b));
    KAS_TRY(make_results(b, &b->exact));
    return make_results(b, &b->rounded);
}

static kas_status make_device_side(kas_agree_setup *b, kas_module *module)
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
    KAS_TRY(kas_program_load(b->device, p, &module, &b->loaded));
    KAS_TRY(kas_plan_create(b->device, &b->plan));
    KAS_TRY(kas_loaded_append(b->loaded, b->plan, false, b->memory));
    for (int e = 0; e < p->epilogues; e++) {
        KAS_TRY(kas_plan_create(b->device, &b->epilogue_plan[e]));
        KAS_TRY(kas_loaded_append_epilogue(b->loaded, b->epilogue_plan[e], e, b->memory));
    }
    return p->training ? kas_loaded_append(b->loaded, b->plan, true, b->memory) : KAS_OK;
}

kas_status kas_agree_setup_open(kas_agree_setup *b, kas_device *device, const kas_kernel *kernel,
                                const kas_program *program, kas_module *module,
                                const kas_agree_options *options, float gain)
{
    *b = (kas_agree_setup){.device = device,
                           .program = program,
                           .target = &program->target,
                           .gain = gain,
                           .judged_as = options->tf32 ? KAS_F16 : program->dtype};
    b->x_pitch = kas_pitch_of(program->dtype, (int)program->target.c_in) + options->pitch_more;
    b->y_pitch = kas_pitch_of(program->dtype, (int)program->target.c_out) + options->pitch_more;
    KAS_TRY(make_reference(b, kernel));
    kas_reference_set_gain(b->reference, (double)gain);
    return make_device_side(b, module);
}

void kas_agree_setup_free(kas_agree_setup *b)
{
    kas_plan_free(b->plan);
    free_epilogues(b);
    kas_loaded_free(b->loaded);
    for (int i = 0; b->memory && i < b->program->buffers; i++)
        kas_mem_free(b->device, b->memory[i]);
    for (int i = 0; b->weight && i < b->program->weights; i++)
        free(b->weight[i]);
    free(b->weight);
    free_results(b, &b->exact);
    free_results(b, &b->rounded);
    free(b->memory);
    free(b->host);
    free(b->x);
    free(b->dy);
    kas_reference_free(b->reference);
}

/* ---- data ------------------------------------------------------------------------------------ */

/* Draws values that the dtype holds exactly, so that both sides start from the same ones. */
static void fill(const kas_agree_setup *b, double *to, size_t count, double scale, uint64_t seed,
                 uint64_t stream)
{
    kas_rng rng = kas_rng_make(seed, KAS_PURPOSE_TEST, stream);
    for (size_t i = 0; i < count; i++) {
        float rounded;
        kas_dtype_put(&rounded, b->program->dtype, 0, scale * kas_rng_normal(&rng));
        to[i] = kas_dtype_get(&rounded, b->program->dtype, 0);
    }
}

static void draw(kas_agree_setup *b, uint64_t seed, bool whole, int turn)
{
    const uint64_t stream = (uint64_t)turn * 1000;
    fill(b, b->x, b->x_size, 1, seed, stream);
    for (size_t i = 0; whole && i < b->x_size; i++)
        b->x[i] = rint(b->x[i]);
    fill(b, b->dy, b->y_size, 1, seed, stream + 1);
    for (int i = 0; i < b->program->weights; i++)
        fill(b, b->weight[i], b->program->weight[i].elements,
             1 / sqrt((double)b->program->weight[i].fan_in), seed, stream + 2 + (uint64_t)i);
}

/* Draws what epilogues read: a deviation and a factor of usual size, and a residual. */
static void draw_epilogues(kas_agree_setup *b, uint64_t seed, int turn)
{
    const uint64_t stream = (uint64_t)turn * 1000 + 900;
    fill(b, b->residual, b->y_size, 1, seed, stream);
    for (int i = 0; i < KAS_NORM_PARTS; i++) {
        kas_rng rng = kas_rng_make(seed, KAS_PURPOSE_TEST, stream + 1 + (uint64_t)i);
        for (uint32_t c = 0; c < b->target->c_out; c++)
            b->norm[i][c] = i == KAS_NORM_RSTD || i == KAS_NORM_GAMMA
                                ? (float)(0.5 + 1.5 * kas_rng_unit(&rng))
                                : (float)kas_rng_normal(&rng);
    }
}

/* Puts NaN into one image of x, in the middle and at a corner; the other images show what it must
 * not reach. With one image alone half of the channels stay as they are. */
static void put_nan(kas_agree_setup *b)
{
    const kas_target *t = b->target;
    const uint32_t h = b->program->x_h, w = b->program->x_w;
    const size_t area = (size_t)h * w, channels = t->c_in > 1 ? t->c_in / 2 : 1;
    for (size_t c = 0; c < channels; c += 3) {
        b->x[c * area + (size_t)(h / 2) * w + w / 2] = NAN;
        b->x[c * area] = c % 2 ? b->x[c * area] : NAN;
    }
}

static int buffer(const kas_program *p, kas_role role, int index)
{
    for (int i = 0; i < p->buffers; i++)
        if (p->buffer[i].role == role && p->buffer[i].index == index)
            return i;
    return -1;
}

/* Returns the pixels of a tensor that the caller of the program owns. */
static size_t area_of(const kas_agree_setup *b, kas_role role)
{
    const kas_program *p = b->program;
    return role == KAS_ROLE_X || role == KAS_ROLE_DX ? (size_t)p->x_h * p->x_w
                                                     : (size_t)p->target.h * p->target.w;
}

/* Converts from the reference's [n][c][h][w] to the device's [n][h][w][pitch], with NaN
 * in the padding. */
static void pack(const kas_agree_setup *b, size_t area, const double *from, uint32_t channels,
                 int pitch)
{
    for (size_t n = 0; n < (size_t)b->program->batch; n++)
        for (size_t pixel = 0; pixel < area; pixel++)
            for (size_t c = 0; c < (size_t)pitch; c++)
                kas_dtype_put(b->host, b->program->dtype, (n * area + pixel) * (size_t)pitch + c,
                              c < channels ? from[(n * channels + c) * area + pixel] : NAN);
}

static kas_status upload_tensor(kas_agree_setup *b, kas_role role, const double *from,
                                uint32_t channels, int pitch)
{
    const int i = buffer(b->program, role, 0);
    pack(b, area_of(b, role), from, channels, pitch);
    return kas_mem_upload(b->device, b->memory[i], b->host, b->program->buffer[i].bytes);
}

/* Runs over every element of a weight in logical order, with its offset in memory. */
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

static kas_status upload_epilogues(kas_agree_setup *b)
{
    const kas_program *p = b->program;
    for (int i = 0; i < KAS_NORM_PARTS; i++) {
        const int at = buffer(p, KAS_ROLE_NORM, i);
        for (uint32_t c = 0; at >= 0 && c < b->target->c_out; c++)
            kas_dtype_put(b->host, p->buffer[at].dtype, c, b->norm[i][c]);
        if (at >= 0)
            KAS_TRY(kas_mem_upload(b->device, b->memory[at], b->host, p->buffer[at].bytes));
    }
    return buffer(p, KAS_ROLE_RESIDUAL, 0) < 0
               ? KAS_OK
               : upload_tensor(b, KAS_ROLE_RESIDUAL, b->residual, b->target->c_out, b->y_pitch);
}

static kas_status evaluate(kas_agree_setup *b, kas_agree_results *r)
{
    KAS_TRY(kas_reference_forward(b->reference, b->x, (const double *const *)b->weight, r->y));
    return b->program->training ? kas_reference_backward(b->reference, b->dy, r->dx, r->dweight)
                                : KAS_OK;
}

/* Fills a buffer with NaN, or with zeros. */
static kas_status clear(kas_agree_setup *b, int i)
{
    memset(b->host, b->with_nan ? 0 : 0xff, b->program->buffer[i].bytes);
    return kas_mem_upload(b->device, b->memory[i], b->host, b->program->buffer[i].bytes);
}

static kas_status upload(kas_agree_setup *b)
{
    const kas_program *p = b->program;
    for (int i = 0; i < p->buffers; i++)
        KAS_TRY(clear(b, i));
    KAS_TRY(upload_epilogues(b));
    KAS_TRY(upload_tensor(b, KAS_ROLE_X, b->x, b->target->c_in, b->x_pitch));
    if (p->training)
        KAS_TRY(upload_tensor(b, KAS_ROLE_DY, b->dy, b->target->c_out, b->y_pitch));
    const int gain = buffer(p, KAS_ROLE_GAIN, 0);
    if (gain >= 0)
        KAS_TRY(kas_mem_upload(b->device, b->memory[gain], &b->gain, sizeof b->gain));
    for (int k = 0; k < p->weights; k++) {
        const kas_weight *w = &p->weight[k];
        const int i = buffer(p, KAS_ROLE_WEIGHT, k);
        FOR_WEIGHT(w, logical, offset)
        kas_dtype_put(b->host, p->dtype, offset, b->weight[k][logical]);
        KAS_TRY(kas_mem_upload(b->device, b->memory[i], b->host, p->buffer[i].bytes));
    }
    return KAS_OK;
}

/* Reads a tensor like Y in the reference's order. */
static kas_status download_y(kas_agree_setup *b, double *out)
{
    const int i = buffer(b->program, KAS_ROLE_Y, 0);
    const uint32_t channels = b->target->c_out;
    const size_t area = area_of(b, KAS_ROLE_Y);
    KAS_TRY(kas_mem_download(b->device, b->host, b->memory[i], b->program->buffer[i].bytes));
    for (size_t n = 0; n < (size_t)b->program->batch; n++)
        for (size_t pixel = 0; pixel < area; pixel++)
            for (size_t c = 0; c < channels; c++)
                out[(n * channels + c) * area + pixel] = kas_dtype_get(
                    b->host, b->program->dtype, (n * area + pixel) * (size_t)b->y_pitch + c);
    return KAS_OK;
}

static kas_status run_epilogues(kas_agree_setup *b)
{
    const int y = buffer(b->program, KAS_ROLE_Y, 0);
    for (int e = 0; e < b->program->epilogues; e++) {
        KAS_TRY(clear(b, y));
        KAS_TRY(kas_plan_run(b->epilogue_plan[e]));
        KAS_TRY(kas_device_sync(b->device));
        KAS_TRY(download_y(b, b->outcome[e]));
    }
    return clear(b, y);
}

kas_status kas_agree_setup_run(kas_agree_setup *b, const kas_agree_options *options, int turn,
                               bool with_nan)
{
    draw(b, options->seed, options->whole, turn);
    draw_epilogues(b, options->seed, turn);
    b->with_nan = with_nan;
    if (with_nan)
        put_nan(b);
    KAS_TRY(upload(b));
    KAS_TRY(evaluate(b, &b->exact));
    KAS_TRY(run_epilogues(b));
    KAS_TRY(kas_plan_run(b->plan));
    return kas_device_sync(b->device);
}

/* ---- comparison ------------------------------------------------------------------------------ */

/* NaN agrees with NaN only where NaN went in, and never with a number. */
static void compare(kas_gap *gap, double ours, double wanted, bool with_nan)
{
    const double value = ours == 0 ? 0 : ours; /* a maximum of two zeros may be either */
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    gap->digest = (gap->digest ^ bits) * UINT64_C(0x100000001b3); /* FNV-1a, of 64 bits at once */
    gap->digest ^= gap->digest >> 32; /* else differences of two signs cancel */
    gap->nan += isnan(wanted);
    gap->lost += isnan(wanted) && !isnan(ours);
    if (with_nan && isnan(ours) && isnan(wanted))
        return;
    const double difference = fabs(ours - wanted);
    if (!(difference <= 1e300))
        gap->broken = true;
    gap->count++;
    gap->squares += difference * difference;
    gap->worst = difference > gap->worst ? difference : gap->worst;
    gap->scale = fabs(wanted) > gap->scale ? fabs(wanted) : gap->scale;
}

static double relative(const kas_gap *gap, double difference)
{
    const double scale = gap->scale > KAS_AGREE_FLOOR ? gap->scale : KAS_AGREE_FLOOR;
    return gap->broken ? INFINITY : difference / scale;
}

double kas_gap_worst(const kas_gap *gap)
{
    return relative(gap, gap->worst);
}

double kas_gap_rms(const kas_gap *gap)
{
    return relative(gap, gap->count ? sqrt(gap->squares / (double)gap->count) : 0);
}

static kas_status tensor_gap(kas_agree_setup *b, kas_role role, const double *wanted,
                             uint32_t channels, int pitch, kas_gap *gap)
{
    const int i = buffer(b->program, role, 0);
    const size_t area = area_of(b, role);
    *gap = (kas_gap){0};
    KAS_TRY(kas_mem_download(b->device, b->host, b->memory[i], b->program->buffer[i].bytes));
    for (size_t n = 0; n < (size_t)b->program->batch; n++)
        for (size_t pixel = 0; pixel < area; pixel++)
            for (size_t c = 0; c < channels; c++)
                compare(gap,
                        kas_dtype_get(b->host, b->program->dtype,
                                      (n * area + pixel) * (size_t)pitch + c),
                        wanted[(n * channels + c) * area + pixel], b->with_nan);
    return KAS_OK;
}

static kas_status weight_gap(kas_agree_setup *b, int k, kas_gap *gap)
{
    const kas_weight *w = &b->program->weight[k];
    const int i = buffer(b->program, KAS_ROLE_DWEIGHT, k);
    *gap = (kas_gap){0};
    KAS_TRY(kas_mem_download(b->device, b->host, b->memory[i], b->program->buffer[i].bytes));
    FOR_WEIGHT(w, logical, offset)
    compare(gap, kas_dtype_get(b->host, b->program->buffer[i].dtype, offset),
            b->exact.dweight[k][logical], b->with_nan);
    return KAS_OK;
}

static kas_gap gap_of(const double *ours, const double *wanted, size_t count)
{
    kas_gap gap = {0};
    for (size_t i = 0; i < count; i++)
        compare(&gap, ours[i], wanted[i], false);
    return gap;
}

/* An activation by its formula; NaN stays NaN. */
static double activation(kas_activation kind, double x)
{
    for (int op = 0; op < KAS_LAYER_OPS && !isnan(x); op++)
        if (kind != KAS_ACTIVATION_NONE && kas_layer_activation((kas_layer_op)op) == kind)
            return kas_ref_activation((kas_layer_op)op, x);
    return x;
}

/* What epilogue e makes of element i of a tensor like Y. */
static double with_epilogue(const kas_agree_setup *b, int e, const double *y, size_t i)
{
    const kas_epilogue epilogue = b->program->epilogue[e];
    const size_t c = i / area_of(b, KAS_ROLE_Y) % b->target->c_out;
    const double normed = (y[i] - b->norm[KAS_NORM_MEAN][c]) * b->norm[KAS_NORM_RSTD][c] *
                              b->norm[KAS_NORM_GAMMA][c] +
                          b->norm[KAS_NORM_BETA][c];
    return activation(epilogue.activation, normed + (epilogue.residual ? b->residual[i] : 0));
}

/* Compares what the epilogues' kernels gave, or with `rounded` what rounding makes of it, with the
 * reference. */
static void epilogue_gaps(const kas_agree_setup *b, const double *rounded, kas_gap *gap)
{
    for (int e = 0; e < b->program->epilogues; e++) {
        kas_gap *one = &gap[KAS_GAP_WEIGHTS + b->program->weights + e];
        *one = (kas_gap){0};
        for (size_t i = 0; i < b->y_size; i++)
            compare(one, rounded ? with_epilogue(b, e, rounded, i) : b->outcome[e][i],
                    with_epilogue(b, e, b->exact.y, i), b->with_nan);
    }
}

kas_status kas_agree_setup_gaps(kas_agree_setup *b, kas_gap *gap)
{
    KAS_TRY(tensor_gap(b, KAS_ROLE_Y, b->exact.y, b->target->c_out, b->y_pitch, &gap[KAS_GAP_Y]));
    epilogue_gaps(b, NULL, gap);
    if (!b->program->training)
        return KAS_OK;
    KAS_TRY(tensor_gap(b, KAS_ROLE_DX, b->exact.dx, b->target->c_in, b->x_pitch, &gap[KAS_GAP_DX]));
    for (int k = 0; k < b->program->weights; k++)
        KAS_TRY(weight_gap(b, k, &gap[KAS_GAP_WEIGHTS + k]));
    return KAS_OK;
}

kas_status kas_agree_setup_rounding(kas_agree_setup *b, uint64_t seed, kas_gap *gap)
{
    kas_reference_round(b->reference, kas_agree_bits(b->judged_as), seed);
    const kas_status status = evaluate(b, &b->rounded);
    kas_reference_round(b->reference, 0, 0);
    KAS_TRY(status);
    gap[KAS_GAP_Y] = gap_of(b->rounded.y, b->exact.y, b->y_size);
    epilogue_gaps(b, b->rounded.y, gap);
    gap[KAS_GAP_DX] = gap_of(b->rounded.dx, b->exact.dx, b->x_size);
    for (int k = 0; k < b->program->weights; k++)
        gap[KAS_GAP_WEIGHTS + k] =
            gap_of(b->rounded.dweight[k], b->exact.dweight[k], b->program->weight[k].elements);
    return KAS_OK;
}

#include "host/predict/predict.h"

#include <math.h>
#include <stdlib.h>

#include "host/predict/cpu.h"
#include "host/predict/gpu.h"

const char *const kas_bound_names[] = {"memory", "arithmetic", "latency", "launch", NULL};

/* ---- parts ----------------------------------------------------------------------------------- */

/* Returns the seconds of moving `bytes` that fit into a cache of `size` bytes or do not. Of what is
 * up to twice as large as the cache a part is still found there. */
static double behind(double bytes, double size, double bandwidth, double beyond)
{
    const double left = 2 * size - bytes, held = left < 0 ? 0 : left < bytes ? left : bytes;
    return held / bandwidth + (bytes - held) * beyond;
}

static double memory_seconds(const kas_machine *m, double bytes)
{
    if (m->gpu)
        return kas_gpu_memory(m, bytes);
    const double outer = behind(bytes, m->outer_bytes, m->outer_bandwidth, 1 / m->memory_bandwidth);
    return bytes > 0 ? behind(bytes, m->inner_bytes, m->inner_bandwidth, outer / bytes) : 0;
}

static double round_up(double x, double to)
{
    return ceil(x / to) * to;
}

/* Returns the cores that work on average: blocks are dealt out evenly. */
static double busy_cores(const kas_machine *m, double blocks)
{
    if (blocks <= m->cores)
        return blocks;
    return blocks / ceil(blocks / m->cores);
}

/* Returns the launches of a pass: one for each piece of the batch. */
static int pieces_of(const kas_sweep *pass)
{
    return pass->kernel && pass->kernel->times > 1 ? pass->kernel->times : 1;
}

/* Returns the seconds of what the launch of one piece moves. What pieces share is in a CPU's nearest
 * cache from one to the next; of the network's tensors each piece has another part, and all parts of
 * them have passed through that cache since they were written. */
static double moving_seconds(const kas_machine *m, const kas_sweep *piece)
{
    const int pieces = pieces_of(piece);
    if (m->gpu)
        return memory_seconds(m, piece->bytes);
    return memory_seconds(m, piece->bytes - piece->far) +
           memory_seconds(m, piece->far * pieces) / pieces;
}

/* ---- generated kernels ----------------------------------------------------------------------- */

static double steps_of(const kas_machine *m, const kas_effort *e, double idle)
{
    const double rows = m->arithmetic * e->arithmetic + m->function * e->functions +
                        m->load * e->loads + m->reduce * e->reduced;
    const double apart = m->gather * (m->gpu ? e->gathers : e->scattered),
                 shared = m->shared * (e->shared + (m->gpu ? 0 : e->alone));
    return rows * idle / m->lanes + apart + m->division * e->divisions + shared +
           m->turn * e->turns;
}

static void generated(const kas_machine *m, const kas_sweep *pass, double part[KAS_BOUNDS])
{
    const kas_operation *op = pass->kernel;
    const double blocks = (double)op->grid[0] * op->grid[1] * op->grid[2];
    const double lanes = fmax(1, op->effort.lanes);
    if (m->gpu) {
        kas_gpu_generated(m, op, steps_of(m, &op->effort, kas_gpu_idle(m, op)), part);
        return;
    }
    const double steps = steps_of(m, &op->effort, round_up(lanes, m->warp) / lanes);
    part[KAS_BOUND_MEMORY] = moving_seconds(m, pass);
    part[KAS_BOUND_ARITHMETIC] =
        fmax(steps / (busy_cores(m, blocks) * m->clock), op->flops / m->rate[KAS_PRECISION_FP32]);
}

/* ---- libraries ------------------------------------------------------------------------------- */

/* Returns the share of the cores for which a pass has tiles of its result. Libraries cut long sums
 * where there are few tiles. */
static double filled(const kas_machine *m, const kas_conv_desc *d, kas_conv_pass pass)
{
    enum { TILE = 64, LEAST_SUM = 512 };
    const double taps = (double)d->kernel_h * d->kernel_w, in = (double)d->c_in / d->groups,
                 out = (double)d->c_out / d->groups;
    const double pixels = (double)d->n * kas_conv_out_h(d) * kas_conv_out_w(d);
    const double rows = pass == KAS_CONV_BACKWARD_WEIGHTS ? taps * in : pixels,
                 columns = pass == KAS_CONV_BACKWARD_DATA ? in : out,
                 sum = pass == KAS_CONV_FORWARD         ? taps * in
                       : pass == KAS_CONV_BACKWARD_DATA ? taps * out
                                                        : pixels;
    const double parts = m->gpu ? fmax(1, floor(sum / LEAST_SUM)) : 1;
    const double tiles = ceil(rows / TILE) * ceil(columns / TILE) * d->groups * parts;
    return tiles < m->cores ? tiles / m->cores : 1;
}

static kas_precision precision_of(const kas_conv_desc *d)
{
    if (d->dtype == KAS_F32)
        return d->tf32 ? KAS_PRECISION_TF32 : KAS_PRECISION_FP32;
    return d->dtype == KAS_BF16 ? KAS_PRECISION_BF16 : KAS_PRECISION_FP16;
}

/* Returns the precision of what computes a convolution: no library has depthwise ones on tensor
 * cores. */
static kas_precision computed_in(const kas_machine *m, const kas_conv_desc *d)
{
    return m->gpu && kas_conv_class_of(d) == KAS_CONV_DEPTHWISE ? KAS_PRECISION_FP32
                                                                : precision_of(d);
}

/* Returns the class by which a convolution is computed: on a GPU the groups of a 1x1 map are a batch
 * of matrix products, each like a map of its own (cuda/conv_matmul.c). */
static kas_conv_class class_of(const kas_machine *m, const kas_conv_desc *d)
{
    const kas_conv_class class = kas_conv_class_of(d);
    const bool product = m->gpu && d->kernel_h == 1 && d->kernel_w == 1 && d->stride == 1;
    return product && class == KAS_CONV_GROUPED ? KAS_CONV_MAP : class;
}

/* Without tensor cores a GPU's libraries reach so many times the share of the rate (which is an
 * eighth or less): TensorRT computes ResNet-50 in float32 at 83% of a V100's rate, and NVIDIA's
 * trainings of ResNeXt-101 on a V100 (150 images a second in float32, 535 in 16 bits) leave groups
 * 13% of the one and 7% of the other. */
static const double plain_share = 1.42;

/* Returns the share of the rate that a convolution reaches on a GPU. Tiles that are not full are
 * computed whole, and each has a cost of its own beside that of its inputs. */
static double efficiency(const kas_machine *m, const kas_conv_desc *d)
{
    enum { TENSOR = 8 }; /* outputs that are computed together */
    const kas_conv_class class = class_of(m, d);
    const double in = (double)d->c_in / d->groups, out = (double)d->c_out / d->groups;
    const double half = class == KAS_CONV_GROUPED ? m->half_grouped : m->half_channels;
    if (class == KAS_CONV_DEPTHWISE)
        return m->efficiency[class];
    const double share = m->efficiency[class] * in / (in + half) * out / round_up(out, TENSOR);
    return precision_of(d) == KAS_PRECISION_FP32 ? fmin(1, plain_share * share) : share;
}

/* Returns the seconds of the multiply-adds. */
static double conv_seconds(const kas_machine *m, const kas_conv_desc *d, kas_conv_pass pass)
{
    const double share = filled(m, d, pass);
    return m->gpu ? kas_conv_flops(d) / (m->rate[computed_in(m, d)] * share * efficiency(m, d))
                  : kas_cpu_conv_seconds(m, d, pass) / share;
}

static void library(const kas_machine *m, const kas_sweep *pass, double part[KAS_BOUNDS])
{
    part[KAS_BOUND_MEMORY] = moving_seconds(m, pass);
    if (!m->gpu)
        part[KAS_BOUND_MEMORY] += memory_seconds(m, kas_cpu_conv_passes(m, pass));
    part[KAS_BOUND_ARITHMETIC] = conv_seconds(m, &pass->conv, pass->conv_pass);
    part[KAS_BOUND_LAUNCH] += m->call;
}

/* ---- passes of the network's own ------------------------------------------------------------- */

static void own_pass(const kas_machine *m, const kas_sweep *pass, double part[KAS_BOUNDS])
{
    part[KAS_BOUND_MEMORY] = memory_seconds(m, pass->bytes) / m->pass;
    if (m->gpu)
        part[KAS_BOUND_LATENCY] = pass->rounds * kas_gpu_latency(m, pass->bytes);
}

/* ---- a pass ---------------------------------------------------------------------------------- */

/* Returns the least seconds of a convolution's multiply-adds. A library may be faster at some shape
 * than at the large product by which its rate was measured. */
static double least_seconds(const kas_machine *m, const kas_conv_desc *d)
{
    double best = 1;
    for (int i = 0; i < KAS_CONV_CLASSES; i++)
        best = fmax(best, m->gpu && i != (int)class_of(m, d) ? 1 : m->efficiency[i]);
    return (m->gpu ? kas_conv_flops(d) : kas_cpu_conv_flops(d)) /
           (m->rate[computed_in(m, d)] * best);
}

/* A launch finds nothing in a GPU's L1, which belongs to a multiprocessor. */
static double floor_of(const kas_machine *m, const kas_sweep *pass)
{
    const double memory =
        m->gpu ? memory_seconds(m, pass->bytes) : pass->bytes / m->inner_bandwidth;
    double arithmetic = 0;
    if (pass->library)
        arithmetic = least_seconds(m, &pass->conv);
    else if (pass->kernel)
        arithmetic = pass->kernel->flops / m->rate[KAS_PRECISION_FP32];
    return m->launch + fmax(memory, arithmetic);
}

static kas_estimate predict_launch(const kas_machine *m, const kas_sweep *pass)
{
    kas_estimate e = {.part[KAS_BOUND_LAUNCH] = m->launch, .floor = floor_of(m, pass)};
    if (pass->library)
        library(m, pass, e.part);
    else if (pass->kernel)
        generated(m, pass, e.part);
    else
        own_pass(m, pass, e.part);
    double longest = 0, sum = 0;
    for (int i = 0; i < KAS_BOUND_LAUNCH; i++) {
        longest = fmax(longest, e.part[i]);
        sum += e.part[i];
    }
    e.bound = KAS_BOUND_LAUNCH;
    for (int i = 0; i < KAS_BOUND_LAUNCH; i++)
        if (e.part[i] == longest && longest > e.part[KAS_BOUND_LAUNCH])
            e.bound = (kas_bound)i;
    e.seconds = e.part[KAS_BOUND_LAUNCH] + (m->gpu ? longest : sum);
    return e;
}

kas_estimate kas_predict_pass(const kas_machine *m, const kas_sweep *pass)
{
    const int times = pieces_of(pass);
    kas_sweep one = *pass;
    one.bytes /= times;
    one.far /= times;
    kas_estimate e = predict_launch(m, &one);
    for (int i = 0; i < KAS_BOUNDS; i++)
        e.part[i] *= times;
    e.seconds *= times;
    e.floor *= times;
    return e;
}

/* ---- a network ------------------------------------------------------------------------------- */

kas_status kas_predict_lower(const kas_machine *machine, const kas_replacement *replacement,
                             int batch, kas_precision precision, bool training, kas_programs *out)
{
    const kas_program_options options = {
        .batch = batch,
        .training = training,
        .dtype = kas_precision_dtype(precision),
        .tf32 = precision == KAS_PRECISION_TF32,
        .linear_policy = machine->gpu ? KAS_LINEAR_GPU : KAS_LINEAR_CPU,
        .lanes = machine->gpu ? 0 : (int)machine->lanes,
        .piece_bytes = machine->gpu ? 0 : kas_piece_bytes(KAS_LINEAR_CPU, (int)machine->cores),
        .unwritten = true};
    return kas_programs_build(replacement, &options, out);
}

kas_status kas_predict(const kas_machine *machine, const kas_net *net, kas_programs *programs,
                       int batch, kas_precision precision, kas_prediction *out)
{
    const kas_model_options options = {
        .net = net, .programs = programs, .batch = batch, .precision = precision};
    *out = (kas_prediction){0};
    KAS_TRY(kas_planned_bytes_plan(&options, KAS_TAPE_INFER, &out->planned));
    out->estimate = calloc((size_t)out->planned.passes + 1, sizeof *out->estimate);
    if (!out->estimate) {
        kas_prediction_free(out);
        return kas_fail(KAS_NO_MEMORY, "no memory for the times of %s", net->name);
    }
    for (int i = 0; i < out->planned.passes; i++) {
        out->estimate[i] = kas_predict_pass(machine, &out->planned.pass[i]);
        out->planned.pass[i].seconds = out->estimate[i].seconds;
        out->seconds += out->estimate[i].seconds;
        out->floor += out->estimate[i].floor;
    }
    return KAS_OK;
}

void kas_prediction_free(kas_prediction *p)
{
    kas_planned_bytes_free(&p->planned);
    free(p->estimate);
    *p = (kas_prediction){0};
}

/* ---- for a search ---------------------------------------------------------------------------- */

struct kas_predictor {
    kas_machine machine;
    const kas_net *net;
    int batch;
    kas_precision precision;
    double unmodified;
};

kas_status kas_predictor_create(const kas_machine *machine, const kas_net *net, int batch,
                                kas_precision precision, kas_predictor **out)
{
    kas_prediction plain;
    *out = NULL;
    KAS_TRY(kas_predict(machine, net, NULL, batch, precision, &plain));
    const double seconds = plain.seconds;
    kas_prediction_free(&plain);
    kas_predictor *p = malloc(sizeof *p);
    if (!p)
        return kas_fail(KAS_NO_MEMORY, "no memory for a predictor");
    *p = (kas_predictor){*machine, net, batch, precision, seconds};
    *out = p;
    return KAS_OK;
}

void kas_predictor_free(kas_predictor *predictor)
{
    free(predictor);
}

kas_status kas_predict_candidate(const kas_predictor *p, const kas_replacement *replacement,
                                 double *seconds)
{
    kas_programs programs;
    kas_prediction prediction;
    KAS_TRY(kas_predict_lower(&p->machine, replacement, p->batch, p->precision, false, &programs));
    const kas_status status =
        kas_predict(&p->machine, p->net, &programs, p->batch, p->precision, &prediction);
    if (status == KAS_OK) {
        *seconds = prediction.seconds;
        kas_prediction_free(&prediction);
    }
    kas_programs_free(&programs);
    return status;
}

double kas_predictor_unmodified(const kas_predictor *predictor)
{
    return predictor->unmodified;
}

double kas_predictor_margin(const kas_predictor *predictor)
{
    const kas_machine *m = &predictor->machine;
    return m->calibrated && m->margin >= 1 ? m->margin : 2;
}

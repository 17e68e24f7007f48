#include "host/predict/calibrate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/log.h"
#include "host/predict/turns.h"
#include "host/train/stats.h"

enum { BATCH = 32, NAS_PTE_EVERY = 5, NETS = 2, TURNS = 7 };
static const double most_seconds = 2;

/* The networks in which kernels are timed, with what share of the kernels: many channels behave
 * otherwise than few. */
static const struct {
    const char *name;
    int side;
    double share;
} nets[NETS] = {{"resnet20", 32, 0.75}, {"resnet18", 16, 0.25}};

/* One network, unmodified or with a kernel. The launches point into the programs, which point into
 * the sample. */
typedef struct timed {
    kas_programs programs;
    kas_turns_result result;
} timed;

typedef struct session {
    const kas_machine_calibration *o;
    kas_device *device;
    kas_net *net[NETS];
    kas_target *target[NETS];
    kas_sample *sample[NETS];
    int kernels[NETS], targets[NETS];
    timed *timed; /* [count]: the unmodified network, then its kernels, for each net */
    int count, disturbed;
} session;

/* ---- kernels --------------------------------------------------------------------------------- */

static bool is_nas_pte(int i)
{
    return i % NAS_PTE_EVERY == NAS_PTE_EVERY - 1;
}

/* Draws the kernels of one space. They refer to the sampler's targets, which are freed here. */
static kas_status draw_from(kas_space space, const kas_target *targets, int count, uint64_t seed,
                            int kernels, kas_sample *out)
{
    kas_sample_options options = kas_sample_defaults();
    kas_sampler *sampler;
    options.space = space;
    options.seed = seed;
    options.budget = (kas_budget){.max_flops_ratio = 1, .max_params_ratio = 1};
    KAS_TRY(kas_sampler_create(&options, targets, count, &sampler));
    kas_status status = KAS_OK;
    for (int i = 0; i < kernels && status == KAS_OK; i++) {
        if (is_nas_pte(i) != (space == KAS_SPACE_NAS_PTE))
            continue;
        status = kas_sampler_next(sampler, 0, &out[i]);
        out[i].replacement.target = targets;
    }
    kas_sampler_free(sampler);
    return status;
}

kas_status kas_machine_calibration_draw(const kas_target *targets, int count, uint64_t seed,
                                        int kernels, kas_sample *out)
{
    memset(out, 0, sizeof *out * (size_t)kernels);
    kas_status status = draw_from(KAS_SPACE_CANVAS, targets, count, seed, kernels, out);
    if (status == KAS_OK)
        status = draw_from(KAS_SPACE_NAS_PTE, targets, count, seed, kernels, out);
    for (int i = 0; i < kernels && status != KAS_OK; i++)
        kas_sample_free(&out[i]);
    return status;
}

static kas_status prepare(session *s)
{
    int left = s->o->kernels, room = NETS;
    for (int n = 0; n < NETS; n++) {
        s->kernels[n] = n + 1 < NETS ? (int)ceil(nets[n].share * s->o->kernels) : left;
        left -= s->kernels[n];
        room += s->kernels[n];
        KAS_TRY(kas_net_build(nets[n].name, nets[n].side, nets[n].side, 3, 10, &s->net[n]));
        KAS_TRY(kas_net_targets(s->net[n], NULL, &s->target[n], &s->targets[n]));
        s->sample[n] = calloc((size_t)s->kernels[n] + 1, sizeof *s->sample[n]);
        if (!s->sample[n])
            return kas_fail(KAS_NO_MEMORY, "no memory for %d kernels", s->kernels[n]);
        KAS_TRY(kas_machine_calibration_draw(s->target[n], s->targets[n], KAS_CALIBRATION_SEED,
                                             s->kernels[n], s->sample[n]));
    }
    s->timed = calloc((size_t)room, sizeof *s->timed);
    return s->timed ? KAS_OK : kas_fail(KAS_NO_MEMORY, "no memory for %d kernels", room);
}

static void release(session *s)
{
    for (int i = 0; i < s->count; i++) {
        kas_planned_bytes_free(&s->timed[i].result.planned);
        kas_programs_free(&s->timed[i].programs);
    }
    for (int n = 0; n < NETS; n++) {
        for (int i = 0; s->sample[n] && i < s->kernels[n]; i++)
            kas_sample_free(&s->sample[n][i]);
        free(s->sample[n]);
        free(s->target[n]);
        kas_net_free(s->net[n]);
    }
    free(s->timed);
}

/* ---- times ----------------------------------------------------------------------------------- */

/* Times one kernel; NULL: the unmodified network, which is needed. A kernel that cannot be lowered, or
 * does not fit the device or its compiler, is left out. */
static kas_status time_one(session *s, int n, kas_turns *turns, const kas_replacement *replacement)
{
    const kas_model_options options = {.batch = BATCH, .precision = s->o->precision};
    timed *t = &s->timed[s->count];
    kas_status status = kas_model_build_programs(
        &options, replacement, kas_device_get_info(s->device)->arch, &t->programs);
    if (status == KAS_OK)
        status = kas_turns_measure(turns, replacement ? &t->programs : NULL, TURNS, most_seconds,
                                   &t->result);
    if (status == KAS_OK) {
        s->count++;
        s->disturbed += t->result.disturbed;
        return KAS_OK;
    }
    kas_programs_free(&t->programs);
    return replacement && (status == KAS_UNSUPPORTED || status == KAS_NO_MEMORY)
               ? KAS_OK
               : kas_fail_context(status, "%s", nets[n].name);
}

static kas_status time_net(session *s, int n, int *done)
{
    kas_turns *turns;
    KAS_TRY(
        kas_turns_create(s->device, s->net[n], BATCH, s->o->precision, s->o->cache_dir, &turns));
    kas_status status = time_one(s, n, turns, NULL);
    for (int i = 0; i < s->kernels[n] && status == KAS_OK; i++) {
        status = time_one(s, n, turns, &s->sample[n][i].replacement);
        if (s->o->on_kernel)
            s->o->on_kernel(++*done, s->o->kernels);
    }
    kas_turns_free(turns);
    return status;
}

/* Leaves out what was disturbed, unless too little would be left. */
static void drop_disturbed(session *s)
{
    const bool enough = s->count - s->disturbed >= KAS_CALIBRATION_LEAST + NETS;
    int kept = 0;
    if (s->disturbed == 0)
        return;
    kas_warn("%d of %d measurements were disturbed by other programs and %s; calibrate again when "
             "nothing else runs",
             s->disturbed, s->count,
             enough ? "were left out" : "count all the same, because too few were not");
    for (int i = 0; i < s->count && enough; i++) {
        timed *t = &s->timed[i];
        if (!t->result.disturbed || !t->programs.count) {
            s->timed[kept++] = *t;
            continue;
        }
        kas_planned_bytes_free(&t->result.planned);
        kas_programs_free(&t->programs);
    }
    s->count = enough ? kept : s->count;
}

/* ---- error ----------------------------------------------------------------------------------- */

/* Predicts the sum of a network's launches. */
static double sum_of(const kas_machine *m, const kas_planned_bytes *planned)
{
    double sum = 0;
    for (int i = 0; i < planned->passes; i++)
        sum += kas_predict_pass(m, &planned->pass[i]).seconds;
    return sum;
}

/* Predicts every second kernel, from number `half` on, by what is fitted to the others, and adds
 * how large their predicted ratios to the unmodified network are beside the measured ones. */
static kas_status hold_out(const session *s, const kas_machine *before, int half,
                           kas_fit_network *network, kas_samples *errors, kas_samples *factors)
{
    kas_machine m = *before;
    double plain = 1;
    int count = 0;
    for (int i = 0; i < s->count; i++)
        if (!s->timed[i].programs.count || i % 2 != half)
            network[count++] =
                (kas_fit_network){&s->timed[i].result.planned, s->timed[i].result.seconds};
    kas_machine_fit(&m, network, count);
    for (int i = 0; i < s->count; i++) {
        const kas_turns_result *r = &s->timed[i].result;
        const double predicted = sum_of(&m, &r->planned);
        if (!s->timed[i].programs.count) {
            plain = predicted;
            continue;
        }
        if (i % 2 != half)
            continue;
        const double factor = predicted / plain / r->ratio;
        KAS_TRY(kas_samples_add(errors, fabs(factor - 1)));
        KAS_TRY(kas_samples_add(factors, factor));
    }
    return KAS_OK;
}

static kas_status fit(const session *s, kas_machine *m)
{
    kas_samples errors = {0}, factors = {0};
    kas_fit_network *network = calloc((size_t)s->count + 1, sizeof *network);
    kas_status status = KAS_OK;
    if (!network)
        return kas_fail(KAS_NO_MEMORY, "no memory for %d networks", s->count);
    for (int half = 0; half < 2 && status == KAS_OK; half++)
        status = hold_out(s, m, half, network, &errors, &factors);
    if (status == KAS_OK) {
        for (int i = 0; i < s->count; i++)
            network[i] = (kas_fit_network){&s->timed[i].result.planned, s->timed[i].result.seconds};
        kas_machine_fit(m, network, s->count);
        m->error = kas_samples_quantile(&errors, 0.5);
        m->margin = fmax(1, kas_samples_quantile(&factors, 0.95));
    }
    kas_samples_free(&errors);
    kas_samples_free(&factors);
    free(network);
    return status;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Measures bandwidth and rates and keeps the best that was seen, since other programs only make them
 * smaller. */
static kas_status measure(kas_device *device, kas_machine *m)
{
    for (int p = 0; p <= KAS_PRECISION_FP16; p++) {
        double bandwidth, rate;
        KAS_TRY(kas_machine_ceilings(device, (kas_precision)p, &bandwidth, &rate));
        m->rate[p] = fmax(m->rate[p], rate);
        m->memory_bandwidth = fmax(m->memory_bandwidth, bandwidth);
    }
    return KAS_OK;
}

/* Begins with what was known before, without what is measured. A kept machine that cannot be read is
 * about to be replaced. */
static void start(kas_device *device, kas_machine *m)
{
    const kas_device_info *info = kas_device_get_info(device);
    if (kas_machine_of(info, m) != KAS_OK) {
        kas_warn("%s; calibration begins with the built-in machine", kas_error());
        kas_machine_builtin_of(info, m);
    }
    m->memory_bandwidth = 0;
    memset(m->rate, 0, sizeof m->rate);
    snprintf(m->name, sizeof m->name, "%s", info->name);
    snprintf(m->device, sizeof m->device, "%s", info->name);
    m->calibrated = true;
}

kas_status kas_machine_calibrate(kas_device *device, const kas_machine_calibration *options,
                                 kas_machine *out)
{
    session s = {.o = options, .device = device};
    int done = 0;
    if (options->kernels < KAS_CALIBRATION_LEAST)
        return kas_fail(KAS_USAGE, "calibration with %d kernels; at least %d are needed",
                        options->kernels, KAS_CALIBRATION_LEAST);
    kas_status status = prepare(&s);
    if (status == KAS_OK)
        start(device, out);
    if (status == KAS_OK)
        status = measure(device, out);
    for (int n = 0; n < NETS && status == KAS_OK; n++)
        status = time_net(&s, n, &done);
    if (status == KAS_OK) /* again, minutes later */
        status = measure(device, out);
    if (status == KAS_OK) {
        out->outer_bandwidth = fmax(out->outer_bandwidth, out->memory_bandwidth);
        out->inner_bandwidth = fmax(out->inner_bandwidth, out->outer_bandwidth);
        drop_disturbed(&s);
        status = fit(&s, out);
    }
    release(&s);
    return status;
}

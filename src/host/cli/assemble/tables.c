/* Latency and loss of every kernel at every target. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "host/assemble/layer_seconds.h"
#include "host/assemble/potential.h"
#include "host/cli/assemble/assemble.h"
#include "host/cli/interrupt.h"
#include "host/core/log.h"
#include "host/study/options.h"

enum { TURNS = 5, MOST_SECONDS = 2 };

kas_status kas_assemble_describe(const kas_replacement *r, kas_buf *out)
{
    for (int k = 0; r && k < r->kernels; k++) {
        char name[KAS_NAME_SIZE];
        KAS_TRY(kas_kernel_name(&r->kernel[k], name));
        kas_buf_printf(out, "%s ", name);
    }
    for (int t = 0; r && t < r->solution.targets; t++) {
        const kas_kernel *kernel = kas_replacement_kernel(r, t);
        kas_buf_printf(out, "%d ", kernel ? (int)(kernel - r->kernel) : KAS_KEPT);
        for (int v = 0; kernel && v < KAS_MAX_VARS; v++)
            if (kas_kernel_vars(kernel) >> v & 1)
                kas_buf_printf(out, "%u ", r->solution.binding[t].value[KAS_SYM_X0 + v]);
    }
    return kas_buf_status(out);
}

static kas_status key_of(const kas_assemble *a, const char *kind, const kas_replacement *r,
                         char key[KAS_MEASURED_KEY])
{
    kas_buf text = {0};
    kas_buf_printf(&text, "%s ", kind);
    const kas_status status = kas_assemble_describe(r, &text);
    kas_buf_puts(&text, a->setting);
    if (status == KAS_OK)
        kas_measured_key(kas_buf_text(&text), key);
    kas_buf_free(&text);
    return status;
}

/* ---- latency --------------------------------------------------------------------------------- */

/* Measures a network in turns with the unmodified one; seconds [targets + 1] are those of its
 * layers. */
static kas_status measure(kas_assemble *a, const kas_replacement *replacement, double *seconds)
{
    const kas_model_options model = {.batch = KAS_LATENCY_BATCH};
    kas_programs programs;
    kas_turns_result result = {0};
    if (!a->turns)
        KAS_TRY(kas_turns_create(a->device, a->choices.net, KAS_LATENCY_BATCH, KAS_PRECISION_FP32,
                                 NULL, &a->turns));
    if (replacement)
        KAS_TRY(kas_model_build_programs(&model, replacement, kas_device_get_info(a->device)->arch,
                                         &programs));
    const kas_status status =
        kas_turns_measure(a->turns, replacement ? &programs : NULL, TURNS, MOST_SECONDS, &result);
    if (status == KAS_OK) {
        kas_layer_seconds(&result.planned, a->choices.target, a->choices.targets, seconds);
        if (result.disturbed)
            kas_warn("the machine was busy while a latency was measured; it may be wrong");
    }
    kas_planned_bytes_free(&result.planned);
    if (replacement)
        kas_programs_free(&programs);
    return status;
}

static kas_status measure_kept(kas_assemble *a, const char *what, const kas_replacement *r,
                               double *seconds)
{
    const int count = a->choices.targets + 1;
    const char *device = kas_device_get_info(a->device)->name;
    char key[KAS_MEASURED_KEY], kind[256];
    snprintf(kind, sizeof kind, "latency %d %.200s", a->common.threads, device);
    KAS_TRY(key_of(a, kind, r, key));
    const double *known = kas_measured_find(a->measured, key, count);
    if (known) {
        memcpy(seconds, known, sizeof *seconds * (size_t)count);
        return KAS_OK;
    }
    if (kas_interrupted())
        return kas_interrupt_status();
    KAS_TRY(measure(a, r, seconds));
    return kas_measured_add(a->measured, key, what, seconds, count);
}

static kas_status layer_seconds(kas_assemble *a, int kernel, double *seconds)
{
    const kas_choices *c = &a->choices;
    const bool plain = kernel == KAS_CHOICES_PLAIN;
    if (!a->measure)
        return kas_choices_predict(c, &a->machine, KAS_LATENCY_BATCH, kernel, seconds);
    return measure_kept(a, plain ? "unmodified" : c->name[kernel],
                        plain ? NULL : &c->everywhere[kernel], seconds);
}

kas_status kas_assemble_costs(kas_assemble *a)
{
    kas_choices *c = &a->choices;
    const size_t targets = (size_t)c->targets, each = targets + 1;
    double *seconds = calloc(each * ((size_t)c->kernels + 2), sizeof *seconds),
           *one = seconds + each;
    kas_status status =
        seconds ? KAS_OK
                : kas_fail(KAS_NO_MEMORY, "no memory for the times of %zu layers", targets);
    if (status == KAS_OK)
        status = layer_seconds(a, KAS_CHOICES_PLAIN, seconds);
    a->unmodified = 0;
    for (size_t t = 0; t <= targets && status == KAS_OK; t++)
        a->unmodified += seconds[t];
    for (int k = 0; k < c->kernels && status == KAS_OK;) {
        status = layer_seconds(a, k, one);
        if (status == KAS_ILLEGAL || status == KAS_UNSUPPORTED) {
            kas_warn("kernel %s is left out: %s", c->name[k], kas_error());
            kas_choices_drop(c, k);
            status = KAS_OK;
        } else if (status == KAS_OK) {
            /* [kernels][targets]; the next one overwrites what lies behind */
            one += targets;
            k++;
        }
    }
    if (status == KAS_OK && c->kernels == 0)
        status = kas_fail(KAS_NOTHING_VALID, "no kernel can be compiled; give other kernels");
    if (status == KAS_OK)
        kas_choices_costs(c, seconds, seconds + each, a->option);
    free(seconds);
    return status;
}

static kas_status predict(kas_assemble *a, const kas_replacement *replacement, double *seconds)
{
    if (!a->predictor)
        KAS_TRY(kas_predictor_create(&a->machine, a->choices.net, KAS_LATENCY_BATCH,
                                     KAS_PRECISION_FP32, &a->predictor));
    return kas_predict_candidate(a->predictor, replacement, seconds);
}

kas_status kas_assemble_seconds(kas_assemble *a, const kas_replacement *replacement,
                                double *seconds)
{
    const int count = a->choices.targets + 1;
    if (!a->measure)
        return predict(a, replacement, seconds);
    double *of = calloc((size_t)count, sizeof *of);
    if (!of)
        return kas_fail(KAS_NO_MEMORY, "no memory for the times of %d layers", count);
    const kas_status status = measure_kept(a, "assembled", replacement, of);
    *seconds = 0;
    for (int t = 0; t < count; t++)
        *seconds += of[t];
    free(of);
    return status;
}

/* ---- loss ------------------------------------------------------------------------------------ */

/* One imitation with the kernel wherever it fits: no target depends on another (train/imitate.h). A
 * kernel that diverges cannot be chosen. */
static kas_status imitation_losses(kas_assemble *a, int kernel, double *loss)
{
    kas_choices *c = &a->choices;
    char key[KAS_MEASURED_KEY], kind[64];
    snprintf(kind, sizeof kind, "imitation %d calibrated", a->images);
    KAS_TRY(key_of(a, kind, &c->everywhere[kernel], key));
    const double *known = kas_measured_find(a->measured, key, c->targets);
    if (known) {
        memcpy(loss, known, sizeof *loss * (size_t)c->targets);
        return KAS_OK;
    }
    kas_status status =
        kas_assemble_imitate(a, &c->everywhere[kernel], c->name[kernel], NULL, loss);
    if (status == KAS_NOTHING_VALID || status == KAS_ILLEGAL || status == KAS_UNSUPPORTED) {
        kas_warn("kernel %s is left out: %s", c->name[kernel], kas_error());
        for (int t = 0; t < c->targets; t++)
            loss[t] = NAN;
        status = KAS_OK;
    }
    return status == KAS_OK ? kas_measured_add(a->measured, key, c->name[kernel], loss, c->targets)
                            : status;
}

/* Networks whose potentials are computed, on all threads. */
typedef struct potentials {
    kas_assemble *a;
    const kas_replacement *replacement; /* [count]; NULL: the unmodified network */
    double *value;                      /* [count] */
    pthread_mutex_t lock;               /* of the file of what was measured */
} potentials;

static bool take_known(potentials *p, const char *key, double *value)
{
    pthread_mutex_lock(&p->lock);
    const double *known = kas_measured_find(p->a->measured, key, 1);
    if (known)
        *value = *known;
    pthread_mutex_unlock(&p->lock);
    return known;
}

static kas_status find_potential(void *context, kas_score_memory *memory, int item)
{
    potentials *p = context;
    kas_assemble *a = p->a;
    const kas_replacement *r = p->replacement ? &p->replacement[item] : NULL;
    const kas_potential_setup setup = {&a->choices, a->minibatch, a->seed, 1};
    char key[KAS_MEASURED_KEY];
    KAS_TRY(key_of(a, "fisher", r, key));
    if (take_known(p, key, &p->value[item]))
        return KAS_OK;
    if (kas_interrupted())
        return kas_interrupt_status();
    KAS_TRY(kas_potential(&setup, r, memory, &p->value[item]));
    pthread_mutex_lock(&p->lock);
    const kas_status status =
        kas_measured_add(a->measured, key, "Fisher potential", &p->value[item], 1);
    pthread_mutex_unlock(&p->lock);
    return status;
}

kas_status kas_assemble_potentials(void *context, int count, const kas_replacement *replacement,
                                   double *value)
{
    potentials p = {context, replacement, value, PTHREAD_MUTEX_INITIALIZER};
    return kas_score_each(p.a->common.threads, count, find_potential, &p);
}

/* The share of the potential that is lost when one target alone has the kernel; 0 where it becomes
 * larger, as NAS-PTE rejects only what is below the original. What has no potential cannot be
 * chosen. */
static kas_status fisher_losses(kas_assemble *a, int kernel, double original, double *loss)
{
    const kas_choices *c = &a->choices;
    const size_t targets = (size_t)c->targets;
    int *alone = malloc(sizeof *alone * (targets * targets + 1)), count = 0;
    kas_replacement *one = malloc(sizeof *one * (targets + 1));
    double *potential = malloc(sizeof *potential * (targets + 1));
    kas_status status = alone && one && potential
                            ? KAS_OK
                            : kas_fail(KAS_NO_MEMORY, "no memory for %zu layers", targets);
    for (int t = 0; t < c->targets && status == KAS_OK; t++)
        if (kas_choices_has(c, t, kernel + 1)) {
            one[count] = kas_choices_alone(c, kernel, t, &alone[(size_t)count * targets]);
            count++;
        }
    if (status == KAS_OK && count)
        status = kas_assemble_potentials(a, count, one, potential);
    for (int t = c->targets - 1; t >= 0 && status == KAS_OK; t--) {
        loss[t] = NAN;
        if (!kas_choices_has(c, t, kernel + 1))
            continue;
        const double lost = (original - potential[--count]) / original;
        loss[t] = isfinite(lost) ? fmax(0, lost) : NAN;
    }
    free(potential);
    free(one);
    free(alone);
    return status;
}

kas_status kas_assemble_losses(kas_assemble *a)
{
    const kas_choices *c = &a->choices;
    const int options = kas_choices_options(c);
    double *loss = calloc((size_t)c->targets + 1, sizeof *loss), original = 0;
    kas_status status =
        loss ? KAS_OK : kas_fail(KAS_NO_MEMORY, "no memory for %d layers", c->targets);
    if (status == KAS_OK && a->loss == KAS_ASSEMBLE_FISHER)
        status = kas_assemble_potentials(a, 1, NULL, &original);
    if (status == KAS_OK && a->loss == KAS_ASSEMBLE_FISHER && !(original > 0 && isfinite(original)))
        status = kas_fail(KAS_NOTHING_VALID,
                          "the Fisher potential of the unmodified network is %g: it tells nothing; "
                          "choose other images with --seed, or --loss imitation",
                          original);
    for (int k = 0; k < c->kernels && status == KAS_OK; k++) {
        status = a->loss == KAS_ASSEMBLE_FISHER ? fisher_losses(a, k, original, loss)
                                                : imitation_losses(a, k, loss);
        for (int t = 0; t < c->targets && status == KAS_OK; t++)
            a->option[t * options + k + 1].loss = loss[t];
    }
    for (int t = 0; t < c->targets; t++)
        a->option[t * options].loss = 0;
    free(loss);
    return status;
}

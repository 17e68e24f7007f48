#include "host/score/untrained/score.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/clock.h"
#include "host/core/thread.h"
#include "host/core/rank.h"
#include "host/score/untrained/scoring.h"

enum { LOSS = KAS_SCORE_DATA | KAS_SCORE_GRADIENTS, WEIGHTS = LOSS | KAS_SCORE_WEIGHT_GRADIENTS };

static const kas_score table[KAS_SCORES] = {
    [KAS_SCORE_FISHER] = {"fisher", LOSS, kas_score_fisher},
    [KAS_SCORE_FISHER_ALL] = {"fisher_all", LOSS, kas_score_fisher_all},
    [KAS_SCORE_SNIP] = {"snip", WEIGHTS, kas_score_snip},
    [KAS_SCORE_GRAD_NORM] = {"grad_norm", WEIGHTS, kas_score_grad_norm},
    [KAS_SCORE_NASWOT] = {"naswot", KAS_SCORE_DATA | KAS_SCORE_SIGNS, kas_score_naswot},
    [KAS_SCORE_SWAP] = {"swap", KAS_SCORE_DATA | KAS_SCORE_SIGNS, kas_score_swap},
    [KAS_SCORE_JACOB_COV] = {"jacob_cov", LOSS, kas_score_jacob_cov},
    [KAS_SCORE_ZICO] = {"zico", WEIGHTS | KAS_SCORE_OTHER_DATA, kas_score_zico},
    [KAS_SCORE_SYNFLOW] = {"synflow", 0, kas_score_synflow},
    [KAS_SCORE_ZEN] = {"zen", 0, kas_score_zen},
    [KAS_SCORE_MECO] = {"meco", 0, kas_score_meco},
    [KAS_SCORE_IMITATION] = {"imitation", KAS_SCORE_DATA | KAS_SCORE_OTHER_DATA,
                             kas_score_imitation},
    [KAS_SCORE_EXPRESSIVITY] = {"expressivity", 0, kas_score_expressivity},
    [KAS_SCORE_PROGRESSIVITY] = {"progressivity", 0, kas_score_progressivity},
    [KAS_SCORE_TRAINABILITY] = {"trainability", 0, kas_score_trainability},
    [KAS_SCORE_PARAMS] = {"params", KAS_SCORE_FIXED, kas_score_params},
    [KAS_SCORE_FLOPS] = {"flops", KAS_SCORE_FIXED, kas_score_flops},
    [KAS_SCORE_LAYERS] = {"layers", KAS_SCORE_FIXED, kas_score_layers},
    [KAS_SCORE_LATENCY] = {"latency", KAS_SCORE_FIXED | KAS_SCORE_MACHINE, kas_score_latency},
    [KAS_SCORE_AZ_NAS] = {"az_nas", KAS_SCORE_RANKS, NULL},
};

/* What az_nas ranks. */
static const int az_nas[KAS_SCORE_PARTS] = {KAS_SCORE_EXPRESSIVITY, KAS_SCORE_PROGRESSIVITY,
                                            KAS_SCORE_TRAINABILITY, KAS_SCORE_FLOPS};

const char *const kas_score_states[] = {"not-asked", "ok", "not-finite", "blind", NULL};

const kas_score *kas_score_get(int id)
{
    return &table[id];
}

int kas_score_parts(int id, int part[KAS_SCORE_PARTS])
{
    if (id == KAS_SCORE_AZ_NAS)
        memcpy(part, az_nas, sizeof az_nas);
    else
        part[0] = id;
    return id == KAS_SCORE_AZ_NAS ? KAS_SCORE_PARTS : 1;
}

/* ---- which ones ------------------------------------------------------------------------------ */

static kas_status unknown(const char *name, size_t length)
{
    char known[512] = "";
    size_t at = 0;
    for (int i = 0; i < KAS_SCORES; i++)
        at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", i ? ", " : "", table[i].name);
    return kas_fail(KAS_USAGE, "--scores: there is no score \"%.*s\"; there are %s, and all",
                    (int)length, name, known);
}

kas_status kas_scores_parse(const char *list, bool asked[KAS_SCORES])
{
    memset(asked, 0, sizeof *asked * KAS_SCORES);
    for (const char *name = list;; name++) {
        const size_t length = strcspn(name, ",");
        const bool all = length == 3 && strncmp(name, "all", 3) == 0;
        bool known = all;
        for (int i = 0; i < KAS_SCORES; i++)
            if (all ||
                (strlen(table[i].name) == length && strncmp(name, table[i].name, length) == 0))
                asked[i] = known = true;
        if (!known)
            return unknown(name, length);
        name += length;
        if (!*name)
            break;
    }
    for (int i = 0; asked[KAS_SCORE_AZ_NAS] && i < KAS_SCORE_PARTS; i++)
        asked[az_nas[i]] = true;
    return KAS_OK;
}

int kas_scores_minibatches(const bool asked[KAS_SCORES])
{
    unsigned needs = 0;
    for (int i = 0; i < KAS_SCORES; i++)
        needs |= asked[i] ? table[i].needs : 0;
    return needs & KAS_SCORE_OTHER_DATA ? 2 : needs & KAS_SCORE_DATA ? 1 : 0;
}

kas_status kas_score_check(const kas_score_setup *setup)
{
    for (int i = 0; i < KAS_SCORES; i++) {
        if (!setup->asked[i])
            continue;
        if (table[i].needs & KAS_SCORE_DATA && !setup->minibatch)
            return kas_fail(
                KAS_USAGE, "the score %s needs images: give --dataset F.h5, or --scores without it",
                table[i].name);
        if (table[i].needs & KAS_SCORE_MACHINE && !setup->predictor)
            return kas_fail(KAS_USAGE, "the score %s needs a machine model", table[i].name);
    }
    return KAS_OK;
}

/* ---- passes over the data -------------------------------------------------------------------- */

void kas_score_memory_free(kas_score_memory *memory)
{
    for (int i = 0; i < KAS_SCORE_MEMORIES; i++)
        kas_interpret_memory_free(&memory->block[i]);
    for (int b = 0; b < KAS_SCORE_MINIBATCHES; b++)
        kas_interpret_free(memory->original[b]);
    kas_normals_free(&memory->normals);
}

typedef struct each {
    kas_score_work *work;
    void *context;
    kas_score_memory *memory; /* of each thread */
} each;

static kas_status each_item(void *context, int thread, int item)
{
    const each *e = context;
    return e->work(e->context, &e->memory[thread], item);
}

kas_status kas_score_each(int threads, int items, kas_score_work *work, void *context)
{
    threads = kas_thread_count(threads, items);
    each e = {work, context, calloc((size_t)threads, sizeof *e.memory)};
    if (!e.memory)
        return kas_fail(KAS_NO_MEMORY, "no memory for %d threads", threads);
    const kas_status status = kas_thread_each(threads, items, each_item, &e);
    for (int i = 0; i < threads; i++)
        kas_score_memory_free(&e.memory[i]);
    free(e.memory);
    return status;
}

const kas_minibatch *kas_scoring_minibatch(const kas_scoring *s, bool other)
{
    return &s->setup->minibatch[(s->minibatch + other) % KAS_SCORE_MINIBATCHES];
}

static kas_status prepare(kas_scoring *s)
{
    const kas_interpret_options options = {
        .net = s->setup->net,
        .replacement = s->replacement,
        .batch = s->setup->batch,
        .backward = s->needs & KAS_SCORE_GRADIENTS,
        .weight_gradients = s->needs & KAS_SCORE_WEIGHT_GRADIENTS,
        .signs = s->needs & KAS_SCORE_SIGNS,
    };
    if (s->data)
        return KAS_OK;
    KAS_TRY(kas_interpret_create(&options, &s->memory->block[0], &s->data));
    return kas_interpret_draw(s->data, s->seed, KAS_INTERPRET_TRAINING, &s->memory->normals);
}

static bool logits_finite(const kas_scoring *s)
{
    const int last = s->setup->net->layers - 1;
    const float *logit = s->data->act[last];
    for (size_t i = 0; i < kas_interpret_elements(s->data, last); i++)
        if (!isfinite(logit[i]))
            return false;
    return true;
}

kas_status kas_scoring_forward(kas_scoring *s, bool other, bool *finite)
{
    KAS_TRY(prepare(s));
    if (s->images != other) {
        kas_interpret_forward(s->data, kas_scoring_minibatch(s, other)->image);
        s->images = other;
        s->gradient = KAS_GRADIENT_NONE;
    }
    *finite = logits_finite(s);
    if (!*finite && !s->layer[0])
        snprintf(s->layer, sizeof s->layer, "%s",
                 s->setup->net->layer[kas_interpret_not_finite(s->data)].name);
    return KAS_OK;
}

/* The layer at which the backward pass of the loss may end. */
static int lowest(const kas_scoring *s)
{
    const kas_net *net = s->setup->net;
    int layer = net->layers - 1;
    if (s->needs & KAS_SCORE_WEIGHT_GRADIENTS)
        return 0;
    for (int i = net->layers - 1; i > 0; i--)
        if (s->setup->asked[KAS_SCORE_FISHER_ALL] && kas_layer_is_linear(&net->layer[i]))
            layer = i;
    for (int t = 0; t < s->setup->targets; t++)
        layer = s->setup->target[t].layer < layer ? s->setup->target[t].layer : layer;
    return layer;
}

kas_status kas_scoring_gradient(kas_scoring *s, bool other, kas_score_gradient gradient,
                                bool *finite)
{
    const int last = s->setup->net->layers - 1;
    KAS_TRY(kas_scoring_forward(s, other, finite));
    if (s->gradient == gradient)
        return KAS_OK;
    if (gradient == KAS_GRADIENT_LOSS) {
        kas_interpret_loss(s->data, kas_scoring_minibatch(s, other)->label);
        kas_interpret_backward(s->data, last, lowest(s), true);
    } else {
        kas_interpret_set_gradient(s->data, last, 1);
        kas_interpret_backward(s->data, last, 0, false);
    }
    s->gradient = gradient;
    return KAS_OK;
}

/* ---- one network ----------------------------------------------------------------------------- */

static kas_status compute(kas_scoring *s, int id, kas_scored *out)
{
    double value = 0;
    const kas_status status = table[id].compute(s, &value);
    if (status == KAS_UNSUPPORTED && table[id].needs != (KAS_SCORE_FIXED | KAS_SCORE_MACHINE)) {
        out->state[id] = KAS_SCORE_BLIND;
        return KAS_OK;
    }
    out->state[id] = isfinite(value) ? KAS_SCORED : KAS_SCORE_NOT_FINITE;
    out->value[id] = isfinite(value) ? value : NAN;
    return status;
}

/* Returns the score that is computed as number `n`. jacob_cov is the first: its gradients take the
 * place of those of the loss, which the scores behind it share. */
static int in_turn(int n)
{
    return n == 0 ? KAS_SCORE_JACOB_COV : n <= KAS_SCORE_JACOB_COV ? n - 1 : n;
}

/* Computes those of the asked scores that depend on the weights, or not. */
static kas_status compute_some(const kas_score_setup *setup, const kas_replacement *replacement,
                               int minibatch_, uint64_t seed, bool fixed, kas_score_memory *memory,
                               kas_scored *out)
{
    kas_scoring s = {.setup = setup,
                     .replacement = replacement,
                     .seed = seed,
                     .minibatch = minibatch_,
                     .memory = memory,
                     .images = -1};
    kas_status status = KAS_OK;
    for (int i = 0; i < KAS_SCORES; i++)
        s.needs |= setup->asked[i] ? table[i].needs : 0;
    for (int n = 0; n < KAS_SCORES && status == KAS_OK; n++) {
        const int i = in_turn(n);
        if (setup->asked[i] && table[i].compute && fixed == !!(table[i].needs & KAS_SCORE_FIXED))
            status = compute(&s, i, out);
    }
    kas_interpret_free(s.data);
    if (s.layer[0])
        memcpy(out->layer, s.layer, sizeof out->layer);
    return status;
}

static kas_scored nothing(void)
{
    kas_scored none = {.cpu_seconds = 0};
    for (int i = 0; i < KAS_SCORES; i++)
        none.value[i] = NAN;
    return none;
}

/* Adds the scores of a draw to the sums of earlier ones. */
static void add_draw(kas_scored *sum, const kas_scored *draw, bool first)
{
    for (int i = 0; i < KAS_SCORES; i++) {
        if (draw->state[i] == KAS_SCORE_NOT_ASKED)
            continue;
        sum->value[i] = first ? draw->value[i] : sum->value[i] + draw->value[i];
        if (first || draw->state[i] != KAS_SCORED)
            sum->state[i] = draw->state[i];
    }
    if (draw->layer[0])
        memcpy(sum->layer, draw->layer, sizeof sum->layer);
}

kas_status kas_score_average(const kas_score_setup *setup, const kas_replacement *replacement,
                             int minibatch_, uint64_t seed, int draws, kas_score_memory *memory,
                             kas_scored *out)
{
    const double begin = kas_thread_seconds();
    *out = nothing();
    for (int d = 0; d < draws; d++) {
        kas_scored draw = nothing();
        KAS_TRY(
            compute_some(setup, replacement, minibatch_, seed + (uint64_t)d, false, memory, &draw));
        add_draw(out, &draw, d == 0);
    }
    for (int i = 0; i < KAS_SCORES; i++)
        out->value[i] /= draws;
    KAS_TRY(compute_some(setup, replacement, minibatch_, seed, true, memory, out));
    out->cpu_seconds = kas_thread_seconds() - begin;
    return KAS_OK;
}

/* ---- all networks ---------------------------------------------------------------------------- */

kas_status kas_score_rank(const kas_score_setup *setup, kas_scored *kernels, int count)
{
    if (!setup->asked[KAS_SCORE_AZ_NAS] || count == 0)
        return KAS_OK;
    double *all = malloc(sizeof *all * (KAS_SCORE_PARTS + 1) * (size_t)count);
    const double *value[KAS_SCORE_PARTS];
    if (!all)
        return kas_fail(KAS_NO_MEMORY, "no memory for %d ranks", count);
    for (int s = 0; s < KAS_SCORE_PARTS; s++) {
        for (int k = 0; k < count; k++)
            all[s * count + k] = kernels[k].value[az_nas[s]];
        value[s] = all + s * count;
    }
    double *combined = all + KAS_SCORE_PARTS * count;
    const kas_status status = kas_combine_ranks(count, KAS_SCORE_PARTS, value, combined);
    for (int k = 0; k < count && status == KAS_OK; k++) {
        kas_score_state *state = kernels[k].state;
        kernels[k].value[KAS_SCORE_AZ_NAS] = combined[k];
        state[KAS_SCORE_AZ_NAS] = KAS_SCORED;
        for (int s = KAS_SCORE_PARTS - 1; s >= 0; s--) /* that of the first without a value */
            if (state[az_nas[s]] != KAS_SCORED)
                state[KAS_SCORE_AZ_NAS] = state[az_nas[s]];
    }
    free(all);
    return status;
}

#include "host/search/legality.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/search/originals.h"
#include "host/space/file/assignment.h"

struct kas_legality {
    kas_minibatch minibatch[KAS_SCORE_MINIBATCHES];
    kas_score_setup setup;
    kas_score_memory memory[KAS_LEGALITY_PREPARED];
    struct {
        char name[KAS_NAME_SIZE];
        double score;
    } prepared[KAS_LEGALITY_PREPARED];
    int score;
    double original, tolerance;
    bool finds_copies;
    kas_originals originals; /* where copies are found */
    kas_budget budget;       /* of the study: it decides the free sizes of kernels */
};

kas_status kas_legality_parse(const char *text, int *score, double *tolerance)
{
    static const int scores[] = {KAS_SCORE_FISHER, KAS_SCORE_IMITATION};
    char end;
    *tolerance = 0;
    for (size_t i = 0; i < sizeof scores / sizeof *scores; i++) {
        const char *name = kas_score_get(*score = scores[i])->name;
        const size_t length = strlen(name);
        if (strncmp(text, name, length) != 0)
            continue;
        if (!text[length])
            return KAS_OK;
        if (sscanf(text + length, ":%lf%c", tolerance, &end) == 1 && *tolerance >= 0 &&
            *tolerance <= 1)
            return KAS_OK;
    }
    return kas_fail(
        KAS_USAGE,
        "--legality: expected fisher or imitation, or one of them with a tolerance from "
        "0 to 1, such as imitation:0.9, found \"%s\"",
        text);
}

kas_status kas_legality_score(const kas_legality *l, const kas_replacement *replacement,
                              kas_score_memory *memory, double *out)
{
    kas_scored scored;
    KAS_TRY(kas_score_average(&l->setup, replacement, 0, l->setup.seed, 1, memory, &scored));
    *out = scored.value[l->score];
    return KAS_OK;
}

double kas_legality_original(const kas_legality *l)
{
    return l->original;
}

double kas_legality_least(const kas_legality *l)
{
    return l->original * (1 - l->tolerance);
}

static kas_status prepare(kas_legality *l, const kas_search_options *options,
                          const kas_problem *problem, int batch)
{
    KAS_TRY(kas_legality_parse(options->legality, &l->score, &l->tolerance));
    l->setup = (kas_score_setup){.net = problem->net,
                                 .target = problem->target,
                                 .targets = problem->targets,
                                 .batch = batch,
                                 .seed = options->seed,
                                 .minibatch = l->minibatch,
                                 .trained = kas_problem_init(problem)};
    l->setup.asked[l->score] = true;
    l->budget = kas_search_budget(options);
    l->finds_copies =
        l->score == KAS_SCORE_IMITATION && options->strategy == KAS_STRATEGY_EVOLUTION;
    KAS_TRY(kas_minibatches_draw(problem->dataset, batch, kas_scores_minibatches(l->setup.asked),
                                 options->seed, l->minibatch));
    KAS_TRY(kas_legality_score(l, NULL, l->memory, &l->original));
    return isfinite(l->original)
               ? KAS_OK
               : kas_fail(KAS_BAD_INPUT,
                          "--legality: the score %s of the unmodified network is not finite, so "
                          "nothing can be compared with it",
                          kas_score_get(l->score)->name);
}

kas_status kas_legality_open(const kas_search_options *options, const kas_problem *problem,
                             int batch, kas_legality **out)
{
    *out = NULL;
    if (!*options->legality)
        return KAS_OK;
    kas_legality *l = calloc(1, sizeof *l);
    if (!l)
        return kas_fail(KAS_NO_MEMORY, "no memory for the check of legality");
    const kas_status status = prepare(l, options, problem, batch);
    if (status == KAS_OK)
        *out = l;
    else
        kas_legality_close(l);
    return status;
}

void kas_legality_close(kas_legality *l)
{
    if (!l)
        return;
    for (int m = 0; m < KAS_SCORE_MINIBATCHES; m++)
        kas_minibatch_free(&l->minibatch[m]);
    for (int t = 0; t < KAS_LEGALITY_PREPARED; t++)
        kas_score_memory_free(&l->memory[t]);
    kas_originals_free(&l->originals);
    free(l);
}

kas_status kas_legality_prepare(kas_legality *l, const char *name,
                                const kas_replacement *replacement, int thread, int place)
{
    const kas_status status =
        kas_legality_score(l, replacement, &l->memory[thread], &l->prepared[place].score);
    snprintf(l->prepared[place].name, KAS_NAME_SIZE, "%s", status == KAS_OK ? name : "");
    return status == KAS_ILLEGAL || status == KAS_UNSUPPORTED ? KAS_OK : status;
}

static kas_status find_score(kas_legality *l, const kas_replacement *replacement, const char *name,
                             double *out)
{
    for (int i = 0; i < KAS_LEGALITY_PREPARED && *name; i++)
        if (strcmp(l->prepared[i].name, name) == 0) {
            *out = l->prepared[i].score;
            return KAS_OK;
        }
    return kas_legality_score(l, replacement, l->memory, out);
}

/* Scores a kernel's text. */
static kas_status score_text(void *context, const char *name, const char *kernel,
                             kas_score_memory *memory, double *out)
{
    const kas_legality *l = context;
    kas_assignment kernels;
    kas_replacement replacement;
    *out = NAN;
    KAS_TRY(kas_assignment_read_json(name, kernel, strlen(kernel), &kernels));
    kas_status status =
        kas_assignment_fit(&kernels, l->setup.target, l->setup.targets, &l->budget, &replacement);
    kas_assignment_free(&kernels);
    KAS_TRY(status);
    status = kas_legality_score(l, &replacement, memory, out);
    kas_replacement_free(&replacement);
    return kas_is_misfit(status) ? KAS_OK : status;
}

kas_status kas_legality_remember(kas_legality *l, const kas_work *work)
{
    return l->finds_copies ? kas_originals_wait(&l->originals, work) : KAS_OK;
}

/* Rejects a candidate that computes what an earlier one does, and remembers another one. */
static kas_status judge_copy(kas_legality *l, double found, kas_work *work)
{
    KAS_TRY(kas_originals_settle(&l->originals, work, score_text, l));
    const char *original = kas_originals_of(&l->originals, work, found);
    if (!original)
        return kas_originals_add(&l->originals, work, found);
    work->state = KAS_WORK_LOW_SCORE;
    snprintf(work->reason, sizeof work->reason,
             "it computes what %s computes: with as many weights it imitates the convolutions "
             "equally well (score imitation %.9g)",
             original, found);
    return KAS_OK;
}

kas_status kas_legality_judge(kas_legality *l, const kas_replacement *replacement, kas_work *work)
{
    double found;
    const double least = kas_legality_least(l);
    const kas_status status = find_score(l, replacement, work->name, &found);
    if (status == KAS_ILLEGAL || status == KAS_UNSUPPORTED)
        return KAS_OK;
    KAS_TRY(status);
    if (found >= least)
        return l->finds_copies ? judge_copy(l, found, work) : KAS_OK;
    work->state = KAS_WORK_LOW_SCORE;
    const char *name = kas_score_get(l->score)->name;
    if (isfinite(found))
        snprintf(work->reason, sizeof work->reason,
                 "score %s %.4g; that of the unmodified network is %.4g, and --legality %s:%g "
                 "allows %.4g",
                 name, found, l->original, name, l->tolerance, least);
    else
        snprintf(work->reason, sizeof work->reason, "the score %s at initialisation is not finite",
                 name);
    return KAS_OK;
}

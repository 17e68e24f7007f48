#include "host/search/prefilter.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kas_prefilter {
    int part[KAS_SCORE_PARTS], parts;
    kas_minibatch minibatch[KAS_SCORE_MINIBATCHES];
    kas_score_setup setup;
    kas_score_memory memory;
};

kas_status kas_prefilter_parse(const char *text, int *score, int *proposals)
{
    const char *colon = strrchr(text, ':');
    const size_t length = colon ? (size_t)(colon - text) : 0;
    char end, names[512] = "";
    size_t at = 0;
    for (int i = 0; i < KAS_SCORES; i++) {
        const kas_score *s = kas_score_get(i);
        at += (size_t)snprintf(names + at, sizeof names - at, "%s%s", at ? ", " : "", s->name);
        if (strlen(s->name) == length && strncmp(s->name, text, length) == 0 &&
            sscanf(colon, ":%d%c", proposals, &end) == 1 && *proposals >= 2 &&
            *proposals <= KAS_PREFILTER_MOST) {
            *score = i;
            return KAS_OK;
        }
    }
    return kas_fail(KAS_USAGE,
                    "--prefilter: expected SCORE:K with K from 2 to %d, such as naswot:4, found "
                    "\"%s\"; the scores are %s",
                    KAS_PREFILTER_MOST, text, names);
}

static kas_status prepare(kas_prefilter *p, const kas_search_options *options,
                          const kas_problem *problem, const kas_predictor *predictor)
{
    int proposals, score;
    KAS_TRY(kas_prefilter_parse(options->prefilter, &score, &proposals));
    p->parts = kas_score_parts(score, p->part);
    p->setup = (kas_score_setup){.net = problem->net,
                                 .target = problem->target,
                                 .targets = problem->targets,
                                 .batch = KAS_PREFILTER_BATCH,
                                 .seed = options->seed,
                                 .minibatch = p->minibatch,
                                 .trained = kas_problem_init(problem),
                                 .predictor = predictor};
    for (int i = 0; i < p->parts; i++)
        p->setup.asked[p->part[i]] = true;
    KAS_TRY(kas_score_check(&p->setup));
    return kas_minibatches_draw(problem->dataset, KAS_PREFILTER_BATCH,
                                kas_scores_minibatches(p->setup.asked), options->seed,
                                p->minibatch);
}

kas_status kas_prefilter_open(const kas_search_options *options, const kas_problem *problem,
                              const kas_predictor *predictor, kas_prefilter **out)
{
    *out = NULL;
    if (!*options->prefilter)
        return KAS_OK;
    kas_prefilter *p = calloc(1, sizeof *p);
    if (!p)
        return kas_fail(KAS_NO_MEMORY, "no memory for the scores of proposals");
    const kas_status status = prepare(p, options, problem, predictor);
    if (status == KAS_OK)
        *out = p;
    else
        kas_prefilter_close(p);
    return status;
}

void kas_prefilter_close(kas_prefilter *p)
{
    if (!p)
        return;
    for (int m = 0; m < KAS_SCORE_MINIBATCHES; m++)
        kas_minibatch_free(&p->minibatch[m]);
    kas_score_memory_free(&p->memory);
    free(p);
}

int kas_prefilter_scores(const kas_prefilter *prefilter)
{
    return prefilter->parts;
}

kas_status kas_prefilter_score(kas_prefilter *p, const kas_replacement *replacement,
                               double score[KAS_SCORE_PARTS])
{
    kas_scored scored;
    for (int i = 0; i < p->parts; i++)
        score[i] = NAN;
    const kas_status status =
        kas_score_average(&p->setup, replacement, 0, p->setup.seed, 1, &p->memory, &scored);
    if (status == KAS_ILLEGAL || status == KAS_UNSUPPORTED)
        return KAS_OK;
    KAS_TRY(status);
    for (int i = 0; i < p->parts; i++)
        score[i] = scored.value[p->part[i]];
    return KAS_OK;
}

/* Strategies walked through without a search: the results of candidates are made up from their
 * names. */
#ifndef KAS_TESTS_UNIT_STRATEGY_WALK_H
#define KAS_TESTS_UNIT_STRATEGY_WALK_H

#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "host/core/log.h"
#include "host/strategy/strategy.h"
#include "host/study/problem.h"
#include "support/folder.h"

enum { MOST = 128 };

static kas_net *net;
static kas_target *target;
static int targets;

/* The candidates of a study, as the store lists them. */
typedef struct study {
    kas_work work[MOST];
    int count;
} study;

static inline int set_up(void **state)
{
    const kas_search_options o = {.net = "resnet20", .network = ""};
    kas_log_set_level(KAS_LOG_QUIET);
    if (kas_problem_targets(&o, 16, 16, 3, 10, &net, &target, &targets) != KAS_OK)
        return -1;
    return make_folder(state);
}

static inline int tear_down(void **state)
{
    kas_net_free(net);
    free(target);
    net = NULL;
    return remove_folder(state);
}

static inline kas_search_options options_of(kas_strategy_kind strategy)
{
    kas_search_options o = kas_search_options_default();
    o.recipe.epochs = 9;
    o.strategy = strategy;
    o.objective = KAS_OBJECTIVE_ACCURACY;
    o.seed = 3;
    if (strategy == KAS_STRATEGY_EVOLUTION)
        o.population = 12, o.tournament = 3, o.generation = 4;
    if (strategy == KAS_STRATEGY_TREE)
        o.generation = 4, o.exploration = 1;
    return o;
}

static inline void forget(study *s)
{
    for (int i = 0; i < s->count; i++)
        kas_work_clear(&s->work[i]);
    s->count = 0;
}

/* An accuracy that only the name decides; every seventh candidate diverges. */
static inline void give_result(kas_work *w)
{
    const uint64_t number = strtoull(w->name, NULL, 16);
    if (w->state != KAS_WORK_QUEUED)
        return;
    w->state = number % 7 ? KAS_WORK_FINISHED : KAS_WORK_DIVERGED;
    w->measured = kas_measured_unknown();
    w->measured.accuracy = (double)(number % 10007) / 10007;
}

/* Walks from the first candidate to number `until`: what the study has must be what the strategy
 * gives, and what it has not is added. */
static inline void walk(kas_strategy *strategy, study *s, int until)
{
    for (int k = 0; k < until; k++) {
        kas_work work;
        bool ready;
        OK(strategy->next(strategy->context, s->work, s->count, &work, &ready));
        assert_true(ready);
        assert_true(k <= s->count && k < MOST);
        if (k < s->count) {
            assert_string_equal(work.name, s->work[k].name);
            assert_string_equal(work.origin, s->work[k].origin);
            assert_string_equal(work.parents, s->work[k].parents);
            assert_int_equal(work.generation, s->work[k].generation);
            assert_int_equal(work.attempt, s->work[k].attempt);
            kas_work_clear(&work);
            continue;
        }
        work.index = k;
        give_result(&work);
        s->work[s->count++] = work;
    }
}

static inline void open_and_walk(const kas_search_options *o, const kas_forecast *forecast,
                                 study *s, int until)
{
    kas_strategy strategy;
    OK(kas_strategy_open(o, target, targets, "", forecast, &strategy));
    walk(&strategy, s, until);
    kas_strategy_close(&strategy);
}

static inline bool is_legal(const kas_work *w)
{
    kas_replacement r;
    const kas_search_options o = options_of(KAS_STRATEGY_RANDOM);
    const kas_status status =
        kas_problem_place(&o, w->name, w->kernel, w->gains, target, targets, &r);
    if (status == KAS_OK)
        kas_replacement_free(&r);
    return status == KAS_OK;
}

static inline const kas_work *named(const study *s, const char *name)
{
    for (int i = 0; i < s->count; i++)
        if (strcmp(s->work[i].name, name) == 0)
            return &s->work[i];
    return NULL;
}

static inline int known_in(const study *s)
{
    int known = 0;
    for (int i = 0; i < s->count; i++)
        known += strncmp(s->work[i].origin, "known:", 6) == 0;
    return known;
}

#endif

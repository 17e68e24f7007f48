#include "host/search/ancestors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/clock.h"
#include "host/core/log.h"
#include "host/core/thread.h"
#include "host/leaderboard/objective.h"
#include "host/search/kept_scores.h"
#include "host/space/evolve/evolve.h"
#include "host/space/name_set.h"
#include "host/space/sample/sampler.h"
#include "host/strategy/from.h"
#include "host/strategy/tournament.h"

enum {
    BROOD = 20,         /* kernels that are made, and then scored, at once */
    POOL = 30,          /* of which parents are drawn */
    TOURNAMENT = 5,     /* of these */
    DRAWN = 5,          /* one in so many is drawn by the sampler */
    DRAWS = 400,        /* attempts of the sampler, after which somebody may interrupt */
    MOST_DRAWS = 20000, /* attempts in a row that give no kernel; then the sampler has no more */
    MOST_TRIES = 10000, /* attempts in a row that give no new kernel */
    MOST_UNSCORED = 500 /* kernels in a row that are too slow, or cannot be evaluated */
};
/* A kernel that gives less of the convolutions' variance loses too much; evolution's --legality
 * rejects it. */
static const double LEAST = 0.1;
/* Of what the best gives, likewise. */
static const double SHARE = 0.5;
/* The relative difference of the scores of kernels that learn the same. */
static const double TWINS = 1e-4;
/* Relative differences of scores and latencies below it say nothing. */
static const double CHANCE = 0.05;
/* Attempts at children have other numbers here than in the generations of the study. */
static const uint64_t FIRST_KEY = (uint64_t)1 << 40;

typedef struct ancestor {
    char name[KAS_NAME_SIZE], origin[64];
    char *text;                  /* a kernel file, or a file of layers */
    kas_kernel *parent;          /* what children are made of; NULL: it has no children */
    kas_replacement replacement; /* only until it is scored */
    int size;                    /* nodes */
    bool given;                  /* by --from: it stays */
    double ratio, score;         /* predicted, to the unmodified network; NaN: not scored */
} ancestor;

typedef struct evolution {
    const kas_search_options *options;
    const kas_problem *problem;
    kas_search_forecast *forecast;
    kas_forecast ask;
    kas_score_setup setup;
    kas_minibatch minibatch[KAS_SCORE_MINIBATCHES];
    kas_score_memory memory[KAS_THREADS_MOST];
    const kas_ancestors_run *run;
    kas_kept_scores kept;
    kas_elapsed began;
    int threads;
    kas_sample_options sample;
    kas_sampler *sampler;
    kas_children *children;
    kas_name_set names;
    kas_first *first;             /* [firsts] known, and of --from */
    int firsts, next;             /* next: the first that is not in the brood yet */
    ancestor *list;               /* [count], the best first; behind them the brood */
    int count, brood, room, most; /* most: kernels of generation 0, unless more are kept anyway */
    int scored, slow;             /* new ones that were scored; those that were too slow */
    int tries, unscored;          /* in a row */
    int draws;                    /* of the sampler in a row, without a kernel */
    uint64_t key;
} evolution;

/* ---- a kernel -------------------------------------------------------------------------------- */

static bool is_new(const ancestor *a)
{
    return strcmp(a->origin, KAS_ORIGIN_ANCESTOR) == 0;
}

static void clear(ancestor *a)
{
    free(a->text);
    free(a->parent);
    kas_replacement_free(&a->replacement);
}

/* Writes down what may become a candidate, and what its children would be made of. */
static kas_status describe(ancestor *a)
{
    KAS_TRY(kas_sample_text(&a->replacement, &a->text));
    if (a->replacement.kernel_of)
        return KAS_OK;
    a->parent = malloc(sizeof *a->parent);
    if (!a->parent)
        return kas_fail(KAS_NO_MEMORY, "an ancestor: out of memory");
    *a->parent = *a->replacement.kernel;
    return kas_kernel_infer(a->parent);
}

/* With --keep-slower, what is left of it is what is scored; *left says whether anything is. */
static kas_status keep(const evolution *e, ancestor *a, bool *left)
{
    char name[KAS_NAME_SIZE];
    *left = true;
    if (!e->ask.keep)
        return KAS_OK;
    const bool quiet = kas_quiet(true);
    const kas_status status = e->ask.keep(e->ask.context, &a->replacement, name);
    kas_quiet(quiet);
    *left = status == KAS_OK;
    return kas_is_misfit(status) ? KAS_OK : status;
}

/* Puts a kernel into the brood, and takes over what it holds. */
static kas_status append(evolution *e, ancestor *a)
{
    bool left;
    a->size = a->replacement.kernel_of ? 0 : a->replacement.kernel->nodes;
    kas_status status = describe(a);
    if (status == KAS_OK)
        status = keep(e, a, &left);
    if (status != KAS_OK || !left) {
        clear(a);
        return status;
    }
    e->list[e->count + e->brood++] = *a;
    e->tries = 0;
    return KAS_OK;
}

/* ---- where they come from -------------------------------------------------------------------- */

static kas_status add_first(evolution *e, kas_first *first)
{
    bool news;
    ancestor a = {.replacement = first->replacement,
                  .given = strncmp(first->origin, "from:", strlen("from:")) == 0};
    memcpy(a.name, first->name, sizeof a.name);
    memcpy(a.origin, first->origin, sizeof a.origin);
    first->replacement = (kas_replacement){0};
    KAS_TRY(kas_name_set_add(&e->names, a.name, &news));
    return append(e, &a);
}

static bool is_drawn_out(const evolution *e)
{
    return e->draws >= MOST_DRAWS;
}

static kas_status add_drawn(evolution *e)
{
    kas_sample sample;
    bool news;
    ancestor a = {.origin = KAS_ORIGIN_ANCESTOR};
    kas_status status = kas_sampler_next(e->sampler, DRAWS, &sample);
    e->draws = status == KAS_NOTHING_VALID ? e->draws + DRAWS : 0;
    if (status == KAS_NOTHING_VALID && (!is_drawn_out(e) || e->count + e->brood > 0))
        return KAS_OK;
    KAS_TRY(status);
    a.replacement = sample.replacement;
    memcpy(a.name, sample.name, sizeof a.name);
    status = kas_name_set_add(&e->names, a.name, &news);
    if (status == KAS_OK && news)
        return append(e, &a);
    clear(&a);
    return status;
}

/* Draws a parent. The list begins with the best. */
static const ancestor *draw_parent(const evolution *e, kas_rng *rng)
{
    return &e->list[kas_tournament(e->count < POOL ? e->count : POOL, TOURNAMENT, rng)];
}

static kas_status add_child(evolution *e)
{
    const uint64_t key = FIRST_KEY + e->key++;
    kas_rng rng = kas_rng_make(e->options->seed, KAS_PURPOSE_SELECT, key);
    const ancestor *a = draw_parent(e, &rng), *b = draw_parent(e, &rng);
    ancestor child = {.origin = KAS_ORIGIN_ANCESTOR};
    kas_attempt how = {.why = KAS_REJECT_DUPLICATE};
    kas_change what;
    bool news = false;
    if (a->parent)
        KAS_TRY(kas_child_attempt(e->children, a->parent, a == b ? NULL : b->parent, key,
                                  &child.replacement, &how, &what));
    if (how.why != KAS_REJECT_NONE)
        return KAS_OK;
    kas_status status = kas_canonical_name(child.replacement.kernel, child.name);
    if (status == KAS_OK)
        status = kas_name_set_add(&e->names, child.name, &news);
    if (status == KAS_OK && news)
        return append(e, &child);
    clear(&child);
    return status;
}

/* Makes the next brood: first what is there already, then what is drawn, then children. */
static kas_status make_brood(evolution *e)
{
    const int wanted = e->options->ancestors - e->scored;
    const int size = wanted < BROOD && e->next == e->firsts ? wanted : BROOD;
    for (; e->brood < size && e->tries < MOST_TRIES; e->tries++) {
        const bool draw = e->scored < e->options->ancestors / DRAWN || e->count == 0;
        if (e->run->interrupted && e->run->interrupted())
            return kas_fail(KAS_INTERRUPTED, "interrupted");
        if (e->next < e->firsts)
            KAS_TRY(add_first(e, &e->first[e->next++]));
        else if (draw && !is_drawn_out(e))
            KAS_TRY(add_drawn(e));
        else if (e->count > 0)
            KAS_TRY(add_child(e));
        else
            break; /* nothing has a score yet */
    }
    return KAS_OK;
}

/* ---- scoring --------------------------------------------------------------------------------- */

/* Returns KAS_OK without a result where a kernel cannot be lowered or interpreted. */
static kas_status allow(kas_status status)
{
    return status == KAS_ILLEGAL || status == KAS_UNSUPPORTED ? KAS_OK : status;
}

static kas_status judge(void *context, int thread, int item)
{
    evolution *e = context;
    ancestor *a = &e->list[e->count + item];
    const kas_kept_score *kept = kas_kept_scores_find(&e->kept, a->name);
    kas_scored scored;
    double seconds;
    a->ratio = kept ? kept->latency : NAN;
    a->score = kept ? kept->score : NAN;
    if (kept)
        return KAS_OK;
    kas_status status = kas_predict_candidate(e->forecast->predictor, &a->replacement, &seconds);
    if (status != KAS_OK)
        return allow(status);
    a->ratio = seconds / kas_predictor_unmodified(e->forecast->predictor);
    if (e->forecast->limit > 0 && a->ratio > e->forecast->limit)
        return KAS_OK;
    status = kas_score_average(&e->setup, &a->replacement, 0, e->setup.seed, 1, &e->memory[thread],
                               &scored);
    if (status == KAS_OK)
        a->score = scored.value[KAS_SCORE_IMITATION];
    return allow(status);
}

/* Returns whether two kernels compute the same: they have learned the same. */
static bool are_twins(const ancestor *a, const ancestor *b)
{
    return fabs(a->score - b->score) <= TWINS * a->score;
}

/* Returns the step of a ladder whose steps differ by the factor 1 + CHANCE. */
static int step_of(double x)
{
    return (int)floor(log(fmax(x, 1e-6)) / log1p(CHANCE));
}

/* Returns whether there is room for only one of a new kernel and one of the list. Kernels on the
 * same steps differ by chance: if both stayed, a good kernel and what can be added to it without
 * changing much would be all that is left. The steps are fixed, so that many small losses do not
 * add up. A known kernel has room beside it for a new form of it that is a step faster. */
static bool are_rivals(const ancestor *a, const ancestor *listed)
{
    const int slower = step_of(a->ratio) - step_of(listed->ratio);
    if (are_twins(a, listed))
        return is_new(listed) || slower >= 0;
    return slower == 0 && step_of(a->score) == step_of(listed->score);
}

/* Returns whether a new kernel takes the place of its rival: the faster one of twins, else the
 * simpler one. What is known, or given, stays. */
static bool replaces(const ancestor *a, const ancestor *rival)
{
    if (!is_new(rival))
        return false;
    if (are_twins(a, rival) && a->ratio != rival->ratio)
        return a->ratio < rival->ratio;
    return a->size != rival->size ? a->size < rival->size : a->score > rival->score;
}

static void admit_new(evolution *e, ancestor *a)
{
    int kept = 0;
    for (int i = 0; i < e->count; i++)
        if (are_rivals(a, &e->list[i]) && !replaces(a, &e->list[i])) {
            clear(a);
            return;
        }
    for (int i = 0; i < e->count; i++)
        if (are_rivals(a, &e->list[i]))
            clear(&e->list[i]);
        else
            e->list[kept++] = e->list[i];
    e->list[kept++] = *a;
    e->count = kept;
}

/* Takes in those of the brood that have a score. */
static void admit_brood(evolution *e)
{
    ancestor brood[BROOD];
    const int size = e->brood;
    memcpy(brood, e->list + e->count, sizeof *brood * (size_t)size);
    e->brood = 0;
    for (int i = 0; i < size; i++) {
        ancestor *a = &brood[i];
        kas_replacement_free(&a->replacement);
        a->replacement = (kas_replacement){0};
        kas_kept_scores_add(&e->kept, a->name, a->ratio, a->score);
        if (isfinite(a->score)) {
            e->scored += is_new(a);
            e->unscored = 0;
            if (is_new(a))
                admit_new(e, a);
            else
                e->list[e->count++] = *a;
        } else {
            e->unscored++;
            e->slow += e->forecast->limit > 0 && a->ratio > e->forecast->limit;
            clear(a);
        }
    }
}

static kas_point point_of(const ancestor *a, int number)
{
    return (kas_point){
        .accuracy = a->score, .cost = a->ratio, .loss = 100 * (1 - a->score), .number = number};
}

static double best_score(const evolution *e)
{
    double best = 0;
    for (int i = 0; i < e->count; i++)
        best = fmax(best, e->list[i].score);
    return best;
}

/* Sorts the list. The unmodified network gives all, at a latency of 1; where the objective is a trade
 * it stands for what a slower kernel must beat. */
static kas_status sort(evolution *e)
{
    const int objective = e->options->objective == KAS_OBJECTIVE_ACCURACY ? KAS_OBJECTIVE_ACCURACY
                                                                          : KAS_OBJECTIVE_FRONTIER;
    kas_point *point = calloc((size_t)e->count + 1, sizeof *point);
    int *order = calloc((size_t)e->count + 1, sizeof *order), at = 0;
    ancestor *sorted = calloc((size_t)e->room, sizeof *sorted);
    kas_status status =
        point && order && sorted ? KAS_OK : kas_fail(KAS_NO_MEMORY, "ancestors: out of memory");
    const double least = fmax(LEAST, SHARE * best_score(e));
    for (int i = 0; status == KAS_OK && i < e->count; i++)
        point[i] = point_of(&e->list[i], i);
    if (status == KAS_OK) {
        point[e->count] = (kas_point){.accuracy = 1, .cost = 1, .loss = 0, .number = -1};
        status = kas_objective_order(objective, 100 * (1 - least), point, e->count + 1, order);
    }
    for (int i = 0; status == KAS_OK && i <= e->count; i++)
        if (order[i] < e->count)
            sorted[at++] = e->list[order[i]];
    if (status == KAS_OK)
        memcpy(e->list, sorted, sizeof *sorted * (size_t)e->count);
    free(point);
    free(order);
    free(sorted);
    return status;
}

/* ---- generation 0 ---------------------------------------------------------------------------- */

/* Drops of the new kernels what is not among the best `most`. Known ones stay as long as they are
 * worth a training. */
static void trim(evolution *e, int most)
{
    int kept = 0, left = most;
    for (int i = 0; i < e->count; i++) {
        ancestor *a = &e->list[i];
        if (a->given || (is_new(a) ? left-- > 0 : a->score >= LEAST))
            e->list[kept++] = *a;
        else
            clear(a);
    }
    e->count = kept;
}

static int by_score(const void *a, const void *b)
{
    const ancestor *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Leaves what the study begins with. */
static void choose(evolution *e)
{
    const int half = (e->most + 1) / 2;
    int rest = e->most;
    for (int i = 0; i < e->count; i++)
        rest -= !is_new(&e->list[i]);
    trim(e, rest > half ? rest : half);
    qsort(e->list, (size_t)e->count, sizeof *e->list, by_score);
}

static bool wants_more(const evolution *e)
{
    const bool can_have = e->count > 0 || !is_drawn_out(e);
    return e->next < e->firsts || (can_have && e->scored < e->options->ancestors &&
                                   e->tries < MOST_TRIES && e->unscored < MOST_UNSCORED);
}

static kas_elapsed effort_of(const evolution *e)
{
    const kas_elapsed run = kas_elapsed_since(e->began), before = e->kept.effort;
    return (kas_elapsed){before.wall + run.wall, before.processor + run.processor};
}

static kas_status evolve(evolution *e)
{
    while (wants_more(e)) {
        KAS_TRY(make_brood(e));
        KAS_TRY(kas_thread_each(e->threads, e->brood, judge, e));
        admit_brood(e);
        KAS_TRY(kas_kept_scores_save(&e->kept, effort_of(e)));
        if (e->run->progress)
            e->run->progress(e->run->context, e->scored, e->options->ancestors, best_score(e));
        KAS_TRY(sort(e));
        trim(e, e->most > POOL ? e->most : POOL);
    }
    choose(e);
    return e->count ? KAS_OK
                    : kas_fail(KAS_NOTHING_VALID,
                               "no kernel could be scored: %d were predicted to be too slow; allow "
                               "a larger --latency, or a larger budget (--flops, --params)",
                               e->slow);
}

static void write_list(const evolution *e, kas_buf *out)
{
    kas_buf_puts(out, "{\"kernels\": [");
    for (int i = 0; i < e->count; i++) {
        const ancestor *a = &e->list[i];
        kas_buf_puts(out, i ? ",\n{\"name\": " : "\n{\"name\": ");
        kas_buf_json_string(out, a->origin);
        kas_buf_printf(out, ", \"imitation\": %.6g, \"latency\": %.6g, \"kernel\": ", a->score,
                       a->ratio);
        kas_buf_json_string(out, a->text);
        kas_buf_puts(out, "}");
    }
    kas_buf_puts(out, "\n]}\n");
}

static void report(const evolution *e)
{
    const kas_elapsed effort = effort_of(e);
    if (e->run->effort)
        *e->run->effort = effort;
    int evolved = 0;
    for (int i = 0; i < e->count; i++)
        evolved += is_new(&e->list[i]);
    kas_info("ancestors: %d kernels scored and %d predicted to be too slow in %.0f s (%.0f s of "
             "processor time); %d of the %d that are left are new; the best gives %.0f%% of the "
             "convolutions' variance at %.2f times the latency",
             e->scored, e->slow, effort.wall, effort.processor, evolved, e->count,
             100 * e->list->score, e->list->ratio);
}

/* ---- life ------------------------------------------------------------------------------------ */

static kas_status begin(evolution *e, const char *from)
{
    const kas_search_options *o = e->options;
    const kas_problem *p = e->problem;
    e->sample = o->sample;
    e->sample.seed = o->seed;
    e->sample.budget = kas_search_budget(o);
    e->threads = kas_thread_count(e->run->threads, BROOD);
    KAS_TRY(kas_kept_scores_open(e->run->kept, e->run->digest, &e->kept));
    KAS_TRY(kas_search_forecast_ask(e->forecast, o, &e->ask));
    KAS_TRY(kas_minibatches_draw(p->dataset, KAS_LEGALITY_BATCH, KAS_SCORE_MINIBATCHES, o->seed,
                                 e->minibatch));
    e->setup = (kas_score_setup){.net = p->net,
                                 .target = p->target,
                                 .targets = p->targets,
                                 .batch = KAS_LEGALITY_BATCH,
                                 .seed = o->seed,
                                 .minibatch = e->minibatch,
                                 .trained = kas_problem_init(p),
                                 .asked = {[KAS_SCORE_IMITATION] = true}};
    KAS_TRY(kas_sampler_create(&e->sample, p->target, p->targets, &e->sampler));
    KAS_TRY(kas_children_create(&e->sample, p->target, p->targets, &e->children));
    KAS_TRY(kas_first_list(o, p->target, p->targets, from, &e->first, &e->firsts));
    e->most = o->population < KAS_FROM_KERNELS ? o->population : KAS_FROM_KERNELS;
    e->room = e->firsts + e->most + POOL + BROOD;
    e->list = calloc((size_t)e->room, sizeof *e->list);
    return e->list ? KAS_OK : kas_fail(KAS_NO_MEMORY, "ancestors: out of memory");
}

static void end(evolution *e)
{
    for (int i = 0; i < e->count + e->brood; i++)
        clear(&e->list[i]);
    free(e->list);
    kas_kept_scores_free(&e->kept);
    kas_first_free(e->first, e->firsts);
    kas_name_set_free(&e->names);
    kas_children_free(e->children);
    kas_sampler_free(e->sampler);
    for (int t = 0; t < KAS_THREADS_MOST; t++)
        kas_score_memory_free(&e->memory[t]);
    for (int b = 0; b < KAS_SCORE_MINIBATCHES; b++)
        kas_minibatch_free(&e->minibatch[b]);
    free(e);
}

kas_status kas_ancestors_evolve(const kas_search_options *options, const kas_problem *problem,
                                kas_search_forecast *forecast, const char *from,
                                const kas_ancestors_run *run, kas_buf *out)
{
    const kas_elapsed began = kas_elapsed_since((kas_elapsed){0});
    evolution *e = calloc(1, sizeof *e);
    if (!e)
        return kas_fail(KAS_NO_MEMORY, "ancestors: out of memory");
    *e = (evolution){
        .options = options, .problem = problem, .forecast = forecast, .run = run, .began = began};
    kas_status status = begin(e, from);
    if (status == KAS_OK)
        status = evolve(e);
    if (status == KAS_OK) {
        write_list(e, out);
        report(e);
        status = kas_buf_status(out);
    }
    end(e);
    return status;
}

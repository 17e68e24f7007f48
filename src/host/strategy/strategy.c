#include "host/strategy/strategy.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/log.h"
#include "host/space/evolve/evolve.h"
#include "host/space/name_set.h"
#include "host/space/sample/sampler.h"
#include "host/strategy/buckets.h"
#include "host/strategy/kernel_tree.h"
#include "host/strategy/proposals.h"
#include "host/strategy/select.h"
#include "host/study/problem.h"

enum {
    MOST_TRIES = 10000, /* attempts at a child; then a random candidate takes its place */
    MOST_SLOW = 500,    /* candidates in a row that prediction discards */
    MOST_KEPT = 500     /* of which --keep-slower leaves nothing */
};

/* A candidate before it is a work item. */
typedef struct proposal {
    char name[KAS_NAME_SIZE], origin[64], parents[64];
    int64_t attempt;
    kas_replacement replacement;
} proposal;

/* A strategy on its way through the list. */
typedef struct source {
    const kas_search_options *options;
    kas_forecast forecast; /* judge NULL: none */
    kas_first *first;      /* [firsts] */
    int firsts;
    kas_sampler *sampler;
    const kas_target *target; /* [targets] */
    int targets;
    kas_children *children; /* makes children, and checks proposals; NULL = neither */
    kas_kernel_tree *tree;  /* of the strategy tree */
    kas_population population;
    kas_name_set names;                     /* of all candidates so far */
    int64_t index;                          /* number of the next candidate */
    int generation;                         /* of the next candidate, unless it is whole */
    int members;                            /* of that generation so far */
    int slow;                               /* discarded in a row */
    uint64_t attempt, illegal, twice, born; /* of children: attempts, those in vain, and the rest */
    kas_proposals proposals;                /* of a program, for this generation */
    kas_buckets buckets;                    /* candidates that wait for others of like FLOPs */
    proposal coming[KAS_COMING_MOST];       /* [comings] of this generation; the first `taken` of */
    int comings, taken;                     /* these are judged */
    kas_status ended; /* why there are no more behind them; KAS_OK: there are */
    char why[512];
} source;

/* Returns the number of the candidate that is proposed next. */
static int64_t place(const source *s)
{
    return s->index + s->comings - s->taken;
}

/* ---- one candidate --------------------------------------------------------------------------- */

static kas_status propose_sample(source *s, proposal *out)
{
    kas_sample sample;
    bool is_new = false;
    while (!is_new) {
        KAS_TRY(kas_sampler_next(s->sampler, 0, &sample));
        const kas_status status = kas_name_set_add(&s->names, sample.name, &is_new);
        if (!is_new) /* a known kernel, or a child */
            kas_sample_free(&sample);
        KAS_TRY(status);
    }
    *out = (proposal){
        .attempt = (int64_t)sample.attempt, .origin = "sampled", .replacement = sample.replacement};
    memcpy(out->name, sample.name, sizeof out->name);
    return KAS_OK;
}

/* Each of them is given once, so the list need not keep it. */
static kas_status propose_first(source *s, proposal *out)
{
    bool is_new;
    kas_first *first = &s->first[place(s)];
    *out = (proposal){.attempt = -1, .replacement = first->replacement};
    memcpy(out->name, first->name, sizeof out->name);
    memcpy(out->origin, first->origin, sizeof out->origin);
    first->replacement = (kas_replacement){0};
    return kas_name_set_add(&s->names, out->name, &is_new);
}

/* Makes one attempt at a child; *born says whether it gave a new kernel. */
static kas_status attempt_child(source *s, proposal *out, bool *born)
{
    const uint64_t key = s->attempt++;
    kas_rng rng = kas_rng_make(s->options->seed, KAS_PURPOSE_SELECT, key);
    const kas_parent *a = kas_population_draw(&s->population, s->options->tournament, &rng);
    const kas_parent *b = kas_population_draw(&s->population, s->options->tournament, &rng);
    kas_attempt how;
    kas_change what;
    *born = false;
    *out = (proposal){.attempt = (int64_t)key};
    KAS_TRY(kas_child_attempt(s->children, &a->kernel, a == b ? NULL : &b->kernel, key,
                              &out->replacement, &how, &what));
    s->illegal += how.why != KAS_REJECT_NONE;
    if (how.why != KAS_REJECT_NONE)
        return KAS_OK;
    kas_status status = kas_canonical_name(out->replacement.kernel, out->name);
    if (status == KAS_OK)
        status = kas_name_set_add(&s->names, out->name, born);
    if (!*born) {
        s->twice++;
        kas_replacement_free(&out->replacement);
        return status;
    }
    s->born++;
    snprintf(out->origin, sizeof out->origin, "%s", kas_change_name(what));
    snprintf(out->parents, sizeof out->parents, what == KAS_CHANGE_GRAFT ? "%s,%s" : "%s", a->name,
             b->name);
    return KAS_OK;
}

static kas_status propose_child(source *s, proposal *out)
{
    bool born = false;
    for (int tries = 0; !born && tries < MOST_TRIES; tries++)
        KAS_TRY(attempt_child(s, out, &born));
    if (born)
        return KAS_OK;
    kas_info("no new child in %d attempts: candidate %" PRId64 " is drawn at random", MOST_TRIES,
             place(s));
    return propose_sample(s, out);
}

static void propose_proposed(const kas_proposed *one, proposal *out)
{
    *out =
        (proposal){.attempt = -1, .origin = KAS_ORIGIN_PROPOSED, .replacement = one->replacement};
    memcpy(out->name, one->name, sizeof out->name);
}

static kas_status propose_from_tree(source *s, proposal *out, bool *found)
{
    *out = (proposal){.origin = "tree"};
    return kas_kernel_tree_propose(s->tree, &s->names, &out->replacement, out->name, &out->attempt,
                                   found);
}

/* *from_tree is true when the tree has proposed it. */
static kas_status propose_any(source *s, proposal *out, bool *from_tree)
{
    *from_tree = false;
    if (place(s) < s->firsts)
        return propose_first(s, out);
    const kas_proposed *one = kas_proposals_next(&s->proposals);
    if (one) {
        propose_proposed(one, out);
        return KAS_OK;
    }
    if (s->tree)
        KAS_TRY(propose_from_tree(s, out, from_tree));
    if (*from_tree)
        return KAS_OK;
    return s->population.fertile > 0 ? propose_child(s, out) : propose_sample(s, out);
}

/* What the tree did not propose it learns from all the same. */
static kas_status propose_one(source *s, proposal *out)
{
    bool from_tree;
    KAS_TRY(propose_any(s, out, &from_tree));
    return s->tree && !from_tree ? kas_kernel_tree_visit(s->tree, &out->replacement) : KAS_OK;
}

/* Takes kernels away from layers; *left says whether that leaves a candidate that is new. */
static kas_status keep(source *s, proposal *p, bool *left)
{
    char name[KAS_NAME_SIZE];
    memcpy(name, p->name, sizeof name);
    const kas_status status = s->forecast.keep(s->forecast.context, &p->replacement, name);
    *left = status == KAS_OK;
    if (status == KAS_OK && strcmp(name, p->name) != 0) {
        memcpy(p->name, name, sizeof name);
        return kas_name_set_add(&s->names, name, left);
    }
    return kas_is_misfit(status) ? KAS_OK : status;
}

/* Proposes until something is left. Of the first candidates it is known that something is. */
static kas_status propose(source *s, proposal *out)
{
    bool left = !s->forecast.keep || place(s) < s->firsts;
    KAS_TRY(propose_one(s, out));
    if (left)
        return KAS_OK;
    for (int tries = 0; tries < MOST_KEPT; tries++) {
        const bool quiet = kas_quiet(true);
        const kas_status status = keep(s, out, &left);
        kas_quiet(quiet);
        if (left || status != KAS_OK)
            return status;
        kas_replacement_free(&out->replacement);
        if (s->tree)
            KAS_TRY(kas_kernel_tree_drop(s->tree));
        KAS_TRY(propose_one(s, out));
    }
    kas_replacement_free(&out->replacement);
    return kas_fail(KAS_NOTHING_VALID,
                    "--keep-slower leaves nothing of %d candidates in a row: they are predicted to "
                    "be slower everywhere, or what is kept exceeds the budget; allow more --flops",
                    MOST_KEPT);
}

/* Makes the work item, but for its number, its generation and its forecast. */
static kas_status describe(const proposal *p, kas_work *out)
{
    const kas_solution *solution = &p->replacement.solution;
    *out = (kas_work){.kind = KAS_WORK_CANDIDATE,
                      .attempt = p->attempt,
                      .flops = solution->flops,
                      .params = solution->params,
                      .conv_flops = solution->conv_flops,
                      .conv_params = solution->conv_params,
                      .predicted = NAN};
    memcpy(out->name, p->name, sizeof out->name);
    memcpy(out->origin, p->origin, sizeof out->origin);
    memcpy(out->parents, p->parents, sizeof out->parents);
    return kas_sample_text(&p->replacement, &out->kernel);
}

static const kas_work *stored(const kas_work *items, int count, int64_t index)
{
    for (const kas_work *w = items; w < items + count; w++)
        if (w->kind == KAS_WORK_CANDIDATE && w->index == index)
            return w;
    return NULL;
}

static const kas_work *stored_name(const kas_work *items, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (items[i].kind == KAS_WORK_CANDIDATE && strcmp(items[i].name, name) == 0)
            return &items[i];
    return NULL;
}

/* A forecast is made once: a candidate that the store has keeps the one that it has. */
static kas_status foresee(source *s, const proposal *p, const kas_work *old, kas_work *out)
{
    const kas_forecast *f = &s->forecast;
    if (!old)
        return f->judge ? f->judge(f->context, &p->replacement, out) : KAS_OK;
    out->predicted = old->predicted;
    const bool passed = !kas_work_discarded(old->state) || old->state == KAS_WORK_PREFILTERED;
    if (kas_work_discarded(old->state)) {
        out->state = old->state;
        memcpy(out->reason, old->reason, sizeof out->reason);
    }
    return passed && f->remember ? f->remember(f->context, out) : KAS_OK;
}

/* Whether a candidate that waits is compared with others: one that is new, and one of a bucket of
 * which the store may have a part only, because that part came last. */
static bool is_compared(const source *s, const kas_work *items, int count, const kas_work *old)
{
    int64_t last = -1;
    for (int i = 0; old && i < count; i++)
        if (items[i].kind == KAS_WORK_CANDIDATE && items[i].index > last)
            last = items[i].index;
    return !old || (old->state == KAS_WORK_PREFILTERED && old->index > last - s->buckets.each);
}

/* Gives a candidate its number. */
static void number(source *s, kas_work *out)
{
    out->index = s->index++;
    out->generation = kas_search_in_generations(s->options) ? s->generation : 0;
    s->members += !kas_work_discarded(out->state);
}

/* Returns how many candidates that reach training the generation has. The first candidates are all
 * in generation 0, however many they are. */
static int size_of(const source *s, int generation)
{
    const kas_search_options *o = s->options;
    if (!kas_search_in_generations(o))
        return INT32_MAX;
    if (generation > 0)
        return o->generation;
    const int size = o->strategy == KAS_STRATEGY_EVOLUTION ? o->population : o->generation;
    return size > s->firsts ? size : s->firsts;
}

/* Returns how many candidates are proposed before the next one is judged. None of them may depend on
 * a judgement, and none may be too many for the generation, even if all pass. */
static int count_coming(const source *s)
{
    const kas_forecast *f = &s->forecast;
    const int left = size_of(s, s->generation) - s->members;
    int most = f->together < KAS_COMING_MOST ? f->together : KAS_COMING_MOST;
    if (!f->prepare || f->score || !kas_search_in_generations(s->options))
        return 1;
    if (s->index < s->firsts && s->firsts - s->index < most) /* proposals of a program come next */
        most = (int)(s->firsts - s->index);
    return left < most ? left : most;
}

/* Proposes the next candidates, and has their forecasts prepared but for those that the store has. */
static kas_status propose_some(source *s, const kas_work *items, int count)
{
    const int wanted = count_coming(s);
    kas_coming list[KAS_COMING_MOST];
    int unknown = 0;
    s->comings = s->taken = 0;
    while (s->ended == KAS_OK && (s->comings == 0 || s->comings < wanted)) {
        proposal *p = &s->coming[s->comings];
        s->ended = propose(s, p);
        if (s->ended != KAS_OK)
            break;
        s->comings++;
        if (!stored_name(items, count, p->name))
            list[unknown++] = (kas_coming){p->name, &p->replacement};
    }
    if (s->ended != KAS_OK && !*s->why)
        snprintf(s->why, sizeof s->why, "%s", kas_error());
    if (s->comings == 0)
        return kas_fail(s->ended, "%s", s->why);
    return unknown > 1 ? s->forecast.prepare(s->forecast.context, list, unknown) : KAS_OK;
}

static kas_status take_proposal(source *s, const kas_work *items, int count, proposal *out)
{
    if (s->taken == s->comings)
        KAS_TRY(propose_some(s, items, count));
    *out = s->coming[s->taken++];
    return KAS_OK;
}

/* Makes one candidate. It is ready at once, or waits in its bucket: then *ready is false. */
static kas_status make(source *s, const kas_work *items, int count, kas_work *out, bool *ready)
{
    proposal p = {0};
    double score[KAS_BUCKET_SCORES] = {NAN, NAN, NAN, NAN};
    const kas_work *old = NULL;
    const bool first = s->index < s->firsts;
    kas_status status = take_proposal(s, items, count, &p);
    const bool waits = s->forecast.score && !first && strcmp(p.origin, KAS_ORIGIN_PROPOSED) != 0;
    if (status == KAS_OK)
        status = describe(&p, out);
    if (status == KAS_OK) {
        old = stored_name(items, count, out->name);
        status = foresee(s, &p, old, out);
    }
    const bool rejected =
        status == KAS_OK && kas_work_discarded(out->state) && out->state != KAS_WORK_PREFILTERED;
    *ready = rejected || !waits;
    if (status == KAS_OK && !*ready && is_compared(s, items, count, old))
        status = s->forecast.score(s->forecast.context, &p.replacement, score);
    kas_replacement_free(&p.replacement);
    KAS_TRY(status);
    s->slow = rejected ? s->slow + 1 : 0;
    if (*ready)
        return KAS_OK;
    status = kas_buckets_add(&s->buckets, out, score, old != NULL);
    *out = (kas_work){0}; /* its bucket owns the texts */
    return status;
}

/* ---- generations ----------------------------------------------------------------------------- */

/* Returns whether the store has the results of all candidates so far, and of the unmodified
 * network, with which they are compared. One that the machine could not evaluate will be tried
 * again. */
static bool all_ended(const source *s, const kas_work *items, int count)
{
    int64_t ended = 0;
    for (int i = 0; i < count; i++)
        if (items[i].kind == KAS_WORK_BASELINE && !kas_work_ended(items[i].state))
            return false;
    for (int i = 0; i < count; i++)
        ended += items[i].kind == KAS_WORK_CANDIDATE && items[i].index < s->index &&
                 kas_work_ended(items[i].state) && items[i].state != KAS_WORK_MACHINE_FAULT;
    return ended == s->index;
}

/* Returns how many candidates are members of the population: as many as generation 0 has, but at least
 * three generations. A small search has large generations, because of the rungs, and no candidate
 * would otherwise be a parent for longer than one. */
static int population_of(const source *s)
{
    const int first = size_of(s, 0), lasting = 3 * s->options->generation;
    return first > lasting ? first : lasting;
}

/* Begins the next generation. */
static kas_status advance(source *s, const kas_work *items, int count)
{
    kas_population parents = {0};
    if (s->options->strategy == KAS_STRATEGY_EVOLUTION)
        KAS_TRY(kas_population_select(s->options, items, count, s->generation + 1, population_of(s),
                                      &parents));
    kas_population_free(&s->population);
    s->population = parents;
    if (s->tree)
        KAS_TRY(kas_kernel_tree_learn(s->tree, items, count, s->generation + 1));
    s->generation++;
    s->members = 0;
    return KAS_OK;
}

/* Gathers the proposals of a generation, before its first candidate that is no known kernel. Where
 * the study has that candidate, it says whether there were any: a supervisor without the program
 * may have begun the generation. */
static kas_status gather(source *s, const kas_work *items, int count, bool *ready)
{
    kas_proposals *p = &s->proposals;
    if (!p->proposer.answer || s->index < s->firsts || p->generation == s->generation)
        return KAS_OK;
    const kas_work *first = stored(items, count, s->index);
    const kas_question question = {.generation = s->generation,
                                   .first = s->index,
                                   .wanted = (size_of(s, s->generation) - s->members + 1) / 2,
                                   .items = items,
                                   .count = count,
                                   .recorded_only = first != NULL};
    if (!first || strcmp(first->origin, KAS_ORIGIN_PROPOSED) == 0)
        KAS_TRY(kas_proposals_gather(p, s->children, &question, &s->names, ready));
    if (*ready)
        p->generation = s->generation;
    return KAS_OK;
}

static kas_status next(void *context, const kas_work *items, int count, kas_work *out, bool *ready)
{
    source *s = context;
    *ready = kas_buckets_take(&s->buckets, out); /* the rest of a bucket */
    if (*ready) {
        number(s, out);
        return KAS_OK;
    }
    const bool whole = s->members >= size_of(s, s->generation);
    *ready = !whole || all_ended(s, items, count);
    if (!*ready)
        return KAS_OK;
    if (whole)
        KAS_TRY(advance(s, items, count));
    KAS_TRY(gather(s, items, count, ready));
    if (!*ready)
        return KAS_OK;
    bool made = false;
    while (!made) {
        if (s->slow >= MOST_SLOW)
            return kas_fail(KAS_NOTHING_VALID,
                            "%d candidates in a row were predicted to be too slow, scored too low "
                            "or were copies; allow a larger --latency, more tolerance in "
                            "--legality, or more primitives",
                            s->slow);
        KAS_TRY(make(s, items, count, out, &made));
        made = made || kas_buckets_take(&s->buckets, out);
    }
    number(s, out);
    return KAS_OK;
}

/* ---- open and close -------------------------------------------------------------------------- */

static void close_source(void *context)
{
    source *s = context;
    while (s->taken < s->comings)
        kas_replacement_free(&s->coming[s->taken++].replacement);
    kas_proposals_free(&s->proposals);
    kas_buckets_free(&s->buckets);
    kas_population_free(&s->population);
    kas_children_free(s->children);
    kas_kernel_tree_free(s->tree);
    kas_sampler_free(s->sampler);
    kas_first_free(s->first, s->firsts);
    kas_name_set_free(&s->names);
    free(s);
}

static kas_sample_options sample_options(const source *s)
{
    kas_sample_options sample = s->options->sample;
    sample.seed = s->options->seed;
    sample.budget = kas_search_budget(s->options);
    return sample;
}

static kas_status open_children(source *s)
{
    const kas_sample_options sample = sample_options(s);
    return kas_children_create(&sample, s->target, s->targets, &s->children);
}

/* Leaves out the first candidates of which --keep-slower leaves nothing new. */
static kas_status keep_first(source *s)
{
    const int firsts = s->firsts;
    kas_status status = KAS_OK;
    s->firsts = 0;
    for (int i = 0; i < firsts; i++) {
        kas_first *first = &s->first[i];
        proposal p = {.replacement = first->replacement};
        bool left = false;
        memcpy(p.name, first->name, sizeof p.name);
        const bool quiet = kas_quiet(true);
        if (status == KAS_OK)
            status = keep(s, &p, &left);
        kas_quiet(quiet);
        if (!left)
            kas_replacement_free(&p.replacement);
        memcpy(first->name, p.name, sizeof p.name);
        first->replacement = p.replacement;
        if (left)
            s->first[s->firsts++] = *first;
    }
    return status;
}

static kas_status open_source(source *s, const char *from)
{
    const kas_sample_options sample = sample_options(s);
    KAS_TRY(kas_sampler_create(&sample, s->target, s->targets, &s->sampler));
    if (s->options->strategy == KAS_STRATEGY_EVOLUTION)
        KAS_TRY(open_children(s));
    if (s->options->strategy == KAS_STRATEGY_TREE)
        KAS_TRY(kas_kernel_tree_create(s->options, &sample, s->target, s->targets, &s->tree));
    KAS_TRY(kas_first_list(s->options, s->target, s->targets, from, &s->first, &s->firsts));
    return s->forecast.keep ? keep_first(s) : KAS_OK;
}

kas_status kas_strategy_open(const kas_search_options *options, const kas_target *target,
                             int targets, const char *from, const kas_forecast *forecast,
                             kas_strategy *out)
{
    source *s = calloc(1, sizeof *s);
    if (!s)
        return kas_fail(KAS_NO_MEMORY, "a strategy: out of memory");
    *s = (source){
        .options = options, .target = target, .targets = targets, .proposals = {.generation = -1}};
    if (forecast) {
        s->forecast = *forecast;
        s->buckets.each = forecast->proposals;
        s->buckets.scores = forecast->scores;
        snprintf(s->buckets.score, sizeof s->buckets.score, "%s",
                 forecast->score_name ? forecast->score_name : "score");
    }
    const kas_status status = open_source(s, from);
    if (status != KAS_OK) {
        close_source(s);
        return status;
    }
    *out = (kas_strategy){.next = next, .close = close_source, .context = s};
    return KAS_OK;
}

void kas_strategy_close(kas_strategy *strategy)
{
    if (strategy->close)
        strategy->close(strategy->context);
    *strategy = (kas_strategy){0};
}

kas_status kas_strategy_take_ancestors(kas_strategy *strategy, const char *text)
{
    source *s = strategy->context;
    kas_first_free(s->first, s->firsts);
    s->first = NULL;
    s->firsts = 0;
    kas_name_set_free(&s->names); /* of those that were freed and lose layers below once more */
    KAS_TRY(kas_first_read(s->options, s->target, s->targets, text, &s->first, &s->firsts));
    return s->forecast.keep ? keep_first(s) : KAS_OK;
}

kas_status kas_strategy_take_proposals(kas_strategy *strategy, const kas_proposer *proposer)
{
    source *s = strategy->context;
    s->proposals.proposer = *proposer;
    return s->children ? KAS_OK : open_children(s);
}

void kas_strategy_describe(const kas_strategy *strategy, kas_buf *out)
{
    const source *s = strategy->context;
    if (strategy->next != next)
        return;
    if (s->tree)
        kas_kernel_tree_describe(s->tree, out);
    if (s->attempt > 0)
        kas_buf_printf(out,
                       "children: %" PRIu64 " from %" PRIu64 " attempts; not legal: %" PRIu64
                       "; in the study already: %" PRIu64,
                       s->born, s->attempt, s->illegal, s->twice);
    kas_proposals_describe(&s->proposals, out);
}

/* What the tests of the supervisor share: a study in a folder of its own, candidates whose "kernel"
 * says what they do, and what the store and the notes of the workers hold afterwards.
 *
 * Run as `PROGRAM worker` a test program is a worker.  Every epoch is noted in a file after its
 * checkpoint was written, so that the tests can count what was done, whoever was killed. */
#ifndef KAS_TESTS_UNIT_SEARCH_SEARCH_FIXTURE_H
#define KAS_TESTS_UNIT_SEARCH_SEARCH_FIXTURE_H

#include "support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "host/core/file/files.h"
#include "host/core/log.h"
#include "host/leaderboard/judge.h"
#include "host/leaderboard/objective.h"
#include "host/search/supervisor/supervisor.h"
#include "host/study/study_dir.h"
#include "search_fake.h"

enum { MAX_CANDIDATES = 16 };

typedef struct plan {
    const char *what[MAX_CANDIDATES]; /* of each candidate; NULL = "ok" */
    int next, limit;                  /* limit: the strategy is exhausted there; 0 = never */
    int generation;                   /* candidates in a generation; 0 = no generations */
} plan;

static char folder[256], study_dir[300], notes[300];
static uint64_t weights_limit = 1 << 20; /* bytes of the frontier's weights */
static int pack = 1;                     /* items at once in a worker */
static int ahead = 0;                    /* candidates compiled ahead of need */
static uint64_t checkpoint_limit = 1 << 20;
static double until = 0, least = 0; /* see kas_supervisor_options */

static int set_up(void **state)
{
    (void)state;
    /* In memory where that is possible: hundreds of checkpoints are flushed to the disk. */
    snprintf(folder, sizeof folder, "%s/kas-search-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(folder))
        return -1;
    snprintf(study_dir, sizeof study_dir, "%s/study", folder);
    snprintf(notes, sizeof notes, "%s/notes", folder);
    setenv("KAS_TEST_NOTES", notes, 1);
    setenv("KAS_TEST_BASELINE", "ok", 1);
    until = least = 0;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return kas_remove_tree(folder) == KAS_OK ? 0 : -1;
}

/* Returns how many of the first `limit` candidates have ended, and sums up their accuracies, on
 * which a strategy might depend. */
static int ended_before(const kas_work *items, int count, int limit, double *sum)
{
    int ended = 0;
    *sum = 0;
    for (int i = 0; i < count; i++)
        if (items[i].kind == KAS_WORK_CANDIDATE && items[i].index < limit &&
            kas_work_ended(items[i].state)) {
            ended++;
            *sum += isfinite(items[i].measured.accuracy) ? items[i].measured.accuracy : 0;
        }
    return ended;
}

/* Gives the candidates of the plan. In generations the number of FLOPs is a function of all earlier
 * results. A candidate whose text has "predicted" is discarded by prediction, which takes a while where
 * it is "at length". */
static kas_status next_candidate(void *context, const kas_work *items, int count, kas_work *out,
                                 bool *ready)
{
    plan *p = context;
    double sum = 0;
    const int before = p->generation ? p->next - p->next % p->generation : 0;
    *ready = ended_before(items, count, before, &sum) == before;
    if (!*ready)
        return KAS_OK;
    if (p->limit && p->next >= p->limit)
        return kas_fail(KAS_NOTHING_VALID, "exhausted");
    const char *what = p->next < MAX_CANDIDATES && p->what[p->next] ? p->what[p->next] : "ok";
    nap(strstr(what, "at length") ? 0.1 : 0);
    out->attempt = 3 * p->next;
    out->generation = p->generation ? p->next / p->generation : 0;
    out->state = strstr(what, "predicted") ? KAS_WORK_PREDICTED_SLOW : KAS_WORK_QUEUED;
    out->flops = 100 + sum;
    out->conv_flops = 1000;
    out->kernel = strdup(what);
    snprintf(out->name, sizeof out->name, "kernel%d", p->next++);
    return KAS_OK;
}

static kas_search_options search_options(int candidates)
{
    kas_search_options o = kas_search_options_default();
    o.candidates = candidates;
    o.strategy = KAS_STRATEGY_RANDOM;
    o.recipe = kas_recipe_default();
    o.recipe.epochs = EPOCHS;
    o.recipe.batch = 1;
    o.recipe.lr = 1;
    strcpy(o.prune, "none");
    strcpy(o.device, "cpu");
    o.objective = KAS_OBJECTIVE_ACCURACY;
    o.latency = 0;
    return o;
}

static kas_store *open_store(const kas_search_options *search)
{
    kas_store *store;
    char path[KAS_STUDY_PATH];
    bool created;
    OK(kas_study_dir_make(study_dir));
    OK(kas_study_path(study_dir, "study.db", path));
    OK(kas_store_open(path, KAS_STORE_CREATE, &store));
    kas_buf text = {0};
    kas_search_options_write(search, &text);
    kas_study study = {.options = text.data};
    OK(kas_store_begin_study(store, &study, &created));
    kas_buf_free(&text);
    return store;
}

static kas_status supervise(plan p, const kas_search_options *search, int workers,
                            double hang_seconds, const char *dataset)
{
    static const char *const worker[] = {"/proc/self/exe", "worker", NULL};
    static const char *const device[] = {"fake:0", "fake:0"};
    static const char *const helper[] = {"/proc/self/exe", "compile-ahead", NULL};
    const kas_ahead_options looking = {.argv = helper, .candidates = ahead, .threads = 1};
    kas_store *store = open_store(search);
    p.next = 0;
    kas_supervisor_options options = {.study = study_dir,
                                      .dataset = dataset,
                                      .search = search,
                                      .strategy = {.next = next_candidate, .context = &p},
                                      .worker_argv = worker,
                                      .workers = workers,
                                      .device = device,
                                      .devices = 2,
                                      .pack = pack,
                                      .ahead = ahead ? &looking : NULL,
                                      .hang_seconds = hang_seconds,
                                      .until = until,
                                      .least = least,
                                      .checkpoint_limit = checkpoint_limit,
                                      .weights_limit = weights_limit};
    kas_status status = kas_supervise(store, &options);
    kas_store_close(store);
    return status;
}

static kas_work *all_items(int *count)
{
    kas_store *store;
    kas_work *list;
    char path[KAS_STUDY_PATH];
    OK(kas_study_path(study_dir, "study.db", path));
    OK(kas_store_open(path, KAS_STORE_READ, &store));
    OK(kas_store_list(store, &list, count));
    kas_store_close(store);
    return list;
}

/* Without those that time finalists in turns, which come last. */
static kas_work *items(int *count)
{
    kas_work *list = all_items(count);
    while (*count > 0 && list[*count - 1].kind == KAS_WORK_TURNS)
        kas_work_clear(&list[--*count]);
    return list;
}

static kas_work_state state_of(const kas_work *list, int count, kas_work_kind kind, int index)
{
    for (int i = 0; i < count; i++)
        if (list[i].kind == kind && list[i].index == index)
            return list[i].state;
    return KAS_WORK_STATES;
}

static int times_noted(const char *line)
{
    kas_buf text = {0};
    int times = 0;
    char whole[64];
    snprintf(whole, sizeof whole, "%s\n", line);
    if (kas_file_exists(notes))
        OK(kas_file_read(notes, 1 << 20, &text));
    for (const char *at = kas_buf_text(&text); (at = strstr(at, whole)); at++)
        times++;
    kas_buf_free(&text);
    return times;
}

/* Gives a study the options in `text`, which ask for more candidates. */
static inline kas_status more_candidates(void *text, const kas_study *present,
                                         kas_study_change *out)
{
    (void)present;
    *out = (kas_study_change){.options = strdup(text), .grows = true};
    return KAS_OK;
}

/* What main begins with: run as a worker the program ends here; another word names the tests to
 * run. */
static inline void search_main(int argc, char **argv, const kas_evaluator *evaluator)
{
    if (argc == 2 && strcmp(argv[1], "worker") == 0)
        exit(kas_worker_run(evaluator));
    kas_log_set_level(KAS_LOG_QUIET);
    if (argc == 2)
        cmocka_set_test_filter(argv[1]);
}

#endif

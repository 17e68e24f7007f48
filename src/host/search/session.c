#include "host/search/session.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/machine.h"
#include "host/core/file/files.h"
#include "host/core/file/private.h"
#include "host/core/sha256.h"
#include "host/core/log.h"
#include "host/leaderboard/publish.h"
#include "host/leaderboard/spent.h"
#include "host/search/session_files.h"
#include "host/search/session_same.h"
#include "host/study/study_store.h"

enum { PROPOSE_GENERATION = 8 }; /* random candidates, half of which a program proposes */

/* Returns the threads of each of `workers`, at least one; 0 stays 0. */
static int share(int threads, int workers)
{
    return threads == 0 ? 0 : threads < workers ? 1 : threads / workers;
}

/* Writes the stem of a path: "cifar100" for "/data/cifar100.h5". */
static void stem(const char *path, char out[64])
{
    snprintf(out, 64, "%.63s", basename(path));
    char *dot = strrchr(out, '.');
    if (dot && dot != out)
        *dot = 0;
}

static kas_status set_dataset(const char *path, kas_session *s)
{
    char real[PATH_MAX];
    if (!realpath(path, real))
        return kas_fail(KAS_BAD_INPUT, "%s: %s; --dataset says where the data set lies", path,
                        kas_strerror(errno));
    snprintf(s->dataset, sizeof s->dataset, "%s", real);
    return KAS_OK;
}

static kas_status set_paths(const kas_session_request *request, kas_session *s)
{
    char name[64];
    KAS_TRY(set_dataset(request->dataset, s));
    stem(request->dataset, name);
    int size = *request->study ? snprintf(s->study, sizeof s->study, "%s", request->study)
                               : snprintf(s->study, sizeof s->study, "studies/%s-%s-%llu",
                                          s->search.net, name, (unsigned long long)s->search.seed);
    return size < (int)sizeof s->study
               ? KAS_OK
               : kas_fail(KAS_BAD_INPUT, "--study: path of %d bytes is too long", size);
}

/* The ranks of a final training are workers, on GPUs of their own. A machine that only takes part
 * may have fewer; it leaves the final trainings to others. */
static kas_status check_ranks(kas_session *s)
{
    const int ranks = s->search.ranks, gpus = s->devices.count;
    const bool cuda = strcmp(s->devices.kind, "cuda") == 0;
    if (s->search.recipe.batch % ranks != 0)
        return kas_fail(KAS_USAGE, "--batch %d cannot be shared by %d ranks; use a multiple of %d",
                        s->search.recipe.batch, ranks, ranks);
    s->leaves_finals = s->workers < ranks || (cuda && gpus < ranks);
    if (s->takes_only || s->role == KAS_TAKES_MEASURING || !s->leaves_finals)
        return KAS_OK;
    if (cuda && gpus < ranks)
        return kas_fail(KAS_USAGE, "--ranks %d: each rank needs a GPU of its own, and there %s %d",
                        ranks, gpus == 1 ? "is" : "are", gpus);
    return kas_fail(KAS_USAGE, "--ranks %d: each rank is a worker, and --workers is %d", ranks,
                    s->workers);
}

static kas_status set_devices(const kas_session_request *request, const char *spec, kas_session *s)
{
    KAS_TRY(kas_devices_find(spec, &s->devices));
    if (strncmp(spec, "cuda:", 5) == 0)
        KAS_TRY(kas_devices_check(&s->devices));
    const bool cuda = strcmp(s->devices.kind, "cuda") == 0;
    s->workers = request->workers > 0 ? request->workers
                 : cuda               ? s->devices.count
                                      : s->search.ranks;
    s->pack = request->pack > 0 ? request->pack : 1; /* on a GPU choose_pack decides */
    s->ahead = request->ahead >= 0 ? request->ahead : cuda ? KAS_AHEAD_CUDA : 0;
    s->retrain = request->retrain;
    s->role = request->role;
    s->hang_seconds = request->hang_seconds;
    s->until = request->until;
    s->checkpoint_limit = request->checkpoint_limit;
    s->weights_limit = request->weights_limit;
    return check_ranks(s);
}

/* Chooses the pack for `--pack auto` on GPUs, from the training step of the unmodified network. */
static kas_status choose_pack(const kas_session_request *request, kas_session *s)
{
    const kas_recipe *recipe = &s->search.recipe;
    const kas_model_options model = {.net = s->problem.net,
                                     .batch = recipe->batch,
                                     .training = true,
                                     .recipe = recipe,
                                     .precision = (kas_precision)recipe->precision};
    const kas_devices *d = &s->devices;
    kas_planned_bytes step;
    kas_memory_plan memory;
    if (request->pack > 0 || d->blocks == 0)
        return KAS_OK;
    KAS_TRY(kas_model_plan_memory(&model, &memory));
    KAS_TRY(kas_planned_bytes_plan(&model, KAS_TAPE_TRAIN, &step));
    const double filled = kas_pack_filled(&step, model.net, model.batch, d->blocks);
    kas_planned_bytes_free(&step);
    s->packing = kas_pack_choose(filled, memory.total + d->workspace, d->memory - d->memory / 16);
    s->pack = s->packing.chosen;
    return KAS_OK;
}

/* A program is asked once a generation, so random candidates come in generations too. */
static void choose_generation(const kas_session_request *request, kas_search_options *o)
{
    if (request->propose && o->strategy == KAS_STRATEGY_RANDOM && !o->rungs.count && !o->generation)
        o->generation = PROPOSE_GENERATION;
}

/* Has the strategy take proposals: new ones of the program, and those that are recorded. */
static kas_status open_proposer(kas_session *s)
{
    const char *command = s->asking.command;
    bool recorded;
    KAS_TRY(kas_store_has_answers(s->store, &recorded));
    if (!command && !recorded)
        return KAS_OK;
    if (!command)
        kas_info("%s goes on without new proposals: its program is not kept, and --propose was not "
                 "given",
                 s->study);
    s->asking = (kas_asking){.command = command,
                             .study = s->study,
                             .store = s->store,
                             .options = &s->search,
                             .target = s->problem.target,
                             .targets = s->problem.targets};
    const kas_proposer proposer = kas_asking_proposer(&s->asking);
    return kas_strategy_take_proposals(&s->strategy, &proposer);
}

static kas_status open_strategy(kas_session *s)
{
    kas_search_forecast *f = &s->forecast;
    kas_forecast forecast;
    KAS_TRY(kas_session_read_init(s));
    KAS_TRY(kas_search_forecast_open_scores(&s->search, &s->problem, f));
    KAS_TRY(kas_search_forecast_ask(f, &s->search, &forecast));
    forecast.together = s->search.threads * s->workers; /* they wait when a generation begins */
    KAS_TRY(kas_strategy_open(
        &s->search, s->problem.target, s->problem.targets, kas_buf_text(&s->from),
        f->predictor || f->legality || f->prefilter ? &forecast : NULL, &s->strategy));
    return s->ancestors.size
               ? kas_strategy_take_ancestors(&s->strategy, kas_buf_text(&s->ancestors))
               : KAS_OK;
}

/* Makes the study's row from the options of this command. The caller frees it
 * with kas_study_clear. */
static kas_status describe(const kas_session *s, kas_study *out)
{
    *out = (kas_study){.sampler_version = kas_session_sampler_version(s),
                       .seed = s->search.seed,
                       .busy_seconds = s->ancestors_took.wall,
                       .drawing_seconds = kas_spent_device(&s->search, s->ancestors_took)};
    snprintf(out->code_version, sizeof out->code_version, "%s", s->code_version);
    KAS_TRY(kas_session_write_options(&s->search, &out->options));
    kas_sha256_hex(out->options, strlen(out->options), out->options_digest);
    memcpy(out->dataset_digest, s->problem.dataset->digest, sizeof out->dataset_digest);
    snprintf(out->dataset_path, sizeof out->dataset_path, "%s", s->dataset);
    return KAS_OK;
}

static kas_status begin_or_adopt(kas_session *s, const kas_search_options *asked,
                                 const kas_machine *machine, const kas_session_request *request)
{
    kas_study study;
    KAS_TRY(kas_study_check_begin(s->study, s->place));
    KAS_TRY(kas_study_dir_make(s->study));
    KAS_TRY(kas_session_pin_plans(s));
    KAS_TRY(kas_code_version(s->code_version));
    KAS_TRY(kas_session_pin_files(request, machine, s));
    KAS_TRY(describe(s, &study));
    kas_status status = kas_store_begin_study(s->store, &study, &s->created);
    kas_study_clear(&study);
    KAS_TRY(status);
    if (!s->created)
        KAS_TRY(kas_session_adopt(s, asked));
    KAS_TRY(kas_session_keep_network(s));
    KAS_TRY(kas_session_keep_from(s));
    KAS_TRY(kas_session_keep_machine(s));
    KAS_TRY(kas_session_keep_ancestors(s));
    return kas_session_keep_init(s);
}

/* A start that fails leaves no empty folder behind. */
static kas_status open_store(kas_session *s, const kas_search_options *asked,
                             const kas_machine *machine, const kas_session_request *request)
{
    const bool there = kas_file_exists(s->study);
    const kas_status status = begin_or_adopt(s, asked, machine, request);
    if (status != KAS_OK && !there && !kas_study_exists(s->study))
        kas_study_dir_remove_empty(s->study);
    return status;
}

static void take_reading(const kas_session_request *request, kas_session *s)
{
    s->stream = request->stream;
    s->read_threads = request->read_threads;
    kas_session_set_reading(s, &s->search);
}

/* Returns whether an existing study leaves the images in their file. It is called before the data
 * set is opened; faults of the study are reported when its store is opened later. */
static bool study_streams(const char *study)
{
    kas_store *store;
    kas_study stored;
    kas_search_options options = {.stream = false};
    if (!kas_study_exists(study) || kas_study_open(study, KAS_STORE_READ, &store) != KAS_OK)
        return false;
    if (kas_store_get_study(store, &stored) == KAS_OK) {
        if (kas_search_options_read(study, stored.options, &options) != KAS_OK)
            options.stream = false;
        kas_study_clear(&stored);
    }
    kas_store_close(store);
    return options.stream;
}

kas_status kas_session_begin(const kas_session_request *request, bool dry, kas_session *out)
{
    *out = (kas_session){.search = request->search,
                         .init = request->init,
                         .place = request->store,
                         .may_grow = request->may_grow,
                         .asking = {.command = request->propose}};
    take_reading(request, out);
    if (request->net)
        KAS_TRY(kas_net_keep(request->net, out->search.net, &out->search.network));
    KAS_TRY(set_paths(request, out));
    KAS_TRY(set_devices(request, request->device ? request->device : "auto", out));
    snprintf(out->search.device, sizeof out->search.device, "%s", out->devices.kind);
    out->search.threads = share(request->threads, out->workers);
    out->search.stream |= study_streams(out->study);
    KAS_TRY(kas_problem_open(&out->search, out->dataset, &out->problem));
    kas_dataset_scaling(out->problem.dataset, out->search.scaling);
    KAS_TRY(choose_pack(request, out));
    KAS_TRY(kas_session_check_init(out));
    KAS_TRY(kas_session_collect_from(request, out));
    kas_search_options asked = out->search; /* what is left open is as in the study */
    if (out->search.sample.per_layer == KAS_PER_LAYER_AUTO) /* an existing study decides */
        out->search.sample.per_layer =
            kas_sample_is_per_layer(&out->search.sample) ? KAS_PER_LAYER_YES : KAS_PER_LAYER_NO;
    KAS_TRY(kas_sample_options_check(&out->search.sample));
    choose_generation(request, &out->search);
    KAS_TRY(kas_search_generations(&out->search));
    KAS_TRY(kas_session_check_proposals(request->propose, &out->search));
    if (out->search.threads == 0)
        out->search.threads = share(kas_cores(), out->workers);
    KAS_TRY(kas_problem_check(&out->problem, &out->search));
    kas_machine machine;
    KAS_TRY(kas_search_machine(&out->search, &out->devices, &machine));
    KAS_TRY(kas_session_open_forecast(out, &machine));
    KAS_TRY(open_strategy(out)); /* before the study is made: it may refuse the options */
    if (dry)
        return kas_session_rehearse(out, &asked);
    kas_strategy_close(&out->strategy); /* an existing study decides what was left open */
    KAS_TRY(open_store(out, &asked, &machine, request));
    if (out->created && out->search.latency > 0 && !machine.calibrated)
        kas_warn("the machine \"%s\" was never calibrated: --latency discards candidates by rough "
                 "predictions; `kas-gpu doctor --calibrate` measures the machine on which it runs",
                 machine.name);
    if (out->created && !out->search.candidates &&
        out->ancestors_took.wall >= out->search.time_limit)
        kas_warn("the ancestors have taken all of --time, so that no candidate will begin; fewer "
                 "of them (--ancestors), or more time, leave some for candidates");
    KAS_TRY(open_strategy(out));
    return open_proposer(out);
}

static kas_status read_stored(const char *study, kas_session *out)
{
    kas_study stored;
    KAS_TRY(kas_study_open(study, KAS_STORE_WRITE, &out->store));
    KAS_TRY(kas_store_get_study(out->store, &stored));
    kas_status status = kas_search_options_read(study, stored.options, &out->search);
    snprintf(out->dataset, sizeof out->dataset, "%s", stored.dataset_path);
    kas_study_clear(&stored);
    return status;
}

kas_status kas_session_resume(const kas_session_request *request, kas_session *out)
{
    *out = (kas_session){.asking = {.command = request->propose}};
    KAS_TRY(read_stored(request->study, out));
    take_reading(request, out);
    kas_session_request full = *request;
    full.dataset = request->dataset ? request->dataset : out->dataset;
    char dataset[KAS_STUDY_PATH];
    snprintf(dataset, sizeof dataset, "%s", full.dataset);
    full.dataset = dataset;
    KAS_TRY(set_paths(&full, out));
    KAS_TRY(set_devices(request, request->device ? request->device : out->search.device, out));
    if (strcmp(out->devices.kind, out->search.device) != 0)
        return kas_fail(KAS_USAGE,
                        "%s: the study runs on \"%s\", and --device %s means \"%s\"; latencies "
                        "would not be comparable",
                        out->study, out->search.device, request->device, out->devices.kind);
    KAS_TRY(kas_problem_open(&out->search, out->dataset, &out->problem));
    KAS_TRY(choose_pack(request, out));
    KAS_TRY(kas_study_dir_make(out->study));
    KAS_TRY(kas_session_pin_plans(out));
    KAS_TRY(kas_code_version(out->code_version));
    KAS_TRY(kas_session_adopt(out, NULL));
    KAS_TRY(kas_session_keep_network(out));
    KAS_TRY(kas_session_keep_from(out));
    KAS_TRY(kas_session_keep_machine(out));
    KAS_TRY(kas_session_keep_ancestors(out));
    KAS_TRY(open_strategy(out));
    KAS_TRY(open_proposer(out));
    return kas_session_keep_init(out);
}

/* A machine that only measures has a folder of its own, for logs and plans, unless it sees that of
 * the study. */
static kas_status choose_folder(kas_session *s, bool here)
{
    char cache[KAS_STUDY_PATH], relative[64];
    if (here)
        return KAS_OK;
    if (s->role != KAS_TAKES_MEASURING)
        return kas_fail(KAS_STORE,
                        "%s: the folder of the study is not on this machine; weights and "
                        "checkpoints are there: mount it, and give its path as --study if that is "
                        "another, or take part with --role measure, which needs no folder",
                        s->study);
    KAS_TRY(kas_cache_dir(cache));
    snprintf(relative, sizeof relative, "measured/%s", kas_store_get_place(s->store)->id);
    return kas_study_path(cache, relative, s->study);
}

/* Measures on any kind of device; the training's numbers depend on the kind, and on the threads. */
static kas_status join_on(const kas_session_request *request, kas_session *s)
{
    const bool measures = request->role == KAS_TAKES_MEASURING;
    const char *spec = request->device ? request->device : measures ? "auto" : s->search.device;
    KAS_TRY(set_devices(request, spec, s));
    if (measures) {
        snprintf(s->search.device, sizeof s->search.device, "%s", s->devices.kind);
        s->search.threads = share(request->threads ? request->threads : kas_cores(), s->workers);
        s->ahead = 0;
        return KAS_OK;
    }
    return strcmp(s->devices.kind, s->search.device) == 0
               ? KAS_OK
               : kas_fail(KAS_USAGE,
                          "%s: the study trains on \"%s\", and --device %s means \"%s\"; with "
                          "--role measure it may be another",
                          s->study, s->search.device, spec, s->devices.kind);
}

static kas_status join_stored(const kas_session_request *request, const kas_study *stored,
                              kas_session *s)
{
    KAS_TRY(kas_session_check_code(s, stored));
    KAS_TRY(kas_search_options_read(s->study, stored->options, &s->search));
    KAS_TRY(set_dataset(request->dataset ? request->dataset : stored->dataset_path, s));
    take_reading(request, s);
    KAS_TRY(join_on(request, s));
    KAS_TRY(kas_problem_open(&s->search, s->dataset, &s->problem));
    KAS_TRY(kas_session_check_data(s, stored));
    return s->role == KAS_TAKES_MEASURING ? KAS_OK : choose_pack(request, s);
}

kas_status kas_session_join(const kas_session_request *request, kas_session *out)
{
    kas_study stored;
    bool here;
    *out = (kas_session){.takes_only = true, .role = request->role};
    KAS_TRY(kas_study_join(request->store, request->study, &out->store, out->study, &here));
    KAS_TRY(kas_code_version(out->code_version));
    KAS_TRY(kas_store_get_study(out->store, &stored));
    const kas_status status = join_stored(request, &stored, out);
    kas_study_clear(&stored);
    KAS_TRY(status);
    KAS_TRY(kas_store_check_schema(out->store));
    KAS_TRY(choose_folder(out, here));
    KAS_TRY(kas_study_dir_make(out->study));
    KAS_TRY(kas_session_pin_plans(out));
    return out->role == KAS_TAKES_MEASURING ? KAS_OK : kas_session_keep_init(out);
}

void kas_session_close(kas_session *session)
{
    kas_store_close(session->store);
    kas_strategy_close(&session->strategy);
    kas_search_forecast_close(&session->forecast);
    kas_buf_free(&session->from);
    kas_buf_free(&session->ancestors);
    kas_problem_close(&session->problem);
    session->store = NULL;
}

/* Returns the threads of the helper's compilers: the cores that no worker uses. */
static int ahead_threads(const kas_session *s)
{
    const bool cuda = strcmp(s->devices.kind, "cuda") == 0;
    const int spare = kas_cores() - s->workers * (cuda ? 1 : s->search.threads);
    return spare > 0 ? spare : 1;
}

static void describe_strategy(const kas_session *s)
{
    kas_buf text = {0};
    kas_strategy_describe(&s->strategy, &text);
    if (text.size)
        kas_info("%s", kas_buf_text(&text));
    kas_buf_free(&text);
}

kas_status kas_session_run(kas_session *s, void (*on_event)(void *context, const kas_event *event),
                           void *context)
{
    static const char *const worker[] = {"/proc/self/exe", "evaluate", NULL};
    const char *device[KAS_MAX_DEVICES];
    for (int i = 0; i < s->devices.count; i++)
        device[i] = s->devices.spec[i];
    static const char *const helper[] = {"/proc/self/exe", "compile-ahead", NULL};
    const kas_dataset *d = s->problem.dataset;
    const kas_ahead_options ahead = {.argv = helper,
                                     .candidates = s->ahead,
                                     .threads = ahead_threads(s),
                                     .h = (int)d->h,
                                     .w = (int)d->w,
                                     .c = (int)d->c,
                                     .classes = (int)d->classes};
    kas_supervisor_options options = {.study = s->study,
                                      .dataset = s->dataset,
                                      .search = &s->search,
                                      .strategy = s->strategy,
                                      .asking = &s->asking,
                                      .role = (kas_work_role)s->role,
                                      .takes_only = s->takes_only,
                                      .predicted = kas_search_forecast_unmodified(&s->forecast),
                                      .worker_argv = worker,
                                      .workers = s->workers,
                                      .pack = s->pack,
                                      .device = device,
                                      .devices = s->devices.count,
                                      .ahead = s->ahead > 0 ? &ahead : NULL,
                                      .leaves_finals = s->leaves_finals,
                                      .retrain = s->retrain,
                                      .hang_seconds = s->hang_seconds,
                                      .until = s->until,
                                      .checkpoint_limit = s->checkpoint_limit,
                                      .weights_limit = s->weights_limit,
                                      .on_event = on_event,
                                      .context = context};
    const kas_status status = kas_supervise(s->store, &options);
    if (s->takes_only)
        return status;
    describe_strategy(s);
    KAS_TRY(status);
    return kas_publish_best(s->study, s->store, &s->search, s->dataset, &s->problem);
}

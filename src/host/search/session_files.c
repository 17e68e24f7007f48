#include "host/search/session_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/core/file/files.h"
#include "host/core/sha256.h"
#include "host/model/pretrained.h"
#include "host/model/safetensors.h"
#include "host/predict/machine.h"
#include "host/score/untrained/score.h"
#include "host/search/ancestors.h"
#include "host/strategy/from.h"
#include "host/study/study_store.h"
#include "host/train/trained_on.h"

kas_status kas_session_check_init(kas_session *s)
{
    if (!s->init)
        return KAS_OK;
    KAS_TRY(kas_pretrained_check(s->init, s->problem.net, NULL, s->search.init_partial));
    KAS_TRY(
        kas_trained_on_check(s->init, s->problem.dataset, s->search.seed, s->search.validation));
    return kas_file_digest(s->init, KAS_WEIGHTS_LIMIT, s->search.init);
}

static kas_status copy(const char *from, const char *to)
{
    kas_buf file = {0};
    KAS_TRY(kas_file_read(from, KAS_WEIGHTS_LIMIT, &file));
    return kas_buf_save(&file, to, KAS_OK);
}

kas_status kas_session_keep_network(const kas_session *s)
{
    char path[KAS_STUDY_PATH];
    const char *text = s->search.network;
    if (!*text)
        return KAS_OK;
    KAS_TRY(kas_study_path(s->study, KAS_STUDY_NETWORK, path));
    return kas_file_exists(path) ? KAS_OK
                                 : kas_file_write_atomic(path, text, kas_net_kept_file(text));
}

kas_status kas_session_collect_from(const kas_session_request *request, kas_session *s)
{
    if (!request->from)
        return KAS_OK;
    const kas_status status = kas_from_collect(request->from, &s->from);
    if (status != KAS_OK)
        return kas_fail_context(status, "--from");
    kas_sha256_hex(s->from.data, s->from.size, s->search.from);
    return KAS_OK;
}

/* Fails unless a file that the study keeps is there and has the digest that the study knows. `what`
 * is in it; `option` (NULL: none) is that of the search command which writes it again. */
static kas_status check_kept(const char *path, uint64_t limit, const char *expected,
                             const char *what, const char *option)
{
    char digest[65], otherwise[64] = "";
    if (option)
        snprintf(otherwise, sizeof otherwise, "run the search command with %s", option);
    if (!kas_file_exists(path))
        return kas_fail(KAS_STORE,
                        "%s: there is no such file any more, and the study was begun with the %s "
                        "in it; restore the file%s%s",
                        path, what, option ? ", or " : "", otherwise);
    KAS_TRY(kas_file_digest(path, limit, digest));
    return strcmp(digest, expected) == 0
               ? KAS_OK
               : kas_fail(KAS_STORE,
                          "%s: not the %s that the study was begun with (digest %.12s..., the "
                          "study has %.12s...); restore the file%s%s",
                          path, what, digest, expected, option ? ", or remove it and " : "",
                          otherwise);
}

/* Reads a text of kernels that the study keeps. */
static kas_status read_kernels(const char *path, const char *expected, const char *option,
                               kas_buf *out)
{
    kas_buf_clear(out);
    KAS_TRY(check_kept(path, KAS_FROM_BYTES, expected, "kernels", option));
    return kas_file_read(path, KAS_FROM_BYTES, out);
}

kas_status kas_session_keep_from(kas_session *s)
{
    char path[KAS_STUDY_PATH];
    if (!s->search.from[0])
        return KAS_OK;
    KAS_TRY(kas_study_path(s->study, KAS_STUDY_FROM, path));
    if (!kas_file_exists(path) && s->from.size)
        KAS_TRY(kas_file_write_atomic(path, s->from.data, s->from.size));
    return read_kernels(path, s->search.from, "--from", &s->from);
}

/* The digest of what determines the scores and latencies of ancestors. */
static kas_status digest_of_scores(const kas_session *s, const kas_machine *machine, char hex[65])
{
    kas_buf text = {0};
    int fitted, count;
    const kas_field *field = kas_machine_fields(&fitted, &count);
    kas_buf_printf(&text, "%s\n%s\n", s->code_version, s->problem.dataset->digest);
    kas_fields_write(field, count, machine, &text);
    kas_search_options_write(&s->search, &text);
    const kas_status status = kas_buf_status(&text);
    if (status == KAS_OK)
        kas_sha256_hex(text.data, text.size, hex);
    kas_buf_free(&text);
    return status;
}

static kas_status evolve_ancestors(const kas_session_request *request, const kas_machine *machine,
                                   kas_session *s)
{
    char kept[KAS_STUDY_PATH], digest[65];
    if (!s->search.ancestors)
        return KAS_OK;
    kas_buf_clear(&s->ancestors);
    KAS_TRY(kas_study_path(s->study, KAS_STUDY_SCORES, kept));
    KAS_TRY(digest_of_scores(s, machine, digest));
    const kas_ancestors_run run = {.threads = request->threads,
                                   .kept = kept,
                                   .digest = digest,
                                   .effort = &s->ancestors_took,
                                   .interrupted = request->interrupted,
                                   .progress = request->progress,
                                   .context = request->context};
    const kas_status status = kas_ancestors_evolve(&s->search, &s->problem, &s->forecast,
                                                   kas_buf_text(&s->from), &run, &s->ancestors);
    if (status == KAS_OK)
        kas_sha256_hex(s->ancestors.data, s->ancestors.size, s->search.ancestry);
    return status == KAS_OK || status == KAS_INTERRUPTED
               ? status
               : kas_fail_context(status, "--ancestors %d (0 goes without)", s->search.ancestors);
}

static kas_status pin_ancestors(const kas_session *s)
{
    char path[KAS_STUDY_PATH];
    if (!s->search.ancestors)
        return KAS_OK;
    KAS_TRY(kas_study_path(s->study, KAS_STUDY_ANCESTORS, path));
    KAS_TRY(kas_file_write_atomic(path, s->ancestors.data, s->ancestors.size));
    KAS_TRY(kas_study_path(s->study, KAS_STUDY_SCORES, path));
    unlink(path); /* what they were for is done */
    return KAS_OK;
}

kas_status kas_session_keep_ancestors(kas_session *s)
{
    char path[KAS_STUDY_PATH];
    kas_buf_clear(&s->ancestors);
    if (!*s->search.ancestry)
        return KAS_OK;
    KAS_TRY(kas_study_path(s->study, KAS_STUDY_ANCESTORS, path));
    return read_kernels(path, s->search.ancestry, NULL, &s->ancestors);
}

kas_status kas_session_open_forecast(kas_session *s, const kas_machine *machine)
{
    kas_search_forecast_close(&s->forecast);
    return kas_search_forecast_open(&s->search, machine, s->problem.net, &s->forecast);
}

static kas_status pin_machine(kas_session *s, const kas_machine *machine)
{
    char path[KAS_STUDY_PATH];
    KAS_TRY(kas_study_path(s->study, KAS_STUDY_MACHINE, path));
    if (!kas_file_exists(path))
        KAS_TRY(kas_machine_write(path, machine));
    return kas_file_digest(path, KAS_MACHINE_BYTES, s->search.machine);
}

static kas_status ask_begun(kas_session *s, bool *out)
{
    if (!s->store)
        KAS_TRY(kas_study_begin_store(s->study, s->place, &s->store));
    return kas_store_has_study(s->store, out);
}

static bool is_in_database(const kas_session *s)
{
    const char *set = getenv("KAS_STORE");
    return s->place || (set && *set);
}

/* Ancestors evolve for minutes. A database, which may be out of reach, is opened before; of a study in
 * a file nothing is there meanwhile. Another process may begin the study in these minutes. */
kas_status kas_session_pin_files(const kas_session_request *request, const kas_machine *machine,
                                 kas_session *s)
{
    bool begun = false;
    if (kas_study_exists(s->study) || is_in_database(s))
        KAS_TRY(ask_begun(s, &begun));
    if (!begun) {
        KAS_TRY(evolve_ancestors(request, machine, s));
        KAS_TRY(ask_begun(s, &begun));
    }
    if (begun)
        return KAS_OK;
    KAS_TRY(pin_machine(s, machine));
    return pin_ancestors(s);
}

kas_status kas_session_keep_machine(kas_session *s)
{
    char path[KAS_STUDY_PATH];
    kas_machine machine;
    kas_search_forecast_close(&s->forecast);
    if (!*s->search.machine)
        return KAS_OK;
    KAS_TRY(kas_study_path(s->study, KAS_STUDY_MACHINE, path));
    KAS_TRY(check_kept(path, KAS_MACHINE_BYTES, s->search.machine, "machine model", NULL));
    KAS_TRY(kas_machine_read(path, &machine));
    return kas_session_open_forecast(s, &machine);
}

/* Returns whether a score that is still to be computed imitates the network of --init. */
static bool imitates(const kas_search_options *o)
{
    const char *name = kas_score_get(KAS_SCORE_IMITATION)->name;
    const size_t length = strlen(name);
    return (o->ancestors && !*o->ancestry) || strncmp(o->legality, name, length) == 0 ||
           strncmp(o->prefilter, name, length) == 0;
}

/* What was given is compared with the study's options later, and the study's copy with its digest. */
kas_status kas_session_read_init(kas_session *s)
{
    char path[KAS_STUDY_PATH];
    if (!s->search.init[0] || kas_problem_init(&s->problem) || !imitates(&s->search))
        return KAS_OK;
    if (s->init)
        return kas_problem_read_init(&s->problem, s->init);
    KAS_TRY(kas_study_path(s->study, KAS_STUDY_INIT, path));
    KAS_TRY(check_kept(path, KAS_WEIGHTS_LIMIT, s->search.init, "weights", "--init"));
    return kas_problem_read_init(&s->problem, path);
}

kas_status kas_session_keep_init(const kas_session *s)
{
    char path[KAS_STUDY_PATH];
    if (!s->search.init[0])
        return KAS_OK;
    KAS_TRY(kas_study_path(s->study, KAS_STUDY_INIT, path));
    if (!kas_file_exists(path) && s->init)
        KAS_TRY(copy(s->init, path));
    return check_kept(path, KAS_WEIGHTS_LIMIT, s->search.init, "weights", "--init");
}

kas_status kas_session_pin_plans(const kas_session *s)
{
    char path[KAS_STUDY_PATH];
    KAS_TRY(kas_study_path(s->study, "plans", path));
    KAS_CHECK_LIBC(setenv("KAS_CUDA_PINS", path, 1) == 0, KAS_FAILURE);
    KAS_TRY(kas_study_path(s->study, "schedules", path));
    KAS_CHECK_LIBC(setenv("KAS_SCHEDULE_PINS", path, 1) == 0, KAS_FAILURE);
    return KAS_OK;
}

#include "host/search/session_same.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/log.h"
#include "host/space/sample/sampler.h"
#include "host/strategy/first.h"
#include "host/study/study_store.h"

int kas_session_sampler_version(const kas_session *s)
{
    return kas_sampler_version(&s->search.sample) + (s->search.known ? KAS_KNOWN_VERSION : 0);
}

kas_status kas_session_check_proposals(const char *command, const kas_search_options *o)
{
    if (!command)
        return KAS_OK;
    if (o->asynchronous)
        return kas_fail(KAS_USAGE, "--propose: the program is asked once a generation, and with "
                                   "--asynchronous there are none; leave out one of them");
    if (!kas_search_in_generations(o))
        return kas_fail(KAS_USAGE, "--propose: the program is asked once a generation, and this "
                                   "study has none; begin another study with --propose");
    if (o->sample.space != KAS_SPACE_CANVAS)
        return kas_fail(KAS_USAGE, "--propose: kernels are checked by the steps of the sampler of "
                                   "--space canvas: use it");
    return KAS_OK;
}

kas_status kas_session_write_options(const kas_search_options *options, char **out)
{
    kas_buf text = {0};
    kas_search_options_write(options, &text);
    return kas_buf_take(&text, out);
}

kas_status kas_session_check_code(const kas_session *s, const kas_study *stored)
{
    const char *code = *stored->code_version ? stored->code_version : "unknown";
    return strcmp(code, s->code_version) == 0
               ? KAS_OK
               : kas_fail(KAS_STORE,
                          "%s: begun with code version %s, this kas-gpu has version %s and would "
                          "compute other numbers; go on with the version that began it",
                          s->study, code, s->code_version);
}

kas_status kas_session_check_data(const kas_session *s, const kas_study *stored)
{
    char scaling[KAS_SCALING_TEXT];
    kas_dataset_scaling(s->problem.dataset, scaling);
    if (strcmp(stored->dataset_digest, s->problem.dataset->digest) != 0)
        return kas_fail(KAS_STORE,
                        "%s: the study was begun with other data (digest %.12s...; %s has "
                        "%.12s...); give the same as --dataset, or another --study",
                        s->study, stored->dataset_digest, s->dataset, s->problem.dataset->digest);
    if (*s->search.scaling && strcmp(s->search.scaling, scaling) != 0)
        return kas_fail(KAS_STORE,
                        "%s: the study was begun with data of %s; %s has the same images, but %s; "
                        "give the same as --dataset, or another --study",
                        s->study, s->search.scaling, s->dataset, scaling);
    return KAS_OK;
}

static kas_status check_same(const kas_session *s, const kas_study *stored)
{
    KAS_TRY(kas_session_check_data(s, stored));
    if (stored->sampler_version != kas_session_sampler_version(s))
        return kas_fail(KAS_STORE,
                        "%s: begun with sampler version %d, this kas-gpu has version %d and would "
                        "sample other kernels; go on with the version that began it",
                        s->study, stored->sampler_version, kas_session_sampler_version(s));
    return kas_session_check_code(s, stored);
}

bool kas_session_set_reading(const kas_session *s, kas_search_options *o)
{
    const bool stream = o->stream || s->stream;
    const int threads = s->read_threads ? s->read_threads : o->read_threads;
    const bool news = stream != o->stream || threads != o->read_threads;
    o->stream = stream;
    o->read_threads = threads;
    return news;
}

/* Returns the options that must equal the study's: more candidates may be requested, because
 * candidate k is the same in either case. */
static kas_search_options comparable(const kas_session *s, const kas_search_options *stored,
                                     const kas_search_options *asked, bool *grows)
{
    kas_search_options same = *asked;
    *grows = s->may_grow && stored->candidates > 0 && asked->candidates > stored->candidates;
    if (*grows)
        same.candidates = stored->candidates;
    return same;
}

typedef struct adoption {
    kas_session *session;
    const kas_search_options *asked; /* NULL: the study's options */
    bool grows, moved; /* the results: the study gets more candidates; the data set has moved */
} adoption;

/* Requires the same options as the study's; options that the command left open are taken from
 * the study. */
static kas_status decide(void *context, const kas_study *stored, kas_study_change *out)
{
    adoption *a = context;
    kas_session *s = a->session;
    kas_search_options options;
    KAS_TRY(kas_search_options_read(s->study, stored->options, &options));
    if (a->asked) {
        const kas_search_options same = comparable(s, &options, a->asked, &a->grows);
        KAS_TRY(kas_search_options_same(s->study, &options, &same));
    }
    s->search = options; /* the version is compared with this sampler */
    KAS_TRY(check_same(s, stored));
    KAS_TRY(kas_session_check_proposals(s->asking.command, &options));
    const bool reads = kas_session_set_reading(s, &s->search);
    if (a->grows)
        s->search.candidates = a->asked->candidates;
    a->moved = strcmp(stored->dataset_path, s->dataset) != 0;
    out->grows = a->grows;
    return a->grows || reads ? kas_session_write_options(&s->search, &out->options) : KAS_OK;
}

kas_status kas_session_adopt(kas_session *s, const kas_search_options *asked)
{
    adoption a = {.session = s, .asked = asked};
    KAS_TRY(kas_store_revise(s->store, decide, &a));
    return a.moved ? kas_store_set_dataset_path(s->store, s->dataset) : KAS_OK;
}

kas_status kas_session_rehearse(const kas_session *s, const kas_search_options *asked)
{
    kas_session trial = *s; /* the options are compared as in an adoption, and then forgotten */
    adoption a = {.session = &trial, .asked = asked};
    kas_study stored = {0};
    kas_study_change change = {0};
    bool begun;
    KAS_TRY(kas_study_check_begin(s->study, s->place));
    if (!kas_study_exists(s->study))
        return KAS_OK;
    KAS_TRY(kas_code_version(trial.code_version));
    KAS_TRY(kas_study_open(s->study, KAS_STORE_READ, &trial.store));
    kas_status status = kas_store_has_study(trial.store, &begun);
    if (status == KAS_OK && begun)
        status = kas_store_get_study(trial.store, &stored);
    if (status == KAS_OK && begun)
        status = decide(&a, &stored, &change);
    free(change.options);
    kas_study_clear(&stored);
    kas_store_close(trial.store);
    return status;
}

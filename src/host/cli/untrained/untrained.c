#include "host/cli/untrained/untrained.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "host/core/file/files.h"
#include "host/core/log.h"
#include "host/report/line.h"
#include "host/report/table.h"
#include "host/search/untrained.h"
#include "host/study/study_store.h"

typedef struct session {
    const kas_cli_common *common;
    const kas_cli_untrained *how;
    const char *dataset;
    char study[KAS_STUDY_PATH];
    kas_search_options search;
    kas_problem problem;
    kas_machine machine;
    kas_devices devices;
    kas_untrained found;
} session;

static int scored(const kas_untrained *u)
{
    return u->states[KAS_CONFIGURATION_LEGAL] + u->states[KAS_CONFIGURATION_REJECTED];
}

static double rejected_share(const kas_untrained *u)
{
    return scored(u) ? (double)u->states[KAS_CONFIGURATION_REJECTED] / scored(u) : NAN;
}

/* ---- table ----------------------------------------------------------------------------------- */

static void stage(const char *what, const kas_stage_seconds *s, const char *end)
{
    printf("%s in %.1f s (%.1f s of processor time)%s", what, s->wall, s->processor, end);
}

static void print_counts(const session *s)
{
    const kas_untrained *u = &s->found;
    char text[32], drawn[64];
    snprintf(drawn, sizeof drawn, "%d configurations drawn", u->count);
    stage(drawn, &u->draw, ", ");
    stage("predicted", &u->predict, ", ");
    stage("scored", &u->score, "\n");
    if (s->how->measure)
        stage("the legal ones measured", &u->measure, "\n");
    printf("unmodified network: Fisher potential %.4g on %d images, predicted %s for %d images on "
           "%s\n",
           u->potential, KAS_SCORE_LEAST_BATCH, kas_human_seconds(u->predicted, text),
           KAS_LATENCY_BATCH, s->machine.name);
    printf("scored %d, from the one predicted fastest on: %d rejected", scored(u),
           u->states[KAS_CONFIGURATION_REJECTED]);
    if (scored(u))
        printf(" (%.1f%%)", 100 * rejected_share(u));
    printf(", %d legal (--legality %s)\n", u->states[KAS_CONFIGURATION_LEGAL], s->search.legality);
    if (u->states[KAS_CONFIGURATION_UNSCORED])
        printf("not scored: %d that are slower than these; --score-all scores them too\n",
               u->states[KAS_CONFIGURATION_UNSCORED]);
    if (u->states[KAS_CONFIGURATION_SLOW])
        printf("not scored: %d that are predicted to be slower than --latency %g allows\n",
               u->states[KAS_CONFIGURATION_SLOW], s->search.latency);
    if (u->states[KAS_CONFIGURATION_BROKEN])
        printf("left out: %d with a kernel that cannot be compiled\n",
               u->states[KAS_CONFIGURATION_BROKEN]);
}

static void cell_of_ratio(kas_table *table, double ratio)
{
    if (isnan(ratio))
        kas_table_cell(table, "-");
    else
        kas_table_cell(table, "%.3fx", ratio);
}

static kas_status print_table(const session *s)
{
    static const kas_column columns[] = {{"configuration", KAS_LEFT},  {"predicted", KAS_RIGHT},
                                         {"measured", KAS_RIGHT},      {"FLOPs", KAS_RIGHT},
                                         {"params", KAS_RIGHT},        {"Fisher", KAS_RIGHT},
                                         {"layers changed", KAS_RIGHT}};
    const kas_untrained *u = &s->found;
    kas_buf out = {0};
    print_counts(s);
    if (!u->states[KAS_CONFIGURATION_LEGAL])
        return KAS_OK;
    kas_table *table = kas_table_create(columns, 7);
    for (int i = 0; i < u->states[KAS_CONFIGURATION_LEGAL]; i++) {
        const kas_configuration *c = &u->configuration[u->legal[i]];
        kas_table_cell(table, "%s", c->name);
        cell_of_ratio(table, c->predicted / u->predicted);
        cell_of_ratio(table, c->ratio);
        cell_of_ratio(table, c->flops);
        cell_of_ratio(table, c->params);
        cell_of_ratio(table, c->potential / u->potential);
        kas_table_cell(table, "%d of %d", c->changed, s->problem.targets);
    }
    kas_buf_puts(&out, "\n");
    kas_table_end(table, &out);
    kas_buf_printf(
        &out,
        "\nThe fastest first. FLOPs and params: relative to the convolutions that may be "
        "replaced; all others: to the unmodified network.\n"
        "the fastest legal configuration: %s/best/kernel.json\n",
        s->study);
    return kas_print_buf(&out);
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void line_of_stage(kas_buf *line, const char *name, const kas_stage_seconds *s)
{
    char field[64];
    snprintf(field, sizeof field, "%s_seconds", name);
    kas_line_number(line, field, s->wall);
    snprintf(field, sizeof field, "%s_cpu_seconds", name);
    kas_line_number(line, field, s->processor);
}

static void line_of_search(const session *s, kas_buf *line)
{
    const kas_untrained *u = &s->found;
    const int legal = u->states[KAS_CONFIGURATION_LEGAL];
    kas_line_begin(line);
    kas_line_text(line, "kind", "untrained");
    kas_line_text(line, "net", s->search.net);
    kas_line_text(line, "dataset", s->dataset);
    kas_line_uint(line, "seed", s->search.seed);
    kas_line_int(line, "batch", KAS_SCORE_LEAST_BATCH);
    kas_line_text(line, "legality", s->search.legality);
    kas_line_text(line, "machine", s->machine.name);
    kas_line_int(line, "configurations", u->count);
    kas_line_int(line, "over_budget", u->over_budget);
    kas_line_int(line, "twice", u->twice);
    kas_line_int(line, "scored", scored(u));
    kas_line_number(line, "rejected_share", rejected_share(u));
    for (int i = 0; i < KAS_CONFIGURATION_STATES; i++)
        kas_line_int(line, kas_configuration_states[i], u->states[i]);
    kas_line_number(line, "fisher", u->potential);
    kas_line_number(line, "least_fisher", u->least);
    kas_line_number(line, "predicted_seconds", u->predicted);
    line_of_stage(line, "draw", &u->draw);
    line_of_stage(line, "predict", &u->predict);
    line_of_stage(line, "score", &u->score);
    line_of_stage(line, "measure", &u->measure);
    kas_line_text(line, "best", legal ? u->configuration[u->legal[0]].name : NULL);
    kas_line_end(line);
}

static void line_of_configuration(const session *s, const kas_configuration *c, kas_buf *line)
{
    const kas_untrained *u = &s->found;
    kas_line_begin(line);
    kas_line_text(line, "kind", "configuration");
    kas_line_text(line, "configuration", c->name);
    kas_line_text(line, "state", kas_configuration_states[c->state]);
    kas_line_int(line, "changed", c->changed);
    kas_line_int(line, "targets", s->problem.targets);
    kas_line_number(line, "flops_ratio", c->flops);
    kas_line_number(line, "params_ratio", c->params);
    kas_line_number(line, "predicted_seconds", c->predicted);
    kas_line_number(line, "predicted_ratio", c->predicted / u->predicted);
    kas_line_number(line, "fisher", c->potential);
    kas_line_number(line, "latency_ratio", c->ratio);
    kas_line_number(line, "latency_ratio_low", c->ratio_low);
    kas_line_number(line, "latency_ratio_high", c->ratio_high);
    kas_line_end(line);
}

/* The search, the legal ones from the fastest on, and all others in the order of their
 * prediction. */
static kas_status write_lines(const session *s, kas_buf *out)
{
    const kas_untrained *u = &s->found;
    line_of_search(s, out);
    for (int i = 0; i < u->states[KAS_CONFIGURATION_LEGAL]; i++)
        line_of_configuration(s, &u->configuration[u->legal[i]], out);
    for (int i = 0; i < u->count; i++)
        if (u->configuration[i].state != KAS_CONFIGURATION_LEGAL)
            line_of_configuration(s, &u->configuration[i], out);
    return kas_buf_status(out);
}

/* ---- folder ---------------------------------------------------------------------------------- */

static kas_status path_of(const session *s, const char *relative, char out[KAS_STUDY_PATH])
{
    return kas_study_path(s->study, relative, out);
}

/* Fails where the folder `name` in that of the search has something in it, because the search would
 * delete it; deletes the folder where it is empty. */
static kas_status check_empty(const session *s, const char *name)
{
    char path[KAS_STUDY_PATH];
    KAS_TRY(path_of(s, name, path));
    return rmdir(path) == 0 || errno == ENOENT
               ? KAS_OK
               : kas_fail(KAS_USAGE,
                          "--study %s: there is a %s/ in it that no earlier search without "
                          "training has written; choose another folder",
                          s->study, name);
}

/* Another folder would be found only after the search. */
static kas_status check_folder(const session *s)
{
    char path[KAS_STUDY_PATH];
    if (kas_study_exists(s->study))
        return kas_fail(KAS_USAGE,
                        "--study %s: there is a study that trains; a search without training needs "
                        "a folder of its own",
                        s->study);
    KAS_TRY(kas_mkdirs(s->study));
    KAS_TRY(path_of(s, KAS_STUDY_UNTRAINED, path));
    if (!kas_file_exists(path)) {
        KAS_TRY(check_empty(s, "best"));
        KAS_TRY(check_empty(s, "legal"));
    }
    return kas_file_check_writable(path);
}

static kas_status clear_folder(const session *s, const char *folder)
{
    char path[KAS_STUDY_PATH];
    KAS_TRY(path_of(s, folder, path));
    return kas_file_exists(path) ? kas_remove_tree(path) : KAS_OK;
}

static kas_status write_kernel(const session *s, const char *folder, const char *name,
                               const kas_configuration *c)
{
    char relative[64], path[KAS_STUDY_PATH];
    KAS_TRY(path_of(s, folder, path));
    KAS_TRY(kas_mkdirs(path));
    snprintf(relative, sizeof relative, "%s/%s.json", folder, name);
    KAS_TRY(path_of(s, relative, path));
    return kas_file_write_atomic(path, c->text, strlen(c->text));
}

static kas_status write_folder(const session *s, const kas_buf *lines)
{
    const kas_untrained *u = &s->found;
    char path[KAS_STUDY_PATH];
    KAS_TRY(path_of(s, "best/kernel.json", path));
    if (!u->states[KAS_CONFIGURATION_LEGAL] && kas_file_exists(path)) {
        kas_warn("%s: what an earlier search found stays, because this one found nothing",
                 s->study);
        return KAS_OK;
    }
    /* First, because it says whose the two folders are: the same command goes on after a kill. */
    KAS_TRY(path_of(s, KAS_STUDY_UNTRAINED, path));
    KAS_TRY(kas_file_write_atomic(path, lines->data, lines->size));
    KAS_TRY(clear_folder(s, "best"));
    KAS_TRY(clear_folder(s, "legal"));
    for (int i = 0; i < u->states[KAS_CONFIGURATION_LEGAL]; i++) {
        const kas_configuration *c = &u->configuration[u->legal[i]];
        if (i == 0)
            KAS_TRY(write_kernel(s, "best", "kernel", c));
        KAS_TRY(write_kernel(s, "legal", c->name, c));
    }
    return KAS_OK;
}

/* ---- all ------------------------------------------------------------------------------------- */

static kas_status none_legal(const session *s)
{
    const kas_untrained *u = &s->found;
    double most = 0;
    if (!scored(u))
        return kas_fail(KAS_NOTHING_VALID,
                        "none of %d configurations is legal: none was scored, for %d are predicted "
                        "to be slower than --latency %g allows, and %d have a kernel that cannot "
                        "be compiled; draw more with --configurations, or allow a larger --latency",
                        u->count, u->states[KAS_CONFIGURATION_SLOW], s->search.latency,
                        u->states[KAS_CONFIGURATION_BROKEN]);
    for (int i = 0; i < u->count; i++)
        most = fmax(most, u->configuration[i].potential);
    return kas_fail(KAS_NOTHING_VALID,
                    "none of %d configurations is legal: the largest Fisher potential is %.4g, and "
                    "%.4g is needed; draw more with --configurations, or give a tolerance, as in "
                    "--legality fisher:0.2",
                    u->count, most, u->least);
}

static kas_status open_session(const kas_session_request *request, session *s)
{
    if (request->net)
        KAS_TRY(kas_net_keep(request->net, s->search.net, &s->search.network));
    if (*request->study)
        snprintf(s->study, sizeof s->study, "%s", request->study);
    else
        snprintf(s->study, sizeof s->study, "studies/%s-untrained-%llu", s->search.net,
                 (unsigned long long)s->search.seed);
    KAS_TRY(kas_devices_find(request->device ? request->device : "auto", &s->devices));
    snprintf(s->search.device, sizeof s->search.device, "%s", s->devices.kind);
    s->search.threads = s->common->threads;
    KAS_TRY(kas_problem_open(&s->search, s->dataset, &s->problem));
    KAS_TRY(kas_search_machine(&s->search, &s->devices, &s->machine));
    return check_folder(s); /* last, because it makes the folder */
}

static kas_status measure(session *s, const kas_untrained_options *options)
{
    kas_device *device;
    KAS_TRY(kas_device_open(s->devices.spec[0], s->common->threads, &device));
    const kas_status status = kas_untrained_measure(options, device, &s->found);
    kas_device_close(device);
    KAS_TRY(status);
    const kas_untrained *u = &s->found;
    const double limit = s->search.latency;
    const int first = u->states[KAS_CONFIGURATION_LEGAL] ? u->legal[0] : -1;
    if (first >= 0 && limit > 0 && u->configuration[first].ratio > limit)
        kas_warn("the fastest legal configuration was measured to take %.3f times as long as the "
                 "unmodified network, and --latency allows %g times",
                 u->configuration[first].ratio, limit);
    return KAS_OK;
}

static kas_status search(session *s)
{
    const kas_untrained_options options = {.search = &s->search,
                                           .problem = &s->problem,
                                           .machine = &s->machine,
                                           .configurations = s->how->configurations
                                                                 ? s->how->configurations
                                                                 : KAS_UNTRAINED_CONFIGURATIONS,
                                           .wanted = s->search.finalists,
                                           .score_all = s->how->score_all,
                                           .threads = s->common->threads};
    kas_buf lines = {0};
    if (!s->machine.calibrated)
        kas_warn("the machine \"%s\" was never calibrated: predictions are rough; `kas-gpu doctor "
                 "--calibrate` measures the machine on which it runs",
                 s->machine.name);
    KAS_TRY(kas_untrained_search(&options, &s->found));
    if (s->how->measure)
        KAS_TRY(measure(s, &options));
    kas_status status = write_lines(s, &lines);
    if (status == KAS_OK)
        status = write_folder(s, &lines);
    if (status == KAS_OK && s->common->json)
        printf("%s", kas_buf_text(&lines));
    else if (status == KAS_OK)
        status = print_table(s);
    kas_buf_free(&lines);
    KAS_TRY(status);
    return s->found.states[KAS_CONFIGURATION_LEGAL] ? KAS_OK : none_legal(s);
}

kas_status kas_untrained_run(const kas_session_request *request, const kas_cli_untrained *how,
                             const kas_cli_common *common)
{
    session s = {
        .common = common, .how = how, .dataset = request->dataset, .search = request->search};
    kas_search_options *o = &s.search;
    if (strncmp(o->legality, "fisher", strlen("fisher")) != 0)
        return kas_fail(KAS_USAGE,
                        "--no-training: --legality is fisher or fisher:TOLERANCE, as in NAS-PTE's "
                        "search, found \"%s\"",
                        *o->legality ? o->legality : "none");
    if (o->sample.per_layer == KAS_PER_LAYER_AUTO)
        o->sample.per_layer = KAS_PER_LAYER_YES;
    kas_status status = open_session(request, &s);
    if (status == KAS_OK)
        status = search(&s);
    kas_untrained_free(&s.found);
    kas_problem_close(&s.problem);
    return status;
}

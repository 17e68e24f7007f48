#include "host/bench/bench.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "host/core/file/folder.h"
#include "host/core/log.h"

extern const kas_bench_suite kas_bench_suite_sampler, kas_bench_suite_jit, kas_bench_suite_step,
    kas_bench_suite_models, kas_bench_suite_layers, kas_bench_suite_data, kas_bench_suite_known,
    kas_bench_suite_children, kas_bench_suite_predicted, kas_bench_suite_store;

const kas_bench_suite *const *kas_bench_suites(void)
{
    static const kas_bench_suite *const suites[] = {&kas_bench_suite_sampler,
                                                    &kas_bench_suite_jit,
                                                    &kas_bench_suite_step,
                                                    &kas_bench_suite_models,
                                                    &kas_bench_suite_layers,
                                                    &kas_bench_suite_data,
                                                    &kas_bench_suite_known,
                                                    &kas_bench_suite_children,
                                                    &kas_bench_suite_predicted,
                                                    &kas_bench_suite_store,
                                                    NULL};
    return suites;
}

const kas_bench_suite *kas_bench_find(const char *name)
{
    for (const kas_bench_suite *const *s = kas_bench_suites(); *s; s++)
        if (strcmp((*s)->name, name) == 0)
            return *s;
    return NULL;
}

/* Returns the number of characters up to the comma that ends a network, or to the end. */
static size_t net_length(const char *list)
{
    size_t length = list[0] == '{' ? strlen(list) : strcspn(list, ",");
    while (list[length] == ',') {
        const char *part = list + length + 1;
        const size_t size = strcspn(part, ",");
        if (!memchr(part, '=', size) || memchr(part, ':', size))
            break;
        length += 1 + size;
    }
    return length;
}

bool kas_bench_next_net(const char **list, char net[KAS_BENCH_NET])
{
    if (!**list)
        return false;
    const size_t length = net_length(*list);
    snprintf(net, KAS_BENCH_NET, "%.*s", (int)(length < KAS_BENCH_NET ? length : KAS_BENCH_NET),
             *list);
    *list += length + ((*list)[length] == ',');
    return true;
}

int kas_bench_count_nets(const char *list, int usual)
{
    char net[KAS_BENCH_NET];
    int count = 0;
    while (list && kas_bench_next_net(&list, net))
        count++;
    return count ? count : usual;
}

void kas_bench_announce(const kas_bench_suite *const *suite, int count,
                        const kas_bench_options *options)
{
    kas_buf text = {0};
    char human[32];
    double all = 0;
    for (int i = 0; i < count; i++) {
        const double seconds = suite[i]->seconds(options);
        all += seconds;
        kas_buf_printf(&text, "%s%s %s", i ? ", " : "", suite[i]->name,
                       kas_human_duration(seconds, human));
    }
    kas_info("about %s on two cores of a CPU (%s)", kas_human_duration(all, human),
             kas_buf_text(&text));
    kas_buf_free(&text);
}

static bool cannot_run_here(kas_status status)
{
    return status == KAS_UNSUPPORTED || status == KAS_NO_MEMORY || status == KAS_DEVICE;
}

kas_status kas_bench_run_all(const kas_bench_suite *const *suite, int count,
                             const kas_bench_options *options, const kas_bench_sink *sink)
{
    kas_status first = KAS_OK;
    kas_buf error = {0};
    for (int i = 0; i < count; i++) {
        const kas_status status = suite[i]->run(options, sink);
        if (status == KAS_OK)
            continue;
        kas_warn("%s: %s: %s", suite[i]->name,
                 cannot_run_here(status) ? "left out, because it cannot run on this machine"
                                         : "failed",
                 kas_error());
        if (first == KAS_OK && !cannot_run_here(status)) {
            first = status;
            kas_buf_printf(&error, "suite %s: %s", suite[i]->name, kas_error());
        }
    }
    if (first != KAS_OK)
        kas_fail(first, "%s", kas_buf_text(&error));
    kas_buf_free(&error);
    return first;
}

kas_status kas_bench_net(const kas_bench_options *o, const char *name, int side, kas_net **out)
{
    const bool given = o->h != 0;
    return kas_net_build(name, given ? o->h : side, given ? o->w : side, given ? o->c : 3,
                         o->classes, out);
}

kas_budget kas_bench_budget(const kas_bench_options *o)
{
    kas_budget budget = o->budget;
    if (budget.max_flops_ratio <= 0)
        budget.max_flops_ratio = 0.5;
    if (budget.max_params_ratio <= 0)
        budget.max_params_ratio = 1;
    return budget;
}

kas_status kas_bench_kernel_files(const char *path,
                                  kas_status (*each)(void *context, const char *file),
                                  void *context)
{
    struct stat found;
    int files;
    if (stat(path, &found) != 0 || !S_ISDIR(found.st_mode))
        return each(context, path);
    KAS_TRY(kas_folder_each(path, ".json", each, context, &files));
    return files ? KAS_OK
                 : kas_fail(KAS_BAD_INPUT, "%s: the folder has no kernel file (*.json)", path);
}

void kas_bench_line_begin(kas_buf *line, const char *suite, const kas_device_info *info)
{
    double load;
    kas_line_begin(line);
    kas_line_text(line, "kind", "bench");
    kas_line_text(line, "suite", suite);
    kas_line_text(line, "version", "kas-gpu " KAS_VERSION);
    kas_line_text(line, "device", info->name);
    kas_line_text(line, "arch", info->arch);
    kas_line_int(line, "threads", info->threads);
    kas_line_number(line, "load_average", getloadavg(&load, 1) == 1 ? load : NAN);
}

void kas_bench_line_spread(kas_buf *line, const char *name, kas_samples *samples)
{
    char field[64];
    kas_line_number(line, name, kas_samples_quantile(samples, 0.5));
    snprintf(field, sizeof field, "%s_q1", name);
    kas_line_number(line, field, kas_samples_quantile(samples, 0.25));
    snprintf(field, sizeof field, "%s_q3", name);
    kas_line_number(line, field, kas_samples_quantile(samples, 0.75));
}

void kas_bench_line_rejected(kas_buf *line, const uint64_t rejected[KAS_REJECT_COUNT])
{
    kas_line_key(line, "rejected");
    for (int r = KAS_REJECT_NONE + 1; r < KAS_REJECT_COUNT; r++) {
        kas_buf_puts(line, r == KAS_REJECT_NONE + 1 ? "{" : ", ");
        kas_buf_json_string(line, kas_reject_name((kas_reject)r));
        kas_buf_printf(line, ": %" PRIu64, rejected[r]);
    }
    kas_buf_puts(line, "}");
}

kas_status kas_bench_line_put(kas_buf *line, const kas_bench_sink *sink)
{
    kas_line_end(line);
    kas_status status = kas_buf_status(line);
    if (status == KAS_OK)
        sink->put(sink->context, kas_buf_text(line));
    kas_buf_free(line);
    return status;
}

kas_status kas_bench_table_put(const kas_table *table, const char *title,
                               const kas_bench_sink *sink)
{
    if (sink->json)
        return KAS_OK;
    kas_buf text = {0};
    kas_buf_printf(&text, "%s\n\n", title);
    kas_status status = kas_table_write(table, &text);
    kas_buf_puts(&text, "\n");
    if (status == KAS_OK)
        status = kas_buf_status(&text);
    if (status == KAS_OK)
        sink->put(sink->context, kas_buf_text(&text));
    kas_buf_free(&text);
    return status;
}

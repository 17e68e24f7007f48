/* kas-gpu sample: draws kernels of the search space without training any. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "host/check/recheck.h"
#include "host/cli/given.h"
#include "host/cli/net_options.h"
#include "host/cli/sample_histograms.h"
#include "host/cli/sampler_options.h"
#include "host/core/file/files.h"
#include "host/core/file/folder.h"
#include "host/core/arena.h"
#include "host/core/log.h"
#include "host/report/line.h"
#include "host/report/table.h"
#include "host/space/file/kernel_json.h"
#include "host/space/nas_pte/nas_pte.h"
#include "host/space/sample/sampler.h"

typedef struct sample_options {
    kas_cli_common common;
    kas_cli_net net;
    kas_sample_options sample;
    long long count, attempts;
    const char *folder, *sequence, *parents;
    int space;   /* kas_space, as --space says; -1 = not given */
    bool neural; /* the sequence is a neural transformation */
    bool stats, recheck;
} sample_options;

enum { KEY_STATS = 0x200, KEY_ATTEMPTS, KEY_RECHECK, KEY_SPACE, KEY_SEQUENCE, KEY_PARENTS };

static const struct argp_option option_list[] = {
    {"count", 'k', "N", 0, "How many kernels (default 10)", 0},
    {"seed", 's', "S", 0, "Seed (default 0): the same seed gives the same kernels", 0},
    {"space", KEY_SPACE, "SPACE", 0,
     "canvas: grown from primitives (default); nas-pte: convolutions, transformed layer by layer",
     0},
    {"sequence", KEY_SEQUENCE, "STEPS", 0,
     "nas-pte: only the kernel of these transformations, such as \"split(2) group(2) group(4)@1\", "
     "or pte-1, pte-2, pte-3 (docs/sampling.md)",
     0},
    {"parents", KEY_PARENTS, "PATH", 0,
     "Draw children of this kernel, or of the kernels of this folder: each with one change", 0},
    {"output", 'o', "DIR", 0, "Also write each kernel to DIR/NAME.json", 0},
    {"attempts", KEY_ATTEMPTS, "N", 0,
     "Give up after N attempts without a new kernel (default 1000000)", 0},
    {"stats", KEY_STATS, 0, 0, "Count at the end why tries failed, and what the kernels look like",
     0},
    {"recheck", KEY_RECHECK, 0, 0,
     "Check all kernels again at the end, with an independent checker", 0},
    {0}};

static const kas_cli_value values[] = {{'s', KAS_CLI_SEED(sample_options, sample.seed)},
                                       {'o', KAS_CLI_TEXT(sample_options, folder)},
                                       {KEY_PARENTS, KAS_CLI_TEXT(sample_options, parents)},
                                       {KEY_STATS, KAS_CLI_FLAG(sample_options, stats)},
                                       {KEY_RECHECK, KAS_CLI_FLAG(sample_options, recheck)},
                                       {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    sample_options *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->net;
        state->child_inputs[1] = &o->sample;
        state->child_inputs[2] = &o->common;
        return 0;
    case 'k':
        o->count = kas_cli_int(state, "--count", arg, 1, 100000000);
        return 0;
    case KEY_ATTEMPTS:
        o->attempts = kas_cli_int(state, "--attempts", arg, 1, LLONG_MAX);
        return 0;
    case KEY_SPACE:
        o->space = o->sample.space = kas_cli_choice(state, "--space", arg, kas_space_names);
        return 0;
    case KEY_SEQUENCE:
        o->sample.space = KAS_SPACE_NAS_PTE;
        o->sequence = arg;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument \"%s\"", arg);
        return 0;
    case ARGP_KEY_END:
        if (!o->net.name)
            argp_error(state, "no network is given; give one, for example --net resnet18");
        if (o->parents && o->sequence)
            argp_error(state, "--parents and --sequence: give one of them");
        if (o->sequence && o->space == KAS_SPACE_CANVAS)
            argp_error(state,
                       "--sequence is a kernel of --space nas-pte; leave out --space canvas");
        if (o->sequence)
            kas_cli_refuse(state, "count seed attempts stats per-layer",
                           "has no effect with --sequence, which names one kernel; leave out one "
                           "of them");
        return 0;
    default:
        return kas_cli_set(state, option_list, values, key, arg);
    }
}

static const char doc[] =
    "Draws random kernels that may replace a network's convolutions.\n\n"
    "  kas-gpu sample --net resnet18 --count 20\n"
    "  kas-gpu sample --net resnet20 --count 300 --flops 0.5 --seed 7 -o kernels\n"
    "  kas-gpu sample --net resnet18 --input 3x64x64 --count 1000 --json --stats\n"
    "  kas-gpu sample --net resnet18 --input 3x64x64 --space nas-pte --count 20\n"
    "  kas-gpu sample --net resnet18 --input 3x64x64 --sequence pte-2 -o kernels\n"
    "  kas-gpu sample --net resnet18 --input 3x56x56 --count 20000 --flops 0.5 --params 1 "
    "--recheck\n"
    "  kas-gpu sample --net resnet20 --forbid exp,square --require softmax --min-receptive 5\n"
    "  kas-gpu sample --net resnet18 --parents kernels --count 100 --flops 0.5\n"
    "\vEvery kernel is legal at every replaced convolution, within the budget, and comes once. "
    "docs/sampling.md says how they are drawn.";

/* Writes JSON as one line. No string of a kernel file contains a line break, so those of the layout
 * can be left out with the blanks behind them. */
static void put_joined(const char *text, kas_buf *out)
{
    while (*text) {
        const size_t length = strcspn(text, "\n");
        kas_buf_add(out, text, length);
        text += length;
        text += strspn(text, "\n");
        text += strspn(text, " ");
    }
}

/* Writes the number of primitives of the kernel, or how many kernels are at how many layers. */
static void put_size(const kas_sample *s, kas_buf *line)
{
    const kas_replacement *r = &s->replacement;
    if (!r->kernel_of) {
        kas_line_int(line, "primitives", r->kernel->nodes - 1);
        return;
    }
    kas_line_int(line, "kernels", r->kernels);
    kas_line_int(line, "layers", kas_replacement_replaced(r));
    kas_line_int(line, "kept", r->solution.targets - kas_replacement_replaced(r));
}

static kas_status json_sample(const sample_options *o, const kas_sample *s, const kas_buf *file)
{
    const kas_solution *solution = &s->replacement.solution;
    kas_buf line = {0};
    kas_line_begin(&line);
    kas_line_text(&line, "kind", "kernel");
    kas_line_int(&line, "index", (int64_t)s->index);
    kas_line_text(&line, "name", s->name);
    kas_line_int(&line, "attempt", (int64_t)s->attempt);
    if (s->change)
        kas_line_text(&line, "change", s->change);
    if (o->sequence)
        kas_line_text(&line, "transformation", o->neural ? "neural" : "program");
    put_size(s, &line);
    kas_line_number(&line, "flops", solution->flops);
    kas_line_number(&line, "params", solution->params);
    kas_line_number(&line, "flops_ratio", solution->flops / solution->conv_flops);
    kas_line_number(&line, "params_ratio", solution->params / solution->conv_params);
    kas_line_key(&line, "kernel");
    put_joined(kas_buf_text(file), &line);
    kas_line_end(&line);
    return kas_print_buf(&line);
}

static kas_status text_sample(const kas_sample *s)
{
    kas_buf structure = {0};
    const kas_replacement *r = &s->replacement;
    const kas_solution *solution = &r->solution;
    kas_status status = KAS_OK;
    if (r->kernel_of)
        kas_buf_printf(&structure, "%d kernels at %d of %d layers", r->kernels,
                       kas_replacement_replaced(r), solution->targets);
    else
        status = kas_canonical_text(r->kernel, &structure);
    if (status == KAS_OK && s->index == 0)
        printf("%-16s  %5s  %6s  %s%s\n", "kernel", "FLOPs", "params", s->change ? "change   " : "",
               "structure");
    if (status == KAS_OK)
        printf("%s  %5.3f  %6.3f  %-*s%s\n", s->name, solution->flops / solution->conv_flops,
               solution->params / solution->conv_params, s->change ? 9 : 0,
               s->change ? s->change : "", kas_buf_text(&structure));
    kas_buf_free(&structure);
    return status;
}

static kas_status write_file(const char *folder, const kas_sample *s, const kas_buf *file)
{
    kas_buf path = {0};
    kas_buf_printf(&path, "%s/%s.json", folder, s->name);
    kas_status status = kas_buf_status(&path);
    if (status == KAS_OK)
        status = kas_file_write_atomic(path.data, file->data, file->size);
    kas_buf_free(&path);
    return status;
}

static kas_status give(const sample_options *o, const kas_sample *s)
{
    kas_buf file = {0};
    kas_status status = KAS_OK;
    if (o->folder || o->common.json)
        status = kas_sample_write_json(s, &file);
    if (status == KAS_OK && o->folder)
        status = write_file(o->folder, s, &file);
    if (status == KAS_OK)
        status = o->common.json ? json_sample(o, s, &file) : text_sample(s);
    kas_buf_free(&file);
    return status;
}

static kas_status json_stats(const kas_sample_stats *stats, const kas_sample_histograms *histograms)
{
    kas_buf out = {0};
    kas_line_begin(&out);
    kas_line_text(&out, "kind", "stats");
    kas_line_int(&out, "attempts", (int64_t)stats->attempts);
    kas_line_int(&out, "tries", (int64_t)stats->tries);
    kas_line_int(&out, "accepted", (int64_t)stats->accepted);
    kas_line_key(&out, "rejected");
    for (int r = KAS_REJECT_NONE + 1; r < KAS_REJECT_COUNT; r++) {
        kas_buf_puts(&out, r == KAS_REJECT_NONE + 1 ? "{" : ", ");
        kas_buf_json_string(&out, kas_reject_name((kas_reject)r));
        kas_buf_printf(&out, ": %llu", (unsigned long long)stats->rejected[r]);
    }
    kas_buf_puts(&out, "}");
    kas_sample_histograms_json(histograms, &out);
    kas_line_end(&out);
    return kas_print_buf(&out);
}

static kas_status text_stats(const kas_sample_stats *stats, const kas_sample_histograms *histograms)
{
    static const kas_column columns[] = {
        {"tries", KAS_LEFT}, {"count", KAS_RIGHT}, {"share", KAS_RIGHT}};
    kas_buf out = {0};
    kas_table *table = kas_table_create(columns, 3);
    for (int r = 0; r < KAS_REJECT_COUNT; r++) {
        const uint64_t count = r == KAS_REJECT_NONE ? stats->accepted : stats->rejected[r];
        kas_table_cell(table, "%s", kas_reject_name((kas_reject)r));
        kas_table_cell(table, "%llu", (unsigned long long)count);
        kas_table_cell(table, "%.1f%%",
                       100.0 * (double)count / (double)(stats->tries ? stats->tries : 1));
    }
    kas_buf_puts(&out, "\n");
    kas_table_end(table, &out);
    kas_buf_puts(&out, "\n");
    kas_sample_histograms_text(histograms, &out);
    return kas_print_buf(&out);
}

/* Reports the separate check. A finding is a fault of kas-gpu, so the exit code is then 1. */
static kas_status give_recheck(bool json, kas_recheck *recheck)
{
    kas_recheck_report report;
    kas_buf out = {0};
    KAS_TRY(kas_recheck_run(recheck, &report));
    const struct {
        const char *field, *words;
        uint64_t count;
    } counts[] = {{"kernels", "kernels", report.kernels},
                  {"illegal", "illegal", report.illegal},
                  {"over_budget", "over a budget or limit", report.over_budget},
                  {"one_image", "for one image size only", report.one_image},
                  {"same_name", "with the name of another", report.same_name},
                  {"same_kernel", "the same as another", report.same_kernel}};
    if (json) {
        kas_line_begin(&out);
        kas_line_text(&out, "kind", "recheck");
    }
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        if (json)
            kas_line_int(&out, counts[i].field, (int64_t)counts[i].count);
        else
            kas_buf_printf(&out, "%s%llu %s", i == 0 ? "\nchecked again: " : ", ",
                           (unsigned long long)counts[i].count, counts[i].words);
    }
    if (json)
        kas_line_end(&out);
    else
        kas_buf_puts(&out, "\n");
    kas_status status = kas_buf_status(&out);
    if (status == KAS_OK)
        printf("%s", out.data);
    kas_buf_free(&out);
    if (status == KAS_OK && kas_recheck_findings(&report))
        return kas_fail(KAS_FAILURE, "%llu findings; the first: %s",
                        (unsigned long long)kas_recheck_findings(&report), report.first);
    return status;
}

static kas_status recheck_sample(kas_recheck *recheck, const kas_sample *s)
{
    const kas_replacement *r = &s->replacement;
    return r->kernel_of ? kas_recheck_layers(recheck, s->name, r)
                        : kas_recheck_add(recheck, s->name, r->kernel, &r->solution);
}

/* Prints the one kernel of a sequence that the user names. */
static kas_status sample_sequence(sample_options *o, const kas_target *targets, int count,
                                  kas_recheck *recheck)
{
    kas_pte_sequence sequence;
    kas_kernel kernel;
    kas_sample s = {0};
    KAS_TRY(kas_pte_parse(o->sequence, &sequence));
    if (kas_pte_kernel(&sequence, &kernel) != KAS_OK)
        return kas_fail_context(KAS_BAD_INPUT, "--sequence");
    o->neural = kas_pte_check_program(&sequence) != KAS_OK;
    kas_info("%s", o->neural ? kas_error()
                             : "the sequence is a program transformation: it computes what the "
                               "convolution does");
    KAS_TRY(kas_kernel_canonicalize(&kernel, &kernel));
    KAS_TRY(kas_kernel_name(&kernel, s.name));
    if (kas_replacement_solve(&kernel, 1, NULL, targets, count, &o->sample.budget,
                              &s.replacement) != KAS_OK)
        return kas_fail_context(KAS_BAD_INPUT, "--sequence does not fit %s", o->net.name);
    kas_status status = give(o, &s);
    if (status == KAS_OK && recheck)
        status = recheck_sample(recheck, &s);
    kas_sample_free(&s);
    return status;
}

static void count_kernels(const kas_sample *s, kas_sample_histograms *histograms)
{
    for (int k = 0; k < s->replacement.kernels; k++)
        kas_sample_histograms_add(histograms, &s->replacement.kernel[k]);
}

static kas_status sample_all(const sample_options *o, kas_sampler *sampler, kas_recheck *recheck,
                             kas_sample_histograms *histograms)
{
    for (long long k = 0; k < o->count; k++) {
        kas_sample s;
        KAS_TRY(kas_sampler_next(sampler, (uint64_t)o->attempts, &s));
        kas_status status = give(o, &s);
        count_kernels(&s, histograms);
        if (status == KAS_OK && recheck)
            status = recheck_sample(recheck, &s);
        kas_sample_free(&s);
        KAS_TRY(status);
    }
    return KAS_OK;
}

typedef struct parents {
    kas_kernel *kernel;
    int count;
} parents;

static kas_status add_parent(void *context, const char *path)
{
    parents *p = context;
    if (!KAS_GROW(p->kernel, p->count))
        return kas_fail(KAS_NO_MEMORY, "no memory for %d kernels", p->count + 1);
    return kas_kernel_read_file(path, &p->kernel[p->count++]);
}

/* Takes a kernel file, or the kernel files of a folder. */
static kas_status set_parents(const char *path, kas_sampler *sampler)
{
    struct stat found;
    parents p = {0};
    int files = 1;
    kas_status status = stat(path, &found) == 0 && S_ISDIR(found.st_mode)
                            ? kas_folder_each(path, ".json", add_parent, &p, &files)
                            : add_parent(&p, path);
    if (status == KAS_OK && files == 0)
        status =
            kas_fail(KAS_BAD_INPUT, "--parents %s: the folder has no kernel file (*.json)", path);
    if (status == KAS_OK)
        status = kas_sampler_set_parents(sampler, p.kernel, p.count);
    free(p.kernel);
    return status;
}

static kas_status run(int argc, char **argv)
{
    const struct argp_child children[] = {{&kas_cli_plain_net_argp, 0, NULL, 0},
                                          {kas_cli_sampler_argp(), 0, NULL, 0},
                                          {&kas_cli_common_argp, 0, NULL, 0},
                                          {0}};
    const struct argp argp = {option_list, parse, "--net NAME", doc, children, 0, 0};
    sample_options o = {
        .net = kas_cli_net_defaults(), .sample = kas_sample_defaults(), .space = -1, .count = 10};
    KAS_TRY(kas_cli_parse(&argp, argc, argv, &o));
    kas_net *net = NULL;
    kas_target *targets = NULL;
    kas_sampler *sampler = NULL;
    kas_sample_histograms histograms = {0};
    kas_recheck *recheck = NULL;
    int count = 0;
    kas_status status = KAS_OK;
    o.sample.budget = o.net.budget;
    KAS_TRY_GOTO(kas_cli_net_targets(&o.net, &net, &targets, &count), out);
    KAS_TRY_GOTO(kas_sampler_create(&o.sample, targets, count, &sampler), out);
    if (o.parents)
        KAS_TRY_GOTO(set_parents(o.parents, sampler), out);
    if (o.recheck)
        KAS_TRY_GOTO(kas_recheck_create(targets, count, &o.sample, &recheck), out);
    if (o.folder) {
        KAS_TRY_GOTO(kas_mkdirs(o.folder), out);
        KAS_TRY_GOTO(kas_cli_net_is_input(o.net.name), out);
    }
    status = o.sequence ? sample_sequence(&o, targets, count, recheck)
                        : sample_all(&o, sampler, recheck, &histograms);
    if (o.stats && (status == KAS_OK || status == KAS_NOTHING_VALID)) {
        kas_sample_stats stats = kas_sampler_stats(sampler);
        kas_status told = (o.common.json ? json_stats : text_stats)(&stats, &histograms);
        status = status == KAS_OK ? told : status;
    }
    if (recheck && (status == KAS_OK || status == KAS_NOTHING_VALID)) {
        kas_status told = give_recheck(o.common.json, recheck);
        status = told == KAS_OK ? status : told;
    }
out:
    kas_recheck_free(recheck);
    kas_sampler_free(sampler);
    free(targets);
    kas_net_free(net);
    return status;
}

const kas_command kas_command_sample = {"sample", "Draw random kernels of the search space", run};

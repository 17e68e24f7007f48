/* kas-gpu report: writes studies as one HTML page. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "host/cli/cli.h"
#include "host/cli/parts.h"
#include "host/core/file/files.h"
#include "host/core/file/target.h"
#include "host/report/html/report.h"
#include "host/report/line.h"

typedef struct report_cli {
    kas_cli_common common;
    const char *study[KAS_REPORT_STUDIES];
    int studies;
    const char *output;
} report_cli;

static const struct argp_option option_list[] = {
    {"output", 'o', "FILE", 0, "The page (default report.html)", 1}, {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    report_cli *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->common;
        return 0;
    case 'o':
        o->output = arg;
        return 0;
    case ARGP_KEY_ARG:
        if (o->studies == KAS_REPORT_STUDIES)
            argp_error(state, "more than %d studies", KAS_REPORT_STUDIES);
        else
            o->study[o->studies++] = arg;
        return 0;
    case ARGP_KEY_END:
        if (!o->studies)
            argp_error(state, "no study is given; give the folders of one or several");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const char doc[] =
    "Write a study as one HTML page to read and to hand on: the verdict, the frontier, the "
    "leaderboard, training curves, kernels as graphs, what failed and why, and how it was made.\n\n"
    "  kas-gpu report STUDY -o report.html\n"
    "  kas-gpu report random-0 random-1 evolution-0 evolution-1 -o compared.html\n"
    "\vThe page needs no other file, no network and no script, and has fewer than 2 MB; it holds "
    "the data as JSON (docs/report.md). Several studies are compared; those that differ only in "
    "their seed are one line with a band. A study that is under way can be reported on.";

static void describe_program(kas_buf *out)
{
    kas_part part[KAS_LIBRARY_PARTS];
    kas_buf_puts(out, "kas-gpu " KAS_VERSION);
    for (int i = 0, n = kas_library_parts(part); i < n; i++)
        if (part[i].found)
            kas_buf_printf(out, ", %s %s", part[i].name, part[i].version);
}

static bool is_same(const char *a, const char *b)
{
    struct stat one, two;
    return stat(a, &one) == 0 && stat(b, &two) == 0 && one.st_dev == two.st_dev &&
           one.st_ino == two.st_ino;
}

/* A study that is compared with itself says nothing. */
static kas_status check_different(const report_cli *o)
{
    for (int i = 0; i < o->studies; i++)
        for (int j = 0; j < i; j++)
            if (is_same(o->study[i], o->study[j]))
                return kas_fail(KAS_USAGE, "%s and %s are one study; give it once", o->study[j],
                                o->study[i]);
    return KAS_OK;
}

/* Nothing of a study may be replaced by the page. */
static kas_status name_inputs(const report_cli *o)
{
    for (int i = 0; i < o->studies; i++)
        KAS_TRY(kas_file_is_input(o->study[i]));
    return KAS_OK;
}

static void print_result(const report_cli *o, size_t bytes)
{
    char text[32];
    kas_buf line = {0};
    if (o->common.json) {
        kas_line_begin(&line);
        kas_line_text(&line, "file", o->output);
        kas_line_int(&line, "studies", o->studies);
        kas_line_int(&line, "bytes", (int64_t)bytes);
        kas_line_end(&line);
        printf("%s", kas_buf_text(&line));
    } else {
        printf("%s: %s\n", o->output, kas_human_bytes((double)bytes, text));
    }
    kas_buf_free(&line);
}

static kas_status run(int argc, char **argv)
{
    static const struct argp_child children[] = {{&kas_cli_common_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {option_list, parse, "STUDY [STUDY...]", doc, children, 0, 0};
    report_cli o = {.output = "report.html"};
    KAS_TRY(kas_cli_parse(&argp, argc, argv, &o));
    kas_buf about = {0}, page = {0};
    describe_program(&about);
    kas_status status = check_different(&o);
    if (status == KAS_OK)
        status = name_inputs(&o);
    if (status == KAS_OK)
        status = kas_file_check_writable(o.output);
    if (status == KAS_OK)
        status = kas_report_html(o.study, o.studies, kas_buf_text(&about), &page);
    if (status == KAS_OK)
        status = kas_file_write_atomic(o.output, page.data, page.size);
    if (status == KAS_OK)
        print_result(&o, page.size);
    kas_buf_free(&about);
    kas_buf_free(&page);
    return status;
}

const kas_command kas_command_report = {"report", "Write studies as one HTML page", run};

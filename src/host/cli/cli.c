#include "host/cli/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/cli/parts.h"
#include "host/core/integer.h"
#include "host/core/log.h"

static const kas_command *const commands[] = {
    &kas_command_search,      &kas_command_status,  &kas_command_best,
    &kas_command_report,      &kas_command_resume,  &kas_command_log,
    &kas_command_sample,      &kas_command_show,    &kas_command_check,
    &kas_command_train,       &kas_command_imitate, &kas_command_assemble,
    &kas_command_export,      &kas_command_net,     &kas_command_recipe,
    &kas_command_bench,       &kas_command_predict, &kas_command_tune,
    &kas_command_interpolate, &kas_command_score,   &kas_command_dataset,
    &kas_command_sensitivity, &kas_command_store,   &kas_command_doctor,
    &kas_command_evaluate,    &kas_command_worker,  &kas_command_ahead,
    &kas_command_propose};

static void print_help(FILE *out)
{
    fputs("kas-gpu: a search engine for neural-network kernels\n\n"
          "  kas-gpu dataset make shapes -o shapes.h5\n"
          "  kas-gpu search --dataset shapes.h5 --net resnet20 --candidates 12 --epochs 3\n"
          "  kas-gpu best STUDY\n"
          "  kas-gpu export STUDY -o DIR --verify\n\n"
          "Commands (kas-gpu COMMAND --help tells more):\n",
          out);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (commands[i]->summary)
            fprintf(out, "  %-11s %s\n", commands[i]->name, commands[i]->summary);
    fputs("\nExit codes: 0 ok, 1 failure, 2 usage, 3 bad input, 4 store, 5 device, 6 nothing valid "
          "found,\n75 preempted, 130 interrupted.\n",
          out);
}

static error_t parse_common(int key, char *arg, struct argp_state *state)
{
    kas_cli_common *common = state->input;
    switch (key) {
    case 'J':
        common->json = true;
        return 0;
    case 'q':
        common->quiet = true;
        kas_log_set_level(KAS_LOG_QUIET);
        return 0;
    case 'T':
        common->threads = (int)kas_cli_int(state, "--threads", arg, 0, 4096);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option common_options[] = {
    {"json", 'J', 0, 0, "Results as JSON, one object a line where there are many (docs/json.md)",
     90},
    {"quiet", 'q', 0, 0, "No messages but errors", 90},
    {"threads", 'T', "N", 0, "CPU threads; 0 = all cores (default)", 90},
    {0}};
const struct argp kas_cli_common_argp = {common_options, parse_common, 0, 0, 0, 0, 0};

static _Thread_local bool usage_error; /* kas_cli_error was called since the parse began */

void kas_cli_error(struct argp_state *state, const char *format, ...)
{
    va_list args;
    if (usage_error) /* only the first error is printed, because later ones may follow from it */
        return;
    usage_error = true;
    fprintf(stderr, "%s: ", state->name);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\nTry `%s --help'.\n", state->name);
}

kas_status kas_cli_parse(const struct argp *argp, int argc, char **argv, void *input)
{
    /* argp's own --help calls exit, but only main ends the process, so it is handled here. */
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        bool help = strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-?") == 0;
        if (help || strcmp(argv[i], "--usage") == 0) {
            unsigned what = help ? ARGP_HELP_STD_HELP : ARGP_HELP_USAGE;
            argp_help(argp, stdout, what & ~(unsigned)ARGP_HELP_EXIT_OK, argv[0]);
            return KAS_SHOWN;
        }
    }
    usage_error = false;
    error_t error = argp_parse(argp, argc, argv, ARGP_NO_EXIT | ARGP_NO_HELP, 0, input);
    return error || usage_error ? kas_fail(KAS_USAGE, "%s", "") : KAS_OK;
}

long long kas_cli_int(struct argp_state *state, const char *option, const char *text, long long low,
                      long long high)
{
    int64_t value = low;
    if (!kas_integer_read(text, low, high, &value))
        argp_error(state, "%s: expected an integer in [%lld, %lld], found \"%s\"", option, low,
                   high, text);
    return value;
}

double kas_cli_number(struct argp_state *state, const char *option, const char *text, double low,
                      double high)
{
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    if (errno || end == text || *end || !(value >= low && value <= high))
        argp_error(state, "%s: expected a number in [%g, %g], found \"%s\"", option, low, high,
                   text);
    return value;
}

int kas_cli_choice(struct argp_state *state, const char *option, const char *text,
                   const char *const *choices)
{
    int chosen = 0;
    if (kas_choice_parse(option, choices, text, &chosen) != KAS_OK)
        argp_error(state, "%s", kas_error());
    return chosen;
}

void kas_cli_action(struct argp_state *state, char *arg, const char **action, const char **object)
{
    if (!*action)
        *action = arg;
    else if (!*object)
        *object = arg;
    else
        argp_error(state, "unexpected argument \"%s\"", arg);
}

error_t kas_cli_set(struct argp_state *state, const struct argp_option *options,
                    const kas_cli_value *values, int key, char *arg)
{
    char name[64];
    while (values->key && values->key != key)
        values++;
    if (!values->key)
        return ARGP_ERR_UNKNOWN;
    while (options->key != key)
        options++;
    snprintf(name, sizeof name, "--%s", options->name);
    kas_field field = values->field;
    field.option = name;
    if (field.type == KAS_FIELD_KEPT)
        *(char **)((char *)state->input + field.offset) = arg;
    else if (kas_field_parse(&field, arg ? arg : "on", state->input) != KAS_OK)
        argp_error(state, "%s", kas_error());
    return 0;
}

static int finish(kas_status status)
{
    if (status == KAS_SHOWN)
        status = KAS_OK;
    if (status != KAS_OK && kas_error()[0])
        fprintf(stderr, "kas-gpu: error: %s\n", kas_error());
    const kas_status printed = kas_print_end();
    if (printed != KAS_OK && kas_error()[0])
        fprintf(stderr, "kas-gpu: error: %s\n", kas_error());
    return kas_exit_code(status == KAS_OK ? printed : status);
}

/* Runs the command that argv[0] names. */
static int run_command(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(argv[0], commands[i]->name) == 0) {
            char name[64];
            snprintf(name, sizeof name, "kas-gpu %s", argv[0]);
            argv[0] = name;
            return finish(commands[i]->run(argc, argv));
        }
    fprintf(stderr, "kas-gpu: error: unknown command \"%s\"; kas-gpu --help lists the commands\n",
            argv[0]);
    return KAS_USAGE;
}

int kas_cli_main(int argc, char **argv)
{
    const char *debug = getenv("KAS_DEBUG");
    if (debug && *debug && strcmp(debug, "0") != 0)
        kas_log_set_level(KAS_LOG_DEBUG);
    if (argc < 2) {
        print_help(stderr);
        return KAS_USAGE;
    }
    const bool help = strcmp(argv[1], "help") == 0;
    if (help && argc > 2) {
        char *of[] = {argv[2], (char[]){"--help"}, NULL};
        return run_command(2, of);
    }
    if (help || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help(stdout);
        return finish(KAS_OK);
    }
    if (strcmp(argv[1], "--version") == 0) {
        kas_print_version();
        return finish(KAS_OK);
    }
    return run_command(argc - 1, argv + 1);
}

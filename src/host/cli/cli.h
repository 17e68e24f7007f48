/* The command line: one file for each subcommand, and the only code that prints to users.
 *
 * A command reads its options with argp, does its work through the libraries below and returns a
 * status; kas_cli_main prints the error message and gives the exit code.  Results go to stdout,
 * everything else to stderr. */
#ifndef KAS_CLI_CLI_H
#define KAS_CLI_CLI_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

#include "host/core/json/fields.h"
#include "host/core/status.h"

/* The options of every command: --json, --quiet, --threads. A command lists kas_cli_common_argp as
 * a child, with its `common` as input. */
typedef struct kas_cli_common {
    bool json, quiet;
    int threads; /* 0 = all cores */
} kas_cli_common;
extern const struct argp kas_cli_common_argp;

/* Reports a wrong option. argp's own argp_error returns when the process must not end, and
 * argp_parse then succeeds, so that a wrong option would only cause a warning. This function prints
 * the same message and makes kas_cli_parse fail, wherever in the parser it is called. The macro
 * replaces argp_error, so that no command uses the other by mistake. */
void kas_cli_error(struct argp_state *state, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
#define argp_error kas_cli_error

/* Prints results. It remembers a write that failed, and replaces control characters (plain.h). The
 * macro replaces printf, so that no command forgets either. */
void kas_print(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define printf(...) kas_print(__VA_ARGS__)
/* Prints a text that was built, and frees it; fails, and prints nothing, when building it
 * failed. */
kas_status kas_print_buf(kas_buf *text);
void kas_print_flush(void); /* for long commands, to show each line at once */
/* Flushes and closes standard output, once, at the end. Fails with KAS_FAILURE when any write
 * failed; there is no message when nobody reads the output any more. */
kas_status kas_print_end(void);

/* Parses the command line. On an error it returns KAS_USAGE (argp has printed the message)
 * instead of ending the process, and KAS_SHOWN when --help or --usage was printed and nothing is left
 * to do. */
kas_status kas_cli_parse(const struct argp *argp, int argc, char **argv, void *input);

typedef struct kas_command {
    const char *name;
    const char *summary;                      /* one line for `kas-gpu --help` */
    kas_status (*run)(int argc, char **argv); /* argv[0] is "kas-gpu NAME" */
} kas_command;

/* The commands, in the order of `kas-gpu --help`. Each is defined in its own file. */
extern const kas_command kas_command_search, kas_command_status, kas_command_best,
    kas_command_resume, kas_command_log, kas_command_sample, kas_command_show, kas_command_check,
    kas_command_train, kas_command_export, kas_command_net, kas_command_recipe, kas_command_bench,
    kas_command_dataset, kas_command_doctor, kas_command_worker, kas_command_ahead,
    kas_command_imitate, kas_command_predict, kas_command_report, kas_command_propose,
    kas_command_score, kas_command_assemble, kas_command_interpolate, kas_command_sensitivity,
    kas_command_store, kas_command_evaluate, kas_command_tune;

int kas_cli_main(int argc, char **argv);

/* Read numbers from users. The whole text must be a number in the range; otherwise they call
 * argp_error with the option and the range. */
long long kas_cli_int(struct argp_state *state, const char *option, const char *text, long long low,
                      long long high);
double kas_cli_number(struct argp_state *state, const char *option, const char *text, double low,
                      double high);
/* The number of the word in a list that ends with NULL. */
int kas_cli_choice(struct argp_state *state, const char *option, const char *text,
                   const char *const *choices);

/* Takes one of a command's arguments: what it does and with what, such as `start DIR`. NULL = not
 * given yet; one more calls argp_error. */
void kas_cli_action(struct argp_state *state, char *arg, const char **action, const char **object);

/* Options that set one member of a struct each: the option, the type of the member and its limits.
 * A field of type KEPT is the argument itself; one of type FLAG takes none. */
typedef struct kas_cli_value {
    int key; /* of the argp_option; 0 ends the table */
    kas_field field;
} kas_cli_value;
#define KAS_CLI_TEXT(type_, member)                                                                \
    {                                                                                              \
        .type = KAS_FIELD_KEPT, .offset = offsetof(type_, member)                                  \
    }
#define KAS_CLI_FLAG(type_, member)                                                                \
    {                                                                                              \
        .type = KAS_FIELD_FLAG, .offset = offsetof(type_, member)                                  \
    }
#define KAS_CLI_SEED(type_, member)                                                                \
    {                                                                                              \
        .type = KAS_FIELD_SEED, .offset = offsetof(type_, member)                                  \
    }
#define KAS_CLI_LIMITED(type_, member, type_of_field, low_, high_)                                 \
    {                                                                                              \
        .type = type_of_field, .offset = offsetof(type_, member), .low = low_, .high = high_       \
    }
#define KAS_CLI_INT(type_, member, low_, high_)                                                    \
    KAS_CLI_LIMITED(type_, member, KAS_FIELD_INTEGER, low_, high_)
#define KAS_CLI_NUMBER(type_, member, low_, high_)                                                 \
    KAS_CLI_LIMITED(type_, member, KAS_FIELD_NUMBER, low_, high_)
#define KAS_CLI_CHOICE(type_, member, choices_)                                                    \
    {                                                                                              \
        .type = KAS_FIELD_CHOICE, .offset = offsetof(type_, member), .choices = choices_           \
    }

/* For the end of a parser: sets the member of its input that `key` speaks of, or argp_error with
 * option and range.  ARGP_ERR_UNKNOWN when the table does not have the key. */
error_t kas_cli_set(struct argp_state *state, const struct argp_option *options,
                    const kas_cli_value *values, int key, char *arg);

#endif

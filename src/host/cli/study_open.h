/* The common part of commands that only read a study: they take its folder as an argument and get
 * its items. */
#ifndef KAS_CLI_STUDY_OPEN_H
#define KAS_CLI_STUDY_OPEN_H

#include "host/cli/cli.h"
#include "host/store/store.h"
#include "host/study/options.h"

typedef struct kas_study_args {
    kas_cli_common common;
    const char *study, *item; /* item: NULL unless given */
    bool takes_item;
    int limit; /* most lines; 0 = all */
} kas_study_args;

typedef struct kas_study_view {
    kas_store *store;
    kas_study study;
    kas_search_options options;
    kas_work *work;
    int count;
} kas_study_view;

/* A command that reads a study. */
typedef struct kas_study_command {
    const char *doc;
    bool takes_item;  /* STUDY [CANDIDATE] in place of STUDY */
    bool takes_limit; /* --limit */
    /* Appends the text for standard output. */
    kas_status (*print)(const kas_study_args *args, const kas_study_view *view, kas_buf *out);
} kas_study_command;

/* Parses the command line, opens the study, and prints. */
kas_status kas_study_run(const kas_study_command *command, int argc, char **argv);

#endif

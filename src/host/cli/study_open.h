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
    bool takes_item, watch;
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
typedef struct kas_study_command kas_study_command;
struct kas_study_command {
    const char *doc;
    bool takes_item;  /* STUDY [CANDIDATE] in place of STUDY */
    bool takes_limit; /* --limit */
    /* Appends the text for standard output. */
    kas_status (*print)(const kas_study_args *args, const kas_study_view *view, kas_buf *out);
    /* Runs in place of `print` with --watch; NULL: there is no such option. */
    kas_status (*watch)(const kas_study_command *command, const kas_study_args *args);
};

/* Parses the command line, opens the study, and prints. */
kas_status kas_study_run(const kas_study_command *command, int argc, char **argv);

/* Opens a study's store to read it, reads the study and its items, and reads both again. The caller
 * calls kas_study_view_close, also after a failure. */
kas_status kas_study_view_open(const char *study, kas_study_view *out);
kas_status kas_study_view_read(const char *study, kas_study_view *view);
void kas_study_view_close(kas_study_view *view);

/* Returns whether the final trainings have finished. */
bool kas_study_finals_done(const kas_study_view *view);
/* Returns whether all candidates have ended and none of them answers the objective, so that nothing
 * follows. */
bool kas_study_without_answer(const kas_study_view *view);
/* Returns whether either is so: the search has nothing left to do. */
bool kas_study_done(const kas_study_view *view);

#endif

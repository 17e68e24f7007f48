/* What the commands that only read a study share: its folder as the one argument, its items. */
#ifndef KAS_CLI_STUDY_OPEN_H
#define KAS_CLI_STUDY_OPEN_H

#include "host/cli/cli.h"
#include "host/search/options.h"
#include "host/store/store.h"

typedef struct kas_study_args {
    kas_cli_common common;
    const char *study, *item; /* item: NULL unless the command takes one */
    bool takes_item;
    int limit; /* of `best` */
} kas_study_args;

/* Parses STUDY [CANDIDATE]; `options` may be NULL. */
kas_status kas_study_parse(int argc, char **argv, const char *doc, bool takes_item,
                           kas_study_args *out, bool *done);

typedef struct kas_study_view {
    kas_store *store;
    kas_study study;
    kas_search_options options;
    kas_work *work;
    int count;
} kas_study_view;

/* kas_study_view_close frees, also after a failure. */
kas_status kas_study_view_open(const char *study, kas_study_view *out);
void kas_study_view_close(kas_study_view *view);

#endif

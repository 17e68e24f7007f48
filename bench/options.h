/* Options of the programs in this folder: --name VALUE, numbers and words; then arguments. */
#ifndef KAS_BENCH_OPTIONS_H
#define KAS_BENCH_OPTIONS_H

#include <stdlib.h>
#include <string.h>

#include "host/core/status.h"

/* Of `number` and `word` one is set; a number is positive. */
typedef struct bench_option {
    const char *name;
    int *number;
    const char **word;
} bench_option;

static inline kas_status bench_option_set(const bench_option *o, const char *value)
{
    if (o->word) {
        *o->word = value;
        return KAS_OK;
    }
    *o->number = atoi(value);
    return *o->number > 0
               ? KAS_OK
               : kas_fail(KAS_USAGE, "%s %s: expected a positive number", o->name, value);
}

/* `option` ends with a name of NULL.  *first: the first argument that is none. */
static inline kas_status bench_options_read(int argc, char **argv, const bench_option *option,
                                            int *first)
{
    int at = 1;
    for (; at < argc && strncmp(argv[at], "--", 2) == 0; at += 2) {
        const bench_option *o = option;
        while (o->name && strcmp(o->name, argv[at]) != 0)
            o++;
        if (!o->name || at + 1 == argc)
            return kas_fail(KAS_USAGE, "%s: %s", argv[at],
                            o->name ? "its value is missing" : "no such option");
        KAS_TRY(bench_option_set(o, argv[at + 1]));
    }
    *first = at;
    return KAS_OK;
}

#endif

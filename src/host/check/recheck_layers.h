/* The pass of recheck.h over samples that have a kernel for each layer. Internal to recheck*.c. */
#ifndef KAS_CHECK_RECHECK_LAYERS_H
#define KAS_CHECK_RECHECK_LAYERS_H

#include "host/check/recheck.h"

typedef struct kas_layers_seen {
    char name[KAS_NAME_SIZE];
    uint64_t hash; /* hash of the kernels at the targets, from kas_plain_hash */
} kas_layers_seen;

/* What was found so far. Zero at first. */
typedef struct kas_layers_checked {
    uint64_t illegal, over_budget;
    char first[512]; /* the first finding in words */
    kas_layers_seen *seen;
    size_t count;
} kas_layers_checked;
void kas_layers_checked_free(kas_layers_checked *checked);

/* Checks every kernel with the plain checker at its own targets, then the sum of all layers against
 * the solution and the budget. Returns KAS_OK whatever is found. */
kas_status kas_layers_check(kas_layers_checked *checked, const char name[KAS_NAME_SIZE],
                            const kas_replacement *replacement, const kas_budget *budget);
/* Adds what was found to a report, and the samples that came twice. */
void kas_layers_report(kas_layers_checked *checked, kas_recheck_report *out);

#endif

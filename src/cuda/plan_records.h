/* Records of the plans that were chosen (tuning.h): a small text file for each problem, in the folder
 * of a study and in the cache.
 *
 * The first line is what the library's owner wrote, or "none" where the library has no plan that can be
 * used: that is as costly to find out as which plan is the fastest. Records are written and checked
 * like images of the compile cache (jit/compile/cache.h), so damage and races only cost another choice. */
#ifndef KAS_CUDA_PLAN_RECORDS_H
#define KAS_CUDA_PLAN_RECORDS_H

#include "cuda/tuning.h"

/* Version of the rules by which we choose; part of every key. Raise it when what counts as a candidate or
 * how candidates are compared changes, so that older records are not found. */
enum { KAS_PLAN_RULES = 9 };

typedef struct kas_plan_places {
    bool timed;                      /* whether candidates shall be timed */
    char pinned[4096], cached[4096]; /* files; "" = not used */
    char lock[4096];
} kas_plan_places;

/* Finds the places of a problem: everything on which the choice depends, besides GPU, driver and library. */
kas_status kas_plan_places_find(const kas_cuda *cuda, const kas_tuned *t, const char *problem,
                                kas_plan_places *out);

/* What is known of a problem */
typedef enum kas_plan_known { KAS_PLAN_UNKNOWN, KAS_PLAN_KNOWN, KAS_PLAN_NONE } kas_plan_known;

/* Looks for a record and gives `t->self` its plan. One that is only in the cache is pinned. */
kas_status kas_plan_record_find(kas_cuda *cuda, const kas_tuned *t, const kas_plan_places *p,
                                kas_plan_known *what);
/* Writes what was chosen: a candidate, which `t->self` has taken, or that there is none (*what), with
 * remarks below; `cache`: into the cache too. Where another process has pinned something since, `t->self`
 * gets that, and so does *what. A failure to write to the cache costs only time; a study must have its plans. */
kas_status kas_plan_record_write(kas_cuda *cuda, const kas_tuned *t, const kas_plan_places *p,
                                 int candidate, const char *remarks, bool cache,
                                 kas_plan_known *what);

#endif

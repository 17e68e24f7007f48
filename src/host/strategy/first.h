/* The first candidates of a study, which nobody draws: the known kernels, and those of --from.
 *
 * What is known says space/known/known.h.  Kernels that have no sizes at the targets, or do not fit
 * the budget, are left out.  Where ancestors have evolved (search/ancestors.h), the best of all
 * these are the first, in their order.  Other folders include this header. */
#ifndef KAS_STRATEGY_FIRST_H
#define KAS_STRATEGY_FIRST_H

#include "host/space/solve/replacement.h"
#include "host/study/options.h"

/* Added to the version of a study's sampler where the study begins with the known kernels. It is
 * raised by 1000 when a kernel in the list changes, comes or goes. (1000: nas_pte_1 has groups, and
 * nas_pte_1_bands has not.) */
enum { KAS_KNOWN_VERSION = 1000 };

#define KAS_ORIGIN_ANCESTOR "ancestor"

typedef struct kas_first {
    char origin[64]; /* "known:group_conv", "from:NAME", KAS_ORIGIN_ANCESTOR */
    char name[17];
    kas_replacement replacement;
} kas_first;

/* Makes the list; every kernel is in it once. `from` is the text of STUDY/from.json, or "".
 * KAS_BAD_INPUT when none of its kernels can be used here. The caller frees *out with
 * kas_first_free. */
kas_status kas_first_list(const kas_search_options *options, const kas_target *target, int targets,
                          const char *from, kas_first **out, int *count);
/* The same from the text of STUDY/ancestors.json, whose kernels must all fit: KAS_STORE when one does
 * not. */
kas_status kas_first_read(const kas_search_options *options, const kas_target *target, int targets,
                          const char *ancestors, kas_first **out, int *count);
void kas_first_free(kas_first *list, int count);

#endif

/* Uses of two operands, of which the guided sampler offers only those that shapes let through:
 * there are as many as pairs of nodes, and hardly any of a long kernel serve.  What is left out
 * would be refused, so nothing changes but the time.  Internal to the sampler. */
#ifndef KAS_SPACE_PAIR_USES_H
#define KAS_SPACE_PAIR_USES_H

#include "host/space/growth.h"

static inline bool kas_type_is_of_pairs(kas_type type)
{
    return type == KAS_TYPE_BROADCAST || type == KAS_TYPE_BMM;
}

/* Uses of broadcast or bmm that pass the filter and that the shapes allow. Returns how many. */
int kas_list_pair_uses(const kas_growth *g, kas_type type, const kas_use_filter *filter,
                       kas_use out[KAS_MAX_USES]);

/* Is the use one of them? */
bool kas_pair_use_serves(const kas_growth *g, const kas_use_filter *filter, const kas_use *use);

#endif

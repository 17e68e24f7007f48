/* The names of kernels that came before, so that every kernel comes once. Names are 64 bits of a
 * SHA-256 (canonical.h), which are as good as random; a name takes 16 to 32 bytes beyond the first
 * 256. Other folders include this header. */
#ifndef KAS_SPACE_NAME_SET_H
#define KAS_SPACE_NAME_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/core/status.h"
#include "host/space/canonical.h"

/* An empty set is all zero. */
typedef struct kas_name_set {
    uint64_t *slot; /* owned: open addressing; 0 = empty */
    size_t size, used;
    bool has_zero;
} kas_name_set;
void kas_name_set_free(kas_name_set *set);

/* Adds a name; *is_new tells whether the set did not have it. */
kas_status kas_name_set_add(kas_name_set *set, const char name[KAS_NAME_SIZE], bool *is_new);

#endif

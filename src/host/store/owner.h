/* Who holds a lease: a text that names one process of one machine, so that a later supervisor can
 * tell at once that the holder is gone instead of waiting for the lease to end.
 *
 *     host|boot id|pid namespace|pid|start time
 *
 * The start time tells a process from a later one with the same number, the boot id a machine from
 * itself after a restart, the namespace one container from another with the same host name. */
#ifndef KAS_STORE_OWNER_H
#define KAS_STORE_OWNER_H

#include <stdbool.h>

enum { KAS_OWNER_SIZE = 256 };

void kas_owner_self(char out[KAS_OWNER_SIZE]);
/* True only when it is certain: same machine, and rebooted or no such process. */
bool kas_owner_is_gone(const char *owner);

#endif

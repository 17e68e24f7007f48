/* Identifies the holder of a lease: a text that names one process of one machine, so that a later
 * supervisor sees at once that the holder is gone instead of waiting for the lease to end.
 *
 *     host|boot id|pid namespace|pid|start time
 *
 * The start time distinguishes a process from a later one with the same number, the boot id
 * distinguishes a machine before and after a restart, and the namespace distinguishes containers
 * with the same host name. */
#ifndef KAS_STORE_OWNER_H
#define KAS_STORE_OWNER_H

#include <stdbool.h>

enum { KAS_OWNER_SIZE = 256 };

/* Writes the text of this process. */
void kas_owner_self(char out[KAS_OWNER_SIZE]);
/* Writes how the texts of all owners of this host begin; only they can be known to be gone. */
void kas_owner_host(char out[KAS_OWNER_SIZE]);
/* Returns whether the owner is certainly gone: it belongs to this machine, and the machine was
 * restarted or has no such process. */
bool kas_owner_is_gone(const char *owner);

#endif

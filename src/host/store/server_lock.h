/* The lock of a server's folder. Internal to the store. */
#ifndef KAS_STORE_SERVER_LOCK_H
#define KAS_STORE_SERVER_LOCK_H

#include <stdbool.h>

#include "host/core/status.h"

/* Takes the lock for this process. Fails with KAS_STORE when it is held: *here says whether by a
 * process of this machine. A lock whose process is gone, or of another machine without a heartbeat,
 * is taken over; to hear that there is none takes 15 seconds. */
kas_status kas_server_lock(const char *dir, bool *here);
bool kas_server_holds(const char *dir); /* this process has the lock */
/* Writes the heartbeat of this process. Returns false when another process has the lock. */
bool kas_server_beat(const char *dir);
void kas_server_unlock(const char *dir);
/* Reads who has the lock; false when nobody has it, or its process is gone. */
bool kas_server_locked(const char *dir, char host[65], bool *here);

#endif

/* How supervisor and worker talk: one JSON object a line over a pipe, at most 1 MiB a line.
 *
 * Text, because a person can read it with strace and because both ends are checked alike: a line
 * that is too long, no JSON, or no object with a "type" is an error, never a crash.
 *
 *     to the worker                                from the worker
 *     hello    options, data set, device, pack     ready     name of the device
 *     work     id, kind, kernel, paths             error     it cannot start; message
 *     verdict  id; answers measured and epoch      progress  id, phase, step, steps, loss
 *     stop     write checkpoints and end all       measured  id, latency, the screen's (asks)
 *     (end of file: end at once)                   epoch     id, accuracy and loss (asks)
 *                                                  result    id, state, reason, measurements
 *                                                  dying     id of the item that it dies of
 *
 * The helper that compiles ahead has messages of its own (ahead.h).  Other folders include this
 * header. */
#ifndef KAS_SEARCH_WORKER_CHANNEL_H
#define KAS_SEARCH_WORKER_CHANNEL_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

#include "host/core/buf.h"
#include "host/core/status.h"

typedef struct kas_channel {
    int in, out; /* file descriptors; not owned */
    char *text;  /* bytes read and not yet taken */
    size_t size, capacity;
    bool closed;    /* the other end is gone */
    kas_buf unsent; /* of messages sent: what the pipe had no room for */
} kas_channel;

void kas_channel_free(kas_channel *channel);

/* Sends one object; takes ownership of `message` (NULL = building it ran out of memory).
 * KAS_FAILURE when the other end is gone.
 *
 * Where `out` does not block (the supervisor's ends, process.h), neither does this, however long
 * the message and whatever the reader does: what does not fit waits in `unsent`, and goes with
 * kas_channel_flush once poll finds room (POLLOUT). */
kas_status kas_channel_send(kas_channel *channel, cJSON *message);
kas_status kas_channel_flush(kas_channel *channel);

/* Reads what is there (blocks only when nothing is). Sets `closed` at the end of file. */
kas_status kas_channel_fill(kas_channel *channel);
/* Takes the next whole line out of what was read; *out is NULL when there is none. The caller frees
 * it with cJSON_Delete. KAS_BAD_INPUT for a line that is not a message. */
kas_status kas_channel_next(kas_channel *channel, cJSON **out);
/* Waits up to `timeout_ms` (-1 = for ever) for a message; *out NULL: none, or closed. */
kas_status kas_channel_wait(kas_channel *channel, int timeout_ms, cJSON **out);

/* Building and reading messages. Absent or null numbers read as NaN; absent text as "". */
cJSON *kas_message(const char *type);
void kas_message_text(cJSON *message, const char *key, const char *value); /* NULL: left out */
void kas_message_number(cJSON *message, const char *key, double value);    /* NaN: left out */
const char *kas_message_get_text(const cJSON *message, const char *key);
double kas_message_get_number(const cJSON *message, const char *key);
bool kas_message_is(const cJSON *message, const char *type);

#endif

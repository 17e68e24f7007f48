/* The messages between supervisor and worker: one JSON object a line over a pipe, at most 1 MiB
 * a line.
 *
 * Messages are text, because a person can then read them with strace and both ends check them in
 * the same way: a line that is too long, is not JSON, or is not an object with a "type" is an error
 * and never a crash.
 *
 *     to the worker                                from the worker
 *     hello    options, data set, device, pack     ready     name of the device
 *     work     id, kind, kernel, rung, paths,      error     it cannot start; message
 *              rank
 *     verdict  id; answers measured and epoch      progress  id, phase, step, steps, loss
 *     stop     write checkpoints and end all       calibrated id, gains
 *                                                  exchange  id, how the ranks exchange
 *     (end of file: end at once)                   measured  id, latency, deviations (asks)
 *                                                  epoch     id, accuracy and loss (asks)
 *                                                  curve     id, epochs: all of an item that
 *                                                            ends, at most 1000 a line
 *                                                  result    id, state, reason, measurements,
 *                                                            time on the clock and of processors
 *                                                  dying     id of the item that ends it
 *
 * The helper that compiles ahead has messages of its own (ahead.h).  Other folders include
 * this header. */
#ifndef KAS_SEARCH_WORKER_CHANNEL_H
#define KAS_SEARCH_WORKER_CHANNEL_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

#include "host/core/buf.h"
#include "host/core/status.h"

typedef struct kas_channel {
    int in, out; /* file descriptors; not owned */
    char *text;  /* bytes that were read and not yet taken */
    size_t size, capacity;
    bool closed;    /* the other end is closed */
    kas_buf unsent; /* bytes of sent messages for which the pipe had no room */
} kas_channel;

void kas_channel_free(kas_channel *channel);

/* Sends one object and takes ownership of `message` (NULL = there was no memory to build it). Fails
 * with KAS_FAILURE when the other end is closed.
 *
 * When `out` is non-blocking, as the supervisor's ends are (process.h), this function never blocks
 * either: bytes that do not fit wait in `unsent`, and kas_channel_flush sends them once poll
 * reports room (POLLOUT). */
kas_status kas_channel_send(kas_channel *channel, cJSON *message);
kas_status kas_channel_flush(kas_channel *channel);

/* Reads the available bytes, and blocks only when there are none. Sets `closed` at the end
 * of file. */
kas_status kas_channel_fill(kas_channel *channel);
/* Takes the next whole line from the bytes that were read; *out is NULL when there is none. The
 * caller frees *out with cJSON_Delete. A line that is not a message fails with KAS_BAD_INPUT. */
kas_status kas_channel_next(kas_channel *channel, cJSON **out);
/* Waits up to `timeout_ms` (-1 = for ever) for a message; *out is NULL when none came or the other
 * end is closed. */
kas_status kas_channel_wait(kas_channel *channel, int timeout_ms, cJSON **out);

/* These build and read messages. An absent or null number reads as NaN, an absent text as "". */
cJSON *kas_message(const char *type);
void kas_message_text(cJSON *message, const char *key, const char *value); /* NULL: left out */
void kas_message_number(cJSON *message, const char *key, double value);    /* NaN: left out */
const char *kas_message_get_text(const cJSON *message, const char *key);
double kas_message_get_number(const cJSON *message, const char *key);
bool kas_message_is(const cJSON *message, const char *type);

#endif

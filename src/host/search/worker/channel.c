#include "host/search/worker/channel.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/core/json/json.h"

enum { MAX_LINE = 1 << 20, CHUNK = 65536, MAX_DEPTH = 16 };

void kas_channel_free(kas_channel *channel)
{
    free(channel->text);
    kas_buf_free(&channel->unsent);
    *channel = (kas_channel){.in = -1, .out = -1, .closed = true};
}

kas_status kas_channel_flush(kas_channel *channel)
{
    kas_buf *unsent = &channel->unsent;
    size_t sent = 0;
    int error = 0;
    while (sent < unsent->size && !error) {
        ssize_t written = write(channel->out, unsent->data + sent, unsent->size - sent);
        if (written >= 0)
            sent += (size_t)written;
        else if (errno != EINTR)
            error = errno;
    }
    if (error && error != EAGAIN) {
        kas_buf_clear(unsent); /* nobody will read it */
        return kas_fail(KAS_FAILURE, "cannot write to the other process: %s", strerror(error));
    }
    unsent->size -= sent;
    if (sent > 0)
        memmove(unsent->data, unsent->data + sent, unsent->size + 1); /* with the NUL */
    return KAS_OK;
}

kas_status kas_channel_send(kas_channel *channel, cJSON *message)
{
    char *text = message ? cJSON_PrintUnformatted(message) : NULL;
    cJSON_Delete(message);
    if (!text)
        return kas_fail(KAS_NO_MEMORY, "message to another process: out of memory");
    size_t size = strlen(text);
    text[size] = '\n'; /* in the place of the NUL */
    kas_status status =
        size < MAX_LINE ? KAS_OK
                        : kas_fail(KAS_FAILURE, "message of %zu bytes; at most %d", size, MAX_LINE);
    if (status == KAS_OK) {
        kas_buf_add(&channel->unsent, text, size + 1);
        status = kas_buf_status(&channel->unsent);
    }
    cJSON_free(text);
    return status == KAS_OK ? kas_channel_flush(channel) : status;
}

kas_status kas_channel_fill(kas_channel *channel)
{
    if (channel->capacity - channel->size < CHUNK) {
        char *larger = realloc(channel->text, channel->size + CHUNK);
        if (!larger)
            return kas_fail(KAS_NO_MEMORY, "message from another process: out of memory");
        channel->text = larger;
        channel->capacity = channel->size + CHUNK;
    }
    ssize_t got;
    do
        got = read(channel->in, channel->text + channel->size, CHUNK);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return kas_fail(KAS_FAILURE, "cannot read from the other process: %s", kas_strerror(errno));
    channel->size += (size_t)got;
    channel->closed = got == 0;
    return KAS_OK;
}

kas_status kas_channel_next(kas_channel *channel, cJSON **out)
{
    *out = NULL;
    char *end = channel->size ? memchr(channel->text, '\n', channel->size) : NULL;
    if (!end)
        return channel->size < MAX_LINE
                   ? KAS_OK
                   : kas_fail(KAS_BAD_INPUT, "a line longer than %d bytes", MAX_LINE);
    size_t size = (size_t)(end - channel->text);
    kas_status status =
        kas_json_parse("message", channel->text, size, (kas_json_limits){MAX_LINE, MAX_DEPTH}, out);
    channel->size -= size + 1;
    memmove(channel->text, end + 1, channel->size);
    if (status == KAS_OK && !cJSON_IsString(cJSON_GetObjectItemCaseSensitive(*out, "type"))) {
        cJSON_Delete(*out);
        *out = NULL;
        status = kas_fail(KAS_BAD_INPUT, "message: expected an object with a \"type\"");
    }
    return status;
}

kas_status kas_channel_wait(kas_channel *channel, int timeout_ms, cJSON **out)
{
    for (;;) {
        KAS_TRY(kas_channel_next(channel, out));
        if (*out || channel->closed)
            return KAS_OK;
        struct pollfd poll_in = {channel->in, POLLIN, 0};
        int ready = poll(&poll_in, 1, timeout_ms);
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready < 0)
            return kas_fail(KAS_FAILURE, "poll: %s", kas_strerror(errno));
        if (ready == 0)
            return KAS_OK;
        KAS_TRY(kas_channel_fill(channel));
    }
}

cJSON *kas_message(const char *type)
{
    cJSON *message = cJSON_CreateObject();
    if (message && !cJSON_AddStringToObject(message, "type", type)) {
        cJSON_Delete(message);
        message = NULL;
    }
    return message;
}

void kas_message_text(cJSON *message, const char *key, const char *value)
{
    if (message && value)
        (void)cJSON_AddStringToObject(message, key, value);
}

void kas_message_number(cJSON *message, const char *key, double value)
{
    if (message && isfinite(value))
        (void)cJSON_AddNumberToObject(message, key, value);
}

const char *kas_message_get_text(const cJSON *message, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(message, key);
    return cJSON_IsString(item) ? item->valuestring : "";
}

double kas_message_get_number(const cJSON *message, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(message, key);
    return cJSON_IsNumber(item) ? item->valuedouble : NAN;
}

bool kas_message_is(const cJSON *message, const char *type)
{
    return strcmp(kas_message_get_text(message, "type"), type) == 0;
}

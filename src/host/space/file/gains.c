#include "host/space/file/gains.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/json/json.h"

enum { MAX_GAINS = 1024, MAX_BYTES = 1 << 20, MAX_DEPTH = 2 };

void kas_gains_free(kas_gains *gains)
{
    free(gains->gain);
    *gains = (kas_gains){0};
}

/* ---- reading --------------------------------------------------------------------------------- */

static kas_status read_gain(const char *where, const cJSON *object, const char *layer,
                            kas_gain *out)
{
    const size_t length = strlen(layer);
    double value;
    if (length == 0 || length >= sizeof out->layer)
        return kas_fail(KAS_BAD_INPUT, "%s: a layer's name has 1 to %d bytes, found \"%.80s\"",
                        where, KAS_ASSIGNED_NAME - 1, layer);
    KAS_TRY(kas_json_number(object, where, layer, KAS_GAIN_LEAST, KAS_GAIN_MOST, &value));
    memcpy(out->layer, layer, length + 1);
    out->value = (float)value;
    return KAS_OK;
}

static kas_status read_object(const char *name, const cJSON *object, kas_gains *out)
{
    const int count = cJSON_GetArraySize(object);
    char where[256];
    const cJSON *item;
    snprintf(where, sizeof where, "%.200s: gains", name);
    if (count < 1 || count > MAX_GAINS)
        return kas_fail(KAS_BAD_INPUT, "%s: expected 1 to %d layers, found %d", where, MAX_GAINS,
                        count);
    out->gain = calloc((size_t)count, sizeof *out->gain);
    if (!out->gain)
        return kas_fail(KAS_NO_MEMORY, "%s: no memory for %d layers", where, count);
    cJSON_ArrayForEach(item, object)
        KAS_TRY(read_gain(where, object, item->string, &out->gain[out->count++]));
    return KAS_OK;
}

kas_status kas_gains_read(const char *name, const cJSON *root, kas_gains *out)
{
    const cJSON *object;
    *out = (kas_gains){0};
    if (!kas_json_has(root, "gains"))
        return KAS_OK;
    KAS_TRY(kas_json_object(root, name, "gains", &object));
    const kas_status status = read_object(name, object, out);
    if (status != KAS_OK)
        kas_gains_free(out);
    return status;
}

kas_status kas_gains_parse(const char *name, const char *text, kas_gains *out)
{
    const kas_json_limits limits = {.bytes = MAX_BYTES, .depth = MAX_DEPTH};
    cJSON *root;
    *out = (kas_gains){0};
    KAS_TRY(kas_json_parse(name, text, strlen(text), limits, &root));
    kas_status status = cJSON_IsObject(root)
                            ? read_object(name, root, out)
                            : kas_fail(KAS_BAD_INPUT, "%s: gains: expected an object", name);
    cJSON_Delete(root);
    if (status != KAS_OK)
        kas_gains_free(out);
    return status;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void put(const char *layer, float value, bool first, kas_buf *out)
{
    kas_buf_puts(out, first ? "{" : ", ");
    kas_buf_json_string(out, layer);
    kas_buf_printf(out, ": %.9g", (double)value);
}

void kas_gains_write(const kas_gains *gains, kas_buf *out)
{
    for (int i = 0; i < gains->count; i++)
        put(gains->gain[i].layer, gains->gain[i].value, i == 0, out);
    kas_buf_puts(out, "}");
}

kas_status kas_gains_write_replacement(const kas_replacement *r, kas_buf *out)
{
    bool first = true;
    for (int t = 0; t < r->solution.targets; t++) {
        if (!kas_replacement_kernel(r, t))
            continue;
        put(r->target[t].name, kas_replacement_gain(r, t), first, out);
        first = false;
    }
    kas_buf_puts(out, "}");
    return kas_buf_status(out);
}

kas_status kas_gains_insert(const char *file, const char *gains, kas_buf *out)
{
    static const char before[] = "\"version\": 1", after[] = "\"version\": 2", end[] = "\n}\n";
    const char *version = strstr(file, before);
    const size_t size = strlen(file), tail = sizeof end - 1;
    if (!version || size < tail || strcmp(file + size - tail, end) != 0)
        return kas_fail(KAS_FAILURE, "a kernel's text is not as kas-gpu writes it: %.60s", file);
    kas_buf_add(out, file, (size_t)(version - file));
    kas_buf_puts(out, after);
    version += sizeof before - 1;
    kas_buf_add(out, version, size - tail - (size_t)(version - file));
    kas_buf_printf(out, ",\n  \"gains\": %s%s", gains, end);
    return kas_buf_status(out);
}

/* ---- at a network ---------------------------------------------------------------------------- */

static int find_target(const kas_replacement *r, const char *layer)
{
    for (int t = 0; t < r->solution.targets; t++)
        if (kas_replacement_kernel(r, t) && strcmp(r->target[t].name, layer) == 0)
            return t;
    return -1;
}

static kas_status place(const kas_gains *gains, const kas_replacement *r, float *gain)
{
    for (int i = 0; i < gains->count; i++) {
        const int t = find_target(r, gains->gain[i].layer);
        if (t < 0)
            return kas_fail(KAS_BAD_INPUT, "gains: no kernel is at a layer \"%s\" here",
                            gains->gain[i].layer);
        gain[t] = gains->gain[i].value;
    }
    for (int t = 0; t < r->solution.targets; t++)
        if (kas_replacement_kernel(r, t) && gain[t] == 0)
            return kas_fail(KAS_BAD_INPUT,
                            "gains: layer \"%s\" has none; found those of %d layers, expected one "
                            "for each of the %d layers that have a kernel",
                            r->target[t].name, gains->count, kas_replacement_replaced(r));
    return KAS_OK;
}

kas_status kas_gains_fit(const kas_gains *gains, kas_replacement *r)
{
    float *gain = calloc((size_t)r->solution.targets + 1, sizeof *gain);
    kas_status status = gain ? place(gains, r, gain)
                             : kas_fail(KAS_NO_MEMORY, "no memory for %d gains", gains->count);
    for (int t = 0; status == KAS_OK && t < r->solution.targets; t++)
        gain[t] = gain[t] == 0 ? 1 : gain[t]; /* the convolution stays */
    if (status == KAS_OK)
        status = kas_replacement_set_gains(r, gain);
    free(gain);
    return status;
}

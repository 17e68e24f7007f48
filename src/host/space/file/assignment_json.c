/* Reads and writes files of layers (docs/kernel-file.md, "A kernel for each layer"). */
#include "host/space/file/assignment.h"

#include <stdio.h>
#include <string.h>

#include "host/core/file/files.h"
#include "host/core/json/json.h"
#include "host/space/file/assignment_layers.h"
#include "host/space/file/kernel_json.h"
#include "host/space/file/kernel_json_node.h"

#define FORMAT "kas-gpu layers"
enum { MAX_BYTES = 1 << 20, MAX_DEPTH = 10, MAX_LAYERS = 1024 };

static kas_status read_header(const char *name, const cJSON *root)
{
    static const char *const fields[] = {"format", "version", "kernels", "layers", "gains", NULL};
    const char *text;
    if (!cJSON_IsObject(root))
        return kas_fail(KAS_BAD_INPUT, "%s: expected a JSON object", name);
    KAS_TRY(kas_json_string(root, name, "format", &text)); /* first: what kind of file it is */
    if (strcmp(text, FORMAT) != 0)
        return kas_fail(KAS_BAD_INPUT, "%s: field \"format\": expected \"%s\", found \"%.40s\"",
                        name, FORMAT, text);
    KAS_TRY(kas_json_only(root, name, fields));
    return kas_kernel_read_version(name, root);
}

static kas_status read_kernels(const char *name, const cJSON *list, kas_assignment *out)
{
    const cJSON *item;
    int k = 0;
    cJSON_ArrayForEach(item, list)
    {
        char where[256];
        snprintf(where, sizeof where, "%.200s: kernels[%d]", name, k);
        if (kas_json_has(item, "gains"))
            return kas_fail(KAS_BAD_INPUT,
                            "%s: gains stand beside \"layers\", one for each layer "
                            "that has a kernel",
                            where);
        KAS_TRY(kas_kernel_read_object(where, item, &out->kernel[k++]));
    }
    return KAS_OK;
}

/* Reads a layer's name. It goes into messages, and stands before a blank in the text that the
 * assignment's name is computed from. */
static kas_status read_name(const char *name, const char *layer, char out[KAS_ASSIGNED_NAME])
{
    const size_t length = strlen(layer);
    for (size_t i = 0; i < length; i++)
        if (layer[i] <= ' ' || layer[i] > '~')
            return kas_fail(KAS_BAD_INPUT, "%s: layers: a name holds only printed ASCII characters",
                            name);
    if (length == 0 || length >= KAS_ASSIGNED_NAME)
        return kas_fail(KAS_BAD_INPUT, "%s: layers: a name has 1 to %d bytes, found \"%.80s\"",
                        name, KAS_ASSIGNED_NAME - 1, layer);
    memcpy(out, layer, length + 1);
    return KAS_OK;
}

static kas_status read_layer(const char *name, const cJSON *layers, const cJSON *item,
                             kas_assignment *out, int i)
{
    char where[256];
    int64_t kernel = KAS_KEPT;
    KAS_TRY(read_name(name, item->string, out->layer[i]));
    snprintf(where, sizeof where, "%.200s: layers", name);
    if (!cJSON_IsNull(item) &&
        kas_json_int(layers, where, item->string, 0, out->kernels - 1, &kernel) != KAS_OK)
        return kas_fail(KAS_BAD_INPUT,
                        "%s: layer \"%s\": expected the number of one of the %d kernels, from 0, "
                        "or null where the convolution stays",
                        name, item->string, out->kernels);
    out->kernel_of[i] = (int)kernel;
    return KAS_OK;
}

static kas_status read_layers(const char *name, const cJSON *layers, kas_assignment *out)
{
    const cJSON *item;
    int i = 0;
    cJSON_ArrayForEach(item, layers) KAS_TRY(read_layer(name, layers, item, out, i++));
    for (int k = 0; k < out->kernels; k++) {
        bool used = false;
        for (i = 0; i < out->layers; i++)
            used |= out->kernel_of[i] == k;
        if (!used)
            return kas_fail(KAS_BAD_INPUT, "%s: kernels[%d]: no layer has it", name, k);
    }
    return KAS_OK;
}

static kas_status read_lists(const char *name, const cJSON *root, kas_assignment *out)
{
    const cJSON *kernels, *layers;
    KAS_TRY(read_header(name, root));
    KAS_TRY(kas_json_array(root, name, "kernels", &kernels));
    KAS_TRY(kas_json_object(root, name, "layers", &layers));
    const int count[] = {cJSON_GetArraySize(kernels), cJSON_GetArraySize(layers)};
    for (int i = 0; i < 2; i++)
        if (count[i] < 1 || count[i] > MAX_LAYERS)
            return kas_fail(KAS_BAD_INPUT, "%s: field \"%s\": expected 1 to %d, found %d", name,
                            i ? "layers" : "kernels", MAX_LAYERS, count[i]);
    KAS_TRY(kas_assignment_allocate(count[0], count[1], out));
    KAS_TRY(read_kernels(name, kernels, out));
    KAS_TRY(read_layers(name, layers, out));
    KAS_TRY(kas_gains_read(name, root, &out->gains));
    return kas_assignment_canonicalize(out);
}

/* Returns the place behind blanks and the word, or NULL when the word does not come next. */
static const char *skip(const char *at, const char *end, const char *word)
{
    const size_t length = strlen(word);
    while (at && at < end && strchr(" \t\r\n", *at) && *at)
        at++;
    return at && (size_t)(end - at) >= length && memcmp(at, word, length) == 0 ? at + length : NULL;
}

/* Returns whether the text is meant to be a file of layers, however damaged it is: every other text
 * is a kernel file and gets that reader's limits and messages. No string of a kernel file is taken
 * for the field, because quotes inside a string have a backslash before them. */
static bool names_layers(const char *text, size_t size)
{
    static const char field[] = "\"format\"";
    const char *const end = text + size, *at = text;
    while ((at = memmem(at, (size_t)(end - at), field, sizeof field - 1))) {
        at += sizeof field - 1;
        if (skip(skip(at, end, ":"), end, "\"" FORMAT "\""))
            return true;
    }
    return false;
}

static kas_status read_kernel_file(const char *name, const char *text, size_t size,
                                   kas_assignment *out)
{
    KAS_TRY(kas_assignment_allocate(1, 0, out));
    return kas_kernel_read_json_gains(name, text, size, out->kernel, &out->gains);
}

static kas_status read_layers_file(const char *name, const char *text, size_t size,
                                   kas_assignment *out)
{
    const kas_json_limits limits = {.bytes = MAX_BYTES, .depth = MAX_DEPTH};
    cJSON *root;
    KAS_TRY(kas_json_parse(name, text, size, limits, &root));
    kas_status status = read_lists(name, root, out);
    cJSON_Delete(root);
    return status;
}

kas_status kas_assignment_read_json(const char *name, const char *text, size_t size,
                                    kas_assignment *out)
{
    *out = (kas_assignment){0};
    kas_status status =
        (names_layers(text, size) ? read_layers_file : read_kernel_file)(name, text, size, out);
    if (status != KAS_OK)
        kas_assignment_free(out);
    return status;
}

kas_status kas_assignment_read_file(const char *path, kas_assignment *out)
{
    kas_buf text = {0};
    *out = (kas_assignment){0};
    kas_status status = kas_file_read(path, MAX_BYTES, &text);
    if (status == KAS_OK)
        status = kas_assignment_read_json(path, kas_buf_text(&text), text.size, out);
    kas_buf_free(&text);
    return status;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void write_layers(const kas_assignment *a, kas_buf *out)
{
    kas_buf_puts(out, "  \"layers\": {\n");
    for (int i = 0; i < a->layers; i++) {
        kas_buf_puts(out, "    ");
        kas_buf_json_string(out, a->layer[i]);
        if (a->kernel_of[i] == KAS_KEPT)
            kas_buf_puts(out, ": null");
        else
            kas_buf_printf(out, ": %d", a->kernel_of[i]);
        kas_buf_puts(out, i + 1 < a->layers ? ",\n" : "\n");
    }
    kas_buf_puts(out, "  }\n");
}

static kas_status write(const kas_assignment *a, kas_buf *out)
{
    if (a->layers == 0)
        return kas_kernel_write_json(a->kernel, NULL, out);
    kas_buf_printf(out, "{\n  \"format\": \"%s\",\n  \"version\": %d,\n  \"kernels\": [\n", FORMAT,
                   KAS_KERNEL_FORMAT_VERSION);
    for (int k = 0; k < a->kernels; k++) {
        KAS_TRY(kas_kernel_write_json(&a->kernel[k], NULL, out));
        out->data[--out->size] = '\0'; /* the line break behind a file */
        kas_buf_puts(out, k + 1 < a->kernels ? ",\n" : "\n");
    }
    kas_buf_puts(out, "  ],\n");
    write_layers(a, out);
    kas_buf_puts(out, "}\n");
    return kas_buf_status(out);
}

kas_status kas_assignment_write_json(const kas_assignment *a, kas_buf *out)
{
    kas_buf file = {0}, gains = {0};
    if (a->gains.count == 0)
        return write(a, out);
    kas_gains_write(&a->gains, &gains);
    kas_status status = write(a, &file);
    if (status == KAS_OK)
        status = kas_buf_status(&gains);
    if (status == KAS_OK)
        status = kas_gains_insert(kas_buf_text(&file), kas_buf_text(&gains), out);
    kas_buf_free(&file);
    kas_buf_free(&gains);
    return status;
}

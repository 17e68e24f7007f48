#include "host/net/net_file_reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/intern.h"
#include "host/core/json/json.h"
#include "host/net/net_file_layer.h"

enum { MAX_JSON_DEPTH = 8 };

static kas_status parse(const char *file, const char *text, cJSON **out)
{
    return kas_json_parse(file, text, strlen(text),
                          (kas_json_limits){KAS_NET_FILE_BYTES, MAX_JSON_DEPTH}, out);
}

static kas_status check_block(const cJSON *block)
{
    static const char *const known[] = {"about", "arguments", "requires", "layers", NULL};
    const cJSON *layers;
    if (kas_net_file_kind(block->string) >= 0)
        return kas_fail(KAS_BAD_INPUT, "block \"%s\" has the name of a kind of layer",
                        block->string);
    if (!cJSON_IsObject(block))
        return kas_fail(KAS_BAD_INPUT, "block \"%.64s\": expected an object", block->string);
    KAS_TRY(kas_json_only(block, "block", known));
    return kas_json_array(block, "block", "layers", &layers);
}

static kas_status check_format(const cJSON *root)
{
    const char *format;
    int64_t version;
    if (!cJSON_IsObject(root))
        return kas_fail(
            KAS_BAD_INPUT,
            "expected an object, {\"format\": \"kas-gpu network\", \"version\": 1, ...}");
    KAS_TRY(kas_json_string(root, "network", "format", &format));
    if (strcmp(format, "kas-gpu network") != 0)
        return kas_fail(KAS_BAD_INPUT,
                        "field \"format\": expected \"kas-gpu network\", found \"%.64s\"", format);
    return kas_json_int(root, "network", "version", 1, 1, &version);
}

/* Reads the network's name and checks it, because file names and reports contain it. */
static kas_status read_name(const cJSON *root, char name[32])
{
    const char *text;
    KAS_TRY(kas_json_string(root, "network", "name", &text));
    size_t length =
        strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
    if (!*text || text[length] || length > 31)
        return kas_fail(
            KAS_BAD_INPUT,
            "field \"name\": expected 1 to 31 letters, digits, _ and -, found \"%.64s\"", text);
    memcpy(name, text, length + 1);
    return KAS_OK;
}

static kas_status check_head(kas_net_reader *r)
{
    static const char *const known[] = {"format",    "version",  "name",   "about",  "source",
                                        "arguments", "requires", "blocks", "layers", NULL};
    KAS_TRY(check_format(r->root));
    KAS_TRY(kas_json_only(r->root, "network", known));
    if (!kas_json_has(r->root, "blocks"))
        return KAS_OK;
    KAS_TRY(kas_json_object(r->root, "network", "blocks", &r->blocks));
    for (const cJSON *block = r->blocks->child; block; block = block->next)
        KAS_TRY(kas_net_locate(r, check_block(block), block));
    return KAS_OK;
}

/* Adds "small=1,n=3" to an object, so that options are bound like a block's arguments. One that it has already is an
 * error or, with `defaults`, stays as it is. */
static kas_status parse_options(const char *options, const cJSON *arguments, bool defaults,
                                cJSON *out)
{
    for (const char *p = options; *p;) {
        char name[KAS_NAME_BYTES] = "";
        long value;
        int length = 0;
        if (sscanf(p, "%31[a-zA-Z0-9_]=%9ld%n", name, &value, &length) != 2 ||
            (p[length] && p[length] != ','))
            return kas_fail(KAS_BAD_INPUT,
                            "options \"%.128s\": expected name=number, with commas between; the "
                            "network's file says what its numbers mean (networks/README.md)",
                            options);
        if (!kas_net_is_argument(arguments, name))
            return kas_fail(KAS_BAD_INPUT, "the network has no argument \"%s\"", name);
        const bool known = kas_json_has(out, name);
        if (known && !defaults)
            return kas_fail(KAS_BAD_INPUT, "options \"%.128s\": %s is given twice", options, name);
        if (!known && !cJSON_AddNumberToObject(out, name, (double)value))
            return kas_fail(KAS_NO_MEMORY, "no memory for options of a network");
        p += length + (p[length] == ',');
    }
    return KAS_OK;
}

static kas_status check_logits(const kas_net_reader *r)
{
    const kas_layer *last = &r->b.net->layer[r->b.net->layers - 1];
    if (last->h == 1 && last->w == 1 && last->c == r->source->classes)
        return KAS_OK;
    return kas_fail(KAS_BAD_INPUT,
                    "the last layer, %s, is %dx%dx%d; expected %dx1x1, one value a class "
                    "(\"channels\": \"classes\")",
                    last->name, last->c, last->h, last->w, r->source->classes);
}

/* A layer that does not lead to the logits is a mistake, such as a "from" that names another layer
 * than was meant: it would be trained and replaced in vain. */
static kas_status check_all_are_read(kas_net_reader *r)
{
    const kas_net *net = r->b.net;
    bool *read = calloc((size_t)net->layers, sizeof *read);
    int layer = net->layers - 1;
    if (!read)
        return kas_fail(KAS_NO_MEMORY, "no memory for %d layers", net->layers);
    read[layer] = true;
    for (; layer > 0 && read[layer]; layer--)
        for (int k = 0; k < net->layer[layer].inputs; k++)
            read[net->layer[layer].in[k]] = true;
    free(read);
    if (layer == 0)
        return KAS_OK;
    return kas_net_locate(
        r,
        kas_fail(KAS_BAD_INPUT,
                 "layer %s: no layer that leads to the last one reads it; a later layer's "
                 "\"from\" may name another layer: correct it, or remove this layer",
                 net->layer[layer].name),
        r->statement[layer]);
}

static kas_status read_network(kas_net_reader *r)
{
    const cJSON *layers, *arguments = cJSON_GetObjectItemCaseSensitive(r->root, "arguments");
    kas_net_scope s = {0};
    KAS_TRY(kas_json_array(r->root, "network", "layers", &layers));
    KAS_TRY(kas_names_set(&s.names, "classes", r->source->classes));
    KAS_TRY(kas_net_set_shape(r, 0, &s.names));
    cJSON *given = cJSON_CreateObject();
    kas_status status = parse_options(r->source->options, arguments, false, given);
    if (status == KAS_OK)
        status = parse_options(r->source->defaults, arguments, true, given);
    if (status == KAS_OK)
        status = kas_net_locate(r, kas_net_bind_arguments(arguments, given, &s.names, &s.names),
                                arguments ? arguments : r->root);
    cJSON_Delete(given);
    KAS_TRY(status);
    KAS_TRY(kas_net_locate(r, kas_net_check_required(r->root, &s.names),
                           cJSON_GetObjectItemCaseSensitive(r->root, "requires")));
    KAS_TRY(kas_net_read_list(r, layers, &s));
    KAS_TRY(kas_net_locate(r, check_logits(r), layers));
    return check_all_are_read(r);
}

kas_status kas_net_file_read(const kas_net_source *source, kas_net **out)
{
    kas_status status = KAS_OK;
    cJSON *root = NULL;
    char name[32];
    kas_net_reader *r = calloc(1, sizeof *r);
    if (!r)
        return kas_fail(KAS_NO_MEMORY, "no memory to read %s", source->file);
    r->source = source;
    KAS_TRY_GOTO(parse(source->file, source->text, &root), out);
    r->root = root;
    KAS_TRY_GOTO(check_head(r), out);
    KAS_TRY_GOTO(read_name(root, name), out);
    kas_builder_start(&r->b, source->name ? source->name : name, source->h, source->w, source->c,
                      source->classes);
    if (r->b.status == KAS_OK && !(r->b.net->file = kas_intern(source->file)))
        r->b.status = kas_fail(KAS_NO_MEMORY, "no memory to read %s", source->file);
    status = r->b.status;
    if (status == KAS_OK)
        status = read_network(r);
    if (r->b.status == KAS_OK)
        r->b.status = status;
    status = kas_builder_finish(&r->b, out);
out:
    if (status != KAS_OK && root && !r->located)
        status = kas_fail_context(status, "%s", source->file);
    cJSON_Delete(root);
    free(r);
    return status;
}

static kas_status read_like(const cJSON *root, char like[256], char name[32])
{
    static const char *const known[] = {"format", "version", "name", "about",
                                        "source", "like",    NULL};
    const char *text;
    KAS_TRY(check_format(root));
    KAS_TRY(read_name(root, name));
    *like = 0;
    if (!kas_json_has(root, "like"))
        return KAS_OK;
    KAS_TRY(kas_json_only(root, "network", known));
    KAS_TRY(kas_json_string(root, "network", "like", &text));
    if (snprintf(like, 256, "%s", text) >= 256 || !*like)
        return kas_fail(KAS_BAD_INPUT, "field \"like\": expected the name of a network, with its "
                                       "options, of at most 255 bytes");
    return KAS_OK;
}

kas_status kas_net_file_like(const char *file, const char *text, char like[256], char name[32])
{
    cJSON *root;
    KAS_TRY(parse(file, text, &root));
    kas_status status = read_like(root, like, name);
    cJSON_Delete(root);
    return status == KAS_OK ? KAS_OK : kas_fail_context(status, "%s", file);
}

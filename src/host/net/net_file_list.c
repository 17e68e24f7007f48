#include "host/net/net_file_reader.h"

#include <stdio.h>
#include <string.h>

#include "host/core/json/json.h"
#include "host/net/net_file_layer.h"

enum { MAX_BLOCK_DEPTH = 8, MAX_REPEAT = 1024, MAX_STEPS = 100000, MAX_INPUTS = 64 };

/* ---- names ----------------------------------------------------------------------------------- */

/* Writes "prefix.name"; either part may be empty. */
static kas_status full_name(const kas_net_scope *s, const char *name, char out[KAS_LAYER_NAME])
{
    int length =
        snprintf(out, KAS_LAYER_NAME, "%s%s%s", s->prefix, *s->prefix && *name ? "." : "", name);
    if (length < KAS_LAYER_NAME)
        return KAS_OK;
    return kas_fail(KAS_BAD_INPUT, "name \"%s.%s\": expected at most %d bytes", s->prefix, name,
                    KAS_LAYER_NAME - 1);
}

static int find_layer(const kas_net_reader *r, const char *name)
{
    for (int i = r->b.net->layers - 1; i > 0; i--)
        if (strcmp(r->b.net->layer[i].name, name) == 0)
            return i;
    for (int i = r->outputs - 1; i >= 0; i--)
        if (strcmp(r->output[i].name, name) == 0)
            return r->output[i].layer;
    return -1;
}

static bool lies_in(const char *name, const char *outer)
{
    const size_t length = strlen(outer);
    return strncmp(name, outer, length) == 0 && name[length] == '.';
}

/* Among layers with weights no name is the beginning of another, as "a" of "a.b": in PyTorch such a layer has no others
 * inside. */
static kas_status check_place(const kas_net_reader *r, kas_layer_op op, const char *name)
{
    for (int i = 1; kas_layer_has_weights(op) && i < r->b.net->layers; i++) {
        const kas_layer *l = &r->b.net->layer[i];
        if (kas_layer_has_weights(l->op) && (lies_in(name, l->name) || lies_in(l->name, name)))
            return kas_fail(
                KAS_BAD_INPUT,
                "the names \"%s\" and \"%s\": a layer with weights cannot lie in another", l->name,
                name);
    }
    return KAS_OK;
}

/* Checks a name. Names become parts of names in other programs, so only a few characters
 * are allowed. */
static kas_status check_name(const char *name)
{
    size_t length =
        strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.");
    if (!*name || name[length] || *name == '.' || name[strlen(name) - 1] == '.' ||
        strstr(name, ".."))
        return kas_fail(KAS_BAD_INPUT,
                        "name \"%.64s\": expected letters, digits, _ and -, with single dots "
                        "between",
                        name);
    return KAS_OK;
}

static kas_status reference(const kas_net_reader *r, const kas_net_scope *s, const cJSON *item,
                            int *out)
{
    char name[KAS_LAYER_NAME], local[KAS_LAYER_NAME];
    if (!cJSON_IsString(item))
        return kas_fail(KAS_BAD_INPUT, "field \"from\": expected names of layers");
    KAS_TRY(kas_template(item->valuestring, &s->names, local, sizeof local));
    *out = s->in;
    if (strcmp(local, "in") == 0)
        return KAS_OK;
    KAS_TRY(full_name(s, local, name));
    *out = find_layer(r, name);
    if (*out >= 0)
        return KAS_OK;
    return kas_fail(KAS_BAD_INPUT,
                    "field \"from\": no layer or block \"%s\" before this one%s; expected one, or "
                    "\"in\", what the %s reads",
                    local, s->block ? " in this block" : "", s->block ? "block" : "network");
}

/* Reads the inputs of a statement: the layer before it, or "from". */
static kas_status read_inputs(const kas_net_reader *r, const kas_net_scope *s,
                              const cJSON *statement, int in[MAX_INPUTS], int *count)
{
    const cJSON *from = cJSON_GetObjectItemCaseSensitive(statement, "from");
    *count = 1;
    in[0] = s->last;
    if (!from)
        return KAS_OK;
    if (!cJSON_IsArray(from))
        return reference(r, s, from, &in[0]);
    *count = cJSON_GetArraySize(from);
    if (*count < 1 || *count > MAX_INPUTS)
        return kas_fail(KAS_BAD_INPUT, "field \"from\": expected 1 to %d layers, found %d",
                        MAX_INPUTS, *count);
    int k = 0;
    for (const cJSON *item = from->child; item; item = item->next)
        KAS_TRY(reference(r, s, item, &in[k++]));
    return KAS_OK;
}

kas_status kas_net_set_shape(const kas_net_reader *r, int layer, kas_names *names)
{
    const kas_layer *l = &r->b.net->layer[layer];
    KAS_TRY(kas_names_set(names, "c", l->c));
    KAS_TRY(kas_names_set(names, "h", l->h));
    return kas_names_set(names, "w", l->w);
}

/* ---- layers ---------------------------------------------------------------------------------- */

static kas_status check_inputs(kas_layer_op op, int count)
{
    const char *kind = kas_layer_op_name(op);
    if ((op == KAS_LAYER_ADD || op == KAS_LAYER_MULTIPLY) && count != 2)
        return kas_fail(KAS_BAD_INPUT, "a layer \"%s\" reads 2 layers, but \"from\" names %d", kind,
                        count);
    if (op == KAS_LAYER_CONCAT && count < 2)
        return kas_fail(KAS_BAD_INPUT, "a layer \"concat\" reads 2 layers or more; name them in "
                                       "\"from\"");
    if (op != KAS_LAYER_ADD && op != KAS_LAYER_MULTIPLY && op != KAS_LAYER_CONCAT && count != 1)
        return kas_fail(KAS_BAD_INPUT, "a layer \"%s\" reads one layer, but \"from\" names %d",
                        kind, count);
    return KAS_OK;
}

static kas_status read_layer(kas_net_reader *r, const cJSON *statement, const cJSON *kind,
                             kas_net_scope *s)
{
    char local[KAS_LAYER_NAME], name[KAS_LAYER_NAME];
    int in[MAX_INPUTS], count;
    kas_layer_op op = (kas_layer_op)kas_net_file_kind(kind->string);
    KAS_TRY(kas_template(kind->valuestring, &s->names, local, sizeof local));
    KAS_TRY(check_name(local));
    KAS_TRY(full_name(s, local, name));
    if (find_layer(r, name) >= 0 || strcmp(local, "in") == 0)
        return kas_fail(KAS_BAD_INPUT, "the name \"%s\" is taken; expected a new one", name);
    KAS_TRY(check_place(r, op, name));
    KAS_TRY(read_inputs(r, s, statement, in, &count));
    KAS_TRY(check_inputs(op, count));
    KAS_TRY(kas_net_set_shape(r, in[0], &s->names));
    kas_layer layer = kas_layer_make(op, name);
    kas_status status = kas_net_file_layer(statement, kind->string, &s->names, &layer);
    if (status != KAS_OK)
        return kas_fail_context(status, "layer %s", name);
    if (r->b.net->layers >= KAS_NET_FILE_LAYERS)
        return kas_fail(KAS_BAD_INPUT, "layer %s: more than %d layers", name, KAS_NET_FILE_LAYERS);
    layer.inputs = count;
    layer.in = in;
    r->statement[r->b.net->layers] = statement;
    s->last = kas_builder_layer(&r->b, layer);
    return r->b.status;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Splits "name" or "name = expression" into the name and the beginning of the expression (NULL
 * = none). */
static kas_status split_argument(const cJSON *item, char name[KAS_NAME_BYTES], const char **value)
{
    if (!cJSON_IsString(item))
        return kas_fail(KAS_BAD_INPUT,
                        "arguments: expected strings, \"name\" or \"name = expression\"");
    const char *text = item->valuestring;
    size_t length = strcspn(text, " =");
    const char *rest = text + length + strspn(text + length, " ");
    if (length >= KAS_NAME_BYTES || (*rest && *rest != '='))
        return kas_fail(KAS_BAD_INPUT,
                        "argument \"%.64s\": expected \"name\" or \"name = expression\"", text);
    snprintf(name, KAS_NAME_BYTES, "%.*s", (int)length, text);
    *value = *rest ? rest + 1 : NULL;
    return KAS_OK;
}

/* Returns whether the key of a block's use is not an argument. */
static bool is_own(const char *key)
{
    static const char *const own[] = {"from", "if", "repeat"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strcmp(key, own[i]) == 0)
            return true;
    return false;
}

bool kas_net_is_argument(const cJSON *arguments, const char *key)
{
    char name[KAS_NAME_BYTES];
    const char *value;
    for (const cJSON *item = arguments ? arguments->child : NULL; item; item = item->next)
        if (split_argument(item, name, &value) == KAS_OK && strcmp(name, key) == 0)
            return true;
    return false;
}

kas_status kas_net_bind_arguments(const cJSON *arguments, const cJSON *statement,
                                  const kas_names *outer, kas_names *names)
{
    if (arguments && !cJSON_IsArray(arguments))
        return kas_fail(KAS_BAD_INPUT, "field \"arguments\": expected a list of strings");
    for (const cJSON *item = arguments ? arguments->child : NULL; item; item = item->next) {
        char name[KAS_NAME_BYTES];
        const char *value;
        int64_t bound;
        KAS_TRY(split_argument(item, name, &value));
        if (kas_names_get(names, name) || is_own(name))
            return kas_fail(KAS_BAD_INPUT, "argument \"%s\": the name is taken", name);
        const cJSON *given = cJSON_GetObjectItemCaseSensitive(statement, name);
        if (given)
            KAS_TRY(kas_net_file_value(given, name, outer, &bound));
        else if (value)
            KAS_TRY(kas_expression(value, names, &bound));
        else
            return kas_fail(KAS_BAD_INPUT, "argument \"%s\" is missing", name);
        KAS_TRY(kas_names_set(names, name, bound));
    }
    return KAS_OK;
}

kas_status kas_net_check_required(const cJSON *owner, const kas_names *names)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(owner, "requires");
    if (list && !cJSON_IsObject(list))
        return kas_fail(KAS_BAD_INPUT, "field \"requires\": expected an object of expressions, "
                                       "each with the message of its failure");
    for (const cJSON *item = list ? list->child : NULL; item; item = item->next) {
        int64_t fulfilled;
        KAS_TRY(kas_expression(item->string, names, &fulfilled));
        if (!cJSON_IsString(item))
            return kas_fail(KAS_BAD_INPUT, "field \"requires\": expected a text for \"%s\"",
                            item->string);
        if (!fulfilled)
            return kas_fail(KAS_BAD_INPUT, "%s", item->valuestring);
    }
    return KAS_OK;
}

static kas_status check_use(const cJSON *statement, const cJSON *block)
{
    const cJSON *arguments = cJSON_GetObjectItemCaseSensitive(block, "arguments");
    for (const cJSON *item = statement->child; item; item = item->next)
        if (strcmp(item->string, block->string) != 0 && !is_own(item->string) &&
            !kas_net_is_argument(arguments, item->string))
            return kas_fail(KAS_BAD_INPUT,
                            "\"%.64s\" is not an argument of block \"%s\", nor from, if or repeat",
                            item->string, block->string);
    return KAS_OK;
}

static kas_status use_block(kas_net_reader *r, const cJSON *statement, const cJSON *use,
                            const cJSON *block, int in, kas_net_scope *outer)
{
    kas_net_scope inner = {.in = in, .last = in, .depth = outer->depth + 1, .block = block};
    const int first = r->b.net->layers;
    char local[KAS_LAYER_NAME];
    if (inner.depth > MAX_BLOCK_DEPTH)
        return kas_fail(KAS_BAD_INPUT, "blocks within blocks, more than %d deep", MAX_BLOCK_DEPTH);
    KAS_TRY(kas_template(use->valuestring, &outer->names, local, sizeof local));
    if (*local)
        KAS_TRY(check_name(local));
    KAS_TRY(full_name(outer, local, inner.prefix));
    KAS_TRY(kas_names_set(&inner.names, "classes", r->source->classes));
    KAS_TRY(kas_net_set_shape(r, in, &inner.names));
    KAS_TRY(kas_net_bind_arguments(cJSON_GetObjectItemCaseSensitive(block, "arguments"), statement,
                                   &outer->names, &inner.names));
    KAS_TRY(kas_net_check_required(block, &inner.names));
    KAS_TRY(kas_net_read_list(r, cJSON_GetObjectItemCaseSensitive(block, "layers"), &inner));
    outer->last = inner.last;
    for (int i = first; outer->depth == 0 && i < r->b.net->layers; i++)
        r->b.net->layer[i].block = r->outputs + 1;
    if (r->outputs == KAS_NET_FILE_LAYERS)
        return kas_fail(KAS_BAD_INPUT, "more than %d uses of blocks", KAS_NET_FILE_LAYERS);
    snprintf(r->output[r->outputs].name, KAS_LAYER_NAME, "%s", inner.prefix);
    r->output[r->outputs++].layer = inner.last;
    return KAS_OK;
}

static kas_status read_uses(kas_net_reader *r, const cJSON *statement, const cJSON *use,
                            const cJSON *block, kas_net_scope *s)
{
    int in[MAX_INPUTS], count;
    int64_t repeat = 1;
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(statement, "repeat");
    KAS_TRY(check_use(statement, block));
    KAS_TRY(read_inputs(r, s, statement, in, &count));
    if (count != 1)
        return kas_fail(KAS_BAD_INPUT, "a block reads one layer, but \"from\" names %d", count);
    KAS_TRY(kas_net_set_shape(r, in[0], &s->names));
    if (item)
        KAS_TRY(kas_net_file_value(item, "repeat", &s->names, &repeat));
    if (repeat < 0 || repeat > MAX_REPEAT)
        return kas_fail(KAS_BAD_INPUT, "field \"repeat\": expected 0 to %d, found %lld", MAX_REPEAT,
                        (long long)repeat);
    const kas_names before = s->names; /* "i" has a meaning in this statement only */
    s->last = in[0];
    for (int64_t i = 0; i < repeat; i++) {
        if (item)
            KAS_TRY(kas_names_set(&s->names, "i", i));
        KAS_TRY(kas_net_set_shape(r, s->last, &s->names));
        KAS_TRY(use_block(r, statement, use, block, s->last, s));
    }
    s->names = before;
    return KAS_OK;
}

/* ---- statements ------------------------------------------------------------------------------ */

/* Returns the block with this name that `s` may use. Inside a block these are only the blocks
 * before it. */
static const cJSON *find_block(const kas_net_reader *r, const kas_net_scope *s, const char *name)
{
    for (const cJSON *b = r->blocks ? r->blocks->child : NULL; b && b != s->block; b = b->next)
        if (strcmp(b->string, name) == 0)
            return b;
    return NULL;
}

/* Finds the key that says what the statement is: a kind of layer, or a block. */
static kas_status find_key(const kas_net_reader *r, const kas_net_scope *s, const cJSON *statement,
                           const cJSON **key, const cJSON **block)
{
    *key = NULL;
    for (const cJSON *item = statement->child; item; item = item->next) {
        const cJSON *of_block = find_block(r, s, item->string);
        /* A block may have an argument with the name of a kind, so the first such key counts. */
        if (!*key && (of_block || kas_net_file_kind(item->string) >= 0)) {
            *key = item;
            *block = of_block;
        }
    }
    if (!*key)
        return kas_fail(KAS_BAD_INPUT,
                        "\"%.64s\" is neither a kind of layer nor a block defined before; expected "
                        "{\"conv\": \"name\", ...} or the like",
                        statement->child ? statement->child->string : "");
    if (!cJSON_IsString(*key))
        return kas_fail(KAS_BAD_INPUT, "field \"%s\": expected the layer's name", (*key)->string);
    return KAS_OK;
}

static kas_status read_statement(kas_net_reader *r, const cJSON *statement, kas_net_scope *s)
{
    const cJSON *key, *block = NULL;
    const cJSON *condition = cJSON_GetObjectItemCaseSensitive(statement, "if");
    int64_t wanted = 1;
    if (!cJSON_IsObject(statement))
        return kas_fail(KAS_BAD_INPUT, "expected a layer, {\"conv\": \"name\", ...} or the like");
    if (++r->steps > MAX_STEPS)
        return kas_fail(KAS_BAD_INPUT, "more than %d statements when unrolled", MAX_STEPS);
    KAS_TRY(find_key(r, s, statement, &key, &block));
    KAS_TRY(kas_net_set_shape(r, s->last, &s->names));
    if (condition)
        KAS_TRY(kas_net_file_value(condition, "if", &s->names, &wanted));
    if (!wanted)
        return KAS_OK;
    return block ? read_uses(r, statement, key, block, s) : read_layer(r, statement, key, s);
}

kas_status kas_net_locate(kas_net_reader *r, kas_status status, const cJSON *item)
{
    if (status == KAS_OK || r->located)
        return status;
    r->located = true;
    return kas_fail_context(status, "%s: line %d", r->source->file,
                            kas_json_line(r->source->text, r->root, item));
}

kas_status kas_net_read_list(kas_net_reader *r, const cJSON *list, kas_net_scope *s)
{
    for (const cJSON *statement = list->child; statement; statement = statement->next)
        KAS_TRY(kas_net_locate(r, read_statement(r, statement, s), statement));
    return KAS_OK;
}

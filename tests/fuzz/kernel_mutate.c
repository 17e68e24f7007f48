#include "kernel_mutate.h"

#include <string.h>

/* ---- bytes ----------------------------------------------------------------------------------- */

static const char *const tokens[] = {
    "\"",         "{",         "}",          "[",
    "]",          ",",         ":",          "-1",
    "64",         "1e9",       "1e999",      "-0",
    "null",       "true",      "\"x15\"",    "\"C/x0\"",
    "\"G3\"",     "\"hw\"",    "\"dim\"",    "\"in\"",
    "\"out\"",    "0",         "\\u0000",    "\\ud800",
    "\xff",       "\t",        "1e-300",     "18446744073709551616",
    "\"C^31\"",   "\"1/3*C\"", "\"groups\"", "[[[[[[",
    "{\"\":",     "\"K_H\"",   "4294967295", "\"x0*x1\"",
    "2147483648", "\"S0\"",    "\"S3\"",     "\"R0\"",
    "\"first\"",  "\"shares\""};

static void insert(kas_buf *text, size_t at, const char *bytes, size_t size)
{
    kas_buf tail = {0};
    kas_buf_add(&tail, text->data + at, text->size - at);
    text->size = at;
    kas_buf_add(text, bytes, size);
    kas_buf_add(text, kas_buf_text(&tail), tail.size);
    kas_buf_free(&tail);
}

static void cut(kas_buf *text, size_t at, size_t size)
{
    size = size > text->size - at ? text->size - at : size;
    memmove(text->data + at, text->data + at + size, text->size - at - size);
    text->size -= size;
}

/* The first digit from `at` on: numbers of nodes, dims, offsets, groups. */
static void change_digit(kas_rng *rng, kas_buf *text, size_t at)
{
    while (at < text->size && (text->data[at] < '0' || text->data[at] > '9'))
        at++;
    if (at < text->size)
        text->data[at] = (char)('0' + kas_rng_below(rng, 10));
}

static void mutate_bytes_once(kas_rng *rng, kas_buf *text)
{
    const size_t at = kas_rng_below(rng, (uint32_t)text->size);
    const size_t length = 1 + kas_rng_below(rng, kas_rng_below(rng, 4) ? 8 : 200);
    const char *token = tokens[kas_rng_below(rng, sizeof tokens / sizeof *tokens)];
    char copy[256];
    switch (kas_rng_below(rng, 6)) {
    case 0:
        text->data[at] = (char)kas_rng_below(rng, 256);
        return;
    case 1:
        text->data[at] = (char)(text->data[at] ^ (1 << kas_rng_below(rng, 8)));
        return;
    case 2:
        change_digit(rng, text, at);
        return;
    case 3:
        cut(text, at, length);
        return;
    case 4: /* a piece again, elsewhere */
        if (at + length <= text->size) {
            memcpy(copy, text->data + at, length);
            insert(text, kas_rng_below(rng, (uint32_t)text->size), copy, length);
        }
        return;
    default:
        insert(text, at, token, strlen(token));
    }
}

void fuzz_mutate_bytes(kas_rng *rng, kas_buf *text)
{
    for (uint32_t n = 1 + kas_rng_below(rng, 4); n > 0 && text->size > 0; n--)
        mutate_bytes_once(rng, text);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static cJSON *random_item(kas_rng *rng, const cJSON *list)
{
    const int count = cJSON_GetArraySize(list);
    return count ? cJSON_GetArrayItem(list, (int)kas_rng_below(rng, (uint32_t)count)) : NULL;
}

static cJSON *operands(const cJSON *node)
{
    return cJSON_GetObjectItemCaseSensitive(node, "in");
}

/* Every operand's number goes through `from`, `by`: numbers of `from` and more move by `by`. */
static void renumber(cJSON *nodes, double from, double by)
{
    cJSON *node, *in;
    cJSON_ArrayForEach(node, nodes)
    {
        cJSON_ArrayForEach(in, operands(node))
        {
            if (in->valuedouble >= from)
                cJSON_SetNumberValue(in, in->valuedouble + by);
        }
    }
}

/* An operand of node `at` becomes another earlier node. */
static void rewire(kas_rng *rng, cJSON *nodes, int at)
{
    cJSON *in = random_item(rng, operands(cJSON_GetArrayItem(nodes, at)));
    if (in && at > 0)
        cJSON_SetNumberValue(in, kas_rng_below(rng, (uint32_t)at));
}

/* A node of the donor between two nodes; what read the first reads the new one. */
static void insert_node(kas_rng *rng, cJSON *nodes, const cJSON *donor_nodes)
{
    const cJSON *source = random_item(rng, donor_nodes);
    const int count = cJSON_GetArraySize(nodes);
    const int at = 1 + (int)kas_rng_below(rng, (uint32_t)count);
    cJSON *in, *copy = source ? cJSON_Duplicate(source, 1) : NULL;
    if (!copy)
        return;
    renumber(nodes, at - 1, 1);
    cJSON_ArrayForEach(in, operands(copy))
    {
        const double before =
            kas_rng_below(rng, 2) ? at - 1 : (int)kas_rng_below(rng, (uint32_t)at);
        cJSON_SetNumberValue(in, before);
    }
    cJSON_AddItemToArray(nodes, copy);
    for (int i = at; i < count; i++) /* not every cJSON 1.7 can insert behind the first item */
        cJSON_AddItemToArray(nodes, cJSON_DetachItemFromArray(nodes, at));
}

/* Takes a node out; what read it reads its first operand. */
static void remove_node(kas_rng *rng, cJSON *nodes)
{
    const int at = (int)kas_rng_below(rng, (uint32_t)cJSON_GetArraySize(nodes));
    const cJSON *first = cJSON_GetArrayItem(operands(cJSON_GetArrayItem(nodes, at)), 0);
    const double before = first ? first->valuedouble : 0;
    cJSON *node, *in;
    cJSON_ArrayForEach(node, nodes)
    {
        cJSON_ArrayForEach(in, operands(node))
        {
            if (in->valuedouble == at)
                cJSON_SetNumberValue(in, before);
        }
    }
    cJSON_DeleteItemFromArray(nodes, at);
    renumber(nodes, at + 1, -1);
}

/* A field gets the value that a field of the same name has in the donor. */
static void take_value(kas_rng *rng, cJSON *node, const cJSON *donor_node)
{
    const cJSON *field = donor_node ? random_item(rng, donor_node) : NULL;
    if (!node || !field || !field->string || strcmp(field->string, "in") == 0)
        return;
    cJSON *copy = cJSON_Duplicate(field, 1);
    if (cJSON_HasObjectItem(node, field->string))
        cJSON_ReplaceItemInObjectCaseSensitive(node, field->string, copy);
    else
        cJSON_AddItemToObject(node, field->string, copy);
}

/* A size such as "3/2*C^2/G0". */
static cJSON *random_size(kas_rng *rng)
{
    static const char *const symbols[] = {"C",  "H",  "W",  "K_H", "K_W", "G0",
                                          "G1", "x0", "x1", "R0",  "R1",  "2"};
    kas_buf text = {0};
    for (uint32_t n = 1 + kas_rng_below(rng, 4), i = 0; i < n; i++) {
        kas_buf_puts(&text, i == 0 ? "" : kas_rng_below(rng, 3) ? "*" : "/");
        kas_buf_puts(&text, symbols[kas_rng_below(rng, sizeof symbols / sizeof *symbols)]);
        if (kas_rng_below(rng, 8) == 0)
            kas_buf_printf(&text, "^%u", kas_rng_below(rng, 40));
    }
    cJSON *size = cJSON_CreateString(kas_buf_text(&text));
    kas_buf_free(&text);
    return size;
}

/* A field gets a value that is seldom right. */
static void spoil_value(kas_rng *rng, cJSON *object)
{
    static const double numbers[] = {-1, 0, 1, 2, 3, 7, 8, 10, 64, 127, 128, 65536, 1e9, 1e300, .5};
    cJSON *field = object ? random_item(rng, object) : NULL, *value;
    if (!field || !field->string)
        return;
    if (cJSON_IsString(field) && kas_rng_below(rng, 4))
        value = random_size(rng);
    else if (kas_rng_below(rng, 8))
        value = cJSON_CreateNumber(numbers[kas_rng_below(rng, sizeof numbers / sizeof *numbers)]);
    else
        value = kas_rng_below(rng, 2) ? cJSON_CreateArray() : cJSON_CreateBool(1);
    kas_buf name = {0}; /* the field's own goes with its old value */
    kas_buf_puts(&name, field->string);
    cJSON_ReplaceItemInObjectCaseSensitive(object, kas_buf_text(&name), value);
    kas_buf_free(&name);
}

static void mutate_nodes_once(kas_rng *rng, cJSON *root, const cJSON *donor)
{
    cJSON *nodes = cJSON_GetObjectItemCaseSensitive(root, "nodes");
    const cJSON *theirs = cJSON_GetObjectItemCaseSensitive(donor, "nodes");
    const int count = cJSON_GetArraySize(nodes);
    if (count == 0)
        return;
    cJSON *node = random_item(rng, nodes);
    switch (kas_rng_below(rng, 9)) {
    case 0:
    case 1:
        insert_node(rng, nodes, theirs);
        return;
    case 2:
        remove_node(rng, nodes);
        return;
    case 3:
        rewire(rng, nodes, (int)kas_rng_below(rng, (uint32_t)count));
        return;
    case 4:
    case 5:
        take_value(rng, node, random_item(rng, theirs));
        return;
    case 6:
        take_value(rng, root, donor); /* groups and whatever stands beside the nodes */
        return;
    case 7:
        cJSON_DeleteItemFromObjectCaseSensitive(node, "in");
        return;
    default:
        spoil_value(rng, kas_rng_below(rng, 8) ? node : random_item(rng, root));
    }
}

void fuzz_mutate_nodes(kas_rng *rng, cJSON *root, const cJSON *donor)
{
    for (uint32_t n = 1 + kas_rng_below(rng, 3); n > 0; n--)
        mutate_nodes_once(rng, root, donor);
}

#include "kernel_mutate.h"

#include <string.h>

#include "host/core/buf.h"
#include "mutate.h"

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
    cJSON *in = fuzz_random_item(rng, operands(cJSON_GetArrayItem(nodes, at)));
    if (in && at > 0)
        cJSON_SetNumberValue(in, kas_rng_below(rng, (uint32_t)at));
}

/* A node of the donor between two nodes; what read the first reads the new one. */
static void insert_node(kas_rng *rng, cJSON *nodes, const cJSON *donor_nodes)
{
    const cJSON *source = fuzz_random_item(rng, donor_nodes);
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
    const cJSON *field = donor_node ? fuzz_random_item(rng, donor_node) : NULL;
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
    cJSON *field = object ? fuzz_random_item(rng, object) : NULL;
    if (field)
        fuzz_replace(object, field,
                     cJSON_IsString(field) && kas_rng_below(rng, 4) ? random_size(rng)
                                                                    : fuzz_odd_value(rng));
}

static void mutate_nodes_once(kas_rng *rng, cJSON *root, const cJSON *donor)
{
    cJSON *nodes = cJSON_GetObjectItemCaseSensitive(root, "nodes");
    const cJSON *theirs = cJSON_GetObjectItemCaseSensitive(donor, "nodes");
    const int count = cJSON_GetArraySize(nodes);
    if (count == 0)
        return;
    cJSON *node = fuzz_random_item(rng, nodes);
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
        take_value(rng, node, fuzz_random_item(rng, theirs));
        return;
    case 6:
        take_value(rng, root, donor); /* groups and whatever stands beside the nodes */
        return;
    case 7:
        cJSON_DeleteItemFromObjectCaseSensitive(node, "in");
        return;
    default:
        spoil_value(rng, kas_rng_below(rng, 8) ? node : fuzz_random_item(rng, root));
    }
}

void fuzz_mutate_nodes(kas_rng *rng, cJSON *root, const cJSON *donor)
{
    for (uint32_t n = 1 + kas_rng_below(rng, 3); n > 0; n--)
        mutate_nodes_once(rng, root, donor);
}

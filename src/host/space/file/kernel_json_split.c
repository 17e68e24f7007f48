/* Reads "splits" of a kernel file:
 *    {"S0": {"whole": "C", "shares": 2}, "S1": {"whole": "H", "first": 4},
 *     "S2": {"whole": "C", "part": 5}} */
#include <stdio.h>

#include "host/core/json/json.h"
#include "host/space/file/kernel_json_node.h"
#include "host/space/split.h"

static kas_status read_split(const char *where, const cJSON *item, kas_split *split)
{
    static const char *const fields[] = {"whole", "shares", "first", "part", NULL};
    const char *text;
    int64_t value;
    if (!cJSON_IsObject(item))
        return kas_fail(KAS_BAD_INPUT, "%s: expected an object", where);
    KAS_TRY(kas_json_only(item, where, fields));
    KAS_TRY(kas_json_string(item, where, "whole", &text));
    if (!kas_dim_parse(text, &split->whole))
        return kas_fail(KAS_BAD_INPUT,
                        "%s: field \"whole\": expected a size such as \"C\" or \"C/G0\", found "
                        "\"%.40s\"",
                        where, text);
    const bool shares = kas_json_has(item, "shares"), first = kas_json_has(item, "first");
    if (shares + first + kas_json_has(item, "part") != 1)
        return kas_fail(KAS_BAD_INPUT,
                        "%s: expected one of the fields \"shares\", \"first\" and \"part\"", where);
    if (shares)
        KAS_TRY(kas_json_int(item, where, "shares", 2, KAS_MAX_SHARES, &value));
    else if (first)
        KAS_TRY(kas_json_int(item, where, "first", 1, KAS_MAX_FIRST, &value));
    else
        KAS_TRY(kas_json_int(item, where, "part", 2, KAS_MAX_PART, &value));
    const bool halves = !first && value == 2; /* the first half is the first of two shares */
    split->shares = shares || halves ? (uint8_t)value : 0;
    split->first = first ? (uint32_t)value : 0;
    split->part = shares || halves || first ? 0 : (uint16_t)value;
    return KAS_OK;
}

kas_status kas_kernel_read_splits(const char *name, const cJSON *root, kas_kernel *kernel)
{
    const cJSON *splits = NULL, *item;
    const uint32_t used = kas_kernel_splits(kernel);
    char where[280];
    if (kas_json_has(root, "splits"))
        KAS_TRY(kas_json_object(root, name, "splits", &splits));
    cJSON_ArrayForEach(item, splits)
    {
        const int s = kas_split_find(item->string);
        if (s < 0 || !(used & (1u << s)))
            return kas_fail(KAS_BAD_INPUT, "%s: splits: no node uses \"%.40s\"", name,
                            item->string);
        snprintf(where, sizeof where, "%.200s: splits: %s", name, kas_split_name(s));
        KAS_TRY(read_split(where, item, &kernel->split[s]));
    }
    for (int s = 0; s < KAS_MAX_SPLITS; s++)
        if ((used & (1u << s)) && kernel->split[s].whole.num == 0)
            return kas_fail(KAS_BAD_INPUT,
                            "%s: \"S%d\" is used but not given; add it, for example \"splits\": "
                            "{\"S%d\": {\"whole\": \"C\", \"shares\": 2}}",
                            name, s, s);
    return KAS_OK;
}

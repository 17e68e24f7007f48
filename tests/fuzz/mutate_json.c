#include <string.h>

#include "fuzz_run.h"
#include "mutate.h"

enum { DEEPEST = 2000, MOST_COPIES = 300 };

cJSON *fuzz_random_item(kas_rng *rng, const cJSON *list)
{
    const int count = cJSON_GetArraySize(list);
    return count ? cJSON_GetArrayItem(list, (int)kas_rng_below(rng, (uint32_t)count)) : NULL;
}

void fuzz_replace(cJSON *parent, cJSON *item, cJSON *value)
{
    free(value->string);
    value->string = item->string;
    item->string = NULL;
    MUST(cJSON_ReplaceItemViaPointer(parent, item, value));
}

/* ---- values ---------------------------------------------------------------------------------- */

static cJSON *long_text(kas_rng *rng)
{
    kas_buf text = {0};
    for (uint32_t n = 1u << kas_rng_below(rng, 13); n > 0; n--)
        kas_buf_puts(&text, "n");
    cJSON *value = cJSON_CreateString(kas_buf_text(&text));
    kas_buf_free(&text);
    return value;
}

/* Arrays or objects in one another. */
static cJSON *nest(kas_rng *rng, cJSON *value)
{
    const uint32_t depth = kas_rng_below(rng, 4) ? kas_rng_below(rng, 12) : DEEPEST;
    for (uint32_t i = 0; i < depth; i++) {
        cJSON *outer = i % 2 ? cJSON_CreateArray() : cJSON_CreateObject();
        if (i % 2)
            cJSON_AddItemToArray(outer, value);
        else
            cJSON_AddItemToObject(outer, "in", value);
        value = outer;
    }
    return value;
}

cJSON *fuzz_odd_value(kas_rng *rng)
{
    static const char *const raw[] = {"-1",
                                      "0",
                                      "-0",
                                      "1",
                                      "0.5",
                                      "3",
                                      "255",
                                      "65536",
                                      "2147483647",
                                      "2147483648",
                                      "-2147483649",
                                      "4294967296",
                                      "1e9",
                                      "1e300",
                                      "1e999",
                                      "-1e999",
                                      "5e-324",
                                      "NaN",
                                      "Infinity",
                                      "9007199254740993",
                                      "9223372036854775807",
                                      "9223372036854775808",
                                      "18446744073709551616",
                                      "0x10",
                                      "null",
                                      "true",
                                      "false",
                                      "[]",
                                      "{}",
                                      "\"\"",
                                      "\"0\"",
                                      "\"\\u0000\"",
                                      "\"\\ud800\"",
                                      "\"a\\u0000b\"",
                                      "\"\x7f\\n\\u001b[31m\"",
                                      "\"\xff\xfe\"",
                                      "\"\xc3\"",
                                      "\"../../x\"",
                                      "\"%s%n\"",
                                      "\"\xc3\xa9\""};
    if (kas_rng_below(rng, 12) == 0)
        return long_text(rng);
    return cJSON_CreateRaw(raw[kas_rng_below(rng, sizeof raw / sizeof *raw)]);
}

/* ---- trees ----------------------------------------------------------------------------------- */

/* Each item below `list` is as likely as any other. */
static void draw(kas_rng *rng, cJSON *list, uint32_t *seen, cJSON **parent, cJSON **item)
{
    for (cJSON *child = list->child; child; child = child->next) {
        if (kas_rng_below(rng, ++*seen) == 0)
            *parent = list, *item = child;
        draw(rng, child, seen, parent, item);
    }
}

static cJSON *random_place(kas_rng *rng, cJSON *root, cJSON **parent)
{
    cJSON *item = NULL;
    uint32_t seen = 0;
    draw(rng, root, &seen, parent, &item);
    return item;
}

static void rename_key(kas_rng *rng, cJSON *item, const cJSON *donor)
{
    static const char *const odd[] = {"", "about", "\x01", "\xff", "name", "version"};
    const cJSON *other = fuzz_random_item(rng, donor);
    const char *name = other && other->string && kas_rng_below(rng, 2)
                           ? other->string
                           : odd[kas_rng_below(rng, sizeof odd / sizeof *odd)];
    if (!item->string)
        return;
    free(item->string);
    item->string = strdup(name);
    MUST(item->string);
}

/* Two members of an object exchange their keys. */
static void swap_keys(kas_rng *rng, cJSON *parent, cJSON *item)
{
    cJSON *other = fuzz_random_item(rng, parent);
    char *key = item->string;
    item->string = other->string;
    other->string = key;
}

/* An item once more, under its own key, or many times. */
static void repeat(kas_rng *rng, cJSON *parent, const cJSON *item)
{
    const uint32_t copies = kas_rng_below(rng, 16) ? 1 : kas_rng_below(rng, MOST_COPIES);
    for (uint32_t i = 0; i < copies; i++)
        if (item->string)
            cJSON_AddItemToObject(parent, item->string, cJSON_Duplicate(item, 1));
        else
            cJSON_AddItemToArray(parent, cJSON_Duplicate(item, 1));
}

static void take_from(kas_rng *rng, cJSON *parent, cJSON *item, const cJSON *donor)
{
    const cJSON *same = item->string ? cJSON_GetObjectItemCaseSensitive(donor, item->string) : NULL;
    const cJSON *source = same ? same : fuzz_random_item(rng, donor);
    if (source)
        fuzz_replace(parent, item, cJSON_Duplicate(source, 1));
}

static void mutate_once(kas_rng *rng, cJSON *root, const cJSON *donor)
{
    cJSON *parent = NULL, *item = random_place(rng, root, &parent);
    if (!item)
        return;
    switch (kas_rng_below(rng, 10)) {
    case 0:
        cJSON_Delete(cJSON_DetachItemViaPointer(parent, item));
        return;
    case 1:
        repeat(rng, parent, item);
        return;
    case 2:
        swap_keys(rng, parent, item);
        return;
    case 3:
        rename_key(rng, item, donor);
        return;
    case 4:
        fuzz_replace(parent, item, nest(rng, cJSON_Duplicate(item, 1)));
        return;
    case 5:
    case 6:
        take_from(rng, parent, item, donor);
        return;
    default:
        fuzz_replace(parent, item, fuzz_odd_value(rng));
    }
}

void fuzz_mutate_json(kas_rng *rng, cJSON *root, const cJSON *donor)
{
    for (uint32_t n = 1 + kas_rng_below(rng, 3); n > 0; n--)
        mutate_once(rng, root, donor);
}

/* ---- a mutant -------------------------------------------------------------------------------- */

void fuzz_change_tree(kas_rng *rng, fuzz_mutate_tree *mutate, const char *text, size_t size,
                      const kas_buf *other, kas_buf *file)
{
    cJSON *root = cJSON_ParseWithLength(text, size);
    cJSON *donor = cJSON_ParseWithLength(other->data, other->size);
    MUST(root && donor);
    mutate(rng, root, donor);
    char *printed = cJSON_PrintUnformatted(root);
    MUST(printed);
    kas_buf_puts(file, printed);
    free(printed);
    cJSON_Delete(root);
    cJSON_Delete(donor);
}

void fuzz_json_mutant(kas_rng *rng, fuzz_mutate_tree *format, kas_buf *file)
{
    const kas_buf *source = fuzz_pick(rng);
    if (kas_rng_below(rng, 5) == 0)
        kas_buf_add(file, source->data, source->size);
    else {
        const bool own = format && kas_rng_below(rng, 8);
        fuzz_change_tree(rng, own ? format : fuzz_mutate_json, source->data, source->size,
                         fuzz_pick(rng), file);
        if (kas_rng_below(rng, 10))
            return;
    }
    fuzz_mutate_bytes(rng, file);
}

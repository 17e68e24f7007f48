#include "host/core/json/json_place.h"

#include <stdio.h>
#include <string.h>

enum { LONGEST_KEY = 40 };

void kas_json_place_key(char place[KAS_JSON_PLACE_SIZE], const char *key, size_t length)
{
    size_t used = strlen(place);
    snprintf(place + used, KAS_JSON_PLACE_SIZE - used, "%s%.*s", used ? "." : "",
             (int)(length < LONGEST_KEY ? length : LONGEST_KEY), key);
}

void kas_json_place_index(char place[KAS_JSON_PLACE_SIZE], int index)
{
    size_t used = strlen(place);
    snprintf(place + used, KAS_JSON_PLACE_SIZE - used, "[%d]", index);
}

/* An object or array that has begun and not ended. */
typedef struct level {
    bool array;
    int index;       /* in an array: index of the element */
    const char *key; /* in an object: key of the member; NULL before the first */
    size_t length;
} level;

/* Finds the open levels at byte `at`, each with its present element or member. Returns how many
 * there are. */
static int open_levels(const char *text, size_t at, level open[KAS_JSON_PLACE_DEPTH])
{
    int depth = 0;
    for (size_t i = 0; i < at; i++) {
        level *inner = depth > 0 && depth <= KAS_JSON_PLACE_DEPTH ? &open[depth - 1] : NULL;
        const char c = text[i];
        if (c == '"') {
            const size_t start = ++i;
            while (i < at && text[i] != '"')
                i += text[i] == '\\' ? 2 : 1;
            size_t colon = i + 1;
            while (colon < at && strchr(" \t\r\n", text[colon]))
                colon++;
            if (inner && !inner->array && colon < at && text[colon] == ':') {
                inner->key = text + start;
                inner->length = i - start;
            }
        } else if (c == '{' || c == '[') {
            if (depth++ < KAS_JSON_PLACE_DEPTH)
                open[depth - 1] = (level){.array = c == '['};
        } else if (c == '}' || c == ']') {
            depth -= depth > 0;
        } else if (c == ',' && inner) {
            inner->index++;
        }
    }
    return depth < KAS_JSON_PLACE_DEPTH ? depth : KAS_JSON_PLACE_DEPTH;
}

void kas_json_place(const char *text, size_t at, char out[KAS_JSON_PLACE_SIZE])
{
    level open[KAS_JSON_PLACE_DEPTH];
    const int depth = open_levels(text, at, open);
    out[0] = '\0';
    for (int d = 0; d < depth; d++) {
        if (open[d].array)
            kas_json_place_index(out, open[d].index);
        else if (open[d].key)
            kas_json_place_key(out, open[d].key, open[d].length);
    }
}

bool kas_json_is_open(const char *text, size_t at)
{
    level open[KAS_JSON_PLACE_DEPTH];
    return open_levels(text, at, open) > 0;
}

const char *kas_json_expected(const char *text, size_t at)
{
    level open[KAS_JSON_PLACE_DEPTH];
    const int depth = open_levels(text, at, open);
    const bool array = depth > 0 && open[depth - 1].array;
    while (at > 0 && strchr(" \t\r\n", text[at - 1]))
        at--;
    switch (at > 0 ? text[at - 1] : '\0') {
    case '\0':
    case ':':
        return "a value";
    case '[':
        return "a value or ]";
    case '{':
        return "a key in double quotes or }";
    case ',':
        return array ? "a value" : "a key in double quotes";
    default:
        return array ? "a comma or ]" : "a colon after a key, a comma or } after a value";
    }
}

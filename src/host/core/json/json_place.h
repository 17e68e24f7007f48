/* Describes a place in a JSON text for people, such as "nodes[3].in". Internal to json.c. */
#ifndef KAS_CORE_JSON_JSON_PLACE_H
#define KAS_CORE_JSON_JSON_PLACE_H

#include <stdbool.h>
#include <stddef.h>

enum {
    KAS_JSON_PLACE_SIZE = 160, /* bytes of the description, NUL included; a longer one is cut */
    KAS_JSON_PLACE_DEPTH = 64  /* nesting levels that are described; deeper ones are left out */
};

/* Describes the place of byte `at` of `text`; the result is "" at the top level. Only the text
 * before that byte is read, and it need not be valid JSON. */
void kas_json_place(const char *text, size_t at, char out[KAS_JSON_PLACE_SIZE]);

/* Returns whether an object or array begins before byte `at` and does not end before it. */
bool kas_json_is_open(const char *text, size_t at);

/* Returns what may stand at byte `at` after the text before it, in words: "a comma or ]". */
const char *kas_json_expected(const char *text, size_t at);

/* Appends ".key" (or "key" at the top) or "[index]" to a place. */
void kas_json_place_key(char place[KAS_JSON_PLACE_SIZE], const char *key, size_t length);
void kas_json_place_index(char place[KAS_JSON_PLACE_SIZE], int index);

#endif

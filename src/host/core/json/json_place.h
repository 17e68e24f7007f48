/* Where in a JSON text something stands: "nodes[3].in" for people. Internal to json.c. */
#ifndef KAS_CORE_JSON_JSON_PLACE_H
#define KAS_CORE_JSON_JSON_PLACE_H

#include <stdbool.h>
#include <stddef.h>

enum {
    KAS_JSON_PLACE_SIZE = 160, /* of the text, NUL included; what is longer is cut */
    KAS_JSON_PLACE_DEPTH = 64  /* levels that are told; deeper ones are left out */
};

/* The place of byte `at` of `text`, read as far as it goes: the text need not be valid JSON.
 * "" at the top. */
void kas_json_place(const char *text, size_t at, char out[KAS_JSON_PLACE_SIZE]);

/* Does an object or array begin before byte `at` and not end there? */
bool kas_json_is_open(const char *text, size_t at);

/* What may stand at byte `at` after the text before it, in words: "a comma or ]". */
const char *kas_json_expected(const char *text, size_t at);

/* Appends ".key" (or "key" at the top) or "[index]" to a place. */
void kas_json_place_key(char place[KAS_JSON_PLACE_SIZE], const char *key, size_t length);
void kas_json_place_index(char place[KAS_JSON_PLACE_SIZE], int index);

#endif

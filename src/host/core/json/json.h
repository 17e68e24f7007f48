/* Reading JSON from files of users: cJSON behind limits and messages that name the field.
 *
 * Text is checked for size, nesting depth and duplicate keys before any value is used; the message
 * says where, as in "f.json: nodes[3].in: nested deeper than 8 levels".  The getters
 * fail with "<where>: field "x": expected an integer in [1, 64], found ..."; `where` is the file
 * and the path of the object, given by the caller. */
#ifndef KAS_CORE_JSON_JSON_H
#define KAS_CORE_JSON_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "host/core/status.h"

typedef struct kas_json_limits {
    size_t bytes; /* of the text */
    int depth;    /* of nesting */
} kas_json_limits;

/* Parses `text`. *out is freed by the caller with cJSON_Delete. `name` is the file for messages. */
kas_status kas_json_parse(const char *name, const char *text, size_t size, kas_json_limits limits,
                          cJSON **out);

/* The line of `text`, from 1, on which `item` begins. `root` is what kas_json_parse made of `text`.
 * Walks the text: for messages. 0 when `item` is not in the tree. */
int kas_json_line(const char *text, const cJSON *root, const cJSON *item);

/* Required fields of an object. */
kas_status kas_json_object(const cJSON *object, const char *where, const char *field,
                           const cJSON **out);
kas_status kas_json_array(const cJSON *object, const char *where, const char *field,
                          const cJSON **out);
kas_status kas_json_string(const cJSON *object, const char *where, const char *field,
                           const char **out);
kas_status kas_json_int(const cJSON *object, const char *where, const char *field, int64_t low,
                        int64_t high, int64_t *out);
kas_status kas_json_number(const cJSON *object, const char *where, const char *field, double low,
                           double high, double *out);
bool kas_json_has(const cJSON *object, const char *field);

/* Fails when the object has a field that is not in the NULL-terminated list. */
kas_status kas_json_only(const cJSON *object, const char *where, const char *const *allowed);

#endif

/* Reads JSON from users' files: cJSON, with limits and with messages that name the field.
 *
 * Text is checked for size, nesting depth and duplicate keys before any value is used; the message
 * says where, as in "f.json: nodes[3].in: nested deeper than 8 levels".  The getters fail with
 * "<where>: field "x": expected an integer in [1, 64], found ..."; `where` is the file and the path
 * of the object, given by the caller. */
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

/* Parses `text` into *out, which the caller frees with cJSON_Delete. `name` is the file that
 * messages name. */
kas_status kas_json_parse(const char *name, const char *text, size_t size, kas_json_limits limits,
                          cJSON **out);

/* Returns the 1-based line of `text` on which `item` begins, or 0 when `item` is not in the tree.
 * `root` is the result of kas_json_parse for `text`. The function walks the whole text and is meant
 * for messages only. */
int kas_json_line(const char *text, const cJSON *root, const cJSON *item);

/* Each of these gets a required field of an object. The result belongs to the tree. */
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

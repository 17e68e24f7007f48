#include "host/core/json/json.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/json/json_place.h"

/* Prints a place behind the file's name: ": nodes[3].in", or nothing at the top level. */
#define PLACE_FORMAT "%s%s"
#define PLACE_ARGUMENTS(place) ((place)[0] ? ": " : ""), (place)

/* Checks the depth on the text, before cJSON recurses over it. */
static kas_status check_depth(const char *name, const char *text, size_t size, int limit)
{
    int depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            if (++depth > limit) {
                char place[KAS_JSON_PLACE_SIZE];
                kas_json_place(text, i, place);
                return kas_fail(KAS_BAD_INPUT,
                                "%s" PLACE_FORMAT ": nested deeper than %d levels at byte %zu",
                                name, PLACE_ARGUMENTS(place), limit, i);
            }
        } else if (c == '}' || c == ']') {
            depth--;
        }
    }
    return KAS_OK;
}

/* Returns the place behind the string, number or word at `at`. */
static const char *skip_scalar(const char *at)
{
    if (*at != '"')
        return at + strcspn(at, ",]} \t\r\n");
    for (at++; *at && *at != '"'; at++)
        at += *at == '\\' && at[1];
    return at + (*at == '"');
}

/* Walks the text and the tree together. *at moves from the start of `item` to the place behind it,
 * or stops at `wanted`. */
static bool find_in_text(const char **at, const cJSON *item, const cJSON *wanted)
{
    static const char between[] = " \t\r\n,:";
    *at += strspn(*at, between);
    if (item == wanted)
        return true;
    if (!cJSON_IsArray(item) && !cJSON_IsObject(item)) {
        *at = skip_scalar(*at);
        return false;
    }
    ++*at;
    for (const cJSON *child = item->child; child; child = child->next) {
        *at += strspn(*at, between);
        if (cJSON_IsObject(item))
            *at = skip_scalar(*at);
        if (find_in_text(at, child, wanted))
            return true;
    }
    *at += strspn(*at, between);
    *at += **at != 0; /* the closing bracket */
    return false;
}

static int line_of(const char *text, const char *at)
{
    int line = 1;
    for (const char *p = text; p < at; p++)
        line += *p == '\n';
    return line;
}

int kas_json_line(const char *text, const cJSON *root, const cJSON *item)
{
    const char *at = text;
    return find_in_text(&at, root, item) ? line_of(text, at) : 0;
}

/* A valid JSON text and its tree. */
typedef struct parsed {
    const char *name, *text;
    const cJSON *root;
} parsed;

static int compare_keys(const void *a, const void *b)
{
    const cJSON *const *one = a, *const *other = b;
    return strcmp((*one)->string, (*other)->string);
}

static kas_status fail_duplicate(const parsed *p, const char *place, const cJSON *a, const cJSON *b)
{
    const int first = kas_json_line(p->text, p->root, a),
              second = kas_json_line(p->text, p->root, b);
    return kas_fail(KAS_BAD_INPUT, "%s" PLACE_FORMAT ": duplicate key \"%.64s\" in line %d",
                    p->name, PLACE_ARGUMENTS(place), a->string, first > second ? first : second);
}

/* Fails when two keys are equal. It sorts the keys, so that an object with thousands of members
 * does not take quadratic time. */
static kas_status check_keys(const parsed *p, const char *place, const cJSON *object)
{
    size_t count = (size_t)cJSON_GetArraySize(object), i = 0;
    const cJSON **key = calloc(count + 1, sizeof *key);
    kas_status status = KAS_OK;
    if (!key)
        return kas_fail(KAS_NO_MEMORY, "%s: no memory for %zu keys", p->name, count);
    for (const cJSON *member = object->child; member; member = member->next)
        key[i++] = member;
    qsort(key, count, sizeof *key, compare_keys);
    for (i = 1; i < count && status == KAS_OK; i++)
        if (strcmp(key[i - 1]->string, key[i]->string) == 0)
            status = fail_duplicate(p, place, key[i - 1], key[i]);
    free(key);
    return status;
}

static kas_status check_duplicates(const parsed *p, const char *place, const cJSON *item)
{
    int index = 0;
    if (cJSON_IsObject(item))
        KAS_TRY(check_keys(p, place, item));
    for (const cJSON *child = item->child; child; child = child->next, index++) {
        char inner[KAS_JSON_PLACE_SIZE];
        if (!child->child)
            continue;
        memcpy(inner, place, KAS_JSON_PLACE_SIZE);
        if (cJSON_IsObject(item))
            kas_json_place_key(inner, child->string, strlen(child->string));
        else
            kas_json_place_index(inner, index);
        KAS_TRY(check_duplicates(p, inner, child));
    }
    return KAS_OK;
}

/* Fails with the place and the expected text. `at` is where the parser stopped: the last byte, even
 * when something is missing behind it. */
static kas_status fail_syntax(const char *name, const char *text, size_t size, size_t at)
{
    char place[KAS_JSON_PLACE_SIZE];
    while (size > 0 && strchr(" \t\r\n", text[size - 1]))
        size--;
    while (at < size && strchr(" \t\r\n", text[at]))
        at++;
    if (at + 1 >= size && kas_json_is_open(text, size))
        at = size;
    while (at > 0 && isalpha((unsigned char)text[at - 1]))
        at--; /* to the start of a word that JSON does not have */
    kas_json_place(text, at, place);
    return kas_fail(KAS_BAD_INPUT, "%s" PLACE_FORMAT ": line %d: not valid JSON; expected %s%s",
                    name, PLACE_ARGUMENTS(place), line_of(text, text + at),
                    kas_json_expected(text, at), at < size ? "" : ", found the end of the file");
}

kas_status kas_json_parse(const char *name, const char *text, size_t size, kas_json_limits limits,
                          cJSON **out)
{
    *out = NULL;
    if (size > limits.bytes)
        return kas_fail(KAS_BAD_INPUT, "%s: %zu bytes of JSON; at most %zu are allowed", name, size,
                        limits.bytes);
    if (memchr(text, '\0', size))
        return kas_fail(KAS_BAD_INPUT,
                        "%s: a binary file (it has a NUL byte), and JSON is expected", name);
    KAS_TRY(check_depth(name, text, size, limits.depth));
    const char *end = NULL;
    cJSON *root = cJSON_ParseWithLengthOpts(text, size, &end, 0);
    char place[KAS_JSON_PLACE_SIZE] = "";
    if (!root)
        return fail_syntax(name, text, size, end ? (size_t)(end - text) : 0);
    for (; end < text + size; end++)
        if (!strchr(" \t\r\n", *end)) {
            cJSON_Delete(root);
            return kas_fail(KAS_BAD_INPUT, "%s: line %d: text after the JSON value", name,
                            line_of(text, end));
        }
    kas_status status = check_duplicates(&(parsed){name, text, root}, place, root);
    if (status != KAS_OK)
        cJSON_Delete(root);
    else
        *out = root;
    return status;
}

static const char *type_name(const cJSON *item)
{
    return cJSON_IsString(item)   ? "a string"
           : cJSON_IsNumber(item) ? "a number"
           : cJSON_IsObject(item) ? "an object"
           : cJSON_IsArray(item)  ? "an array"
           : cJSON_IsBool(item)   ? "true or false"
                                  : "null";
}

static kas_status find(const cJSON *object, const char *where, const char *field,
                       const char *expected, const cJSON **out)
{
    *out = cJSON_IsObject(object) ? cJSON_GetObjectItemCaseSensitive(object, field) : NULL;
    if (!*out)
        return kas_fail(KAS_BAD_INPUT, "%s: field \"%s\" is missing; expected %s", where, field,
                        expected);
    return KAS_OK;
}

static kas_status wrong_type(const char *where, const char *field, const char *expected,
                             const cJSON *item)
{
    return kas_fail(KAS_BAD_INPUT, "%s: field \"%s\": expected %s, found %s", where, field,
                    expected, type_name(item));
}

kas_status kas_json_object(const cJSON *object, const char *where, const char *field,
                           const cJSON **out)
{
    KAS_TRY(find(object, where, field, "an object", out));
    return cJSON_IsObject(*out) ? KAS_OK : wrong_type(where, field, "an object", *out);
}

kas_status kas_json_array(const cJSON *object, const char *where, const char *field,
                          const cJSON **out)
{
    KAS_TRY(find(object, where, field, "an array", out));
    return cJSON_IsArray(*out) ? KAS_OK : wrong_type(where, field, "an array", *out);
}

kas_status kas_json_string(const cJSON *object, const char *where, const char *field,
                           const char **out)
{
    const cJSON *item;
    KAS_TRY(find(object, where, field, "a string", &item));
    if (!cJSON_IsString(item))
        return wrong_type(where, field, "a string", item);
    *out = item->valuestring;
    return KAS_OK;
}

kas_status kas_json_number(const cJSON *object, const char *where, const char *field, double low,
                           double high, double *out)
{
    const cJSON *item;
    KAS_TRY(find(object, where, field, "a number", &item));
    if (!cJSON_IsNumber(item))
        return wrong_type(where, field, "a number", item);
    if (!(item->valuedouble >= low && item->valuedouble <= high))
        return kas_fail(KAS_BAD_INPUT, "%s: field \"%s\": expected a number in [%g, %g], found %g",
                        where, field, low, high, item->valuedouble);
    *out = item->valuedouble;
    return KAS_OK;
}

kas_status kas_json_int(const cJSON *object, const char *where, const char *field, int64_t low,
                        int64_t high, int64_t *out)
{
    const cJSON *item;
    KAS_TRY(find(object, where, field, "an integer", &item));
    if (!cJSON_IsNumber(item))
        return wrong_type(where, field, "an integer", item);
    double value = item->valuedouble;
    if (!(value >= (double)low && value <= (double)high) || value != floor(value))
        return kas_fail(KAS_BAD_INPUT,
                        "%s: field \"%s\": expected an integer in [%lld, %lld], found %g", where,
                        field, (long long)low, (long long)high, value);
    *out = (int64_t)value;
    return KAS_OK;
}

bool kas_json_has(const cJSON *object, const char *field)
{
    return cJSON_GetObjectItemCaseSensitive(object, field) != NULL;
}

kas_status kas_json_only(const cJSON *object, const char *where, const char *const *allowed)
{
    for (const cJSON *item = object->child; item; item = item->next) {
        bool known = false;
        for (const char *const *name = allowed; *name && !known; name++)
            known = strcmp(*name, item->string) == 0;
        if (!known)
            return kas_fail(KAS_BAD_INPUT, "%s: unknown field \"%.64s\"", where, item->string);
    }
    return KAS_OK;
}

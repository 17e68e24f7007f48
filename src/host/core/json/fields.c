#include "host/core/json/fields.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/integer.h"
#include "host/core/intern.h"

static void *member(const kas_field *field, const void *object)
{
    return (char *)(uintptr_t)object + field->offset;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void write_list(const kas_int_list *list, const char *comma, kas_buf *out)
{
    for (int i = 0; i < list->count; i++)
        kas_buf_printf(out, "%s%d", i ? comma : "", list->value[i]);
}

static void write_words(const kas_field *field, uint64_t words, const char *quote,
                        const char *comma, kas_buf *out)
{
    const char *between = "";
    for (int i = 0; field->choices[i]; i++)
        if (words >> i & 1) {
            kas_buf_printf(out, "%s%s%s%s", between, quote, field->choices[i], quote);
            between = comma;
        }
}

void kas_field_write(const kas_field *field, const void *object, kas_buf *out)
{
    const void *value = member(field, object);
    switch (field->type) {
    case KAS_FIELD_TEXT:
        kas_buf_json_string(out, value);
        break;
    case KAS_FIELD_KEPT:
        kas_buf_json_string(out, *(const char *const *)value);
        break;
    case KAS_FIELD_SEED:
        kas_buf_printf(out, "\"%" PRIu64 "\"", *(const uint64_t *)value);
        break;
    case KAS_FIELD_INTEGER:
        kas_buf_printf(out, "%d", *(const int *)value);
        break;
    case KAS_FIELD_NUMBER:
        kas_buf_number(out, *(const double *)value);
        break;
    case KAS_FIELD_FLAG:
        kas_buf_puts(out, *(const bool *)value ? "true" : "false");
        break;
    case KAS_FIELD_CHOICE:
        kas_buf_json_string(out, field->choices[*(const int *)value]);
        break;
    case KAS_FIELD_LIST:
        kas_buf_puts(out, "[");
        write_list(value, ", ", out);
        kas_buf_puts(out, "]");
        break;
    case KAS_FIELD_WORDS:
        kas_buf_puts(out, "[");
        write_words(field, *(const uint64_t *)value, "\"", ", ", out);
        kas_buf_puts(out, "]");
        break;
    }
}

void kas_field_print(const kas_field *field, const void *object, kas_buf *out)
{
    const void *value = member(field, object);
    if (field->type == KAS_FIELD_TEXT)
        kas_buf_puts(out, value);
    else if (field->type == KAS_FIELD_KEPT)
        kas_buf_puts(out, *(const char *const *)value);
    else if (field->type == KAS_FIELD_CHOICE)
        kas_buf_puts(out, field->choices[*(const int *)value]);
    else if (field->type == KAS_FIELD_FLAG)
        kas_buf_puts(out, *(const bool *)value ? "on" : "off");
    else if (field->type == KAS_FIELD_LIST)
        write_list(value, ",", out);
    else if (field->type == KAS_FIELD_WORDS)
        write_words(field, *(const uint64_t *)value, "", ",", out);
    else if (field->type == KAS_FIELD_SEED)
        kas_buf_printf(out, "%" PRIu64, *(const uint64_t *)value);
    else
        kas_field_write(field, object, out);
}

void kas_fields_write(const kas_field *fields, int count, const void *object, kas_buf *out)
{
    for (int i = 0; i < count; i++) {
        kas_buf_printf(out, "%s\"%s\":", i ? "," : "", fields[i].key);
        kas_field_write(&fields[i], object, out);
    }
}

/* ---- shared by both readers ------------------------------------------------------------------ */

static int find_choice(const kas_field *field, const char *word)
{
    for (int i = 0; field->choices[i]; i++)
        if (strcmp(field->choices[i], word) == 0)
            return i;
    return -1;
}

/* Fails with "expected one of ..." behind `name`, which is "field "x"" or "--x". */
static kas_status fail_choice(const kas_field *field, const char *name, const char *found)
{
    kas_buf words = {0};
    for (int i = 0; field->choices[i]; i++)
        kas_buf_printf(&words, "%s%s", i ? ", " : "", field->choices[i]);
    kas_status status = kas_fail(KAS_BAD_INPUT, "%s: expected one of %s; found \"%.64s\"", name,
                                 kas_buf_text(&words), found);
    kas_buf_free(&words);
    return status;
}

static kas_status add_to_list(const kas_field *field, const char *name, int value,
                              kas_int_list *list)
{
    if (list->count == KAS_INT_LIST)
        return kas_fail(KAS_BAD_INPUT, "%s: more than %d numbers", name, KAS_INT_LIST);
    if (!(value >= field->low && value <= field->high))
        return kas_fail(KAS_BAD_INPUT, "%s: expected integers in [%g, %g], found %d", name,
                        field->low, field->high, value);
    if (list->count && value <= list->value[list->count - 1])
        return kas_fail(KAS_BAD_INPUT, "%s: expected integers in rising order, found %d after %d",
                        name, value, list->value[list->count - 1]);
    list->value[list->count++] = value;
    return KAS_OK;
}

static kas_status set_text(const kas_field *field, const char *name, const char *text, char *out)
{
    if (strlen(text) >= field->size)
        return kas_fail(KAS_BAD_INPUT, "%s: longer than %zu characters", name, field->size - 1);
    strcpy(out, text);
    return KAS_OK;
}

static kas_status set_kept(const char *name, const char *text, const char **out)
{
    *out = kas_intern(text);
    return *out ? KAS_OK : kas_fail(KAS_NO_MEMORY, "%s: no memory", name);
}

static kas_status set_seed(const char *name, const char *text, uint64_t *out)
{
    if (kas_integer_read_unsigned(text, out))
        return KAS_OK;
    return kas_fail(KAS_BAD_INPUT, "%s: expected an integer in [0, %" PRIu64 "], found \"%.32s\"",
                    name, UINT64_MAX, text);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static kas_status read_list(const kas_field *field, const cJSON *json, const char *where,
                            const char *name, kas_int_list *out)
{
    const cJSON *array, *item;
    KAS_TRY(kas_json_array(json, where, field->key, &array));
    *out = (kas_int_list){0};
    cJSON_ArrayForEach(item, array)
    {
        double value = cJSON_IsNumber(item) ? item->valuedouble : NAN;
        if (!(value >= -1e9 && value <= 1e9) || value != floor(value))
            return kas_fail(KAS_BAD_INPUT, "%s: expected a list of integers", name);
        KAS_TRY(add_to_list(field, name, (int)value, out));
    }
    return KAS_OK;
}

static kas_status add_word(const kas_field *field, const char *name, const char *word,
                           uint64_t *out)
{
    int choice = find_choice(field, word);
    if (choice < 0)
        return fail_choice(field, name, word);
    *out |= (uint64_t)1 << choice;
    return KAS_OK;
}

static kas_status read_words(const kas_field *field, const cJSON *json, const char *where,
                             const char *name, uint64_t *out)
{
    const cJSON *array, *item;
    KAS_TRY(kas_json_array(json, where, field->key, &array));
    *out = 0;
    cJSON_ArrayForEach(item, array)
    {
        if (!cJSON_IsString(item))
            return kas_fail(KAS_BAD_INPUT, "%s: expected a list of words", name);
        KAS_TRY(add_word(field, name, item->valuestring, out));
    }
    return KAS_OK;
}

static kas_status read_word(const kas_field *field, const cJSON *json, const char *where,
                            const char *name, void *value)
{
    const char *text;
    KAS_TRY(kas_json_string(json, where, field->key, &text));
    if (field->type == KAS_FIELD_TEXT)
        return set_text(field, name, text, value);
    if (field->type == KAS_FIELD_KEPT)
        return set_kept(name, text, value);
    if (field->type == KAS_FIELD_SEED)
        return set_seed(name, text, value);
    int choice = find_choice(field, text);
    if (choice < 0)
        return fail_choice(field, name, text);
    *(int *)value = choice;
    return KAS_OK;
}

static kas_status read_flag(const kas_field *field, const cJSON *json, const char *name,
                            bool *value)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, field->key);
    if (!cJSON_IsBool(item))
        return kas_fail(KAS_BAD_INPUT, "%s: expected true or false", name);
    *value = cJSON_IsTrue(item);
    return KAS_OK;
}

static void set_absent(const kas_field *field, void *value)
{
    switch (field->type) {
    case KAS_FIELD_INTEGER:
    case KAS_FIELD_CHOICE:
        *(int *)value = (int)field->absent;
        break;
    case KAS_FIELD_NUMBER:
        *(double *)value = field->absent;
        break;
    case KAS_FIELD_FLAG:
        *(bool *)value = field->absent != 0;
        break;
    case KAS_FIELD_LIST:
        *(kas_int_list *)value = (kas_int_list){0};
        break;
    case KAS_FIELD_TEXT:
        *(char *)value = 0;
        break;
    case KAS_FIELD_KEPT:
        *(const char **)value = "";
        break;
    case KAS_FIELD_SEED:
    case KAS_FIELD_WORDS:
        *(uint64_t *)value = 0;
        break;
    }
}

static kas_status read_field(const kas_field *field, const cJSON *json, const char *where,
                             void *object)
{
    void *value = member(field, object);
    int64_t integer;
    char name[512];
    if (field->optional && !kas_json_has(json, field->key)) {
        set_absent(field, value);
        return KAS_OK;
    }
    snprintf(name, sizeof name, "%.400s: field \"%s\"", where, field->key);
    switch (field->type) {
    case KAS_FIELD_TEXT:
    case KAS_FIELD_KEPT:
    case KAS_FIELD_SEED:
    case KAS_FIELD_CHOICE:
        return read_word(field, json, where, name, value);
    case KAS_FIELD_INTEGER:
        KAS_TRY(kas_json_int(json, where, field->key, (int64_t)field->low, (int64_t)field->high,
                             &integer));
        *(int *)value = (int)integer;
        return KAS_OK;
    case KAS_FIELD_NUMBER:
        return kas_json_number(json, where, field->key, field->low, field->high, value);
    case KAS_FIELD_FLAG:
        return read_flag(field, json, name, value);
    case KAS_FIELD_LIST:
        return read_list(field, json, where, name, value);
    case KAS_FIELD_WORDS:
        return read_words(field, json, where, name, value);
    }
    return KAS_OK;
}

kas_status kas_fields_read(const kas_field *fields, int count, const cJSON *json, const char *where,
                           void *object)
{
    for (int i = 0; i < count; i++)
        KAS_TRY(read_field(&fields[i], json, where, object));
    return KAS_OK;
}

/* ---- command line ---------------------------------------------------------------------------- */

static kas_status parse_number(const kas_field *field, const char *text, double *out)
{
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    if (errno || end == text || *end || !(value >= field->low && value <= field->high))
        return kas_fail(KAS_BAD_INPUT, "%s: expected a number in [%g, %g], found \"%.64s\"",
                        field->option, field->low, field->high, text);
    *out = value;
    return KAS_OK;
}

static kas_status parse_integer(const kas_field *field, const char *text, int *out)
{
    const int64_t low = (int64_t)field->low, high = (int64_t)field->high;
    int64_t value;
    if (!kas_integer_read(text, low, high, &value))
        return kas_fail(KAS_BAD_INPUT,
                        "%s: expected an integer in [%" PRId64 ", %" PRId64 "], found \"%.64s\"",
                        field->option, low, high, text);
    *out = (int)value;
    return KAS_OK;
}

/* Parses a list of integers; "" is the empty list. */
static kas_status parse_list(const kas_field *field, const char *text, kas_int_list *out)
{
    const char *at = text;
    *out = (kas_int_list){0};
    do {
        char part[16];
        int64_t value;
        const size_t length = strcspn(at, ",");
        snprintf(part, sizeof part, "%.*s", (int)length, at);
        if (length >= sizeof part || !kas_integer_read(part, INT_MIN, INT_MAX, &value) ||
            (at[length] == ',' && !at[length + 1]))
            return kas_fail(KAS_BAD_INPUT,
                            "%s: expected integers such as 60,120,160, found \"%.64s\"",
                            field->option, text);
        KAS_TRY(add_to_list(field, field->option, (int)value, out));
        at += length + (at[length] == ',');
    } while (*at);
    return KAS_OK;
}

/* Parses words separated by commas. No word at all is no list: whoever writes --allow "$empty" does
 * not mean the default. */
static kas_status parse_words(const kas_field *field, const char *text, uint64_t *out)
{
    *out = 0;
    if (!*text)
        return kas_fail(KAS_BAD_INPUT, "%s: expected words with commas between them, found \"\"",
                        field->option);
    while (*text) {
        char word[64];
        size_t length = strcspn(text, ",");
        snprintf(word, sizeof word, "%.*s", (int)length, text);
        KAS_TRY(add_word(field, field->option, word, out));
        text += length + (text[length] == ',');
    }
    return KAS_OK;
}

static kas_status parse_flag(const kas_field *field, const char *text, bool *out)
{
    bool on = strcmp(text, "on") == 0;
    if (!on && strcmp(text, "off") != 0)
        return kas_fail(KAS_BAD_INPUT, "%s: expected on or off, found \"%.64s\"", field->option,
                        text);
    *out = on;
    return KAS_OK;
}

kas_status kas_field_parse(const kas_field *field, const char *text, void *object)
{
    void *value = member(field, object);
    int choice;
    switch (field->type) {
    case KAS_FIELD_TEXT:
        return set_text(field, field->option, text, value);
    case KAS_FIELD_KEPT:
        return set_kept(field->option, text, value);
    case KAS_FIELD_SEED:
        return set_seed(field->option, text, value);
    case KAS_FIELD_INTEGER:
        return parse_integer(field, text, value);
    case KAS_FIELD_NUMBER:
        return parse_number(field, text, value);
    case KAS_FIELD_FLAG:
        return parse_flag(field, text, value);
    case KAS_FIELD_CHOICE:
        choice = find_choice(field, text);
        if (choice < 0)
            return fail_choice(field, field->option, text);
        *(int *)value = choice;
        return KAS_OK;
    case KAS_FIELD_LIST:
        return parse_list(field, text, value);
    case KAS_FIELD_WORDS:
        return parse_words(field, text, value);
    }
    return KAS_OK;
}

kas_status kas_choice_parse(const char *option, const char *const *choices, const char *text,
                            int *out)
{
    const kas_field field = {.option = option, .type = KAS_FIELD_CHOICE, .choices = choices};
    return kas_field_parse(&field, text, out);
}

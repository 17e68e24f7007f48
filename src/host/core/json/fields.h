/* Structs whose members are read, written and compared by name: a table with one row for
 * each member.
 *
 * A recipe file, the options of a study and the options of the command line are the same numbers in
 * three forms.  A table of fields holds the name, type and limits of each number once. The code
 * that reads JSON, parses the command line and writes canonical JSON walks the same table, so that
 * the three cannot differ. */
#ifndef KAS_CORE_JSON_FIELDS_H
#define KAS_CORE_JSON_FIELDS_H

#include <stddef.h>

#include "host/core/buf.h"
#include "host/core/json/json.h"
#include "host/core/status.h"

typedef enum kas_field_type {
    KAS_FIELD_TEXT,    /* char [size] */
    KAS_FIELD_KEPT,    /* const char *, a text that lives as long as the program (intern.h) */
    KAS_FIELD_SEED,    /* uint64_t; a string in JSON, whose numbers are exact only up to 2^53 */
    KAS_FIELD_INTEGER, /* int */
    KAS_FIELD_NUMBER,  /* double */
    KAS_FIELD_FLAG,    /* bool; "on" or "off" on the command line */
    KAS_FIELD_CHOICE,  /* int: index of the word in `choices` */
    KAS_FIELD_LIST,    /* kas_int_list; "60,120,160" on the command line */
    KAS_FIELD_WORDS    /* uint64_t: bit i for word i of `choices`; "fc,relu" on the command line */
} kas_field_type;

/* A list of integers in rising order. */
enum { KAS_INT_LIST = 16 };
typedef struct kas_int_list {
    int count;
    int value[KAS_INT_LIST];
} kas_int_list;

typedef struct kas_field {
    const char *key;    /* in JSON */
    const char *option; /* on the command line and in messages, with its dashes */
    kas_field_type type;
    size_t offset, size;         /* of the member; the size is used for TEXT only */
    double low, high;            /* of INTEGER and NUMBER, and of each number of a LIST */
    const char *const *choices;  /* NULL-terminated */
    bool optional;               /* may be left out of JSON; it then has the value `absent` */
    double absent;               /* 0 for a LIST, which is then empty */
    int short_option;            /* 'e' for -e; 0 = none */
    const char *argument, *help; /* of the option in --help; NULL = there is no such option */
} kas_field;

/* In the functions below, `object` is the struct to which the offsets belong. */

/* Appends the value as JSON. Numbers get the shortest form that reads back to the same bits. */
void kas_field_write(const kas_field *field, const void *object, kas_buf *out);
/* Appends the value in the form that kas_field_parse reads. */
void kas_field_print(const kas_field *field, const void *object, kas_buf *out);
/* Appends "key":value for each field, with commas between them. */
void kas_fields_write(const kas_field *fields, int count, const void *object, kas_buf *out);

/* Reads the values from the members of `json` with the fields' names. Fails with KAS_BAD_INPUT
 * "<where>: field ...: expected ..., found ...". */
kas_status kas_fields_read(const kas_field *fields, int count, const cJSON *json, const char *where,
                           void *object);

/* Reads the value from the text of an option. Fails with KAS_BAD_INPUT "<option>: expected ...,
 * found ...". */
kas_status kas_field_parse(const kas_field *field, const char *text, void *object);

/* The same of a KAS_FIELD_CHOICE that is no member of a struct. */
kas_status kas_choice_parse(const char *option, const char *const *choices, const char *text,
                            int *out);

#endif

/* Structs whose members are read, written and compared by name: one row a member.
 *
 * A recipe file, the options of a study and the options of the command line are the same numbers in
 * three forms.  A table of fields says the name, type and limits of each once; what reads JSON,
 * what parses the command line and what writes canonical JSON all walk it, so they cannot differ.
 */
#ifndef KAS_CORE_JSON_FIELDS_H
#define KAS_CORE_JSON_FIELDS_H

#include <stddef.h>

#include "host/core/buf.h"
#include "host/core/json/json.h"
#include "host/core/status.h"

typedef enum kas_field_type {
    KAS_FIELD_TEXT,    /* char [size] */
    KAS_FIELD_KEPT,    /* const char *, a text that lives as long as the program (intern.h) */
    KAS_FIELD_SEED,    /* uint64_t; a string in JSON, whose numbers lose integers above 2^53 */
    KAS_FIELD_INTEGER, /* int */
    KAS_FIELD_NUMBER,  /* double */
    KAS_FIELD_FLAG,    /* bool; "on" or "off" on the command line */
    KAS_FIELD_CHOICE,  /* int: number of the word among `choices` */
    KAS_FIELD_LIST,    /* kas_int_list; "60,120,160" on the command line */
    KAS_FIELD_WORDS    /* uint64_t: bit i for word i of `choices`; "fc,relu" on the command line */
} kas_field_type;

/* Integers in rising order. */
enum { KAS_INT_LIST = 16 };
typedef struct kas_int_list {
    int count;
    int value[KAS_INT_LIST];
} kas_int_list;

typedef struct kas_field {
    const char *key;    /* in JSON */
    const char *option; /* on the command line, with its dashes; for messages too */
    kas_field_type type;
    size_t offset, size;         /* of the member; size of TEXT only */
    double low, high;            /* of INTEGER and NUMBER, and of each number of a LIST */
    const char *const *choices;  /* NULL-terminated */
    bool optional;               /* may be left out of JSON: then it is `absent` */
    double absent;               /* 0 for a LIST: an empty one */
    int short_option;            /* 'e' for -e; 0 = none */
    const char *argument, *help; /* of the option in --help; NULL = no such option */
} kas_field;

/* `object` is the struct that the offsets are of. */

/* The value as JSON; numbers in the shortest form that reads back to the same bits. */
void kas_field_write(const kas_field *field, const void *object, kas_buf *out);
/* The value as kas_field_parse reads it. */
void kas_field_print(const kas_field *field, const void *object, kas_buf *out);
/* "key":value for each, with commas between. */
void kas_fields_write(const kas_field *fields, int count, const void *object, kas_buf *out);

/* From the member of that name. KAS_BAD_INPUT "<where>: field ...: expected ..., found ...". */
kas_status kas_field_read(const kas_field *field, const cJSON *json, const char *where,
                          void *object);
kas_status kas_fields_read(const kas_field *fields, int count, const cJSON *json, const char *where,
                           void *object);

/* From the text of an option. KAS_BAD_INPUT "<option>: expected ..., found ...". */
kas_status kas_field_parse(const kas_field *field, const char *text, void *object);

/* The same of a KAS_FIELD_CHOICE that is no member of a struct. */
kas_status kas_choice_parse(const char *option, const char *const *choices, const char *text,
                            int *out);

#endif

#include "host/search/options.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/json.h"

/* One row a field: writing, reading and comparing walk the same table. */
typedef struct field {
    const char *key, *option;
    enum { TEXT, SEED, INTEGER, NUMBER, FLAG } type;
    size_t offset, size;
    double low, high;
} field;

#define AT(member) offsetof(kas_search_options, member)
#define TEXT_FIELD(key, option, member)                                                            \
    {                                                                                              \
        key, option, TEXT, AT(member), sizeof(((kas_search_options *)0)->member), 0, 0             \
    }

static const field fields[] = {
    TEXT_FIELD("net", "--net", net),
    TEXT_FIELD("targets", "--targets", targets),
    {"seed", "--seed", SEED, AT(seed), 0, 0, 0},
    {"candidates", "--candidates", INTEGER, AT(candidates), 0, 0, 1e9},
    {"time_limit", "--time", NUMBER, AT(time_limit), 0, 0, 1e12},
    {"epochs", "--epochs", INTEGER, AT(recipe.epochs), 0, 1, 1e6},
    {"batch", "--batch", INTEGER, AT(recipe.batch), 0, 1, 1e6},
    {"lr", "--lr", NUMBER, AT(recipe.lr), 0, 0, 1e6},
    {"warmup_epochs", "--warmup", NUMBER, AT(recipe.warmup_epochs), 0, 0, 1e6},
    {"momentum", "--momentum", NUMBER, AT(recipe.momentum), 0, 0, 1},
    {"weight_decay", "--weight-decay", NUMBER, AT(recipe.weight_decay), 0, 0, 1e6},
    {"label_smoothing", "--label-smoothing", NUMBER, AT(recipe.label_smoothing), 0, 0, 1},
    {"crop_pad", "--crop-pad", INTEGER, AT(recipe.crop_pad), 0, 0, 1024},
    {"flip", "--no-flip", FLAG, AT(recipe.flip), 0, 0, 1},
    {"flops", "--flops", NUMBER, AT(flops), 0, 0, 1e6},
    {"params", "--params", NUMBER, AT(params), 0, 0, 1e6},
    {"latency", "--latency", NUMBER, AT(latency), 0, 0, 1e6},
    {"validation", "--validation", NUMBER, AT(validation), 0, 0, 1},
    TEXT_FIELD("prune", "--prune", prune),
    {"prune_window", "--prune-window", INTEGER, AT(prune_window), 0, 0, 1e6},
    TEXT_FIELD("device", "--device", device),
    {"threads", "--threads", INTEGER, AT(threads), 0, 0, 4096},
};
enum { FIELDS = sizeof fields / sizeof *fields };

kas_search_options kas_search_options_default(void)
{
    return (kas_search_options){.net = "resnet18",
                                .candidates = 16,
                                .flops = 0.5,
                                .params = 1.0,
                                .validation = 0.1,
                                .prune = "curve",
                                .prune_window = 8};
}

static void *value_of(const kas_search_options *options, const field *f)
{
    return (char *)options + f->offset;
}

/* The shortest of 15 to 17 digits that reads back to the same number. */
static void print_number(double value, char out[32])
{
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(out, 32, "%.*g", digits, value);
        if (strtod(out, NULL) == value)
            return;
    }
}

static void print_value(const kas_search_options *options, const field *f, kas_buf *out)
{
    const void *value = value_of(options, f);
    char text[32];
    switch (f->type) {
    case TEXT:
        kas_buf_json_string(out, value);
        break;
    case SEED: /* as text: JSON numbers lose integers above 2^53 */
        kas_buf_printf(out, "\"%" PRIu64 "\"", *(const uint64_t *)value);
        break;
    case INTEGER:
        kas_buf_printf(out, "%d", *(const int *)value);
        break;
    case NUMBER:
        print_number(*(const double *)value, text);
        kas_buf_puts(out, text);
        break;
    case FLAG:
        kas_buf_puts(out, *(const bool *)value ? "true" : "false");
        break;
    }
}

void kas_search_options_write(const kas_search_options *options, kas_buf *out)
{
    for (int i = 0; i < FIELDS; i++) {
        kas_buf_printf(out, "%s\"%s\":", i ? "," : "{", fields[i].key);
        print_value(options, &fields[i], out);
    }
    kas_buf_puts(out, "}");
}

static kas_status read_seed(const char *where, const char *text, uint64_t *out)
{
    char *end;
    *out = strtoull(text, &end, 10);
    return *text && !*end
               ? KAS_OK
               : kas_fail(KAS_STORE, "%s: seed: expected digits, found \"%.32s\"", where, text);
}

static kas_status read_field(const cJSON *object, const char *where, const field *f,
                             kas_search_options *out)
{
    void *value = value_of(out, f);
    const char *text;
    int64_t integer;
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, f->key);
    switch (f->type) {
    case TEXT:
        KAS_TRY(kas_json_string(object, where, f->key, &text));
        if (strlen(text) >= f->size)
            return kas_fail(KAS_STORE, "%s: field \"%s\" is too long", where, f->key);
        strcpy(value, text);
        return KAS_OK;
    case SEED:
        KAS_TRY(kas_json_string(object, where, f->key, &text));
        return read_seed(where, text, value);
    case INTEGER:
        KAS_TRY(kas_json_int(object, where, f->key, (int64_t)f->low, (int64_t)f->high, &integer));
        *(int *)value = (int)integer;
        return KAS_OK;
    case NUMBER:
        return kas_json_number(object, where, f->key, f->low, f->high, value);
    case FLAG:
        if (!cJSON_IsBool(item))
            return kas_fail(KAS_STORE, "%s: field \"%s\": expected true or false", where, f->key);
        *(bool *)value = cJSON_IsTrue(item);
        return KAS_OK;
    }
    return KAS_OK;
}

kas_status kas_search_options_read(const char *where, const char *text, kas_search_options *out)
{
    *out = (kas_search_options){0};
    const char *keys[FIELDS + 1] = {0};
    cJSON *root;
    KAS_TRY(kas_json_parse(where, text, strlen(text), (kas_json_limits){65536, 4}, &root));
    for (int i = 0; i < FIELDS; i++)
        keys[i] = fields[i].key;
    kas_status status = kas_json_only(root, where, keys);
    for (int i = 0; i < FIELDS && status == KAS_OK; i++)
        status = read_field(root, where, &fields[i], out);
    cJSON_Delete(root);
    return status;
}

static bool left_to_the_study(const field *f, const kas_search_options *given)
{
    const void *value = value_of(given, f);
    if (strcmp(f->key, "threads") == 0)
        return *(const int *)value == 0;
    return strcmp(f->key, "device") == 0 && *(const char *)value == 0;
}

kas_status kas_search_options_same(const char *study, const kas_search_options *stored,
                                   const kas_search_options *given)
{
    kas_buf list = {0}, a = {0}, b = {0}, word = {0};
    kas_buf_shell_word(&word, study);
    for (int i = 0; i < FIELDS; i++) {
        if (left_to_the_study(&fields[i], given))
            continue;
        kas_buf_clear(&a);
        kas_buf_clear(&b);
        print_value(stored, &fields[i], &a);
        print_value(given, &fields[i], &b);
        if (strcmp(kas_buf_text(&a), kas_buf_text(&b)) != 0)
            kas_buf_printf(&list, "%s%s (the study has %s, this command %s)", list.size ? ", " : "",
                           fields[i].option, kas_buf_text(&a), kas_buf_text(&b));
    }
    kas_status status = KAS_OK;
    if (list.failed || a.failed || b.failed || word.failed)
        status = kas_fail(KAS_NO_MEMORY, "%s: out of memory", study);
    else if (list.size)
        status = kas_fail(KAS_USAGE,
                          "%s: the study was begun with other options: %s; use the same options, "
                          "`kas-gpu resume %s`, or another --study",
                          study, kas_buf_text(&list), kas_buf_text(&word));
    kas_buf_free(&list);
    kas_buf_free(&a);
    kas_buf_free(&b);
    kas_buf_free(&word);
    return status;
}

#include "host/net/net_file_layer.h"

#include <math.h>
#include <string.h>

#include "host/core/json/json.h"

enum { MAX_CHANNELS = 1 << 20, MAX_WINDOW = 256, MAX_STRIDE = 64, MAX_SIDE = 1024 };

/* Bits for the fields that a kind has. */
enum {
    CHANNELS = 1,
    KERNEL = 2,
    STRIDE = 4,
    PADDING = 8,
    GROUPS = 16,
    BIAS = 32,
    EPS = 64,
    MOMENTUM = 128,
    CEIL_MODE = 256,
    COUNT_PADDING = 512,
    PROBABILITY = 1024,
    SIZE = 2048
};

static const struct {
    const char *name;
    int bit;
} fields[] = {
    {"channels", CHANNELS},
    {"kernel", KERNEL},
    {"stride", STRIDE},
    {"padding", PADDING},
    {"groups", GROUPS},
    {"bias", BIAS},
    {"eps", EPS},
    {"momentum", MOMENTUM},
    {"ceil_mode", CEIL_MODE},
    {"count_include_pad", COUNT_PADDING},
    {"probability", PROBABILITY},
    {"size", SIZE},
};
enum { FIELDS = sizeof fields / sizeof *fields };

static int fields_of(kas_layer_op op)
{
    switch (op) {
    case KAS_LAYER_CONV:
        return CHANNELS | KERNEL | STRIDE | PADDING | GROUPS | BIAS;
    case KAS_LAYER_BATCH_NORM:
        return EPS | MOMENTUM;
    case KAS_LAYER_LAYER_NORM:
        return EPS;
    case KAS_LAYER_AVG_POOL:
        return KERNEL | STRIDE | PADDING | CEIL_MODE | COUNT_PADDING;
    case KAS_LAYER_MAX_POOL:
        return KERNEL | STRIDE | PADDING | CEIL_MODE;
    case KAS_LAYER_ADAPTIVE_AVG_POOL:
        return SIZE;
    case KAS_LAYER_SHORTCUT_A:
        return CHANNELS | STRIDE;
    case KAS_LAYER_LINEAR:
        return CHANNELS | BIAS;
    case KAS_LAYER_DROPOUT:
        return PROBABILITY;
    default:
        return 0;
    }
}

int kas_net_file_kind(const char *name)
{
    for (int op = KAS_LAYER_INPUT + 1; op < KAS_LAYER_OPS; op++)
        if (strcmp(kas_layer_op_name((kas_layer_op)op), name) == 0)
            return op;
    return -1;
}

/* Checks that every key is one of the kind's fields, the kind itself, "from" or "if". */
static kas_status check_fields(const cJSON *object, const char *kind, int allowed)
{
    kas_buf list = {0};
    const cJSON *unknown = NULL;
    for (const cJSON *item = object->child; item && !unknown; item = item->next) {
        bool known = strcmp(item->string, kind) == 0 || strcmp(item->string, "from") == 0 ||
                     strcmp(item->string, "if") == 0;
        for (int i = 0; i < FIELDS && !known; i++)
            known = (allowed & fields[i].bit) && strcmp(item->string, fields[i].name) == 0;
        unknown = known ? NULL : item;
    }
    if (!unknown)
        return KAS_OK;
    for (int i = 0; i < FIELDS; i++)
        if (allowed & fields[i].bit)
            kas_buf_printf(&list, "%s, ", fields[i].name);
    kas_status status =
        kas_fail(KAS_BAD_INPUT, "unknown field \"%.64s\" of a layer \"%s\"; it has: %sfrom, if",
                 unknown->string, kind, kas_buf_text(&list));
    kas_buf_free(&list);
    return status;
}

kas_status kas_net_file_value(const cJSON *item, const char *field, const kas_names *names,
                              int64_t *out)
{
    if (cJSON_IsBool(item)) {
        *out = cJSON_IsTrue(item);
        return KAS_OK;
    }
    if (cJSON_IsNumber(item) && item->valuedouble == floor(item->valuedouble) &&
        fabs(item->valuedouble) <= 2147483648.0) {
        *out = (int64_t)item->valuedouble;
        return KAS_OK;
    }
    if (cJSON_IsNumber(item))
        return kas_fail(KAS_BAD_INPUT,
                        "field \"%s\": expected a whole number or an expression, found %g", field,
                        item->valuedouble);
    if (!cJSON_IsString(item))
        return kas_fail(KAS_BAD_INPUT, "field \"%s\": expected a whole number or an expression",
                        field);
    kas_status status = kas_expression(item->valuestring, names, out);
    return status == KAS_OK ? KAS_OK : kas_fail_context(status, "field \"%s\"", field);
}

static kas_status checked(const cJSON *item, const char *field, const kas_names *names, int low,
                          int high, int *out)
{
    int64_t value;
    KAS_TRY(kas_net_file_value(item, field, names, &value));
    if (value < low || value > high)
        return kas_fail(KAS_BAD_INPUT, "field \"%s\": expected %d to %d, found %lld", field, low,
                        high, (long long)value);
    *out = (int)value;
    return KAS_OK;
}

static const cJSON *get(const cJSON *object, const char *field)
{
    return cJSON_GetObjectItemCaseSensitive(object, field);
}

static kas_status integer(const cJSON *object, const char *field, const kas_names *names, int low,
                          int high, int *out)
{
    const cJSON *item = get(object, field);
    return item ? checked(item, field, names, low, high, out) : KAS_OK;
}

static kas_status flag(const cJSON *object, const char *field, const kas_names *names, bool *out)
{
    int value = *out;
    KAS_TRY(integer(object, field, names, 0, 1, &value));
    *out = value;
    return KAS_OK;
}

static kas_status number(const cJSON *object, const char *kind, const char *field, double low,
                         double high, double *out)
{
    return get(object, field) ? kas_json_number(object, kind, field, low, high, out) : KAS_OK;
}

/* Reads one number for both sides, or [height, width]. */
static kas_status pair(const cJSON *object, const char *field, const kas_names *names, int low,
                       int high, int *h, int *w)
{
    const cJSON *item = get(object, field);
    if (!item)
        return KAS_OK;
    if (!cJSON_IsArray(item)) {
        KAS_TRY(checked(item, field, names, low, high, h));
        *w = *h;
        return KAS_OK;
    }
    if (cJSON_GetArraySize(item) != 2)
        return kas_fail(KAS_BAD_INPUT, "field \"%s\": expected one value or [height, width]",
                        field);
    KAS_TRY(checked(cJSON_GetArrayItem(item, 0), field, names, low, high, h));
    return checked(cJSON_GetArrayItem(item, 1), field, names, low, high, w);
}

static kas_status need(const kas_layer *l, const char *field, int value)
{
    return value ? KAS_OK
                 : kas_fail(KAS_BAD_INPUT, "field \"%s\" is missing; a layer \"%s\" needs it",
                            field, kas_layer_op_name(l->op));
}

/* Reads the window. By default the padding of a convolution keeps the size at stride 1, and the
 * windows of a pool lie side by side. */
static kas_status window(const cJSON *object, const kas_names *names, kas_layer *l)
{
    KAS_TRY(pair(object, "kernel", names, 1, MAX_WINDOW, &l->kernel_h, &l->kernel_w));
    KAS_TRY(need(l, "kernel", l->kernel_h));
    if (l->op == KAS_LAYER_CONV) {
        l->pad_h = l->kernel_h / 2;
        l->pad_w = l->kernel_w / 2;
    } else {
        l->stride = l->kernel_h;
        if (l->kernel_h != l->kernel_w)
            KAS_TRY(need(l, "stride", get(object, "stride") != NULL));
    }
    KAS_TRY(integer(object, "stride", names, 1, MAX_STRIDE, &l->stride));
    return pair(object, "padding", names, 0, MAX_WINDOW, &l->pad_h, &l->pad_w);
}

kas_status kas_net_file_layer(const cJSON *object, const char *kind, const kas_names *names,
                              kas_layer *l)
{
    int allowed = fields_of(l->op);
    KAS_TRY(check_fields(object, kind, allowed));
    l->bias = l->op == KAS_LAYER_LINEAR;
    l->count_include_pad = l->op == KAS_LAYER_AVG_POOL;
    l->probability = l->op == KAS_LAYER_DROPOUT ? 0.5 : 0;
    if (allowed & CHANNELS) {
        KAS_TRY(integer(object, "channels", names, 1, MAX_CHANNELS, &l->c));
        KAS_TRY(need(l, "channels", l->c));
    }
    if (allowed & KERNEL)
        KAS_TRY(window(object, names, l));
    else
        KAS_TRY(integer(object, "stride", names, 1, MAX_STRIDE, &l->stride));
    if (allowed & SIZE) {
        KAS_TRY(pair(object, "size", names, 1, MAX_SIDE, &l->h, &l->w));
        KAS_TRY(need(l, "size", l->h));
    }
    KAS_TRY(integer(object, "groups", names, 1, MAX_CHANNELS, &l->groups));
    KAS_TRY(flag(object, "bias", names, &l->bias));
    KAS_TRY(flag(object, "ceil_mode", names, &l->ceil_mode));
    KAS_TRY(flag(object, "count_include_pad", names, &l->count_include_pad));
    KAS_TRY(number(object, kind, "eps", 1e-12, 1, &l->eps));
    KAS_TRY(number(object, kind, "momentum", 0, 1, &l->momentum));
    return number(object, kind, "probability", 0, 0.99, &l->probability);
}

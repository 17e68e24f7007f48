#include "host/model/safetensors.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/file/files.h"
#include "host/core/json/json.h"

enum { MAX_HEADER = 16 << 20, MAX_DEPTH = 4, MAX_TENSORS = 1 << 16 };

static const struct {
    const char *name;
    size_t size;
} dtypes[KAS_SAFETENSORS_DTYPES] = {
    [KAS_SAFETENSORS_F32] = {"F32", 4}, [KAS_SAFETENSORS_F64] = {"F64", 8},
    [KAS_SAFETENSORS_F16] = {"F16", 2}, [KAS_SAFETENSORS_BF16] = {"BF16", 2},
    [KAS_SAFETENSORS_I32] = {"I32", 4}, [KAS_SAFETENSORS_I64] = {"I64", 8},
    [KAS_SAFETENSORS_U8] = {"U8", 1}};

size_t kas_safetensors_dtype_size(kas_safetensors_dtype dtype)
{
    return dtypes[dtype].size;
}

const char *kas_safetensors_dtype_name(kas_safetensors_dtype dtype)
{
    return dtypes[dtype].name;
}

bool kas_dtype_is_real(kas_safetensors_dtype dtype)
{
    return dtype == KAS_SAFETENSORS_F32 || dtype == KAS_SAFETENSORS_F64 ||
           dtype == KAS_SAFETENSORS_F16 || dtype == KAS_SAFETENSORS_BF16;
}

uint64_t kas_named_tensor_elements(const kas_named_tensor *tensor)
{
    uint64_t n = 1;
    for (int i = 0; i < tensor->rank; i++)
        n *= tensor->shape[i];
    return n;
}

static size_t tensor_bytes(const kas_named_tensor *tensor)
{
    return kas_named_tensor_elements(tensor) * kas_safetensors_dtype_size(tensor->dtype);
}

/* ---- writing --------------------------------------------------------------------------------- */

static void write_header(const kas_named_tensor *tensors, int count, const char *const *metadata,
                         kas_buf *out)
{
    const char *comma = "";
    size_t offset = 0;
    kas_buf_puts(out, "{");
    if (metadata && metadata[0]) {
        kas_buf_puts(out, "\"__metadata__\":{");
        for (int i = 0; metadata[i]; i += 2) {
            kas_buf_puts(out, i ? "," : "");
            kas_buf_json_string(out, metadata[i]);
            kas_buf_puts(out, ":");
            kas_buf_json_string(out, metadata[i + 1]);
        }
        kas_buf_puts(out, "}");
        comma = ",";
    }
    for (int i = 0; i < count; i++) {
        const kas_named_tensor *t = &tensors[i];
        kas_buf_puts(out, comma);
        kas_buf_json_string(out, t->name);
        kas_buf_printf(out, ":{\"dtype\":\"%s\",\"shape\":[", dtypes[t->dtype].name);
        for (int k = 0; k < t->rank; k++)
            kas_buf_printf(out, "%s%" PRIu64, k ? "," : "", t->shape[k]);
        kas_buf_printf(out, "],\"data_offsets\":[%zu,%zu]}", offset, offset + tensor_bytes(t));
        offset += tensor_bytes(t);
        comma = ",";
    }
    kas_buf_puts(out, "}");
}

kas_status kas_safetensors_write(const char *path, const kas_named_tensor *tensors, int count,
                                 const char *const *metadata)
{
    kas_buf header = {0}, file = {0};
    kas_status status = KAS_OK;
    write_header(tensors, count, metadata, &header);
    while (header.size % 8 != 0 && !header.failed)
        kas_buf_puts(&header, " "); /* so that the data is aligned in a mapped file */
    uint64_t size = header.size;
    uint8_t prefix[8];
    for (int i = 0; i < 8; i++)
        prefix[i] = (uint8_t)(size >> (8 * i));
    kas_buf_add(&file, prefix, sizeof prefix);
    kas_buf_add(&file, kas_buf_text(&header), header.size);
    for (int i = 0; i < count; i++)
        kas_buf_add(&file, tensors[i].data, tensor_bytes(&tensors[i]));
    KAS_TRY_GOTO(kas_buf_status(&header), out);
    KAS_TRY_GOTO(kas_buf_status(&file), out);
    status = kas_file_write_atomic(path, file.data, file.size);
out:
    kas_buf_free(&file);
    kas_buf_free(&header);
    return status;
}

/* ---- reading --------------------------------------------------------------------------------- */

static kas_status read_dtype(const cJSON *entry, const char *where, kas_safetensors_dtype *out)
{
    const char *name;
    KAS_TRY(kas_json_string(entry, where, "dtype", &name));
    for (int i = 0; i < KAS_SAFETENSORS_DTYPES; i++)
        if (strcmp(name, dtypes[i].name) == 0) {
            *out = (kas_safetensors_dtype)i;
            return KAS_OK;
        }
    return kas_fail(KAS_BAD_INPUT,
                    "%s: dtype \"%s\" cannot be read; expected F32, F64, F16, BF16, I32, I64 or U8",
                    where, name);
}

/* Reads an integer in [0, high]. JSON numbers are doubles, which are exact to 2^53. */
static kas_status read_count(const cJSON *item, const char *where, const char *what, double high,
                             uint64_t *out)
{
    double value = cJSON_IsNumber(item) ? item->valuedouble : -1;
    if (!(value >= 0 && value <= high) || value != (double)(uint64_t)value)
        return kas_fail(KAS_BAD_INPUT, "%s: %s: expected integers in [0, %.0f]", where, what, high);
    *out = (uint64_t)value;
    return KAS_OK;
}

static kas_status read_shape(const cJSON *entry, const char *where, uint64_t limit,
                             kas_named_tensor *t)
{
    const cJSON *shape, *item;
    KAS_TRY(kas_json_array(entry, where, "shape", &shape));
    uint64_t elements = 1;
    cJSON_ArrayForEach(item, shape)
    {
        if (t->rank == KAS_TENSOR_RANK)
            return kas_fail(KAS_BAD_INPUT, "%s: shape has more than %d dimensions", where,
                            KAS_TENSOR_RANK);
        uint64_t *size = &t->shape[t->rank++];
        KAS_TRY(read_count(item, where, "shape", (double)limit, size));
        if (*size && elements > limit / *size)
            return kas_fail(KAS_BAD_INPUT, "%s: shape is larger than the file", where);
        elements *= *size;
    }
    return KAS_OK;
}

static kas_status read_tensor(const cJSON *entry, const char *path, const uint8_t *data,
                              size_t data_size, kas_named_tensor *t)
{
    char where[512];
    static const char *const allowed[] = {"dtype", "shape", "data_offsets", NULL};
    snprintf(where, sizeof where, "%s: tensor \"%.100s\"", path, entry->string);
    if (snprintf(t->name, sizeof t->name, "%s", entry->string) >= (int)sizeof t->name)
        return kas_fail(KAS_BAD_INPUT, "%s: the name is longer than %d characters", where,
                        KAS_TENSOR_NAME - 1);
    if (!cJSON_IsObject(entry))
        return kas_fail(KAS_BAD_INPUT, "%s: expected an object", where);
    KAS_TRY(kas_json_only(entry, where, allowed));
    KAS_TRY(read_dtype(entry, where, &t->dtype));
    KAS_TRY(read_shape(entry, where, data_size, t));
    const cJSON *offsets;
    uint64_t begin = 0, end = 0;
    KAS_TRY(kas_json_array(entry, where, "data_offsets", &offsets));
    if (cJSON_GetArraySize(offsets) != 2)
        return kas_fail(KAS_BAD_INPUT, "%s: data_offsets: expected two integers", where);
    KAS_TRY(read_count(cJSON_GetArrayItem(offsets, 0), where, "data_offsets", (double)data_size,
                       &begin));
    KAS_TRY(
        read_count(cJSON_GetArrayItem(offsets, 1), where, "data_offsets", (double)data_size, &end));
    if (end < begin || end - begin != tensor_bytes(t))
        return kas_fail(KAS_BAD_INPUT, "%s: data_offsets do not fit shape and dtype", where);
    t->data = data + begin;
    return KAS_OK;
}

static int by_data(const void *a, const void *b)
{
    const kas_named_tensor *const *x = a, *const *y = b;
    const char *p = (*x)->data, *q = (*y)->data;
    return p < q ? -1 : p > q;
}

/* Checks that the tensors fill the data without overlap or gap, as the format requires, so that a
 * file cannot carry hidden data. */
static kas_status check_cover(const char *path, const kas_safetensors *file, const uint8_t *data,
                              size_t data_size)
{
    const kas_named_tensor **order = calloc((size_t)file->count + 1, sizeof *order);
    if (!order)
        return kas_fail(KAS_NO_MEMORY, "%s: no memory to check the file", path);
    int filled = 0;
    for (int i = 0; i < file->count; i++)
        if (tensor_bytes(&file->tensor[i]) > 0)
            order[filled++] = &file->tensor[i];
    qsort(order, (size_t)filled, sizeof *order, by_data);
    const uint8_t *at = data;
    bool good = true;
    for (int i = 0; i < filled && good; i++) {
        good = order[i]->data == at;
        at += tensor_bytes(order[i]);
    }
    free(order);
    if (!good || at != data + data_size)
        return kas_fail(KAS_BAD_INPUT, "%s: the tensors overlap or do not fill the file", path);
    return KAS_OK;
}

static kas_status read_header(const char *path, kas_safetensors *out)
{
    const uint8_t *bytes = (const uint8_t *)out->file.data;
    uint64_t header = 0;
    for (int i = 0; i < 8 && out->file.size >= 8; i++)
        header |= (uint64_t)bytes[i] << (8 * i);
    const bool bad = out->file.size < 8 || header > MAX_HEADER || header > out->file.size - 8;
    if (bad && out->file.size >= 8 &&
        (memcmp(bytes, "PK\3\4", 4) == 0 || memcmp(bytes, "\x80\2", 2) == 0))
        return kas_fail(KAS_BAD_INPUT,
                        "%s: a file of torch.save; convert it: safetensors.torch.save_file("
                        "torch.load(\"%s\"), \"weights.safetensors\")",
                        path, path);
    if (bad)
        return kas_fail(KAS_BAD_INPUT,
                        "%s: not a safetensors file, or cut short: its header should have %" PRIu64
                        " bytes (at most %d), the file has %zu",
                        path, header, MAX_HEADER, out->file.size);
    const uint8_t *data = bytes + 8 + header;
    size_t data_size = out->file.size - 8 - header;
    cJSON *json = NULL;
    kas_json_limits limits = {.bytes = MAX_HEADER, .depth = MAX_DEPTH};
    KAS_TRY(kas_json_parse(path, (const char *)bytes + 8, header, limits, &json));
    kas_status status = KAS_OK;
    int entries = cJSON_IsObject(json) ? cJSON_GetArraySize(json) : MAX_TENSORS + 1;
    if (entries > MAX_TENSORS) {
        status = kas_fail(KAS_BAD_INPUT, "%s: expected an object of at most %d tensors", path,
                          MAX_TENSORS);
        goto out;
    }
    out->tensor = calloc((size_t)entries + 1, sizeof *out->tensor);
    if (!out->tensor) {
        status = kas_fail(KAS_NO_MEMORY, "%s: no memory for %d tensors", path, entries);
        goto out;
    }
    const cJSON *entry;
    cJSON_ArrayForEach(entry, json)
    {
        if (strcmp(entry->string, "__metadata__") == 0)
            continue;
        KAS_TRY_GOTO(read_tensor(entry, path, data, data_size, &out->tensor[out->count]), out);
        out->count++;
    }
    out->metadata = cJSON_DetachItemFromObjectCaseSensitive(json, "__metadata__");
    status = check_cover(path, out, data, data_size);
out:
    cJSON_Delete(json);
    return status;
}

kas_status kas_safetensors_read(const char *path, size_t limit, kas_safetensors *out)
{
    *out = (kas_safetensors){0};
    kas_status status = kas_file_read(path, limit, &out->file);
    if (status == KAS_OK)
        status = read_header(path, out);
    if (status != KAS_OK)
        kas_safetensors_free(out);
    return status;
}

void kas_safetensors_free(kas_safetensors *file)
{
    kas_buf_free(&file->file);
    cJSON_Delete(file->metadata);
    free(file->tensor);
    *file = (kas_safetensors){0};
}

const char *kas_safetensors_metadata(const kas_safetensors *file, const char *key)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(file->metadata, key));
}

bool kas_safetensors_is_batch_count(const char *name)
{
    const char *last = strrchr(name, '.');
    return last && strcmp(last, ".num_batches_tracked") == 0;
}

const kas_named_tensor *kas_safetensors_find(const kas_safetensors *file, const char *name)
{
    for (int i = 0; i < file->count; i++)
        if (strcmp(file->tensor[i].name, name) == 0)
            return &file->tensor[i];
    return NULL;
}

/* Converts IEEE 754 binary16: 1 sign, 5 exponent (bias 15), 10 mantissa bits. */
static double from_half(uint16_t bits)
{
    int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    double size = exponent == 0    ? ldexp(mantissa, -24)
                  : exponent == 31 ? (mantissa ? NAN : INFINITY)
                                   : ldexp(mantissa + 1024, exponent - 25);
    return bits >> 15 ? -size : size;
}

/* Converts bfloat16, which is the upper half of a float. */
static double from_bfloat(uint16_t bits)
{
    uint32_t whole = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &whole, sizeof value);
    return (double)value;
}

double kas_named_tensor_get(const kas_named_tensor *tensor, uint64_t i)
{
    const uint8_t *at =
        (const uint8_t *)tensor->data + i * kas_safetensors_dtype_size(tensor->dtype);
    float f32;
    double f64;
    uint16_t half;
    int32_t i32;
    int64_t i64;
    switch (tensor->dtype) {
    case KAS_SAFETENSORS_F32:
        memcpy(&f32, at, sizeof f32);
        return f32;
    case KAS_SAFETENSORS_F64:
        memcpy(&f64, at, sizeof f64);
        return f64;
    case KAS_SAFETENSORS_F16:
        memcpy(&half, at, sizeof half);
        return from_half(half);
    case KAS_SAFETENSORS_BF16:
        memcpy(&half, at, sizeof half);
        return from_bfloat(half);
    case KAS_SAFETENSORS_I32:
        memcpy(&i32, at, sizeof i32);
        return i32;
    case KAS_SAFETENSORS_I64:
        memcpy(&i64, at, sizeof i64);
        return (double)i64;
    case KAS_SAFETENSORS_U8:
        return *at;
    case KAS_SAFETENSORS_DTYPES:
        break;
    }
    return 0;
}

kas_status kas_named_tensor_finite(const char *path, const kas_named_tensor *tensor,
                                   kas_status otherwise)
{
    for (uint64_t i = 0, count = kas_named_tensor_elements(tensor); i < count; i++) {
        const float value = (float)kas_named_tensor_get(tensor, i);
        if (!isfinite(value))
            return kas_fail(otherwise,
                            "%s: tensor \"%.100s\" is not finite: element %" PRIu64 " of %" PRIu64
                            " is %g; a training that diverged leaves such numbers",
                            path, tensor->name, i, count, (double)value);
    }
    return KAS_OK;
}

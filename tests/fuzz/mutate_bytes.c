#include <string.h>

#include "mutate.h"

static const char *const tokens[] = {
    "\"",         "{",          "}",          "[",
    "]",          ",",          ":",          "-1",
    "64",         "1e9",        "1e999",      "-0",
    "null",       "true",       "\"x15\"",    "\"C/x0\"",
    "\"G3\"",     "\"hw\"",     "\"dim\"",    "\"in\"",
    "\"out\"",    "0",          "\\u0000",    "\\ud800",
    "\xff",       "\t",         "1e-300",     "18446744073709551616",
    "\"C^31\"",   "\"1/3*C\"",  "\"groups\"", "[[[[[[",
    "{\"\":",     "\"K_H\"",    "4294967295", "\"x0*x1\"",
    "2147483648", "\"S0\"",     "\"S3\"",     "\"R0\"",
    "\"first\"",  "\"shares\"", "NaN",        "-Infinity"};

static void insert(kas_buf *file, size_t at, const char *bytes, size_t size)
{
    kas_buf tail = {0};
    kas_buf_add(&tail, file->data + at, file->size - at);
    file->size = at;
    kas_buf_add(file, bytes, size);
    kas_buf_add(file, kas_buf_text(&tail), tail.size);
    kas_buf_free(&tail);
}

static void cut(kas_buf *file, size_t at, size_t size)
{
    size = size > file->size - at ? file->size - at : size;
    memmove(file->data + at, file->data + at + size, file->size - at - size);
    file->size -= size;
}

/* The first digit from `at` on: numbers of nodes, dims, offsets, groups. */
static void change_digit(kas_rng *rng, kas_buf *file, size_t at)
{
    while (at < file->size && (file->data[at] < '0' || file->data[at] > '9'))
        at++;
    if (at < file->size)
        file->data[at] = (char)('0' + kas_rng_below(rng, 10));
}

/* A length, a count or an offset of a binary file becomes one that overflows something. */
static void put_number(kas_rng *rng, kas_buf *file, size_t at)
{
    static const uint64_t numbers[] = {
        0,          1,         1u << 16,   (1u << 31) - 1, 1u << 31, UINT32_MAX, 1ull << 40,
        1ull << 62, INT64_MAX, 1ull << 63, UINT64_MAX,     -2ull,    -8ull};
    const uint64_t value = numbers[kas_rng_below(rng, sizeof numbers / sizeof *numbers)];
    const size_t size = kas_rng_below(rng, 2) ? 8 : 4;
    at -= kas_rng_below(rng, 4) ? at % size : 0;
    if (at + size <= file->size)
        memcpy(file->data + at, &value, size); /* little-endian, as the files are */
}

static void mutate_once(kas_rng *rng, kas_buf *file)
{
    const size_t at = kas_rng_below(rng, (uint32_t)file->size);
    const size_t length = 1 + kas_rng_below(rng, kas_rng_below(rng, 4) ? 8 : 200);
    const char *token = tokens[kas_rng_below(rng, sizeof tokens / sizeof *tokens)];
    char copy[256];
    switch (kas_rng_below(rng, 8)) {
    case 0:
        file->data[at] = (char)kas_rng_below(rng, 256);
        return;
    case 1:
        file->data[at] = (char)(file->data[at] ^ (1 << kas_rng_below(rng, 8)));
        return;
    case 2:
        change_digit(rng, file, at);
        return;
    case 3:
        cut(file, at, kas_rng_below(rng, 16) ? length : file->size);
        return;
    case 4: /* a piece again, elsewhere */
        if (at + length <= file->size) {
            memcpy(copy, file->data + at, length);
            insert(file, kas_rng_below(rng, (uint32_t)file->size), copy, length);
        }
        return;
    case 5:
        put_number(rng, file, at);
        return;
    default:
        insert(file, at, token, strlen(token) + (kas_rng_below(rng, 64) == 0)); /* NUL and all */
    }
}

void fuzz_mutate_bytes(kas_rng *rng, kas_buf *file)
{
    for (uint32_t n = 1 + kas_rng_below(rng, 4); n > 0 && file->size > 0; n--)
        mutate_once(rng, file);
}

void fuzz_mutate_within(kas_rng *rng, kas_buf *file, size_t at, size_t size)
{
    kas_buf piece = {0};
    if (at >= file->size)
        return;
    size = size < file->size - at ? size : file->size - at;
    kas_buf_add(&piece, file->data + at, size);
    fuzz_mutate_bytes(rng, &piece);
    memcpy(file->data + at, kas_buf_text(&piece), piece.size < size ? piece.size : size);
    kas_buf_free(&piece);
}

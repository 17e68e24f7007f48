#include "host/core/integer.h"

bool kas_integer_read_unsigned(const char *text, uint64_t *out)
{
    uint64_t value = 0;
    if (!*text)
        return false;
    for (; *text; text++) {
        const uint64_t digit = (uint64_t)(*text - '0');
        if (*text < '0' || *text > '9' || value > (UINT64_MAX - digit) / 10)
            return false;
        value = 10 * value + digit;
    }
    *out = value;
    return true;
}

bool kas_integer_read(const char *text, int64_t low, int64_t high, int64_t *out)
{
    const bool negative = *text == '-';
    uint64_t size;
    if (!kas_integer_read_unsigned(text + negative, &size) || size > (uint64_t)INT64_MAX)
        return false;
    const int64_t value = negative ? -(int64_t)size : (int64_t)size;
    if (value < low || value > high)
        return false;
    *out = value;
    return true;
}

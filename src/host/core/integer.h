/* Whole numbers that a user wrote: one reader for every option.
 *
 * Decimal digits alone, with a minus sign before them where negative numbers are allowed: no
 * blanks, no plus sign, nothing behind the last digit.  What does not fit is refused and never
 * becomes the largest number.  The caller's message names option, value and range. */
#ifndef KAS_CORE_INTEGER_H
#define KAS_CORE_INTEGER_H

#include <stdbool.h>
#include <stdint.h>

/* False when the text is no integer of [low, high]; *out is then left alone. */
bool kas_integer_read(const char *text, int64_t low, int64_t high, int64_t *out);

/* Likewise of [0, 2^64 - 1], such as a seed. */
bool kas_integer_read_unsigned(const char *text, uint64_t *out);

/* The number of bits that are set; of few or none, without a call to a library that counts all. */
static inline int kas_count_bits(uint64_t bits)
{
    int count = 0;
    for (; bits; bits &= bits - 1)
        count++;
    return count;
}

#endif

/* Reads whole numbers that a user wrote; all options use this one reader.
 *
 * A number consists of decimal digits alone, with a minus sign in front where negative numbers are
 * allowed; blanks, a plus sign and text behind the last digit are refused. A number out of range is
 * refused too and never clamped. The caller's message names option, value and range. */
#ifndef KAS_CORE_INTEGER_H
#define KAS_CORE_INTEGER_H

#include <stdbool.h>
#include <stdint.h>

/* Reads an integer of [low, high] into *out. Returns false, and leaves *out alone, when `text` is
 * not such an integer. */
bool kas_integer_read(const char *text, int64_t low, int64_t high, int64_t *out);

/* Does the same for an integer of [0, 2^64 - 1], such as a seed. */
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

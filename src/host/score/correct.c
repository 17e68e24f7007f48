#include "host/score/correct.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct part {
    const char *digits;
    uint32_t images;
} part;

void kas_correct_add(const float *hit, uint32_t images, kas_buf *text)
{
    kas_buf_printf(text, "%s%u:", text->size ? " " : "", images);
    for (uint32_t i = 0; i < images; i += 4) {
        int digit = 0;
        for (uint32_t k = 0; k < 4; k++)
            digit |= (i + k < images && hit[i + k] > 0.5f) << (3 - k);
        const char word[2] = {"0123456789abcdef"[digit], 0};
        kas_buf_puts(text, word);
    }
}

/* One more than what a digit stands for; 0: it is none. A search compares many texts again and
 * again, which with two comparisons a character took seven times as long. */
static const unsigned char value[256] = {
    ['0'] = 1, ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,  ['6'] = 7,  ['7'] = 8,
    ['8'] = 9, ['9'] = 10, ['a'] = 11, ['b'] = 12, ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16};

static int digit_of(char c)
{
    return value[(unsigned char)c] - 1;
}

/* Finds a part; false when there is none, or when it is not as kas_correct_add writes it. */
static bool find(const char *text, int number, part *out)
{
    for (; text && number > 0; number--) {
        text = strchr(text, ' ');
        text = text ? text + 1 : NULL;
    }
    if (!text || digit_of(*text) < 0)
        return false;
    char *colon;
    const unsigned long images = strtoul(text, &colon, 10);
    if (*colon != ':' || images == 0 || images > UINT32_MAX)
        return false;
    *out = (part){colon + 1, (uint32_t)images};
    size_t digits = 0;
    while (digit_of(out->digits[digits]) >= 0)
        digits++;
    return digits == (images + 3) / 4 && strchr(" ", out->digits[digits]);
}

static uint32_t ones(int digit)
{
    static const unsigned char count[16] = {0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4};
    return count[digit];
}

double kas_correct_share(const char *text, int number)
{
    part p;
    uint32_t right = 0;
    if (!find(text, number, &p))
        return NAN;
    for (uint32_t i = 0; i < (p.images + 3) / 4; i++)
        right += ones(digit_of(p.digits[i]));
    return (double)right / p.images;
}

kas_paired kas_correct_compare(const char *a, const char *b, int number)
{
    part x, y;
    if (!find(a, number, &x) || !find(b, number, &y) || x.images != y.images)
        return (kas_paired){NAN, NAN, 0};
    uint32_t only_a = 0, only_b = 0;
    for (uint32_t i = 0; i < (x.images + 3) / 4; i++) {
        const int p = digit_of(x.digits[i]), q = digit_of(y.digits[i]);
        only_a += ones(p & ~q);
        only_b += ones(q & ~p);
    }
    const double n = x.images, net = (double)only_a - only_b, either = (double)only_a + only_b;
    return (kas_paired){net / n, sqrt(either - net * net / n) / n, x.images};
}

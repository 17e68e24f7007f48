#include "host/core/plain.h"

#include <stdint.h>
#include <string.h>

/* Returns the length of the UTF-8 character at `text`; 0 when there is none. */
static size_t utf8_length(const unsigned char *text, uint32_t *character)
{
    static const struct {
        unsigned char mask, lead;
        uint32_t least; /* smaller characters have a shorter form */
    } form[] = {{0x80, 0x00, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
    for (size_t extra = 0; extra < sizeof form / sizeof *form; extra++) {
        if ((text[0] & form[extra].mask) != form[extra].lead)
            continue;
        uint32_t value = text[0] & (unsigned char)~form[extra].mask;
        for (size_t i = 1; i <= extra; i++) {
            if ((text[i] & 0xc0) != 0x80)
                return 0;
            value = value << 6 | (text[i] & 0x3f);
        }
        *character = value;
        const bool surrogate = value >= 0xd800 && value <= 0xdfff;
        return value < form[extra].least || value > 0x10ffff || surrogate ? 0 : extra + 1;
    }
    return 0;
}

/* Returns the length of the character at `text` if it is plain, else 0. */
static size_t plain_length(const char *text)
{
    uint32_t c = 0;
    const size_t length = utf8_length((const unsigned char *)text, &c);
    const bool control = c < 0x20 ? c != '\n' && c != '\t' : c >= 0x7f && c < 0xa0;
    return control ? 0 : length;
}

bool kas_is_plain(const char *text)
{
    for (size_t length; *text; text += length)
        if (!(length = plain_length(text)))
            return false;
    return true;
}

void kas_plain_copy(char *out, size_t size, const char *text)
{
    size_t used = 0;
    while (*text) {
        const size_t length = plain_length(text);
        const char *from = length ? text : "\xef\xbf\xbd";
        const size_t written = length ? length : 3;
        if (used + written + 1 > size)
            break;
        memcpy(out + used, from, written);
        used += written;
        text += length ? length : 1;
    }
    out[used] = '\0';
}

/* Text that may be shown: names and texts of files come from strangers, and a terminal obeys escape
 * sequences.
 *
 * Plain text is UTF-8 without control characters other than tab and newline; U+0080 to U+009F are
 * control characters too.  Whatever is not plain is replaced by U+FFFD, one for each byte, so JSON
 * stays JSON. */
#ifndef KAS_CORE_PLAIN_H
#define KAS_CORE_PLAIN_H

#include <stdbool.h>
#include <stddef.h>

enum { KAS_PLAIN_GROWTH = 3 }; /* the bytes of U+FFFD, which may stand for one byte */

bool kas_is_plain(const char *text);
/* Copies what fits into `out`, in whole characters and with a NUL at the end. */
void kas_plain_copy(char *out, size_t size, const char *text);

#endif

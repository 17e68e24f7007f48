/* Makes text safe to show: names and texts in files come from strangers, and a terminal obeys
 * escape sequences.
 *
 * Plain text is UTF-8 without control characters other than tab and newline; U+0080 to U+009F are
 * control characters too.  Whatever is not plain is replaced by U+FFFD, one for each byte, so JSON
 * stays JSON. */
#ifndef KAS_CORE_PLAIN_H
#define KAS_CORE_PLAIN_H

#include <stdbool.h>
#include <stddef.h>

enum { KAS_PLAIN_GROWTH = 3 }; /* bytes of U+FFFD, which may replace a single byte */

bool kas_is_plain(const char *text);
/* Copies as many whole characters of `text` as fit into `size` bytes, replaces what is not plain,
 * and ends `out` with a NUL. */
void kas_plain_copy(char *out, size_t size, const char *text);

#endif

/* Evaluates whole-number arithmetic in network files, such as "2 * channels" and "i == 0 ? 2 : 1".
 *
 *     value     number, name, min(a, b), max(a, b), (expression), -value, not value
 *     binary    * / // %   + -   == != < <= > >=   and   or     (strongest first)
 *     choice    condition ? value : value
 *
 * There is nothing else: no assignment, no loop, no text.  "/" fails unless it divides exactly,
 * "//" rounds down; 0 is false, anything else is true.  Numbers stay within +-2^31, expressions
 * within 256 bytes and 16 levels, so that any file is evaluated in bounded time. */
#ifndef KAS_NET_EXPRESSION_H
#define KAS_NET_EXPRESSION_H

#include <stddef.h>
#include <stdint.h>

#include "host/core/status.h"

enum { KAS_NAMES = 32, KAS_NAME_BYTES = 32 };

/* The values of names. Zero-initialise it. */
typedef struct kas_names {
    int count;
    struct {
        char name[KAS_NAME_BYTES];
        int64_t value;
    } entry[KAS_NAMES];
} kas_names;

/* Adds a name, or changes its value. Fails with KAS_BAD_INPUT when `name` is not a letter
 * followed by letters, digits and underscores, is too long, is a word of the language, or is one
 * name too many. */
kas_status kas_names_set(kas_names *names, const char *name, int64_t value);
/* Returns the value of a name; NULL when there is none. */
const int64_t *kas_names_get(const kas_names *names, const char *name);

/* Evaluates `text`. Fails with KAS_BAD_INPUT and says where the expression goes wrong and what was
 * expected there. */
kas_status kas_expression(const char *text, const kas_names *names, int64_t *out);

/* Copies `text` with every {expression} replaced by its value, as in "layer{stage}.{i}". Fails with
 * KAS_BAD_INPUT also when the result has `size` bytes or more. */
kas_status kas_template(const char *text, const kas_names *names, char *out, size_t size);

#endif

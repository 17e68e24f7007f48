/* The mutations that the fuzz tests share.
 *
 * Two kinds, because each reaches what the other does not: bytes (bits, cuts, pieces, tokens, huge
 * numbers) damage a file of any format, and trees (values, keys, members, depth) keep it valid
 * JSON, so that the rules behind the syntax are reached.  What only one format has is mutated by
 * that format's own functions (kernel_mutate.h, layers_mutate.h), which come on top. */
#ifndef KAS_TESTS_FUZZ_MUTATE_H
#define KAS_TESTS_FUZZ_MUTATE_H

#include <cjson/cJSON.h>

#include "host/core/buf.h"
#include "host/core/random.h"

/* Damages `file` 1 to 4 times. */
void fuzz_mutate_bytes(kas_rng *rng, kas_buf *file);
/* Damages the `size` bytes at `at`, as many of them as there are; nothing else moves. */
void fuzz_mutate_within(kas_rng *rng, kas_buf *file, size_t at, size_t size);

/* Changes a file 1 to 3 times; `donor` is another file to take values from. Both are valid JSON. */
typedef void fuzz_mutate_tree(kas_rng *rng, cJSON *root, const cJSON *donor);
fuzz_mutate_tree fuzz_mutate_json;

/* Makes a mutant of a file of the runner's corpus, whose files are JSON. Most times its tree is
 * changed, by `format` (by fuzz_mutate_json where that is NULL, and now and then where it is not);
 * otherwise, or in addition, its bytes are. */
void fuzz_json_mutant(kas_rng *rng, fuzz_mutate_tree *format, kas_buf *file);

/* The same for one text. The result is appended to `file`; values come from `other`. */
void fuzz_change_tree(kas_rng *rng, fuzz_mutate_tree *mutate, const char *text, size_t size,
                      const kas_buf *other, kas_buf *file);

/* ---- for the mutations of a format ----------------------------------------------------------- */

cJSON *fuzz_random_item(kas_rng *rng, const cJSON *list); /* returns NULL when there is none */
/* Puts `value` into the place of `item` in `parent`, with its key. */
void fuzz_replace(cJSON *parent, cJSON *item, cJSON *value);
/* Returns a value that is seldom right: one of another type, a number out of range, text that
 * is no UTF-8. */
cJSON *fuzz_odd_value(kas_rng *rng);

#endif

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
/* Damages the `size` bytes at `at`, as many of them as there are; the rest stays where it is. */
void fuzz_mutate_within(kas_rng *rng, kas_buf *file, size_t at, size_t size);

/* Changes a file 1 to 3 times; `donor` is another file to take values from. Both are valid JSON. */
typedef void fuzz_mutate_tree(kas_rng *rng, cJSON *root, const cJSON *donor);
fuzz_mutate_tree fuzz_mutate_json;

/* A mutant of the runner's corpus, whose files are JSON: most times its tree is changed, by
 * `format` (fuzz_mutate_json where that is NULL, and now and then where it is not); else, or on top
 * of it, its bytes. */
void fuzz_json_mutant(kas_rng *rng, fuzz_mutate_tree *format, kas_buf *file);

/* The same of one text, which is appended to `file`; values come from `other`. */
void fuzz_change_tree(kas_rng *rng, fuzz_mutate_tree *mutate, const char *text, size_t size,
                      const kas_buf *other, kas_buf *file);

/* ---- for the mutations of a format ----------------------------------------------------------- */

cJSON *fuzz_random_item(kas_rng *rng, const cJSON *list); /* NULL when there is none */
/* `value` takes the place of `item` in `parent`, and its key. */
void fuzz_replace(cJSON *parent, cJSON *item, cJSON *value);
/* A value that is seldom right: of another type, a number out of range, text that is no UTF-8. */
cJSON *fuzz_odd_value(kas_rng *rng);

#endif

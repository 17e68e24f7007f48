/* Mutations of kernel files, for the fuzz test of the reader.
 *
 * Two kinds, because each reaches what the other does not: bytes (cuts, tokens, bits) damage the
 * text, and nodes (copied between files, rewired, given another's attributes) keep it valid JSON,
 * so that the rules of the kernel are reached.  Attributes and operators come from the files of the
 * corpus (kernels/, tests/fuzz/corpus/): a primitive or attribute is covered as soon as one file
 * has it. */
#ifndef KAS_TESTS_FUZZ_KERNEL_MUTATE_H
#define KAS_TESTS_FUZZ_KERNEL_MUTATE_H

#include <cjson/cJSON.h>

#include "host/core/buf.h"
#include "host/core/random.h"

/* Damages the text in `text`, 1 to 4 times. */
void fuzz_mutate_bytes(kas_rng *rng, kas_buf *text);

/* Changes the file `root` 1 to 3 times; `donor` is another file to take nodes and values from. Both
 * are valid kernel files. */
void fuzz_mutate_nodes(kas_rng *rng, cJSON *root, const cJSON *donor);

#endif

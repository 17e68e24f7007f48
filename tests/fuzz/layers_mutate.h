/* Mutations of files of layers, for the fuzz test of their reader: their kernels (as of kernel
 * files, kernel_mutate.h), which kernels there are, and which layer has which. */
#ifndef KAS_TESTS_FUZZ_LAYERS_MUTATE_H
#define KAS_TESTS_FUZZ_LAYERS_MUTATE_H

#include <cjson/cJSON.h>

#include "host/core/random.h"

/* Changes the file `root` 1 to 3 times; `donor` is another file to take kernels from. Both are
 * valid files of layers. */
void fuzz_mutate_layers(kas_rng *rng, cJSON *root, const cJSON *donor);

#endif

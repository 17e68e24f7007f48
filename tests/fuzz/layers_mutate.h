/* Mutations of files of layers, for the fuzz test of their reader: their kernels (as of kernel
 * files, kernel_mutate.h), which kernels there are, and which layer has which. */
#ifndef KAS_TESTS_FUZZ_LAYERS_MUTATE_H
#define KAS_TESTS_FUZZ_LAYERS_MUTATE_H

#include "mutate.h"

/* Changes a file of layers; `root` and `donor` are valid files of layers. */
fuzz_mutate_tree fuzz_mutate_layers;

#endif

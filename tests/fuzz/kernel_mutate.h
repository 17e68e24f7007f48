/* Mutations of kernel files, for the fuzz tests of the readers: nodes are copied between files,
 * rewired, given another's attributes. Attributes and operators come from the files of the
 * corpus (kernels/, tests/fuzz/corpus/): a primitive or attribute is covered as soon as one file
 * has it. */
#ifndef KAS_TESTS_FUZZ_KERNEL_MUTATE_H
#define KAS_TESTS_FUZZ_KERNEL_MUTATE_H

#include "mutate.h"

/* Changes a kernel file; `root` and `donor` are valid kernel files. */
fuzz_mutate_tree fuzz_mutate_nodes;

#endif

/* Layers for kernels of mutated files: small, with unequal channels, an image that is not square,
 * and kernels of several sizes. */
#ifndef KAS_TESTS_FUZZ_TARGETS_H
#define KAS_TESTS_FUZZ_TARGETS_H

#include "support/sizes.h"

enum { TARGETS = 3 };

static const kas_target even[TARGETS] = {KAS_TARGET_PLAIN("layer1", 16, 8, 8, 3),
                                         TARGET_OF("layer2", 16, 32, 16, 4, 4, 3, 2),
                                         TARGET_OF("layer3", 64, 32, 32, 2, 2, 1, 1)};
static const kas_target odd[TARGETS] = {TARGET_OF("layer1", 24, 36, 12, 7, 5, 5, 1),
                                        KAS_TARGET_PLAIN("layer2", 18, 9, 9, 7),
                                        KAS_TARGET_PLAIN("layer3", 30, 1, 3, 3)};

#endif

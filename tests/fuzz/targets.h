/* Layers for kernels of mutated files: small, with unequal channels, an image that is not square,
 * and kernels of several sizes. */
#ifndef KAS_TESTS_FUZZ_TARGETS_H
#define KAS_TESTS_FUZZ_TARGETS_H

#include "host/space/target.h"

enum { TARGETS = 3 };

static const kas_target even[TARGETS] = {KAS_TARGET_PLAIN("layer1", 16, 8, 8, 3),
                                         {.name = "layer2",
                                          .c_in = 16,
                                          .c_out = 32,
                                          .c = 16,
                                          .parts_in = 1,
                                          .parts_out = 2,
                                          .h = 4,
                                          .w = 4,
                                          .kernel_h = 3,
                                          .kernel_w = 3,
                                          .stride = 2},
                                         {.name = "layer3",
                                          .c_in = 64,
                                          .c_out = 32,
                                          .c = 32,
                                          .parts_in = 2,
                                          .parts_out = 1,
                                          .h = 2,
                                          .w = 2,
                                          .kernel_h = 1,
                                          .kernel_w = 1,
                                          .stride = 1}};
static const kas_target odd[TARGETS] = {{.name = "layer1",
                                         .c_in = 24,
                                         .c_out = 36,
                                         .c = 12,
                                         .parts_in = 2,
                                         .parts_out = 3,
                                         .h = 7,
                                         .w = 5,
                                         .kernel_h = 5,
                                         .kernel_w = 5,
                                         .stride = 1},
                                        KAS_TARGET_PLAIN("layer2", 18, 9, 9, 7),
                                        KAS_TARGET_PLAIN("layer3", 30, 1, 3, 3)};

#endif

/* The name of a run: what its checkpoint belongs to. */
#ifndef KAS_TRAIN_DIGEST_H
#define KAS_TRAIN_DIGEST_H

#include "host/train/train.h"

/* SHA-256 over everything that determines the bits of a run: network, kernel with its sizes, data,
 * indices, recipe, seed, initial weights. Not what only observes, and of the device only the order
 * in which a kernel's weights lie (options->maps). */
kas_status kas_train_digest(const kas_train_options *options, uint8_t digest[32]);

#endif

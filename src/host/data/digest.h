/* Computes the digest of a data set in parts, for code that writes the set piece by piece
 * (dataset.h defines the digest). The order is: begin, train pixels, train labels, test pixels,
 * test labels, end. */
#ifndef KAS_DATA_DIGEST_H
#define KAS_DATA_DIGEST_H

#include "host/core/sha256.h"
#include "host/data/dataset.h"

void kas_digest_begin(kas_sha256 *hash, const kas_dataset *dataset);
void kas_digest_labels(kas_sha256 *hash, const kas_images *images);
void kas_digest_end(kas_sha256 *hash, char hex[65]);

#endif

/* SHA-256 (FIPS 180-4): names kernels in studies, keys of the compile cache, checksums of
 * data sets. These names are kept for years, so a collision-resistant hash is worth its
 * few microseconds. */
#ifndef KAS_CORE_SHA256_H
#define KAS_CORE_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct kas_sha256 {
    uint32_t state[8];
    uint64_t length; /* bytes so far */
    uint8_t block[64];
} kas_sha256;

void kas_sha256_init(kas_sha256 *hash);
void kas_sha256_update(kas_sha256 *hash, const void *data, size_t size);
void kas_sha256_final(kas_sha256 *hash, uint8_t digest[32]);
/* Computes the digest of `size` bytes in one call. `hex` gets 64 digits and a NUL. */
void kas_sha256_hex(const void *data, size_t size, char hex[65]);
void kas_sha256_to_hex(const uint8_t digest[32], char hex[65]);
/* Adds `count` blocks of 64 bytes to a state, by the processor's instructions for SHA-256 where it
 * has them and unless `portable` is set, for which only a test has a use. */
void kas_sha256_compress(uint32_t state[8], const uint8_t *block, size_t count, bool portable);

#endif

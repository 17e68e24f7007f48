/* Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
 * 1, 2, 3", SC 2011).
 *
 * A number is a pure function of (key, counter), so candidate k of a study is the same whoever
 * samples it, on any machine and with any number of workers.  The same function exists in the
 * prelude of the device code (src/cuda/kernels/prelude.h) and the tests compare the two.
 */
#ifndef KAS_CORE_RANDOM_H
#define KAS_CORE_RANDOM_H

#include <stdint.h>

/* The use of a stream of numbers. It is part of the key, so that two uses never share numbers.
 * Values are stored in studies: never renumber them, only append. */
typedef enum kas_purpose {
    KAS_PURPOSE_SAMPLE = 1,  /* structure of a candidate */
    KAS_PURPOSE_INIT = 3,    /* initial weights */
    KAS_PURPOSE_SHUFFLE = 4, /* order of training images */
    KAS_PURPOSE_AUGMENT = 5, /* crops and flips */
    KAS_PURPOSE_SPLIT = 6,   /* validation split */
    KAS_PURPOSE_TEST = 7,    /* data made by tests and `check` */
    KAS_PURPOSE_DATASET = 8, /* procedural images */
    KAS_PURPOSE_DROPOUT = 9, /* which values a dropout layer drops */
    KAS_PURPOSE_CROP = 10,   /* parts of encoded images */
    KAS_PURPOSE_MIX = 11,    /* shares and rectangles of mixed images */
    KAS_PURPOSE_CHILD = 12,  /* changes of kernels */
    KAS_PURPOSE_SELECT = 14, /* parents in evolution, ways through a tree */
    KAS_PURPOSE_HALVES = 15, /* halves of the validation split */
    KAS_PURPOSE_GROW = 16,   /* kernels with a given beginning */
    KAS_PURPOSE_BLOCK = 17   /* blocks of a network that is assembled */
} kas_purpose;

/* Computes the bare Philox4x32 function with 10 rounds. */
void kas_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* A stream: key from (seed, purpose), counter from (stream, position). */
typedef struct kas_rng {
    uint32_t key[2];
    uint32_t counter[4]; /* [0..1] position, [2..3] stream */
    uint32_t block[4];
    uint32_t used; /* numbers of `block` already given; 4 = none left */
} kas_rng;

/* Begins a stream at its first number. `stream` tells apart the streams of one purpose: it is the
 * number of the attempt, the epoch or the layer. */
kas_rng kas_rng_make(uint64_t seed, kas_purpose purpose, uint64_t stream);
uint32_t kas_rng_u32(kas_rng *rng);
uint32_t kas_rng_below(kas_rng *rng, uint32_t n); /* uniform in [0, n), n >= 1, without bias */
/* Puts the values into an order at random (Fisher and Yates). */
void kas_rng_shuffle(kas_rng *rng, uint32_t *values, uint32_t count);
double kas_rng_unit(kas_rng *rng);   /* uniform in [0, 1), 53 bits */
double kas_rng_normal(kas_rng *rng); /* mean 0, variance 1 (Box-Muller) */

#endif

/* Initial weights that are kept from one kernel to the next.
 *
 * The weight of a layer begins with normal numbers that depend on the seed, the layer and the
 * weight's number alone (model/params.h): those of a smaller one are the first of those of a larger
 * one. Drawing them takes as long as a forward pass over several images, and the next kernel needs
 * the same. */
#ifndef KAS_INTERPRET_NORMALS_H
#define KAS_INTERPRET_NORMALS_H

#include <stddef.h>
#include <stdint.h>

#include "host/core/status.h"

enum { KAS_NORMALS_MOST = 1 << 26 }; /* numbers kept; beyond them all are forgotten */

typedef struct kas_normals {
    struct kas_drawn *list; /* [count] */
    int count;
    size_t total;
} kas_normals; /* of one thread; zero at first */

/* Gives the first `size` standard normal numbers of a weight. They are there until the next
 * call. */
kas_status kas_normals_get(kas_normals *normals, uint64_t seed, int layer, int slot, size_t size,
                           const float **out);
void kas_normals_free(kas_normals *normals);

#endif

/* Places buffers with known lifetimes in one block of memory.
 *
 *     offset
 *       ^   +-------------+
 *       |   |  act 3      |        +------+
 *       |   +------+------+---+    | grad |
 *       |   | act 1 |  act 4  |----+------+
 *       +---+-------+---------+-----------------> time (operations of a step)
 *
 * Two buffers may share bytes when no operation needs both. The method is first fit in order of
 * decreasing size: it is known to stay near the lower bound for networks, and it is simple enough
 * to be trusted. */
#ifndef KAS_MODEL_LAYOUT_H
#define KAS_MODEL_LAYOUT_H

#include <stddef.h>

#include "host/core/status.h"

typedef struct kas_layout_buffer {
    size_t bytes;
    int first, last; /* first and last operation that touches the buffer; first > last: never
                        used */
    size_t offset;   /* result; a multiple of 256 */
} kas_layout_buffer;

/* Sets the offset of every buffer; *total gets the size of the block in bytes. The only failure
 * is KAS_NO_MEMORY. */
kas_status kas_layout_solve(kas_layout_buffer *buffers, int count, size_t *total);

#endif

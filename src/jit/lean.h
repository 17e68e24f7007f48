/* Kernels that spill, compiled once more with nothing unrolled.
 *
 * How much a GPU may unroll is foreseen when a kernel is emitted (unroll.c); what registers it
 * takes is known only from the cubin.  A register spilled to local memory is traffic that nobody
 * wrote, so those kernels, and no others of the text, are built again under KAS_LEAN 1 (prelude.h).
 */
#ifndef KAS_JIT_LEAN_H
#define KAS_JIT_LEAN_H

#include "host/core/buf.h"

/* Bytes of local memory of all kernels of a cubin, by thread. `lean`: appends `text` with the
 * kernels that use any made lean; NULL: only counts. An image that is no cubin (the stand-in's) has
 * none. */
kas_status kas_lean_text(const void *image, size_t size, const char *text, long long *local_bytes,
                         kas_buf *lean);

#endif

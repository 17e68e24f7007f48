/* Respill: compiles kernels that spill once more, with nothing unrolled.
 *
 * How much a GPU may unroll is foreseen when a kernel is emitted (jit/emit/unroll.c); how many
 * registers that takes is known only from the cubin. A register spilled to local memory is traffic
 * that nobody wrote, so the kernels that spill, and no others of the text, are built again under
 * KAS_LEAN 1 (prelude.h). Each kernel is judged by itself: one that indexes an array of its own
 * keeps its local memory either way, and then keeps its unrolled loops too. */
#ifndef KAS_CUDA_NVRTC_RESPILL_H
#define KAS_CUDA_NVRTC_RESPILL_H

#include "cuda/nvrtc/resources.h"
#include "host/core/buf.h"

/* Part of the key of a cubin (compile.h): raised when what is built again, or which of the images
 * is taken, changes. */
enum { KAS_RESPILL_POLICY = 2 };

/* Some kernels of a text; kas_respill_free frees them. */
typedef struct kas_respill {
    kas_resources *kernel;
    int count;
} kas_respill;

/* Finds the kernels that use local memory in the cubin of the unchanged text. An image that is no
 * cubin (the stand-in's) has none. */
kas_status kas_respill_find(const void *image, size_t size, kas_respill *respill);
/* Keeps only the kernels that use less local memory in `image`, where they were lean. */
kas_status kas_respill_keep_better(const void *image, size_t size, kas_respill *respill);
/* Appends `text` with these kernels made lean. */
kas_status kas_respill_text(const char *text, const kas_respill *respill, kas_buf *out);
void kas_respill_free(kas_respill *respill);

#endif

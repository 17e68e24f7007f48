/* What each kernel of a cubin asks of a multiprocessor and of memory, read from the image itself.
 *
 * Registers decide how many warps run at once, and local memory (a spilled register, an array that
 * is indexed at run time) is memory traffic that nobody wrote. Both are known as soon as a kernel
 * is compiled, on a machine without a GPU too. `check --nvrtc` and the tests look at them, so that
 * a schedule that spills is found before it costs time on a card.
 *
 * A cubin is an ELF file. Its section ".nv.info" holds a list of attributes, of which two are read:
 * the number of registers and the size of the stack frame (local memory of a thread, spills
 * included). ptxas -v prints the same figures. The sections ".text.<kernel>" hold its instructions,
 * 16 bytes each since sm_70. Of these, accesses to global memory are counted by their size, because
 * 16-byte accesses are what reaches memory speed. */
#ifndef KAS_CUDA_NVRTC_RESOURCES_H
#define KAS_CUDA_NVRTC_RESOURCES_H

#include <stddef.h>

#include "host/core/status.h"

typedef struct kas_resources {
    char name[64]; /* name of the kernel */
    int registers; /* registers of a thread */
    /* Local memory of a thread: 0 unless it spills or indexes an array of its own */
    int local_bytes;
    int accesses;    /* instructions that read or write global memory */
    int bytes;       /* bytes that these instructions move for a thread, added up */
    int wide;        /* accesses of 16 bytes */
    int wide_stores; /* accesses of 16 bytes that write */
} kas_resources;

/* Lists the kernels of a cubin in the order of the image: *out [*count], freed by the caller.
 * Returns KAS_BAD_INPUT when the image is no cubin or is damaged. */
kas_status kas_cubin_resources(const void *image, size_t size, kas_resources **out, int *count);

#endif

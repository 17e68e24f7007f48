/* What each kernel of a cubin asks of a multiprocessor and of memory, read from the image itself.
 *
 * Registers decide how many warps run at once, and local memory (a spilled register, an array that
 * is indexed at run time) is memory traffic that nobody wrote: both are known as soon as a kernel
 * is compiled, on a machine without a GPU too.  `check --nvrtc` and the tests look at them, so that
 * a schedule that spills is found before it costs time on a card.
 *
 * A cubin is an ELF file; its section ".nv.info" holds a list of attributes, of which two are read:
 * the number of registers and the size of the stack frame (local memory of a thread, spills
 * included).  ptxas -v prints the same figures.  The sections ".text.<kernel>" hold its
 * instructions, 16 bytes each since sm_70; of these, accesses to global memory are counted by their
 * size, because 16-byte ones are what reaches memory speed. */
#ifndef KAS_CUDA_NVRTC_RESOURCES_H
#define KAS_CUDA_NVRTC_RESOURCES_H

#include <stddef.h>

#include "host/core/status.h"

typedef struct kas_resources {
    char name[64];   /* of the kernel */
    int registers;   /* of a thread */
    int local_bytes; /* of a thread: 0 unless it spills or indexes an array of its own */
    int accesses;    /* instructions that read or write global memory */
    int bytes;       /* that each of these moves for a thread, added up */
    int wide;        /* those of 16 bytes */
    int wide_stores; /* those of them that write */
} kas_resources;

/* *out [*count], freed by the caller, in the order of the image. KAS_BAD_INPUT when the image is no
 * cubin or is damaged. */
kas_status kas_cubin_resources(const void *image, size_t size, kas_resources **out, int *count);

#endif

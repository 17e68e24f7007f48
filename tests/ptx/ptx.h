/* The executor of PTX: runs what NVRTC makes of our kernels, and judges it (docs/ptx.md).
 *
 *     ptx_module *module = ptx_read(text, fault);
 *     ptx_function *f = ptx_find(module, "kas_dev_scale", fault);
 *     ptx_region_add(memory, bytes);                          as a GPU's allocation
 *     if (!ptx_launch(f, grid, block, &args, seed, fault))    fault: what the kernel did wrong
 *
 * A launch ends at the first thing that is wrong: an access outside of memory or not aligned, a
 * read of bytes that nobody wrote, a race between threads, a shuffle from a lane that takes no part
 * in it, a barrier that not all threads reach. It counts what a GPU would have to do.
 *
 * One thread at a time may use it. */
#ifndef KAS_TESTS_PTX_PTX_H
#define KAS_TESTS_PTX_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PTX_FAULT = 768 };

typedef struct ptx_module ptx_module;
typedef struct ptx_function ptx_function;

/* Reads the text of a module. Returns NULL, and says why in `fault`, where it is not PTX. */
ptx_module *ptx_read(const char *text, char fault[PTX_FAULT]);
void ptx_free(ptx_module *module);
/* Returns NULL when the module has no such kernel, and then `fault` is empty, or when the kernel
 * has an instruction that the executor does not know. */
ptx_function *ptx_find(ptx_module *module, const char *name, char fault[PTX_FAULT]);
const char *ptx_name(const ptx_function *function);
size_t ptx_args_size(const ptx_function *function);
/* Returns the function that was found in the module behind this one, or NULL; behind NULL is the
 * first. */
const ptx_function *ptx_next(const ptx_module *module, const ptx_function *behind);

/* Runs the blocks of a grid one after the other in an order that `seed` chooses. */
bool ptx_launch(ptx_function *function, const unsigned grid[3], const unsigned block[3],
                const void *args, uint64_t seed, char fault[PTX_FAULT]);

/* ---- memory (memory.c) ----------------------------------------------------------------------- */

/* Makes [data, data + bytes) memory of the GPU, of which nothing is written. */
void ptx_region_add(void *data, size_t bytes);
void ptx_region_remove(void *data);
/* Says that something other than a kernel wrote, or copied, these bytes of the GPU's memory. */
void ptx_region_wrote(const void *data, size_t bytes);
void ptx_region_copied(const void *to, const void *from, size_t bytes);

/* ---- counts (count.c) ------------------------------------------------------------------------ */

typedef enum ptx_class {
    PTX_FLOAT,      /* additions, products, comparisons of floats */
    PTX_SPECIAL,    /* divisions, roots, exponentials: several instructions, or a slow unit */
    PTX_INTEGER,    /* integers, moves, selections, predicates */
    PTX_CONVERSION, /* between dtypes */
    PTX_LOAD,       /* of global memory; PTX_STORE too */
    PTX_STORE,
    PTX_SHARED, /* loads and stores of shared memory */
    PTX_LOCAL,  /* loads and stores of local memory */
    PTX_PARAMETER,
    PTX_SHUFFLE,
    PTX_TENSOR, /* products of matrices */
    PTX_BARRIER,
    PTX_BRANCH,
    PTX_CLASSES
} ptx_class;

/* Of all launches of a function, in instructions of a warp unless something else is said. */
typedef struct ptx_counts {
    uint64_t launches, blocks, warps;
    uint64_t instructions[PTX_CLASSES];
    uint64_t lanes;                          /* lanes that took part in all those instructions */
    uint64_t load_sectors, store_sectors;    /* of 32 bytes */
    uint64_t load_bytes, store_bytes;        /* that lanes asked for */
    uint64_t shared_waves, shared_conflicts; /* turns of the banks, and those beyond the least */
    uint32_t chain; /* the longest chain of loads of which each waits for the one before: for its
                       address, or behind a branch in front of which the value was used */
} ptx_counts;

ptx_counts ptx_count(const ptx_function *function);
const char *ptx_class_name(ptx_class class);

#endif

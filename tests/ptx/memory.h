/* Memory that remembers who wrote and who read it.
 *
 * For each byte of a region it is known whether anything wrote it. For each granule (4 bytes, or 2
 * or 1 in pages where smaller accesses were made) it is known which thread wrote it last and which
 * read it, in the running launch: of two threads of which one writes, one must have passed a
 * barrier of their common block behind the other. */
#ifndef KAS_TESTS_PTX_MEMORY_H
#define KAS_TESTS_PTX_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ptx_page {
    uint32_t epoch; /* what is known of its threads is of this epoch of the region, or nothing */
    uint32_t shift; /* granules of 1 << shift bytes */
} ptx_page;

typedef struct ptx_region {
    uint64_t base; /* its address for a kernel */
    size_t bytes;
    unsigned char *data;
    unsigned char *written; /* 1 where something wrote the byte */
    uint64_t *writer, *reader;
    ptx_page *page;
    uint32_t epoch;
    bool private; /* no two threads reach the same byte, or nobody writes */
    void *shadow;
    size_t shadow_bytes;
} ptx_region;

/* The thread that accesses: its block's number plus 1, how many barriers the block has passed, and
 * its number in the block. The next thread of the block is one more. */
typedef uint64_t ptx_who;
static inline ptx_who ptx_who_of(uint32_t block, uint32_t barriers, uint32_t thread)
{
    return (uint64_t)(block + 1) << 32 | (uint64_t)(barriers & 0xfffff) << 12 | thread;
}
static inline uint32_t ptx_who_block(ptx_who who)
{
    return (uint32_t)(who >> 32) - 1;
}
static inline uint32_t ptx_who_thread(ptx_who who)
{
    return who & 0xfff;
}

/* An access of neighbouring threads: `each` bytes a thread, one behind the other or, with `same`,
 * all at the same place. */
typedef struct ptx_run {
    size_t at; /* in the region */
    unsigned each;
    int threads;
    bool same;
    bool read_only; /* the load says that nothing writes there in this launch (ld.global.nc) */
    ptx_who who;    /* the first thread */
    const unsigned char *value; /* what is stored, NULL for a load */
} ptx_run;

typedef enum ptx_wrong { PTX_RIGHT, PTX_UNWRITTEN, PTX_RACE, PTX_NOT_READ_ONLY } ptx_wrong;
typedef struct ptx_verdict {
    ptx_wrong wrong;
    int thread;    /* of the run */
    ptx_who other; /* the other thread of a race; PTX_SEVERAL as its thread: several */
    bool other_wrote;
} ptx_verdict;
enum { PTX_SEVERAL = 0xfff };
#define PTX_ANYBODY UINT64_MAX

void ptx_region_make(ptx_region *region, uint64_t base, void *data, size_t bytes);
void ptx_region_drop(ptx_region *region);
/* Judges an access that lies in the region and is aligned, and remembers it. */
ptx_verdict ptx_judge(ptx_region *region, const ptx_run *run);
/* Begins a launch on the GPU's memory. */
void ptx_regions_begin(void);
/* Returns the region of the GPU's memory where this address lies; NULL: in none. */
ptx_region *ptx_region_of(uint64_t address);
/* Returns the region that ends nearest in front of the address, or NULL. */
const ptx_region *ptx_region_before(uint64_t address);

#endif

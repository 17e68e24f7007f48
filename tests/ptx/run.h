/* A launch while it runs: what the parts of the executor share. */
#ifndef KAS_TESTS_PTX_RUN_H
#define KAS_TESTS_PTX_RUN_H

#include "ptx/form.h"
#include "ptx/memory.h"

enum { PTX_STACK = 256, PTX_WARPS = PTX_THREADS / PTX_LANES };
enum { PTX_FULL = -1 }; /* a mask of all lanes */

/* Lanes that run together, and where they meet those that their warp has put aside. */
typedef struct ptx_group {
    int pc, rejoin;
    uint32_t mask;
} ptx_group;

typedef struct ptx_warp {
    ptx_group stack[PTX_STACK]; /* the last group runs */
    int depth;
    uint32_t all, alive;     /* lanes that there are; those that have not returned */
    int waits_at;            /* the barrier where the warp waits; -1: none */
    unsigned first;          /* its first thread's number in the block */
    unsigned char *place[3]; /* by ptx_place */
    uint32_t *predicate;
    /* Chains of loads: of each register's value; of the values that were used so far; of all loads;
     * and what the next load waits for. */
    uint32_t *chain, used, deepest, fence;
} ptx_warp;

typedef struct ptx_run_state {
    ptx_function *f;
    unsigned grid[3], block[3], at[3], number; /* at: the block that runs, and its number */
    unsigned threads, warps, barriers;
    ptx_warp warp[PTX_WARPS];
    ptx_region shared, local, param, *last;
    uint32_t shared_chain; /* the longest chain of a value that lies in shared memory */
    char *fault;
} ptx_run_state;

static inline void *ptx_at(const ptx_warp *w, ptx_ref ref)
{
    return w->place[ref >> PTX_PLACE_SHIFT] + (ref & PTX_OFFSET);
}

/* The chain of a register; constants and special registers have none. */
static inline uint32_t *ptx_chain_at(const ptx_warp *w, ptx_ref ref)
{
    static uint32_t zero;
    return ref >> PTX_PLACE_SHIFT == PTX_REGISTER ? &w->chain[ref >> 6] : &zero;
}

/* Says that an instruction needs a value of this chain: the next branch waits for it. */
static inline void ptx_use(ptx_warp *w, uint32_t chain)
{
    w->used = chain > w->used ? chain : w->used;
}

/* Ends the launch with what is wrong: the message says which instruction, block and thread. */
bool ptx_run_fault(const ptx_run_state *x, const ptx_warp *w, const ptx_instruction *i, int lane,
                   const char *format, ...) __attribute__((format(printf, 5, 6)));

/* access.c, shuffle.c, mma.c. A copy is done when its warp waits for it; until then what it writes counts as
 * unwritten, and nothing may write there, or where it reads. ptx_forget_copies forgets those for which
 * an earlier block did not wait. */
bool ptx_copy(ptx_run_state *x, ptx_warp *w, const ptx_instruction *i, uint32_t mask);
bool ptx_wait_copies(ptx_run_state *x, ptx_warp *w, uint32_t mask);
void ptx_forget_copies(void);
bool ptx_access(ptx_run_state *x, ptx_warp *w, const ptx_instruction *i, uint32_t mask);
bool ptx_shuffle_lanes(ptx_run_state *x, ptx_warp *w, const ptx_instruction *i, uint32_t mask);
bool ptx_multiply(ptx_run_state *x, ptx_warp *w, const ptx_instruction *i, uint32_t mask);

/* count.c: what an access costs. `address` is valid for the lanes of the mask. */
void ptx_count_global(ptx_counts *counts, const uint64_t address[PTX_LANES], uint32_t mask,
                      unsigned each, bool store);
void ptx_count_shared(ptx_counts *counts, const uint64_t address[PTX_LANES], uint32_t mask,
                      unsigned each);

#endif

/* What a kernel costs: sectors of global memory, turns of the banks of shared memory, instructions
 * by class. */

#include "ptx/run.h"

enum { SECTOR = 32, BANKS = 32, BANK_BYTES = 4 };

static bool active(uint32_t mask, int lane)
{
    return mask >> lane & 1;
}

/* An aligned access of up to 16 bytes lies in one sector. */
static unsigned sectors_of(const uint64_t address[PTX_LANES], uint32_t mask)
{
    uint64_t seen[PTX_LANES];
    unsigned count = 0;
    for (int lane = 0; lane < PTX_LANES; lane++) {
        const uint64_t sector = address[lane] / SECTOR;
        unsigned k = count;
        if (!active(mask, lane))
            continue;
        while (k > 0 && seen[k - 1] != sector)
            k--;
        if (k == 0)
            seen[count++] = sector;
    }
    return count;
}

void ptx_count_global(ptx_counts *counts, const uint64_t address[PTX_LANES], uint32_t mask,
                      unsigned each, bool store)
{
    const unsigned sectors = sectors_of(address, mask),
                   bytes = each * (unsigned)__builtin_popcount(mask);
    *(store ? &counts->store_sectors : &counts->load_sectors) += sectors;
    *(store ? &counts->store_bytes : &counts->load_bytes) += bytes;
}

/* Returns the turns that the banks need for lanes [first, last): as many as different words of one
 * bank are wanted. */
static unsigned turns_of(const uint64_t address[PTX_LANES], uint32_t mask, unsigned each, int first,
                         int last)
{
    uint64_t word[BANKS][PTX_LANES];
    unsigned count[BANKS] = {0}, most = 0;
    for (int lane = first; lane < last; lane++)
        for (unsigned byte = 0; active(mask, lane) && byte < each; byte += BANK_BYTES) {
            const uint64_t w = (address[lane] + byte) / BANK_BYTES;
            const unsigned bank = w % BANKS;
            unsigned k = count[bank];
            while (k > 0 && word[bank][k - 1] != w)
                k--;
            if (k == 0)
                word[bank][count[bank]++] = w;
            most = count[bank] > most ? count[bank] : most;
        }
    return most;
}

/* Accesses of 8 and 16 bytes are done for 16 and 8 lanes at a time. */
void ptx_count_shared(ptx_counts *counts, const uint64_t address[PTX_LANES], uint32_t mask,
                      unsigned each)
{
    const int at_once = each <= BANK_BYTES ? PTX_LANES : PTX_LANES * BANK_BYTES / (int)each;
    for (int first = 0; first < PTX_LANES; first += at_once) {
        const unsigned turns = turns_of(address, mask, each, first, first + at_once);
        counts->shared_waves += turns;
        counts->shared_conflicts += turns > 1 ? turns - 1 : 0;
    }
}

ptx_counts ptx_count(const ptx_function *f)
{
    ptx_counts counts = f->counts;
    for (int i = 0; i < f->length; i++) {
        counts.instructions[f->code[i].class] += f->hits[i];
        counts.lanes += f->lanes[i];
    }
    return counts;
}

const char *ptx_class_name(ptx_class class)
{
    static const char *const names[PTX_CLASSES] = {
        "float", "special",   "integer", "conversion", "load",    "store", "shared",
        "local", "parameter", "shuffle", "tensor",     "barrier", "branch"};
    return names[class];
}

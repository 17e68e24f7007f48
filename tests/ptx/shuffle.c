/* Shuffles: a lane reads another lane's register. */
#include "ptx/run.h"

/* Returns the lane that this one reads, or -1 where PTX gives it its own value. */
static int source_of(const ptx_instruction *i, int lane, uint32_t by, uint32_t c)
{
    const uint32_t clamp = c & 31, segment = c >> 8 & 31;
    const int lowest = lane & (int)segment;
    const int bound = lowest | (int)(clamp & ~segment);
    int source;
    switch ((ptx_shuffle)i->mode) {
    case PTX_UP:
        source = lane - (int)(by & 31);
        return source >= bound ? source : -1;
    case PTX_DOWN:
        source = lane + (int)(by & 31);
        break;
    case PTX_BFLY:
        source = lane ^ (int)(by & 31);
        break;
    default:
        source = lowest | ((int)(by & 31) & ~(int)segment);
    }
    return source <= bound ? source : -1;
}

/* Fails where a lane's mask leaves out the lane, or names lanes that have gone elsewhere. */
static bool check_mask(ptx_run_state *x, ptx_warp *w, const ptx_instruction *i, uint32_t active,
                       int lane, uint32_t members)
{
    if (!(members >> lane & 1))
        return ptx_run_fault(x, w, i, lane, "a shuffle whose mask %#x leaves out its own lane",
                             members);
    if (members & w->alive & ~active)
        return ptx_run_fault(x, w, i, lane,
                             "a shuffle whose mask %#x names lanes that are not there: %#x are",
                             members, active);
    return true;
}

bool ptx_shuffle_lanes(ptx_run_state *x, ptx_warp *w, const ptx_instruction *i, uint32_t active)
{
    const u32 *value = ptx_at(w, i->a), *by = ptx_at(w, i->b), *c = ptx_at(w, i->c),
              *members = ptx_at(w, i->part[0]);
    u32 *d = ptx_at(w, i->d);
    uint32_t result[PTX_LANES], valid = 0;
    for (int lane = 0; lane < PTX_LANES; lane++) {
        if (!(active >> lane & 1))
            continue;
        if (!check_mask(x, w, i, active, lane, members[lane]))
            return false;
        const int source = source_of(i, lane, by[lane], c[lane]);
        if (source >= 0 && !(active & members[lane] & UINT32_C(1) << source))
            return ptx_run_fault(x, w, i, lane,
                                 "a shuffle that reads lane %d, which takes no part in it", source);
        valid |= (uint32_t)(source >= 0) << lane;
        result[lane] = value[source >= 0 ? source : lane];
    }
    for (int lane = 0; lane < PTX_LANES; lane++)
        if (active >> lane & 1)
            d[lane] = result[lane];
    if (i->p[0] >= 0)
        w->predicate[i->p[0]] = (w->predicate[i->p[0]] & ~active) | valid;
    *ptx_chain_at(w, i->d) = *ptx_chain_at(w, i->a);
    ptx_use(w, *ptx_chain_at(w, i->a));
    return true;
}

/* Loads and stores. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx/run.h"

enum { MOST_BYTES = PTX_LANES * 16 };

/* An access of a warp. `bytes` are those of lane 0, then of lane 1, and so on. */
typedef struct access {
    ptx_run_state *x;
    ptx_warp *w;
    const ptx_instruction *i;
    uint32_t mask;
    unsigned each;
    uint64_t address[PTX_LANES];
    unsigned char bytes[MOST_BYTES];
} access;

static bool stores(const access *a)
{
    return a->i->kind == PTX_STORE_KIND;
}

/* ---- between registers and bytes ------------------------------------------------------------- */

#define MOVE_LANES(name, R, M)                                                                     \
    static void load_##name(const access *a, void *to, const unsigned char *from)                  \
    {                                                                                              \
        for (int lane = 0; lane < PTX_LANES; lane++) {                                             \
            M value;                                                                               \
            memcpy(&value, from + (unsigned)lane * a->each, sizeof value);                         \
            ((R *)to)[lane] = a->mask >> lane & 1 ? (R)value : ((R *)to)[lane];                    \
        }                                                                                          \
    }                                                                                              \
    static void store_##name(const access *a, const void *from, unsigned char *to)                 \
    {                                                                                              \
        for (int lane = 0; lane < PTX_LANES; lane++) {                                             \
            const M value = (M)((const R *)from)[lane];                                            \
            memcpy(to + (unsigned)lane * a->each, &value, sizeof value);                           \
        }                                                                                          \
    }
MOVE_LANES(16_8, u16, uint8_t)
MOVE_LANES(16_s8, u16, int8_t)
MOVE_LANES(16_16, u16, uint16_t)
MOVE_LANES(32_8, u32, uint8_t)
MOVE_LANES(32_s8, u32, int8_t)
MOVE_LANES(32_16, u32, uint16_t)
MOVE_LANES(32_s16, u32, int16_t)
MOVE_LANES(32_32, u32, uint32_t)
MOVE_LANES(64_8, u64, uint8_t)
MOVE_LANES(64_s8, u64, int8_t)
MOVE_LANES(64_16, u64, uint16_t)
MOVE_LANES(64_s16, u64, int16_t)
MOVE_LANES(64_32, u64, uint32_t)
MOVE_LANES(64_s32, u64, int32_t)
MOVE_LANES(64_64, u64, uint64_t)

typedef struct mover {
    uint8_t wide, size, extends_sign;
    void (*load)(const access *a, void *to, const unsigned char *from);
    void (*store)(const access *a, const void *from, unsigned char *to);
} mover;
static const mover movers[] = {
    {4, 4, 0, load_32_32, store_32_32},   {2, 2, 0, load_16_16, store_16_16},
    {8, 8, 0, load_64_64, store_64_64},   {2, 1, 0, load_16_8, store_16_8},
    {2, 1, 1, load_16_s8, store_16_s8},   {4, 1, 0, load_32_8, store_32_8},
    {4, 1, 1, load_32_s8, store_32_s8},   {4, 2, 0, load_32_16, store_32_16},
    {4, 2, 1, load_32_s16, store_32_s16}, {8, 4, 0, load_64_32, store_64_32},
    {8, 1, 0, load_64_8, store_64_8},     {8, 1, 1, load_64_s8, store_64_s8},
    {8, 2, 0, load_64_16, store_64_16},   {8, 2, 1, load_64_s16, store_64_s16},
    {8, 4, 1, load_64_s32, store_64_s32},
};

/* Returns NULL where registers of that width do not hold such elements. */
static const mover *mover_of(const ptx_instruction *i)
{
    for (size_t k = 0; k < sizeof movers / sizeof *movers; k++)
        if (movers[k].wide == i->wide && movers[k].size == i->size &&
            (movers[k].extends_sign == i->mode || i->wide == i->size))
            return &movers[k];
    return NULL;
}

/* ---- addresses ------------------------------------------------------------------------------- */

static void find_addresses(access *a)
{
    const u64 *base = ptx_at(a->w, a->i->a);
    const uint64_t offset = (uint64_t)a->i->offset;
    for (int lane = 0; lane < PTX_LANES; lane++)
        a->address[lane] = base[lane] + offset;
}

static ptx_space space_of(uint64_t address)
{
    return address >= PTX_GLOBAL_BASE  ? PTX_GLOBAL
           : address >= PTX_LOCAL_BASE ? PTX_LOCAL_SPACE
           : address >= PTX_PARAM_BASE ? PTX_PARAM
                                       : PTX_SHARED_SPACE;
}

static bool outside(const access *a, int lane, const char *what, uint64_t end, size_t bytes)
{
    return ptx_run_fault(
        a->x, a->w, a->i, lane,
        "an access of %u bytes at %#llx, %lld bytes behind the end of %s of %zu bytes", a->each,
        (unsigned long long)a->address[lane], (long long)(a->address[lane] - end), what, bytes);
}

/* Fails an access that lies in no allocation. */
static bool astray(const access *a, int lane)
{
    const uint64_t address = a->address[lane];
    const ptx_region *before = ptx_region_before(address);
    if (before)
        return outside(a, lane, "an allocation", before->base + before->bytes, before->bytes);
    return ptx_run_fault(a->x, a->w, a->i, lane,
                         "an access of %u bytes at %#llx, where no memory is", a->each,
                         (unsigned long long)address);
}

/* Each thread has local memory of its own, at the same address: one behind the other in the
 * region. */
static bool place_local(access *a)
{
    const size_t bytes = a->x->f->local_bytes;
    for (int lane = 0; lane < PTX_LANES; lane++) {
        if (!(a->mask >> lane & 1))
            continue;
        const uint64_t at = a->address[lane] - PTX_LOCAL_BASE;
        if (at > bytes || a->each > bytes - at)
            return outside(a, lane, "local memory", PTX_LOCAL_BASE + bytes, bytes);
        a->address[lane] += (a->w->first + (unsigned)lane) * bytes;
    }
    return true;
}

/* ---- runs of lanes --------------------------------------------------------------------------- */

/* Returns the region where the lanes' accesses lie, or NULL, and has failed. */
static ptx_region *region_of(const access *a, int first, size_t bytes)
{
    ptx_run_state *x = a->x;
    const uint64_t address = a->address[first];
    ptx_region *r;
    switch (space_of(address)) {
    case PTX_GLOBAL:
        r = x->last && address - x->last->base < x->last->bytes ? x->last : ptx_region_of(address);
        x->last = r ? r : x->last;
        break;
    case PTX_LOCAL_SPACE:
        r = &x->local;
        break;
    case PTX_PARAM:
        r = &x->param;
        break;
    default:
        r = &x->shared;
    }
    if (r && address - r->base < r->bytes && bytes <= r->bytes - (address - r->base))
        return r;
    for (int lane = first; lane < PTX_LANES; lane++) { /* the first that leaves it */
        const uint64_t at = a->address[lane] - (r ? r->base : 0);
        if (!(a->mask >> lane & 1) || (r && at < r->bytes && a->each <= r->bytes - at))
            continue;
        if (r && r != x->last)
            outside(a, lane, r == &x->shared ? "shared memory" : "the arguments",
                    r->base + r->bytes, r->bytes);
        else
            astray(a, lane);
        return NULL;
    }
    return NULL;
}

static bool fail_verdict(const access *a, int lane, const ptx_verdict *v)
{
    if (v->wrong == PTX_UNWRITTEN)
        return ptx_run_fault(a->x, a->w, a->i, lane,
                             "a read of memory at %#llx that nothing has written",
                             (unsigned long long)a->address[lane]);
    if (v->wrong == PTX_NOT_READ_ONLY)
        return ptx_run_fault(a->x, a->w, a->i, lane,
                             "a load of read-only memory at %#llx, which thread %u of block %u "
                             "wrote in the same launch",
                             (unsigned long long)a->address[lane], ptx_who_thread(v->other),
                             ptx_who_block(v->other));
    if (v->other == PTX_ANYBODY)
        return ptx_run_fault(a->x, a->w, a->i, lane,
                             "a race at %#llx: several blocks read it, or a load of read-only "
                             "memory (ld.global.nc) did",
                             (unsigned long long)a->address[lane]);
    char who[64] = "several threads";
    if (ptx_who_thread(v->other) != PTX_SEVERAL)
        snprintf(who, sizeof who, "thread %u", ptx_who_thread(v->other));
    return ptx_run_fault(
        a->x, a->w, a->i, lane,
        "a race at %#llx: %s of block %u %s it in the same launch, with no barrier between",
        (unsigned long long)a->address[lane], who, ptx_who_block(v->other),
        v->other_wrote ? "wrote" : "read");
}

/* Does the accesses of `lanes` lanes from `first` on, one behind the other or all at one place. */
static bool do_run(access *a, int first, int lanes, bool same)
{
    const size_t bytes = same ? a->each : a->each * (size_t)lanes;
    ptx_region *r = region_of(a, first, bytes);
    if (!r)
        return false;
    if (a->address[first] % a->each)
        return ptx_run_fault(a->x, a->w, a->i, first,
                             "an access of %u bytes at %#llx, which is no multiple of them",
                             a->each, (unsigned long long)a->address[first]);
    unsigned char *lane_bytes = a->bytes + (unsigned)first * a->each;
    const size_t at = a->address[first] - r->base;
    const ptx_run run = {
        .at = at,
        .each = a->each,
        .threads = lanes,
        .same = same,
        .read_only = a->i->read_only,
        .who = ptx_who_of(a->x->number, a->x->barriers, a->w->first + (unsigned)first),
        .value = stores(a) ? lane_bytes : NULL};
    const ptx_verdict verdict = ptx_judge(r, &run);
    if (verdict.wrong)
        return fail_verdict(a, first + verdict.thread, &verdict);
    if (stores(a))
        memcpy(r->data + at, lane_bytes, bytes);
    else
        for (int k = 0; k < (same ? lanes : 1); k++)
            memcpy(lane_bytes + (size_t)k * bytes, r->data + at, bytes);
    return true;
}

/* Returns how many lanes from `first` on lie one behind the other, or all at one place. */
static int run_length(const access *a, int first, bool *same)
{
    const uint64_t here = a->address[first];
    int end = first + 1;
    uint64_t step = a->each;
    *same = !stores(a) && end < PTX_LANES && a->mask >> end & 1 && a->address[end] == here;
    if (*same)
        step = 0;
    for (uint64_t next = here + step;
         end < PTX_LANES && a->mask >> end & 1 && a->address[end] == next; next += step)
        end++;
    return end - first;
}

static bool do_runs(access *a)
{
    for (int lane = 0; lane < PTX_LANES;) {
        bool same;
        if (!(a->mask >> lane & 1)) {
            lane++;
            continue;
        }
        const int lanes = run_length(a, lane, &same);
        if (!do_run(a, lane, lanes, same))
            return false;
        lane += lanes;
    }
    return true;
}

/* ---- counting -------------------------------------------------------------------------------- */

static void count(const access *a, ptx_space space)
{
    ptx_counts *counts = &a->x->f->counts;
    if (space == PTX_GLOBAL)
        ptx_count_global(counts, a->address, a->mask, a->each, stores(a));
    else if (space == PTX_SHARED_SPACE)
        ptx_count_shared(counts, a->address, a->mask, a->each);
}

static void chain_load(const access *a, ptx_space space)
{
    ptx_warp *w = a->w;
    uint32_t chain = *ptx_chain_at(w, a->i->a);
    if (space == PTX_SHARED_SPACE)
        chain = chain > a->x->shared_chain ? chain : a->x->shared_chain;
    else if (space == PTX_GLOBAL) {
        chain = (chain > w->fence ? chain : w->fence) + 1;
        w->deepest = chain > w->deepest ? chain : w->deepest;
    }
    for (int k = 0; k < a->i->count; k++)
        *ptx_chain_at(w, a->i->part[k]) = chain;
}

static void chain_store(const access *a, ptx_space space)
{
    for (int k = 0; k < a->i->count; k++) {
        const uint32_t chain = *ptx_chain_at(a->w, a->i->part[k]);
        ptx_use(a->w, chain);
        if (space == PTX_SHARED_SPACE && chain > a->x->shared_chain)
            a->x->shared_chain = chain;
    }
}

/* ---- copies that are under way --------------------------------------------------------------- */

typedef struct copy {
    ptx_instruction to;
    uint32_t mask;
    uint64_t address[PTX_LANES], from[PTX_LANES];
    unsigned char bytes[PTX_LANES * 4];
} copy;

/* By warp: the copies for which it has not waited. */
static struct {
    copy *list;
    int count, room;
} copies[PTX_WARPS];

static copy *add_copy(const ptx_warp *w)
{
    const unsigned k = w->first / PTX_LANES;
    if (copies[k].count == copies[k].room) {
        copies[k].room = copies[k].room ? 2 * copies[k].room : 16;
        copies[k].list = realloc(copies[k].list, (size_t)copies[k].room * sizeof(copy));
        if (!copies[k].list)
            ptx_new(SIZE_MAX);
    }
    return &copies[k].list[copies[k].count++];
}

/* For each byte of the block's shared memory whether a copy under way will write it; how many copies are
 * under way. */
static unsigned char *arriving;
static size_t arriving_bytes;
static int under_way;

static void mark_arriving(const ptx_run_state *x, const copy *c, bool arrives)
{
    if (arriving_bytes < x->shared.bytes) {
        arriving = realloc(arriving, x->shared.bytes);
        if (!arriving)
            ptx_new(SIZE_MAX);
        memset(arriving + arriving_bytes, 0, x->shared.bytes - arriving_bytes);
        arriving_bytes = x->shared.bytes;
    }
    for (int lane = 0; lane < PTX_LANES; lane++)
        if (c->mask >> lane & 1)
            memset(arriving + (c->address[lane] - x->shared.base), arrives, 4);
}

static bool is_source(uint64_t address, unsigned bytes)
{
    for (int k = 0; k < PTX_WARPS; k++)
        for (int n = 0; n < copies[k].count; n++)
            for (int lane = 0; lane < PTX_LANES; lane++) {
                const copy *c = &copies[k].list[n];
                if (c->mask >> lane & 1 && address < c->from[lane] + 4 &&
                    c->from[lane] < address + bytes)
                    return true;
            }
    return false;
}

static bool is_arriving(const ptx_run_state *x, uint64_t address, unsigned bytes)
{
    const uint64_t at = address - x->shared.base;
    return at < arriving_bytes && bytes <= arriving_bytes - at && memchr(arriving + at, 1, bytes);
}

/* Fails a write to what a copy under way will write or, perhaps, has yet to read. Its own thread's are
 * no better than those of others, with or without a barrier between. */
static bool check_copies(const access *a, ptx_space space)
{
    for (int lane = 0; lane < PTX_LANES && under_way > 0; lane++) {
        const uint64_t address = a->address[lane];
        if (!(a->mask >> lane & 1))
            continue;
        const bool to = space == PTX_SHARED_SPACE && is_arriving(a->x, address, a->each);
        if (to || (space == PTX_GLOBAL && is_source(address, a->each)))
            return ptx_run_fault(a->x, a->w, a->i, lane,
                                 "a write at %#llx while a copy (cp.async) %s it is under way",
                                 (unsigned long long)address, to ? "to" : "from");
    }
    return true;
}

/* ---- one instruction ------------------------------------------------------------------------- */

static bool check_space(const access *a, ptx_space space, int first)
{
    if (a->i->space == PTX_GENERIC || a->i->space == space)
        return true;
    return ptx_run_fault(a->x, a->w, a->i, first, "an address of another space: %#llx",
                         (unsigned long long)a->address[first]);
}

bool ptx_access(ptx_run_state *x, ptx_warp *w, const ptx_instruction *i, uint32_t mask)
{
    access a;
    a.x = x, a.w = w, a.i = i, a.mask = mask;
    a.each = (unsigned)i->size * i->count;
    const mover *m = mover_of(i);
    if (!m)
        return ptx_run_fault(x, w, i, 0, "elements of %d bytes for registers of %d", i->size,
                             i->wide);
    find_addresses(&a);
    const int first = __builtin_ctz(mask);
    const ptx_space space = space_of(a.address[first]);
    if (!check_space(&a, space, first) || (space == PTX_LOCAL_SPACE && !place_local(&a)))
        return false;
    if (stores(&a) && !check_copies(&a, space))
        return false;
    if (stores(&a))
        for (int k = 0; k < i->count; k++)
            m->store(&a, ptx_at(w, i->part[k]), a.bytes + k * i->size);
    if (!do_runs(&a))
        return false;
    count(&a, space);
    if (stores(&a)) {
        chain_store(&a, space);
        return true;
    }
    for (int k = 0; k < i->count; k++)
        m->load(&a, ptx_at(w, i->part[k]), a.bytes + k * i->size);
    chain_load(&a, space);
    return true;
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* Does the loads of a copy, or its stores, with the bytes of `c`, which begins or arrives. */
static bool do_copy(ptx_run_state *x, ptx_warp *w, const ptx_instruction *i, bool begins, copy *c)
{
    access a = {.x = x, .w = w, .i = i, .mask = c->mask, .each = 4};
    memcpy(a.address, c->address, sizeof a.address);
    memcpy(a.bytes, c->bytes, sizeof c->bytes);
    const int first = __builtin_ctz(c->mask);
    if (!check_space(&a, space_of(a.address[first]), first) ||
        (begins && !check_copies(&a, i->space)) || !do_runs(&a))
        return false;
    memcpy(c->bytes, a.bytes, sizeof c->bytes);
    return true;
}

bool ptx_copy(ptx_run_state *x, ptx_warp *w, const ptx_instruction *i, uint32_t mask)
{
    copy c = {.to = *i, .mask = mask}, load = c;
    memcpy(load.address, ptx_at(w, i->b), sizeof load.address);
    load.to.kind = PTX_LOAD_KIND;
    load.to.space = PTX_GLOBAL;
    if (!do_copy(x, w, &load.to, false, &load))
        return false;
    ptx_count_global(&x->f->counts, load.address, mask, 4, false);
    memcpy(c.from, load.address, sizeof c.from);
    memcpy(c.bytes, load.bytes, sizeof c.bytes);
    memcpy(c.address, ptx_at(w, i->a), sizeof c.address);
    c.to.kind = PTX_STORE_KIND;
    c.to.space = PTX_SHARED_SPACE;
    if (!do_copy(x, w, &c.to, true, &c)) /* it may arrive at once */
        return false;
    for (int lane = 0; lane < PTX_LANES; lane++)
        if (mask >> lane & 1)
            memset(x->shared.written + (c.address[lane] - x->shared.base), 0, 4);
    mark_arriving(x, &c, true);
    under_way++;
    *add_copy(w) = c;
    return true;
}

bool ptx_wait_copies(ptx_run_state *x, ptx_warp *w, uint32_t mask)
{
    const unsigned k = w->first / PTX_LANES;
    int left = 0;
    for (int n = 0; n < copies[k].count; n++) {
        copy c = copies[k].list[n];
        const uint32_t others = c.mask & ~mask;
        c.mask &= mask;
        if (c.mask && !do_copy(x, w, &c.to, false, &c))
            return false;
        mark_arriving(x, &c, false);
        if (c.mask)
            ptx_count_shared(&x->f->counts, c.address, c.mask, 4);
        c.mask = others;
        if (others)
            copies[k].list[left++] = c;
    }
    under_way -= copies[k].count - left;
    copies[k].count = left;
    return true;
}

void ptx_forget_copies(void)
{
    for (int k = 0; k < PTX_WARPS; k++)
        copies[k].count = 0;
    if (under_way > 0)
        memset(arriving, 0, arriving_bytes);
    under_way = 0;
}

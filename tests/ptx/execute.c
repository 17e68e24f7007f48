/* Runs the blocks of a launch. A warp runs until it waits at a barrier or has ended, then the next
 * warp of its block does.
 *
 * Where the lanes of a warp take both ways of a branch, they become two groups on the warp's stack,
 * above the group that they make together again where both ways meet (flow.c). */
#include <fenv.h>
#include <stdlib.h>
#include <string.h>

#include "ptx/run.h"

/* ---- groups of lanes ------------------------------------------------------------------------- */

static ptx_group *top(ptx_warp *w)
{
    return &w->stack[w->depth - 1];
}

/* Goes back to groups that were put aside as long as the one that runs has come to where it meets
 * others, or has ended. Returns false when no lane is left. */
static bool settle(ptx_warp *w)
{
    while (w->depth > 0 && (top(w)->pc == top(w)->rejoin || !(top(w)->mask & w->alive)))
        w->depth--;
    return w->depth > 0;
}

static bool push(ptx_run_state *x, ptx_warp *w, const ptx_instruction *i, ptx_group group)
{
    if (w->depth == PTX_STACK)
        return ptx_run_fault(x, w, i, 0, "more than %d groups of diverged lanes", PTX_STACK);
    w->stack[w->depth++] = group;
    return true;
}

/* Splits the group: `taken` lanes go to the target. */
static bool diverge(ptx_run_state *x, ptx_warp *w, const ptx_instruction *i, uint32_t active,
                    uint32_t taken)
{
    const int next = (int)(i - x->f->code) + 1;
    if (i->rejoin < 0 || top(w)->rejoin == i->rejoin)
        w->depth--; /* what lies below continues where both meet */
    else
        top(w)->pc = i->rejoin;
    return push(x, w, i, (ptx_group){next, i->rejoin, active & ~taken}) &&
           push(x, w, i, (ptx_group){i->target, i->rejoin, taken});
}

static bool branch(ptx_run_state *x, ptx_warp *w, const ptx_instruction *i, uint32_t active,
                   uint32_t taken)
{
    if (i->guard >= 0)
        w->fence = w->used > w->fence ? w->used : w->fence;
    if (taken && taken != active)
        return diverge(x, w, i, active, taken);
    top(w)->pc = taken ? i->target : (int)(i - x->f->code) + 1;
    return true;
}

/* ---- instructions on registers --------------------------------------------------------------- */

#define KEEP(R, d, result, mask)                                                                   \
    for (int lane = 0; lane < PTX_LANES; lane++)                                                   \
    ((R *)(d))[lane] = (mask) >> lane & 1 ? ((const R *)(result))[lane] : ((R *)(d))[lane]

static void keep(void *d, const void *result, unsigned size, uint32_t mask)
{
    if (size == 4) {
        KEEP(u32, d, result, mask);
    } else if (size == 8) {
        KEEP(u64, d, result, mask);
    } else {
        KEEP(u16, d, result, mask);
    }
}

static void keep_predicate(ptx_warp *w, int p, uint32_t result, uint32_t mask)
{
    w->predicate[p] = (w->predicate[p] & ~mask) | (result & mask);
}

static void chain_from(ptx_warp *w, const ptx_instruction *i)
{
    const uint32_t a = *ptx_chain_at(w, i->a), b = *ptx_chain_at(w, i->b),
                   c = *ptx_chain_at(w, i->c);
    const uint32_t ab = a > b ? a : b, all = ab > c ? ab : c;
    *ptx_chain_at(w, i->d) = all;
    if (!i->moves)
        ptx_use(w, all);
}

static void compute(ptx_warp *w, const ptx_instruction *i, uint32_t mask)
{
    uint64_t result[PTX_LANES] __attribute__((aligned(64)));
    const bool all = mask == (uint32_t)PTX_FULL;
    i->fn(all ? ptx_at(w, i->d) : result, ptx_at(w, i->a), ptx_at(w, i->b), ptx_at(w, i->c));
    if (!all)
        keep(ptx_at(w, i->d), result, i->size, mask);
    chain_from(w, i);
}

static void set_predicate(ptx_warp *w, const ptx_instruction *i, uint32_t mask)
{
    uint32_t result;
    i->fn(&result, ptx_at(w, i->a), ptx_at(w, i->b), NULL);
    ptx_use(w, *ptx_chain_at(w, i->a));
    ptx_use(w, *ptx_chain_at(w, i->b));
    if (i->p[1] >= 0) { /* combined with another one */
        const uint32_t other = w->predicate[i->p[1]];
        result = i->mode == PTX_AND  ? result & other
                 : i->mode == PTX_OR ? result | other
                                     : result ^ other;
    }
    keep_predicate(w, i->p[0], result, mask);
}

static void logic(ptx_warp *w, const ptx_instruction *i, uint32_t mask)
{
    const uint32_t a = i->p[1] >= 0 ? w->predicate[i->p[1]] : (uint32_t)i->offset,
                   b = i->p[2] >= 0 ? w->predicate[i->p[2]] : (uint32_t)i->offset;
    const uint32_t result = i->mode == PTX_AND   ? a & b
                            : i->mode == PTX_OR  ? a | b
                            : i->mode == PTX_XOR ? a ^ b
                            : i->mode == PTX_NOT ? ~a
                                                 : a;
    keep_predicate(w, i->p[0], result, mask);
}

static void choose(ptx_warp *w, const ptx_instruction *i, uint32_t mask)
{
    uint64_t result[PTX_LANES] __attribute__((aligned(64)));
    const size_t bytes = (size_t)i->size * PTX_LANES;
    memcpy(result, ptx_at(w, i->b), bytes);
    keep(result, ptx_at(w, i->a), i->size, w->predicate[i->p[0]]);
    keep(ptx_at(w, i->d), result, i->size, mask);
    chain_from(w, i);
}

/* Returns b with `length` bits of a in the place of its own from bit `at` on. */
static uint64_t inserted(uint64_t a, uint64_t b, unsigned at, unsigned length)
{
    const uint64_t ones = length >= 64 ? UINT64_MAX : (UINT64_C(1) << length) - 1;
    return at >= 64 ? b : (b & ~(ones << at)) | (a & ones) << at;
}

static void insert(ptx_warp *w, const ptx_instruction *i, uint32_t mask)
{
    const u32 *at = ptx_at(w, i->c), *length = ptx_at(w, i->part[0]);
    const u32 *a = ptx_at(w, i->a), *b = ptx_at(w, i->b);
    const u64 *long_a = ptx_at(w, i->a), *long_b = ptx_at(w, i->b);
    uint64_t result[PTX_LANES] __attribute__((aligned(64)));
    for (int lane = 0; lane < PTX_LANES; lane++)
        if (i->size == 8)
            result[lane] = inserted(long_a[lane], long_b[lane], at[lane] & 255, length[lane] & 255);
        else
            ((u32 *)(void *)result)[lane] =
                (u32)inserted(a[lane], b[lane], at[lane] & 255, length[lane] & 255);
    keep(ptx_at(w, i->d), result, i->size, mask);
    chain_from(w, i);
}

/* Moves between a register and `count` registers that are its parts, the lowest first. */
static void repack(ptx_warp *w, const ptx_instruction *i, uint32_t mask)
{
    unsigned char *whole = ptx_at(w, i->d);
    const unsigned part = i->size, bytes = part * i->count;
    for (int k = 0; k < i->count; k++) {
        unsigned char *at = ptx_at(w, i->part[k]);
        for (unsigned lane = 0; lane < PTX_LANES; lane++) {
            if (!(mask >> lane & 1))
                continue;
            if (i->kind == PTX_PACK)
                memcpy(whole + lane * bytes + (unsigned)k * part, at + lane * part, part);
            else
                memcpy(at + lane * part, whole + lane * bytes + (unsigned)k * part, part);
        }
        if (i->kind == PTX_UNPACK)
            *ptx_chain_at(w, i->part[k]) = *ptx_chain_at(w, i->d);
        else if (k == 0 || *ptx_chain_at(w, i->part[k]) > *ptx_chain_at(w, i->d))
            *ptx_chain_at(w, i->d) = *ptx_chain_at(w, i->part[k]);
    }
}

/* ---- a warp ---------------------------------------------------------------------------------- */

static bool wait(ptx_run_state *x, ptx_warp *w, const ptx_instruction *i, uint32_t mask)
{
    if (mask != w->alive)
        return ptx_run_fault(x, w, i, __builtin_ctz(mask),
                             "a barrier that only lanes %#x of %#x reach", mask, w->alive);
    w->waits_at = (int)(i - x->f->code);
    return true;
}

/* Does an instruction that only moves registers or memory. */
static bool step(ptx_run_state *x, ptx_warp *w, const ptx_instruction *i, uint32_t mask)
{
    switch ((ptx_kind)i->kind) {
    case PTX_ALU:
        compute(w, i, mask);
        return true;
    case PTX_SET:
        set_predicate(w, i, mask);
        return true;
    case PTX_PREDICATE:
        logic(w, i, mask);
        return true;
    case PTX_INSERT:
        insert(w, i, mask);
        return true;
    case PTX_SELECT:
        choose(w, i, mask);
        return true;
    case PTX_PACK:
    case PTX_UNPACK:
        repack(w, i, mask);
        return true;
    case PTX_SHUFFLE_KIND:
        return ptx_shuffle_lanes(x, w, i, mask);
    case PTX_MMA_KIND:
        return ptx_multiply(x, w, i, mask);
    case PTX_COPY_KIND:
        return ptx_copy(x, w, i, mask);
    case PTX_COPIED:
        return ptx_wait_copies(x, w, mask);
    default:
        return ptx_access(x, w, i, mask);
    }
}

/* Runs until the warp waits or ends. */
static bool run_warp(ptx_run_state *x, ptx_warp *w)
{
    w->waits_at = -1;
    while (settle(w)) {
        const ptx_instruction *i = &x->f->code[top(w)->pc];
        const uint32_t active = top(w)->mask & w->alive;
        uint32_t mask = active;
        if (i->guard >= 0)
            mask &= i->negated ? ~w->predicate[i->guard] : w->predicate[i->guard];
        x->f->hits[i - x->f->code]++;
        x->f->lanes[i - x->f->code] += (unsigned)__builtin_popcount(mask);
        if (i->kind == PTX_BRANCH_KIND) {
            if (!branch(x, w, i, active, mask))
                return false;
            continue;
        }
        top(w)->pc++;
        if (!mask)
            continue;
        if (i->kind == PTX_RETURN)
            w->alive &= ~mask;
        else if (i->kind == PTX_BARRIER_KIND)
            return wait(x, w, i, mask);
        else if (!step(x, w, i, mask))
            return false;
    }
    return true;
}

/* ---- a block --------------------------------------------------------------------------------- */

static void fill(uint32_t *list, uint32_t value)
{
    for (int lane = 0; lane < PTX_LANES; lane++)
        list[lane] = value;
}

static void set_specials(const ptx_run_state *x, ptx_warp *w)
{
    uint32_t *s = (uint32_t *)w->place[PTX_SPECIAL_REGISTER];
    for (unsigned lane = 0; lane < PTX_LANES; lane++) {
        const unsigned t = w->first + lane;
        s[PTX_TID_X * PTX_LANES + lane] = t % x->block[0];
        s[PTX_TID_Y * PTX_LANES + lane] = t / x->block[0] % x->block[1];
        s[PTX_TID_Z * PTX_LANES + lane] = t / x->block[0] / x->block[1];
        s[PTX_LANEID * PTX_LANES + lane] = lane;
    }
    for (int k = 0; k < 3; k++) {
        fill(s + (PTX_NTID_X + k) * PTX_LANES, x->block[k]);
        fill(s + (PTX_CTAID_X + k) * PTX_LANES, x->at[k]);
        fill(s + (PTX_NCTAID_X + k) * PTX_LANES, x->grid[k]);
    }
}

static void start_warp(ptx_run_state *x, ptx_warp *w)
{
    const unsigned left = x->threads - w->first;
    w->all = left >= PTX_LANES ? UINT32_MAX : (UINT32_C(1) << left) - 1;
    w->alive = w->all;
    w->stack[0] = (ptx_group){0, -1, w->alive};
    w->depth = 1;
    w->fence = w->used = w->deepest = 0;
    memset(w->chain, 0, x->f->registers / 64 * sizeof *w->chain);
    set_specials(x, w);
}

/* Fails unless all warps wait at the same barrier; sets `ended` where all have ended. */
static bool meet(ptx_run_state *x, bool *ended)
{
    const ptx_warp *waiting = NULL, *gone = NULL;
    for (unsigned k = 0; k < x->warps; k++) {
        const ptx_warp *w = &x->warp[k];
        if (w->waits_at < 0)
            gone = w;
        else if (waiting && waiting->waits_at != w->waits_at)
            return ptx_run_fault(
                x, w, &x->f->code[w->waits_at], 0,
                "a barrier, while the warp of thread %u waits at another one, line %d",
                waiting->first, x->f->code[waiting->waits_at].line);
        else
            waiting = w;
    }
    *ended = !waiting;
    for (unsigned k = 0; k < x->warps && waiting; k++)
        if (gone || x->warp[k].alive != x->warp[k].all)
            return ptx_run_fault(
                x, waiting, &x->f->code[waiting->waits_at], 0,
                "a barrier that other threads of the block do not reach: they have returned");
    return true;
}

/* Behind a barrier all warps wait for the loads of all. */
static void pass_barrier(ptx_run_state *x)
{
    uint32_t deepest = 0;
    for (unsigned k = 0; k < x->warps; k++)
        deepest = x->warp[k].deepest > deepest ? x->warp[k].deepest : deepest;
    for (unsigned k = 0; k < x->warps; k++)
        x->warp[k].deepest = x->warp[k].fence = deepest;
    x->barriers++;
}

/* Forgets what earlier blocks wrote. */
static void clear(ptx_region *region)
{
    region->epoch++;
    if (region->bytes)
        memset(region->written, 0, region->bytes);
}

static bool run_block(ptx_run_state *x, unsigned first)
{
    bool ended = false;
    x->barriers = 0;
    x->shared_chain = 0;
    clear(&x->shared);
    clear(&x->local);
    ptx_forget_copies();
    for (unsigned k = 0; k < x->warps; k++)
        start_warp(x, &x->warp[k]);
    while (!ended) {
        for (unsigned k = 0; k < x->warps; k++)
            if (!run_warp(x, &x->warp[(first + k) % x->warps]))
                return false;
        if (!meet(x, &ended))
            return false;
        if (!ended)
            pass_barrier(x);
    }
    for (unsigned k = 0; k < x->warps; k++)
        if (x->warp[k].deepest > x->f->counts.chain)
            x->f->counts.chain = x->warp[k].deepest;
    return true;
}

/* ---- a launch -------------------------------------------------------------------------------- */

/* The memory of warps, kept from launch to launch. */
static unsigned char *store;
static size_t store_bytes;

static size_t rounded(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static void place_warps(ptx_run_state *x)
{
    const ptx_function *f = x->f;
    const size_t specials = PTX_SREGS * PTX_LANES * sizeof(uint32_t),
                 predicates = rounded((size_t)f->predicates * 4),
                 chains = rounded(f->registers / 64 * 4),
                 warp = rounded(f->registers) + specials + predicates + chains;
    if (warp * x->warps > store_bytes) {
        free(store);
        store_bytes = warp * x->warps;
        store = aligned_alloc(64, store_bytes);
        if (!store)
            ptx_new(SIZE_MAX);
    }
    memset(store, 0, warp * x->warps);
    for (unsigned k = 0; k < x->warps; k++) {
        ptx_warp *w = &x->warp[k];
        unsigned char *at = store + k * warp;
        w->first = k * PTX_LANES;
        w->place[PTX_CONSTANT] = f->constant;
        w->place[PTX_REGISTER] = at;
        w->place[PTX_SPECIAL_REGISTER] = at += rounded(f->registers);
        w->predicate = (uint32_t *)(at += specials);
        w->chain = (uint32_t *)(at + predicates);
    }
}

static void place_memory(ptx_run_state *x, const void *args)
{
    ptx_function *f = x->f;
    const size_t local = f->local_bytes * x->threads;
    ptx_region_make(&x->shared, PTX_SHARED_BASE, ptx_new(f->shared_bytes), f->shared_bytes);
    ptx_region_make(&x->local, PTX_LOCAL_BASE, ptx_new(local), local);
    ptx_region_make(&x->param, PTX_PARAM_BASE, ptx_new(f->args_bytes), f->args_bytes);
    if (f->args_bytes) {
        memcpy(x->param.data, args, f->args_bytes);
        memset(x->param.written, 1, f->args_bytes);
    }
    x->local.private = x->param.private = true;
}

static void drop_memory(ptx_run_state *x)
{
    ptx_region *const list[] = {&x->shared, &x->local, &x->param};
    for (int k = 0; k < 3; k++) {
        free(list[k]->data);
        ptx_region_drop(list[k]);
    }
}

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* Blocks in a random order. */
static bool run_blocks(ptx_run_state *x, uint64_t seed)
{
    const unsigned total = x->grid[0] * x->grid[1] * x->grid[2];
    unsigned *order = ptx_new(total * sizeof *order);
    bool ok = true;
    for (unsigned i = 0; i < total; i++) {
        const unsigned j = (unsigned)(next_random(&seed) % (i + 1));
        order[i] = order[j];
        order[j] = i;
    }
    for (unsigned i = 0; i < total && ok; i++) {
        x->number = order[i];
        x->at[0] = order[i] % x->grid[0];
        x->at[1] = order[i] / x->grid[0] % x->grid[1];
        x->at[2] = order[i] / x->grid[0] / x->grid[1];
        ok = run_block(x, (unsigned)(next_random(&seed) % x->warps));
    }
    free(order);
    return ok;
}

bool ptx_launch(ptx_function *f, const unsigned grid[3], const unsigned block[3], const void *args,
                uint64_t seed, char fault[PTX_FAULT])
{
    static ptx_run_state state; /* too large for a thread's stack */
    ptx_run_state *x = &state;
    fenv_t environment;
    *x = (ptx_run_state){.f = f, .fault = fault};
    memcpy(x->grid, grid, sizeof x->grid);
    memcpy(x->block, block, sizeof x->block);
    x->threads = block[0] * block[1] * block[2];
    x->warps = (x->threads + PTX_LANES - 1) / PTX_LANES;
    if (x->threads == 0 || x->threads > PTX_THREADS)
        return ptx_fault(fault, "%s: a block of %u threads", f->name, x->threads);
    place_warps(x);
    place_memory(x, args);
    ptx_regions_begin();
    fegetenv(&environment);
    fesetenv(FE_DFL_ENV); /* denormals count, whatever the caller's mode */
    const bool ok = run_blocks(x, seed);
    fesetenv(&environment);
    drop_memory(x);
    f->counts.launches++;
    f->counts.blocks += grid[0] * grid[1] * grid[2];
    f->counts.warps += (uint64_t)grid[0] * grid[1] * grid[2] * x->warps;
    return ok;
}

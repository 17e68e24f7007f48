#include "ptx/memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ptx/form.h"

enum { PAGE = 4096, LARGEST_GRANULE = 2 /* 4 bytes */ };

/* ---- regions --------------------------------------------------------------------------------- */

void ptx_region_make(ptx_region *region, uint64_t base, void *data, size_t bytes)
{
    const size_t pages = (bytes + PAGE - 1) / PAGE, threads = pages * PAGE * sizeof(uint64_t);
    *region = (ptx_region){.base = base, .bytes = bytes, .data = data, .epoch = 1};
    region->shadow_bytes = 2 * threads + pages * PAGE + pages * sizeof(ptx_page);
    if (!bytes)
        return;
    /* Zeroed, and used only where the memory itself is. */
    region->shadow = mmap(NULL, region->shadow_bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (region->shadow == MAP_FAILED)
        ptx_new(SIZE_MAX); /* ends the process */
    region->writer = region->shadow;
    region->reader = region->writer + pages * PAGE;
    region->written = (unsigned char *)(region->reader + pages * PAGE);
    region->page = (ptx_page *)(region->written + pages * PAGE);
}

void ptx_region_drop(ptx_region *region)
{
    if (region->bytes)
        munmap(region->shadow, region->shadow_bytes);
    *region = (ptx_region){0};
}

/* The GPU's memory, by address. */
static ptx_region *regions;
static int count, room;

/* Returns how many regions begin at or in front of the address. */
static int begin_before(uint64_t address)
{
    int low = 0, high = count;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (regions[middle].base <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

ptx_region *ptx_region_of(uint64_t address)
{
    const int i = begin_before(address) - 1;
    return i >= 0 && address - regions[i].base < regions[i].bytes ? &regions[i] : NULL;
}

const ptx_region *ptx_region_before(uint64_t address)
{
    const int i = begin_before(address) - 1;
    return i >= 0 ? &regions[i] : NULL;
}

void ptx_region_add(void *data, size_t bytes)
{
    if (count == room) {
        room = room ? 2 * room : 64;
        regions = realloc(regions, (size_t)room * sizeof *regions);
        if (!regions)
            ptx_new(SIZE_MAX);
    }
    const uint64_t base = (uint64_t)(uintptr_t)data;
    const int i = begin_before(base);
    memmove(&regions[i + 1], &regions[i], (size_t)(count - i) * sizeof *regions);
    ptx_region_make(&regions[i], base, data, bytes);
    count++;
}

void ptx_region_remove(void *data)
{
    ptx_region *region = ptx_region_of((uint64_t)(uintptr_t)data);
    if (!region)
        return;
    ptx_region_drop(region);
    count--;
    memmove(region, region + 1, (size_t)(count - (region - regions)) * sizeof *regions);
}

void ptx_region_wrote(const void *data, size_t bytes)
{
    const uint64_t address = (uint64_t)(uintptr_t)data;
    const ptx_region *region = ptx_region_of(address);
    if (region)
        memset(region->written + (address - region->base), 1, bytes);
}

void ptx_region_copied(const void *to, const void *from, size_t bytes)
{
    const uint64_t source = (uint64_t)(uintptr_t)from, target = (uint64_t)(uintptr_t)to;
    const ptx_region *a = ptx_region_of(source), *b = ptx_region_of(target);
    if (a && b)
        memmove(b->written + (target - b->base), a->written + (source - a->base), bytes);
}

void ptx_regions_begin(void)
{
    for (int i = 0; i < count; i++)
        regions[i].epoch++;
}

/* ---- threads --------------------------------------------------------------------------------- */

/* Makes the page's granules as small as the access; what is known of a large one holds for its
 * parts. */
static void refine(ptx_region *r, size_t number, uint32_t shift)
{
    ptx_page *page = &r->page[number];
    uint64_t *const list[2] = {r->writer + number * PAGE, r->reader + number * PAGE};
    const uint32_t more = page->shift - shift;
    for (int k = 0; k < 2; k++)
        for (size_t i = PAGE >> shift; i-- > 0;)
            list[k][i] = list[k][i >> more];
    page->shift = shift;
}

/* Makes the page ready for an access with granules of at most 1 << shift bytes. */
static void open_page(ptx_region *r, size_t number, uint32_t shift)
{
    ptx_page *page = &r->page[number];
    if (page->epoch != r->epoch) {
        memset(r->writer + number * PAGE, 0, (PAGE >> shift) * sizeof *r->writer);
        memset(r->reader + number * PAGE, 0, (PAGE >> shift) * sizeof *r->reader);
        *page = (ptx_page){r->epoch, shift};
    } else if (page->shift > shift)
        refine(r, number, shift);
}

/* Returns whether what `a` did is not ordered before what `b` does now. */
static bool collide(ptx_who a, ptx_who b)
{
    if (a == PTX_ANYBODY || (a ^ b) >> 32)
        return true;
    return a >> 12 == b >> 12 && ptx_who_thread(a) != ptx_who_thread(b);
}

/* Returns the readers so far with one more: earlier readers of the block are ordered before it. */
static ptx_who add_reader(ptx_who readers, ptx_who who)
{
    if (!readers || readers == who)
        return who;
    if (readers == PTX_ANYBODY || (readers ^ who) >> 32)
        return PTX_ANYBODY;
    return readers >> 12 == who >> 12 ? who | PTX_SEVERAL : who;
}

static ptx_who or_all(const uint64_t *list, size_t n)
{
    uint64_t all = 0;
    for (size_t i = 0; i < n; i++)
        all |= list[i];
    return all;
}

/* The part of a run that lies in one page: `n` granules, the first of them `done` bytes behind the
 * run's begin. */
typedef struct part {
    uint64_t *writer, *reader;
    size_t n, done;
    uint32_t shift;
} part;

static int thread_of(const ptx_run *run, const part *p, size_t granule)
{
    return run->same ? 0 : (int)((p->done + (granule << p->shift)) / run->each);
}

static ptx_verdict judge_load(const ptx_run *run, const part *p)
{
    const bool fresh = !or_all(p->writer, p->n);
    for (size_t i = 0; i < p->n; i++) {
        const int thread = thread_of(run, p, i);
        const ptx_who who = run->who + (uint64_t)thread;
        if (!fresh && p->writer[i] && (run->read_only || collide(p->writer[i], who)))
            return (ptx_verdict){run->read_only ? PTX_NOT_READ_ONLY : PTX_RACE, thread,
                                 p->writer[i], true};
        if (run->read_only)
            p->reader[i] = PTX_ANYBODY;
        else
            p->reader[i] =
                add_reader(p->reader[i], run->same && run->threads > 1 ? who | PTX_SEVERAL : who);
    }
    return (ptx_verdict){0};
}

/* A thread may write what stands there already: whoever comes last, the memory is the same. */
static bool writes_the_same(const ptx_region *r, const ptx_run *run, const part *p, size_t granule)
{
    const size_t at = p->done + (granule << p->shift);
    return memcmp(r->data + run->at + at, run->value + at, (size_t)1 << p->shift) == 0;
}

static ptx_verdict judge_store(const ptx_region *r, const ptx_run *run, const part *p)
{
    const bool fresh = !(or_all(p->writer, p->n) | or_all(p->reader, p->n));
    for (size_t i = 0; i < p->n; i++) {
        const int thread = thread_of(run, p, i);
        const ptx_who who = run->who + (uint64_t)thread;
        if (!fresh && p->reader[i] && collide(p->reader[i], who))
            return (ptx_verdict){PTX_RACE, thread, p->reader[i], false};
        if (!fresh && p->writer[i] && collide(p->writer[i], who) && !writes_the_same(r, run, p, i))
            return (ptx_verdict){PTX_RACE, thread, p->writer[i], true};
        p->writer[i] = who;
        p->reader[i] = 0;
    }
    return (ptx_verdict){0};
}

static ptx_verdict judge_threads(ptx_region *r, const ptx_run *run, size_t bytes)
{
    uint32_t wanted = 0;
    while (wanted < LARGEST_GRANULE && !(run->each & 1u << wanted))
        wanted++;
    for (size_t done = 0; done < bytes;) {
        const size_t at = run->at + done, number = at / PAGE, inside = at % PAGE;
        const size_t here = bytes - done < PAGE - inside ? bytes - done : PAGE - inside;
        open_page(r, number, wanted);
        const uint32_t shift = r->page[number].shift;
        const size_t first = number * PAGE + (inside >> shift);
        const part p = {r->writer + first, r->reader + first, here >> shift, done, shift};
        const ptx_verdict verdict = run->value ? judge_store(r, run, &p) : judge_load(run, &p);
        if (verdict.wrong)
            return verdict;
        done += here;
    }
    return (ptx_verdict){0};
}

ptx_verdict ptx_judge(ptx_region *r, const ptx_run *run)
{
    const size_t bytes = run->same ? run->each : run->each * (size_t)run->threads;
    unsigned char *written = r->written + run->at;
    if (run->value)
        memset(written, 1, bytes);
    else {
        const unsigned char *gap = memchr(written, 0, bytes);
        if (gap)
            return (ptx_verdict){PTX_UNWRITTEN,
                                 run->same ? 0 : (int)((size_t)(gap - written) / run->each), 0,
                                 false};
    }
    return r->private ? (ptx_verdict){0} : judge_threads(r, run, bytes);
}

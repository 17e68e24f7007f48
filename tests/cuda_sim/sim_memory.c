/* Device memory: host memory that the host may not touch. */
#include <string.h>
#include <sys/mman.h>

#include "sim.h"
#include "sim_ptx.h"

enum { PAGE = 4096, ALIGNMENT = 256, CANARY = 0xCB };

/* An allocation: [guard page][slack][memory, its end rounded up to 256][guard page]. */
typedef struct allocation {
    struct allocation *next;
    unsigned char *map, *data;
    size_t map_bytes, bytes;
    int device;
} allocation;

static allocation *first;
static bool unlocked;

static void protect(const allocation *a, int protection)
{
    if (mprotect(a->map + PAGE, a->map_bytes - 2 * PAGE, protection) != 0)
        sim_broken("mprotect failed");
}

void sim_unlock_memory(void)
{
    for (allocation *a = first; a; a = a->next)
        protect(a, PROT_READ | PROT_WRITE);
    unlocked = true;
}

void sim_lock_memory(void)
{
    for (allocation *a = first; a; a = a->next)
        protect(a, PROT_NONE);
    unlocked = false;
}

size_t sim_capacity(void)
{
    const char *text = getenv("KAS_SIM_MEMORY");
    return text ? (size_t)strtoull(text, NULL, 10) : (size_t)4 << 30;
}

size_t sim_used(int device)
{
    size_t used = 0;
    for (allocation *a = first; a; a = a->next)
        used += a->device == device ? a->bytes : 0;
    return used;
}

CUresult sim_alloc(int device, size_t bytes, void **out)
{
    if (bytes == 0)
        return KAS_CUDA_ERROR_INVALID_VALUE;
    if (bytes > sim_capacity() - sim_used(device))
        return KAS_CUDA_ERROR_OUT_OF_MEMORY;
    size_t rounded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT,
           pages = (rounded + PAGE - 1) / PAGE * PAGE;
    allocation *a = sim_new(sizeof *a);
    a->map_bytes = pages + 2 * PAGE;
    a->map = mmap(NULL, a->map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (a->map == MAP_FAILED) {
        free(a);
        return KAS_CUDA_ERROR_OUT_OF_MEMORY;
    }
    a->data = a->map + PAGE + pages - rounded;
    a->bytes = bytes;
    a->device = device;
    protect(a, PROT_READ | PROT_WRITE);
    memset(a->map + PAGE, CANARY, pages);
    memset(a->data, 0xFF, bytes); /* NaN in float32 */
    if (!unlocked)
        protect(a, PROT_NONE);
    a->next = first;
    first = a;
    if (sim_ptx())
        ptx_region_add(a->data, bytes);
    sim_live++;
    *out = a->data;
    return KAS_CUDA_SUCCESS;
}

static void check_canaries(const allocation *a)
{
    protect(a, PROT_READ | PROT_WRITE);
    for (const unsigned char *p = a->map + PAGE; p < a->data; p++)
        if (*p != CANARY)
            sim_broken("something wrote %zu bytes before an allocation of %zu bytes",
                       (size_t)(a->data - p), a->bytes);
    for (const unsigned char *p = a->data + a->bytes; p < a->map + a->map_bytes - PAGE; p++)
        if (*p != CANARY)
            sim_broken("something wrote %zu bytes behind an allocation of %zu bytes",
                       (size_t)(p - a->data) - a->bytes + 1, a->bytes);
}

bool sim_free(void *memory)
{
    for (allocation **link = &first; *link; link = &(*link)->next) {
        allocation *a = *link;
        if (a->data != memory)
            continue;
        check_canaries(a);
        *link = a->next;
        if (sim_ptx())
            ptx_region_remove(a->data);
        munmap(a->map, a->map_bytes);
        free(a);
        sim_live--;
        return true;
    }
    return false;
}

void sim_check_range(const char *what, int device, const void *p, size_t bytes)
{
    const unsigned char *start = p;
    for (const allocation *a = first; a; a = a->next)
        if (start >= a->data && start < a->data + a->bytes) {
            if (a->device != device)
                sim_broken("%s: memory of device %d used on device %d", what, a->device, device);
            if (bytes > (size_t)(a->data + a->bytes - start))
                sim_broken("%s: %zu bytes at offset %zu of an allocation of %zu bytes", what, bytes,
                           (size_t)(start - a->data), a->bytes);
            return;
        }
    sim_broken("%s: %p is not in any live allocation", what, p);
}

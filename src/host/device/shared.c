#include "host/device/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SLOT = 1 << 16, TURNS = 2, NONE = -1 };

/* Begins as zeros. */
typedef struct head {
    _Atomic uint32_t joined, arrived; /* ranks; arrivals at meetings, of all ranks together */
    _Atomic uint32_t aborted;         /* 1 + the first rank that aborted; 0 = none */
    _Atomic uint32_t left[KAS_SHARED_RANKS];
} head;

struct kas_shared {
    head *head;
    char *slots; /* [TURNS][ranks][SLOT] */
    size_t bytes;
    int file, rank, ranks;
    uint32_t meetings; /* of this rank */
    _Atomic bool aborted;
};

/* The id is "PROCESS FILE NAME", where FILE is open in that process. */
enum { NAME = 48 };

kas_status kas_shared_create(char id[KAS_SHARED_ID])
{
    uint64_t number[2];
    char name[NAME];
    KAS_CHECK_LIBC(getrandom(number, sizeof number, 0) == sizeof number, KAS_MACHINE);
    snprintf(name, sizeof name, "kas-group-%016llx%016llx", (unsigned long long)number[0],
             (unsigned long long)number[1]);
    const int file = memfd_create(name, MFD_CLOEXEC);
    KAS_CHECK_LIBC(file >= 0, KAS_MACHINE);
    snprintf(id, KAS_SHARED_ID, "%d %d %s", (int)getpid(), file, name);
    return KAS_OK;
}

/* Returns whether the file has this name: the process may be another one that has got the number of one
 * that has ended. */
static bool has_name(int file, const char *name)
{
    char path[64], is[128] = "", wanted[128];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    snprintf(wanted, sizeof wanted, "/memfd:%s (deleted)", name);
    return readlink(path, is, sizeof is - 1) > 0 && strcmp(is, wanted) == 0;
}

static kas_status open_memory(kas_shared *s, const char *id)
{
    int process, file;
    char name[NAME], path[64];
    if (sscanf(id, "%d %d %47s", &process, &file, name) != 3)
        return kas_fail(KAS_BAD_INPUT, "\"%.100s\" is not the id of a group", id);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", process, file);
    const bool own = s->rank == 0;
    const int opened = own ? file : open(path, O_RDWR | O_CLOEXEC | O_NOCTTY);
    if (opened < 0)
        return kas_fail(KAS_MACHINE, "the memory of rank 0 (%s) cannot be opened: %s", path,
                        kas_strerror(errno));
    if (has_name(opened, name)) {
        s->file = opened;
        return KAS_OK;
    }
    if (!own)
        close(opened);
    return kas_fail(KAS_MACHINE, "%s is not of rank 0, which has ended", path);
}

/* Locks the byte of a rank, or asks for a lock on it that would be in the way. */
static bool lock(const kas_shared *s, int rank, bool ask)
{
    struct flock at = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)s->bytes + rank, .l_len = 1};
    if (!ask)
        return fcntl(s->file, F_OFD_SETLK, &at) == 0;
    return fcntl(s->file, F_OFD_GETLK, &at) == 0 && at.l_type != F_UNLCK;
}

static kas_status map(kas_shared *s)
{
    /* Not ftruncate: where the memory is missing, the first write to it would end the process. */
    const int error = posix_fallocate(s->file, 0, (off_t)s->bytes);
    if (error != 0)
        return kas_fail(KAS_MACHINE, "no memory to share between %d processes: %s", s->ranks,
                        kas_strerror(error));
    void *memory = mmap(NULL, s->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->file, 0);
    if (memory == MAP_FAILED)
        return kas_fail(KAS_MACHINE, "shared memory cannot be mapped: %s", kas_strerror(errno));
    s->head = memory;
    s->slots = (char *)memory + SLOT;
    if (!lock(s, s->rank, false))
        return kas_fail(KAS_FAILURE, "there is a rank %d of %d already", s->rank, s->ranks);
    return KAS_OK;
}

kas_status kas_shared_join(const char *id, int rank, int ranks, kas_shared **out)
{
    *out = NULL;
    if (ranks < 1 || ranks > KAS_SHARED_RANKS || rank < 0 || rank >= ranks)
        return kas_fail(KAS_BAD_INPUT, "rank %d of %d: expected 0 to %d", rank, ranks,
                        KAS_SHARED_RANKS - 1);
    kas_shared *s = calloc(1, sizeof *s);
    if (!s)
        return kas_fail(KAS_NO_MEMORY, "no memory for a group of processes");
    *s = (kas_shared){.file = -1, .rank = rank, .ranks = ranks};
    s->bytes = SLOT + (size_t)TURNS * (size_t)ranks * SLOT; /* the head has a slot of its own */
    kas_status status = open_memory(s, id);
    if (status == KAS_OK)
        status = map(s);
    if (status != KAS_OK) {
        kas_shared_leave(s);
        return status;
    }
    s->head->joined++;
    *out = s;
    return KAS_OK;
}

bool kas_shared_complete(const kas_shared *s)
{
    return s->head->joined >= (uint32_t)s->ranks;
}

int kas_shared_look(kas_shared *s)
{
    if (!kas_shared_complete(s)) /* who is missing has not come yet */
        return NONE;
    for (int rank = 0; rank < s->ranks; rank++)
        if (rank != s->rank && !s->head->left[rank] && !lock(s, rank, true) &&
            !s->head->left[rank]) /* it may have left in between */
            return rank;
    return s->head->aborted ? (int)s->head->aborted - 1 : NONE;
}

static void wait_for_change(_Atomic uint32_t *word, uint32_t old)
{
    const struct timespec at_most = {0, 20000000}; /* an abort of another process wakes nobody */
    syscall(SYS_futex, word, FUTEX_WAIT, old, &at_most, NULL, 0);
}

/* Waits until all ranks have come here as often as this one. The count may wrap around. */
static bool meet(kas_shared *s)
{
    _Atomic uint32_t *arrived = &s->head->arrived;
    const uint32_t all = ++s->meetings * (uint32_t)s->ranks;
    const uint32_t now = atomic_fetch_add(arrived, 1) + 1;
    if (now == all)
        syscall(SYS_futex, arrived, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
    for (uint32_t seen = now; (int32_t)(seen - all) < 0; seen = *arrived) {
        if (s->aborted || s->head->aborted)
            return false;
        wait_for_change(arrived, seen);
    }
    return true;
}

/* Returns the slot of a rank in the turn that begins with the next meeting. */
static char *slot(const kas_shared *s, uint32_t turn, int rank)
{
    return s->slots + ((size_t)(turn % TURNS) * (size_t)s->ranks + (size_t)rank) * SLOT;
}

bool kas_shared_mean(kas_shared *s, float *values, size_t count)
{
    enum { PIECE = SLOT / sizeof(float) };
    const float share = 1 / (float)s->ranks;
    for (size_t from = 0; from < count; from += PIECE) {
        const size_t here = count - from < PIECE ? count - from : PIECE;
        const uint32_t turn = s->meetings;
        float *sum = values + from;
        memcpy(slot(s, turn, s->rank), sum, here * sizeof *sum);
        if (!meet(s))
            return false;
        memcpy(sum, slot(s, turn, 0), here * sizeof *sum);
        for (int rank = 1; rank < s->ranks; rank++) {
            const float *other = (const float *)(const void *)slot(s, turn, rank);
            for (size_t i = 0; i < here; i++)
                sum[i] += other[i];
        }
        for (size_t i = 0; i < here; i++)
            sum[i] *= share;
    }
    return true;
}

bool kas_shared_gather(kas_shared *s, void *all, size_t bytes)
{
    char *to = all;
    for (size_t from = 0; from < bytes; from += SLOT) {
        const size_t here = bytes - from < SLOT ? bytes - from : SLOT;
        const uint32_t turn = s->meetings;
        memcpy(slot(s, turn, s->rank), to + (size_t)s->rank * bytes + from, here);
        if (!meet(s))
            return false;
        for (int rank = 0; rank < s->ranks; rank++)
            if (rank != s->rank)
                memcpy(to + (size_t)rank * bytes + from, slot(s, turn, rank), here);
    }
    return true;
}

void kas_shared_abort(kas_shared *s)
{
    uint32_t none = 0;
    atomic_compare_exchange_strong(&s->head->aborted, &none, (uint32_t)s->rank + 1);
    s->aborted = true;
}

void kas_shared_leave(kas_shared *s)
{
    if (!s)
        return;
    if (s->head) {
        s->head->left[s->rank] = 1;
        munmap(s->head, s->bytes);
    }
    if (s->file >= 0)
        close(s->file);
    free(s);
}

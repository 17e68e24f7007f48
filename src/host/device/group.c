#include "host/device/group.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "host/core/clock.h"
#include "host/core/file/files.h"
#include "host/device/group_impl.h"

enum { POLL_MS = 50, GRACE_SECONDS = 30, NAME_BYTES = 112 };
static const char magic[16] = "kas-gpu group 1";

/* The file in which the ranks meet. */
typedef struct meeting {
    char magic[sizeof magic], name[NAME_BYTES], id[KAS_GROUP_ID];
} meeting;

static void pause_ms(int ms)
{
    const struct timespec t = {0, ms * 1000000};
    nanosleep(&t, NULL);
}

int kas_group_rank(const kas_group *group)
{
    return group ? group->rank : 0;
}

int kas_group_ranks(const kas_group *group)
{
    return group ? group->ranks : 1;
}

const char *kas_group_settings(const kas_group *group)
{
    return group->settings;
}

bool kas_group_captures(const kas_group *group)
{
    return group && group->capture;
}

/* ---- the meeting ----------------------------------------------------------------------------- */

static kas_status publish(const char *path, const kas_group_options *o, const char *id)
{
    meeting m = {0};
    memcpy(m.magic, magic, sizeof magic);
    snprintf(m.name, sizeof m.name, "%s", o->name);
    memcpy(m.id, id, sizeof m.id);
    return kas_file_write_atomic(path, &m, sizeof m);
}

/* Reads the id if it is there and of this attempt. */
static bool read_id(const char *path, const kas_group_options *o, char *id)
{
    meeting m;
    kas_buf file = {0};
    const bool whole = kas_file_exists(path) && kas_file_read(path, sizeof m, &file) == KAS_OK &&
                       file.size == sizeof m;
    if (whole)
        memcpy(&m, file.data, sizeof m);
    kas_buf_free(&file);
    if (!whole || memcmp(m.magic, magic, sizeof magic) != 0 ||
        strncmp(m.name, o->name, sizeof m.name) != 0)
        return false;
    memcpy(id, m.id, sizeof m.id);
    return true;
}

static kas_status get_id(kas_group *g, const char *path, const kas_group_options *o, char *id)
{
    if (g->rank == 0) {
        unlink(path);
        KAS_TRY(g->device->backend->group->id(g->device, id));
        return publish(path, o, id);
    }
    for (const double end = kas_monotonic() + o->timeout; !read_id(path, o, id); pause_ms(10))
        if (kas_monotonic() > end)
            return kas_fail(KAS_DEVICE,
                            "rank %d of %d: rank 0 has not begun after %g s: %s is not there or is "
                            "of another attempt",
                            g->rank, g->ranks, o->timeout, path);
    return KAS_OK;
}

static kas_status wait_for_all(kas_group *g)
{
    const double end = kas_monotonic() + g->timeout;
    for (bool joined = false;; pause_ms(5)) {
        KAS_TRY(g->device->backend->group->poll(g, &joined));
        if (joined)
            return KAS_OK;
        if (kas_monotonic() > end)
            return kas_fail(KAS_DEVICE, "not all ranks have joined after %g s", g->timeout);
    }
}

/* ---- the watcher ----------------------------------------------------------------------------- */

static void give_up(int number)
{
    (void)number;
    static const char text[] = "kas-gpu: the end of the group did not free this process; it ends\n";
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0) /* nothing is left to do about it */
        _exit(KAS_DEVICE);
    _exit(KAS_DEVICE);
}

static void give_up_after(unsigned seconds)
{
    const struct sigaction action = {.sa_handler = give_up};
    sigaction(SIGALRM, &action, NULL);
    alarm(seconds);
}

void kas_group_fail_locked(kas_group *g)
{
    if (g->failed)
        return;
    give_up_after(GRACE_SECONDS);
    snprintf(g->message, sizeof g->message, "%s", kas_error());
    g->failed = true;
}

static void fail(kas_group *g)
{
    pthread_mutex_lock(&g->lock);
    kas_group_fail_locked(g);
    pthread_mutex_unlock(&g->lock);
}

void kas_group_abort(kas_group *g, kas_status status)
{
    if (g && status != KAS_OK)
        fail(g);
}

static void *watch(void *argument)
{
    kas_group *g = argument;
    for (; !g->closing && !g->failed; pause_ms(POLL_MS)) {
        bool joined;
        const double since = g->waiting;
        kas_status status = g->device->backend->group->poll(g, &joined);
        if (status == KAS_OK && since > 0 && kas_monotonic() - since > g->timeout)
            status = kas_fail(KAS_DEVICE, "no answer of the other ranks for %g s", g->timeout);
        if (status != KAS_OK && !g->closing)
            fail(g);
    }
    if (g->failed)
        g->device->backend->group->abort(g);
    return NULL;
}

void kas_group_wait(kas_group *g, bool waits)
{
    if (g)
        g->waiting = waits ? kas_monotonic() : 0;
}

kas_status kas_group_check(kas_group *g)
{
    if (!g || !g->failed)
        return KAS_OK;
    pthread_mutex_lock(&g->lock); /* until the message is there */
    const kas_status status =
        kas_fail(KAS_DEVICE, "rank %d of %d: %s", g->rank, g->ranks, g->message);
    pthread_mutex_unlock(&g->lock);
    return status;
}

/* ---- opening and closing --------------------------------------------------------------------- */

static kas_status join(kas_group *g, const kas_group_options *o)
{
    char path[PATH_MAX], id[KAS_GROUP_ID];
    if (strlen(o->name) >= NAME_BYTES)
        return kas_fail(KAS_BAD_INPUT, "name of a group: %zu bytes, at most %d are allowed",
                        strlen(o->name), NAME_BYTES - 1);
    snprintf(path, sizeof path, "%s/%s", o->folder, o->name);
    kas_status status = get_id(g, path, o, id);
    if (status == KAS_OK)
        status = g->device->backend->group->join(g, id);
    if (status == KAS_OK)
        status = wait_for_all(g);
    if (g->rank == 0)
        unlink(path);
    return status == KAS_OK ? status : kas_fail_context(status, "rank %d of %d", g->rank, g->ranks);
}

kas_status kas_group_open(kas_device *device, const kas_group_options *o, kas_group **out)
{
    *out = NULL;
    kas_group *g = calloc(1, sizeof *g);
    if (!g)
        return kas_fail(KAS_NO_MEMORY, "no memory for a group");
    g->device = device;
    g->rank = o->rank;
    g->ranks = o->ranks;
    g->timeout = o->timeout;
    g->capture = o->capture;
    pthread_mutex_init(&g->lock, NULL);
    kas_status status = join(g, o);
    if (status == KAS_OK && pthread_create(&g->watcher, NULL, watch, g) != 0)
        status = kas_fail(KAS_MACHINE, "cannot start the thread that watches a group");
    g->watched = status == KAS_OK;
    if (status != KAS_OK) {
        if (g->link)
            g->device->backend->group->abort(g);
        kas_group_close(g);
        return status;
    }
    *out = g;
    return KAS_OK;
}

void kas_group_close(kas_group *g)
{
    if (!g)
        return;
    g->closing = true;
    if (g->watched)
        pthread_join(g->watcher, NULL);
    if (g->link) { /* NCCL waits for other ranks, which may be gone, or still write what they have */
        const bool patient = !g->failed && g->timeout > GRACE_SECONDS;
        give_up_after(patient ? (unsigned)g->timeout : GRACE_SECONDS);
        g->device->backend->group->leave(g);
        alarm(0);
    }
    pthread_mutex_destroy(&g->lock);
    free(g);
}

/* ---- an exchange of the host ----------------------------------------------------------------- */

static kas_status gather(kas_group *g, kas_plan *plan, const void *mine, size_t bytes, void *all,
                         char *memory)
{
    KAS_TRY(kas_mem_upload(g->device, memory + (size_t)g->rank * bytes, mine, bytes));
    KAS_TRY(kas_plan_gather(plan, g, memory, bytes));
    KAS_TRY(kas_plan_join(plan, g));
    KAS_TRY(kas_plan_run(plan));
    return kas_mem_download(g->device, all, memory, (size_t)g->ranks * bytes);
}

kas_status kas_group_gather(kas_group *g, const void *mine, size_t bytes, void *all)
{
    void *memory = NULL;
    kas_plan *plan = NULL;
    kas_status status;
    KAS_TRY(kas_mem_alloc(g->device, (size_t)g->ranks * bytes, &memory));
    status = kas_plan_create(g->device, &plan);
    const bool waited = g->waiting > 0;
    kas_group_wait(g, true);
    if (status == KAS_OK)
        status = gather(g, plan, mine, bytes, all, memory);
    kas_group_wait(g, waited);
    kas_plan_free(plan);
    kas_mem_free(g->device, memory);
    const kas_status failed = kas_group_check(g);
    return failed != KAS_OK ? failed : status;
}

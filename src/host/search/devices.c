#include "host/search/devices.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void add_cuda(kas_devices *out, int ordinal)
{
    snprintf(out->spec[out->count++], sizeof out->spec[0], "cuda:%d", ordinal);
}

/* What the child reports about a GPU that it could open. */
typedef struct found {
    int blocks;
    size_t memory, workspace;
    char name[128];
} found;

static bool write_all(int fd, const void *data, size_t size)
{
    return write(fd, data, size) == (ssize_t)size; /* fits into a pipe as a whole */
}

/* Runs in the child. It reports how many GPUs of the list open one after the other, their sizes,
 * and why the next one did not open. */
static void probe(int fd, const kas_devices *list)
{
    static found gpu[KAS_MAX_DEVICES];
    int count = 0;
    kas_device *device;
    for (; count < list->count && kas_device_open(list->spec[count], 1, &device) == KAS_OK;
         count++) {
        const kas_device_info *info = kas_device_get_info(device);
        gpu[count] = (found){info->blocks, info->memory, info->workspace, ""};
        snprintf(gpu[count].name, sizeof gpu[count].name, "%s", info->name);
        kas_device_close(device);
    }
    const char *why = kas_error();
    const bool written = write_all(fd, &count, sizeof count) &&
                         write_all(fd, gpu, sizeof *gpu * (size_t)count) &&
                         write_all(fd, why, strlen(why));
    _exit(written ? 0 : 1);
}

/* Takes the values on which a worker can rely whichever GPU it has: the least blocks and memory,
 * and the largest workspace; and the first one's name. */
static void take_worst(const found *gpu, int count, kas_devices *out)
{
    if (count > 0)
        memcpy(out->name, gpu[0].name, sizeof out->name);
    for (int i = 0; i < count; i++) {
        if (i == 0 || gpu[i].blocks < out->blocks)
            out->blocks = gpu[i].blocks;
        if (i == 0 || gpu[i].memory < out->memory)
            out->memory = gpu[i].memory;
        if (gpu[i].workspace > out->workspace)
            out->workspace = gpu[i].workspace;
    }
}

/* Reads the child's report. A child that died has written too little. */
static void read_report(const char *report, size_t size, kas_devices *list, int *count,
                        char why[1024])
{
    found gpu[KAS_MAX_DEVICES];
    size_t at = sizeof *count;
    *count = 0;
    why[0] = 0;
    if (size < at)
        return;
    memcpy(count, report, at);
    if (*count > list->count || size < at + sizeof *gpu * (size_t)*count) {
        *count = 0;
        return;
    }
    memcpy(gpu, report + at, sizeof *gpu * (size_t)*count);
    at += sizeof *gpu * (size_t)*count;
    snprintf(why, 1024, "%.*s", (int)(size - at), report + at);
    take_worst(gpu, *count, list);
}

/* Counts the usable GPUs at the head of `list`, and gets the reason why the next one cannot
 * be used. */
static kas_status count_gpus(kas_devices *list, int *count, char why[1024])
{
    int end[2];
    KAS_CHECK_LIBC(pipe(end) == 0, KAS_FAILURE);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        probe(end[1], list);
    close(end[1]);
    size_t size = 0;
    char report[sizeof(int) + KAS_MAX_DEVICES * sizeof(found) + 1024];
    for (ssize_t got = 1; pid > 0 && got != 0 && size < sizeof report;) {
        got = read(end[0], report + size, sizeof report - size);
        if (got < 0 && errno != EINTR)
            break;
        size += got > 0 ? (size_t)got : 0;
    }
    close(end[0]);
    if (pid < 0)
        return kas_fail(KAS_FAILURE, "fork: %s", kas_strerror(errno));
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    read_report(report, size, list, count, why);
    return KAS_OK;
}

kas_status kas_devices_find(const char *spec, kas_devices *out)
{
    kas_device_spec asked;
    int gpus = 0;
    char why[1024] = "";
    *out = (kas_devices){0};
    KAS_TRY(kas_device_spec_read(spec, &asked));
    for (int i = 0; i < asked.ordinals; i++)
        add_cuda(out, asked.ordinal[i]);
    if (asked.cuda && !asked.ordinals) {
        for (int i = 0; i < KAS_MAX_DEVICES; i++)
            add_cuda(out, i);
        KAS_TRY(count_gpus(out, &gpus, why));
        out->count = gpus;
    }
    strcpy(out->kind, out->count ? "cuda" : "cpu");
    if (out->count)
        return KAS_OK;
    if (!asked.cpu)
        return kas_fail(KAS_DEVICE, "--device cuda: no GPU can be used: %s", why);
    out->count = 1;
    strcpy(out->spec[0], "cpu");
    return KAS_OK;
}

kas_status kas_devices_check(kas_devices *devices)
{
    int usable = 0;
    char why[1024] = "";
    if (strcmp(devices->kind, "cuda") != 0)
        return KAS_OK;
    KAS_TRY(count_gpus(devices, &usable, why));
    return usable == devices->count ? KAS_OK
                                    : kas_fail(KAS_DEVICE, "--device %s: cannot be used: %s",
                                               devices->spec[usable], why);
}

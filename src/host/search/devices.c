#include "host/search/devices.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/device/device.h"

static kas_status add_cuda(kas_devices *out, long ordinal)
{
    if (out->count == KAS_MAX_DEVICES)
        return kas_fail(KAS_USAGE, "--device: more than %d devices", KAS_MAX_DEVICES);
    snprintf(out->spec[out->count++], sizeof out->spec[0], "cuda:%ld", ordinal);
    return KAS_OK;
}

static kas_status parse_list(const char *spec, kas_devices *out)
{
    for (const char *at = spec + strlen("cuda:");; at++) {
        char *end;
        long ordinal = strtol(at, &end, 10);
        if (end == at || ordinal < 0 || ordinal > 999 || (*end && *end != ','))
            return kas_fail(KAS_USAGE,
                            "--device: expected numbers such as cuda:0,1 after \"cuda:\", found "
                            "\"%s\"",
                            spec);
        KAS_TRY(add_cuda(out, ordinal));
        if (!*end)
            return KAS_OK;
        at = end;
    }
}

/* In the child: one byte for each GPU of the list that opens, then why the next one did not. */
static void probe(int fd, const kas_devices *list)
{
    for (int i = 0; i < list->count; i++) {
        kas_device *device;
        if (kas_device_open(list->spec[i], 1, &device) != KAS_OK)
            break;
        kas_device_close(device);
        if (write(fd, "+", 1) != 1)
            break;
    }
    const char *why = kas_error();
    if (write(fd, why, strlen(why)) < 0)
        _exit(1);
    _exit(0);
}

/* How many GPUs at the head of `list` can be used, and why the next one cannot. */
static kas_status count_gpus(const kas_devices *list, int *count, char why[1024])
{
    int end[2];
    KAS_CHECK_LIBC(pipe(end) == 0, KAS_FAILURE);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        probe(end[1], list);
    close(end[1]);
    size_t size = 0;
    for (ssize_t got = 1; pid > 0 && got != 0 && size < 1023;) {
        got = read(end[0], why + size, 1023 - size);
        if (got < 0 && errno != EINTR)
            break;
        size += got > 0 ? (size_t)got : 0;
    }
    why[size] = 0;
    close(end[0]);
    if (pid < 0)
        return kas_fail(KAS_FAILURE, "fork: %s", strerror(errno));
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    *count = (int)strspn(why, "+");
    memmove(why, why + *count, strlen(why + *count) + 1);
    return KAS_OK;
}

kas_status kas_devices_find(const char *spec, kas_devices *out)
{
    *out = (kas_devices){0};
    bool automatic = strcmp(spec, "auto") == 0;
    if (strncmp(spec, "cuda:", 5) == 0) {
        strcpy(out->kind, "cuda");
        return parse_list(spec, out);
    }
    if (!automatic && strcmp(spec, "cuda") != 0 && strcmp(spec, "cpu") != 0)
        return kas_fail(KAS_USAGE,
                        "--device: expected auto, cpu, cuda or cuda:0,1,..., found \"%s\"", spec);
    int gpus = 0;
    char why[1024] = "";
    if (strcmp(spec, "cpu") != 0) {
        for (int i = 0; i < KAS_MAX_DEVICES; i++)
            KAS_TRY(add_cuda(out, i));
        KAS_TRY(count_gpus(out, &gpus, why));
        out->count = gpus;
    }
    strcpy(out->kind, gpus ? "cuda" : "cpu");
    if (gpus > 0)
        return KAS_OK;
    if (strcmp(spec, "cuda") == 0)
        return kas_fail(KAS_DEVICE, "--device cuda: no GPU can be used: %s", why);
    out->count = 1;
    strcpy(out->spec[0], "cpu");
    return KAS_OK;
}

kas_status kas_devices_check(const kas_devices *devices)
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

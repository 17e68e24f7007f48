#include "host/store/owner.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void read_boot_id(char out[64])
{
    out[0] = 0;
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (!file)
        return;
    if (fgets(out, 64, file))
        out[strcspn(out, "\n")] = 0;
    fclose(file);
}

static void read_pid_namespace(char out[64])
{
    ssize_t size = readlink("/proc/self/ns/pid", out, 63);
    out[size > 0 ? size : 0] = 0;
}

/* Returns field 22 of /proc/PID/stat; 0 when the process does not exist or is a zombie. Field
 * 2 is the program's name in brackets and may contain anything, so counting starts at the
 * last bracket. */
static unsigned long long start_time(long pid)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    size_t size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[size] = 0;
    char *field = strrchr(text, ')');
    if (!field || field[1] == 0 || field[2] == 'Z' || field[2] == 'X')
        return 0;
    field += 2; /* field 3 */
    for (int i = 3; i < 22 && field; i++) {
        field = strchr(field, ' ');
        if (field)
            field++;
    }
    return field ? strtoull(field, NULL, 10) : 0;
}

/* What all processes that this one sees have in common. */
static char here[200]; /* a host of 64 bytes, two ids of 63 */

static void read_machine(void)
{
    char host[65] = "", boot[64], space[64];
    if (gethostname(host, sizeof host - 1) != 0)
        strcpy(host, "unknown");
    read_boot_id(boot);
    read_pid_namespace(space);
    snprintf(here, sizeof here, "%s|%s|%s", host, boot, space);
}

static const char *machine(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_machine);
    return here;
}

void kas_owner_self(char out[KAS_OWNER_SIZE])
{
    snprintf(out, KAS_OWNER_SIZE, "%s|%ld|%llu", machine(), (long)getpid(),
             start_time((long)getpid()));
}

void kas_owner_host(char out[KAS_OWNER_SIZE])
{
    const char *self = machine();
    snprintf(out, KAS_OWNER_SIZE, "%.*s|", (int)strcspn(self, "|"), self);
}

bool kas_owner_is_gone(const char *owner)
{
    const char *self = machine();
    char host[KAS_OWNER_SIZE];
    kas_owner_host(host);
    const size_t length = strlen(host);
    if (strncmp(owner, host, length) != 0)
        return false;
    const char *boot = owner + length, *own_boot = self + length;
    if (strncmp(boot, own_boot, strcspn(own_boot, "|") + 1) != 0)
        return *own_boot != '|' && *boot != '|'; /* restarted since, if both ids are known */
    size_t prefix = strlen(self);
    if (strncmp(owner, self, prefix) != 0 || owner[prefix] != '|')
        return false; /* another container, whose processes are not visible */
    long pid = 0;
    unsigned long long started = 0;
    if (sscanf(owner + prefix, "|%ld|%llu", &pid, &started) != 2)
        return false;
    return start_time(pid) != started;
}

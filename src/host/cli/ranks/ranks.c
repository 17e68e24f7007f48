#include "host/cli/ranks/ranks.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "host/cli/interrupt.h"
#include "host/core/clock.h"
#include "host/core/file/files.h"
#include "host/core/log.h"
#include "host/search/worker/process.h"

enum { GRACE_SECONDS = 10, SIGNALLED = 128 };
static const char variable[] = "KAS_RANK";

/* ---- who trains ------------------------------------------------------------------------------ */

static kas_status find_device(const char *device, kas_cli_ranks *out)
{
    kas_device_spec spec;
    KAS_TRY(kas_device_spec_read(device, &spec));
    if (spec.cpu && spec.cuda)
        return kas_fail(KAS_USAGE,
                        "--ranks %d: which device is meant must not depend on the machine; add "
                        "--device cpu or --device cuda",
                        out->ranks);
    if (spec.ordinals && spec.ordinals != out->ranks)
        return kas_fail(KAS_USAGE, "--ranks %d and --device %s: expected as many GPUs as ranks",
                        out->ranks, device);
    if (spec.cpu)
        snprintf(out->device, sizeof out->device, "cpu");
    else
        snprintf(out->device, sizeof out->device, "cuda:%d",
                 spec.ordinals ? spec.ordinal[out->rank] : out->rank);
    return KAS_OK;
}

kas_status kas_cli_ranks_find(const char *device, int asked, kas_cli_ranks *out)
{
    kas_device_spec spec;
    const char *text = getenv(variable);
    KAS_TRY(kas_device_spec_read(device, &spec));
    out->ranks = asked ? asked : spec.ordinals > 1 ? spec.ordinals : 1;
    if (out->ranks == 1) {
        snprintf(out->device, sizeof out->device, "%.31s", device);
        return KAS_OK;
    }
    if (text) {
        out->started = true;
        if (sscanf(text, "%d:%4095[^\n]", &out->rank, out->folder) != 2 || out->rank < 0 ||
            out->rank >= out->ranks)
            return kas_fail(KAS_USAGE, "%s=%s: kas-gpu sets this variable for its own processes",
                            variable, text);
        const char *name = strrchr(out->folder, '/'); /* no other attempt has this folder's name */
        snprintf(out->name, sizeof out->name, "%.80s", name ? name + 1 : "id");
        unsetenv(variable);
        KAS_TRY(kas_process_begin(500));
    }
    return find_device(device, out);
}

kas_status kas_cli_ranks_join(const kas_cli_ranks *ranks, kas_device *device, kas_group **out)
{
    const kas_group_options options = {.folder = ranks->folder,
                                       .name = ranks->name,
                                       .rank = ranks->rank,
                                       .ranks = ranks->ranks,
                                       .timeout = ranks->timeout,
                                       .capture = ranks->capture};
    *out = NULL;
    return ranks->started ? kas_group_open(device, &options, out) : KAS_OK;
}

/* ---- starting and watching ------------------------------------------------------------------- */

typedef struct crew {
    const kas_cli_ranks *o;
    kas_process process[KAS_MAX_DEVICES];
    bool ended[KAS_MAX_DEVICES];
    int running, first; /* the first rank that failed, or a signal stopped; -1 = none */
    int status;         /* its status, as of waitpid */
    double deadline;    /* when the others are killed; 0 = no rank has ended */
    bool told;          /* the ranks know of the signal */
} crew;

static kas_status start(crew *c, char *const *argv)
{
    for (int rank = 0; rank < c->o->ranks; rank++) {
        char text[PATH_MAX + 16];
        snprintf(text, sizeof text, "%d:%s", rank, c->o->folder);
        KAS_CHECK_LIBC(setenv(variable, text, 1) == 0, KAS_MACHINE);
        const kas_status status =
            kas_process_start((const char *const *)argv, NULL, &c->process[rank]);
        unsetenv(variable);
        KAS_TRY(status);
        c->running++;
    }
    return KAS_OK;
}

/* A rank that a signal has stopped may end while rank 0 still writes the checkpoint. */
static bool has_stopped(int status)
{
    return WIFEXITED(status) &&
           (WEXITSTATUS(status) == KAS_PREEMPTED || WEXITSTATUS(status) == KAS_INTERRUPTED);
}

static void reap(crew *c, int rank)
{
    const int status = kas_process_reap(&c->process[rank], 0);
    c->ended[rank] = true;
    c->running--;
    if (!c->deadline)
        c->deadline = kas_monotonic() + c->o->timeout;
    if (status != 0 && (c->first < 0 || has_stopped(c->status))) {
        c->first = rank;
        c->status = status;
        if (!has_stopped(status))
            c->deadline = kas_monotonic() + GRACE_SECONDS;
    }
}

/* Passes a signal on once; the ranks then agree on where to stop. */
static void tell(crew *c)
{
    const int number = kas_interrupt_status() == KAS_INTERRUPTED ? SIGINT : SIGTERM;
    for (int rank = 0; rank < c->o->ranks; rank++)
        if (!c->ended[rank])
            kill(c->process[rank].pid, number);
    c->told = true;
}

static void kill_the_rest(crew *c)
{
    for (int rank = 0; rank < c->o->ranks; rank++)
        if (!c->ended[rank]) {
            kas_warn("rank %d of %d does not end, and is killed", rank, c->o->ranks);
            reap(c, rank); /* kills it */
        }
}

static void watch(crew *c)
{
    const struct timespec pause = {0, 20000000};
    while (c->running > 0) {
        for (int rank = 0; rank < c->o->ranks; rank++)
            if (!c->ended[rank] && kas_process_ended(&c->process[rank]))
                reap(c, rank);
        if (kas_interrupted() && !c->told)
            tell(c);
        if (c->deadline && c->running > 0 && kas_monotonic() > c->deadline)
            kill_the_rest(c);
        nanosleep(&pause, NULL);
    }
}

static kas_status result(const crew *c)
{
    if (c->first < 0)
        return KAS_OK;
    if (WIFSIGNALED(c->status))
        return kas_fail(KAS_FAILURE, "rank %d of %d was ended by signal %d (%s)", c->first,
                        c->o->ranks, WTERMSIG(c->status), strsignal(WTERMSIG(c->status)));
    const kas_status status = (kas_status)WEXITSTATUS(c->status);
    if (has_stopped(c->status))
        return kas_fail(status, "%s", ""); /* rank 0 has said how to go on */
    return kas_fail(status, "rank %d of %d failed first", c->first, c->o->ranks);
}

static kas_status make_folder(kas_cli_ranks *o)
{
    const char *parent = getenv("TMPDIR");
    snprintf(o->folder, sizeof o->folder, "%.4000s/kas-train-XXXXXX",
             parent && *parent ? parent : "/tmp");
    if (!mkdtemp(o->folder))
        return kas_fail(KAS_MACHINE, "%s: cannot be created: %s", o->folder, kas_strerror(errno));
    return KAS_OK;
}

kas_status kas_cli_ranks_run(const kas_cli_ranks *ranks, char *const *argv)
{
    kas_cli_ranks o = *ranks;
    crew c = {.o = &o, .first = -1};
    char *again[1024] = {"/proc/self/exe", "train"};
    for (int i = 1; argv[i]; i++) {
        if (i + 2 == (int)(sizeof again / sizeof *again))
            return kas_fail(KAS_USAGE, "more than %d words on the command line", i);
        again[i + 1] = argv[i];
    }
    for (int i = 0; i < KAS_MAX_DEVICES; i++)
        c.process[i] = (kas_process){.to = -1, .from = -1};
    KAS_TRY(make_folder(&o));
    kas_interrupt_watch();
    const kas_status status = start(&c, again);
    if (status == KAS_OK)
        watch(&c);
    for (int rank = 0; rank < o.ranks; rank++)
        if (c.process[rank].pid > 0)
            kas_process_reap(&c.process[rank], 0);
    kas_remove_tree(o.folder);
    return status == KAS_OK ? result(&c) : status;
}

/* Groups of processes: the bits of a mean, the file in which they meet, and the ends of a rank. The
 * CPU device, and with DEVICE=cuda the stand-in's NCCL. Every rank is a process of its own. */
#include "support/test.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda_sim/load_sim.h"
#include "host/core/clock.h"
#include "host/core/file/files.h"
#include "host/core/log.h"
#include "host/device/group.h"
#include "host/device/shared.h"
#include "support/folder.h"

enum { MOST = 4, COUNT = 40000, STALE = 100, WRONG = 99 };

static const char *spec = "cpu";

/* What a rank does; returns the exit code of its process. */
typedef int rank_body(kas_device *device, kas_group *group, int rank, int ranks);

static int as_rank(rank_body *body, const char *name, int rank, int ranks, double timeout)
{
    kas_device *device;
    kas_group *group;
    const kas_group_options options = {folder, name, rank, ranks, timeout, false};
    if (kas_device_open(spec, 1, &device) != KAS_OK)
        return WRONG;
    kas_status status = kas_group_open(device, &options, &group);
    int code = kas_exit_code(status);
    if (status == KAS_OK)
        code = body(device, group, rank, ranks);
    kas_group_abort(group, code ? KAS_DEVICE : KAS_OK);
    kas_group_close(group);
    kas_device_close(device);
    return code;
}

static void start_ranks(rank_body *body, const char *name, int ranks, double timeout, pid_t *pid)
{
    fflush(NULL);
    for (int rank = 0; rank < ranks; rank++) {
        pid[rank] = fork();
        assert_true(pid[rank] >= 0);
        if (pid[rank] == 0)
            _exit(as_rank(body, name, rank, ranks, timeout));
    }
}

/* Returns the status of waitpid of each rank. */
static void end_ranks(int ranks, const pid_t *pid, int *status)
{
    for (int rank = 0; rank < ranks; rank++)
        assert_int_equal(waitpid(pid[rank], &status[rank], 0), pid[rank]);
}

static float number(int rank, size_t i)
{
    return sinf((float)(i * 7 + (size_t)rank * 13)) * (1 + (float)rank);
}

/* Means over all ranks, each in a row of exchanges that overlap with nothing and with one another,
 * equal to the sum in the order of ranks, bit by bit. */
static int check_mean(kas_device *device, kas_group *group, int rank, int ranks)
{
    static float mine[COUNT], got[COUNT];
    float *memory;
    kas_plan *plan;
    for (size_t i = 0; i < COUNT; i++)
        mine[i] = number(rank, i);
    if (kas_mem_alloc(device, sizeof mine, (void **)&memory) || kas_plan_create(device, &plan) ||
        kas_plan_mean(plan, group, memory, COUNT / 4) ||
        kas_plan_mean(plan, group, memory + COUNT / 4, COUNT - COUNT / 4) ||
        kas_plan_join(plan, group))
        return WRONG;
    for (int turn = 0; turn < 3; turn++) { /* the CUDA device captures graphs in the second */
        if (kas_mem_upload(device, memory, mine, sizeof mine) || kas_plan_run(plan) ||
            kas_mem_download(device, got, memory, sizeof got))
            return WRONG;
        for (size_t i = 0; i < COUNT; i++) {
            float sum = number(0, i);
            for (int other = 1; other < ranks; other++)
                sum += number(other, i);
            if (got[i] != sum * (1 / (float)ranks))
                return WRONG;
        }
    }
    kas_plan_free(plan);
    kas_mem_free(device, memory);
    return 0;
}

static int check_gather(kas_device *device, kas_group *group, int rank, int ranks)
{
    static char mine[70001], all[MOST * sizeof mine]; /* more than a slot, and odd */
    (void)device;
    for (size_t i = 0; i < sizeof mine; i++)
        mine[i] = (char)(i * 5 + (size_t)rank);
    if (kas_group_gather(group, mine, sizeof mine, all) != KAS_OK)
        return WRONG;
    for (int other = 0; other < ranks; other++)
        for (size_t i = 0; i < sizeof mine; i++)
            if (all[(size_t)other * sizeof mine + i] != (char)(i * 5 + (size_t)other))
                return WRONG;
    return 0;
}

static void run(rank_body *body, const char *name, int ranks)
{
    pid_t pid[MOST];
    int status[MOST];
    start_ranks(body, name, ranks, 60, pid);
    end_ranks(ranks, pid, status);
    for (int rank = 0; rank < ranks; rank++)
        assert_int_equal(status[rank], 0);
    assert_false(kas_file_exists(in_folder(name))); /* the id is gone once all have joined */
}

TEST(test_sums)
{
    run(check_mean, "mean2", 2);
    run(check_mean, "mean4", 4);
    run(check_gather, "gather3", 3);
}

/* A file that an attempt left behind under this very name, whole or torn, is never taken for the id:
 * neither before rank 0 begins nor afterwards. */
static int meet(kas_device *device, kas_group *group, int rank, int ranks)
{
    int32_t all[MOST], mine = rank;
    (void)device;
    if (kas_group_gather(group, &mine, sizeof mine, all) != KAS_OK)
        return WRONG;
    return all[ranks - 1] == ranks - 1 ? 0 : WRONG;
}

TEST(test_stale_id)
{
    char stale[256], path[256];
    const int times = strcmp(spec, "cpu") == 0 ? STALE : 4;
    for (int i = 0; i < times; i++) {
        char name[32];
        pid_t pid[2];
        int status[2];
        snprintf(name, sizeof name, "run-%d", i);
        snprintf(path, sizeof path, "%s/%s", folder, name);
        memset(stale, 'x', sizeof stale);
        memcpy(stale, "kas-gpu group 1", 16);
        snprintf(stale + 16, 112, "run-%d", i - 1); /* the attempt before */
        OK(kas_file_write_atomic(path, stale, i % 2 ? sizeof stale : 100));
        fflush(NULL);
        pid[1] = fork(); /* it finds the old file first, in most of the runs */
        if (pid[1] == 0)
            _exit(as_rank(meet, name, 1, 2, 60));
        pid[0] = fork();
        if (pid[0] == 0)
            _exit(as_rank(meet, name, 0, 2, 60));
        end_ranks(2, pid, status);
        assert_int_equal(status[0], 0);
        assert_int_equal(status[1], 0);
    }
}

/* In a child, as all ranks are: this process never opens a device, which its children then could not. */
TEST(test_nobody_comes)
{
    int status;
    const double start = kas_monotonic();
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        bool told = as_rank(meet, "alone0", 0, 2, 0.3) == KAS_DEVICE &&
                    strstr(kas_error(), "not all ranks have joined");
        told &= as_rank(meet, "alone1", 1, 2, 0.3) == KAS_DEVICE &&
                strstr(kas_error(), "rank 0 has not begun");
        _exit(told ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_true(kas_monotonic() - start < 30);
}

/* Returns whether a process has mapped the memory of a group; *named: under a name that would stay. */
static bool maps_memory(pid_t pid, bool *named)
{
    char path[64], line[512];
    bool maps = false;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *file = fopen(path, "r");
    for (*named = false; file && fgets(line, sizeof line, file);)
        if (strstr(line, "kas-group-")) {
            maps = true;
            *named |= !strstr(line, "/memfd:kas-group-") || !strstr(line, "(deleted)");
        }
    if (file)
        fclose(file);
    return maps;
}

/* All ranks are killed before the last one has come: the memory goes with them. */
TEST(test_killed_while_joining)
{
    pid_t pid[2];
    bool named;
    int status;
    fflush(NULL);
    for (int rank = 0; rank < 2; rank++)
        if ((pid[rank] = fork()) == 0)
            _exit(as_rank(meet, "killed", rank, 3, 60));
    for (int rank = 0; rank < 2; rank++) {
        const double end = kas_monotonic() + 60;
        while (!maps_memory(pid[rank], &named) && kas_monotonic() < end)
            usleep(1000);
        assert_true(kas_monotonic() < end);
        assert_false(named);
    }
    for (int rank = 0; rank < 2; rank++) {
        kill(pid[rank], SIGKILL);
        assert_int_equal(waitpid(pid[rank], &status, 0), pid[rank]);
        assert_true(WIFSIGNALED(status));
    }
}

/* An id whose process has ended, or whose number another process or file has got, is refused. */
TEST(test_id_of_another)
{
    char id[KAS_SHARED_ID], other[KAS_SHARED_ID];
    int process, file;
    kas_shared *own, *shared;
    OK(kas_shared_create(id));
    OK(kas_shared_join(id, 0, 2, &own));
    assert_int_equal(sscanf(id, "%d %d", &process, &file), 2);
    const char *name = strrchr(id, ' ') + 1;
    snprintf(other, sizeof other, "%d %d kas-group-0123456789abcdef0123456789abcdef", process,
             file);
    assert_int_equal(kas_shared_join(other, 1, 2, &shared), KAS_MACHINE);
    assert_non_null(strstr(kas_error(), "is not of rank 0, which has ended"));
    snprintf(other, sizeof other, "%d 0 %s", process, name);
    assert_int_equal(kas_shared_join(other, 1, 2, &shared), KAS_MACHINE);
    const pid_t child = fork();
    if (child == 0)
        _exit(0);
    waitpid(child, NULL, 0);
    snprintf(other, sizeof other, "%d %d %s", (int)child, file, name);
    assert_int_equal(kas_shared_join(other, 1, 2, &shared), KAS_MACHINE);
    assert_non_null(strstr(kas_error(), "cannot be opened"));
    assert_int_equal(kas_shared_join("/dev/shm/kas-group-0", 1, 2, &shared), KAS_BAD_INPUT);
    OK(kas_shared_join(id, 1, 2, &shared));
    assert_true(kas_shared_complete(own));
    kas_shared_leave(shared);
    kas_shared_leave(own);
}

/* Exchanges for ever, until the group fails; then the exit code says so. */
static int exchange_for_ever(kas_device *device, kas_group *group, int rank, int ranks)
{
    int32_t all[MOST], mine = rank;
    (void)device;
    for (int i = 0;; i++) {
        const kas_status status = kas_group_gather(group, &mine, sizeof mine, all);
        if (status != KAS_OK)
            return kas_exit_code(status);
        if (rank == ranks - 1 && i == 20)
            kill(getpid(), getenv("KAS_TEST_HANGS") ? SIGSTOP : SIGKILL);
    }
}

TEST(test_a_rank_ends)
{
    for (int hangs = 0; hangs < 2; hangs++) {
        pid_t pid[3];
        int status[3];
        const double start = kas_monotonic();
        if (hangs)
            setenv("KAS_TEST_HANGS", "1", 1);
        start_ranks(exchange_for_ever, hangs ? "hangs" : "ends", 3, hangs ? 2 : 60, pid);
        for (int rank = 0; rank < 2; rank++) {
            assert_int_equal(waitpid(pid[rank], &status[rank], 0), pid[rank]);
            assert_true(WIFEXITED(status[rank]));
            assert_int_equal(WEXITSTATUS(status[rank]), KAS_DEVICE);
        }
        kill(pid[2], SIGKILL);
        assert_int_equal(waitpid(pid[2], &status[2], 0), pid[2]);
        const double seconds = kas_monotonic() - start;
        printf("%s: the others ended after %.2f s, at most 25 allowed\n",
               hangs ? "hang" : "kill -9", seconds);
        assert_true(seconds <= 25);
        unsetenv("KAS_TEST_HANGS");
    }
}

static const char *planted; /* a function of NCCL that fails on rank 0 at its nth call */
static int nth;

static int check_planted(kas_device *device, kas_group *group, int rank, int ranks)
{
    const int mean = check_mean(device, group, rank, ranks);
    return mean ? mean : check_gather(device, group, rank, ranks);
}

static int as_planted_rank(const char *name, int rank)
{
    if (rank == 0)
        sim.make_fail(planted, nth, 0, false);
    const int code = as_rank(check_planted, name, rank, 2, 3);
    char failed[64];
    return rank == 0 && !sim.failed(failed) ? 2 * WRONG : code; /* it was not called so often */
}

/* Every call of NCCL fails once: both ranks end, neither hangs nor is killed by a broken rule of the
 * stand-in. */
TEST(test_every_call_fails)
{
    static const char *const functions[] = {"ncclGetUniqueId", "ncclCommInitRankConfig",
                                            "ncclAllReduce", "ncclAllGather"};
    static const int calls[] = {1, 1, 6, 1};
    if (strcmp(spec, "cpu") == 0)
        skip();
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++)
        for (nth = 1; nth <= calls[f] + 1; nth++) {
            pid_t pid[2];
            int status[2];
            char name[64];
            planted = functions[f];
            snprintf(name, sizeof name, "%s-%d", planted, nth);
            fflush(NULL);
            for (int rank = 0; rank < 2; rank++)
                if ((pid[rank] = fork()) == 0)
                    _exit(as_planted_rank(name, rank));
            if (f == 0 && nth == 1) /* nobody tells rank 1, which waits for the id */
                kill(pid[1], SIGKILL);
            end_ranks(2, pid, status);
            const bool beyond = nth > calls[f];
            assert_true(WIFEXITED(status[0]));
            assert_int_equal(WEXITSTATUS(status[0]) == 2 * WRONG, beyond);
            if (f > 0 || beyond)
                assert_true(WIFEXITED(status[1]) && (WEXITSTATUS(status[1]) == 0) == beyond);
        }
}

static int setup(void **state)
{
    const char *device = getenv("DEVICE");
    kas_log_set_level(KAS_LOG_QUIET);
    if (device && strncmp(device, "cuda", 4) == 0) {
        spec = device;
        if (load_sim(state) != 0)
            return -1;
    }
    return make_folder(state);
}

RUN_TESTS(setup, remove_folder)

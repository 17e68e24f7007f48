/* The store, in a file and on a server: leases, attempt numbers, claims by several processes. */
#include "support/test.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/core/file/files.h"
#include "host/store/owner.h"
#include "host/store/sql.h"
#include "host/store/store.h"
#include "support/server.h"

static void add_candidates(kas_store *store, int count)
{
    for (int k = 0; k < count; k++) {
        kas_work work = {.kind = KAS_WORK_CANDIDATE,
                         .index = k,
                         .attempt = 10 * k,
                         .kernel = "{}",
                         .flops = 5,
                         .params = NAN,
                         .conv_flops = 7,
                         .conv_params = 8};
        snprintf(work.name, sizeof work.name, "%016d", k);
        bool added;
        OK(kas_store_add(store, &work, &added));
        assert_true(added);
        OK(kas_store_add(store, &work, &added));
        assert_false(added);
    }
}

static kas_work claim(kas_store *store, const char *owner, double seconds, bool expect)
{
    kas_work work;
    bool found;
    OK(kas_store_claim(store, KAS_WORK_CANDIDATE, -1, owner, seconds, &work, &found));
    assert_int_equal(found, expect);
    return work;
}

TEST_BOTH(study_row)
{
    kas_store *store = open_store();
    kas_study study = {.options = "{\"net\":\"resnet20\"}",
                       .options_digest = "aa",
                       .dataset_digest = "bb",
                       .dataset_path = "/d.h5",
                       .sampler_version = 3,
                       .seed = UINT64_MAX - 1};
    kas_study read;
    assert_int_equal(kas_store_get_study(store, &read), KAS_STORE);
    bool created;
    OK(kas_store_begin_study(store, &study, &created));
    assert_true(created);
    study.options_digest[0] = 'x';
    OK(kas_store_begin_study(store, &study, &created));
    assert_false(created);
    OK(kas_store_add_busy(store, 1.5, 0));
    OK(kas_store_add_busy(store, 2, 0.25));
    OK(kas_store_set_device(store, "first"));
    OK(kas_store_set_device(store, "second"));
    OK(kas_store_get_study(store, &read));
    assert_string_equal(read.options, study.options);
    assert_string_equal(read.options_digest, "aa");
    assert_string_equal(read.device, "first");
    assert_true(read.seed == UINT64_MAX - 1);
    assert_true(read.busy_seconds == 3.5 && read.drawing_seconds == 0.25);
    kas_study_clear(&read);
    kas_store_close(store);
}

TEST_BOTH(life_of_an_item)
{
    kas_store *store = open_store();
    add_candidates(store, 2);
    char self[KAS_OWNER_SIZE];
    kas_owner_self(self);
    kas_work a = claim(store, self, 60, true), b = claim(store, self, 60, true);
    assert_int_equal(a.index, 0);
    assert_int_equal(b.index, 1);
    assert_int_equal(a.lease, 1);
    assert_true(isnan(a.params) && a.conv_params == 8);
    claim(store, self, 60, false);
    bool held;
    for (int e = 0; e < 3; e++) {
        kas_epoch epoch = {.epoch = e, .validation_accuracy = 0.1 * e, .train_loss = NAN};
        OK(kas_store_record_epoch(store, a.id, a.lease, &epoch, &held));
        assert_true(held);
        OK(kas_store_record_epoch(store, a.id, a.lease, &epoch, &held)); /* again: replaced */
    }
    kas_measured measured = kas_measured_unknown();
    measured.latency = 0.25;
    OK(kas_store_record_measured(store, a.id, a.lease, &measured, &held));
    assert_true(held);
    measured = kas_measured_unknown();
    measured.accuracy = 0.5;
    assert_int_equal(kas_store_finish(store, a.id, a.lease, KAS_WORK_QUEUED, "", &measured, &held),
                     KAS_FAILURE);
    OK(kas_store_finish(store, a.id, a.lease, KAS_WORK_FINISHED, "", &measured, &held));
    assert_true(held);
    OK(kas_store_finish(store, a.id, a.lease, KAS_WORK_FAILED, "twice", &measured, &held));
    assert_false(held);
    OK(kas_store_release(store, b.id, b.lease, true, &held));
    assert_true(held);
    kas_work *list;
    int count;
    OK(kas_store_list(store, &list, &count));
    assert_int_equal(count, 2);
    assert_int_equal(list[0].state, KAS_WORK_FINISHED);
    assert_int_equal(list[0].epochs, 3);
    assert_true(list[0].measured.accuracy == 0.5 && list[0].measured.latency == 0.25);
    assert_true(isnan(list[0].measured.memory) && isnan(list[0].processor));
    assert_int_equal(list[1].state, KAS_WORK_QUEUED);
    assert_int_equal(list[1].deaths, 1);
    kas_epoch *epoch;
    int epochs;
    OK(kas_store_epochs(store, a.id, &epoch, &epochs));
    assert_int_equal(epochs, 3);
    assert_true(epoch[2].validation_accuracy == 0.1 * 2 && isnan(epoch[2].train_loss));
    free(epoch);
    kas_work_list_free(list, count);
    kas_work_clear(&a);
    kas_work_clear(&b);
    kas_store_close(store);
}

/* A run that begins forgets the faults of earlier ones, but not those of what others have now. */
TEST_BOTH(faults_of_earlier_runs)
{
    kas_store *store = open_store();
    add_candidates(store, 4);
    char self[KAS_OWNER_SIZE];
    kas_owner_self(self);
    const kas_measured unknown = kas_measured_unknown();
    kas_work work[4];
    bool held;
    for (int i = 0; i < 4; i++) {
        work[i] = claim(store, self, 60, true);
        OK(kas_store_release(store, work[i].id, work[i].lease, true, &held));
        const int64_t id = work[i].id;
        kas_work_clear(&work[i]);
        OK(kas_store_claim_item(store, id, self, 60, &work[i], &held));
        assert_true(held);
    }
    OK(kas_store_renew(store, work[1].id, work[1].lease, -1, &held));
    OK(kas_store_pause(store, work[2].id, work[2].lease, &unknown, &held));
    OK(kas_store_release(store, work[3].id, work[3].lease, false, &held));
    OK(kas_store_clear_faults(store));
    kas_work *list;
    int count;
    OK(kas_store_list(store, &list, &count));
    assert_int_equal(count, 4);
    assert_int_equal(list[0].deaths, 1); /* somebody has it */
    assert_int_equal(list[1].deaths, 0); /* its lease has ended */
    assert_int_equal(list[2].deaths, 0); /* it waits at a rung */
    assert_int_equal(list[3].deaths, 0);
    kas_work_list_free(list, count);
    for (int i = 0; i < 4; i++)
        kas_work_clear(&work[i]);
    kas_store_close(store);
}

/* A supervisor that was away when its lease ended must not harm the one that took over. */
TEST_BOTH(late_reports_are_dropped)
{
    kas_store *store = open_store();
    add_candidates(store, 1);
    kas_work slow = claim(store, "elsewhere|x|y|1|1", -1, true); /* over at once */
    kas_work quick = claim(store, "elsewhere|x|y|2|2", 60, true);
    assert_int_equal(quick.id, slow.id);
    assert_int_equal(quick.lease, slow.lease + 1);
    kas_measured measured = kas_measured_unknown();
    kas_epoch epoch = {.epoch = 0};
    bool held = true;
    OK(kas_store_renew(store, slow.id, slow.lease, 60, &held));
    assert_false(held);
    OK(kas_store_record_epoch(store, slow.id, slow.lease, &epoch, &held));
    assert_false(held);
    OK(kas_store_record_measured(store, slow.id, slow.lease, &measured, &held));
    assert_false(held);
    OK(kas_store_release(store, slow.id, slow.lease, true, &held));
    assert_false(held);
    OK(kas_store_finish(store, slow.id, slow.lease, KAS_WORK_FAILED, "", &measured, &held));
    assert_false(held);
    OK(kas_store_renew(store, quick.id, quick.lease, 60, &held));
    assert_true(held);
    for (int i = 0; i < 2; i++) {
        OK(kas_store_add_elapsed(store, slow.id, slow.lease, (kas_elapsed){100, 100}, &held));
        assert_false(held);
        OK(kas_store_add_elapsed(store, quick.id, quick.lease, (kas_elapsed){2, i ? NAN : 2.5},
                                 &held));
        assert_true(held);
    }
    OK(kas_store_finish(store, quick.id, quick.lease, KAS_WORK_FINISHED, "", &measured, &held));
    assert_true(held);
    kas_work *list;
    int count;
    OK(kas_store_list(store, &list, &count));
    assert_true(count == 1 && list[0].processor == 2.5 && list[0].leased == 4);
    kas_work_list_free(list, count);
    kas_work_clear(&slow);
    kas_work_clear(&quick);
    kas_store_close(store);
}

TEST_BOTH(renewed_leases_hold)
{
    kas_store *store = open_store();
    add_candidates(store, 1);
    kas_work work = claim(store, "elsewhere|x|y|1|1", -1, true);
    bool held;
    OK(kas_store_renew(store, work.id, work.lease, 60, &held));
    assert_true(held);
    claim(store, "elsewhere|x|y|2|2", 60, false);
    kas_work_clear(&work);
    kas_store_close(store);
}

/* The lease of a process of this machine that was killed is void at once. */
TEST_BOTH(dead_owner)
{
    kas_store *store = open_store();
    add_candidates(store, 1);
    kas_store_close(store);
    pid_t pid = fork();
    if (pid == 0) {
        store = open_store();
        char self[KAS_OWNER_SIZE];
        kas_owner_self(self);
        claim(store, self, 3600, true);
        raise(SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    store = open_store();
    char self[KAS_OWNER_SIZE];
    kas_owner_self(self);
    assert_false(kas_owner_is_gone(self));
    kas_work work = claim(store, self, 3600, true);
    assert_int_equal(work.lease, 2);
    claim(store, self, 3600, false);
    kas_work_clear(&work);
    kas_store_close(store);
}

TEST(owners)
{
    char self[KAS_OWNER_SIZE], other[2 * KAS_OWNER_SIZE];
    kas_owner_self(self);
    snprintf(other, sizeof other, "%s0", self); /* same number, another start time */
    assert_true(kas_owner_is_gone(other));
    snprintf(other, sizeof other, "x%s", self); /* another machine: cannot know */
    assert_false(kas_owner_is_gone(other));
    char *boot = strchr(self, '|');
    snprintf(other, sizeof other, "%.*s|rebooted%s", (int)(boot - self), self,
             strchr(boot + 1, '|'));
    assert_true(kas_owner_is_gone(other));
    kas_owner_host(other);
    const char *end = strchr(other, '|');
    assert_true(end && !end[1] && strncmp(self, other, strlen(other)) == 0);
    assert_false(kas_owner_is_gone(""));
    assert_false(kas_owner_is_gone("garbage"));
}

/* Four processes claim and finish 200 items: each item is done exactly once. */
TEST_BOTH(concurrent_claims)
{
    enum { ITEMS = 200, PROCESSES = 4 };
    kas_store *store = open_store();
    for (int k = 0; k < ITEMS; k++) {
        kas_work work = {.kind = KAS_WORK_CANDIDATE, .index = k};
        bool added;
        OK(kas_store_add(store, &work, &added));
    }
    kas_store_close(store);
    char done[300];
    snprintf(done, sizeof done, "%s/done", folder);
    pid_t pid[PROCESSES];
    for (int p = 0; p < PROCESSES; p++)
        if ((pid[p] = fork()) == 0) {
            store = open_store();
            int fd = open(done, O_WRONLY | O_CREAT | O_APPEND, 0666);
            char self[KAS_OWNER_SIZE], line[32];
            kas_owner_self(self);
            kas_measured measured = kas_measured_unknown();
            for (;;) {
                kas_work work;
                bool found, held;
                if (kas_store_claim(store, KAS_WORK_CANDIDATE, -1, self, 60, &work, &found))
                    _exit(1);
                if (!found)
                    _exit(0);
                snprintf(line, sizeof line, "%03lld\n", (long long)work.index);
                if (write(fd, line, 4) != 4 ||
                    kas_store_finish(store, work.id, work.lease, KAS_WORK_FINISHED, "", &measured,
                                     &held) ||
                    !held)
                    _exit(2);
            }
        }
    for (int p = 0; p < PROCESSES; p++) {
        int status;
        waitpid(pid[p], &status, 0);
        assert_int_equal(status, 0);
    }
    kas_buf text = {0};
    OK(kas_file_read(done, 1 << 20, &text));
    int times[ITEMS] = {0};
    assert_int_equal(text.size, 4 * ITEMS);
    for (int i = 0; i < ITEMS; i++)
        times[atoi(text.data + 4 * i)]++;
    for (int i = 0; i < ITEMS; i++)
        assert_int_equal(times[i], 1);
    kas_buf_free(&text);
}

/* A writer adds a letter to the options; the first tells the other that it has read them, and takes
 * its time. */
typedef struct writer {
    char letter;
    int tell; /* a pipe; -1 = nobody */
} writer;

static kas_status add_letter(void *context, const kas_study *present, kas_study_change *out)
{
    const writer *w = context;
    char options[64];
    snprintf(options, sizeof options, "%.60s%c", present->options, w->letter);
    if (w->tell >= 0) {
        if (write(w->tell, "", 1) != 1)
            return kas_fail(KAS_FAILURE, "nobody waits");
        usleep(200000); /* for the other to come in between, if it can */
    }
    out->options = strdup(options);
    return KAS_OK;
}

TEST_BOTH(two_writers)
{
    int told[2], status;
    char byte;
    bool created;
    kas_store *store = open_store();
    kas_study study = {.options = (char *)"o"};
    OK(kas_store_begin_study(store, &study, &created));
    kas_store_close(store); /* no connection goes through a fork */
    assert_int_equal(pipe(told), 0);
    pid_t pid = fork();
    if (pid == 0) {
        writer first = {'1', told[1]};
        store = open_store();
        _exit(kas_store_revise(store, add_letter, &first) == KAS_OK ? 0 : 1);
    }
    assert_int_equal(read(told[0], &byte, 1), 1);
    store = open_store();
    OK(kas_store_revise(store, add_letter, &(writer){'2', -1}));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    OK(kas_store_get_study(store, &study));
    assert_string_equal(study.options, "o12");
    kas_study_clear(&study);
    kas_store_close(store);
    close(told[0]);
    close(told[1]);
}

static kas_status refuse(void *context, const kas_study *present, kas_study_change *out)
{
    (void)context, (void)present;
    *out = (kas_study_change){.options = strdup("other"), .grows = true};
    return kas_fail(KAS_USAGE, "no");
}

TEST_BOTH(refused_revision)
{
    bool created;
    kas_store *store = open_store();
    kas_study study = {.options = (char *)"o"};
    OK(kas_store_begin_study(store, &study, &created));
    assert_int_equal(kas_store_revise(store, refuse, NULL), KAS_USAGE);
    OK(kas_store_get_study(store, &study));
    assert_string_equal(study.options, "o");
    kas_study_clear(&study);
    OK(kas_store_revise(store, add_letter, &(writer){'1', -1})); /* nothing is left open */
    OK(kas_store_get_study(store, &study));
    assert_string_equal(study.options, "o1");
    assert_int_equal(strlen(study.options_digest), 64);
    kas_study_clear(&study);
    kas_store_close(store);
}

/* Many processes open a study that does not exist yet: all must come in. */
TEST_BOTH(simultaneous_creation)
{
    need_server();
    enum { PROCESSES = 32 };
    const int rounds = on == SQLITE ? 10 : 2, processes = on == SQLITE ? 8 : PROCESSES;
    for (int round = 0; round < rounds; round++) {
        pid_t pid[PROCESSES];
        int gate[2];
        char path[300];
        snprintf(path, sizeof path, "%s/study.db", folder);
        assert_int_equal(pipe(gate), 0);
        for (int p = 0; p < processes; p++)
            if ((pid[p] = fork()) == 0) {
                kas_store *store;
                kas_work work = {.kind = KAS_WORK_BASELINE};
                bool added;
                char byte;
                close(gate[1]);
                if (read(gate[0], &byte, 1) != 0) /* all start when the pipe is closed */
                    _exit(2);
                if (open_on(KAS_STORE_CREATE, &store) || kas_store_add(store, &work, &added)) {
                    fprintf(stderr, "%s\n", kas_error());
                    _exit(1);
                }
                kas_store_close(store);
                _exit(0);
            }
        close(gate[0]);
        close(gate[1]);
        for (int p = 0; p < processes; p++) {
            int status;
            waitpid(pid[p], &status, 0);
            assert_int_equal(status, 0);
        }
        kas_store *store = open_store();
        kas_work *list;
        int count;
        OK(kas_store_list(store, &list, &count));
        assert_int_equal(count, 1);
        kas_work_list_free(list, count);
        kas_store_close(store);
        next_study();
        assert_true(on == POSTGRESQL || unlink(path) == 0);
    }
}

TEST_BOTH(index_limit_and_requeue)
{
    kas_store *store = open_store();
    add_candidates(store, 3);
    kas_work work;
    bool found, held;
    OK(kas_store_claim(store, KAS_WORK_CANDIDATE, 1, "o", 60, &work, &found));
    assert_true(found && work.index == 0);
    kas_measured measured = kas_measured_unknown();
    OK(kas_store_requeue(store, &work)); /* running: stays */
    OK(kas_store_finish(store, work.id, work.lease, KAS_WORK_FAILED, "r", &measured, &held));
    assert_true(held);
    kas_work_clear(&work);
    OK(kas_store_claim(store, KAS_WORK_CANDIDATE, 1, "o", 60, &work, &found));
    assert_false(found);
    kas_work *list;
    int count;
    OK(kas_store_list(store, &list, &count));
    assert_string_equal(list[0].reason, "r");
    OK(kas_store_requeue(store, &list[0]));
    kas_work_list_free(list, count);
    OK(kas_store_claim(store, KAS_WORK_CANDIDATE, 1, "o", 60, &work, &found));
    assert_true(found && work.index == 0 && work.reason[0] == 0);
    kas_work_clear(&work);
    kas_store_close(store);
}

/* Returns the number of the item that a supervisor of this role gets; -1: none. */
static int64_t claimed(kas_store *store, kas_work_role role, kas_work_kind kind, kas_work *out)
{
    bool found;
    kas_store_set_role(store, role);
    OK(kas_store_claim(store, kind, -1, "o", 60, out, &found));
    return found ? out->index : -1;
}

/* What is measured by one supervisor and trained by another comes to the second one when it is
 * measured. */
TEST_BOTH(roles)
{
    static const kas_work_kind kinds[] = {KAS_WORK_CANDIDATE, KAS_WORK_CANDIDATE, KAS_WORK_TURNS,
                                          KAS_WORK_FINAL};
    kas_store *store = open_store();
    kas_measured measured = kas_measured_unknown();
    kas_work work;
    bool added, held;
    for (int k = 0; k < 4; k++)
        OK(kas_store_add(store, &(kas_work){.kind = kinds[k], .index = k}, &added));
    assert_int_equal(claimed(store, KAS_TAKES_TRAINING, KAS_WORK_CANDIDATE, &work), -1);
    assert_int_equal(claimed(store, KAS_TAKES_MEASURING, KAS_WORK_CANDIDATE, &work), 0);
    measured.latency = 1e-3;
    OK(kas_store_record_measured(store, work.id, work.lease, &measured, &held));
    OK(kas_store_release(store, work.id, work.lease, false, &held));
    assert_int_equal(claimed(store, KAS_TAKES_MEASURING, KAS_WORK_CANDIDATE, &work), 1);
    assert_int_equal(claimed(store, KAS_TAKES_MEASURING, KAS_WORK_CANDIDATE, &work), -1);
    assert_int_equal(claimed(store, KAS_TAKES_TRAINING, KAS_WORK_CANDIDATE, &work), 0);
    assert_true(work.measured.latency == 1e-3);
    assert_int_equal(claimed(store, KAS_TAKES_TRAINING, KAS_WORK_TURNS, &work), -1);
    assert_int_equal(claimed(store, KAS_TAKES_MEASURING, KAS_WORK_TURNS, &work), 2);
    assert_int_equal(claimed(store, KAS_TAKES_MEASURING, KAS_WORK_FINAL, &work), -1);
    assert_int_equal(claimed(store, KAS_TAKES_ALL, KAS_WORK_FINAL, &work), 3);
    kas_store_close(store);
}

/* Ends an item that began at a time and had epochs of ten seconds, the first one of five. */
static void end_item(kas_store *store, kas_work *w, kas_work_state end, int epochs, double seconds)
{
    const kas_measured unknown = kas_measured_unknown();
    bool held;
    for (int e = 0; e < epochs; e++) {
        const kas_epoch epoch = {.epoch = e, .seconds = e ? 10 : 5};
        OK(kas_store_record_epoch(store, w->id, w->lease, &epoch, &held));
    }
    OK(kas_store_finish(store, w->id, w->lease, end, "", &unknown, &held));
    OK(kas_sql_run(store, NULL, "UPDATE work SET started = 1000, ended = 1000 + ? WHERE id = ?",
                   "di", seconds, w->id));
    kas_work_clear(w);
}

/* Of one item with three epochs and 30 seconds, the first checkpoint came after 10; another had
 * none and took 4. One that was begun twice and one that failed say nothing. */
TEST_BOTH(mean_start)
{
    kas_store *store = open_store();
    kas_work work[4];
    double seconds = -1;
    bool held;
    add_candidates(store, 4);
    OK(kas_store_mean_start(store, &seconds));
    assert_true(seconds == 0);
    work[0] = claim(store, "o", 60, true);
    OK(kas_store_release(store, work[0].id, work[0].lease, false, &held));
    kas_work_clear(&work[0]);
    for (int i = 0; i < 4; i++)
        work[i] = claim(store, "o", 60, true);
    end_item(store, &work[0], KAS_WORK_FINISHED, 1, 500);
    end_item(store, &work[1], KAS_WORK_FINISHED, 3, 30);
    end_item(store, &work[2], KAS_WORK_PRUNED, 0, 4);
    end_item(store, &work[3], KAS_WORK_FAILED, 1, 600);
    OK(kas_store_mean_start(store, &seconds));
    assert_true(seconds == 7);
    kas_store_close(store);
}

RUN_TESTS(start_server, stop_server)

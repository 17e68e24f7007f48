/* A worker that evaluates nothing and misbehaves on demand: what a candidate does is the
 * text of its "kernel", and every epoch is noted in the file $KAS_TEST_NOTES after its
 * checkpoint was written. */
#ifndef KAS_TESTS_UNIT_SEARCH_SEARCH_FAKE_H
#define KAS_TESTS_UNIT_SEARCH_SEARCH_FAKE_H

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "host/core/clock.h"
#include "host/core/file/files.h"
#include "host/score/correct.h"
#include "host/search/worker/worker.h"

enum { EPOCHS = 4, MANY_EPOCHS = 9000 };

static void note(const char *format, ...)
{
    char line[128];
    va_list args;
    va_start(args, format);
    int size = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    int fd = open(getenv("KAS_TEST_NOTES"), O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (fd < 0 || write(fd, line, (size_t)size) != size)
        abort();
    close(fd);
}

static void nap(double seconds)
{
    struct timespec time = {(time_t)seconds, (long)(fmod(seconds, 1) * 1e9)};
    nanosleep(&time, NULL);
}

static bool noted(const char *line)
{
    kas_buf text = {0};
    const bool found = kas_file_exists(getenv("KAS_TEST_NOTES")) &&
                       kas_file_read(getenv("KAS_TEST_NOTES"), 1 << 20, &text) == KAS_OK &&
                       strstr(kas_buf_text(&text), line);
    kas_buf_free(&text);
    return found;
}

/* "await: LINE" waits until that line is noted, and a moment more; with "late" before it, over 3
 * s. */
static void await(kas_slot *slot, const char *what)
{
    const char *line = strstr(what, "await: ");
    if (!line)
        return;
    for (int i = 0; i < 3000 && !noted(line + strlen("await: ")); i++) {
        nap(0.01);
        if (kas_slot_progress(slot, "waiting", 0, 1, 1) == KAS_STOP)
            return;
    }
    nap(strstr(what, "late") ? 3.2 : 0.3);
}

/* "stops the search" has it stopped at the first of its epochs, "stops it at once" before its latency
 * is told, "stops it last" after its last epoch: it asks, or ends, when it knows already that it shall
 * stop. */
static void stop_before(kas_slot *slot, const char *what, const char *when)
{
    if (!strstr(what, when) || noted("stopping\n"))
        return;
    note("stopping\n");
    kill(getppid(), SIGTERM);
    while (kas_slot_progress(slot, "waiting", 0, 1, 1) != KAS_STOP)
        nap(0.01);
}

/* "chatty" sends lines as fast as it can, until it shall stop or for some seconds. */
static void chat(kas_slot *slot, const char *what)
{
    const double end = kas_monotonic() + 4;
    for (int i = 0; strstr(what, "chatty") && kas_monotonic() < end; i++) {
        if (kas_slot_progress(slot, i % 2 ? "talking" : "chatting", 0, 1, 1) != KAS_STOP)
            continue;
        note("heard\n");
        return;
    }
}

static kas_status fake_open(const kas_search_options *options, const char *dataset,
                            const char *device, void **state)
{
    if (strcmp(dataset, "none") == 0)
        return kas_fail(KAS_BAD_INPUT, "no data set");
    (void)options;
    *state = strdup(device);
    note("worker %ld\n", (long)getpid());
    return KAS_OK;
}

static kas_status fake_enter(void *state, void **own, char name[128], char arch[32])
{
    *own = state;
    snprintf(name, 128, "fake %s", strcmp(state, "fake:1") == 0 ? "one" : "");
    snprintf(arch, 32, "fake");
    return KAS_OK;
}

static int read_checkpoint(const char *path)
{
    kas_buf text = {0};
    int done =
        kas_file_exists(path) && kas_file_read(path, 64, &text) == KAS_OK ? atoi(text.data) : 0;
    kas_buf_free(&text);
    return done;
}

/* Accuracy rises with the number of the candidate; "level 60 40" has 60% on the images that select
 * and 40% on those that confirm. Each further seed of a final training gives a point more. */
static double fake_level(const kas_task *task, int part)
{
    const char *level = task->kernel ? strstr(task->kernel, "level ") : NULL;
    int percent[2];
    if (level && sscanf(level, "level %d %d", &percent[0], &percent[1]) == 2)
        return 0.01 * percent[part] + 0.01 * (double)task->seed;
    return task->kernel && strstr(task->kernel, "weak")
               ? 0.05
               : 0.5 + 0.01 * (double)(task->index + task->seed);
}

static double fake_accuracy(const kas_task *task, int epoch)
{
    return fake_level(task, KAS_SELECTING) * (epoch + 1) / EPOCHS;
}

/* Of 100 images of each part the first are right. */
static char *fake_correct(const kas_task *task)
{
    kas_buf text = {0};
    for (int part = 0; part < (task->kind < KAS_WORK_FINAL ? 2 : 1); part++) {
        float hit[100];
        for (int i = 0; i < 100; i++)
            hit[i] = i < (int)lround(100 * fake_level(task, part));
        kas_correct_add(hit, 100, &text);
    }
    return text.data;
}

/* Writes "2.7" for item 7 of kind 2, "2.7s1" for its second seed. */
static void fake_key(int kind, int64_t index, int64_t seed, char out[32])
{
    int size = snprintf(out, 32, "%d.%lld", kind, (long long)index);
    if (seed)
        snprintf(out + size, 32 - (size_t)size, "s%lld", (long long)seed);
}

/* Does what goes wrong after epoch 1. */
static kas_status misbehave(kas_slot *slot, const char *what, bool resumed, kas_outcome *out)
{
    if (strstr(what, "abort"))
        abort();
    if (strstr(what, "hang")) {
        note("hanging\n");
        nap(3600);
    }
    if (strstr(what, "exit"))
        _exit(7);
    if (strstr(what, "hungry") && getenv("KAS_TEST_NO_MEMORY"))
        raise(SIGKILL);
    if (strstr(what, "killed-always") || (strstr(what, "killed-once") && !resumed))
        raise(SIGKILL);
    if (strstr(what, "memory"))
        return kas_fail(KAS_NO_MEMORY, "12 GB wanted");
    if (strstr(what, "lost"))
        return kas_fail(KAS_DEVICE_LOST, "illegal address");
    if (strstr(what, "unlucky"))
        return kas_fail(KAS_MACHINE, "no space for a checkpoint");
    if (strstr(what, "failed"))
        return kas_fail(KAS_DEVICE, "refused");
    if (strstr(what, "wordy")) {
        static char gains[1 << 21];
        memset(gains, '1', sizeof gains - 1);
        kas_slot_calibrated(slot, gains);
    }
    if (strstr(what, "nonsense") && write(KAS_WORKER_REPLY_FD, "{]\n", 3) != 3)
        abort();
    if (strstr(what, "diverged"))
        out->state = KAS_WORK_DIVERGED;
    return KAS_OK;
}

static _Atomic int steps_taken, big_ones; /* of all slots of this worker */

/* Measures alone: no other slot takes a step meanwhile. */
static void measure_alone(kas_slot *slot, bool until_progress)
{
    kas_slot_begin_alone(slot);
    kas_slot_begin_alone(slot); /* as when plans are timed while the latency is measured */
    const int before = steps_taken;
    nap(0.003);
    note(steps_taken == before ? "quiet\n" : "disturbed\n");
    if (!until_progress)
        kas_slot_end_alone(slot);
}

/* Reserves memory, for an imitation and then in its place for a training: a "big" candidate takes 80
 * and 60 of 100 bytes. */
static kas_verdict reserve(kas_slot *slot, bool big)
{
    if (kas_slot_reserve(slot, big ? 80 : 20, 100) == KAS_STOP ||
        kas_slot_reserve(slot, big ? 60 : 10, 100) == KAS_STOP)
        return KAS_STOP;
    if (big && ++big_ones > 1)
        note("overcommitted\n");
    return KAS_CONTINUE;
}

static kas_status fake_train(kas_slot *slot, const kas_task *task, kas_outcome *out);

static double fake_latency(const char *what)
{
    return strstr(what, "slow") ? 3 : strstr(what, "fast") ? 0.5 : 1;
}

/* "turns 0.7" has that ratio in turns with the unmodified network; otherwise it is that of the
 * latencies. "in turns killed" is killed once there, and "in turns dies" dies. */
static kas_status fake_turns(const kas_task *task, kas_outcome *out)
{
    char line[32];
    const char *text = strstr(task->kernel, "turns ");
    snprintf(line, sizeof line, "turns %lld\n", (long long)task->index);
    const bool again = noted(line);
    note("%s", line);
    if (strstr(task->kernel, "in turns killed") && !again)
        raise(SIGKILL);
    if (strstr(task->kernel, "in turns dies"))
        abort();
    out->measured.latency = fake_latency(task->kernel);
    if (!text || sscanf(text, "turns %lf", &out->measured.ratio) != 1)
        out->measured.ratio = out->measured.latency;
    out->measured.ratio_low = out->measured.ratio - 0.01;
    out->measured.ratio_high = out->measured.ratio + 0.01;
    out->state = KAS_WORK_FINISHED;
    return KAS_OK;
}

static kas_status fake_evaluate(void *state, kas_slot *slot, const kas_task *task, kas_outcome *out)
{
    (void)state;
    const char *what = task->kernel ? task->kernel : getenv("KAS_TEST_BASELINE");
    char key[32];
    if (task->kind == KAS_WORK_TURNS)
        return fake_turns(task, out);
    fake_key((int)task->kind, task->index, task->seed, key);
    note("begin %s\n", key);
    if (task->kernel && getenv("KAS_TEST_DISK_FULL"))
        return kas_fail(KAS_MACHINE, "cache: no space left");
    measure_alone(slot, false);
    out->measured.latency = fake_latency(what);
    stop_before(slot, what, "stops it at once");
    if (kas_slot_measured(slot, &out->measured) == KAS_PRUNE) {
        out->state = KAS_WORK_OVER_LATENCY;
        return KAS_OK;
    }
    const bool big = strstr(what, "big");
    if (reserve(slot, big) == KAS_STOP) {
        out->state = KAS_WORK_QUEUED;
        return KAS_OK;
    }
    const kas_status status = fake_train(slot, task, out);
    big_ones -= big;
    return status;
}

/* Tells all epochs up to `until`; the training of an "endless" candidate had many more. */
static void tell_epochs(const kas_task *task, const char *what, int until, kas_outcome *out)
{
    out->epochs = strstr(what, "endless") ? MANY_EPOCHS : until;
    out->epoch = calloc((size_t)out->epochs, sizeof *out->epoch);
    for (int e = 0; e < out->epochs; e++)
        out->epoch[e] = (kas_epoch){.epoch = e,
                                    .train_loss = 1.0 / (e + 3),
                                    .validation_loss = 1.0 / (e + 7),
                                    .validation_accuracy = fake_accuracy(task, e),
                                    .seconds = 1.0 / (e + 11)};
}

static kas_status fake_train(kas_slot *slot, const kas_task *task, kas_outcome *out)
{
    const char *what = task->kernel ? task->kernel : getenv("KAS_TEST_BASELINE");
    char key[32], done[16];
    int from = read_checkpoint(task->checkpoint);
    if (strstr(what, "tuned"))
        measure_alone(slot, true);
    await(slot, what);
    chat(slot, what);
    fake_key((int)task->kind, task->index, task->seed, key);
    const int until = task->until ? task->until : EPOCHS;
    out->state = KAS_WORK_FINISHED;
    for (int e = from; e < until; e++) {
        for (int step = 0; step < 5; step++) {
            nap(strstr(what, "long") ? 0.02 : 0.001);
            steps_taken++;
            if (kas_slot_progress(slot, "training", (uint64_t)step, 5, 1) == KAS_STOP) {
                if (strstr(what, "torn")) /* the signal has ended a compiler of it too */
                    return kas_fail(KAS_MACHINE, "the compiler was ended by signal 15");
                out->state = KAS_WORK_QUEUED;
                return KAS_OK;
            }
        }
        kas_epoch epoch = {.epoch = e, .validation_accuracy = fake_accuracy(task, e)};
        stop_before(slot, what, "stops the search");
        const kas_verdict verdict = kas_slot_epoch(slot, &epoch);
        if (task->kind == KAS_WORK_CANDIDATE && !kas_slot_answered(slot)) {
            out->state = KAS_WORK_QUEUED; /* the next supervisor is asked about this epoch */
            return KAS_OK;
        }
        out->measured.accuracy = epoch.validation_accuracy;
        snprintf(done, sizeof done, "%d", e + 1);
        if (verdict != KAS_PRUNE)
            KAS_TRY(kas_file_write_atomic(task->checkpoint, done, strlen(done)));
        note("epoch %s.%d\n", key, e);
        if (strstr(what, "then dies") && from == 0)
            raise(SIGKILL);
        if (verdict == KAS_PRUNE)
            out->state = KAS_WORK_PRUNED;
        if (verdict == KAS_STOP)
            out->state = KAS_WORK_QUEUED;
        if (verdict != KAS_CONTINUE)
            return KAS_OK;
        if (e == 1 || strstr(what, "always") || strstr(what, "hungry"))
            KAS_TRY(misbehave(slot, what, from > 0, out));
    }
    stop_before(slot, what, "stops it last");
    tell_epochs(task, what, until, out);
    const char *fails = getenv("KAS_TEST_FINAL_FAILS"); /* number of a finalist */
    if (fails && task->kind == KAS_WORK_FINAL && task->index == atoi(fails))
        out->state = KAS_WORK_DIVERGED;
    out->measured.accuracy = fake_accuracy(task, until - 1);
    if (until < EPOCHS && out->state == KAS_WORK_FINISHED) {
        out->state = KAS_WORK_WAITING;
        return KAS_OK;
    }
    out->correct = fake_correct(task);
    if (task->weights)
        KAS_TRY(kas_file_write_atomic(task->weights, "w", 1));
    note("end %s\n", key);
    return KAS_OK;
}

static void fake_close(void *state)
{
    free(state);
}

static void fake_leave(void *own)
{
    (void)own;
}

/* Ends a step on the device that the slot had reported early. */
static void fake_settle(void *own)
{
    (void)own;
    nap(0.004);
    steps_taken++;
    note("settled\n");
}

static const kas_evaluator fake = {fake_open,  fake_enter, fake_evaluate,
                                   fake_leave, fake_close, fake_settle};

#endif

/* What tests check after a supervisor was killed on its way: everything was done, nothing twice,
 * and no worker is left behind. */
#ifndef KAS_TESTS_UNIT_SEARCH_SEARCH_DONE_H
#define KAS_TESTS_UNIT_SEARCH_SEARCH_DONE_H

#include "search_fixture.h"

/* Checks in the notes and in the store that everything was done and nothing twice. `exact`: no
 * worker was killed between a checkpoint and its note. */
static inline void assert_all_done_once(int candidates, int finals, bool exact)
{
    int count;
    kas_work *list = items(&count);
    assert_int_equal(count, 1 + candidates + finals);
    kas_store *store;
    char path[KAS_STUDY_PATH], line[64], key[32];
    OK(kas_study_path(study_dir, "study.db", path));
    OK(kas_store_open(path, KAS_STORE_READ, &store));
    for (int i = 0; i < count; i++) {
        assert_int_equal(list[i].state, KAS_WORK_FINISHED);
        kas_epoch *epoch;
        int epochs;
        OK(kas_store_epochs(store, list[i].id, &epoch, &epochs));
        assert_int_equal(epochs, EPOCHS);
        free(epoch);
        fake_key((int)list[i].kind, list[i].index, list[i].seed, key);
        for (int e = 0; e < EPOCHS; e++) {
            snprintf(line, sizeof line, "epoch %s.%d", key, e);
            int times = times_noted(line);
            if (times > 1 || (exact && times != 1))
                fail_msg("\"%s\" noted %d times", line, times);
        }
    }
    kas_store_close(store);
    kas_work_list_free(list, count);
}

/* With one finalist and one seed. */
static inline void assert_done_once(int candidates, bool exact)
{
    assert_all_done_once(candidates, 2, exact);
}

/* Runs the supervisor in a process of its own; its exit code is the status. */
static pid_t start(plan p, const kas_search_options *search, int workers)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(supervise(p, search, workers, 30, "d")); /* a failed check in here ends as 1 */
    return pid;
}

/* Returns how many lines of the notes begin with `word`. */
static inline int lines_noted(const char *word)
{
    kas_buf text = {0};
    int lines = 0;
    if (!kas_file_exists(notes))
        return 0;
    OK(kas_file_read(notes, 1 << 20, &text));
    for (const char *at = kas_buf_text(&text); at; at = (at = strchr(at, '\n')) ? at + 1 : NULL)
        lines += strncmp(at, word, strlen(word)) == 0;
    kas_buf_free(&text);
    return lines;
}

/* Waits until that many lines begin with `word`. */
static inline void wait_for_lines(const char *word, int lines)
{
    for (int i = 0; i < 6000 && lines_noted(word) < lines; i++)
        nap(0.01);
    if (lines_noted(word) < lines)
        fail_msg("%d lines \"%s...\" were noted in 60 s, expected %d", lines_noted(word), word,
                 lines);
}

static inline void assert_no_worker_lives(void)
{
    kas_buf text = {0};
    if (!kas_file_exists(notes))
        return;
    OK(kas_file_read(notes, 1 << 20, &text));
    for (const char *at = kas_buf_text(&text); (at = strstr(at, "worker ")); at++) {
        pid_t pid = (pid_t)atol(at + 7);
        for (int i = 0; i < 3000 && kill(pid, 0) == 0; i++) {
            char path[64], line[256] = "";
            snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
            FILE *file = fopen(path, "r");
            if (file && !fgets(line, sizeof line, file))
                line[0] = 0;
            if (file)
                fclose(file);
            if (strstr(line, ") Z")) /* killed, and only waits for init to collect it */
                break;
            if (i == 2999)
                fail_msg("worker %ld lives on", (long)pid);
            nap(0.01);
        }
    }
    kas_buf_free(&text);
}

#endif

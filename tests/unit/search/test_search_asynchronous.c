/* Rungs without generations: who goes on and when, that no worker waits, and that a kill loses no
 * promotion and no training. */
#include "host/core/random.h"
#include "search_done.h"

static kas_search_options asynchronous(int candidates, kas_int_list rungs)
{
    kas_search_options search = search_options(candidates);
    search.rungs = rungs;
    search.asynchronous = true;
    return search;
}

/* Returns where a line begins in the notes; -1 when it is not there. */
static long place_of(const char *line)
{
    kas_buf text = {0};
    char whole[64];
    snprintf(whole, sizeof whole, "%s\n", line);
    OK(kas_file_read(notes, 1 << 20, &text));
    const char *at = strstr(kas_buf_text(&text), whole);
    const long place = at ? (long)(at - kas_buf_text(&text)) : -1;
    kas_buf_free(&text);
    return place;
}

static void assert_order(const char *const *line, int count)
{
    for (int i = 1; i < count; i++)
        if (place_of(line[i - 1]) < 0 || place_of(line[i - 1]) >= place_of(line[i]))
            fail_msg("\"%s\" does not come before \"%s\"", line[i - 1], line[i]);
}

/* Every candidate has ended, where its rung says, and was trained so far and no farther. */
static void assert_ended(const kas_search_options *search, int candidates, int finished)
{
    int count, seen = 0, done = 0;
    kas_work *list = items(&count);
    for (int i = 0; i < count; i++) {
        const kas_work *w = &list[i];
        if (w->kind != KAS_WORK_CANDIDATE)
            continue;
        const bool last = w->state == KAS_WORK_FINISHED;
        const int rung = w->rung,
                  epochs = rung < search->rungs.count ? search->rungs.value[rung] : EPOCHS;
        assert_int_equal(w->index, seen++);
        assert_int_equal(w->state, last ? KAS_WORK_FINISHED : KAS_WORK_NOT_PROMOTED);
        assert_int_equal(last, rung == search->rungs.count);
        assert_int_equal(w->epochs, epochs);
        done += last;
        for (int e = 0; e < EPOCHS; e++) { /* a kill may come between a checkpoint and its note */
            char line[32];
            snprintf(line, sizeof line, "epoch 1.%d.%d", (int)w->index, e);
            assert_true(times_noted(line) <= (e < epochs));
        }
    }
    assert_int_equal(seen, candidates);
    if (finished)
        assert_int_equal(done, finished);
    assert_true(done > 0);
    assert_int_equal(state_of(list, count, KAS_WORK_FINAL_BASELINE, 0), KAS_WORK_FINISHED);
    kas_work_list_free(list, count);
}

/* Of 6 the best two go on, of 9 the best three; of these three the best one to the end. */
TEST_WITH(best_third_so_far, set_up, tear_down)
{
    const kas_search_options search = asynchronous(9, (kas_int_list){2, {1, 2}});
    const plan p = {.what = {"level 90 50", "level 85 50", "level 80 50", "level 75 50",
                             "level 70 50", "level 65 50", "level 60 50", "level 55 50",
                             "level 50 50"}};
    static const char *const order[] = {
        "epoch 1.2.0", "epoch 1.0.1", /* the best of 3 goes on before a new one begins */
        "epoch 1.3.0", "epoch 1.5.0", "epoch 1.1.1",
        "epoch 1.6.0", "epoch 1.8.0", "epoch 1.2.1", /* the third at the second rung */
        "epoch 1.0.2", "epoch 1.0.3"};
    OK(supervise(p, &search, 1, 30, "d"));
    assert_order(order, sizeof order / sizeof *order);
    assert_ended(&search, 9, 1);
    int count;
    kas_work *list = items(&count);
    for (int i = 0; i < count; i++)
        if (list[i].kind == KAS_WORK_CANDIDATE)
            assert_int_equal(list[i].rung, list[i].index == 0 ? 2 : list[i].index < 3);
    kas_work_list_free(list, count);
}

/* Somebody goes on, also where there are too few for a third. */
TEST_WITH(the_last_round_up, set_up, tear_down)
{
    const kas_search_options search = asynchronous(2, (kas_int_list){2, {1, 2}});
    OK(supervise((plan){.limit = 0}, &search, 2, 30, "d"));
    assert_ended(&search, 2,
                 0); /* the second one is promoted, too, if it comes later and is better */
    OK(kas_remove_tree(study_dir));
    unlink(notes);
    const kas_search_options more = asynchronous(9, (kas_int_list){2, {1, 2}});
    OK(supervise((plan){.limit = 2}, &more, 1, 30, "d")); /* the strategy has no more than two */
    assert_ended(&more, 2, 1);
}

/* Candidate 0 waits until another one was trained to the end. In generations that never happens,
 * because the others would wait for it at the first rung. */
TEST_WITH(nobody_waits_for_others, set_up, tear_down)
{
    const kas_search_options search = asynchronous(6, (kas_int_list){1, {1}});
    const plan p = {.what = {"await: end 1.3"}};
    static const char *const order[] = {"begin 1.0", "end 1.3", "epoch 1.0.0"};
    OK(supervise(p, &search, 2, 30, "d"));
    assert_order(order, 3);
    assert_ended(&search, 6, 0);
}

/* Reads the rung of each candidate, which must not have fallen. */
static void note_rungs(int rung[MAX_CANDIDATES])
{
    int count;
    kas_work *list = items(&count);
    for (int i = 0; i < count; i++)
        if (list[i].kind == KAS_WORK_CANDIDATE) {
            assert_true(list[i].rung >= rung[list[i].index]);
            rung[list[i].index] = list[i].rung;
        }
    kas_work_list_free(list, count);
}

static void killed(int workers, unsigned seed)
{
    const kas_search_options search = asynchronous(10, (kas_int_list){2, {1, 2}});
    const plan p = {.what = {"ok", "weak", "long", "ok", "long", "ok", "weak", "long", "long"}};
    int killed = 0, status = -1, rung[MAX_CANDIDATES] = {0};
    kas_rng rng = kas_rng_make(seed, KAS_PURPOSE_TEST, 0);
    for (int run = 0; run < 5 && status != 0; run++) {
        const int before = lines_noted("");
        const pid_t pid = start(p, &search, workers);
        wait_for_lines("", before + 3 + (int)kas_rng_below(&rng, 8));
        nap(0.02 * kas_rng_unit(&rng));
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        killed += WIFSIGNALED(status);
        assert_no_worker_lives();
        note_rungs(rung);
    }
    assert_true(killed >= 3);
    OK(supervise(p, &search, workers, 30, "d"));
    note_rungs(rung);
    assert_ended(&search, 10, 0);
}

TEST_WITH(killed_and_resumed, set_up, tear_down)
{
    killed(1, 1);
    OK(kas_remove_tree(study_dir));
    unlink(notes);
    killed(2, 2);
}

TEST_WITH(two_supervisors, set_up, tear_down)
{
    const kas_search_options search = asynchronous(10, (kas_int_list){2, {1, 2}});
    pid_t pid[2];
    for (int i = 0; i < 2; i++)
        pid[i] = start((plan){.limit = 0}, &search, 2);
    for (int i = 0; i < 2; i++) {
        int status;
        assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
        assert_int_equal(status, 0);
    }
    assert_ended(&search, 10, 0);
}

int main(int argc, char **argv)
{
    search_main(argc, argv, &fake);
    return run_all_tests(NULL, NULL);
}

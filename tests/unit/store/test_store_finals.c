/* Final trainings in the store: seeds, answers, and what comes back when a study grows. */
#include "support/test.h"

#include <string.h>

#include "host/store/store.h"
#include "support/server.h"

/* Ends the final training of a candidate and a seed. */
static void finish_final(kas_store *store, int64_t index, int64_t seed)
{
    kas_work work;
    kas_measured measured = kas_measured_unknown();
    bool found, held;
    OK(kas_store_claim(store, KAS_WORK_FINAL, -1, "me", 60, &work, &found));
    assert_true(found);
    assert_true(work.index == index && work.seed == seed);
    OK(kas_store_record_correct(store, work.id, work.lease, "4:8", &held));
    assert_true(held);
    OK(kas_store_finish(store, work.id, work.lease, KAS_WORK_FINISHED, "", &measured, &held));
    assert_true(held);
    OK(kas_store_record_correct(store, work.id, work.lease, "4:f", &held));
    assert_false(held);
    kas_work_clear(&work);
}

static kas_status grow(void *context, const kas_study *present, kas_study_change *out)
{
    (void)context, (void)present;
    out->grows = true;
    return KAS_OK;
}

static void add_finals(kas_store *store, const kas_work list[3])
{
    bool added;
    OK(kas_store_add_finals(store, "d", list, 3, &added));
    assert_true(added);
}

static void assert_final(const kas_work *w, kas_work_kind kind, int64_t index, int64_t seed,
                         bool answers, kas_work_state state)
{
    if (w->kind != kind || w->index != index || w->seed != seed || w->answers != answers ||
        w->state != state)
        fail_msg("found %s of %d, seed %d, %s, %s", kas_work_kind_name(w->kind), (int)w->index,
                 (int)w->seed, w->answers ? "answers" : "explores", kas_work_state_name(w->state));
}

/* Final trainings come back with the seeds that they have, and an answer whose weights another one
 * has overwritten is repeated. */
TEST_BOTH(finals_come_back)
{
    kas_store *store = open_store();
    kas_study study = {.options = "{}", .options_digest = "d"};
    kas_work *list;
    int count;
    bool created;
    OK(kas_store_begin_study(store, &study, &created));
    const kas_work first[] = {{.kind = KAS_WORK_FINAL, .index = 4, .seed = 0, .answers = true},
                              {.kind = KAS_WORK_FINAL, .index = 4, .seed = 1, .answers = true},
                              {.kind = KAS_WORK_FINAL_BASELINE}},
                   other[] = {{.kind = KAS_WORK_FINAL, .index = 4, .seed = 0},
                              {.kind = KAS_WORK_FINAL, .index = 5, .seed = 0, .answers = true},
                              {.kind = KAS_WORK_FINAL_BASELINE}};
    OK(kas_store_add_finals(store, "other", first, 3, &created)); /* it got more candidates */
    assert_false(created);
    add_finals(store, first);
    finish_final(store, 4, 0);
    OK(kas_store_revise(store, grow, NULL)); /* seed 1 was not trained: it is forgotten */
    add_finals(store, first);
    OK(kas_store_list(store, &list, &count));
    assert_int_equal(count, 3);
    assert_final(&list[0], KAS_WORK_FINAL, 4, 0, true, KAS_WORK_FINISHED);
    assert_final(&list[1], KAS_WORK_FINAL, 4, 1, true, KAS_WORK_QUEUED);
    assert_string_equal(list[0].correct, "4:8");
    kas_work_list_free(list, count);
    finish_final(store, 4, 1);
    OK(kas_store_revise(store, grow, NULL));
    add_finals(store, other); /* another answer: 4 only explores */
    finish_final(store, 5, 0);
    OK(kas_store_list(store, &list, &count));
    assert_int_equal(count, 4);
    assert_final(&list[0], KAS_WORK_FINAL, 4, 0, false, KAS_WORK_FINISHED);
    assert_final(&list[1], KAS_WORK_FINAL, 5, 0, true, KAS_WORK_FINISHED);
    assert_final(&list[3], KAS_WORK_EARLIER_FINAL, 4, 1, true, KAS_WORK_FINISHED);
    kas_work_list_free(list, count);
    OK(kas_store_revise(store, grow, NULL));
    add_finals(store, first); /* 4 again: best/ has the weights of 5 */
    OK(kas_store_list(store, &list, &count));
    assert_final(&list[0], KAS_WORK_FINAL, 4, 0, true, KAS_WORK_QUEUED);
    assert_final(&list[1], KAS_WORK_FINAL, 4, 1, true, KAS_WORK_FINISHED);
    assert_final(&list[3], KAS_WORK_EARLIER_FINAL, 5, 0, true, KAS_WORK_FINISHED);
    kas_work_list_free(list, count);
    kas_store_close(store);
}

RUN_TESTS(start_server, stop_server)

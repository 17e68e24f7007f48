/* Items that wait at a rung, and items that never run. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>

#include "host/store/store.h"
#include "support/server.h"

/* What prediction discards has ended when it is added, and nobody can claim it. */
TEST_BOTH(items_that_never_run)
{
    kas_store *store = open_store();
    kas_work work = {.kind = KAS_WORK_CANDIDATE,
                     .name = "slow",
                     .state = KAS_WORK_PREDICTED_SLOW,
                     .reason = "three times the limit",
                     .predicted = 0.25},
             *list;
    int count;
    bool added, found;
    OK(kas_store_add(store, &work, &added));
    OK(kas_store_claim(store, KAS_WORK_CANDIDATE, -1, "me", 60, &work, &found));
    assert_false(found);
    OK(kas_store_list(store, &list, &count));
    assert_int_equal(count, 1);
    assert_int_equal(list[0].state, KAS_WORK_PREDICTED_SLOW);
    assert_string_equal(kas_work_state_name(list[0].state), "predicted-slow");
    assert_string_equal(list[0].reason, "three times the limit");
    assert_true(list[0].predicted == 0.25 && list[0].ended > 0);
    kas_work_list_free(list, count);
    kas_store_close(store);
}

/* Claims the next candidate, and pauses it with an accuracy. */
static void train_to_the_rung(kas_store *store, int64_t index, double accuracy)
{
    kas_work work;
    kas_measured measured = kas_measured_unknown();
    bool found, held;
    OK(kas_store_claim(store, KAS_WORK_CANDIDATE, -1, "me", 60, &work, &found));
    assert_true(found);
    assert_int_equal(work.index, index);
    measured.accuracy = accuracy;
    OK(kas_store_record_gains(store, work.id, work.lease, "[1.5]", &held));
    assert_true(held);
    OK(kas_store_pause(store, work.id, work.lease, &measured, &held));
    assert_true(held);
    OK(kas_store_pause(store, work.id, work.lease, &measured, &held));
    assert_false(held);
    kas_work_clear(&work);
}

/* A rung ends once, whoever ends it and how often. */
TEST_BOTH(rungs)
{
    kas_store *store = open_store();
    kas_work *list, work;
    int count;
    bool found;
    for (int k = 0; k < 2; k++) {
        const kas_work candidate = {.kind = KAS_WORK_CANDIDATE, .index = k, .kernel = "{}"};
        bool added;
        OK(kas_store_add(store, &candidate, &added));
    }
    train_to_the_rung(store, 0, 0.25);
    train_to_the_rung(store, 1, 0.5);
    OK(kas_store_claim(store, KAS_WORK_CANDIDATE, -1, "me", 60, &work, &found));
    assert_false(found); /* both wait */
    OK(kas_store_list(store, &list, &count));
    const kas_settled end[] = {{list[0].id, 0, false, "the other was better"},
                               {list[1].id, 0, true, "-"}};
    kas_work_list_free(list, count);
    for (int time = 0; time < 2; time++) {
        OK(kas_store_settle(store, end, 2));
        OK(kas_store_list(store, &list, &count));
        assert_int_equal(list[0].state, KAS_WORK_NOT_PROMOTED);
        assert_string_equal(list[0].reason, "the other was better");
        assert_true(list[0].rung == 0 && list[0].ended > 0 && list[0].measured.accuracy == 0.25);
        assert_int_equal(list[1].state, KAS_WORK_QUEUED);
        assert_true(list[1].rung == 1 && isnan(list[1].ended) && !*list[1].reason);
        assert_string_equal(list[1].gains, "[1.5]");
        kas_work_list_free(list, count);
    }
    train_to_the_rung(store, 1, 0.75);
    OK(kas_store_settle(store, end, 2)); /* a late report about the rung before */
    OK(kas_store_list(store, &list, &count));
    assert_true(list[1].state == KAS_WORK_WAITING && list[1].rung == 1);
    kas_work_list_free(list, count);
    kas_store_close(store);
}

/* Who has reached a rung, and with which accuracy, is one question to the store. */
TEST_BOTH(who_has_reached_a_rung)
{
    static const int epochs[] = {2, 0, 1, 3}; /* of candidates 0 to 2, and of the baseline */
    kas_store *store = open_store();
    kas_reached *list;
    int64_t id[4];
    int count;
    bool done;
    for (int i = 0; i < 4; i++) {
        const kas_work item = {.kind = i == 3 ? KAS_WORK_BASELINE : KAS_WORK_CANDIDATE,
                               .index = i % 3};
        kas_work work;
        OK(kas_store_add(store, &item, &done));
        OK(kas_store_claim(store, item.kind, -1, "me", 60, &work, &done));
        id[i] = work.id;
        for (int e = 0; e < epochs[i]; e++) {
            const kas_epoch epoch = {.epoch = e, .validation_accuracy = 0.25 * i + 0.125 * e};
            OK(kas_store_record_epoch(store, work.id, work.lease, &epoch, &done));
        }
        kas_work_clear(&work);
    }
    OK(kas_store_reached(store, 0, &list, &count));
    assert_int_equal(count, 2);
    assert_true(list[0].id == id[0] && list[0].accuracy == 0);
    assert_true(list[1].id == id[2] && list[1].accuracy == 0.5);
    free(list);
    OK(kas_store_reached(store, 1, &list, &count));
    assert_int_equal(count, 1);
    assert_true(list[0].id == id[0] && list[0].accuracy == 0.125);
    free(list);
    OK(kas_store_reached(store, 2, &list, &count));
    assert_int_equal(count, 0);
    free(list);
    kas_store_close(store);
}

RUN_TESTS(start_server, stop_server)

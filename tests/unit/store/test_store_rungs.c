/* Items that wait at a rung, and items that never run. */
#include "support/test.h"

#include <math.h>

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

RUN_TESTS(start_server, stop_server)

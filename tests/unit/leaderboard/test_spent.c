/* Device time of items and studies: processor time on the CPU, where it is known. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "host/leaderboard/spent.h"
#include "support/folder.h"

/* Adds an item that took `effort`, with an epoch of 3 s and half a second for compilers. */
static void add(kas_store *store, kas_work_kind kind, int index, kas_elapsed effort)
{
    const kas_work item = {.kind = kind, .index = index, .attempt = -1};
    const kas_epoch epoch = {.seconds = 3};
    kas_measured measured = kas_measured_unknown();
    kas_work work;
    bool done;
    OK(kas_store_add(store, &item, &done));
    OK(kas_store_claim(store, kind, -1, "host|boot|space|1|1", 60, &work, &done));
    OK(kas_store_record_epoch(store, work.id, work.lease, &epoch, &done));
    OK(kas_store_add_elapsed(store, work.id, work.lease, effort, &done));
    measured.compile_seconds = 0.5;
    OK(kas_store_finish(store, work.id, work.lease, KAS_WORK_FINISHED, "", &measured, &done));
    assert_true(done);
    kas_work_clear(&work);
}

static void assert_spent(kas_store *store, const kas_study *study, const char *device,
                         const double item[4], double all)
{
    kas_search_options o = kas_search_options_default();
    kas_work *list;
    int count;
    double seconds;
    snprintf(o.device, sizeof o.device, "%s", device);
    OK(kas_store_list(store, &list, &count));
    assert_int_equal(count, 5);
    for (int i = 0; i < 4; i++) {
        OK(kas_spent_item(store, &o, &list[i], &seconds));
        if (fabs(seconds - item[i]) > 1e-9)
            fail_msg("%s: item %d took %g s, expected %g", device, i, seconds, item[i]);
    }
    OK(kas_spent_study(store, study, &o, list, count, &seconds));
    assert_true(fabs(seconds - all) <= 1e-9);
    kas_work_list_free(list, count);
}

/* The imitation before an epoch, and the scores of candidates, are device time too. */
TEST_WITH(device_time, make_folder, remove_folder)
{
    char path[300];
    kas_store *store;
    bool created;
    kas_study study = {.options = "{}", .busy_seconds = 7, .drawing_seconds = 20}, read;
    snprintf(path, sizeof path, "%s/study.db", folder);
    OK(kas_store_open(path, KAS_STORE_CREATE, &store));
    OK(kas_store_begin_study(store, &study, &created));
    OK(kas_store_add_busy(store, 2, 1));
    OK(kas_store_get_study(store, &read));
    assert_true(read.busy_seconds == 9 && read.drawing_seconds == 21);
    add(store, KAS_WORK_BASELINE, 0, (kas_elapsed){8, 10});
    add(store, KAS_WORK_CANDIDATE, 0, (kas_elapsed){9, 12});
    add(store, KAS_WORK_CANDIDATE, 1, (kas_elapsed){6, NAN}); /* it was not alone in its worker */
    add(store, KAS_WORK_CANDIDATE, 2, (kas_elapsed){NAN, NAN});
    add(store, KAS_WORK_FINAL, 0, (kas_elapsed){100, 100}); /* no part of the search */
    assert_spent(store, &read, "cpu", (const double[]){10, 12, 6, 3.5}, 21 + 31.5);
    assert_spent(store, &read, "cuda", (const double[]){8, 9, 6, 3.5}, 21 + 26.5);
    kas_study_clear(&read);
    kas_store_close(store);
}

RUN_TESTS()

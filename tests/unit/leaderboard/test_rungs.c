/* Who goes on from a rung, by each objective, in generations and without them; what a rung was worth. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "host/core/file/files.h"
#include "host/leaderboard/rungs.h"

enum { ITEMS = 7 };

/* 0 is the most accurate, and 5 costs least of those that are nearly as good. By fronts alone 6, which
 * is hopeless, would take its place. */
static const double accuracy[ITEMS] = {0.300, 0.299, 0.298, 0.297, 0.296, 0.295, 0.1},
                    predicted[ITEMS] = {1.00, 0.99, 0.98, 0.97, 0.90, 0.20, 0.1};
/* The third that goes on; behind the ends of a front comes what has most room between its neighbours. */
static const int best[][3] = {[KAS_OBJECTIVE_ACCURACY] = {0, 1, 2},
                              [KAS_OBJECTIVE_LATENCY] = {0, 5, 4},
                              [KAS_OBJECTIVE_FRONTIER] = {0, 5, 4}};
enum { OBJECTIVES = sizeof best / sizeof *best };

static char path[64];
static kas_store *store;

static int set_up(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/kas-rungs-XXXXXX");
    return mkdtemp(path) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return kas_remove_tree(path) == KAS_OK ? 0 : -1;
}

static kas_search_options looking_for(int objective)
{
    kas_search_options o = kas_search_options_default();
    o.recipe = kas_recipe_default();
    o.recipe.epochs = 30;
    o.rungs = (kas_int_list){1, {1}};
    o.objective = objective;
    return o;
}

TEST(the_best_of_a_generation)
{
    for (int objective = 0; objective < OBJECTIVES; objective++) {
        const kas_search_options o = looking_for(objective);
        kas_work list[ITEMS];
        kas_settled *end;
        char reason[128];
        int count;
        for (int k = 0; k < ITEMS; k++)
            list[k] = (kas_work){.id = k,
                                 .kind = KAS_WORK_CANDIDATE,
                                 .index = k,
                                 .state = KAS_WORK_WAITING,
                                 .predicted = predicted[k],
                                 .measured = {.accuracy = accuracy[k]}};
        OK(kas_rungs_settle(&o, list, ITEMS, reason, &end, &count));
        assert_int_equal(count, ITEMS);
        for (int i = 0; i < count; i++) {
            assert_int_equal(end[i].promoted, i < 3);
            if (i < 3)
                assert_int_equal(end[i].id, best[objective][i]);
        }
        free(end);
    }
}

/* All wait at the first rung. */
static void fill_store(void)
{
    for (int k = 0; k < ITEMS; k++) {
        kas_work one = {
            .kind = KAS_WORK_CANDIDATE, .index = k, .kernel = "{}", .predicted = predicted[k]};
        const kas_epoch epoch = {.validation_accuracy = accuracy[k]};
        kas_measured measured = kas_measured_unknown();
        bool done;
        snprintf(one.name, sizeof one.name, "%016x", k);
        OK(kas_store_add(store, &one, &done));
        OK(kas_store_claim(store, KAS_WORK_CANDIDATE, -1, "me", 1e6, &one, &done));
        OK(kas_store_record_epoch(store, one.id, one.lease, &epoch, &done));
        measured.accuracy = accuracy[k];
        OK(kas_store_pause(store, one.id, one.lease, &measured, &done));
        kas_work_clear(&one);
    }
}

static int64_t promote(const kas_search_options *o)
{
    kas_work *list;
    kas_settled *end;
    char reason[128];
    int items, count;
    OK(kas_store_list(store, &list, &items));
    OK(kas_rungs_promote(store, o, list, items, false, reason, &end, &count));
    assert_true(count == 1 && end->promoted);
    int64_t index = -1;
    for (int i = 0; i < items; i++)
        if (list[i].id == end->id)
            index = list[i].index;
    OK(kas_store_settle(store, end, count));
    free(end);
    kas_work_list_free(list, items);
    return index;
}

TEST_WITH(one_after_the_other, set_up, tear_down)
{
    for (int objective = 0; objective < OBJECTIVES; objective++) {
        const kas_search_options o = looking_for(objective);
        char file[96];
        snprintf(file, sizeof file, "%s/%d.db", path, objective);
        OK(kas_store_open(file, KAS_STORE_CREATE, &store));
        fill_store();
        for (int i = 0; i < 3; i++)
            assert_int_equal(promote(&o), best[objective][i]);
        kas_store_close(store);
    }
}

/* Three were trained to the end, in the reverse order; the fourth went no farther than its imitation. */
TEST_WITH(the_worth_of_an_imitation, set_up, tear_down)
{
    kas_search_options o = looking_for(KAS_OBJECTIVE_FRONTIER);
    char file[96];
    kas_work *list;
    int items;
    o.recipe.epochs = 2;
    o.rungs = (kas_int_list){1, {KAS_RUNG_OF_IMITATION}};
    snprintf(file, sizeof file, "%s/worth.db", path);
    OK(kas_store_open(file, KAS_STORE_CREATE, &store));
    for (int k = 0; k < 4; k++) {
        kas_work one = {.kind = KAS_WORK_CANDIDATE, .index = k, .kernel = "{}"};
        bool done;
        OK(kas_store_add(store, &one, &done));
        OK(kas_store_claim(store, KAS_WORK_CANDIDATE, -1, "me", 1e6, &one, &done));
        for (int e = KAS_EPOCH_OF_IMITATION; e < (k < 3 ? 2 : 0); e++) {
            const kas_epoch epoch = {
                .epoch = e, .validation_accuracy = e < 0 ? 0.1 * k : 0.9 - 0.1 * k, .seconds = 5};
            OK(kas_store_record_epoch(store, one.id, one.lease, &epoch, &done));
        }
        kas_work_clear(&one);
    }
    kas_rung_report rung[2];
    OK(kas_store_list(store, &list, &items));
    assert_true(list[0].epochs == 2 && list[3].epochs == 0);
    OK(kas_rungs_report(store, &o, list, items, rung));
    assert_true(rung[0].epochs == 0 && rung[0].reached == 4 && rung[0].seconds == 20);
    assert_true(rung[0].compared == 3 && rung[0].agreement == -1);
    assert_true(rung[1].epochs == 2 && rung[1].reached == 3 && rung[1].seconds == 30);
    kas_work_list_free(list, items);
    kas_store_close(store);
}

RUN_TESTS()

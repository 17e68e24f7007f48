/* The frontier and what is printed of a study: the table and the JSON. */
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "host/core/json/json.h"
#include "host/leaderboard/finals.h"
#include "host/leaderboard/judge.h"
#include "host/leaderboard/leaderboard.h"
#include "host/leaderboard/objective.h"

static kas_work finished_work(int index, double accuracy, double latency, double flops)
{
    kas_work w = {.kind = KAS_WORK_CANDIDATE,
                  .index = index,
                  .state = KAS_WORK_FINISHED,
                  .flops = flops,
                  .params = 1,
                  .conv_flops = 100,
                  .conv_params = 4,
                  .kernel = "{}",
                  .measured = kas_measured_unknown()};
    snprintf(w.name, sizeof w.name, "kernel-%c", 'a' + index);
    w.measured.accuracy = accuracy;
    w.measured.latency = latency;
    return w;
}

TEST(best_and_frontier)
{
    kas_work work[] = {finished_work(0, 0.5, 1.0, 9),  finished_work(1, 0.7, 2.0, 8),
                       finished_work(2, 0.7, 3.0, 7),  finished_work(3, 0.4, 0.5, 6),
                       finished_work(4, 0.45, 1.0, 5), finished_work(5, 0.9, 0.1, 1),
                       finished_work(6, 0.99, 0.1, 1)};
    work[5].state = KAS_WORK_PRUNED;
    work[6].kind = KAS_WORK_FINAL;
    bool frontier[7];
    kas_judge_frontier(work, 7, frontier);
    static const bool expected[] = {true, true, false, true, false, false, false};
    for (int i = 0; i < 7; i++)
        assert_int_equal(frontier[i], expected[i]);
    kas_search_options o = kas_search_options_default();
    o.objective = KAS_OBJECTIVE_ACCURACY;
    assert_int_equal(kas_objective_leader(&o, work, 7)->index, 2); /* a tie: fewer FLOPs */
    assert_null(kas_objective_leader(&o, work + 5, 2));
    work[6] = finished_work(6, 0.55, 0.9, 1); /* the unmodified network: it beats 0 and 4 */
    work[6].kind = KAS_WORK_BASELINE;
    kas_judge_frontier(work, 7, frontier);
    static const bool with_it[] = {false, true, false, true, false, false, true};
    for (int i = 0; i < 7; i++)
        assert_int_equal(frontier[i], with_it[i]);
}

TEST(leaderboard)
{
    kas_work work[] = {finished_work(0, 0.6, 2.0, 9), finished_work(0, 0.5, 1.0, 50),
                       finished_work(1, 0.7, 4.0, 25), finished_work(2, 0.1, 4.0, 25)};
    work[0].kind = KAS_WORK_BASELINE;
    work[0].kernel = NULL;
    work[0].correct = "100:ffc0000000000000000000000 4:f";
    work[1].correct = "100:0000000000000000000000000 4:c";
    work[3].state = KAS_WORK_PRUNED;
    kas_buf text = {0};
    OK(kas_leaderboard_text(work, 4, 0, &text));
    const char *second = strstr(text.data, "kernel-a"), *first = strstr(text.data, "kernel-b"),
               *baseline = strstr(text.data, "unmodified");
    assert_non_null(strstr(second, "10.00 +- 3.00")); /* sqrt(10 - 100 / 100) of 100 images */
    assert_true(first && second && baseline && first < baseline && baseline < second);
    assert_null(strstr(text.data, "kernel-c"));
    assert_non_null(strstr(first, "70.00%"));
    assert_non_null(strstr(first, "2.00x"));  /* of the baseline's latency */
    assert_non_null(strstr(first, "0.250x")); /* of the FLOPs */
    kas_buf_clear(&text);
    OK(kas_leaderboard_json(work, 4, &text));
    int lines = 0;
    for (char *line = strtok(text.data, "\n"); line; line = strtok(NULL, "\n"), lines++) {
        cJSON *object;
        OK(kas_json_parse("line", line, strlen(line), (kas_json_limits){65536, 8}, &object));
        assert_true(cJSON_GetObjectItem(object, "schema_version")->valuedouble == 1);
        const char *kind = cJSON_GetObjectItem(object, "kind")->valuestring;
        assert_string_equal(kind, lines == 0 ? "baseline" : "candidate");
        if (lines == 1)
            assert_true(cJSON_GetObjectItem(object, "rank")->valuedouble == 1 &&
                        cJSON_GetObjectItem(object, "accuracy")->valuedouble == 0.7 &&
                        cJSON_IsNull(cJSON_GetObjectItem(object, "lost")));
        if (lines == 2) {
            assert_true(cJSON_GetObjectItem(object, "lost")->valuedouble == 0.1);
            assert_true(
                cJSON_IsNull(cJSON_GetObjectItem(object, "confirm_lost"))); /* no finalist */
        }
        if (lines == 3)
            assert_true(cJSON_IsNull(cJSON_GetObjectItem(object, "rank")));
        cJSON_Delete(object);
    }
    assert_int_equal(lines, 4);
    kas_buf_free(&text);
}

/* A known kernel that comes from another study is no new one. */
TEST(known_however_it_came)
{
    kas_work work[] = {finished_work(0, 0.6, 2, 9), finished_work(0, 0.6, 1, 9),
                       finished_work(1, 0.57, 0.5, 9), finished_work(0, 0.6, 1, 9),
                       finished_work(0, 0.6, 2, 9)};
    const kas_work_kind others[] = {KAS_WORK_FINAL, KAS_WORK_FINAL_BASELINE};
    work[0].kind = KAS_WORK_BASELINE;
    for (int i = 0; i < 2; i++)
        work[3 + i].kind = others[i];
    for (int i = 1; i < 4; i += 2) {
        strcpy(work[i].name, "f3cfe4b8440ddba6"); /* kernels/shift_conv.json */
        strcpy(work[i].origin, "from:05-f3cfe4b8440ddba6");
    }
    strcpy(work[2].origin, "from:06");
    work[3].answers = true;
    kas_search_options o = kas_search_options_default();
    o.objective = KAS_OBJECTIVE_ACCURACY;
    o.halves = false;
    kas_buf text = {0};
    OK(kas_finals_text(&o, work, 5, &text));
    assert_non_null(strstr(kas_buf_text(&text), "answer: kernel f3cfe4b8440ddba6 "
                                                "(from:05-f3cfe4b8440ddba6, known:shift_conv), "));
    assert_non_null(strstr(kas_buf_text(&text), "best new kernel: kernel-b (from:06), "));
    kas_buf_clear(&text);
    kas_work_json(work, 5, &work[1], 1, true, &text);
    assert_non_null(strstr(kas_buf_text(&text), "\"known_as\": \"shift_conv\""));
    kas_buf_clear(&text);
    kas_work_json(work, 5, &work[2], 2, true, &text);
    assert_non_null(strstr(kas_buf_text(&text), "\"known_as\": null"));
    kas_buf_free(&text);
}

/* Who leads is asked after every change: of a finished candidate the images are read once, unless the
 * unmodified network has others. */
TEST(losses_are_kept)
{
    kas_work work[] = {finished_work(0, 0.5, 2, 9), finished_work(0, 0.5, 1, 9),
                       finished_work(1, 0.45, 0.5, 9)};
    kas_search_options o = kas_search_options_default();
    kas_losses losses = {0};
    work[0].kind = KAS_WORK_BASELINE;
    o.halves = false;
    o.max_loss = 1;
    for (int i = 0; i < 3; i++)
        work[i].id = 1000 * i;
    work[0].correct = work[1].correct = "20:ffc00";
    work[2].correct = "20:ff800";
    assert_int_equal(kas_objective_leader_kept(&o, work, 3, &losses)->index, 0);
    work[2].correct = "20:ffc00"; /* now it loses nothing either, and is faster */
    assert_int_equal(kas_objective_leader_kept(&o, work, 3, &losses)->index, 0);
    assert_int_equal(kas_objective_leader(&o, work, 3)->index, 1);
    work[0].correct = "20:ff000";
    assert_int_equal(kas_objective_leader_kept(&o, work, 3, &losses)->index, 1);
    kas_losses_free(&losses);
}

RUN_TESTS()

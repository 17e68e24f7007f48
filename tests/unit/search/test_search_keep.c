/* What a study keeps: candidates when it is given more, weights of its frontier. With real workers
 * (search_fixture.h). */
#include "search_fixture.h"

/* What kas_session_begin does to a study of fewer candidates. */
static void grow(const kas_search_options *search)
{
    kas_store *store = open_store(search);
    kas_buf text = {0};
    kas_search_options_write(search, &text);
    OK(kas_store_revise(store, more_candidates, text.data));
    kas_study study;
    OK(kas_store_get_study(store, &study));
    assert_string_equal(study.options, text.data);
    kas_study_clear(&study);
    kas_buf_free(&text);
    kas_store_close(store);
}

/* More candidates: what is done stays, a new winner gets its final training, the unmodified
 * network's and those of the same winner are not repeated. */
TEST_WITH(finished_studies_grow, set_up, tear_down)
{
    plan p = {.what = {[5] = "weak", [6] = "weak"}};
    kas_search_options search = search_options(3);
    OK(supervise(p, &search, 1, 30, "d"));
    search.candidates = 5;
    grow(&search);
    OK(supervise(p, &search, 2, 30, "d"));
    int count;
    kas_work *list = items(&count);
    assert_int_equal(count, 5 + 3 + 1);
    assert_int_equal(state_of(list, count, KAS_WORK_FINAL, 4), KAS_WORK_FINISHED);
    assert_int_equal(state_of(list, count, KAS_WORK_EARLIER_FINAL, 2), KAS_WORK_FINISHED);
    kas_work_list_free(list, count);
    search.candidates = 7; /* both weak: candidate 4 stays the best */
    grow(&search);
    OK(supervise(p, &search, 1, 30, "d"));
    list = items(&count);
    assert_int_equal(count, 7 + 3 + 1);
    assert_int_equal(state_of(list, count, KAS_WORK_FINAL, 4), KAS_WORK_FINISHED);
    assert_int_equal(state_of(list, count, KAS_WORK_EARLIER_FINAL, 2), KAS_WORK_FINISHED);
    kas_work_list_free(list, count);
    assert_int_equal(times_noted("begin 2.2"), 1);
    assert_int_equal(times_noted("begin 2.4"), 1);
    assert_int_equal(times_noted("begin 3.0"), 1);
    assert_int_equal(times_noted("begin 0.0"), 1);
    assert_int_equal(times_noted("begin 1.0"), 1);
}

static bool has_weights(int candidate)
{
    char relative[64], path[KAS_STUDY_PATH];
    snprintf(relative, sizeof relative, "weights/kernel%d.safetensors", candidate);
    OK(kas_study_path(study_dir, relative, path));
    return kas_file_exists(path);
}

/* Accuracy rises with the number of the fake candidates; slow ones have three times the latency.
 * The frontier: 4, the best, and 3, the best of the fast. */
TEST_WITH(the_frontier_keeps_its_weights, set_up, tear_down)
{
    plan p = {.what = {[1] = "slow", [2] = "weak", [4] = "slow"}};
    static const struct {
        uint64_t limit; /* a fake file has one byte */
        bool kept[5];
    } cases[] = {{1 << 20, {[3] = true, [4] = true}}, {1, {[4] = true}}, {0, {false}}};
    kas_search_options search = search_options(5);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weights_limit = cases[i].limit;
        OK(supervise(p, &search, 2, 30, "d"));
        for (int k = 0; k < 5; k++)
            if (has_weights(k) != cases[i].kept[k])
                fail_msg("limit %d: candidate %d", (int)cases[i].limit, k);
        OK(kas_remove_tree(study_dir));
    }
    weights_limit = 1 << 20;
}

int main(int argc, char **argv)
{
    search_main(argc, argv, &fake);
    return run_all_tests(NULL, NULL);
}

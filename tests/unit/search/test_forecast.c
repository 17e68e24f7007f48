/* The forecast of a search: what it predicts, what it discards, and that a study keeps its machine
 * model. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/file/files.h"
#include "host/core/log.h"
#include "host/data/import/import.h"
#include "host/search/session.h"
#include "support/folder.h"

static char images[128], study[128];

static int set_up(void **state)
{
    kas_dataset *shapes = NULL;
    kas_log_set_level(KAS_LOG_QUIET);
    if (make_folder(state) != 0)
        return -1;
    snprintf(images, sizeof images, "%s/s.h5", folder);
    snprintf(study, sizeof study, "%s/study", folder);
    kas_status status = kas_make_shapes(40, 8, 8, 4, 1, &shapes);
    if (status == KAS_OK)
        status = kas_dataset_write(images, shapes);
    kas_dataset_close(shapes);
    return status;
}

static kas_status begin(double latency, const char *machine, bool dry, kas_session *out)
{
    kas_search_options search = kas_search_options_default();
    search.recipe = kas_recipe_default();
    search.recipe.batch = 8;
    search.strategy = KAS_STRATEGY_RANDOM;
    search.latency = latency;
    snprintf(search.latency_on, sizeof search.latency_on, "%s", machine);
    const kas_session_request request = {.study = study,
                                         .dataset = images,
                                         .search = search,
                                         .net = "resnet20",
                                         .device = "cpu",
                                         .threads = 1};
    return kas_session_begin(&request, dry, out);
}

/* Draws so many candidates; returns how many were discarded, and the largest predicted ratio of the
 * others. */
static int discarded(kas_session *s, int count, double *largest)
{
    const double unmodified = kas_search_forecast_unmodified(&s->forecast);
    int slow = 0;
    *largest = 0;
    assert_true(unmodified > 0);
    for (int k = 0; k < count; k++) {
        kas_work work;
        bool ready;
        OK(s->strategy.next(s->strategy.context, NULL, 0, &work, &ready));
        assert_true(ready && work.predicted > 0);
        const double ratio = work.predicted / unmodified;
        if (work.state == KAS_WORK_PREDICTED_SLOW) {
            assert_non_null(strstr(work.reason, "predicted to take"));
            assert_true(ratio > s->forecast.limit);
            slow++;
        } else {
            assert_int_equal(work.state, KAS_WORK_QUEUED);
            *largest = fmax(*largest, ratio);
        }
        kas_work_clear(&work);
    }
    return slow;
}

/* A limit discards those beyond it and the margin, and nobody else; the list stays the same. */
TEST_WITH(a_limit_discards, set_up, remove_folder)
{
    kas_session s;
    double largest;
    OK(begin(0, "h100", true, &s));
    assert_int_equal(discarded(&s, 30, &largest), 0);
    kas_session_close(&s);
    OK(begin(0.75, "h100", true, &s));
    const int slow = discarded(&s, 30, &largest);
    assert_true(slow > 0 && slow < 30);
    assert_true(largest <= s.forecast.limit && s.forecast.limit >= 0.75);
    kas_session_close(&s);
}

/* What calibration or another command says later does not matter to a study. */
TEST_WITH(a_study_keeps_its_machine, set_up, remove_folder)
{
    kas_session s;
    char path[200];
    OK(begin(1, "h100", false, &s));
    const double unmodified = kas_search_forecast_unmodified(&s.forecast);
    assert_string_not_equal(s.search.machine, "");
    kas_session_close(&s);
    const kas_session_request again = {.study = study};
    OK(kas_session_resume(&again, &s));
    assert_true(kas_search_forecast_unmodified(&s.forecast) == unmodified);
    kas_session_close(&s);
    assert_int_equal(begin(1, "l4", false, &s), KAS_USAGE);
    assert_non_null(strstr(kas_error(), "--latency-on"));
    kas_session_close(&s);
    assert_int_equal(begin(1, "abacus", true, &s), KAS_BAD_INPUT);
    kas_session_close(&s);
    snprintf(path, sizeof path, "%s/machine.json", study);
    OK(kas_file_write_atomic(path, "{}", 2));
    assert_int_equal(kas_session_resume(&again, &s), KAS_STORE);
    assert_non_null(strstr(kas_error(), "not the machine model"));
    kas_session_close(&s);
}

/* The model of this machine, for one thread, is one that can be read again. */
TEST_WITH(this_machine_is_kept, set_up, remove_folder)
{
    kas_session s;
    const kas_session_request again = {.study = study};
    OK(begin(0, "", false, &s));
    const double unmodified = kas_search_forecast_unmodified(&s.forecast);
    kas_session_close(&s);
    OK(kas_session_resume(&again, &s));
    assert_true(kas_search_forecast_unmodified(&s.forecast) == unmodified && unmodified > 0);
    kas_session_close(&s);
}

RUN_TESTS()

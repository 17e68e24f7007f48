/* How a search opens what a study before it has decided. */
#include "support/test.h"

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

/* Do the images stay in their file? */
static bool stays_in_file(bool stream, bool dry)
{
    kas_session session;
    kas_search_options search = kas_search_options_default();
    search.recipe = kas_recipe_default();
    search.recipe.batch = 8;
    const kas_session_request request = {.study = study,
                                         .dataset = images,
                                         .search = search,
                                         .net = "resnet20",
                                         .device = "cpu",
                                         .stream = stream};
    OK(kas_session_begin(&request, dry, &session));
    const bool stays = session.problem.dataset->fd != 0;
    kas_session_close(&session);
    return stays;
}

TEST(a_study_goes_on_streaming)
{
    assert_false(stays_in_file(false, true));
    assert_true(stays_in_file(true, false));
    assert_true(stays_in_file(false, true));
    assert_true(stays_in_file(false, false));
}

/* A study that goes on uses the plans of the GPU's libraries with which it began. */
TEST(a_study_keeps_its_plans)
{
    kas_session session;
    char plans[160];
    unsetenv("KAS_CUDA_PINS");
    const kas_session_request request = {.study = study};
    OK(kas_session_resume(&request, &session));
    kas_session_close(&session);
    assert_non_null(getenv("KAS_CUDA_PINS"));
    snprintf(plans, sizeof plans, "%s/plans", study);
    assert_string_equal(getenv("KAS_CUDA_PINS"), plans);
}

/* The same images with another mean are other inputs of a network. */
TEST(a_study_keeps_its_scaling)
{
    kas_session session;
    kas_dataset *data;
    char other[160];
    snprintf(other, sizeof other, "%s/other.h5", folder);
    OK(kas_dataset_open(images, &data));
    data->mean[0] += 0.125F;
    OK(kas_dataset_write(other, data));
    kas_dataset_close(data);
    const kas_session_request request = {.study = study, .dataset = other};
    assert_int_equal(kas_session_resume(&request, &session), KAS_STORE);
    assert_non_null(strstr(kas_error(), "has the same images, but mean "));
    kas_session_close(&session);
}

RUN_TESTS(set_up, remove_folder)

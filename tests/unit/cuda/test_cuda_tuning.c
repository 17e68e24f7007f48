/* The choice among plans (src/cuda/tuning.c), on the stand-in, whose engines pretend how long they
 * take: the first of cuDNN's ranking that may be used (tile 1) is slower than the second (tile 2).
 */
#include "support/test.h"

#include <glob.h>
#include <pthread.h>
#include <unistd.h>

#include "cuda_fixture.h"
#include "host/core/file/files.h"
#include "host/core/file/private.h"
#include "jit/compile/cache.h"
#include "support/folder.h"

#define TILE_1 "engine 13, knobs 2=1"
#define TILE_2 "engine 13, knobs 2=2"

static char cache[128], pins[128];
static const kas_conv_desc conv3x3 = F32(2, 4, 4, 8, 8, 1, 3, 3, 1, 1, 1, 8, 8, 0),
                           conv1x1 = F32(2, 4, 4, 8, 8, 1, 1, 1, 1, 0, 0, 8, 8, 0);

static int make_folders(void **state)
{
    if (make_folder(state) != 0)
        return -1;
    snprintf(cache, sizeof cache, "%s/cache", folder);
    snprintf(pins, sizeof pins, "%s/pins", folder);
    unsetenv("KAS_CUDA_PINS");
    setenv("KAS_CUDA_PLANS", "timed", 1);
    return set_up(state);
}

static int remove_folders(void **state)
{
    unsetenv("KAS_SIM_MEMORY");
    return remove_folder(state);
}

/* The kernels come from the usual cache: making them again for each test would take minutes. */
static kas_device *open_warm(void)
{
    kas_device *device = open_cuda("cuda");
    kas_module *module;
    OK(kas_module_builtin(device, KAS_F32, &module));
    setenv("KAS_CACHE_DIR", cache, 1);
    return device;
}

static void close_warm(kas_device *device, const char *usual)
{
    kas_device_close(device);
    if (usual)
        setenv("KAS_CACHE_DIR", usual, 1);
    else
        unsetenv("KAS_CACHE_DIR");
}

static const char *losing = ""; /* as KAS_SIM_LOSE_NAN */

/* What had run when quiet was first asked for; -1: it was not. */
static int quiet;

static int plans; /* that cuDNN was asked for by the last `prepare_with` */

static void be_quiet(void *context)
{
    int launches, matmuls, convolutions;
    sim.counts(&launches, &matmuls, &convolutions);
    if (*(int *)context < 0)
        *(int *)context = matmuls + convolutions;
}

/* Prepares a convolution, perhaps with an epilogue, on a device of its own; the number of
 * convolutions and products that were run for it. */
static int prepare_with(const kas_conv_desc *desc, const kas_conv_epilogue *epilogue)
{
    int launches, matmuls, convolutions;
    char usual[4096];
    kas_conv *conv;
    const char *value = getenv("KAS_CACHE_DIR");
    snprintf(usual, sizeof usual, "%s", value ? value : "");
    sim.reset();
    sim.lose_nan(losing);
    kas_device *device = open_warm();
    kas_device_set_quiet(device, be_quiet, &quiet);
    quiet = -1;
    OK(kas_conv_create(device, desc, &conv));
    if (epilogue)
        OK(kas_conv_add_epilogue(conv, *epilogue));
    OK(kas_device_sync(device));
    sim.counts(&launches, &matmuls, &convolutions);
    plans = sim.plans();
    kas_conv_free(conv);
    close_warm(device, value ? usual : NULL);
    assert_int_equal(sim.live(), 0);
    return matmuls + convolutions;
}

static int prepare(const kas_conv_desc *desc)
{
    return prepare_with(desc, NULL);
}

/* How many records below a folder begin with a line, of how many. */
static int records(const char *below, const char *line, int *all)
{
    char pattern[192];
    glob_t found;
    int same = 0;
    snprintf(pattern, sizeof pattern, "%s/*/*.plan", below);
    *all = 0;
    if (glob(pattern, 0, NULL, &found) != 0)
        return 0;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        kas_buf text = {0};
        bool whole;
        OK(kas_cache_read(found.gl_pathv[i], &text, &whole));
        *all += whole;
        same += whole && strncmp(kas_buf_text(&text), line, strlen(line)) == 0;
        kas_buf_free(&text);
    }
    globfree(&found);
    return same;
}

static void expect_records(const char *below, const char *line, int count)
{
    int all;
    const int same = records(below, line, &all);
    if (same != count || all != count)
        fail_msg("%s: %d of %d records are \"%s...\", expected %d", below, same, all, line, count);
}

static char *cached_plans(void)
{
    static char path[160];
    snprintf(path, sizeof path, "%s/plans", cache);
    return path;
}

TEST_WITH(the_fastest_is_taken_once, make_folders, remove_folders)
{
    assert_true(prepare(&conv3x3) > 3 * 2 * 5); /* candidates of three passes were timed */
    assert_int_equal(quiet, 0);                 /* neighbours were made to wait before the first */
    expect_records(cached_plans(), TILE_2, 3);
    assert_int_equal(prepare(&conv3x3), 0); /* found again */
    assert_int_equal(quiet, -1);
}

/* Of the engines the first has 8 runs: one to warm up, one that says that it takes milliseconds, and three
 * samples of two launches. The others have four: they take nine times as long as the second and more. */
TEST_WITH(the_hopeless_are_given_up, make_folders, remove_folders)
{
    kas_conv_desc forward = conv3x3;
    forward.passes = 1u << KAS_CONV_FORWARD;
    /* the second, of a millisecond, is tried up to three times where the machine disturbs it */
    assert_in_range(prepare(&forward), 8 + 8 + 3 * 4, 8 + 14 + 3 * 4);
}

/* Each plan is made once, the winner's too, and 12 of the 16 in the ranking: a plan may take the library a
 * second. Of what it compiles at run time, which is first in its ranking, two are made, and last. */
TEST_WITH(few_plans_are_made, make_folders, remove_folders)
{
    kas_conv_desc forward = conv3x3;
    forward.passes = 1u << KAS_CONV_FORWARD;
    prepare(&forward);
    assert_int_equal(plans, 12);
    expect_records(cached_plans(), TILE_2, 1);
    prepare(&forward);
    assert_int_equal(plans, 1);
}

/* What a network does not run is neither timed nor pinned; the others find what was chosen. */
TEST_WITH(only_passes_that_are_used, make_folders, remove_folders)
{
    kas_conv_desc forward = conv3x3;
    kas_plan *plan;
    kas_conv *conv;
    forward.passes = 1u << KAS_CONV_FORWARD;
    setenv("KAS_CUDA_PINS", pins, 1);
    prepare(&forward);
    expect_records(pins, TILE_2, 1);
    prepare(&conv3x3);
    expect_records(pins, TILE_2, 3);
    kas_device *device = open_cuda("cuda");
    setenv("KAS_CUDA_PLANS", "heuristic", 1);
    OK(kas_conv_create(device, &forward, &conv));
    OK(kas_conv_add_bias(conv));
    OK(kas_plan_create(device, &plan));
    assert_int_equal(kas_plan_conv(plan, conv, KAS_CONV_BACKWARD_WEIGHTS, NULL, NULL, NULL),
                     KAS_USAGE);
    kas_plan_free(plan);
    kas_conv_free(conv);
    kas_device_close(device);
}

/* The stand-in's engines pretend to take a millisecond and more; our kernels take what they do. */
TEST_WITH(own_depthwise_kernels_are_timed_too, make_folders, remove_folders)
{
    const kas_conv_desc depthwise = F32(2, 4, 4, 8, 8, 8, 3, 3, 1, 1, 1, 8, 8, 0);
    assert_true(prepare(&depthwise) > 3 * 2 * 5);
    expect_records(cached_plans(), "direct\n", 3);
    assert_int_equal(prepare(&depthwise), 0);
    const kas_conv_epilogue relu6 = {.activation = KAS_ACTIVATION_RELU6};
    assert_true(prepare_with(&depthwise, &relu6) > 2 * 5);
    expect_records(cached_plans(), "direct\n", 4);
    setenv("KAS_CUDA_PLANS", "heuristic", 1); /* the library's first */
    setenv("KAS_CUDA_PINS", pins, 1);
    prepare(&depthwise);
    expect_records(pins, TILE_1, 3);
}

TEST_WITH(products_are_timed_too, make_folders, remove_folders)
{
    assert_true(prepare(&conv1x1) > 3 * 2 * 5);
    expect_records(cached_plans(), "algorithm ", 3);
    assert_int_equal(prepare(&conv1x1), 0);
}

TEST_WITH(an_epilogue_is_a_problem_of_its_own, make_folders, remove_folders)
{
    static const kas_conv_epilogue list[] = {
        {false, KAS_ACTIVATION_RELU}, {true, KAS_ACTIVATION_RELU}, {true, KAS_ACTIVATION_NONE}};
    prepare(&conv3x3);
    for (int i = 0; i < 3; i++) {
        assert_true(prepare_with(&conv3x3, &list[i]) > 2 * 5);
        expect_records(cached_plans(), TILE_2, 3 + i + 1);
        assert_int_equal(prepare_with(&conv3x3, &list[i]), 0);
    }
}

/* The fastest engine is not taken where its ReLU makes a number of NaN, without an activation it
 * is. */
TEST_WITH(an_activation_must_keep_nan, make_folders, remove_folders)
{
    static const kas_conv_epilogue relu = {true, KAS_ACTIVATION_RELU},
                                   none = {true, KAS_ACTIVATION_NONE};
    prepare(&conv3x3);
    losing = "fastest";
    assert_true(prepare_with(&conv3x3, &relu) > 5);
    prepare_with(&conv3x3, &none);
    int all;
    assert_int_equal(records(cached_plans(), TILE_1, &all), 1);
    assert_int_equal(records(cached_plans(), TILE_2, &all), 4);
    assert_int_equal(prepare_with(&conv3x3, &relu), 0); /* found again: it was asked before */
    losing = "";
}

/* That no candidate can be used is found out once, by one run of each of the four, and written down. */
TEST_WITH(that_there_is_no_plan_is_written_down, make_folders, remove_folders)
{
    static const kas_conv_epilogue relu = {true, KAS_ACTIVATION_RELU};
    int all;
    prepare(&conv3x3);
    losing = "cudnn";
    assert_int_equal(prepare_with(&conv3x3, &relu), 4);
    assert_int_equal(records(cached_plans(), "none\n", &all), 1);
    losing = "";
    assert_int_equal(prepare_with(&conv3x3, &relu), 0);
    setenv("KAS_CUDA_PINS", pins, 1); /* a study takes this from the cache too, and keeps it */
    assert_int_equal(prepare_with(&conv3x3, &relu), 0);
    assert_int_equal(records(pins, "none\n", &all), 1);
    OK(kas_remove_tree(cache));
    assert_int_equal(prepare_with(&conv3x3, &relu), 0);
    expect_records(cached_plans(), "", 0);
}

TEST_WITH(nothing_is_timed_where_nobody_wants_it, make_folders, remove_folders)
{
    setenv("KAS_CUDA_PLANS", "heuristic", 1);
    assert_int_equal(prepare(&conv3x3), 0);
    assert_int_equal(quiet, -1);
    expect_records(cached_plans(), "", 0);
    setenv("KAS_CUDA_PLANS", "fastest", 1);
    kas_device *device = open_cuda("cuda");
    kas_conv *conv;
    assert_int_equal(kas_conv_create(device, &conv3x3, &conv), KAS_USAGE);
    assert_non_null(strstr(kas_error(), "expected \"timed\" or \"heuristic\""));
    kas_device_close(device);
}

/* What a study began with holds, whatever this machine would choose. */
TEST_WITH(pinned_plans_go_first, make_folders, remove_folders)
{
    setenv("KAS_CUDA_PINS", pins, 1);
    setenv("KAS_CUDA_PLANS", "heuristic", 1);
    prepare(&conv3x3);
    expect_records(pins, TILE_1, 3);
    setenv("KAS_CUDA_PLANS", "timed", 1);
    assert_int_equal(prepare(&conv3x3), 0);
    expect_records(pins, TILE_1, 3);
    expect_records(cached_plans(), "", 0);
}

TEST_WITH(a_study_takes_the_plans_of_the_cache, make_folders, remove_folders)
{
    prepare(&conv3x3);
    setenv("KAS_CUDA_PINS", pins, 1);
    assert_int_equal(prepare(&conv3x3), 0);
    expect_records(pins, TILE_2, 3);
}

static void write_to_all(const char *below, const char *text, size_t size, bool whole)
{
    char pattern[192];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/*/*.plan", below);
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++)
        OK(whole ? kas_cache_write(found.gl_pathv[i], text, size)
                 : kas_file_write_atomic(found.gl_pathv[i], text, size));
    globfree(&found);
}

TEST_WITH(damaged_records_are_made_again, make_folders, remove_folders)
{
    static const char *const texts[] = {
        "",
        "nonsense\n",
        "engine 99, knobs\n",     /* an engine that there is not */
        "engine 13, knobs 2=7\n", /* a tile that there is not */
        "engine 13, knobs 2\n",   /* cut off */
        "engine 12, knobs\n",     /* refuses */
        "direct\n",               /* only of a depthwise convolution */
        "engine -1, knobs\n",     /* not how it is written */
        "engine 13, knobs 2=1 2=1 2=1 2=1 2=1 2=1 2=1 2=1 2=1 2=1 2=1 2=1 2=1 2=1 2=1 2=1 2=1\n",
    };
    prepare(&conv3x3);
    write_to_all(cached_plans(), "half a fi", 9, false);
    prepare(&conv3x3);
    expect_records(cached_plans(), TILE_2, 3);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        write_to_all(cached_plans(), texts[i], strlen(texts[i]), true);
        prepare(&conv3x3);
        expect_records(cached_plans(), TILE_2, 3);
    }
    prepare(&conv1x1);
    write_to_all(cached_plans(), "algorithm 1 2 3 4 5 6 7 8\n", 26, true);
    assert_true(prepare(&conv1x1) > 0);
}

/* The second engine fails as it is captured, once: the first is taken for that pass. */
TEST_WITH(an_engine_that_fails_is_passed_over, make_folders, remove_folders)
{
    char usual[4096], name[64];
    kas_conv *conv;
    const char *value = getenv("KAS_CACHE_DIR");
    snprintf(usual, sizeof usual, "%s", value ? value : "");
    sim.reset();
    kas_device *device = open_warm();
    /* behind the first engine's three runs, and two before the second is captured */
    sim.make_fail("cudnnBackendExecute", 6, 0, false);
    OK(kas_conv_create(device, &conv3x3, &conv));
    assert_true(sim.failed(name));
    sim.make_fail(NULL, 0, 0, false);
    kas_conv_free(conv);
    close_warm(device, value ? usual : NULL);
    assert_int_equal(sim.live(), 0);
    int all;
    assert_int_equal(records(cached_plans(), TILE_1, &all), 1);
    assert_int_equal(records(cached_plans(), TILE_2, &all), 2);
}

/* The scratch memory for timing is not to be had; the convolution's own is. Nothing is written
 * down: another time there may be memory. */
TEST_WITH(without_memory_the_ranking_decides, make_folders, remove_folders)
{
    const kas_conv_desc large = F32(64, 32, 32, 8, 8, 1, 3, 3, 1, 1, 1, 8, 8, 0);
    setenv("KAS_SIM_MEMORY", "1000000", 1); /* x alone has 2 MB */
    setenv("KAS_CUDA_PINS", pins, 1);
    assert_int_equal(prepare(&large), 0);
    expect_records(pins, "", 0);
    expect_records(cached_plans(), "", 0);
}

TEST_WITH(every_call_while_timing_may_fail, make_folders, remove_folders)
{
    int tried = 0;
    for (int nth = 1;; nth += 59, tried++) {
        char name[64], usual[4096];
        kas_conv *conv = NULL;
        const char *value = getenv("KAS_CACHE_DIR");
        snprintf(usual, sizeof usual, "%s", value ? value : "");
        kas_remove_tree(cache);
        sim.reset();
        kas_device *device = open_warm();
        sim.make_fail("*", nth, 0, false);
        const kas_status status = kas_conv_create(device, &conv3x3, &conv);
        const bool failed = sim.failed(name);
        sim.make_fail(NULL, 0, 0, false);
        kas_conv_free(conv);
        close_warm(device, value ? usual : NULL);
        if (sim.live() != 0)
            fail_msg("call %d, %s, failed and %d objects were left", nth, name, sim.live());
        if (!failed) {
            OK(status);
            break;
        }
    }
    printf("%d calls failed, one in each run\n", tried);
    assert_true(tried > 10);
}

/* ---- several at once ---------------------------------------------------------------------------
 *
 * Were two to time at the same moment, each would measure the other too. */

static void *prepare_in_thread(void *result)
{
    kas_status *status = result;
    kas_device *device = NULL;
    kas_conv *conv = NULL;
    *status = kas_device_open("cuda", 0, &device);
    if (*status == KAS_OK)
        *status = kas_conv_create(device, &conv3x3, &conv);
    kas_conv_free(conv);
    kas_device_close(device);
    return NULL;
}

/* Lets the tests' own cache have the hand-written kernels, which the threads look for there. */
static void share_kernels(void)
{
    char usual[4096], from[4200], to[160];
    OK(kas_cache_dir(usual));
    snprintf(from, sizeof from, "%s/jit", usual);
    snprintf(to, sizeof to, "%s/jit", cache);
    OK(kas_mkdirs(cache));
    assert_int_equal(symlink(from, to), 0);
}

static void let_threads_choose(void)
{
    enum { THREADS = 4 };
    pthread_t thread[THREADS];
    kas_status status[THREADS];
    char usual[4096];
    const char *value = getenv("KAS_CACHE_DIR");
    snprintf(usual, sizeof usual, "%s", value ? value : "");
    sim.reset();
    setenv("KAS_CUDA_PINS", pins, 1);
    share_kernels();
    kas_device *device = open_warm();
    setenv("KAS_CACHE_TRUSTED", "1", 1); /* else no link is followed */
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, prepare_in_thread, &status[i]), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    unsetenv("KAS_CACHE_TRUSTED");
    close_warm(device, value ? usual : NULL);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(status[i], KAS_OK);
    expect_records(pins, TILE_2, 3);
    expect_records(cached_plans(), TILE_2, 3);
    assert_int_equal(sim.live(), 0);
}

TEST_WITH(threads_choose_the_same, make_folders, remove_folders)
{
    let_threads_choose();
}

/* A folder in the lock's place: nobody gets it, all of them time, and the first pins. */
TEST_WITH(threads_choose_the_same_without_a_lock, make_folders, remove_folders)
{
    char lock[192];
    snprintf(lock, sizeof lock, "%s/timing.lock", cached_plans());
    OK(kas_mkdirs(lock));
    let_threads_choose();
}

RUN_TESTS(load_sim)

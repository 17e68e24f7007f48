/* The suite `data` of `kas-gpu bench` on small files of its own: whole lines, figures that agree.
 */
#include "support/test.h"

#include <unistd.h>

#include "bench_fixture.h"
#include "host/bench/data_file.h"
#include "host/core/log.h"
#include "host/data/dataset.h"

enum { IMAGES = 40, BATCH = 8 };

static char path[64];

static kas_bench_options small(void)
{
    return (kas_bench_options){
        .dataset = path, .repeats = 2, .threads = 2, .batch = BATCH, .device = "cpu"};
}

static void check_line(const cJSON *line, double bytes)
{
    assert_string_equal(text(line, "suite"), "data");
    assert_string_equal(text(line, "case"), path);
    assert_string_equal(text(line, "input"), "3x224x224");
    assert_true(number(line, "images") == IMAGES && number(line, "read_threads") == 2);
    double image = positive(line, "bytes_per_image");
    assert_true(image > 0.5 * bytes && image < 1.5 * bytes);
    check_spread(line, "read_images_per_second");
    check_spread(line, "feed_images_per_second");
    check_spread(line, "feed_to_bound");
    check_spread(line, "cpu_seconds_per_image");
    check_spread(line, "bound_share_of_cpu");
    assert_true(positive(line, "read_cpu_seconds_per_image") < 1);
    double rate = positive(line, "feed_images_per_second");
    assert_true(fabs(positive(line, "feed_mb_per_second") / (rate * image / 1e6) - 1) < 1e-6);
    double cpu = positive(line, "cpu_seconds_per_image");
    assert_true(fabs(positive(line, "cores_for_3000_images_per_second") / (3000 * cpu) - 1) < 1e-6);
    assert_true(number(line, "memory_growth_bytes") < 64e6);
}

TEST(pixels_are_measured)
{
    kas_bench_options o = small();
    lines l;
    OK(kas_bench_data_file(path, KAS_BENCH_PIXELS, IMAGES));
    run_json("data", &o, &l);
    assert_int_equal(l.count, 1);
    check_line(l.line[0], 224 * 224 * 3);
    assert_string_equal(text(l.line[0], "bound"), "read");
    free_lines(&l);
    kas_bench_sink sink = {.put = take_text, .context = &l};
    OK(kas_bench_find("data")->run(&o, &sink));
    assert_non_null(strstr(kas_buf_text(&l.text), "cores for 3000/s"));
    free_lines(&l);
}

TEST(jpegs_are_measured)
{
    kas_bench_options o = small();
    lines l;
    kas_dataset *d = NULL;
    kas_status status = kas_bench_data_file(path, KAS_BENCH_JPEG, IMAGES);
    if (status == KAS_UNSUPPORTED) {
        print_message("SKIPPED: this build has no libjpeg-turbo\n");
        skip();
    }
    OK(status);
    OK(kas_dataset_open(path, &d));
    assert_true(d->encoded && d->train.count == IMAGES);
    kas_dataset_close(d);
    run_json("data", &o, &l);
    assert_int_equal(l.count, 1);
    check_line(l.line[0], 110e3); /* as ImageNet's */
    check_spread(l.line[0], "decode_images_per_second");
    free_lines(&l);
}

static int set_up(void **state)
{
    (void)state;
    kas_log_set_level(KAS_LOG_QUIET);
    snprintf(path, sizeof path, "/tmp/kas-test-bench-data-%ld.h5", (long)getpid());
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return unlink(path);
}

RUN_TESTS(set_up, tear_down)

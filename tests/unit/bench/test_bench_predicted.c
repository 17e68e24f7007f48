/* The suite `predicted` of kas-gpu bench: its sums are those of its lines, worst first. */
#include "support/test.h"

#include "bench_fixture.h"

static double lost(const cJSON *line)
{
    return number(line, "seconds") - number(line, "floor_seconds");
}

static void check_launch(const cJSON *line)
{
    double longest = 0;
    static const char *const parts[] = {"memory", "arithmetic", "latency"};
    for (int i = 0; i < 3; i++)
        longest = fmax(longest, number(line, parts[i]));
    near("seconds", number(line, "seconds"), longest + positive(line, "launch_seconds"));
    near("ratio", number(line, "ratio"), number(line, "seconds") / positive(line, "floor_seconds"));
    assert_true(number(line, "ratio") >= 1);
}

TEST(sums_are_those_of_the_launches)
{
    const kas_bench_options o = {.net = "resnet20",
                                 .c = 3,
                                 .h = 8,
                                 .w = 8,
                                 .classes = 10,
                                 .repeats = 2,
                                 .batch = 8,
                                 .kernel = "kernels/involution.json",
                                 .sample = kas_sample_defaults(),
                                 .seed = 3};
    double seconds = 0, floor = 0, near_floor = 0, largest = 0;
    int of_network = 0, of_file = 0, backward = 0;
    lines l;
    run_json("predicted", &o, &l);
    const int launches = l.count - 1;
    for (int i = 0; i < launches; i++) {
        const cJSON *line = l.line[i];
        const cJSON *kernel = cJSON_GetObjectItem(line, "kernel");
        check_launch(line);
        assert_string_equal(text(line, "device"), "h100");
        assert_true(i == 0 || lost(line) <= lost(l.line[i - 1]));
        seconds += number(line, "seconds");
        floor += number(line, "floor_seconds");
        near_floor += number(line, "ratio") <= 2 ? number(line, "seconds") : 0;
        largest = fmax(largest, number(line, "ratio"));
        of_network += cJSON_IsNull(kernel);
        of_file += cJSON_IsString(kernel) && !strcmp(kernel->valuestring, "involution.json");
        backward += cJSON_IsTrue(cJSON_GetObjectItem(line, "backward"));
    }
    const cJSON *sums = l.line[launches];
    assert_int_equal(number(sums, "launches"), launches);
    assert_true(number(sums, "programs") >= 1 + 3 * 3); /* the network; kernels at each shape */
    near("seconds", number(sums, "seconds"), seconds);
    near("floor_seconds", number(sums, "floor_seconds"), floor);
    near("near_floor", number(sums, "near_floor"), near_floor / seconds);
    near("largest_ratio", number(sums, "largest_ratio"), largest);
    assert_true(number(sums, "median_program_ratio") >= 1);
    assert_true(of_network >= 60 && of_file >= 10 && backward >= 20);
    free_lines(&l);
}

TEST(tables_have_the_sums)
{
    kas_machine machine;
    OK(kas_machine_find("a100", "auto", 0, &machine));
    const kas_bench_options o = {
        .classes = 10, .kernel = "kernels/conv.json", .machine = &machine, .batch = 2};
    lines l = {0};
    const kas_bench_sink sink = {.put = take_text, .context = &l};
    OK(kas_bench_find("predicted")->run(&o, &sink));
    assert_non_null(strstr(kas_buf_text(&l.text), "resnet20 at batch 2 in fp32 on a100"));
    assert_non_null(strstr(kas_buf_text(&l.text), "conv.json"));
    free_lines(&l);
}

RUN_TESTS(NULL, print_largest)

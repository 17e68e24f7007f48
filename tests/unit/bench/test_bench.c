/* Suites of `kas-gpu bench` at tiny sizes: every line is whole JSON whose numbers are finite and
 * agree with each other and with what the libraries say.  Never a time: that a line holds 0.01 or
 * 10 seconds is the machine's affair. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench_fixture.h"
#include "host/bench/step_model.h"
#include "host/cli/cli.h"
#include "host/core/file/files.h"
#include "host/core/log.h"
#include "host/net/targets.h"
#include "host/space/file/kernel_json.h"
#include "host/space/sample/sampler.h"
#include "support/folder.h"

static double sum_of_rejections(const cJSON *line)
{
    const cJSON *rejected, *reason;
    double sum = 0;
    int reasons = 0;
    OK(kas_json_object(line, "line", "rejected", &rejected));
    cJSON_ArrayForEach(reason, rejected) sum += reason->valuedouble, reasons++;
    assert_int_equal(reasons, KAS_REJECT_COUNT - 1);
    return sum;
}

/* As many attempts of a sampler made here, with the options the line tells: the same kernels. */
static void check_against_sampler(const cJSON *line)
{
    kas_sample_options o = kas_sample_defaults();
    kas_net *net;
    kas_target *targets;
    kas_sampler *sampler;
    int count, c, h, w;
    assert_int_equal(sscanf(text(line, "input"), "%dx%dx%d", &c, &h, &w), 3);
    OK(kas_net_build(text(line, "net"), h, w, c, 10, &net));
    OK(kas_net_targets(net, NULL, &targets, &count));
    o.seed = (uint64_t)number(line, "seed");
    o.min_primitives = (int)number(line, "min_primitives");
    o.max_primitives = (int)number(line, "max_primitives");
    o.budget.max_flops_ratio = number(line, "max_flops_ratio");
    o.budget.max_params_ratio = number(line, "max_params_ratio");
    OK(kas_sampler_create(&o, targets, count, &sampler));
    uint64_t tries = (uint64_t)number(line, "tries");
    while (kas_sampler_stats(sampler).tries < tries) {
        kas_sample sample;
        uint64_t left = tries - kas_sampler_stats(sampler).tries;
        if (kas_sampler_next(sampler, left, &sample) == KAS_OK)
            kas_sample_free(&sample);
    }
    assert_int_equal(kas_sampler_stats(sampler).accepted, (uint64_t)number(line, "kernels"));
    assert_int_equal(count, (int)number(line, "targets"));
    kas_sampler_free(sampler);
    free(targets);
    kas_net_free(net);
}

TEST(sampler_lines_agree)
{
    /* One repeat, so that the median is the one quotient that can be checked. */
    kas_bench_options o = {.classes = 10, .seconds = 0.02, .repeats = 1, .seed = 5};
    o.sample = kas_sample_defaults();
    lines l;
    run_json("sampler", &o, &l);
    assert_int_equal(l.count, 3 * 25); /* networks x (3 to 25, and two ranges) */
    for (int i = 0; i < l.count; i++) {
        const cJSON *line = l.line[i];
        double kernels = positive(line, "kernels"), tries = positive(line, "tries");
        check_machine(line, "sampler");
        check_spread(line, "kernels_per_core_second");
        near("acceptance", number(line, "acceptance"), kernels / tries);
        near("rate", number(line, "kernels_per_core_second"),
             kernels / positive(line, "cpu_seconds"));
        near("tries", kernels + sum_of_rejections(line), tries);
        assert_true(number(line, "attempts") <= tries);
        assert_true(number(line, "cpu_seconds") >= o.seconds);
        assert_true(number(line, "max_flops_ratio") == 0.5);
        int fewest = i % 25 == 23 ? 3 : i % 25 == 24 ? 5 : 3 + i % 25;
        int most = i % 25 == 23 ? 12 : i % 25 == 24 ? 25 : fewest;
        assert_int_equal((int)number(line, "min_primitives"), fewest);
        assert_int_equal((int)number(line, "max_primitives"), most);
        assert_int_equal(number(line, "rechecked"), number(line, "kernels"));
        if (i < 50) /* the last are no network */
            check_against_sampler(line);
    }
    free_lines(&l);
}

TEST(options_choose_the_network)
{
    kas_bench_options o = {.net = "resnet18", .classes = 10, .seconds = 0.002, .repeats = 2};
    lines l;
    o.sample = kas_sample_defaults();
    o.threads = 2;
    o.budget.max_flops_ratio = 0.25;
    run_json("sampler", &o, &l);
    assert_int_equal(l.count, 25);
    assert_string_equal(text(l.line[0], "net"), "resnet18");
    assert_string_equal(text(l.line[0], "input"), "3x56x56"); /* 64 channels at 56x56, ... */
    assert_true(number(l.line[0], "max_flops_ratio") == 0.25);
    assert_int_equal((int)number(l.line[0], "repeats"), 2);
    free_lines(&l);
    kas_bench_sink sink = {.json = true, .put = take_line, .context = &l};
    o.net = "no-such-net";
    assert_int_equal(kas_bench_find("sampler")->run(&o, &sink), KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "resnet20"));
    assert_int_equal(l.count, 0);
}

/* ---- step ------------------------------------------------------------------------------------ */

/* The floor is the larger of its two times; the plan moves no less than it; on the CPU there is no
 * time of the host's own. */
static void check_floor(const cJSON *line)
{
    const double bytes = positive(line, "floor_bytes"), flops = positive(line, "floor_flops");
    const double memory = bytes / positive(line, "bytes_per_second"),
                 arithmetic = flops / positive(line, "flops_per_second");
    near("floor", number(line, "floor_seconds"), memory > arithmetic ? memory : arithmetic);
    near("share", number(line, "share_of_floor"),
         number(line, "floor_seconds") / number(line, "seconds"));
    assert_true(positive(line, "plan_bytes") >= bytes);
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(line, "host_seconds")));
}

static void check_step(const cJSON *line, const char *phase, double flops)
{
    double seconds = positive(line, "seconds");
    check_machine(line, "step");
    check_spread(line, "seconds");
    assert_string_equal(text(line, "phase"), phase);
    assert_string_equal(text(line, "input"), "3x8x8");
    assert_int_equal((int)number(line, "batch"), 2);
    assert_int_equal((int)number(line, "repeats"), 3);
    near("FLOPs", number(line, "flops_per_step"), flops);
    near("images/s", number(line, "images_per_second"), 2 / seconds);
    near("GFLOP/s", number(line, "gflops_per_second"), flops / seconds / 1e9);
    positive(line, "memory_bytes");
    check_floor(line);
}

TEST(step_lines_agree)
{
    const kas_bench_options o = small_step("cpu");
    kas_net *net;
    lines l;
    OK(kas_net_build("resnet20", 8, 8, 3, 10, &net));
    double flops = kas_net_flops(net);
    run_json("step", &o, &l);
    assert_int_equal(l.count, 2);
    check_step(l.line[0], "training", 3 * 2 * flops);
    check_step(l.line[1], "inference", 2 * flops);
    for (int i = 0; i < 2; i++) {
        check_spread(l.line[i], "convolutions_share");
        assert_true(cJSON_IsNull(cJSON_GetObjectItem(l.line[i], "kernel")));
    }
    free_lines(&l);
    kas_net_free(net);
}

/* --passes: their bytes are those of the step's line. */
TEST(passes_add_up)
{
    kas_bench_options o = small_step("cpu");
    double sum = 0, whole = 0;
    int passes = 0;
    o.repeats = 1;
    o.passes = true;
    lines l = {0};
    kas_bench_sink sink = {.put = take_text, .context = &l};
    OK(kas_bench_find("step")->run(&o, &sink));
    assert_non_null(strstr(kas_buf_text(&l.text), "batch norm statistics"));
    assert_non_null(strstr(kas_buf_text(&l.text), "layer3.2.conv2"));
    free_lines(&l);
    run_json("step", &o, &l);
    for (int i = 0; i < l.count; i++) {
        const bool step = strcmp(text(l.line[i], "suite"), "step") == 0;
        if (strcmp(text(l.line[i], "phase"), "inference") == 0)
            continue;
        if (step)
            whole = number(l.line[i], "plan_bytes");
        else
            assert_int_equal((int)number(l.line[i], "number"), passes++);
        if (!step)
            sum += number(l.line[i], "bytes");
    }
    assert_true(passes > 100);
    near("sum of passes", sum, whole);
    free_lines(&l);
    o.dry_run = true; /* the plan alone gives the same */
    run_json("step", &o, &l);
    sum = 0;
    for (int i = 0; i < passes; i++)
        sum += number(l.line[i], "bytes");
    assert_string_equal(text(l.line[passes - 1], "phase"), "training");
    near("sum of planned passes", sum, whole);
    free_lines(&l);
}

/* --times: each launch is a pass's, and what is said of its time fits. */
TEST(times_of_passes)
{
    kas_bench_options o = small_step("cpu");
    o.times = true;
    o.kernel = "kernels/squeeze_excite.json";
    lines l;
    run_json("step", &o, &l);
    int passes = 0;
    double share = 0;
    for (int i = 0; i < l.count; i++) {
        const cJSON *line = l.line[i];
        if (strcmp(text(line, "suite"), "passes") != 0)
            continue;
        share = number(line, "number") == 0 ? 0 : share;
        passes++;
        near("rate", positive(line, "bytes_per_second"),
             number(line, "bytes") / positive(line, "seconds"));
        near("share", number(line, "share_of_passes"),
             number(line, "seconds") / positive(line, "passes_seconds"));
        share += number(line, "share_of_passes");
        assert_true(share <= 1 + 1e-9);
        positive(line, "step_seconds");
        assert_int_equal((int)number(line, "repeats"), 3);
    }
    assert_true(passes > 300 && share > 0.5); /* of two networks, two phases */
    free_lines(&l);
    kas_bench_sink sink = {.put = take_text, .context = &l};
    o.kernel = NULL;
    o.repeats = 1;
    OK(kas_bench_find("step")->run(&o, &sink));
    assert_non_null(strstr(kas_buf_text(&l.text), "of the time"));
    assert_non_null(strstr(kas_buf_text(&l.text), "all launches together"));
    free_lines(&l);
}

TEST(lists_of_networks)
{
    static const char *const expected[] = {"resnet20", "tiny:width=32,depth=3", "./a.json:n=2",
                                           "vgg16_bn", "{\"name\": 1, \"layers\": []}"};
    const char *list = "resnet20,tiny:width=32,depth=3,./a.json:n=2,vgg16_bn,"
                       "{\"name\": 1, \"layers\": []}";
    char net[KAS_BENCH_NET];
    for (int i = 0; i < 5; i++) {
        assert_true(kas_bench_next_net(&list, net));
        assert_string_equal(net, expected[i]);
    }
    assert_false(kas_bench_next_net(&list, net));
}

/* The same step in bf16: other numbers, fewer bytes. */
TEST(bf16_moves_less)
{
    kas_bench_options o = small_step("cpu");
    double bytes[2];
    for (int half = 0; half < 2; half++) {
        lines l;
        o.precision = half ? KAS_PRECISION_BF16 : KAS_PRECISION_FP32;
        run_json("step", &o, &l);
        assert_int_equal(l.count, 2);
        assert_string_equal(text(l.line[0], "precision"), half ? "bf16" : "fp32");
        bytes[half] = number(l.line[1], "plan_bytes"); /* inference: all activations and weights */
        free_lines(&l);
    }
    assert_true(bytes[1] < 0.55 * bytes[0] && bytes[1] > 0.45 * bytes[0]);
}

TEST(models_lines_agree)
{
    kas_bench_options o = small_step("cpu");
    o.net = "resnet20,mobilenet_v2:small=1";
    lines l;
    run_json("models", &o, &l);
    assert_int_equal(l.count, 4);
    for (int i = 0; i < l.count; i++) {
        check_machine(l.line[i], "models");
        check_spread(l.line[i], "seconds");
        assert_string_equal(text(l.line[i], "net"), i < 2 ? "resnet20" : "mobilenet_v2");
        assert_string_equal(text(l.line[i], "phase"), i % 2 ? "inference" : "training");
        near("images/s", number(l.line[i], "images_per_second"), 2 / number(l.line[i], "seconds"));
        check_floor(l.line[i]);
    }
    free_lines(&l);
    o.net = "resnet20,no-such-net";
    kas_bench_sink sink = {.json = true, .put = take_line, .context = &l};
    assert_int_equal(kas_bench_find("models")->run(&o, &sink), KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "no-such-net"));
    free_lines(&l);
}

/* As many steps as an epoch has, one behind the other, are all counted; no more can be asked. */
TEST(epochs_are_counted)
{
    kas_device *device;
    kas_net *net;
    kas_dataset *images;
    kas_bench_model m;
    double seconds;
    OK(kas_device_open("cpu", 1, &device));
    OK(kas_net_build("resnet20", 8, 8, 3, 10, &net));
    OK(kas_bench_images(net, 7, &images));
    OK(kas_bench_model_create(device, net, NULL, images, 2, KAS_PRECISION_FP32, NULL, &m));
    OK(kas_bench_model_begin(&m, KAS_TAPE_TRAIN));
    OK(kas_bench_model_train(&m, 0, 3, &seconds));
    OK(kas_bench_model_train(&m, 1, 2, &seconds));
    OK(kas_bench_model_check(&m, KAS_TAPE_TRAIN));
    assert_int_equal((int)m.trained, 5);
    assert_int_equal(kas_bench_model_train(&m, 2, 4, &seconds), KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "1 to 3"));
    kas_bench_model_free(&m);
    kas_dataset_close(images);
    kas_net_free(net);
    kas_device_close(device);
}

/* Unmodified network and kernel in turn: two lines a phase, the kernel's with its own FLOPs. */
TEST_WITH(step_compares_a_kernel, make_folder, remove_folder)
{
    static const char file[] = "kernels/shift_conv.json";
    kas_bench_options o = small_step("cpu");
    char name[KAS_NAME_SIZE];
    kas_net *net;
    kas_target *targets;
    kas_solution solution;
    kas_kernel *kernel = malloc(sizeof *kernel);
    int count;
    lines l;
    assert_non_null(kernel);
    OK(kas_net_build("resnet20", 8, 8, 3, 10, &net));
    OK(kas_net_targets(net, NULL, &targets, &count));
    OK(kas_kernel_read_file(file, kernel));
    OK(kas_kernel_name(kernel, name));
    OK(kas_solve(kernel, targets, count, &o.budget, &solution));
    double flops = kas_net_flops(net), changed = flops + solution.flops - solution.conv_flops;
    assert_true(fabs(changed - flops) > 1e-3 * flops); /* else the lines could not be told apart */
    o.kernel = file;
    o.cache_dir = folder;
    run_json("step", &o, &l);
    assert_int_equal(l.count, 4);
    check_step(l.line[0], "training", 3 * 2 * flops);
    check_step(l.line[1], "training", 3 * 2 * changed);
    check_step(l.line[2], "inference", 2 * flops);
    check_step(l.line[3], "inference", 2 * changed);
    for (int i = 1; i < 4; i += 2) {
        assert_string_equal(text(l.line[i], "kernel"), name);
        check_spread(l.line[i], "ratio_to_unmodified");
    }
    free_lines(&l);
    kas_solution_free(&solution);
    free(targets);
    free(kernel);
    kas_net_free(net);
}

/* Steps that were not what they claim are refused: one that never ran, and numbers that are not
 * finite. */
TEST(steps_are_checked)
{
    kas_device *device;
    kas_net *net;
    kas_dataset *images;
    kas_bench_model m;
    kas_bench_time seconds;
    OK(kas_device_open("cpu", 1, &device));
    OK(kas_net_build("resnet20", 8, 8, 3, 10, &net));
    OK(kas_bench_images(net, 2 * KAS_BENCH_BATCHES, &images));
    OK(kas_bench_model_create(device, net, NULL, images, 2, KAS_PRECISION_FP32, NULL, &m));
    OK(kas_bench_model_begin(&m, KAS_TAPE_TRAIN));
    OK(kas_bench_model_run(&m, KAS_TAPE_TRAIN, &seconds));
    OK(kas_bench_model_check(&m, KAS_TAPE_TRAIN));
    m.trained++; /* a step that is said to have run, and did not */
    assert_int_equal(kas_bench_model_check(&m, KAS_TAPE_TRAIN), KAS_FAILURE);
    assert_non_null(strstr(kas_error(), "2 images of 4"));
    OK(kas_bench_model_begin(&m, KAS_TAPE_INFER));
    OK(kas_bench_model_run(&m, KAS_TAPE_INFER, &seconds));
    OK(kas_bench_model_check(&m, KAS_TAPE_INFER));
    const kas_param *bias =
        &kas_model_params(m.model)
             ->param[kas_params_find_name(kas_model_params(m.model), "fc.bias")];
    float values[10];
    for (int i = 0; i < 10; i++)
        values[i] = i == 7 ? INFINITY : 0;
    assert_int_equal(bias->size, 10);
    for (int i = 0; i < 2; i++)
        OK(kas_model_set(i ? m.inference : m.model, (int)(bias - kas_model_params(m.model)->param),
                         values));
    OK(kas_bench_model_run(&m, KAS_TAPE_INFER, &seconds));
    assert_int_equal(kas_bench_model_check(&m, KAS_TAPE_INFER), KAS_FAILURE);
    OK(kas_bench_model_begin(&m, KAS_TAPE_TRAIN));
    OK(kas_bench_model_run(&m, KAS_TAPE_TRAIN, &seconds));
    assert_int_equal(kas_bench_model_check(&m, KAS_TAPE_TRAIN), KAS_FAILURE);
    assert_non_null(strstr(kas_error(), "not finite"));
    kas_bench_model_free(&m);
    kas_dataset_close(images);
    kas_net_free(net);
    kas_device_close(device);
}

/* ---- tables and the command line ------------------------------------------------------------- */

TEST(tables_name_every_network)
{
    kas_bench_options o = {.classes = 10, .seconds = 0.001, .repeats = 1};
    lines l = {0};
    o.sample = kas_sample_defaults();
    kas_bench_sink sink = {.put = take_text, .context = &l};
    OK(kas_bench_find("sampler")->run(&o, &sink));
    const kas_bench_options step = small_step("cpu");
    OK(kas_bench_find("step")->run(&step, &sink));
    const char *const words[] = {"resnet20", "resnet18",  "kernels/s", "3-12",
                                 "dead end", "inference", "GFLOP/s",   "multiply-add"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strstr(kas_buf_text(&l.text), words[i]))
            fail_msg("\"%s\" is missing in:\n%s", words[i], kas_buf_text(&l.text));
    free_lines(&l);
}

TEST(unknown_suite_is_wrong_usage)
{
    char *argv[] = {"kas-gpu bench", "sampler", "no-such-suite", NULL};
    int saved = dup(STDERR_FILENO);
    FILE *said = tmpfile();
    char message[512] = "";
    assert_non_null(said);
    assert_true(dup2(fileno(said), STDERR_FILENO) >= 0);
    kas_status status = kas_command_bench.run(3, argv); /* refused before anything is measured */
    fflush(stderr);
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    close(saved);
    rewind(said);
    assert_true(fread(message, 1, sizeof message - 1, said) > 0);
    fclose(said);
    assert_int_equal(status, KAS_USAGE);
    assert_null(kas_bench_find("no-such-suite"));
    for (const kas_bench_suite *const *s = kas_bench_suites(); *s; s++) {
        assert_non_null(strstr(message, (*s)->name));
        assert_ptr_equal(kas_bench_find((*s)->name), *s);
    }
}

int main(void)
{
    kas_log_set_level(KAS_LOG_QUIET);
    return run_all_tests(NULL, print_largest);
}

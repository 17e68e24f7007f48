/* The suites of `kas-gpu bench` about generated code, layers and jit, at tiny sizes; see
 * test_bench.c. */
#include "support/test.h"

#include "bench_fixture.h"
#include "host/core/log.h"
#include "support/sanitized.h"

static const kas_bench_options tiny = {.net = "resnet20",
                                       .c = 3,
                                       .h = 8,
                                       .w = 8,
                                       .classes = 10,
                                       .batch = 2,
                                       .repeats = 2,
                                       .device = "cpu",
                                       .threads = 1};

/* The floor follows from what the line says of bytes, FLOPs and ceilings. */
static void check_floor(const cJSON *line)
{
    const double memory = positive(line, "floor_bytes") / positive(line, "bytes_per_second");
    const double sums = positive(line, "floor_flops") / positive(line, "flops_per_second");
    near("floor_seconds", number(line, "floor_seconds"), fmax(memory, sums));
    near("share_of_floor", number(line, "share_of_floor"),
         number(line, "floor_seconds") / number(line, "seconds"));
}

static const cJSON *find_line(const lines *l, const char *layer, const char *kernel,
                              const char *phase)
{
    for (int i = 0; i < l->count; i++) {
        const cJSON *name = cJSON_GetObjectItem(l->line[i], "kernel");
        const bool same = kernel ? cJSON_IsString(name) && strcmp(name->valuestring, kernel) == 0
                                 : cJSON_IsNull(name);
        if (same && strcmp(text(l->line[i], "layer"), layer) == 0 &&
            strcmp(text(l->line[i], "phase"), phase) == 0)
            return l->line[i];
    }
    fail_msg("no line of %s, %s, %s", layer, kernel ? kernel : "convolution", phase);
    return NULL;
}

/* ResNet-20 has six distinct convolutions, of which the stem is no target. */
TEST(layers_lines_agree)
{
    kas_bench_options o = tiny;
    lines l;
    o.kernel = "kernels/depthwise_separable.json";
    run_json("layers", &o, &l);
    assert_int_equal(l.count, 2 * 6 + 2 * 5);
    for (int i = 0; i < l.count; i++) {
        check_machine(l.line[i], "layers");
        check_spread(l.line[i], "seconds");
        check_floor(l.line[i]);
        if (cJSON_IsString(cJSON_GetObjectItem(l.line[i], "kernel")))
            check_spread(l.line[i], "ratio_to_convolution");
    }
    /* 3x3, 16 channels at 8x8: x and y of 2 images, the weights; 144 multiply-adds a result */
    const cJSON *conv = find_line(&l, "layer1.0.conv1", NULL, "inference");
    near("bytes", number(conv, "floor_bytes"), 4.0 * (2 * 2 * 16 * 64 + 16 * 144));
    near("FLOPs", number(conv, "floor_flops"), 2.0 * 16 * 64 * 144);
    conv = find_line(&l, "layer1.0.conv1", NULL, "training");
    near("bytes", number(conv, "floor_bytes"), 4.0 * (5 * 2 * 16 * 64 + 3 * 16 * 144));
    near("FLOPs", number(conv, "floor_flops"), 3 * 2.0 * 16 * 64 * 144);
    find_line(&l, "layer2.0.conv1", "depthwise_separable.json", "training");
    free_lines(&l);
}

/* In 16 bits all but the weights' gradient has half the bytes. */
TEST(layers_in_bf16)
{
    if (SANITIZED) /* the same code but for device code */
        skip();
    kas_bench_options o = tiny;
    lines l;
    o.kernel = "kernels/depthwise_separable.json";
    o.precision = KAS_PRECISION_BF16;
    run_json("layers", &o, &l);
    assert_int_equal(l.count, 2 * 6 + 2 * 5);
    for (int i = 0; i < l.count; i++) {
        assert_string_equal(text(l.line[i], "precision"), "bf16");
        assert_int_equal(cJSON_IsTrue(cJSON_GetObjectItem(l.line[i], "below_60_percent")),
                         number(l.line[i], "share_of_floor") < 0.6);
        assert_int_equal(cJSON_IsString(cJSON_GetObjectItem(l.line[i], "beyond_floor")),
                         number(l.line[i], "share_of_floor") > 1);
        check_floor(l.line[i]);
    }
    const cJSON *conv = find_line(&l, "layer1.0.conv1", NULL, "training");
    near("bytes", number(conv, "floor_bytes"),
         2.0 * (5 * 2 * 16 * 64 + 2 * 16 * 144) + 4.0 * 16 * 144);
    conv = find_line(&l, "layer1.0.conv1", NULL, "inference");
    near("bytes", number(conv, "floor_bytes"), 2.0 * (2 * 2 * 16 * 64 + 16 * 144));
    free_lines(&l);
}

TEST(layers_refuse_what_is_no_kernel)
{
    kas_bench_options o = tiny;
    lines l = {0};
    kas_bench_sink sink = {.json = true, .put = take_line, .context = &l};
    o.kernel = "no/such/kernel.json";
    assert_int_equal(kas_bench_find("layers")->run(&o, &sink), KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "no/such/kernel.json"));
    o.kernel = "src/host"; /* a folder without kernels */
    assert_int_equal(kas_bench_find("layers")->run(&o, &sink), KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "src/host: the folder has no kernel file"));
    free_lines(&l);
}

TEST(jit_lines_agree)
{
    kas_bench_options o = tiny;
    lines l;
    o.filter = "3x3";
    o.precision = KAS_PRECISION_BF16;
    run_json("jit", &o, &l);
    assert_int_equal(l.count, 1);
    const cJSON *line = l.line[0];
    assert_int_equal((int)number(line, "candidates"), 2);
    assert_string_equal(text(line, "precision"), "bf16");
    check_spread(line, "kernels");
    check_spread(line, "text_bytes");
    check_spread(line, "sample_cpu_seconds");
    check_spread(line, "build_cpu_seconds");
    if (cJSON_IsString(cJSON_GetObjectItem(line, "host_compiler"))) {
        check_spread(line, "host_cold_cpu_seconds");
        check_spread(line, "host_warm_seconds");
    }
    if (cJSON_IsString(cJSON_GetObjectItem(line, "nvrtc"))) {
        check_spread(line, "nvrtc_cold_cpu_seconds");
        check_spread(line, "nvrtc_warm_seconds");
    }
    free_lines(&l);
}

TEST(tables_are_for_people)
{
    kas_bench_options o = tiny;
    lines l = {0};
    kas_bench_sink sink = {.put = take_text, .context = &l};
    o.kernel = "kernels/conv.json";
    OK(kas_bench_find("layers")->run(&o, &sink));
    const char *const words[] = {"16 -> 32, 4x4, 3x3 / 2", "convolution", "conv.json", "training",
                                 "measured in this run"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strstr(kas_buf_text(&l.text), words[i]))
            fail_msg("\"%s\" is missing in:\n%s", words[i], kas_buf_text(&l.text));
    free_lines(&l);
}

int main(void)
{
    kas_log_set_level(KAS_LOG_QUIET);
    return run_all_tests(NULL, print_largest);
}

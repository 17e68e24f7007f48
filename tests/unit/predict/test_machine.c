/* Machine models: the built-in ones, files, damaged files, and the model of a device. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/buf.h"
#include "host/core/file/files.h"
#include "host/device/cpu/cpu_conv.h"
#include "host/predict/machine.h"
#include "support/folder.h"

static char path[128];

static double number(const kas_machine *m, const kas_field *field)
{
    return *(const double *)(const void *)((const char *)m + field->offset);
}

/* Every built-in machine is found by name, and is written and read with the same bits: so all its
 * numbers are within the limits of a file. */
TEST(built_in_ones_parse)
{
    int fitted, fields, machines = 0;
    const kas_field *field = kas_machine_fields(&fitted, &fields);
    for (; kas_machine_builtin(machines); machines++) {
        kas_machine found, read;
        OK(kas_machine_find(kas_machine_builtin(machines)->name, "auto", 0, &found));
        OK(kas_machine_write(path, &found));
        OK(kas_machine_read(path, &read));
        assert_string_equal(read.name, found.name);
        assert_int_equal(read.gpu, found.gpu);
        for (int i = 0; i < fields; i++)
            if (field[i].type == KAS_FIELD_NUMBER)
                assert_true(number(&read, &field[i]) == number(&found, &field[i]));
        assert_true(found.inner_bandwidth >= found.outer_bandwidth);
        assert_true(found.outer_bandwidth >= found.memory_bandwidth);
    }
    assert_int_equal(machines, 9);
    for (int i = 0; i < fields; i++)
        assert_true(i < fitted || field[i].type == KAS_FIELD_NUMBER);
}

static void refuse(const char *spec, const char *words)
{
    kas_machine m;
    assert_int_equal(kas_machine_find(spec, "auto", 0, &m), KAS_BAD_INPUT);
    if (!strstr(kas_error(), words))
        fail_msg("\"%s\" is missing in: %s", words, kas_error());
}

TEST(unknown_names_list_the_known_ones)
{
    refuse("h101", "machine \"h101\": expected \"auto\"");
    refuse("h101", "h100, h200, l4, rtx4090, orin");
    refuse("/nowhere/m.json", "/nowhere/m.json");
}

/* Replaces the first `from` in the file of a built-in machine by `to`. */
static void damage(const char *machine, const char *from, const char *to)
{
    kas_buf text = {0}, out = {0};
    kas_machine m;
    OK(kas_machine_find(machine, "auto", 0, &m));
    OK(kas_machine_write(path, &m));
    OK(kas_file_read(path, 1 << 16, &text));
    const char *at = strstr(kas_buf_text(&text), from);
    assert_non_null(at);
    kas_buf_printf(&out, "%.*s%s%s", (int)(at - kas_buf_text(&text)), kas_buf_text(&text), to,
                   at + strlen(from));
    OK(kas_file_write_atomic(path, kas_buf_text(&out), out.size));
    kas_buf_free(&text);
    kas_buf_free(&out);
}

TEST(damaged_files_are_refused)
{
    static const struct {
        const char *machine, *from, *to, *words;
    } cases[] = {
        {"a100", "\"cores\":108", "\"cores\":0", "cores"},
        {"a100", "\"cores\":108", "\"cores\":\"many\"", "found a string"},
        {"a100", "\"cores\":108,", "", "cores"},
        {"a100", "\"clock\":1410000000", "\"clock\":-1", "-1"},
        {"a100", "\"efficiency_map\":", "\"efficiency_map\":9", "efficiency_map"},
        {"a100", "\"inner_bandwidth\":19500000000000", "\"inner_bandwidth\":1e10",
         "outer_bandwidth"},
        {"a100", "\"gpu\":true", "\"gpu\":1", "gpu"},
        {"a100", "\"gpu\":true", "\"gpu\":false", "lanes 64"},
        {"a100", "\"threads\":2048", "\"threads\":0", "gpu true and threads 0"},
        {"cpu", "\"threads\":0", "\"threads\":2048", "gpu false and threads 2048"},
        {"cpu", "\"lanes\":16", "\"lanes\":32", "lanes 32"},
        {"cpu", "\"lanes\":16", "\"lanes\":8.5", "whole numbers"},
        {"a100", "\"cores\":108", "\"cores\":1.5", "whole numbers"},
        {"a100", "\"launch\"", "\"lunch\"", "lunch"},
        {"a100", "\"kind\":\"machine\"", "\"kind\":\"recipe\"",
         "expected \"machine\", found \"recipe\""},
        {"a100", "\"schema_version\":1", "\"schema_version\":9", "9"},
        {"a100", "}", "", "machine.json"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        damage(cases[i].machine, cases[i].from, cases[i].to);
        refuse(path, cases[i].words);
        refuse(path, "machine.json");
    }
}

static const char *model_of(const char *device)
{
    static kas_machine m;
    kas_device_info info = {.kind = KAS_DEVICE_CUDA};
    snprintf(info.name, sizeof info.name, "%s", device);
    OK(kas_machine_of(&info, &m));
    assert_true(!m.calibrated);
    return m.name;
}

TEST(devices_have_models)
{
    assert_string_equal(model_of("NVIDIA H100 80GB HBM3"), "h100");
    assert_string_equal(model_of("NVIDIA H200"), "h200");
    assert_string_equal(model_of("NVIDIA A100-SXM4-80GB"), "a100");
    assert_string_equal(model_of("NVIDIA L4"), "l4");
    assert_string_equal(model_of("NVIDIA GeForce RTX 4090"), "rtx4090");
    assert_string_equal(model_of("Orin"), "orin");
    assert_string_equal(model_of("Orin Nano"), "orin-nano");
    assert_string_not_equal(model_of("NVIDIA L40S"), "l4");
}

/* A CPU's model has vectors as wide as those of the build, as many cores as the device uses, and in
 * proportion what they bring. */
TEST(cores_of_a_cpu)
{
    kas_device_info info = {.kind = KAS_DEVICE_CPU, .name = "some processor", .threads = 8};
    kas_machine m;
    const kas_machine *two = kas_machine_builtin(kas_cpu_lanes() == 16 ? 0 : 1);
    OK(kas_machine_of(&info, &m));
    assert_string_equal(m.name, kas_cpu_lanes() == 16 ? "cpu" : "cpu-avx2");
    assert_true(m.cores == 8 && two->cores == 2);
    assert_true(m.rate[KAS_PRECISION_FP32] == 4 * two->rate[KAS_PRECISION_FP32]);
    assert_true(m.memory_bandwidth == two->memory_bandwidth);
    assert_true(!m.calibrated);
    OK(kas_machine_find("cpu", "auto", 8, &m)); /* --threads */
    assert_true(m.cores == 8 && m.rate[0] == 4 * kas_machine_builtin(0)->rate[0]);
    OK(kas_machine_find("h100", "auto", 8, &m));
    assert_true(m.cores == 132);
}

/* A study keeps the model of its device: it must be one that can be read, also for one core. */
TEST(one_core_can_be_kept)
{
    kas_device_info info = {.kind = KAS_DEVICE_CPU, .name = "some processor", .threads = 1};
    kas_machine m, back;
    char path[300];
    snprintf(path, sizeof path, "%s/one.json", folder);
    OK(kas_machine_of(&info, &m));
    assert_true(m.cores == 1 && kas_machine_is_ordered(&m));
    OK(kas_machine_write(path, &m));
    OK(kas_machine_read(path, &back));
    assert_true(back.inner_bandwidth == m.inner_bandwidth);
}

/* What calibration keeps is found again, by device and number of threads. */
TEST(kept_models_are_found)
{
    kas_device_info info = {.kind = KAS_DEVICE_CPU, .name = "Some (R) Processor 3", .threads = 3};
    kas_machine m = *kas_machine_builtin(0), found;
    char kept[4096];
    setenv("KAS_CACHE_DIR", folder, 1);
    OK(kas_machine_kept(&info, kept));
    assert_non_null(strstr(kept, "/machine-some-r-processor-3-3-threads.json"));
    m.calibrated = true;
    m.gather = 7.25;
    OK(kas_machine_write(kept, &m));
    OK(kas_machine_of(&info, &found));
    assert_true(found.gather == 7.25 && found.calibrated);
    info.threads = 4;
    OK(kas_machine_of(&info, &found));
    assert_true(found.gather != 7.25 && !found.calibrated);
}

/* The machine is found by what --device takes; nothing here has a GPU with this number. */
TEST(machines_by_device)
{
    kas_machine m;
    setenv("KAS_CUDA_LIBS", "/nowhere/lib.so", 1);
    OK(kas_machine_here("cpu", 3, &m));
    assert_true(!m.gpu && m.cores == 3);
    OK(kas_machine_here("auto", 2, &m));
    assert_true(!m.gpu);
    assert_int_equal(kas_machine_here("cuda:7", 0, &m), KAS_DEVICE);
    assert_non_null(strstr(kas_error(), "cuda:7"));
    assert_int_equal(kas_machine_here("tpu", 0, &m), KAS_USAGE);
}

static int begin(void **state)
{
    const int rc = make_folder(state);
    snprintf(path, sizeof path, "%s/machine.json", folder);
    return rc;
}

RUN_TESTS(begin, remove_folder)

/* Reads the lines of JSON that a suite of `kas-gpu bench` writes, and checks their fields. Include
 * cmocka's headers first. */
#ifndef KAS_TESTS_UNIT_BENCH_BENCH_FIXTURE_H
#define KAS_TESTS_UNIT_BENCH_BENCH_FIXTURE_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/bench/bench.h"
#include "host/core/json/json.h"
#include "support/test.h"

enum { MAX_LINES = 1000 };
static const kas_json_limits limits = {.bytes = 1 << 16, .depth = 4};

/* A step of a small network. The ceilings are given, because measuring it takes a second;
 * test_bench_layers measures one. */
static inline kas_bench_options small_step(const char *device)
{
    static const kas_machine made_up = {.memory_bandwidth = 1e10, .rate = {5e10}};
    return (kas_bench_options){.net = "resnet20",
                               .c = 3,
                               .h = 8,
                               .w = 8,
                               .classes = 10,
                               .repeats = 3,
                               .batch = 2,
                               .device = device,
                               .threads = 1,
                               .machine = &made_up};
}

/* The output of a suite. */
typedef struct lines {
    cJSON *line[MAX_LINES];
    int count;
    kas_buf text; /* text of tables */
} lines;

static inline void take_line(void *context, const char *text)
{
    lines *l = context;
    size_t size = strlen(text);
    assert_true(size > 1 && text[size - 1] == '\n');
    assert_null(memchr(text, '\n', size - 1)); /* one object a line */
    assert_true(l->count < MAX_LINES);
    OK(kas_json_parse("line", text, size, limits, &l->line[l->count++]));
}

static inline void take_text(void *context, const char *text)
{
    lines *l = context;
    kas_buf_puts(&l->text, text);
}

static inline void free_lines(lines *l)
{
    for (int i = 0; i < l->count; i++)
        cJSON_Delete(l->line[i]);
    kas_buf_free(&l->text);
    *l = (lines){0};
}

static inline void run_json(const char *suite, const kas_bench_options *o, lines *out)
{
    kas_bench_sink sink = {.json = true, .put = take_line, .context = out};
    *out = (lines){0};
    assert_non_null(kas_bench_find(suite));
    OK(kas_bench_find(suite)->run(o, &sink));
}

static inline double number(const cJSON *line, const char *field)
{
    double value = NAN;
    OK(kas_json_number(line, "line", field, -1e18, 1e18, &value));
    assert_true(isfinite(value));
    return value;
}

static inline double positive(const cJSON *line, const char *field)
{
    double value = number(line, field);
    if (!(value > 0))
        fail_msg("%s is %g", field, value);
    return value;
}

static inline const char *text(const cJSON *line, const char *field)
{
    const char *value = NULL;
    OK(kas_json_string(line, "line", field, &value));
    return value;
}

static double largest_error;

static inline void near(const char *what, double found, double expected)
{
    double error = fabs(found - expected) / fabs(expected);
    if (!(error <= 1e-9))
        fail_msg("%s is %.10g, expected %.10g", what, found, expected);
    largest_error = fmax(largest_error, error);
}

static inline int print_largest(void **state)
{
    (void)state;
    printf("largest relative error %.2g, tolerance 1e-9\n", largest_error);
    return 0;
}

/* Checks that NAME lies between its quartiles. */
static inline void check_spread(const cJSON *line, const char *name)
{
    char q1[64], q3[64];
    snprintf(q1, sizeof q1, "%s_q1", name);
    snprintf(q3, sizeof q3, "%s_q3", name);
    assert_true(positive(line, q1) <= positive(line, name));
    assert_true(positive(line, name) <= positive(line, q3));
}

static inline void check_machine(const cJSON *line, const char *suite)
{
    assert_string_equal(text(line, "kind"), "bench");
    assert_string_equal(text(line, "suite"), suite);
    assert_true(strncmp(text(line, "version"), "kas-gpu ", 8) == 0);
    assert_true(text(line, "device")[0] != '\0');
    assert_string_equal(text(line, "arch"), "cpu");
    assert_true(number(line, "threads") == 1);
    assert_true(number(line, "load_average") >= 0);
}

/* ---- sampler --------------------------------------------------------------------------------- */

#endif

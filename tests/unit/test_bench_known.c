/* The suite `known` of kas-gpu bench: what it counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "bench_fixture.h"

static const cJSON *line_of(const lines *l, const char *kernel)
{
    for (int i = 0; i < l->count; i++)
        if (strcmp(text(l->line[i], "kernel"), kernel) == 0)
            return l->line[i];
    fail_msg("no line of %s", kernel);
    return NULL;
}

/* Kernels of two primitives are met in the one space, transformations of one step in the other; a
 * bottleneck with its activations is no transformation of a convolution. */
static void kernels_are_met_where_they_can_be(void **state)
{
    (void)state;
    const kas_bench_options o = {.classes = 10, .repeats = 2, .seed = 3, .net = "resnet20"};
    lines l;
    run_json("known", &o, &l);
    assert_true(l.count > 10);
    assert_true(number(line_of(&l, "conv"), "canvas_met") +
                    number(line_of(&l, "depthwise"), "canvas_met") >
                0); /* 15 are expected */
    assert_true(number(line_of(&l, "group_conv"), "nas_pte_met") > 0);
    assert_true(number(line_of(&l, "nas_pte_1"), "nas_pte_met") > 0);
    assert_true(number(line_of(&l, "bottleneck"), "nas_pte_met") == 0);
    for (int i = 0; i < l.count; i++) {
        assert_true(number(l.line[i], "canvas_met") <= number(l.line[i], "canvas_kernels"));
        assert_true(number(l.line[i], "nas_pte_met") <= number(l.line[i], "nas_pte_kernels"));
        assert_true(number(l.line[i], "canvas_kernels") <= number(l.line[i], "attempts"));
    }
    free_lines(&l);
}

static void a_folder_that_is_not_there_is_named(void **state)
{
    (void)state;
    const kas_bench_options o = {
        .classes = 10, .repeats = 1, .net = "resnet20", .kernel = "no-such-folder"};
    lines l = {0};
    const kas_bench_sink sink = {.json = true, .put = take_line, .context = &l};
    assert_int_equal(kas_bench_find("known")->run(&o, &sink), KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "no-such-folder"));
    assert_int_equal(l.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(kernels_are_met_where_they_can_be),
                                       cmocka_unit_test(a_folder_that_is_not_there_is_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

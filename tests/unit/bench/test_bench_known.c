/* The suite `known` of kas-gpu bench: what it counts. */
#include "support/test.h"

#include <unistd.h>

#include "bench_fixture.h"
#include "support/folder.h"

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
TEST(kernels_are_met_where_they_can_be)
{
    const kas_bench_options o = {.classes = 10, .repeats = 1, .seed = 3, .net = "resnet20"};
    lines l;
    run_json("known", &o, &l);
    assert_true(l.count > 10);
    assert_true(number(line_of(&l, "conv"), "canvas_met") +
                    number(line_of(&l, "depthwise"), "canvas_met") >
                0); /* 8 are expected */
    assert_true(number(line_of(&l, "group_conv"), "nas_pte_met") > 0);
    assert_true(number(line_of(&l, "nas_pte_1_bands"), "nas_pte_met") > 0);
    assert_true(number(line_of(&l, "bottleneck"), "nas_pte_met") == 0);
    for (int i = 0; i < l.count; i++) {
        assert_true(number(l.line[i], "canvas_met") <= number(l.line[i], "canvas_kernels"));
        assert_true(number(l.line[i], "nas_pte_met") <= number(l.line[i], "nas_pte_kernels"));
        assert_true(number(l.line[i], "canvas_kernels") <= number(l.line[i], "attempts"));
    }
    free_lines(&l);
}

static void write_kernel(const char *path, const char *nodes)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file,
            "{\"format\": \"kas-gpu kernel\", \"version\": 1, \"groups\": {}, \"nodes\": "
            "[{\"op\": \"input\"}, %s]}\n",
            nodes);
    fclose(file);
}

/* Queries and keys of attention, whose shares of C a product ties to each other, beside a size that
 * is free already. With a variable of its own for each share this would be no kernel. */
TEST_WITH(shares_keep_their_ties, make_folder, remove_folder)
{
    write_kernel(in_folder("tied.json"),
                 "{\"op\": \"fc\", \"in\": [0], \"out\": \"1/4*C\"},"
                 "{\"op\": \"fc\", \"in\": [0], \"out\": \"1/4*C\"},"
                 "{\"op\": \"bmm\", \"in\": [1, 2], \"transpose\": \"lhs\", \"softmax\": true},"
                 "{\"op\": \"fc\", \"in\": [0], \"out\": \"x0\"},"
                 "{\"op\": \"bmm\", \"in\": [4, 3], \"transpose\": \"rhs\"},"
                 "{\"op\": \"fc\", \"in\": [5], \"out\": \"C\"}");
    const kas_bench_options o = {
        .classes = 10, .repeats = 1, .net = "resnet20", .kernel = folder, .seed = 1};
    lines l;
    run_json("known", &o, &l);
    assert_int_equal(l.count, 1);
    assert_int_equal(number(line_of(&l, "tied"), "primitives"), 6);
    free_lines(&l);
}

TEST(a_folder_that_is_not_there_is_named)
{
    const kas_bench_options o = {
        .classes = 10, .repeats = 1, .net = "resnet20", .kernel = "no-such-folder"};
    lines l = {0};
    const kas_bench_sink sink = {.json = true, .put = take_line, .context = &l};
    assert_int_equal(kas_bench_find("known")->run(&o, &sink), KAS_BAD_INPUT);
    assert_string_equal(kas_error(), "no-such-folder: No such file or directory");
    assert_int_equal(l.count, 0);
}

RUN_TESTS()

/* Files of layers: read, written, named, and put into a network. */
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "support/build.h"
#include "host/space/file/assignment.h"
#include "host/space/file/kernel_json.h"
#include "support/sizes.h"

#define WIDE                                                                                       \
    "{\"format\":\"kas-gpu kernel\",\"version\":1,\"nodes\":[{\"op\":\"input\"},"                  \
    "{\"op\":\"unfold\",\"in\":[0],\"axes\":\"hw\"},{\"op\":\"fc\",\"in\":[1],\"out\":\"C\"}]}"
#define POINT                                                                                      \
    "{\"format\":\"kas-gpu kernel\",\"version\":1,\"nodes\":[{\"op\":\"input\"},"                  \
    "{\"op\":\"fc\",\"in\":[0],\"out\":\"C\"}]}"
/* Needs a C that 5 divides. */
#define FIFTHS                                                                                     \
    "{\"format\":\"kas-gpu kernel\",\"version\":1,\"nodes\":[{\"op\":\"input\"},"                  \
    "{\"op\":\"group\",\"in\":[0],\"dim\":0,\"by\":\"G0\"},"                                       \
    "{\"op\":\"fc\",\"in\":[1],\"grouped\":true,\"out\":\"C\"}],\"groups\":{\"G0\":5}}"
#define FILE_OF(kernels, layers)                                                                   \
    "{\"format\":\"kas-gpu layers\",\"version\":1,\"kernels\":[" kernels "],\"layers\":{" layers   \
    "}}"

static kas_assignment read_text(const char *text)
{
    kas_assignment a;
    OK(kas_assignment_read_json("f.json", text, strlen(text), &a));
    return a;
}

static void name_of(const char *text, char name[KAS_NAME_SIZE])
{
    kas_assignment a = read_text(text);
    assert_int_equal(kas_assignment_name(&a, name), KAS_OK);
    kas_assignment_free(&a);
}

/* Neither the order of layers nor the numbers of kernels, nor a kernel that stands there twice,
 * makes another assignment; who has which does. */
TEST(names_are_exact)
{
    static const char *const same[] = {
        FILE_OF(WIDE "," POINT, "\"a\":0,\"b\":1,\"c\":null,\"d\":0"),
        FILE_OF(POINT "," WIDE, "\"d\":1,\"c\":null,\"b\":0,\"a\":1"),
        FILE_OF(WIDE "," POINT "," WIDE, "\"a\":0,\"b\":1,\"c\":null,\"d\":2")};
    static const char *const other[] = {
        FILE_OF(WIDE "," POINT, "\"a\":1,\"b\":0,\"c\":null,\"d\":0"),
        FILE_OF(WIDE "," POINT, "\"a\":0,\"b\":1,\"c\":null,\"d\":1"),
        FILE_OF(WIDE "," POINT, "\"a\":0,\"b\":1,\"c\":0,\"d\":0"),
        FILE_OF(WIDE "," POINT, "\"a\":0,\"b\":1,\"d\":0"),
        FILE_OF(WIDE "," POINT, "\"a\":0,\"b\":1,\"e\":null,\"d\":0"),
        FILE_OF(WIDE, "\"a\":0"),
        FILE_OF(WIDE, "\"a\":0,\"b\":0"),
        WIDE,
    };
    enum { SAME = sizeof same / sizeof *same, OTHER = sizeof other / sizeof *other };
    char name[1 + OTHER][KAS_NAME_SIZE], again[KAS_NAME_SIZE];
    name_of(same[0], name[0]);
    for (int i = 1; i < SAME; i++) {
        name_of(same[i], again);
        assert_string_equal(again, name[0]);
    }
    for (int i = 0; i < OTHER; i++) {
        name_of(other[i], name[i + 1]);
        for (int k = 0; k <= i; k++)
            assert_string_not_equal(name[k], name[i + 1]);
    }
}

/* Names of kernels stand in users' studies: a kernel file's is the kernel's own. */
TEST(a_kernel_file_keeps_its_name)
{
    char name[KAS_NAME_SIZE], of_file[KAS_NAME_SIZE];
    kas_kernel kernel;
    assert_int_equal(kas_kernel_read_json("f.json", WIDE, strlen(WIDE), &kernel), KAS_OK);
    assert_int_equal(kas_kernel_name(&kernel, name), KAS_OK);
    name_of(WIDE, of_file);
    assert_string_equal(name, of_file);
}

/* Words in a string make no other format of a file. */
TEST(a_kernel_file_may_speak_of_layers)
{
    static const char *const about[] = {"kas-gpu layers", "\\\"format\\\": \\\"kas-gpu layers\\\""};
    for (int i = 0; i < 2; i++) {
        char text[400];
        kas_assignment a;
        snprintf(text, sizeof text,
                 "{\"format\": \"kas-gpu kernel\", \"version\": 1, \"about\": \"%s\", \"nodes\": "
                 "[{\"op\": \"input\"}, {\"op\": \"fc\", \"in\": [0], \"out\": \"C\"}], "
                 "\"groups\": {}}",
                 about[i]);
        OK(kas_assignment_read_json("k.json", text, strlen(text), &a));
        assert_int_equal(a.layers, 0);
        kas_assignment_free(&a);
    }
}

TEST(what_is_written_is_read_again)
{
    kas_buf first = {0}, second = {0};
    kas_assignment a = read_text(FILE_OF(POINT "," WIDE, "\"d\":1,\"c\":null,\"b\":0,\"a\":1"));
    assert_int_equal(a.kernels, 2);
    assert_int_equal(a.layers, 4);
    assert_string_equal(a.layer[0], "a");
    assert_int_equal(a.kernel[a.kernel_of[0]].nodes, 3);
    assert_int_equal(a.kernel[a.kernel_of[1]].nodes, 2);
    assert_int_equal(a.kernel_of[2], KAS_KEPT);
    assert_int_equal(kas_assignment_write_json(&a, &first), KAS_OK);
    kas_assignment_free(&a);
    a = read_text(kas_buf_text(&first));
    assert_int_equal(kas_assignment_write_json(&a, &second), KAS_OK);
    assert_string_equal(kas_buf_text(&first), kas_buf_text(&second));
    kas_assignment_free(&a);
    kas_buf_free(&first);
    kas_buf_free(&second);
}

TEST(bad_files_are_refused)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {FILE_OF(WIDE, "\"a\":1"),
         "layer \"a\": expected the number of one of the 1 kernels, from 0, or null"},
        {FILE_OF(WIDE, "\"a\":0,\"b\":-1"), "layer \"b\": expected the number"},
        {FILE_OF(WIDE, "\"a\":0,\"b\":\"x\""), "layer \"b\": expected the number"},
        {FILE_OF(WIDE "," POINT, "\"a\":0"), "kernels[1]: no layer has it"},
        {FILE_OF(WIDE, ""), "field \"layers\": expected 1 to 1024, found 0"},
        {FILE_OF("", "\"a\":null"), "field \"kernels\": expected 1 to 1024, found 0"},
        {FILE_OF(WIDE, "\"a\":0,\"a\":0"), "duplicate key \"a\""},
        {FILE_OF(WIDE, "\"a b\":0"), "printed ASCII"},
        {FILE_OF(WIDE, "\"\":0"), "1 to 63 bytes"},
        {FILE_OF("{\"format\":\"kas-gpu kernel\",\"version\":1,\"nodes\":[{\"op\":\"input\"},"
                 "{\"op\":\"fcc\",\"in\":[0],\"out\":\"C\"}]}",
                 "\"a\":0"),
         "f.json: kernels[0]: node"},
        {"{\"format\":\"kas-gpu layers\",\"version\":3}", "version"},
        {"{\"format\":\"kas-gpu layers\",\"version\":1,\"layers\":{},\"kernels\":[],\"x\":1}", "x"},
        {"{\"format\":\"kas-gpu layers\"", "f.json"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kas_assignment a;
        assert_int_equal(
            kas_assignment_read_json("f.json", cases[i].text, strlen(cases[i].text), &a),
            KAS_BAD_INPUT);
        if (!strstr(kas_error(), cases[i].message))
            fail_msg("case %zu: %s", i, kas_error());
    }
}

/* ---- in a network ---------------------------------------------------------------------------- */

static const kas_target targets[] = {TARGET_OF("one", 20, 20, 20, 8, 8, 3, 1, .layer = 1),
                                     TARGET_OF("two", 12, 12, 12, 8, 8, 3, 1, .layer = 2)};

static void expect_misfit(const char *text, kas_status status, const char *first,
                          const char *second)
{
    const kas_budget any = {0};
    kas_assignment a = read_text(text);
    kas_replacement fit;
    assert_int_equal(kas_assignment_fit(&a, targets, 2, &any, &fit), status);
    if (!strstr(kas_error(), first) || !strstr(kas_error(), second))
        fail_msg("%s", kas_error());
    kas_assignment_free(&a);
}

TEST(layers_are_those_of_the_network)
{
    const kas_budget any = {0};
    kas_replacement fit;
    kas_assignment a = read_text(FILE_OF(FIFTHS, "\"two\":null,\"one\":0"));
    assert_int_equal(kas_assignment_fit(&a, targets, 2, &any, &fit), KAS_OK);
    assert_int_equal(kas_replacement_kernel(&fit, 0)->nodes, 3);
    assert_null(kas_replacement_kernel(&fit, 1));
    assert_true(fit.solution.params == 20 * 20 / 5 + 12 * 12 * 9);
    kas_replacement_free(&fit);
    kas_assignment_free(&a);
    expect_misfit(FILE_OF(WIDE, "\"one\":0"), KAS_BAD_INPUT, "layer \"two\" is missing", "null");
    expect_misfit(FILE_OF(WIDE, "\"one\":0,\"two\":0,\"three\":0"), KAS_BAD_INPUT,
                  "layer \"three\"", "expected the 2 from \"one\" to \"two\"");
    expect_misfit(FILE_OF(WIDE "," FIFTHS, "\"one\":0,\"two\":1"), KAS_ILLEGAL, "kernel 1",
                  "not an integer at two");
}

TEST(assignments_of_targets_are_those_of_files)
{
    kas_kernel kernel[2] = {0};
    kas_build_fc(&kernel[1], kas_build_unfold(&kernel[1], kas_build_input(&kernel[1]), 3), false,
                 "C");
    kas_build_fc(&kernel[0], kas_build_input(&kernel[0]), false, "C");
    for (int k = 0; k < 2; k++)
        assert_int_equal(kas_kernel_infer(&kernel[k]), KAS_OK);
    char made[KAS_NAME_SIZE], read[KAS_NAME_SIZE];
    int kernel_of[] = {1, 0};
    const kas_replacement r = {
        .target = targets, .kernel = kernel, .kernels = 2, .kernel_of = kernel_of, .solution = {2}};
    kas_assignment a;
    assert_int_equal(kas_assignment_make(&r, &a), KAS_OK);
    assert_int_equal(kas_assignment_name(&a, made), KAS_OK);
    kas_assignment_free(&a);
    name_of(FILE_OF(POINT "," WIDE, "\"two\":0,\"one\":1"), read);
    assert_string_equal(made, read);
}

RUN_TESTS()

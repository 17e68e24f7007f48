/* Gains in kernel files and files of layers: read, written, put into a network; damaged ones. */
#include "support/test.h"

#include <string.h>

#include "host/space/file/assignment.h"
#include "host/space/file/kernel_json.h"
#include "support/sizes.h"

#define NODES "\"nodes\":[{\"op\":\"input\"},{\"op\":\"fc\",\"in\":[0],\"out\":\"C\"}]"
#define KERNEL "{\"format\":\"kas-gpu kernel\",\"version\":1," NODES "}"
#define FILE_OF(version, gains)                                                                    \
    "{\"format\":\"kas-gpu kernel\",\"version\":" version "," NODES ",\"gains\":" gains "}"
#define LAYERS_OF(layers, gains)                                                                   \
    "{\"format\":\"kas-gpu layers\",\"version\":2,\"kernels\":[" KERNEL "],\"layers\":{" layers    \
    "},\"gains\":" gains "}"

static const kas_target targets[] = {TARGET_OF("one", 8, 8, 8, 4, 4, 3, 1, .layer = 1),
                                     TARGET_OF("two", 8, 8, 8, 4, 4, 3, 1, .layer = 2)};

static kas_assignment read_text(const char *text)
{
    kas_assignment a;
    OK(kas_assignment_read_json("f.json", text, strlen(text), &a));
    return a;
}

static kas_status fit(const char *text, kas_replacement *out)
{
    const kas_budget any = {0};
    kas_assignment a = read_text(text);
    const kas_status status = kas_assignment_fit(&a, targets, 2, &any, out);
    kas_assignment_free(&a);
    return status;
}

TEST(round_trip)
{
    static const char *const files[] = {FILE_OF("2", "{\"two\":0.125,\"one\":1048576}"),
                                        FILE_OF("2", "{\"one\":0.1,\"two\":3e-20}"),
                                        LAYERS_OF("\"one\":0,\"two\":null", "{\"one\":8}"),
                                        LAYERS_OF("\"two\":0,\"one\":0", "{\"one\":8,\"two\":1}")};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        kas_buf first = {0}, second = {0};
        kas_assignment a = read_text(files[i]);
        assert_int_equal(kas_assignment_write_json(&a, &first), KAS_OK);
        assert_non_null(strstr(kas_buf_text(&first), "\"version\": 2"));
        kas_assignment b = read_text(kas_buf_text(&first));
        assert_int_equal(b.gains.count, a.gains.count);
        for (int k = 0; k < a.gains.count; k++) {
            assert_string_equal(a.gains.gain[k].layer, b.gains.gain[k].layer);
            assert_true(a.gains.gain[k].value == b.gains.gain[k].value);
        }
        assert_int_equal(kas_assignment_write_json(&b, &second), KAS_OK);
        assert_string_equal(kas_buf_text(&first), kas_buf_text(&second));
        kas_assignment_free(&a);
        kas_assignment_free(&b);
        kas_buf_free(&first);
        kas_buf_free(&second);
    }
}

/* A candidate's text in the store, and its gains, give the published file; what the worker wrote is
 * what it reads. */
TEST(gains_are_put_into_a_text)
{
    kas_replacement r;
    kas_buf file = {0}, gains = {0}, whole = {0};
    kas_kernel kernel;
    const float values[] = {0x1p-20f, 1};
    assert_int_equal(fit(KERNEL, &r), KAS_OK);
    assert_null(r.gain);
    assert_int_equal(kas_replacement_set_gains(&r, values), KAS_OK);
    assert_int_equal(kas_gains_write_replacement(&r, &gains), KAS_OK);
    assert_int_equal(kas_kernel_write_json(r.kernel, &r.solution, &file), KAS_OK);
    assert_non_null(strstr(kas_buf_text(&file), "\"version\": 1"));
    assert_int_equal(kas_gains_insert(kas_buf_text(&file), kas_buf_text(&gains), &whole), KAS_OK);
    assert_int_equal(kas_kernel_read_json("k.json", kas_buf_text(&whole), whole.size, &kernel),
                     KAS_OK);
    assert_non_null(strstr(kas_buf_text(&whole), "\"targets\": ["));
    kas_replacement_free(&r);
    assert_int_equal(fit(kas_buf_text(&whole), &r), KAS_OK);
    assert_true(kas_replacement_gain(&r, 0) == 0x1p-20f && kas_replacement_gain(&r, 1) == 1);
    assert_true(kas_replacement_scales(&r));
    kas_replacement_free(&r);
    assert_int_equal(kas_gains_insert("{}", kas_buf_text(&gains), &whole), KAS_FAILURE);
    kas_buf_free(&file);
    kas_buf_free(&gains);
    kas_buf_free(&whole);
}

/* Names stand in users' studies. */
TEST(a_name_does_not_depend_on_gains)
{
    static const char *const pairs[][2] = {{KERNEL, FILE_OF("2", "{\"one\":2,\"two\":4}")},
                                           {LAYERS_OF("\"one\":0,\"two\":null", "{\"one\":8}"),
                                            LAYERS_OF("\"one\":0,\"two\":null", "{\"one\":16}")}};
    for (int i = 0; i < 2; i++) {
        char name[2][KAS_NAME_SIZE];
        for (int k = 0; k < 2; k++) {
            kas_assignment a = read_text(pairs[i][k]);
            assert_int_equal(kas_assignment_name(&a, name[k]), KAS_OK);
            kas_assignment_free(&a);
        }
        assert_string_equal(name[0], name[1]);
    }
}

TEST(damaged_gains_are_refused)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {FILE_OF("2", "{\"one\":0,\"two\":1}"),
         "f.json: gains: field \"one\": expected a number in"},
        {FILE_OF("2", "{\"one\":1,\"two\":-2}"), "field \"two\": expected a number in"},
        {FILE_OF("2", "{\"one\":1e999,\"two\":1}"), "found inf"},
        {FILE_OF("2", "{\"one\":1e30,\"two\":1}"), "found 1e+30"},
        {FILE_OF("2", "{\"one\":1e-40,\"two\":1}"), "field \"one\""},
        {FILE_OF("2", "{\"one\":\"8\"}"), "field \"one\": expected a number"},
        {FILE_OF("2", "{\"one\":null}"), "field \"one\": expected a number"},
        {FILE_OF("2", "{\"one\":nan}"), "f.json"},
        {FILE_OF("2", "{\"one\":1,\"one\":1}"), "duplicate key \"one\""},
        {FILE_OF("2", "{}"), "expected 1 to 1024 layers, found 0"},
        {FILE_OF("2", "{\"\":1}"), "1 to 63 bytes"},
        {FILE_OF("2", "[1,2]"), "gains"},
        {FILE_OF("1", "{\"one\":1,\"two\":1}"), "\"gains\": expected \"version\": 2, found 1"},
        {FILE_OF("3", "{\"one\":1}"), "version"},
        {"{\"format\":\"kas-gpu layers\",\"version\":2,\"kernels\":[" FILE_OF(
             "2", "{\"one\":1}") "],"
                                 "\"layers\":{\"one\":0}}",
         "kernels[0]: gains stand beside \"layers\""},
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

/* A file of layers belongs to one network; a kernel file may serve in another, without the gains. */
TEST(gains_are_those_of_the_layers)
{
    kas_replacement r;
    assert_int_equal(fit(FILE_OF("2", "{\"two\":2,\"one\":4}"), &r), KAS_OK);
    assert_true(kas_replacement_gain(&r, 0) == 4 && kas_replacement_gain(&r, 1) == 2);
    kas_replacement_free(&r);
    assert_int_equal(fit(FILE_OF("2", "{\"one\":4,\"three\":4}"), &r), KAS_OK);
    assert_null(r.gain);
    kas_replacement_free(&r);
    assert_int_equal(fit(FILE_OF("2", "{\"one\":4}"), &r), KAS_OK);
    assert_null(r.gain);
    kas_replacement_free(&r);
    assert_int_equal(fit(LAYERS_OF("\"one\":0,\"two\":null", "{\"one\":4}"), &r), KAS_OK);
    assert_true(kas_replacement_gain(&r, 0) == 4 && kas_replacement_gain(&r, 1) == 1);
    kas_replacement_free(&r);
    assert_int_equal(fit(LAYERS_OF("\"one\":0,\"two\":0", "{\"one\":4}"), &r), KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "layer \"two\" has none; found those of 1 layers"));
    assert_int_equal(fit(LAYERS_OF("\"one\":0,\"two\":null", "{\"one\":4,\"two\":1}"), &r),
                     KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "no kernel is at a layer \"two\""));
}

RUN_TESTS()

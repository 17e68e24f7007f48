#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/files.h"
#include "host/core/random.h"
#include "host/space/build.h"
#include "host/space/canonical.h"
#include "host/space/kernel_json.h"

static const char *const known[] = {
    "conv",       "depthwise_separable", "group_conv",        "shift_conv",
    "involution", "squeeze_excite",      "spatial_separable", "residual"};
enum { KNOWN = sizeof known / sizeof *known };

static void read_known(int i, kas_kernel *k)
{
    char path[128];
    snprintf(path, sizeof path, "kernels/%s.json", known[i]);
    if (kas_kernel_read_file(path, k) != KAS_OK)
        fail_msg("%s", kas_error());
}

static void test_known_kernels_round_trip(void **state)
{
    (void)state;
    for (int i = 0; i < KNOWN; i++) {
        kas_kernel k, again;
        kas_buf first = {0}, second = {0};
        char a[KAS_NAME_SIZE], b[KAS_NAME_SIZE];
        read_known(i, &k);
        assert_int_equal(kas_kernel_write_json(&k, NULL, &first), KAS_OK);
        assert_int_equal(kas_kernel_read_json("again", first.data, first.size, &again), KAS_OK);
        assert_int_equal(kas_kernel_write_json(&again, NULL, &second), KAS_OK);
        assert_string_equal(kas_buf_text(&first), kas_buf_text(&second));
        assert_int_equal(kas_kernel_name(&k, a), KAS_OK);
        assert_int_equal(kas_kernel_name(&again, b), KAS_OK);
        assert_string_equal(a, b);
        kas_buf_free(&first);
        kas_buf_free(&second);
    }
}

static void test_exact_text(void **state)
{
    (void)state;
    kas_kernel k = {0};
    int x = kas_build_input(&k), g = kas_build_group(&k, x, 0, 2);
    int s = kas_build_softmax(&k, kas_build_fc(&k, g, true, "x5"), 0, 1);
    int h = kas_build_shift(&k, s, KAS_AXIS_H, -1);
    kas_build_fc(&k, kas_build_fold(&k, KAS_OP_FOLD_MAX, kas_build_unfold(&k, h, KAS_AXIS_W), 1),
                 false, "C");
    k.group_value[2] = 4;
    kas_binding binding = {0};
    binding.value[KAS_SYM_C] = 16;
    binding.value[KAS_SYM_G0 + 2] = 4;
    binding.value[KAS_SYM_X0 + 5] = 24;
    kas_solution solution = {.targets = 1, .binding = &binding};
    kas_buf text = {0};
    assert_int_equal(kas_kernel_write_json(&k, &solution, &text), KAS_OK);
    assert_string_equal(kas_buf_text(&text),
                        "{\n  \"format\": \"kas-gpu kernel\",\n  \"version\": 1,\n  \"nodes\": [\n"
                        "    {\"op\": \"input\"},\n"
                        "    {\"op\": \"group\", \"in\": [0], \"dim\": 0, \"by\": \"G0\"},\n"
                        "    {\"op\": \"fc\", \"in\": [1], \"grouped\": true, \"out\": \"x0\"},\n"
                        "    {\"op\": \"softmax\", \"in\": [2], \"dim\": 0, \"dim_end\": 1},\n"
                        "    {\"op\": \"shift\", \"in\": [3], \"axes\": \"h\", \"offset\": -1},\n"
                        "    {\"op\": \"unfold\", \"in\": [4], \"axes\": \"w\"},\n"
                        "    {\"op\": \"fold_max\", \"in\": [5], \"dim\": 1},\n"
                        "    {\"op\": \"fc\", \"in\": [6], \"out\": \"C\"}\n"
                        "  ],\n  \"groups\": {\"G0\": 4},\n  \"targets\": [\n"
                        "    {\"C\": 16, \"G0\": 4, \"x0\": 24}\n  ]\n}\n");
    assert_int_equal(kas_kernel_read_json("text", text.data, text.size, &k), KAS_OK);
    kas_buf_free(&text);
}

#define HEAD "{\"format\": \"kas-gpu kernel\", \"version\": 1, \"nodes\": "
#define INPUT "{\"op\": \"input\"}"

static void test_messages_name_the_fault(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"", "not valid JSON"},
        {"[]", "expected a JSON object"},
        {"{\"format\": \"x\", \"version\": 1, \"nodes\": []}", "\"format\""},
        {"{\"format\": \"kas-gpu kernel\", \"version\": 2, \"nodes\": []}", "\"version\""},
        {HEAD "[]}", "2 to 64 nodes"},
        {HEAD "[" INPUT "]}", "2 to 64 nodes"},
        {HEAD "[" INPUT ", " INPUT "]}", "node 1"},
        {HEAD "[{\"op\": \"relu\", \"in\": [0]}, " INPUT "]}", "node 0"},
        {HEAD "[" INPUT ", 3]}", "node 1: expected an object"},
        {HEAD "[" INPUT ", {\"op\": \"conv\", \"in\": [0]}]}", "unknown primitive \"conv\""},
        {HEAD "[" INPUT ", {\"op\": \"fc\", \"in\": [1], \"out\": \"C\"}]}", "earlier nodes"},
        {HEAD "[" INPUT ", {\"op\": \"fc\", \"in\": [-1], \"out\": \"C\"}]}", "earlier nodes"},
        {HEAD "[" INPUT ", {\"op\": \"fc\", \"in\": [0.5], \"out\": \"C\"}]}", "earlier nodes"},
        {HEAD "[" INPUT ", {\"op\": \"fc\", \"in\": [0, 0], \"out\": \"C\"}]}", "1 node number"},
        {HEAD "[" INPUT ", {\"op\": \"fc\", \"in\": [0]}]}", "\"out\" is missing"},
        {HEAD "[" INPUT ", {\"op\": \"fc\", \"in\": [0], \"out\": \"2C\"}]}", "found \"2C\""},
        {HEAD "[" INPUT ", {\"op\": \"fc\", \"in\": [0], \"out\": \"x0\"}]}", "product is C"},
        {HEAD "[" INPUT ", {\"op\": \"fc\", \"in\": [0], \"out\": \"C\", \"bias\": 1}]}",
         "unknown field \"bias\""},
        {HEAD "[" INPUT ", {\"op\": \"fc\", \"in\": [0], \"out\": \"C\", \"out\": \"C\"}]}",
         "duplicate key"},
        {HEAD "[" INPUT ", {\"op\": \"relu\", \"in\": [0], \"dim\": 0}]}", "unknown field \"dim\""},
        {HEAD "[" INPUT ", {\"op\": \"shift\", \"in\": [0], \"axes\": \"h\", \"offset\": 4}]}",
         "[-3, 3]"},
        {HEAD "[" INPUT ", {\"op\": \"unfold\", \"in\": [0], \"axes\": \"c\"}]}", "\"axes\""},
        {HEAD "[" INPUT ", {\"op\": \"unfold\", \"in\": [0], \"axes\": \"h\", \"kernel\": 9}]}",
         "\"kernel\""},
        {HEAD "[" INPUT ", {\"op\": \"unfold\", \"in\": [0], \"axes\": \"h\", \"kernel\": 4}]}",
         "node 1 (unfold): kernel 4"},
        {HEAD "[" INPUT ", {\"op\": \"unfold\", \"in\": [0], \"axes\": \"h\", \"dilation\": 0}]}",
         "\"dilation\""},
        {HEAD "[" INPUT ", {\"op\": \"group\", \"in\": [0], \"dim\": 0, \"by\": \"x0\"}]}",
         "\"by\""},
        {HEAD "[" INPUT ", {\"op\": \"group\", \"in\": [0], \"dim\": 0, \"by\": \"G0\"}]}",
         "\"G0\" is used"},
        {HEAD "[" INPUT ", {\"op\": \"group\", \"in\": [0], \"dim\": 0, \"by\": \"G0\"}], "
              "\"groups\": {\"G0\": 1}}",
         "[2, 65536]"},
        {HEAD "[" INPUT ", {\"op\": \"relu\", \"in\": [0]}], \"groups\": {\"G0\": 4}}",
         "no node uses"},
        {HEAD "[" INPUT ", {\"op\": \"relu\", \"in\": [0]}], \"targets\": [{\"Z\": 4}]}",
         "unknown symbol"},
        {HEAD "[" INPUT ", {\"op\": \"relu\", \"in\": [0]}], \"extra\": 4}", "unknown field"},
        {HEAD "[" INPUT ", {\"op\": \"relu\", \"in\": [0]}, {\"op\": \"neg\", \"in\": [0]}]}",
         "node 1 (relu)"},
        {HEAD "[[[[[[[[[[]]]]]]]]]]}", "nested deeper"},
        {HEAD "[" INPUT ", {\"op\": \"relu\", \"in\": [0]}]} x", "after the JSON value"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kas_kernel k;
        kas_status status =
            kas_kernel_read_json("f.json", cases[i].text, strlen(cases[i].text), &k);
        if (status != KAS_BAD_INPUT || !strstr(kas_error(), cases[i].words) ||
            !strstr(kas_error(), "f.json"))
            fail_msg("%s\n  gave status %d, message \"%s\"; wanted \"%s\"", cases[i].text,
                     (int)status, kas_error(), cases[i].words);
    }
}

/* A window of its own is written down only where it is not the convolution's. */
static void test_windows_round_trip(void **state)
{
    (void)state;
    const char *text = HEAD
        "[" INPUT ", {\"op\": \"unfold\", \"in\": [0], \"axes\": \"hw\", \"kernel\": 5, "
        "\"dilation\": 2}, {\"op\": \"unfold\", \"in\": [1], \"axes\": \"h\", \"dilation\": 1}, "
        "{\"op\": \"fc\", \"in\": [2], \"out\": \"C\"}]}";
    kas_kernel k;
    kas_buf out = {0};
    assert_int_equal(kas_kernel_read_json("windows", text, strlen(text), &k), KAS_OK);
    assert_int_equal(kas_kernel_write_json(&k, NULL, &out), KAS_OK);
    assert_non_null(
        strstr(kas_buf_text(&out), "\"axes\": \"hw\", \"kernel\": 5, \"dilation\": 2}"));
    assert_non_null(strstr(kas_buf_text(&out), "\"axes\": \"h\"}"));
    kas_buf_free(&out);
}

static const char *const tokens[] = {"\"",
                                     "{",
                                     "}",
                                     "[",
                                     "]",
                                     ",",
                                     ":",
                                     "-1",
                                     "64",
                                     "1e9",
                                     "null",
                                     "true",
                                     "\"x15\"",
                                     "\"C/x0\"",
                                     "\"G3\"",
                                     "\"hw\"",
                                     "\"dim\"",
                                     "\"softmax\"",
                                     "\"group_all\"",
                                     "0",
                                     "\\u0000",
                                     "\"mul\""};

static size_t mutate(kas_rng *rng, char *text, size_t size, size_t capacity)
{
    for (uint32_t n = 1 + kas_rng_below(rng, 3); n > 0 && size > 0; n--) {
        size_t at = kas_rng_below(rng, (uint32_t)size);
        const char *token = tokens[kas_rng_below(rng, sizeof tokens / sizeof *tokens)];
        size_t length = strlen(token), cut = 1 + kas_rng_below(rng, 8);
        switch (kas_rng_below(rng, 4)) {
        case 0: /* one byte */
            text[at] = (char)kas_rng_below(rng, 256);
            break;
        case 1: /* a digit: changes numbers of nodes, dims, axes */
            for (size_t i = at; i < size; i++)
                if (text[i] >= '0' && text[i] <= '9') {
                    text[i] = (char)('0' + kas_rng_below(rng, 10));
                    break;
                }
            break;
        case 2: /* a cut */
            cut = cut > size - at ? size - at : cut;
            memmove(text + at, text + at + cut, size - at - cut);
            size -= cut;
            break;
        default: /* a token */
            if (size + length < capacity) {
                memmove(text + at + length, text + at, size - at);
                memcpy(text + at, token, length);
                size += length;
            }
        }
    }
    return size;
}

/* Damaged files: the reader accepts or refuses, and what it accepts is legal and can be written. */
static void test_mutated_files(void **state)
{
    (void)state;
    int accepted = 0, refused = 0;
    for (int i = 0; i < KNOWN; i++) {
        kas_kernel k;
        kas_buf original = {0};
        read_known(i, &k);
        assert_int_equal(kas_kernel_write_json(&k, NULL, &original), KAS_OK);
        for (int n = 0; n < 4000; n++) {
            kas_rng rng = kas_rng_make(5, KAS_PURPOSE_TEST, (uint64_t)(i * 4000 + n));
            char *text = malloc(8192); /* exactly sized below, so that ASan sees a read past it */
            assert_non_null(text);
            memcpy(text, original.data, original.size);
            size_t size = mutate(&rng, text, original.size, 8192);
            char *tight = malloc(size ? size : 1);
            assert_non_null(tight);
            memcpy(tight, text, size);
            kas_status status = kas_kernel_read_json("mutant", tight, size, &k);
            if (status == KAS_OK) {
                kas_buf written = {0};
                assert_int_equal(kas_kernel_infer(&k), KAS_OK);
                assert_int_equal(kas_kernel_write_json(&k, NULL, &written), KAS_OK);
                kas_buf_free(&written);
                accepted++;
            } else {
                assert_int_equal(status, KAS_BAD_INPUT);
                refused++;
            }
            free(tight);
            free(text);
        }
        kas_buf_free(&original);
    }
    print_message("mutated files: %d accepted, %d refused\n", accepted, refused);
    assert_true(accepted > 100 && refused > 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_kernels_round_trip), cmocka_unit_test(test_exact_text),
        cmocka_unit_test(test_messages_name_the_fault), cmocka_unit_test(test_windows_round_trip),
        cmocka_unit_test(test_mutated_files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

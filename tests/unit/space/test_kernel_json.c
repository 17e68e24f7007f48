#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "support/build.h"
#include "host/space/canonical.h"
#include "host/space/file/kernel_json.h"

static const char *const known[] = {
    "conv",       "depthwise_separable", "group_conv",        "shift_conv",
    "involution", "squeeze_excite",      "spatial_separable", "residual"};
enum { KNOWN = sizeof known / sizeof *known };

static void read_known(int i, kas_kernel *k)
{
    char path[128];
    snprintf(path, sizeof path, "kernels/%s.json", known[i]);
    OK(kas_kernel_read_file(path, k));
}

TEST(test_known_kernels_round_trip)
{
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

TEST(test_exact_text)
{
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

TEST(test_messages_name_the_fault)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"", "not valid JSON"},
        {"[]", "expected a JSON object"},
        {"{\"format\": \"x\", \"version\": 1, \"nodes\": []}", "\"format\""},
        {"{\"format\": \"kas-gpu kernel\", \"version\": 3, \"nodes\": []}", "\"version\""},
        {HEAD "[]}", "2 to 64 nodes"},
        {HEAD "[" INPUT "]}", "2 to 64 nodes"},
        {HEAD "[" INPUT ", " INPUT "]}", "node 1"},
        {HEAD "[{\"op\": \"relu\", \"in\": [0]}, " INPUT "]}", "node 0"},
        {HEAD "[" INPUT ", 3]}", "node 1: expected an object"},
        {HEAD "[" INPUT ", {\"op\": \"conv3d\", \"in\": [0]}]}", "unknown primitive \"conv3d\""},
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
         "nodes[1]: duplicate key \"out\""},
        {HEAD "[" INPUT ", {\"op\": \"relu\", \"in\": [[[[[[[0]]]]]]]}]}",
         "nodes[1].in[0][0][0][0][0]: nested deeper"},
        {HEAD "[" INPUT ", {\"op\": \"relu\", \"in\": [2]}, {\"op\": \"abs\", \"in\": [1]}]}",
         "node 1: field \"in\": expected numbers of earlier nodes"}, /* a cycle */
        {HEAD "[" INPUT ", {\"op\": \"relu\"}]}", "node 1: field \"in\" is missing"},
        {HEAD "[" INPUT ", {\"op\": \"relu\", \"in\": [1e999]}]}", "node 1: field \"in\""},
        {HEAD "[" INPUT ", {\"op\": \"fold_avg\", \"in\": [0], \"dim\": 4294967296}]}",
         "node 1: field \"dim\""},
        {HEAD "[" INPUT ", {\"op\": \"fc\", \"in\": [0], \"out\": \"4294967296*C\"}]}",
         "node 1: field \"out\""},
        {HEAD "[" INPUT ", {\"op\": \"fold_avg\", \"in\": [0], \"dim\": 2}, "
              "{\"op\": \"unfold\", \"in\": [1], \"axes\": \"hw\"}]}",
         "node 2 (unfold): the input does not have the axis"},
        {HEAD "[" INPUT ", {\"op\": \"relu\", \"in\": [0]}], \"groups\": {\"G0\": 1e300}}",
         "no node uses"},
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
TEST(test_windows_round_trip)
{
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

RUN_TESTS()

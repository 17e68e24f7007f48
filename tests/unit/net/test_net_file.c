/* Network files: what they unroll to, and what is said about broken ones. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/net/net.h"
#include "host/net/targets.h"

#define HEAD "{\"format\": \"kas-gpu network\", \"version\": 1, \"name\": \"test\",\n"
#define TAIL "\n{\"global_avg_pool\": \"pool\"}, {\"linear\": \"fc\", \"channels\": \"classes\"}]}"
#define NETWORK(layers) HEAD "\"layers\": [\n" layers "," TAIL

static kas_net *read_net(const char *text, int h, int w)
{
    kas_net *net = NULL;
    OK(kas_net_build(text, h, w, 3, 10, &net));
    return net;
}

static const kas_layer *layer(const kas_net *net, const char *name)
{
    for (int i = 0; i < net->layers; i++)
        if (strcmp(net->layer[i].name, name) == 0)
            return &net->layer[i];
    fail_msg("no layer %s", name);
    return NULL;
}

static void assert_shape(const kas_net *net, const char *name, int c, int h, int w)
{
    const kas_layer *l = layer(net, name);
    if (l->c != c || l->h != h || l->w != w)
        fail_msg("%s is %dx%dx%d, expected %dx%dx%d", name, l->c, l->h, l->w, c, h, w);
}

/* Sizes as PyTorch gives them, defaults as documented. */
TEST(layers_have_their_fields)
{
    kas_net *net = read_net(
        NETWORK("{\"conv\": \"a\", \"channels\": 8, \"kernel\": [1, 7], \"bias\": true},"
                "{\"conv\": \"b\", \"channels\": 16, \"kernel\": 3, \"stride\": 2, \"padding\": 0, "
                "\"groups\": 4},"
                "{\"max_pool\": \"floor\", \"kernel\": 3, \"stride\": 2, \"padding\": 1},"
                "{\"max_pool\": \"ceil\", \"from\": \"b\", \"kernel\": 2, \"ceil_mode\": true},"
                "{\"avg_pool\": \"avg\", \"from\": \"b\", \"kernel\": 2, \"stride\": 2, "
                "\"count_include_pad\": false},"
                "{\"adaptive_avg_pool\": \"adapt\", \"from\": \"b\", \"size\": [3, 5]},"
                "{\"batch_norm\": \"bn\", \"eps\": 0.001, \"momentum\": 0.01},"
                "{\"dropout\": \"drop\", \"probability\": 0.2},"
                "{\"flatten\": \"flat\"},"
                "{\"linear\": \"gate\", \"channels\": 16, \"bias\": false},"
                "{\"sigmoid\": \"sigmoid\"},"
                "{\"multiply\": \"scaled\", \"from\": [\"b\", \"sigmoid\"]},"
                "{\"concat\": \"cat\", \"from\": [\"b\", \"scaled\", \"b\"]},"
                "{\"global_avg_pool\": \"p1\", \"from\": \"floor\"},"
                "{\"global_avg_pool\": \"p2\", \"from\": \"ceil\"},"
                "{\"global_avg_pool\": \"p3\", \"from\": \"avg\"},"
                "{\"global_avg_pool\": \"p4\", \"from\": \"cat\"},"
                "{\"concat\": \"all\", \"from\": [\"p1\", \"p2\", \"p3\", \"p4\"]}"),
        32, 33);
    assert_shape(net, "a", 8, 32, 33);
    assert_true(layer(net, "a")->bias && layer(net, "a")->stem && !layer(net, "b")->bias);
    assert_shape(net, "b", 16, 15, 16);
    assert_int_equal(layer(net, "b")->groups, 4);
    assert_shape(net, "floor", 16, 8, 8);
    assert_shape(net, "ceil", 16, 8, 8);
    assert_shape(net, "avg", 16, 7, 8);
    assert_false(layer(net, "avg")->count_include_pad);
    assert_shape(net, "adapt", 16, 3, 5);
    assert_true(layer(net, "bn")->eps == 0.001 && layer(net, "bn")->momentum == 0.01);
    assert_true(layer(net, "drop")->probability == 0.2);
    assert_shape(net, "flat", 16 * 15, 1, 1);
    assert_false(layer(net, "gate")->bias);
    assert_shape(net, "scaled", 16, 15, 16);
    assert_shape(net, "cat", 48, 15, 16);
    assert_int_equal(layer(net, "cat")->inputs, 3);
    kas_net_free(net);
}

static const char repeated[] =
    HEAD "\"arguments\": [\"width = 4\", \"n = classes // 5\"], \"blocks\": {"
         "\"unit\": {\"arguments\": [\"k\", \"out = 2 * c\", \"more = k == 3\"], \"layers\": ["
         "{\"conv\": \"conv\", \"channels\": \"out\", \"kernel\": \"k\"},"
         "{\"if\": \"more\", \"relu\": \"relu\"}]},"
         "\"pair\": {\"layers\": [{\"unit\": \"left\", \"k\": 3}, {\"unit\": \"right\", \"from\": "
         "\"in\", "
         "\"k\": 1}, {\"add\": \"add\", \"from\": [\"left\", \"right\"]}]}},"
         "\"layers\": [{\"unit\": \"\", \"k\": 5, \"out\": \"width\"},"
         "{\"unit\": \"s.{i + 1}\", \"repeat\": \"n\", \"k\": \"i == 0 ? 3 : 1\"},"
         "{\"pair\": \"p\"}," TAIL;

TEST(blocks_unroll)
{
    kas_net *net = read_net(repeated, 8, 8);
    static const char *const names[] = {"input",    "conv",        "s.1.conv",    "s.1.relu",
                                        "s.2.conv", "p.left.conv", "p.left.relu", "p.right.conv",
                                        "p.add",    "pool",        "fc"};
    assert_int_equal(net->layers, sizeof names / sizeof *names);
    for (int i = 0; i < net->layers; i++)
        assert_string_equal(net->layer[i].name, names[i]);
    assert_shape(net, "s.2.conv", 16, 8, 8);
    assert_int_equal(layer(net, "p.right.conv")->in[0], 4);
    assert_int_equal(layer(net, "p.add")->in[0], 6);
    assert_int_equal(layer(net, "p.add")->in[1], 7);
    kas_net_free(net);
    char with_options[sizeof repeated + 32];
    snprintf(with_options, sizeof with_options, "%s:width=6,n=0", repeated);
    net = read_net(with_options, 8, 8);
    assert_int_equal(net->layers, 8);
    assert_shape(net, "p.add", 12, 8, 8);
    kas_net_free(net);
}

typedef struct broken {
    const char *text, *where, *what;
} broken;

static void explain(const broken *file, size_t files)
{
    for (size_t i = 0; i < files; i++) {
        kas_net *net = NULL;
        assert_int_equal(kas_net_build(file[i].text, 16, 16, 3, 10, &net), KAS_BAD_INPUT);
        assert_null(net);
        if (!strstr(kas_error(), file[i].where) || !strstr(kas_error(), file[i].what))
            fail_msg("\"%s\" lacks \"%s\" or \"%s\"", kas_error(), file[i].where, file[i].what);
    }
}

TEST(requirements_are_checked)
{
    static const broken cases[] = {
        {HEAD "\"arguments\": [\"n = 3\"],\n\"requires\": {\"n > 2\": \"few\", \"n < 3\": \"n is "
              "below 3\"}, \"layers\": []}",
         "line 3", "n is below 3"},
        {HEAD "\"blocks\": {\n\"b\": {\"requires\": {\"h > 16\": \"the images are too small\"}, "
              "\"layers\": []}},\n\"layers\": [\n{\"b\": \"x\"}]}",
         "line 5", "the images are too small"},
        {HEAD "\"requires\": [],\n\"layers\": []}", "line 2", "expected an object"},
        {HEAD "\"requires\": {\"0\": 1},\n\"layers\": []}", "line 2", "expected a text"},
        {HEAD "\"requires\": {\"m\": \"m\"},\n\"layers\": []}", "line 2", "unknown name"},
    };
    explain(cases, sizeof cases / sizeof *cases);
    kas_net_free(read_net(
        HEAD "\"requires\": {\"h == 16\": \"other images\"}, \"layers\": [\n" TAIL, 16, 16));
}

/* Each is found, and the message holds the line (4 on: the first layer) or field, and what was
 * expected. */
TEST(broken_files_are_explained)
{
    static const broken cases[] = {
        {"{\"format\": \"kas-gpu network\",\n\"version\": 1,", "line 2", "not valid JSON"},
        {"{\"version\": 1}", "network", "\"format\""},
        {"{\"format\": \"kas-gpu kernel\", \"version\": 1}", "format",
         "expected \"kas-gpu network\""},
        {"{\"format\": \"kas-gpu network\", \"version\": 2}", "version", "[1, 1]"},
        {HEAD "\"lairs\": []}", "network", "unknown field \"lairs\""},
        {NETWORK("{\"conv\": \"a\", \"channels\": 8}"), "line 3: layer a", "\"kernel\" is missing"},
        {NETWORK("{\"relu\": \"r\"},\n{\"covn\": \"a\", \"channels\": 8}"), "line 4",
         "\"covn\" is neither a kind"},
        {NETWORK("{\"conv\": \"a\", \"channels\": 8, \"kernel\": 3, \"dilation\": 2}"),
         "line 3: layer a", "it has: channels, kernel, stride, padding, groups, bias, from, if"},
        {NETWORK("{\"conv\": \"a\", \"channels\": 0, \"kernel\": 3}"), "line 3: layer a",
         "\"channels\": expected 1 to 1048576, found 0"},
        {NETWORK("{\"conv\": \"a\", \"channels\": 2.5, \"kernel\": 3}"), "line 3", "whole number"},
        {NETWORK("{\"conv\": \"a\", \"channels\": \"2 * widht\", \"kernel\": 3}"), "line 3",
         "unknown name \"widht\"; known are: classes c h w"},
        {NETWORK("{\"conv\": \"a\", \"channels\": 8, \"kernel\": 3, \"groups\": 2}"), "line 3",
         "2 groups do not divide 3 input"},
        {NETWORK("{\"conv\": \"a\", \"channels\": 8, \"kernel\": 99, \"padding\": 0}"), "line 3",
         "does not fit into 16 pixels"},
        {NETWORK("{\"relu\": \"r\"},\n\n{\"relu\": \"r\"}"), "line 5", "\"r\" is taken"},
        {NETWORK("{\"batch_norm\": \"b\"},\n{\"batch_norm\": \"b.c\"}"), "line 4", "cannot lie in"},
        {NETWORK("{\"batch_norm\": \"b.c\"},\n{\"batch_norm\": \"b\"}"), "line 4", "cannot lie in"},
        {NETWORK("{\"relu\": \"r\", \"from\": \"later\"}"), "line 3",
         "no layer or block \"later\""},
        {NETWORK("{\"relu\": \"a b\"}"), "line 3", "expected letters"},
        {NETWORK("{\"relu\": 5}"), "line 3", "expected the layer's name"},
        {NETWORK("{\"conv\": \"a\", \"channels\": 8, \"kernel\": 3},\n{\"add\": \"s\", \"from\": "
                 "[\"a\", \"in\"]}"),
         "line 4: layer s", "8x16x16 and 3x16x16; expected equal shapes"},
        {NETWORK("{\"add\": \"s\"}"), "line 3", "reads 2 layers"},
        {NETWORK("{\"concat\": \"s\", \"from\": [\"in\"]}"), "line 3", "2 layers or more"},
        {NETWORK("{\"max_pool\": \"p\", \"kernel\": 3, \"padding\": 2}"), "line 3",
         "at most half of the kernel"},
        {NETWORK("{\"avg_pool\": \"p\", \"kernel\": [2, 1]}"), "line 3", "\"stride\" is missing"},
        {NETWORK("{\"linear\": \"l\", \"channels\": 4}"), "line 3: layer l", "flatten it first"},
        {NETWORK("{\"from\": \"in\", \"conv\": \"x\", \"channels\": 4}"), "line 3: layer x",
         "a layer \"conv\" needs it"},
        {NETWORK("{\"dropout\": \"d\", \"probability\": 1}"), "line 3: layer d", "[0, 0.99]"},
        {NETWORK("[]"), "line 3", "expected a layer"},
        {HEAD "\"layers\": [\n{\"global_avg_pool\": \"p\"}]}", "line 2",
         "expected 10x1x1, one value a class"},
        {NETWORK("{\"relu\": \"a\"},\n{\"relu\": \"b\"},\n{\"relu\": \"c\", \"from\": \"a\"}"),
         "line 4: layer b", "no layer that leads to the last one reads it"},
        {HEAD
         "\"blocks\": {\n\"b\": {\"arguments\": [\"n\"], \"layers\": [\n{\"relu\": \"r{n}\"}]}},\n"
         "\"layers\": [\n{\"b\": \"x\"}]}",
         "line 6", "argument \"n\" is missing"},
        {HEAD "\"blocks\": {\n\"b\": {\"layers\": [\n{\"relu\": \"r\", \"eps\": 1}]}},\n"
              "\"layers\": [\n{\"b\": \"x\"}]}",
         "line 4: layer x.r", "unknown field \"eps\""},
        {HEAD "\"blocks\": {\n\"b\": {\"layers\": [\n{\"b\": \"again\"}]}},\n"
              "\"layers\": [\n{\"b\": \"x\"}]}",
         "line 4", "nor a block defined before"},
        {HEAD "\"blocks\": {\n\"relu\": {\"layers\": []}},\n\"layers\": []}", "line 3",
         "has the name of a kind"},
        {HEAD "\"blocks\": {\n\"b\": {\"layers\": [{\"relu\": \"r\"}]}},\n"
              "\"layers\": [{\"b\": \"x\", \"times\": 2}]}",
         "line 4", "\"times\" is not an argument"},
        {HEAD "\"blocks\": {\n\"b\": {\"layers\": [{\"relu\": \"r\"}]}},\n"
              "\"layers\": [{\"b\": \"x\", \"repeat\": 2}]}",
         "line 3: the name \"x.r\"", "taken"},
        {HEAD "\"arguments\": [\"n\"],\n\"layers\": []}", "line 2", "argument \"n\" is missing"},
        {HEAD "\"blocks\": {\n\"b\": {\"layers\": [{\"relu\": \"r\"}]}},\n"
              "\"layers\": [{\"b\": \"x{i}\", \"repeat\": 2},\n{\"relu\": \"r{i}\"}]}",
         "line 5", "unknown name \"i\""},
        {HEAD "\"arguments\": [\"if = 1\"],\n\"layers\": []}", "line 2", "the name is taken"},
        {HEAD "\"like\": \"resnet99\"}", "network", "unknown network \"resnet99\""},
        {HEAD "\"like\": \"resnet18\", \"layers\": []}", "network", "unknown field \"layers\""},
    };
    explain(cases, sizeof cases / sizeof *cases);
    print_message("%zu broken files are explained\n", sizeof cases / sizeof *cases);
}

/* Messages say which file to open, not what the file calls its network. */
TEST(messages_name_the_file)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        {HEAD "\"like\": \"resnet18:bogus=1\"}", ".json (like resnet18): "},
        {HEAD "\"layers\": [{\"conv\": \"stem\", \"channels\": 8, \"kernel\": 3}, "
              "{\"global_avg_pool\": \"p\"}, "
              "{\"linear\": \"fc\", \"channels\": \"classes\"}]}",
         NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[] = "/tmp/kas-net-XXXXXX.json";
        kas_net *net = NULL;
        const int fd = mkstemps(path, 5);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, cases[i].text, strlen(cases[i].text)), strlen(cases[i].text));
        close(fd);
        kas_status status = kas_net_build(path, 16, 16, 3, 10, &net);
        if (!cases[i].words && status == KAS_OK) { /* it has nothing to replace */
            kas_target *target;
            int count;
            status = kas_net_targets(net, NULL, &target, &count);
            kas_net_free(net);
        }
        assert_int_equal(status, KAS_BAD_INPUT);
        if (!strstr(kas_error(), path) || (cases[i].words && !strstr(kas_error(), cases[i].words)))
            fail_msg("\"%s\" does not name %s", kas_error(), path);
        unlink(path);
    }
}

/* Layers that no device could hold, and whose sizes would leave 64 bits a few layers on. */
TEST(huge_layers_are_refused)
{
    static const char *const cases[][2] = {
        {NETWORK("{\"conv\": \"x\", \"channels\": 1048576, \"kernel\": 1, \"padding\": 9}"),
         "line 3: layer x (conv): output is 1048576x34x34; expected at most 2^30 values"},
        {NETWORK("{\"conv\": \"x\", \"channels\": 1048576, \"kernel\": 255}"),
         "expected fewer channels: at most 2^30 weights"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kas_net *net = NULL;
        assert_int_equal(kas_net_build(cases[i][0], 16, 16, 3, 10, &net), KAS_BAD_INPUT);
        assert_non_null(strstr(kas_error(), cases[i][1]));
    }
}

/* Files that would grow without end, or be deeper than anyone writes. */
TEST(limits_hold)
{
    kas_net *net = NULL;
    kas_buf text = {0};
    /* Each block uses the one before it 1,024 times. */
    kas_buf_puts(&text, HEAD "\"blocks\": {\"b0\": {\"layers\": []}");
    for (int i = 1; i < 8; i++)
        kas_buf_printf(&text, ",\"b%d\": {\"layers\": [{\"b%d\": \"\", \"repeat\": 1024}]}", i,
                       i - 1);
    kas_buf_puts(&text, "}, \"layers\": [{\"b7\": \"\"}]}");
    assert_int_equal(kas_net_build(text.data, 8, 8, 3, 10, &net), KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "more than"));
    kas_buf_clear(&text);
    kas_buf_puts(&text, HEAD "\"layers\": [");
    for (int i = 0; i < 9000; i++)
        kas_buf_printf(&text, "{\"relu\": \"r%d\"},", i);
    kas_buf_puts(&text, TAIL);
    assert_int_equal(kas_net_build(text.data, 8, 8, 3, 10, &net), KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "8192 layers"));
    kas_buf_clear(&text);
    kas_buf_puts(&text, HEAD "\"layers\": [[[[[[[[[]]]]]]]]]}");
    assert_int_equal(kas_net_build(text.data, 8, 8, 3, 10, &net), KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "deeper than 8"));
    kas_buf_free(&text);
}

/* No prefix of a file is one, none crashes, and each is refused. */
TEST(cut_files_are_refused)
{
    char text[sizeof repeated];
    for (size_t size = 1; size + 1 < sizeof repeated; size++) {
        kas_net *net = NULL;
        memcpy(text, repeated, size);
        text[size] = 0;
        assert_int_equal(kas_net_build(text, 8, 8, 3, 10, &net), KAS_BAD_INPUT);
    }
}

TEST(options_are_checked)
{
    static const char *const bad[] = {"resnet18:small=x", "resnet18:smal=1",
                                      "resnet18:small=1;n1=2", "resnet18:n1=1.5",
                                      "resnet18:small="};
    kas_net *net = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(kas_net_build(bad[i], 32, 32, 3, 10, &net), KAS_BAD_INPUT);
        assert_non_null(strstr(kas_error(), "resnet18"));
    }
    assert_int_equal(kas_net_build("./none.json", 32, 32, 3, 10, &net), KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "./none.json"));
    assert_int_equal(kas_net_build("resnet34:n1=1,n1=2", 32, 32, 3, 10, &net), KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "n1 is given twice"));
    net = read_net("resnet18:small=0", 32, 32);
    assert_shape(net, "maxpool", 64, 8, 8);
    kas_net_free(net);
    net = read_net("resnet34:n1=1", 32, 32); /* the user's value, not that of "like" */
    assert_string_equal(net->name, "resnet34");
    for (int i = 0; i < net->layers; i++)
        assert_null(strstr(net->layer[i].name, "layer1.1"));
    layer(net, "layer3.5.conv1");
    kas_net_free(net);
}

/* A study keeps the file's content: what is kept gives the same network, spaces do not count,
 * content and options do. */
TEST(files_are_kept)
{
    char name[KAS_NET_KEPT_NAME], other[KAS_NET_KEPT_NAME], changed[2 * sizeof repeated];
    const char *text, *again;
    assert_int_equal(kas_net_keep("resnet18:small=0", name, &text), KAS_OK);
    assert_string_equal(name, "resnet18:small=0");
    assert_string_equal(text, "");
    assert_int_equal(kas_net_keep(repeated, name, &text), KAS_OK);
    assert_int_equal(strncmp(name, "test-", 5), 0);
    assert_int_equal(strlen(name), 5 + 8);
    kas_net *a = read_net(repeated, 8, 8), *b = read_net(text, 8, 8);
    assert_int_equal(a->layers, b->layers);
    for (int i = 0; i < a->layers; i++)
        assert_string_equal(a->layer[i].name, b->layer[i].name);
    kas_net_free(a);
    kas_net_free(b);
    snprintf(changed, sizeof changed, "%s:width=6", repeated);
    assert_int_equal(kas_net_keep(changed, other, &again), KAS_OK);
    assert_string_not_equal(name, other);
    b = read_net(again, 8, 8);
    assert_shape(b, "conv", 6, 8, 8);
    kas_net_free(b);
    snprintf(changed, sizeof changed, "{\n   %s", repeated + 1);
    assert_int_equal(kas_net_keep(changed, other, &again), KAS_OK);
    assert_string_equal(name, other);
    assert_string_equal(changed, again); /* as it is: messages name its lines */
    static const char like[] = HEAD "\"like\": \"resnext29_2x64d:cardinality=1\"}";
    assert_int_equal(kas_net_keep(like, name, &text), KAS_OK);
    kas_net_free(read_net(text, 8, 8)); /* the options inside are not its own */
    assert_int_equal(kas_net_keep("nonesuch", name, &text), KAS_BAD_INPUT);
    assert_int_equal(kas_net_keep("{\"format\": 1}", name, &text), KAS_BAD_INPUT);
}

RUN_TESTS()

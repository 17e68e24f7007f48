/* core/: status, arena, buf, random, sha256, files, json. */
#include "support/test.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/core/arena.h"
#include "host/core/buf.h"
#include "host/core/file/files.h"
#include "host/core/json/json.h"
#include "host/core/plain.h"
#include "host/core/random.h"
#include "host/core/sha256.h"
#include "host/core/status.h"
#include "host/core/thread.h"
#include "support/folder.h"

TEST(status_keeps_the_message_and_adds_context)
{
    assert_int_equal(kas_fail(KAS_BAD_INPUT, "field %s", "x"), KAS_BAD_INPUT);
    assert_string_equal(kas_error(), "field x");
    kas_fail_context(KAS_BAD_INPUT, "file %d", 7);
    assert_string_equal(kas_error(), "file 7: field x");
    /* the argument may be the message itself */
    kas_fail(KAS_FAILURE, "again: %s", kas_error());
    assert_string_equal(kas_error(), "again: file 7: field x");
}

TEST(a_quiet_thread_keeps_the_last_message_of_who_asks_for_legality)
{
    kas_fail(KAS_BAD_INPUT, "before");
    assert_false(kas_quiet(true));
    assert_int_equal(kas_fail(KAS_ILLEGAL, "not written"), KAS_ILLEGAL);
    assert_int_equal(kas_fail_context(KAS_OVER_BUDGET, "nor this"), KAS_OVER_BUDGET);
    assert_string_equal(kas_error(), "before");
    assert_int_equal(kas_fail(KAS_NO_MEMORY, "an error"), KAS_NO_MEMORY);
    assert_string_equal(kas_error(), "an error");
    assert_true(kas_quiet(false));
    kas_fail(KAS_ILLEGAL, "written");
    assert_string_equal(kas_error(), "written");
}

TEST(every_status_has_an_exit_code_users_know)
{
    const kas_status all[] = {
        KAS_OK,      KAS_FAILURE,     KAS_USAGE,       KAS_BAD_INPUT,     KAS_STORE,
        KAS_DEVICE,  KAS_NO_MEMORY,   KAS_UNSUPPORTED, KAS_NOTHING_VALID, KAS_PREEMPTED,
        KAS_ILLEGAL, KAS_OVER_BUDGET, KAS_DEVICE_LOST, KAS_INTERRUPTED,   KAS_MACHINE,
        KAS_SHOWN};
    const int known[] = {0, 1, 2, 3, 4, 5, 6, 75, 130};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        int code = kas_exit_code(all[i]), found = 0;
        for (size_t j = 0; j < sizeof known / sizeof *known; j++)
            found |= code == known[j];
        assert_true(found);
    }
}

TEST(arena_gives_aligned_zeroed_memory_that_stays)
{
    kas_arena *arena = kas_arena_create();
    assert_non_null(arena);
    unsigned char *kept[200];
    for (size_t i = 0; i < 200; i++) {
        size_t size = i * i * 7 % 30011;
        kept[i] = kas_arena_alloc(arena, size);
        assert_non_null(kept[i]);
        assert_int_equal((uintptr_t)kept[i] % 16, 0);
        for (size_t j = 0; j < size; j++)
            assert_int_equal(kept[i][j], 0);
        memset(kept[i], (int)(i + 1), size);
    }
    for (size_t i = 0; i < 200; i++)
        for (size_t j = 0; j < i * i * 7 % 30011; j++)
            assert_int_equal(kept[i][j], (unsigned char)(i + 1));
    assert_null(kas_arena_alloc(arena, SIZE_MAX - 3));
    kas_arena_free(arena);
}

TEST(buf_escapes_json_and_grows)
{
    kas_buf buf = {0};
    assert_string_equal(kas_buf_text(&buf), "");
    kas_buf_json_string(&buf, "a\"b\\c\n\x01");
    assert_string_equal(kas_buf_text(&buf), "\"a\\\"b\\\\c\\n\\u0001\"");
    kas_buf_clear(&buf);
    for (int i = 0; i < 10000; i++)
        kas_buf_printf(&buf, "%d,", i);
    assert_int_equal(buf.size, 48890);
    assert_int_equal(kas_buf_status(&buf), KAS_OK);
    kas_buf_free(&buf);
}

/* The known answers that come with Random123. */
TEST(words_are_quoted_for_a_shell)
{
    kas_buf buf = {0};
    const char *const words[] = {"plain/path-1.h5", "two words", "", "it's", "$(x)"};
    for (int i = 0; i < 5; i++) {
        kas_buf_puts(&buf, " ");
        kas_buf_shell_word(&buf, words[i]);
    }
    assert_string_equal(kas_buf_text(&buf), " plain/path-1.h5 'two words' '' 'it'\\''s' '$(x)'");
    kas_buf_free(&buf);
}

TEST(philox_gives_the_published_numbers)
{
    const struct {
        uint32_t counter[4], key[2], expected[4];
    } cases[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t out[4];
        kas_philox4x32(cases[i].counter, cases[i].key, out);
        assert_memory_equal(out, cases[i].expected, sizeof out);
    }
}

TEST(streams_differ_and_are_uniform)
{
    kas_rng a = kas_rng_make(1, KAS_PURPOSE_TEST, 0), b = kas_rng_make(1, KAS_PURPOSE_TEST, 1);
    kas_rng c = kas_rng_make(1, KAS_PURPOSE_INIT, 0), d = kas_rng_make(2, KAS_PURPOSE_TEST, 0);
    uint32_t first = kas_rng_u32(&a);
    assert_int_not_equal(first, kas_rng_u32(&b));
    assert_int_not_equal(first, kas_rng_u32(&c));
    assert_int_not_equal(first, kas_rng_u32(&d));

    enum { DRAWS = 70000, SIDES = 7 };
    double counts[SIDES] = {0}, sum = 0, squares = 0, units = 0;
    for (int i = 0; i < DRAWS; i++) {
        uint32_t v = kas_rng_below(&a, SIDES);
        assert_true(v < SIDES);
        counts[v]++;
        double x = kas_rng_normal(&a), u = kas_rng_unit(&a);
        assert_true(u >= 0 && u < 1);
        sum += x, squares += x * x, units += u;
    }
    /* five standard deviations of each estimate */
    for (int i = 0; i < SIDES; i++)
        assert_true(fabs(counts[i] - DRAWS / 7.0) <= 5 * sqrt(DRAWS / 7.0 * 6 / 7));
    assert_true(fabs(sum / DRAWS) <= 5 / sqrt(DRAWS));
    assert_true(fabs(squares / DRAWS - 1) <= 5 * sqrt(2.0 / DRAWS));
    assert_true(fabs(units / DRAWS - 0.5) <= 5 * sqrt(1.0 / 12 / DRAWS));
}

TEST(sha256_gives_the_published_digests)
{
    char hex[65];
    kas_sha256_hex("", 0, hex);
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    kas_sha256_hex("abc", 3, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    /* a million times "a", in pieces of every size up to 200 */
    kas_sha256 hash;
    kas_sha256_init(&hash);
    char piece[200];
    memset(piece, 'a', sizeof piece);
    for (size_t left = 1000000, n = 1; left > 0; n = n % 200 + 1) {
        size_t size = n < left ? n : left;
        kas_sha256_update(&hash, piece, size);
        left -= size;
    }
    uint8_t digest[32];
    kas_sha256_final(&hash, digest);
    kas_sha256_to_hex(digest, hex);
    assert_string_equal(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* The digests above come by the processor's instructions where it has them. */
TEST(sha256_is_the_same_without_instructions)
{
    uint8_t block[9 * 64];
    for (size_t i = 0; i < sizeof block; i++)
        block[i] = (uint8_t)(i * i * 167 + i * 13 + 5);
    for (size_t count = 0; count <= 9; count++) {
        kas_sha256 one, other;
        kas_sha256_init(&one);
        kas_sha256_init(&other);
        kas_sha256_compress(one.state, block, count, false);
        kas_sha256_compress(other.state, block, count, true);
        assert_memory_equal(one.state, other.state, sizeof one.state);
    }
}

TEST_WITH(files_are_written_whole_and_read_with_limits, make_folder, NULL)
{
    const char *inner = in_folder("a/b/c"), *path = in_folder("a/b/c/x");
    assert_int_equal(kas_mkdirs(inner), KAS_OK);
    assert_int_equal(kas_mkdirs(inner), KAS_OK);
    assert_int_equal(kas_file_write_atomic(path, "hello", 5), KAS_OK);
    assert_int_equal(kas_file_write_atomic(path, "world!", 6), KAS_OK);
    kas_buf buf = {0};
    assert_int_equal(kas_file_read(path, 6, &buf), KAS_OK);
    assert_string_equal(kas_buf_text(&buf), "world!");
    assert_int_equal(kas_file_read(path, 5, &buf), KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "5 bytes"));
    assert_int_equal(kas_file_read(inner, 5, &buf), KAS_BAD_INPUT);
    assert_int_equal(kas_file_read("/nonexistent/x", 5, &buf), KAS_BAD_INPUT);
    /* a fifo must not block */
    path = in_folder("a/b/c/fifo");
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(kas_file_read(path, 5, &buf), KAS_BAD_INPUT);
    /* a folder that cannot be made: a file is in the way */
    assert_int_equal(kas_mkdirs(in_folder("a/b/c/x/y")), KAS_FAILURE);
    kas_buf_free(&buf);
    assert_int_equal(kas_remove_tree(folder), KAS_OK);
    assert_false(kas_file_exists(folder));
}

/* Only what a killed write of this very file has left is removed. */
TEST_WITH(unfinished_files_are_removed, make_folder, remove_folder)
{
    static const struct {
        const char *name;
        bool stays;
    } files[] = {{"ckpt", true},
                 {"ckpt.unfinished-Ab12Cd", false},
                 {"ckpt.unfinished-zzzzzz", false},
                 {"ckpt.unfinished-backups", true},
                 {"ckpt.backup", true},
                 {"ckpt.unfinished", true},
                 {"other.unfinished-Ab12Cd", true},
                 {"ckpt2.unfinished-Ab12Cd", true}};
    for (int by_link = 0; by_link < 2; by_link++) {
        for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
            OK(kas_file_write_atomic(in_folder(files[i].name), "x", 1));
        }
        const char *link = in_folder("link");
        if (by_link)
            assert_int_equal(symlink("ckpt", link), 0);
        kas_file_remove_unfinished(by_link ? link : in_folder("ckpt"), 0);
        for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
            if (kas_file_exists(in_folder(files[i].name)) != files[i].stays)
                fail_msg("%s %s", files[i].name, files[i].stays ? "is gone" : "is still there");
        }
    }
    kas_file_remove_unfinished("/nonexistent/x", 0);
}

/* What a terminal obeys, and what is no UTF-8, never leaves the program. */
TEST(strange_text_is_shown_plain)
{
    static const struct {
        const char *text, *plain;
    } cases[] = {
        {"a\tb\n", "a\tb\n"},
        {"d\xc3\xb6rn \xe2\x82\xac \xf0\x9f\x90\x9d", "d\xc3\xb6rn \xe2\x82\xac \xf0\x9f\x90\x9d"},
        {"\x1b[31m\r\x7f", "\xef\xbf\xbd[31m\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xc2\x9b", "\xef\xbf\xbd\xef\xbf\xbd"},                 /* CSI in one character */
        {"caf\xe9", "caf\xef\xbf\xbd"},                           /* Latin-1, cut short too */
        {"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},                 /* overlong */
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* surrogate */
        {"\xf4\x90\x80\x80x",
         "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdx"}}; /* beyond the last */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char out[64], small[4];
        kas_plain_copy(out, sizeof out, cases[i].text);
        assert_string_equal(out, cases[i].plain);
        assert_true(kas_is_plain(out));
        assert_int_equal(kas_is_plain(cases[i].text), strcmp(cases[i].text, out) == 0);
        kas_plain_copy(small, sizeof small, cases[i].text);
        assert_true(strlen(small) < sizeof small && kas_is_plain(small));
    }
    kas_fail(KAS_BAD_INPUT, "%s: class \"%s\"", "f.h5", "\x1b]0;x\a");
    assert_string_equal(kas_error(), "f.h5: class \"\xef\xbf\xbd]0;x\xef\xbf\xbd\"");
}

/* An error that comes from `ulimit` says so. */
TEST(an_error_names_the_limit)
{
    struct rlimit before, low = {.rlim_cur = 40960};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    low.rlim_max = before.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    assert_non_null(strstr(kas_strerror(EFBIG), "`ulimit -f`, is 40960 bytes"));
    assert_string_equal(kas_strerror(ENOENT), strerror(ENOENT));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_non_null(strstr(kas_strerror(EMFILE), "`ulimit -n`, is "));
}

static kas_status parse(const char *text, cJSON **out)
{
    return kas_json_parse("f.json", text, strlen(text), (kas_json_limits){1000, 4}, out);
}

TEST(json_from_strangers_is_checked_before_use)
{
    cJSON *json;
    const struct {
        const char *text, *message;
    } bad[] = {
        {"", "not valid JSON"},
        {"{\n\"a\":", "f.json: a: line 2: not valid JSON; expected a value, found the end"},
        {"{\"a\" 1}", "not valid JSON; expected a colon after a key"},
        {"{\"a\": 1 \"b\": 2}", "expected a colon after a key, a comma or } after a value"},
        {"{\"a\": 1, }", "expected a key in double quotes"},
        {"{a: 1}", "expected a key in double quotes or }"},
        {"[1, ]", "expected a value"},
        {"[1\n 2]", "[0]: line 2: not valid JSON; expected a comma or ]"},
        {"[", "expected a value or ], found the end of the file"},
        {"{} x", "text after"},
        {"{\"a\":[1,{\"b\":tru}]}", "f.json: a[1].b: line 1: not valid JSON"},
        {"[[[[[1]]]]]", "f.json: [0][0][0][0]: nested deeper than 4"},
        {"{\"k\":\"}\\\"{\", \"a\" : [1,2,{\"b\":[{}, [ ]]}]}", "f.json: a[2].b[0]: nested"},
        {"{\"a\":1,\"a\":2}", "f.json: duplicate key \"a\" in line 1"},
        {"{\"a\":1,\n\"c\":3,\n\"a\":2}", "f.json: duplicate key \"a\" in line 3"},
        {"{\"b\":[{\"a\":1,\"c\":2,\"a\":2}]}", "f.json: b[0]: duplicate key \"a\""},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(parse(bad[i].text, &json), KAS_BAD_INPUT);
        assert_null(json);
        if (!strstr(kas_error(), bad[i].message))
            fail_msg("%s: %s", bad[i].text, kas_error());
        assert_non_null(strstr(kas_error(), "f.json"));
    }
    char large[1200];
    memset(large, ' ', sizeof large);
    large[sizeof large - 1] = 0;
    assert_int_equal(parse(large, &json), KAS_BAD_INPUT);
    assert_int_equal(kas_json_parse("f", "{}\0", 3, (kas_json_limits){9, 9}, &json), KAS_BAD_INPUT);
    /* brackets in strings are no nesting */
    assert_int_equal(parse("{\"a\":\"[[[[[[\\\"[[\"}", &json), KAS_OK);
    cJSON_Delete(json);
}

TEST(json_getters_name_the_field)
{
    cJSON *json;
    assert_int_equal(parse("{\"i\":7,\"r\":1.5,\"s\":\"t\",\"o\":{},\"a\":[]}", &json), KAS_OK);
    int64_t i;
    double r;
    const char *s;
    const cJSON *item;
    assert_int_equal(kas_json_int(json, "w", "i", 0, 9, &i), KAS_OK);
    assert_int_equal(i, 7);
    assert_int_equal(kas_json_int(json, "w", "i", 0, 6, &i), KAS_BAD_INPUT);
    assert_string_equal(kas_error(), "w: field \"i\": expected an integer in [0, 6], found 7");
    assert_int_equal(kas_json_int(json, "w", "r", 0, 9, &i), KAS_BAD_INPUT);
    assert_int_equal(kas_json_number(json, "w", "r", 0, 9, &r), KAS_OK);
    assert_true(r == 1.5);
    assert_int_equal(kas_json_string(json, "w", "s", &s), KAS_OK);
    assert_string_equal(s, "t");
    assert_int_equal(kas_json_string(json, "w", "i", &s), KAS_BAD_INPUT);
    assert_int_equal(kas_json_object(json, "w", "a", &item), KAS_BAD_INPUT);
    assert_int_equal(kas_json_array(json, "w", "a", &item), KAS_OK);
    assert_int_equal(kas_json_array(json, "w", "missing", &item), KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "\"missing\" is missing"));
    const char *const some[] = {"i", "r", "s", "o", NULL};
    assert_int_equal(kas_json_only(json, "w", some), KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "unknown field \"a\""));
    assert_true(kas_json_has(json, "i"));
    assert_false(kas_json_has(json, "I"));
    cJSON_Delete(json);
}

typedef struct asked {
    int deeper; /* threads below this one */
    void *owner;
} asked;

static void *tell_owner(void *context)
{
    asked *a = context;
    pthread_t thread;
    if (a->deeper-- == 0)
        a->owner = kas_thread_owner();
    else if (kas_thread_create(&thread, tell_owner, a))
        pthread_join(thread, NULL);
    return NULL;
}

/* Those that it makes and those that they make; nobody else. */
TEST(threads_work_for_whom_their_maker_does)
{
    assert_null(kas_thread_owner());
    for (int deeper = 0; deeper < 3; deeper++) {
        asked a = {.deeper = deeper};
        pthread_t thread;
        kas_thread_set_owner(&a);
        assert_true(kas_thread_create(&thread, tell_owner, &a));
        kas_thread_set_owner(NULL); /* it has what was said when it was made */
        pthread_join(thread, NULL);
        assert_ptr_equal(a.owner, &a);
    }
}

typedef struct tally {
    int each[100], fails_at;
} tally;

static kas_status count_item(void *context, int thread, int item)
{
    tally *t = context;
    assert_in_range(thread, 0, 2);
    t->each[item]++;
    return item == t->fails_at ? kas_fail(KAS_BAD_INPUT, "item %d", item) : KAS_OK;
}

TEST(each_item_comes_once)
{
    tally t = {.fails_at = -1};
    assert_int_equal(kas_thread_count(3, 100), 3);
    assert_int_equal(kas_thread_count(3, 2), 2);
    assert_int_equal(kas_thread_each(3, 100, count_item, &t), KAS_OK);
    for (int i = 0; i < 100; i++)
        assert_int_equal(t.each[i], 1);
    t.fails_at = 5;
    assert_int_equal(kas_thread_each(1, 100, count_item, &t), KAS_BAD_INPUT);
    assert_string_equal(kas_error(), "item 5");
    assert_int_equal(t.each[5], 2);
    assert_int_equal(t.each[6], 1); /* not begun any more */
    assert_int_equal(kas_thread_each(3, 100, count_item, &t), KAS_BAD_INPUT);
    assert_string_equal(kas_error(), "item 5");
}

RUN_TESTS()

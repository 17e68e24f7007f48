/* The version of the code: the same every time, blind to comments, awake to everything else. */
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "host/core/clock.h"
#include "host/study/code_version.h"

TEST(same_every_time)
{
    char first[KAS_CODE_VERSION_SIZE], second[KAS_CODE_VERSION_SIZE];
    OK(kas_code_version(first));
    const double began = kas_monotonic();
    assert_int_equal(kas_code_version(second), KAS_OK);
    printf("%s in %.0f ms\n", second, 1e3 * (kas_monotonic() - began));
    assert_string_equal(first, second);
    assert_int_equal(strspn(first, "0123456789abcdef"), 16);
}

static void assert_text(const char *text, const char *expected)
{
    kas_buf out = {0};
    kas_code_text(text, &out);
    assert_string_equal(kas_buf_text(&out), expected);
    kas_buf_free(&out);
}

TEST(comments_do_not_count)
{
    assert_text("", "");
    assert_text("/* only a comment */", "");
    assert_text("a = b / c;", "a = b / c;");
    assert_text("/* why */\na  =\tb; // so\n\n\n#define X 1 /* two\nlines */\nc",
                "a = b;\n#define X 1\nc");
    assert_text("a = b;\n  #define X 1\n    c", "a = b;\n#define X 1\nc");
    assert_text("f(/* x */ 1)", "f( 1)");
    assert_text("unended /* comment", "unended ");
    assert_text("a/b", "a/b");
}

RUN_TESTS()

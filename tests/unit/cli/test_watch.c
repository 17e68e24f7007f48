/* status --watch: what the picture says, and that it fits its rows and columns. */
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "host/cli/watch/watch.h"
#include "support/folder.h"
#include "support/made_study.h"

static kas_buf out;

static void open_made(const made_study *how, kas_study_view *view)
{
    static int number;
    char path[200];
    snprintf(path, sizeof path, "%s/%d", folder, number++);
    OK(make_study(path, how));
    OK(kas_study_view_open(path, view));
}

static void frame(const kas_study_view *view, int rows, int columns)
{
    int lines = 0;
    kas_buf_clear(&out);
    kas_watch_frame(view, "a/study", 1.79e9 + 3600, rows, columns, &out);
    for (const char *p = kas_buf_text(&out); *p; lines++) {
        const size_t width = strcspn(p, "\n");
        if (width > (size_t)columns)
            fail_msg("%zu characters in %d columns: %.*s", width, columns, (int)width, p);
        p += width + 1;
    }
    assert_in_range(lines, 1, rows);
}

static void has(const char *text)
{
    if (!strstr(kas_buf_text(&out), text))
        fail_msg("\"%s\" is not in:\n%s", text, kas_buf_text(&out));
}

TEST(picture)
{
    kas_study_view v;
    open_made(&(made_study){.candidates = 40, .epochs = 8, .evolved = true, .under_way = true}, &v);
    frame(&v, 40, 79);
    has("a/study: resnet20 on made.h5");
    has("35 of 40 ended, generation 1"); /* 3 are predicted-slow and not counted */
    has("16 finished");
    has("3 predicted-slow, 3 not-promoted\n");
    has("2 under way");
    has("rungs       epoch 1: ");
    has("epoch 8: 16 begun, 16 finished\n");
    has("under way   38 ");
    has("4 of 8 epochs");
    has("unmodified              62.00%  5.00 ms");
    has("best  ");
    has("frontier  ");
    has("failed last 3");
    assert_false(kas_study_finals_done(&v));
    assert_false(kas_study_without_answer(&v) || kas_study_done(&v));
    for (int rows = 1; rows < 30; rows += 3)
        frame(&v, rows, 30 + rows);
    kas_buf_clear(&out);
    kas_watch_line(&v, &out);
    has("35 of 40 candidates ended (16 finished, ");
    has("unmodified network 62.00%\n");
    kas_study_view_close(&v);
}

TEST(finished)
{
    kas_study_view v;
    open_made(&(made_study){.candidates = 10, .epochs = 2}, &v);
    frame(&v, 40, 79);
    has("under way   nothing");
    has("test set    unmodified  63.50%  2 of 2 trainings ended\n");
    has("2 of 2 trainings ended, the answer");
    assert_true(kas_study_finals_done(&v) && kas_study_done(&v));
    kas_study_view_close(&v);
    open_made(&(made_study){.candidates = 10, .epochs = 2, .unanswered = true}, &v);
    assert_true(kas_study_without_answer(&v) && kas_study_done(&v));
    kas_study_view_close(&v);
}

TEST(other_texts)
{
    kas_study_view v;
    open_made(&(made_study){.candidates = 12, .epochs = 2, .text = "several\nlines\nhere"}, &v);
    frame(&v, 12, 40);
    kas_study_view_close(&v);
}

static int end(void **state)
{
    kas_buf_free(&out);
    return remove_folder(state);
}

RUN_TESTS(make_folder, end)

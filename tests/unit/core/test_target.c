/* Where output goes: links are followed, special files and inputs are left as they are. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "host/core/file/files.h"
#include "host/core/file/target.h"

static char top[64];

static int set_up(void **state)
{
    (void)state;
    snprintf(top, sizeof top, "/tmp/kas-target-XXXXXX");
    return mkdtemp(top) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    kas_file_forget_inputs();
    return kas_remove_tree(top) == KAS_OK ? 0 : -1;
}

/* A path in the folder; of the last four calls. */
static const char *at(const char *name)
{
    static char path[4][256];
    static int next;
    next = (next + 1) % 4;
    snprintf(path[next], sizeof path[next], "%s/%s", top, name);
    return path[next];
}

static void expect_text(const char *name, const char *text)
{
    kas_buf got = {0};
    assert_int_equal(kas_file_read(at(name), 100, &got), KAS_OK);
    assert_string_equal(kas_buf_text(&got), text);
    kas_buf_free(&got);
}

static void expect_link(const char *name)
{
    struct stat info;
    assert_int_equal(lstat(at(name), &info), 0);
    assert_true(S_ISLNK(info.st_mode));
}

static void expect_refused(const char *path, const char *why)
{
    bool existed;
    assert_int_equal(kas_file_check_writable(path), KAS_FAILURE);
    assert_int_equal(kas_file_write_new(path, "new", 3, &existed), KAS_FAILURE);
    assert_int_equal(kas_file_write_atomic(path, "new", 3), KAS_FAILURE);
    if (!strstr(kas_error(), why) || !strstr(kas_error(), path))
        fail_msg("expected \"%s\" in: %s", why, kas_error());
}

TEST_WITH(the_target_of_a_link_is_written, set_up, tear_down)
{
    assert_int_equal(mkdir(at("there"), 0700), 0);
    assert_int_equal(kas_file_write_atomic(at("there/file"), "old", 3), KAS_OK);
    assert_int_equal(symlink("there/file", at("relative")), 0);
    assert_int_equal(symlink(at("relative"), at("absolute")), 0);
    assert_int_equal(kas_file_check_writable(at("absolute")), KAS_OK);
    assert_int_equal(kas_file_write_atomic(at("absolute"), "new", 3), KAS_OK);
    expect_text("there/file", "new");
    expect_link("relative");
    expect_link("absolute");
    assert_int_equal(symlink("there/made", at("dangling")), 0);
    assert_int_equal(kas_file_write_atomic(at("dangling"), "new", 3), KAS_OK);
    expect_text("there/made", "new");
    expect_link("dangling");
    assert_int_equal(symlink("loop", at("loop")), 0);
    expect_refused(at("loop"), "symbolic links");
}

TEST_WITH(special_files_stay, set_up, tear_down)
{
    struct stat before, after;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(mkfifo(at("fifo"), 0600), 0);
    expect_refused(at("fifo"), "is a FIFO");
    snprintf(address.sun_path, sizeof address.sun_path, "%s", at("socket"));
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    expect_refused(at("socket"), "is a socket");
    close(fd);
    /* Through a link, so that a failure of this test costs no /dev/null. */
    assert_int_equal(stat("/dev/null", &before), 0);
    if (access("/dev", W_OK) != 0 || geteuid() != 0) {
        assert_int_equal(symlink("/dev/null", at("null")), 0);
        expect_refused(at("null"), "is a device");
    } else if (mknod(at("null"), S_IFCHR | 0600, before.st_rdev) == 0)
        expect_refused(at("null"), "is a device");
    else
        printf("SKIPPED: no device can be made here\n");
    assert_true(stat("/dev/null", &after) == 0 && after.st_ino == before.st_ino);
    expect_refused(top, "is a folder");
}

TEST_WITH(an_input_is_never_replaced, set_up, tear_down)
{
    assert_int_equal(kas_file_write_atomic(at("input"), "old", 3), KAS_OK);
    assert_int_equal(link(at("input"), at("hard")), 0);
    assert_int_equal(symlink("input", at("soft")), 0);
    assert_int_equal(kas_file_write_atomic(at("other"), "old", 3), KAS_OK);
    assert_int_equal(kas_file_is_input(at("input")), KAS_OK);
    assert_int_equal(kas_file_is_input(at("missing")), KAS_OK);
    expect_refused(at("input"), "would replace an input");
    expect_refused(at("hard"), "would replace an input");
    expect_refused(at("soft"), "would replace an input");
    expect_text("input", "old");
    assert_int_equal(kas_file_write_atomic(at("other"), "new", 3), KAS_OK);
    assert_int_equal(kas_file_write_atomic(at("missing"), "new", 3), KAS_OK);
}

TEST_WITH(nor_a_file_in_a_folder_that_is_an_input, set_up, tear_down)
{
    assert_int_equal(kas_mkdirs(at("source/deep")), KAS_OK);
    assert_int_equal(kas_file_write_atomic(at("source/deep/image"), "old", 3), KAS_OK);
    assert_int_equal(kas_file_is_input(at("source")), KAS_OK);
    expect_refused(at("source/deep/image"), "would replace an input");
    assert_int_equal(kas_file_write_atomic(at("source/new"), "new", 3), KAS_OK);
}

RUN_TESTS()

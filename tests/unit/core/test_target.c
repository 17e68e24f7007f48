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
#include "support/folder.h"

static int tear_down(void **state)
{
    kas_file_forget_inputs();
    return remove_folder(state);
}

static void expect_text(const char *name, const char *text)
{
    kas_buf got = {0};
    assert_int_equal(kas_file_read(in_folder(name), 100, &got), KAS_OK);
    assert_string_equal(kas_buf_text(&got), text);
    kas_buf_free(&got);
}

static void expect_link(const char *name)
{
    struct stat info;
    assert_int_equal(lstat(in_folder(name), &info), 0);
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

TEST_WITH(the_target_of_a_link_is_written, make_folder, tear_down)
{
    assert_int_equal(mkdir(in_folder("there"), 0700), 0);
    assert_int_equal(kas_file_write_atomic(in_folder("there/file"), "old", 3), KAS_OK);
    assert_int_equal(symlink("there/file", in_folder("relative")), 0);
    assert_int_equal(symlink(in_folder("relative"), in_folder("absolute")), 0);
    assert_int_equal(kas_file_check_writable(in_folder("absolute")), KAS_OK);
    assert_int_equal(kas_file_write_atomic(in_folder("absolute"), "new", 3), KAS_OK);
    expect_text("there/file", "new");
    expect_link("relative");
    expect_link("absolute");
    assert_int_equal(symlink("there/made", in_folder("dangling")), 0);
    assert_int_equal(kas_file_write_atomic(in_folder("dangling"), "new", 3), KAS_OK);
    expect_text("there/made", "new");
    expect_link("dangling");
    assert_int_equal(symlink("loop", in_folder("loop")), 0);
    expect_refused(in_folder("loop"), "symbolic links");
}

TEST_WITH(special_files_stay, make_folder, tear_down)
{
    struct stat before, after;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(mkfifo(in_folder("fifo"), 0600), 0);
    expect_refused(in_folder("fifo"), "is a FIFO");
    snprintf(address.sun_path, sizeof address.sun_path, "%s", in_folder("socket"));
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    expect_refused(in_folder("socket"), "is a socket");
    close(fd);
    /* Through a link, so that a failure of this test costs no /dev/null. */
    assert_int_equal(stat("/dev/null", &before), 0);
    if (access("/dev", W_OK) != 0 || geteuid() != 0) {
        assert_int_equal(symlink("/dev/null", in_folder("null")), 0);
        expect_refused(in_folder("null"), "is a device");
    } else if (mknod(in_folder("null"), S_IFCHR | 0600, before.st_rdev) == 0)
        expect_refused(in_folder("null"), "is a device");
    else
        printf("SKIPPED: no device can be made here\n");
    assert_true(stat("/dev/null", &after) == 0 && after.st_ino == before.st_ino);
    expect_refused(folder, "is a folder");
}

TEST_WITH(an_input_is_never_replaced, make_folder, tear_down)
{
    assert_int_equal(kas_file_write_atomic(in_folder("input"), "old", 3), KAS_OK);
    assert_int_equal(link(in_folder("input"), in_folder("hard")), 0);
    assert_int_equal(symlink("input", in_folder("soft")), 0);
    assert_int_equal(kas_file_write_atomic(in_folder("other"), "old", 3), KAS_OK);
    assert_int_equal(kas_file_is_input(in_folder("input")), KAS_OK);
    assert_int_equal(kas_file_is_input(in_folder("missing")), KAS_OK);
    expect_refused(in_folder("input"), "would replace an input");
    expect_refused(in_folder("hard"), "would replace an input");
    expect_refused(in_folder("soft"), "would replace an input");
    expect_text("input", "old");
    assert_int_equal(kas_file_write_atomic(in_folder("other"), "new", 3), KAS_OK);
    assert_int_equal(kas_file_write_atomic(in_folder("missing"), "new", 3), KAS_OK);
}

TEST_WITH(nor_a_file_in_a_folder_that_is_an_input, make_folder, tear_down)
{
    assert_int_equal(kas_mkdirs(in_folder("source/deep")), KAS_OK);
    assert_int_equal(kas_file_write_atomic(in_folder("source/deep/image"), "old", 3), KAS_OK);
    assert_int_equal(kas_file_is_input(in_folder("source")), KAS_OK);
    expect_refused(in_folder("source/deep/image"), "would replace an input");
    assert_int_equal(kas_file_write_atomic(in_folder("source/new"), "new", 3), KAS_OK);
}

RUN_TESTS()

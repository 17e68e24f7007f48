/* Folders and files that code is loaded from: whose they may be. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/core/file/files.h"
#include "host/core/file/private.h"
#include "support/folder.h"

enum { SOMEBODY = 12345 };

static char cache[300], inner[400];
static mode_t umask_before;

static int set_up(void **state)
{
    umask_before = umask(022);
    if (make_folder(state) != 0)
        return -1;
    snprintf(cache, sizeof cache, "%s/cache", folder);
    snprintf(inner, sizeof inner, "%s/deep/er", cache);
    setenv("KAS_CACHE_DIR", cache, 1);
    unsetenv("KAS_CACHE_TRUSTED");
    return 0;
}

static int tear_down(void **state)
{
    umask(umask_before);
    return remove_folder(state);
}

static void expect_refused(kas_status status, const char *why)
{
    assert_int_equal(status, KAS_FAILURE);
    if (!strstr(kas_error(), why) || !strstr(kas_error(), folder))
        fail_msg("expected \"%s\" in: %s", why, kas_error());
}

static void expect_mode(const char *path, mode_t mode)
{
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 07777, mode);
}

static kas_status open_cache(void)
{
    char path[4096];
    return kas_cache_dir(path);
}

TEST_WITH(a_new_folder_is_the_users_alone, set_up, tear_down)
{
    static const mode_t masks[] = {0, 022, 0777};
    for (int i = 0; i < 3; i++) {
        umask(masks[i]);
        assert_int_equal(open_cache(), KAS_OK);
        expect_mode(cache, 0700);
        assert_int_equal(kas_private_folder(inner),
                         masks[i] == 0777 && geteuid() ? KAS_FAILURE : KAS_OK);
        if (masks[i] != 0777)
            expect_mode(inner, 0700);
        assert_int_equal(kas_remove_tree(cache), KAS_OK);
    }
}

/* Of the folder that KAS_CACHE_DIR names the mode is left; those inside are ours. */
TEST_WITH(an_open_folder_is_closed, set_up, tear_down)
{
    assert_int_equal(mkdir(cache, 0755), 0);
    assert_int_equal(open_cache(), KAS_OK);
    expect_mode(cache, 0755);
    assert_int_equal(kas_private_folder(cache), KAS_OK);
    expect_mode(cache, 0700);
    unsetenv("KAS_CACHE_DIR");
    setenv("XDG_CACHE_HOME", folder, 1);
    snprintf(inner, sizeof inner, "%s/kas-gpu", folder);
    assert_int_equal(mkdir(inner, 0755), 0);
    assert_int_equal(open_cache(), KAS_OK);
    expect_mode(inner, 0700);
}

TEST_WITH(a_folder_that_others_may_write_is_refused, set_up, tear_down)
{
    static const mode_t modes[] = {0770, 0720, 0707, 0777, 01777};
    assert_int_equal(mkdir(cache, 0700), 0);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        assert_int_equal(chmod(cache, modes[i]), 0);
        expect_refused(open_cache(), "group or others may write it");
        expect_refused(kas_private_folder(cache), "group or others may write it");
        expect_mode(cache, modes[i]); /* what was put there would be trusted after a chmod */
    }
    setenv("KAS_CACHE_TRUSTED", "1", 1);
    assert_int_equal(open_cache(), KAS_OK);
    assert_int_equal(kas_private_folder(cache), KAS_OK);
    setenv("KAS_CACHE_TRUSTED", "yes", 1);
    assert_int_equal(open_cache(), KAS_USAGE);
    setenv("KAS_CACHE_TRUSTED", "1", 1);
    unsetenv("KAS_CACHE_DIR"); /* it speaks of that folder only */
    setenv("XDG_CACHE_HOME", folder, 1);
    snprintf(inner, sizeof inner, "%s/kas-gpu", folder);
    assert_int_equal(mkdir(inner, 0700), 0);
    assert_int_equal(chmod(inner, 0777), 0);
    expect_refused(open_cache(), "group or others may write it");
}

TEST_WITH(a_symbolic_link_is_refused, set_up, tear_down)
{
    char real[300], slash[320];
    snprintf(real, sizeof real, "%s/real", folder);
    assert_int_equal(mkdir(real, 0700), 0);
    assert_int_equal(symlink(real, cache), 0);
    expect_refused(open_cache(), "symbolic link");
    expect_refused(kas_private_folder(cache), "symbolic link");
    snprintf(slash, sizeof slash, "%s//", cache);
    setenv("KAS_CACHE_DIR", slash, 1);
    expect_refused(open_cache(), "symbolic link");
}

TEST_WITH(a_folder_above_that_anybody_may_write_is_refused, set_up, tear_down)
{
    assert_int_equal(chmod(folder, 0777), 0);
    expect_refused(open_cache(), "sticky bit");
    setenv("KAS_CACHE_DIR", inner, 1);
    expect_refused(open_cache(), "sticky bit");
    assert_int_equal(chmod(folder, 01777), 0); /* as /tmp */
    assert_int_equal(open_cache(), KAS_OK);
}

TEST_WITH(what_belongs_to_somebody_else_is_refused, set_up, tear_down)
{
    char file[320];
    if (geteuid() != 0) {
        printf("SKIPPED: only root can give a folder to another user\n");
        skip();
    }
    assert_int_equal(mkdir(cache, 0700), 0);
    snprintf(file, sizeof file, "%s/x.so", cache);
    assert_int_equal(kas_file_write_atomic(file, "x", 1), KAS_OK);
    assert_int_equal(kas_private_file(file), KAS_OK);
    assert_int_equal(chown(file, SOMEBODY, 0), 0);
    expect_refused(kas_private_file(file), "belongs to user 12345");
    assert_int_equal(chown(cache, SOMEBODY, 0), 0);
    expect_refused(open_cache(), "belongs to user 12345");
    expect_refused(kas_private_folder(cache), "belongs to user 12345");
    setenv("KAS_CACHE_TRUSTED", "1", 1);
    assert_int_equal(open_cache(), KAS_OK);
    assert_int_equal(kas_private_file(file), KAS_OK);
}

TEST_WITH(a_file_must_be_a_file_that_nobody_else_may_write, set_up, tear_down)
{
    char file[320], link[320];
    assert_int_equal(kas_private_folder(cache), KAS_OK);
    snprintf(file, sizeof file, "%s/x.so", cache);
    snprintf(link, sizeof link, "%s/y.so", cache);
    expect_refused(kas_private_file(file), "No such file");
    assert_int_equal(kas_file_write_atomic(file, "x", 1), KAS_OK);
    assert_int_equal(kas_private_file(file), KAS_OK);
    assert_int_equal(symlink(file, link), 0);
    expect_refused(kas_private_file(link), "not a regular file");
    expect_refused(kas_private_file(cache), "not a regular file");
    assert_int_equal(chmod(file, 0664), 0);
    expect_refused(kas_private_file(file), "others could write it");
    assert_int_equal(chmod(file, 0646), 0);
    expect_refused(kas_private_file(file), "others could write it");
}

RUN_TESTS()

/* The reader of schedule files (jit/schedule/schedule_file.h): what it takes and what it refuses. Steps
 * are tested with the nests that they change (test_sequence). */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/file/files.h"
#include "jit/schedule/schedule_file.h"
#include "support/folder.h"

static const char *const head = "layer l\ndevice cuda\nbatch 2\n";
static kas_schedule_file file;

static void takes(const char *text)
{
    OK(kas_schedule_file_parse("s", text, &file));
    kas_schedule_file_free(&file);
}

static void refuses(const char *text, const char *message)
{
    const kas_status status = kas_schedule_file_parse("s", text, &file);
    kas_schedule_file_free(&file);
    assert_int_equal(status, KAS_BAD_INPUT);
    if (!strstr(kas_error(), message))
        fail_msg("found \"%s\", expected \"%s\"", kas_error(), message);
}

TEST(test_head)
{
    kas_buf out = {0};
    takes(head);
    takes("# a comment\n\nbatch 65536 # images\nlayer l\ndevice cpu\nkernel f0\nlane c0\n");
    assert_true(file.cpu);
    refuses("layer l\nbatch 2\nkernel f0\n", "layer, device and batch are expected");
    refuses("device cpu\nbatch 2\n", "layer, device and batch are expected");
    refuses("layer l\ndevice cpu\n", "layer, device and batch are expected");
    refuses("layer l\nlayer l\n", "s:2: found \"layer\"; it stands above already");
    refuses("device cpu\ndevice cuda\n", "s:2: found \"device\"; it stands above already");
    refuses("batch 2\nbatch 2\n", "s:2: found \"batch\"; it stands above already");
    kas_schedule_file_put_input(3, 32, 16, &out);
    kas_schedule_file_put_head("l", true, 3, true, KAS_F32, false, &out);
    takes(kas_buf_text(&out));
    kas_buf_free(&out);
    assert_true(file.c == 3 && file.h == 32 && file.w == 16);
    refuses("input 3x32\n", "s:1: found \"3x32\"; channels, height and width");
    refuses("input 3x32x32x\n", "channels, height and width");
    refuses("input 3x0x32\n", "channels, height and width");
    refuses("input 3x32x32\ninput 3x32x32\n", "it stands above already");
    refuses("batch 65537\n", "s:1: found \"65537\"; at most 65536 images");
    refuses("batch 0\n", "a number from 1");
    refuses("device gpu\n", "cuda or cpu is expected");
    refuses("layer l l\n", "one word are expected");
    refuses("colour red\n", "layer, device, batch, phase, precision, map or kernel");
}

TEST(test_phase_and_precision)
{
    char text[256];
    kas_buf out = {0};
    takes(head);
    assert_true(!file.inference && file.dtype == KAS_F32 && !file.tf32);
    kas_schedule_file_put_head("l", true, 3, true, KAS_BF16, false, &out);
    takes(kas_buf_text(&out));
    assert_true(file.inference && file.cpu && file.batch == 3);
    assert_true(file.dtype == KAS_BF16 && !file.tf32);
    kas_buf_clear(&out);
    kas_schedule_file_put_head("l", false, 3, false, KAS_F32, true, &out);
    takes(kas_buf_text(&out));
    assert_true(!file.inference && file.dtype == KAS_F32 && file.tf32);
    kas_buf_free(&out);
    snprintf(text, sizeof text, "%sphase sleep\n", head);
    refuses(text, "s:4: found \"sleep\"; training or inference is expected");
    snprintf(text, sizeof text, "%sprecision fp64\n", head);
    refuses(text, "s:4: found \"fp64\"; fp32, tf32, bf16 or fp16 is expected");
}

TEST(test_lines)
{
    char text[2048];
    const int size = snprintf(text, sizeof text, "%skernel f0\n#", head);
    memset(text + size, 'x', 510);
    strcpy(text + size + 510, "\n");
    takes(text);
    strcpy(text + size + 510, "xx\n");
    refuses(text, "s:5: a line has at most 511 characters");
    memset(text, 'x', 700);
    memcpy(text, "layer ", 6);
    strcpy(text + 300, "\n");
    refuses(text, "a layer's name of at most 127 characters");
}

TEST(test_nul)
{
    char path[4200], text[64];
    const int size = snprintf(text, sizeof text, "%skernel f0\n", head);
    snprintf(path, sizeof path, "%s/s.txt", folder);
    OK(kas_file_write_atomic(path, text, (size_t)size));
    OK(kas_schedule_file_read(path, &file));
    kas_schedule_file_free(&file);
    text[size - 3] = '\0';
    OK(kas_file_write_atomic(path, text, (size_t)size));
    assert_int_equal(kas_schedule_file_read(path, &file), KAS_BAD_INPUT);
    assert_non_null(strstr(kas_error(), "found a NUL byte"));
    kas_schedule_file_free(&file);
}

RUN_TESTS(make_folder, remove_folder)

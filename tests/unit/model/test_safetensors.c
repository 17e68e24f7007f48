/* safetensors: what is written is read back, and damaged or hostile files are refused. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "host/core/file/files.h"
#include "host/model/safetensors.h"

enum { LIMIT = 1 << 20 };

static char path[256];

static int setup(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/kas_test_safetensors_%d.safetensors", (int)getpid());
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(path);
    return 0;
}

TEST(round_trip)
{
    const float a[6] = {1, -2, 0.5f, 3e-38f, 1e30f, 0};
    const double b[2] = {1.0 / 3, -7};
    const int64_t c[3] = {5, -6, 1ll << 40};
    const uint8_t d[1] = {255};
    const kas_named_tensor out[] = {
        {.name = "layer1.0.conv1.weight",
         .dtype = KAS_SAFETENSORS_F32,
         .rank = 2,
         .shape = {2, 3},
         .data = a},
        {.name = "loss", .dtype = KAS_SAFETENSORS_F64, .rank = 1, .shape = {2}, .data = b},
        {.name = "quote\"d", .dtype = KAS_SAFETENSORS_I64, .rank = 1, .shape = {3}, .data = c},
        {.name = "scalar", .dtype = KAS_SAFETENSORS_U8, .rank = 0, .data = d},
        {.name = "empty", .dtype = KAS_SAFETENSORS_F32, .rank = 2, .shape = {0, 4}, .data = a},
    };
    const char *const metadata[] = {"format", "pt", NULL};
    assert_int_equal(kas_safetensors_write(path, out, 5, metadata), KAS_OK);
    kas_safetensors in;
    assert_int_equal(kas_safetensors_read(path, LIMIT, &in), KAS_OK);
    assert_int_equal(in.count, 5);
    assert_int_equal(((const uint8_t *)in.tensor[0].data - (const uint8_t *)in.file.data) % 8, 0);
    for (int i = 0; i < 5; i++) {
        const kas_named_tensor *t = kas_safetensors_find(&in, out[i].name);
        assert_non_null(t);
        assert_int_equal(t->dtype, out[i].dtype);
        assert_int_equal(t->rank, out[i].rank);
        assert_memory_equal(t->shape, out[i].shape, sizeof t->shape);
        for (uint64_t k = 0; k < kas_named_tensor_elements(t); k++)
            assert_true(kas_named_tensor_get(t, k) == kas_named_tensor_get(&out[i], k));
    }
    assert_null(kas_safetensors_find(&in, "absent"));
    kas_safetensors_free(&in);
}

/* Values that round, subnormal ones, infinities and NaN. */
TEST(half_precision_is_read)
{
    static const struct {
        uint16_t half, bfloat;
        double value_of_half, value_of_bfloat;
    } cases[] = {
        {0x0000, 0x0000, 0, 0},
        {0x8000, 0x8000, -0.0, -0.0},
        {0x3C00, 0x3F80, 1, 1},
        {0xC248, 0xC049, -3.140625, -3.140625},
        {0x7BFF, 0x7F7F, 65504, 3.3895313892515355e38},
        {0x0001, 0x0001, 0x1p-24, 0x1p-133},
        {0x83FF, 0x8080, -1023 * 0x1p-24, -0x1p-126},
        {0x0400, 0x0080, 0x1p-14, 0x1p-126},
        {0x7C00, 0x7F80, INFINITY, INFINITY},
        {0xFC00, 0xFF80, -INFINITY, -INFINITY},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const kas_named_tensor half = {.dtype = KAS_SAFETENSORS_F16, .data = &cases[i].half};
        const kas_named_tensor bfloat = {.dtype = KAS_SAFETENSORS_BF16, .data = &cases[i].bfloat};
        double x = kas_named_tensor_get(&half, 0), y = kas_named_tensor_get(&bfloat, 0);
        assert_memory_equal(&x, &cases[i].value_of_half, sizeof x);
        assert_memory_equal(&y, &cases[i].value_of_bfloat, sizeof y);
    }
    const uint16_t nans[2] = {0x7E00, 0x7FC0};
    const kas_named_tensor half = {.dtype = KAS_SAFETENSORS_F16, .data = &nans[0]};
    const kas_named_tensor bfloat = {.dtype = KAS_SAFETENSORS_BF16, .data = &nans[1]};
    assert_true(isnan(kas_named_tensor_get(&half, 0)) && isnan(kas_named_tensor_get(&bfloat, 0)));
}

static void write_raw(const char *header, uint64_t claimed, const char *data, size_t size)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    for (int i = 0; i < 8; i++)
        fputc((int)(claimed >> (8 * i)) & 255, f);
    fputs(header, f);
    fwrite(data, 1, size, f);
    fclose(f);
}

TEST(bad_files_are_refused)
{
    static const struct {
        const char *header, *complaint;
        size_t data;
        int64_t claimed; /* -1: the true length */
    } cases[] = {
        {"{}", "", 4, -1},                 /* data without a tensor */
        {"{}", "cut short", 0, 3},         /* header longer than the file */
        {"{}", "cut short", 0, 1ll << 62}, /* would overflow */
        {"[]", "object", 0, -1},           /* not an object */
        {"{\"a\":1}", "object", 0, -1},    /* tensor is a number */
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", "", 3, -1},
        {"{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[1],\"data_offsets\":[0,1]}}", "F8_E4M3", 1, -1},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", "data_offsets", 4, -1},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", "shape", 4, -1},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,4]}}", "shape", 4, -1},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", "data_offsets", 4, -1},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"F32\","
         "\"shape\":[1],\"data_offsets\":[0,4]}}",
         "overlap", 4, -1},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", "fill", 8, -1},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}",
         "dimensions", 4, -1},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296,4294967296],"
         "\"data_offsets\":[0,0]}}",
         "shape", 0, -1},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":0}}", "x", 4, -1},
        {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", "shape", 4, -1},
        {"{\"a\":", "", 0, -1},
    };
    const char data[16] = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t claimed =
            cases[i].claimed < 0 ? strlen(cases[i].header) : (uint64_t)cases[i].claimed;
        write_raw(cases[i].header, claimed, data, cases[i].data);
        kas_safetensors in;
        assert_int_equal(kas_safetensors_read(path, LIMIT, &in), KAS_BAD_INPUT);
        assert_non_null(strstr(kas_error(), path)); /* says which file */
        if (!strstr(kas_error(), cases[i].complaint))
            fail_msg("case %zu: expected \"%s\" in: %s", i, cases[i].complaint, kas_error());
    }
    assert_int_equal(kas_file_write_atomic(path, data, 3), KAS_OK);
    kas_safetensors in;
    assert_int_equal(kas_safetensors_read(path, LIMIT, &in), KAS_BAD_INPUT);
}

/* A file of torch.save, as a zip archive or as an old pickle, is named as such; a header of as many bytes as its first
 * two letters mean is none. */
TEST(files_of_torch_are_named)
{
    static const char *const files[] = {"PK\3\4abcdefgh", "\x80\2\x8a\nabcdefgh"};
    kas_safetensors in;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(kas_file_write_atomic(path, files[i], 12), KAS_OK);
        assert_int_equal(kas_safetensors_read(path, LIMIT, &in), KAS_BAD_INPUT);
        assert_non_null(strstr(kas_error(), "a file of torch.save; convert it"));
    }
    kas_buf whole = {0};
    kas_buf_add(&whole, "PK\0\0\0\0\0\0", 8);
    kas_buf_printf(&whole, "{%*s}", ('K' << 8 | 'P') - 2, "");
    assert_int_equal(kas_file_write_atomic(path, whole.data, whole.size), KAS_OK);
    assert_int_equal(kas_safetensors_read(path, LIMIT, &in), KAS_OK);
    kas_safetensors_free(&in);
    kas_buf_free(&whole);
}

/* Every byte of a good file changed in turn: never a crash, and sizes stay within the file. */
TEST(mutations_do_no_harm)
{
    const float a[3] = {1, 2, 3};
    const kas_named_tensor out[] = {
        {.name = "a", .dtype = KAS_SAFETENSORS_F32, .rank = 1, .shape = {3}, .data = a},
        {.name = "b", .dtype = KAS_SAFETENSORS_U8, .rank = 2, .shape = {2, 1}, .data = a}};
    assert_int_equal(kas_safetensors_write(path, out, 2, NULL), KAS_OK);
    kas_buf good = {0};
    assert_int_equal(kas_file_read(path, LIMIT, &good), KAS_OK);
    int read = 0, refused = 0;
    for (size_t i = 0; i < good.size; i++)
        for (int bit = 0; bit < 8; bit += 3) {
            good.data[i] ^= (char)(1 << bit);
            FILE *f = fopen(path, "wb");
            assert_non_null(f);
            fwrite(good.data, 1, good.size, f);
            fclose(f);
            good.data[i] ^= (char)(1 << bit);
            kas_safetensors in;
            if (kas_safetensors_read(path, LIMIT, &in) != KAS_OK) {
                refused++;
                continue;
            }
            read++;
            double sum = 0;
            for (int t = 0; t < in.count; t++)
                for (uint64_t k = 0; k < kas_named_tensor_elements(&in.tensor[t]); k++)
                    sum += kas_named_tensor_get(&in.tensor[t], k);
            (void)sum;
            kas_safetensors_free(&in);
        }
    print_message("%d mutations still readable, %d refused\n", read, refused);
    assert_true(refused > 50 && read > 0);
    kas_buf_free(&good);
}

RUN_TESTS(setup, teardown)

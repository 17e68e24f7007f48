/* Registers, local memory and accesses of kernels, read from cubins that NVRTC makes here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cuda/library.h"
#include "host/core/files.h"
#include "jit/compile.h"
#include "jit/resources.h"

/* The second keeps an array that is indexed by what it reads: registers have no addresses. */
static const char text[] = "typedef struct { const float *x; float *y; const int *i; } t_args;\n"
                           "KAS_KERNEL(plain, t_args)\n"
                           "{\n"
                           "    KAS_LANES (c, 64) { a.y[c] = 2.0f * a.x[c]; }\n"
                           "}\n"
                           "KAS_KERNEL(indexed, t_args)\n"
                           "{\n"
                           "    KAS_LANES (c, 64) {\n"
                           "        float kept[64];\n"
                           "        for (int k = 0; k < 64; k++) kept[a.i[k + c] & 63] = a.x[k];\n"
                           "        a.y[c] = kept[a.i[c] & 63];\n"
                           "    }\n"
                           "}\n"
                           "KAS_KERNEL(wide, t_args)\n"
                           "{\n"
                           "    KAS_WIDE_THREADS (c, 64) {\n"
                           "        KAS_WIDE_LOAD(t, a.x, c);\n"
                           "        KAS_EACH(KAS_EACH_VALUE(t) *= 2.0f;)\n"
                           "        KAS_WIDE_STORE(a.y, c, t);\n"
                           "    }\n"
                           "}\n"
                           "KAS_KERNEL(shared, t_args)\n"
                           "{\n"
                           "    KAS_SHARED(float, s, 64);\n"
                           "    KAS_THREADS (c, 64) { s[c] = a.x[c]; }\n"
                           "    KAS_BARRIER();\n"
                           "    KAS_THREADS (c, 64) { a.y[c] = s[63 - c]; }\n"
                           "}\n";

static kas_buf compile(const char *arch)
{
    const kas_nvrtc *nvrtc;
    kas_compiler *compiler;
    kas_buf image = {0};
    char path[4096];
    if (kas_nvrtc_load(&nvrtc) != KAS_OK) {
        printf("SKIPPED: %s\n", kas_error());
        skip();
    }
    if (kas_compiler_open(arch, NULL, &compiler) != KAS_OK ||
        kas_compile(compiler, text, path, NULL) != KAS_OK ||
        kas_file_read(path, 1 << 26, &image) != KAS_OK)
        fail_msg("%s", kas_error());
    kas_compiler_close(compiler);
    return image;
}

static const kas_resources *find(const kas_resources *list, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(list[i].name, name) == 0)
            return &list[i];
    fail_msg("no kernel \"%s\"", name);
    return NULL;
}

static void what_kernels_need_is_read(void **state)
{
    (void)state;
    static const char *const archs[] = {"sm_80", "sm_90"};
    for (int i = 0; i < 2; i++) {
        kas_buf image = compile(archs[i]);
        kas_resources *list;
        int count;
        if (kas_cubin_resources(image.data, image.size, &list, &count) != KAS_OK)
            fail_msg("%s", kas_error());
        assert_int_equal(count, 4);
        const kas_resources *plain = find(list, count, "plain"),
                            *indexed = find(list, count, "indexed");
        printf("%s: plain %d registers, %d bytes; indexed %d registers, %d bytes\n", archs[i],
               plain->registers, plain->local_bytes, indexed->registers, indexed->local_bytes);
        assert_in_range(plain->registers, 4, 32);
        assert_int_equal(plain->local_bytes, 0);
        assert_in_range(indexed->registers, 4, 255);
        assert_int_equal(indexed->local_bytes, 64 * 4);
        /* the plain kernel's loop may be unrolled: pairs of a load and a store */
        assert_true(plain->accesses >= 2 && plain->accesses % 2 == 0);
        assert_int_equal(plain->wide, 0);
        const kas_resources *wide = find(list, count, "wide"),
                            *shared = find(list, count, "shared");
        assert_int_equal(wide->accesses, 2);
        assert_int_equal(wide->wide, 2);
        assert_int_equal(shared->accesses, 2); /* shared memory is not global */
        assert_int_equal(shared->wide, 0);
        free(list);
        kas_buf_free(&image);
    }
}

/* Whatever is cut off or changed, the answer is a list or a message. */
static void damaged_images_are_refused(void **state)
{
    (void)state;
    kas_buf image = compile("sm_90");
    kas_resources *list;
    int count, refused = 0;
    for (size_t size = 0; size < image.size; size += 1 + size / 64) {
        char *cut = malloc(size + 1); /* its own block, so that a sanitizer sees what is beyond */
        assert_non_null(cut);
        memcpy(cut, image.data, size);
        refused += kas_cubin_resources(cut, size, &list, &count) == KAS_BAD_INPUT;
        free(list);
        free(cut);
    }
    assert_true(refused > 100);
    for (size_t at = 0; at < image.size; at++) {
        image.data[at] ^= 0x55;
        const kas_status status = kas_cubin_resources(image.data, image.size, &list, &count);
        assert_true(status == KAS_OK || status == KAS_BAD_INPUT || status == KAS_NO_MEMORY);
        free(list);
        image.data[at] ^= 0x55;
    }
    assert_int_equal(kas_cubin_resources("not a cubin", 11, &list, &count), KAS_BAD_INPUT);
    kas_buf_free(&image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_kernels_need_is_read),
                                       cmocka_unit_test(damaged_images_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

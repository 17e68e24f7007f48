/* The hand-written kernels build for GPUs: NVRTC takes the same text that the host compiler took,
 * and nothing of it spills. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cuda/library.h"
#include "device_code/device_code.h"
#include "host/core/files.h"
#include "jit/compile.h"
#include "jit/resources.h"

static void check_resources(const kas_buf *image, int kernels)
{
    kas_resources *list;
    int count, most = 0;
    if (kas_cubin_resources(image->data, image->size, &list, &count) != KAS_OK)
        fail_msg("%s", kas_error());
    assert_int_equal(count, kernels);
    for (int i = 0; i < count; i++) {
        most = list[i].registers > most ? list[i].registers : most;
        if (list[i].local_bytes)
            fail_msg("%s needs %d bytes of local memory", list[i].name, list[i].local_bytes);
    }
    printf("%d kernels, %zu bytes; at most %d registers, no local memory\n", count, image->size,
           most);
    free(list);
}

/* Every kernel's name must stand in the cubin's symbols. */
static void check_kernels(const char *path)
{
    kas_buf image = {0};
    assert_int_equal(kas_file_read(path, 1 << 26, &image), KAS_OK);
    int count = 0;
    for (const kas_builtin_kernel *k = kas_builtin_kernels; k->name; k++, count++)
        if (!memmem(image.data, image.size, k->name, strlen(k->name) + 1))
            fail_msg("%s is not in %s", k->name, path);
    assert_true(count > 0);
    check_resources(&image, count);
    kas_buf_free(&image);
}

static void builtin_kernels_compile(void **state)
{
    (void)state;
    static const char *const archs[] = {"sm_80", "sm_90"};
    const kas_nvrtc *nvrtc;
    if (kas_nvrtc_load(&nvrtc) != KAS_OK) {
        printf("SKIPPED: %s\n", kas_error());
        skip();
    }
    for (int i = 0; i < 2; i++) {
        kas_compiler *compiler;
        char path[4096];
        if (kas_compiler_open(archs[i], NULL, &compiler) != KAS_OK)
            fail_msg("%s", kas_error());
        printf("%s: ", kas_compiler_describe(compiler));
        if (kas_compile(compiler, kas_builtin_text, path, NULL) != KAS_OK)
            fail_msg("%s", kas_error());
        check_kernels(path);
        kas_compiler_close(compiler);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(builtin_kernels_compile)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The hand-written kernels build for GPUs: NVRTC takes the same text that the host compiler took.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cuda/library.h"
#include "device_code/device_code.h"
#include "host/core/files.h"
#include "jit/compile.h"

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
    printf("%d kernels, %zu bytes\n", count, image.size);
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

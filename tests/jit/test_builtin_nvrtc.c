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
#include "host/device/device.h"
#include "jit/compile.h"
#include "jit/resources.h"

/* What moves most of a step's bytes has accesses of 16 bytes, at least as many as stand here:
 * arrays, or the rows of each that are under way together. */
static void check_wide(const kas_resources *kernel)
{
    static const struct {
        const char *name;
        int accesses;
    } wide[] = {
        {"kas_dev_sgd", 5},
        {"kas_dev_adamw", 7},
        {"kas_dev_average", 3},
        {"kas_dev_norm_statistics", 8 + 2},
        {"kas_dev_norm_combine", 2 + 6},
        {"kas_dev_norm_gradient", 2 * 4 + 2},
        {"kas_dev_norm_gradient_relu", 2 * 4 + 2},
        {"kas_dev_norm_gradient_active", 2},
        {"kas_dev_norm_gradient_residual_relu", 4 * 4 + 2},
        {"kas_dev_norm_gradient_two", 4 * 4 + 2},
        {"kas_dev_norm_gradient_two_relu", 4 * 4 + 2},
        {"kas_dev_norm_gradient_two_residual_relu", 5 * 4 + 2},
        {"kas_dev_norm_gradient_combine", 4},
        {"kas_dev_norm_apply", 2},
        {"kas_dev_norm_backward", 3},
        {"kas_dev_layer_norm_forward", 4},
        {"kas_dev_layer_norm_backward", 5},
        {"kas_dev_layer_norm_gradient", 2 * 4 + 2},
        {"kas_dev_avg_pool_forward", 2},
        {"kas_dev_avg_pool_backward", 2},
        {"kas_dev_max_pool_forward", 2},
        {"kas_dev_max_pool_backward", 2},
        {"kas_dev_global_pool_forward", 2},
        {"kas_dev_global_pool_backward", 2},
        {"kas_dev_cross_entropy", 6},
    };
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
        if (strcmp(kernel->name, wide[i].name) == 0 && kernel->wide < wide[i].accesses)
            fail_msg("%s has %d accesses of 16 bytes, expected %d at least", kernel->name,
                     kernel->wide, wide[i].accesses);
}

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
        check_wide(&list[i]);
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

static void compile_for(const char *arch, kas_number number)
{
    kas_compiler *compiler;
    char path[4096];
    if (kas_compiler_open(arch, NULL, &compiler) != KAS_OK)
        fail_msg("%s", kas_error());
    printf("%s, %s: ", kas_compiler_describe(compiler), kas_number_name(number));
    if (kas_compile(compiler, kas_builtin_text[number], path, NULL) != KAS_OK)
        fail_msg("%s", kas_error());
    check_kernels(path);
    kas_compiler_close(compiler);
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
    for (int i = 0; i < 2; i++)
        for (int number = 0; number < KAS_NUMBERS; number++)
            compile_for(archs[i], (kas_number)number);
}

/* The prelude's conversions, in numbers that one text chooses for itself. */
static void conversions_compile(void **state)
{
    (void)state;
    static const char text[] = "typedef struct args { const kas_f16 *x; kas_bf16 *y; } args;\n"
                               "#undef KAS_NUMBER\n#define KAS_NUMBER 1\n"
                               "KAS_KERNEL(narrow, args)\n"
                               "{\n"
                               "    KAS_LANES (i, 100) {\n"
                               "        kas_real *y = a.y;\n"
                               "        y[i] = kas_real_of(kas_value(y[i]) + kas_f16_value(a.x[i])"
                               " + kas_f16_value(kas_f16_of(kas_bf16_value(a.y[i]))));\n"
                               "    }\n"
                               "}\n";
    const kas_nvrtc *nvrtc;
    if (kas_nvrtc_load(&nvrtc) != KAS_OK) {
        printf("SKIPPED: %s\n", kas_error());
        skip();
    }
    for (int i = 0; i < 2; i++) {
        kas_compiler *compiler;
        kas_buf image = {0};
        char path[4096];
        assert_int_equal(kas_compiler_open(i ? "sm_90" : "sm_80", NULL, &compiler), KAS_OK);
        if (kas_compile(compiler, text, path, NULL) != KAS_OK)
            fail_msg("%s", kas_error());
        assert_int_equal(kas_file_read(path, 1 << 26, &image), KAS_OK);
        check_resources(&image, 1);
        kas_buf_free(&image);
        kas_compiler_close(compiler);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(builtin_kernels_compile),
                                       cmocka_unit_test(conversions_compile)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

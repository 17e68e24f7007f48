/* The text of the hand-written kernels, which the build compiled, compiles at run time too. NVRTC
 * takes it: nothing of it spills, and what moves a step's bytes moves 16 at a time. The host
 * compiler makes a module of it that loads, in a shuffled order of lanes. */
#include "support/test.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/kernels/device_code.h"
#include "cuda/library.h"
#include "cuda/nvrtc/resources.h"
#include "host/core/file/files.h"
#include "host/device/device.h"
#include "jit/compile/compile.h"

/* How many loads and stores of 16 bytes each kernel has at least: the arrays that it accesses,
 * times the rows of each that are under way together, times the activations that it is built for.
 * None where it moves a few numbers, or where they do not lie side by side (the kernel says which).
 */
enum { KINDS = 7 /* of activations */ };
static const struct {
    const char *name;
    int loads, stores;
} wide[] = {
    {"sgd", 3, 2},
    {"adamw", 4, 3},
    {"average", 2, 1},
    {"norm_statistics", 8, 0},
    {"norm_combine", 2 * 4, 4},
    {"norm_running", 0, 0},
    {"norm_gradient", 2 * 4, 0},
    {"norm_gradient_relu", 2 * 4, 0},
    {"norm_gradient_active", 2, 0},
    {"norm_gradient_residual_relu", 3 * 4, 4},
    {"norm_gradient_two", 3 * 4, 4},
    {"norm_gradient_two_relu", 3 * 4, 4},
    {"norm_gradient_two_residual_relu", 4 * 4, 4},
    {"norm_gradient_combine", 2 * 4, 2},
    {"norm_apply", 4 + 4, 4},
    {"norm_apply_relu", 4 + 4, 4},
    {"norm_apply_residual", 4 + 2 * 4, 4},
    {"norm_apply_residual_relu", 4 + 2 * 4, 4},
    {"norm_apply_active", 4 + 4, 4},
    {"norm_backward", 5 + 2 * 4, 4},
    {"norm_backward_relu", 6 + 2 * 4, 4},
    {"norm_backward_active", 6 + 2 * 4, 4},
    {"norm_backward_add", 5 + 3 * 4, 4},
    {"norm_backward_relu_add", 6 + 3 * 4, 4},
    {"layer_norm_forward", 3, 1},
    {"layer_norm_backward", 4, 1},
    {"layer_norm_gradient", 2 * 4, 1},
    {"avg_pool_forward", 1, 1},
    {"avg_pool_backward", 1, 1},
    {"max_pool_forward", 1, 1},
    {"max_pool_backward", 1, 1},
    {"global_pool_forward", 8, 1},
    {"global_pool_backward", 1, 1},
    {"cross_entropy", 5, 2},
    {"cross_entropy_total", 0, 0},
    {"imitation", 0, 0},
    {"activation_forward", KINDS, KINDS},
    {"activation_backward", KINDS * 2, KINDS},
    {"add", 2, 1},
    {"subtract", 2, 1},
    {"multiply", 2, 1},
    {"multiply_sum", 2 * 4, 1},
    {"copy", 1, 1},
    {"widen", 1, 1},
    {"narrow", 1, 1},
    {"bias_forward", 2, 1},
    {"bias_backward", 8, 1},
    {"dropout", 1, 1},
    {"flatten_forward", 0, 0},
    {"flatten_backward", 0, 0},
    {"shortcut_a_forward", 1, 1 + 2}, /* zeros on both sides */
    {"shortcut_a_backward", 1, 1 + 1},
    {"conv_weights", 0, 0},
    {"conv_forward", 1 + 4, 1}, /* the weights of KAS_RUN channels */
    {"conv_backward_data", 1 + 4, 1},
    {"conv_backward_weights", 1, 1},
    {"depthwise_forward", 2, 1},
    {"depthwise_backward_data", 2, 1},
    {"depthwise_backward_weights", 2, 0},
    {"mma_forward", 0, 0}, /* a lane has pairs of channels */
    {"mma_backward_data", 0, 0},
    {"mma_backward_weights", 0, 0},
    {"augment", 0, 2},
    {"augment_mixed", 0, 1},
    {"clip_partial", 1, 0},
    {"clip_scale", 0, 0},
    {"loss_scale", 0, 0},
    {"advance", 0, 0},
};

static void check_wide(const kas_resources *kernel)
{
    static const char prefix[] = "kas_dev_";
    const char *name = kernel->name + sizeof prefix - 1;
    const int loads = kernel->wide - kernel->wide_stores;
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
        if (strcmp(name, wide[i].name) == 0) {
            if (loads < wide[i].loads || kernel->wide_stores < wide[i].stores)
                fail_msg("%s has %d loads and %d stores of 16 bytes, expected %d and %d at least",
                         name, loads, kernel->wide_stores, wide[i].loads, wide[i].stores);
            return;
        }
    fail_msg("%s: how many accesses of 16 bytes it has is not said here", name);
}

static void check_resources(const kas_buf *image, int kernels, bool builtin)
{
    kas_resources *list;
    int count, most = 0;
    OK(kas_cubin_resources(image->data, image->size, &list, &count));
    assert_int_equal(count, kernels);
    for (int i = 0; i < count; i++) {
        most = list[i].registers > most ? list[i].registers : most;
        if (list[i].local_bytes)
            fail_msg("%s needs %d bytes of local memory", list[i].name, list[i].local_bytes);
        if (builtin)
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
    check_resources(&image, count, true);
    kas_buf_free(&image);
}

static void compile_for(const char *arch, kas_dtype dtype)
{
    kas_compiler *compiler;
    char path[4096];
    OK(kas_compiler_open(arch, NULL, &compiler));
    printf("%s, %s: ", kas_compiler_describe(compiler), kas_dtype_names[dtype]);
    OK(kas_compile(compiler, kas_builtin_text[dtype], path, NULL));
    check_kernels(path);
    kas_compiler_close(compiler);
}

/* Each dtype once: kernels of the second architecture have the registers of the first within ten,
 * and the compilations are most of this program's time. */
TEST(builtin_kernels_compile)
{
    const kas_nvrtc *nvrtc;
    if (kas_nvrtc_load(&nvrtc) != KAS_OK) {
        printf("SKIPPED: %s\n", kas_error());
        skip();
    }
    compile_for("sm_90", KAS_F32);
    compile_for("sm_90", KAS_BF16);
    compile_for("sm_80", KAS_F16);
}

/* The prelude's conversions, in numbers that one text chooses for itself. sm_75 has no instruction
 * that makes a bf16. */
TEST(conversions_compile)
{
    static const char *const archs[] = {"sm_75", "sm_80", "sm_90"};
    static const char text[] = "typedef struct args { const kas_f16 *x; kas_bf16 *y; } args;\n"
                               "#undef KAS_DTYPE\n#define KAS_DTYPE 1\n"
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
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
        kas_compiler *compiler;
        kas_buf image = {0};
        char path[4096];
        assert_int_equal(kas_compiler_open(archs[i], NULL, &compiler), KAS_OK);
        OK(kas_compile(compiler, text, path, NULL));
        assert_int_equal(kas_file_read(path, 1 << 26, &image), KAS_OK);
        check_resources(&image, 1, false);
        kas_buf_free(&image);
        kas_compiler_close(compiler);
    }
}

static void check_module(kas_device *device, const char *path)
{
    kas_module *module;
    kas_function *function;
    OK(kas_module_load(device, path, &module));
    for (const kas_builtin_kernel *k = kas_builtin_kernels; k->name; k++)
        OK(kas_module_function(module, k->name, &function));
    kas_module_free(module);
}

/* In ascending order the stand-in for NVRTC compiles the same text, for other tests. */
TEST(host_compiler)
{
    kas_compiler *compiler;
    kas_device *device;
    char path[4096];
    const kas_status status = kas_compiler_open("cpu+order2", NULL, &compiler);
    if (status == KAS_UNSUPPORTED) {
        printf("SKIPPED: %s\n", kas_error());
        skip();
    }
    assert_int_equal(status, KAS_OK);
    assert_int_equal(kas_device_open("cpu", 1, &device), KAS_OK);
    OK(kas_compile(compiler, kas_builtin_text[KAS_BF16], path, NULL));
    check_module(device, path);
    kas_device_close(device);
    kas_compiler_close(compiler);
}

RUN_TESTS()

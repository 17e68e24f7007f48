/* The text of the linked-in kernels is what the CUDA device compiles: it must pass NVRTC, and the
 * host compiler as a run-time module in every order of lanes. */
#include "op_case.h"

#include "device_code/device_code.h"
#include "jit/compile.h"

static void compile_number(const char *arch, kas_number number, bool load)
{
    kas_compiler *compiler;
    char path[4096];
    const kas_status status = kas_compiler_open(arch, NULL, &compiler);
    if (status == KAS_UNSUPPORTED) {
        printf("SKIPPED: %s\n", kas_error());
        skip();
    }
    OK(status);
    OK(kas_compile(compiler, kas_builtin_text[number], path, NULL));
    kas_compiler_close(compiler);
    if (!load)
        return;
    kas_module *module;
    OK(kas_module_load(the_device, path, &module));
    for (const kas_builtin_kernel *k = kas_builtin_kernels; k->name; k++) {
        kas_function *function;
        OK(kas_module_function(module, k->name, &function));
    }
    kas_module_free(module);
}

static void compile_for(const char *arch, bool load)
{
    for (int number = 0; number < KAS_NUMBERS; number++)
        compile_number(arch, (kas_number)number, load);
}

static void test_sm_80(void **state)
{
    (void)state;
    compile_for("sm_80", false);
}

static void test_sm_90(void **state)
{
    (void)state;
    compile_for("sm_90", false);
}

static void test_cpu(void **state)
{
    (void)state;
    if (orders() != 3)
        skip();
    compile_for("cpu", true);
}

static void test_cpu_shuffled(void **state)
{
    (void)state;
    if (orders() != 3)
        skip();
    compile_for("cpu+order2", true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sm_80),
        cmocka_unit_test(test_sm_90),
        cmocka_unit_test(test_cpu),
        cmocka_unit_test(test_cpu_shuffled),
    };
    return cmocka_run_group_tests(tests, open_the_device, close_the_device);
}

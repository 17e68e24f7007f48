/* Kernels that several programs have in common are written once, and the operations find them. */
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "support/build.h"
#include "jit/compile/share.h"

/* Softmax, a sum with the input and a map: kernels of several kinds, both passes. */
static kas_program *build(uint32_t c, uint32_t kernel, const char *prefix)
{
    kas_kernel k = {0};
    const int x = kas_build_input(&k);
    const int s = kas_build_softmax(&k, x, 0, 1);
    assert_true(kas_build_fc(&k, kas_build_broadcast(&k, KAS_OP_ADD, s, x), false, "C") > 0);
    OK(kas_kernel_infer(&k));
    const kas_target target = kas_target_plain(c, 4, 4, kernel);
    kas_binding binding = {{0}};
    binding.value[KAS_SYM_C] = c;
    binding.value[KAS_SYM_H] = binding.value[KAS_SYM_W] = 4;
    binding.value[KAS_SYM_KH] = binding.value[KAS_SYM_KW] = kernel;
    const kas_program_options options = {.batch = 2, .training = true, .prefix = prefix};
    kas_program *program;
    OK(kas_program_build(&k, &target, &binding, &options, &program));
    return program;
}

static int kernels_in(const char *source)
{
    int count = 0;
    while ((source = strstr(source, "KAS_KERNEL(")) != NULL) {
        count++;
        source++;
    }
    return count;
}

/* Every launch calls a kernel that stands in one of the sources exactly once. */
static void assert_found(kas_program *const *program, int count, const kas_operation *op)
{
    char call[64];
    int found = 0;
    if (op->kind != KAS_OPERATION_LAUNCH)
        return;
    snprintf(call, sizeof call, "KAS_KERNEL(%s,", op->function);
    for (int i = 0; i < count; i++)
        found += strstr(program[i]->source, call) != NULL;
    assert_int_equal(found, 1);
}

static void assert_all_found(kas_program *const *program, int count)
{
    for (int p = 0; p < count; p++) {
        for (int i = 0; i < program[p]->forwards; i++)
            assert_found(program, count, &program[p]->forward[i]);
        for (int i = 0; i < program[p]->backwards; i++)
            assert_found(program, count, &program[p]->backward[i]);
    }
}

/* Three targets: the second differs in what the kernel does not use, the third in its channels. */
TEST(test_share)
{
    kas_program *program[] = {build(16, 3, "k0"), build(16, 1, "k1"), build(32, 3, "k2")};
    const int kernels = kernels_in(program[0]->source), other = kernels_in(program[2]->source);
    assert_true(kernels > 2);
    assert_int_equal(kernels_in(program[1]->source), kernels);
    OK(kas_programs_share(program, 3));
    assert_int_equal(kernels_in(program[0]->source), kernels);
    assert_int_equal(kernels_in(program[1]->source), 0);
    assert_int_equal(kernels_in(program[2]->source), other);
    assert_all_found(program, 3);
    for (int i = 0; i < program[1]->forwards; i++)
        assert_string_equal(program[1]->forward[i].function, program[0]->forward[i].function);
    /* where a kernel stands is still known: sharing again changes nothing */
    for (int i = 0; i < program[2]->backwards; i++) {
        const kas_operation *op = &program[2]->backward[i];
        if (op->kind == KAS_OPERATION_LAUNCH)
            assert_true(strncmp(program[2]->source + op->text, "typedef struct", 14) == 0);
    }
    OK(kas_programs_share(program, 3));
    assert_int_equal(kernels_in(program[0]->source) + kernels_in(program[2]->source),
                     kernels + other);
    assert_all_found(program, 3);
    for (int p = 0; p < 3; p++)
        kas_program_free(program[p]);
}

RUN_TESTS()

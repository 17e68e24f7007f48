/* A candidate's text in units: nothing is lost or there twice, the cut is the same every time; several
 * texts compiled at once; and what an earlier candidate has is not compiled again. */
#include "support/test.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/net/targets.h"
#include "host/space/sample/sampler.h"
#include "jit/compile/share.h"
#include "jit/compile/units.h"
#include "jit/programs.h"
#include "support/build.h"
#include "support/folder.h"

enum { KERNELS = 8, TEXTS = 7 };

static int count_of(const kas_units *p, const char *what)
{
    int count = 0;
    for (int i = 0; i < p->count; i++)
        for (const char *at = kas_buf_text(&p->text[i]); (at = strstr(at, what)); at++)
            count++;
    return count;
}

/* Each launch calls a kernel that stands, once, in the unit that it names. */
static int check_pass(const kas_units *p, const kas_operation *op, int count)
{
    int shared = 0;
    char head[80];
    for (int i = 0; i < count; i++) {
        if (op[i].kind != KAS_OPERATION_LAUNCH)
            continue;
        snprintf(head, sizeof head, "KAS_KERNEL(%s,", op[i].symbol);
        assert_in_range(op[i].unit, 0, p->count - 1);
        assert_non_null(strstr(kas_buf_text(&p->text[op[i].unit]), head));
        assert_int_equal(count_of(p, head), 1);
        shared += op[i].text_size == 0;
    }
    return shared;
}

static int check_cut(const kas_programs *r, const char *arch, kas_buf *all)
{
    kas_units p;
    int shared = 0, launches = 0;
    OK(kas_units_cut(r->program, r->count, arch, &p));
    for (int i = 0; i < r->count; i++) {
        const kas_program *g = r->program[i];
        shared += check_pass(&p, g->forward, g->forwards);
        shared += check_pass(&p, g->backward, g->backwards);
        for (int k = 0; k < g->forwards; k++)
            launches += g->forward[k].kind == KAS_OPERATION_LAUNCH;
        for (int k = 0; k < g->backwards; k++)
            launches += g->backward[k].kind == KAS_OPERATION_LAUNCH;
    }
    assert_int_equal(count_of(&p, "KAS_KERNEL("), launches - shared);
    for (int i = 0; i < p.count; i++) {
        kas_buf_puts(all, kas_buf_text(&p.text[i]));
        kas_buf_puts(all, "\n-- piece --\n");
    }
    kas_units_free(&p);
    return shared;
}

TEST(sampled_kernels)
{
    kas_net *net;
    kas_target *target;
    int targets, shared = 0;
    kas_sampler *sampler;
    kas_sample_options options = kas_sample_defaults();
    OK(kas_net_build("resnet20", 32, 32, 3, 10, &net));
    OK(kas_net_targets(net, NULL, &target, &targets));
    OK(kas_sampler_create(&options, target, targets, &sampler));
    for (int i = 0; i < KERNELS; i++) {
        kas_sample s;
        kas_programs r;
        kas_buf first = {0}, again = {0}, gpu = {0};
        OK(kas_sampler_next(sampler, 0, &s));
        OK(kas_programs_build(&s.replacement, &(kas_program_options){.batch = 16, .training = true},
                              &r));
        shared += check_cut(&r, "cpu", &first);
        check_cut(&r, "sm_90", &gpu);
        check_cut(&r, "cpu", &again); /* whatever was cut between */
        assert_string_equal(kas_buf_text(&first), kas_buf_text(&again));
        kas_buf_free(&first);
        kas_buf_free(&again);
        kas_buf_free(&gpu);
        kas_programs_free(&r);
        kas_sample_free(&s);
    }
    assert_true(shared > 0);
    kas_sampler_free(sampler);
    free(target);
    kas_net_free(net);
}

static int answer_of(const char *path)
{
    int (*function)(void);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(handle);
    *(void **)&function = dlsym(handle, "kas_test_answer");
    assert_non_null(function);
    const int answer = function();
    dlclose(handle);
    return answer;
}

static void write_texts(char text[TEXTS][120])
{
    for (int i = 0; i < TEXTS; i++)
        snprintf(text[i], sizeof text[i],
                 "__attribute__((visibility(\"default\"))) int kas_test_answer(void) "
                 "{ return %d; }\n",
                 40 + i);
}

TEST_WITH(texts_at_once, make_folder, remove_folder)
{
    char text[TEXTS][120], path[TEXTS][4096];
    const char *list[TEXTS];
    kas_compiler *compiler;
    kas_compile_stats stats;
    write_texts(text);
    for (int i = 0; i < TEXTS; i++)
        list[i] = text[i];
    OK(kas_compiler_open("cpu", folder, &compiler));
    for (int threads = 1; threads <= 4; threads += 3) {
        OK(kas_compile_all(compiler, list, TEXTS, threads, path, &stats));
        assert_int_equal(stats.cached, threads > 1);
        assert_true(threads > 1 || (stats.cpu_seconds > 0 && stats.image_bytes > 0));
        for (int i = 0; i < TEXTS; i++)
            assert_int_equal(answer_of(path[i]), 40 + i);
    }
    OK(kas_compile_all(compiler, list, 0, 4, path, &stats)); /* nothing to do */
    kas_compiler_close(compiler);
}

TEST_WITH(the_first_failure_counts, make_folder, remove_folder)
{
    char text[TEXTS][120], path[TEXTS][4096];
    const char *list[TEXTS];
    kas_compiler *compiler;
    write_texts(text);
    for (int i = 0; i < TEXTS; i++)
        list[i] = text[i];
    list[2] = "int f(void) { return no_such_two; }\n";
    list[3] = "int f(void) { return no_such_three; }\n";
    OK(kas_compiler_open("cpu", folder, &compiler));
    for (int run = 0; run < 3; run++) {
        assert_int_equal(kas_compile_all(compiler, list, TEXTS, 3, path, NULL), KAS_FAILURE);
        assert_non_null(strstr(kas_error(), "no_such_two"));
    }
    kas_compiler_close(compiler);
}

/* Softmax, and a sum with the input or a product: the softmax is the same. */
static kas_program *build(kas_op op, const char *prefix)
{
    kas_kernel k = {0};
    const int x = kas_build_input(&k), s = kas_build_softmax(&k, x, 0, 1);
    assert_true(kas_build_fc(&k, kas_build_broadcast(&k, op, s, x), false, "C") > 0);
    OK(kas_kernel_infer(&k));
    const kas_target target = kas_target_plain(24, 4, 4, 3);
    kas_binding binding = {{0}};
    binding.value[KAS_SYM_C] = 24;
    binding.value[KAS_SYM_H] = binding.value[KAS_SYM_W] = 4;
    binding.value[KAS_SYM_KH] = binding.value[KAS_SYM_KW] = 3;
    kas_program *program;
    OK(kas_program_build(&k, &target, &binding,
                         &(kas_program_options){.batch = 2, .training = true, .prefix = prefix},
                         &program));
    OK(kas_programs_share(&program, 1));
    return program;
}

/* Compiles a program, looks for its kernels in their images, and returns how many there are. */
static int compile(kas_compiler *compiler, kas_program *program, char first[4096],
                   kas_compile_stats *stats)
{
    kas_units units;
    char(*path)[4096];
    int images, kernels;
    OK(kas_units_cut(&program, 1, "cpu", &units));
    OK(kas_units_compile(&units, &program, 1, compiler, 1, &path, &images, stats));
    kernels = units.kernels;
    for (int pass = 0; pass < 2; pass++) {
        const kas_operation *op = pass ? program->backward : program->forward;
        for (int i = 0; i < (pass ? program->backwards : program->forwards); i++) {
            if (op[i].kind != KAS_OPERATION_LAUNCH)
                continue;
            assert_in_range(op[i].unit, 0, images - 1);
            void *handle = dlopen(path[op[i].unit], RTLD_NOW | RTLD_LOCAL);
            assert_non_null(handle);
            assert_non_null(dlsym(handle, op[i].symbol));
            dlclose(handle);
        }
    }
    memcpy(first, path[0], sizeof path[0]);
    free(path);
    kas_units_free(&units);
    return kernels;
}

TEST_WITH(known_kernels_are_not_compiled, make_folder, remove_folder)
{
    kas_compiler *compiler;
    kas_compile_stats stats;
    char image[4096], other[4096];
    kas_program *sum = build(KAS_OP_ADD, "k0"), *again = build(KAS_OP_ADD, "other"),
                *product = build(KAS_OP_MUL, "k0");
    OK(kas_compiler_open("cpu", folder, &compiler));
    const int kernels = compile(compiler, sum, image, &stats);
    assert_true(kernels > 2);
    assert_false(stats.cached);
    assert_int_equal(compile(compiler, again, other, &stats), kernels); /* by other names */
    assert_true(stats.cached);
    assert_string_equal(image, other);
    compile(compiler, product, other, &stats); /* the softmax is known */
    assert_false(stats.cached);
    assert_string_equal(image, other);
    assert_int_equal(unlink(image), 0); /* a note of an image that is gone */
    assert_int_equal(compile(compiler, again, other, &stats), kernels);
    assert_false(stats.cached);
    compile(compiler, again, other, &stats);
    assert_true(stats.cached);
    kas_compiler_close(compiler);
    kas_program_free(sum);
    kas_program_free(again);
    kas_program_free(product);
}

RUN_TESTS()

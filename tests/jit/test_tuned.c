/* Tuned schedules in a folder (jit/tuned.h): a program takes those of its launches, and no others. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jit/tuned.h"
#include "support/build.h"
#include "support/folder.h"

static kas_program *build(int batch, const kas_program_options *more)
{
    kas_kernel k = {0};
    const int x = kas_build_input(&k);
    const int mean = kas_build_pool(&k, KAS_OP_POOL_AVG, x, KAS_AXIS_H | KAS_AXIS_W, 3);
    assert_true(kas_build_broadcast(&k, KAS_OP_ADD, mean, x) > 0);
    OK(kas_kernel_infer(&k));
    const kas_target target = kas_target_plain(16, 4, 4, 3);
    kas_binding binding = {{0}};
    binding.value[KAS_SYM_C] = 16;
    binding.value[KAS_SYM_H] = binding.value[KAS_SYM_W] = 4;
    binding.value[KAS_SYM_KH] = binding.value[KAS_SYM_KW] = 3;
    kas_program_options options = *more;
    kas_program *program;
    options.batch = batch;
    options.training = true;
    options.linear_policy = KAS_LINEAR_CPU;
    options.prefix = "k0";
    OK(kas_program_build(&k, &target, &binding, &options, &program));
    return program;
}

/* Returns a copy of what a program's list says of its first launch. */
static char *first_steps(const kas_program *p)
{
    const char *from = strstr(p->schedules, "kernel f0\n"), *to = strstr(from + 1, "kernel ");
    return to ? strndup(from, (size_t)(to - from)) : strdup(from);
}

/* Builds the program with schedules drawn at random, another one of the first launch among them. */
static kas_program *build_varied(const kas_program *plain, char **steps)
{
    char *usual = first_steps(plain);
    for (uint64_t seed = 1; seed < 50; seed++) {
        kas_program *p =
            build(2, &(kas_program_options){.list_schedules = true, .schedule_seed = seed});
        *steps = first_steps(p);
        if (strcmp(*steps, usual) != 0) {
            free(usual);
            return p;
        }
        free(*steps);
        kas_program_free(p);
    }
    fail_msg("no seed changes a schedule");
    return NULL;
}

static void put(const char *record, const char *steps, bool replace)
{
    char text[8192];
    snprintf(text, sizeof text, "layer l\ndevice cpu\nbatch 2\n%s", steps);
    OK(kas_tuned_write(folder, record, text, replace));
}

static int tuned_launches(int batch, char **source)
{
    kas_program *p = build(batch, &(kas_program_options){.tuned = folder});
    const int tuned = p->tuned;
    if (source)
        *source = strdup(p->source);
    kas_program_free(p);
    return tuned;
}

TEST(test_records)
{
    char *steps = NULL, *source;
    kas_program *plain = build(2, &(kas_program_options){.list_schedules = true});
    kas_program *varied = build_varied(plain, &steps);
    const char *record = plain->forward[0].record;
    assert_int_equal(strlen(record), 64);
    assert_string_equal(record, varied->forward[0].record); /* named by the default */

    assert_int_equal(tuned_launches(2, &source), 0);
    assert_string_equal(source, plain->source);
    free(source);
    put(record, "", false); /* the default stays */
    assert_int_equal(tuned_launches(2, NULL), 0);
    put(record, steps, false); /* the first one counts */
    assert_int_equal(tuned_launches(2, NULL), 0);
    put(record, steps, true);
    assert_int_equal(tuned_launches(2, &source), 1);
    assert_string_not_equal(source, plain->source);
    const kas_operation *op = &varied->forward[0];
    char *text = strndup(varied->source + op->text, op->text_size);
    assert_non_null(strstr(source, text));
    free(text);
    free(source);
    assert_int_equal(tuned_launches(4, NULL), 0); /* another shape */

    /* What is damaged or has become illegal counts as missing. */
    put(record, "kernel f0\nsplit n 3\n", true);
    assert_int_equal(tuned_launches(2, NULL), 0);
    put(record, "kernel f0\nlane nowhere\n", true);
    assert_int_equal(tuned_launches(2, NULL), 0);
    OK(kas_tuned_write(folder, record, "layer l\nnonsense\n", true));
    assert_int_equal(tuned_launches(2, &source), 0);
    assert_string_equal(source, plain->source);
    free(source);
    free(steps);
    kas_program_free(plain);
    kas_program_free(varied);
}

/* Outside training the forward pass holds its weights, and takes other times. */
TEST(test_names_of_maps)
{
    const kas_conv_desc d = {.n = 2, .h = 4, .w = 4, .c_in = 8, .c_out = 8, .groups = 1};
    for (int pass = 0; pass < 3; pass++) {
        char training[65], inference[65];
        kas_tuned_map_name(true, true, &d, (kas_conv_pass)pass, training);
        kas_tuned_map_name(true, false, &d, (kas_conv_pass)pass, inference);
        assert_int_equal(strcmp(training, inference) != 0, pass == KAS_CONV_FORWARD);
    }
}

RUN_TESTS(make_folder, remove_folder)

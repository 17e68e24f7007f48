/* Schedules drawn at random change no value: sampled kernels with other schedules than the default
 * ones, against the float64 reference, on the device and with the lanes in three orders, and bit for
 * bit where they keep the order of sums. (What steps are legal, and what they do to a nest, is in
 * test_sequence.)
 *
 * KAS_TEST_KERNELS=100 takes that many kernels, KAS_TEST_SEED=24 others. On a GPU all programs are a
 * GPU's. */
#include "agree_fixture.h"

#include "host/net/targets.h"
#include "host/space/sample/sampler.h"
#include "jit/schedule/sequence_text.h"

enum { FEW = 2, SCHEDULES = 3 };

static kas_compiler *apart;
static int kept;
static int steps[KAS_STEP_KINDS]; /* of all schedules */

static int number_of(const char *variable, int otherwise)
{
    const char *text = getenv(variable);
    return text && atoi(text) > 0 ? atoi(text) : otherwise;
}

/* Builds a program with drawn schedules, without its text. */
static kas_program *draw(const kas_kernel *kernel, const kas_target *target,
                         const kas_binding *binding, const kas_agree_options *o, uint64_t seed)
{
    const kas_program_options options = {.batch = o->batch,
                                         .training = true,
                                         .dtype = o->dtype,
                                         .linear_policy = o->linear_policy,
                                         .piece_bytes = o->linear_policy == KAS_LINEAR_CPU,
                                         .unwritten = true,
                                         .list_schedules = true,
                                         .prefix = "k0",
                                         .schedule_seed = seed};
    kas_program *program;
    OK(kas_program_build(kernel, target, binding, &options, &program));
    return program;
}

/* Counts the steps of a program's schedules by kind. */
static void count_steps(const kas_program *program)
{
    for (const char *line = program->schedules; *line; line = strchr(line, '\n') + 1)
        for (int kind = 0; kind < KAS_STEP_KINDS; kind++) {
            const size_t length = strlen(kas_step_forms[kind].word);
            steps[kind] += strncmp(line, kas_step_forms[kind].word, length) == 0 &&
                           (line[length] == ' ' || line[length] == '\n');
        }
}

/* Returns a number whose schedules keep the order of all sums; 0 where none of the first does. */
static uint64_t find_kept(const kas_kernel *kernel, const kas_target *target,
                          const kas_binding *binding, const kas_agree_options *o, uint64_t first)
{
    enum { TRIES = 200 };
    for (uint64_t seed = first; seed < first + TRIES; seed++) {
        kas_program *program = draw(kernel, target, binding, o, seed);
        const bool other = program->other_sums;
        kas_program_free(program);
        if (!other)
            return seed;
    }
    return 0;
}

/* Schedules that keep the order of sums give the bits that the default ones give, where products and
 * sums are rounded apart. */
static void compare_bits(const kas_kernel *kernel, const kas_target *target,
                         const kas_binding *binding, kas_agree_options options)
{
    kas_agreement own, usual;
    options.schedule_seed = find_kept(kernel, target, binding, &options, options.schedule_seed);
    if (!options.schedule_seed)
        return;
    OK(kas_agree(device, apart, kernel, target, binding, 1, &options, &own));
    const uint64_t seed = options.schedule_seed;
    options.schedule_seed = 0;
    OK(kas_agree(device, apart, kernel, target, binding, 1, &options, &usual));
    kept++;
    if (own.digest != usual.digest)
        fail_msg("schedules of %d: other bits, though sums have the same order", (int)seed);
}

/* Compares a kernel at one target with several schedules, all in one text. */
static void compare_schedules(const kas_sample *s, int k, int *ill)
{
    kas_target target[SCHEDULES];
    kas_binding binding[SCHEDULES];
    kas_agreement result[SCHEDULES];
    const int t = k % s->replacement.solution.targets;
    const kas_agree_options options = {.batch = 2,
                                       .seed = 3,
                                       .dtype = k % 5 == 4 ? KAS_BF16 : KAS_F32,
                                       .linear_policy =
                                           on_cpu() && k % 3 ? KAS_LINEAR_CPU : KAS_LINEAR_GPU,
                                       .schedule_seed = 1 + 1000 * (uint64_t)k};
    for (int i = 0; i < SCHEDULES; i++) {
        target[i] = s->replacement.target[t];
        binding[i] = s->replacement.solution.binding[t];
    }
    OK(kas_agree(device, compiler[on_cpu() ? k % 3 : 0], kas_replacement_kernel(&s->replacement, t),
                 target, binding, SCHEDULES, &options, result));
    for (int i = 0; i < SCHEDULES; i++) {
        kas_program *program = draw(kas_replacement_kernel(&s->replacement, t), &target[i],
                                    &binding[i], &options, options.schedule_seed + (uint64_t)i);
        count_steps(program);
        kas_program_free(program);
        compared++;
        if (result[i].verdict == KAS_AGREE_FAILED)
            fail_msg(
                "kernel %d (%s), schedules of %d: errors %.3g forward, %.3g dx, %.3g dweight%s", k,
                s->name, 1 + 1000 * k + i, result[i].forward, result[i].dx, result[i].dweight,
                result[i].nan_lost ? ", NaN lost" : "");
        *ill += result[i].verdict != KAS_AGREE_OK;
        if (result[i].verdict != KAS_AGREE_OK)
            continue;
        worst[options.dtype].forward = fmax(worst[options.dtype].forward, result[i].forward);
        worst[options.dtype].gradient =
            fmax(worst[options.dtype].gradient, fmax(result[i].dx, result[i].dweight));
    }
    if (on_cpu())
        compare_bits(kas_replacement_kernel(&s->replacement, t), target, binding, options);
}

TEST(test_sampled_kernels)
{
    const int kernels = number_of("KAS_TEST_KERNELS", FEW);
    int ill = 0, count;
    kas_net *net;
    kas_target *targets;
    kas_sampler *sampler;
    kas_sample_options options = kas_sample_defaults();
    options.seed = (uint64_t)number_of("KAS_TEST_SEED", 23);
    OK(kas_net_build("resnet20", 8, 8, 3, 10, &net));
    OK(kas_net_targets(net, NULL, &targets, &count));
    if (on_cpu())
        OK(kas_compiler_open("cpu+apart", NULL, &apart));
    OK(kas_sampler_create(&options, targets, count, &sampler));
    for (int k = 0; k < kernels; k++) {
        kas_sample s;
        OK(kas_sampler_next(sampler, 0, &s));
        compare_schedules(&s, k, &ill);
        kas_sample_free(&s);
    }
    kas_compiler_close(apart);
    printf(
        "%d kernels with %d schedules each, %d comparisons ill-conditioned or undecided; %d with "
        "the default's order of sums have its bits\n",
        kernels, SCHEDULES, ill, kept);
    for (int kind = 0; kind < KAS_STEP_KINDS; kind++)
        printf("%s %d%s", kas_step_forms[kind].word, steps[kind],
               kind + 1 < KAS_STEP_KINDS ? ", " : "\n");
    assert_true(!on_cpu() || kept > 0);
    assert_true(ill <= (kernels * SCHEDULES + 3) / 4);
    kas_sampler_free(sampler);
    free(targets);
    kas_net_free(net);
}

RUN_TESTS(set_up, tear_down)

/* Maps that a library computes, as loops of our own (lower/fc_loops.c): against the float64 reference
 * and finite differences, in the orders of lanes and in 16 bits, scheduled for a CPU and for a GPU. */
#include "agree_fixture.h"

#include "jit/ir/program.h"
#include "jit/schedule/schedule_file.h"

enum { HW = KAS_AXIS_H | KAS_AXIS_W };

/* Groups of two sizes, whose gradients are added up: each sum has a kernel of its own. */
static void build_groups(kas_kernel *k)
{
    const int x = kas_build_input(k);
    const int two =
        kas_build_fc(k, kas_build_unfold(k, kas_build_group(k, x, 0, 0), HW), true, "C");
    const int four =
        kas_build_fc(k, kas_build_unfold(k, kas_build_group(k, x, 0, 1), HW), true, "C");
    kas_build_broadcast(k, KAS_OP_ADD, two, four);
}

/* Taps that lie apart, along H alone; then a map without windows. */
static void build_apart(kas_kernel *k)
{
    const int x = kas_build_input(k);
    const int taps = kas_build_unfold_window(k, kas_build_group(k, x, 0, 0), KAS_AXIS_H, 3, 2);
    kas_build_fc(k, kas_build_fc(k, taps, true, "C"), false, "C");
}

static void build_depthwise(kas_kernel *k)
{
    const int x = kas_build_input(k);
    kas_build_fc(k, kas_build_unfold(k, kas_build_group_all(k, x, 0), HW), true, "C");
}

typedef struct map_case {
    const char *name;
    void (*build)(kas_kernel *);
    setting setting;
    int passes, sums; /* passes that can be loops; how many sums stay in registers on a CPU */
} map_case;

static const map_case cases[] = {
    {"groups of 32 and 16", build_groups, {64, 1, 1, 5, 14, 3}, 6, 6},
    {"groups of 16 and 8", build_groups, {32, 1, 1, 6, 7, 3}, 6, 6},
    {"taps apart, two parts out", build_apart, {32, 1, 2, 6, 5, 3}, 6, 6},
    {"two parts in", build_groups, {16, 2, 1, 4, 5, 5}, 6, -1},
    {"depthwise", build_depthwise, {16, 1, 1, 7, 5, 3}, 3, 0},
};

static int count(const char *text, const char *word)
{
    int found = 0;
    for (const char *at = strstr(text, word); at; at = strstr(at + 1, word))
        found++;
    return found;
}

static kas_program *build(const kas_kernel *k, const kas_target *target, const kas_binding *binding,
                          int batch, const kas_schedule_file *file)
{
    const kas_program_options options = {.batch = batch,
                                         .training = true,
                                         .dtype = stored,
                                         .linear_policy = linear_policy,
                                         .prefix = "k0",
                                         .schedule_file = file,
                                         .list_schedules = true};
    kas_program *program;
    OK(kas_program_build(k, target, binding, &options, &program));
    return program;
}

/* Makes a file that gives all passes of all maps to loops. */
static void prescribe(const map_case *c, const kas_program *usual, int batch,
                      kas_schedule_file *file)
{
    char text[4096];
    int at = snprintf(text, sizeof text, "layer test\ndevice %s\nbatch %d\n",
                      linear_policy == KAS_LINEAR_CPU ? "cpu" : "cuda", batch);
    assert_int_equal(usual->maps, c->passes);
    assert_int_equal(count(usual->schedules, "library"), c->passes);
    for (int i = 0; i < usual->maps; i++) {
        assert_false(usual->map[i].loops);
        at += snprintf(text + at, sizeof text - (size_t)at, "map %d %s loops\n", usual->map[i].node,
                       kas_schedule_passes[usual->map[i].pass]);
    }
    OK(kas_schedule_file_parse("maps", text, file));
}

static void check_texts(const map_case *c, const kas_program *usual, const kas_program *loops)
{
    int convs = 0;
    for (int i = 0; i < loops->forwards; i++)
        convs += loops->forward[i].kind == KAS_OPERATION_CONV;
    for (int i = 0; i < loops->backwards; i++)
        convs += loops->backward[i].kind == KAS_OPERATION_CONV;
    assert_int_equal(convs, 0);
    assert_int_equal(count(loops->schedules, " loops\n"), c->passes);
    assert_int_equal(count(usual->source, "KAS_SUMS("), 0);
    if (linear_policy == KAS_LINEAR_CPU && c->sums >= 0)
        assert_int_equal(count(loops->source, "KAS_SUMS("), c->sums);
    for (int i = 0; i < loops->weights; i++) /* who computes them leaves the order of weights */
        for (uint32_t in = 0; in < loops->weight[i].fan_in; in++)
            assert_int_equal(kas_weight_offset(&loops->weight[i], 0, 0, 1, in),
                             kas_weight_offset(&usual->weight[i], 0, 0, 1, in));
}

static void check_case(const map_case *c, int order)
{
    kas_kernel k = {0};
    kas_agreement result;
    kas_schedule_file *file = calloc(1, sizeof *file);
    const kas_target target = make_target(c->setting);
    kas_agree_options options = {.batch = 2 + order,
                                 .seed = 1,
                                 .directions = order == 0 ? 2 : 0,
                                 .pitch_more = order ? 4 : 0,
                                 .dtype = stored,
                                 .linear_policy = linear_policy,
                                 .schedule_file = file};
    assert_non_null(file);
    c->build(&k);
    k.group_value[0] = 2;
    k.group_value[1] = 4;
    OK(kas_kernel_infer(&k));
    const kas_binding binding = make_binding(&target);
    kas_program *usual = build(&k, &target, &binding, options.batch, NULL);
    prescribe(c, usual, options.batch, file);
    kas_program *loops = build(&k, &target, &binding, options.batch, file);
    check_texts(c, usual, loops);
    if (on_cpu())
        OK(kas_device_cpu_set_order(device, (kas_cpu_order)order));
    OK(kas_agree(device, compiler[order], &k, &target, &binding, 1, &options, &result));
    record(&result, c->name, &target);
    kas_program_free(usual);
    kas_program_free(loops);
    kas_schedule_file_free(file);
    free(file);
}

TEST(test_loops)
{
    for (int gpu = 0; gpu < 2; gpu++) {
        linear_policy = gpu ? KAS_LINEAR_GPU : KAS_LINEAR_CPU;
        for (int i = gpu; i < (int)(sizeof cases / sizeof *cases) - 2 * gpu; i++)
            if (!gpu || cases[i].build != build_depthwise)
                check_case(&cases[i], on_cpu() ? i % 3 : 0);
    }
    linear_policy = KAS_LINEAR_CPU;
    check_case(&cases[0], on_cpu() ? 2 : 0);
    stored = KAS_BF16;
    check_case(&cases[1], 0);
    stored = KAS_F32;
}

/* Returns the most float32 values of sums that a kernel of the program keeps in registers. */
static int most_kept(const kas_program *p)
{
    static const char word[] = "KAS_SUMS(";
    int most = 0;
    for (const char *at = strstr(p->source, word); at; at = strstr(at + 1, word)) {
        int turns, lanes;
        assert_int_equal(sscanf(at + sizeof word - 1, "%*[^,], %d, %d", &turns, &lanes), 2);
        most = turns * lanes > most ? turns * lanes : most;
    }
    return most;
}

/* AVX-512 has 32 registers of 16 values, AVX2 16 of 8: three quarters are for sums. */
TEST(test_registers)
{
    static const int lanes[] = {8, 16, 32}; /* 32: a machine that does not exist */
    kas_kernel k = {0};
    kas_schedule_file *file = calloc(1, sizeof *file);
    const kas_target target = make_target(cases[0].setting);
    assert_non_null(file);
    build_groups(&k);
    k.group_value[0] = 2;
    k.group_value[1] = 4;
    OK(kas_kernel_infer(&k));
    const kas_binding binding = make_binding(&target);
    kas_program *usual = build(&k, &target, &binding, 2, NULL);
    prescribe(&cases[0], usual, 2, file);
    for (int i = 0; i < 3; i++) {
        const kas_program_options options = {.batch = 2,
                                             .training = true,
                                             .linear_policy = KAS_LINEAR_CPU,
                                             .lanes = lanes[i],
                                             .prefix = "k0",
                                             .schedule_file = file};
        kas_program *loops;
        OK(kas_program_build(&k, &target, &binding, &options, &loops));
        if (lanes[i] <= 16) {
            assert_int_equal(count(loops->source, "KAS_SUMS("), cases[0].sums);
            assert_in_range(most_kept(loops), 8 * lanes[i], 3 * lanes[i] / 2 * lanes[i]);
        }
        kas_program_free(loops);
    }
    kas_program_free(usual);
    kas_schedule_file_free(file);
    free(file);
}

RUN_TESTS(set_up, tear_down)

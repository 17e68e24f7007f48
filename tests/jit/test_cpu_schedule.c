/* What programs for a CPU do otherwise: tiles, picks and windows inside the image (schedule/), and
 * linear maps with few inputs or outputs as loops (lower/fc_plan.c). All against the float64
 * reference, in the three orders of lanes and in 16 bits. */
#include "agree_fixture.h"

enum { HW = KAS_AXIS_H | KAS_AXIS_W };

/* Sums and maxima over what lies side by side, behind a window and a shuffle. */
static void build_softmax(kas_kernel *k)
{
    const int x = kas_build_input(k), window = kas_build_pool(k, KAS_OP_POOL_MAX, x, HW, 3);
    const int shuffled = kas_build_shuffle(k, window, 0, 0);
    kas_build_broadcast(k, KAS_OP_MUL, kas_build_softmax(k, shuffled, 0, 2), x);
}

/* A matrix product packs both of its operands, one of them transposed. */
static void build_product(kas_kernel *k)
{
    const int x = kas_build_input(k);
    kas_build_bmm(k, kas_build_bmm(k, x, x, KAS_TRANSPOSE_RHS, false), x, 0, false);
}

/* A value for each group of channels. */
static void build_involution(kas_kernel *k)
{
    const int x = kas_build_input(k);
    const int windows = kas_build_unfold(k, kas_build_group(k, x, 0, 0), HW);
    const int w = kas_build_fc(k, x, false, "G0*K_H*K_W");
    const int y = kas_build_broadcast(k, KAS_OP_MUL, w, windows);
    kas_build_fold(k, KAS_OP_FOLD_AVG, kas_build_fold(k, KAS_OP_FOLD_AVG, y, 2), 2);
}

/* 25 taps of each channel to one. */
static void build_skinny(kas_kernel *k)
{
    const int taps = kas_build_unfold_window(k, kas_build_input(k), HW, 5, 1);
    kas_build_mix(k, kas_build_shift(k, taps, KAS_AXIS_W, -3), 1, 3, "1");
}

/* The gradient of the windows reads averages of 5 pixels that lie 5 elements apart, and that of the
 * norm a value for each 5 of 80 lanes. The softmax is over whole images. */
static void build_averages(kas_kernel *k)
{
    const int taps = kas_build_unfold_window(k, kas_build_input(k), KAS_AXIS_H, 5, 3);
    const int average = kas_build_pool(k, KAS_OP_POOL_AVG, taps, KAS_AXIS_H, 5);
    const int norm = kas_build_along(k, KAS_OP_NORM, average, 2, 4);
    kas_build_softmax(k, kas_build_fold(k, KAS_OP_FOLD_AVG, norm, 1), 0, 3);
}

/* All pixels of a row pick the same elements. */
static void build_rows(kas_kernel *k)
{
    const int x = kas_build_input(k), row = kas_build_fold(k, KAS_OP_FOLD_AVG, x, 2);
    kas_build_broadcast(k, KAS_OP_MAX, kas_build_shuffle(k, row, 0, 0), x);
}

/* Four channels of a group have a weight each, which 16 bytes hold. */
static void build_weights(kas_kernel *k)
{
    const int x = kas_build_shift(k, kas_build_input(k), KAS_AXIS_W, -3);
    kas_build_along(k, KAS_OP_SCALE, kas_build_group(k, x, 0, 1), 1, 2);
}

/* Values that all groups of channels share, and a factor for each channel, whose gradient is a long
 * sum. */
static void build_groups(kas_kernel *k)
{
    const int x = kas_build_input(k), some = kas_build_fc(k, x, false, "C/G0");
    kas_build_along(k, KAS_OP_SCALE, kas_build_broadcast(k, KAS_OP_MUL, some, x), 0, 1);
}

/* A library's map of taps: of 5 and of 25. */
static void build_taps(kas_kernel *k)
{
    const int taps = kas_build_unfold_window(k, kas_build_input(k), KAS_AXIS_W, 5, 3);
    kas_build_fc(k, kas_build_elementwise(k, KAS_OP_SIGMOID, taps), false, "C");
}

static void build_windows(kas_kernel *k)
{
    const int taps = kas_build_unfold_window(k, kas_build_input(k), HW, 5, 1);
    kas_build_fc(k, kas_build_elementwise(k, KAS_OP_SIGMOID, taps), false, "C");
}

/* Unfolded tensors in memory that no library reads: in a reduction over the taps, and through all
 * that keeps their dims or makes others of them. */
static void build_maximum(kas_kernel *k)
{
    const int taps = kas_build_unfold_window(k, kas_build_input(k), KAS_AXIS_W, 5, 3);
    kas_build_fold(k, KAS_OP_FOLD_MAX, kas_build_elementwise(k, KAS_OP_SIGMOID, taps), 1);
}

static void build_unfolded(kas_kernel *k)
{
    const int x = kas_build_input(k), grouped = kas_build_group(k, x, 0, 0);
    const int taps = kas_build_unfold_window(k, grouped, HW, 3, 1);
    const int norm = kas_build_along(k, KAS_OP_NORM, taps, 1, 5);
    const int scaled = kas_build_along(k, KAS_OP_SCALE, norm, 1, 3);
    const int pooled = kas_build_pool(k, KAS_OP_POOL_MAX, scaled, KAS_AXIS_H, 3);
    const int soft = kas_build_softmax(k, kas_build_broadcast(k, KAS_OP_ADD, x, pooled), 1, 4);
    kas_build_mix(k, kas_build_fold(k, KAS_OP_FOLD_AVG, soft, 2), 2, 3, "1");
}

/* Taps that are written by one loop inside the lanes, and read three elements apart by the gradient,
 * each tap in another row of pixels. */
static void build_crossed(kas_kernel *k)
{
    const int taps = kas_build_unfold_window(k, kas_build_input(k), KAS_AXIS_H, 3, 2);
    kas_build_fc(k, kas_build_conv_depthwise(k, taps, KAS_AXIS_W, 3, 3), false, "C");
}

/* Four channels of a group share weights, and the last of them end where the weights do. */
static void build_mixed(kas_kernel *k)
{
    const int x = kas_build_input(k);
    kas_build_mix(k, kas_build_group(k, x, 0, 1), 0, 1, "G1");
}

/* The average and the maximum of all channels in each tap. */
static void build_folded(kas_kernel *k)
{
    const int taps = kas_build_unfold_window(k, kas_build_input(k), KAS_AXIS_W, 5, 3);
    const int average = kas_build_fold(k, KAS_OP_FOLD_AVG, taps, 0);
    const int maximum = kas_build_fold(k, KAS_OP_FOLD_MAX, taps, 0);
    kas_build_fc(k, kas_build_broadcast(k, KAS_OP_MUL, average, maximum), false, "C");
}

/* One kernel reads the first half of X and the second one. */
static void build_halves(kas_kernel *k)
{
    const int x = kas_build_input(k), s = kas_build_split(k, "C", 2, 0);
    const int first = kas_build_slice(k, x, 0, s, 0), second = kas_build_slice(k, x, 0, s, 1);
    kas_build_fc(k, kas_build_broadcast(k, KAS_OP_MUL, first, second), false, "C");
}

/* The gradient of the windows reads, at five taps, that of a product's packed operand. */
static void build_pooled(kas_kernel *k)
{
    const int x = kas_build_input(k);
    const int maximum = kas_build_pool(k, KAS_OP_POOL_MAX, x, KAS_AXIS_H, 5);
    const int product = kas_build_bmm(k, maximum, x, KAS_TRANSPOSE_RHS, false);
    const int other = kas_build_pool(k, KAS_OP_POOL_MAX, x, KAS_AXIS_H, 3);
    const int values = kas_build_conv_depthwise(k, other, KAS_AXIS_W, 7, 1);
    kas_build_bmm(k, product, values, KAS_TRANSPOSE_LHS, true);
}

typedef void build_kernel(kas_kernel *k);
static build_kernel *const kernels[] = {
    build_softmax,  build_product, build_involution, build_skinny,  build_averages,
    build_rows,     build_weights, build_taps,       build_windows, build_maximum,
    build_unfolded, build_crossed, build_mixed,      build_folded,  build_pooled};
static const char *const names[] = {"softmax",  "product", "involution", "skinny",  "averages",
                                    "rows",     "weights", "taps",       "windows", "maximum",
                                    "unfolded", "crossed", "mixed",      "folded",  "pooled"};

TEST(test_agreement)
{
    linear_policy = KAS_LINEAR_CPU;
    for (int i = 0; i < (int)(sizeof kernels / sizeof *kernels); i++) {
        kas_kernel k = {0};
        kernels[i](&k);
        agree_large(names[i], &k);
    }
    stored = KAS_BF16;
    for (int i = 0; i < 3; i += 2) {
        kas_kernel k = {0};
        kernels[i](&k);
        agree_large(names[i], &k);
    }
    stored = KAS_F32;
    kas_kernel k = {0};
    build_groups(&k);
    agree_large("groups", &k);
    linear_policy = KAS_LINEAR_GPU;
}

static kas_program *program_in_pieces(build_kernel *build, kas_linear_policy policy, size_t piece)
{
    kas_kernel k = {.group_value = {2, 4}};
    const kas_target target = make_target((setting){16, 1, 1, 32, 32, 3});
    const kas_binding binding = make_binding(&target);
    const kas_program_options options = {.batch = 4,
                                         .training = true,
                                         .linear_policy = policy,
                                         .list_schedules = true,
                                         .piece_bytes = piece,
                                         .prefix = "k"};
    kas_program *program;
    build(&k);
    OK(kas_kernel_infer(&k));
    OK(kas_program_build(&k, &target, &binding, &options, &program));
    return program;
}

static kas_program *program_of(build_kernel *build, kas_linear_policy policy)
{
    return program_in_pieces(build, policy, 0);
}

/* Each way is taken where it is meant, and on a GPU none of them. */
TEST(test_text)
{
    static const struct {
        build_kernel *build;
        const char *word;
    } cases[] = {
        {build_product, "KAS_TILE_FILL("},
        {build_softmax, "KAS_PICK("},
        {build_involution, "} else {"},
        {build_skinny, "} else {"},
        {build_averages, "KAS_TILE(pick0, 1, 80)"},
        {build_rows, "\n    KAS_TILE(pick0"}, /* in front of the rows */
        {build_weights, "KAS_TILED(pick0"},
        {build_product, "KAS_TILE_STORE(spill, "},
        {build_pooled, "KAS_TILE(tile1, 80, 16)"}, /* 16 pixels at each of five taps */
        {build_crossed, "0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 36, 39, 42, 45)"},
        {build_mixed, "3, 3, 3, 3, 7, 7, 7, 7)"}, /* the window ends with the weights */
        {build_maximum, "(p0 + ("}}; /* what lanes share of an address that changes inside */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kas_program *cpu = program_of(cases[i].build, KAS_LINEAR_CPU),
                    *gpu = program_of(cases[i].build, KAS_LINEAR_GPU);
        if (!strstr(cpu->source, cases[i].word))
            fail_msg("case %zu: the CPU's program has no %s", i, cases[i].word);
        if (strstr(gpu->source, cases[i].word))
            fail_msg("case %zu: the GPU's program has %s", i, cases[i].word);
        kas_program_free(cpu);
        kas_program_free(gpu);
    }
}

/* Lanes pick values that they then read, also where four of them read side by side; and they add up
 * the inner part of a long sum inside. */
TEST(test_groups)
{
    kas_program *p = program_of(build_groups, KAS_LINEAR_CPU);
    char word[32];
    int picks = 0;
    for (const char *at = p->source; (at = strstr(at, "KAS_TILE(pick")) != NULL; picks++) {
        at += strlen("KAS_TILE(");
        snprintf(word, sizeof word, "KAS_TILED(%.*s,", (int)strcspn(at, ","), at);
        if (!strstr(at, word))
            fail_msg("nothing reads %s", word);
    }
    assert_true(picks > 0);
    assert_non_null(strstr(p->schedules, "around r0\nunroll r1\n"));
    kas_program_free(p);
}

/* Sums over images are first those of neighbours, which nothing has to transpose, and windows that
 * another window would read apart are in memory. */
TEST(test_apart)
{
    static build_kernel *const builds[] = {build_softmax, build_averages};
    double most = 0;
    for (int k = 0; k < 2; k++) {
        kas_program *program = program_of(builds[k], KAS_LINEAR_CPU);
        assert_null(strstr(program->source, "KAS_TILE_FILL("));
        for (int i = 0; i < program->backwards; i++)
            most = fmax(most, program->backward[i].effort.scattered / (4.0 * 32 * 32 * 16));
        kas_program_free(program);
    }
    printf("for an element of x, an operation reads at most %.2f apart\n", most);
    assert_true(most <= 2);
}

/* Unfolded taps lie in front of the channels: their maximum, its number and its gradient read
 * nothing apart. */
TEST(test_taps_ahead)
{
    kas_program *program = program_of(build_maximum, KAS_LINEAR_CPU);
    for (int i = 0; i < program->forwards + program->backwards; i++) {
        const kas_operation *op = i < program->forwards ? &program->forward[i]
                                                        : &program->backward[i - program->forwards];
        assert_true(op->effort.gathers == 0 && op->effort.scattered == 0);
        assert_true(op->accessed.contiguous == op->accessed.all);
    }
    kas_program_free(program);
}

/* A tap that lanes compute apart is made 0 by an operation: a choice would load it lane by lane. */
TEST(test_taps_without_choices)
{
    kas_program *program = program_of(build_windows, KAS_LINEAR_CPU);
    assert_non_null(strstr(program->source, "kas_inside("));
    kas_program_free(program);
}

/* A map of unfolded taps reads them as they lie: in front of the channels, along which lanes run. */
TEST(test_operand_of_taps)
{
    kas_program *program = program_of(build_taps, KAS_LINEAR_CPU);
    const kas_operation *written = &program->forward[0];
    assert_true(written->kind == KAS_OPERATION_LAUNCH && written->effort.lanes == 16);
    assert_true(written->effort.scattered == 0 &&
                written->accessed.contiguous == written->accessed.all);
    kas_program_free(program);
}

/* Four images of X are one piece, but not where a tensor between X and Y has 25 times its bytes. */
TEST(test_pieces)
{
    static build_kernel *const builds[] = {build_rows, build_taps, build_windows};
    static const int pieces[] = {1, 1, 4};
    const size_t bytes = kas_piece_bytes(KAS_LINEAR_CPU, 1);
    for (int k = 0; k < 3; k++) {
        kas_program *program = program_in_pieces(builds[k], KAS_LINEAR_CPU, bytes);
        assert_int_equal(program->pieces, pieces[k]);
        kas_program_free(program);
    }
}

/* What all taps fold is folded once: no operation reads the input at each of five taps. */
TEST(test_folds)
{
    kas_program *program = program_of(build_folded, KAS_LINEAR_CPU);
    for (int i = 0; i < program->forwards; i++)
        if (program->forward[i].kind == KAS_OPERATION_LAUNCH)
            assert_true(program->forward[i].accessed.all <= 2 * 4.0 * 32 * 32 * 16 * sizeof(float));
    kas_program_free(program);
}

/* Both halves of a tensor that is read in halves are bytes of the operation, on both devices. */
TEST(test_halves)
{
    for (int p = KAS_LINEAR_GPU; p <= KAS_LINEAR_CPU; p++) {
        kas_program *program = program_of(build_halves, (kas_linear_policy)p);
        const double input = 4.0 * 32 * 32 * 16 * sizeof(float);
        assert_int_equal(program->forward[0].kind, KAS_OPERATION_LAUNCH);
        assert_true(program->forward[0].bytes == input + input / 2);
        kas_program_free(program);
    }
}

/* The unfolded tensor of a skinny map, 25 times its input, is never in memory. */
TEST(test_skinny)
{
    for (int p = KAS_LINEAR_GPU; p <= KAS_LINEAR_CPU; p++) {
        kas_program *program = program_of(build_skinny, (kas_linear_policy)p);
        const double input = 4.0 * 32 * 32 * 16 * sizeof(float);
        double most = 0;
        for (int i = 0; i < program->forwards + program->backwards; i++) {
            const kas_operation *op = i < program->forwards
                                          ? &program->forward[i]
                                          : &program->backward[i - program->forwards];
            assert_int_equal(op->kind, KAS_OPERATION_LAUNCH);
            most = op->bytes > most ? op->bytes : most;
        }
        printf("skinny map: an operation moves at most %.2f times its input\n", most / input);
        assert_true(most <= 4 * input);
        kas_program_free(program);
    }
}

RUN_TESTS(set_up, tear_down)

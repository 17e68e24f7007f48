/* The lowering of slices and concatenations, against the float64 reference. */
#include "agree_fixture.h"

#include "jit/ir/program.h"

enum { HW = KAS_AXIS_H | KAS_AXIS_W };

/* Each half of the channels goes its own way; they come back the other way round. */
TEST(test_shares)
{
    kas_kernel halves = {0}, quarters = {0};
    int x = kas_build_input(&halves), s = kas_build_split(&halves, "C", 2, 0);
    const int a = kas_build_fc(&halves, kas_build_slice(&halves, x, 0, s, 0), false, "C/2");
    const int b = kas_build_elementwise(&halves, KAS_OP_SIN, kas_build_slice(&halves, x, 0, s, 1));
    kas_build_concat(&halves, (const int[]){b, a}, 0, s);
    agree_large("halves of the channels", &halves);
    x = kas_build_input(&quarters); /* all instances share the slices, not the map */
    s = kas_build_split(&quarters, "C", 4, 0);
    int quarter[4];
    for (int i = 0; i < 4; i++)
        quarter[i] = kas_build_slice(&quarters, x, 0, s, 3 - i);
    quarter[2] = kas_build_fc(&quarters, quarter[2], false, "C/4");
    kas_build_concat(&quarters, quarter, 0, s);
    agree("quarters turned round", &quarters);
    kas_kernel twice = {0}; /* one operand in two places */
    x = kas_build_fc(&twice, kas_build_input(&twice), false, "C/2");
    s = kas_build_split(&twice, "C", 2, 0);
    kas_build_concat(&twice, (const int[]){x, x}, 0, s);
    agree("one map twice", &twice);
}

/* What the first 3 channels leave has no size that is a monomial. */
TEST(test_first_and_rest)
{
    kas_kernel k = {0}, maps = {0};
    int x = kas_build_input(&k), s = kas_build_split(&k, "C", 0, 3);
    int a = kas_build_slice(&k, x, 0, s, 0);
    int b = kas_build_fc(&k, kas_build_unfold(&k, x, HW), false, "R0");
    b = kas_build_broadcast(&k, KAS_OP_MUL, kas_build_slice(&k, x, 0, s, 1), b);
    kas_build_concat(&k, (const int[]){a, b}, 0, s);
    agree("the first 3 channels", &k);
    x = kas_build_input(&maps); /* no slice: two maps make the parts */
    s = kas_build_split(&maps, "C", 0, 4);
    a = kas_build_unfold(&maps, kas_build_group(&maps, x, 0, 0), HW);
    a = kas_build_fc(&maps, a, true, "4");
    b = kas_build_fc(&maps, x, false, "R0");
    kas_build_concat(&maps, (const int[]){a, b}, 0, s);
    agree("first and rest from maps", &maps);
}

/* Channel dims in front of others, and a dim of taps. */
TEST(test_inner_dims)
{
    kas_kernel k = {0}, taps = {0};
    int x = kas_build_group(&k, kas_build_input(&k), 0, 0);
    int s = kas_build_split(&k, "C/G0", 2, 0);
    int left = kas_build_elementwise(&k, KAS_OP_TANH, kas_build_slice(&k, x, 1, s, 1));
    x = kas_build_concat(&k, (const int[]){left, kas_build_slice(&k, x, 1, s, 0)}, 1, s);
    kas_build_fc(&k, kas_build_unfold(&k, x, KAS_AXIS_W), true, "C");
    agree("halves of every group", &k);
    x = kas_build_unfold_window(&taps, kas_build_input(&taps), HW, 3, 0);
    s = kas_build_split(&taps, "3", 0, 1);
    x = kas_build_slice(&taps, kas_build_slice(&taps, x, 1, s, 1), 2, s, 0);
    kas_build_fc(&taps, x, false, "C"); /* [C, R0, 1]: two of nine neighbours */
    agree("some taps of a window", &taps);
}

/* At the settings whose images have three rows or more. */
static void agree_tall(const char *name, kas_kernel *kernel)
{
    static const int tall[] = {0, 1, 2, 4};
    if (kas_kernel_infer(kernel) != KAS_OK)
        fail_msg("%s: %s", name, kas_error());
    compare(name, kernel, 0, tall, 4);
    if (compiler[1])
        compare(name, kernel, 1, tall, 1);
}

/* A band of the image is an image of its own: what looks at neighbours ends at its edge. */
TEST(test_bands)
{
    kas_kernel k = {0}, twice = {0};
    int x = kas_build_input(&k), s = kas_build_split(&k, "H", 0, 2);
    int top = kas_build_unfold(&k, kas_build_slice(&k, x, 1, s, 0), HW);
    top = kas_build_fc(&k, top, false, "C");
    int rest = kas_build_shift(&k, kas_build_slice(&k, x, 1, s, 1), KAS_AXIS_H, 1);
    kas_build_concat(&k, (const int[]){top, rest}, 1, s);
    agree_tall("bands", &k);
    x = kas_build_input(&twice);
    s = kas_build_split(&twice, "H", 0, 1);
    const int more = kas_build_split(&twice, "R0", 0, 1);
    const int below = kas_build_slice(&twice, x, 1, s, 1);
    top = kas_build_slice(&twice, below, 1, more, 0);
    rest = kas_build_softmax(&twice, kas_build_slice(&twice, below, 1, more, 1), 1, 2);
    rest = kas_build_concat(&twice, (const int[]){top, rest}, 1, more);
    kas_build_concat(&twice, (const int[]){kas_build_slice(&twice, x, 1, s, 0), rest}, 1, s);
    agree_tall("the rest of a rest", &twice);
}

static void count(const kas_kernel *k, uint32_t channels, int *forwards, int *backwards)
{
    const kas_target target = make_target((setting){channels, 1, 1, 3, 5, 1});
    const kas_binding binding = make_binding(&target);
    const kas_program_options options = {.batch = 2,
                                         .training = true,
                                         .dtype = stored,
                                         .linear_policy = linear_policy,
                                         .prefix = "k"};
    kas_program *p;
    OK(kas_program_build(k, &target, &binding, &options, &p));
    *forwards = p->forwards;
    *backwards = p->backwards;
    kas_program_free(p);
}

/* Libraries read the slices where they lie, and write the parts of Y and of X's gradient there, so
 * there is no other launch. Where a part begins at an address that they do not take, there is. */
TEST(test_in_place)
{
    static const uint32_t channels[] = {64, 72, 12};
    static const struct {
        kas_dtype dtype;
        int forwards[3], backwards[3];
    } want[] = {{KAS_F32, {4, 7, 8}, {8, 11, 12}}, {KAS_BF16, {4, 8, 8}, {8, 12, 12}}};
    kas_kernel k = {0};
    int part[4];
    const int x = kas_build_input(&k), s = kas_build_split(&k, "C", 4, 0);
    for (int i = 0; i < 4; i++)
        part[i] = kas_build_fc(&k, kas_build_slice(&k, x, 0, s, i), false, "C/4");
    kas_build_concat(&k, part, 0, s);
    linear_policy = KAS_LINEAR_LIBRARY;
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        stored = want[i].dtype;
        the_gain = i == 0 ? 0 : 8;
        agree("maps of quarters", &k);
        for (int n = 0; n < 3; n++) {
            int forwards, backwards;
            count(&k, channels[n], &forwards, &backwards);
            assert_int_equal(forwards, want[i].forwards[n]);
            assert_int_equal(backwards, want[i].backwards[n]);
        }
    }
    stored = KAS_F32;
    the_gain = 0;
    linear_policy = KAS_LINEAR_GPU;
}

/* With one part in, where libraries can write the parts in place. */
static void agree_alone(const char *name, kas_kernel *kernel)
{
    static const setting alone[] = {{16, 1, 1, 4, 3, 3}, {32, 1, 2, 3, 5, 1}};
    enum { ALONE = sizeof alone / sizeof *alone };
    const float gains[ALONE] = {the_gain, the_gain};
    const kas_agree_options options = {.batch = 2,
                                       .seed = 1,
                                       .dtype = stored,
                                       .linear_policy = linear_policy,
                                       .gain = the_gain != 0 ? gains : NULL};
    kas_target target[ALONE];
    kas_binding binding[ALONE];
    kas_agreement result[ALONE];
    kernel->group_value[0] = 2;
    kernel->group_value[1] = 4;
    if (kas_kernel_infer(kernel) != KAS_OK)
        fail_msg("%s: %s", name, kas_error());
    for (int i = 0; i < ALONE; i++) {
        target[i] = make_target(alone[i]);
        binding[i] = make_binding(&target[i]);
        kas_splits_bind(kernel, &binding[i]);
    }
    OK(kas_agree(device, compiler[0], kernel, target, binding, ALONE, &options, result));
    for (int i = 0; i < ALONE; i++)
        record(&result[i], name, &target[i]);
}

/* Parts that are not written in place: what another node or the backward pass reads too, what is there
 * twice, and maps whose pixels are not those of Y. */
TEST(test_not_in_place)
{
    kas_kernel chain = {0}, twice = {0}, kept = {0}, slices = {0};
    int x = kas_build_input(&chain), s = kas_build_split(&chain, "C", 2, 0);
    int a = kas_build_fc(&chain, x, false, "C/2");
    int b = kas_build_elementwise(&chain, KAS_OP_RELU, a);
    b = kas_build_fc(&chain, b, false, "C/2");
    kas_build_concat(&chain, (const int[]){a, b}, 0, s);
    x = kas_build_fc(&twice, kas_build_input(&twice), false, "C/2");
    s = kas_build_split(&twice, "C", 2, 0);
    kas_build_concat(&twice, (const int[]){x, x}, 0, s);
    x = kas_build_group(&kept, kas_build_input(&kept), 0, 1); /* [G1, C/G1] */
    s = kas_build_split(&kept, "G1", 2, 0);
    a = kas_build_mix(&kept, kas_build_slice(&kept, x, 0, s, 0), 1, 2, "C/G1");
    b = kas_build_mix(&kept, kas_build_slice(&kept, x, 0, s, 1), 1, 2, "C/G1");
    kas_build_concat(&kept, (const int[]){a, b}, 0, s);
    x = kas_build_input(&slices);
    s = kas_build_split(&slices, "C", 2, 0);
    for (int i = 0; i < 2; i++) {
        const int half = kas_build_group(&slices, kas_build_slice(&slices, x, 0, s, i), 0, 0);
        const int mixed = kas_build_mix(&slices, half, 1, 2, "C/2/G0");
        *(i ? &b : &a) = kas_build_elementwise(&slices, KAS_OP_RELU, mixed);
    }
    s = kas_build_split(&slices, "C/G0", 2, 0);
    kas_build_concat(&slices, (const int[]){a, b}, 1, s);
    linear_policy = KAS_LINEAR_LIBRARY;
    for (int i = 0; i < 2; i++) {
        the_gain = i == 0 ? 0 : 8;
        agree_alone("a chain of parts", &chain);
        agree_alone("one map twice", &twice);
        agree_alone("mixes in groups", &kept);
        agree_alone("mixes of slices in groups", &slices);
    }
    the_gain = 0;
    linear_policy = KAS_LINEAR_GPU;
}

RUN_TESTS(set_up, tear_down)

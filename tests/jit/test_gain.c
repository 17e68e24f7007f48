/* Gains: the factor of a kernel's output, in the kernel that writes it or in the weights that a
 * library's convolution reads, against the float64 reference; its gradients too. */
#include "agree_fixture.h"

#include "host/core/random.h"

enum { HW = KAS_AXIS_H | KAS_AXIS_W };

/* A library's convolution writes the output where the layer has one input part. */
static void convolution(void)
{
    kas_kernel k = {0};
    kas_build_fc(&k, kas_build_unfold(&k, kas_build_input(&k), HW), false, "C");
    agree("a convolution", &k);
    agree("a convolution", &k); /* at another setting */
}

static void grouped_convolution(void)
{
    kas_kernel k = {0};
    const int x = kas_build_unfold(&k, kas_build_group(&k, kas_build_input(&k), 0, 0), HW);
    kas_build_group(&k, kas_build_fc(&k, x, true, "C"), 0, 1);
    agree("a convolution in groups, its output in other groups", &k);
}

static void map_and_convolution(void)
{
    kas_kernel k = {0};
    const int x = kas_build_fc(&k, kas_build_input(&k), false, "C");
    kas_build_fc(&k, kas_build_unfold(&k, kas_build_elementwise(&k, KAS_OP_RELU, x), HW), false,
                 "C");
    agree("a map and a convolution", &k);
}

/* The backward pass reads the value that the forward pass multiplies by the gain. */
static void tower(void)
{
    kas_kernel k = {0};
    int x = kas_build_fc(&k, kas_build_input(&k), false, "C");
    x = kas_build_elementwise(&k, KAS_OP_EXP, kas_build_elementwise(&k, KAS_OP_SIN, x));
    kas_build_elementwise(&k, KAS_OP_EXP, x);
    agree("exponentials", &k);
}

static void row(void)
{
    kas_kernel k = {0};
    kas_build_softmax(&k, kas_build_fc(&k, kas_build_input(&k), false, "C"), 0, 1);
    agree("softmax", &k);
}

static void column(void)
{
    kas_kernel k = {0};
    const int x = kas_build_fc(&k, kas_build_input(&k), false, "C");
    kas_build_along(&k, KAS_OP_NORM, x, 1, 3);
    agree("norm over the image", &k);
}

static void average(void)
{
    kas_kernel k = {0};
    const int x = kas_build_input(&k);
    kas_build_broadcast(&k, KAS_OP_MUL, kas_build_fold(&k, KAS_OP_FOLD_AVG, x, 2), x);
    agree("an average, broadcast", &k);
}

TEST(large)
{
    the_gain = 64;
    linear_policy = KAS_LINEAR_LIBRARY;
    convolution();
    grouped_convolution();
    linear_policy = KAS_LINEAR_MERGED;
    grouped_convolution();
    linear_policy = KAS_LINEAR_DIRECT;
    convolution();
    linear_policy = KAS_LINEAR_CPU; /* in pieces */
    map_and_convolution();
    linear_policy = KAS_LINEAR_GPU;
    tower();
    row();
    the_gain = 0;
}

TEST(small)
{
    the_gain = 0.0078125f;
    column();
    average();
    the_gain = 0;
}

TEST(in_16_bits)
{
    stored = KAS_BF16;
    the_gain = 16;
    linear_policy = KAS_LINEAR_LIBRARY;
    convolution();
    stored = KAS_F16;
    the_gain = 0.125f;
    tower();
    linear_policy = KAS_LINEAR_GPU;
    stored = KAS_F32;
    the_gain = 0;
}

/* ---- bits ------------------------------------------------------------------------------------ */

static int buffer_of(const kas_program *p, kas_role role)
{
    for (int i = 0; i < p->buffers; i++)
        if (p->buffer[i].role == role)
            return i;
    return -1;
}

/* Fills everything that is given with normal numbers. */
static void upload(const kas_program *p, void **memory, float gain)
{
    kas_rng rng = kas_rng_make(4, KAS_PURPOSE_TEST, 0);
    for (int i = 0; i < p->buffers; i++) {
        const size_t floats = p->buffer[i].bytes / sizeof(float);
        float *values = malloc(p->buffer[i].bytes);
        assert_non_null(values);
        for (size_t k = 0; k < floats; k++)
            values[k] = p->buffer[i].role == KAS_ROLE_GAIN ? gain : (float)kas_rng_normal(&rng);
        OK(kas_mem_alloc(device, p->buffer[i].bytes, &memory[i]));
        OK(kas_mem_upload(device, memory[i], values, p->buffer[i].bytes));
        free(values);
    }
}

/* Y of a kernel; *count gets its floats. `gain` 0: a program that was not asked for a gain. */
static float *output_of(const kas_kernel *kernel, setting s, float gain, size_t *count)
{
    enum { MOST = 32 };
    const kas_target target = make_target(s);
    const kas_binding binding = make_binding(&target);
    const kas_program_options options = {
        .batch = 2, .prefix = "k", .gained = gain != 0, .linear_policy = KAS_LINEAR_LIBRARY};
    kas_program *p;
    kas_module *module;
    kas_loaded *loaded;
    kas_plan *plan;
    char path[4096];
    void *memory[MOST];
    OK(kas_program_build(kernel, &target, &binding, &options, &p));
    assert_true(p->buffers <= MOST);
    OK(kas_compile(compiler[0], p->source, path, NULL));
    OK(kas_module_load(device, path, &module));
    OK(kas_program_load(device, p, &module, &loaded));
    upload(p, memory, gain != 0 ? gain : 1);
    OK(kas_plan_create(device, &plan));
    OK(kas_loaded_append(loaded, plan, false, memory));
    OK(kas_plan_run(plan));
    const int y = buffer_of(p, KAS_ROLE_Y);
    float *values = malloc(p->buffer[y].bytes);
    assert_non_null(values);
    *count = p->buffer[y].bytes / sizeof *values;
    OK(kas_mem_download(device, values, memory[y], p->buffer[y].bytes));
    kas_plan_free(plan);
    kas_loaded_free(loaded);
    kas_module_free(module);
    for (int i = 0; i < p->buffers; i++)
        kas_mem_free(device, memory[i]);
    kas_program_free(p);
    return values;
}

/* A gain of 1 and no gain give the same bits, and a power of two moves only the exponent. */
TEST(powers_of_two_lose_no_digit)
{
    static const setting shapes[] = {{16, 1, 1, 4, 4, 3}, {16, 2, 1, 4, 4, 3}};
    kas_kernel kernel[3] = {0};
    int x = kas_build_fc(&kernel[0], kas_build_input(&kernel[0]), false, "C");
    kas_build_elementwise(&kernel[0], KAS_OP_EXP, x);
    kas_build_fc(&kernel[1], kas_build_unfold(&kernel[1], kas_build_input(&kernel[1]), HW), false,
                 "C");
    x = kas_build_fc(&kernel[2], kas_build_input(&kernel[2]), false, "C");
    kas_build_softmax(&kernel[2], x, 0, 1);
    for (int k = 0; k < 3; k++)
        for (int s = 0; s < 2; s++) {
            size_t count;
            OK(kas_kernel_infer(&kernel[k]));
            float *none = output_of(&kernel[k], shapes[s], 0, &count);
            float *one = output_of(&kernel[k], shapes[s], 1, &count);
            float *small = output_of(&kernel[k], shapes[s], 0x1p-20f, &count);
            for (size_t i = 0; i < count; i++) {
                assert_true(none[i] == one[i]);
                assert_true(0x1p-20f * none[i] == small[i]);
            }
            free(none);
            free(one);
            free(small);
        }
}

static size_t saved_bytes(const kas_program *p)
{
    size_t bytes = 0;
    for (int i = 0; i < p->buffers; i++)
        bytes += p->buffer[i].role == KAS_ROLE_SAVED ? p->buffer[i].bytes : 0;
    return bytes;
}

/* Builds the training program of a map, relu and a convolution, on the CPU device, in pieces of one
 * image. */
static kas_program *in_pieces(bool gained)
{
    const kas_target target = make_target((setting){16, 1, 1, 4, 4, 3});
    const kas_binding binding = make_binding(&target);
    const kas_program_options options = {.batch = 4,
                                         .training = true,
                                         .prefix = "k",
                                         .gained = gained,
                                         .linear_policy = KAS_LINEAR_CPU,
                                         .piece_bytes = 1};
    kas_kernel kernel = {0};
    kas_program *p;
    int x = kas_build_fc(&kernel, kas_build_input(&kernel), false, "C");
    x = kas_build_unfold(&kernel, kas_build_elementwise(&kernel, KAS_OP_RELU, x), HW);
    kas_build_fc(&kernel, x, false, "C");
    OK(kas_kernel_infer(&kernel));
    OK(kas_program_build(&kernel, &target, &binding, &options, &p));
    assert_int_equal(p->pieces, 4);
    return p;
}

/* However many pieces the batch has, the weights are multiplied once and lie in memory once, and their
 * gradient is multiplied where the pieces are added up. */
TEST(pieces_share_the_weights)
{
    kas_program *plain = in_pieces(false), *p = in_pieces(true);
    assert_int_equal(p->forwards, plain->forwards + 1);
    assert_int_equal(p->backwards, plain->backwards);
    assert_int_equal(p->forward[0].times, 1);
    for (int i = 1; i < p->forwards; i++)
        assert_int_equal(p->forward[i].times, 4);
    assert_true(p->backward[p->backwards - 1].total);
    const size_t weights = p->weight[1].elements * sizeof(float);
    assert_in_range(saved_bytes(p) - saved_bytes(plain), weights, weights + 1024);
    kas_program_free(plain);
    kas_program_free(p);
}

/* No pass over the output is added: only that over the weights which a library reads, unless it reads
 * what another pass makes of them (of groups that are merged), and in the backward pass that over their
 * gradient. */
TEST(no_pass_over_the_output)
{
    const kas_target target = make_target((setting){16, 1, 1, 4, 4, 3});
    const kas_binding binding = make_binding(&target);
    kas_kernel tower = {0}, conv = {0}, groups = {.group_value = {2}};
    const int x = kas_build_fc(&tower, kas_build_input(&tower), false, "C");
    kas_build_elementwise(&tower, KAS_OP_EXP, x);
    kas_build_fc(&conv, kas_build_unfold(&conv, kas_build_input(&conv), HW), false, "C");
    const int grouped = kas_build_group(&groups, kas_build_input(&groups), 0, 0);
    kas_build_fc(&groups, kas_build_unfold(&groups, grouped, HW), true, "C");
    const kas_kernel *const kernel[] = {&tower, &conv, &groups};
    static const kas_linear_policy policy[] = {KAS_LINEAR_LIBRARY, KAS_LINEAR_LIBRARY,
                                               KAS_LINEAR_MERGED};
    static const int more[] = {0, 1, 0}, more_backward[] = {0, 1, 1};
    OK(kas_kernel_infer(&tower));
    OK(kas_kernel_infer(&conv));
    OK(kas_kernel_infer(&groups));
    for (int k = 0; k < 3; k++) {
        kas_program *p[2];
        for (int gained = 0; gained < 2; gained++)
            OK(kas_program_build(kernel[k], &target, &binding,
                                 &(kas_program_options){.batch = 2,
                                                        .training = true,
                                                        .prefix = "k",
                                                        .gained = gained,
                                                        .linear_policy = policy[k]},
                                 &p[gained]));
        assert_int_equal(p[1]->forwards, p[0]->forwards + more[k]);
        assert_int_equal(p[1]->backwards, p[0]->backwards + more_backward[k]);
        assert_int_equal(buffer_of(p[0], KAS_ROLE_GAIN) >= 0, k == 0);
        assert_true(buffer_of(p[1], KAS_ROLE_GAIN) >= 0);
        kas_program_free(p[0]);
        kas_program_free(p[1]);
    }
}

RUN_TESTS(set_up, tear_down)

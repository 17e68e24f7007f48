/* Windows that slide (schedule/slide.c): neighbouring pixels are computed by one thread of a GPU, or
 * in one turn of a CPU's lanes, which load what they share once. The results are those of the
 * float64 reference. */
#include "agree_fixture.h"

#include "jit/ir/program.h"

enum { HW = KAS_AXIS_H | KAS_AXIS_W, BATCH = 16 };
static const setting shape = {16, 1, 1, 32, 32, 3};

static void pool(kas_kernel *k)
{
    kas_build_pool(k, KAS_OP_POOL_AVG, kas_build_input(k), HW, 5);
}

/* The winner of a maximum is a reduction of its own. */
static void maximum(kas_kernel *k)
{
    kas_build_pool(k, KAS_OP_POOL_MAX, kas_build_input(k), HW, 3);
}

static void depthwise(kas_kernel *k)
{
    kas_build_conv_depthwise(k, kas_build_input(k), HW, 5, 1);
}

/* Too many loads for all taps to be under way: those along the slide are unrolled all the same. */
static void wide(kas_kernel *k)
{
    kas_build_conv_depthwise(k, kas_build_input(k), HW, 7, 1);
}

/* Distant taps along one axis, mixed to one. */
static void skinny(kas_kernel *k)
{
    const int taps = kas_build_unfold_window(k, kas_build_input(k), KAS_AXIS_W, 7, 2);
    kas_build_mix(k, taps, 1, 2, "1");
}

/* A window over a value that is computed from a window. */
static void twice(kas_kernel *k)
{
    const int first = kas_build_pool(k, KAS_OP_POOL_AVG, kas_build_input(k), KAS_AXIS_H, 3);
    kas_build_pool(k, KAS_OP_POOL_AVG, kas_build_elementwise(k, KAS_OP_SIGMOID, first), HW, 3);
}

static const struct {
    const char *name;
    void (*build)(kas_kernel *kernel);
    bool library; /* a CPU's library computes it */
} kernels[] = {{"pool", pool, false}, {"maximum", maximum, false}, {"depthwise", depthwise, true},
               {"wide", wide, true},  {"skinny", skinny, false},   {"twice", twice, false}};
enum { KERNELS = sizeof kernels / sizeof *kernels };

TEST(results_are_right)
{
    for (int i = 0; i < KERNELS; i++)
        for (int dtype = KAS_F32; dtype <= KAS_BF16; dtype++) {
            kas_kernel k = {0};
            const kas_target target = make_target(shape);
            const kas_binding binding = make_binding(&target);
            kas_agreement result;
            const int order = compiler[2] ? (i + dtype) % 3 : 0;
            const kas_agree_options options = {
                .batch = BATCH, .seed = 5, .directions = 0, .dtype = (kas_dtype)dtype};
            kernels[i].build(&k);
            OK(kas_kernel_infer(&k));
            stored = (kas_dtype)dtype;
            if (on_cpu())
                OK(kas_device_cpu_set_order(device, (kas_cpu_order)order));
            OK(kas_agree(device, compiler[order], &k, &target, &binding, 1, &options, &result));
            record(&result, kernels[i].name, &target);
        }
}

static kas_program *program_of(void (*build)(kas_kernel *kernel), kas_linear_policy policy)
{
    kas_kernel k = {0};
    const kas_target target = make_target(shape);
    const kas_binding binding = make_binding(&target);
    const kas_program_options options = {.batch = BATCH,
                                         .training = true,
                                         .linear_policy = policy,
                                         .list_schedules = true,
                                         .prefix = "k"};
    kas_program *p;
    build(&k);
    OK(kas_kernel_infer(&k));
    OK(kas_program_build(&k, &target, &binding, &options, &p));
    return p;
}

static bool slides(void (*build)(kas_kernel *kernel), kas_linear_policy policy)
{
    kas_program *p = program_of(build, policy);
    const bool found = strstr(p->schedules, "vthread") != NULL;
    kas_program_free(p);
    return found;
}

/* Each of them slides on a GPU, and on a CPU unless its library computes it. */
TEST(sums_of_neighbours)
{
    for (int i = 0; i < KERNELS; i++) {
        if (!slides(kernels[i].build, KAS_LINEAR_GPU))
            fail_msg("%s does not slide on a GPU", kernels[i].name);
        if (slides(kernels[i].build, KAS_LINEAR_CPU) == kernels[i].library)
            fail_msg("%s on a CPU", kernels[i].name);
    }
}

/* A pool of 25 taps alone would load 25 values for each that it writes. */
TEST(loads_are_shared)
{
    const double values = (double)BATCH * shape.c * shape.h * shape.w;
    kas_program *p = program_of(pool, KAS_LINEAR_GPU);
    assert_int_equal(p->forwards, 1);
    printf("a pool of 25 taps: %.1f loads and stores for each value\n",
           p->forward[0].effort.loads / values);
    assert_true(p->forward[0].effort.loads <= 13 * values);
    kas_program_free(p);
}

/* Returns how often the forward kernels have a loop over `taps` taps with this many of its turns
 * unrolled. */
static int count_unrolled(const char *text, int turns, int taps)
{
    const char *backward = strstr(text, "KAS_KERNEL(k_b");
    char begin[40], end[40];
    int count = 0;
    snprintf(begin, sizeof begin, "KAS_UNROLL_FEW(%d)\n", turns);
    snprintf(end, sizeof end, "< %d; v", taps);
    for (const char *at = text; (at = strstr(at, begin)) != NULL && at < backward; at++) {
        const char *loop = strchr(at, '\n') + 1, *line = strstr(loop, end);
        count += line && line < strchr(loop, '\n');
    }
    return count;
}

/* What neighbours share is loaded once only where all taps along which they slide are unrolled; the
 * other loop of taps turns. */
TEST(taps_are_unrolled)
{
    kas_program *p = program_of(wide, KAS_LINEAR_GPU);
    assert_int_equal(count_unrolled(p->source, 7, 7), 1);
    assert_int_equal(count_unrolled(p->source, 1, 7), 1);
    kas_program_free(p);
}

RUN_TESTS(set_up, tear_down)

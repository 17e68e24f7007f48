/* Softmax and norm in one kernel, which reads its operands once: rows, over the contiguous
 * channels, and columns, over what lies apart. */
#include "agree_fixture.h"

#include "jit/ir/program.h"

enum { SHAPES = 4, H = 3, W = 5, N = 4 };
/* Rows of few lanes and of a number that is no multiple of 4, of several turns of 32 threads, of
 * more than one pitch; the last is too long for the registers of a warp. */
static const uint32_t channels[SHAPES] = {37, 64, 300, 1028};

static kas_target target_of(uint32_t c)
{
    return make_target((setting){c, 1, 1, H, W, 1});
}

static kas_program *program_at(kas_kernel *kernel, kas_target target)
{
    const kas_binding binding = make_binding(&target);
    const kas_program_options options = {.batch = N,
                                         .training = true,
                                         .dtype = KAS_F32,
                                         .linear_policy = linear_policy,
                                         .prefix = "k"};
    kas_program *program;
    OK(kas_kernel_infer(kernel));
    OK(kas_program_build(kernel, &target, &binding, &options, &program));
    return program;
}

static kas_program *program_of(kas_kernel *kernel, uint32_t c)
{
    return program_at(kernel, target_of(c));
}

static int rows_of(const kas_program *p)
{
    int count = 0;
    for (const char *at = p->source; (at = strstr(at, "kas_row_")); at++)
        count++;
    return count;
}

/* Against the reference, in all orders of blocks and lanes: in the order that runs at every shape, in
 * the others at every second one, as each is a compilation of its own. */
static void agree_targets(const char *name, kas_kernel *kernel, int shapes,
                          const kas_target *target)
{
    kas_target chosen[SHAPES];
    kas_binding binding[SHAPES];
    kas_agreement result[SHAPES];
    OK(kas_kernel_infer(kernel));
    for (int order = 0; order < 3 && compiler[order]; order++) {
        const kas_agree_options options = {.batch = 2,
                                           .seed = 7,
                                           .pitch_more = order == 1 ? 4 : 0,
                                           .dtype = stored,
                                           .linear_policy = linear_policy};
        int count = 0;
        for (int i = order == 1 && shapes > 1; i < shapes; i += order == 0 ? 1 : 2) {
            chosen[count] = target[i];
            binding[count++] = make_binding(&target[i]);
        }
        if (on_cpu())
            OK(kas_device_cpu_set_order(device, (kas_cpu_order)order));
        OK(kas_agree(device, compiler[order], kernel, chosen, binding, count, &options, result));
        for (int i = 0; i < count; i++)
            record(&result[i], name, &chosen[i]);
    }
}

static void agree_over(const char *name, kas_kernel *kernel, int shapes, const uint32_t *c)
{
    kas_target target[SHAPES];
    for (int i = 0; i < shapes; i++)
        target[i] = target_of(c[i]);
    agree_targets(name, kernel, shapes, target);
}

static void agree_rows(const char *name, kas_kernel *kernel, int shapes)
{
    agree_over(name, kernel, shapes, channels);
}

/* Bytes of the elements of `tensors` images and of `reduced` values of a pixel. */
static double bytes(uint32_t c, int tensors, int reduced)
{
    return 4.0 * N * H * W * (c * (double)tensors + reduced);
}

/* Kernels of a pass whose lanes are a row; *floor: bytes of the last one. */
static int row_kernels(const kas_program *p, const kas_operation *op, int count, double *floor)
{
    int found = 0;
    for (int i = 0; i < count; i++)
        if (op[i].kind == KAS_OPERATION_LAUNCH &&
            memmem(p->source + op[i].text, op[i].text_size, "kas_row_", strlen("kas_row_"))) {
            *floor = op[i].bytes;
            found++;
        }
    return found;
}

/* One kernel forward and one backward where the row fits, whose floors are operands and a result;
 * `kept`: values of a pixel that the forward pass leaves for the backward one. */
static void check_passes(kas_kernel *kernel, int reductions, int kept)
{
    for (int i = 0; i < SHAPES; i++) {
        double forward = 0, backward = 0;
        const int wanted = channels[i] <= 1024;
        kas_program *p = program_of(kernel, channels[i]);
        assert_int_equal(rows_of(p), wanted * reductions);
        assert_int_equal(row_kernels(p, p->forward, p->forwards, &forward), wanted);
        assert_int_equal(row_kernels(p, p->backward, p->backwards, &backward), wanted);
        assert_true(forward == wanted * bytes(channels[i], 2, kept));
        assert_true(backward == wanted * bytes(channels[i], 3, kept));
        kas_program_free(p);
    }
}

TEST(test_softmax)
{
    kas_kernel k = {0};
    kas_build_softmax(&k, kas_build_input(&k), 0, 1);
    check_passes(&k, 3, 0); /* maximum and sum; one sum backward */
    agree_rows("softmax over channels", &k, SHAPES);
}

TEST(test_norm)
{
    kas_kernel k = {0};
    kas_build_along(&k, KAS_OP_NORM, kas_build_input(&k), 0, 1);
    check_passes(&k, 4, 2); /* mean and variance; two means backward */
    agree_rows("norm over channels", &k, SHAPES);
}

/* What stands before and behind is computed where the row is; a norm of a softmax has two rows. */
TEST(test_fused)
{
    kas_kernel k = {0};
    int x = kas_build_elementwise(&k, KAS_OP_TANH, kas_build_input(&k));
    x = kas_build_broadcast(&k, KAS_OP_MUL, kas_build_softmax(&k, x, 0, 1), x);
    kas_build_elementwise(&k, KAS_OP_RELU, kas_build_along(&k, KAS_OP_NORM, x, 0, 1));
    agree_rows("softmax times its operand, normed", &k, 2);
}

/* Rows of the trailing channels of a pixel, and others that are no rows: the leading ones, all of a
 * column of pixels. */
TEST(test_dims)
{
    static const struct {
        int dim, dim_end, rows;
    } want[] = {{0, 1, 0}, {1, 2, 3}, {0, 2, 3}, {2, 3, 0}, {1, 3, 0}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        kas_kernel k = {0};
        const int x = kas_build_group(&k, kas_build_input(&k), 0, 1); /* [4, C/4, H, W] */
        k.group_value[1] = 4;
        kas_build_softmax(&k, x, want[i].dim, want[i].dim_end);
        kas_program *p = program_of(&k, 64);
        assert_int_equal(rows_of(p), want[i].rows);
        kas_program_free(p);
    }
}

/* A window of them has a row at each of its taps, which is none of the kernel's. */
TEST(test_windows)
{
    kas_kernel k = {0};
    int x = kas_build_softmax(&k, kas_build_input(&k), 0, 1);
    kas_build_pool(&k, KAS_OP_POOL_AVG, x, KAS_AXIS_H | KAS_AXIS_W, 3);
    agree_rows("average of softmaxes", &k, 2);
    kas_kernel before = {0};
    x = kas_build_pool(&before, KAS_OP_POOL_AVG, kas_build_input(&before), KAS_AXIS_W, 3);
    kas_build_softmax(&before, kas_build_shift(&before, x, KAS_AXIS_H, 1), 0, 1);
    agree_rows("softmax of averages", &before, 2);
}

static int times_in(const kas_program *p, const kas_operation *op, const char *what)
{
    int count = 0;
    const char *end = p->source + op->text + op->text_size;
    for (const char *at = p->source + op->text; (at = strstr(at, what)) && at < end; at++)
        count++;
    return count;
}

/* The one kernel of a pass whose lanes are a row. */
static const kas_operation *row_kernel(const kas_program *p, bool backward)
{
    const kas_operation *op = backward ? p->backward : p->forward, *found = NULL;
    const int count = backward ? p->backwards : p->forwards;
    for (int i = 0; i < count; i++)
        if (op[i].kind == KAS_OPERATION_LAUNCH && times_in(p, &op[i], "kas_row_")) {
            assert_null(found);
            found = &op[i];
        }
    assert_non_null(found);
    return found;
}

/* Operands that hold a sum are inlined where it is short; what reads them at each of its steps has
 * it once. */
TEST(test_inner_sums)
{
    kas_kernel k = {0}; /* dy is a sum over taps */
    int x = kas_build_softmax(&k, kas_build_input(&k), 0, 1);
    x = kas_build_unfold_window(&k, x, KAS_AXIS_W, 3, 1);
    kas_build_fold(&k, KAS_OP_FOLD_AVG, x, 1);
    agree_rows("windows of a softmax", &k, 2);
    kas_program *p = program_of(&k, 64);
    assert_int_equal(times_in(p, row_kernel(p, true), "for (int v"), 1);
    kas_program_free(p);
    for (int norm = 0; norm < 2; norm++) {
        kas_kernel fold = {0}; /* x is an average of 4; of a norm the backward pass wants more */
        x = kas_build_group(&fold, kas_build_input(&fold), 0, 1);
        x = kas_build_fold(&fold, KAS_OP_FOLD_AVG, x, 0);
        x = kas_build_along(&fold, norm ? KAS_OP_NORM : KAS_OP_SOFTMAX, x, 0, 1);
        kas_build_fc(&fold, x, false, "C");
        p = program_of(&fold, 64);
        assert_int_equal(times_in(p, row_kernel(p, false), "for (int v"), 1);
        kas_program_free(p);
        agree_over(norm ? "norm of an average" : "softmax of an average", &fold, 1,
                   &(const uint32_t){64});
    }
}

/* Softmax or norm over dims [dim, dim_end) of [C, H, W], or with `grouped` of [4, C/4, H, W]. */
static kas_kernel along_kernel(kas_op op, bool grouped, int dim, int dim_end)
{
    kas_kernel k = {0};
    int x = kas_build_input(&k);
    if (grouped)
        x = kas_build_group(&k, x, 0, 1);
    kas_build_along(&k, op, x, dim, dim_end);
    return k;
}

/* A row over two dims, which few pixels have, is one kernel a pass as one over their product is. */
TEST(test_row_of_dims)
{
    kas_kernel k = along_kernel(KAS_OP_NORM, true, 0, 2);
    kas_build_fc(&k, 2, false, "C");
    kas_program *p = program_of(&k, 1024);
    double floor;
    assert_int_equal(row_kernels(p, p->forward, p->forwards, &floor), 1);
    assert_int_equal(row_kernels(p, p->backward, p->backwards, &floor), 1);
    kas_program_free(p);
    agree_over("norm over groups and their channels", &k, 1, (const uint32_t[]){1024});
}

static const struct column {
    kas_op op;
    bool grouped;
    int dim, dim_end, reduced; /* dims; elements, of channels and pixels of 6 x 7 */
} columns[] = {
    {KAS_OP_SOFTMAX, false, 1, 2, 6}, {KAS_OP_SOFTMAX, false, 2, 3, 7},
    {KAS_OP_SOFTMAX, true, 2, 4, 42}, {KAS_OP_SOFTMAX, true, 0, 1, 4},
    {KAS_OP_NORM, false, 1, 2, 6},    {KAS_OP_NORM, false, 1, 3, 42},
};
enum { COLUMNS = sizeof columns / sizeof *columns };

static kas_target pixels(uint32_t c, uint32_t h, uint32_t w)
{
    return make_target((setting){c, 1, 1, h, w, 1});
}

/* Kernels of a pass whose lanes walk columns; *floor: bytes of the last one. */
static int column_kernels(const kas_program *p, bool backward, double *floor)
{
    const kas_operation *op = backward ? p->backward : p->forward;
    int found = 0;
    for (int i = 0; i < (backward ? p->backwards : p->forwards); i++)
        if (op[i].kind == KAS_OPERATION_LAUNCH && times_in(p, &op[i], "KAS_COLUMN_LOADED(")) {
            *floor = op[i].bytes;
            found++;
        }
    return found;
}

/* Over H, W, both or leading channels lanes walk columns: one kernel a pass, which reads each
 * operand once, and of a norm writes the deviations that the other pass reads. */
TEST(test_columns)
{
    for (int i = 0; i < COLUMNS; i++) {
        const struct column *c = &columns[i];
        kas_kernel k = along_kernel(c->op, c->grouped, c->dim, c->dim_end);
        const kas_target target[2] = {pixels(64, 6, 7), pixels(76, 6, 7)};
        agree_targets("columns", &k, 2, target);
        kas_program *p = program_at(&k, target[0]);
        const double tensor = 4.0 * N * 64 * 6 * 7;
        const double kept =
            c->op == KAS_OP_NORM ? 2 * tensor / c->reduced : 0; /* mean, deviation */
        double forward = 0, backward = 0;
        assert_int_equal(column_kernels(p, false, &forward), 1);
        /* a gradient of groups is written without them */
        assert_int_equal(column_kernels(p, true, &backward), !c->grouped);
        assert_in_range(p->forwards, 1, 2); /* what the other pass reads is copied to Y */
        assert_true(forward == 2 * tensor + kept);
        if (!c->grouped)
            assert_true(backward == 3 * tensor + kept);
        kas_program_free(p);
    }
}

/* What a column keeps is held by registers: 16 bytes a turn, or one number a turn, or nothing, and
 * then few columns have kernels of their own, in stages. */
TEST(test_long_columns)
{
    static const struct {
        uint32_t h, w, c;
        int kernels, width, kept;
    } want[] = {
        {16, 2, 16, 2, 4, 1}, {17, 2, 16, 2, 1, 1},    {64, 2, 16, 2, 1, 1},
        {65, 2, 16, 6, 1, 0}, {65, 256, 128, 2, 4, 0},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        kas_kernel k = along_kernel(KAS_OP_SOFTMAX, false, 1, 2);
        kas_program *p = program_at(&k, pixels(want[i].c, want[i].h, want[i].w));
        double floor;
        assert_int_equal(p->forwards, want[i].kernels);
        assert_int_equal(column_kernels(p, false, &floor), want[i].kept);
        if (want[i].kernels == 2)
            assert_int_equal(p->forward[0].width, want[i].width);
        kas_program_free(p);
    }
    kas_kernel k = along_kernel(KAS_OP_NORM, false, 1, 2);
    const kas_target target[2] = {pixels(20, 40, 3), pixels(4096, 65, 2)};
    agree_targets("long columns in stages", &k, 2, target);
    linear_policy = KAS_LINEAR_CPU; /* there fewer columns are enough */
    agree_targets("long columns", &k, 2, target);
    linear_policy = KAS_LINEAR_GPU;
}

/* On a CPU the exponentials of a softmax that no column takes in are computed once: by one launch, whose
 * result two others read. */
TEST(test_kept_exponentials)
{
    kas_kernel k = along_kernel(KAS_OP_SOFTMAX, false, 1, 2);
    const kas_target target[2] = {pixels(20, 40, 3), pixels(4096, 65, 2)};
    linear_policy = KAS_LINEAR_CPU;
    kas_program *p = program_at(&k, target[0]);
    int launches = 0;
    for (int i = 0; i < p->forwards; i++)
        launches += memmem(p->source + p->forward[i].text, p->forward[i].text_size, "kas_exp(",
                           strlen("kas_exp(")) != NULL;
    assert_int_equal(launches, 1);
    kas_program_free(p);
    agree_targets("kept exponentials", &k, 2, target);
    linear_policy = KAS_LINEAR_GPU;
}

/* In numbers of 16 bits, and with an operand that holds a sum. */
TEST(test_fused_columns)
{
    kas_kernel k = {0};
    int x = kas_build_pool(&k, KAS_OP_POOL_AVG, kas_build_input(&k), KAS_AXIS_W, 3);
    x = kas_build_along(&k, KAS_OP_SOFTMAX, x, 1, 2);
    kas_build_elementwise(&k, KAS_OP_TANH, kas_build_along(&k, KAS_OP_NORM, x, 2, 3));
    const kas_target target = pixels(32, 6, 5);
    agree_targets("norm of a softmax of averages", &k, 1, &target);
    stored = KAS_BF16;
    kas_kernel plain = along_kernel(KAS_OP_SOFTMAX, false, 1, 2);
    agree_targets("softmax in bf16", &plain, 1, &target);
    stored = KAS_F32;
}

/* The gradient of scores is written transposed where a library product wants it so: it would read
 * across its rows, and keeps a kernel for what it reduces. */
TEST(test_across)
{
    kas_kernel k = {0};
    const int x = kas_build_input(&k);
    const int scores = kas_build_bmm(&k, x, x, KAS_TRANSPOSE_LHS, true);
    kas_build_bmm(&k, x, scores, 0, true);
    kas_program *p = program_at(&k, make_target((setting){16, 1, 1, 8, 8, 1}));
    for (int i = 0; i < p->backwards; i++) {
        double floor;
        if (row_kernels(p, &p->backward[i], 1, &floor))
            assert_true(p->backward[i].accessed.contiguous >= p->backward[i].accessed.all / 2);
    }
    kas_program_free(p);
}

/* What two kernels of a pass read stays a tensor of its own: here mean and deviation. */
TEST(test_two_readers)
{
    kas_kernel k = {0};
    const int x = kas_build_along(&k, KAS_OP_NORM, kas_build_input(&k), 0, 1);
    const int a = kas_build_fc(&k, kas_build_elementwise(&k, KAS_OP_TANH, x), false, "C");
    const int b = kas_build_fc(&k, kas_build_elementwise(&k, KAS_OP_ABS, x), false, "C");
    kas_build_broadcast(&k, KAS_OP_ADD, a, b);
    agree_rows("two maps of a norm", &k, 2);
    double floor;
    kas_program *p = program_of(&k, 64);
    assert_int_equal(row_kernels(p, p->forward, p->forwards, &floor), 0);
    kas_program_free(p);
}

RUN_TESTS(set_up, tear_down)

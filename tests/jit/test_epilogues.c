/* Epilogues: a kernel that writes what the network makes of the layer's output, against the output
 * itself (which the other tests hold against the reference) and the formulas in double. */
#include "agree_fixture.h"

#include <math.h>

#include "host/device/dtype.h"
#include "host/core/random.h"
#include "host/net/epilogues.h"
#include "host/reference/net/layers.h"

enum { N = 2, MOST_BUFFERS = 32, KINDS = KAS_ACTIVATION_GELU + 1 };

typedef struct setup {
    kas_program *program;
    kas_module *module;
    kas_loaded *loaded;
    void *memory[MOST_BUFFERS];
    double *host[MOST_BUFFERS]; /* of what is given */
    int elements[MOST_BUFFERS];
    double *y; /* of the kernel alone */
} setup;

/* Half of the last digit, relative. */
static double rounding_of(kas_dtype dtype)
{
    return ldexp(1, -kas_agree_bits(dtype));
}

static double draw(const kas_buffer *b, kas_rng *rng)
{
    const double normal = kas_rng_normal(rng);
    if (b->role == KAS_ROLE_WEIGHT)
        return 0.3 * normal;
    if (b->role == KAS_ROLE_GAIN)
        return 0.5;
    if (b->role == KAS_ROLE_NORM && (b->index == KAS_NORM_RSTD || b->index == KAS_NORM_GAMMA))
        return (b->index == KAS_NORM_GAMMA && normal < -1 ? -1 : 1) *
               (0.5 + 1.5 * kas_rng_unit(rng));
    return normal;
}

static void fill(setup *b, int i, kas_rng *rng)
{
    const kas_buffer *buffer = &b->program->buffer[i];
    const bool given = buffer->role == KAS_ROLE_X || buffer->role == KAS_ROLE_WEIGHT ||
                       buffer->role == KAS_ROLE_NORM || buffer->role == KAS_ROLE_RESIDUAL ||
                       buffer->role == KAS_ROLE_GAIN;
    b->elements[i] = (int)(buffer->bytes / kas_dtype_size(buffer->dtype));
    b->host[i] = malloc(sizeof(double) * (size_t)b->elements[i]);
    char *bits = malloc(buffer->bytes);
    assert_true(b->host[i] && bits);
    for (int k = 0; k < b->elements[i]; k++) {
        kas_dtype_put(bits, buffer->dtype, k, given ? draw(buffer, rng) : (double)NAN);
        b->host[i][k] = kas_dtype_get(bits, buffer->dtype, k);
    }
    OK(kas_mem_upload(device, b->memory[i], bits, buffer->bytes));
    free(bits);
}

static int buffer_of(const kas_program *p, kas_role role, int index)
{
    for (int i = 0; i < p->buffers; i++)
        if (p->buffer[i].role == role && p->buffer[i].index == index)
            return i;
    fail_msg("no buffer of role %d", (int)role);
    return -1;
}

/* ---- one program ----------------------------------------------------------------------------- */

static void open_setup(setup *b, const kas_kernel *kernel, const kas_target *target, int order,
                       const kas_epilogue *epilogue, int epilogues)
{
    kas_binding binding = make_binding(target);
    kas_splits_bind(kernel, &binding);
    const kas_program_options options = {
        .batch = N, .dtype = stored, .prefix = "k", .epilogue = epilogue, .epilogues = epilogues};
    char path[4096];
    *b = (setup){0};
    OK(kas_program_build(kernel, target, &binding, &options, &b->program));
    OK(kas_compile(compiler[order], b->program->source, path, NULL));
    OK(kas_module_load(device, path, &b->module));
    OK(kas_program_load(device, b->program, &b->module, &b->loaded));
    assert_true(b->program->buffers <= MOST_BUFFERS);
    kas_rng rng = kas_rng_make(3, KAS_PURPOSE_TEST, 5);
    for (int i = 0; i < b->program->buffers; i++) {
        OK(kas_mem_alloc(device, b->program->buffer[i].bytes, &b->memory[i]));
        fill(b, i, &rng);
    }
}

static void close_setup(setup *b)
{
    for (int i = 0; i < b->program->buffers; i++) {
        kas_mem_free(device, b->memory[i]);
        free(b->host[i]);
    }
    free(b->y);
    kas_loaded_free(b->loaded);
    kas_module_free(b->module);
    kas_program_free(b->program);
}

/* Y of the kernel alone (epilogue -1) or with an epilogue; NaN where nothing was written. */
static double *run(setup *b, int epilogue)
{
    const int at = buffer_of(b->program, KAS_ROLE_Y, 0);
    const kas_buffer *y = &b->program->buffer[at];
    kas_plan *plan;
    char *bits = malloc(y->bytes);
    double *values = malloc(sizeof *values * (size_t)b->elements[at]);
    assert_true(bits && values);
    for (int k = 0; k < b->elements[at]; k++)
        kas_dtype_put(bits, y->dtype, k, (double)NAN);
    OK(kas_mem_upload(device, b->memory[at], bits, y->bytes));
    OK(kas_plan_create(device, &plan));
    OK(epilogue < 0 ? kas_loaded_append(b->loaded, plan, false, b->memory)
                    : kas_loaded_append_epilogue(b->loaded, plan, epilogue, b->memory));
    OK(kas_plan_run(plan));
    OK(kas_mem_download(device, bits, b->memory[at], y->bytes));
    for (int k = 0; k < b->elements[at]; k++)
        values[k] = kas_dtype_get(bits, y->dtype, k);
    kas_plan_free(plan);
    free(bits);
    return values;
}

static double activation(kas_activation kind, double x)
{
    for (int op = 0; op < KAS_LAYER_OPS; op++)
        if (kind != KAS_ACTIVATION_NONE && kas_layer_activation((kas_layer_op)op) == kind)
            return kas_ref_activation((kas_layer_op)op, x);
    return x;
}

/* What must come out at an element, and how far off it may be: the kernel's own value is rounded
 * when it is stored, but not where the epilogue takes it. */
static double expected(const setup *b, int k, int channel, kas_epilogue epilogue, double *tolerance)
{
    double part[KAS_NORM_PARTS], size, y;
    for (int i = 0; i < KAS_NORM_PARTS; i++)
        part[i] = b->host[buffer_of(b->program, KAS_ROLE_NORM, i)][channel];
    const double slope = part[KAS_NORM_RSTD] * part[KAS_NORM_GAMMA];
    y = (b->y[k] - part[KAS_NORM_MEAN]) * slope + part[KAS_NORM_BETA];
    size = (fabs(b->y[k]) + fabs(part[KAS_NORM_MEAN])) * fabs(slope) + fabs(part[KAS_NORM_BETA]);
    if (epilogue.residual) {
        const double more = b->host[buffer_of(b->program, KAS_ROLE_RESIDUAL, 0)][k];
        y += more;
        size += fabs(more);
    }
    y = activation(epilogue.activation, y);
    *tolerance = 2e-6 * (1 + size);
    if (stored != KAS_F32)
        *tolerance += 1.2 * rounding_of(stored) * (fabs(b->y[k] * slope) + fabs(y)) + 1e-7;
    return y;
}

static void check_epilogue(setup *b, const char *name, int number, double *worst)
{
    const kas_target *t = &b->program->target;
    const kas_epilogue epilogue = b->program->epilogue[number];
    const int pitch = kas_pitch_of(stored, (int)t->c_out), pixels = (int)(N * t->h * t->w);
    double *found = run(b, number);
    for (int p = 0; p < pixels; p++)
        for (int c = 0; c < (int)t->c_out; c++) {
            double tolerance;
            const int k = p * pitch + c;
            const double wanted = expected(b, k, c, epilogue, &tolerance);
            const double off = fabs(found[k] - wanted) / tolerance;
            if (!(off <= 1))
                fail_msg("%s, activation %d%s, pixel %d, channel %d of %u: %.9g, expected %.9g "
                         "within %.2g",
                         name, (int)epilogue.activation, epilogue.residual ? " and a residual" : "",
                         p, c, t->c_out, found[k], wanted, tolerance);
            *worst = off > *worst ? off : *worst;
        }
    free(found);
}

/* Against the plain output, which the epilogues' kernels must leave right too. */
static void check(const char *name, const kas_kernel *kernel, const kas_target *target, int order,
                  const kas_epilogue *epilogue, int epilogues)
{
    setup b;
    double worst = 0;
    if (on_cpu())
        OK(kas_device_cpu_set_order(device, (kas_cpu_order)order));
    open_setup(&b, kernel, target, order, epilogue, epilogues);
    assert_int_equal(b.program->epilogues, epilogues);
    for (int i = 0; i < KAS_NORM_PARTS; i++)
        assert_int_equal(b.program->buffer[buffer_of(b.program, KAS_ROLE_NORM, i)].dtype, KAS_F32);
    b.y = run(&b, -1);
    for (int i = 0; i < epilogues; i++)
        check_epilogue(&b, name, i, &worst);
    print_message("%s, %u channels, order %d, %d epilogues: at most %.2f of the tolerance\n", name,
                  target->c_out, order, epilogues, worst);
    compared += epilogues;
    close_setup(&b);
}

/* Wide lanes and odd channels by turns; one row and several of them where there are rows. */
static const setting shapes[] = {{8, 1, 1, 5, 6, 3},   {7, 1, 1, 3, 5, 3},  {64, 1, 1, 3, 3, 3},
                                 {37, 1, 1, 3, 2, 3},  {32, 2, 3, 4, 3, 3}, {5, 3, 2, 2, 3, 3},
                                 {300, 1, 1, 1, 3, 1}, {12, 2, 1, 4, 3, 3}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* At three shapes from `first` on (KAS_TEST_FULL=1: at all), epilogues and the orders of lanes and
 * blocks in turn; compiling is what takes the time. */
static void check_shapes(const char *name, kas_kernel *kernel, int first)
{
    const int count = getenv("KAS_TEST_FULL") ? SHAPES : 3;
    OK(kas_kernel_infer(kernel));
    for (int k = 0; k < count; k++) {
        const int i = (first + k) % SHAPES;
        if (kernel->group_value[0] > 0 && shapes[i].c % kernel->group_value[0])
            continue;
        const kas_target target = make_target(shapes[i]);
        const kas_epilogue epilogue[2] = {{true, true, KAS_ACTIVATION_RELU},
                                          {true, i % 2, (kas_activation)(i % KINDS)}};
        const int order = compiler[i % 3] ? i % 3 : 0;
        check(name, kernel, &target, order, epilogue,
              i % 2 && i % KINDS == KAS_ACTIVATION_RELU ? 1 : 2);
    }
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* Every activation, with and without a residual, wide lanes and odd channels, in every dtype. */
TEST(every_epilogue)
{
    kas_kernel k = {0};
    kas_epilogue epilogue[2 * KINDS];
    kas_build_elementwise(&k, KAS_OP_TANH, kas_build_input(&k));
    OK(kas_kernel_infer(&k));
    for (int i = 0; i < 2 * KINDS; i++)
        epilogue[i] = (kas_epilogue){true, i % 2, (kas_activation)(i / 2)};
    for (int dtype = 0; dtype < KAS_DTYPES; dtype++)
        for (int i = 0; i < 2; i++) {
            const kas_target target = make_target(shapes[i]);
            stored = (kas_dtype)dtype;
            check("tanh", &k, &target, 0, epilogue, 2 * KINDS);
        }
    stored = KAS_F32;
}

TEST(kernels_of_all_sorts)
{
    kas_kernel map = {0}, window = {0}, soft = {0}, norm = {0}, folded = {0}, rows = {0};
    kas_build_elementwise(&map, KAS_OP_RELU, kas_build_fc(&map, kas_build_input(&map), false, "C"));
    check_shapes("map", &map, 0);
    int x = kas_build_input(&window);
    x = kas_build_fc(
        &window,
        kas_build_unfold(&window, kas_build_group_all(&window, x, 0), KAS_AXIS_H | KAS_AXIS_W),
        true, "C");
    check_shapes("depthwise", &window, 5);
    kas_build_softmax(&soft, kas_build_input(&soft), 0, 1); /* a row, from 16 channels on */
    check_shapes("softmax", &soft, 2);
    kas_build_elementwise(&norm, KAS_OP_SIGMOID,
                          kas_build_along(&norm, KAS_OP_NORM, kas_build_input(&norm), 0, 1));
    check_shapes("norm", &norm, 4);
    /* several rows in a pixel */
    rows.group_value[0] = 2;
    kas_build_softmax(&rows, kas_build_group(&rows, kas_build_input(&rows), 0, 0), 1, 2);
    check_shapes("grouped softmax", &rows, 2);
    x = kas_build_input(&folded);
    kas_build_broadcast(&folded, KAS_OP_MUL, kas_build_fold(&folded, KAS_OP_FOLD_AVG, x, 2), x);
    check_shapes("fold", &folded, 6);
}

TEST(sixteen_bits)
{
    for (int dtype = KAS_BF16; dtype < KAS_DTYPES; dtype++) {
        kas_kernel k = {0};
        const int x = kas_build_input(&k);
        stored = (kas_dtype)dtype;
        kas_build_broadcast(&k, KAS_OP_ADD, kas_build_softmax(&k, x, 0, 1), x);
        check_shapes(dtype == KAS_BF16 ? "softmax, bf16" : "softmax, float16", &k, 1 + dtype);
    }
    stored = KAS_F32;
}

static kas_program *build(kas_kernel *k, bool norm)
{
    const kas_target target = make_target(shapes[0]);
    const kas_binding binding = make_binding(&target);
    const kas_epilogue epilogue[3] = {{norm, false, KAS_ACTIVATION_RELU},
                                      {norm, true, KAS_ACTIVATION_NONE},
                                      {norm, false, KAS_ACTIVATION_RELU}};
    const kas_program_options options = {
        .batch = N, .prefix = "k", .epilogue = epilogue, .epilogues = 3};
    kas_program *p;
    OK(kas_kernel_infer(k));
    OK(kas_program_build(k, &target, &binding, &options, &p));
    return p;
}

/* Each epilogue once; none where a library writes Y, or without a batch norm. */
TEST(which_epilogues_there_are)
{
    kas_kernel k = {0}, library = {0};
    kas_build_elementwise(&k, KAS_OP_TANH, kas_build_input(&k));
    kas_program *p = build(&k, true);
    assert_int_equal(p->epilogues, 2);
    assert_int_equal(p->written_by, 0);
    assert_int_equal(kas_program_epilogue(p, (kas_epilogue){true, true, KAS_ACTIVATION_NONE}), 1);
    assert_int_equal(kas_program_epilogue(p, (kas_epilogue){true, true, KAS_ACTIVATION_RELU}), -1);
    assert_int_equal(kas_program_epilogue(p, (kas_epilogue){0}), -1);
    /* X read once, Y written once, the residual and four vectors read once */
    const double tensor = 4.0 * N * 5 * 6 * 8, vectors = 4.0 * 4 * 8;
    assert_true(p->epilogue_kernel[0].bytes == 2 * tensor + vectors);
    assert_true(p->epilogue_kernel[1].bytes == 3 * tensor + vectors);
    kas_program_free(p);
    p = build(&k, false);
    assert_int_equal(p->epilogues, 0);
    kas_program_free(p);
    kas_build_fc(&library,
                 kas_build_unfold(&library, kas_build_input(&library), KAS_AXIS_H | KAS_AXIS_W),
                 false, "C");
    p = build(&library, true);
    assert_int_equal(p->forwards, 1);
    assert_int_equal(p->forward[0].kind, KAS_OPERATION_CONV);
    assert_int_equal(p->epilogues, 0);
    kas_program_free(p);
}

RUN_TESTS(set_up, tear_down)

/* Which linear maps are better off as loops of our own, which as a library's convolution?  The rule
 * is in src/jit/lower/fc_plan.c; this measures both ways of the maps for which it could be either.
 *
 *     build/bench/bench_maps [--device D] [--threads N] [--batch N] [--rounds N] [--number P]
 *                            [--map TEXT]      (those whose name has it)
 *
 * One JSON object a line for each map at each size of ResNet-18 on 32x32 images, inference and
 * training (forward and backward): seconds of both ways, which take turns, and how many times the
 * library's time our own loops take, medians and quartiles; the same of the processor time of the
 * process, which others on the machine disturb less (it says nothing of a GPU); and the way that
 * the rule takes.  What stands around the map counts as it runs in a network: the library reads the
 * result of a shift from memory, a direct kernel reads through it. */
#include <stdio.h>
#include <string.h>

#include "options.h"
#include "turns.h"
#include "host/bench/programs.h"
#include "host/report/line.h"
#include "support/build.h"

enum { DIRECT, LIBRARY, WAYS };
static const kas_linear_policy way[WAYS] = {KAS_LINEAR_DIRECT, KAS_LINEAR_LIBRARY};
static const char *const way_names[WAYS] = {"direct", "library"};

typedef struct options {
    const char *device, *number, *map;
    int threads, batch, rounds;
} options;

typedef struct bench {
    const options *o;
    kas_device *device;
    kas_dtype dtype;
} bench;

/* ---- the maps -------------------------------------------------------------------------------- */

/* Of `width` channels a group; 0: all channels in one. */
typedef struct map {
    const char *name;
    int axes, shift;
    uint32_t width;
} map;

enum { H = KAS_AXIS_H, HW = KAS_AXIS_H | KAS_AXIS_W };
static const map maps[] = {
    {"depthwise KxK", HW, 0, 1},
    {"KxK, groups of 2", HW, 0, 2},
    {"KxK, groups of 4", HW, 0, 4},
    {"KxK, groups of 8", HW, 0, 8},
    {"KxK, groups of 16", HW, 0, 16},
    {"depthwise Kx1", H, 0, 1},
    {"Kx1, groups of 4", H, 0, 4},
    {"Kx1, groups of 16", H, 0, 16},
    {"Kx1", H, 0, 0},
    {"1x1, groups of 4", 0, 0, 4},
    {"1x1, groups of 16", 0, 0, 16},
    {"shift, 1x1, groups of 4", 0, 1, 4},
    {"shift, 1x1, groups of 16", 0, 1, 16},
    {"shift, 1x1", 0, 1, 0},
};
static const struct {
    uint32_t channels, side;
} sizes[] = {{64, 32}, {128, 16}, {256, 8}, {512, 4}};
enum { MAPS = sizeof maps / sizeof *maps, SIZES = sizeof sizes / sizeof *sizes };

static kas_status make_kernel(const map *m, uint32_t channels, kas_kernel *k)
{
    *k = (kas_kernel){.group_value = {m->width > 1 ? channels / m->width : 0}};
    int x = kas_build_input(k);
    if (m->shift)
        x = kas_build_shift(k, x, KAS_AXIS_H, m->shift);
    if (m->width == 1)
        x = kas_build_group_all(k, x, 0);
    else if (m->width)
        x = kas_build_group(k, x, 0, 0);
    if (m->axes)
        x = kas_build_unfold(k, x, m->axes);
    x = kas_build_fc(k, x, m->width > 0, "C");
    return x < 0 ? KAS_FAILURE : kas_kernel_infer(k);
}

/* ---- measuring ------------------------------------------------------------------------------- */

static kas_status run(void *context, int w, double *seconds)
{
    return kas_bench_programs_run(context, w, seconds);
}

static bool has_convolution(const kas_program *p)
{
    for (int i = 0; i < p->forwards; i++)
        if (p->forward[i].kind == KAS_OPERATION_CONV)
            return true;
    return false;
}

static kas_status measure(bench *b, const kas_kernel *kernel, const kas_target *target,
                          bool training, kas_linear_policy *chosen, turns *t)
{
    const kas_binding binding = kas_target_binding(kernel, target);
    kas_program_options options = {.batch = b->o->batch,
                                   .training = training,
                                   .dtype = b->dtype,
                                   .linear_policy =
                                       kas_linear_policy_of(kas_device_get_info(b->device)->arch),
                                   .prefix = "r"};
    kas_program *program[WAYS] = {NULL}, *ruled = NULL;
    kas_bench_programs *programs = NULL;
    kas_status status = kas_program_build(kernel, target, &binding, &options, &ruled);
    for (int w = 0; w < WAYS && status == KAS_OK; w++) {
        options.prefix = w == DIRECT ? "d" : "l";
        options.linear_policy = way[w];
        status = kas_program_build(kernel, target, &binding, &options, &program[w]);
    }
    if (status == KAS_OK)
        status = kas_bench_programs_create(b->device, program, WAYS, NULL, &programs);
    if (status == KAS_OK)
        status = turns_take(t, b->o->rounds, run, programs);
    if (status == KAS_OK)
        *chosen = has_convolution(ruled) ? KAS_LINEAR_LIBRARY : KAS_LINEAR_DIRECT;
    kas_bench_programs_free(programs);
    for (int w = 0; w < WAYS; w++)
        kas_program_free(program[w]);
    kas_program_free(ruled);
    return status;
}

static kas_status put(const bench *b, const map *m, const kas_target *t, bool training,
                      kas_linear_policy chosen, turns *figures)
{
    kas_buf out = {0};
    kas_line_begin(&out);
    kas_line_text(&out, "bench", "maps");
    kas_line_text(&out, "map", m->name);
    kas_line_int(&out, "channels", t->c);
    kas_line_int(&out, "side", t->h);
    kas_line_text(&out, "phase", training ? "training" : "inference");
    kas_line_text(&out, "number", b->o->number);
    kas_line_int(&out, "batch", b->o->batch);
    kas_line_int(&out, "threads", b->o->threads);
    kas_line_int(&out, "rounds", b->o->rounds);
    turns_put(&out, figures, way_names);
    kas_line_text(&out, "chosen", chosen == KAS_LINEAR_DIRECT ? "direct" : "library");
    return turns_print(&out);
}

static kas_status run_map(bench *b, const map *m, int size)
{
    const kas_target target =
        kas_target_plain(sizes[size].channels, sizes[size].side, sizes[size].side, 3);
    kas_kernel kernel;
    KAS_TRY(make_kernel(m, target.c, &kernel));
    for (int training = 0; training < 2; training++) {
        turns t = {.ratio = {0}};
        kas_linear_policy chosen;
        kas_status status = measure(b, &kernel, &target, training, &chosen, &t);
        if (status == KAS_OK)
            status = put(b, m, &target, training, chosen, &t);
        turns_free(&t);
        KAS_TRY(status);
    }
    return KAS_OK;
}

/* ---- set-up ---------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    options o = {
        .device = "cpu", .number = "fp32", .map = "", .threads = 1, .batch = 32, .rounds = 15};
    const bench_option options[] = {{"--threads", &o.threads, NULL},
                                    {"--batch", &o.batch, NULL},
                                    {"--rounds", &o.rounds, NULL},
                                    {"--device", NULL, &o.device},
                                    {"--number", NULL, &o.number},
                                    {"--map", NULL, &o.map},
                                    {NULL, NULL, NULL}};
    bench b = {.o = &o};
    int first;
    kas_status status = bench_options_read(argc, argv, options, &first);
    if (status == KAS_OK)
        status = turns_number(o.number, &b.dtype);
    if (status == KAS_OK)
        status = kas_device_open(o.device, o.threads, &b.device);
    for (int m = 0; m < MAPS && status == KAS_OK; m++)
        for (int s = 0; s < SIZES && status == KAS_OK && strstr(maps[m].name, o.map); s++)
            status = run_map(&b, &maps[m], s);
    if (b.device)
        kas_device_close(b.device);
    if (status != KAS_OK)
        fprintf(stderr, "bench_maps: %s\n", kas_error());
    return status == KAS_OK ? 0 : 1;
}

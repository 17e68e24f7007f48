/* Compares kernels on the device with the float64 reference, for the tests of the lowering. */
#ifndef KAS_TESTS_JIT_AGREE_FIXTURE_H
#define KAS_TESTS_JIT_AGREE_FIXTURE_H

#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/check/agree.h"
#include "host/device/cpu/device_cpu.h"
#include "support/build.h"
#include "host/space/split.h"
#include "support/sanitized.h"
#include "support/sizes.h"

static kas_device *device;
static kas_compiler *compiler[3]; /* lanes ascending, descending, shuffled; one on a GPU */
static int compared, redrawn, ill_conditioned;
static kas_dtype stored; /* dtype of the programs */
static struct {
    double forward, gradient, numeric;
} worst[KAS_DTYPES]; /* of the programs of each dtype */

static bool on_cpu(void)
{
    return kas_device_get_info(device)->kind == KAS_DEVICE_CPU;
}

static inline int set_up(void **state)
{
    (void)state;
    const char *spec = getenv("DEVICE");
    if (kas_device_open(spec && *spec ? spec : "cpu", 2, &device) != KAS_OK) {
        printf("%s\n", kas_error());
        return 1;
    }
    static const char *const order[3] = {"", "+order1", "+order2"};
    for (int i = 0; i < (on_cpu() ? 3 : 1); i++) {
        char arch[64];
        snprintf(arch, sizeof arch, "%s%s", kas_device_get_info(device)->arch, order[i]);
        if (kas_compiler_open(arch, NULL, &compiler[i]) != KAS_OK) {
            printf("%s\n", kas_error());
            return 1;
        }
    }
    return 0;
}

static inline int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        if (compiler[i])
            kas_compiler_close(compiler[i]);
    kas_device_close(device);
    printf("%d comparisons, %d with inputs drawn again\n", compared, redrawn);
    printf("largest error, relative to the tensor's largest value:\n");
    for (int d = 0; d < KAS_DTYPES; d++)
        if (worst[d].forward > 0)
            printf("%s: forward %.3g (tolerance %g), gradients %.3g (tolerance %g), reference "
                   "against finite differences %.3g (tolerance %g)\n",
                   kas_dtype_names[d], worst[d].forward, kas_agree_tolerance((kas_dtype)d, false),
                   worst[d].gradient, kas_agree_tolerance((kas_dtype)d, true), worst[d].numeric,
                   KAS_AGREE_NUMERIC);
    return 0;
}

/* ---- targets --------------------------------------------------------------------------------- */

typedef struct setting {
    uint32_t c, parts_in, parts_out, h, w, k;
} setting;

static kas_target make_target(setting s)
{
    return (kas_target)TARGET_OF("test", s.c * s.parts_in, s.c * s.parts_out, s.c, s.h, s.w, s.k,
                                 1);
}

/* G0 = 2, G1 = 4; every variable 8. */
static kas_binding make_binding(const kas_target *t)
{
    kas_binding b = {{0}};
    b.value[KAS_SYM_C] = t->c;
    b.value[KAS_SYM_H] = t->h;
    b.value[KAS_SYM_W] = t->w;
    b.value[KAS_SYM_KH] = t->kernel_h;
    b.value[KAS_SYM_KW] = t->kernel_w;
    b.value[KAS_SYM_G0] = 2;
    b.value[KAS_SYM_G0 + 1] = 4;
    for (int i = 0; i < KAS_MAX_VARS; i++)
        b.value[KAS_SYM_X0 + i] = 8;
    return b;
}

static const setting settings[] = {
    {8, 1, 1, 5, 6, 3},   /* odd height, height and width differ */
    {12, 2, 1, 4, 3, 3},  /* two parts in */
    {8, 1, 3, 3, 5, 5},   /* three parts out */
    {16, 2, 2, 4, 4, 1},  /* both; 1x1 */
    {20, 1, 1, 7, 1, 3},  /* width 1; 20 channels */
    {8, 3, 2, 1, 1, 3},   /* a single pixel */
    {8, 1, 2, 28, 30, 3}, /* sums long enough for partial sums and for loops outside the lanes */
};
enum { LARGE = 6, SETTINGS = LARGE }; /* the large one is used only where it is asked for */

static void record(const kas_agreement *a, const char *name, const kas_target *t)
{
    compared++;
    redrawn += a->draws > 1;
    /* A 16-bit dtype rounds so much that kernels of several maps may need the second measure. */
    ill_conditioned += a->verdict == KAS_AGREE_ILL_CONDITIONED;
    if (a->verdict != KAS_AGREE_OK &&
        (stored == KAS_F32 || a->verdict != KAS_AGREE_ILL_CONDITIONED))
        fail_msg("%s at %ux%ux%u, parts %u -> %u, kernel %u: errors %.3g forward, %.3g dx, %.3g "
                 "dweight, %.3g finite differences",
                 name, t->c, t->h, t->w, t->parts_in, t->parts_out, t->kernel_h, a->forward, a->dx,
                 a->dweight, a->numeric);
    worst[stored].forward = fmax(worst[stored].forward, a->forward);
    worst[stored].gradient = fmax(worst[stored].gradient, fmax(a->dx, a->dweight));
    worst[stored].numeric = fmax(worst[stored].numeric, a->numeric);
}

static bool whole_numbers; /* for x: see kas_agree_options */
static kas_linear_policy linear_policy;
static float the_gain; /* of the output at every target; 0: none is given */

static int compare(const char *name, const kas_kernel *kernel, int order, const int *setting,
                   int count)
{
    kas_target target[SETTINGS];
    kas_binding binding[SETTINGS];
    kas_agreement result[SETTINGS];
    float gain[SETTINGS];
    const int more = 16 / (int)kas_dtype_size(stored); /* pieces begin on multiples of 16 bytes */
    const kas_agree_options options = {.batch = 2 + order,
                                       .seed = 1,
                                       .directions = order == 0 && !SANITIZED ? 2 : 0,
                                       .whole = whole_numbers,
                                       .pitch_more = order == 1 ? more : 0,
                                       .dtype = stored,
                                       .linear_policy = linear_policy,
                                       .gain = the_gain != 0 ? gain : NULL};
    for (int i = 0; i < count; i++) {
        gain[i] = the_gain;
        target[i] = make_target(settings[setting[i]]);
        binding[i] = make_binding(&target[i]);
        kas_splits_bind(kernel, &binding[i]);
    }
    if (on_cpu())
        OK(kas_device_cpu_set_order(device, (kas_cpu_order)order));
    if (kas_agree(device, compiler[order], kernel, target, binding, count, &options, result) !=
        KAS_OK)
        fail_msg("%s: %s", name, kas_error());
    for (int i = 0; i < count; i++)
        record(&result[i], name, &target[i]);
    return result[0].convolutions;
}

/* Compares a kernel at one setting in turn, and every other kernel also in another order of blocks
 * and lanes, because compiling takes the time; at all settings and in all orders with
 * KAS_TEST_FULL=1. Under sanitizers in one order, and without finite differences. Returns the number
 * of convolutions. */
static inline int agree(const char *name, kas_kernel *kernel)
{
    static const int all[SETTINGS] = {0, 1, 2, 3, 4, 5};
    static int turn;
    kernel->group_value[0] = 2;
    kernel->group_value[1] = 4;
    if (kas_kernel_infer(kernel) != KAS_OK)
        fail_msg("%s: %s", name, kas_error());
    const bool full = getenv("KAS_TEST_FULL") != NULL;
    const int one = turn % SETTINGS, other = (turn + 3) % SETTINGS, order = turn % 4 / 2 + 1;
    const bool orders = turn++ % 2 == 0 && !SANITIZED;
    for (int i = 1; i < 3 && compiler[i]; i++)
        if (full || (orders && i == order))
            compare(name, kernel, i, full ? all : &other, full ? SETTINGS : 1);
    return compare(name, kernel, 0, full ? all : &one, full ? SETTINGS : 1);
}

/* The same, and at the large setting in two orders. */
static inline void agree_large(const char *name, kas_kernel *kernel)
{
    static const int large = LARGE;
    agree(name, kernel);
    compare(name, kernel, 0, &large, 1);
    if (compiler[2] && !SANITIZED)
        compare(name, kernel, 2, &large, 1);
}

#endif

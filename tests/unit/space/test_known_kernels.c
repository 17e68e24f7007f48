/* Every file of kernels/: its published figures, and that the sampler's rules can make it. */
#include "support/test.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/check/plain.h"
#include "host/space/commute.h"
#include "support/accept.h"
#include "host/space/file/kernel_json.h"
#include "host/space/known/known.h"

static const kas_target targets[] = {
    KAS_TARGET_PLAIN("a", 64, 32, 32, 3),
    KAS_TARGET_PLAIN("b", 128, 16, 16, 3),
};
enum { TARGETS = 2 };

static void read_file(const char *folder, const char *name, kas_kernel *k)
{
    char path[192];
    snprintf(path, sizeof path, "%s/%s.json", folder, name);
    OK(kas_kernel_read_file(path, k));
}

/* ---- published figures ----------------------------------------------------------------------- */

/* FLOPs per image and parameters at one layer; `digits` of them are published. 0 = not published.
 * Element-wise primitives count here and not in the papers: where a kernel has any, FLOPs are left
 * out. */
typedef struct figure {
    const char *kernel;
    uint32_t c, side, k, g, x0, x1;
    double flops, params;
    double tolerance; /* relative: half a unit in the last published digit */
    const char *source;
} figure;

static const figure figures[] = {
    {"conv", 512, 14, 3, 0, 0, 0, 462e6, 2.36e6, 2.2e-3, "MobileNets (Howard 2017), Table 3"},
    {"depthwise_separable", 512, 14, 3, 0, 0, 0, 52.3e6, 0.27e6, 1.9e-2,
     "MobileNets (Howard 2017), Table 3"},
    {"bottleneck", 256, 56, 3, 0, 0, 0, 0, 69632, 0,
     "ResNeXt (Xie 2017), section 3.4: 256*64 + 3*3*64*64 + 64*256"},
    {"residual", 256, 56, 3, 0, 64, 64, 0, 69632, 0, "the same block, its shortcut included"},
    {"group_conv", 128, 56, 3, 32, 0, 0, 0, 4608, 0,
     "ResNeXt (Xie 2017), section 3.4: C*(3*3*d*d) for C = 32, d = 4"},
    {"spatial_separable", 64, 28, 3, 0, 64, 0, 2.0 / 3 * 64 * 64 * 9 * 28 * 28,
     2.0 / 3 * 64 * 64 * 9, 1e-12,
     "Inception-v3 (Szegedy 2016), section 3.2: 33% cheaper than 3x3 at equal widths"},
    {"squeeze_excite", 256, 56, 3, 0, 16, 0, 0, 256 * 256 * 9 + 2 * 256 * 256 / 16.0, 0,
     "Squeeze-and-excitation (Hu 2018), section 4: 2*C*C/r more, r = 16"},
    {"involution", 256, 56, 7, 16, 64, 0, 0, (256.0 * 256 + 7 * 7 * 16 * 256) / 4, 0,
     "Involution (Li 2021), section 3.1: (C*C + K*K*G*C)/r, r = 4"},
    {"nas_pte_1", 64, 56, 3, 0, 0, 0, 0.5 * 9 * 64 * 64 * 56 * 56, 9 * 64 * 64, 0,
     "NAS-PTE, equation 3: each of 2 bands has half of the convolution's weights"},
    {"nas_pte_1_bands", 64, 56, 3, 0, 0, 0, 9.0 * 64 * 64 * 56 * 56, 2 * 9 * 64 * 64, 0,
     "each of 2 bands has the convolution's weights"},
    {"nas_pte_2", 64, 56, 3, 0, 0, 0, 0, 9 * (16 * 64 + 48 * 48 / 2.0), 0,
     "NAS-PTE, equations 1 and 3: 16 full outputs, 48 of 48 in 2 groups"},
    {"nas_pte_3", 64, 56, 3, 0, 0, 0, 0.375 * 9 * 64 * 64 * 56 * 56, 0.375 * 9 * 64 * 64, 0,
     "NAS-PTE, equation 3: half of the outputs at 1/2, half at 1/4"},
    {"depthwise", 1, 1, 3, 0, 0, 0, 9, 9, 0, "Canvas, Figure 8: unfold on both dims"},
    {"canvas_figure8", 1, 1, 3, 0, 0, 0, 4, 3, 0, "Canvas, Figure 8: unfold and shift"},
};

TEST(test_published_figures)
{
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        const figure *f = &figures[i];
        kas_kernel k;
        kas_cost cost;
        const kas_target layer = {
            .c = f->c, .h = f->side, .w = f->side, .kernel_h = f->k, .kernel_w = f->k};
        read_file("kernels", f->kernel, &k);
        if (f->g)
            k.group_value[0] = f->g;
        kas_binding binding = kas_target_binding(&k, &layer);
        binding.value[KAS_SYM_X0] = f->x0;
        binding.value[KAS_SYM_X0 + 1] = f->x1;
        assert_int_equal(kas_kernel_cost(&k, &binding, &cost), KAS_OK);
        const bool flops = f->flops == 0 || fabs(cost.flops / f->flops - 1) <= f->tolerance;
        const bool params = fabs(cost.params / f->params - 1) <= f->tolerance;
        if (!flops || !params)
            fail_msg("%s: %.0f FLOPs, %.0f parameters; published (%s): %.0f, %.0f", f->kernel,
                     cost.flops, cost.params, f->source, f->flops, f->params);
    }
}

/* ---- every file ------------------------------------------------------------------------------ */

static int is_json(const struct dirent *entry)
{
    return strstr(entry->d_name, ".json") != NULL;
}

/* Runs `look` on every file of a folder. */
static void each_kernel(const char *folder,
                        void (*look)(const char *name, const kas_kernel *kernel))
{
    struct dirent **list;
    const int count = scandir(folder, &list, is_json, alphasort);
    assert_true(count > 3);
    for (int i = 0; i < count; i++) {
        kas_kernel k;
        char name[128];
        snprintf(name, sizeof name, "%.*s", (int)(strlen(list[i]->d_name) - 5), list[i]->d_name);
        read_file(folder, name, &k);
        look(name, &k);
        free(list[i]);
    }
    free(list);
}

static void must_be_legal(const char *name, const kas_kernel *kernel)
{
    const kas_budget budget = {0};
    kas_solution solution;
    if (kas_solve(kernel, targets, TARGETS, &budget, &solution) != KAS_OK)
        fail_msg("%s: %s", name, kas_error());
    if (kas_plain_check(kernel, targets, TARGETS, &budget, &solution) != KAS_OK)
        fail_msg("%s: %s", name, kas_error());
    kas_solution_free(&solution);
}

TEST(test_all_are_legal)
{
    each_kernel("kernels", must_be_legal);
    each_kernel("tests/kernels", must_be_legal); /* every other primitive */
}

static void must_be_accepted(const char *name, const kas_kernel *kernel)
{
    kas_sample_options options = kas_sample_defaults();
    kas_buf reason = {0};
    if (strncmp(name, "nas_pte_", 8) == 0)
        return; /* of the other space: test_nas_pte.c */
    options.min_primitives = 1;
    options.max_primitives = 24;
    options.spatial_weights = strcmp(name, "canvas_kernel_a") == 0; /* off unless asked for */
    if (kas_sampler_accepts(kernel, targets, TARGETS, &options, &reason) != KAS_OK)
        fail_msg("%s: %s", name, kas_buf_text(&reason));
    kas_buf_free(&reason);
}

TEST(test_the_sampler_makes_all)
{
    each_kernel("kernels", must_be_accepted);
}

/* Checks that a file of this text is taken for the known kernel `expected`; NULL: for none. */
static void assert_known_as(const kas_assignment *file, const char *expected)
{
    char hash[KAS_NAME_SIZE];
    kas_buf text = {0};
    assert_int_equal(kas_assignment_name(file, hash), KAS_OK);
    assert_int_equal(kas_assignment_write_json(file, &text), KAS_OK);
    const char *found = kas_known_as(hash, kas_buf_text(&text));
    if (!expected != !found || (expected && strcmp(found, expected) != 0))
        fail_msg("%s is known as %s, expected %s", hash, found ? found : "nothing",
                 expected ? expected : "nothing");
    kas_buf_free(&text);
}

/* A kernel is known by what it is, also where it does not replace every layer. */
TEST(known_by_their_names)
{
    kas_kernel kernel[2];
    char layer[2][KAS_ASSIGNED_NAME] = {"a", "b"};
    int kernel_of[2] = {KAS_KEPT, 0};
    read_file("kernels", "shift_conv", &kernel[0]);
    assert_int_equal(kas_kernel_canonicalize_unordered(&kernel[0], &kernel[0]), KAS_OK);
    kas_assignment file = {.kernels = 1, .kernel = kernel};
    assert_known_as(&file, "shift_conv");
    file.layers = 2;
    file.layer = layer;
    file.kernel_of = kernel_of;
    assert_known_as(&file, "shift_conv");
    read_file("kernels", "group_conv", &kernel[1]);
    assert_int_equal(kas_kernel_canonicalize_unordered(&kernel[1], &kernel[1]), KAS_OK);
    file.kernels = 2;
    kernel_of[0] = 1;
    assert_known_as(&file, NULL); /* nobody has put these two together */
    assert_null(kas_known_as("0123456789abcdef", "{}"));
    assert_null(kas_known_as("0123456789abcdef", NULL));
}

RUN_TESTS()

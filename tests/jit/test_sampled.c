/* Sampled kernels at the shapes of a network: the device against the float64 reference, the
 * reference against finite differences, and NVRTC.
 *
 * In `make test` a few kernels at two shapes of ResNet-20 each, one of them with other instances.
 * KAS_TEST_KERNELS=300 checks that many at every shape of ResNet-18 (`kas-gpu check --sampled 300
 * --input 3x8x8 --nvrtc` is the same with a line for each). */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/check/agree.h"
#include "host/net/targets.h"
#include "host/reference/kernel/reference.h"
#include "host/space/sample/sampler.h"
#include "support/sanitized.h"

enum { FEW = FEWER_IF_SANITIZED(12), MAX_SHAPES = 64 };

static int wanted_kernels(void)
{
    const char *text = getenv("KAS_TEST_KERNELS");
    return text && atoi(text) > 0 ? atoi(text) : FEW;
}

/* Targets of different shape. */
static int shapes_of(const kas_target *target, int count, int *first)
{
    int shapes = 0;
    for (int t = 0; t < count && shapes < MAX_SHAPES; t++) {
        bool seen = false;
        for (int i = 0; i < shapes; i++) {
            const kas_target *a = &target[first[i]], *b = &target[t];
            seen |= a->c_in == b->c_in && a->c_out == b->c_out && a->h == b->h && a->w == b->w &&
                    a->kernel_h == b->kernel_h && a->kernel_w == b->kernel_w;
        }
        if (!seen)
            first[shapes++] = t;
    }
    return shapes;
}

typedef struct fixture {
    kas_net *net;
    kas_target *target;
    int count, shape[MAX_SHAPES], shapes;
    kas_sampler *sampler;
    kas_device *device;
    kas_compiler *compiler;
} fixture;

static void open_fixture(fixture *f, bool all)
{
    const char *spec = getenv("DEVICE");
    kas_sample_options options = kas_sample_defaults();
    options.seed = 11;
    *f = (fixture){0};
    OK(kas_net_build(all ? "resnet18" : "resnet20", 8, 8, 3, 10, &f->net));
    OK(kas_net_targets(f->net, NULL, &f->target, &f->count));
    f->shapes = shapes_of(f->target, f->count, f->shape);
    OK(kas_sampler_create(&options, f->target, f->count, &f->sampler));
    OK(kas_device_open(spec && *spec ? spec : "cpu", 2, &f->device));
    OK(kas_compiler_open(kas_device_get_info(f->device)->arch, NULL, &f->compiler));
}

static void close_fixture(fixture *f)
{
    kas_compiler_close(f->compiler);
    kas_device_close(f->device);
    kas_sampler_free(f->sampler);
    free(f->target);
    kas_net_free(f->net);
}

static int pick_shapes(const fixture *f, const kas_sample *s, bool all, int k, kas_target *target,
                       kas_binding *binding)
{
    const int count = all ? f->shapes : 2;
    for (int i = 0; i < count; i++) {
        const int t = f->shape[all ? i : (k + 2 * i) % f->shapes];
        target[i] = f->target[t];
        binding[i] = s->replacement.solution.binding[t];
    }
    /* No network here has channels of which neither divides the other; DenseNet's do. */
    kas_target *last = &target[count - 1];
    last->parts_in = 1 + (uint32_t)(k % 3);
    last->parts_out = 1 + (uint32_t)(k % 4);
    last->c_in = last->c * last->parts_in;
    last->c_out = last->c * last->parts_out;
    return count;
}

/* As a search does: of an output that cancels to nothing only rounding is left to compare. */
static bool passes_screen(const kas_kernel *kernel, const kas_target *target,
                          const kas_binding *binding, int count)
{
    for (int i = 0; i < count; i++) {
        double deviation;
        OK(kas_reference_output_deviation(kernel, &target[i], &binding[i], 2, 5, &deviation));
        if (!(deviation >= KAS_DEVIATION_LOW && deviation <= KAS_DEVIATION_HIGH))
            return false;
    }
    return true;
}

static double larger(double a, double b)
{
    return b > a ? b : a;
}

TEST(test_agreement)
{
    fixture f;
    const int kernels = wanted_kernels();
    const bool all = kernels > FEW;
    kas_agree_options options = {.batch = 2, .seed = 5, .directions = SANITIZED ? 0 : 1};
    int comparisons = 0, redrawn = 0, screened = 0, ill_conditioned = 0;
    double forward = 0, gradient = 0, numeric = 0;
    open_fixture(&f, all);
    for (int k = 0; k < kernels; k++) {
        kas_sample s;
        kas_target target[MAX_SHAPES];
        kas_binding binding[MAX_SHAPES];
        kas_agreement result[MAX_SHAPES];
        OK(kas_sampler_next(f.sampler, 0, &s));
        const int count = pick_shapes(&f, &s, all, k, target, binding);
        if (!passes_screen(s.replacement.kernel, target, binding, count)) {
            screened++;
            k--;
            kas_sample_free(&s);
            continue;
        }
        options.linear_policy = k % 2 ? KAS_LINEAR_CPU : KAS_LINEAR_GPU;
        if (kas_agree(f.device, f.compiler, s.replacement.kernel, target, binding, count, &options,
                      result) != KAS_OK)
            fail_msg("kernel %s: %s", s.name, kas_error());
        for (int i = 0; i < count; i++) {
            comparisons++;
            redrawn += result[i].draws > 1;
            if (result[i].verdict == KAS_AGREE_FAILED)
                fail_msg("kernel %s at %s: errors %.3g forward, %.3g dx, %.3g dweight, %.3g finite "
                         "differences",
                         s.name, target[i].name, result[i].forward, result[i].dx, result[i].dweight,
                         result[i].numeric);
            numeric = larger(numeric, result[i].numeric);
            if (result[i].verdict != KAS_AGREE_OK) {
                ill_conditioned++;
                continue;
            }
            forward = larger(forward, result[i].forward);
            gradient = larger(gradient, larger(result[i].dx, result[i].dweight));
        }
        kas_sample_free(&s);
    }
    printf("%d kernels (%d more were screened out), %d comparisons, %d with inputs drawn again, %d "
           "ill-conditioned or undecided\n",
           kernels, screened, comparisons, redrawn, ill_conditioned);
    assert_true(screened <= kernels);
    assert_true(SANITIZED || ill_conditioned <= comparisons / 20); /* few are drawn there */
    printf("largest error: forward %.3g (tolerance %g), gradients %.3g (tolerance %g), finite "
           "differences %.3g (tolerance %g)\n",
           forward, KAS_AGREE_FORWARD, gradient, KAS_AGREE_GRADIENT, numeric, KAS_AGREE_NUMERIC);
    close_fixture(&f);
}

TEST(test_nvrtc)
{
    static const char *const arch[] = {"sm_80", "sm_90"};
    fixture f;
    const int kernels = wanted_kernels();
    const bool all = kernels > FEW;
    const kas_agree_options options = {.batch = 64};
    kas_compiler *compiler[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) {
        const kas_status status = kas_compiler_open(arch[i], NULL, &compiler[i]);
        if (status == KAS_UNSUPPORTED) {
            printf("SKIPPED: %s\n", kas_error());
            skip();
        }
        OK(status);
    }
    open_fixture(&f, all);
    for (int k = 0; k < kernels; k++) {
        kas_sample s;
        kas_target target[MAX_SHAPES];
        kas_binding binding[MAX_SHAPES];
        kas_buf text = {0};
        char path[4096];
        OK(kas_sampler_next(f.sampler, 0, &s));
        const int count = pick_shapes(&f, &s, all, k, target, binding);
        OK(kas_agree_text(s.replacement.kernel, target, binding, count, &options, &text));
        for (int i = 0; i < 2; i++)
            if (all || k % 2 == i)
                OK(kas_compile(compiler[i], kas_buf_text(&text), path, NULL));
        kas_buf_free(&text);
        kas_sample_free(&s);
    }
    for (int i = 0; i < 2; i++)
        kas_compiler_close(compiler[i]);
    close_fixture(&f);
}

RUN_TESTS()

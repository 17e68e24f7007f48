/* Gradients of whole kernels in float64 against finite differences: the known ones of kernels/ and
 * sampled ones, at every target of a network with reduced images.
 *
 *     KAS_KERNELS=300 KAS_NET=resnet18 build/tests/unit/reference/test_reference_kernels
 *
 * samples more of them, and for another network. */
#include "support/test.h"

#include <stdlib.h>
#include <glob.h>

#include "finite_difference.h"
#include "host/net/targets.h"
#include "host/reference/kernel/reference.h"
#include "host/space/file/kernel_json.h"
#include "host/space/weights.h"
#include "host/space/sample/sampler.h"

#define TOLERANCE 1e-6

enum { SAMPLED = 40, DIRECTIONS = 1 };

typedef struct fixture {
    kas_net *net;
    kas_target *target;
    int targets;
} fixture;

static double *random_array(size_t size, double scale, uint64_t stream)
{
    double *x = malloc(size * sizeof *x);
    assert_non_null(x);
    fd_random(x, size, stream);
    for (size_t i = 0; i < size; i++)
        x[i] *= scale;
    return x;
}

/* Weights of unit gain, so that values are those that training begins with. */
static double target_error(const kas_kernel *kernel, const kas_target *t,
                           const kas_binding *binding)
{
    kas_reference *ref;
    double *weight[KAS_MAX_NODES] = {0}, worst = NAN;
    size_t pixels = (size_t)t->h * t->w;
    OK(kas_reference_create(kernel, t, binding, 1, &ref));
    double *x = random_array(pixels * t->c_in, 1, 1), *dy = random_array(pixels * t->c_out, 1, 2);
    int number = 0;
    for (int i = 0; i < kernel->nodes; i++) {
        kas_weight_sizes sizes;
        if (!kas_op_has_weight((kas_op)kernel->node[i].op))
            continue;
        assert_int_equal(kas_weight_sizes_at(kernel, i, binding, &sizes), KAS_OK);
        size_t size = kas_reference_weight_size(ref, number);
        assert_int_equal(size, (size_t)t->parts_in * t->parts_out * sizes.groups * sizes.fan_out *
                                   sizes.fan_in);
        weight[number] = random_array(size, 1 / sqrt(sizes.fan_in), 10 + (uint64_t)number);
        number++;
    }
    assert_int_equal(number, kas_reference_weights(ref));
    assert_int_equal(kas_reference_check_gradient(ref, x, (const double *const *)weight, dy,
                                                  DIRECTIONS, 5, &worst),
                     KAS_OK);
    for (int i = 0; i < number; i++)
        free(weight[i]);
    free(x);
    free(dy);
    kas_reference_free(ref);
    return worst;
}

/* Worst over the targets; those of the same shape and sizes are checked once. */
static double kernel_error(const fixture *f, const kas_kernel *kernel, const kas_solution *solution)
{
    double worst = 0;
    for (int t = 0; t < f->targets; t++) {
        const kas_target *a = &f->target[t], *before = &f->target[t > 0 ? t - 1 : 0];
        if (t > 0 && a->h == before->h && a->c_in == before->c_in && a->c_out == before->c_out)
            continue;
        worst = fd_larger(worst, target_error(kernel, a, &solution->binding[t]));
    }
    return worst;
}

static int open_targets(void **state)
{
    static fixture f;
    const char *net = getenv("KAS_NET");
    assert_int_equal(kas_net_build(net ? net : "resnet20", 8, 8, 3, 10, &f.net), KAS_OK);
    assert_int_equal(kas_net_targets(f.net, NULL, &f.target, &f.targets), KAS_OK);
    *state = &f;
    return 0;
}

static int close_targets(void **state)
{
    fixture *f = *state;
    free(f->target);
    kas_net_free(f->net);
    return 0;
}

TEST(test_known_kernels)
{
    const fixture *f = *state;
    /* Sequence 2 of NAS-PTE unrolls 16 channels, so that layers of 16 have none left: those of
     * ResNet-20's first stage are left out. */
    fixture wide = *f;
    while (wide.targets > 0 && wide.target->c <= 16) {
        wide.target++;
        wide.targets--;
    }
    assert_true(wide.targets >= 10);
    kas_budget budget = kas_sample_defaults().budget;
    glob_t files;
    assert_int_equal(glob("kernels/*.json", 0, NULL, &files), 0);
    assert_true(files.gl_pathc >= 8);
    for (size_t i = 0; i < files.gl_pathc; i++) {
        kas_kernel kernel;
        kas_solution solution;
        OK(kas_kernel_read_file(files.gl_pathv[i], &kernel));
        OK(kas_solve(&kernel, wide.target, wide.targets, &budget, &solution));
        assert_true(
            fd_within(files.gl_pathv[i], kernel_error(&wide, &kernel, &solution), TOLERANCE));
        kas_solution_free(&solution);
    }
    globfree(&files);
}

/* Of an output that cancels to nothing only rounding is left to compare, so it is left out.
 */
static bool passes_screen(const fixture *f, const kas_sample *sample)
{
    for (int t = 0; t < f->targets; t++) {
        double deviation;
        assert_int_equal(kas_reference_output_deviation(sample->replacement.kernel, &f->target[t],
                                                        &sample->replacement.solution.binding[t], 2,
                                                        5, &deviation),
                         KAS_OK);
        if (!(deviation >= KAS_DEVIATION_LOW && deviation <= KAS_DEVIATION_HIGH))
            return false;
    }
    return true;
}

TEST(test_sampled_kernels)
{
    const fixture *f = *state;
    kas_sample_options options = kas_sample_defaults();
    kas_sampler *sampler;
    const char *count = getenv("KAS_KERNELS");
    int kernels = count ? atoi(count) : SAMPLED;
    options.seed = 11;
    assert_int_equal(kas_sampler_create(&options, f->target, f->targets, &sampler), KAS_OK);
    int screened = 0;
    for (int i = 0; i < kernels; i++) {
        kas_sample sample;
        assert_int_equal(kas_sampler_next(sampler, 0, &sample), KAS_OK);
        if (!passes_screen(f, &sample)) {
            screened++;
            kas_sample_free(&sample);
            continue;
        }
        assert_true(fd_within(
            sample.name, kernel_error(f, sample.replacement.kernel, &sample.replacement.solution),
            TOLERANCE));
        kas_sample_free(&sample);
    }
    print_message("%d of %d were screened out\n", screened, kernels);
    assert_true(screened * 2 <= kernels);
    kas_sampler_free(sampler);
}

RUN_TESTS(open_targets, close_targets)

/* What kas_agree calls right, ill-conditioned, undecided and wrong.
 *
 * Wrong results are made by a device that spoils what is downloaded: every other part of the
 * comparison is the real one. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/check/agree.h"
#include "host/device/backend.h"
#include "host/space/file/kernel_json.h"

/* Two kernels that the sampler found, at images of 2x2 pixels.  A norm over two values leaves
 * little but their signs, so that the largest of 256 channels is a matter of rounding ... */
static const char *const near_ties =
    "{\"op\": \"norm\", \"in\": [0], \"dim\": 2, \"dim_end\": 3},"
    "{\"op\": \"softmax\", \"in\": [1], \"dim\": 2, \"dim_end\": 3},"
    "{\"op\": \"fold_max\", \"in\": [2], \"dim\": 0},"
    "{\"op\": \"conv\", \"in\": [3], \"axes\": \"h\", \"out\": \"C\"}";
/* ... and an average over all of a softmax is constant, of which a norm keeps the rounding. */
static const char *const constant =
    "{\"op\": \"fc\", \"in\": [0], \"out\": \"C\"},"
    "{\"op\": \"softmax\", \"in\": [1], \"dim\": 2, \"dim_end\": 3},"
    "{\"op\": \"pool_avg\", \"in\": [2], \"axes\": \"w\", \"kernel\": 5},"
    "{\"op\": \"norm\", \"in\": [3], \"dim\": 0, \"dim_end\": 2},"
    "{\"op\": \"conv\", \"in\": [4], \"axes\": \"hw\", \"kernel\": 7, \"out\": \"C\"},"
    "{\"op\": \"mul\", \"in\": [0, 1]},"
    "{\"op\": \"softmax\", \"in\": [6], \"dim\": 0, \"dim_end\": 2},"
    "{\"op\": \"shuffle\", \"in\": [7], \"dim\": 0, \"by\": \"G0\"},"
    "{\"op\": \"bmm\", \"in\": [0, 0], \"transpose\": \"lhs\"},"
    "{\"op\": \"group_all\", \"in\": [9], \"dim\": 0},"
    "{\"op\": \"bmm\", \"in\": [8, 10]},"
    "{\"op\": \"max\", \"in\": [5, 11]}";
/* Nothing but rounding: that constant through two norms. */
static const char *const noise =
    "{\"op\": \"softmax\", \"in\": [0], \"dim\": 2, \"dim_end\": 3},"
    "{\"op\": \"pool_avg\", \"in\": [1], \"axes\": \"w\", \"kernel\": 5},"
    "{\"op\": \"norm\", \"in\": [2], \"dim\": 0, \"dim_end\": 2},"
    "{\"op\": \"norm\", \"in\": [3], \"dim\": 0, \"dim_end\": 2},"
    "{\"op\": \"fc\", \"in\": [4], \"out\": \"C\"}";
static const char *const ordinary =
    "{\"op\": \"conv\", \"in\": [0], \"axes\": \"hw\", \"out\": \"C\"},"
    "{\"op\": \"gelu\", \"in\": [1]},"
    "{\"op\": \"fc\", \"in\": [2], \"out\": \"C\"}";

/* ---- a device that spoils one of the tensors that are compared ------------------------------- */

typedef struct spoiler {
    kas_backend real, spoiled;
    int tensors, tensor; /* y, dx, weights of a comparison; which of them is spoiled, -1 = none */
    double by;           /* added ... */
    bool all;            /* ... to every element, not only to the first */
    int downloads;
    int after; /* downloads that are right; not 0: of the programs of training, behind which come those
                  of inference */
} spoiler;

static spoiler spoil;
static kas_device *device;
static kas_compiler *compiler;

static kas_status spoiled_download(kas_device *d, void *to, const void *from, size_t bytes)
{
    float *value = to;
    const kas_status status = spoil.real.mem_download(d, to, from, bytes);
    const int download = spoil.downloads++ - spoil.after;
    if (download >= 0 && download % spoil.tensors == spoil.tensor)
        for (size_t i = 0; i < (spoil.all ? bytes / sizeof *value : 1); i++)
            value[i] += (float)spoil.by;
    return status;
}

static int set_up(void **state)
{
    (void)state;
    const char *spec = getenv("DEVICE");
    if (kas_device_open(spec && *spec ? spec : "cpu", 1, &device) != KAS_OK ||
        kas_compiler_open(kas_device_get_info(device)->arch, NULL, &compiler) != KAS_OK) {
        printf("%s\n", kas_error());
        return 1;
    }
    spoil.real = spoil.spoiled = *device->backend;
    spoil.spoiled.mem_download = spoiled_download;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    kas_compiler_close(compiler);
    kas_device_close(device);
    return 0;
}

/* ---- one comparison -------------------------------------------------------------------------- */

static void read_kernel(const char *nodes, kas_kernel *kernel)
{
    char text[4096];
    const int size = snprintf(text, sizeof text,
                              "{\"format\": \"kas-gpu kernel\", \"version\": 1, \"nodes\": "
                              "[{\"op\": \"input\"}, %s], \"groups\": {%s}}",
                              nodes, strstr(nodes, "G0") ? "\"G0\": 64" : "");
    assert_true(size < (int)sizeof text);
    OK(kas_kernel_read_json("test", text, (size_t)size, kernel));
}

/* At C channels and 2x2 pixels, with `tensors` that are compared; tensor -1: nothing is spoiled. */
static kas_agreement judge_as(const kas_agree_options *options, const char *nodes, uint32_t c,
                              int tensors, int tensor, double by, bool all)
{
    kas_kernel kernel;
    read_kernel(nodes, &kernel);
    const kas_target target = kas_target_plain(c, 2, 2, 3);
    kas_binding binding = {{0}};
    binding.value[KAS_SYM_C] = c;
    binding.value[KAS_SYM_H] = binding.value[KAS_SYM_W] = 2;
    binding.value[KAS_SYM_KH] = binding.value[KAS_SYM_KW] = 3;
    binding.value[KAS_SYM_G0] = 64;
    kas_agreement result;
    const kas_backend *const real = device->backend;
    spoil.tensors = tensors;
    spoil.tensor = tensor;
    spoil.by = by;
    spoil.all = all;
    spoil.downloads = 0;
    device->backend = &spoil.spoiled;
    const kas_status status = (spoil.after ? kas_agree_both : kas_agree)(
        device, compiler, &kernel, &target, &binding, 1, options, &result);
    device->backend = real;
    OK(status);
    printf("forward %.1e, dx %.1e, dweight %.1e, rounding %.1e, draws %d\n", result.forward,
           result.dx, result.dweight, result.rounding, result.draws);
    return result;
}

static kas_agreement judge(const char *nodes, uint32_t c, int weights, int tensor, double by,
                           bool all)
{
    const kas_agree_options options = {.batch = 2, .seed = 1};
    return judge_as(&options, nodes, c, 2 + weights, tensor, by, all);
}

/* An inference has y alone, and what each epilogue makes of it, which is read first. */
TEST(test_epilogues)
{
    const char *nodes = "{\"op\": \"tanh\", \"in\": [0]}";
    const kas_epilogue epilogue[2] = {{true, true, KAS_ACTIVATION_RELU},
                                      {true, false, KAS_ACTIVATION_NONE}};
    const kas_agree_options options = {
        .batch = 2, .seed = 1, .inference = true, .epilogue = epilogue, .epilogues = 2};
    assert_int_equal(judge_as(&options, nodes, 64, 3, -1, 0, false).verdict, KAS_AGREE_OK);
    for (int tensor = 0; tensor < 3; tensor++)
        assert_int_equal(judge_as(&options, nodes, 64, 3, tensor, 1e-2, false).verdict,
                         KAS_AGREE_FAILED);
}

TEST(test_well_conditioned)
{
    const kas_agreement right = judge(ordinary, 64, 2, -1, 0, false);
    assert_int_equal(right.verdict, KAS_AGREE_OK);
    assert_int_equal(right.draws, 1);
    assert_true(right.rounding == 0); /* nobody asked */
    /* one element of y, dx or a weight's gradient, twice the tolerance of the tensor's scale off */
    for (int tensor = 0; tensor < 4; tensor++) {
        const kas_agreement wrong =
            judge(ordinary, 64, 2, tensor, tensor == 0 ? 1e-3 : 2e-2, false);
        assert_int_equal(wrong.verdict, KAS_AGREE_FAILED);
        assert_int_equal(wrong.draws, KAS_AGREE_DRAWS);
        assert_true(wrong.rounding < KAS_AGREE_FORWARD / KAS_AGREE_MARGIN);
    }
    assert_int_equal(judge(ordinary, 64, 2, 1, NAN, false).verdict, KAS_AGREE_FAILED);
}

TEST(test_near_ties)
{
    const kas_agreement right = judge(near_ties, 256, 1, -1, 0, false);
    assert_int_equal(right.verdict, KAS_AGREE_ILL_CONDITIONED);
    assert_true(right.rounding > KAS_AGREE_GRADIENT / KAS_AGREE_MARGIN);
    /* grossly wrong; wrong where the kernel is not ill-conditioned; a little wrong everywhere,
     * which a few other winners do not explain */
    assert_int_equal(judge(near_ties, 256, 1, 1, 1, false).verdict, KAS_AGREE_FAILED);
    assert_int_equal(judge(near_ties, 256, 1, 0, 1e-2, false).verdict, KAS_AGREE_FAILED);
    assert_int_equal(judge(near_ties, 256, 1, 1, 2 * right.dx * KAS_AGREE_FLOOR, true).verdict,
                     KAS_AGREE_FAILED);
}

TEST(test_constant)
{
    const kas_agreement right = judge(constant, 128, 2, -1, 0, false);
    assert_int_equal(right.verdict, KAS_AGREE_ILL_CONDITIONED);
    assert_true(right.rounding <= KAS_AGREE_TELLING);
    assert_true(right.forward <= KAS_AGREE_FORWARD && right.dx <= KAS_AGREE_GRADIENT);
    assert_int_equal(judge(constant, 128, 2, 3, KAS_AGREE_FLOOR, false).verdict, KAS_AGREE_FAILED);
    assert_int_equal(judge(constant, 128, 2, 1, 1e-2, false).verdict, KAS_AGREE_FAILED);
}

TEST(test_noise)
{
    const kas_agreement result = judge(noise, 64, 1, -1, 0, false);
    assert_int_equal(result.verdict, KAS_AGREE_UNDECIDED);
    assert_int_equal(result.draws, KAS_AGREE_DRAWS);
    assert_true(result.rounding > KAS_AGREE_TELLING);
    assert_int_equal(judge(noise, 64, 1, 0, NAN, true).verdict, KAS_AGREE_FAILED);
}

/* Of the programs of inference y alone is compared, with and without NaN in x. */
TEST(test_inference)
{
    enum { TENSORS = 4, COMPARISONS = 2 };
    spoil.after = TENSORS * COMPARISONS;
    const kas_agreement right = judge(ordinary, 64, -1, -1, 0, false);
    assert_int_equal(right.verdict, KAS_AGREE_OK);
    assert_true(right.dx > 0 && right.dweight > 0);
    assert_int_equal(spoil.downloads, spoil.after + COMPARISONS);
    assert_int_equal(judge(ordinary, 64, -1, 0, 1e-3, false).verdict, KAS_AGREE_FAILED);
    spoil.after = 0;
}

RUN_TESTS(set_up, tear_down)

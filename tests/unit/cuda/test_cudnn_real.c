/* Our graphs, engines and plans on the real cuDNN, where its library is installed: no GPU is
 * needed.  Since 9.8 it ranks engines and makes plans for a GPU that is only described, so what the
 * library refuses shows here and not on the first GPU.  Nothing is run.
 *
 * Without cuDNN 9.8 the tests are skipped. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/conv_cuda.h"
#include "cuda/dnn_plan.h"
#include "support/sizes.h"

enum { NEEDED = 90800, MAX_CHOICES = 64 };

/* Published properties of an H100 SXM and an A100, by cuDNN's names for them. */
static const char *const gpus[] = {
    "{\"deviceVer\":900,\"driverVer\":13000,\"multiProcessorCount\":132,"
    "\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],"
    "\"regsPerBlock\":65536,\"smClockRateKHz\":1980000,\"memClockRateKHz\":2619000,"
    "\"l2CacheSize\":52428800,\"warpSize\":32,\"maxSharedMemoryPerBlock\":49152,"
    "\"maxSharedMemoryPerBlockOptin\":232448,\"reservedSharedMemoryPerBlock\":1024,"
    "\"maxRegistersPerSM\":65536,\"pciDeviceId\":0,\"maxCtasPerSM\":32,"
    "\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,\"isTccDriver\":0,"
    "\"supportCoopLaunch\":1,\"cudaDeviceId\":0,\"totalGlobalMem\":85000000000,"
    "\"deviceName\":\"NVIDIA H100 80GB HBM3\"}",
    "{\"deviceVer\":800,\"driverVer\":13000,\"multiProcessorCount\":108,"
    "\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],"
    "\"regsPerBlock\":65536,\"smClockRateKHz\":1410000,\"memClockRateKHz\":1215000,"
    "\"l2CacheSize\":41943040,\"warpSize\":32,\"maxSharedMemoryPerBlock\":49152,"
    "\"maxSharedMemoryPerBlockOptin\":166912,\"reservedSharedMemoryPerBlock\":1024,"
    "\"maxRegistersPerSM\":65536,\"pciDeviceId\":0,\"maxCtasPerSM\":32,"
    "\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,\"isTccDriver\":0,"
    "\"supportCoopLaunch\":1,\"cudaDeviceId\":0,\"totalGlobalMem\":42000000000,"
    "\"deviceName\":\"NVIDIA A100-SXM4-40GB\"}",
};

static kas_cuda *describe_gpu(const char *json)
{
    kas_cuda *cuda = calloc(1, sizeof *cuda);
    assert_non_null(cuda);
    unsetenv("KAS_CUDA_LIBS");
    if (kas_cudnn_load(&cuda->dnn) != KAS_OK || cuda->dnn->cudnnGetVersion() < NEEDED) {
        printf("SKIPPED: cuDNN 9.8 is needed to plan for a GPU that is not here\n");
        free(cuda);
        return NULL;
    }
    OK(kas_dnn_new(cuda, KAS_DNN_GPU, &cuda->dnn_gpu));
    OK(kas_dnn_set(cuda, cuda->dnn_gpu, KAS_DNN_GPU_JSON, KAS_DNN_TYPE_CHAR, (int64_t)strlen(json),
                   json));
    OK(kas_dnn_finalize(cuda, cuda->dnn_gpu));
    return cuda;
}

static void forget_gpu(kas_cuda *cuda)
{
    kas_dnn_delete(cuda, cuda->dnn_gpu);
    free(cuda);
}

/* What a configuration is called must be enough to make its plan again. */
static int make_plans(kas_cuda *cuda, const kas_dnn_graph *graph, const kas_dnn_choice *choice,
                      int count)
{
    int made = 0;
    for (int i = 0; i < count; i++) {
        kas_dnn_plan plan;
        const kas_status status = kas_dnn_plan_make(cuda, graph, &choice[i], &plan);
        if (status != KAS_OK && status != KAS_UNSUPPORTED)
            fail_msg("engine %lld: %s", (long long)choice[i].engine, kas_error());
        made += status == KAS_OK && plan.workspace_bytes <= KAS_OWN_WORKSPACE;
        kas_dnn_plan_free(cuda, &plan);
    }
    return made;
}

/* Engines without tensor cores are ranked too, though 25 and more that use them stand before: a
 * fallback may stand first only with dilation, where cuDNN 9.19 ranks none for an A100. */
static void expect_ranked(const kas_conv_desc *desc, kas_conv_pass pass,
                          const kas_dnn_choice *choice, int count)
{
    if (count > 0 && choice[0].fallback && kas_conv_dilation(desc) == 1)
        fail_msg("%d channels in %d groups, kernel %d, pass %d: %d choices, none by heuristics",
                 desc->c_in, desc->groups, desc->kernel_h, (int)pass, count);
}

static int plans_of(kas_cuda *cuda, const kas_conv_desc *desc, kas_conv_pass pass,
                    kas_conv_beside beside)
{
    kas_dnn_choice choice[MAX_CHOICES];
    kas_dnn_graph graph;
    int count = 0;
    if (kas_dnn_graph_make(cuda, desc, pass, beside, &graph) != KAS_OK ||
        kas_dnn_choices(cuda, &graph, desc->tf32 || desc->dtype != KAS_F32, choice, MAX_CHOICES,
                        &count) != KAS_OK)
        fail_msg("%s", kas_error());
    expect_ranked(desc, pass, choice, count);
    const int made = make_plans(cuda, &graph, choice, count);
    kas_dnn_graph_free(cuda, &graph);
    return made;
}

/* Returns the largest workspace of the first eight plans that can be made, which are those that
 * would be timed. */
static size_t largest_workspace(kas_cuda *cuda, const kas_conv_desc *desc, kas_conv_pass pass)
{
    kas_dnn_choice choice[MAX_CHOICES];
    kas_dnn_graph graph;
    size_t most = 0;
    int count = 0;
    const kas_conv_desc of_library = kas_dnn_conv_desc(desc, pass);
    if (kas_dnn_graph_make(cuda, &of_library, pass, (kas_conv_beside){false}, &graph) != KAS_OK ||
        kas_dnn_choices(cuda, &graph, true, choice, MAX_CHOICES, &count) != KAS_OK)
        fail_msg("%s", kas_error());
    for (int i = 0, made = 0; i < count && made < 8; i++) {
        kas_dnn_plan plan;
        if (kas_dnn_plan_make(cuda, &graph, &choice[i], &plan) != KAS_OK)
            continue;
        most = plan.workspace_bytes > most ? plan.workspace_bytes : most;
        kas_dnn_plan_free(cuda, &plan);
        made++;
    }
    kas_dnn_graph_free(cuda, &graph);
    return most;
}

/* Number and pitches come later, but for the last one, which reads a slice and writes a part. */
static const kas_conv_desc shapes[] = {
    CONV_OF(64, 32, 64, 64, 1, 3, 1),
    CONV_OF(64, 32, 64, 128, 1, 3, 2),
    CONV_OF(64, 32, 64, 128, 1, 1, 2),
    CONV_OF(64, 32, 3, 64, 1, 3, 1), /* pixels of 4 or 8 */
    CONV_OF(64, 32, 60, 60, 1, 3, 1),
    CONV_OF(64, 32, 64, 64, 4, 3, 1),
    CONV_OF(64, 32, 64, 64, 64, 3, 1),
    {.n = 64,
     .h = 32,
     .w = 32,
     .c_in = 64,
     .c_out = 64,
     .groups = 1,
     .kernel_h = 3,
     .kernel_w = 3,
     .stride = 1,
     .pad_h = 2,
     .pad_w = 2,
     .dilation = 2},
    CONV_OF(64, 32, 64, 32, 1, 3, 1, .x_pitch = 128, .y_pitch = 128),
};

static const char *const modes[] = {"fp32", "tf32", "bf16", "fp16"};
enum { MODES = 4 };

static kas_conv_desc desc_of(size_t shape, int mode)
{
    kas_conv_desc desc = shapes[shape];
    desc.tf32 = mode == 1;
    desc.dtype = mode < 2 ? KAS_F32 : mode == 2 ? KAS_BF16 : KAS_F16;
    if (!desc.x_pitch) {
        desc.x_pitch = kas_pitch_of(desc.dtype, desc.c_in);
        desc.y_pitch = kas_pitch_of(desc.dtype, desc.c_out);
    }
    return desc;
}

static void every_pass_has_a_plan(const char *json)
{
    kas_cuda *cuda = describe_gpu(json);
    if (!cuda)
        skip();
    int plans = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int mode = 0; mode < MODES; mode++)
            for (int pass = 0; pass < 3; pass++) {
                const kas_conv_desc desc = desc_of(i, mode);
                const int made =
                    plans_of(cuda, &desc, (kas_conv_pass)pass, (kas_conv_beside){false});
                if (made < 1)
                    fail_msg("shape %zu, pass %d, %s: no plan", i, pass, modes[mode]);
                plans += made;
            }
    printf("%d plans\n", plans);
    forget_gpu(cuda);
}

/* A bias that training adds, and the epilogues of residual networks, none of them a
 * fallback (conv_cudnn.c).  Other activations are for engines that are compiled at run time, and
 * those want a driver: what they refuse only a GPU tells. */
static void every_epilogue_has_a_plan(const char *json)
{
    static const kas_conv_beside beside[] = {{true, false, KAS_ACTIVATION_NONE},
                                             {true, false, KAS_ACTIVATION_RELU},
                                             {true, true, KAS_ACTIVATION_NONE},
                                             {true, true, KAS_ACTIVATION_RELU}};
    enum { BESIDE = sizeof beside / sizeof *beside };
    kas_cuda *cuda = describe_gpu(json);
    if (!cuda)
        skip();
    int plans = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int mode = 0; mode < MODES; mode++)
            for (int b = 0; b < BESIDE; b++) {
                const kas_conv_desc desc = desc_of(i, mode);
                const int made = plans_of(cuda, &desc, KAS_CONV_FORWARD, beside[b]);
                if (made < 1)
                    fail_msg("shape %zu, epilogue %d, %s: no plan", i, b, modes[mode]);
                plans += made;
            }
    printf("%d plans\n", plans);
    forget_gpu(cuda);
}

/* The first layer of a network at 224x224: were the images of 3 channels given as they are, cuDNN
 * would copy all of them (98 MiB at batch 128), and beyond batch 330 no engine with tensor cores
 * would fit into our workspace for the gradient of the weights. */
TEST(the_stem_is_not_copied)
{
    static const kas_conv_pass passes[] = {KAS_CONV_FORWARD, KAS_CONV_BACKWARD_WEIGHTS};
    enum { MOST = 10 << 20 };
    kas_cuda *cuda = describe_gpu(gpus[0]);
    if (!cuda)
        skip();
    for (int batch = 128; batch <= 512; batch *= 4)
        for (int i = 0; i < 2; i++) {
            kas_conv_desc desc =
                CONV_OF(batch, 224, 3, 64, 1, 7, 2, .x_pitch = 8, .y_pitch = 64, .dtype = KAS_BF16);
            const size_t copied = largest_workspace(cuda, &desc, passes[i]);
            desc.finite_padding = true;
            const size_t padded = largest_workspace(cuda, &desc, passes[i]);
            printf("batch %d, pass %d: workspace %.1f MiB, with padded weights %.1f MiB\n", batch,
                   (int)passes[i], (double)copied / (1 << 20), (double)padded / (1 << 20));
            assert_true(copied >= (size_t)batch * 224 * 224 * 8 * sizeof(uint16_t));
            assert_true(padded <= MOST);
        }
    forget_gpu(cuda);
}

TEST(plans_for_an_h100)
{
    every_pass_has_a_plan(gpus[0]);
}

TEST(plans_for_an_a100)
{
    every_pass_has_a_plan(gpus[1]);
}

TEST(epilogues_for_an_h100)
{
    every_epilogue_has_a_plan(gpus[0]);
}

TEST(epilogues_for_an_a100)
{
    every_epilogue_has_a_plan(gpus[1]);
}

/* For AddressSanitizer: without a GPU cublasLtCreate, called by cuDNN, fails and leaks. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:cublasLtCreate\n";
}

RUN_TESTS()

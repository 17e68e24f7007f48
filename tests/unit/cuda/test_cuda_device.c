/* The CUDA device's own code, on the stand-in for NVIDIA's libraries: waits, lost devices, several
 * devices, and a failure of every single call. */
#include "support/test.h"

#include <math.h>
#include <signal.h>
#include <sys/wait.h>

#include "cuda_fixture.h"
#include "cuda/library.h"
#include "cuda/kernels/prelude.h"
#include "cuda/kernels/args.h"
#include "host/core/file/files.h"
#include "host/device/device.h"
#include "jit/compile/compile.h"

/* ---- libraries ------------------------------------------------------------------------------- */

TEST_WITH(missing_libraries_are_named, set_up, NULL)
{
    kas_device *device;
    setenv("KAS_CUDA_LIBS", "/no/such/library.so", 1);
    assert_int_equal(kas_device_open("cuda", 0, &device), KAS_UNSUPPORTED);
    assert_non_null(strstr(kas_error(), "/no/such/library.so"));
    kas_cuda_libraries_reset();
    setenv("KAS_CUDA_LIBS", "libm.so.6", 1);
    assert_int_equal(kas_device_open("cuda", 0, &device), KAS_UNSUPPORTED);
    assert_non_null(strstr(kas_error(), "cuInit"));
    OK(kas_device_open("auto", 1, &device)); /* a GPU that cannot be used is no reason to stop */
    assert_int_equal(kas_device_get_info(device)->kind, KAS_DEVICE_CPU);
    kas_device_close(device);
}

TEST_WITH(no_gpu_and_wrong_ordinal, set_up, NULL)
{
    kas_device *device;
    setenv("KAS_SIM_DEVICES", "0", 1);
    assert_int_equal(kas_device_open("cuda", 0, &device), KAS_UNSUPPORTED);
    assert_non_null(strstr(kas_error(), "no CUDA-capable device"));
    kas_cuda_libraries_reset();
    setenv("KAS_SIM_DEVICES", "2", 1);
    assert_int_equal(kas_device_open("cuda:2", 0, &device), KAS_UNSUPPORTED);
    assert_non_null(strstr(kas_error(), "this machine has 2 GPUs"));
    device = open_cuda("auto");
    const kas_device_info *info = kas_device_get_info(device);
    assert_int_equal(info->kind, KAS_DEVICE_CUDA);
    assert_string_equal(info->arch, "sm_90");
    assert_true(info->memory > 0 && info->name[0]);
    kas_device_close(device);
    assert_int_equal(sim.live(), 0);
}

/* ---- memory ---------------------------------------------------------------------------------- */

TEST_WITH(memory_runs_out_and_comes_back, set_up, NULL)
{
    kas_device *device = open_cuda("cuda");
    void *memory, *more;
    float value = 7;
    const size_t most = kas_device_get_info(device)->memory;
    assert_int_equal(kas_mem_alloc(device, most + 1, &memory), KAS_NO_MEMORY);
    OK(kas_mem_alloc(device, 1000, &memory));
    assert_int_equal((uintptr_t)memory % 256, 0);
    assert_int_equal(kas_mem_alloc(device, most - 500, &more), KAS_NO_MEMORY);
    assert_non_null(strstr(kas_error(), "are held by this process"));
    OK(kas_mem_upload(device, memory, &value, sizeof value)); /* still usable */
    OK(kas_mem_zero(device, (char *)memory + 4, 4));
    value = NAN;
    OK(kas_mem_download(device, &value, memory, sizeof value));
    assert_true(value == 7);
    OK(kas_mem_download(device, &value, (char *)memory + 4, sizeof value));
    assert_true(value == 0);
    OK(kas_mem_download(device, &value, (char *)memory + 8, sizeof value));
    assert_true(isnan(value)); /* nothing was written there */
    kas_mem_free(device, memory);
    kas_device_close(device);
    assert_int_equal(sim.live(), 0);
}

/* Runs `act` in a child; true when a signal ended it: what the stand-in must notice. */
static bool is_caught(void (*act)(kas_device *device, char *memory))
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char *memory;
        begin_anew();
        kas_device *device = open_cuda("cuda");
        if (!freopen("/dev/null", "w", stderr) || kas_mem_alloc(device, 100, (void **)&memory))
            _exit(1);
        signal(SIGSEGV, SIG_DFL); /* not cmocka's handler */
        signal(SIGABRT, SIG_DFL);
        act(device, memory);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    return WIFSIGNALED(status);
}

static void touch_on_the_host(kas_device *device, char *memory)
{
    (void)device;
    *(volatile char *)memory = 1;
}
static void read_too_far(kas_device *device, char *memory)
{
    char got[200];
    kas_mem_download(device, got, memory, 200);
}
static void use_after_free(kas_device *device, char *memory)
{
    kas_plan *plan;
    kas_plan_create(device, &plan);
    kas_plan_zero(plan, memory, 100);
    kas_mem_free(device, memory);
    kas_plan_run(plan);
    kas_device_sync(device);
}
static void behave(kas_device *device, char *memory)
{
    char got[100];
    kas_mem_zero(device, memory, 100);
    kas_mem_download(device, got, memory, 100);
}

TEST_WITH(wrong_use_of_memory_is_caught, set_up, NULL)
{
    assert_true(is_caught(touch_on_the_host));
    assert_true(is_caught(read_too_far));
    assert_true(is_caught(use_after_free));
    assert_false(is_caught(behave));
}

/* ---- a small piece of everything ------------------------------------------------------------- */

static kas_status plan_of_everything(kas_device *device, kas_plan *plan, kas_conv *conv[2],
                                     float *memory)
{
    kas_module *module;
    kas_function *add;
    float *x = memory, *y = memory + 1024, *w = memory + 2048;
    KAS_TRY(kas_module_builtin(device, KAS_F32, &module));
    KAS_TRY(kas_module_function(module, "kas_dev_add", &add));
    KAS_TRY(kas_plan_zero(plan, y, 4096));
    KAS_TRY(kas_plan_conv(plan, conv[0], KAS_CONV_FORWARD, x, w, y));
    KAS_TRY(kas_plan_conv(plan, conv[1], KAS_CONV_FORWARD, x, w, y));
    KAS_TRY(kas_plan_conv(plan, conv[1], KAS_CONV_BACKWARD_DATA, x, w, y));
    KAS_TRY(kas_plan_conv(plan, conv[1], KAS_CONV_BACKWARD_WEIGHTS, x, w, y));
    KAS_TRY(kas_plan_copy(plan, y, x, 256));
    const kas_rows_args args = {.a = x,
                                .b = x,
                                .y = y,
                                .rows = 4,
                                .c = 8,
                                .pitch_a = 8,
                                .pitch_b = 8,
                                .pitch_y = 8,
                                .rows_per_block = 1};
    return kas_plan_launch(plan, add, (unsigned[3]){4, 1, 1}, (unsigned[3]){64, 1, 1}, &args,
                           sizeof args);
}

static kas_status run_timed(kas_device *device, kas_plan *plan)
{
    kas_timer *timer = NULL;
    double seconds = -1;
    kas_status status = KAS_OK;
    KAS_TRY(kas_timer_create(device, &timer));
    KAS_TRY_GOTO(kas_timer_start(timer), out);
    KAS_TRY_GOTO(kas_plan_run(plan), out);
    KAS_TRY_GOTO(kas_timer_stop(timer, &seconds), out);
    status = seconds >= 0 ? KAS_OK : kas_fail(KAS_FAILURE, "time runs backwards");
out:
    kas_timer_free(timer);
    return status;
}

static kas_status upload_once(kas_device *device, void *memory)
{
    kas_upload *upload = NULL;
    void *host = NULL;
    kas_status status = KAS_OK;
    KAS_TRY_GOTO(kas_upload_create(device, 1, &upload), out);
    KAS_TRY_GOTO(kas_host_alloc(device, 64, &host), out);
    KAS_TRY_GOTO(kas_upload_start(upload, 0, memory, host, 64), out);
    KAS_TRY_GOTO(kas_upload_use(upload, 0), out);
    KAS_TRY_GOTO(kas_upload_done(upload, 0), out);
    status = kas_upload_wait(upload, 0);
out:
    kas_upload_free(upload);
    kas_host_free(device, host);
    return status;
}

static kas_status everything(const char *spec)
{
    const kas_conv_desc desc[2] = {F32(2, 4, 4, 8, 8, 1, 1, 1, 1, 0, 0, 8, 8, 0),
                                   F32(2, 4, 4, 8, 8, 1, 3, 3, 1, 1, 1, 8, 8, 0)};
    float values[4096] = {1, 2, 3};
    kas_device *device = NULL;
    kas_plan *plan = NULL;
    kas_conv *conv[2] = {NULL, NULL};
    void *memory = NULL;
    kas_status status = KAS_OK;
    KAS_TRY_GOTO(kas_device_open(spec, 0, &device), out);
    KAS_TRY_GOTO(kas_mem_alloc(device, sizeof values, &memory), out);
    KAS_TRY_GOTO(kas_mem_upload(device, memory, values, sizeof values), out);
    for (int i = 0; i < 2; i++)
        KAS_TRY_GOTO(kas_conv_create(device, &desc[i], &conv[i]), out);
    KAS_TRY_GOTO(kas_plan_create(device, &plan), out);
    KAS_TRY_GOTO(plan_of_everything(device, plan, conv, memory), out);
    KAS_TRY_GOTO(run_timed(device, plan), out);
    KAS_TRY_GOTO(kas_plan_run(plan), out); /* captured */
    KAS_TRY_GOTO(kas_plan_run(plan), out);
    KAS_TRY_GOTO(upload_once(device, memory), out);
    KAS_TRY_GOTO(kas_device_sync(device), out);
    KAS_TRY_GOTO(kas_mem_download(device, values, memory, sizeof values), out);
out:
    if (plan)
        kas_plan_free(plan);
    kas_conv_free(conv[0]);
    kas_conv_free(conv[1]);
    if (device)
        kas_mem_free(device, memory);
    kas_device_close(device);
    return status;
}

/* Calls by which plans are chosen: what fails, or finds no memory for its workspace, is passed over
 * for the next candidate or way. */
static bool is_of_a_choice(const char *name)
{
    return strstr(name, "cuMemAlloc") || strstr(name, "cublasLtMatrix") ||
           (strstr(name, "cublasLtMatmul") && strcmp(name, "cublasLtMatmul") != 0) ||
           (strstr(name, "cudnnBackend") && !strstr(name, "Execute"));
}

/* Calls whose failure concerns nobody: the thing is given back, and there is nothing to do; or a
 * graph is not made, and its plan runs step by step; or a kernel is not in this part of the built-in ones. */
static bool may_fail_unseen(const char *name)
{
    return is_of_a_choice(name) || strstr(name, "captured ") || strstr(name, "BeginCapture") ||
           strstr(name, "EndCapture") || strstr(name, "GraphInstantiate") ||
           strstr(name, "Destroy") || strstr(name, "Free") || strstr(name, "Release") ||
           strstr(name, "Unload") || strstr(name, "ModuleGetFunction");
}

/* Fails call 1, 2, 3, ... until none is left to fail. */
static int fail_every_call(void)
{
    int tried = 0;
    for (int nth = 1;; nth++) {
        char name[64];
        sim.reset();
        kas_cuda_libraries_reset();
        sim.make_fail("*", nth, 0, false);
        kas_fail(KAS_OK, "%s", "");
        const kas_status status = everything("cuda");
        if (!sim.failed(name)) {
            if (status != KAS_OK)
                fail_msg("without any failure: %s", kas_error());
            return tried;
        }
        tried++;
        /* The end of a device may fail unseen, and so may a wait in it. */
        if (status == KAS_OK && !may_fail_unseen(name) && !strstr(name, "Synchronize") &&
            !strstr(name, "SetCurrent"))
            fail_msg("call %d, %s, failed and nobody noticed", nth, name);
        if (status != KAS_OK && strlen(kas_error()) < 10)
            fail_msg("call %d, %s: the message is \"%s\"", nth, name, kas_error());
        if (sim.live() != 0)
            fail_msg("call %d, %s, failed and %d objects were left", nth, name, sim.live());
    }
}

TEST_WITH(every_call_may_fail_once, set_up, NULL)
{
    OK(everything("cuda")); /* fills the compile cache */
    assert_int_equal(sim.live(), 0);
    const int tried = fail_every_call();
    printf("%d calls failed, one in each run\n", tried);
    assert_true(tried > 60);
}

/* In a child each, because objects of a dead context are not given back. */
TEST_WITH(the_gpu_may_die_at_every_call, set_up, NULL)
{
    OK(everything("cuda"));
    int deaths = 0, lost = 0;
    for (int nth = 1;; nth += 7) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            char name[64];
            begin_anew();
            sim.make_fail("*", nth, KAS_CUDA_ERROR_ILLEGAL_ADDRESS, true);
            const kas_status status = everything("cuda");
            _exit(!sim.failed(name)           ? 10
                  : status == KAS_OK          ? 11
                  : status == KAS_DEVICE_LOST ? 12
                                              : 13);
        }
        int status = 0;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (!WIFEXITED(status) || WEXITSTATUS(status) < 10)
            fail_msg("the GPU died at call %d, and the process with it", nth);
        if (WEXITSTATUS(status) == 10)
            break;
        deaths++;
        lost += WEXITSTATUS(status) == 12;
    }
    printf("%d deaths, %d of them reported as a lost device\n", deaths, lost);
    assert_true(deaths > 20 && lost * 2 > deaths);
}

TEST_WITH(a_lost_device_stays_lost, set_up, NULL)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        begin_anew();
        kas_device *device = open_cuda("cuda");
        void *memory;
        int bad = kas_mem_alloc(device, 100, &memory) != KAS_OK;
        sim.make_fail("cuStreamSynchronize", 1, KAS_CUDA_ERROR_ILLEGAL_ADDRESS, false);
        bad += kas_device_sync(device) != KAS_DEVICE_LOST;
        bad += !strstr(kas_error(), "illegal memory access") ||
               !strstr(kas_error(), "cuStreamSynchronize") || !strstr(kas_error(), "device_cuda.c");
        bad += kas_mem_alloc(device, 100, &memory) != KAS_DEVICE_LOST;
        bad += !strstr(kas_error(), "illegal memory access"); /* the first cause is told */
        kas_mem_free(device, memory);
        kas_device_close(device);
        _exit(bad);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

TEST_WITH(two_devices_in_one_thread, set_up, NULL)
{
    setenv("KAS_SIM_DEVICES", "2", 1);
    kas_device *device[2] = {open_cuda("cuda:0"), open_cuda("cuda:1")};
    const kas_conv_desc desc = F32(1, 4, 4, 8, 8, 1, 1, 1, 1, 0, 0, 8, 8, 0);
    kas_conv *conv[2];
    kas_plan *plan[2];
    float *memory[2], value[512] = {0}, got = NAN;
    for (int i = 0; i < 2; i++) {
        OK(kas_mem_alloc(device[i], 3 * sizeof value, (void **)&memory[i]));
        OK(kas_conv_create(device[i], &desc, &conv[i]));
        OK(kas_plan_create(device[i], &plan[i]));
        OK(kas_plan_conv(plan[i], conv[i], KAS_CONV_FORWARD, memory[i], memory[i] + 512,
                         memory[i] + 1024));
    }
    for (int i = 0; i < 2; i++) { /* x = 1, 0, 0, ...; w = i + 1, 0, 0, ...: y[0] = i + 1 */
        value[0] = 1;
        OK(kas_mem_upload(device[i], memory[i], value, sizeof value));
        value[0] = (float)(i + 1);
        OK(kas_mem_upload(device[i], memory[i] + 512, value, sizeof value));
    }
    OK(kas_plan_run(plan[1]));
    OK(kas_plan_run(plan[0]));
    for (int i = 0; i < 2; i++) {
        OK(kas_mem_download(device[i], &got, memory[i] + 1024, sizeof got));
        assert_true(got == (float)(i + 1));
    }
    for (int i = 0; i < 2; i++) {
        kas_plan_free(plan[i]);
        kas_conv_free(conv[i]);
        kas_mem_free(device[i], memory[i]);
        kas_device_close(device[i]);
    }
    assert_int_equal(sim.live(), 0);
}

/* ---- NVRTC ----------------------------------------------------------------------------------- */

static kas_status compile_afresh(const char *folder)
{
    kas_compiler *compiler = NULL;
    char path[4096];
    kas_status status;
    if (kas_remove_tree(folder) != KAS_OK)
        return KAS_FAILURE;
    KAS_TRY_GOTO(kas_compiler_open("sm_90", folder, &compiler), out);
    KAS_TRY_GOTO(kas_compile(compiler,
                             "typedef struct t { float *x; } t;\n"
                             "KAS_KERNEL(kas_test, t) { a.x[KAS_BLOCK_X] = 1; }\n",
                             path, NULL),
                 out);
out:
    kas_compiler_close(compiler);
    return status;
}

TEST_WITH(every_call_of_nvrtc_may_fail, set_up, NULL)
{
    char folder[] = "/tmp/kas-cuda-test-XXXXXX";
    assert_non_null(mkdtemp(folder));
    int tried = 0;
    for (int nth = 1;; nth++, tried++) {
        char name[64];
        sim.reset();
        kas_cuda_libraries_reset();
        sim.make_fail("*", nth, 0, false);
        const kas_status status = compile_afresh(folder);
        if (!sim.failed(name)) {
            OK(status);
            break;
        }
        /* Without a driver NVRTC is of use all the same. */
        if (status == KAS_OK && !may_fail_unseen(name) && strncmp(name, "nvrtc", 5) == 0)
            fail_msg("call %d, %s, failed and nobody noticed", nth, name);
        assert_int_equal(sim.live(), 0);
        sim.make_fail(NULL, 0, 0, false);
        kas_cuda_libraries_reset();
        OK(compile_afresh(folder)); /* a broken library is not kept as a failure of the text */
    }
    printf("%d calls failed, one in each run\n", tried);
    assert_true(tried >= 7);
    OK(kas_remove_tree(folder));
}

RUN_TESTS(load_sim)

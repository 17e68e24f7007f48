/* The executor behind the CUDA device: what the stand-in knows of the GPU's memory reaches it, and a
 * fault ends the process. Each case is a process of its own. */
#include "support/test.h"

#include <sys/wait.h>

#include "cuda_sim/load_sim.h"
#include "host/device/device.h"
#include "jit/compile/compile.h"

enum { N = 64, SKIPPED = 77 };

static const char text[] =
    "typedef struct shift_args { const float *x; float *y; int n; int offset; } shift_args;\n"
    "KAS_KERNEL(shift, shift_args)\n"
    "{\n"
    "    KAS_THREADS (t, a.n) {\n"
    "        a.y[t] = a.x[t + a.offset];\n"
    "    }\n"
    "}\n";
typedef struct shift_args {
    const float *x;
    float *y;
    int n, offset;
} shift_args;

typedef enum way { UPLOADED, ZEROED, COPIED, UNWRITTEN, UNWRITTEN_COPIED, FREED } way;

/* Fills x; `other` is as large. */
static void fill(kas_device *device, kas_plan *plan, way way, void *x, void *other)
{
    float values[N];
    for (int i = 0; i < N; i++)
        values[i] = (float)(i + 1);
    if (way == UPLOADED || way == COPIED || way == FREED)
        OK(kas_mem_upload(device, way == COPIED ? other : x, values, sizeof values));
    if (way == ZEROED)
        OK(kas_mem_zero(device, x, sizeof values));
    if (way == COPIED || way == UNWRITTEN_COPIED)
        OK(kas_plan_copy(plan, x, other, sizeof values));
}

/* Runs y[t] = x[t + offset] and returns whether y is right. */
static bool shift(way way, int offset)
{
    static const unsigned grid[3] = {1, 1, 1}, block[3] = {N, 1, 1};
    kas_device *device;
    kas_compiler *compiler;
    kas_module *module;
    kas_function *function;
    kas_plan *plan;
    char path[4096];
    float values[N];
    shift_args args = {.n = N, .offset = offset};
    void *other;
    OK(kas_device_open("cuda", 0, &device));
    OK(kas_compiler_open(kas_device_get_info(device)->arch, NULL, &compiler));
    OK(kas_compile(compiler, text, path, NULL));
    OK(kas_module_load(device, path, &module));
    OK(kas_module_function(module, "shift", &function));
    OK(kas_mem_alloc(device, sizeof values, (void **)&args.x));
    OK(kas_mem_alloc(device, sizeof values, (void **)&args.y));
    OK(kas_mem_alloc(device, sizeof values, &other));
    OK(kas_plan_create(device, &plan));
    fill(device, plan, way, (void *)args.x, other);
    OK(kas_plan_launch(plan, function, grid, block, &args, sizeof args));
    if (way == FREED)
        kas_mem_free(device, (void *)args.x);
    OK(kas_plan_run(plan));
    OK(kas_device_sync(device));
    OK(kas_mem_download(device, values, args.y, sizeof values));
    for (int i = 0; i < N; i++)
        if (values[i] != (way == ZEROED ? 0 : (float)(i + 1)))
            return false;
    return true;
}

/* Runs it in a process; returns its status, and what it wrote to stderr. */
static int shift_apart(way way, int offset, char output[4096])
{
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], 2);
        setenv("KAS_CUDA_SIM", "ptx", 1);
        _exit(shift(way, offset) ? 0 : 1);
    }
    close(ends[1]);
    size_t n = 0;
    for (ssize_t got; n < 4095 && (got = read(ends[0], output + n, 4095 - n)) > 0;)
        n += (size_t)got;
    output[n] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

TEST(memory)
{
    static const struct {
        way way;
        int offset;
        const char *message; /* NULL: it is right */
    } c[] = {
        {UPLOADED, 0, NULL},
        {ZEROED, 0, NULL},
        {COPIED, 0, NULL},
        {UNWRITTEN, 0, "cuda_sim: ptx: shift: a read of memory"},
        {UNWRITTEN_COPIED, 0, "that nothing has written"},
        {UPLOADED, 1, "0 bytes behind the end of an allocation of 256 bytes"},
        {FREED, 0, "cuda_sim: ptx: shift: an access of 4 bytes at"},
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        char output[4096];
        const int status = shift_apart(c[i].way, c[i].offset, output);
        if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED) {
            printf("SKIPPED: NVRTC was not found\n");
            skip();
        }
        if (c[i].message ? !WIFSIGNALED(status) || !strstr(output, c[i].message) : status != 0)
            fail_msg("case %zu: status %d, \"%s\"", i, status, output);
    }
}

RUN_TESTS(load_sim)

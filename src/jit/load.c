/* Programs on a device. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "jit/ir/program.h"

typedef struct loaded_pass {
    const kas_operation *operation;
    int count;
    kas_function **function; /* by operation; NULL for a convolution */
    kas_conv **conv;         /* by operation; shared among equal ones */
} loaded_pass;

struct kas_loaded {
    const kas_program *program;
    loaded_pass pass[2]; /* forward, backward */
    loaded_pass epilogues;
    kas_conv **conv; /* each once */
    kas_conv_desc *desc;
    int convs;
};

/* Returns the passes of a convolution that are operations of the program. */
static unsigned passes_of(const kas_program *p, const kas_conv_desc *desc)
{
    unsigned passes = 0;
    for (int i = 0; i < p->forwards + p->backwards; i++) {
        const kas_operation *op = i < p->forwards ? &p->forward[i] : &p->backward[i - p->forwards];
        if (op->kind == KAS_OPERATION_CONV && memcmp(&op->conv, desc, sizeof *desc) == 0)
            passes |= 1u << op->pass;
    }
    return passes;
}

static kas_status prepare_conv(kas_device *device, kas_loaded *loaded, const kas_conv_desc *desc,
                               kas_conv **out)
{
    kas_conv_desc used = *desc;
    used.passes = passes_of(loaded->program, desc);
    for (int i = 0; i < loaded->convs; i++)
        if (memcmp(&loaded->desc[i], desc, sizeof *desc) == 0) {
            *out = loaded->conv[i];
            return KAS_OK;
        }
    KAS_TRY(kas_conv_create(device, &used, out));
    loaded->desc[loaded->convs] = *desc;
    loaded->conv[loaded->convs++] = *out;
    return KAS_OK;
}

static kas_status load_pass(kas_device *device, kas_module *const *module, kas_loaded *loaded,
                            loaded_pass *pass, const kas_operation *operation, int count)
{
    pass->operation = operation;
    pass->count = count;
    pass->function = calloc((size_t)count + 1, sizeof *pass->function);
    pass->conv = calloc((size_t)count + 1, sizeof *pass->conv);
    if (!pass->function || !pass->conv)
        return kas_fail(KAS_NO_MEMORY, "out of memory while a program was loaded");
    for (int i = 0; i < count; i++) {
        if (operation[i].kind == KAS_OPERATION_CONV)
            KAS_TRY(prepare_conv(device, loaded, &operation[i].conv, &pass->conv[i]));
        else
            KAS_TRY(kas_module_function(module[operation[i].unit], operation[i].symbol,
                                        &pass->function[i]));
    }
    return KAS_OK;
}

kas_status kas_program_load(kas_device *device, const kas_program *program,
                            kas_module *const *module, kas_loaded **out)
{
    kas_status status = KAS_OK;
    const size_t most = (size_t)(program->forwards + program->backwards) + 1;
    kas_loaded *loaded = calloc(1, sizeof *loaded);
    *out = NULL;
    if (!loaded)
        return kas_fail(KAS_NO_MEMORY, "out of memory while a program was loaded");
    loaded->program = program;
    loaded->conv = calloc(most, sizeof *loaded->conv);
    loaded->desc = calloc(most, sizeof *loaded->desc);
    if (!loaded->conv || !loaded->desc) {
        status = kas_fail(KAS_NO_MEMORY, "out of memory while a program was loaded");
        goto fail;
    }
    KAS_TRY_GOTO(
        load_pass(device, module, loaded, &loaded->pass[0], program->forward, program->forwards),
        fail);
    KAS_TRY_GOTO(
        load_pass(device, module, loaded, &loaded->pass[1], program->backward, program->backwards),
        fail);
    KAS_TRY_GOTO(load_pass(device, module, loaded, &loaded->epilogues, program->epilogue_kernel,
                           program->epilogues),
                 fail);
    *out = loaded;
    return KAS_OK;
fail:
    kas_loaded_free(loaded);
    return status;
}

void kas_loaded_free(kas_loaded *loaded)
{
    if (!loaded)
        return;
    for (int i = 0; i < loaded->convs; i++)
        kas_conv_free(loaded->conv[i]);
    for (int i = 0; i < 2; i++) {
        free(loaded->pass[i].function);
        free(loaded->pass[i].conv);
    }
    free(loaded->epilogues.function);
    free(loaded->epilogues.conv);
    free(loaded->conv);
    free(loaded->desc);
    free(loaded);
}

static kas_status check_alignment(const kas_program *program, void *const *address)
{
    for (int i = 0; i < program->buffers; i++)
        if ((uintptr_t)address[i] % KAS_BUFFER_ALIGNMENT)
            return kas_fail(KAS_USAGE,
                            "program %s: buffer %d lies at %p; a multiple of %d is needed",
                            program->prefix, i, address[i], KAS_BUFFER_ALIGNMENT);
    return KAS_OK;
}

/* The memory of a program's buffers in one piece. */
typedef struct piece {
    const kas_program *program;
    void *const *address;
    int number;
} piece;

static void *address_of(const piece *at, int buffer)
{
    return (char *)at->address[buffer] + (size_t)at->number * at->program->buffer[buffer].step;
}

static void *x_of(const piece *at, const kas_operation *op)
{
    return (char *)address_of(at, op->x) + op->x_offset;
}

static void *y_of(const piece *at, const kas_operation *op)
{
    return (char *)address_of(at, op->y) + op->y_offset;
}

static kas_status append(const loaded_pass *pass, int i, kas_plan *plan, const piece *at)
{
    const kas_operation *op = &pass->operation[i];
    if (op->kind == KAS_OPERATION_CONV)
        return kas_plan_conv(plan, pass->conv[i], op->pass, x_of(at, op), address_of(at, op->w),
                             y_of(at, op));
    void *args[KAS_MAX_LAUNCH_ARGS];
    for (int k = 0; k < op->args; k++)
        args[k] = address_of(at, op->arg[k]);
    return kas_plan_launch(plan, pass->function[i], op->grid, op->block, args,
                           sizeof *args * (size_t)op->args);
}

/* What takes the place of an operation of FORWARD: a kernel with an epilogue, or the library's call
 * with one; operation -1: nothing does. */
typedef struct ending {
    int operation, kernel;
    const kas_conv_call *call; /* NULL: the kernel */
    kas_conv_epilogue epilogue;
} ending;

/* Returns the library's call for one piece. */
static kas_conv_call call_of(const ending *e, const piece *at)
{
    const kas_operation *op = &at->program->forward[e->operation];
    const kas_buffer *y = &at->program->buffer[op->y];
    kas_conv_call call = *e->call;
    call.x = x_of(at, op);
    call.y = y_of(at, op);
    if (call.residual)
        call.residual = (const char *)call.residual + (size_t)at->number * y->step;
    return call;
}

static kas_status append_ending(const kas_loaded *loaded, const ending *e, kas_plan *plan,
                                const piece *at)
{
    if (!e->call)
        return append(&loaded->epilogues, e->kernel, plan, at);
    const kas_conv_call call = call_of(e, at);
    return kas_plan_conv_epilogue(plan, kas_loaded_conv(loaded, e->operation), e->epilogue, &call);
}

/* Appends a pass. What all pieces share is launched once, before the first of them, and what adds them
 * up behind the last. */
static kas_status append_pass(const kas_loaded *loaded, bool backward, kas_plan *plan,
                              void *const *address, const ending *e)
{
    const loaded_pass *pass = &loaded->pass[backward];
    const int pieces = loaded->program->pieces;
    KAS_TRY(check_alignment(loaded->program, address));
    for (int number = 0; number < pieces; number++)
        for (int i = 0; i < pass->count; i++) {
            const kas_operation *op = &pass->operation[i];
            const bool once = op->times < pieces;
            const piece at = {loaded->program, address, once ? 0 : number};
            if ((once && number != (op->total ? pieces - 1 : 0)) ||
                (e->call && i == loaded->program->fold.scaling))
                continue;
            KAS_TRY(i == e->operation ? append_ending(loaded, e, plan, &at)
                                      : append(pass, i, plan, &at));
        }
    return KAS_OK;
}

kas_status kas_loaded_append(const kas_loaded *loaded, kas_plan *plan, bool backward,
                             void *const *address)
{
    return append_pass(loaded, backward, plan, address, &(ending){.operation = -1});
}

kas_status kas_loaded_append_epilogue(const kas_loaded *loaded, kas_plan *plan, int epilogue,
                                      void *const *address)
{
    return append_pass(loaded, false, plan, address,
                       &(ending){.operation = loaded->program->written_by, .kernel = epilogue});
}

kas_conv *kas_loaded_conv(const kas_loaded *loaded, int i)
{
    return loaded->pass[0].conv[i];
}

kas_status kas_loaded_append_folded(const kas_loaded *loaded, kas_plan *plan,
                                    kas_conv_epilogue epilogue, const kas_conv_call *call,
                                    void *const *address, bool *taken)
{
    const ending e = {
        .operation = loaded->program->fold.operation, .call = call, .epilogue = epilogue};
    const kas_conv *conv = kas_loaded_conv(loaded, e.operation);
    *taken = true;
    for (int number = 0; number < loaded->program->pieces && *taken; number++) {
        const kas_conv_call one = call_of(&e, &(piece){loaded->program, address, number});
        *taken = kas_conv_takes_epilogue(conv, epilogue, &one);
    }
    return *taken ? append_pass(loaded, false, plan, address, &e) : KAS_OK;
}

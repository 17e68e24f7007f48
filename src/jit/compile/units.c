#include "jit/compile/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/arena.h"
#include "host/core/sha256.h"
#include "jit/compile/share.h"

/* Bytes of text after which a new unit begins. Starting clang and its linker takes 70 ms of CPU
 * time and a kernel of 900 bytes 10 to 20; NVRTC starts in 25 ms and takes 20 to 40 a kernel. */
enum { HOST_UNIT = 48 << 10, NVRTC_UNIT = 12 << 10 };

typedef struct cutter {
    kas_units *units;
    size_t unit_bytes;
    kas_dtype dtype;
} cutter;

/* Begins a unit with its choice of KAS_DTYPE (docs/dialect.md). */
static kas_status new_unit(kas_units *p, kas_dtype dtype)
{
    if (!KAS_GROW(p->text, p->count))
        return kas_fail(KAS_NO_MEMORY, "no memory for the text of %d units", p->count + 1);
    kas_buf *text = &p->text[p->count++];
    *text = (kas_buf){0};
    kas_buf_printf(text, "#undef KAS_DTYPE\n#define KAS_DTYPE %d\n\n", (int)dtype);
    return kas_buf_status(text);
}

/* Names a kernel by its text, so that equal kernels of all candidates have one name. */
static kas_status name_kernel(const kas_program *program, kas_operation *op)
{
    kas_buf text = {0};
    kas_sha256 hash;
    uint8_t digest[32];
    char hex[65];
    const kas_status status = kas_kernel_nameless(program, op, &text);
    kas_sha256_init(&hash);
    kas_sha256_update(&hash, text.data, text.size);
    kas_sha256_final(&hash, digest);
    kas_sha256_to_hex(digest, hex);
    snprintf(op->symbol, sizeof op->symbol, "k_%.24s", hex);
    kas_buf_free(&text);
    return status;
}

static kas_status add_kernel(cutter *c, const kas_program *program, kas_operation *op)
{
    kas_units *u = c->units;
    KAS_TRY(name_kernel(program, op));
    if (u->count == 0 || u->text[u->count - 1].size + op->text_size > c->unit_bytes)
        KAS_TRY(new_unit(u, c->dtype));
    op->unit = u->count - 1;
    kas_buf *text = &u->text[op->unit];
    kas_unit_kernel *kernel = &u->kernel[u->kernels++];
    *kernel = (kas_unit_kernel){.operation = op, .unit = op->unit, .at = text->size};
    KAS_TRY(kas_kernel_named(program, op, op->symbol, text));
    kernel->size = text->size - kernel->at;
    return KAS_OK;
}

/* Finds a shared kernel: that of the operation for which it was written. */
static kas_status find_shared(const cutter *c, kas_operation *op)
{
    for (int i = 0; i < c->units->kernels; i++) {
        const kas_operation *written = c->units->kernel[i].operation;
        if (strcmp(written->function, op->function) == 0) {
            op->unit = written->unit;
            memcpy(op->symbol, written->symbol, sizeof op->symbol);
            return KAS_OK;
        }
    }
    return kas_fail(KAS_FAILURE, "kernel %s is shared with a program that is not here",
                    op->function);
}

static kas_status add_pass(cutter *c, const kas_program *program, kas_operation *op, int count)
{
    for (int i = 0; i < count; i++)
        if (op[i].kind == KAS_OPERATION_LAUNCH)
            KAS_TRY(op[i].text_size > 0 ? add_kernel(c, program, &op[i]) : find_shared(c, &op[i]));
    return KAS_OK;
}

kas_status kas_units_cut(kas_program *const *program, int programs, const char *arch,
                         kas_units *out)
{
    size_t most = 1;
    kas_status status = KAS_OK;
    for (int p = 0; p < programs; p++)
        most += (size_t)(program[p]->forwards + program[p]->backwards + program[p]->epilogues);
    cutter c = {.units = out,
                .dtype = programs > 0 ? program[0]->dtype : KAS_F32,
                .unit_bytes = strncmp(arch, "sm_", 3) == 0 ? NVRTC_UNIT : HOST_UNIT};
    *out = (kas_units){.kernel = calloc(most, sizeof *out->kernel)};
    if (!out->kernel)
        return kas_fail(KAS_NO_MEMORY, "no memory for a list of %zu kernels", most);
    for (int p = 0; p < programs && status == KAS_OK; p++) {
        status = add_pass(&c, program[p], program[p]->forward, program[p]->forwards);
        if (status == KAS_OK)
            status = add_pass(&c, program[p], program[p]->backward, program[p]->backwards);
        if (status == KAS_OK)
            status = add_pass(&c, program[p], program[p]->epilogue_kernel, program[p]->epilogues);
    }
    return status;
}

void kas_units_free(kas_units *units)
{
    for (int i = 0; i < units->count; i++)
        kas_buf_free(&units->text[i]);
    free(units->text);
    free(units->kernel);
    *units = (kas_units){0};
}

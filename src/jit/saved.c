#include "jit/saved.h"

#include <stdlib.h>

#include "jit/pieces.h"

static void mark_read(const kas_operation *op, char *read)
{
    if (op->kind == KAS_OPERATION_CONV) {
        read[op->x] = read[op->w] = read[op->y] = 1;
        return;
    }
    for (int i = 0; i < op->args; i++)
        read[op->arg[i]] = 1;
}

kas_status kas_program_mark_saved(kas_program *p)
{
    char *forward = calloc(2, (size_t)p->buffers + 1);
    if (!forward)
        return kas_ir_no_memory();
    char *backward = forward + p->buffers + 1;
    for (int i = 0; i < p->forwards; i++)
        mark_read(&p->forward[i], forward);
    for (int i = 0; i < p->backwards; i++)
        mark_read(&p->backward[i], backward);
    int saved = 0, scratch = 0;
    kas_status status = KAS_OK;
    for (int i = 0; i < p->buffers; i++) {
        if (p->buffer[i].role == KAS_ROLE_Y && backward[i])
            status = kas_fail(KAS_FAILURE,
                              "program %s: the backward pass reads Y, which it is not "
                              "given: this is a fault of the lowering, please report it",
                              p->prefix);
        if (p->buffer[i].role != KAS_ROLE_SCRATCH)
            continue;
        if (forward[i] && backward[i]) {
            p->buffer[i].role = KAS_ROLE_SAVED;
            p->buffer[i].index = saved++;
            if (!p->buffer[i].once)
                kas_pieces_cut(p, &p->buffer[i], (p->buffer[i].bytes + 63) / 64 * 64);
        } else {
            p->buffer[i].index = scratch++;
        }
    }
    free(forward);
    return status;
}

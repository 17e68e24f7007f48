#include "jit/ir/ir.h"

#include <stdlib.h>
#include <string.h>

#include "host/core/arena.h"

kas_status kas_ir_init(kas_ir *ir)
{
    *ir = (kas_ir){.status = KAS_OK};
    ir->arena = kas_arena_create();
    if (!ir->arena)
        return kas_ir_no_memory();
    kas_ir_var(ir, 1);   /* variable 0 and the tables exist even after a failure */
    kas_ix_const(ir, 0); /* handle 0 of both kinds, which calls return after a failure */
    kas_ex_const(ir, 0);
    kas_status status = ir->status;
    if (status != KAS_OK)
        kas_ir_free(ir);
    return status;
}

void kas_ir_free(kas_ir *ir)
{
    kas_hashcons_free(&ir->atoms);
    kas_hashcons_free(&ir->sums);
    kas_hashcons_free(&ir->exprs);
    free(ir->ix_range);
    free(ir->var_size);
    free(ir->tensor);
    free(ir->memo);
    free(ir->memo_stamp);
    kas_arena_free(ir->arena);
    *ir = (kas_ir){0};
}

kas_status kas_ir_no_memory(void)
{
    return kas_fail(KAS_NO_MEMORY, "out of memory while a kernel was lowered");
}

void kas_ir_fail(kas_ir *ir, kas_status status)
{
    if (ir->status == KAS_OK)
        ir->status = status;
}

int kas_ir_var(kas_ir *ir, int64_t size)
{
    if (!KAS_GROW(ir->var_size, ir->vars)) {
        kas_ir_fail(ir, kas_ir_no_memory());
        return 0;
    }
    ir->var_size[ir->vars] = size;
    return ir->vars++;
}

int kas_ir_loop_var(kas_ir *ir, int64_t size)
{
    return size > 1 ? kas_ir_var(ir, size) : -1;
}

void kas_ir_own_index(kas_ir *ir, int tensor, kas_ix *idx)
{
    for (int d = 0; d < ir->tensor[tensor].rank; d++)
        idx[d] = kas_ix_var(ir, ir->tensor[tensor].var[d]);
}

void kas_ir_memory_order(const kas_ir_tensor *t, int *dim)
{
    int count = 0;
    for (int d = 0; d < t->rank && d < KAS_DIM_C; d++)
        dim[count++] = d;
    for (int behind = 0; behind < 2; behind++)
        for (int d = KAS_DIM_C; d < t->rank; d++)
            if ((t->ahead >> d & 1) != (uint32_t)behind)
                dim[count++] = d;
}

int kas_ir_innermost(const kas_ir_tensor *t)
{
    int inner = 0;
    for (int d = 1; d < t->rank; d++) {
        const bool behind = inner < KAS_DIM_C || (t->ahead >> inner & 1) || !(t->ahead >> d & 1);
        if (t->size[d] > 1 && behind)
            inner = d;
    }
    return inner;
}

static void set_layout(kas_ir_tensor *t)
{
    int64_t stride = 1;
    int dim[KAS_IR_RANK];
    kas_ir_memory_order(t, dim);
    t->elements = 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        const int d = dim[i];
        if (t->pitch && d == 2)
            stride = t->pitch;
        t->stride[d] = stride;
        stride *= t->size[d];
        t->elements *= t->size[d];
    }
    t->floats = stride;
}

void kas_ir_put_ahead(kas_ir *ir, int tensor, uint32_t ahead)
{
    if (ir->tensor[tensor].ahead == ahead)
        return;
    ir->tensor[tensor].ahead = ahead;
    set_layout(&ir->tensor[tensor]);
}

int kas_ir_add_tensor(kas_ir *ir, kas_tensor_kind kind, int rank, const int64_t *size, int pitch)
{
    if (rank > KAS_IR_RANK) {
        kas_ir_fail(ir, kas_fail(KAS_UNSUPPORTED,
                                 "the kernel has a tensor of %d dimensions; at most %d are lowered",
                                 rank, KAS_IR_RANK));
        return 0;
    }
    kas_ir_tensor t = {.kind = kind,
                       .role = KAS_ROLE_SCRATCH,
                       .rank = rank,
                       .pitch = pitch,
                       .dtype = pitch || kind == KAS_TENSOR_EXTERN ? ir->dtype : KAS_F32,
                       .memory = -1,
                       .row_var = -1,
                       .row_block = -1,
                       .row_owner = -1,
                       .buffer = -1};
    for (int d = 0; d < rank; d++) {
        t.size[d] = size[d];
        t.var[d] = kas_ir_loop_var(ir, size[d]);
    }
    set_layout(&t);
    if (!KAS_GROW(ir->tensor,
                  ir->tensors)) { /* behind the last use of `size`, which may lie there */
        kas_ir_fail(ir, kas_ir_no_memory());
        return 0;
    }
    ir->tensor[ir->tensors] = t;
    return ir->tensors++;
}

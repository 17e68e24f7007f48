#include "jit/once.h"

typedef struct reading {
    const kas_ir *ir;
    bool once;
} reading;

static void see_read(void *context, kas_ex e, const kas_ex_node *node)
{
    reading *r = context;
    (void)e;
    if (node->kind == KAS_EX_READ)
        r->once &= r->ir->tensor[node->tensor].once;
}

kas_status kas_once_find(kas_ir *ir)
{
    for (int i = 0; i < ir->tensors; i++) {
        kas_ir_tensor *t = &ir->tensor[ir->order[i]];
        reading r = {ir, t->role == KAS_ROLE_SCRATCH};
        if (t->kind == KAS_TENSOR_DEF)
            KAS_TRY(kas_ex_visit(ir, t->def, see_read, &r));
        else
            r.once = t->role == KAS_ROLE_WEIGHT || t->role == KAS_ROLE_GAIN;
        t->once = r.once;
    }
    return KAS_OK;
}

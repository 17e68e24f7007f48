/* Substitution of definitions, and reads turned into loads. */
#include <stdlib.h>
#include <string.h>

#include "jit/fuse/fuse.h"

static kas_ex expand(kas_inliner *in, kas_ex e);

static kas_ex load(kas_ir *ir, const kas_ex_node *node)
{
    const kas_ir_tensor *t = &ir->tensor[node->tensor];
    kas_ix address = kas_ix_const(ir, kas_fuse_offset(ir, node->tensor));
    for (int d = 0; d < node->rank; d++)
        address = kas_ix_add(ir, address, kas_ix_scale(ir, node->idx[d], t->stride[d]));
    return kas_ex_load(ir, kas_fuse_memory(ir, node->tensor), address);
}

static kas_ex read(kas_inliner *in, const kas_ex_node *node)
{
    kas_ir *ir = in->ir;
    const kas_ir_tensor *t = &ir->tensor[node->tensor];
    const bool here = in->row && in->row[node->tensor];
    if ((t->materialised || t->memory >= 0) && !here)
        return load(ir, node);
    kas_subst s = {0};
    for (int d = 0; d < t->rank; d++)
        kas_subst_add(ir, &s, t->var[d], node->idx[d]);
    return expand(in, kas_ex_map(ir, t->def, &s, true));
}

static kas_ex expand_node(kas_inliner *in, const kas_ex_node *node)
{
    kas_ir *ir = in->ir;
    kas_ex a[4] = {0};
    for (int i = 0; i < kas_ex_children(node); i++)
        a[i] = expand(in, node->a[i]);
    if (node->kind == KAS_EX_READ)
        return read(in, node);
    return kas_ex_children(node) > 0 ? kas_ex_with(ir, node, a) : -1;
}

static kas_ex expand(kas_inliner *in, kas_ex e)
{
    if (e < in->capacity && in->memo[e])
        return in->memo[e] - 1;
    kas_ex result = expand_node(in, kas_ex_get(in->ir, e));
    if (result < 0)
        result = e; /* constants, indices, loads */
    if (e >= in->capacity) {
        const int capacity = in->ir->exprs.count * 2;
        int *memo = realloc(in->memo, sizeof *memo * (size_t)capacity);
        if (!memo) {
            kas_ir_fail(in->ir, kas_ir_no_memory());
            return 0;
        }
        memset(memo + in->capacity, 0, sizeof *memo * (size_t)(capacity - in->capacity));
        in->memo = memo;
        in->capacity = capacity;
    }
    in->memo[e] = result + 1;
    return result;
}

kas_ex kas_inline(kas_inliner *inliner, int tensor)
{
    return expand(inliner, inliner->ir->tensor[tensor].def);
}

void kas_inliner_free(kas_inliner *inliner)
{
    free(inliner->memo);
    *inliner = (kas_inliner){.ir = inliner->ir};
}

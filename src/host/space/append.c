#include "host/space/append.h"

#include <string.h>

#include "host/space/split.h"
#include "host/space/weights.h"

static bool same_node(const kas_node *a, const kas_node *b)
{
    return a->op == b->op && memcmp(a->in, b->in, sizeof a->in) == 0 && a->dim == b->dim &&
           a->dim_end == b->dim_end && a->axes == b->axes && a->offset == b->offset &&
           a->symbol == b->symbol && a->kernel == b->kernel && a->dilation == b->dilation &&
           a->split == b->split && a->segment == b->segment && a->transpose == b->transpose &&
           a->softmax == b->softmax;
}

int kas_find_node(const kas_kernel *kernel, int before, const kas_node *node)
{
    if (kas_op_has_weight((kas_op)node->op))
        return -1;
    for (int i = 0; i < before; i++)
        if (same_node(&kernel->node[i], node))
            return i;
    return -1;
}

int kas_append_node(kas_kernel *kernel, const kas_node *node)
{
    const int found = kas_find_node(kernel, kernel->nodes, node);
    if (found >= 0)
        return found;
    if (kernel->nodes == KAS_MAX_NODES) {
        kas_fail(KAS_ILLEGAL, "a kernel has at most %d nodes", KAS_MAX_NODES);
        return -1;
    }
    kernel->node[kernel->nodes++] = *node;
    return kas_node_infer(kernel, kernel->nodes - 1) == KAS_OK ? kernel->nodes - 1 : -1;
}

int kas_append_split(kas_kernel *kernel, const kas_split *wanted)
{
    for (int s = 0; s < KAS_MAX_SPLITS; s++) {
        if (kernel->split[s].whole.num == 0)
            kernel->split[s] = *wanted;
        if (kas_splits_equal(&kernel->split[s], wanted))
            return s;
    }
    kas_fail(KAS_ILLEGAL, "a kernel has at most %d splits", KAS_MAX_SPLITS);
    return -1;
}

int kas_append_group(kas_kernel *kernel, uint32_t value)
{
    for (int g = 0; g < KAS_MAX_GROUPS; g++) {
        if (kernel->group_value[g] == 0)
            kernel->group_value[g] = value;
        if (kernel->group_value[g] == value)
            return g;
    }
    kas_fail(KAS_ILLEGAL, "a kernel has at most %d group numbers", KAS_MAX_GROUPS);
    return -1;
}

#include "host/space/commute.h"

#include <string.h>

/* A step of a hash over whole numbers; any good mixing of 64 bits would do. */
static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0xff51afd7ed558ccdu;
    return hash ^ (hash >> 32);
}

bool kas_operands_commute(const kas_kernel *kernel, const kas_node *node)
{
    if (node->op != KAS_OP_ADD && node->op != KAS_OP_MUL && node->op != KAS_OP_MIN &&
        node->op != KAS_OP_MAX)
        return false;
    const kas_shape *a = &kernel->node[node->in[0]].shape, *b = &kernel->node[node->in[1]].shape;
    return kas_shape_equal(a, b) && memcmp(a->is_group, b->is_group, sizeof a->is_group) == 0;
}

/* A size without saying which variable, group number or rest it has. */
static uint64_t hash_size(uint64_t hash, const kas_dim *size)
{
    uint64_t named[3] = {64, 64, 64};
    hash = mix(mix(hash, size->num), size->den);
    for (int s = 0; s < KAS_SYM_COUNT; s++) {
        if (s < KAS_SYM_R0)
            hash = mix(hash, (uint64_t)(size->exp[s] + 64));
        else
            named[s < KAS_SYM_G0 ? 0 : s < KAS_SYM_X0 ? 1 : 2] += (uint64_t)size->exp[s];
    }
    return mix(mix(mix(hash, named[0]), named[1]), named[2]);
}

static uint64_t hash_attributes(const kas_kernel *kernel, const kas_node *n)
{
    /* The name, not its number: that may change. */
    const uint64_t fields[] = {n->inputs,
                               n->axes,
                               (uint64_t)(n->dim + 64),
                               n->grouped,
                               n->kernel,
                               (uint64_t)(n->dim_end + 64),
                               n->transpose,
                               n->softmax,
                               (uint64_t)(n->offset + 64),
                               n->segment,
                               n->dilation ? n->dilation : 1};
    uint64_t hash = 1;
    for (const char *c = kas_op_get((kas_op)n->op)->name; *c; c++)
        hash = mix(hash, (uint64_t)*c);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        hash = mix(hash, fields[i]);
    if (n->op == KAS_OP_SLICE || n->op == KAS_OP_CONCAT) {
        const kas_split *split = &kernel->split[n->split];
        hash = hash_size(mix(mix(hash, split->first), split->shares), &split->whole);
    }
    return hash_size(hash, &n->out);
}

/* What every node is made of: operands that commute in no order. */
static void hash_upward(const kas_kernel *kernel, uint64_t made[KAS_MAX_NODES])
{
    for (int i = 0; i < kernel->nodes; i++) {
        const kas_node *n = &kernel->node[i];
        made[i] = hash_attributes(kernel, n);
        if (kas_operands_commute(kernel, n)) {
            made[i] = mix(made[i], made[n->in[0]] + made[n->in[1]]);
            continue;
        }
        for (int k = 0; k < n->inputs; k++)
            made[i] = mix(made[i], made[n->in[k]]);
    }
}

/* What every node is used for. */
static void hash_downward(const kas_kernel *kernel, const uint64_t made[KAS_MAX_NODES],
                          uint64_t used[KAS_MAX_NODES])
{
    memset(used, 0, KAS_MAX_NODES * sizeof *used);
    for (int i = kernel->nodes - 1; i >= 0; i--) {
        const kas_node *n = &kernel->node[i];
        const bool either = kas_operands_commute(kernel, n);
        for (int k = 0; k < n->inputs; k++)
            used[n->in[k]] += mix(mix(used[i], made[i]), either ? 0 : (uint64_t)k + 1);
    }
}

void kas_kernel_order_operands(kas_kernel *kernel)
{
    uint64_t made[KAS_MAX_NODES], used[KAS_MAX_NODES];
    hash_upward(kernel, made);
    hash_downward(kernel, made, used);
    for (int i = 0; i < kernel->nodes; i++) {
        kas_node *n = &kernel->node[i];
        const uint8_t a = n->in[0], b = n->in[1];
        if (kas_operands_commute(kernel, n) && mix(made[a], used[a]) > mix(made[b], used[b])) {
            n->in[0] = b;
            n->in[1] = a;
        }
    }
}

#include "host/space/evolve/blend.h"

#include <string.h>

#include "host/core/gcd.h"
#include "host/space/append.h"
#include "host/space/primitive.h"
#include "host/space/split.h"

/* A kernel on its way into the blend. */
typedef struct copy {
    const kas_kernel *from;
    kas_kernel *to;
    int node[KAS_MAX_NODES];   /* numbers there */
    int symbol[KAS_SYM_COUNT]; /* symbols there */
    int split[KAS_MAX_SPLITS]; /* splits there */
} copy;

static kas_status check_ends(const kas_kernel *k, const char *which)
{
    const kas_dim c = kas_dim_symbol(KAS_SYM_C);
    const kas_node *last = &k->node[k->nodes - 1];
    if (last->op != KAS_OP_FC || !kas_dim_equal(&last->out, &c))
        return kas_fail(KAS_ILLEGAL,
                        "%s kernel does not end in a fully-connected map to C channels, so its "
                        "outputs cannot be made in part",
                        which);
    if (kas_kernel_vars(k))
        return kas_fail(KAS_ILLEGAL, "%s kernel has free sizes", which);
    return KAS_OK;
}

static kas_status map_groups(copy *c)
{
    for (int g = 0; g < KAS_MAX_GROUPS; g++) {
        const uint32_t value = c->from->group_value[g];
        const int to = value ? kas_append_group(c->to, value) : 0;
        if (to < 0)
            return KAS_ILLEGAL;
        c->symbol[KAS_SYM_G0 + g] = KAS_SYM_G0 + to;
    }
    return KAS_OK;
}

static kas_dim map_dim(const copy *c, const kas_dim *dim)
{
    kas_dim out = *dim;
    memset(out.exp, 0, sizeof out.exp);
    for (int s = 0; s < KAS_SYM_COUNT; s++)
        if (dim->exp[s])
            out.exp[c->symbol[s]] = (int8_t)(out.exp[c->symbol[s]] + dim->exp[s]);
    return out;
}

/* Maps the splits. One whose whole is a rest comes after the split of that rest. */
static kas_status map_splits(copy *c)
{
    const uint32_t used = kas_kernel_splits(c->from);
    for (int pass = 0; pass < KAS_MAX_SPLITS; pass++)
        for (int s = 0; s < KAS_MAX_SPLITS; s++) {
            kas_split split = c->from->split[s];
            bool ready = (used & (1u << s)) && c->split[s] < 0;
            for (int r = 0; r < KAS_MAX_SPLITS; r++)
                ready = ready && (!split.whole.exp[KAS_SYM_R0 + r] || c->split[r] >= 0);
            if (!ready)
                continue;
            split.whole = map_dim(c, &split.whole);
            c->split[s] = kas_append_split(c->to, &split);
            if (c->split[s] < 0)
                return KAS_ILLEGAL;
            c->symbol[KAS_SYM_R0 + s] = KAS_SYM_R0 + c->split[s];
        }
    return KAS_OK;
}

/* Copies a kernel, whose last map has `outputs` outputs; *number gets that node. */
static kas_status copy_kernel(const kas_kernel *from, kas_kernel *to, const kas_dim *outputs,
                              int *number)
{
    copy c = {.from = from, .to = to};
    for (int s = 0; s < KAS_SYM_COUNT; s++)
        c.symbol[s] = s;
    for (int s = 0; s < KAS_MAX_SPLITS; s++)
        c.split[s] = -1;
    KAS_TRY(map_groups(&c));
    KAS_TRY(map_splits(&c));
    for (int i = 0; i < from->nodes; i++) {
        kas_node node = from->node[i];
        const unsigned attributes = kas_primitive_get(node.op)->attributes;
        for (int k = 0; k < node.inputs; k++)
            node.in[k] = (uint8_t)c.node[node.in[k]];
        if (attributes & KAS_ATTR_SYMBOL)
            node.symbol = (uint8_t)(c.symbol[KAS_SYM_G0 + node.symbol] - KAS_SYM_G0);
        if (attributes & KAS_ATTR_SPLIT)
            node.split = (uint8_t)c.split[node.split];
        if (attributes & KAS_ATTR_OUT)
            node.out = i == from->nodes - 1 ? *outputs : map_dim(&c, &node.out);
        c.node[i] = kas_append_node(to, &node);
        if (c.node[i] < 0)
            return KAS_ILLEGAL;
    }
    *number = c.node[from->nodes - 1];
    return KAS_OK;
}

kas_status kas_blend(const kas_kernel *a, const kas_kernel *b, int share, int shares,
                     kas_kernel *out)
{
    const int common = (int)kas_gcd((uint64_t)share, (uint64_t)shares);
    const int n = shares / common;
    const bool b_first = share == common; /* 1 of n shares; else all but one */
    const kas_kernel *const part[2] = {b_first ? b : a, b_first ? a : b};
    kas_split split = {.whole = kas_dim_symbol(KAS_SYM_C)};
    kas_node join = {.op = KAS_OP_CONCAT, .inputs = 2};
    KAS_TRY(check_ends(a, "the first"));
    KAS_TRY(check_ends(b, "the second"));
    if (a->stride_inside != b->stride_inside)
        return kas_fail(KAS_ILLEGAL, "only one of the kernels takes the stride");
    if (!b_first && share != shares - common)
        return kas_fail(KAS_ILLEGAL, "%d of %d shares are neither one nor all but one",
                        share / common, n);
    memset(out, 0, sizeof *out);
    out->stride_inside = a->stride_inside;
    if (n == 2)
        split.shares = 2;
    else
        split.part = (uint16_t)n;
    const int number = kas_append_split(out, &split);
    for (int i = 0; i < 2; i++) {
        kas_dim outputs;
        int node;
        if (!kas_split_segment(out, number, i, &outputs))
            return kas_fail(KAS_ILLEGAL, "a share of the outputs has no size");
        KAS_TRY(copy_kernel(part[i], out, &outputs, &node));
        join.in[i] = (uint8_t)node;
    }
    join.split = (uint8_t)number;
    return kas_append_node(out, &join) < 0 ? KAS_ILLEGAL : kas_kernel_infer(out);
}

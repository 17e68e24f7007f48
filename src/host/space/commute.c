#include "host/space/commute.h"

#include <string.h>

#include "host/space/primitive.h"

/* A step of a hash over whole numbers; any good mixing of 64 bits would do. */
static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0xff51afd7ed558ccdu;
    return hash ^ (hash >> 32);
}

bool kas_operands_commute(const kas_kernel *kernel, const kas_node *node)
{
    if (!kas_op_has_trait(node->op, KAS_TRAIT_COMMUTES))
        return false;
    const kas_shape *a = &kernel->node[node->in[0]].shape, *b = &kernel->node[node->in[1]].shape;
    return kas_shape_equal(a, b) && memcmp(a->is_group, b->is_group, sizeof a->is_group) == 0;
}

/* Hashes a size without the names of its variables, group numbers and rests. */
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
    /* The primitive's name is hashed and not its number, which may change. */
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

/* Hashes what every node is computed from; operands that commute are added up, so their order does
 * not count. */
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

/* Hashes what reads every node. */
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

static void swap_operands(kas_node *n)
{
    const uint8_t first = n->in[0];
    n->in[0] = n->in[1];
    n->in[1] = first;
}

/* Orders operands by hashes of what each is computed from and of what reads it; the hashes do not
 * depend on node numbers or on the names of symbols. The kernel is inferred and stays so: shapes do
 * not change. Operands with equal hashes stay as they are, and `tied` gets their nodes, as bits.
 * This order must never change: what the samplers give depends on it. */
static void order_operands(kas_kernel *kernel, uint64_t *tied)
{
    uint64_t made[KAS_MAX_NODES], used[KAS_MAX_NODES];
    *tied = 0;
    hash_upward(kernel, made);
    hash_downward(kernel, made, used);
    for (int i = 0; i < kernel->nodes; i++) {
        kas_node *n = &kernel->node[i];
        const uint8_t a = n->in[0], b = n->in[1];
        if (!kas_operands_commute(kernel, n) || a == b)
            continue;
        const uint64_t first = mix(made[a], used[a]), second = mix(made[b], used[b]);
        if (first > second)
            swap_operands(n);
        *tied |= (uint64_t)(first == second) << i;
    }
}

/* Makes the canonical form with the operands of some nodes exchanged, and its text. */
static kas_status form_with(const kas_kernel *kernel, uint64_t exchanged, kas_kernel *form,
                            kas_buf *text)
{
    *form = *kernel;
    for (; exchanged; exchanged &= exchanged - 1)
        swap_operands(&form->node[__builtin_ctzll(exchanged)]);
    KAS_TRY(kas_kernel_canonicalize(form, form));
    kas_buf_clear(text);
    return kas_canonical_text(form, text);
}

/* Takes, of the forms that the orders of `tied` give, the one whose text sorts first. */
static kas_status first_form(const kas_kernel *kernel, uint64_t tied, kas_kernel *out)
{
    kas_kernel form;
    kas_buf best = {0}, text = {0};
    kas_status status = form_with(kernel, 0, out, &best);
    for (uint64_t some = (0 - tied) & tied; status == KAS_OK && some; some = (some - tied) & tied) {
        status = form_with(kernel, some, &form, &text);
        if (status == KAS_OK && strcmp(text.data, best.data) < 0) {
            const kas_buf worse = best;
            best = text;
            text = worse;
            *out = form;
        }
    }
    kas_buf_free(&best);
    kas_buf_free(&text);
    return status;
}

enum { MOST_TIED = 12 };

kas_status kas_kernel_canonicalize_unordered(const kas_kernel *kernel, kas_kernel *out)
{
    kas_kernel ordered;
    uint64_t tied, tried = 0;
    kas_kernel_copy(kernel, &ordered);
    order_operands(&ordered, &tied);
    for (int n = 0; tied && n < MOST_TIED; n++, tied &= tied - 1)
        tried |= tied & -tied;
    return tried ? first_form(&ordered, tried, out) : kas_kernel_canonicalize(&ordered, out);
}

/* Shapes and costs in whole numbers, node by node, from the tables of docs/primitives.md. */
#include <stdarg.h>
#include <stdio.h>

#include "host/check/plain_step.h"

kas_status kas_plain_illegal(const kas_plain_step *s, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return kas_fail(KAS_ILLEGAL, "node %d: %s", s->i, text);
}

int kas_plain_rank(const kas_plain_tensor *t)
{
    return t->channels + (t->h > 0) + (t->w > 0);
}

double kas_plain_elements(const kas_plain_tensor *t)
{
    double n = (double)(t->h ? t->h : 1) * (double)(t->w ? t->w : 1);
    for (int d = 0; d < t->channels; d++)
        n *= (double)t->channel[d];
    return n;
}

uint64_t *kas_plain_dim(kas_plain_tensor *t, int d)
{
    if (d < 0 || d >= kas_plain_rank(t))
        return NULL;
    if (d < t->channels)
        return &t->channel[d];
    return d == t->channels && t->h ? &t->h : &t->w;
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Cancels the denominator against the numerator; nothing of it may be left. */
bool kas_plain_size(const kas_plain_layer *layer, const kas_dim *size, uint64_t *out)
{
    enum { MOST = 256 };
    uint64_t above[MOST], below[MOST], product = 1;
    int n = 0, m = 0;
    above[n++] = size->num;
    below[m++] = size->den;
    for (int v = 0; v < KAS_SYM_COUNT; v++)
        for (int e = size->exp[v]; e != 0; e += e > 0 ? -1 : 1) {
            if (layer->value[v] == 0 || n == MOST || m == MOST)
                return false;
            if (e > 0)
                above[n++] = layer->value[v];
            else
                below[m++] = layer->value[v];
        }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++) {
            const uint64_t common = gcd(above[i], below[j]);
            above[i] /= common;
            below[j] /= common;
        }
    for (int j = 0; j < m; j++)
        if (below[j] != 1)
            return false;
    for (int i = 0; i < n; i++) {
        if (above[i] == 0 || product > ((uint64_t)1 << 40) / above[i])
            return false;
        product *= above[i];
    }
    *out = product;
    return true;
}

kas_status kas_plain_size_of(const kas_plain_step *s, const kas_dim *size, uint64_t *out)
{
    return kas_plain_size(s->layer, size, out)
               ? KAS_OK
               : kas_plain_illegal(s, "a size is not a whole number up to 2^40, or has no value");
}

enum { SEVERAL = -1 }; /* operands: 2 to KAS_MAX_INPUTS */

static const struct rule {
    kas_status (*apply)(kas_plain_step *s);
    int operands;
} rules[KAS_OP_COUNT] = {
    [KAS_OP_INPUT] = {kas_plain_input, 0},
    [KAS_OP_GROUP] = {kas_plain_group, 1},
    [KAS_OP_GROUP_ALL] = {kas_plain_group_all, 1},
    [KAS_OP_SHIFT] = {kas_plain_shift, 1},
    [KAS_OP_UNFOLD] = {kas_plain_unfold, 1},
    [KAS_OP_FC] = {kas_plain_fc, 1},
    [KAS_OP_RELU... KAS_OP_SQUARE] = {kas_plain_elementwise, 1},
    [KAS_OP_SHUFFLE] = {kas_plain_shuffle, 1},
    [KAS_OP_CONV] = {kas_plain_conv, 1},
    [KAS_OP_CONV_DEPTHWISE] = {kas_plain_conv_depthwise, 1},
    [KAS_OP_MIX] = {kas_plain_mix, 1},
    [KAS_OP_POOL_AVG] = {kas_plain_pool, 1},
    [KAS_OP_POOL_MAX] = {kas_plain_pool, 1},
    [KAS_OP_FOLD_AVG] = {kas_plain_fold, 1},
    [KAS_OP_FOLD_MAX] = {kas_plain_fold, 1},
    [KAS_OP_SOFTMAX] = {kas_plain_softmax, 1},
    [KAS_OP_NORM] = {kas_plain_norm, 1},
    [KAS_OP_SLICE] = {kas_plain_slice, 1},
    [KAS_OP_SCALE] = {kas_plain_scale, 1},
    [KAS_OP_CONCAT] = {kas_plain_concat, SEVERAL},
    [KAS_OP_BMM] = {kas_plain_bmm, 2},
    [KAS_OP_ADD... KAS_OP_MAX] = {kas_plain_broadcast, 2},
};

static kas_status one_node(kas_plain_step *s, kas_plain_tensor *tensor)
{
    const struct rule *rule = s->node->op < KAS_OP_COUNT ? &rules[s->node->op] : NULL;
    if (!rule || !rule->apply)
        return kas_fail(KAS_FAILURE, "node %d: the plain checker knows no primitive %d", s->i,
                        s->node->op);
    const int operands = s->node->inputs;
    if ((s->node->op == KAS_OP_INPUT) != (s->i == 0) || operands > KAS_MAX_INPUTS ||
        (rule->operands == SEVERAL ? operands < 2 : operands != rule->operands))
        return kas_plain_illegal(s, "%d operands are not allowed", operands);
    for (int k = 0; k < operands; k++) {
        if (s->node->in[k] >= s->i)
            return kas_plain_illegal(s, "it reads node %d, which does not come before it",
                                     s->node->in[k]);
        s->in[k] = &tensor[s->node->in[k]];
    }
    s->a = s->in[0];
    s->b = s->in[1];
    s->y = &tensor[s->i];
    return rule->apply(s);
}

kas_status kas_plain_nodes(const kas_kernel *kernel, const kas_plain_layer *layer,
                           kas_plain_tensor *tensor, kas_plain_cost *cost)
{
    *cost = (kas_plain_cost){0};
    for (int i = 0; i < kernel->nodes; i++) {
        kas_plain_step s = {.kernel = kernel, .layer = layer, .i = i, .node = &kernel->node[i]};
        KAS_TRY(one_node(&s, tensor));
        const double size = kas_plain_elements(&tensor[i]);
        if (size > 1e15) /* so that every count of elements is exact */
            return kas_plain_illegal(&s, "a tensor of %g elements is too large", size);
        cost->flops += s.flops;
        cost->params += s.params;
        cost->largest_tensor = size > cost->largest_tensor ? size : cost->largest_tensor;
        cost->largest_weight = s.params > cost->largest_weight ? s.params : cost->largest_weight;
    }
    return KAS_OK;
}

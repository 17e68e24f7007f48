/* Shapes and costs of the primitives in whole numbers, from the tables of docs/primitives.md. */
#include "host/reference/plain.h"

#include <stdarg.h>
#include <stdio.h>

/* One node at work. */
typedef struct step {
    const kas_kernel *kernel;
    const kas_plain_layer *layer;
    int i;
    const kas_node *node;
    const kas_plain_tensor *in[KAS_MAX_INPUTS], *a, *b; /* operands; the first two by name */
    kas_plain_tensor *y;
    double flops, params;
} step;

static kas_status illegal(const step *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static kas_status illegal(const step *s, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return kas_fail(KAS_ILLEGAL, "node %d: %s", s->i, text);
}

static int rank(const kas_plain_tensor *t)
{
    return t->channels + (t->h > 0) + (t->w > 0);
}

static double elements(const kas_plain_tensor *t)
{
    double n = (double)(t->h ? t->h : 1) * (double)(t->w ? t->w : 1);
    for (int d = 0; d < t->channels; d++)
        n *= (double)t->channel[d];
    return n;
}

/* Makes room for a channel dim in front of position `at`. */
static kas_status insert(step *s, int at, uint64_t size, bool marked)
{
    kas_plain_tensor *y = s->y;
    if (y->channels == 8)
        return illegal(s, "a ninth channel dim");
    for (int d = y->channels++; d > at; d--) {
        y->channel[d] = y->channel[d - 1];
        y->marked[d] = y->marked[d - 1];
    }
    y->channel[at] = size;
    y->marked[at] = marked;
    return KAS_OK;
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

/* What stands below the line is cancelled against what stands above, and nothing may be left. */
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

static kas_status size_of(const step *s, const kas_dim *size, uint64_t *out)
{
    return kas_plain_size(s->layer, size, out)
               ? KAS_OK
               : illegal(s, "a size is no whole number up to 2^40, or has no value");
}

/* Dim d of the list [channels..., H, W]; NULL when there is none. */
static uint64_t *dim_of(kas_plain_tensor *t, int d)
{
    if (d < 0 || d >= rank(t))
        return NULL;
    if (d < t->channels)
        return &t->channel[d];
    return d == t->channels && t->h ? &t->h : &t->w;
}

static kas_status input(step *s)
{
    *s->y = (kas_plain_tensor){.channels = 1,
                               .channel = {s->layer->value[KAS_SYM_C]},
                               .h = s->layer->value[KAS_SYM_H],
                               .w = s->layer->value[KAS_SYM_W]};
    return KAS_OK;
}

/* X -> G, X/G */
static kas_status group(step *s)
{
    const int d = s->node->dim;
    *s->y = *s->a;
    if (d < 0 || d >= s->a->channels || s->node->symbol >= KAS_MAX_GROUPS)
        return illegal(s, "group of dim %d by G%d", d, s->node->symbol);
    const uint64_t g = s->layer->value[KAS_SYM_G0 + s->node->symbol], x = s->a->channel[d];
    if (g < 2 || x % g != 0)
        return illegal(s, "%llu groups of a dim of %llu", (unsigned long long)g,
                       (unsigned long long)x);
    s->y->channel[d] = x / g;
    return insert(s, d, g, true);
}

/* Channels of X in G groups, reordered. */
static kas_status shuffle(step *s)
{
    const int d = s->node->dim;
    *s->y = *s->a;
    if (d < 0 || d >= s->a->channels || s->node->symbol >= KAS_MAX_GROUPS)
        return illegal(s, "shuffle of dim %d by G%d", d, s->node->symbol);
    const uint64_t g = s->layer->value[KAS_SYM_G0 + s->node->symbol], x = s->a->channel[d];
    if (g < 2 || x % g != 0)
        return illegal(s, "%llu groups to shuffle in a dim of %llu", (unsigned long long)g,
                       (unsigned long long)x);
    return KAS_OK;
}

/* X -> X, 1 */
static kas_status group_all(step *s)
{
    const int d = s->node->dim;
    *s->y = *s->a;
    if (d < 0 || d >= s->a->channels || s->a->marked[d])
        return illegal(s, "group_all of dim %d", d);
    s->y->marked[d] = true;
    return insert(s, d + 1, 1, false);
}

static bool has_axes(const kas_plain_tensor *t, int axes)
{
    return axes >= 1 && axes <= 3 && (!(axes & 1) || t->h) && (!(axes & 2) || t->w);
}

static kas_status shift(step *s)
{
    const int o = s->node->offset;
    *s->y = *s->a;
    if (s->node->axes == 3 || !has_axes(s->a, s->node->axes) || o < -3 || o > 3 || o == 0)
        return illegal(s, "shift by %d along axes %d", o, s->node->axes);
    return KAS_OK;
}

static kas_status unfold(step *s)
{
    const kas_node *n = s->node;
    *s->y = *s->a;
    if (!has_axes(s->a, n->axes) || n->dilation > 3 ||
        (n->kernel != 0 && n->kernel != 3 && n->kernel != 5 && n->kernel != 7))
        return illegal(s, "unfold along axes %d, window %d, dilation %d", n->axes, n->kernel,
                       n->dilation);
    for (int axis = 1; axis <= 2; axis++)
        if (n->axes & axis) {
            const uint64_t own = s->layer->value[axis == 1 ? KAS_SYM_KH : KAS_SYM_KW];
            KAS_TRY(insert(s, s->y->channels, n->kernel ? n->kernel : own, false));
        }
    return KAS_OK;
}

/* How a split cuts its whole: the size of each segment. */
static kas_status segments(const step *s, uint64_t *whole, uint64_t size[KAS_MAX_INPUTS],
                           int *count)
{
    const kas_split *split =
        s->node->split < KAS_MAX_SPLITS ? &s->kernel->split[s->node->split] : NULL;
    if (!split || !kas_plain_size(s->layer, &split->whole, whole))
        return illegal(s, "split %d has no whole", s->node->split);
    if (split->first) {
        *count = 2;
        size[0] = split->first;
        size[1] = s->layer->value[KAS_SYM_R0 + s->node->split];
        if (size[1] == 0 || size[0] + size[1] != *whole)
            return illegal(s, "%llu and %llu are not %llu", (unsigned long long)size[0],
                           (unsigned long long)size[1], (unsigned long long)*whole);
        return KAS_OK;
    }
    *count = split->shares;
    if (*count < 2 || *count > 4 || *whole % (uint64_t)*count != 0)
        return illegal(s, "%llu in %d shares", (unsigned long long)*whole, *count);
    for (int k = 0; k < *count; k++)
        size[k] = *whole / (uint64_t)*count;
    return KAS_OK;
}

/* one segment of a dim */
static kas_status slice(step *s)
{
    uint64_t whole, size[KAS_MAX_INPUTS];
    int count;
    KAS_TRY(segments(s, &whole, size, &count));
    *s->y = *s->a;
    uint64_t *dim = dim_of(s->y, s->node->dim);
    if (!dim || *dim != whole || s->node->segment >= count)
        return illegal(s, "segment %d of dim %d, %llu cut in %d", s->node->segment, s->node->dim,
                       (unsigned long long)whole, count);
    *dim = size[s->node->segment];
    return KAS_OK;
}

static bool equal_but_for(const kas_plain_tensor *a, const kas_plain_tensor *b, int dim)
{
    kas_plain_tensor x = *a, y = *b;
    if (rank(a) != rank(b) || a->channels != b->channels || !a->h != !b->h)
        return false;
    for (int d = 0; d < rank(a); d++)
        if (d != dim && *dim_of(&x, d) != *dim_of(&y, d))
            return false;
    return true;
}

/* all segments, in order */
static kas_status concat(step *s)
{
    uint64_t whole, size[KAS_MAX_INPUTS];
    int count;
    KAS_TRY(segments(s, &whole, size, &count));
    if (count != s->node->inputs)
        return illegal(s, "%d operands for %d segments", s->node->inputs, count);
    *s->y = *s->a;
    for (int k = 0; k < count; k++) {
        kas_plain_tensor operand = *s->in[k];
        const uint64_t *dim = dim_of(&operand, s->node->dim);
        if (!dim || *dim != size[k] || !equal_but_for(s->a, &operand, s->node->dim))
            return illegal(s, "operand %d is not segment %d of dim %d", k, k, s->node->dim);
        for (int d = 0; d < operand.channels; d++)
            s->y->marked[d] = s->y->marked[d] && operand.marked[d];
    }
    *dim_of(s->y, s->node->dim) = whole;
    return KAS_OK;
}

/* channels -> out; the marked dims stand apart when it is grouped */
static kas_status fully_connected(step *s)
{
    uint64_t apart = 1, contracted = 1, out;
    bool any = false;
    for (int d = 0; d < s->a->channels; d++) {
        if (s->node->grouped && s->a->marked[d])
            apart *= s->a->channel[d];
        else
            contracted *= s->a->channel[d];
        any |= s->a->marked[d];
    }
    if (s->node->grouped && !any)
        return illegal(s, "grouped, and there is no group dim");
    KAS_TRY(size_of(s, &s->node->out, &out));
    if (out % apart != 0)
        return illegal(s, "%llu outputs for %llu groups", (unsigned long long)out,
                       (unsigned long long)apart);
    *s->y = (kas_plain_tensor){.channels = 1, .channel = {out}, .h = s->a->h, .w = s->a->w};
    s->flops = elements(s->y) * (double)contracted;
    s->params = (double)out * (double)contracted;
    return KAS_OK;
}

static kas_status element_wise(step *s)
{
    *s->y = *s->a;
    s->flops = elements(s->y);
    return KAS_OK;
}

/* removes a dim of the list [channels..., H, W] */
static kas_status fold(step *s)
{
    const int d = s->node->dim;
    kas_plain_tensor *y = s->y;
    *y = *s->a;
    if (d < 0 || d >= rank(s->a))
        return illegal(s, "fold of dim %d of %d", d, rank(s->a));
    if (d >= y->channels) {
        if (d == y->channels && y->h)
            y->h = 0;
        else
            y->w = 0;
    } else {
        y->channels--;
        for (int k = d; k < y->channels; k++) {
            y->channel[k] = y->channel[k + 1];
            y->marked[k] = y->marked[k + 1];
        }
    }
    s->flops = elements(s->a);
    return KAS_OK;
}

/* softmax and norm: over consecutive dims */
static kas_status together(step *s)
{
    *s->y = *s->a;
    if (s->node->dim < 0 || s->node->dim >= s->node->dim_end || s->node->dim_end > rank(s->a))
        return illegal(s, "over dims %d to %d of %d", s->node->dim, s->node->dim_end - 1,
                       rank(s->a));
    s->flops = elements(s->y);
    return KAS_OK;
}

/* a factor for each position of consecutive channel dims */
static kas_status scale(step *s)
{
    *s->y = *s->a;
    if (s->node->dim < 0 || s->node->dim >= s->node->dim_end || s->node->dim_end > s->a->channels)
        return illegal(s, "scale of dims %d to %d of %d channel dims", s->node->dim,
                       s->node->dim_end - 1, s->a->channels);
    s->params = 1;
    for (int d = s->node->dim; d < s->node->dim_end; d++)
        s->params *= (double)s->a->channel[d];
    s->flops = elements(s->y);
    return KAS_OK;
}

/* the mean or the maximum of a window of pixels; a FLOP for each of its taps */
static kas_status pool(step *s)
{
    const kas_node *n = s->node;
    *s->y = *s->a;
    if (!has_axes(s->a, n->axes) ||
        (n->kernel != 0 && n->kernel != 3 && n->kernel != 5 && n->kernel != 7))
        return illegal(s, "pool along axes %d, window %d", n->axes, n->kernel);
    s->flops = elements(s->y);
    for (int axis = 1; axis <= 2; axis++)
        if (n->axes & axis) {
            const uint64_t own = s->layer->value[axis == 1 ? KAS_SYM_KH : KAS_SYM_KW];
            s->flops *= (double)(n->kernel ? n->kernel : own);
        }
    return KAS_OK;
}

static kas_status blend(step *s)
{
    const double lhs = elements(s->a), rhs = elements(s->b);
    *s->y = *s->b;
    if (lhs > rhs || (uint64_t)rhs % (uint64_t)lhs != 0)
        return illegal(s, "%.0f elements do not tile %.0f", lhs, rhs);
    s->flops = rhs;
    return KAS_OK;
}

enum { SEVERAL = -1 }; /* operands: 2 to KAS_MAX_INPUTS */

static const struct rule {
    kas_status (*apply)(step *s);
    int operands;
} rules[KAS_OP_COUNT] = {[KAS_OP_INPUT] = {input, 0},
                         [KAS_OP_GROUP] = {group, 1},
                         [KAS_OP_GROUP_ALL] = {group_all, 1},
                         [KAS_OP_SHIFT] = {shift, 1},
                         [KAS_OP_UNFOLD] = {unfold, 1},
                         [KAS_OP_FC] = {fully_connected, 1},
                         [KAS_OP_RELU] = {element_wise, 1},
                         [KAS_OP_GELU] = {element_wise, 1},
                         [KAS_OP_SIGMOID] = {element_wise, 1},
                         [KAS_OP_TANH] = {element_wise, 1},
                         [KAS_OP_ABS] = {element_wise, 1},
                         [KAS_OP_EXP] = {element_wise, 1},
                         [KAS_OP_NEG] = {element_wise, 1},
                         [KAS_OP_SIN] = {element_wise, 1},
                         [KAS_OP_SQRT] = {element_wise, 1},
                         [KAS_OP_SQUARE] = {element_wise, 1},
                         [KAS_OP_FOLD_AVG] = {fold, 1},
                         [KAS_OP_FOLD_MAX] = {fold, 1},
                         [KAS_OP_SOFTMAX] = {together, 1},
                         [KAS_OP_NORM] = {together, 1},
                         [KAS_OP_POOL_AVG] = {pool, 1},
                         [KAS_OP_POOL_MAX] = {pool, 1},
                         [KAS_OP_SHUFFLE] = {shuffle, 1},
                         [KAS_OP_SLICE] = {slice, 1},
                         [KAS_OP_SCALE] = {scale, 1},
                         [KAS_OP_CONCAT] = {concat, SEVERAL},
                         [KAS_OP_ADD] = {blend, 2},
                         [KAS_OP_SUB] = {blend, 2},
                         [KAS_OP_MUL] = {blend, 2},
                         [KAS_OP_MIN] = {blend, 2},
                         [KAS_OP_MAX] = {blend, 2}};

static kas_status one_node(step *s, kas_plain_tensor *tensor)
{
    const struct rule *rule = s->node->op < KAS_OP_COUNT ? &rules[s->node->op] : NULL;
    if (!rule || !rule->apply)
        return kas_fail(KAS_FAILURE, "node %d: the plain checker knows no primitive %d", s->i,
                        s->node->op);
    const int operands = s->node->inputs;
    if ((s->node->op == KAS_OP_INPUT) != (s->i == 0) || operands > KAS_MAX_INPUTS ||
        (rule->operands == SEVERAL ? operands < 2 : operands != rule->operands))
        return illegal(s, "%d operands", operands);
    for (int k = 0; k < operands; k++) {
        if (s->node->in[k] >= s->i)
            return illegal(s, "reads node %d", s->node->in[k]);
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
        step s = {.kernel = kernel, .layer = layer, .i = i, .node = &kernel->node[i]};
        KAS_TRY(one_node(&s, tensor));
        const double size = elements(&tensor[i]);
        if (size > 1e15) /* so that every count of elements is exact */
            return illegal(&s, "a tensor of %g elements", size);
        cost->flops += s.flops;
        cost->params += s.params;
        cost->largest_tensor = size > cost->largest_tensor ? size : cost->largest_tensor;
        cost->largest_weight = s.params > cost->largest_weight ? s.params : cost->largest_weight;
    }
    return KAS_OK;
}

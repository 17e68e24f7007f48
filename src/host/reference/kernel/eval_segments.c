/* slice and concat.  A tensor is seen as [outer][elements along the dim][inner]; a segment is a run
 * of elements along the dim. */
#include "host/reference/kernel/evaluate.h"

/* Equal shares lie one behind the other; otherwise the second segment begins where the first
 * elements end.  The segments must fill the whole. */
static kas_status slice_sizes(const kas_kernel *kernel, int i, kas_ref_node *out)
{
    const kas_node *node = &kernel->node[i];
    const kas_split *split = &kernel->split[node->split];
    const size_t whole = out->in[0].size[node->dim], size = out->out.size[node->dim];
    const size_t first = split->part ? whole / split->part : split->first;
    out->begin = split->shares ? node->segment * (whole / split->shares) : node->segment * first;
    const bool last = node->segment == (split->shares ? split->shares - 1 : 1);
    if (last ? out->begin + size != whole : out->begin + size >= whole)
        return kas_fail(KAS_ILLEGAL,
                        "reference: node %d: %zu elements from %zu are no segment of %zu", i, size,
                        out->begin, whole);
    return KAS_OK;
}

static kas_status concat_sizes(const kas_kernel *kernel, int i, kas_ref_node *out)
{
    const kas_node *node = &kernel->node[i];
    size_t sum = 0;
    for (int k = 0; k < node->inputs; k++)
        sum += out->in[k].size[node->dim];
    if (sum != out->out.size[node->dim])
        return kas_fail(KAS_ILLEGAL, "reference: node %d: %zu elements fill a dim of %u", i, sum,
                        out->out.size[node->dim]);
    return KAS_OK;
}

/* The place of a part in its whole. */
typedef struct segment {
    size_t run;          /* consecutive elements of the part that lie together in the whole */
    size_t stride, skip; /* in the whole: from run to run, and in front of the first */
} segment;

static segment segment_of(const kas_ref_node *n, size_t begin, size_t size, size_t length)
{
    size_t inner = 1;
    for (int d = n->node->dim + 1; d < n->out.rank; d++)
        inner *= n->out.size[d];
    return (segment){.run = size * inner, .stride = length * inner, .skip = begin * inner};
}

static size_t in_whole(const segment *s, size_t e)
{
    return e / s->run * s->stride + s->skip + e % s->run;
}

static segment sliced(const kas_ref_node *n)
{
    const int d = n->node->dim;
    return segment_of(n, n->begin, n->out.size[d], n->in[0].size[d]);
}

static void slice_forward(const kas_ref_node *n, const kas_ref_values *v)
{
    const segment s = sliced(n);
    for (size_t e = 0; e < n->out.elements; e++)
        v->y[e] = v->in[0][in_whole(&s, e)];
}

static void slice_backward(const kas_ref_node *n, const kas_ref_values *v,
                           const kas_ref_gradients *g)
{
    const segment s = sliced(n);
    (void)v;
    for (size_t e = 0; e < n->out.elements; e++)
        g->din[0][in_whole(&s, e)] += g->dy[e];
}

/* Returns the place of an operand in a concatenation, where operands follow each other. */
static segment joined(const kas_ref_node *n, int operand)
{
    const int d = n->node->dim;
    size_t begin = 0;
    for (int k = 0; k < operand; k++)
        begin += n->in[k].size[d];
    return segment_of(n, begin, n->in[operand].size[d], n->out.size[d]);
}

static void concat_forward(const kas_ref_node *n, const kas_ref_values *v)
{
    for (int k = 0; k < n->node->inputs; k++) {
        const segment s = joined(n, k);
        for (size_t e = 0; e < n->in[k].elements; e++)
            v->y[in_whole(&s, e)] = v->in[k][e];
    }
}

static void concat_backward(const kas_ref_node *n, const kas_ref_values *v,
                            const kas_ref_gradients *g)
{
    (void)v;
    for (int k = 0; k < n->node->inputs; k++) {
        const segment s = joined(n, k);
        for (size_t e = 0; e < n->in[k].elements; e++)
            g->din[k][e] += g->dy[in_whole(&s, e)];
    }
}

const kas_ref_op kas_eval_slice = {slice_forward, slice_backward, slice_sizes};
const kas_ref_op kas_eval_concat = {concat_forward, concat_backward, concat_sizes};

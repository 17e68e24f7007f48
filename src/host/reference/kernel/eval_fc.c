/* Fully-connected maps:
 *     y[g*fan_out + o, h, w] = sum over i of weight[g][o][i] * x[g, i, h, w]
 * where g flattens the group dims (none unless `grouped`) and i the other channel dims. */
#include "host/reference/kernel/evaluate.h"

/* Of a convolution too: a depthwise one keeps every channel apart. */
kas_status kas_eval_fc_sizes(const kas_kernel *kernel, int i, kas_ref_node *out)
{
    const kas_node *node = &kernel->node[i], *in = &kernel->node[node->in[0]];
    size_t features = 1;
    out->groups = 1;
    out->fan_in = (size_t)out->kernel_h * out->kernel_w;
    for (int d = 0; d < in->shape.channels; d++) {
        out->apart[d] =
            node->op == KAS_OP_CONV_DEPTHWISE || (node->grouped && in->shape.is_group[d]);
        *(out->apart[d] ? &out->groups : &out->fan_in) *= out->in[0].size[d];
    }
    for (int d = 0; d < out->out.channels; d++)
        features *= out->out.size[d];
    if (features % out->groups != 0)
        return kas_fail(KAS_ILLEGAL, "reference: node %d: %zu outputs for %zu groups", i, features,
                        out->groups);
    out->fan_out = features / out->groups;
    return KAS_OK;
}

void kas_ref_split_channel(const kas_ref_node *n, size_t channel, size_t *g, size_t *i)
{
    size_t coordinate[KAS_MAX_CHANNEL_DIMS];
    for (int d = n->in[0].channels - 1; d >= 0; d--) {
        coordinate[d] = channel % n->in[0].size[d];
        channel /= n->in[0].size[d];
    }
    *g = 0;
    *i = 0;
    for (int d = 0; d < n->in[0].channels; d++) {
        size_t *index = n->apart[d] ? g : i;
        *index = *index * n->in[0].size[d] + coordinate[d];
    }
}

static void forward(const kas_ref_node *n, const kas_ref_values *v)
{
    size_t channels = n->groups * n->fan_in, positions = n->in[0].elements / channels;
    for (size_t k = 0; k < n->out.elements; k++)
        v->y[k] = 0;
    for (size_t c = 0; c < channels; c++) {
        size_t g, i;
        kas_ref_split_channel(n, c, &g, &i);
        for (size_t o = 0; o < n->fan_out; o++) {
            double weight = v->weight[(g * n->fan_out + o) * n->fan_in + i];
            for (size_t p = 0; p < positions; p++)
                v->y[(g * n->fan_out + o) * positions + p] += weight * v->in[0][c * positions + p];
        }
    }
}

static void backward(const kas_ref_node *n, const kas_ref_values *v, const kas_ref_gradients *d)
{
    size_t channels = n->groups * n->fan_in, positions = n->in[0].elements / channels;
    for (size_t c = 0; c < channels; c++) {
        size_t g, i;
        kas_ref_split_channel(n, c, &g, &i);
        for (size_t o = 0; o < n->fan_out; o++) {
            size_t w = (g * n->fan_out + o) * n->fan_in + i;
            for (size_t p = 0; p < positions; p++) {
                double dy = d->dy[(g * n->fan_out + o) * positions + p];
                d->din[0][c * positions + p] += v->weight[w] * dy;
                d->dweight[w] += v->in[0][c * positions + p] * dy;
            }
        }
    }
}

const kas_ref_op kas_eval_fc = {forward, backward, kas_eval_fc_sizes};

#include "support/build.h"

#include <string.h>

#include "host/space/split.h"

static int append_list(kas_kernel *kernel, kas_node node, const int *in)
{
    for (int k = 0; k < node.inputs; k++) {
        if (in[k] < 0)
            return -1;
        node.in[k] = (uint8_t)in[k];
    }
    if (kernel->nodes == KAS_MAX_NODES) {
        kas_fail(KAS_ILLEGAL, "a kernel has at most %d nodes", KAS_MAX_NODES);
        return -1;
    }
    kernel->node[kernel->nodes++] = node;
    if (kas_node_infer(kernel, kernel->nodes - 1) == KAS_OK)
        return kernel->nodes - 1;
    kernel->nodes--;
    return -1;
}

static int append(kas_kernel *kernel, kas_node node, int lhs, int rhs)
{
    const int in[] = {lhs, rhs};
    return append_list(kernel, node, in);
}

int kas_build_input(kas_kernel *kernel)
{
    return append(kernel, (kas_node){.op = KAS_OP_INPUT}, 0, 0);
}

int kas_build_group(kas_kernel *kernel, int in, int dim, int symbol)
{
    return append(
        kernel,
        (kas_node){.op = KAS_OP_GROUP, .inputs = 1, .dim = (int8_t)dim, .symbol = (uint8_t)symbol},
        in, 0);
}

int kas_build_group_all(kas_kernel *kernel, int in, int dim)
{
    return append(kernel, (kas_node){.op = KAS_OP_GROUP_ALL, .inputs = 1, .dim = (int8_t)dim}, in,
                  0);
}

int kas_build_shift(kas_kernel *kernel, int in, int axis, int offset)
{
    return append(
        kernel,
        (kas_node){
            .op = KAS_OP_SHIFT, .inputs = 1, .axes = (uint8_t)axis, .offset = (int8_t)offset},
        in, 0);
}

int kas_build_unfold(kas_kernel *kernel, int in, int axes)
{
    return kas_build_unfold_window(kernel, in, axes, 0, 0);
}

int kas_build_unfold_window(kas_kernel *kernel, int in, int axes, int window, int dilation)
{
    return append(kernel,
                  (kas_node){.op = KAS_OP_UNFOLD,
                             .inputs = 1,
                             .axes = (uint8_t)axes,
                             .kernel = (uint8_t)window,
                             .dilation = (uint8_t)dilation},
                  in, 0);
}

int kas_build_shuffle(kas_kernel *kernel, int in, int dim, int symbol)
{
    return append(
        kernel,
        (kas_node){
            .op = KAS_OP_SHUFFLE, .inputs = 1, .dim = (int8_t)dim, .symbol = (uint8_t)symbol},
        in, 0);
}

int kas_build_pool(kas_kernel *kernel, kas_op op, int in, int axes, int window)
{
    return append(
        kernel,
        (kas_node){
            .op = (uint8_t)op, .inputs = 1, .axes = (uint8_t)axes, .kernel = (uint8_t)window},
        in, 0);
}

int kas_build_split(kas_kernel *kernel, const char *whole, int shares, int first)
{
    int s = 0;
    while (s < KAS_MAX_SPLITS && kernel->split[s].whole.num != 0)
        s++;
    if (s == KAS_MAX_SPLITS) {
        kas_fail(KAS_ILLEGAL, "a kernel has at most %d splits", KAS_MAX_SPLITS);
        return -1;
    }
    if (!kas_dim_parse(whole, &kernel->split[s].whole)) {
        kas_fail(KAS_ILLEGAL, "\"%s\" is not a size", whole);
        return -1;
    }
    kernel->split[s].shares = (uint8_t)shares;
    kernel->split[s].first = (uint32_t)first;
    return s;
}

int kas_build_slice(kas_kernel *kernel, int in, int dim, int split, int segment)
{
    return append(kernel,
                  (kas_node){.op = KAS_OP_SLICE,
                             .inputs = 1,
                             .dim = (int8_t)dim,
                             .split = (uint8_t)split,
                             .segment = (uint8_t)segment},
                  in, 0);
}

int kas_build_concat(kas_kernel *kernel, const int *in, int dim, int split)
{
    if (split < 0 || split >= KAS_MAX_SPLITS) {
        kas_fail(KAS_ILLEGAL, "there is no split S%d", split);
        return -1;
    }
    return append_list(kernel,
                       (kas_node){.op = KAS_OP_CONCAT,
                                  .inputs = (uint8_t)kas_split_segments(&kernel->split[split]),
                                  .dim = (int8_t)dim,
                                  .split = (uint8_t)split},
                       in);
}

/* Appends a node that makes a dim of size `out`. */
static int append_map(kas_kernel *kernel, kas_node node, int in, const char *out)
{
    if (!kas_dim_parse(out, &node.out)) {
        kas_fail(KAS_ILLEGAL, "\"%s\" is not a size", out);
        return -1;
    }
    return append(kernel, node, in, 0);
}

int kas_build_fc(kas_kernel *kernel, int in, bool grouped, const char *out)
{
    return append_map(kernel, (kas_node){.op = KAS_OP_FC, .inputs = 1, .grouped = grouped}, in,
                      out);
}

int kas_build_conv(kas_kernel *kernel, int in, int axes, int window, int dilation, bool grouped,
                   const char *out)
{
    return append_map(kernel,
                      (kas_node){.op = KAS_OP_CONV,
                                 .inputs = 1,
                                 .axes = (uint8_t)axes,
                                 .kernel = (uint8_t)window,
                                 .dilation = (uint8_t)dilation,
                                 .grouped = grouped},
                      in, out);
}

int kas_build_conv_depthwise(kas_kernel *kernel, int in, int axes, int window, int dilation)
{
    return append(kernel,
                  (kas_node){.op = KAS_OP_CONV_DEPTHWISE,
                             .inputs = 1,
                             .axes = (uint8_t)axes,
                             .kernel = (uint8_t)window,
                             .dilation = (uint8_t)dilation},
                  in, 0);
}

int kas_build_mix(kas_kernel *kernel, int in, int dim, int dim_end, const char *out)
{
    return append_map(
        kernel,
        (kas_node){.op = KAS_OP_MIX, .inputs = 1, .dim = (int8_t)dim, .dim_end = (int8_t)dim_end},
        in, out);
}

int kas_build_bmm(kas_kernel *kernel, int lhs, int rhs, int transpose, bool softmax)
{
    return append(
        kernel,
        (kas_node){
            .op = KAS_OP_BMM, .inputs = 2, .transpose = (uint8_t)transpose, .softmax = softmax},
        lhs, rhs);
}

int kas_build_elementwise(kas_kernel *kernel, kas_op op, int in)
{
    return append(kernel, (kas_node){.op = (uint8_t)op, .inputs = 1}, in, 0);
}

int kas_build_fold(kas_kernel *kernel, kas_op op, int in, int dim)
{
    return append(kernel, (kas_node){.op = (uint8_t)op, .inputs = 1, .dim = (int8_t)dim}, in, 0);
}

int kas_build_along(kas_kernel *kernel, kas_op op, int in, int dim, int dim_end)
{
    return append(
        kernel,
        (kas_node){.op = (uint8_t)op, .inputs = 1, .dim = (int8_t)dim, .dim_end = (int8_t)dim_end},
        in, 0);
}

int kas_build_softmax(kas_kernel *kernel, int in, int dim, int dim_end)
{
    return kas_build_along(kernel, KAS_OP_SOFTMAX, in, dim, dim_end);
}

int kas_build_broadcast(kas_kernel *kernel, kas_op op, int lhs, int rhs)
{
    return append(kernel, (kas_node){.op = (uint8_t)op, .inputs = 2}, lhs, rhs);
}

bool kas_build_same(const kas_kernel *a, const kas_kernel *b)
{
    return a->nodes == b->nodes && a->stride_inside == b->stride_inside &&
           memcmp(a->node, b->node, (size_t)a->nodes * sizeof *a->node) == 0 &&
           memcmp(a->split, b->split, sizeof a->split) == 0 &&
           memcmp(a->group_value, b->group_value, sizeof a->group_value) == 0;
}

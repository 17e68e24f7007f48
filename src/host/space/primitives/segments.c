/* slice and concat: one segment of a dim, or all segments joined again. */
#include "host/space/primitive.h"
#include "host/space/split.h"

static kas_status wrong_size(const kas_kernel *kernel, int i, int operand, const kas_dim *wanted)
{
    const kas_node *node = &kernel->node[i];
    const kas_dim found = kas_shape_dim(kas_node_input(kernel, i, operand), node->dim);
    kas_buf text = {0};
    kas_buf_printf(&text, "dim %d of operand %d has size ", node->dim, operand);
    kas_dim_print(&found, &text);
    kas_buf_printf(&text, "; %s wants ", kas_split_name(node->split));
    kas_dim_print(wanted, &text);
    kas_status status = kas_node_fail(kernel, i, "%s", kas_buf_text(&text));
    kas_buf_free(&text);
    return status;
}

static kas_status check_dim(const kas_kernel *kernel, int i, int operand, const kas_dim *wanted)
{
    const kas_node *node = &kernel->node[i];
    const kas_shape *input = kas_node_input(kernel, i, operand);
    const int rank = kas_shape_rank(input);
    if (node->dim < 0 || node->dim >= rank)
        return kas_node_fail(kernel, i, "dim %d is not one of the %d dims of operand %d", node->dim,
                             rank, operand);
    const kas_dim found = kas_shape_dim(input, node->dim);
    return kas_dim_equal(&found, wanted) ? KAS_OK : wrong_size(kernel, i, operand, wanted);
}

static kas_status segment_size(const kas_kernel *kernel, int i, int segment, kas_dim *out)
{
    if (!kas_split_segment(kernel, kernel->node[i].split, segment, out))
        return kas_node_fail(kernel, i, "the size of a segment leaves its range");
    return KAS_OK;
}

kas_status kas_infer_slice(kas_kernel *kernel, int i)
{
    kas_node *node = &kernel->node[i];
    kas_dim size;
    KAS_TRY(kas_split_check(kernel, i));
    const kas_split *split = &kernel->split[node->split];
    if (node->segment >= kas_split_segments(split))
        return kas_node_fail(kernel, i, "segment %d; %s has segments 0 to %d", node->segment,
                             kas_split_name(node->split), kas_split_segments(split) - 1);
    KAS_TRY(check_dim(kernel, i, 0, &split->whole));
    KAS_TRY(segment_size(kernel, i, node->segment, &size));
    node->shape = *kas_node_input(kernel, i, 0);
    kas_shape_set(&node->shape, node->dim, &size);
    return KAS_OK;
}

/* Checks that operand k is segment k and otherwise has the shape of the first operand. */
static kas_status check_operand(const kas_kernel *kernel, int i, int k)
{
    const kas_node *node = &kernel->node[i];
    const kas_shape *first = kas_node_input(kernel, i, 0);
    kas_shape other = *kas_node_input(kernel, i, k);
    kas_dim size;
    KAS_TRY(segment_size(kernel, i, k, &size));
    KAS_TRY(check_dim(kernel, i, k, &size));
    if (kas_shape_rank(first) == kas_shape_rank(&other)) {
        const kas_dim dim = kas_shape_dim(first, node->dim);
        kas_shape_set(&other, node->dim, &dim);
    }
    if (!kas_shape_equal(first, &other))
        return kas_node_fail(kernel, i, "operands 0 and %d differ in more than dim %d", k,
                             node->dim);
    return KAS_OK;
}

/* Infers a concatenation. A dim is a group dim when it is one in every operand. */
kas_status kas_infer_concat(kas_kernel *kernel, int i)
{
    kas_node *node = &kernel->node[i];
    KAS_TRY(kas_split_check(kernel, i));
    const kas_split *split = &kernel->split[node->split];
    if (node->inputs != kas_split_segments(split))
        return kas_node_fail(kernel, i, "%d operands; %s has %d segments", node->inputs,
                             kas_split_name(node->split), kas_split_segments(split));
    node->shape = *kas_node_input(kernel, i, 0);
    for (int k = 0; k < node->inputs; k++) {
        KAS_TRY(check_operand(kernel, i, k));
        for (int d = 0; d < node->shape.channels; d++)
            node->shape.is_group[d] &= kas_node_input(kernel, i, k)->is_group[d];
    }
    kas_shape_set(&node->shape, node->dim, &split->whole);
    return KAS_OK;
}

#include "host/space/canvas/receptive_field.h"

#include "host/space/primitive.h"

/* The whole image, whatever its size; twice this number still fits in 16 bits. */
enum { WHOLE_IMAGE = 8192 };

static const int axis_bit[2] = {KAS_AXIS_H, KAS_AXIS_W};

static int16_t limited(int pixels)
{
    return (int16_t)(pixels > WHOLE_IMAGE    ? WHOLE_IMAGE
                     : pixels < -WHOLE_IMAGE ? -WHOLE_IMAGE
                                             : pixels);
}

static void widen(kas_receptive_field *view, int axis, int low, int high)
{
    view->low[axis] = limited(view->low[axis] + low);
    view->high[axis] = limited(view->high[axis] + high);
}

static void widen_by_window(kas_receptive_field *view, const kas_node *node,
                            const uint32_t window[2])
{
    for (int axis = 0; axis < 2; axis++) {
        int taps = node->kernel ? node->kernel : (int)window[axis],
            dilation = kas_node_dilation(node);
        if (node->axes & axis_bit[axis])
            widen(view, axis, -(taps / 2) * dilation, (taps - 1 - taps / 2) * dilation);
    }
}

/* Widens the field to everything along the spatial dims in [dim, end) of the operand. */
static void widen_by_dims(kas_receptive_field *view, const kas_shape *shape, int dim, int end)
{
    for (int axis = 0; axis < 2; axis++) {
        int place = kas_shape_place(shape, axis_bit[axis]);
        if (kas_shape_has(shape, axis_bit[axis]) && place >= dim && place < end)
            widen(view, axis, -WHOLE_IMAGE, WHOLE_IMAGE);
    }
}

static kas_receptive_field hull(const kas_receptive_field *const operands[], int count)
{
    kas_receptive_field view = {0};
    for (int k = 0; k < count; k++)
        for (int axis = 0; axis < 2; axis++) {
            if (k == 0 || operands[k]->low[axis] < view.low[axis])
                view.low[axis] = operands[k]->low[axis];
            if (k == 0 || operands[k]->high[axis] > view.high[axis])
                view.high[axis] = operands[k]->high[axis];
        }
    return view;
}

kas_receptive_field kas_receptive_field_of(const kas_kernel *kernel, int i,
                                           const kas_receptive_field *const operands[],
                                           const uint32_t window[2])
{
    const kas_node *node = &kernel->node[i];
    const kas_shape *shape = node->inputs ? kas_node_input(kernel, i, 0) : NULL;
    kas_receptive_field view = hull(operands, node->inputs);
    const int attributes = kas_primitive_get(node->op)->attributes;
    if (attributes & KAS_ATTR_OFFSET)
        widen(&view, node->axes == KAS_AXIS_W, node->offset, node->offset);
    else if (attributes & KAS_ATTR_KERNEL)
        widen_by_window(&view, node, window);
    else if ((attributes & KAS_ATTR_DIM) && kas_op_has_trait(node->op, KAS_TRAIT_SPATIAL))
        widen_by_dims(&view, shape, node->dim,
                      attributes & KAS_ATTR_DIM_END ? node->dim_end : node->dim + 1);
    /* LHS's pixels are added up or become channels; RHS's are added up or stay. */
    if (attributes & KAS_ATTR_PRODUCT)
        widen_by_dims(&view, shape, 0, KAS_MAX_DIMS);
    if ((attributes & KAS_ATTR_PRODUCT) && (node->transpose & KAS_TRANSPOSE_RHS))
        widen_by_dims(&view, kas_node_input(kernel, i, 1), 0, KAS_MAX_DIMS);
    return view;
}

int kas_receptive_field_across(const kas_receptive_field *view)
{
    int most = 0;
    for (int axis = 0; axis < 2; axis++) {
        int low = view->low[axis] < 0 ? view->low[axis] : 0;
        int high = view->high[axis] > 0 ? view->high[axis] : 0;
        if (high - low + 1 > most)
            most = high - low + 1;
    }
    return most;
}

#include "host/space/primitive.h"

int kas_shape_rank(const kas_shape *shape)
{
    return shape->channels + shape->has_h + shape->has_w;
}

kas_dim kas_shape_dim(const kas_shape *shape, int i)
{
    if (i < shape->channels)
        return shape->channel[i];
    return kas_dim_symbol(i == shape->channels && shape->has_h ? KAS_SYM_H : KAS_SYM_W);
}

bool kas_shape_size(const kas_shape *shape, kas_dim *out)
{
    *out = kas_dim_const(1);
    for (int i = 0; i < kas_shape_rank(shape); i++) {
        kas_dim dim = kas_shape_dim(shape, i);
        if (!kas_dim_mul(out, &dim, out))
            return false;
    }
    return true;
}

bool kas_shape_equal(const kas_shape *a, const kas_shape *b)
{
    if (a->channels != b->channels || a->has_h != b->has_h || a->has_w != b->has_w)
        return false;
    for (int i = 0; i < a->channels; i++)
        if (!kas_dim_equal(&a->channel[i], &b->channel[i]))
            return false;
    return true;
}

void kas_shape_print(const kas_shape *shape, kas_buf *out)
{
    kas_buf_puts(out, "[");
    for (int i = 0; i < kas_shape_rank(shape); i++) {
        kas_dim dim = kas_shape_dim(shape, i);
        kas_buf_puts(out, i ? ", " : "");
        kas_dim_print(&dim, out);
    }
    kas_buf_puts(out, "]");
}

bool kas_shape_theorem1(const kas_shape *shape)
{
    int found = 0;
    for (int i = 0; i < shape->channels; i++)
        for (int v = 0; v < KAS_MAX_VARS; v++) {
            int e = shape->channel[i].exp[KAS_SYM_X0 + v];
            if (e != 0 && (e != 1 || ++found > 1))
                return false;
        }
    return true;
}

void kas_shape_remove(kas_shape *shape, int i)
{
    if (i < shape->channels) {
        for (int d = i; d + 1 < shape->channels; d++) {
            shape->channel[d] = shape->channel[d + 1];
            shape->is_group[d] = shape->is_group[d + 1];
        }
        shape->channels--;
        shape->channel[shape->channels] = (kas_dim){0};
        shape->is_group[shape->channels] = 0;
    } else if (i == shape->channels && shape->has_h) {
        shape->has_h = false;
    } else {
        shape->has_w = false;
    }
}

kas_status kas_shape_insert(kas_shape *shape, int i, const kas_dim *dim, bool is_group)
{
    if (shape->channels == KAS_MAX_CHANNEL_DIMS)
        return KAS_ILLEGAL;
    for (int d = shape->channels; d > i; d--) {
        shape->channel[d] = shape->channel[d - 1];
        shape->is_group[d] = shape->is_group[d - 1];
    }
    shape->channel[i] = *dim;
    shape->is_group[i] = is_group;
    shape->channels++;
    return KAS_OK;
}

kas_status kas_shape_elements(const kas_shape *shape, const kas_binding *binding, double *out)
{
    double elements = 1;
    for (int i = 0; i < kas_shape_rank(shape); i++) {
        kas_dim dim = kas_shape_dim(shape, i);
        uint64_t size;
        if (!kas_dim_eval(&dim, binding, &size))
            return kas_fail(KAS_ILLEGAL, "dim %d is no integer at this target", i);
        elements *= (double)size;
    }
    *out = elements;
    return KAS_OK;
}

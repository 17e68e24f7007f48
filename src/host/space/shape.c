#include "host/space/primitive.h"

int kas_shape_place(const kas_shape *shape, int axis)
{
    return shape->channels + (axis == KAS_AXIS_W && kas_shape_has(shape, KAS_AXIS_H));
}

bool kas_shape_has_image(const kas_shape *shape)
{
    const kas_dim h = kas_dim_symbol(KAS_SYM_H), w = kas_dim_symbol(KAS_SYM_W);
    return kas_dim_equal(&shape->spatial[0], &h) && kas_dim_equal(&shape->spatial[1], &w);
}

bool kas_shape_product(const kas_shape *shape, int from, int to, kas_dim *out)
{
    if (from >= to) {
        *out = kas_dim_const(1);
        return true;
    }
    *out = *kas_shape_at(shape, from++);
    const int channels = (to < shape->channels ? to : shape->channels) - from;
    if (channels > 0) {
        if (!kas_dim_mul_all(&shape->channel[from], channels, out))
            return false;
        from += channels;
    }
    return from >= to || kas_dim_mul_all(kas_shape_at(shape, from), to - from, out);
}

bool kas_shape_size(const kas_shape *shape, kas_dim *out)
{
    return kas_shape_product(shape, 0, kas_shape_rank(shape), out);
}

bool kas_shape_equal(const kas_shape *a, const kas_shape *b)
{
    if (a->channels != b->channels || !kas_dim_equal(&a->spatial[0], &b->spatial[0]) ||
        !kas_dim_equal(&a->spatial[1], &b->spatial[1]))
        return false;
    for (int i = 0; i < a->channels; i++)
        if (!kas_dim_equal(&a->channel[i], &b->channel[i]))
            return false;
    return true;
}

bool kas_shapes_match_beside(const kas_shape *a, const kas_shape *b, int d)
{
    const int rank = kas_shape_rank(a);
    if (rank != kas_shape_rank(b) || a->channels != b->channels ||
        kas_shape_has(a, KAS_AXIS_H) != kas_shape_has(b, KAS_AXIS_H))
        return false;
    for (int i = 0; i < rank; i++)
        if (i != d && !kas_dim_equal(kas_shape_at(a, i), kas_shape_at(b, i)))
            return false;
    return true;
}

void kas_shape_print(const kas_shape *shape, kas_buf *out)
{
    kas_buf_puts(out, "[");
    for (int i = 0; i < kas_shape_rank(shape); i++) {
        kas_buf_puts(out, i ? ", " : "");
        kas_dim_print(kas_shape_at(shape, i), out);
    }
    kas_buf_puts(out, "]");
}

bool kas_shape_theorem1(const kas_shape *shape)
{
    int found = 0;
    for (int i = 0; i < shape->channels; i++) {
        kas_dim rest = shape->channel[i];
        int v = kas_dim_var(&rest);
        if (v < 0)
            continue;
        if (rest.exp[KAS_SYM_X0 + v] != 1 || ++found > 1)
            return false;
        rest.exp[KAS_SYM_X0 + v] = 0;
        if (kas_dim_var(&rest) >= 0)
            return false;
    }
    return true;
}

static kas_dim *spatial_at(kas_shape *shape, int i)
{
    return &shape->spatial[i > shape->channels || !kas_shape_has(shape, KAS_AXIS_H)];
}

void kas_shape_set(kas_shape *shape, int i, const kas_dim *dim)
{
    *(i < shape->channels ? &shape->channel[i] : spatial_at(shape, i)) = *dim;
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
    } else {
        *spatial_at(shape, i) = (kas_dim){0};
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

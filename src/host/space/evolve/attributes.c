/* Draws the attributes of new and changed primitives. */
#include "host/core/integer.h"
#include "host/space/evolve/edit.h"
#include "host/space/primitive.h"
#include "host/space/split.h"

/* Draws the number of one of the bits that are set; 0 if none is. */
static int draw_bit(kas_guided *d, uint64_t bits)
{
    for (int skip = kas_guided_below(d, kas_count_bits(bits)); skip > 0; skip--)
        bits &= bits - 1;
    return bits ? __builtin_ctzll(bits) : 0;
}

/* Returns how many dims of the operand the primitive can name: all, or those of channels. */
static int nameable_dims(int op, const kas_shape *operand)
{
    return kas_op_has_trait(op, KAS_TRAIT_SPATIAL) ? kas_shape_rank(operand) : operand->channels;
}

/* Draws one of the dims that the split cuts. */
static int draw_cut_dim(kas_guided *d, const kas_outline *o, const kas_shape *operand, int split)
{
    uint64_t dims = 0;
    for (int i = 0; i < kas_shape_rank(operand); i++)
        dims |= (uint64_t)kas_dim_equal(kas_shape_at(operand, i), &o->split[split].whole) << i;
    return draw_bit(d, dims);
}

static int draw_dim(kas_guided *d, const kas_outline *o, const kas_shape *operand,
                    const kas_candidate_op *use)
{
    if (use->op == KAS_OP_SLICE)
        return draw_cut_dim(d, o, operand, use->split);
    if (use->op == KAS_OP_CONCAT)
        return kas_guided_below(d, kas_shape_rank(operand));
    return kas_guided_below(d, use->dim_end > 0 ? use->dim_end : nameable_dims(use->op, operand));
}

static int draw_split(kas_guided *d, const kas_outline *o)
{
    uint64_t splits = 0;
    for (int s = 0; s < KAS_MAX_SPLITS; s++)
        splits |= (uint64_t)(o->split[s].whole.num != 0) << s;
    return draw_bit(d, splits);
}

static int draw_dilation(kas_guided *d)
{
    const int dilation = draw_bit(d, d->guide.filter.dilations & ~1u);
    return dilation > 1 ? dilation : 0;
}

void kas_draw_attribute(kas_guided *d, const kas_outline *o, const kas_shape *operand,
                        unsigned attribute, kas_candidate_op *use)
{
    const bool shifts = kas_primitive_get(use->op)->attributes & KAS_ATTR_OFFSET;
    switch (attribute) {
    case KAS_ATTR_DIM:
        use->dim = (int8_t)draw_dim(d, o, operand, use);
        break;
    case KAS_ATTR_DIM_END:
        use->dim_end = (int8_t)(use->dim + 1 +
                                kas_guided_below(d, nameable_dims(use->op, operand) - use->dim));
        break;
    case KAS_ATTR_AXES:
        use->axes = (uint8_t)(1 + kas_guided_below(d, shifts ? 2 : 3));
        break;
    case KAS_ATTR_OFFSET:
        use->offset = (int8_t)(draw_bit(d, d->guide.filter.shifts) - KAS_MAX_SHIFT);
        break;
    case KAS_ATTR_GROUPED:
        use->grouped = (uint8_t)kas_guided_below(d, 2);
        break;
    case KAS_ATTR_KERNEL:
        use->kernel = (uint8_t)draw_bit(d, d->guide.filter.kernels);
        break;
    case KAS_ATTR_DILATION:
        use->dilation = (uint8_t)draw_dilation(d);
        break;
    case KAS_ATTR_SPLIT:
        use->split = (uint8_t)draw_split(d, o);
        break;
    case KAS_ATTR_SEGMENT:
        use->segment = (uint8_t)kas_guided_below(d, kas_split_segments(&o->split[use->split]));
        break;
    case KAS_ATTR_PRODUCT:
        use->transpose = (uint8_t)kas_guided_below(d, 4);
        use->softmax = (uint8_t)kas_guided_below(d, 2);
        break;
    default: /* the symbol is always G0, and a size is no part of a candidate operation */
        break;
    }
}

void kas_draw_attributes(kas_guided *d, const kas_outline *o, const kas_shape *operand,
                         kas_candidate_op *use)
{
    unsigned attributes = kas_primitive_get(use->op)->attributes;
    if (attributes & KAS_ATTR_SPLIT) /* its dim and its segment depend on it */
        kas_draw_attribute(d, o, operand, KAS_ATTR_SPLIT, use);
    for (attributes &= ~(unsigned)KAS_ATTR_SPLIT; attributes; attributes &= attributes - 1)
        kas_draw_attribute(d, o, operand, attributes & -attributes, use);
}

kas_dim kas_draw_size(kas_guided *d)
{
    kas_dim size = kas_dim_symbol(KAS_SYM_C);
    switch (kas_guided_below(d, 6)) {
    case 0:
        return (kas_dim){0};
    case 1:
        size.den = 2;
        break;
    case 2:
        size.den = 4;
        break;
    case 3:
        size.exp[KAS_SYM_G0] = -1;
        break;
    case 4:
        size.num = 2;
        break;
    default:
        break;
    }
    return size;
}

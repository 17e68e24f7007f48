/* Tensors that share memory, so that nothing is copied: operands of libraries that lie in the memory of
 * what they rename, and results of libraries that are written where a tensor would merely repeat them. */
#include <stdlib.h>
#include <string.h>

#include "jit/fuse/fuse.h"
#include "jit/ir/program.h"

/* Follows reads that only rename coordinates, down to a tensor that is computed; *address gets the
 * flat address in it of the element at t's variables. */
static int origin(kas_ir *ir, int t, kas_ix *address)
{
    kas_ix idx[KAS_IR_RANK];
    kas_ir_own_index(ir, t, idx);
    while (ir->tensor[t].kind == KAS_TENSOR_DEF) {
        const kas_ex_node *def = kas_ex_get(ir, ir->tensor[t].def);
        if (def->kind != KAS_EX_READ)
            break;
        kas_subst s = {0};
        for (int d = 0; d < ir->tensor[t].rank; d++)
            kas_subst_add(ir, &s, ir->tensor[t].var[d], idx[d]);
        for (int d = 0; d < def->rank; d++)
            idx[d] = kas_ix_subst(ir, def->idx[d], &s);
        t = def->tensor;
    }
    *address = 0;
    for (int d = 0; d < ir->tensor[t].rank; d++)
        *address = kas_ix_add(ir, *address, kas_ix_scale(ir, idx[d], ir->tensor[t].stride[d]));
    return t;
}

/* Returns how many elements into base's memory a tensor begins whose elements lie there in the same
 * order; -1: they do not. `address`: where in base's memory the element at t's variables is. */
static int64_t place_in(kas_ir *ir, const kas_ir_tensor *t, const kas_ir_tensor *base,
                        kas_ix address)
{
    kas_ix own = 0;
    for (int d = 0; d < t->rank; d++)
        own = kas_ix_add(ir, own, kas_ix_scale(ir, kas_ix_var(ir, t->var[d]), t->stride[d]));
    const kas_ix_sum *apart = kas_ix_get(ir, kas_ix_add(ir, address, kas_ix_scale(ir, own, -1)));
    const bool like = apart->terms == 0 && t->floats == base->floats && t->dtype == base->dtype;
    return like ? apart->constant : -1;
}

/* A convolution's operand that can share the memory of its origin: as a tensor with this base, place
 * and pitch. base -1: it cannot. */
typedef struct view {
    int base;
    kas_ir_tensor tensor;
} view;

/* Finds the view of an operand: where it would lie in the memory of its origin in the same order, or
 * be some of the channels there, at an address that libraries take. The pixels of the origin may be
 * wider (X with the caller's pitch): then the operand takes that pitch. On the CPU some of the
 * channels are no view: oneDNN would copy them out in every pass, and more slowly than we do. */
static view view_of(kas_ir *ir, int number)
{
    kas_ix address;
    const int base = origin(ir, number, &address);
    view v = {.base = -1, .tensor = ir->tensor[number]};
    kas_ir_tensor *t = &v.tensor;
    const int pitch = ir->tensor[base].pitch;
    if (base == number || pitch == 0 || (ir->cpu && t->elements < ir->tensor[base].elements))
        return v;
    const int64_t pixels = t->size[1] * t->size[2], channels = t->elements / (pixels * t->size[0]);
    if (pitch != t->pitch) {
        t->stride[2] = pitch;
        t->stride[1] = pitch * t->size[2];
        t->stride[0] = pitch * pixels;
        t->floats = t->stride[0] * t->size[0];
        t->pitch = pitch;
    }
    t->memory = base;
    t->offset = place_in(ir, t, &ir->tensor[base], address);
    if (t->offset >= 0 && t->offset + channels <= pitch &&
        t->offset * (int64_t)kas_dtype_size(t->dtype) % KAS_BUFFER_ALIGNMENT == 0)
        v.base = base;
    return v;
}

/* Lets operands share the memory of their origins. An origin that is then in memory for them alone
 * pays if they read all of it. */
kas_status kas_fuse_views(kas_ir *ir)
{
    view *views = calloc((size_t)ir->tensors, sizeof *views);
    int64_t *read = calloc((size_t)ir->tensors, sizeof *read); /* by origin: elements */
    kas_status status = KAS_OK;
    if (!views || !read) {
        status = kas_ir_no_memory();
        goto done;
    }
    for (int t = 0; t < ir->tensors; t++) {
        views[t].base = -1;
        if (ir->tensor[t].operand && ir->tensor[t].memory < 0)
            views[t] = view_of(ir, t);
        if (views[t].base >= 0)
            read[views[t].base] += ir->tensor[t].elements;
    }
    for (int t = 0; t < ir->tensors; t++) {
        const int base = views[t].base;
        const bool made = base >= 0 && ir->tensor[base].kind == KAS_TENSOR_DEF;
        if (base < 0 || (made && read[base] < ir->tensor[base].elements))
            continue;
        ir->tensor[t] = views[t].tensor;
        ir->tensor[base].operand |= made;
    }
done:
    free(views);
    free(read);
    return status;
}

/* Returns whether each tensor that a tensor renames, down to its origin, has one reader. */
static bool is_read_alone(const kas_ir *ir, int number, int base, const int *readers)
{
    for (int t = number; t != base;) {
        t = kas_ex_get(ir, ir->tensor[t].def)->tensor;
        if (readers[t] != 1)
            return false;
    }
    return true;
}

/* Returns the convolution whose result a tensor merely repeats, and that nothing else reads, in the
 * same order; -1: there is none. */
static int repeated_result(kas_ir *ir, int number, const int *readers)
{
    kas_ix address;
    const int base = origin(ir, number, &address);
    const kas_ir_tensor *t = &ir->tensor[number], *b = &ir->tensor[base];
    const bool repeats = b->kind == KAS_TENSOR_CONV && b->memory < 0 &&
                         b->role == KAS_ROLE_SCRATCH && b->backward == t->backward &&
                         is_read_alone(ir, number, base, readers) &&
                         place_in(ir, t, b, address) == 0;
    return repeats ? base : -1;
}

/* Lets a convolution write its result directly into a tensor that would merely repeat it. */
static void forward_result(kas_ir *ir, int number, const int *readers)
{
    if (ir->tensor[number].role == KAS_ROLE_SCRATCH || ir->tensor[number].kind != KAS_TENSOR_DEF)
        return;
    const int base = repeated_result(ir, number, readers);
    if (base < 0)
        return;
    ir->tensor[base].memory = number;
    ir->tensor[number].kind = KAS_TENSOR_EXTERN; /* it has memory but no operation of its own */
}

/* Returns whether the pixels of part k and of its convolution are those of the join, and have the
 * part's channels one after the other as the join has them, from an address on that libraries take. */
static bool part_lies_well(const kas_ir *ir, const kas_ir_join *join, int k, int base)
{
    const kas_ir_tensor *whole = &ir->tensor[join->tensor], *part = &ir->tensor[join->part[k]];
    const int64_t offset = join->begin[k] * whole->stride[join->dim];
    bool well = offset * (int64_t)kas_dtype_size(part->dtype) % KAS_BUFFER_ALIGNMENT == 0;
    for (int d = 0; d < 3; d++)
        well &= part->size[d] == whole->size[d] && ir->tensor[base].size[d] == whole->size[d];
    for (int d = 3; d < part->rank; d++)
        well &= part->size[d] == 1 || part->stride[d] == whole->stride[d];
    return well;
}

/* Finds the convolutions that make the parts of a tensor, if it merely joins them and nothing else reads
 * them. */
static bool find_parts(kas_ir *ir, int number, const kas_ir_join *join, const int *readers,
                       int base[KAS_MAX_INPUTS])
{
    kas_ix address, own;
    const int whole = origin(ir, join->tensor, &own);
    if (origin(ir, number, &address) != whole || !is_read_alone(ir, number, whole, readers) ||
        place_in(ir, &ir->tensor[join->tensor], &ir->tensor[whole], own) != 0 ||
        place_in(ir, &ir->tensor[number], &ir->tensor[whole], address) != 0)
        return false;
    for (int k = 0; k < join->parts; k++) {
        base[k] = repeated_result(ir, join->part[k], readers);
        if (base[k] < 0 || readers[join->part[k]] != 1 || !part_lies_well(ir, join, k, base[k]))
            return false;
    }
    return true;
}

/* Lets convolutions write their results directly into Y or X's gradient, where it would merely join
 * them. On the CPU oneDNN would copy them there, more slowly than the kernel that joins them. */
static void forward_parts(kas_ir *ir, int number, const kas_ir_join *join, const int *readers)
{
    int base[KAS_MAX_INPUTS];
    if (ir->cpu || join->parts == 0 || !find_parts(ir, number, join, readers, base))
        return;
    for (int k = 0; k < join->parts; k++) {
        kas_ir_tensor *b = &ir->tensor[base[k]];
        b->memory = number;
        b->offset = join->begin[k] * ir->tensor[join->tensor].stride[join->dim];
        b->pitch = ir->tensor[number].pitch;
        memcpy(b->stride, ir->tensor[number].stride, 3 * sizeof *b->stride);
    }
    ir->tensor[number].kind = KAS_TENSOR_EXTERN;
}

void kas_fuse_results(kas_ir *ir, const int *readers)
{
    for (int t = 0; t < ir->tensors; t++) {
        forward_result(ir, t, readers);
        if (ir->tensor[t].role == KAS_ROLE_Y || ir->tensor[t].role == KAS_ROLE_DX)
            forward_parts(ir, t, &ir->join[ir->tensor[t].role == KAS_ROLE_DX], readers);
    }
}

int kas_fuse_memory(const kas_ir *ir, int tensor)
{
    while (ir->tensor[tensor].memory >= 0)
        tensor = ir->tensor[tensor].memory;
    return tensor;
}

int64_t kas_fuse_offset(const kas_ir *ir, int tensor)
{
    int64_t offset = 0;
    for (int t = tensor; ir->tensor[t].memory >= 0; t = ir->tensor[t].memory)
        offset += ir->tensor[t].offset;
    return offset;
}

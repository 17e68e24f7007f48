/* Decides which dims a kernel of columns walks, and where it pays (rows.h). */
#include "jit/schedule/rows.h"

enum {
    LEAST_CHANNELS = 16, /* fewest contiguous elements behind a column: the lanes */
    MANY_COLUMNS = 16384 /* as in reduce.c: threads enough to keep a GPU busy */
};

/* Returns the dims of t, as bits, in which every tensor inside has size 1 and t has more; 0 where
 * these tensors differ from t in something else, or from each other. */
static uint32_t lost_dims(const kas_ir *ir, const kas_ir_tensor *t, const char *inside)
{
    uint32_t lost = 0;
    for (int s = 0; s < ir->tensors; s++) {
        const kas_ir_tensor *other = &ir->tensor[s];
        uint32_t here = 0;
        if (!inside[s])
            continue;
        if (other->rank != t->rank)
            return 0;
        for (int d = 0; d < t->rank; d++) {
            if (other->size[d] == t->size[d])
                continue;
            if (other->size[d] != 1)
                return 0;
            here |= UINT32_C(1) << d;
        }
        if (lost && here != lost)
            return 0;
        lost = here;
    }
    return lost;
}

/* Returns the number of elements of the walked dims; *behind gets that of the dims behind the last
 * of them. */
static int64_t walk(const kas_ir_tensor *t, uint32_t walked, int64_t *behind)
{
    int64_t length = 1;
    *behind = 1;
    for (int d = 0; d < t->rank; d++) {
        *behind = walked >> d & 1 ? 1 : *behind * t->size[d];
        length *= walked >> d & 1 ? t->size[d] : 1;
    }
    return length;
}

/* A column that fits in registers is read once. A longer one is read again at each walk, by as many
 * threads as there are columns. Few threads would wait for memory longer than separate kernels, of
 * which the last has a thread for every element. */
uint32_t kas_columns_of(const kas_ir *ir, int number, const char *inside, int64_t along)
{
    const kas_ir_tensor *t = &ir->tensor[number];
    const uint32_t walked = lost_dims(ir, t, inside);
    int64_t behind;
    if (!walked || along > KAS_COLUMN_MOST || walk(t, walked, &behind) != along ||
        behind < LEAST_CHANNELS)
        return 0;
    return along <= KAS_COLUMN_KEPT || t->elements / along >= MANY_COLUMNS ? walked : 0;
}

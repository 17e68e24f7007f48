#include "jit/pieces.h"

/* How many times the room of X a tensor between X and Y may have: twice a core's own cache. What lies
 * near its size gains nothing from smaller pieces. */
enum { INNER_SHARE = 8 };

size_t kas_piece_bytes(kas_linear_policy policy, int cores)
{
    enum { CORE_BYTES = 1 << 18 };
    return policy == KAS_LINEAR_CPU ? (size_t)cores * CORE_BYTES : 0;
}

int kas_pieces_of(const kas_target *t, bool stride_inside, const kas_program_options *o)
{
    enum { LEAST_SHARE = 4 };
    uint32_t h, w;
    kas_target_read(t, stride_inside, &h, &w);
    const size_t x = (size_t)t->c_in * h * w, y = (size_t)t->c_out * t->h * t->w;
    const size_t image = kas_dtype_size(o->dtype) * (x > y ? x : y);
    const int room =
        o->piece_bytes / image < (size_t)o->batch ? (int)(o->piece_bytes / image) : o->batch;
    int images = room > 1 ? room : 1;
    if (o->piece_bytes == 0)
        return 1;
    while (o->batch % images)
        images--;
    return images * LEAST_SHARE < room ? 1 : o->batch / images;
}

/* Returns the bytes of the largest tensor between X and Y that has memory of its own and grows with the
 * images; 0: there is none. */
static double largest(const kas_ir *ir, int images)
{
    double most = 0;
    for (int i = 0; i < ir->tensors; i++) {
        const kas_ir_tensor *t = &ir->tensor[i];
        const double bytes = (double)kas_dtype_size(t->dtype) * (double)t->floats;
        if (t->materialised && t->memory < 0 && t->role == KAS_ROLE_SCRATCH && !t->once &&
            t->size[0] == images && bytes > most)
            most = bytes;
    }
    return most;
}

int kas_pieces_within(const kas_ir *ir, const kas_program_options *o, int pieces)
{
    int images = o->batch / pieces;
    const double room = INNER_SHARE * (double)o->piece_bytes, image = largest(ir, images) / images;
    if (image == 0) /* an operation reads X and writes Y: nothing of a piece would be read again */
        return 1;
    while (o->piece_bytes && images > 1 && (o->batch % images || images * image > room))
        images--;
    return o->batch / images;
}

void kas_pieces_cut(const kas_program *p, kas_buffer *buffer, size_t step)
{
    buffer->step = p->pieces > 1 ? step : 0;
    buffer->bytes += buffer->step * (size_t)(p->pieces - 1);
}

#include "host/search/pack.h"

#include <limits.h>
#include <math.h>

/* The elements of a tensor that one block of our own launches handles (kas_ops_rows_per_block). */
static const double block_numbers = 4096;

/* Returns the blocks of a pass. They cover the output of its layer; a pass of the whole step
 * (optimiser, loss) covers as many elements as it moves floats. */
static double blocks_of(const kas_sweep *pass, const kas_net *net, int batch)
{
    double numbers = pass->bytes / sizeof(float);
    if (pass->layer >= 0) {
        const kas_layer *l = &net->layer[pass->layer];
        numbers = (double)batch * l->h * l->w * l->c;
    }
    return fmax(1, ceil(numbers / block_numbers));
}

double kas_pack_filled(const kas_planned_bytes *step, const kas_net *net, int batch, int blocks)
{
    double time = 0;
    for (int i = 0; i < step->passes; i++)
        time += step->pass[i].bytes / fmin(1, blocks_of(&step->pass[i], net, batch) / blocks);
    return step->bytes / time;
}

kas_pack kas_pack_choose(double filled, size_t training, size_t room)
{
    const double fills = fmin(ceil(1 / filled - 1e-9), INT_MAX),
                 fits = room && training ? fmin((double)(room / training), INT_MAX) : INT_MAX;
    const double chosen = fmin(fmin(fills, fits), KAS_PACK_MOST);
    return (kas_pack){.filled = filled,
                      .fills = (int)fills,
                      .fits = (int)fits,
                      .chosen = chosen < 1 ? 1 : (int)chosen};
}

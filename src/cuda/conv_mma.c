/* Which passes run on tensor cores by our own kernels (src/cuda/kernels/conv_mma.cu), and how they are
 * launched. */
#include <stdlib.h>
#include <string.h>

#include "cuda/conv_cuda.h"

/* What the parts of a gradient may take of the workspace, where there is more than one block's */
enum { PARTS_BYTES = KAS_OWN_WORKSPACE / 4 };

static bool has_tensor_cores(const kas_cuda *cuda, const kas_conv_desc *d)
{
    const char *arch = cuda->base.info.arch;
    return strncmp(arch, "sm_", 3) == 0 && atoi(arch + 3) >= 80 && (d->dtype != KAS_F32 || d->tf32);
}

static int64_t pixels_of(const kas_conv_desc *d, kas_conv_pass pass)
{
    const int64_t map = pass == KAS_CONV_BACKWARD_DATA
                            ? (int64_t)d->h * d->w
                            : (int64_t)kas_conv_out_h(d) * kas_conv_out_w(d);
    return d->n * map;
}

/* Returns how many warps of a block sum over different pixels. */
static int slots_of(const kas_conv_desc *d, kas_conv_pass pass)
{
    const int octets = d->kernel_h * d->kernel_w * (d->c_in / d->groups / 8);
    return pass == KAS_CONV_BACKWARD_WEIGHTS ? KAS_MMA_WARPS / KAS_MMA_SPANS(octets) : 1;
}

/* Returns the bytes of the gradients that the warps of one set of blocks write. */
static int64_t gradient_bytes(const kas_conv_desc *d)
{
    return (int64_t)d->c_out * (d->c_in / d->groups) * d->kernel_h * d->kernel_w * 4 *
           slots_of(d, KAS_CONV_BACKWARD_WEIGHTS);
}

bool kas_mma_takes(const kas_cuda *cuda, const kas_conv_desc *d, kas_conv_pass pass)
{
    const int in = d->c_in / d->groups, out = d->c_out / d->groups;
    const int taps = d->kernel_h * d->kernel_w;
    const int read = pass == KAS_CONV_BACKWARD_DATA ? out : in;
    const int written = pass == KAS_CONV_BACKWARD_DATA ? in : out;
    if (!has_tensor_cores(cuda, d) || d->groups == 1 || in % 8 != 0 || out % 8 != 0 ||
        taps > KAS_MMA_TAPS || d->x_pitch % 8 != 0 || d->y_pitch % 8 != 0 ||
        pixels_of(d, KAS_CONV_FORWARD) > INT32_MAX / 2 ||
        pixels_of(d, KAS_CONV_BACKWARD_DATA) > INT32_MAX / 2)
        return false;
    const int64_t octets = (int64_t)taps * (read / 8);
    if (pass == KAS_CONV_BACKWARD_WEIGHTS)
        return KAS_MMA_SPANS(octets) <= KAS_MMA_WARPS && gradient_bytes(d) <= KAS_OWN_WORKSPACE;
    const int64_t bytes = (octets + 1) / 2 * KAS_MMA_TILES(written) * 32 * 4 *
                          (int64_t)kas_dtype_size(d->dtype); /* a lane has four numbers of a tile */
    return octets < KAS_MMA_OCTETS && bytes <= KAS_MMA_WEIGHT_BYTES;
}

const char *kas_mma_name(kas_conv_pass pass)
{
    static const char *const name[] = {"kas_dev_mma_forward", "kas_dev_mma_backward_data",
                                       "kas_dev_mma_backward_weights"};
    return name[pass];
}

/* Returns how many blocks share the pixels of a pass, if `blocks` have the same ones. */
static int shares_of(const kas_conv_desc *d, kas_conv_pass pass, int tiles, int blocks)
{
    const bool sums = pass == KAS_CONV_BACKWARD_WEIGHTS;
    const int turn = sums ? KAS_MMA_CHUNK : KAS_MMA_TURN(tiles);
    int64_t most = (pixels_of(d, pass) + turn - 1) / turn;
    const int64_t wanted = (KAS_ENOUGH_BLOCKS + blocks - 1) / blocks;
    most = wanted < most ? wanted : most;
    const int64_t room = sums ? PARTS_BYTES / gradient_bytes(d) : most;
    return (int)(room < 1 ? 1 : room < most ? room : most);
}

kas_mma_launch kas_mma_launch_of(const kas_conv_desc *d, kas_conv_pass pass)
{
    const int in = d->c_in / d->groups, out = d->c_out / d->groups;
    const int written = pass == KAS_CONV_BACKWARD_DATA ? in : out, tiles = KAS_MMA_TILES(written);
    const int blocks = d->groups * (written / (8 * tiles)); /* for the same pixels */
    const int shares = shares_of(d, pass, tiles, blocks), slots = slots_of(d, pass);
    const int warps = pass == KAS_CONV_BACKWARD_WEIGHTS
                          ? slots * KAS_MMA_SPANS(d->kernel_h * d->kernel_w * (in / 8))
                          : KAS_MMA_WARPS;
    return (kas_mma_launch){
        .launch = {.grid = {(unsigned)(blocks * shares), 1, 1}, .block = {32, (unsigned)warps, 1}},
        .parts = shares * slots};
}

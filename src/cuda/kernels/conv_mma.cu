#include "kernel.h"

/* Convolutions of few channels a group on tensor cores, channels-last.
 *
 * Eight channels of one tap, an octet, are half of the 16 numbers over which a product of mma.h sums
 * in the forward pass and in that for x's gradient: rows are pixels of the result, columns channels
 * of it. In the gradient of the weights the 16 rows of a tile are the channels of two octets, its
 * columns are channels of dy, and the sum goes over 16 pixels. Nothing is staged but weights: a warp reads
 * pixels as pairs of channels, and what neighbouring taps read again is in the cache.
 *
 * A block has rows of 32 threads, its warps. */

/* A result's pixel, as taps see it: where tap (0, 0) reads, in pixels, if that lies outside too, and
 * a bit for each tap that lies inside. */
typedef struct kas_mma_pixel {
    int at;
    kas_u32 taps;
} kas_mma_pixel;
/* An octet: how many pixels behind tap (0, 0) it lies, its first channel of the group, and its tap;
 * behind the last octet that is KAS_MMA_TAPS, of which no pixel has the bit. */
typedef struct kas_mma_octet {
    int behind, channel, tap;
} kas_mma_octet;

/* A gradient's pixel reads result's pixel (p + pad - k dilation) / stride, where that is whole. Then
 * it is the quotient of p + pad less that of k dilation, and the rests are the same. Forward every
 * tap is met, and lies k dilation behind p stride - pad. */
KAS_FN int kas_mma_behind(const kas_conv_args *a, int k, int back)
{
    return back ? -(k * a->dilation / a->stride) : k * a->dilation;
}
KAS_FN kas_u32 kas_mma_inside(const kas_conv_args *a, int at, int rest, int taps, int length,
                              int back)
{
    kas_u32 inside = 0;
    for (int k = 0; k < taps; k++) {
        const int place = at + kas_mma_behind(a, k, back);
        const int met = !back || k * a->dilation % a->stride == rest;
        inside |= (kas_u32)(met & (place >= 0) & (place < length)) << k;
    }
    return inside;
}
KAS_FN kas_mma_pixel kas_mma_pixel_of(const kas_conv_args *a, int p, int count, int back)
{
    const int height = back ? a->h : a->out_h, width = back ? a->width : a->out_w;
    const int from_h = back ? a->out_h : a->h, from_w = back ? a->out_w : a->width;
    const int image = p / (height * width), y = p / width % height, x = p % width;
    const int up = back ? y + a->pad_h : y * a->stride - a->pad_h;
    const int left = back ? x + a->pad_w : x * a->stride - a->pad_w;
    const int at_h = back ? up / a->stride : up, at_w = back ? left / a->stride : left;
    const kas_u32 rows =
        kas_mma_inside(a, at_h, back ? up % a->stride : 0, a->kernel_h, from_h, back);
    const kas_u32 columns =
        kas_mma_inside(a, at_w, back ? left % a->stride : 0, a->kernel_w, from_w, back);
    kas_mma_pixel pixel;
    pixel.at = (image * from_h + at_h) * from_w + at_w;
    pixel.taps = 0;
    for (int k = 0; k < a->kernel_h; k++)
        pixel.taps |= (rows >> k & 1 ? columns : 0u) << k * a->kernel_w;
    if (p >= count)
        pixel.taps = 0;
    return pixel;
}

/* Writes the pixels [first, first + length) into shared memory; length is a multiple of 32. */
KAS_FN void kas_mma_fill(const kas_conv_args *a, kas_mma_pixel *pixel, int first, int length,
                         int count, int back)
{
    KAS_ROWS (r, 0, length / 32) {
        KAS_THREADS (t, 32) {
            pixel[32 * r + t] = kas_mma_pixel_of(a, first + 32 * r + t, count, back);
        }
    }
}
/* Writes the octets of `channels` channels, up to `count`. */
KAS_FN void kas_mma_octets(const kas_conv_args *a, kas_mma_octet *octet, int channels, int count,
                           int back)
{
    const int from_w = back ? a->out_w : a->width;
    KAS_ONE_ROW
    {
        KAS_LANES (o, count) {
            const int tap = o / (channels / 8);
            octet[o].behind = kas_mma_behind(a, tap / a->kernel_w, back) * from_w +
                              kas_mma_behind(a, tap % a->kernel_w, back);
            octet[o].channel = o % (channels / 8) * 8;
            octet[o].tap = tap < a->kernel_h * a->kernel_w ? tap : KAS_MMA_TAPS;
        }
    }
}

/* ---- the forward pass, and x's gradient ------------------------------------------------------- */

/* The weights of a step and a tile of columns for one lane. */
typedef struct __attribute__((aligned(8 * KAS_PAIR_WORDS))) kas_mma_weight {
    kas_pair half[2];
} kas_mma_weight;
enum {
    KAS_MMA_WEIGHTS = KAS_MMA_WEIGHT_BYTES / (8 * KAS_PAIR_WORDS),
    KAS_MMA_PIXELS = KAS_MMA_TURN(1)
};

/* What a block computes: 8 `tiles` channels of the result, from `out` of the group on. */
typedef struct kas_mma_part {
    const kas_mma_octet *octet;
    kas_mma_weight *weight; /* [step][tile][lane], in shared memory; a step is two octets */
    int group, out, steps;
} kas_mma_part;

KAS_FN void kas_mma_weights(const kas_conv_args *a, const kas_mma_part *part, int tiles, int back)
{
    const int taps = a->kernel_h * a->kernel_w;
    const int next = back ? taps * a->group_in : 1; /* w is [co][tap][ci] */
    KAS_ROWS (r, 0, part->steps * tiles) {
        KAS_LANES (t, 32) {
            for (int h = 0; h < 2; h++) {
                const kas_mma_octet o = part->octet[r / tiles * 2 + h];
                const int in = o.channel + t % 4 * 2, out = part->out + r % tiles * 8 + t / 4;
                const int co = part->group * a->group_out + (back ? in : out);
                const kas_real *w =
                    a->w + ((kas_i64)co * taps + o.tap) * a->group_in + (back ? out : in);
                part->weight[r * 32 + t].half[h] =
                    o.tap < KAS_MMA_TAPS ? kas_pair_of(w[0], w[next]) : kas_pair_zero();
            }
        }
    }
}

/* Stores two neighbouring channels of a result's pixel, with what is beside the forward pass. */
KAS_FN void kas_mma_store(const kas_conv_args *a, kas_real *to, kas_i64 place, int channel,
                          const float *sum, int back)
{
    float value[2] = {sum[0], sum[1]};
    KAS_UNROLL
    for (int i = 0; i < 2; i++) {
        if (!back && a->residual)
            value[i] += kas_value(a->residual[place + i]);
        if (!back && a->bias)
            value[i] += kas_value(a->bias[channel + i]);
        if (!back)
            value[i] = kas_min(kas_max(value[i], a->least), a->most);
    }
    kas_pair_store(to + place, value[0], value[1]);
}

/* The pixels of a lane's rows. */
typedef struct kas_mma_own_pixels {
    kas_mma_pixel at[2 * KAS_MMA_ROW_TILES];
} kas_mma_own_pixels;

/* Computes 16 `rows` pixels of the result from `first` on, by a warp; `pixel` is the first of them. */
KAS_FN void kas_mma_pixels(const kas_conv_args *a, const kas_mma_part *part,
                           const kas_mma_pixel *pixel, int first, int count, const int rows,
                           const int tiles, const int back)
{
    const int from_pitch = back ? a->y_pitch : a->x_pitch,
              to_pitch = back ? a->x_pitch : a->y_pitch;
    const kas_real *from =
        back ? a->y + part->group * a->group_out : a->x + part->group * a->group_in;
    kas_real *to = back ? a->x : a->y;
    const int channel = part->group * (back ? a->group_in : a->group_out) + part->out;
    KAS_LANE(kas_mma_own_pixels, pixels, 32);
    KAS_LANE(kas_mma_sums, sums, 32);
    KAS_LANE(kas_mma_rows, in, 32);
    KAS_LANE(kas_mma_columns, weights, 32);
    KAS_LEAVE(32);
    KAS_THREADS (t, 32) {
        KAS_UNROLL
        for (int i = 0; i < 2 * rows; i++)
            KAS_OF(pixels, t).at[i] = pixel[8 * i + t / 4];
        KAS_UNROLL
        for (int i = 0; i < 4 * rows * tiles; i++)
            KAS_OF(sums, t).at[i / 4][i % 4] = 0.0f;
    }
    for (int step = 0; step < part->steps; step++) {
        KAS_THREADS (t, 32) {
            KAS_UNROLL
            for (int i = 0; i < 4 * rows; i++) {
                const kas_mma_octet o = part->octet[2 * step + i % 2];
                const kas_mma_pixel p = KAS_OF(pixels, t).at[i / 2];
                const kas_real *at =
                    from + (kas_i64)(p.at + o.behind) * from_pitch + o.channel + t % 4 * 2;
                KAS_OF(in, t).at[i / 4][i % 2][i / 2 % 2] =
                    p.taps >> o.tap & 1 ? kas_pair_load(at) : kas_pair_zero();
            }
            KAS_UNROLL
            for (int j = 0; j < tiles; j++) {
                const kas_mma_weight w = part->weight[(step * tiles + j) * 32 + t];
                KAS_OF(weights, t).at[j][0] = w.half[0];
                KAS_OF(weights, t).at[j][1] = w.half[1];
            }
        }
        KAS_UNROLL
        for (int i = 0; i < rows * tiles; i++)
            kas_mma(sums, i, in, i / tiles, weights, i % tiles);
    }
    KAS_THREADS (t, 32) {
        KAS_UNROLL
        for (int i = 0; i < 2 * rows; i++) {
            const int p = first + 8 * i + t / 4;
            if (p >= count)
                continue;
            KAS_UNROLL
            for (int j = 0; j < tiles; j++) {
                const int c = channel + 8 * j + t % 4 * 2;
                kas_mma_store(a, to, (kas_i64)p * to_pitch + c, c,
                              &KAS_OF(sums, t).at[i / 2 * tiles + j][i % 2 * 2], back);
            }
        }
    }
}

/* Blocks of neighbouring groups follow each other, because they read the same sectors of memory. */
KAS_FN void kas_mma_conv(const kas_conv_args *a, int block, kas_mma_weight *weight,
                         kas_mma_octet *octet, kas_mma_pixel *pixel, const int rows,
                         const int tiles, const int back)
{
    const int in = back ? a->group_out : a->group_in, out = back ? a->group_in : a->group_out;
    const int count = a->n * (back ? a->h * a->width : a->out_h * a->out_w);
    const int parts = out / (8 * tiles), all = a->groups * parts;
    const int pixels = block / all, turn = KAS_MMA_TURN(tiles);
    kas_mma_part part;
    part.octet = octet;
    part.weight = weight;
    part.group = block % all / parts;
    part.out = block % parts * 8 * tiles;
    part.steps = (a->kernel_h * a->kernel_w * (in / 8) + 1) / 2;
    kas_mma_octets(a, octet, in, 2 * part.steps, back);
    KAS_BARRIER();
    kas_mma_weights(a, &part, tiles, back);
    KAS_BARRIER();
    for (int first = pixels * turn; first < count; first += a->parts * turn) {
        kas_mma_fill(a, pixel, first, turn, count, back);
        KAS_BARRIER();
        KAS_ROWS (warp, 0, KAS_MMA_WARPS) {
            const int own = warp * 16 * rows;
            kas_mma_pixels(a, &part, pixel + own, first + own, count, rows, tiles, back);
        }
        KAS_BARRIER();
    }
}
/* Chooses the tiles of `channels` of the result: what is a constant lies in registers. */
KAS_FN void kas_mma_any(const kas_conv_args *a, int block, kas_mma_weight *weight,
                        kas_mma_octet *octet, kas_mma_pixel *pixel, int channels, const int back)
{
    const int tiles = KAS_MMA_TILES(channels);
    if (tiles == 4)
        kas_mma_conv(a, block, weight, octet, pixel, KAS_MMA_ROWS(4), 4, back);
    else if (tiles == 2)
        kas_mma_conv(a, block, weight, octet, pixel, KAS_MMA_ROWS(2), 2, back);
    else
        kas_mma_conv(a, block, weight, octet, pixel, KAS_MMA_ROWS(1), 1, back);
}
KAS_KERNEL(kas_dev_mma_forward, kas_conv_args)
{
    KAS_SHARED(kas_mma_weight, weight, KAS_MMA_WEIGHTS);
    KAS_SHARED(kas_mma_octet, octet, KAS_MMA_OCTETS);
    KAS_SHARED(kas_mma_pixel, pixel, KAS_MMA_PIXELS);
    kas_mma_any(&a, KAS_BLOCK_X, weight, octet, pixel, a.group_out, 0);
}
KAS_KERNEL(kas_dev_mma_backward_data, kas_conv_args)
{
    KAS_SHARED(kas_mma_weight, weight, KAS_MMA_WEIGHTS);
    KAS_SHARED(kas_mma_octet, octet, KAS_MMA_OCTETS);
    KAS_SHARED(kas_mma_pixel, pixel, KAS_MMA_PIXELS);
    kas_mma_any(&a, KAS_BLOCK_X, weight, octet, pixel, a.group_in, 1);
}

/* ---- the weights' gradient --------------------------------------------------------------------- */

/* A block sums over chunks of 256 pixels. A warp has a span of the octets, KAS_MMA_SPAN of them, and
 * where a group has few, warps share a chunk as slots. Pixel 4 u + i of 16 counts as number
 * 2 u + i % 2 of half i / 2, and so a lane reads four neighbouring pixels; of the octet 2 m + t / 16
 * lane t has the channels 2 (t / 4 % 4) and the next one, as its rows t / 4 and t / 4 + 8. Channels
 * of dy are columns in the same way, unless they are one octet. */
enum { KAS_MMA_SPAN_TILES = KAS_MMA_SPAN / 2 };

/* Returns four pixels of two channels as halves of rows or columns. */
KAS_FN void kas_mma_turn(const kas_pair in[4], kas_pair first[2], kas_pair second[2])
{
    first[0] = kas_pair_firsts(in[0], in[1]);
    first[1] = kas_pair_firsts(in[2], in[3]);
    second[0] = kas_pair_seconds(in[0], in[1]);
    second[1] = kas_pair_seconds(in[2], in[3]);
}

/* Reads dy at the pixels from p on: `tiles` tiles of columns. */
KAS_FN void kas_mma_read_y(const kas_conv_args *a, const kas_real *y, int p, int count, int t,
                           kas_mma_columns *columns, const int tiles)
{
    kas_pair in[4], unused[2];
    KAS_UNROLL
    for (int j = 0; j < tiles; j += 2) {
        const int channel = tiles == 1 ? t / 4 : (j + t / 16) * 8 + t / 4 % 4 * 2;
        KAS_UNROLL
        for (int i = 0; i < 4; i++) {
            const kas_real *at = y + (kas_i64)(p + i) * a->y_pitch + channel;
            in[i] = kas_pair_zero();
            if (p + i < count)
                in[i] = tiles == 1 ? kas_pair_of(at[0], at[0]) : kas_pair_load(at);
        }
        kas_mma_turn(in, columns->at[j], tiles == 1 ? unused : columns->at[j + 1]);
    }
}

/* Adds every `slots`-th 16 pixels of a chunk to a warp's sums, from number `slot` on. */
KAS_FN void kas_mma_add_chunk(const kas_conv_args *a, const kas_mma_octet *octet,
                              const kas_mma_pixel *pixel, const kas_real *x, const kas_real *y,
                              kas_mma_sums *sums, int chunk, int slot, int slots, const int tiles)
{
    const int count = a->n * a->out_h * a->out_w;
    KAS_LANE(kas_mma_rows, in, 32);
    KAS_LANE(kas_mma_columns, out, 32);
    KAS_LEAVE(32);
    for (int step = slot; step < KAS_MMA_CHUNK / 16; step += slots) {
        KAS_THREADS (t, 32) {
            const int first = 16 * step + t % 4 * 4;
            kas_mma_read_y(a, y, chunk * KAS_MMA_CHUNK + first, count, t, &KAS_OF(out, t), tiles);
            KAS_UNROLL
            for (int m = 0; m < KAS_MMA_SPAN_TILES; m++) {
                const kas_mma_octet o = octet[2 * m + t / 16];
                kas_pair of[4], one[2], other[2];
                KAS_UNROLL
                for (int i = 0; i < 4; i++) {
                    const kas_mma_pixel p = pixel[first + i];
                    const kas_real *at =
                        x + (kas_i64)(p.at + o.behind) * a->x_pitch + o.channel + t / 4 % 4 * 2;
                    of[i] = p.taps >> o.tap & 1 ? kas_pair_load(at) : kas_pair_zero();
                }
                kas_mma_turn(of, one, other);
                KAS_UNROLL
                for (int h = 0; h < 2; h++) {
                    KAS_OF(in, t).at[m][h][0] = one[h];
                    KAS_OF(in, t).at[m][h][1] = other[h];
                }
            }
        }
        KAS_UNROLL
        for (int i = 0; i < KAS_MMA_SPAN_TILES * tiles; i++)
            kas_mma(sums, i, in, i / tiles, out, i % tiles);
    }
}

/* Writes a warp's sums to a gradient [co][tap][ci], from the first of the block's channels on. */
KAS_FN void kas_mma_write_gradient(const kas_conv_args *a, const kas_mma_octet *octet,
                                   const kas_mma_sums *sums, float *dw, const int tiles)
{
    KAS_LEAVE(32);
    KAS_THREADS (t, 32) {
        KAS_UNROLL
        for (int i = 0; i < 2 * KAS_MMA_SPAN_TILES * tiles; i++) {
            const int j = i / 2 % tiles, column = t % 4 * 2 + i % 2;
            const kas_mma_octet o = octet[i / 2 / tiles * 2 + t / 16];
            const int co =
                tiles == 1 ? column : (j / 2 * 2 + column / 4) * 8 + column % 4 * 2 + j % 2;
            float *to = dw + ((kas_i64)co * a->kernel_h * a->kernel_w + o.tap) * a->group_in +
                        o.channel + t / 4 % 4 * 2;
            if (o.tap < KAS_MMA_TAPS) {
                to[0] = KAS_OF(sums, t).at[i / 2][i % 2];
                to[1] = KAS_OF(sums, t).at[i / 2][i % 2 + 2];
            }
        }
    }
}

KAS_FN void kas_mma_gradient(const kas_conv_args *a, int block, kas_mma_pixel *pixel,
                             kas_mma_octet *octet, kas_mma_sums *sums, const int tiles)
{
    const int taps = a->kernel_h * a->kernel_w, count = a->n * a->out_h * a->out_w;
    const int spans = KAS_MMA_SPANS(taps * (a->group_in / 8)), slots = KAS_MMA_WARPS / spans;
    const int parts = a->group_out / (8 * tiles), all = a->groups * parts;
    const int pixels = block / all, blocks = a->parts / slots; /* that share the pixels */
    const int group = block % all / parts;
    const int co = group * a->group_out + block % parts * 8 * tiles;
    kas_mma_octets(a, octet, a->group_in, spans * KAS_MMA_SPAN, 0);
    KAS_BARRIER();
    KAS_ROWS (warp, 0, spans * slots) {
        KAS_THREADS (t, 32) {
            KAS_UNROLL
            for (int i = 0; i < 4 * KAS_MMA_SPAN_TILES * tiles; i++)
                KAS_OF(sums, 32 * warp + t).at[i / 4][i % 4] = 0.0f;
        }
    }
    for (int chunk = pixels; chunk * KAS_MMA_CHUNK < count; chunk += blocks) {
        kas_mma_fill(a, pixel, chunk * KAS_MMA_CHUNK, KAS_MMA_CHUNK, count, 0);
        KAS_BARRIER();
        KAS_ROWS (warp, 0, spans * slots) {
            kas_mma_add_chunk(a, octet + warp % spans * KAS_MMA_SPAN, pixel,
                              a->x + group * a->group_in, a->y + co, &KAS_OF(sums, 32 * warp),
                              chunk, warp / spans, slots, tiles);
        }
        KAS_BARRIER();
    }
    float *dw = a->parts > 1 ? a->wt : a->dw;
    KAS_ROWS (warp, 0, spans * slots) {
        const kas_i64 gradient = pixels * slots + warp / spans;
        kas_mma_write_gradient(a, octet + warp % spans * KAS_MMA_SPAN, &KAS_OF(sums, 32 * warp),
                               dw + (gradient * a->c_out + co) * taps * a->group_in, tiles);
    }
}
/* Writes a->parts gradients, one for each block of pixels and slot. */
KAS_KERNEL(kas_dev_mma_backward_weights, kas_conv_args)
{
    KAS_SHARED(kas_mma_pixel, pixel, KAS_MMA_CHUNK);
    KAS_SHARED(kas_mma_octet, octet, KAS_MMA_OCTETS);
    KAS_LANE(kas_mma_sums, sums, 32 * KAS_MMA_WARPS);
    const int tiles = KAS_MMA_TILES(a.group_out);
    if (tiles == 4)
        kas_mma_gradient(&a, KAS_BLOCK_X, pixel, octet, sums, 4);
    else if (tiles == 2)
        kas_mma_gradient(&a, KAS_BLOCK_X, pixel, octet, sums, 2);
    else
        kas_mma_gradient(&a, KAS_BLOCK_X, pixel, octet, sums, 1);
}

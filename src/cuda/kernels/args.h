/* The struct argument of each hand-written kernel. It is read by the kernels and by the host code
 * that launches them, both after the prelude, which makes kas_real a float on the host: the kernels
 * of all dtypes take structs of one layout. Pointers are device memory. A `pitch` is the number of
 * elements from one pixel to the next. */
#ifndef KAS_CUDA_KERNELS_ARGS_H
#define KAS_CUDA_KERNELS_ARGS_H

/* Element-wise kernels over rows of `c` elements. Each block takes rows_per_block rows. Outputs may
 * be inputs. */
typedef struct kas_rows_args {
    const kas_real *a, *b; /* unused ones NULL */
    const float *bias;     /* [c] */
    kas_real *y;
    int rows, c, pitch_a, pitch_b, pitch_y, rows_per_block;
    int b_every; /* products: for how many rows of a one row of b holds */
    int whole;   /* whether all rows are whole (wide.h) */
} kas_rows_args;

/* Copies rows of `c` elements of one dtype into rows of the other. */
typedef struct kas_cast_args {
    kas_real *real;
    float *value;
    int rows, c, pitch_real, pitch_value, rows_per_block;
    int whole; /* whether all rows are whole (wide.h) */
} kas_cast_args;

/* Sums over rows: out [chunks][c] gets the sums of each chunk of rows. */
#define KAS_SUM_LANES 64
#define KAS_SUM_TEAMS 16 /* rows of threads that share the rows (teams.h) */
#define KAS_SUM_RUN 64   /* rows that a team sums separately, in sums of any length */
typedef struct kas_column_sum_args {
    const kas_real *x;
    float *out;
    int rows, c, pitch, chunk_rows;
    int whole; /* whether all rows, and out, are whole (wide.h) */
} kas_column_sum_args;

/* activation.cu: `kept` is the input (forward), or what the derivative is taken from. */
typedef struct kas_activation_args {
    const kas_real *kept, *dy;
    kas_real *out;
    int rows, c, pitch_kept, pitch_dy, pitch_out, rows_per_block;
    int whole; /* whether all rows are whole (wide.h) */
    int kind;  /* KAS_ACT_ of activation.h */
} kas_activation_args;

/* The host reads and writes this struct and the next three too, under the names that ops.h gives
 * them.  The state is that of the next step: its number, which is its place in the table of rows;
 * the position of its first image in the order of the epoch; and the epoch, which keys the
 * augmentation.  Uploaded at the start of an epoch (training: {steps done, 0, epoch}; evaluation:
 * {0, 0, 0}).  Of several ranks (docs/parallel.md) each begins at its own first image, and `rank`
 * keys what no position keys. */
typedef struct kas_dev_state {
    kas_u32 step, cursor, epoch, rank;
} kas_dev_state;
/* What is known of a training step before the run begins (schedule.h): a table in device memory. */
typedef struct kas_dev_row {
    /* the corrections are AdamW's; renew: weight of the new parameters in their moving average */
    float lr, correction1, correction2, renew;
    float blend, share; /* mixed images: weight of an image's own pixels, and of its own label */
    kas_u16 top, left, height, width; /* rectangle of the next image's pixels; 0 x 0 = none */
} kas_dev_row;
/* Sums since they were zeroed (kas_mem_zero), and what has been seen since then.  Who writes a
 * number looks at it: that reads nothing, and a parameter, a running statistic or an average that
 * is not finite once stays so, whatever the loss becomes.  A step that float16's loss scale skips
 * writes no parameter; its forward pass does write running statistics, and they count. */
typedef struct kas_dev_metrics {
    double loss_sum; /* over counted images */
    /* top-1 (the first of equal logits is the answer); images whose label is not KAS_NO_LABEL */
    kas_u64 correct, counted;
    double batch_loss; /* mean of the last batch's counted images; 0 when there were none */
    /* 1 since a number that is not finite was written, by the optimiser, a batch norm or an
     * average, or read by an evaluation in the logits of a counted image. */
    struct {
        kas_u32 parameters, statistics, averages, logits;
    } not_finite;
} kas_dev_metrics;

typedef struct kas_dev_scale {
    float scale;
    kas_u32 good, skipped, reserved; /* steps since it changed; skipped since the beginning */
} kas_dev_scale;

typedef struct kas_advance_args {
    kas_dev_state *state;
    kas_u32 batch;
} kas_advance_args;

/* augment.cu: one block for each row of each image; lanes along the row. */
#define KAS_DEV_NO_LABEL 0xFFFF
#define KAS_ERASE_ATTEMPTS 10u
#define KAS_IMAGE_PITCH (KAS_DTYPE == 0 ? 4 : 8) /* kas_pitch_of up to 4 channels */
typedef struct kas_augment_args {
    const kas_u8 *pixels;
    const kas_u16 *labels;
    const kas_u32 *order;
    const kas_dev_state *state;
    const kas_dev_row *rows; /* for the kernel that mixes images */
    kas_real *images;
    kas_u16 *labels_out;
    kas_u32 count, key0, key1;
    kas_u32 erase_below;           /* erase where the random number is below; 0 = never */
    int n, h, width, c, pad, flip; /* the pitch is KAS_IMAGE_PITCH */
    int cutout;                    /* side of the square; 0 = none */
    /* Erased share of the image = low + random number in [0, 1) * range */
    float area_low, area_range;
    float stretch_low, stretch_range; /* log of the root of height / width, likewise */
    float scale[4], offset[4];        /* value = pixel * scale + offset */
} kas_augment_args;

/* batch_norm.cu.  Lanes are channels, KAS_NORM_LANES a block; a chunk is chunk_rows rows, which
 * KAS_NORM_TEAMS rows of threads share (teams.h).  partial: [chunks][2][c] */
#define KAS_NORM_LANES 64
#define KAS_NORM_TEAMS 16
#define KAS_NORM_RUN 8  /* neighbouring rows that fall to one team */
#define KAS_NORM_ROWS 4 /* neighbouring rows that a thread of a GPU has under way */
/* Chunks are combined with fewer channels a block and more teams. */
#define KAS_COMBINE_LANES 16
#define KAS_COMBINE_TEAMS 64
typedef struct kas_norm_args {
    const kas_real *x, *y, *dy, *residual;
    const kas_real *dy1, *base; /* backward: a second gradient of y; what dx is added to */
    const float *gamma, *beta, *mean, *rstd;
    kas_real *out; /* y forward, dx backward */
    kas_real *g;   /* backward: the gradient behind the activation */
    float *running_mean, *running_var, *saved_mean, *saved_rstd;
    float *dgamma, *dbeta, *partial;
    kas_u32 *watch; /* training: 1 where a running statistic is not finite; may be NULL */
    int rows, c, chunks, chunk_rows, rows_per_block;
    int whole;      /* whether all rows, gamma... and partial are whole (wide.h) */
    int activation; /* KAS_ACT_ of activation.h, for the kernels of any activation */
    int pitch_x, pitch_y, pitch_residual, pitch_dy, pitch_dy1, pitch_base, pitch_out, pitch_g;
    float eps, momentum;
} kas_norm_args;

/* imitation.cu: what a kernel misses of the tensor that it imitates. Lanes are channels. Variances
 * are given as 1 / deviation, as batch_norm.cu leaves them. */
#define KAS_IMITATION_LANES 256
typedef struct kas_dev_imitated {
    double missed, wanted; /* sums over steps: variance of the difference, and of the tensor */
} kas_dev_imitated;
typedef struct kas_imitation_args {
    const float *error_rstd, *target_rstd; /* [c] */
    const float *gamma, *running_var;      /* [c] of the batch norm behind; NULL: there is none */
    float *factor, *one, *zero; /* [c], output: what norm_apply makes the gradient with */
    kas_dev_imitated *sum;
    int rows, c;
    float eps; /* of the batch norm */
} kas_imitation_args;

/* pool.cu: lanes are channels; y is the small tensor, x the large one. */
#define KAS_POOL_LANES 64
#define KAS_POOL_TEAMS 16 /* rows of threads that share the pixels of a global pool */
typedef struct kas_pool_args {
    const kas_real *in;
    kas_real *out;
    kas_u8 *index;              /* max pool: like y, a byte an element, of pitch_index */
    int h, width, out_h, out_w; /* sizes of x, of y */
    int kernel_h, kernel_w, stride, pad_h, pad_w; /* unless adaptive */
    int adaptive, count_pad, c, pitch_x, pitch_y, pitch_index;
    int whole; /* whether all rows are whole (wide.h) */
} kas_pool_args;

/* shortcut.cu: every size-th pixel of x, channels zero-padded in front and behind. */
typedef struct kas_shortcut_args {
    const kas_real *in;
    kas_real *out;
    int h, width, out_h, out_w, size;
    int c, pitch_x, pitch_y, c_out, front; /* c of x, c_out of y */
    int whole; /* whether all rows, and the channels in front, are whole */
} kas_shortcut_args;

/* dropout.cu: rows of all images, keyed by (seed, layer) and counted by (channel, row, step). */
typedef struct kas_dropout_args {
    const kas_real *x;
    kas_real *y;
    const kas_dev_state *state;
    int rows, c, pitch_x, pitch_y, rows_per_block;
    kas_u32 key0, key1, layer, threshold; /* dropped where the random word is below it */
    float scale;
    int whole; /* whether all rows are whole (wide.h) */
} kas_dropout_args;

/* flatten.cu: x [n][pixels][pitch_x] <-> y [n][c * pixels] of pitch_y. */
typedef struct kas_flatten_args {
    const kas_real *in;
    kas_real *out;
    int pixels, c, pitch_x, pitch_y;
} kas_flatten_args;

/* layer_norm.cu: like a batch norm with rows and channels exchanged.  partial: [chunks][2][c] */
#define KAS_LAYER_NORM_LANES 256
typedef struct kas_layer_norm_args {
    const kas_real *x, *dy;
    const float *gamma, *beta, *mean, *rstd;
    kas_real *out;                  /* y forward, dx backward */
    float *saved_mean, *saved_rstd; /* [rows] */
    float *partial;
    int rows, c, chunk_rows, rows_per_block;
    int pitch_x, pitch_dy, pitch_out;
    int whole; /* whether all rows, gamma, beta and partial are whole */
    float eps;
} kas_layer_norm_args;

/* cross_entropy.cu: one block for each image. */
#define KAS_LOSS_LANES 256
typedef struct kas_loss_args {
    const float *logits;
    const kas_u16 *labels;
    float *dlogits;    /* may be NULL */
    float *loss, *hit; /* [n]: loss, and 1 if the answer is right; scratch */
    kas_dev_metrics *metrics;
    const kas_dev_row *rows;    /* mixed images: their share; NULL = not mixed */
    const kas_dev_scale *scale; /* scale of dlogits; NULL = 1 */
    const kas_dev_state *state;
    int n, classes, pitch, pitch_d;
    int whole; /* whether all rows are whole (wide.h) */
    float smoothing;
} kas_loss_args;

/* update.cu: each block takes KAS_UPDATE_BLOCK parameters; decay holds for
 * groups of 2^KAS_UPDATE_SHIFT. */
#define KAS_UPDATE_BLOCK 1024
#define KAS_UPDATE_SHIFT 6
typedef struct kas_update_args {
    float *param, *first, *second; /* first: velocity, or AdamW's mean; second: AdamW's square */
    kas_real *copy;                /* copy of the parameters; none where kas_real is float */
    const float *grad, *decay,
        *grad_scale; /* grad_scale NULL: 1; 0, over float16: nothing is done */
    kas_u32 *watch;  /* 1 where a new parameter is not finite; may be NULL */
    const kas_dev_row *rows;
    const kas_dev_state *state;
    kas_u64 count;
    float momentum;
    float along_velocity, along_gradient; /* the step: Nesterov momentum and 1, without 1 and 0 */
    float beta1, beta2, rest1, rest2, epsilon; /* rest = 1 - beta */
} kas_update_args;

/* average.cu: blocks as in update.cu. */
typedef struct kas_average_args {
    float *average;
    const float *value;
    const kas_dev_row *rows;
    const kas_dev_state *state;
    kas_u32 *watch; /* 1 where a new average is not finite; may be NULL */
    kas_u64 count;
} kas_average_args;

/* clip.cu: each block of the first pass takes KAS_CLIP_BLOCK numbers. */
#define KAS_CLIP_LANES 256
#define KAS_CLIP_SUMS 1024 /* sums of a block: one for each lane of 256 threads */
#define KAS_CLIP_BLOCK 16384
typedef struct kas_clip_args {
    const float *grad;
    float *partial; /* [blocks] */
    float *scale;   /* 1 */
    kas_u64 count;
    int blocks; /* blocks of the first pass */
    float limit;
} kas_clip_args;

/* loss_scale.cu: one block; `partial` is that of the first pass of clip.cu. */
#define KAS_SCALE_LEAST 1.52587890625e-05f /* 2^-16 */
#define KAS_SCALE_MOST 16777216.0f         /* 2^24 */
typedef struct kas_loss_scale_args {
    const float *partial;
    float *factor; /* 1; 0 where the step is skipped */
    kas_dev_scale *state;
    int blocks;
    float limit; /* 0: none */
    kas_u32 patience;
} kas_loss_scale_args;

/* Convolution by loops (conv.cu): device.h's kas_conv_desc and its pointers.  The pass decides
 * which of x, w, y is written. */
#define KAS_CONV_LANES 64
#define KAS_CONV_TEAMS 16 /* rows of threads that share a sum over all pixels (teams.h) */
typedef struct kas_conv_args {
    kas_real *x, *w, *y;
    float *dw, *wt; /* wt: scratch, as many floats as w */
    /* Gradient of the weights, depthwise or on tensor cores: how many parts of the sum there are. With
     * more than one, wt gets [parts] gradients instead of dw. Other passes on tensor cores: blocks
     * that share the pixels. */
    int parts;
    int n, h, width, c_in, c_out, groups;
    int group_in, group_out; /* channels of a group */
    int kernel_h, kernel_w, stride, pad_h, pad_w, dilation;
    int out_h, out_w, x_pitch, y_pitch;
    /* For wide.h: whether a group's channels of x, w and dw are whole, and those of y and wt.
     * Depthwise: all channels. */
    int whole_x, whole_y;
    /* Forward, depthwise or on tensor cores: what is added before y is rounded, and the bounds of an
     * activation. NULL: nothing */
    const kas_real *bias, *residual; /* [c_out]; as y */
    float least, most;
} kas_conv_args;

/* The same on tensor cores (conv_mma.cu), for groups of whole octets of channels. */
#define KAS_MMA_WARPS 8
#define KAS_MMA_TAPS 31            /* of a kernel, at most */
#define KAS_MMA_OCTETS 128         /* of all taps, at most */
#define KAS_MMA_WEIGHT_BYTES 36864 /* of shared memory, for the weights of a block */
/* The octets of channels of the result that a block computes together, of dy where it is summed. */
#define KAS_MMA_TILES(channels) ((channels) % 32 == 0 ? 4 : (channels) % 16 == 0 ? 2 : 1)
/* Tiles of 16 pixels that a warp computes together, by tiles of channels, and pixels of a block's turn */
#define KAS_MMA_ROWS(tiles) ((tiles) == 4 ? 2 : 4)
#define KAS_MMA_TURN(tiles) (16 * KAS_MMA_ROWS(tiles) * KAS_MMA_WARPS)
#define KAS_MMA_CHUNK 256 /* pixels of a turn in the weights' gradient */
#define KAS_MMA_SPAN 6    /* octets of x that a warp has in the weights' gradient */
#define KAS_MMA_SPANS(octets) (((octets) + KAS_MMA_SPAN - 1) / KAS_MMA_SPAN)

#endif

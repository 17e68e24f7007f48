#include "host/ops/internal.h"

#include <math.h>

#include "host/core/random.h"

/* The limits of torchvision's RandomErasing. */
#define ERASE_AREA_LOW 0.02
#define ERASE_AREA_HIGH 0.33
#define ERASE_RATIO_LOW 0.3
#define ERASE_RATIO_HIGH 3.3

kas_status kas_op_augment(kas_ops *ops, kas_plan *plan, const kas_augment *augment,
                          kas_tensor images, uint16_t *labels)
{
    KAS_TRY(kas_ops_check("augment", "images", &images));
    const int pitch = kas_pitch_of(images.dtype, 4);
    if (images.c > 4 || images.pitch != pitch)
        return kas_fail(KAS_BAD_INPUT,
                        "augment: images have %d channels of pitch %d: at most 4 of pitch %d",
                        images.c, images.pitch, pitch);
    if (augment->crop_pad < 0 || augment->crop_pad > 1024)
        return kas_fail(KAS_BAD_INPUT, "augment: crop_pad %d, expected 0 to 1024",
                        augment->crop_pad);
    if (augment->cutout < 0 || augment->cutout > 65535 ||
        !(augment->erase >= 0 && augment->erase <= 1))
        return kas_fail(KAS_BAD_INPUT,
                        "augment: cutout %d, erase %g, expected 0 to 65535 and 0 to 1",
                        augment->cutout, augment->erase);
    const kas_rng rng = kas_rng_make(augment->seed, KAS_PURPOSE_AUGMENT, 0);
    kas_augment_args args = {.pixels = augment->pixels,
                             .labels = augment->labels,
                             .order = augment->order,
                             .state = augment->state,
                             .images = images.data,
                             .labels_out = labels,
                             .rows = augment->rows,
                             .count = augment->count,
                             .key0 = rng.key[0],
                             .key1 = rng.key[1],
                             .erase_below = (uint32_t)fmin(augment->erase * 0x1p32, UINT32_MAX),
                             .n = images.n,
                             .h = images.h,
                             .width = images.w,
                             .c = images.c,
                             .pad = augment->crop_pad,
                             .flip = augment->flip,
                             .cutout = augment->cutout,
                             .area_low = ERASE_AREA_LOW,
                             .area_range = (float)((ERASE_AREA_HIGH - ERASE_AREA_LOW) / 0x1p32),
                             .stretch_low = (float)(log(ERASE_RATIO_LOW) / 2),
                             .stretch_range =
                                 (float)(log(ERASE_RATIO_HIGH / ERASE_RATIO_LOW) / 2 / 0x1p32)};
    for (int c = 0; c < images.c; c++) {
        if (!(augment->std[c] > 0))
            return kas_fail(KAS_BAD_INPUT, "augment: std of channel %d is %g, expected above 0", c,
                            (double)augment->std[c]);
        args.scale[c] = (float)(1 / (255.0 * (double)augment->std[c]));
        args.offset[c] = (float)(-(double)augment->mean[c] / (double)augment->std[c]);
    }
    unsigned block[3];
    kas_ops_block(images.w, KAS_MAX_BLOCK, false, block);
    const unsigned grid[3] = {(unsigned)images.h, (unsigned)images.n, 1};
    const kas_kernels *k = &ops->of[images.dtype];
    return kas_plan_launch(plan, augment->rows ? k->augment_mixed : k->augment, grid, block, &args,
                           sizeof args);
}

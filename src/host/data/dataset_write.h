/* Writes data sets that need not fit into memory; a function gives their pixels or
 * encoded images. */
#ifndef KAS_DATA_DATASET_WRITE_H
#define KAS_DATA_DATASET_WRITE_H

#include "host/data/dataset.h"

/* A function that gives images [first, first + count) of `images`, which is &dataset->train or
 * &dataset->test: pixels [count][h][w][c], or the bytes of image `first` (then count is 1). */
typedef kas_status (*kas_image_source)(void *context, const kas_images *images, uint32_t first,
                                       uint32_t count, uint8_t *out);

/* Writes a file of pixels. `dataset` has sizes, names, counts and labels; its mean, std and
 * digest are filled. `compress` means gzip, in chunks of one image or, if images are smaller, of
 * 16 KiB. */
kas_status kas_dataset_write_pixels(const char *path, kas_dataset *dataset, kas_image_source source,
                                    void *context, bool compress);

/* Writes a file of encoded images. `dataset` also has `encoded`, mean, std and, in each set's
 * storage, count, offset and crc; its digest is filled. */
kas_status kas_dataset_write_encoded(const char *path, kas_dataset *dataset,
                                     kas_image_source source, void *context);

/* ---- sums over pixels: mean and standard deviation, exact in any order ----------------------- */

typedef struct kas_pixel_sums {
    uint64_t pixels, sum[4], squares[4]; /* by channel */
} kas_pixel_sums;
void kas_pixel_sums_add(kas_pixel_sums *sums, const uint8_t *pixels, uint64_t count, uint32_t c);
/* Computes mean and std of pixels / 255. A constant channel gets std 1, so that dividing by it
 * is harmless. */
void kas_pixel_sums_finish(const kas_pixel_sums *sums, uint32_t c, float mean[4], float std[4]);

#endif

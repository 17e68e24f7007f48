/* Generates files for the suite `data`: procedural images of ImageNet's sizes. */
#ifndef KAS_BENCH_DATA_FILE_H
#define KAS_BENCH_DATA_FILE_H

#include <stdint.h>

#include "host/core/status.h"

typedef enum kas_bench_storage { KAS_BENCH_JPEG, KAS_BENCH_PIXELS } kas_bench_storage;

/* Writes `count` training images and a few test images to `path`: JPEG files of 500 x 375 pixels,
 * or pixels of 224 x 224. Only a few dozen images differ, but each has its own place in the file.
 * Fails with KAS_UNSUPPORTED for JPEG in a build without libjpeg-turbo. */
kas_status kas_bench_data_file(const char *path, kas_bench_storage storage, uint32_t count);

#endif

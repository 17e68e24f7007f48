/* Writes data sets from memory at another image size. */
#include <omp.h>

#include "host/data/dataset_write.h"
#include "host/data/image/resize.h"
#include "host/data/import/import.h"

typedef struct job {
    const kas_dataset *from, *to;
} job;

/* Gives resized images. They are resized on all cores, each into its own place, so the file does
 * not depend on the cores. */
static kas_status give_resized(void *context, const kas_images *images, uint32_t first,
                               uint32_t count, uint8_t *out)
{
    const job *j = context;
    const kas_dataset *from = j->from, *to = j->to;
    const kas_images *source = images == &to->train ? &from->train : &from->test;
    size_t small = (size_t)from->h * from->w * from->c, large = (size_t)to->h * to->w * to->c;
    const kas_box all = {0, 0, from->w, from->h};
    bool failed = false;
#pragma omp parallel reduction(|| : failed)
    {
        kas_resize_scratch scratch = {0};
#pragma omp for
        for (uint32_t i = 0; i < count; i++) {
            const kas_raster image = {source->pixels + (first + i) * small, from->w, from->h,
                                      from->c};
            failed |=
                kas_resize(&image, all, to->w, to->h, false, &scratch, out + i * large) != KAS_OK;
        }
        kas_resize_scratch_free(&scratch);
    }
    return failed ? kas_fail(KAS_NO_MEMORY, "no memory to resize images") : KAS_OK;
}

kas_status kas_dataset_write_resized(const char *path, const kas_dataset *d, uint32_t h, uint32_t w,
                                     bool compress)
{
    kas_dataset large = *d;
    large.h = h;
    large.w = w;
    job j = {d, &large};
    return kas_dataset_write_pixels(path, &large, give_resized, &j, compress);
}

#include "host/data/image/render.h"

void kas_renderer_free(kas_renderer *renderer)
{
    kas_picture_free(&renderer->picture);
    kas_resize_scratch_free(&renderer->resize);
}

kas_status kas_render(kas_renderer *renderer, const kas_view *view, uint32_t position,
                      const uint8_t *bytes, size_t size, uint32_t h, uint32_t w, uint32_t c,
                      uint8_t *out)
{
    kas_picture *picture = &renderer->picture;
    uint32_t width, height;
    bool mirror;
    KAS_TRY(kas_decode_size(bytes, size, &width, &height));
    kas_box box = kas_view_box(view, position, width, height, w, h, &mirror);
    KAS_TRY(kas_decode(bytes, size, c, box, w, h, picture));
    const kas_raster raster = {picture->pixels, picture->width, picture->height, c};
    return kas_resize(&raster, picture->box, w, h, mirror, &renderer->resize, out);
}

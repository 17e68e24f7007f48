/* Turns the bytes of an encoded image into the pixels that a network sees: view, decode, resize. */
#ifndef KAS_DATA_IMAGE_RENDER_H
#define KAS_DATA_IMAGE_RENDER_H

#include "host/data/image/decode.h"
#include "host/data/image/resize.h"

/* The memory of one thread. Zero-initialise it and free it with kas_renderer_free. */
typedef struct kas_renderer {
    kas_picture picture;
    kas_resize_scratch resize;
} kas_renderer;
void kas_renderer_free(kas_renderer *renderer);

/* Renders the image at `position` of the pass that `view` describes into `out` [h][w][c]. */
kas_status kas_render(kas_renderer *renderer, const kas_view *view, uint32_t position,
                      const uint8_t *bytes, size_t size, uint32_t h, uint32_t w, uint32_t c,
                      uint8_t *out);

#endif

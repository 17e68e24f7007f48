#include "host/data/packet.h"

#include "host/data/dataset.h"

static bool in_range(uint32_t value, uint32_t high)
{
    return value >= 1 && value <= high;
}

/* Pixels of one set are below 2^32 * 2^16 * 2^16 * 4 = 2^66, hence the bound on an image first. */
bool kas_packet_layout_of(const kas_packet *p, kas_packet_layout *out)
{
    if (!in_range(p->h, KAS_DATASET_MAX_SIDE) || !in_range(p->w, KAS_DATASET_MAX_SIDE) ||
        !in_range(p->c, 4) || !in_range(p->classes, KAS_DATASET_MAX_CLASSES) ||
        !in_range(p->train_count, UINT32_MAX) || !in_range(p->test_count, UINT32_MAX))
        return false;
    uint64_t image = (uint64_t)p->h * p->w * p->c;
    if (image > UINT64_C(1) << 30)
        return false;
    out->names = sizeof *p;
    out->train_labels = out->names + (uint64_t)p->classes * KAS_DATASET_NAME_SIZE;
    out->test_labels = out->train_labels + 2 * (uint64_t)p->train_count;
    out->train_pixels = out->test_labels + 2 * (uint64_t)p->test_count;
    out->test_pixels = out->train_pixels + p->train_count * image;
    out->total = out->test_pixels + p->test_count * image;
    return true;
}

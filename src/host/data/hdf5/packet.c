#include "host/data/hdf5/packet.h"

#include "host/data/hdf5/limits.h"

static bool in_range(uint32_t value, uint32_t high)
{
    return value >= 1 && value <= high;
}

static bool storage_in_range(const kas_packet *p, const kas_packet_storage *s)
{
    return !p->streamed || s->extents <= (uint64_t)1 << 33;
}

/* The pixels of one set could reach 2^32 * 2^16 * 2^16 * 4 = 2^66, so the size of an image is
 * bounded first. */
bool kas_packet_layout_of(const kas_packet *p, kas_packet_layout *out)
{
    if (!in_range(p->h, KAS_DATASET_MAX_SIDE) || !in_range(p->w, KAS_DATASET_MAX_SIDE) ||
        !in_range(p->c, 4) || !in_range(p->classes, KAS_DATASET_MAX_CLASSES) ||
        !in_range(p->train_count, UINT32_MAX - 1) || !in_range(p->test_count, UINT32_MAX - 1) ||
        (p->encoded && !p->streamed) || !storage_in_range(p, &p->train) ||
        !storage_in_range(p, &p->test))
        return false;
    uint64_t image = (uint64_t)p->h * p->w * p->c, train = p->train_count, test = p->test_count;
    if (image > UINT64_C(1) << 30)
        return false;
    const struct {
        uint64_t *at, size;
    } part[] = {
        {&out->train_extents, p->streamed ? p->train.extents * sizeof(kas_extent) : 0},
        {&out->test_extents, p->streamed ? p->test.extents * sizeof(kas_extent) : 0},
        {&out->train_offsets, p->encoded ? (train + 1) * sizeof(uint64_t) : 0},
        {&out->test_offsets, p->encoded ? (test + 1) * sizeof(uint64_t) : 0},
        {&out->train_crc, p->encoded ? train * sizeof(uint32_t) : 0},
        {&out->test_crc, p->encoded ? test * sizeof(uint32_t) : 0},
        {&out->names, (uint64_t)p->classes * KAS_DATASET_NAME_SIZE},
        {&out->train_labels, train * sizeof(uint16_t)},
        {&out->test_labels, test * sizeof(uint16_t)},
        {&out->train_pixels, p->streamed ? 0 : train * image},
        {&out->test_pixels, p->streamed ? 0 : test * image},
    };
    out->total = sizeof *p;
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        *part[i].at = out->total;
        out->total += part[i].size;
    }
    return true;
}

/* Finds the pieces of a data set in the file (storage.h), in the reading child. */
#include <inttypes.h>
#include <stdio.h>

#include "host/data/hdf5/hdf5_child.h"

/* Checks the filters. Only gzip can be decompressed without the HDF5 library. The shuffle filter,
 * which h5py puts in front of it, leaves 1-byte elements unchanged. */
static kas_status look_at_filters(const kas_hdf5_child *r, const char *name, hid_t plist,
                                  kas_hdf5_pieces *p)
{
    int filters = H5Pget_nfilters(plist);
    p->deflate = -1;
    if (filters < 0)
        return kas_hdf5_damaged(r, name, "its filters cannot be read");
    for (int i = 0; i < filters; i++) {
        char filter[64] = "of an unknown kind";
        unsigned flags, config;
        size_t values = 0;
        H5Z_filter_t id = H5Pget_filter2(plist, (unsigned)i, &flags, &values, NULL, sizeof filter,
                                         filter, &config);
        if (id == H5Z_FILTER_DEFLATE && p->deflate < 0)
            p->deflate = i;
        else if (id != H5Z_FILTER_SHUFFLE)
            snprintf(p->why_not, sizeof p->why_not,
                     "it has the filter %s; streaming knows gzip and none", filter);
    }
    return KAS_OK;
}

static kas_status look_at_chunks(const kas_hdf5_child *r, const char *name, hid_t plist,
                                 const hsize_t *size, kas_hdf5_pieces *p)
{
    hsize_t chunk[H5S_MAX_RANK];
    if (H5Pget_chunk(plist, H5S_MAX_RANK, chunk) != p->rank)
        return kas_hdf5_damaged(r, name, "its chunks cannot be read");
    for (int i = 1; i < p->rank; i++)
        if (chunk[i] != size[i]) {
            snprintf(p->why_not, sizeof p->why_not,
                     "its chunks are %" PRIuHSIZE "x%" PRIuHSIZE "x%" PRIuHSIZE "x%" PRIuHSIZE
                     "; streaming needs chunks of whole images",
                     chunk[0], chunk[1], chunk[2], chunk[3]);
            return KAS_OK;
        }
    p->chunk = chunk[0];
    p->storage.extent_bytes = p->storage.total / size[0] * chunk[0];
    p->storage.extents = (size[0] - 1) / chunk[0] + 1;
    return look_at_filters(r, name, plist, p);
}

static kas_status look_at_layout(const kas_hdf5_child *r, const char *name, hid_t plist,
                                 const hsize_t *size, kas_hdf5_pieces *p)
{
    switch (H5Pget_layout(plist)) {
    case H5D_CHUNKED:
        return look_at_chunks(r, name, plist, size, p);
    case H5D_CONTIGUOUS:
        p->storage.extent_bytes = p->storage.total;
        p->storage.extents = 1;
        return KAS_OK;
    default:
        snprintf(p->why_not, sizeof p->why_not,
                 "its layout is compact; streaming needs contiguous or chunked");
        return KAS_OK;
    }
}

kas_status kas_hdf5_look_for_pieces(const kas_hdf5_child *r, const char *name, hid_t set, int rank,
                                    const hsize_t *size, kas_hdf5_pieces *out)
{
    *out = (kas_hdf5_pieces){.rank = rank, .deflate = -1, .storage = {.total = 1}};
    for (int i = 0; i < rank; i++)
        out->storage.total *= size[i];
    hid_t plist = H5Dget_create_plist(set), of_file = H5Fget_create_plist(r->file);
    hsize_t block = 0;
    if (plist < 0 || of_file < 0 || H5Pget_userblock(of_file, &block) < 0)
        return kas_hdf5_damaged(r, name, "its properties cannot be read");
    if (block > 0)
        snprintf(out->why_not, sizeof out->why_not, "the file has a user block");
    return look_at_layout(r, name, plist, size, out);
}

static kas_status never_written(const kas_hdf5_child *r, const char *name, hsize_t first)
{
    return kas_fail(KAS_BAD_INPUT, "%s: %s: its bytes from %" PRIuHSIZE " on were never written",
                    r->request->path, name, first);
}

kas_status kas_hdf5_locate(const kas_hdf5_child *r, const char *name, hid_t set,
                           const kas_hdf5_pieces *p, kas_extent *out)
{
    if (p->chunk == 0) {
        haddr_t at = H5Dget_offset(set);
        if (at == HADDR_UNDEF)
            return never_written(r, name, 0);
        *out = (kas_extent){at, p->storage.total, 0};
        return KAS_OK;
    }
    for (uint64_t e = 0; e < p->storage.extents; e++) {
        hsize_t first[4] = {e * p->chunk}, bytes = 0;
        unsigned skipped = 0;
        haddr_t at = HADDR_UNDEF;
        if (H5Dget_chunk_info_by_coord(set, first, &skipped, &at, &bytes) < 0)
            return kas_hdf5_damaged(r, name, "its chunks cannot be found");
        if (at == HADDR_UNDEF)
            return never_written(r, name, e * p->storage.extent_bytes);
        bool deflated = p->deflate >= 0 && !(skipped >> p->deflate & 1);
        out[e] = (kas_extent){at, bytes, deflated};
    }
    return KAS_OK;
}

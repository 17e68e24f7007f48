/* Finds the pieces of a data set in the file (storage.h), in the reading child. */
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>

#include "host/data/hdf5/hdf5_child.h"

/* Whether the library walks over all chunks at once (1.10.10, 1.12.3, 1.14.0). */
#define HAS_CHUNK_ITER                                                                             \
    (H5_VERSION_GE(1, 14, 0) || (H5_VERS_MINOR == 12 && H5_VERS_RELEASE >= 3) ||                   \
     (H5_VERS_MINOR == 10 && H5_VERS_RELEASE >= 10))

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

/* ---- chunks ---------------------------------------------------------------------------------- */

typedef struct places {
    const kas_hdf5_pieces *p;
    kas_extent *out; /* zero where no chunk was found */
} places;

static int put_place(const hsize_t *first, unsigned skipped, haddr_t at, hsize_t bytes, void *to)
{
    const places *t = to;
    const hsize_t e = *first / t->p->chunk;
    const bool deflated = t->p->deflate >= 0 && !(skipped >> t->p->deflate & 1);
    if (e < t->p->storage.extents)
        t->out[e] = (kas_extent){at, bytes, deflated};
    return 0;
}

#if HAS_CHUNK_ITER
static bool walk(hid_t set, places *to)
{
    return H5Dchunk_iter(set, H5P_DEFAULT, put_place, to) >= 0;
}
#else
/* Reads the places from a table with lines such as "0x00000000 59 5056 [0, 0, 0, 0, 0]": filters
 * that were skipped, bytes, place and first element of a chunk. */
static void read_table(FILE *table, places *to)
{
    char line[256];
    unsigned skipped;
    uint64_t bytes, at, first;
    while (fgets(line, sizeof line, table))
        if (sscanf(line, " 0x%x %" SCNu64 " %" SCNu64 " [%" SCNu64, &skipped, &bytes, &at,
                   &first) == 4)
            put_place(&(hsize_t){first}, skipped, at, bytes, to);
}

/* Older libraries walk over the chunks from the first one on for each that is asked for, which
 * takes a minute for 70,000. H5Ddebug walks once, and prints what it meets to stdout, which this
 * process does not use otherwise. */
static bool walk(hid_t set, places *to)
{
    FILE *const kept = stdout, *table = fdopen(memfd_create("kas-chunks", MFD_CLOEXEC), "w+");
    if (!table)
        return false;
    stdout = table;
    const bool walked = H5Ddebug(set) >= 0 && fflush(table) == 0 && !ferror(table);
    stdout = kept;
    rewind(table);
    read_table(table, to);
    return fclose(table) == 0 && walked;
}
#endif

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
    if (!walk(set, &(places){p, out}))
        return kas_hdf5_damaged(r, name, "its chunks cannot be found");
    for (uint64_t e = 0; e < p->storage.extents; e++)
        if (out[e].size == 0)
            return never_written(r, name, e * p->storage.extent_bytes);
    return KAS_OK;
}

#include "host/data/hdf5/hdf5_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "host/core/file/files.h"
#include "host/data/hdf5/hdf5_type.h"

/* Level 1: higher levels shrink photographs hardly more and take several times as long. */
enum { GZIP_LEVEL = 1 };
/* An import that has written nothing for so many seconds was killed. */
enum { KILLED = 3600 };

/* To be called before any other function of the library, each of which forgets the reason. */
static kas_status fail_write(const kas_hdf5_writer *w, const char *object)
{
    char reason[256];
    kas_hdf5_reason(reason, sizeof reason);
    return kas_fail(KAS_FAILURE, "%s: cannot write %s (HDF5: %s)", w->path, object, reason);
}

/* Prepares the library. After a write that failed for lack of room it crashes in its own atexit
 * handler, so that is turned off. Writers close all objects themselves. */
static void begin_library(void)
{
    H5dont_atexit(); /* has an effect only before all other calls */
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
}

bool kas_hdf5_is_file(const char *path)
{
    begin_library();
    return H5Fis_hdf5(path) > 0;
}

/* Attributes of more than 64 KiB need what came with HDF5 1.8. */
static hid_t access_for(bool large_attributes)
{
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    if (access >= 0 && large_attributes)
        H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_LATEST);
    return access;
}

kas_status kas_hdf5_begin(kas_hdf5_writer *w, const char *path, bool large_attributes)
{
    int fd;
    begin_library();
    *w = (kas_hdf5_writer){.path = path, .file = -1};
    kas_file_remove_unfinished(path, KILLED);
    KAS_TRY(kas_file_begin(path, &w->place, &fd));
    close(fd);
    const hid_t access = access_for(large_attributes);
    w->file = H5Fcreate(w->place.temporary, H5F_ACC_TRUNC, H5P_DEFAULT, access);
    const kas_status status = w->file < 0 ? fail_write(w, "the file") : KAS_OK;
    H5Pclose(access);
    if (status != KAS_OK)
        unlink(w->place.temporary);
    return status;
}

void kas_hdf5_abandon(kas_hdf5_writer *w)
{
    if (w->file >= 0) {
        H5Fclose(w->file);
        unlink(w->place.temporary);
    }
    w->file = -1;
}

static kas_status flush(const kas_hdf5_writer *w)
{
    int fd = open(w->place.temporary, O_RDONLY | O_CLOEXEC);
    int failed = fd < 0 || fsync(fd) != 0;
    kas_status status =
        failed ? kas_fail(KAS_FAILURE, "%s: cannot flush: %s", w->path, kas_strerror(errno))
               : KAS_OK;
    if (fd >= 0)
        close(fd);
    return status;
}

kas_status kas_hdf5_finish(kas_hdf5_writer *w)
{
    kas_status status = H5Fclose(w->file) < 0 ? fail_write(w, "the file") : KAS_OK;
    w->file = -1;
    if (status == KAS_OK)
        status = flush(w);
    if (status == KAS_OK)
        return kas_file_end(w->path, &w->place);
    unlink(w->place.temporary);
    return status;
}

kas_status kas_hdf5_put_attribute(kas_hdf5_writer *w, const kas_hdf5_array *a)
{
    kas_status status = KAS_OK;
    hid_t space = a->rank ? H5Screate_simple(a->rank, a->dims, NULL) : H5Screate(H5S_SCALAR);
    hid_t attribute =
        space < 0 ? -1
                  : H5Acreate2(w->file, a->name, a->file_type, space, H5P_DEFAULT, H5P_DEFAULT);
    if (attribute < 0 || H5Awrite(attribute, a->memory_type, a->data) < 0)
        status = fail_write(w, a->name);
    if (attribute >= 0 && H5Aclose(attribute) < 0 && status == KAS_OK)
        status = fail_write(w, a->name);
    H5Sclose(space);
    return status;
}

static hid_t storage_of(const kas_hdf5_array *a, hsize_t chunk, bool compress)
{
    hid_t plist = H5Pcreate(H5P_DATASET_CREATE);
    hsize_t size[4] = {chunk, a->dims[1], a->dims[2], a->dims[3]};
    size[0] = size[0] < a->dims[0] ? size[0] : a->dims[0];
    if (plist < 0 || H5Pset_obj_track_times(plist, 0) < 0 ||
        (chunk && H5Pset_chunk(plist, a->rank, size) < 0) ||
        (compress && H5Pset_deflate(plist, GZIP_LEVEL) < 0))
        return -1;
    return plist;
}

kas_status kas_hdf5_open_pieces(kas_hdf5_writer *w, const kas_hdf5_array *a, hsize_t chunk,
                                bool compress, hid_t *set)
{
    hid_t plist = storage_of(a, chunk, compress), links = H5Pcreate(H5P_LINK_CREATE);
    hid_t space = H5Screate_simple(a->rank, a->dims, NULL);
    *set = -1;
    if (plist >= 0 && links >= 0 && space >= 0 && H5Pset_create_intermediate_group(links, 1) >= 0)
        *set = H5Dcreate2(w->file, a->name, a->file_type, space, links, plist, H5P_DEFAULT);
    const kas_status status = *set < 0 ? fail_write(w, a->name) : KAS_OK;
    H5Sclose(space), H5Pclose(links), H5Pclose(plist);
    return status;
}

kas_status kas_hdf5_put_piece(kas_hdf5_writer *w, const kas_hdf5_array *a, hid_t set, hsize_t first,
                              hsize_t count, const void *data)
{
    hsize_t start[4] = {first}, size[4] = {count, a->dims[1], a->dims[2], a->dims[3]};
    hid_t memory = H5Screate_simple(a->rank, size, NULL), file = H5Dget_space(set);
    bool written = memory >= 0 && file >= 0 &&
                   H5Sselect_hyperslab(file, H5S_SELECT_SET, start, NULL, size, NULL) >= 0 &&
                   H5Dwrite(set, a->memory_type, memory, file, H5P_DEFAULT, data) >= 0;
    kas_status status = written ? KAS_OK : fail_write(w, a->name);
    H5Sclose(memory), H5Sclose(file);
    return status;
}

kas_status kas_hdf5_close_pieces(kas_hdf5_writer *w, const kas_hdf5_array *a, hid_t set,
                                 kas_status status)
{
    if (H5Dclose(set) < 0 && status == KAS_OK)
        return fail_write(w, a->name);
    return status;
}

kas_status kas_hdf5_put(kas_hdf5_writer *w, const kas_hdf5_array *a)
{
    hid_t set;
    KAS_TRY(kas_hdf5_open_pieces(w, a, 0, false, &set));
    kas_status status = KAS_OK;
    if (H5Dwrite(set, a->memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, a->data) < 0)
        status = fail_write(w, a->name);
    return kas_hdf5_close_pieces(w, a, set, status);
}

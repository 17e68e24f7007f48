#include <errno.h>
#include <fcntl.h>
#include <hdf5.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "host/core/files.h"
#include "host/data/dataset.h"
#include "host/data/hdf5_type.h"

/* Handles are closed in reverse order; 0 stands for "not opened" (HDF5 gives positive ones). */
typedef struct shape {
    const char *name;
    int rank;
    hsize_t dims[4];
    hid_t file_type, memory_type;
    const void *data;
} shape;

static kas_status fail_write(const char *path, const char *object)
{
    char reason[256];
    kas_hdf5_reason(reason, sizeof reason);
    return kas_fail(KAS_FAILURE, "%s: cannot write %s (HDF5: %s): is the disk full?", path, object,
                    reason);
}

/* Contiguous, uncompressed (photographs hardly shrink) and without times, so that equal data gives
 * equal files. */
static kas_status write_array(const char *path, hid_t file, const shape *s)
{
    kas_status status = KAS_OK;
    hid_t plist = H5Pcreate(H5P_DATASET_CREATE), links = H5Pcreate(H5P_LINK_CREATE);
    hid_t space = H5Screate_simple(s->rank, s->dims, NULL), set = -1;
    if (plist >= 0 && links >= 0 && space >= 0 && H5Pset_obj_track_times(plist, 0) >= 0 &&
        H5Pset_create_intermediate_group(links, 1) >= 0)
        set = H5Dcreate2(file, s->name, s->file_type, space, links, plist, H5P_DEFAULT);
    if (set < 0 || H5Dwrite(set, s->memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, s->data) < 0)
        status = fail_write(path, s->name);
    if (set >= 0 && H5Dclose(set) < 0 && status == KAS_OK)
        status = fail_write(path, s->name);
    H5Sclose(space), H5Pclose(links), H5Pclose(plist);
    return status;
}

static kas_status write_attribute(const char *path, hid_t file, const shape *s)
{
    kas_status status = KAS_OK;
    hid_t space = s->rank ? H5Screate_simple(s->rank, s->dims, NULL) : H5Screate(H5S_SCALAR);
    hid_t attribute =
        space < 0 ? -1 : H5Acreate2(file, s->name, s->file_type, space, H5P_DEFAULT, H5P_DEFAULT);
    if (attribute < 0 || H5Awrite(attribute, s->memory_type, s->data) < 0)
        status = fail_write(path, s->name);
    if (attribute >= 0 && H5Aclose(attribute) < 0 && status == KAS_OK)
        status = fail_write(path, s->name);
    H5Sclose(space);
    return status;
}

static kas_status write_set(const char *path, hid_t file, const kas_dataset *d,
                            const kas_images *images, const char *pixels, const char *labels)
{
    shape p = {pixels,        4, {images->count, d->h, d->w, d->c}, H5T_STD_U8LE, H5T_NATIVE_UINT8,
               images->pixels};
    shape l = {labels, 1, {images->count}, H5T_STD_U16LE, H5T_NATIVE_UINT16, images->labels};
    KAS_TRY(write_array(path, file, &p));
    return write_array(path, file, &l);
}

static kas_status write_contents(const char *path, hid_t file, const kas_dataset *d)
{
    static const int32_t layout = 1;
    shape number = {"layout", 0, {0}, H5T_STD_I32LE, H5T_NATIVE_INT32, &layout};
    shape mean = {"mean", 1, {d->c}, H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, d->mean};
    shape std = {"std", 1, {d->c}, H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, d->std};
    hid_t text = H5Tcopy(H5T_C_S1);
    if (text < 0 || H5Tset_size(text, H5T_VARIABLE) < 0 || H5Tset_cset(text, H5T_CSET_UTF8) < 0)
        return fail_write(path, "classes");
    shape classes = {"classes", 1, {d->classes}, text, text, d->class_name};
    kas_status status;
    KAS_TRY_GOTO(write_attribute(path, file, &number), done);
    KAS_TRY_GOTO(write_attribute(path, file, &classes), done);
    KAS_TRY_GOTO(write_attribute(path, file, &mean), done);
    KAS_TRY_GOTO(write_attribute(path, file, &std), done);
    KAS_TRY_GOTO(write_set(path, file, d, &d->train, "train/images", "train/labels"), done);
    status = write_set(path, file, d, &d->test, "test/images", "test/labels");
done:
    H5Tclose(text);
    return status;
}

static kas_status write_file(const char *temporary, const char *path, const kas_dataset *d)
{
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    hid_t file = H5Fcreate(temporary, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    if (file < 0)
        return fail_write(path, "the file");
    kas_status status = write_contents(path, file, d);
    if (H5Fclose(file) < 0 && status == KAS_OK)
        status = fail_write(path, "the file");
    return status;
}

static kas_status sync_path(const char *path, int flags)
{
    int fd = open(path, flags | O_RDONLY | O_CLOEXEC);
    int failed = fd < 0 || fsync(fd) != 0;
    kas_status status =
        failed ? kas_fail(KAS_FAILURE, "%s: cannot flush: %s", path, strerror(errno)) : KAS_OK;
    if (fd >= 0)
        close(fd);
    return status;
}

kas_status kas_dataset_write(const char *path, const kas_dataset *d)
{
    char temporary[PATH_MAX], folder[PATH_MAX];
    if (snprintf(temporary, sizeof temporary, "%s.%ld.tmp", path, (long)getpid()) >=
        (int)sizeof temporary)
        return kas_fail(KAS_BAD_INPUT, "%.80s...: the path is too long", path);
    KAS_TRY(kas_file_check_writable(path));
    kas_status status;
    KAS_TRY_GOTO(write_file(temporary, path, d), fail);
    KAS_TRY_GOTO(sync_path(temporary, 0), fail);
    if (rename(temporary, path) != 0) {
        status = kas_fail(KAS_FAILURE, "%s: cannot rename: %s", path, strerror(errno));
        goto fail;
    }
    snprintf(folder, sizeof folder, "%s", path);
    return sync_path(dirname(folder), O_DIRECTORY);
fail:
    unlink(temporary);
    return status;
}

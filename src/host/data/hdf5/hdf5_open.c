#include "host/data/hdf5/hdf5_child.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/data/hdf5/hdf5_type.h"

kas_status kas_hdf5_damaged(const kas_hdf5_child *r, const char *object, const char *what)
{
    char reason[256];
    kas_hdf5_reason(reason, sizeof reason);
    return kas_fail(KAS_BAD_INPUT, "%s: %s: %s (HDF5: %s): the file is damaged or truncated",
                    r->request->path, object, what, reason);
}

kas_status kas_hdf5_expected(const kas_hdf5_child *r, const char *object, const char *wanted,
                             hid_t type, hid_t space)
{
    char found[256];
    kas_hdf5_describe(type, space, found, sizeof found);
    return kas_fail(KAS_BAD_INPUT, "%s: %s: expected %s, found %s", r->request->path, object,
                    wanted, found);
}

kas_status kas_hdf5_open(kas_hdf5_child *r)
{
    const char *path = r->request->path;
    /* Locks fail on many network file systems, and a reader needs none, because files are never
     * changed in place. A user's own setting is kept. */
    setenv("HDF5_USE_FILE_LOCKING", "FALSE", 0);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    htri_t is_hdf5 = H5Fis_hdf5(path);
    if (is_hdf5 == 0)
        return kas_fail(KAS_BAD_INPUT,
                        "%s: not an HDF5 file; `kas-gpu dataset import` or `make` writes one "
                        "(datasets/FORMAT.md)",
                        path);
    r->file = is_hdf5 < 0 ? -1 : H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    return r->file < 0 ? kas_hdf5_damaged(r, "the file", "cannot be opened") : KAS_OK;
}

static herr_t refuse_link(const char *file, const char *group, const char *other_file,
                          const char *other_object, unsigned *flags, hid_t access, void *data)
{
    (void)file, (void)group, (void)other_file, (void)other_object, (void)flags, (void)access;
    *(bool *)data = true;
    return -1;
}

static kas_status other_file(const kas_hdf5_child *r, const char *name)
{
    return kas_fail(KAS_BAD_INPUT,
                    "%s: %s: lies in another file, which could be any file of this machine; copy "
                    "it into this one (h5repack)",
                    r->request->path, name);
}

/* Refuses storage that names other files. */
static kas_status check_storage(const kas_hdf5_child *r, const char *name, hid_t set)
{
    hid_t plist = H5Dget_create_plist(set);
    const H5D_layout_t layout = plist < 0 ? H5D_LAYOUT_ERROR : H5Pget_layout(plist);
    const int external = plist < 0 ? -1 : H5Pget_external_count(plist);
    H5Pclose(plist);
    if (layout == H5D_LAYOUT_ERROR || (layout == H5D_CONTIGUOUS && external < 0))
        return kas_hdf5_damaged(r, name, "its properties cannot be read");
    return layout == H5D_VIRTUAL || external > 0 ? other_file(r, name) : KAS_OK;
}

/* Opens "train/images" step by step, so that the message names the part that is missing. */
static kas_status open_object(const kas_hdf5_child *r, const char *name, const char *wanted,
                              hid_t *out)
{
    char part[64];
    bool refused = false;
    hid_t links = H5Pcreate(H5P_LINK_ACCESS);
    if (links < 0 || H5Pset_elink_cb(links, refuse_link, &refused) < 0)
        return kas_hdf5_damaged(r, name, "cannot be looked up");
    const char *slash = strchr(name, '/');
    size_t cut[2] = {slash ? (size_t)(slash - name) : strlen(name), strlen(name)};
    for (int i = 0; i < 2; i++) {
        snprintf(part, sizeof part, "%.*s", (int)cut[i], name);
        htri_t exists = H5Lexists(r->file, part, links);
        if (refused)
            return other_file(r, part);
        if (exists < 0)
            return kas_hdf5_damaged(r, part, "cannot be looked up");
        if (exists == 0)
            return kas_fail(KAS_BAD_INPUT, "%s: %s is missing; expected %s", r->request->path, part,
                            i == 0 ? "a group with images and labels" : wanted);
    }
    hid_t object = H5Oopen(r->file, name, links);
    if (refused)
        return other_file(r, name);
    if (object < 0)
        return kas_hdf5_damaged(r, name, "cannot be opened");
    if (H5Iget_type(object) != H5I_DATASET)
        return kas_fail(KAS_BAD_INPUT, "%s: %s: expected a data set (%s), found %s",
                        r->request->path, name, wanted,
                        H5Iget_type(object) == H5I_GROUP ? "a group" : "another kind of object");
    *out = object;
    return check_storage(r, name, object);
}

kas_status kas_hdf5_open_set(const kas_hdf5_child *r, const char *name, const char *wanted,
                             hid_t *set, hid_t *type, hid_t *space, int *rank, hsize_t *size)
{
    KAS_TRY(open_object(r, name, wanted, set));
    *type = H5Dget_type(*set);
    *space = H5Dget_space(*set);
    *rank = *space < 0 ? -1 : H5Sget_simple_extent_dims(*space, size, NULL);
    if (*type < 0 || *rank < 0)
        return kas_hdf5_damaged(r, name, "its type or shape cannot be read");
    return KAS_OK;
}

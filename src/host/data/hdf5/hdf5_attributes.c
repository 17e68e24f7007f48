#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/data/hdf5/hdf5_child.h"

/* Opens an attribute of "/" with one dimension, whose length is written to *length. */
static kas_status open_attribute(const kas_hdf5_child *r, const char *name, H5T_class_t kind,
                                 const char *wanted, hid_t *attribute, hid_t *type, hsize_t *length)
{
    char label[64];
    snprintf(label, sizeof label, "attribute \"%s\" of /", name);
    htri_t exists = H5Aexists(r->file, name);
    if (exists == 0)
        return kas_fail(KAS_BAD_INPUT, "%s: %s is missing; expected %s", r->request->path, label,
                        wanted);
    *attribute = exists < 0 ? -1 : H5Aopen(r->file, name, H5P_DEFAULT);
    if (*attribute < 0)
        return kas_hdf5_damaged(r, label, "cannot be opened");
    hid_t space = H5Aget_space(*attribute);
    *type = H5Aget_type(*attribute);
    if (space < 0 || *type < 0)
        return kas_hdf5_damaged(r, label, "its type or shape cannot be read");
    hsize_t d[H5S_MAX_RANK];
    if (H5Tget_class(*type) != kind || H5Sget_simple_extent_dims(space, d, NULL) != 1)
        return kas_hdf5_expected(r, label, wanted, *type, space);
    *length = d[0];
    return KAS_OK;
}

static kas_status read_floats(kas_hdf5_child *r, const char *name, bool positive, float out[4])
{
    char wanted[128];
    snprintf(wanted, sizeof wanted,
             "%u numbers (float) %s, one a channel, of pixels divided by 255", r->packet.c,
             positive ? "above 0, at most 1" : "from 0 to 1");
    hid_t attribute, type;
    hsize_t length;
    KAS_TRY(open_attribute(r, name, H5T_FLOAT, wanted, &attribute, &type, &length));
    if (length != r->packet.c)
        return kas_fail(KAS_BAD_INPUT, "%s: attribute \"%s\" of /: expected %s, found %llu",
                        r->request->path, name, wanted, (unsigned long long)length);
    if (H5Aread(attribute, H5T_NATIVE_FLOAT, out) < 0)
        return kas_hdf5_damaged(r, name, "cannot be read");
    for (uint32_t i = 0; i < r->packet.c; i++)
        if (!(out[i] >= 0 && out[i] <= 1) || (positive && out[i] == 0))
            return kas_fail(KAS_BAD_INPUT, "%s: attribute \"%s\" of /: expected %s, found %g%s",
                            r->request->path, name, wanted, (double)out[i],
                            out[i] > 1 && out[i] <= 255 ? ": divide it by 255" : "");
    return KAS_OK;
}

static kas_status take_name(kas_hdf5_child *r, uint32_t i, const char *text, size_t length)
{
    if (!text || length == 0 || length >= KAS_DATASET_NAME_SIZE)
        return kas_fail(KAS_BAD_INPUT,
                        "%s: attribute \"classes\" of /: entry %u: expected a name of 1 to %d "
                        "bytes, found %zu",
                        r->request->path, i, KAS_DATASET_NAME_SIZE - 1, text ? length : 0);
    memcpy(r->names[i], text, length);
    return KAS_OK;
}

static kas_status read_names(kas_hdf5_child *r, hid_t attribute, hid_t type)
{
    uint32_t count = r->packet.classes;
    hid_t memory = H5Tcopy(H5T_C_S1);
    bool variable = H5Tis_variable_str(type) > 0;
    size_t width = variable ? sizeof(char *) : H5Tget_size(type) + 1;
    if (memory < 0 || H5Tset_cset(memory, H5Tget_cset(type)) < 0 ||
        H5Tset_size(memory, variable ? H5T_VARIABLE : width) < 0)
        return kas_hdf5_damaged(r, "attribute \"classes\" of /", "its type cannot be read");
    char *raw = width > 65536 ? NULL : calloc(count, width);
    if (!raw)
        return kas_hdf5_damaged(r, "attribute \"classes\" of /", "its strings are too long");
    if (H5Aread(attribute, memory, raw) < 0)
        return kas_hdf5_damaged(r, "attribute \"classes\" of /", "cannot be read");
    for (uint32_t i = 0; i < count; i++) {
        const char *text = variable ? ((char **)raw)[i] : raw + i * width;
        KAS_TRY(take_name(r, i, text, text ? strnlen(text, KAS_DATASET_NAME_SIZE) : 0));
    }
    return KAS_OK;
}

kas_status kas_hdf5_read_classes(kas_hdf5_child *r)
{
    static const char wanted[] = "1 to 65535 strings, the names of the classes";
    hid_t attribute, type;
    hsize_t length;
    KAS_TRY(open_attribute(r, "classes", H5T_STRING, wanted, &attribute, &type, &length));
    if (length < 1 || length > KAS_DATASET_MAX_CLASSES)
        return kas_fail(KAS_BAD_INPUT, "%s: attribute \"classes\" of /: expected %s, found %llu",
                        r->request->path, wanted, (unsigned long long)length);
    r->packet.classes = (uint32_t)length;
    r->names = calloc(length, sizeof *r->names);
    if (!r->names)
        return kas_fail(KAS_NO_MEMORY, "out of memory for %llu class names",
                        (unsigned long long)length);
    return read_names(r, attribute, type);
}

/* A later layout that only adds objects keeps its number; another number means that old readers
 * would misread the file. */
kas_status kas_hdf5_read_layout_number(const kas_hdf5_child *r)
{
    htri_t exists = H5Aexists(r->file, "layout");
    if (exists == 0)
        return KAS_OK;
    hid_t attribute = exists < 0 ? -1 : H5Aopen(r->file, "layout", H5P_DEFAULT);
    hid_t space = attribute < 0 ? -1 : H5Aget_space(attribute);
    long long value = 0;
    if (space < 0 || H5Sget_simple_extent_npoints(space) != 1 ||
        H5Aread(attribute, H5T_NATIVE_LLONG, &value) < 0)
        return kas_hdf5_damaged(r, "attribute \"layout\" of /", "expected one integer");
    if (value != 1)
        return kas_fail(KAS_BAD_INPUT,
                        "%s: attribute \"layout\" of /: expected 1, found %lld: the file was "
                        "written by a newer kas-gpu",
                        r->request->path, value);
    return KAS_OK;
}

kas_status kas_hdf5_read_mean_and_std(kas_hdf5_child *r)
{
    KAS_TRY(read_floats(r, "mean", false, r->packet.mean));
    return read_floats(r, "std", true, r->packet.std);
}

kas_status kas_hdf5_read_input(kas_hdf5_child *r)
{
    static const char wanted[] = "3 integers, the height, width (1 to 4096) and channels (1 or 3) "
                                 "that a network gets of an encoded image";
    hid_t attribute, type;
    hsize_t length;
    long long v[3];
    KAS_TRY(open_attribute(r, "input", H5T_INTEGER, wanted, &attribute, &type, &length));
    if (length != 3)
        return kas_fail(KAS_BAD_INPUT, "%s: attribute \"input\" of /: expected %s, found %llu",
                        r->request->path, wanted, (unsigned long long)length);
    if (H5Aread(attribute, H5T_NATIVE_LLONG, v) < 0)
        return kas_hdf5_damaged(r, "attribute \"input\" of /", "cannot be read");
    if (v[0] < 1 || v[0] > 4096 || v[1] < 1 || v[1] > 4096 || (v[2] != 1 && v[2] != 3))
        return kas_fail(KAS_BAD_INPUT,
                        "%s: attribute \"input\" of /: expected %s, found %lld, %lld, %lld",
                        r->request->path, wanted, v[0], v[1], v[2]);
    r->packet.h = (uint32_t)v[0], r->packet.w = (uint32_t)v[1], r->packet.c = (uint32_t)v[2];
    return KAS_OK;
}

kas_status kas_hdf5_read_digest(kas_hdf5_child *r)
{
    static const char label[] = "attribute \"digest\" of /";
    htri_t exists = H5Aexists(r->file, "digest");
    if (exists == 0)
        return KAS_OK;
    hid_t attribute = exists < 0 ? -1 : H5Aopen(r->file, "digest", H5P_DEFAULT);
    hid_t type = attribute < 0 ? -1 : H5Aget_type(attribute);
    hid_t space = attribute < 0 ? -1 : H5Aget_space(attribute);
    if (type < 0 || space < 0)
        return kas_hdf5_damaged(r, label, "cannot be opened");
    if (H5Tget_class(type) != H5T_STRING || H5Tis_variable_str(type) || H5Tget_size(type) != 64 ||
        H5Sget_simple_extent_npoints(space) != 1)
        return kas_fail(KAS_BAD_INPUT,
                        "%s: %s: expected a string of 64 bytes; remove it from a "
                        "file that kas-gpu did not write",
                        r->request->path, label);
    if (H5Aread(attribute, type, r->packet.digest) < 0)
        return kas_hdf5_damaged(r, label, "cannot be read");
    if (strspn(r->packet.digest, "0123456789abcdef") != 64)
        return kas_hdf5_damaged(r, label, "expected 64 hexadecimal digits");
    return KAS_OK;
}

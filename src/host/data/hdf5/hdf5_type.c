#include "host/data/hdf5/hdf5_type.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/status.h"

static const char *class_word(hid_t type)
{
    switch (H5Tget_class(type)) {
    case H5T_INTEGER:
        return H5Tget_sign(type) == H5T_SGN_NONE ? "uint" : "int";
    case H5T_FLOAT:
        return "float";
    case H5T_STRING:
        return "string";
    case H5T_COMPOUND:
        return "a compound type";
    case H5T_ENUM:
        return "an enumeration";
    case H5T_VLEN:
        return "a variable-length type";
    default:
        return "another type";
    }
}

void kas_hdf5_describe(hid_t type, hid_t space, char *out, size_t size)
{
    H5T_class_t kind = H5Tget_class(type);
    int used = snprintf(out, size, "%s", class_word(type));
    if (kind == H5T_INTEGER || kind == H5T_FLOAT)
        used += snprintf(out + used, size - (size_t)used, "%zu", 8 * H5Tget_size(type));
    hsize_t dims[H5S_MAX_RANK];
    int rank = H5Sget_simple_extent_dims(space, dims, NULL);
    if (rank == 0 && (size_t)used < size)
        snprintf(out + used, size - (size_t)used, " (a single value)");
    for (int i = 0; i < rank && (size_t)used + 1 < size; i++)
        used += snprintf(out + used, size - (size_t)used, "%s[%llu]", i ? "" : " ",
                         (unsigned long long)dims[i]);
}

typedef struct reason {
    char *out;
    size_t size;
} reason;

/* H5E_WALK_UPWARD begins at the innermost function; a result above 0 ends the walk. */
static herr_t take_first(unsigned index, const H5E_error2_t *entry, void *data)
{
    reason *to = data;
    const char *number = entry->desc ? strstr(entry->desc, "errno = ") : NULL;
    const int error = number ? atoi(number + strlen("errno = ")) : 0;
    if (index == 0 && error)
        snprintf(to->out, to->size, "%s", kas_strerror(error));
    else if (index == 0)
        snprintf(to->out, to->size, "%s", entry->desc ? entry->desc : "no reason given");
    return 0;
}

void kas_hdf5_reason(char *out, size_t size)
{
    snprintf(out, size, "no reason given");
    reason to = {out, size};
    if (H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_first, &to) < 0)
        snprintf(out, size, "no reason given");
}

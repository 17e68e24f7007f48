#include "host/cli/parts.h"

#include <stdio.h>
#include <stdlib.h>

#include <cjson/cJSON.h>
#include <hdf5.h>
#include <sqlite3.h>
#include <zlib.h>
#ifdef KAS_HAVE_DNNL
#include <oneapi/dnnl/dnnl.h>
#endif

#include "cuda/report.h"
#include "host/cli/cli.h"
#include "host/data/image/decode.h"

static void fill_dnnl(kas_part *p)
{
    *p = (kas_part){.name = "oneDNN", .enables = "fast convolutions on the CPU device"};
#ifdef KAS_HAVE_DNNL
    const dnnl_version_t *version = dnnl_version();
    p->found = true;
    snprintf(p->version, sizeof p->version, "%d.%d.%d", version->major, version->minor,
             version->patch);
#else
    snprintf(p->missing, sizeof p->missing,
             "this build does not have it (install libdnnl-dev and build again)");
#endif
}

static void fill_linked(kas_part *p, const char *name, const char *enables, const char *version)
{
    *p = (kas_part){.name = name, .enables = enables, .found = true};
    snprintf(p->version, sizeof p->version, "%s", version);
}

/* Fills an optional part; `version` NULL = not in this build. */
static void fill_optional(kas_part *p, const char *name, const char *enables, const char *package,
                          const char *version)
{
    *p = (kas_part){.name = name, .enables = enables, .found = version != NULL};
    if (version)
        snprintf(p->version, sizeof p->version, "%s", version);
    else
        snprintf(p->missing, sizeof p->missing,
                 "this build does not have it (install %s and build again)", package);
}

int kas_library_parts(kas_part *out)
{
    unsigned major = 0, minor = 0, release = 0;
    char hdf5[64];
    H5get_libversion(&major, &minor, &release);
    snprintf(hdf5, sizeof hdf5, "%u.%u.%u", major, minor, release);
    fill_dnnl(&out[0]);
    fill_linked(&out[1], "HDF5", "data sets", hdf5);
    fill_linked(&out[2], "SQLite", "studies", sqlite3_libversion());
    fill_linked(&out[3], "cJSON", "kernel files", cJSON_Version());
    fill_linked(&out[4], "zlib", "compressed data sets", zlibVersion());
    fill_optional(&out[5], "libjpeg-turbo", "data sets of JPEG images", "libjpeg62-turbo-dev",
                  kas_jpeg_library());
    fill_optional(&out[6], "libpng", "data sets of PNG images", "libpng-dev", kas_png_library());
    return KAS_LIBRARY_PARTS;
}

static void print_one(const char *name, bool found, const char *version)
{
    printf("  %-13s %s\n", name, found ? version : "not found");
}

void kas_print_version(void)
{
    kas_part part[KAS_LIBRARY_PARTS];
    printf("kas-gpu %s\n", KAS_VERSION);
    for (int i = 0, n = kas_library_parts(part); i < n; i++)
        print_one(part[i].name, part[i].found, part[i].version);
    kas_cuda_report *cuda = malloc(sizeof *cuda); /* large: paths of all libraries and GPUs */
    if (!cuda)
        return;
    kas_cuda_report_make(cuda);
    for (int i = 0; i < KAS_CUDA_PARTS; i++)
        print_one(cuda->part[i].name, cuda->part[i].found, cuda->part[i].version);
    free(cuda);
}

/* Fuzz test of the reader of data sets (HDF5), which works in a child process with limits.
 *
 * Each file is written by the HDF5 library: most of it right, a part of it of another type, size,
 * storage or kind; most are then damaged where the library's own structures lie.  A file is refused
 * with a message that names it, or accepted; then it reads back from what is written as the same
 * data set.  Those whose images stay in the file are read through once.  Both count as having gone
 * all the way. */
#include "fuzz_run.h"
#include "hdf5_forms.h"
#include "host/core/file/files.h"
#include "host/data/dataset.h"
#include "mutate.h"

enum { LIMIT = 4 << 20, WINDOW = 96, SITES = 256 };

/* ---- a mutant -------------------------------------------------------------------------------- */

/* Is there a structure of the library? Object headers of the old kind have no signature: version 1,
 * one reference. */
static bool is_structure(const char *at)
{
    static const char signatures[][5] = {"\x89HDF", "OHDR", "OCHK", "TREE", "SNOD", "HEAP",
                                         "GCOL",    "FRHP", "FHDB", "BTHD", "BTLF", "FAHD",
                                         "FADB",    "EAHD", "EAIB", "EADB"};
    static const char header[8] = {1, 0, 0, 0, 1, 0, 0, 0};
    for (size_t i = 0; i < sizeof signatures / sizeof *signatures; i++)
        if (memcmp(at, signatures[i], 4) == 0)
            return true;
    return at[0] == 1 && at[1] == 0 && memcmp(at + 4, header + 4, 4) == 0;
}

static void damage_structure(kas_rng *rng, kas_buf *file)
{
    size_t site[SITES];
    uint32_t sites = 0;
    for (size_t at = 0; at + 8 < file->size && sites < SITES; at++)
        if (is_structure(file->data + at))
            site[sites++] = at;
    if (sites)
        fuzz_mutate_within(rng, file, site[kas_rng_below(rng, sites)], WINDOW);
}

static void make_mutant(kas_rng *rng, kas_buf *file)
{
    const char *path = fuzz_path("form.h5");
    hdf5_form form = hdf5_random_form(rng);
    hdf5_write(path, &form);
    MUST(kas_file_read(path, LIMIT, file) == KAS_OK);
    for (uint32_t n = kas_rng_below(rng, 3); n > 0; n--)
        damage_structure(rng, file);
    if (kas_rng_below(rng, 12) == 0)
        fuzz_mutate_bytes(rng, file);
}

/* ---- what must hold of a file that was accepted ---------------------------------------------- */

static void check_labels(const kas_dataset *d, const kas_images *images)
{
    MUST(images->count > 0);
    for (uint32_t i = 0; i < images->count; i++)
        MUST(images->labels[i] < d->classes);
}

static void check_round_trip(const kas_dataset *d)
{
    const char *path = fuzz_path("again.h5");
    kas_dataset *again = NULL;
    MUST(kas_dataset_write(path, d) == KAS_OK);
    MUST(kas_dataset_open(path, &again) == KAS_OK);
    MUST(strcmp(d->digest, again->digest) == 0 && d->classes == again->classes);
    MUST(memcmp(d->mean, again->mean, sizeof *d->mean * d->c) == 0);
    MUST(memcmp(d->std, again->std, sizeof *d->std * d->c) == 0);
    for (uint32_t i = 0; i < d->classes; i++)
        MUST(strcmp(d->class_name[i], again->class_name[i]) == 0);
    kas_dataset_close(again);
    fuzz.solved++;
}

static void check_dataset(const char *path, const kas_dataset *d)
{
    char digest[65];
    MUST(d->h > 0 && d->w > 0 && d->c >= 1 && d->c <= 4 && d->classes > 0);
    check_labels(d, &d->train);
    check_labels(d, &d->test);
    if (d->train.pixels)
        check_round_trip(d);
    else if (fuzz_accepts(kas_dataset_digest(d, digest), path))
        fuzz.solved++;
}

static bool read_dataset(kas_rng *rng, const char *bytes, size_t size, const kas_buf *kept)
{
    const char *path = fuzz_path("mutant.h5");
    const bool stream = kas_rng_below(rng, 4) == 0;
    kas_dataset *d = NULL;
    (void)kept;
    fuzz_write(path, bytes, size);
    if (!fuzz_accepts(stream ? kas_dataset_open_streamed(path, &d) : kas_dataset_open(path, &d),
                      path))
        return false;
    check_dataset(path, d);
    kas_dataset_close(d);
    return true;
}

int main(int argc, char **argv)
{
    setenv("KAS_DATA_LIMIT_SECONDS", "1", 1);
    setenv("KAS_DATA_LIMIT_MB", "64", 1);
    fuzz_begin(argc, argv, 400);
    fuzz_cases(make_mutant, read_dataset);
    fuzz_end(5, 5, 25);
    return 0;
}

/* The runner of the fuzz tests: arguments, corpus, limits, cases, findings.
 *
 *     test_NAME_reader [CASES [SEED]]
 *
 * Without arguments a test runs as many cases as `make test` has time for, times KAS_FUZZ_TIMES, of
 * seed KAS_FUZZ_SEED (both 1 when they are not set); `make fuzz TIMES=10 SEED=3` does so for all of
 * them.  A run is a function of CASES and SEED.  Each case mutates files of the corpus and reads
 * the result; a case that crashes, takes longer than FUZZ_SECONDS or more than FUZZ_MEMORY, or
 * breaks what MUST hold is a finding: the test prints case and seed, keeps the file, and fails. */
#ifndef KAS_TESTS_FUZZ_FUZZ_RUN_H
#define KAS_TESTS_FUZZ_FUZZ_RUN_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/core/buf.h"
#include "host/core/random.h"

enum {
    FUZZ_CORPUS = 512,
    FUZZ_LARGEST = 16 << 10, /* bytes of a mutant that joins the corpus */
    FUZZ_SECONDS = 20,       /* seconds of wall time for a case; the machine may be busy */
    FUZZ_MEMORY = 1 << 30    /* bytes of address space on top of what the test has when it begins */
};

typedef struct fuzz_run {
    unsigned long long usual, cases, seed, now;
    kas_buf corpus[FUZZ_CORPUS];
    int files, fixed; /* the first `fixed` are never replaced */
    /* solved: how many of the accepted cases went on to the second check, which each test names */
    unsigned long long accepted, refused, solved;
} fuzz_run;
extern fuzz_run fuzz;

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition))                                                                          \
            fuzz_finding(#condition, __FILE__, __LINE__);                                          \
    } while (0)
void fuzz_finding(const char *condition, const char *file, int line) __attribute__((noreturn));

/* Reads the arguments; `usual` is the number of cases when none is given. */
void fuzz_begin(int argc, char **argv, unsigned long long usual);

/* ---- the corpus ------------------------------------------------------------------------------ */

void fuzz_add(const void *data, size_t size);
/* Adds the folder's JSON files, in the order of their names */
void fuzz_add_folder(const char *folder);
const kas_buf *fuzz_pick(kas_rng *rng);
/* Adds an accepted mutant to the corpus now and then, so that mutations pile up. */
void fuzz_keep(kas_rng *rng, const kas_buf *file);

/* ---- the cases ------------------------------------------------------------------------------- */

/* A callback that makes a file. */
typedef void fuzz_mutate(kas_rng *rng, kas_buf *file);
/* A callback that reads the file, checks the result against what must be true, and returns whether
 * the file was accepted. `data` ends where its memory does, so that a read past the end is seen;
 * `kept` is the same for a test that wants to keep it. */
typedef bool fuzz_read(kas_rng *rng, const char *data, size_t size, const kas_buf *kept);

/* Runs the cases. The files that the corpus has now are never replaced. */
void fuzz_cases(fuzz_mutate *mutate, fuzz_read *read);

/* Returns true for KAS_OK. Any other status must be KAS_BAD_INPUT with a message that names
 * `file`. */
bool fuzz_accepts(kas_status status, const char *file);

/* Returns a path for a file of the test's own, in a folder that is removed at the end. */
const char *fuzz_path(const char *name);
void fuzz_write(const char *path, const void *data, size_t size);

/* Prints what was done and frees the corpus. A run that accepts or refuses nearly everything looks
 * at half of the code, which is a finding too: the arguments are the least shares, in percent of
 * the cases. */
void fuzz_end(unsigned accepted, unsigned solved, unsigned refused);

#endif

/* How long does it take until a data set can be used?  CIFAR-10 in size (50,000 + 10,000 images of
 * 32 x 32 x 3, random pixels), written, opened and hashed; and how fast procedural images are made.
 * The files lie in $TMPDIR and in the page cache, so the disk is not measured.
 *
 * One JSON object a line: question, median and range of seconds over `runs`, MB/s. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "host/core/random.h"
#include "host/data/import.h"
#include "host/report/line.h"

enum { RUNS = 5 };

typedef kas_status (*task)(const char *path, const kas_dataset *dataset);

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static kas_status measure(const char *question, task run, const char *path, const kas_dataset *d,
                          double bytes)
{
    double seconds[RUNS];
    for (int i = 0; i < RUNS; i++) {
        double start = now();
        KAS_TRY(run(path, d));
        seconds[i] = now() - start;
    }
    qsort(seconds, RUNS, sizeof *seconds, by_value);
    kas_buf out = {0};
    kas_line_begin(&out);
    kas_line_text(&out, "bench", "data");
    kas_line_text(&out, "question", question);
    kas_line_int(&out, "runs", RUNS);
    kas_line_number(&out, "median_seconds", seconds[RUNS / 2]);
    kas_line_number(&out, "min_seconds", seconds[0]);
    kas_line_number(&out, "max_seconds", seconds[RUNS - 1]);
    kas_line_number(&out, "mb_per_second", bytes / seconds[RUNS / 2] / 1e6);
    kas_line_end(&out);
    fputs(kas_buf_text(&out), stdout);
    kas_status status = kas_buf_status(&out);
    kas_buf_free(&out);
    return status;
}

static kas_status open_once(const char *path, const kas_dataset *unused)
{
    (void)unused;
    kas_dataset *d;
    KAS_TRY(kas_dataset_open(path, &d));
    kas_dataset_close(d);
    return KAS_OK;
}

static kas_status hash_once(const char *unused, const kas_dataset *d)
{
    (void)unused;
    char digest[65];
    kas_dataset_digest(d, digest);
    return KAS_OK;
}

static kas_status make_once(const char *unused, const kas_dataset *also_unused)
{
    (void)unused, (void)also_unused;
    kas_dataset *d;
    KAS_TRY(kas_make_shapes(1000, 10, 32, 10, 0, &d));
    kas_dataset_close(d);
    return KAS_OK;
}

static kas_status run_all(const char *path)
{
    kas_dataset *d;
    KAS_TRY(kas_dataset_create(32, 32, 3, 10, 50000, 10000, &d));
    kas_rng rng = kas_rng_make(0, KAS_PURPOSE_TEST, 0);
    for (size_t i = 0; i < 50000u * 3072u; i++)
        d->train.pixels[i] = (uint8_t)kas_rng_u32(&rng);
    kas_dataset_finish(d);
    double bytes = 60000.0 * 3072;
    kas_status status = measure("write", kas_dataset_write, path, d, bytes);
    if (status == KAS_OK)
        status = measure("open", open_once, path, NULL, bytes);
    if (status == KAS_OK)
        status = measure("digest", hash_once, path, d, bytes);
    if (status == KAS_OK)
        status = measure("make 1010 shapes", make_once, path, NULL, 1010.0 * 3072);
    kas_dataset_close(d);
    return status;
}

int main(void)
{
    const char *folder = getenv("TMPDIR");
    char path[4096];
    snprintf(path, sizeof path, "%s/kas-bench-%ld.h5", folder ? folder : "/tmp", (long)getpid());
    kas_status status = run_all(path);
    unlink(path);
    if (status != KAS_OK)
        fprintf(stderr, "bench_data: %s\n", kas_error());
    return kas_exit_code(status);
}

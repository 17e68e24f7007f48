/* How fast do images get from a file to the device, and what limits the rate?
 *
 * Each round measures, one after the other and on the same images in the same order:
 *
 *     read     the bytes of every image, out of a file that the system was told to forget; pixels
 *              into a ring as large as the feed's
 *     decode   of encoded images, the work on the bytes out of memory: decode, crop, resize
 *     feed     everything: read, decode, ring, copy to the device, as training does it
 *
 * The feed can be no faster than the slower of the other two; the ratio of its rate to theirs in
 * the same round shows its loss. All three use the same number of threads. On a busy machine the
 * times depend on the scheduler; there the processor time of the parts says how much of the feed's
 * time its bound takes. */
#include <inttypes.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "host/bench/bench.h"
#include "host/bench/data_file.h"
#include "host/core/clock.h"
#include "host/core/file/files.h"
#include "host/core/log.h"
#include "host/data/image/render.h"
#include "host/data/read_ahead.h"
#include "host/train/stream.h"

enum { REPEATS = 9, MADE = 1024, ROUND = 512, KEPT = 128, BATCH = 64, RING = 4, GPU_RATE = 3000 };

typedef struct subject {
    const kas_bench_options *o;
    const char *name; /* of the case */
    kas_device *device;
    kas_dataset *dataset;
    int threads, repeats;
    uint32_t batch, count; /* images of a round */
    uint32_t *order;       /* order of all images, a new one in every round; its first `count`
                              are used */
    uint64_t bytes;        /* of the images of a round, as stored */
    kas_view view;
    uint8_t *ring;       /* pixels: RING batches, for `read` */
    uint8_t *kept[KEPT]; /* encoded images in memory, for `decode` */
    size_t kept_size[KEPT];
    double open_seconds;
} subject;

/* Rates in images a second, and the cost of a feed. */
typedef struct rounds {
    kas_samples read, decode, feed, ratio;
    kas_samples read_cpu, decode_cpu, feed_cpu; /* seconds an image */
    kas_samples cpu_share; /* share of the feed's processor time that its bound takes */
    double growth;         /* largest growth of memory in a feed, in bytes */
} rounds;

static void rounds_free(rounds *r)
{
    kas_samples *all[] = {&r->read,     &r->decode,     &r->feed,     &r->ratio,
                          &r->read_cpu, &r->decode_cpu, &r->feed_cpu, &r->cpu_share};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        kas_samples_free(all[i]);
}

static double cpu_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static double resident_bytes(void)
{
    long unused = 0, pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file && fscanf(file, "%ld %ld", &unused, &pages) != 2)
        pages = 0;
    if (file)
        fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

/* The cost of a part of a round. */
typedef struct pace {
    double rate; /* images a second */
    double cpu;  /* seconds of processor time an image, of the whole process */
} pace;

typedef struct watch {
    double start, cpu;
} watch;

static watch start_watch(void)
{
    return (watch){kas_monotonic(), cpu_seconds()};
}

static pace stop_watch(const subject *s, watch w)
{
    return (pace){s->count / (kas_monotonic() - w.start), (cpu_seconds() - w.cpu) / s->count};
}

/* ---- the three measurements ------------------------------------------------------------------ */

/* A failure of a thread. Messages are thread-local, so its message is brought to the
 * caller's thread. */
typedef struct failure {
    kas_status status;
    char message[1024];
} failure;

static void keep_failure(failure *f, kas_status status)
{
    if (status == KAS_OK)
        return;
#pragma omp critical(kas_bench_data)
    {
        f->status = status;
        snprintf(f->message, sizeof f->message, "%s", kas_error());
    }
}

static kas_status tell(const failure *f)
{
    return f->status == KAS_OK ? KAS_OK : kas_fail(f->status, "%s", f->message);
}

static kas_status read_one(const subject *s, uint32_t i, kas_storage_scratch *scratch)
{
    const kas_storage *storage = &s->dataset->train.storage;
    const uint8_t *bytes;
    size_t size;
    kas_read_ahead(storage, KAS_SHUFFLE_FULL, s->order, s->count, i, i + 1);
    if (s->ring)
        return kas_storage_read_into(storage, s->order[i], scratch,
                                     s->ring + i % (RING * s->batch) * storage->image_bytes);
    return kas_storage_read(storage, s->order[i], scratch, &bytes, &size);
}

static kas_status read_all(const subject *s, pace *paced)
{
    failure failed = {KAS_OK, ""};
    kas_storage_forget(&s->dataset->train.storage);
    watch w = start_watch();
#pragma omp parallel num_threads(s->threads)
    {
        kas_storage_scratch scratch = {0};
#pragma omp master
        kas_read_ahead_begin(&s->dataset->train.storage, s->order, s->count, 0);
#pragma omp for schedule(dynamic, 4)
        for (uint32_t i = 0; i < s->count; i++)
            keep_failure(&failed, read_one(s, i, &scratch));
        kas_storage_scratch_free(&scratch);
    }
    *paced = stop_watch(s, w);
    return tell(&failed);
}

static kas_status decode_all(const subject *s, pace *paced)
{
    const kas_dataset *d = s->dataset;
    failure failed = {KAS_OK, ""};
    watch w = start_watch();
#pragma omp parallel num_threads(s->threads)
    {
        kas_renderer renderer = {0};
        uint8_t *out = malloc((size_t)d->h * d->w * d->c);
        if (!out)
            keep_failure(&failed, kas_fail(KAS_NO_MEMORY, "no memory for an image"));
#pragma omp for schedule(dynamic, 4)
        for (uint32_t i = 0; i < s->count; i++)
            if (out)
                keep_failure(&failed, kas_render(&renderer, &s->view, i, s->kept[i % KEPT],
                                                 s->kept_size[i % KEPT], d->h, d->w, d->c, out));
        kas_renderer_free(&renderer);
        free(out);
    }
    *paced = stop_watch(s, w);
    return tell(&failed);
}

/* Takes every batch at once, like an infinitely fast device. */
static kas_status take_all(const subject *s, kas_stream *stream, const kas_pass *pass,
                           double *growth)
{
    double before = resident_bytes();
    KAS_TRY(kas_stream_begin(stream, pass));
    for (uint32_t at = 0; at < pass->count; at += s->batch) {
        KAS_TRY(kas_stream_next(stream));
        KAS_TRY(kas_stream_done(stream));
        *growth = fmax(*growth, resident_bytes() - before);
    }
    return kas_device_sync(s->device);
}

/* Touches rings and buffers before the clock starts, because memory is touched for the first time
 * only in the first seconds of an epoch. */
static kas_status touch_all(const subject *s, kas_stream *stream, kas_pass pass)
{
    double unused = 0;
    uint32_t some = 2 * RING * s->batch;
    pass.count = some < s->count ? some : s->count;
    return take_all(s, stream, &pass, &unused);
}

static kas_status expect_image(const subject *s, uint32_t position, kas_renderer *renderer,
                               kas_storage_scratch *scratch, uint8_t *out)
{
    const kas_dataset *d = s->dataset;
    const uint8_t *bytes;
    size_t size;
    KAS_TRY(kas_storage_read(&d->train.storage, s->order[position], scratch, &bytes, &size));
    if (d->encoded)
        return kas_render(renderer, &s->view, position, bytes, size, d->h, d->w, d->c, out);
    memcpy(out, bytes, size);
    return KAS_OK;
}

/* Checks that the last image of the order is in its place on the device, so that the timed work
 * was done. */
static kas_status check_last(const subject *s, const uint8_t *pixels)
{
    const kas_dataset *d = s->dataset;
    size_t image = (size_t)d->h * d->w * d->c;
    uint32_t last = s->count - 1, place;
    kas_renderer renderer = {0};
    kas_storage_scratch scratch = {0};
    uint8_t *both = malloc(2 * image);
    kas_status status = both ? KAS_OK : kas_fail(KAS_NO_MEMORY, "no memory for an image");
    place = (uint32_t)(last % ((uint64_t)KAS_STREAM_RING * s->batch));
    KAS_TRY_GOTO(status, out);
    KAS_TRY_GOTO(kas_mem_download(s->device, both, pixels + place * image, image), out);
    KAS_TRY_GOTO(expect_image(s, last, &renderer, &scratch, both + image), out);
    if (memcmp(both, both + image, image) != 0)
        status = kas_fail(KAS_FAILURE,
                          "data: the last image on the device differs from the one in the file");
out:
    kas_renderer_free(&renderer);
    kas_storage_scratch_free(&scratch);
    free(both);
    return status;
}

static kas_status feed_all(const subject *s, double *growth, pace *paced)
{
    const kas_dataset *d = s->dataset;
    size_t images = (size_t)KAS_STREAM_RING * s->batch;
    kas_stream *stream = NULL;
    void *pixels = NULL, *labels = NULL;
    const kas_pass pass = {
        .images = &d->train, .order = s->order, .count = s->count, .view = s->view};
    kas_status status;
    KAS_TRY_GOTO(kas_mem_alloc(s->device, images * d->h * d->w * d->c, &pixels), out);
    KAS_TRY_GOTO(kas_mem_alloc(s->device, images * sizeof(uint16_t), &labels), out);
    KAS_TRY_GOTO(kas_stream_create(s->device, d, s->batch, s->threads, pixels, labels, &stream),
                 out);
    KAS_TRY_GOTO(touch_all(s, stream, pass), out);
    kas_storage_forget(&d->train.storage);
    watch w = start_watch();
    KAS_TRY_GOTO(take_all(s, stream, &pass, growth), out);
    *paced = stop_watch(s, w);
    status = check_last(s, pixels);
out:
    kas_stream_free(stream);
    kas_mem_free(s->device, pixels);
    kas_mem_free(s->device, labels);
    return status;
}

static kas_status add(kas_samples *rate, kas_samples *cpu, pace p)
{
    KAS_TRY(kas_samples_add(rate, p.rate));
    return kas_samples_add(cpu, p.cpu);
}

static kas_status one_round(subject *s, uint32_t number, rounds *r)
{
    pace read, decode = {INFINITY, 0}, feed = {0, 0};
    bool encoded = s->dataset->encoded;
    KAS_TRY(kas_epoch_order(s->o->seed, number, KAS_SHUFFLE_FULL, NULL, s->dataset->train.count,
                            s->order));
    s->view.epoch = number;
    KAS_TRY(read_all(s, &read));
    if (encoded)
        KAS_TRY(decode_all(s, &decode));
    KAS_TRY(feed_all(s, &r->growth, &feed));
    KAS_TRY(add(&r->read, &r->read_cpu, read));
    if (encoded)
        KAS_TRY(add(&r->decode, &r->decode_cpu, decode));
    KAS_TRY(add(&r->feed, &r->feed_cpu, feed));
    KAS_TRY(kas_samples_add(&r->cpu_share, (encoded ? decode.cpu : read.cpu) / feed.cpu));
    return kas_samples_add(&r->ratio, feed.rate / fmin(read.rate, decode.rate));
}

/* ---- results --------------------------------------------------------------------------------- */

static const char *bound_of(const subject *s, rounds *r)
{
    return s->dataset->encoded &&
                   kas_samples_quantile(&r->decode, 0.5) < kas_samples_quantile(&r->read, 0.5)
               ? "decode"
               : "read";
}

static kas_status put_json(const subject *s, rounds *r, const kas_bench_sink *sink)
{
    kas_buf out = {0};
    char input[48];
    const kas_dataset *d = s->dataset;
    double image = (double)s->bytes / s->count;
    snprintf(input, sizeof input, "%" PRIu32 "x%" PRIu32 "x%" PRIu32, d->c, d->h, d->w);
    kas_bench_line_begin(&out, "data", kas_device_get_info(s->device));
    kas_line_text(&out, "case", s->name);
    kas_line_text(&out, "input", input);
    kas_line_int(&out, "images", s->count);
    kas_line_int(&out, "batch", s->batch);
    kas_line_number(&out, "bytes_per_image", image);
    kas_line_int(&out, "read_threads", s->threads);
    kas_line_int(&out, "repeats", s->repeats);
    kas_line_number(&out, "open_seconds", s->open_seconds);
    kas_bench_line_spread(&out, "read_images_per_second", &r->read);
    kas_line_number(&out, "read_mb_per_second", kas_samples_quantile(&r->read, 0.5) * image / 1e6);
    if (d->encoded)
        kas_bench_line_spread(&out, "decode_images_per_second", &r->decode);
    kas_bench_line_spread(&out, "feed_images_per_second", &r->feed);
    kas_line_number(&out, "feed_mb_per_second", kas_samples_quantile(&r->feed, 0.5) * image / 1e6);
    kas_line_text(&out, "bound", bound_of(s, r));
    kas_bench_line_spread(&out, "feed_to_bound", &r->ratio);
    kas_line_number(&out, "read_cpu_seconds_per_image", kas_samples_quantile(&r->read_cpu, 0.5));
    if (d->encoded)
        kas_line_number(&out, "decode_cpu_seconds_per_image",
                        kas_samples_quantile(&r->decode_cpu, 0.5));
    kas_bench_line_spread(&out, "cpu_seconds_per_image", &r->feed_cpu);
    kas_bench_line_spread(&out, "bound_share_of_cpu", &r->cpu_share);
    kas_line_number(&out, "cores_for_3000_images_per_second",
                    GPU_RATE * kas_samples_quantile(&r->feed_cpu, 0.5));
    kas_line_number(&out, "memory_growth_bytes", r->growth);
    return kas_bench_line_put(&out, sink);
}

static kas_table *create_table(void)
{
    static const kas_column columns[] = {
        {"images", KAS_LEFT},       {"kB", KAS_RIGHT},
        {"threads", KAS_RIGHT},     {"read/s", KAS_RIGHT},
        {"MB/s", KAS_RIGHT},        {"decode/s", KAS_RIGHT},
        {"feed/s", KAS_RIGHT},      {"of bound", KAS_RIGHT},
        {"in CPU time", KAS_RIGHT}, {"cores for 3000/s", KAS_RIGHT},
        {"memory +", KAS_RIGHT},
    };
    return kas_table_create(columns, sizeof columns / sizeof *columns);
}

static void put_row(const subject *s, rounds *r, kas_table *table)
{
    char text[32];
    double image = (double)s->bytes / s->count, read = kas_samples_quantile(&r->read, 0.5);
    kas_table_cell(table, "%s", s->name);
    kas_table_cell(table, "%.0f", image / 1e3);
    kas_table_cell(table, "%d", s->threads);
    kas_table_cell(table, "%.0f", read);
    kas_table_cell(table, "%.0f", read * image / 1e6);
    if (s->dataset->encoded)
        kas_table_cell(table, "%.0f", kas_samples_quantile(&r->decode, 0.5));
    else
        kas_table_cell(table, "-");
    kas_table_cell(table, "%.0f", kas_samples_quantile(&r->feed, 0.5));
    kas_table_cell(table, "%.0f%%", 100 * kas_samples_quantile(&r->ratio, 0.5));
    kas_table_cell(table, "%.0f%%", 100 * kas_samples_quantile(&r->cpu_share, 0.5));
    kas_table_cell(table, "%.1f", GPU_RATE * kas_samples_quantile(&r->feed_cpu, 0.5));
    kas_table_cell(table, "%s", kas_human_bytes(r->growth, text));
}

/* ---- cases ----------------------------------------------------------------------------------- */

static uint64_t stored_bytes(const kas_dataset *d, uint32_t count)
{
    const kas_storage *t = &d->train.storage;
    double all = (double)(t->image_bytes ? t->total : t->offset[t->count] - t->offset[0]);
    return (uint64_t)(all / t->count * count);
}

static kas_status keep_some(subject *s)
{
    kas_storage_scratch scratch = {0};
    kas_status status = KAS_OK;
    for (uint32_t i = 0; i < KEPT && status == KAS_OK; i++) {
        const uint8_t *bytes;
        status = kas_storage_read(&s->dataset->train.storage, i % s->dataset->train.count, &scratch,
                                  &bytes, &s->kept_size[i]);
        if (status != KAS_OK)
            break;
        s->kept[i] = malloc(s->kept_size[i]);
        if (s->kept[i])
            memcpy(s->kept[i], bytes, s->kept_size[i]);
        else
            status = kas_fail(KAS_NO_MEMORY, "no memory for %d images", KEPT);
    }
    kas_storage_scratch_free(&scratch);
    return status;
}

static kas_status open_subject(subject *s, const char *path)
{
    double start = kas_monotonic();
    KAS_TRY(kas_dataset_open_streamed(path, &s->dataset));
    s->open_seconds = kas_monotonic() - start;
    const kas_dataset *d = s->dataset;
    s->count = d->train.count < ROUND ? d->train.count : ROUND;
    s->bytes = stored_bytes(d, s->count);
    s->threads = s->o->threads ? s->o->threads : kas_reader_threads(d);
    s->batch = s->o->batch ? (uint32_t)s->o->batch : BATCH;
    s->repeats = s->o->repeats ? s->o->repeats : REPEATS;
    s->view = (kas_view){.training = true, .flip = true, .least_area = 0.08, .seed = s->o->seed};
    s->order = malloc(sizeof *s->order * d->train.count);
    if (!s->order)
        return kas_fail(KAS_NO_MEMORY, "no memory for an order of images");
    if (d->encoded)
        return keep_some(s);
    s->ring = malloc((size_t)RING * s->batch * d->train.storage.image_bytes);
    return s->ring ? KAS_OK : kas_fail(KAS_NO_MEMORY, "no memory for a ring of images");
}

static kas_status run_case(subject *s, const char *path, kas_table *table,
                           const kas_bench_sink *sink)
{
    rounds r = {0}, warm_up = {0};
    kas_status status;
    KAS_TRY_GOTO(open_subject(s, path), out);
    KAS_TRY_GOTO(one_round(s, 0, &warm_up), out);
    for (int i = 0; i < s->repeats; i++)
        KAS_TRY_GOTO(one_round(s, (uint32_t)i + 1, &r), out);
    if (sink->json)
        status = put_json(s, &r, sink);
    else
        put_row(s, &r, table);
out:
    rounds_free(&r);
    rounds_free(&warm_up);
    for (int i = 0; i < KEPT; i++)
        free(s->kept[i]);
    free(s->ring);
    free(s->order);
    kas_dataset_close(s->dataset);
    return status;
}

/* Runs the rounds on a generated file, which is removed again. */
static kas_status run_made(const kas_bench_options *o, kas_device *device,
                           kas_bench_storage storage, kas_table *table, const kas_bench_sink *sink)
{
    char folder[4000], path[4096];
    const char *above = getenv("TMPDIR"), *name = storage == KAS_BENCH_JPEG ? "jpeg" : "pixels";
    subject s = {.o = o, .name = name, .device = device};
    snprintf(folder, sizeof folder, "%s/kas-bench-XXXXXX", above ? above : "/tmp");
    KAS_CHECK_LIBC(mkdtemp(folder), KAS_FAILURE); /* a name in /tmp could be somebody's link */
    snprintf(path, sizeof path, "%s/%s.h5", folder, name);
    kas_status status = kas_bench_data_file(path, storage, MADE);
    if (status == KAS_OK)
        status = run_case(&s, path, table, sink);
    else if (status == KAS_UNSUPPORTED) {
        kas_warn("data: %s is left out: %s", name, kas_error());
        status = KAS_OK;
    }
    if (kas_remove_tree(folder) != KAS_OK)
        kas_warn("%s", kas_error());
    return status;
}

static kas_status run_cases(const kas_bench_options *o, kas_device *device, kas_table *table,
                            const kas_bench_sink *sink)
{
    if (o->dataset) {
        subject s = {.o = o, .name = o->dataset, .device = device};
        return run_case(&s, o->dataset, table, sink);
    }
    KAS_TRY(run_made(o, device, KAS_BENCH_JPEG, table, sink));
    return run_made(o, device, KAS_BENCH_PIXELS, table, sink);
}

static kas_status run(const kas_bench_options *o, const kas_bench_sink *sink)
{
    kas_device *device;
    KAS_TRY(kas_device_open(o->device ? o->device : "auto", o->threads, &device));
    kas_table *table = sink->json ? NULL : create_table();
    kas_status status = run_cases(o, device, table, sink);
    if (status == KAS_OK)
        status =
            kas_bench_table_put(table, "data: images a second from a file to the device", sink);
    kas_table_free(table);
    kas_device_close(device);
    return status;
}

static const double data_file = 4.0;
static const double data_round = 1.0;

/* Estimates the time for generating the files and for the rounds of both. */
static double seconds(const kas_bench_options *o)
{
    return data_file + data_round * (1 + (o->repeats ? o->repeats : REPEATS));
}

const kas_bench_suite kas_bench_suite_data = {
    "data", "images a second from a file to the device, and the bound of it", run, seconds};

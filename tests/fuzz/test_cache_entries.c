/* Fuzz test of the compile cache: its entries are damaged, or something else lies in their place.
 *
 * Whatever lies there, a text compiles to the image that a clean cache gives, a text that does not
 * compile fails with the same message, and a record of the tuner is right or missing; and then the
 * clean entry is there again.  Compilers are called once; after that a function gives their image
 * back, so that a case takes no second.  Images that are loaded and called count as having gone all
 * the way. */
#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz_run.h"
#include "host/core/file/files.h"
#include "host/core/sha256.h"
#include "jit/compile/cache.h"
#include "jit/compile/compile_backend.h"
#include "mutate.h"

enum { IMAGE, FAILURE, RECORD, KINDS, LIMIT = 1 << 20, TRAILER = 48 };

static const char good_text[] =
    "__attribute__((visibility(\"default\"))) int kas_test_answer(void) { return 42; }\n";
static const char bad_text[] = "int f(void) { return no_such; }\n";
static const char record[] = "engine 13, knobs 2=1\nforward: conv\n12.5 us\n";

static kas_compiler *compiler;
static char place[KINDS][4096]; /* where the entries lie */
static kas_buf clean[KINDS];    /* what they are */
static kas_buf image, complaint;
static int builds, kind;

/* ---- a clean cache --------------------------------------------------------------------------- */

static kas_compile_outcome give_back(kas_compiler *self, const char *text, size_t size,
                                     kas_compile_result *result)
{
    (void)self, (void)size;
    builds++;
    if (strstr(text, "no_such")) {
        kas_buf_puts(&result->log, "kernel:1: no_such is not declared\n");
        return KAS_COMPILE_REFUSED;
    }
    kas_buf_add(&result->image, image.data, image.size);
    return KAS_COMPILED;
}

static void read_file(const char *path, kas_buf *out)
{
    kas_buf_clear(out);
    MUST(kas_file_read(path, LIMIT, out) == KAS_OK);
}

static void find_failure(void)
{
    const char *at = strstr(kas_error(), "(log: ");
    MUST(at && snprintf(place[FAILURE], sizeof place[FAILURE], "%.*s",
                        (int)(strstr(at, "):") - at - 6), at + 6) > 0);
    kas_buf_puts(&complaint, kas_error());
}

static void make_clean_cache(void)
{
    const char *folder = fuzz_path("cache");
    char key[65];
    MUST(kas_compiler_open("cpu", folder, &compiler) == KAS_OK);
    MUST(kas_compile(compiler, good_text, place[IMAGE], NULL) == KAS_OK);
    read_file(place[IMAGE], &image);
    image.size -= TRAILER;
    compiler->build = give_back;
    MUST(kas_compile(compiler, bad_text, place[FAILURE], NULL) == KAS_FAILURE);
    find_failure();
    kas_sha256_hex(record, sizeof record, key);
    MUST(kas_cache_path(folder, key, "plan", place[RECORD]) == KAS_OK);
    MUST(kas_cache_write(place[RECORD], record, sizeof record) == KAS_OK);
    for (int i = 0; i < KINDS; i++) {
        read_file(place[i], &clean[i]);
        fuzz_add(clean[i].data, clean[i].size);
    }
}

/* ---- damage ---------------------------------------------------------------------------------- */

/* What another version of the program might have written: whole, but with another mark. */
static void change_mark(kas_rng *rng, kas_buf *file)
{
    const size_t at = file->size - TRAILER + kas_rng_below(rng, 8);
    file->data[at] = (char)(file->data[at] + 1);
}

static void make_mutant(kas_rng *rng, kas_buf *file)
{
    kind = (int)kas_rng_below(rng, KINDS);
    const kas_buf *source = &clean[kind], *other = &clean[kas_rng_below(rng, KINDS)];
    kas_buf_add(file, source->data, source->size);
    switch (kas_rng_below(rng, 8)) {
    case 0: /* as it is */
        return;
    case 1:
        change_mark(rng, file);
        return;
    case 2: /* another entry's end */
        memcpy(file->data + file->size - TRAILER, other->data + other->size - TRAILER, TRAILER);
        return;
    case 3:
        fuzz_mutate_within(rng, file, file->size - TRAILER, TRAILER);
        return;
    case 4:
        fuzz_mutate_within(rng, file, 0, 64);
        return;
    case 5:
        file->size =
            kas_rng_below(rng, 2) ? kas_rng_below(rng, (uint32_t)file->size) : file->size - TRAILER;
        return;
    default:
        fuzz_mutate_bytes(rng, file);
    }
}

static void put_something_else(kas_rng *rng, const char *path, const char *data, size_t size)
{
    static const char *const targets[] = {"/nonexistent/entry", "/", "/dev/null", "/etc/passwd"};
    char inner[4200];
    MUST(unlink(path) == 0);
    switch (kas_rng_below(rng, 4)) {
    case 0:
        MUST(mkdir(path, 0700) == 0);
        return;
    case 1: /* a folder that is not empty */
        MUST(mkdir(path, 0700) == 0 &&
             snprintf(inner, sizeof inner, "%s/entry", path) < (int)sizeof inner);
        fuzz_write(inner, data, size);
        return;
    case 2:
        MUST(mkfifo(path, 0600) == 0);
        return;
    default: {
        const uint32_t which = kas_rng_below(rng, 5);
        MUST(symlink(which < 4 ? targets[which] : path, path) == 0);
    }
    }
}

/* ---- what must hold -------------------------------------------------------------------------- */

static void check_call(void)
{
    void *handle = dlopen(place[IMAGE], RTLD_NOW | RTLD_LOCAL);
    int (*answer)(void);
    MUST(handle);
    *(void **)&answer = dlsym(handle, "kas_test_answer");
    MUST(answer && answer() == 42);
    dlclose(handle);
    fuzz.solved++;
}

static void check_record(bool intact)
{
    kas_buf found_text = {0};
    bool found;
    MUST(kas_cache_read(place[RECORD], &found_text, &found) == KAS_OK && found == intact);
    if (!found)
        MUST(kas_cache_write(place[RECORD], record, sizeof record) == KAS_OK);
    else
        MUST(found_text.size == sizeof record &&
             memcmp(found_text.data, record, sizeof record) == 0);
    kas_buf_free(&found_text);
}

static void check_compile(kas_rng *rng, bool intact)
{
    char path[4096];
    kas_compile_stats stats;
    builds = 0;
    if (kind == IMAGE) {
        MUST(kas_compile(compiler, good_text, path, &stats) == KAS_OK);
        MUST(strcmp(path, place[IMAGE]) == 0);
        if (kas_rng_below(rng, 8) == 0)
            check_call();
    } else {
        MUST(kas_compile(compiler, bad_text, path, &stats) == KAS_FAILURE);
        MUST(strcmp(kas_error(), kas_buf_text(&complaint)) == 0);
    }
    MUST(builds == !intact && stats.cached == intact);
}

/* Accepted: the entry was whole, and was used. */
static bool read_entry(kas_rng *rng, const char *data, size_t size, const kas_buf *kept)
{
    const bool other = kas_rng_below(rng, 8) == 0;
    const bool intact =
        !other && size == clean[kind].size && memcmp(data, clean[kind].data, size) == 0;
    kas_buf now = {0};
    (void)kept;
    if (other)
        put_something_else(rng, place[kind], data, size);
    else
        fuzz_write(place[kind], data, size);
    if (kind == RECORD)
        check_record(intact);
    else
        check_compile(rng, intact);
    read_file(place[kind], &now);
    MUST(now.size == clean[kind].size && memcmp(now.data, clean[kind].data, now.size) == 0);
    kas_buf_free(&now);
    return intact;
}

int main(int argc, char **argv)
{
    fuzz_begin(argc, argv, 3000);
    make_clean_cache();
    fuzz_cases(make_mutant, read_entry);
    kas_compiler_close(compiler);
    for (int i = 0; i < KINDS; i++)
        kas_buf_free(&clean[i]);
    kas_buf_free(&image);
    kas_buf_free(&complaint);
    fuzz_end(5, 1, 25);
    return 0;
}

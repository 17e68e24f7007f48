#include "jit/compile/compile_backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/kernels/device_code.h"
#include "host/core/clock.h"
#include "host/core/file/private.h"
#include "host/core/log.h"
#include "host/core/sha256.h"
#include "jit/compile/cache.h"

/* Longer than any sane build takes; after that another process is taken to hang. */
static const double LOCK_SECONDS = 120;

/* ---- opening --------------------------------------------------------------------------------- */

static kas_status open_folder(kas_compiler *compiler, const char *cache_dir)
{
    char root[4096];
    if (!cache_dir) {
        KAS_TRY(kas_cache_dir(root));
        cache_dir = root;
    }
    if (snprintf(compiler->folder, sizeof compiler->folder, "%s/jit", cache_dir) >=
        (int)sizeof compiler->folder)
        return kas_fail(KAS_FAILURE, "%s: the cache folder's path is too long", cache_dir);
    return kas_private_folder(compiler->folder);
}

static kas_status open_backend(kas_compiler *compiler, const char *arch)
{
    if (strncmp(arch, "cpu", 3) == 0)
        return kas_compile_host_open(compiler);
    if (strncmp(arch, "sm_", 3) == 0)
        return kas_compile_nvrtc_open(compiler);
    return kas_fail(KAS_USAGE, "architecture \"%s\": expected \"cpu\" or \"sm_NN\"", arch);
}

kas_status kas_compiler_open(const char *arch, const char *cache_dir, kas_compiler **out)
{
    *out = NULL;
    kas_compiler *compiler = calloc(1, sizeof *compiler);
    if (!compiler)
        return kas_fail(KAS_NO_MEMORY, "out of memory opening a compiler");
    kas_status status;
    snprintf(compiler->arch, sizeof compiler->arch, "%s", arch);
    compiler->prelude = kas_prelude_text;
    status = open_folder(compiler, cache_dir);
    if (status != KAS_OK) {
        status = status == KAS_FAILURE ? KAS_MACHINE : status; /* a folder could not be made */
        goto failed;
    }
    KAS_TRY_GOTO(open_backend(compiler, arch), failed);
    KAS_TRY_GOTO(kas_buf_status(&compiler->identity), failed);
    *out = compiler;
    return KAS_OK;
failed:
    kas_compiler_close(compiler);
    return status;
}

void kas_compiler_close(kas_compiler *compiler)
{
    if (!compiler)
        return;
    kas_buf_free(&compiler->identity);
    free(compiler);
}

void kas_compiler_stand_aside(kas_compiler *compiler)
{
    compiler->aside = true;
}

const char *kas_compiler_arch(const kas_compiler *compiler)
{
    return compiler->arch;
}

const char *kas_compiler_describe(const kas_compiler *compiler)
{
    return compiler->describe;
}

const char *kas_compiler_path(const kas_compiler *compiler)
{
    return compiler->program;
}

/* ---- compiling ------------------------------------------------------------------------------- */

/* Appends each part with its length in front, so that no two different lists of parts hash
 * alike. */
static void hash_part(kas_sha256 *hash, const void *data, size_t size)
{
    uint64_t length = size;
    kas_sha256_update(hash, &length, sizeof length);
    kas_sha256_update(hash, data, size);
}

void kas_compile_key(const kas_compiler *compiler, const char *text, char key[65])
{
    kas_sha256 hash;
    uint8_t digest[32];
    const uint32_t format = KAS_CACHE_FORMAT;
    kas_sha256_init(&hash);
    hash_part(&hash, &format, sizeof format);
    hash_part(&hash, &compiler->policy, sizeof compiler->policy);
    hash_part(&hash, compiler->arch, strlen(compiler->arch));
    hash_part(&hash, compiler->identity.data, compiler->identity.size);
    hash_part(&hash, compiler->prelude, strlen(compiler->prelude));
    hash_part(&hash, text, strlen(text));
    kas_sha256_final(&hash, digest);
    kas_sha256_to_hex(digest, key);
}

static kas_status fail_with_log(const kas_compiler *compiler, const char *log, const char *path)
{
    size_t length = 0;
    for (int lines = 0; log[length] && lines < 8 && length < 1000; length++)
        lines += log[length] == '\n';
    while (length > 0 && log[length - 1] == '\n')
        length--;
    return kas_fail(KAS_FAILURE, "%s does not compile the text (log: %s):\n%.*s", compiler->name,
                    path, (int)length, log);
}

static kas_status build_text(kas_compiler *compiler, const char *text, kas_compile_result *result,
                             kas_compile_outcome *outcome)
{
    kas_buf whole = {0};
    kas_buf_puts(&whole, compiler->prelude);
    kas_buf_puts(&whole, "\n#line 1 \"kernel\"\n"); /* the compiler's log counts from here */
    kas_buf_puts(&whole, text);
    kas_status status = kas_buf_status(&whole);
    if (status == KAS_OK)
        *outcome = compiler->build(compiler, whole.data, whole.size, result);
    kas_buf_free(&whole);
    return status;
}

/* Turns a failure into KAS_MACHINE. Everything but a text that the compiler refuses is
 * the machine's fault: a cache that cannot be written, a compiler that is killed or
 * cannot be started, memory. */
static kas_status machine(kas_status status)
{
    return status == KAS_OK ? KAS_OK : KAS_MACHINE;
}

/* Makes the entry. A cache that cannot keep a failure is a nuisance and not an error. */
static kas_status make(kas_compiler *compiler, const char *text, const char *image_path,
                       const char *error_path, kas_compile_stats *stats)
{
    kas_compile_result result = {0};
    kas_compile_outcome outcome = KAS_COMPILE_BROKEN;
    kas_status status;
    KAS_TRY_GOTO(machine(build_text(compiler, text, &result, &outcome)), done);
    stats->cpu_seconds = result.cpu_seconds;
    stats->image_bytes = result.image.size;
    if (outcome == KAS_COMPILED)
        status = machine(kas_cache_write(image_path, result.image.data, result.image.size));
    else if (outcome == KAS_COMPILE_BROKEN)
        status = kas_fail_context(KAS_MACHINE, "%s", compiler->name);
    else {
        if (kas_cache_write(error_path, kas_buf_text(&result.log), result.log.size) != KAS_OK)
            kas_debug("%s", kas_error());
        status = fail_with_log(compiler, kas_buf_text(&result.log), error_path);
    }
done:
    kas_buf_free(&result.image);
    kas_buf_free(&result.log);
    return status;
}

/* Looks in the cache; *known is set when it answers, with an image or with a failure
 * (status and message). */
static kas_status look_up(kas_compiler *compiler, const char *image_path, const char *error_path,
                          kas_compile_stats *stats, bool *known)
{
    kas_buf content = {0};
    kas_status status = KAS_OK;
    *known = false;
    if (kas_private_file(image_path) == KAS_OK) /* else it is made again */
        status = machine(kas_cache_read(image_path, &content, known));
    if (status == KAS_OK && *known)
        stats->image_bytes = content.size;
    else if (status == KAS_OK) {
        status = machine(kas_cache_read(error_path, &content, known));
        if (status == KAS_OK && *known)
            status = fail_with_log(compiler, kas_buf_text(&content), error_path);
    }
    stats->cached = *known;
    kas_buf_free(&content);
    return status;
}

static kas_status look_up_or_make(kas_compiler *compiler, const char *text, const char *image_path,
                                  const char *error_path, kas_compile_stats *stats)
{
    bool known = false;
    kas_status status = look_up(compiler, image_path, error_path, stats, &known);
    if (known || status != KAS_OK)
        return status;
    if (compiler->aside)
        return kas_cache_locked(image_path) ? KAS_OK
                                            : make(compiler, text, image_path, error_path, stats);
    int lock = kas_cache_lock(image_path, LOCK_SECONDS);
    status = look_up(compiler, image_path, error_path, stats, &known); /* made while we waited? */
    stats->waited = known;
    if (!known && status == KAS_OK)
        status = make(compiler, text, image_path, error_path, stats);
    kas_cache_unlock(image_path, lock);
    return status;
}

kas_status kas_compile(kas_compiler *compiler, const char *text, char path[4096],
                       kas_compile_stats *stats)
{
    kas_compile_stats unused;
    if (!stats)
        stats = &unused;
    memset(stats, 0, sizeof *stats);
    double start = kas_monotonic();
    char key[65], error_path[4096];
    kas_compile_key(compiler, text, key);
    KAS_TRY(machine(kas_cache_path(compiler->folder, key, compiler->suffix, path)));
    KAS_TRY(machine(kas_cache_path(compiler->folder, key, "err", error_path)));
    kas_status status = look_up_or_make(compiler, text, path, error_path, stats);
    stats->seconds = kas_monotonic() - start;
    return status;
}

bool kas_compile_is_known(const kas_compiler *compiler, const char *text)
{
    char key[65], path[4096];
    kas_compile_key(compiler, text, key);
    return kas_cache_path(compiler->folder, key, compiler->suffix, path) == KAS_OK &&
           kas_private_file(path) == KAS_OK;
}

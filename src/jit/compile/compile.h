/* From dialect text to a loadable image, through a cache on disk.
 *
 * For the CPU the host compiler (clang if there is one: it vectorises the dialect far better than
 * gcc 12) makes a shared object; for a GPU NVRTC makes a cubin; needs no GPU.  The prelude is put
 * in front of the text.  One text should hold all kernels of a candidate: starting the compiler
 * costs more than a kernel.
 *
 * Cache: <cache dir>/jit/<2 hex>/<sha256>.<so|cubin>.  The key covers text, prelude, flags, arch,
 * compiler identity and version, the version of what is done with spills (respill.h), and the
 * format number.  An image is written to a temporary file with its own checksum and renamed; a
 * damaged one is found by the checksum and made again; failures are kept as failures (.err, with
 * the compiler's log).  Any number of processes may share the folder.  Other folders include this
 * header. */
#ifndef KAS_JIT_COMPILE_COMPILE_H
#define KAS_JIT_COMPILE_COMPILE_H

#include <stdbool.h>
#include <stddef.h>

#include "host/core/status.h"

typedef struct kas_compiler kas_compiler;

/* `arch`: "cpu" or "sm_NN" (kas_device_info.arch), or "cpu+order1", "cpu+order2": lanes in
 * descending and shuffled order, for tests that look for missing barriers. `cache_dir` NULL =
 * kas_cache_dir(). KAS_MACHINE with what is missing when there is no host compiler that works,
 * KAS_UNSUPPORTED when there is no NVRTC. */
kas_status kas_compiler_open(const char *arch, const char *cache_dir, kas_compiler **out);
void kas_compiler_close(kas_compiler *compiler);
/* For a process that compiles ahead of need: what it makes holds no lock, so that nobody waits for
 * it however slow it is, and what another is making it leaves out: then there may be no image. */
void kas_compiler_stand_aside(kas_compiler *compiler);
const char *kas_compiler_arch(const kas_compiler *compiler); /* as it was opened with */
/* "clang 14.0.6 -O3 ..." or "NVRTC 13.0 sm_90" */
const char *kas_compiler_describe(const kas_compiler *compiler);

/* Where the compiler lies: of the host compiler its program, of NVRTC the library. */
const char *kas_compiler_path(const kas_compiler *compiler);
/* Looks for a host compiler by name on PATH and asks for its version ("gcc 12.2.0"), for reports.
 * KAS_UNSUPPORTED when there is none of that name. */
kas_status kas_compiler_probe(const char *name, char path[4096], char version[256]);

typedef struct kas_compile_stats {
    bool cached;        /* not made here */
    bool waited;        /* for another thread or process that was making it */
    double seconds;     /* wall, waiting included */
    double cpu_seconds; /* of this process or of the compiler's */
    size_t image_bytes;
} kas_compile_stats;

/* What was spent waiting for a compiler, one's own or another's; 0 when the cache had it all. */
static inline double kas_compile_waited(const kas_compile_stats *stats)
{
    return stats->cached && !stats->waited ? 0 : stats->seconds;
}

/* Makes (or finds) the image of `text`; `path` gets where it lies. `stats` may be NULL.
 * A text that does not compile: KAS_FAILURE with the first lines of the compiler's log.  Whatever
 * else keeps an image from being made (a cache that cannot be written, a compiler that is killed or
 * cannot be started) says nothing about the text: KAS_MACHINE. */
kas_status kas_compile(kas_compiler *compiler, const char *text, char path[4096],
                       kas_compile_stats *stats);

/* The same for several texts at once, on up to `threads` threads: path[i] gets the image of text i.
 * `stats`: cached when all were, waited when any was waited for, wall time of the whole, the
 * others' sums.  Of several failures the first text's counts. */
kas_status kas_compile_all(kas_compiler *compiler, const char *const *text, int count, int threads,
                           char (*path)[4096], kas_compile_stats *stats);

#endif

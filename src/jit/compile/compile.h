/* Compiles dialect text to a loadable image, through a cache on disk.
 *
 * For the CPU the host compiler makes a shared object (clang if there is one: it vectorises the
 * dialect far better than gcc 12); for a GPU NVRTC makes a cubin, which needs no GPU. The prelude
 * is put in front of the text. One text should hold many kernels of a candidate: starting the
 * compiler costs more than a kernel.
 *
 * The image lies at <cache dir>/jit/<2 hex>/<sha256>.<so|cubin>. The key covers text, prelude,
 * flags, arch, compiler identity and version, the version of the treatment of spills (respill.h),
 * and the format number. An image is written to a temporary file with its own checksum and
 * renamed; a damaged one is found by the checksum and made again; failures are kept as failures
 * (.err, with the compiler's log). Any number of processes may share the folder. Other folders
 * include this header. */
#ifndef KAS_JIT_COMPILE_COMPILE_H
#define KAS_JIT_COMPILE_COMPILE_H

#include <stdbool.h>
#include <stddef.h>

#include "host/core/status.h"

typedef struct kas_compiler kas_compiler;

/* Opens a compiler. `arch` is "cpu" or "sm_NN" (kas_device_info.arch), or "cpu+order1" or
 * "cpu+order2": lanes in descending and shuffled order, for tests that look for missing barriers;
 * or "cpu+apart": products and sums are rounded apart, so that equal orders of sums give equal
 * bits. `cache_dir` NULL means kas_cache_dir(). Returns KAS_MACHINE with what is missing when there
 * is no host compiler that works, KAS_UNSUPPORTED when there is no NVRTC. */
kas_status kas_compiler_open(const char *arch, const char *cache_dir, kas_compiler **out);
void kas_compiler_close(kas_compiler *compiler);
/* Marks a compiler that works ahead of need. It holds no lock, so nobody waits for it however slow
 * it is; and it leaves out what another process is making, so afterwards there may be no image. */
void kas_compiler_stand_aside(kas_compiler *compiler);
const char *kas_compiler_arch(const kas_compiler *compiler); /* the arch it was opened with */
/* Returns "clang 14.0.6 -O3 ..." or "NVRTC 13.0 sm_90". */
const char *kas_compiler_describe(const kas_compiler *compiler);

/* Returns the path of the compiler: of the host compiler's program, or of NVRTC's library. */
const char *kas_compiler_path(const kas_compiler *compiler);
/* Looks for a host compiler by name on PATH and asks for its version ("gcc 12.2.0"), for reports.
 * KAS_UNSUPPORTED when there is none of that name. */
kas_status kas_compiler_probe(const char *name, char path[4096], char version[256]);

typedef struct kas_compile_stats {
    bool cached;        /* every image was in the cache or made by another process */
    bool waited;        /* waited for another thread or process that was making the image */
    double seconds;     /* wall time, waiting included */
    double cpu_seconds; /* CPU time of this process or of the compiler's */
    size_t image_bytes;
} kas_compile_stats;

/* Returns the seconds spent waiting for a compiler, one's own or another process's; 0 when the
 * cache had everything. */
static inline double kas_compile_waited(const kas_compile_stats *stats)
{
    return stats->cached && !stats->waited ? 0 : stats->seconds;
}

/* Makes, or finds in the cache, the image of `text`; `path` gets its place. `stats` may be NULL.
 * For a text that does not compile returns KAS_FAILURE with the first lines of the compiler's log.
 * Anything else that keeps an image from being made (a cache that cannot be written, a compiler
 * that is killed or cannot be started) says nothing about the text and gives KAS_MACHINE. */
kas_status kas_compile(kas_compiler *compiler, const char *text, char path[4096],
                       kas_compile_stats *stats);

/* The same for several texts at once, on up to `threads` threads: path[i] gets the image of text i.
 * `stats`: cached when all were, waited when any was waited for, wall time of the whole, sums of
 * the rest. Of several failures the first text's is returned. */
kas_status kas_compile_all(kas_compiler *compiler, const char *const *text, int count, int threads,
                           char (*path)[4096], kas_compile_stats *stats);

/* Returns whether there is an image of the text, so that kas_compile will be quick. */
bool kas_compile_is_known(const kas_compiler *compiler, const char *text);

#endif

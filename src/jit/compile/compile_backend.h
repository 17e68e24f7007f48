/* The interface that a compiler behind compile.h implements. Only compile*.c and their test include
 * this file. */
#ifndef KAS_JIT_COMPILE_COMPILE_BACKEND_H
#define KAS_JIT_COMPILE_COMPILE_BACKEND_H

#include <stdint.h>

#include "host/core/buf.h"
#include "jit/compile/compile.h"

typedef enum kas_compile_outcome {
    KAS_COMPILED,
    KAS_COMPILE_REFUSED, /* the text is at fault: the same text fails again, so the log is kept */
    /* Something else failed (disk full, killed, no memory): another try may work; the thread's
     * message says what */
    KAS_COMPILE_BROKEN
} kas_compile_outcome;

typedef struct kas_compile_result {
    kas_buf image, log;
    double cpu_seconds;
} kas_compile_result;

struct kas_compiler {
    kas_compile_outcome (*build)(kas_compiler *, const char *text, size_t size,
                                 kas_compile_result *);
    bool aside;         /* kas_compiler_stand_aside */
    const char *suffix; /* suffix of an image: "so", "cubin" */
    const char *prelude;
    char arch[32];
    char folder[4096]; /* <cache dir>/jit */
    char name[128];    /* "clang 14.0.6" */
    char describe[512];
    kas_buf identity; /* all that the key covers except prelude and text */
    /* Version of what `build` does beyond calling the compiler; part of the key too */
    uint32_t policy;
    char program[4096]; /* path of the compiler's program, or of NVRTC's library */
    const void *nvrtc;  /* kas_nvrtc */
};

/* The name of what is made of a text: a hash of it and of everything else that decides. */
void kas_compile_key(const kas_compiler *compiler, const char *text, char key[65]);

/* Open a backend: fill build, suffix, describe, identity and the backend's own fields. */
kas_status kas_compile_host_open(kas_compiler *compiler);
kas_status kas_compile_nvrtc_open(kas_compiler *compiler);

#endif

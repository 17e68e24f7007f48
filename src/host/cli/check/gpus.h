/* Compiles by NVRTC what `check --nvrtc` checks, and counts what the cubins need. The programs are
 * always a GPU's, whatever `check --source` runs. */
#ifndef KAS_CLI_CHECK_GPUS_H
#define KAS_CLI_CHECK_GPUS_H

#include "host/check/agree.h"
#include "host/cli/check/shapes.h"

enum { KAS_CHECK_ARCHS = 2 };

typedef struct kas_check_gpus {
    kas_compiler *arch[KAS_CHECK_ARCHS]; /* NULL: nothing is compiled for it */
    long long compiled, refused;         /* texts */
    long long kernels, local;            /* kernels in all cubins, and those with local memory */
    int registers;                       /* most registers of a thread */
    long long accesses, wide;            /* instructions on global memory, and those of 16 bytes */
    kas_accessed accessed;               /* of the programs that were compiled */
} kas_check_gpus;

/* Opens the compilers; warns and opens none where there is no NVRTC. */
kas_status kas_check_gpus_open(kas_check_gpus *gpus);
/* Lowers a kernel at all shapes, and compiles the text with each compiler that is open. A text that
 * is refused is counted and leads to a warning. */
kas_status kas_check_gpus_compile(kas_check_gpus *gpus, const kas_kernel *kernel, const char *name,
                                  const kas_check_shapes *shapes, const kas_agree_options *options);
void kas_check_gpus_close(kas_check_gpus *gpus);

#endif

/* What the stand-in does otherwise with KAS_CUDA_SIM=ptx. */
#ifndef KAS_TESTS_CUDA_SIM_SIM_PTX_H
#define KAS_TESTS_CUDA_SIM_SIM_PTX_H

#include "ptx/ptx.h"

bool sim_ptx(void); /* whether PTX is executed */
/* Says that a copy, a fill or a library wrote the GPU's memory. */
void sim_wrote(const void *memory, size_t bytes);

/* Names the real NVRTC. Where it is missing, the test that runs is skipped: the process ends with
 * code 77 or, with KAS_PTX_REQUIRED=1, has failed. */
const char *sim_ptx_version(void);
/* Returns PTX or, when *ok is false, the compiler's log. */
char *sim_ptx_compile(const char *text, int count, const char *const *options, bool *ok);

ptx_module *sim_ptx_load(const char *text);
ptx_function *sim_ptx_find(ptx_module *module, const char *name);
void sim_ptx_launch(ptx_function *function, const unsigned grid[3], const unsigned block[3],
                    const void *args);
/* Frees the module after it has added the counts of its kernels to the file of KAS_PTX_REPORT. */
void sim_ptx_unload(ptx_module *module);

#endif

/* The real NVRTC, which makes PTX of our kernels' text. */
#ifndef KAS_TESTS_PTX_NVRTC_H
#define KAS_TESTS_PTX_NVRTC_H

#include <stdbool.h>

/* Returns NULL when NVRTC is here, else why it is not. */
const char *ptx_nvrtc_missing(void);
void ptx_nvrtc_version(int *major, int *minor);
/* Compiles a text with these options; *result is the PTX or, when the text does not compile, the
 * compiler's log. The caller frees it. */
bool ptx_nvrtc_compile(const char *text, int count, const char *const *options, char **result);

#endif

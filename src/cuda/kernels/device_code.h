/* What the host knows of the device code: its text, the flags for the CPU's compiler, and the
 * signature of a kernel built for the CPU.
 *
 * The tables are generated at build time (mk/device_code.mk) from the files of this folder. */
#ifndef KAS_CUDA_KERNELS_DEVICE_CODE_H
#define KAS_CUDA_KERNELS_DEVICE_CODE_H

/* prelude.h, wide.h, row.h and tile.h: the text in front of every text that is compiled at run
 * time. */
extern const char kas_prelude_text[];
/* args.h, activation.h, teams.h and every hand-written kernel, without the prelude, by KAS_DTYPE:
 * what the CUDA device compiles for kas_module_builtin.  With KAS_PARTS and KAS_PART defined in front it has
 * the kernels of every KAS_PARTS-th file alone, from file KAS_PART on. */
extern const char *const kas_builtin_text[3];

/* Flags for device code on the CPU, at build time and at run time alike, NULL-terminated.
 *   -O3                     the vectoriser
 *   -ffp-contract=fast      a*b + c is one instruction, as on the GPU
 *   -fno-math-errno         math functions have no side effect: they can be vectorised
 *   -fno-trapping-math      a select may evaluate both sides (no flags are read)
 *   -fvisibility=hidden     only kernels are exported
 * NaN, infinity and signed zero keep their meaning, sums keep their order: never -ffast-math.
 * Beside these: -march=... (kas_device_code_march), -fPIC, -shared for a module, and -lm. */
extern const char *const kas_device_code_flags[];
/* "native" unless the build was told otherwise (make MARCH=x86-64-v3). */
extern const char kas_device_code_march[];
/* The compiler that the build found for device code ("/usr/bin/clang"). */
extern const char kas_device_code_compiler[];

/* A kernel on the CPU. It runs blocks [first, last) of the grid or, when `order` is not NULL, block
 * order[k] for each such k. */
typedef void kas_cpu_kernel(const void *args, const unsigned *grid, unsigned first, unsigned last,
                            const unsigned *order);

/* The linked-in kernels, run[KAS_DTYPE][KAS_ORDER]; the last name is NULL. For 16-bit dtypes the
 * shuffled order stands for the descending one too. */
typedef struct kas_builtin_kernel {
    const char *name;
    kas_cpu_kernel *run[3][3];
} kas_builtin_kernel;
extern const kas_builtin_kernel kas_builtin_kernels[];

#endif

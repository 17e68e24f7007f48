/* Which kernel each layer has, as a file says it: one kernel for all (a kernel file), or a kernel
 * or none for each layer by name (a file of layers, docs/kernel-file.md "A kernel for each layer").
 *
 * Whoever takes a kernel file takes a file of layers too, through this header.  The form in memory
 * is canonical: layers in the order of their names, kernels canonical, each once, in the order in
 * which the layers use them; so equal assignments are equal byte for byte, and have one name. Other
 * folders include this header. */
#ifndef KAS_SPACE_FILE_ASSIGNMENT_H
#define KAS_SPACE_FILE_ASSIGNMENT_H

#include "host/space/canonical.h"
#include "host/space/solve/replacement.h"

enum { KAS_ASSIGNED_NAME = 64 }; /* bytes of a layer's name, NUL included */

typedef struct kas_assignment {
    int kernels;
    kas_kernel *kernel;               /* [kernels]; that of a kernel file as it stands in it */
    int layers;                       /* 0: a kernel file; kernel[0] is for every layer */
    char (*layer)[KAS_ASSIGNED_NAME]; /* [layers], ascending */
    int *kernel_of;                   /* [layers] index into kernel, or KAS_KEPT */
} kas_assignment;

void kas_assignment_free(kas_assignment *assignment);

/* Of targets: target t has kernel[kernel_of[t]], or KAS_KEPT. The caller frees `out`. */
kas_status kas_assignment_make(const kas_kernel *kernel, const int *kernel_of,
                               const kas_target *targets, int count, kas_assignment *out);

/* Of a file or its text; `name` is the file for messages. KAS_BAD_INPUT naming the layer or node.
 * The caller frees `out`. */
kas_status kas_assignment_read_json(const char *name, const char *text, size_t size,
                                    kas_assignment *out);
kas_status kas_assignment_read_file(const char *path, kas_assignment *out);
/* A file of layers, or, of one kernel for all, a kernel file. */
kas_status kas_assignment_write_json(const kas_assignment *assignment, kas_buf *out);

/* Of one kernel for all the kernel's name; else the first 64 bits of SHA-256 of a text that holds
 * every layer with its kernel's canonical text: equal when and only when the assignments are. */
kas_status kas_assignment_name(const kas_assignment *assignment, char name[KAS_NAME_SIZE]);

/* An assignment at the targets of a network. */
typedef struct kas_fitted {
    int *kernel_of; /* [targets], of a file of layers */
    kas_solution solution;
    kas_replacement replacement; /* points to the above, the assignment's kernels and the targets */
} kas_fitted;
/* KAS_BAD_INPUT when the layers are not exactly the targets; else as kas_solve_layers. `assignment`
 * and `targets` must outlive `out`, which stays where it is and is freed by kas_fitted_free. */
kas_status kas_assignment_fit(const kas_assignment *assignment, const kas_target *targets,
                              int count, const kas_budget *budget, kas_fitted *out);
void kas_fitted_free(kas_fitted *fit);

#endif

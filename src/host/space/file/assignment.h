/* An assignment: which kernel each layer has, as a file says it.  A kernel file gives one kernel
 * for all layers; a file of layers gives each layer, by its name, a kernel or none
 * (docs/kernel-file.md, "A kernel for each layer").
 *
 * Every command that takes a kernel file also takes a file of layers, through this header.  The
 * form in memory is canonical: the layers are in the order of their names; the kernels are
 * canonical, each is there once, and they are in the order in which the layers use them.  So equal
 * assignments are equal byte for byte and have the same name.
 *
 * An assignment lives between a file and a replacement (solve/replacement.h), which is the same
 * choice at the targets of a network.  Other folders include this header. */
#ifndef KAS_SPACE_FILE_ASSIGNMENT_H
#define KAS_SPACE_FILE_ASSIGNMENT_H

#include "host/space/canonical.h"
#include "host/space/file/gains.h"
#include "host/space/solve/replacement.h"

typedef struct kas_assignment {
    int kernels;
    kas_kernel *kernel;               /* [kernels]; the kernel of a kernel file is as in the file */
    int layers;                       /* 0: a kernel file; kernel[0] is for every layer */
    char (*layer)[KAS_ASSIGNED_NAME]; /* [layers], ascending */
    int *kernel_of;                   /* [layers] index into kernel, or KAS_KEPT */
    kas_gains gains;                  /* as in the file; no part of the canonical form */
} kas_assignment;

void kas_assignment_free(kas_assignment *assignment);

/* The assignment of a replacement with kernels for each layer. The caller frees `out`. */
kas_status kas_assignment_make(const kas_replacement *replacement, kas_assignment *out);

/* Read a file, or the text of one; `name` stands for the file in messages. KAS_BAD_INPUT names the
 * layer or the node. The caller frees `out`. */
kas_status kas_assignment_read_json(const char *name, const char *text, size_t size,
                                    kas_assignment *out);
kas_status kas_assignment_read_file(const char *path, kas_assignment *out);
/* Writes a file of layers, or a kernel file when one kernel is for all layers. */
kas_status kas_assignment_write_json(const kas_assignment *assignment, kas_buf *out);

/* The name of one kernel for all layers is the kernel's name.  Otherwise it is the first 64 bits of
 * SHA-256 of a text that holds every layer with the canonical text of its kernel: two such texts
 * are equal when and only when the assignments are. */
kas_status kas_assignment_name(const kas_assignment *assignment, char name[KAS_NAME_SIZE]);

/* The replacement of an assignment at the targets of a network, with its gains. KAS_BAD_INPUT when
 * the layers, or those that have gains, are not exactly the targets; but gains in a kernel file are
 * left out where they are those of another network, because the kernel may serve there too. Other
 * failures are those of kas_replacement_solve. `targets` must
 * outlive `out`, the assignment need not; kas_replacement_free frees `out`. */
kas_status kas_assignment_fit(const kas_assignment *assignment, const kas_target *targets,
                              int count, const kas_budget *budget, kas_replacement *out);

/* Gets which kernel of an assignment of layers each target has. KAS_BAD_INPUT as above. */
kas_status kas_assignment_match(const kas_assignment *assignment, const kas_target *targets,
                                int count, int *kernel_of);

#endif

/* What a user takes away: a folder that needs nothing of this program.
 *
 *     kernel.json           the kernel file, or the file of layers, as it was
 *     kernel.py             the kernel as a plain PyTorch module
 *     network.py            the whole replaced network; loads weights.safetensors
 *     weights.safetensors   trained weights, or initial ones when there are none
 *     check.safetensors     fixed images and the logits that they must give
 *     kernel.cu, kernel.c   generated source of both passes for the GPU and the CPU
 *     prelude.h             what the two differ in
 *     kernel.dot            a picture of the micro-DAG
 *     README.md             how to use each of them
 *
 * Where layers have kernels of their own, kernel0.py and kernel0.dot, kernel1.py, ... stand in the
 * place of kernel.py and kernel.dot.
 *
 * The logits of check.safetensors come from the float64 reference with exactly these weights, so
 * whoever has torch can see that the module is the network that was trained: network.py --check.
 */
#ifndef KAS_EXPORT_EXPORT_H
#define KAS_EXPORT_EXPORT_H

#include "host/export/python.h"

typedef struct kas_export_options {
    const char *dir;         /* made when missing; files in it are replaced */
    const char *title;       /* where the kernel comes from: a file, or a study's candidate */
    const char *kernel_text; /* the kernel file, as it stands */
    kas_export_net net;
    const char *weights;      /* safetensors; NULL = initial weights of `seed` */
    const char *weights_note; /* for the README: what they are */
    const char *facts;        /* more lines for the README (Markdown), or NULL */
    uint64_t seed;
} kas_export_options;

/* KAS_BAD_INPUT when the weights do not fit. A kernel that the JIT cannot lower is written without
 * its source, with a warning. */
kas_status kas_export(const kas_export_options *options);

typedef enum kas_verified { KAS_VERIFY_OK, KAS_VERIFY_FAILED, KAS_VERIFY_SKIPPED } kas_verified;
/* Runs network.py --check in `dir` with the first Python that has torch. `report` gets its one
 * line, or why nothing could be run. */
kas_status kas_export_verify(const char *dir, kas_verified *verdict, kas_buf *report);

/* Logits of the written weights on a device, with the kernels that a training run uses, against
 * check.safetensors.  `error` is relative to the largest logit (NaN: not finite); `tolerance` is
 * 1e-3, or, where the network amplifies rounding more than usual, 100 times what half a unit in the
 * last place of every input and parameter changes (weights.h).  SKIPPED when that exceeds 10%: then
 * float32 cannot tell. */
typedef struct kas_device_verified {
    kas_verified verdict;
    double error, tolerance;
} kas_device_verified;
kas_status kas_export_verify_device(const kas_export_options *options, const char *device,
                                    int threads, kas_device_verified *out);

/* ---- parts ----------------------------------------------------------------------------------- */

/* "DIR/name" into 4096 bytes. */
kas_status kas_export_path(const char *dir, const char *name, char out[4096]);
/* The generated program text of every distinct target shape, without the prelude. */
kas_status kas_export_source(const kas_export_net *net, kas_buf *out);
/* `source`: kernel.cu, kernel.c and prelude.h are there. */
kas_status kas_export_readme(const kas_export_options *options, bool source, kas_buf *out);

#endif
